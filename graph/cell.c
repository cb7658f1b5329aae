/* Cells as words: cuts them apart, and checks them before anything runs them. */
#include "graph/cell.h"

#include <inttypes.h>

#include "engine/base/tree.h"
#include "graph/op.h"

#define WORDS(type) (sizeof(type) / sizeof(uint32_t))

bool cell_view_next(const uint32_t **at, const uint32_t *end, struct cell_view *view)
{
    size_t left = (size_t)(end - *at);
    const struct cell *cell = (const struct cell *)(const void *)*at;
    if (left < WORDS(struct cell)) return false;
    if (cell->product_count > CELL_STEPS_MAX || cell->step_count > CELL_STEPS_MAX ||
        cell->constant_count > CELL_STEPS_MAX)
        return false;
    size_t words = WORDS(struct cell) + cell->product_count * WORDS(struct cell_product) +
                   cell->step_count * WORDS(struct cell_step) + cell->constant_count;
    if (left < words) return false;
    view->cell = cell;
    view->products = (const struct cell_product *)(const void *)(cell + 1);
    view->steps = (const struct cell_step *)(const void *)(view->products + cell->product_count);
    view->constants = (const float *)(const void *)(view->steps + cell->step_count);
    *at += words;
    return true;
}

uint32_t cell_operand_cols(const struct cells *cells, uint32_t operand)
{
    switch (cell_operand(operand).kind) {
    case CELL_WORD: return cells->word_cols;
    case CELL_NUMBER:
    case CELL_CONSTANT: return 1;
    default: return cells->units;
    }
}

uint32_t cell_product_cols(const struct cells *cells, const struct cell_product *p)
{
    uint32_t cols = 0;
    for (uint32_t i = 0; i < p->input_count; i++) cols += cell_operand_cols(cells, p->input[i]);
    return cols;
}

/* Whether a node of this cell, or an edge, may read the operand. */
static bool operand_is_there(const struct cells *cells, const struct cell *cell, uint32_t word, bool of_edge)
{
    struct cell_operand o = cell_operand(word);
    switch (o.kind) {
    case CELL_REGISTER: return o.index < cell->register_count;
    case CELL_EDGE: return of_edge && o.index < cell->edge_count;
    case CELL_WORD: return cells->word_cols > 0 && cell->needs_word;
    case CELL_NUMBER: return cell->needs_number;
    case CELL_CONSTANT: return o.index < cell->constant_count;
    case CELL_STATE: return o.index < cells->state_count && o.child < cell->children_min;
    case CELL_CHILD_STATE: return of_edge && o.index < cells->state_count;
    default: return false;
    }
}

static status product_check(const struct cells *cells, const struct cell *cell, const struct cell_product *p)
{
    uint32_t registers = p->is_edge ? cell->edge_count : cell->register_count;
    if (p->is_edge > 1 || p->output_count == 0 || p->output_count > registers ||
        p->output > registers - p->output_count)
        FAIL(INVALID, "expected a product of 1 to %u outputs, found %u from %u on", registers, p->output_count,
             p->output);
    if (p->input_count == 0 || p->input_count > CELL_INPUTS_MAX)
        FAIL(INVALID, "expected 1 to %u inputs of a product, found %u", CELL_INPUTS_MAX, p->input_count);
    for (uint32_t i = 0; i < p->input_count; i++) {
        enum cell_operand_kind kind = cell_operand(p->input[i]).kind;
        bool is_number = kind == CELL_NUMBER || kind == CELL_CONSTANT;
        if (is_number || !operand_is_there(cells, cell, p->input[i], p->is_edge))
            FAIL(INVALID, "expected a vector as a product's input, found operand %#x", p->input[i]);
    }
    uint64_t weights = (uint64_t)cell_product_cols(cells, p) * p->output_count * cells->units;
    if (weights > OP_PRODUCT_MAX)
        FAIL(INVALID, "expected at most %" PRIu64 " weights of a product, found %" PRIu64, OP_PRODUCT_MAX, weights);
    return ST_OK;
}

static status step_check(const struct cells *cells, const struct cell *cell, const struct cell_step *s)
{
    if (s->op >= CELL_OP_COUNT) FAIL(INVALID, "expected a step below %d, found %u", CELL_OP_COUNT, s->op);
    if (s->op == CELL_PRODUCT && s->a < cell->product_count) return ST_OK;
    struct cell_operand to = cell_operand(s->to);
    bool of_edge = to.kind == CELL_EDGE, is_fold = cell_step_is_fold(s), has_b = cell_step_has_b(s);
    bool is_right = s->op != CELL_PRODUCT && (to.kind == CELL_REGISTER || (of_edge && !is_fold)) &&
                    operand_is_there(cells, cell, s->to, of_edge) &&
                    operand_is_there(cells, cell, s->a, of_edge || is_fold);
    if (is_right && has_b) is_right = operand_is_there(cells, cell, s->b, of_edge);
    if (is_right && s->op == CELL_ACTIVATE) is_right = s->b < ACT_COUNT;
    if (!is_right)
        FAIL(INVALID, "expected a step on what the cell has, found step %u of %#x, %#x, %#x", s->op, s->to, s->a, s->b);
    return ST_OK;
}

