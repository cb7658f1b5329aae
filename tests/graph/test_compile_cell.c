/* Equations of cells: what they become, and what is wrong with others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/compile_cell.h"

static const char *const states[] = {"h", "c"};

/* Compiles the lines of [cell k]; the words are the caller's. */
static status cell_of(const char *lines, uint32_t **words, uint32_t *count)
{
    char text[8192 + 16];
    struct ini ini;
    snprintf(text, sizeof text, "[cell k]\n%s", lines);
    if (ini_parse(&ini, "test.cfg", text, strlen(text)) != ST_OK) fail_msg("%s", status_message());
    status st = cell_compile(&ini, &ini.sections[0], states, 2, words, count);
    ini_free(&ini);
    return st;
}

static void cell_compile__binary__has_one_product_and_no_copies(void **state)
{
    (void)state;
    uint32_t *words, count;
    assert_int_equal(cell_of("i = sigmoid(affine(left.h, right.h))\nl = sigmoid(affine(left.h, right.h))\n"
                             "u = tanh(affine(left.h, right.h))\nc = i * u + l * left.c\nh = tanh(c)\n",
                             &words, &count),
                     ST_OK);
    const uint32_t *at = words;
    struct cell_view v;
    assert_true(cell_view_next(&at, words + count, &v));
    assert_ptr_equal(at, words + count);
    assert_int_equal(v.cell->product_count, 1);
    assert_int_equal(v.products[0].output_count, 3);
    assert_int_equal(v.cell->register_count, 5);
    assert_int_equal(v.cell->edge_count, 0);
    assert_int_equal(v.cell->children_min, 2);
    assert_int_equal(v.cell->children_max, 2);
    assert_int_equal(v.cell->state[0], 4);
    assert_int_equal(v.cell->state[1], 3);
    static const enum cell_op ops[] = {CELL_PRODUCT,  CELL_ACTIVATE, CELL_ACTIVATE, CELL_ACTIVATE,
                                       CELL_MULTIPLY, CELL_FMA,      CELL_ACTIVATE};
    assert_int_equal(v.cell->step_count, 7);
    for (uint32_t i = 0; i < 7; i++) assert_int_equal(v.steps[i].op, ops[i]);
    struct cells cells = {.units = 4, .state_count = 2};
    assert_int_equal(cells_check(&cells, words, count), ST_OK);
    assert_int_equal(cells.input_cols, 8);
    assert_int_equal(cells.output_cols, 12);
    free(words);
}

/* What an activation gives is read again; a name, too. */
static void cell_compile__kept__is_not_written_over(void **state)
{
    (void)state;
    static const char *const lines[] = {"c = tanh(number * x) + 1\nh = c\n", "t = number * x\nc = t + 1\nh = t\n",
                                        "c = sigmoid(x) + x * x\nh = x - number\n"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        uint32_t *words, count;
        const uint32_t *at;
        struct cell_view v;
        assert_int_equal(cell_of(lines[i], &words, &count), ST_OK);
        at = words;
        assert_true(cell_view_next(&at, words + count, &v));
        for (uint32_t s = 0; s < v.cell->step_count; s++)
            if (v.steps[s].op == CELL_ADD || v.steps[s].op == CELL_FMA)
                assert_int_not_equal(v.steps[s].to, v.steps[s].a);
        free(words);
    }
}

