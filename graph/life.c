/* A tensor lives from the node that writes it to the last node that reads it. A backward node reads the
 * tensors of its forward node that the op's traits name, and the saved ones. */
#include "graph/life.h"

#include <stdlib.h>
#include <string.h>

#include "graph/op.h"

static void life_use(struct life *lives, uint32_t tensor, uint32_t time)
{
    if (time < lives[tensor].begin) lives[tensor].begin = time;
    if (time > lives[tensor].end || lives[tensor].end == GRAPH_NONE) lives[tensor].end = time;
}

static void grad_use(const struct graph *g, struct life *lives, uint32_t tensor, uint32_t time)
{
    if (g->tensors[tensor].grad != GRAPH_NONE) life_use(lives, g->tensors[tensor].grad, time);
}

void lives_measure(const struct graph *g, struct life *lives)
{
    for (uint32_t i = 0; i < g->tensor_count; i++) lives[i] = (struct life){GRAPH_NONE, GRAPH_NONE};
    for (uint32_t i = 0; i < g->forward_count; i++) {
        const struct graph_node *n = &g->nodes[i];
        const uint32_t *args = &g->args[n->arg_begin], *output = args + n->input_count + n->param_count,
                       *saved = output + 1;
        uint32_t traits = op_table[n->op].traits;
        for (uint32_t k = 0; k < n->input_count; k++) life_use(lives, args[k], i);
        life_use(lives, *output, i);
        for (uint32_t k = 0; k < n->saved_count; k++) life_use(lives, saved[k], i);
        if (n->other == GRAPH_NONE) continue;
        for (uint32_t k = 0; k < n->input_count; k++) {
            if (traits & OP_READS_IN) life_use(lives, args[k], n->other);
            grad_use(g, lives, args[k], n->other);
        }
        if (traits & OP_READS_OUT) life_use(lives, *output, n->other);
        grad_use(g, lives, *output, n->other);
        for (uint32_t k = 0; k < n->saved_count; k++) life_use(lives, saved[k], n->other);
    }
    /* After the forward pass the engine reads the tensors of heads, and the inputs of a ranked match. */
    for (uint32_t i = graph_head_next(g, 0); i < g->forward_count; i = graph_head_next(g, i + 1)) {
        const struct graph_node *n = &g->nodes[i];
        uint32_t count = n->input_count + n->param_count + n->output_count + n->saved_count;
        for (uint32_t k = 0; k < count; k++) life_use(lives, g->args[n->arg_begin + k], g->forward_count - 1);
        uint32_t match = graph_match_of(g, i);
        for (uint32_t k = 0; match != GRAPH_NONE && k < g->nodes[match].input_count; k++)
            life_use(lives, g->args[g->nodes[match].arg_begin + k], g->forward_count - 1);
    }
}

/* --- parts ------------------------------------------------------------------------------------- */

static bool is_plain_concat(const struct graph_node *n)
{
    struct concat_attr attr;
    if (n->op != OP_ID_concat) return false;
    memcpy(&attr, n->attr, sizeof attr);
    return attr.groups == 1;
}

static void part_set(const struct graph *g, struct life_part *parts, uint32_t tensor, uint32_t whole, uint32_t col)
{
    const struct graph_tensor *t = &g->tensors[tensor], *w = &g->tensors[whole];
    bool fits = t->kind == TENSOR_ACTIVATION && w->kind == TENSOR_ACTIVATION && t->type == TENSOR_F32 &&
                w->type == TENSOR_F32 && t->rows == w->rows && col % (CACHE_LINE_BYTES / sizeof(float)) == 0;
    if (fits && tensor != whole && parts[tensor].whole == GRAPH_NONE) parts[tensor] = (struct life_part){whole, col};
}

