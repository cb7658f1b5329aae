/* Where the parts of inputs and slots lie, and how they come together: once a micro-batch. */
#include "engine/slot/slot.h"

void input_layout(struct layout *l, struct input *input, const struct graph *g, const uint32_t *spans,
                  bool with_scratch)
{
    struct batch_shape shape = graph_batch(g);
    struct example_shape example = graph_example(g);
    l->bytes += micro_batch_bytes(shape, example) + ticket_bytes(shape, example, g->table_count, spans, with_scratch);
    if (!l->arena) return;
    micro_batch_place(&input->batch, l->arena, shape, example);
    ticket_place(&input->ticket, l->arena, shape, example, g->table_count, spans, with_scratch);
}

void slot_layout(struct layout *l, struct slot *slot, const struct graph *g, bool training)
{
    const uint64_t activation_bytes = training ? g->header->slot_bytes : g->header->slot_eval_bytes;
    struct view *views;
    LAYOUT_TAKE(l, views, g->tensor_count);
    uint8_t *activations = layout_take(l, activation_bytes, 1);
    if (!l->arena) return;
    slot->tensor = views;
    for (uint32_t t = 0; t < g->tensor_count; t++) {
        const struct graph_tensor *tensor = &g->tensors[t];
        views[t] = (struct view){.rows = tensor->rows, .cols = tensor->cols, .stride = tensor->stride};
        if (tensor->kind == TENSOR_ACTIVATION && tensor->offset < activation_bytes)
            views[t].data = (float *)(activations + tensor->offset);
    }
}

void slot_bind(struct slot *slot, struct input *input, const struct graph *g, const struct model *model)
{
    slot->input = input;
    for (uint32_t t = 0; t < g->tensor_count; t++) {
        const struct graph_tensor *tensor = &g->tensors[t];
        struct view *view = &slot->tensor[t];
        if (tensor->rows == 0) view->rows = input->batch.example_count;
        if (tensor->kind == TENSOR_DENSE || tensor->kind == TENSOR_LABEL)
            view->data = graph_column_data(tensor, &input->batch);
        if (tensor->kind == TENSOR_PARAM) view->data = model->param + tensor->offset;
    }
}

struct op_context slot_context(const struct slot *slot, const struct graph *g, float *const *table_grad, bool training)
{
    const struct input *input = slot->input;
    return (struct op_context){.graph = g,
                               .tensor = slot->tensor,
                               .batch = &input->batch,
                               .ticket = &input->ticket,
                               .table_grad = table_grad,
                               .seed = g->header->seed,
                               .example_begin = input->batch.micro_index * g->header->micro,
                               .slot = slot->index,
                               .input = input->index,
                               .training = training};
}
