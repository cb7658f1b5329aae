/* Launches of trees, and what kernels are told: of the cells once, of each micro-batch's nodes anew. */
#include "gpu/cells.h"

#include <inttypes.h>
#include <string.h>

#include "gpu/ops.h"
#include "gpu/product.h"
#include "graph/tree_frame.h"

#define WORDS(type)  ((uint32_t)(sizeof(type) / sizeof(uint32_t)))
#define WARP_THREADS 32u
#define WEIGHT_ALIGN 64u                 /* floats                                        */
#define NODES_MAX    ((uint64_t)1 << 26) /* of a micro-batch: words of them are counted in 32 bits */
_Static_assert(TREE_PRODUCTS_MAX == OP_PARAMS_MAX / 2, "gpu/cells.h");

static uint32_t divide_up(uint32_t count, uint32_t each) { return (count + each - 1) / each; }

/* --- the cells -------------------------------------------------------------------------------------- */

/* How many of each a node's cells have. */
struct counts {
    uint32_t kinds, products, steps, constants;
};
static struct counts counts_of(const struct tree_run *r)
{
    struct counts all = {.kinds = r->cells.kind_count};
    for (uint32_t k = 0; k < all.kinds; k++) {
        all.products += r->view[k].cell->product_count;
        all.steps += r->view[k].cell->step_count;
        all.constants += r->view[k].cell->constant_count;
    }
    return all;
}

uint32_t gpu_tree_word_count(const struct graph *g, const struct graph_node *n)
{
    struct tree_run r;
    tree_cells_open(&r, g, n);
    const struct counts all = counts_of(&r);
    return all.kinds * WORDS(struct tree_kind) + all.products * WORDS(struct tree_product) +
           all.steps * WORDS(struct cell_step) + all.constants;
}

/* Whether a product reads words alone, and nothing is in its outputs' registers before it. */
static bool is_early(const struct cell_view *v, uint32_t product)
{
    const struct cell_product *of = &v->products[product];
    if (of->is_edge) return false;
    for (uint32_t i = 0; i < of->input_count; i++)
        if (CELL_OPERAND_KIND(of->input[i]) != CELL_WORD) return false;
    for (uint32_t i = 0; i < v->cell->step_count; i++) {
        const struct cell_step *s = &v->steps[i];
        if (s->op == CELL_PRODUCT && s->a == product) return true;
        const struct cell_product *before = s->op == CELL_PRODUCT ? &v->products[s->a] : NULL;
        if (before == NULL && CELL_OPERAND_KIND(s->to) == CELL_REGISTER &&
            CELL_OPERAND_INDEX(s->to) - of->output < of->output_count)
            return false;
        if (before != NULL && !before->is_edge && before->output < of->output + of->output_count &&
            of->output < before->output + before->output_count)
            return false;
    }
    return false;
}

static void products_fill(const struct tree_run *r, uint32_t kind, struct tree_product *to)
{
    const struct cell_view *v = &r->view[kind];
    uint32_t in_begin[2] = {0, 0};
    for (uint32_t i = 0; i < v->cell->product_count; i++, to++) {
        const struct cell_product *of = &v->products[i];
        *to = (struct tree_product){.kind = kind,
                                    .is_edge = of->is_edge,
                                    .is_early = is_early(v, i),
                                    .terms = cell_product_cols(&r->cells, of),
                                    .cols = of->output_count * r->cells.units,
                                    .in_begin = in_begin[of->is_edge],
                                    .out_begin = of->output * r->cells.units,
                                    .input_count = of->input_count};
        memcpy(to->input, of->input, of->input_count * sizeof *of->input);
        in_begin[of->is_edge] += to->terms;
    }
}

