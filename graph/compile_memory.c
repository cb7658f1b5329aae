/* Plans memory. Parameters lie one after another. A slot's activations share one arena by liveness: time is the
 * index of a node in the order of execution (forward, then backward); a tensor lives from the node that writes it to
 * the last that reads it, and two tensors may overlap in memory only if they do not overlap in time. Placed from the
 * largest to the smallest, each at the lowest offset that is free during its life. */
#include "graph/compiler.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Rows of 16 floats and more start on a cache line, an odd number of lines apart: rows above each other then spread
 * over all sets of the cache, which a power of two would not (the gradient of 512 units: 83 % of a core's peak
 * instead of 62 %, Zen 3). */
static uint32_t padded_stride(uint32_t cols) { return cols < 16 ? cols : ((cols + 15) / 16 | 1) * 16; }

struct life {
    uint32_t tensor, begin, end; /* both included */
    uint64_t bytes, offset;
};

static void life_use(struct life *lives, uint32_t tensor, uint32_t time)
{
    if (time < lives[tensor].begin) lives[tensor].begin = time;
    if (time > lives[tensor].end || lives[tensor].end == GRAPH_NONE) lives[tensor].end = time;
}

/* Fills in when each activation is written and read. */
static void lives_measure(struct compiler *c, struct life *lives)
{
    uint32_t last = c->nodes.count - 1;
    for (uint32_t i = 0; i < c->forward_count; i++) {
        const struct graph_node *node = compiler_node(c, i);
        const uint32_t *args = compiler_args(c, node);
        uint32_t traits = op_table[node->op].traits, output = compiler_output(c, node);
        for (uint32_t k = 0; k < node->input_count; k++) life_use(lives, args[k], i);
        life_use(lives, output, i);
        for (uint32_t k = 0; k < node->saved_count; k++)
            life_use(lives, args[node->input_count + node->param_count + 1 + k], i);
        if (node->other == GRAPH_NONE) continue;
        for (uint32_t k = 0; k < node->input_count; k++) {
            if (traits & OP_READS_IN) life_use(lives, args[k], node->other);
            uint32_t grad = compiler_tensor(c, args[k])->grad;
            if (grad != GRAPH_NONE) life_use(lives, grad, node->other);
        }
        if (traits & OP_READS_OUT) life_use(lives, output, node->other);
        if (compiler_tensor(c, output)->grad != GRAPH_NONE)
            life_use(lives, compiler_tensor(c, output)->grad, node->other);
        for (uint32_t k = 0; k < node->saved_count; k++)
            life_use(lives, args[node->input_count + node->param_count + 1 + k], node->other);
    }
    /* The engine reads these two when the slot is done. */
    life_use(lives, c->header.logit_tensor, last);
    life_use(lives, c->header.loss_tensor, last);
}

static int life_compare(const void *a, const void *b)
{
    const struct life *x = a, *y = b;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
    return x->tensor < y->tensor ? -1 : 1;
}

/* The lowest offset at which `life` meets none of the placed ones that live at the same time. */
static uint64_t life_place(const struct life *placed, uint32_t placed_count, const struct life *life)
{
    uint64_t offset = 0;
    for (bool moved = true; moved;) {
        moved = false;
        for (uint32_t i = 0; i < placed_count; i++) {
            const struct life *other = &placed[i];
            bool in_time = other->begin <= life->end && life->begin <= other->end;
            bool in_place = other->offset < offset + life->bytes && offset < other->offset + other->bytes;
            if (!in_time || !in_place) continue;
            offset = other->offset + other->bytes;
            moved = true;
        }
    }
    return offset;
}

static status activations_place(struct compiler *c)
{
    struct life *lives = calloc(c->tensors.count, sizeof *lives);
    if (lives == NULL) FAIL(MEMORY, "no memory to compile the model");
    for (uint32_t i = 0; i < c->tensors.count; i++)
        lives[i] = (struct life){.tensor = i, .begin = GRAPH_NONE, .end = GRAPH_NONE};
    lives_measure(c, lives);
    uint32_t count = 0;
    for (uint32_t i = 0; i < c->tensors.count; i++) {
        const struct graph_tensor *t = compiler_tensor(c, i);
        if (t->kind != TENSOR_ACTIVATION || lives[i].begin == GRAPH_NONE) continue; /* fused away */
        lives[count] = lives[i];
        lives[count++].bytes = arena_bytes((size_t)t->stride * c->header.micro * sizeof(float));
    }
    qsort(lives, count, sizeof *lives, life_compare);
    for (uint32_t i = 0; i < count; i++) {
        lives[i].offset = life_place(lives, i, &lives[i]);
        compiler_tensor(c, lives[i].tensor)->offset = lives[i].offset;
        uint64_t end = lives[i].offset + lives[i].bytes;
        if (end > c->header.slot_bytes) c->header.slot_bytes = end;
        if (lives[i].begin < c->forward_count && end > c->header.slot_eval_bytes) c->header.slot_eval_bytes = end;
    }
    free(lives);
    return ST_OK;
}

static void params_place(struct compiler *c)
{
    uint64_t offset = 0;
    for (uint32_t i = 0; i < c->tensors.count; i++) {
        struct graph_tensor *t = compiler_tensor(c, i);
        if (t->kind != TENSOR_PARAM) continue;
        t->offset = offset;
        if (t->grad != GRAPH_NONE) compiler_tensor(c, t->grad)->offset = offset;
        offset += ((uint64_t)t->rows * t->cols + 15) & ~(uint64_t)15;
    }
    c->header.param_floats = offset;
    for (uint32_t i = 0; i < c->updates.count; i++) {
        struct graph_update *u = LIST_AT(c->updates, struct graph_update, i);
        if (u->table != GRAPH_NONE) continue;
        u->param_count = offset;
        c->header.state_floats +=
            offset * optimizer_table[LIST_AT(c->optimizers, struct graph_optimizer, u->optimizer)->kind].state_count;
    }
}

