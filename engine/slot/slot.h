/* What travels through a pipeline: an input is what the feed makes of a micro-batch's data, its examples and
 * their rows; a slot is the place where layers compute on it.
 *
 *     feed ──input──▶ gate ──binds it to a free slot──▶ stages … ──▶ slot free again, input back to the feed
 *
 * So reading runs ahead by inputs, which have no memory for activations, and there are as many slots as
 * micro-batches in flight. */
#ifndef HETERPS_ENGINE_SLOT_SLOT_H
#define HETERPS_ENGINE_SLOT_SLOT_H

#include "engine/base/batch.h"
#include "engine/model/model.h"
#include "engine/slot/step_rows.h"
#include "graph/op.h"

struct exchange_look;

struct input {
    uint32_t index;
    struct micro_batch batch;
    struct ticket ticket;
    /* [table_count] of the input's step; training only. The feed adds to them until the step's last micro-batch: to be
     * read with that one only. */
    struct step_rows *step_rows;
    uint32_t step_block; /* the feed's: which step_rows these are */
    bool is_sweep;       /* training, the step's last one: rows go when the step ends (feed_sweep) */
    /* where other nodes have rows that are only read: whether they have come; or NULL */
    const struct exchange_look *look;
};

struct slot {
    uint32_t index;
    struct input *input; /* that it is bound to */
    /* [tensor_count]: columns are the input's, parameters the model's, or the synchronisation's; gradients of
     * parameters are set by the synchronisation. Rows are the example count for all but parameters. */
    struct view *tensor;
};

/* Lays out an input's micro-batch and ticket; input: NULL without an arena. `spans`: [table_count], floats of a
 * row's values in the ticket's own memory, which is there if with_scratch. */
void input_layout(struct layout *l, struct input *input, const struct graph *g, const uint32_t *spans,
                  bool with_scratch);
/* Lays out a slot's tensors; slot: NULL without an arena. training: with gradients, for which an evaluation's
 * slot has no place, and must not read them. */
void slot_layout(struct layout *l, struct slot *slot, const struct graph *g, bool training);
/* Binds a slot to an input, with the model's parameters. */
void slot_bind(struct slot *slot, struct input *input, const struct graph *g, const struct model *model);

/* What ops find of the slot. `table_grad`: sums of rows' gradients [lookup_count], or NULL. */
struct op_context slot_context(const struct slot *slot, const struct graph *g, float *const *table_grad, bool training);

#endif