void gpu_tree_words_fill(const struct graph *g, const struct graph_node *n, uint32_t *words)
{
    struct tree_run r;
    tree_cells_open(&r, g, n);
    const struct counts all = counts_of(&r);
    struct tree_kind *kinds = (struct tree_kind *)(void *)words;
    struct tree_product *products = (struct tree_product *)(void *)(kinds + all.kinds);
    struct cell_step *steps = (struct cell_step *)(void *)(products + all.products);
    float *constants = (float *)(void *)(steps + all.steps);
    uint32_t product = 0, step = 0, constant = 0;
    for (uint32_t k = 0; k < all.kinds; k++) {
        const struct cell_view *v = &r.view[k];
        kinds[k] = (struct tree_kind){step, step + v->cell->step_count, constant, {0}};
        memcpy(kinds[k].state, v->cell->state, r.cells.state_count * sizeof *kinds[k].state);
        products_fill(&r, k, products + product);
        for (uint32_t i = 0; i < v->cell->step_count; i++, step++) {
            steps[step] = v->steps[i];
            if (steps[step].op == CELL_PRODUCT) steps[step].a += product;
        }
        if (v->cell->constant_count)
            memcpy(constants + constant, v->constants, v->cell->constant_count * sizeof(float));
        constant += v->cell->constant_count;
        product += v->cell->product_count;
    }
}

/* --- a micro-batch's nodes -------------------------------------------------------------------------- */

/* Examples of a group: each multiprocessor has a group, before one has two. */
static uint32_t group_examples(const struct graph *g, uint32_t core_count)
{
    return divide_up(g->header->micro, core_count ? core_count : 1);
}

status gpu_tree_check(const struct graph *g, const struct graph_node *n)
{
    const uint64_t nodes = (uint64_t)g->header->micro * op_keys_max(g, n, 0);
    if (nodes <= NODES_MAX) return ST_OK;
    FAIL(INVALID,
         "expected at most %" PRIu64 " nodes in a micro-batch on a card, found room for %" PRIu64
         ": lower train.micro, or ids_max of the field of trees",
         NODES_MAX, nodes);
}

uint32_t gpu_tree_micro_word_count(const struct graph *g, const struct graph_node *n)
{
    struct tree_run r;
    tree_cells_open(&r, g, n);
    const uint32_t micro = g->header->micro, nodes = micro * op_keys_max(g, n, 0);
    return WORDS(struct tree_head) + 2 * (r.cells.kind_count + 1) + (nodes + 1) * WORDS(struct tree_row) +
           nodes * (WORDS(struct tree_edge) + 1) + micro + 1 + nodes * WORDS(struct tree_turn) + micro;
}

size_t gpu_tree_micro_lists_bytes(const struct graph *g, const struct graph_node *n)
{
    return tree_lists_bytes(g->header->micro, op_keys_max(g, n, 0));
}

static void rows_fill(const struct tree_frame *f, struct tree_row *rows)
{
    const uint32_t count = f->nodes.count;
    uint32_t parent = 0;
    for (uint32_t row = 0; row < count; row++) {
        const uint32_t node = f->node_at[row], b = f->example[node];
        rows[row] = (struct tree_row){.number = f->nodes.number[node],
                                      .kind = f->nodes.kind[node],
                                      .example = b,
                                      .word = f->nodes.word[node],
                                      .place = f->first[b + 1] - 1 - node,
                                      .edge = f->edge_at[row],
                                      .parent = parent};
        parent += f->parent_begin[node + 1] - f->parent_begin[node];
    }
    rows[count] = (struct tree_row){.edge = f->edge_at[count], .parent = parent};
}

/* The edges, and for each row the edges that lead to it. */
static void edges_fill(const struct tree_frame *f, struct tree_edge *edges, uint32_t *parents)
{
    for (uint32_t row = 0; row < f->nodes.count; row++) {
        const uint32_t node = f->node_at[row];
        for (uint32_t e = f->nodes.child_begin[node]; e < f->nodes.child_begin[node + 1]; e++)
            edges[f->edge_row[e]] = (struct tree_edge){f->row[f->nodes.child[e]], row};
        for (uint32_t up = f->parent_begin[node]; up < f->parent_begin[node + 1]; up++)
            *parents++ = f->edge_row[f->parent[up]];
    }
}

/* Cuts each batch where a group ends. turns NULL: counts those of each group, in first[group]; else writes
 * them, from first[group] on. */
static void turns_fill(const struct tree_frame *f, uint32_t each, uint32_t *first, struct tree_turn *turns)
{
    for (uint32_t i = 0; i < *f->batch_count; i++) {
        const uint32_t batch = f->batch[i], end = f->batch_begin[batch + 1];
        for (uint32_t row = f->batch_begin[batch], next; row < end; row = next) {
            const uint32_t group = f->example[f->node_at[row]] / each, group_end = (group + 1) * each;
            next = row + 1;
            while (next < end && f->example[f->node_at[next]] < group_end) next++;
            if (turns) turns[first[group]] = (struct tree_turn){row, next};
            first[group]++;
        }
    }
}

