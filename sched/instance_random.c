/* Random instances, for tests, pre-training and benchmarks: a model of a common kind on types with
 * random rates. Its times follow from the rates by the formulas of sched/estimate.h, each times a
 * random factor, as in measurements. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/fmath.h"
#include "engine/base/random.h"
#include "sched/estimate.h"
#include "sched/provision.h"

#define STREAM         UINT64_C(0x696E7374616E6365) /* "instance" */
#define BATCH          256.0
#define EXAMPLES       1e6
#define FLOAT_BYTES    4.0
#define KEY_BYTES      8.0
#define CORE_PRICE     0.04 /* USD an hour (HeterPS, section 6) */
#define LAYERS_TOWERED 12u  /* from here on there may be two towers */

/* --- draws ------------------------------------------------------------------------------------- */

struct draws {
    struct random_stream stream;
    uint64_t count;
};

/* Uniform in (low, high). */
static double draw(struct draws *draws, double low, double high)
{
    uint32_t bits[4];
    random_block(draws->stream, draws->count++, 0, bits);
    return low + (high - low) * random_unit_f64(bits[0], bits[1]);
}

/* Uniform in the logarithm: as likely between 1 and 2 as between 2 and 4. */
static double draw_log(struct draws *draws, double low, double high)
{
    return fmath_exp(draw(draws, fmath_log(low), fmath_log(high)));
}

static uint32_t draw_below(struct draws *draws, uint32_t bound) { return (uint32_t)draw(draws, 0, bound); }

/* --- types ------------------------------------------------------------------------------------- */

/* A core: some 20 Gflop/s, and its part of the bytes a second that it shares with its neighbours. */
static struct cluster_rates core_rates(struct draws *draws)
{
    return (struct cluster_rates){
        .flops = draw_log(draws, 12e9, 30e9),
        .memory_bandwidth = draw_log(draws, 2e9, 8e9),
        .link_bandwidth = draw_log(draws, 0.5e9, 2e9),
        .batch_overhead = draw_log(draws, 1e-6, 1e-5),
    };
}

/* An accelerator: compared with cores of the same price, about as fast or faster at large products, slower at
 * moving bytes; a launch takes longer. */
static struct cluster_rates accelerator_rates(struct draws *draws, const struct cluster_rates *core, double price)
{
    double cores = price / CORE_PRICE;
    return (struct cluster_rates){
        .flops = core->flops * cores * draw_log(draws, 0.4, 3),
        .memory_bandwidth = core->memory_bandwidth * cores * draw_log(draws, 0.05, 0.6),
        .link_bandwidth = core->link_bandwidth * cores * draw_log(draws, 0.05, 0.5),
        .batch_overhead = draw_log(draws, 1e-5, 2e-4),
    };
}

static void types_draw(struct draws *draws, struct instance *instance, struct cluster_rates *rates)
{
    static const uint32_t core_limits[] = {120, 240, 480}, card_limits[] = {4, 8, 16, 32, 64};
    for (uint32_t t = 0; t < instance->type_count; t++) {
        struct resource_type *type = &instance->types[t].resource;
        char name[32];
        snprintf(name, sizeof name, t == 0 ? "cpu" : "gpu%u", t);
        type->name = instance_text(instance, name);
        type->device = RESOURCE_SIM;
        type->price_per_hour = t == 0 ? CORE_PRICE : draw_log(draws, 1, 10);
        type->limit = t == 0 ? core_limits[draw_below(draws, sizeof core_limits / sizeof *core_limits)]
                             : card_limits[draw_below(draws, sizeof card_limits / sizeof *card_limits)];
        rates[t] = t == 0 ? core_rates(draws) : accelerator_rates(draws, &rates[0], type->price_per_hour);
    }
}

/* --- layers ------------------------------------------------------------------------------------ */

static void layer_set(struct layer_facts *layer, const char *kind, double in, double out)
{
    *layer = (struct layer_facts){.name = kind, .kind = kind, .in_bytes = in, .out_bytes = out, .cut_bytes = 2 * out};
}

