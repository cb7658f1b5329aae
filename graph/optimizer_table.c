/* The table of optimizers, one entry a line of optimizers.def, and the reading of their text. */
#include "graph/optimizer_rules.h"

#include <math.h>
#include <stdio.h>

#include "cfg/key.h"
#include "graph/row_vector.h"
#include "graph/schedule.h"
#include "graph/word_next.h"

const struct optimizer optimizer_table[OPTIMIZER_ID_COUNT] = {
#define OPTIMIZER(id, state_count, row_state_count, counts, reads_shows, is_internal, across, source)                  \
    [OPTIMIZER_ID_##id] = {#id,                                                                                        \
                           source,                                                                                     \
                           state_count,                                                                                \
                           row_state_count,                                                                            \
                           counts,                                                                                     \
                           reads_shows,                                                                                \
                           is_internal,                                                                                \
                           ACROSS_##across,                                                                            \
                           optimizer_##id##_params,                                                                    \
                           optimizer_##id##_state_init,                                                                \
                           optimizer_##id##_update},
#include "graph/optimizers.def"
#undef OPTIMIZER
};

bool optimizer_counts(const struct graph_optimizer *o) { return optimizer_table[o->kind].counts != 0; }
bool optimizer_reads_shows(const struct graph_optimizer *o) { return optimizer_table[o->kind].reads_shows; }
bool optimizer_is_for_rows(const struct graph_optimizer *o)
{
    return optimizer_table[o->kind].reads_shows || optimizer_table[o->kind].row_state_count > 0;
}

uint32_t optimizer_span_floats(const struct graph_optimizer *o, uint32_t dim)
{
    const struct optimizer *rule = &optimizer_table[o->kind];
    return dim * (1 + rule->state_count) + rule->row_state_count + rule->counts;
}

uint32_t optimizer_table_floats(const struct graph_optimizer *o, const struct graph_table *table)
{
    return optimizer_span_floats(o, table->dim) - table->dim + row_vector_floats(table) +
           (table->life.counts ? ROW_COUNTER_FLOATS : 0);
}

float optimizer_rate(const struct graph *g, const struct graph_optimizer *o, uint64_t t, uint64_t pass)
{
    return (float)((double)o->learning_rate * schedule_factor(&g->header->schedule, t, pass));
}

float optimizer_clip_scale(float scale, double squares, float clip_norm)
{
    double norm = (double)scale * sqrt(squares);
    return norm > (double)clip_norm ? (float)((double)scale * ((double)clip_norm / norm)) : scale;
}

double optimizer_power(double base, uint64_t t)
{
    double power = 1;
    for (; t; t >>= 1) {
        if (t & 1) power *= base;
        base *= base;
    }
    return power;
}

/* Fills `names` with the names that a text may use, then NULL. */
static void optimizer_names(const char *names[OPTIMIZER_ID_COUNT + 1])
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < OPTIMIZER_ID_COUNT; i++)
        if (!optimizer_table[i].is_internal) names[count++] = optimizer_table[i].name;
    names[count] = NULL;
}

static status name_unknown(const char *word)
{
    const char *names[OPTIMIZER_ID_COUNT + 1];
    optimizer_names(names);
    for (uint32_t i = 0; i < OPTIMIZER_ID_COUNT; i++)
        if (optimizer_table[i].is_internal && strcmp(optimizer_table[i].name, word) == 0)
            FAIL(INVALID,
                 "expected an optimizer, found \"%s\", which is the rule of an op's statistics and cannot train "
                 "anything; its %s is a key of that op's section",
                 word, optimizer_table[i].params[0].name);
    return keyed_unknown("an optimizer", word, names);
}

status optimizer_parse(const char *text, uint32_t rules, struct graph_optimizer *out)
{
    memset(out, 0, sizeof *out);
    char word[WORD_BYTES_MAX];
    if (!word_next(&text, word))
        FAIL(INVALID, "expected an optimizer and its learning rate, like \"adagrad 0.01\", found nothing");
    uint32_t kind = 0;
    while (kind < OPTIMIZER_ID_COUNT && strcmp(optimizer_table[kind].name, word) != 0) kind++;
    if (kind == OPTIMIZER_ID_COUNT || optimizer_table[kind].is_internal) return name_unknown(word);
    const struct optimizer *rule = &optimizer_table[kind];
    out->kind = kind;
    double rate;
    if (!word_next(&text, word)) FAIL(INVALID, "expected a learning rate after %s, found nothing", rule->name);
    if (!cfg_parse_f64(word, &rate) || !(rate >= 0 && rate <= (double)LEARNING_RATE_MAX))
        FAIL(INVALID, "expected a learning rate of 0 to %g after %s, found \"%s\"", (double)LEARNING_RATE_MAX,
             rule->name, word);
    out->learning_rate = (float)rate;
    char after[WORD_BYTES_MAX];
    double value[KEYED_PARAM_MAX];
    snprintf(after, sizeof after, "%s's learning rate", rule->name);
    TRY(keyed_read(text, rule->name, after, rule->params, rules, value));
    for (uint32_t i = 0; rule->params[i].name; i++) out->param[i] = (float)value[i];
    return ST_OK;
}

static status within(const char *name, float value, float max)
{
    if (value >= 0 && value <= max) return ST_OK;
    FAIL(INVALID, "expected %s of 0 to %g, found %g", name, (double)max, (double)value);
}

status optimizer_validate(const struct graph_optimizer *o)
{
    if (o->kind >= OPTIMIZER_ID_COUNT)
        FAIL(INVALID, "expected an optimizer below %d, found %u", OPTIMIZER_ID_COUNT, o->kind);
    TRY(within("a learning rate", o->learning_rate, LEARNING_RATE_MAX));
    TRY(within("an l1", o->l1, PENALTY_MAX));
    TRY(within("an l2", o->l2, PENALTY_MAX));
    TRY(within("a clip_value", o->clip_value, CLIP_MAX));
    TRY(within("a clip_norm", o->clip_norm, CLIP_MAX));
    bool is_plain = o->learning_rate == 0 && o->l1 == 0 && o->l2 == 0 && o->clip_value == 0 && o->clip_norm == 0;
    if (optimizer_table[o->kind].is_internal && !is_plain)
        FAIL(INVALID, "expected %s without learning rate, l1, l2 and clips, found one of %g, %g, %g, %g, %g",
             optimizer_table[o->kind].name, (double)o->learning_rate, (double)o->l1, (double)o->l2,
             (double)o->clip_value, (double)o->clip_norm);
    const struct keyed_param *p = optimizer_table[o->kind].params;
    for (uint32_t i = 0; p[i].name; i++) {
        /* Both ends, rounded like the value, belong to the range. They are compared as float: gcc 12 at -O3
         * drops two neighbouring conversions from double to float and back. */
        if (o->param[i] == (float)p[i].min || o->param[i] == (float)p[i].max) continue;
        TRY(keyed_validate(&p[i], (double)o->param[i]));
    }
    return ST_OK;
}