/* The batch of [train], with micro chosen if it is 0. */
static status batch_resolve(struct compiler *c)
{
    const struct settings *s = &c->settings;
    const struct ini_section *train = ini_find(&c->ini, "train", "");
    struct graph_header *h = &c->header;
    h->batch = s->train_batch;
    h->lanes = s->train_lanes;
    h->micro = s->train_micro;
    if (h->batch % h->lanes != 0)
        return ini_fail(&c->ini, train, train ? ini_entry_find(train, "lanes") : NULL,
                        "batch = %u is not a multiple of lanes = %u", h->batch, h->lanes);
    uint32_t lane_examples = h->batch / h->lanes;
    if (h->micro == 0)
        for (h->micro = lane_examples < 256 ? lane_examples : 256; lane_examples % h->micro != 0;) h->micro--;
    if (lane_examples % h->micro != 0)
        return ini_fail(&c->ini, train, train ? ini_entry_find(train, "micro") : NULL,
                        "batch / lanes = %u is not a multiple of micro = %u", lane_examples, h->micro);
    if ((uint64_t)h->batch * h->key_count_max > INT32_MAX || (uint64_t)h->micro * (c->fields.count + 1) > INT32_MAX)
        return ini_fail(&c->ini, train, train ? ini_entry_find(train, "batch") : NULL,
                        "a batch of %u examples could hold more than 2^31 keys", h->batch);
    return ST_OK;
}

/* Which fields each table serves. */
static status tables_measure(struct compiler *c)
{
    for (uint32_t t = 0; t < c->tables.count; t++) {
        struct graph_table *table = LIST_AT(c->tables, struct graph_table, t);
        for (uint32_t f = 0; f < c->fields.count; f++) {
            bool is_served = false;
            for (uint32_t i = 0; i < c->forward_count && !is_served; i++) {
                const struct graph_node *node = compiler_node(c, i);
                struct embed_bag_attr attr;
                memcpy(&attr, node->attr, sizeof attr);
                if (node->op != OP_ID_embed_bag || attr.table != t) continue;
                for (uint32_t k = 0; k < node->input_count; k++)
                    is_served = is_served || compiler_tensor(c, compiler_args(c, node)[k])->cols == f;
            }
            table->field_count += is_served;
            table->key_count_max += is_served ? LIST_AT(c->fields, struct graph_field, f)->ids_max : 0;
        }
        if (table->field_count == 0)
            return ini_fail(&c->ini, ini_find(&c->ini, "table", compiler_string(c, table->name)), NULL,
                            "no [embedding] uses this table; remove it, or use it");
    }
    return ST_OK;
}

/* Bytes an example that a layer reads from others, and they from it. */
static void layers_measure(struct compiler *c)
{
    uint32_t *layer_of = malloc(c->tensors.count * sizeof *layer_of);
    bool *is_seen = malloc(c->tensors.count);
    if (layer_of != NULL && is_seen != NULL) {
        memset(layer_of, 0xff, c->tensors.count * sizeof *layer_of);
        for (uint32_t i = 0; i < c->forward_count; i++)
            layer_of[compiler_output(c, compiler_node(c, i))] = compiler_node(c, i)->layer;
        for (uint32_t l = 0; l < c->layers.count; l++) {
            struct graph_layer *layer = LIST_AT(c->layers, struct graph_layer, l);
            memset(is_seen, 0, c->tensors.count);
            for (uint32_t i = 0; i < c->forward_count; i++) {
                const struct graph_node *node = compiler_node(c, i);
                for (uint32_t k = 0; k < node->input_count; k++) {
                    uint32_t t = compiler_args(c, node)[k];
                    const struct graph_tensor *tensor = compiler_tensor(c, t);
                    bool crosses = (node->layer == l) != (layer_of[t] == l);
                    if (is_seen[t] || !crosses) continue;
                    is_seen[t] = true;
                    uint64_t bytes =
                        tensor->kind == TENSOR_FIELD
                            ? sizeof(uint64_t) * LIST_AT(c->fields, struct graph_field, tensor->cols)->ids_max
                            : sizeof(float) * (uint64_t)tensor->cols;
                    if (node->layer == l)
                        layer->input_bytes += bytes;
                    else
                        layer->output_bytes += bytes;
                }
            }
        }
    }
    free(layer_of);
    free(is_seen);
}

status compile_memory(struct compiler *c)
{
    TRY(batch_resolve(c));
    c->header.dense_stride = padded_stride(c->header.dense_count);
    uint64_t slot_floats = 0;
    for (uint32_t i = 0; i < c->tensors.count; i++) {
        struct graph_tensor *t = compiler_tensor(c, i);
        if (t->kind == TENSOR_ACTIVATION || t->kind == TENSOR_DENSE) t->stride = padded_stride(t->cols);
        if (t->kind == TENSOR_ACTIVATION) slot_floats += (uint64_t)t->stride * c->header.micro;
    }
    if (slot_floats > (uint64_t)1 << 38)
        FAIL(INVALID, "%s: a micro-batch of %u examples needs %" PRIu64 " floats of activations; lower train.micro",
             c->ini.path, c->header.micro, slot_floats);
    TRY(tables_measure(c));
    params_place(c);
    TRY(activations_place(c));
    layers_measure(c);
    return ST_OK;
}
