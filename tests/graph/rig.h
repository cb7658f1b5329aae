/* A graph with everything that its kernels need, for tests: parameters, a slot, an input and a store, each in
 * a block of exactly its size, so that AddressSanitizer sees any access beyond it. Rows are made for the keys
 * of the input only, in the order in which the real store makes them. Values are a function of the seed. */
#ifndef HETERPS_TESTS_GRAPH_RIG_H
#define HETERPS_TESTS_GRAPH_RIG_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/tree.h"
#include "graph/cell.h"
#include "graph/op.h"
#include "graph/optimizer.h"

#define RIG_BYTES_MAX     ((uint64_t)8 << 20) /* of the slot, of the parameters, of the rows */
#define RIG_ROUNDS_MAX    10000               /* of a busy op */
#define RIG_KEYS_DISTINCT 5                   /* a field's keys are 0 .. 4, so that keys repeat */

struct rig {
    const struct graph *g;
    uint64_t random_state;
    float *param, *param_grad, **table_grad; /* table_grad: [lookup_count] */
    uint8_t *slot, *serves;
    struct micro_batch m;
    struct ticket ticket;
    struct view *tensor;
    struct op_context context;
};

/* splitmix64 (Steele, Lea, Flood, OOPSLA 2014, figure 17). */
static inline uint32_t rig_random(struct rig *r)
{
    uint64_t z = r->random_state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return (uint32_t)((z ^ (z >> 31)) >> 32);
}
/* Uniform in (-half_width, half_width). */
static inline float rig_value(struct rig *r, float half_width)
{
    return half_width * (2 * random_unit_f32(rig_random(r)) - 1);
}

static inline void *rig_take(size_t bytes)
{
    void *block = calloc(1, bytes == 0 ? 1 : bytes);
    CHECK(block != NULL);
    return block;
}

/* Whether the graph is small enough to be run. */
static inline bool rig_fits(const struct graph *g, uint32_t example_count)
{
    const struct graph_header *h = g->header;
    if (h->slot_bytes > RIG_BYTES_MAX || h->grad_floats * sizeof(float) > RIG_BYTES_MAX) return false;
    if ((uint64_t)h->micro * h->dense_stride * sizeof(float) > RIG_BYTES_MAX) return false;
    for (uint32_t i = 0; i < g->table_count; i++) {
        uint64_t keys = (uint64_t)g->tables[i].key_count_max * example_count;
        if (keys * g->tables[i].span_floats * sizeof(float) > RIG_BYTES_MAX / g->table_count) return false;
    }
    for (uint32_t i = 0; i < g->forward_count; i++) {
        struct busy_attr busy;
        memcpy(&busy, g->nodes[i].attr, sizeof busy);
        if (g->nodes[i].op == OP_ID_busy && busy.rounds > RIG_ROUNDS_MAX) return false;
    }
    return (uint64_t)(g->field_count + 1) * example_count * 64 < RIG_BYTES_MAX &&
           (uint64_t)h->key_count_max * example_count * 64 * (g->table_count + 1) < RIG_BYTES_MAX;
}

/* The tree that reads a field's keys as nodes; NULL: there is none. */
static inline const struct graph_node *rig_tree_of(const struct graph *g, uint32_t field)
{
    for (uint32_t i = 0; i < g->forward_count; i++)
        if (g->nodes[i].op == OP_ID_tree && g->tensors[g->args[g->nodes[i].arg_begin]].cols == field)
            return &g->nodes[i];
    return NULL;
}

/* A node's number; where a loss reads it, the number of a class, or none. */
static inline float rig_number(struct rig *r, uint32_t field)
{
    const struct graph *g = r->g;
    for (uint32_t i = 0; i < g->forward_count; i++)
        if (g->nodes[i].op == OP_ID_softmax_nodes && g->tensors[g->args[g->nodes[i].arg_begin + 1]].cols == field)
            return rig_random(r) % 3 ? (float)(rig_random(r) % 2) : NAN;
    return rig_value(r, 1);
}

/* A random tree of the cells of the node that reads the field, now and then a graph or a forest: fills key
 * [returned]. */
static inline uint32_t rig_tree_make(struct rig *r, const struct graph_node *n, uint32_t field, uint64_t *key)
{
    uint32_t count = 0, depth = 0, nodes = 0, words = 0, most = 1 + rig_random(r) % r->g->fields[field].ids_max;
    while (count < most) {
        const uint32_t *at = r->g->args + n->program_begin, *end = at + tree_cell_words(n);
        struct cell_view view;
        uint32_t kind = rig_random(r) % 3, k = 0;
        bool is_there = cell_view_next(&at, end, &view);
        while (k < kind && is_there && at < end) k++, is_there = cell_view_next(&at, end, &view);
        if (!is_there || view.cell->children_min > depth) continue;
        if (nodes > 0 && rig_random(r) % 8 == 0) {
            key[count++] = tree_key_again(rig_random(r) % nodes);
            depth++;
            continue;
        }
        uint32_t most_children = view.cell->children_max < depth ? view.cell->children_max : depth,
                 children = view.cell->children_min + rig_random(r) % (most_children - view.cell->children_min + 1);
        bool has_word = view.cell->needs_word && words < r->g->fields[field].ids_max;
        words += has_word;
        key[count++] = tree_key(k, children, has_word, rig_number(r, field));
        depth -= children;
        depth++, nodes++;
    }
    return count;
}

