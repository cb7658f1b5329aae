/* Skewness and split of a network (sched/ralp.h). Once a plan. */
#include "sched/ralp.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/words.h"

/* The sum of weight * (index - centre)^power over the counted layers, whose indices are 1, 2, …. */
static double moment(const struct ralp_layer *layers, uint32_t count, double centre, uint32_t power)
{
    double sum = 0, index = 0;
    for (uint32_t l = 0; l < count; l++) {
        if (!layers[l].is_counted) continue;
        double term = layers[l].param_bytes;
        index++;
        for (uint32_t p = 0; p < power; p++) term *= index - centre;
        sum += term;
    }
    return sum;
}

double ralp_skewness(const struct ralp_layer *layers, uint32_t count)
{
    uint32_t weighted = 0;
    for (uint32_t l = 0; l < count; l++) weighted += layers[l].is_counted && layers[l].param_bytes > 0;
    if (weighted < 2) return 0;
    const double weight = moment(layers, count, 0, 0), mean = moment(layers, count, 0, 1) / weight;
    const double variance = moment(layers, count, mean, 2) / weight;
    return moment(layers, count, mean, 3) / weight / (variance * sqrt(variance));
}

struct ralp ralp_profile(const struct ralp_layer *layers, uint32_t count, double threshold)
{
    struct ralp r = {.skewness = ralp_skewness(layers, count), .threshold = threshold};
    uint32_t conv_count = 0, last_counted = 0;
    for (uint32_t l = 0; l < count; l++) {
        conv_count += layers[l].is_conv;
        if (layers[l].is_counted) last_counted = l;
    }
    double least = INFINITY;
    for (uint32_t l = 0; l < count; l++) {
        r.param_bytes += layers[l].param_bytes;
        conv_count -= layers[l].is_conv;
        if (!layers[l].is_counted || conv_count > 0 || layers[l].out_bytes + r.param_bytes >= least) continue;
        least = layers[l].out_bytes + r.param_bytes;
        r.last = l;
        r.out_bytes = layers[l].out_bytes;
        r.front_bytes = r.param_bytes;
    }
    r.verdict = !(r.skewness < threshold) ? RALP_NOT_SKEWED : r.last == last_counted ? RALP_NOTHING_BEHIND : RALP_SPLIT;
    return r;
}

double ralp_step_bytes(const struct ralp *r, uint32_t workers) { return 2 * workers * (r->out_bytes + r->front_bytes); }

double ralp_all_reduce_bytes(const struct ralp *r, uint32_t workers) { return 2 * r->param_bytes * (workers - 1); }

char *ralp_text(const struct ralp *r, const char *net, const char *last_layer, char *buffer, size_t bytes)
{
    switch (r->verdict) {
    case RALP_SPLIT:
        snprintf(buffer, bytes,
                 "%s is split behind %s: skewness %.2f, below %.2f; a worker sends %s of activations and %s of "
                 "gradients a step, and has as much back, of %s of parameters",
                 net, last_layer, r->skewness, r->threshold, words_bytes(WORDS, r->out_bytes),
                 words_bytes(WORDS, r->front_bytes), words_bytes(WORDS, r->param_bytes));
        break;
    case RALP_NOT_SKEWED:
        snprintf(buffer, bytes,
                 "%s is not split: the skewness of its parameters is %.2f, which is not below %.2f: "
                 "too many lie in its first layers",
                 net, r->skewness, r->threshold);
        break;
    case RALP_NOTHING_BEHIND:
        snprintf(buffer, bytes,
                 "%s is not split: the fewest bytes cross behind its last layer, %s, though its skewness is %.2f", net,
                 last_layer, r->skewness);
        break;
    }
    return buffer;
}

status ralp_layers_of_instance(struct ralp_layer *layers, const struct instance *instance)
{
    double weights = 0;
    for (uint32_t l = 0; l < instance->layer_count; l++) {
        const struct instance_layer *from = &instance->layers[l];
        if (from->cut_bytes == 0 && l + 1 < instance->layer_count)
            FAIL(INVALID, "%s: layer %s has no cut_bytes, which decide where RALP splits", instance->name, from->name);
        weights += from->weight_bytes;
        layers[l] = (struct ralp_layer){.param_bytes = from->weight_bytes,
                                        .out_bytes = from->cut_bytes / 2 * instance->batch,
                                        .is_counted = from->weight_bytes > 0 || strstr(from->kind, "pool"),
                                        .is_conv = strncmp(from->kind, "conv", 4) == 0};
    }
    if (weights == 0) FAIL(INVALID, "%s: no layer has weight_bytes, which RALP weighs", instance->name);
    return ST_OK;
}