/* The first row, and edge, of each kind. */
static void kinds_fill(const struct tree_frame *f, uint32_t kind_count, uint32_t *first, uint32_t *edge)
{
    uint32_t row = 0;
    for (uint32_t k = 0; k <= kind_count; k++) {
        while (row < f->nodes.count && f->nodes.kind[f->node_at[row]] < k) row++;
        first[k] = row;
        edge[k] = f->edge_at[row];
    }
}

/* Where the first rows of kinds lie among the words, or their first edges. */
static uint32_t kinds_at(uint32_t kind_count, bool is_edge)
{
    return WORDS(struct tree_head) + (is_edge ? kind_count + 1 : 0);
}

uint32_t gpu_tree_micro_words_fill(const struct op_context *c, const struct graph_node *n, const struct gpu *gpu,
                                   void *lists, uint32_t *words)
{
    const struct graph *g = c->graph;
    const uint32_t examples = c->batch->example_count, each = group_examples(g, gpu->core_count),
                   groups = divide_up(examples, each);
    struct tree_run r;
    tree_lists_make(&r, c, n, lists);
    const struct tree_frame *f = &r.frame;
    const uint32_t rows = f->nodes.count, edges = f->nodes.child_begin[rows], kinds = r.cells.kind_count;
    struct tree_head *head = (struct tree_head *)(void *)words;
    *head =
        (struct tree_head){.group_count = groups, .group_examples = each, .group_rows = each * op_keys_max(g, n, 0)};
    head->kinds_at = kinds_at(kinds, false);
    head->kind_edges_at = kinds_at(kinds, true);
    head->rows_at = head->kind_edges_at + kinds + 1;
    head->edges_at = head->rows_at + (rows + 1) * WORDS(struct tree_row);
    head->parents_at = head->edges_at + edges * WORDS(struct tree_edge);
    head->groups_at = head->parents_at + edges;
    head->examples_at = head->groups_at + groups + 1;
    head->turns_at = head->examples_at + examples;
    kinds_fill(f, kinds, words + head->kinds_at, words + head->kind_edges_at);
    rows_fill(f, (struct tree_row *)(void *)(words + head->rows_at));
    edges_fill(f, (struct tree_edge *)(void *)(words + head->edges_at), words + head->parents_at);
    for (uint32_t b = 0; b < examples; b++)
        words[head->examples_at + b] = f->is_strange[b] ? TREE_STRANGE : f->first[b + 1] - f->first[b];
    uint32_t *first = words + head->groups_at, turns = 0;
    memset(first, 0, (groups + 1) * sizeof *first);
    turns_fill(f, each, first, NULL);
    for (uint32_t group = 0; group <= groups; group++) {
        const uint32_t count = first[group];
        first[group] = turns;
        turns += count;
    }
    turns_fill(f, each, first, (struct tree_turn *)(void *)(words + head->turns_at));
    memmove(first + 1, first, groups * sizeof *first);
    first[0] = 0;
    return head->turns_at + turns * WORDS(struct tree_turn);
}

/* --- launches --------------------------------------------------------------------------------------- */

/* A node's passes. */
struct tree_pass {
    const struct gpu_work *w;
    struct tree_run run;
    struct tree_args args;
    uint32_t product_count, threads, groups;
    size_t scratch_used;                       /* floats, by transposed weights */
    struct tree_product of[TREE_PRODUCTS_MAX]; /* [product_count]: the host's copy of the program's */
};

/* Floats of the transposed weights, one behind the other. */
static size_t transposed_floats(const struct tree_product *p)
{
    return ((size_t)p->terms * p->cols + WEIGHT_ALIGN - 1) / WEIGHT_ALIGN * WEIGHT_ALIGN;
}

size_t gpu_tree_scratch_floats(const struct graph *g, const struct graph_node *n)
{
    struct tree_run r;
    size_t floats = gpu_node_param_floats(g, n);
    tree_cells_open(&r, g, n);
    for (uint32_t k = 0; k < r.cells.kind_count; k++) {
        struct tree_product products[TREE_PRODUCTS_MAX];
        products_fill(&r, k, products);
        for (uint32_t i = 0; i < r.view[k].cell->product_count; i++) floats += transposed_floats(&products[i]);
    }
    return floats;
}