/* Examples with 0 .. ids_max keys a field. The block of keys is then as long as they need. */
static inline void rig_input_make(struct rig *r, uint32_t example_count)
{
    const struct graph *g = r->g;
    const struct graph_header *h = g->header;
    struct micro_batch *m = &r->m;
    *m = (struct micro_batch){
        .step = 3, .is_last = true, .example_count = example_count, .step_example_count = example_count};
    m->label = rig_take((size_t)h->micro * g->label_count * sizeof *m->label);
    m->dense = rig_take((size_t)h->micro * h->dense_stride * sizeof *m->dense);
    size_t key_count_max = (size_t)example_count * h->key_count_max;
    m->key = rig_take(key_count_max * sizeof *m->key);
    m->key_home = rig_take(key_count_max * sizeof *m->key_home);
    if (graph_example(g).has_weight) m->weight = rig_take(h->micro * sizeof *m->weight);
    if (graph_example(g).has_value) m->value = rig_take(key_count_max * sizeof *m->value);
    m->key_begin = rig_take(((size_t)example_count * g->field_count + 1) * sizeof *m->key_begin);
    for (uint32_t b = 0; b < example_count; b++) {
        for (uint32_t i = 0; i < g->label_count; i++) m->label[b * g->label_count + i] = (float)(rig_random(r) % 2);
        if (m->weight) m->weight[b] = 1 + rig_value(r, 0.9f);
        for (uint32_t i = 0; i < h->dense_stride; i++) m->dense[(size_t)b * h->dense_stride + i] = rig_value(r, 1);
        for (uint32_t f = 0; f < g->field_count; f++) {
            uint32_t home = b * g->field_count + f, count = rig_random(r) % (g->fields[f].ids_max + 1);
            const struct graph_node *tree = rig_tree_of(g, f);
            m->key_begin[home] = m->key_count;
            if (tree) count = rig_tree_make(r, tree, f, m->key + m->key_count);
            for (uint32_t i = 0; i < count; i++, m->key_count++) {
                if (!tree) m->key[m->key_count] = (uint64_t)f << 32 | rig_random(r) % RIG_KEYS_DISTINCT;
                m->key_home[m->key_count] = home;
                if (m->value) m->value[m->key_count] = rig_value(r, 2);
            }
            m->key_begin[home + 1] = m->key_count;
        }
    }
    m->key = realloc(m->key, m->key_count * sizeof *m->key + 1);
    m->key_home = realloc(m->key_home, m->key_count * sizeof *m->key_home + 1);
    CHECK(m->key != NULL && m->key_home != NULL);
}

static inline void rig_rows_make(struct rig *r, uint32_t index)
{
    const struct graph *g = r->g;
    const struct micro_batch *m = &r->m;
    struct ticket_table *table = &r->ticket.table[index];
    uint32_t dim = g->tables[index].dim, position_count = 0;
    graph_table_serves(g, index, r->serves);
    table->unique_of = rig_take(m->key_count * sizeof *table->unique_of);
    table->span = rig_take(m->key_count * sizeof *table->span);
    table->occurrence_begin = rig_take((m->key_count + 1) * sizeof *table->occurrence_begin);
    table->occurrence = rig_take(m->key_count * sizeof *table->occurrence);
    table->lane_row = rig_take(m->key_count * sizeof *table->lane_row);
    table->row = rig_take(m->key_count * sizeof *table->row);
    uint64_t *unique_key = rig_take(m->key_count * sizeof *unique_key);
    for (uint32_t p = 0; p < m->key_count; p++) {
        table->unique_of[p] = UINT32_MAX; /* a use for a field that the table does not serve goes far astray */
        if (!r->serves[m->key_home[p] % g->field_count]) continue;
        uint32_t u = 0;
        while (u < table->unique_count && unique_key[u] != m->key[p]) u++;
        table->unique_of[p] = u;
        if (u < table->unique_count) continue;
        unique_key[table->unique_count++] = m->key[p];
        table->span[u] = rig_take(g->tables[index].span_floats * sizeof(float));
        for (uint32_t d = 0; d < dim; d++) table->span[u][d] = rig_value(r, 1);
    }
    for (uint32_t u = 0; u < table->unique_count; u++) {
        table->occurrence_begin[u] = position_count;
        for (uint32_t p = 0; p < m->key_count; p++)
            if (table->unique_of[p] == u) table->occurrence[position_count++] = p;
        table->lane_row[u] = table->unique_count - 1 - u; /* any order will do */
        table->row[u] = u;
    }
    table->occurrence_begin[table->unique_count] = position_count;
    table->row_count = table->unique_count;
    free(unique_key);
    uint32_t *lookups = rig_take(g->lookup_count * sizeof *lookups);
    uint32_t lookup_count = graph_table_lookups(g, index, lookups);
    for (uint32_t i = 0; i < lookup_count; i++)
        r->table_grad[lookups[i]] = rig_take((size_t)table->unique_count * dim * sizeof(float));
    free(lookups);
}

