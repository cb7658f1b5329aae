/* Any bytes as a cluster: an error with its file, or types and a goal that are as the struct says, with
 * which layers can be estimated. */
#define FUZZ_NAME "cluster"
#include "tests/fuzz/driver.h"

#include <math.h>
#include <string.h>

#include "sched/estimate.h"
#include "sched/nodes.h"

static void check_type(const struct cluster_type *type)
{
    const struct resource_type *r = &type->resource;
    size_t name_bytes = strlen(r->name);
    CHECK(name_bytes >= 1 && name_bytes <= RESOURCE_NAME_BYTES && r->device < RESOURCE_DEVICE_COUNT);
    CHECK(r->price_per_hour >= 0 && r->price_per_hour <= RESOURCE_FIGURE_MAX && r->limit >= 1);
    CHECK(type->profile != NULL && type->line >= 1);
    CHECK(type->rates.alpha >= 0 && type->rates.alpha <= 1 && type->rates.beta >= 0 && type->rates.beta <= 1);
    CHECK(type->has_rates ==
          (type->rates.flops > 0 && type->rates.memory_bandwidth > 0 && type->rates.link_bandwidth > 0));
    if (resource_is_slowed(&r->slow))
        for (uint32_t i = 0; i < OP_ID_COUNT; i++) CHECK(r->slow.op[i] >= 1 && r->slow.op[i] <= 1000);
    else
        CHECK(r->slow.from_step == 0);
    CHECK(r->slow.every_steps == 0 || (r->slow.for_steps > 0 && r->slow.for_steps < r->slow.every_steps));
}

/* On nodes every plan has a finite time. */
static void check_nodes(struct instance *instance, const struct cluster *c)
{
    struct cost_model m;
    struct cost_stage stages[2];
    const uint64_t all = c->nodes ? instance_nodes_all(c->nodes) : 0;
    for (uint32_t t = 0; t < c->type_count; t++) CHECK((c->types[t].nodes & ~all) == 0);
    if (nodes_apply(instance, c, &(struct nodes_step){.message = 256, .lanes = 8}) != ST_OK) {
        CHECK(instance->nodes == NULL && strncmp(status_message(), "c.cfg", 5) == 0);
        return;
    }
    CHECK((instance->nodes != NULL) == (c->nodes != NULL) && instance_check(instance) == ST_OK);
    CHECK(cost_model_open(&m, instance) == ST_OK && isfinite(m.penalty));
    for (uint32_t t = 0; t < c->type_count; t++) {
        const type_index plan[] = {(type_index)t, (type_index)(c->type_count - 1 - t)};
        const uint32_t count = cost_stages(&m, plan, stages);
        for (uint32_t s = 0; s < count; s++) CHECK(isfinite(cost_et(&stages[s].time, 1)));
    }
    cost_model_free(&m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct cluster c;
    if (cluster_parse(&c, "c.cfg", (const char *)data, bytes) != ST_OK) {
        CHECK(c.memory == NULL && strncmp(status_message(), "c.cfg", 5) == 0);
        return 0;
    }
    CHECK(c.type_count >= 1 && c.type_count <= RESOURCE_TYPES_MAX);
    for (uint32_t t = 0; t < c.type_count; t++) check_type(&c.types[t]);
    CHECK(c.throughput >= 0 && (isinf(c.throughput) || c.throughput <= RESOURCE_FIGURE_MAX));
    CHECK(c.examples >= 0 && c.epochs >= RESOURCE_FIGURE_MIN && c.service_cores <= INSTANCE_CORES_MAX);
    const struct layer_facts layer = {.name = "l",
                                      .kind = "fc",
                                      .in_bytes = 8,
                                      .out_bytes = 8,
                                      .cut_bytes = 16,
                                      .weight_bytes = 12,
                                      .dense_bytes = 9,
                                      .row_bytes = 5,
                                      .flops = 100};
    struct layer_facts layers[] = {layer, layer};
    struct layer_table table = {.name = "t", .layers = layers, .layer_count = 2};
    struct instance instance;
    if (estimate(&instance, &table, &c, 256) == ST_OK) {
        CHECK(instance_check(&instance) == ST_OK);
        check_nodes(&instance, &c);
        instance_free(&instance);
    }
    cluster_free(&c);
    return 0;
}