static void cell_compile__wrong__says_where(void **state)
{
    (void)state;
    static const struct {
        const char *lines, *says;
    } cases[] = {
        {"c = x\n", "test.cfg:1: [cell k]: expected a line h = …"},
        {"h = x +\nc = x\n", "test.cfg:2: [cell k] h: expected a name, a number or '(', found \"\""},
        {"h = y\nc = x\n", "expected x, number, or a line above, found \"y\""},
        {"h = x x\nc = x\n", "expected the end of the line, or + - *, found \"x\""},
        {"h = left.q\nc = x\n", "expected a state of the tree, found \"q\""},
        {"h = child.h\nc = x\n", "expected it within sum(…) or prod(…)"},
        {"h = sum(x)\nc = x\n", "expected child.STATE within sum(…) or prod(…)"},
        {"h = sum(tanh(affine(x)))\nc = x\n", "[cell k] h: expected child.STATE within sum(…) or prod(…)"},
        {"c = prod(child.h * x)\nh = sum(x + left.c)\n", "[cell k] h: expected child.STATE within sum(…) or prod(…)"},
        {"h = sum(sum(child.h))\nc = x\n", "expected no sum(…) or prod(…) within another"},
        {"h = relo(x)\nc = x\n", "before '(', found \"relo\""},
        {"h = affine(number)\nc = x\n", "expected vectors in affine(…), found a single number"},
        {"h = affine(x\nc = x\n", "expected ')', found \"\""},
        {"h = child0.h\nc = x\n", "expected child1 to child64, found \"child0\""},
        {"h = (x\nc = x\n", "expected ')'"},
        {"x = tanh(affine(x))\nh = x\nc = h\n", "test.cfg:2: [cell k] x: expected another name for the line: x is"},
        {"number = 2\nh = number * x\nc = h\n", "[cell k] number: expected another name for the line"},
        {"h = 1e99\nc = x\n", "expected a name, a number or '('"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint32_t *words = NULL, count;
        if (cell_of(cases[i].lines, &words, &count) == ST_OK) fail_msg("case %zu is accepted", i);
        if (strstr(status_message(), cases[i].says) == NULL)
            fail_msg("case %zu: expected \"%s\" in \"%s\"", i, cases[i].says, status_message());
    }
    /* Brackets without end, many lines, many steps. */
    char lines[2000] = "h = ";
    memset(lines + 4, '(', 1000);
    uint32_t *words = NULL, count;
    assert_int_not_equal(cell_of(lines, &words, &count), ST_OK);
}

/* Any one word changed gives a cell that holds within its bounds, or is refused. */
static void cells_check__damaged__is_refused_or_whole(void **state)
{
    (void)state;
    uint32_t *words, count, refused = 0;
    assert_int_equal(cell_of("s = sum(child.h)\nc = affine(x, s) + sum(tanh(affine(x, child.h)) * child.c)\n"
                             "h = sin(c) * number - 2\n",
                             &words, &count),
                     ST_OK);
    static const uint32_t values[] = {0,          1,          2,          7,          64,        0xfff,
                                      0x10000000, 0x20000000, 0x50000001, 0x7fffffff, UINT32_MAX};
    for (uint32_t i = 0; i < count; i++)
        for (size_t value = 0; value < sizeof values / sizeof *values; value++) {
            uint32_t kept = words[i];
            struct cells cells = {.units = 3, .word_cols = 5, .state_count = 2};
            words[i] = values[value];
            refused += cells_check(&cells, words, count) != ST_OK;
            words[i] = kept;
        }
    assert_in_range(refused, count * 4, count * 10);
    struct cells none = {.units = 3, .word_cols = 5, .state_count = 2};
    assert_int_not_equal(cells_check(&none, words, count - 1), ST_OK);
    free(words);
}

/* A product of as many outputs. */
static void wide_cell(uint32_t outputs, uint32_t **words, uint32_t *count)
{
    char text[8192], *at = text;
    for (uint32_t i = 0; i < outputs; i++) at += sprintf(at, "t%u = affine(x)\n", i);
    for (uint32_t i = 1; i < outputs; i++) at += sprintf(at, "s%u = %s%u + t%u\n", i, i > 1 ? "s" : "t", i - 1, i);
    sprintf(at, "h = tanh(%s%u)\nc = h\n", outputs > 1 ? "s" : "t", outputs - 1);
    if (cell_of(text, words, count) != ST_OK) fail_msg("%s", status_message());
}

/* 2^18 units, 2^36 weights, 2^24 columns of inputs, and not one more. */
static void cells_check__sizes_of_products__up_to_their_bounds(void **state)
{
    (void)state;
    static const struct {
        uint32_t outputs, units, word_cols;
        const char *says;
    } cases[] = {
        {16, 1u << 18, 2, NULL},
        {16, (1u << 18) + 1, 2, "1 to 262144 units, found 262145"},
        {16, 1u << 18, 1u << 14, NULL},
        {16, 1u << 18, (1u << 14) + 1, "at most 68719476736 weights of a product, found 68723671040"},
        {17, 104353, 38737, "found 68719476737"},
        {1, 1, 1u << 24, NULL},
        {1, 1, (1u << 24) + 1, "at most 16777216 columns of inputs of products"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint32_t *words, count;
        const uint32_t outputs = cases[i].outputs;
        struct cells cells = {.units = cases[i].units, .word_cols = cases[i].word_cols, .state_count = 2};
        wide_cell(outputs, &words, &count);
        const status st = cells_check(&cells, words, count);
        free(words);
        if (st != (cases[i].says ? ST_INVALID : ST_OK)) fail_msg("case %zu: %s", i, status_message());
        if (cases[i].says && strstr(status_message(), cases[i].says) == NULL) fail_msg("%s", status_message());
        if (cases[i].says) continue;
        assert_int_equal(cells.output_cols, outputs * cases[i].units);
        assert_int_equal(cells.input_cols, cases[i].word_cols);
        assert_int_equal(cells.node_inputs, cases[i].word_cols);
        assert_true(cells.flops == 2 * (uint64_t)outputs * cases[i].units * cases[i].word_cols);
    }
    uint32_t *words, count; /* of edges */
    assert_int_equal(cell_of("h = sum(tanh(affine(child.h, x)))\nc = h\n", &words, &count), ST_OK);
    struct cells cells = {.units = 2, .word_cols = (1u << 24) - 2, .state_count = 2};
    assert_int_equal(cells_check(&cells, words, count), ST_OK);
    assert_int_equal(cells.edge_inputs, 1u << 24);
    cells = (struct cells){.units = 2, .word_cols = (1u << 24) - 1, .state_count = 2};
    assert_int_equal(cells_check(&cells, words, count), ST_INVALID);
    free(words);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cell_compile__binary__has_one_product_and_no_copies),
        cmocka_unit_test(cell_compile__kept__is_not_written_over),
        cmocka_unit_test(cell_compile__wrong__says_where),
        cmocka_unit_test(cells_check__damaged__is_refused_or_whole),
        cmocka_unit_test(cells_check__sizes_of_products__up_to_their_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
