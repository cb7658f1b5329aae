/* The optimizer that `auto` stands for: the default since rules 11 (cfg/rules.h), chosen by measuring on clicks,
 * census, app and other data in one pass and in three (tests/quality/defaults.py).
 *
 * Layers that build on layers need small steps, or the net falls behind in several passes. Rows move only when their
 * key occurs, so their steps are larger. A model with at most one fc, of one unit (logistic regression, factorisation
 * machines, two towers), has no layers that build on each other, and learns little in a pass by less than 0.1.
 *
 * In such a model a row of one number is the weight of a linear model. It moves at rate 0.2, and counts as seen 16
 * times: its first moves are smaller than with 0.1 and one time, its later ones larger. So frequent values get further
 * in one pass, and rare ones are learned by heart less in several. */
#include <stdio.h>
#include <string.h>

#include "cfg/key.h"
#include "graph/optimizer.h"

/* A typical gradient of one example's logit, |p - y|. */
#define GRADIENT_OF_ONE 0.4
/* How often a weight of a linear model counts as seen before its first time; the first rules by which it does. */
#define WEIGHT_SEEN  16
#define WEIGHT_RULES 13

static bool has_hidden_layers(const struct ini *ini)
{
    uint32_t fc_count = 0;
    for (uint32_t i = 0; i < ini->section_count; i++) {
        const struct ini_section *section = &ini->sections[i];
        if (strcmp(section->kind, "cell") == 0) return true;
        if (strcmp(section->kind, "fc") != 0) continue;
        const struct ini_entry *units = ini_entry_find(section, "units");
        uint64_t count;
        if (++fc_count > 1 || !units || !cfg_parse_u64(units->value, &count) || count != 1) return true;
    }
    return false;
}

void optimizer_auto(const struct ini *ini, uint32_t rules, uint32_t batch, uint32_t row_dim, char *text, size_t bytes)
{
    const bool is_deep = has_hidden_layers(ini), is_weight = !is_deep && row_dim == 1 && rules >= WEIGHT_RULES;
    const double seen_once = GRADIENT_OF_ONE / batch, seen = is_weight ? WEIGHT_SEEN : 1;
    if (row_dim == 0)
        snprintf(text, bytes, "adagrad %s", is_deep ? "0.01" : "0.1");
    else
        snprintf(text, bytes, "adagrad %s initial_accumulator=%.9g", is_deep ? "0.04" : is_weight ? "0.2" : "0.1",
                 seen * seen_once * seen_once);
}
