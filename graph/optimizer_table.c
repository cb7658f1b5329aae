/* The table of optimizers, one entry a line of optimizers.def, and the reading of their text. */
#include "graph/optimizer_rules.h"

#include <stdio.h>

#include "cfg/key.h"
#include "graph/words.h"

const struct optimizer optimizer_table[OPTIMIZER_ID_COUNT] = {
#define OPTIMIZER(id, state_count, counts, is_internal, across, source)                                                \
    [OPTIMIZER_ID_##id] = {#id,                                                                                        \
                           source,                                                                                     \
                           state_count,                                                                                \
                           counts,                                                                                     \
                           is_internal,                                                                                \
                           ACROSS_##across,                                                                            \
                           optimizer_##id##_params,                                                                    \
                           optimizer_##id##_state_init,                                                                \
                           optimizer_##id##_update},
#include "graph/optimizers.def"
#undef OPTIMIZER
};

bool optimizer_counts(const struct graph_optimizer *o) { return optimizer_table[o->kind].counts != 0; }

uint32_t optimizer_span_floats(const struct graph_optimizer *o, uint32_t dim)
{
    return dim * (1 + optimizer_table[o->kind].state_count) + optimizer_table[o->kind].counts;
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

/* Fills names with those that a text may use, NULL behind the last. */
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
    char list[256] = "";
    size_t used = 0;
    optimizer_names(names);
    for (uint32_t i = 0; names[i] && used < sizeof list; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, " %s", names[i]);
    for (uint32_t i = 0; i < OPTIMIZER_ID_COUNT; i++)
        if (optimizer_table[i].is_internal && strcmp(optimizer_table[i].name, word) == 0)
            FAIL(INVALID,
                 "expected one of%s, found \"%s\", which is the rule of an op's statistics and cannot train "
                 "anything; its %s is a key of that op's section",
                 list, word, optimizer_table[i].params[0].name);
    const char *near = ini_nearest(word, names);
    if (near) FAIL(INVALID, "expected an optimizer, found \"%s\"; did you mean %s?", word, near);
    FAIL(INVALID, "expected one of%s, found \"%s\"", list, word);
}

/* Fills names with "a", "b", …, NULL for ini_nearest. */
static void param_names(const struct optimizer *rule, const char *names[OPTIMIZER_PARAM_COUNT + 1])
{
    uint32_t count = 0;
    for (const struct optimizer_param *p = rule->params; p->name; p++) names[count++] = p->name;
    names[count] = NULL;
}

static status key_unknown(const struct optimizer *rule, const char *key)
{
    const char *names[OPTIMIZER_PARAM_COUNT + 1];
    param_names(rule, names);
    if (names[0] == NULL) FAIL(INVALID, "expected nothing after %s's learning rate, found \"%s\"", rule->name, key);
    const char *near = ini_nearest(key, names);
    if (near) FAIL(INVALID, "expected a key of %s, found \"%s\"; did you mean %s?", rule->name, key, near);
    FAIL(INVALID, "expected a key of %s (%s%s%s%s%s), found \"%s\"", rule->name, names[0], names[1] ? ", " : "",
         names[1] ? names[1] : "", names[1] && names[2] ? ", " : "", names[1] && names[2] ? names[2] : "", key);
}

/* Reads "eps=1e-8". */
static status param_parse(const struct optimizer *rule, char *word, struct graph_optimizer *out, uint32_t *params_seen)
{
    char *value_text = strchr(word, '=');
    if (value_text == NULL)
        FAIL(INVALID, "expected KEY=VALUE after %s's learning rate, found \"%s\"", rule->name, word);
    *value_text++ = 0;
    for (uint32_t i = 0; rule->params[i].name; i++) {
        const struct optimizer_param *p = &rule->params[i];
        double value;
        if (strcmp(p->name, word) != 0) continue;
        if (*params_seen & 1u << i) FAIL(INVALID, "expected %s once, found it twice", word);
        *params_seen |= 1u << i;
        if (!cfg_parse_f64(value_text, &value) || !((float)value >= p->min && (float)value <= p->max))
            FAIL(INVALID, "expected %s of %g to %g, found \"%s\"", word, (double)p->min, (double)p->max, value_text);
        out->param[i] = (float)value;
        return ST_OK;
    }
    return key_unknown(rule, word);
}

status optimizer_parse(const char *text, struct graph_optimizer *out)
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
    for (uint32_t i = 0; rule->params[i].name; i++) out->param[i] = rule->params[i].fallback;
    double rate;
    if (!word_next(&text, word)) FAIL(INVALID, "expected a learning rate after %s, found nothing", rule->name);
    if (!cfg_parse_f64(word, &rate) || !(rate >= 0 && rate <= (double)LEARNING_RATE_MAX))
        FAIL(INVALID, "expected a learning rate of 0 to %g after %s, found \"%s\"", (double)LEARNING_RATE_MAX,
             rule->name, word);
    out->learning_rate = (float)rate;
    uint32_t params_seen = 0;
    while (word_next(&text, word)) TRY(param_parse(rule, word, out, &params_seen));
    return ST_OK;
}

status optimizer_validate(const struct graph_optimizer *o)
{
    if (o->kind >= OPTIMIZER_ID_COUNT)
        FAIL(INVALID, "expected an optimizer below %d, found %u", OPTIMIZER_ID_COUNT, o->kind);
    if (!(o->learning_rate >= 0 && o->learning_rate <= LEARNING_RATE_MAX))
        FAIL(INVALID, "expected a learning rate of 0 to %g, found %g", (double)LEARNING_RATE_MAX,
             (double)o->learning_rate);
    if (!(o->l2 >= 0 && o->l2 <= 1e6f)) FAIL(INVALID, "expected an l2 of 0 to 1e6, found %g", (double)o->l2);
    if (optimizer_table[o->kind].is_internal && (o->learning_rate != 0 || o->l2 != 0))
        FAIL(INVALID, "expected %s without learning rate and l2, found %g and %g", optimizer_table[o->kind].name,
             (double)o->learning_rate, (double)o->l2);
    const struct optimizer_param *p = optimizer_table[o->kind].params;
    for (uint32_t i = 0; p[i].name; i++)
        if (!(o->param[i] >= p[i].min && o->param[i] <= p[i].max))
            FAIL(INVALID, "expected %s of %g to %g, found %g", p[i].name, (double)p[i].min, (double)p[i].max,
                 (double)o->param[i]);
    return ST_OK;
}