/* As many threads as the widest product has columns or terms, or some rows have units; whole warps. */
static uint32_t threads_of(const struct tree_pass *t)
{
    uint32_t most = t->run.cells.units * TREE_TILE_ROWS;
    for (uint32_t i = 0; i < t->product_count; i++) {
        if (t->of[i].cols > most) most = t->of[i].cols;
        if (t->of[i].terms > most) most = t->of[i].terms;
    }
    most = divide_up(most, WARP_THREADS) * WARP_THREADS;
    return most < TREE_THREADS_MAX ? most : TREE_THREADS_MAX;
}

static void pass_open(struct tree_pass *t, const struct gpu_work *w, const struct op_context *c,
                      const struct graph_node *n)
{
    struct tree_run *r = &t->run;
    const uint32_t node = (uint32_t)(n - c->graph->nodes);
    tree_frame_open(r, c, n);
    const struct counts all = counts_of(r);
    const struct tree_frame *f = &r->frame;
    const struct view x = n->input_count > 1 ? op_in(c, n, 1) : (struct view){0}, out = op_out(c, n);
    const struct tree_kind *kinds = (const struct tree_kind *)(const void *)w->node_words[node];
    const struct tree_product *products = (const struct tree_product *)(const void *)(kinds + all.kinds);
    const struct cell_step *steps = (const struct cell_step *)(const void *)(products + all.products);
    CHECK(all.products <= TREE_PRODUCTS_MAX);
    t->w = w;
    t->product_count = 0;
    for (uint32_t k = 0; k < all.kinds; k++) {
        products_fill(r, k, t->of + t->product_count);
        t->product_count += r->view[k].cell->product_count;
    }
    t->threads = threads_of(t);
    t->groups = divide_up(w->micro, group_examples(c->graph, w->gpu->core_count));
    t->args = (struct tree_args){.now = w->now,
                                 .kinds = kinds,
                                 .products = products,
                                 .steps = steps,
                                 .constants = (const float *)(const void *)(steps + all.steps),
                                 .words = w->micro_words[node],
                                 .x = gpu_in_of(x),
                                 .out = gpu_out_of(out),
                                 .reg = f->reg,
                                 .dreg = f->dreg,
                                 .edge = f->edge,
                                 .dedge = f->dedge,
                                 .dchild = f->dchild,
                                 .in = f->in,
                                 .edge_in = f->edge_in,
                                 .din = f->din,
                                 .units = r->cells.units,
                                 .dim = r->cells.word_cols,
                                 .register_count = r->cells.register_count,
                                 .edge_count = r->cells.edge_count,
                                 .state_count = r->cells.state_count,
                                 .node_inputs = r->cells.node_inputs,
                                 .edge_inputs = r->cells.edge_inputs,
                                 .input_cols = r->cells.input_cols,
                                 .gives_nodes = r->attr.gives,
                                 .out_cols = out.cols};
}

static status launch(const struct tree_pass *t, enum gpu_kernel kernel, uint32_t blocks)
{
    return gpu_launch(t->w->gpu, t->w->stream, kernel, (struct gpu_dim){blocks, 1, 1},
                      (struct gpu_dim){t->threads, 1, 1}, &t->args, sizeof t->args);
}

/* Blocks of a product of words alone, for as many nodes as there may be. */
static uint32_t early_blocks(const struct tree_pass *t, const struct op_context *c, const struct graph_node *n)
{
    const uint32_t blocks = divide_up(t->w->micro * op_keys_max(c->graph, n, 0), TREE_TILE_ROWS);
    return blocks < TREE_EARLY_BLOCKS ? blocks : TREE_EARLY_BLOCKS;
}

GPU_RUN(tree_forward)
{
    struct tree_pass t;
    pass_open(&t, w, c, n);
    for (uint32_t i = 0; i < t.product_count; i++) {
        const struct view weight = op_param(c, n, 2 * i);
        CHECK(weight.stride == weight.cols && weight.rows == t.of[i].terms && weight.cols == t.of[i].cols);
        t.args.weight[i] = weight.data;
        t.args.bias[i] = op_param(c, n, 2 * i + 1).data;
    }
    for (uint32_t i = 0; i < t.product_count; i++) {
        t.args.product = i;
        if (t.of[i].is_early) TRY(launch(&t, GPU_KERNEL_tree_early_forward, early_blocks(&t, c, n)));
    }
    return launch(&t, GPU_KERNEL_tree_forward, t.groups);
}

