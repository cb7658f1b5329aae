/* The schedules behind the lines of schedules.def, their table, and the reading of their text. */
#include "graph/schedule.h"

#include <string.h>

#include "engine/base/fmath.h"
#include "graph/optimizer.h"
#include "graph/word_next.h"

/* Doubles hold all numbers of steps up to this exactly. */
#define STEPS_MAX 1e15

enum { WARMUP };
#define WARMUP_PARAM [WARMUP] = {.name = "warmup", .max = STEPS_MAX, .is_whole = true}

static const struct keyed_param schedule_constant_params[] = {WARMUP_PARAM, {0}};
static double schedule_constant_factor(const double *param, uint64_t n, uint64_t pass)
{
    (void)param, (void)n, (void)pass;
    return 1;
}

enum { EVERY = WARMUP + 1, FACTOR };
static const struct keyed_param schedule_step_params[] = {
    WARMUP_PARAM,
    [EVERY] = {.name = "every", .fallback = 10000, .min = 1, .max = STEPS_MAX, .is_whole = true},
    [FACTOR] = {.name = "factor", .fallback = 0.5, .max = 1},
    {0},
};
static double schedule_step_factor(const double *param, uint64_t n, uint64_t pass)
{
    (void)pass;
    return optimizer_power(param[FACTOR], n / (uint64_t)param[EVERY]);
}

enum { STEPS = WARMUP + 1, FLOOR };
#define DECAY_PARAMS                                                                                                   \
    WARMUP_PARAM, [STEPS] = {.name = "steps", .fallback = 100000, .min = 1, .max = STEPS_MAX, .is_whole = true},       \
                  [FLOOR] = {.name = "floor", .max = 1},                                                               \
    {                                                                                                                  \
        0                                                                                                              \
    }
static double part_done(const double *param, uint64_t n)
{
    return (double)n < param[STEPS] ? (double)n / param[STEPS] : 1;
}

static const struct keyed_param schedule_linear_params[] = {DECAY_PARAMS};
static double schedule_linear_factor(const double *param, uint64_t n, uint64_t pass)
{
    (void)pass;
    return 1 - (1 - param[FLOOR]) * part_done(param, n);
}

static const struct keyed_param schedule_cosine_params[] = {DECAY_PARAMS};
static double schedule_cosine_factor(const double *param, uint64_t n, uint64_t pass)
{
    (void)pass;
    return param[FLOOR] + (1 - param[FLOOR]) * (1 + fmath_cos2pi(part_done(param, n) / 2)) / 2;
}

enum { POWER = WARMUP + 1 };
static const struct keyed_param schedule_passes_params[] = {
    WARMUP_PARAM, [POWER] = {.name = "power", .fallback = 1, .max = 10}, {0}};
static double schedule_passes_factor(const double *param, uint64_t n, uint64_t pass)
{
    (void)n;
    return fmath_exp(-param[POWER] * fmath_log((double)pass + 1));
}

const struct schedule schedule_table[SCHEDULE_ID_COUNT] = {
#define SCHEDULE(id, source) [SCHEDULE_ID_##id] = {#id, source, schedule_##id##_params, schedule_##id##_factor},
#include "graph/schedules.def"
#undef SCHEDULE
};

double schedule_factor(const struct graph_schedule *s, uint64_t t, uint64_t pass)
{
    uint64_t warmup = (uint64_t)s->param[WARMUP];
    if (t <= warmup) return (double)t / s->param[WARMUP];
    return schedule_table[s->kind].factor(s->param, t - warmup - 1, pass);
}

status schedule_parse(const char *text, uint32_t rules, struct graph_schedule *out)
{
    memset(out, 0, sizeof *out);
    char word[WORD_BYTES_MAX];
    if (!word_next(&text, word))
        FAIL(INVALID, "expected a schedule, like \"cosine steps=100000 warmup=1000\", found nothing");
    uint32_t kind = 0;
    while (kind < SCHEDULE_ID_COUNT && strcmp(schedule_table[kind].name, word) != 0) kind++;
    if (kind == SCHEDULE_ID_COUNT) {
        const char *names[SCHEDULE_ID_COUNT + 1];
        for (uint32_t i = 0; i < SCHEDULE_ID_COUNT; i++) names[i] = schedule_table[i].name;
        names[SCHEDULE_ID_COUNT] = NULL;
        return keyed_unknown("a schedule", word, names);
    }
    out->kind = kind;
    double value[KEYED_PARAM_MAX] = {0};
    const struct schedule *schedule = &schedule_table[kind];
    TRY(keyed_read(text, schedule->name, schedule->name, schedule->params, rules, value));
    memcpy(out->param, value, sizeof out->param);
    return ST_OK;
}

status schedule_validate(const struct graph_schedule *s)
{
    if (s->kind >= SCHEDULE_ID_COUNT)
        FAIL(INVALID, "expected a schedule below %d, found %u", SCHEDULE_ID_COUNT, s->kind);
    uint32_t i = 0;
    for (const struct keyed_param *p = schedule_table[s->kind].params; p->name; p++, i++)
        TRY(keyed_validate(p, s->param[i]));
    for (; i < SCHEDULE_PARAM_COUNT; i++)
        if (s->param[i] != 0) FAIL(INVALID, "expected zeros in reserved places, found %g", s->param[i]);
    return ST_OK;
}
