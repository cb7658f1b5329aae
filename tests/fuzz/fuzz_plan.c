/* Any bytes as a plan for a small graph: an error, or a plan whose stages cover the
 * graph and can be placed and told. */
#define FUZZ_NAME "plan"
#include "tests/fuzz/driver.h"

#include <stdlib.h>
#include <string.h>

#include "engine/pipe/placement.h"

/* Layers e x h1 h2 y bce. */
static const char model_text[] = "[data]\ndense = I1..I2\nsparse = C1..C2\n"
                                 "[table emb]\ndim = 2\n"
                                 "[embedding e]\ntable = emb\ninput = sparse\n"
                                 "[concat x]\ninput = e, dense\n"
                                 "[fc h1]\ninput = x\nunits = 4\nactivation = relu\n"
                                 "[fc h2]\ninput = h1\nunits = 3\nactivation = relu\n"
                                 "[fc y]\ninput = h2\nunits = 1\n"
                                 "[loss bce]\ninput = y\nlabel = label\n";

static void check_plan(const struct plan *plan, const struct graph *graph)
{
    uint32_t next = 0;
    CHECK(plan->time_scale >= RESOURCE_FIGURE_MIN && plan->time_scale <= RESOURCE_FIGURE_MAX);
    CHECK(plan->stage_count >= 1 && plan->type_count >= 1 && plan->service_cores <= PLAN_REPLICAS_MAX &&
          plan->method != NULL);
    for (uint32_t t = 0; t < plan->type_count; t++) {
        CHECK(plan->types[t].name[0] != 0 && plan->types[t].device < RESOURCE_DEVICE_COUNT);
        CHECK(plan->types[t].price_per_hour >= 0);
        for (uint32_t i = 0; i < OP_ID_COUNT && resource_is_slowed(&plan->types[t].slow); i++)
            CHECK(plan->types[t].slow.op[i] >= 1 && plan->types[t].slow.op[i] <= 1000);
    }
    for (uint32_t s = 0; s < plan->stage_count; s++) {
        const struct plan_stage *stage = &plan->stages[s];
        CHECK(stage->first_layer == next && stage->last_layer >= next && stage->last_layer < graph->layer_count);
        CHECK(stage->type < plan->type_count && stage->k >= 1);
        CHECK(stage->replicas >= 1 && stage->k % stage->replicas == 0 && stage->et >= 0);
        next = stage->last_layer + 1;
    }
    CHECK(next == graph->layer_count);
}

static void line_ignore(void *context, const char *line) { *(size_t *)context += strlen(line); }

static void check_use(const struct plan *plan, const struct graph *graph, uint32_t core_count, bool share)
{
    struct cores cores = {.count = core_count, .is_whole = true};
    struct placement placement;
    char text[48];
    size_t told_bytes = 0;
    CHECK(strlen(plan_text(plan, graph, text, 1 + core_count % sizeof text)) <= core_count % sizeof text);
    for (uint32_t i = 0; i < core_count; i++) cores.processor[i] = (int)i;
    if (placement_make(&placement, plan, graph, 1 + core_count % 2, &cores, core_count, share) != ST_OK) return;
    CHECK(share ||
          (1 + core_count % 2) * (plan_cpu_cores(plan) - plan->service_cores) + plan->service_cores <= core_count);
    uint32_t used_count = placement.service_count;
    for (uint32_t w = 0; w < placement.worker_count; w++) {
        const struct placement_worker *worker = &placement.worker[w];
        CHECK(worker->stage_end <= plan->stage_count && worker->unit_count >= 1);
        CHECK(worker->core_count == 0 ? worker->processors == NULL : worker->processors[0] >= 0);
        used_count += worker->core_count;
    }
    CHECK(used_count <= core_count);
    CHECK(placement_tell(&placement, plan, graph, line_ignore, &told_bytes) == ST_OK);
    CHECK(told_bytes > 0);
    placement_free(&placement);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static struct graph graph;
    struct plan plan;
    if (graph.header == NULL)
        CHECK(graph_compile(&graph, "m.cfg", model_text, sizeof model_text - 1, NULL, 0, NULL) == ST_OK);
    CHECK(graph.layer_count == 6);
    if (plan_parse(&plan, &graph, "plan.json", (const char *)data, bytes) != ST_OK) {
        CHECK(plan.memory == NULL && strncmp(status_message(), "plan.json", 9) == 0);
        return 0;
    }
    check_plan(&plan, &graph);
    for (uint32_t core_count = 1; core_count <= 48; core_count += 5) {
        check_use(&plan, &graph, core_count, false);
        check_use(&plan, &graph, core_count, true);
    }
    plan_free(&plan);
    return 0;
}
