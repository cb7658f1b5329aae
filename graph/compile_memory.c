/* Plans memory. Parameters lie one after another. A slot's activations share one arena by liveness
 * (graph/life.h). They are placed from the largest to the smallest, each at the lowest offset that is free
 * during its life; inputs of a concat lie within its output. */
#include "graph/compiler.h"
#include "graph/graph_internal.h"
#include "graph/life.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Rows of fewer floats than a cache line has lie side by side. */
static uint32_t padded_stride(uint32_t cols) { return cols < 16 ? cols : odd_lines_floats(cols); }

/* An activation with its life, for placing. */
struct placed {
    uint32_t tensor;
    struct life life;
    uint64_t bytes, offset;
};

static int placed_compare(const void *a, const void *b)
{
    const struct placed *x = a, *y = b;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
    return x->tensor < y->tensor ? -1 : 1;
}

/* The lowest offset at which `next` overlaps no placed activation that lives at the same time. */
static uint64_t place_find(const struct placed *placed, uint32_t placed_count, const struct placed *next)
{
    uint64_t offset = 0;
    for (bool moved = true; moved;) {
        moved = false;
        for (uint32_t i = 0; i < placed_count; i++) {
            const struct placed *other = &placed[i];
            bool in_time = other->life.begin <= next->life.end && next->life.begin <= other->life.end;
            bool in_place = other->offset < offset + next->bytes && offset < other->offset + other->bytes;
            if (!in_time || !in_place) continue;
            offset = other->offset + other->bytes;
            moved = true;
        }
    }
    return offset;
}

/* The records that parts_find and lives_measure read. */
static struct graph graph_so_far(struct compiler *c)
{
    return (struct graph){.header = &c->header,
                          .tensors = c->tensors.items,
                          .args = c->args.items,
                          .nodes = c->nodes.items,
                          .tensor_count = c->tensors.count,
                          .node_count = c->nodes.count,
                          .forward_count = c->forward_count};
}

/* Sets strides; parts have that of their outermost whole. */
static void strides_set(struct compiler *c, const struct life_part *parts)
{
    for (uint32_t i = 0; i < c->tensors.count; i++) {
        struct graph_tensor *t = compiler_tensor(c, i);
        if (t->kind == TENSOR_DENSE) t->stride = c->header.dense_stride;
        if (t->kind != TENSOR_ACTIVATION) continue;
        uint32_t whole = i;
        while (parts[whole].whole != GRAPH_NONE) whole = parts[whole].whole;
        t->stride = padded_stride(compiler_tensor(c, whole)->cols);
    }
}

static void activations_place(struct compiler *c, const struct life_part *parts, struct life *lives,
                              struct placed *placed)
{
    const struct graph g = graph_so_far(c);
    lives_measure(&g, lives);
    lives_join(&g, parts, lives);
    uint32_t count = 0;
    for (uint32_t i = 0; i < c->tensors.count; i++) {
        const struct graph_tensor *t = compiler_tensor(c, i);
        if (t->kind != TENSOR_ACTIVATION || lives[i].begin == GRAPH_NONE) continue; /* fused away */
        if (parts[i].whole != GRAPH_NONE) continue;
        placed[count++] =
            (struct placed){.tensor = i, .life = lives[i], .bytes = arena_bytes(graph_activation_bytes(&c->header, t))};
    }
    qsort(placed, count, sizeof *placed, placed_compare);
    for (uint32_t i = 0; i < count; i++) {
        placed[i].offset = place_find(placed, i, &placed[i]);
        compiler_tensor(c, placed[i].tensor)->offset = placed[i].offset;
        uint64_t end = placed[i].offset + placed[i].bytes;
        if (end > c->header.slot_bytes) c->header.slot_bytes = end;
        if (placed[i].life.begin < c->forward_count && end > c->header.slot_eval_bytes) c->header.slot_eval_bytes = end;
    }
    for (uint32_t i = 0; i < c->tensors.count; i++) {
        uint64_t col = 0;
        uint32_t whole = i;
        for (; parts[whole].whole != GRAPH_NONE; whole = parts[whole].whole) col += parts[whole].col;
        if (whole != i) compiler_tensor(c, i)->offset = compiler_tensor(c, whole)->offset + col * sizeof(float);
    }
}