/* Transposes into scratch memory the weights that the backward pass multiplies by. */
static status weights_transpose(struct tree_pass *t, const struct op_context *c, const struct graph_node *n)
{
    struct tree_transpose_args args = {.from = {NULL}};
    uint32_t terms = 0, cols = 0;
    t->scratch_used = 0;
    if (t->product_count == 0) return ST_OK;
    for (uint32_t i = 0; i < t->product_count; i++) {
        if (t->of[i].is_early && t->args.dx.data == NULL) continue;
        args.from[i] = op_param(c, n, 2 * i).data;
        t->args.weight[i] = args.to[i] = t->w->scratch + t->scratch_used;
        args.terms[i] = t->of[i].terms, args.cols[i] = t->of[i].cols;
        if (terms < args.terms[i]) terms = args.terms[i];
        if (cols < args.cols[i]) cols = args.cols[i];
        t->scratch_used += transposed_floats(&t->of[i]);
    }
    CHECK(t->scratch_used <= t->w->scratch_floats); /* gpu_tree_scratch_floats */
    if (t->scratch_used == 0) return ST_OK;
    return gpu_launch(t->w->gpu, t->w->stream, GPU_KERNEL_tree_transpose,
                      (struct gpu_dim){divide_up(cols, TREE_SIDE), divide_up(terms, TREE_SIDE), t->product_count},
                      (struct gpu_dim){TREE_SIDE, 8, 1}, &args, sizeof args);
}

/* d weight and d bias of a product, of all its rows. */
static status weight_backward(const struct tree_pass *t, const struct op_context *c, const struct graph_node *n,
                              uint32_t product)
{
    const struct tree_product *p = &t->of[product];
    const struct tree_args *a = &t->args;
    const struct view dweight = op_dparam(c, n, 2 * product), dbias = op_dparam(c, n, 2 * product + 1);
    const uint32_t *range = a->words + kinds_at(t->run.cells.kind_count, p->is_edge) + p->kind,
                   outputs = (p->is_edge ? a->edge_count : a->register_count) * a->units,
                   rows_max = t->w->micro * op_keys_max(c->graph, n, 0);
    const float *dout = (p->is_edge ? a->dedge : a->dreg) + p->out_begin,
                *in = (p->is_edge ? a->edge_in : a->in) + p->in_begin;
    const uint32_t in_stride = p->is_edge ? a->edge_inputs : a->node_inputs;
    const struct ranges_sum_args sums = {range, dout, dbias.data, outputs, p->cols};
    const struct product_args product_args = {.now = t->w->now,
                                              .left = product_factor_of(in, p->terms, in_stride),
                                              .right = product_factor_of(dout, p->cols, outputs),
                                              .result = product_result_of(dweight.data, p->cols),
                                              .range = range,
                                              .rows = p->terms,
                                              .cols = p->cols,
                                              .terms = rows_max,
                                              .groups = 1,
                                              .adds = true};
    if (dbias.data != NULL) TRY(gpu_ranges_sum(t->w, &sums, 1));
    if (dweight.data == NULL) return ST_OK;
    return gpu_f32_terms(t->w, &product_args, t->w->scratch + t->scratch_used, t->w->scratch_floats - t->scratch_used);
}

GPU_RUN(tree_backward)
{
    struct tree_pass t;
    const struct view dx = n->input_count > 1 ? op_din(c, n, 1) : (struct view){0};
    pass_open(&t, w, c, n);
    t.args.dout = gpu_in_of(op_dout(c, n));
    t.args.dx = gpu_out_of(dx);
    t.args.dx_cols = dx.cols;
    t.args.dx_adds = dx.data != NULL && op_din_adds(c, n, 1);
    TRY(weights_transpose(&t, c, n));
    TRY(launch(&t, GPU_KERNEL_tree_backward, t.groups));
    for (uint32_t i = 0; i < t.product_count; i++) {
        t.args.product = i;
        if (t.of[i].is_early && dx.data != NULL)
            TRY(launch(&t, GPU_KERNEL_tree_early_backward, early_blocks(&t, c, n)));
    }
    for (uint32_t i = 0; i < t.product_count; i++) TRY(weight_backward(&t, c, n, i));
    return ST_OK;
}