/* A tower looks keys up, then sums each field's rows: [fields, keys, dim] to [fields,
 * dim]. Returns fields * dim. */
static double tower_draw(struct draws *draws, struct layer_facts *layers)
{
    static const double dims[] = {8, 16, 32, 64};
    double fields = (uint32_t)draw_log(draws, 10, 300), keys = (uint32_t)draw_log(draws, 1, 10);
    double dim = dims[draw_below(draws, sizeof dims / sizeof *dims)],
           rows = (double)(uint64_t)draw_log(draws, 1e5, 1e8);
    double looked_up = fields * keys * dim * FLOAT_BYTES, pooled = fields * dim * FLOAT_BYTES;
    layer_set(&layers[0], "embedding", fields * keys * KEY_BYTES, looked_up);
    layers[0].weight_bytes = rows * dim * FLOAT_BYTES;
    layers[0].touched_bytes = 2 * looked_up;
    layer_set(&layers[1], "pool", looked_up, pooled);
    return fields * dim;
}

/* Draws the layers: towers, concat, fully connected layers, loss. Returns the first fully connected one. */
static uint32_t layers_draw(struct draws *draws, struct layer_facts *layers, uint32_t layer_count)
{
    static const double first_widths[] = {128, 256, 512, 1024, 2048}, falls[] = {0.5, 0.75, 1, 1};
    uint32_t tower_count = layer_count >= LAYERS_TOWERED ? 1 + draw_below(draws, 2) : 1, l = 0;
    double width = 0;
    for (uint32_t tower = 0; tower < tower_count; tower++, l += 2) {
        width += tower_draw(draws, &layers[l]);
        if (tower == 0) continue;
        /* The output of the tower before is live until concat. */
        layers[l].cut_bytes += layers[l - 1].cut_bytes;
        layers[l + 1].cut_bytes += layers[l - 1].cut_bytes;
    }
    if (layer_count > 4) {
        layer_set(&layers[l], "concat", width * FLOAT_BYTES, width * FLOAT_BYTES);
        l++;
    }
    uint32_t first_fc = l;
    double next = first_widths[draw_below(draws, sizeof first_widths / sizeof *first_widths)];
    for (; l + 1 < layer_count; l++) {
        layer_set(&layers[l], "fc", width * FLOAT_BYTES, next * FLOAT_BYTES);
        layers[l].weight_bytes = layers[l].dense_bytes = (width + 1) * next * FLOAT_BYTES;
        layers[l].flops = 2 * width * next;
        width = next;
        next *= falls[draw_below(draws, sizeof falls / sizeof *falls)];
        next = next < 16 ? 16 : (double)(uint32_t)next;
    }
    layer_set(&layers[l], "loss", width * FLOAT_BYTES, FLOAT_BYTES);
    layers[l].weight_bytes = layers[l].dense_bytes = (width + 1) * FLOAT_BYTES;
    layers[l].flops = 2 * width;
    layers[l].cut_bytes = 0;
    return first_fc;
}

static void times_draw(struct draws *draws, struct instance *instance, const struct layer_facts *layers,
                       const struct cluster_rates *rates)
{
    for (uint32_t l = 0; l < instance->layer_count; l++)
        for (uint32_t t = 0; t < instance->type_count; t++) {
            struct instance_time time = estimate_time(&layers[l], &rates[t], instance->batch);
            time.oct *= draw_log(draws, 0.7, 1.4);
            time.odt *= draw_log(draws, 0.7, 1.4);
            time.alpha = t == 0 ? draw(draws, 0.96, 1) : draw(draws, 0.85, 0.995);
            time.beta = t == 0 ? draw(draws, 0.98, 1) : draw(draws, 0.75, 0.99);
            time.fixed = 0;
            instance->times[(size_t)l * instance->type_count + t] = time;
        }
}

/* --- the goal ---------------------------------------------------------------------------------- */