void parts_find(const struct graph *g, struct life_part *parts)
{
    /* How often a tensor is an input; kept in place of the column until the end. */
    for (uint32_t i = 0; i < g->tensor_count; i++) parts[i] = (struct life_part){GRAPH_NONE, 0};
    for (uint32_t i = 0; i < g->forward_count; i++)
        for (uint32_t k = 0; k < g->nodes[i].input_count; k++) parts[g->args[g->nodes[i].arg_begin + k]].col++;
    for (uint32_t i = g->forward_count; i-- > 0;) {
        const struct graph_node *n = &g->nodes[i];
        if (!is_plain_concat(n)) continue;
        const uint32_t *inputs = &g->args[n->arg_begin], out = inputs[n->input_count + n->param_count];
        uint32_t dout = g->tensors[out].grad;
        for (uint32_t k = 0, col = 0; k < n->input_count; col += g->tensors[inputs[k++]].cols) {
            uint32_t din = g->tensors[inputs[k]].grad;
            bool is_alone = parts[inputs[k]].whole == GRAPH_NONE && parts[inputs[k]].col == 1;
            part_set(g, parts, inputs[k], out, col);
            if (is_alone && din != GRAPH_NONE && dout != GRAPH_NONE) part_set(g, parts, din, dout, col);
        }
    }
}

static void life_join(struct life *lives, const struct life_part *parts, uint32_t tensor, uint32_t whole)
{
    if (tensor == GRAPH_NONE || parts[tensor].whole != whole || lives[tensor].begin == GRAPH_NONE) return;
    life_use(lives, whole, lives[tensor].begin);
    life_use(lives, whole, lives[tensor].end);
}

void lives_join(const struct graph *g, const struct life_part *parts, struct life *lives)
{
    /* In forward order, so a part that is a whole itself has its parts' lives before it hands them on. */
    for (uint32_t i = 0; i < g->forward_count; i++) {
        const struct graph_node *n = &g->nodes[i];
        if (!is_plain_concat(n)) continue;
        const uint32_t *inputs = &g->args[n->arg_begin], out = inputs[n->input_count + n->param_count];
        for (uint32_t k = 0; k < n->input_count; k++) {
            life_join(lives, parts, inputs[k], out);
            if (g->tensors[out].grad != GRAPH_NONE)
                life_join(lives, parts, g->tensors[inputs[k]].grad, g->tensors[out].grad);
        }
    }
}

/* --- whether places agree with lives ----------------------------------------------------------- */

/* The activations that nodes use, in three orders, and a search tree for the ends of live ones. The
 * tree is an array: leaf count + i is tensor by_offset[i], and the parent of i, at i / 2, has the
 * greater end of its two children. */
struct places {
    const struct graph *g;
    struct life *lives;
    struct life_part *parts;                 /* only tensors that lie where their part does                         */
    uint32_t *by_offset, *by_begin, *by_end; /* [count]: tensors                                */
    uint32_t *rank;                          /* [tensor_count]: a tensor's place in by_offset   */
    uint64_t *end_max;                       /* [2 * count]; 0: not alive                       */
    uint32_t count;
};

static int by_offset_compare(const void *a, const void *b, void *context)
{
    const struct places *p = context;
    uint64_t x = p->g->tensors[*(const uint32_t *)a].offset, y = p->g->tensors[*(const uint32_t *)b].offset;
    return (x > y) - (x < y);
}
static int by_begin_compare(const void *a, const void *b, void *context)
{
    const struct places *p = context;
    uint32_t x = p->lives[*(const uint32_t *)a].begin, y = p->lives[*(const uint32_t *)b].begin;
    return (x > y) - (x < y);
}
static int by_end_compare(const void *a, const void *b, void *context)
{
    const struct places *p = context;
    uint32_t x = p->lives[*(const uint32_t *)a].end, y = p->lives[*(const uint32_t *)b].end;
    return (x > y) - (x < y);
}

static void place_set(struct places *p, uint32_t tensor, uint64_t end)
{
    uint32_t i = p->count + p->rank[tensor];
    p->end_max[i] = end;
    for (i /= 2; i >= 1; i /= 2)
        p->end_max[i] = p->end_max[2 * i] > p->end_max[2 * i + 1] ? p->end_max[2 * i] : p->end_max[2 * i + 1];
}

