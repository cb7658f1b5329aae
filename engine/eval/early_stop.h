/* Early stopping: training ends when the evaluated figure of train.stop has not improved in train.patience
 * evaluations. The state is the model's `best`, which every save has, so that a resumed run goes on alike. */
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
/* Takes in the evaluation of the step that was just finished; *is_better: it is the best so far.
 * INVALID: the figure is not defined. */
MUST_USE status early_stop_take(struct early_stop *stop, uint64_t step, bool *is_better);
bool early_stop_is_over(const struct early_stop *stop);
/* Writes the best evaluation's "AUC 0.76739" into buffer, which is returned. */
char *early_stop_text(const struct early_stop *stop, char *buffer, size_t bytes);

#endif
