/* Texts of a name and its keys, like "adam 0.001 beta1=0.9" or "step every=10000 factor=0.5": how
 * optimizers and schedules are read. */
#ifndef HETERPS_GRAPH_KEYED_H
#define HETERPS_GRAPH_KEYED_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/status.h"

struct keyed_param {
    const char *name;
    double fallback, min, max;
    bool is_whole;  /* its values are whole numbers */
    uint32_t until; /* UNTIL (cfg/rules.h): rules up to this number have another default */
    double before;  /* this default; until = 0: the default never changed */
};
#define KEYED_PARAM_MAX 6

/* Reads every word of `text` as KEY=VALUE into value[], which begins with the defaults by `rules`
 * (cfg/rules.h). `params` ends with name == NULL. `of` is the name ("sgd"), `after` the text that the words
 * follow ("sgd's learning rate"). INVALID with a sentence without place: expected, found, the nearest key. */
MUST_USE status keyed_read(const char *text, const char *of, const char *after, const struct keyed_param *params,
                           uint32_t rules, double value[KEYED_PARAM_MAX]);
/* INVALID, as keyed_read, unless keyed_read could have given the key this value. */
MUST_USE status keyed_validate(const struct keyed_param *param, double value);
/* INVALID: `word` is none of `names`, which ends with NULL;
 * says which name is near. `what`: "an optimizer". */
MUST_USE status keyed_unknown(const char *what, const char *word, const char *const *names);

#endif