/* Sets strides and places of activations. */
static status activations_plan(struct compiler *c)
{
    status st = ST_OK;
    struct life_part *parts = malloc(c->tensors.count * sizeof *parts);
    struct life *lives = malloc(c->tensors.count * sizeof *lives);
    struct placed *placed = malloc(c->tensors.count * sizeof *placed);
    if (parts == NULL || lives == NULL || placed == NULL) {
        st = status_fail(ST_MEMORY, __FILE__, __LINE__, "no memory to compile the model");
        goto done;
    }
    const struct graph g = graph_so_far(c);
    parts_find(&g, parts);
    strides_set(c, parts);
    uint64_t slot_floats = 0;
    for (uint32_t i = 0; i < c->tensors.count; i++) {
        const struct graph_tensor *t = compiler_tensor(c, i);
        if (t->kind != TENSOR_ACTIVATION || parts[i].whole != GRAPH_NONE) continue;
        slot_floats += (uint64_t)t->stride * graph_activation_rows(&c->header, t);
    }
    if (slot_floats > (uint64_t)1 << 38) {
        st = status_fail(ST_INVALID, __FILE__, __LINE__,
                         "%s: a micro-batch of %u examples needs %" PRIu64 " floats of activations; lower train.micro",
                         c->ini.path, c->header.micro, slot_floats);
        goto done;
    }
    activations_place(c, parts, lives, placed);
done:
    free(parts);
    free(lives);
    free(placed);
    return st;
}

/* Places aliases where their owners are, and their gradients behind those of all
 * parameters, in the order of nodes. */
static void aliases_place(struct compiler *c)
{
    uint64_t offset = c->header.param_floats;
    for (uint32_t i = 0; i < c->tensors.count; i++) {
        struct graph_tensor *t = compiler_tensor(c, i);
        if (t->kind != TENSOR_PARAM || !t->is_alias) continue;
        t->offset = compiler_tensor(c, (uint32_t)t->offset)->offset; /* the offset was the owner's number so far */
        compiler_tensor(c, t->grad)->offset = offset;
        offset += graph_param_floats(t);
    }
    c->header.grad_floats = offset;
}

/* Places parameters, update by update, in the order of their nodes, which is that of the tensors. */
static void params_place(struct compiler *c)
{
    uint64_t offset = 0;
    for (uint32_t k = 0; k < c->updates.count; k++) {
        struct graph_update *u = LIST_AT(c->updates, struct graph_update, k);
        if (u->table != GRAPH_NONE) continue;
        u->param_offset = offset;
        for (uint32_t i = 0; i < c->tensors.count; i++) {
            struct graph_tensor *t = compiler_tensor(c, i);
            if (t->kind != TENSOR_PARAM || t->update != k || t->is_alias) continue;
            t->offset = offset;
            if (t->grad != GRAPH_NONE) compiler_tensor(c, t->grad)->offset = offset;
            offset += graph_param_floats(t);
        }
        u->param_count = offset - u->param_offset;
        c->header.state_floats +=
            u->param_count *
            optimizer_table[LIST_AT(c->optimizers, struct graph_optimizer, u->optimizer)->kind].state_count;
    }
    c->header.param_floats = offset;
    aliases_place(c);
}

/* Under wsp and asp every minibatch updates the parameters that the next one reads, and no sums over lanes
 * exist: a step is one micro-batch. Sets micro if it is 0. */
static status batch_is_micro(struct compiler *c, const struct ini_section *train)
{
    struct graph_header *h = &c->header;
    const char *sync = cfg_syncs[c->settings.train_sync];
    if (h->lanes != 1)
        return ini_fail(&c->ini, train, ini_entry_find(train, "lanes"),
                        "expected lanes = 1 under sync = %s, "
                        "where every minibatch updates by itself and no gradients of lanes are added, found %u",
                        sync, h->lanes);
    if (c->settings.train_reduce != REDUCE_F32)
        return ini_fail(&c->ini, train, ini_entry_find(train, "reduce"),
                        "expected reduce = f32 under sync = %s, where no gradients of lanes are added, found %s", sync,
                        cfg_reduces[c->settings.train_reduce]);
    if (h->micro != 0 && h->micro != h->batch)
        return ini_fail(&c->ini, train, ini_entry_find(train, "micro"),
                        "expected micro = batch = %u under sync = %s, where every micro-batch is a minibatch that "
                        "updates by itself, found %u; leave micro out, or lower batch",
                        h->batch, sync, h->micro);
    if (h->batch > MICRO_MAX)
        return ini_fail(
            &c->ini, train, ini_entry_find(train, "batch"),
            "expected a batch of at most %u examples under sync = %s, where it is one micro-batch, found %u", MICRO_MAX,
            sync, h->batch);
    h->micro = h->batch;
    return ST_OK;
}

/* A layer's weights are packed once a micro-batch: with 2048 examples ctrdnn and ctrdnn2 train 5 and 7 %
 * faster than with 512 (two AVX-512 cores, batch 2048). But a step of usual size would be a single
 * micro-batch then, and stages would have nothing to overlap: hence GRAPH_MICRO_USUAL. */

