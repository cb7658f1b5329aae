/* Early stopping: training ends when the evaluated figure of train.stop has not improved in train.patience
 * evaluations. What has been seen is in the model's `best`, and with it in every save, so that a resumed run
 * goes on alike. */
#ifndef HETERPS_ENGINE_EVAL_EARLY_STOP_H
#define HETERPS_ENGINE_EVAL_EARLY_STOP_H

#include "engine/eval/heads.h"

struct early_stop {
    const struct head *head; /* NULL: off */
    uint32_t figure;
    uint32_t patience;
    struct best *best; /* the model's */
};

/* Keeps heads and best; `what` is train.stop. INVALID: no head has such a figure. */
MUST_USE status early_stop_open(struct early_stop *stop, const struct heads *heads, const char *what, uint32_t patience,
                                struct best *best);
/* Takes in the evaluation of a step that has just been finished; *is_better: it is the best. INVALID: the
 * figure is not defined. */
MUST_USE status early_stop_take(struct early_stop *stop, uint64_t step, bool *is_better);
bool early_stop_is_over(const struct early_stop *stop);
/* "AUC 0.76739" of the best; into buffer, which is returned. */
char *early_stop_text(const struct early_stop *stop, char *buffer, size_t bytes);

#endif
