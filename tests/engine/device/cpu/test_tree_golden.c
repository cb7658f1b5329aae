/* Tree-LSTMs, child-sum cells and sequences against PyTorch's autograd in double precision: outputs of all
 * nodes and gradients of words, weights and biases, of 50 trees a cell. tests/golden/trees, written by
 * tests/quality/trees_gradients.py, which says its layout. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/tree.h"
#include "engine/device/cpu/cpu_device.h"
#include "tests/graph/rig.h"

#define DIM       3u
#define UNITS     4u
#define NODES_MAX 16u
#define CELLS     5u
#define TREES     50u
/* Of an array's norm: some hundred sums in float32. */
#define TOLERANCE 1e-6

static double error_worst;
static uint32_t tree_count;

static double value(uint32_t array, uint32_t i)
{
    uint32_t bits = (i + 1) * 2654435761u + (array + 1) * 2246822519u;
    bits = (bits ^ bits >> 15) * 2246822519u;
    bits ^= bits >> 13;
    return (bits >> 24) / 128.0 - 1;
}

/* "KIND LINE; LINE" becomes [cell KIND] and its lines. */
static void kind_put(char *model, char *kinds, char *line, bool *has_c)
{
    char *lines = strchr(line, ' '), *rest = lines + 1, *equation;
    *lines = 0;
    sprintf(kinds + strlen(kinds), "%s%s", *kinds ? ", " : "", line);
    sprintf(model + strlen(model), "[cell %s]\n", line);
    while ((equation = strsep(&rest, ";\n")) != NULL) {
        equation += strspn(equation, " ");
        if (strncmp(equation, "c =", 3) == 0) *has_c = true;
        if (*equation) sprintf(model + strlen(model), "%s\n", equation);
    }
}

/* The cell's model; its words are a table's rows, one a key, and the loss reads all nodes. */
static void model_open(struct graph *g, const char *kinds, const char *cells, bool has_c)
{
    char text[4096];
    snprintf(text, sizeof text,
             "[data]\nformat = trees\nsparse = word, tree\nids_max = %u\nkinds = %s\n[table w]\ndim = %u\n"
             "[embedding e]\ntable = w\ninput = word\npool = none\n%s[tree t]\ninput = tree, e\nunits = %u\ndim = %u\n"
             "state = h%s\ngives = nodes\n[fc y]\ninput = t\nunits = 1\n[loss l]\ninput = y\n[train]\nbatch = 1\n",
             NODES_MAX, kinds, DIM, cells, UNITS, DIM, has_c ? ", c" : "");
    if (graph_compile(g, "golden.cfg", text, strlen(text), NULL, 0, NULL) != ST_OK) fail_msg("%s", status_message());
}

/* The next array of the line: its two projections and norm against what `found` [count] has. */
static void array_check(char **rest, const char *name, const float *found, uint32_t count)
{
    double first, second, norm, sums[2] = {0, 0};
    char told[16];
    int bytes;
    if (sscanf(*rest, " | %15s %lf %lf %lf%n", told, &first, &second, &norm, &bytes) != 4) fail_msg("\"%s\"", *rest);
    assert_string_equal(told, name);
    *rest += bytes;
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t k = 0; k < 2; k++) sums[k] += (double)found[i] * value(300 + k, i);
    double error = fmax(fabs(sums[0] - first), fabs(sums[1] - second)) / fmax(norm, 1);
    if (error > error_worst) error_worst = error;
    if (!(error <= TOLERANCE))
        fail_msg("tree %u, %s: expected %.9g and %.9g, found %.9g and %.9g (norm %g)", tree_count, name, first, second,
                 sums[0], sums[1], norm);
}

/* One tree as a micro-batch of its own, without a store: the words' vectors are set
 * where the embedding would. */
struct one_tree {
    const struct graph *g;
    const struct graph_node *tree;
    uint64_t key[2 * NODES_MAX];
    uint32_t key_begin[3], node_count, word_count;
    struct micro_batch m;
    struct view *tensor;
    uint8_t *slot;
    float *param, *grad;
    struct op_context context;
};

static void one_open(struct one_tree *o, const struct graph *g)
{
    *o = (struct one_tree){.g = g, .tree = g->nodes};
    while (o->tree->op != OP_ID_tree) o->tree++;
    o->slot = rig_take(g->header->slot_bytes);
    o->param = rig_take(g->header->param_floats * sizeof *o->param);
    o->grad = rig_take(g->header->grad_floats * sizeof *o->grad);
    o->tensor = rig_take(g->tensor_count * sizeof *o->tensor);
    for (uint32_t i = 0; i < g->tensor_count; i++) {
        const struct graph_tensor *t = &g->tensors[i];
        struct view *v = &o->tensor[i];
        *v = (struct view){.rows = t->rows ? t->rows : 1, .cols = t->cols, .stride = t->stride};
        if (t->kind == TENSOR_ACTIVATION) v->data = (float *)(void *)(o->slot + t->offset);
        if (t->kind == TENSOR_PARAM) v->data = o->param + t->offset;
        if (t->kind == TENSOR_PARAM_GRAD) v->data = o->grad + t->offset;
    }
    o->m = (struct micro_batch){.example_count = 1, .key = o->key, .key_begin = o->key_begin};
    o->context = (struct op_context){.graph = g, .tensor = o->tensor, .batch = &o->m, .training = true};
    for (uint32_t p = 0; p < o->tree->param_count; p++) {
        struct view v = op_param(&o->context, o->tree, p);
        for (uint32_t i = 0; i < v.rows * v.cols; i++) v.data[i / v.cols * v.stride + i % v.cols] = (float)value(p, i);
    }
}

