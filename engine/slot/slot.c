/* Where the parts of a slot lie. */
#include "engine/slot/slot.h"

void slot_layout(struct layout *l, struct slot *slot, const struct graph *g, const struct model *model,
                 const uint32_t *spans, bool with_scratch, bool training)
{
    struct batch_shape shape = graph_batch(g);
    struct example_shape example = graph_example(g);
    uint64_t activation_bytes = training ? g->header->slot_bytes : g->header->slot_eval_bytes;
    l->bytes += micro_batch_bytes(shape, example) + ticket_bytes(shape, example, g->table_count, spans, with_scratch);
    if (l->arena) {
        micro_batch_place(&slot->batch, l->arena, shape, example);
        ticket_place(&slot->ticket, l->arena, shape, example, g->table_count, spans, with_scratch);
    }
    struct view *views;
    LAYOUT_TAKE(l, views, g->tensor_count);
    uint8_t *activations = layout_take(l, activation_bytes, 1);
    if (!l->arena) return;
    slot->tensor = views;
    for (uint32_t t = 0; t < g->tensor_count; t++) {
        const struct graph_tensor *tensor = &g->tensors[t];
        views[t] = (struct view){.rows = tensor->rows, .cols = tensor->cols, .stride = tensor->stride};
        switch ((enum tensor_kind)tensor->kind) {
        case TENSOR_DENSE:
        case TENSOR_LABEL: views[t].data = graph_column_data(tensor, &slot->batch); break;
        case TENSOR_ACTIVATION:
            if (tensor->offset < activation_bytes) views[t].data = (float *)(activations + tensor->offset);
            break;
        case TENSOR_PARAM: views[t].data = model->param + tensor->offset; break;
        default: break;
        }
    }
}

struct op_context slot_context(const struct slot *slot, const struct graph *g, float *const *table_grad, bool training)
{
    return (struct op_context){.graph = g,
                               .tensor = slot->tensor,
                               .batch = &slot->batch,
                               .ticket = &slot->ticket,
                               .table_grad = table_grad,
                               .seed = g->header->seed,
                               .example_begin = slot->batch.micro_index * g->header->micro,
                               .slot = slot->index,
                               .training = training};
}