static inline void rig_views_make(struct rig *r)
{
    const struct graph *g = r->g;
    for (uint32_t i = 0; i < g->tensor_count; i++) {
        const struct graph_tensor *t = &g->tensors[i];
        struct view *v = &r->tensor[i];
        *v = (struct view){.rows = t->rows ? t->rows : r->m.example_count, .cols = t->cols, .stride = t->stride};
        switch (t->kind) {
        case TENSOR_DENSE:
        case TENSOR_LABEL: v->data = graph_column_data(t, &r->m); break;
        case TENSOR_ACTIVATION: v->data = (float *)(void *)(r->slot + t->offset); break;
        case TENSOR_PARAM: v->data = r->param + t->offset; break;
        case TENSOR_PARAM_GRAD: v->data = r->param_grad + t->offset; break;
        default: break;
        }
    }
}

/* example_count: at most the graph's micro; rig_fits must have said yes. */
static inline void rig_open(struct rig *r, const struct graph *g, uint64_t seed, uint32_t example_count)
{
    *r = (struct rig){.g = g, .random_state = seed};
    CHECK(example_count <= g->header->micro && rig_fits(g, example_count));
    r->param = rig_take(g->header->param_floats * sizeof *r->param);
    r->param_grad = rig_take(g->header->grad_floats * sizeof *r->param_grad);
    for (uint64_t i = 0; i < g->header->param_floats; i++) r->param[i] = rig_value(r, 0.7f);
    /* What starts at a constant, variances among it, is around 1, and so positive. */
    for (uint32_t i = 0; i < g->tensor_count; i++) {
        const struct graph_tensor *t = &g->tensors[i];
        uint64_t count = t->kind == TENSOR_PARAM && t->init == TENSOR_INIT_CONSTANT ? (uint64_t)t->rows * t->cols : 0;
        for (uint64_t k = 0; k < count; k++) r->param[t->offset + k] += 1;
    }
    r->slot = rig_take(g->header->slot_bytes);
    r->serves = rig_take(g->field_count);
    rig_input_make(r, example_count);
    r->ticket.table_count = g->table_count;
    r->ticket.table = rig_take(g->table_count * sizeof *r->ticket.table);
    r->table_grad = rig_take(g->lookup_count * sizeof *r->table_grad);
    for (uint32_t i = 0; i < g->table_count; i++) rig_rows_make(r, i);
    r->tensor = rig_take(g->tensor_count * sizeof *r->tensor);
    rig_views_make(r);
    r->context = (struct op_context){.graph = g,
                                     .tensor = r->tensor,
                                     .batch = &r->m,
                                     .ticket = &r->ticket,
                                     .table_grad = r->table_grad,
                                     .seed = g->header->seed,
                                     .training = true};
}

static inline void rig_close(struct rig *r)
{
    for (uint32_t i = 0; i < r->ticket.table_count; i++) {
        struct ticket_table *table = &r->ticket.table[i];
        for (uint32_t u = 0; u < table->unique_count; u++) free(table->span[u]);
        free(table->unique_of), free(table->span), free(table->occurrence_begin), free(table->occurrence),
            free(table->lane_row), free(table->row);
    }
    for (uint32_t i = 0; i < r->g->lookup_count; i++) free(r->table_grad[i]);
    free(r->ticket.table), free(r->table_grad), free(r->tensor), free(r->serves);
    free(r->m.label), free(r->m.weight), free(r->m.value), free(r->m.dense), free(r->m.key), free(r->m.key_home),
        free(r->m.key_begin);
    free(r->param), free(r->param_grad), free(r->slot);
}

/* Runs the forward nodes on a slot full of NaN, so that reading what nobody wrote shows. */
static inline void rig_forward(struct rig *r)
{
    memset(r->slot, 0xff, r->g->header->slot_bytes);
    for (uint32_t i = 0; i < r->g->forward_count; i++)
        op_table[r->g->nodes[i].op].forward(&r->context, &r->g->nodes[i]);
}

/* Runs the backward nodes; parameter and row gradients are added to. */
static inline void rig_backward(struct rig *r)
{
    for (uint32_t i = r->g->forward_count; i < r->g->node_count; i++)
        op_table[r->g->nodes[i].op].backward(&r->context, &r->g->nodes[r->g->nodes[i].other]);
}

/* The sum of all losses of all examples. */
static inline double rig_loss(const struct rig *r)
{
    double sum = 0;
    for (uint32_t i = graph_loss_next(r->g, 0); i < r->g->forward_count; i = graph_loss_next(r->g, i + 1)) {
        struct view loss = op_out(&r->context, &r->g->nodes[i]);
        for (uint32_t b = 0; b < loss.rows; b++) sum += (double)loss.data[(size_t)b * loss.stride];
    }
    return sum;
}

#endif