/* The greatest throughput of a plan with the first layers on type 0 and the others on `type`; the model's
 * limit must be above the throughput of any plan. */
static double throughput_of(const struct cost_model *model, struct cost_stage *stages, type_index *types,
                            uint32_t first_count, uint32_t type)
{
    for (uint32_t l = 0; l < model->layer_count; l++) types[l] = l < first_count ? 0 : (type_index)type;
    return provision_exact(model, stages, cost_stages(model, types, stages)).throughput;
}

/* Draws a share of the throughput of the fastest simple plan: all layers on one type, or the layers before
 * the first fully connected one on type 0. */
static status goal_draw(struct draws *draws, struct instance *instance, uint32_t first_fc)
{
    uint32_t L = instance->layer_count;
    struct cost_model model;
    instance->throughput_limit = RESOURCE_FIGURE_MAX;
    TRY(cost_model_open(&model, instance));
    struct cost_stage *stages = calloc(L, sizeof *stages);
    type_index *types = calloc(L, sizeof *types);
    double fastest = 0;
    for (uint32_t t = 0; t < instance->type_count && stages != NULL && types != NULL; t++)
        for (int is_mixed = 0; is_mixed < 2; is_mixed++) {
            double throughput = throughput_of(&model, stages, types, is_mixed ? first_fc : 0, t);
            if (throughput > fastest) fastest = throughput;
        }
    cost_model_free(&model);
    free(stages);
    free(types);
    if (fastest == 0) FAIL(MEMORY, "no memory for a random instance of %u layers", L);
    instance->throughput_limit = fastest * draw_log(draws, 0.05, 0.95);
    return ST_OK;
}

/* --- the whole --------------------------------------------------------------------------------- */

static void names_set(struct instance *instance, const struct layer_facts *layers)
{
    for (uint32_t l = 0; l < instance->layer_count; l++) {
        char name[64];
        uint32_t before = 0;
        for (uint32_t other = 0; other < l; other++) before += strcmp(layers[other].kind, layers[l].kind) == 0;
        snprintf(name, sizeof name, "%s%u", layers[l].kind, before);
        instance->layers[l] = (struct instance_layer){
            .name = instance_text(instance, name),
            .kind = layers[l].kind,
            .in_bytes = layers[l].in_bytes,
            .weight_bytes = layers[l].weight_bytes,
            .dense_bytes = layers[l].dense_bytes,
            .row_bytes = layers[l].touched_bytes,
            .cut_bytes = layers[l].cut_bytes,
        };
    }
}

status instance_random(struct instance *instance, uint64_t seed, uint32_t layer_count, uint32_t type_count)
{
    CHECK(layer_count >= 4);
    TRY(instance_make(instance, layer_count, type_count));
    struct draws draws = {
        .stream = random_stream(seed, RANDOM_SCHEDULE, STREAM ^ ((uint64_t)layer_count << 32 | type_count))};
    struct layer_facts *layers = calloc(layer_count, sizeof *layers);
    struct cluster_rates *rates = calloc(type_count, sizeof *rates);
    char name[64];
    status st = ST_OK;
    if (layers == NULL || rates == NULL)
        TRY_GOTO(
            status_fail(ST_MEMORY, __FILE__, __LINE__, "no memory for a random instance of %u layers", layer_count),
            end);
    snprintf(name, sizeof name, "random-%u-%u-%llu", layer_count, type_count, (unsigned long long)seed);
    instance->name = instance_text(instance, name);
    instance->batch = BATCH;
    instance->examples = EXAMPLES;
    instance->epochs = 1;
    types_draw(&draws, instance, rates);
    uint32_t first_fc = layers_draw(&draws, layers, layer_count);
    names_set(instance, layers);
    times_draw(&draws, instance, layers, rates);
    TRY_GOTO(goal_draw(&draws, instance, first_fc), end);
end:
    free(layers);
    free(rates);
    if (st != ST_OK) instance_free(instance);
    return st;
}