static void one_close(struct one_tree *o) { free(o->slot), free(o->param), free(o->grad), free(o->tensor); }

/* Number i of all nodes' states in their order, where the op has it: the last node first. */
static float *last_first(const struct one_tree *o, struct view v, uint32_t i)
{
    return &v.data[(o->node_count - 1 - i / UNITS) * UNITS + i % UNITS];
}

/* "0 0 2 | …": children of each node; sets words, keys and the output's gradient. */
static void one_read(struct one_tree *o, char **rest, uint32_t number, uint32_t kind_count)
{
    uint64_t nodes[NODES_MAX];
    o->node_count = o->word_count = 0;
    struct view x = op_in(&o->context, o->tree, 1), dout = op_dout(&o->context, o->tree);
    memset(o->slot, 0, o->g->header->slot_bytes);
    memset(o->grad, 0, o->g->header->grad_floats * sizeof *o->grad);
    for (char *end; **rest != '|'; *rest = end + strspn(end, " ")) {
        uint32_t children = (uint32_t)strtoul(*rest, &end, 10);
        bool has_word = kind_count == 1 || children == 0 || strstr(o->g->text, "affine(x, left.h)");
        assert_true(o->node_count < NODES_MAX);
        nodes[o->node_count++] = tree_key(children ? kind_count - 1 : 0, children, has_word, NAN);
        o->word_count += has_word;
    }
    *rest -= 1; /* the blank before the bar */
    for (uint32_t i = 0; i < o->word_count * DIM; i++) x.data[i] = (float)value(100 + 2 * number, i);
    for (uint32_t i = 0; i < o->node_count * UNITS; i++) *last_first(o, dout, i) = (float)value(101 + 2 * number, i);
    memcpy(o->key + o->word_count, nodes, o->node_count * sizeof *nodes);
    o->key_begin[1] = o->word_count;
    o->key_begin[2] = o->m.key_count = o->word_count + o->node_count;
}

static void one_check(struct one_tree *o, struct device *device, char *rest)
{
    struct view out = op_out(&o->context, o->tree), dx = op_din(&o->context, o->tree, 1);
    float *kept = rig_take(NODES_MAX * UNITS * sizeof *kept), *dense = rig_take(4096 * sizeof *dense);
    assert_int_equal(device_submit(device, &o->context, o->tree, 1), ST_OK);
    for (uint32_t i = 0; i < o->node_count * UNITS; i++) kept[i] = *last_first(o, out, i);
    assert_int_equal(device_submit(device, &o->context, &o->g->nodes[o->tree->other], 1), ST_OK);
    array_check(&rest, "h", kept, o->node_count * UNITS);
    array_check(&rest, "dx", dx.data, o->word_count * DIM);
    for (uint32_t p = 0; p < o->tree->param_count; p++) {
        char name[16];
        struct view v = op_dparam(&o->context, o->tree, p);
        assert_true(v.rows * v.cols <= 4096);
        for (uint32_t i = 0; i < v.rows * v.cols; i++) dense[i] = v.data[i / v.cols * v.stride + i % v.cols];
        snprintf(name, sizeof name, p % 2 ? "db%u" : "dw%u", p / 2);
        array_check(&rest, name, dense, v.rows * v.cols);
    }
    free(kept);
    free(dense);
}

static void tree__cells_of_papers__have_the_gradients_of_pytorch(void **state)
{
    (void)state;
    FILE *file = fopen("tests/golden/trees", "r");
    assert_non_null(file);
    char *line = NULL, kinds[256] = "", cells[2048] = "";
    size_t line_bytes = 0;
    struct graph g = {0};
    struct one_tree o;
    struct device *device = NULL;
    uint32_t cell_count = 0, kind_count = 0, number = 0;
    bool has_c = false, is_end = false;
    while (!is_end) {
        is_end = getline(&line, &line_bytes, file) < 0;
        if ((is_end || strncmp(line, "cell ", 5) == 0) && device) {
            device_close(device);
            one_close(&o);
            graph_close(&g);
            device = NULL;
        }
        if (is_end) break;
        if (strncmp(line, "cell ", 5) == 0) {
            cell_count++;
            *kinds = *cells = 0;
            kind_count = number = 0;
            has_c = false;
        } else if (strncmp(line, "kind ", 5) == 0) {
            kind_put(cells, kinds, line + 5, &has_c);
            kind_count++;
        } else {
            char *rest = line + 5;
            if (device == NULL) {
                model_open(&g, kinds, cells, has_c);
                one_open(&o, &g);
                assert_int_equal(cpu_device_open(&device, &g, 2, NULL, isa_names[isa_best()]), ST_OK);
            }
            one_read(&o, &rest, number++, kind_count);
            one_check(&o, device, rest);
            tree_count++;
        }
    }
    free(line);
    fclose(file);
    assert_int_equal(cell_count, CELLS);
    assert_int_equal(tree_count, CELLS * TREES);
    printf("# %u trees of %u cells, %s: worst difference %.1e of a norm, tolerance %.1e\n", tree_count, cell_count,
           isa_names[isa_best()], error_worst, TOLERANCE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tree__cells_of_papers__have_the_gradients_of_pytorch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
