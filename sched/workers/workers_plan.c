/* Refuses proposals that are no plan, and writes the others. Once a start. */
#include "sched/workers/workers_plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/file.h"
#include "engine/base/json_text.h"
#include "engine/base/words.h"
#include "sched/json_read.h"
#include "sched/plan.h"
#include "sched/workers/wave_nodes.h"

static status alike_check(const struct workers_plan *w)
{
    const struct proposal *p = w->proposal;
    const uint32_t count = p->allocation.worker_count;
    char one[256], other[256];
    if (wave_nodes_are_alike(p->workers, count)) return ST_OK;
    uint32_t v = 1;
    while (memcmp(&p->allocation.workers[v], &p->allocation.workers[0], sizeof p->allocation.workers[v]) == 0) v++;
    FAIL(INFEASIBLE,
         "-o: %s has workers of %s and of %s, and in a plan all workers have their stages on the same nodes of the "
         "cluster, cut at the same layers: give --workers ed --placement local",
         allocation_names[p->options.allocation],
         worker_cards_text(&p->allocation.workers[0], w->cluster, one, sizeof one),
         worker_cards_text(&p->allocation.workers[v], w->cluster, other, sizeof other));
}

static status plan_check(const struct workers_plan *w)
{
    const struct proposal *p = w->proposal;
    const uint32_t nodes = p->allocation.worker_count * p->workers[0].stage_count;
    TRY(alike_check(w));
    if (p->options.placement != PLACEMENT_LOCAL)
        FAIL(INFEASIBLE,
             "-o: %s has its parameters by turns on all nodes (default), and a run has them where their stage runs: "
             "give --workers %s --placement local",
             allocation_names[p->options.allocation], allocation_names[p->options.allocation]);
    for (uint32_t q = 0; q < p->workers[0].stage_count; q++) {
        const struct resource_type *type =
            &w->text->types[w->cluster->nodes[p->workers[0].stages[q].node].type].resource;
        if (resource_is_card(type->device))
            FAIL(INFEASIBLE,
                 "-o: type %s is a card, and train.sync = wsp trains on cores, sim and paced alone: give the type one "
                 "of these devices, or plan without --workers for train.sync = bsp",
                 type->name);
    }
    if (nodes > PLAN_NODES_MAX)
        FAIL(INFEASIBLE, "-o: %s, a node each, are more than the %u nodes of a plan: give fewer as limit",
             words_plural(WORDS, nodes, "card"), PLAN_NODES_MAX);
    return ST_OK;
}

static json_t *types_json(const struct workers_plan *w)
{
    json_t *list = json_array();
    for (uint32_t t = 0; t < w->text->type_count; t++) {
        const struct resource_type *type = &w->text->types[t].resource;
        json_array_append_new(list, json_resource(type, type->limit));
    }
    return list;
}

static json_t *stage_json(const struct workers_plan *w, uint32_t q)
{
    const struct partition *cut = &w->proposal->workers[0];
    const struct partition_stage *stage = &cut->stages[q];
    const uint32_t workers = w->proposal->allocation.worker_count;
    const uint64_t nodes = UINT64_MAX >> (64 - workers) << (cut->stage_count - 1 - q) * workers;
    json_t *object = json_pack("{s:I, s:I, s:I, s:I, s:I, s:f}", "first", (json_int_t)stage->first, "last",
                               (json_int_t)stage->end - 1, "type", (json_int_t)w->cluster->nodes[stage->node].type, "k",
                               (json_int_t)1, "replicas", (json_int_t)1, "et", stage->compute / w->model->batch);
    CHECK(json_nodes_put(object, nodes));
    if (q + 1 < cut->stage_count)
        json_object_set_new(object, "cut_bytes",
                            json_integer((json_int_t)(2 * w->model->cut_bytes[stage->end] / w->model->batch)));
    return object;
}

static json_t *plan_json(const struct workers_plan *w)
{
    const struct proposal *p = w->proposal;
    const struct partition *cut = &p->workers[0];
    json_t *layers = json_array(), *plan = json_array(), *stages = json_array();
    for (uint32_t q = 0; q < cut->stage_count; q++) {
        json_array_append_new(stages, stage_json(w, q));
        for (uint32_t l = cut->stages[q].first; l < cut->stages[q].end; l++) {
            json_array_append_new(layers, json_string(w->model->names[l]));
            json_array_append_new(plan, json_integer(w->cluster->nodes[cut->stages[q].node].type));
        }
    }
    json_t *whole = json_pack("{s:s, s:s, s:s, s:b, s:f, s:f, s:I, s:I}", "format", PLAN_FORMAT, "instance",
                              w->model->name, "method", allocation_names[p->options.allocation], "feasible", true,
                              "throughput", p->nodes_rate, "batch", w->model->batch, "in_flight",
                              (json_int_t)p->options.in_flight, "clock_distance", (json_int_t)p->options.distance);
    char text[32];
    snprintf(text, sizeof text, "%016" PRIx64, w->graph_hash);
    if (w->has_graph_hash) json_object_set_new(whole, "graph_hash", json_string(text));
    json_object_set_new(whole, "types", types_json(w));
    json_object_set_new(whole, "layers", layers);
    json_object_set_new(whole, "plan", plan);
    json_object_set_new(whole, "stages", stages);
    return whole;
}

status workers_plan_write(const struct workers_plan *w, const char *path)
{
    TRY(plan_check(w));
    json_t *whole = plan_json(w);
    char *text = json_text(whole, JSON_INDENT(1) | JSON_REAL_PRECISION(17));
    json_decref(whole);
    if (text == NULL) FAIL(MEMORY, "no memory for the text of a plan of %u layers", w->model->layer_count);
    const status st = file_write(path, text, strlen(text));
    free(text);
    return st;
}
