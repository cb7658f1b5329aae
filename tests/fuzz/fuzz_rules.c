/* Any bytes as an optimizer, a schedule and an init: what is accepted is valid, and the
 * rest is an error in one sentence. */
#define FUZZ_NAME "rules"
#include "tests/fuzz/driver.h"

#include <math.h>
#include <string.h>

#include "graph/init.h"
#include "graph/optimizer.h"
#include "graph/schedule.h"

static void schedule_check(const struct graph_schedule *s)
{
    static const uint64_t steps[] = {1, 2, 1000, 999999, 1ull << 40, UINT64_MAX};
    CHECK(schedule_validate(s) == ST_OK);
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        double factor = schedule_factor(s, steps[i], steps[i] - 1);
        CHECK(factor >= 0 && factor <= 1);
    }
}

/* One step of a rule from its first states moves nothing beyond what is finite. */
static void optimizer_check(const struct graph_optimizer *o)
{
    const struct optimizer *rule = &optimizer_table[o->kind];
    float weight = 0.5f, grad = 0.25f, state[3];
    CHECK(optimizer_validate(o) == ST_OK && !rule->is_internal && rule->state_count + rule->row_state_count < 3);
    for (uint32_t i = 0; i < 3; i++) state[i] = rule->state_init(o, i);
    rule->update(o, &weight, state, &grad, 1, 1, o->learning_rate, 1);
    CHECK(isfinite(weight));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    char text[512];
    struct graph_optimizer o;
    struct graph_schedule s;
    enum random_init init;
    float scale;
    if (bytes >= sizeof text) return 0;
    memcpy(text, data, bytes);
    text[bytes] = 0;
    status st = optimizer_parse(text, RULES_NEWEST, &o);
    CHECK(st == ST_OK || (st == ST_INVALID && *status_message()));
    if (st == ST_OK) optimizer_check(&o);
    st = schedule_parse(text, RULES_NEWEST, &s);
    CHECK(st == ST_OK || (st == ST_INVALID && *status_message()));
    if (st == ST_OK) schedule_check(&s);
    st = init_parse(text, &init, &scale);
    CHECK(st == ST_OK ? init < INIT_COUNT && scale >= 0 && scale <= INIT_SCALE_MAX : st == ST_INVALID);
    return 0;
}