#define RAISE(most, value)                                                                                             \
    do {                                                                                                               \
        if ((value) > (most)) (most) = (value);                                                                        \
    } while (0)

/* Checks that x is there if the cell reads it, and, outside of products, is as wide as a state. */
static status word_check(const struct cells *cells, const struct cell_view *v)
{
    if (v->cell->needs_word > (cells->word_cols > 0))
        FAIL(INVALID, "the cells read x, the vector of a node's word: "
                      "expected an [embedding] with pool = none as the second input, found none");
    for (uint32_t i = 0; i < v->cell->step_count; i++) {
        const struct cell_step *s = &v->steps[i];
        bool reads = s->op != CELL_PRODUCT && (cell_operand(s->a).kind == CELL_WORD ||
                                               (cell_step_has_b(s) && cell_operand(s->b).kind == CELL_WORD));
        if (reads && cells->word_cols != cells->units)
            FAIL(INVALID, "outside of affine(…) x is as wide as a state: expected dim = units = %u, found dim = %u",
                 cells->units, cells->word_cols);
    }
    return ST_OK;
}

static status cell_check(struct cells *cells, const struct cell_view *v)
{
    const struct cell *c = v->cell;
    if (c->register_count == 0 || c->register_count > CELL_REGISTERS_MAX || c->edge_count > CELL_REGISTERS_MAX)
        FAIL(INVALID, "expected 1 to %u registers, found %u and %u of edges", CELL_REGISTERS_MAX, c->register_count,
             c->edge_count);
    if (c->children_min > c->children_max || c->children_max > TREE_CHILDREN_MAX || c->needs_word > 1 ||
        c->needs_number > 1)
        FAIL(INVALID, "expected a range of at most %u children, found %u to %u", TREE_CHILDREN_MAX, c->children_min,
             c->children_max);
    for (uint32_t i = 0; i < cells->state_count; i++)
        if (c->state[i] >= c->register_count)
            FAIL(INVALID, "expected a state's register below %u, found %u", c->register_count, c->state[i]);
    TRY(word_check(cells, v));
    uint64_t inputs[2] = {0, 0}; /* of nodes, of edges */
    for (uint32_t i = 0; i < c->product_count; i++) {
        const struct cell_product *p = &v->products[i];
        TRY(product_check(cells, c, p));
        uint32_t cols = cell_product_cols(cells, p);
        RAISE(cells->input_cols, cols);
        inputs[p->is_edge] += cols;
        RAISE(cells->output_cols, p->output_count * cells->units);
        cells->flops += 2 * (uint64_t)cols * p->output_count * cells->units;
    }
    if (inputs[0] > OP_COLS_MAX || inputs[1] > OP_COLS_MAX)
        FAIL(INVALID, "expected at most %u columns of inputs of products", OP_COLS_MAX);
    RAISE(cells->node_inputs, (uint32_t)inputs[0]);
    RAISE(cells->edge_inputs, (uint32_t)inputs[1]);
    for (uint32_t i = 0; i < c->step_count; i++) TRY(step_check(cells, c, &v->steps[i]));
    cells->product_count += c->product_count;
    RAISE(cells->register_count, c->register_count);
    RAISE(cells->edge_count, c->edge_count);
    return ST_OK;
}

status cells_check(struct cells *cells, const uint32_t *program, uint32_t word_count)
{
    const uint32_t *at = program, *end = program + word_count;
    struct cell_view view;
    if (cells->units == 0 || cells->units > OP_COLS_MAX / CELL_REGISTERS_MAX)
        FAIL(INVALID, "expected 1 to %u units, found %u", OP_COLS_MAX / CELL_REGISTERS_MAX, cells->units);
    if (cells->state_count == 0 || cells->state_count > CELL_STATES_MAX)
        FAIL(INVALID, "expected 1 to %u states, found %u", CELL_STATES_MAX, cells->state_count);
    while (at < end) {
        if (cells->kind_count == TREE_KINDS_MAX || !cell_view_next(&at, end, &view))
            FAIL(INVALID, "expected at most %u whole cells, found others", TREE_KINDS_MAX);
        TRY(cell_check(cells, &view));
        cells->kind_count++;
    }
    if (cells->kind_count == 0) FAIL(INVALID, "expected one cell or more, found none");
    cells->flops /= cells->kind_count;
    return ST_OK;
}
