/* The rules of row_life.h. Called once for each row of a step, and for rows that are
 * looked at outside of a step. */
#include "engine/base/row_life.h"

#include <string.h>

struct row_counters row_counters_get(const float *at)
{
    struct row_counters c;
    uint32_t bits;
    memcpy(&c.show, at, sizeof c.show);
    memcpy(&c.click, at + 1, sizeof c.click);
    memcpy(&bits, at + 2, sizeof bits);
    c.seen = bits >> 1;
    c.has_vector = bits & 1;
    return c;
}

static void row_counters_put(float *at, struct row_counters c)
{
    uint32_t bits = c.seen << 1 | c.has_vector;
    memcpy(at, &c.show, sizeof c.show);
    memcpy(at + 1, &c.click, sizeof c.click);
    memcpy(at + 2, &bits, sizeof bits);
}

void row_counters_begin(float *at, bool has_vector)
{
    row_counters_put(at, (struct row_counters){.has_vector = has_vector});
}

static float score_of(const struct row_life *life, const struct row_counters *c)
{
    return life->score_show * (c->show - c->click) + life->score_click * c->click;
}

/* Applies the end of a period; false: this end changes nothing, and neither will later ones. */
static bool decay(const struct row_life *life, struct row_counters *c)
{
    const struct row_counters before = *c;
    c->show *= life->decay;
    c->click *= life->decay;
    return c->show < before.show || c->click < before.click;
}

static void decay_until(const struct row_life *life, struct row_counters *c, uint64_t period)
{
    for (uint64_t q = c->seen; q < period && decay(life, c); q++) {}
}

bool row_life_step(const struct row_life *life, float *at, uint64_t period, uint32_t shows, uint32_t clicks)
{
    struct row_counters c = row_counters_get(at);
    decay_until(life, &c, period);
    c.show += (float)shows;
    c.click += (float)clicks;
    c.seen = (uint32_t)period;
    const bool is_due = !c.has_vector && score_of(life, &c) >= life->vector_score;
    c.has_vector |= is_due;
    row_counters_put(at, c);
    return is_due;
}

float row_life_score(const struct row_life *life, const float *at, uint64_t period)
{
    struct row_counters c = row_counters_get(at);
    decay_until(life, &c, period);
    const float score = score_of(life, &c);
    return score > 0 ? score : 0;
}

enum row_fate row_life_fate(const struct row_life *life, const float *at, uint64_t period)
{
    struct row_counters c = row_counters_get(at);
    const uint64_t seen = c.seen;
    /* The first end of a period at which the row is too old. */
    const uint64_t too_old = life->ttl ? seen + life->ttl + 1 : UINT64_MAX;
    for (uint64_t q = seen; q < period && life->delete_score > 0; q++) {
        const bool changes = decay(life, &c);
        if (score_of(life, &c) < life->delete_score) return ROW_DEAD_SCORE;
        if (q >= too_old) return ROW_DEAD_AGE;
        if (!changes) break;
    }
    return period > too_old ? ROW_DEAD_AGE : ROW_LIVES;
}
