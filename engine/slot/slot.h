/* A slot: the memory of one micro-batch in flight, from its examples and rows to what the layers make of them. */
#ifndef HETERPS_ENGINE_SLOT_SLOT_H
#define HETERPS_ENGINE_SLOT_SLOT_H

#include "engine/base/batch.h"
#include "engine/model/model.h"
#include "engine/slot/step_rows.h"
#include "graph/op.h"

/* The preallocated memory of one micro-batch in flight. */
struct slot {
    uint32_t index;
    struct micro_batch batch;
    struct ticket ticket;
    /* [tensor_count]: rows is the example count for all but parameters, which are shared; gradients of parameters are
     * set by the trainer, for the slot's lane. */
    struct view *tensor;
    /* [table_count] of the slot's step; training only. The feed adds to them until the step's last micro-batch: to be
     * read with that one only. */
    struct step_rows *step_rows;
    uint32_t step_block; /* the feed's: which step_rows these are */
    bool is_sweep;       /* training, the step's last one: rows go when the step ends (feed_sweep) */
};

/* Lays out a slot's micro-batch, ticket and tensors, whose rows are the graph's until examples come; slot: NULL without an arena. `spans`:
 * [table_count], floats of a row's values in the ticket's own memory, which is there if with_scratch. training: with gradients, for which an
 * evaluation slot has no place, and must not read them. Borrows model. */
void slot_layout(struct layout *l, struct slot *slot, const struct graph *g, const struct model *model,
                 const uint32_t *spans, bool with_scratch, bool training);

/* What ops find of the slot. `table_grad`: sums of rows' gradients of its lane [lookup_count], or NULL. */
struct op_context slot_context(const struct slot *slot, const struct graph *g, float *const *table_grad, bool training);

#endif
