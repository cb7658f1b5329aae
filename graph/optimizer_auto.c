/* What `auto` stands for as an optimizer, the default since rules 11 (cfg/rules.h), and as a schedule, the
 * default since rules 14; chosen by measuring on clicks, census, app and other data in one pass and in
 * three (tests/quality/defaults.py).
 *
 * Layers that build on layers need small steps, or the net falls behind in several passes. Rows move only
 * when their key occurs, so their steps are larger. A model with at most one fc, of one unit (logistic
 * regression, factorisation machines, two towers), has no layers that build on each other, and learns
 * little in a pass by less than 0.1.
 *
 * In such a model a row of one number is the weight of a linear model. It moves at rate 0.2, and counts as
 * seen 16 times: its first moves are smaller than with 0.1 and one time, its later ones larger. So frequent
 * values get further in one pass, and rare ones are learned by heart less in several.
 *
 * A linear model has one optimum, and steps of one size go on around it, so its rate falls from pass to pass.
 * Three passes over the eight sets of tests/quality/defaults.py end at worst .0018 of AUC below
 * scikit-learn's regression; at one rate for all passes .0072 (means of two seeds). */
#include <stdio.h>
#include <string.h>

#include "cfg/key.h"
#include "cfg/settings.h"
#include "graph/optimizer.h"
#include "graph/schedule.h"

/* A typical gradient of one example's logit, |p - y|. */
#define GRADIENT_OF_ONE 0.4
/* How often a weight of a linear model counts as seen before its first time;
 * the first rules by which it does. */
#define WEIGHT_SEEN  16
#define WEIGHT_RULES 13

static bool is_one(const struct ini_section *section, const char *key)
{
    const struct ini_entry *entry = ini_entry_find(section, key);
    uint64_t count;
    return entry && cfg_parse_u64(entry->value, &count) && count == 1;
}

static bool has_hidden_layers(const struct ini *ini)
{
    uint32_t fc_count = 0;
    for (uint32_t i = 0; i < ini->section_count; i++) {
        const struct ini_section *section = &ini->sections[i];
        if (strcmp(section->kind, "cell") == 0) return true;
        if (strcmp(section->kind, "fc") != 0) continue;
        if (++fc_count > 1 || !is_one(section, "units")) return true;
    }
    return false;
}

void optimizer_auto(const struct ini *ini, uint32_t rules, uint32_t batch, uint32_t row_dim, char *text, size_t bytes)
{
    const bool is_deep = has_hidden_layers(ini), is_weight = !is_deep && row_dim == 1 && rules >= WEIGHT_RULES;
    const double seen_once = GRADIENT_OF_ONE / batch, seen = is_weight ? WEIGHT_SEEN : 1;
    const char *rate = is_deep ? "0.04" : is_weight ? "0.2" : "0.1";
    if (row_dim == 0)
        snprintf(text, bytes, "adagrad %s", is_deep ? "0.01" : "0.1");
    else
        snprintf(text, bytes, "adagrad %s initial_accumulator=%.9g", rate, seen * seen_once * seen_once);
}

/* Whether a section of this kind may stand in a linear model. */
static bool kind_is_linear(const char *kind)
{
    static const char *const kinds[] = {"embedding", "concat",     "add",       "sum_pool", "slice", "reshape",
                                        "dropout",   "batch_norm", "data_norm", "fc",       "loss",  "metric"};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kind, kinds[i]) == 0) return true;
    return false;
}

const char *schedule_auto(const struct ini *ini)
{
    for (uint32_t i = 0; i < ini->section_count; i++) {
        const struct ini_section *section = &ini->sections[i];
        size_t key_count;
        const bool is_table = strcmp(section->kind, "table") == 0;
        const bool is_op = settings_keys(section->kind, &key_count) == NULL;
        if (is_table ? !is_one(section, "dim") : is_op && !kind_is_linear(section->kind)) return "constant";
    }
    return has_hidden_layers(ini) ? "constant" : "passes";
}

status schedule_choose(const struct ini *ini, const char *text, uint32_t rules, struct graph_schedule *s)
{
    const char *chosen = schedule_auto(ini);
    if (strncmp(text, OPTIMIZER_AUTO " ", sizeof OPTIMIZER_AUTO) == 0)
        FAIL(INVALID,
             "expected " OPTIMIZER_AUTO " alone, which takes no keys, found \"%s\"; "
             "it stands for %s here, which takes them",
             text, chosen);
    return schedule_parse(strcmp(text, OPTIMIZER_AUTO) == 0 ? chosen : text, rules, s);
}
