/* What travels through a pipeline. An input is what the feed makes of a micro-batch's data: its examples and
 * their rows. A slot is the memory in which layers compute on it.
 *
 *     feed ──input──▶ gate ──binds it to a free slot──▶ stages … ──▶ slot free again, input back to the feed
 *
 * Reading runs ahead by inputs, which have no memory for activations. There are as many
 * slots as micro-batches in flight. */
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
    /* [table_count] of the input's step; training only. The feed adds to them until the step's last
     * micro-batch: read them with that one only. */
    struct step_rows *step_rows;
    uint32_t step_block; /* the feed's: which step_rows these are */
    bool is_sweep;       /* training, the step's last one: rows go when the step ends (feed_sweep) */
    /* where rows of other nodes are only read: tells whether they have come; else NULL */
    const struct exchange_look *look;
    struct asked_step *asked; /* where a worker asks owners for the input's rows (engine/sync/waves.h); else NULL */
};

struct slot {
    uint32_t index;
    struct input *input; /* to which it is bound */
    /* [tensor_count]: columns are the input's; parameters are the model's, or the synchronisation's, which
     * also sets the gradients of parameters. Rows are the example count, except of parameters. */
    struct view *tensor;
};

/* Lays out an input's micro-batch and ticket. input: NULL without an arena. `spans`: [table_count], floats of
 * a row's values in the ticket's own memory, if with_scratch. */
void input_layout(struct layout *l, struct input *input, const struct graph *g, const uint32_t *spans,
                  bool with_scratch);
/* Lays out a slot's tensors. slot: NULL without an arena. training: with gradients; a slot of an evaluation
 * has no memory for them and must not read them. */
void slot_layout(struct layout *l, struct slot *slot, const struct graph *g, bool training);
/* Binds a slot to an input, with the model's parameters. */
void slot_bind(struct slot *slot, struct input *input, const struct graph *g, const struct model *model);

/* The context in which ops see the slot. `table_grad`: sums of rows' gradients [lookup_count], or NULL. */
struct op_context slot_context(const struct slot *slot, const struct graph *g, float *const *table_grad, bool training);

#endif