/* Reads the batch of [train]; chooses micro if it is 0. */
static status batch_resolve(struct compiler *c)
{
    const struct settings *s = &c->settings;
    const struct ini_section *train = ini_find(&c->ini, "train", "");
    struct graph_header *h = &c->header;
    h->batch = s->train_batch;
    h->lanes = s->train_lanes;
    h->micro = s->train_micro;
    if (s->train_sync != SYNC_BSP) TRY(batch_is_micro(c, train));
    if (h->batch % h->lanes != 0)
        return ini_fail(&c->ini, train, train ? ini_entry_find(train, "lanes") : NULL,
                        "batch = %u is not a multiple of lanes = %u", h->batch, h->lanes);
    uint32_t lane_examples = h->batch / h->lanes;
    if (h->micro == 0)
        for (h->micro = lane_examples < GRAPH_MICRO_USUAL ? lane_examples : GRAPH_MICRO_USUAL;
             lane_examples % h->micro != 0;)
            h->micro--;
    if (lane_examples % h->micro != 0)
        return ini_fail(&c->ini, train, train ? ini_entry_find(train, "micro") : NULL,
                        "batch / lanes = %u is not a multiple of micro = %u", lane_examples, h->micro);
    if ((uint64_t)h->batch * h->key_count_max > INT32_MAX || (uint64_t)h->micro * (c->fields.count + 1) > INT32_MAX)
        return ini_fail(&c->ini, train, train ? ini_entry_find(train, "batch") : NULL,
                        "a batch of %u examples could hold more than 2^31 keys", h->batch);
    return ST_OK;
}

/* Finds the fields that the table serves: is_served[fields], all false before. */
static void table_fields_find(struct compiler *c, uint32_t table, bool *is_served)
{
    for (uint32_t i = 0; i < c->forward_count; i++) {
        const struct graph_node *node = compiler_node(c, i);
        struct embed_bag_attr attr;
        memcpy(&attr, node->attr, sizeof attr);
        if (!(op_table[node->op].traits & OP_LOOKS_UP) || attr.table != table) continue;
        for (uint32_t k = 0; k < node->input_count; k++)
            is_served[compiler_tensor(c, compiler_args(c, node)[k])->cols] = true;
    }
}

static status tables_measure(struct compiler *c)
{
    for (uint32_t table_index = 0; table_index < c->tables.count; table_index++) {
        struct graph_table *table = LIST_AT(c->tables, struct graph_table, table_index);
        bool *is_served = calloc(c->fields.count + 1, sizeof *is_served);
        if (is_served == NULL) FAIL(MEMORY, "no memory to compile the model");
        table_fields_find(c, table_index, is_served);
        for (uint32_t f = 0; f < c->fields.count; f++) {
            table->field_count += is_served[f];
            table->key_count_max += is_served[f] ? LIST_AT(c->fields, struct graph_field, f)->ids_max : 0;
        }
        free(is_served);
        if (table->field_count == 0)
            return ini_fail(&c->ini, ini_find(&c->ini, "table", compiler_string(c, table->name)), NULL,
                            "no [embedding] uses this table; remove it, or use it");
    }
    return ST_OK;
}

/* Adds up the bytes of an example that a layer reads from others, and others from it.
 * is_seen[tensors]: scratch. */
static void layer_measure(struct compiler *c, uint32_t index, const uint32_t *layer_of, bool *is_seen)
{
    struct graph_layer *layer = LIST_AT(c->layers, struct graph_layer, index);
    memset(is_seen, 0, c->tensors.count);
    for (uint32_t i = 0; i < c->forward_count; i++) {
        const struct graph_node *node = compiler_node(c, i);
        for (uint32_t k = 0; k < node->input_count; k++) {
            uint32_t tensor_index = compiler_args(c, node)[k];
            const struct graph_tensor *tensor = compiler_tensor(c, tensor_index);
            bool crosses = (node->layer == index) != (layer_of[tensor_index] == index);
            if (is_seen[tensor_index] || !crosses) continue;
            is_seen[tensor_index] = true;
            uint64_t bytes = tensor->kind == TENSOR_FIELD
                                 ? sizeof(uint64_t) * LIST_AT(c->fields, struct graph_field, tensor->cols)->ids_max
                                 : sizeof(float) * (uint64_t)tensor->cols;
            *(node->layer == index ? &layer->input_bytes : &layer->output_bytes) += bytes;
        }
    }
}

static status layers_measure(struct compiler *c)
{
    uint32_t *layer_of = malloc(c->tensors.count * sizeof *layer_of);
    bool *is_seen = malloc(c->tensors.count);
    const bool is_there = layer_of != NULL && is_seen != NULL;
    if (is_there) {
        memset(layer_of, 0xff, c->tensors.count * sizeof *layer_of);
        for (uint32_t i = 0; i < c->forward_count; i++)
            layer_of[compiler_output(c, compiler_node(c, i))] = compiler_node(c, i)->layer;
        for (uint32_t l = 0; l < c->layers.count; l++) layer_measure(c, l, layer_of, is_seen);
    }
    free(layer_of);
    free(is_seen);
    if (!is_there) FAIL(MEMORY, "no memory to compile the model");
    return ST_OK;
}

status compile_memory(struct compiler *c)
{
    TRY(batch_resolve(c));
    c->header.dense_stride = padded_stride(c->header.dense_stride); /* log probabilities follow the columns */
    TRY(tables_measure(c));
    params_place(c);
    TRY(activations_plan(c));
    return layers_measure(c);
}