/* The greatest end of live activations whose offset is below `offset`. */
static uint64_t place_end_max(const struct places *p, uint64_t offset)
{
    uint32_t below_count = 0, above = p->count;
    while (below_count < above) {
        uint32_t middle = below_count + (above - below_count) / 2;
        if (p->g->tensors[p->by_offset[middle]].offset < offset)
            below_count = middle + 1;
        else
            above = middle;
    }
    uint64_t end = 0;
    for (uint32_t left = p->count, right = p->count + below_count; left < right; left /= 2, right /= 2) {
        if (left & 1) end = p->end_max[left] > end ? p->end_max[left] : end, left++;
        if (right & 1) right--, end = p->end_max[right] > end ? p->end_max[right] : end;
    }
    return end;
}

/* Goes through time; at each birth asks whether a live activation begins before the new one's
 * end and ends after its begin. */
static uint32_t collision_find(struct places *p)
{
    const struct graph *g = p->g;
    uint32_t dead = 0;
    for (uint32_t i = 0; i < p->count; i++) {
        uint32_t born = p->by_begin[i];
        uint64_t end = graph_activation_end(g->header, &g->tensors[born]);
        while (p->lives[p->by_end[dead]].end < p->lives[born].begin) place_set(p, p->by_end[dead++], 0);
        if (place_end_max(p, end) > g->tensors[born].offset) return born;
        place_set(p, born, end);
    }
    return GRAPH_NONE;
}

/* Keeps the parts that lie in their wholes. */
static void parts_settle(struct places *p)
{
    parts_find(p->g, p->parts);
    for (uint32_t i = 0; i < p->g->tensor_count; i++) {
        if (p->parts[i].whole == GRAPH_NONE) continue;
        const struct graph_tensor *t = &p->g->tensors[i], *whole = &p->g->tensors[p->parts[i].whole];
        bool is_there = t->offset == whole->offset + p->parts[i].col * sizeof(float) && t->stride == whole->stride;
        if (!is_there) p->parts[i].whole = GRAPH_NONE;
    }
}

status life_collision_find(const struct graph *g, uint32_t *tensor, struct life *life)
{
    status st = ST_OK;
    size_t count = g->tensor_count;
    struct life *lives = calloc(count + 1, sizeof *lives);
    uint32_t *orders = calloc(4 * count + 1, sizeof *orders);
    uint64_t *end_max = calloc(2 * count + 1, sizeof *end_max);
    struct life_part *parts = calloc(count + 1, sizeof *parts);
    *tensor = GRAPH_NONE;
    if (lives == NULL || orders == NULL || end_max == NULL || parts == NULL) {
        st = status_fail(ST_MEMORY, __FILE__, __LINE__, "no memory for the lives of %zu tensors", count);
    } else {
        struct places p = {.g = g,
                           .lives = lives,
                           .parts = parts,
                           .by_offset = orders,
                           .by_begin = orders + count,
                           .by_end = orders + 2 * count,
                           .rank = orders + 3 * count,
                           .end_max = end_max};
        lives_measure(g, lives);
        parts_settle(&p);
        lives_join(g, parts, lives);
        for (uint32_t i = 0; i < count; i++) {
            if (g->tensors[i].kind != TENSOR_ACTIVATION || lives[i].begin == GRAPH_NONE) continue;
            if (parts[i].whole == GRAPH_NONE) p.by_offset[p.count++] = i;
        }
        memcpy(p.by_begin, p.by_offset, p.count * sizeof *orders);
        memcpy(p.by_end, p.by_offset, p.count * sizeof *orders);
        qsort_r(p.by_offset, p.count, sizeof *orders, by_offset_compare, &p);
        qsort_r(p.by_begin, p.count, sizeof *orders, by_begin_compare, &p);
        qsort_r(p.by_end, p.count, sizeof *orders, by_end_compare, &p);
        for (uint32_t i = 0; i < p.count; i++) p.rank[p.by_offset[i]] = i;
        *tensor = collision_find(&p);
        if (*tensor != GRAPH_NONE) *life = lives[*tensor];
    }
    free(lives);
    free(orders);
    free(end_max);
    free(parts);
    return st;
}
