/* Runs the tree op of a graph by itself, with random values.
 *
 *     with        LEVELS nodes of the kind, one over the other, each with leaves as its other children
 *     without     the same number of leaves alone
 *
 * An example is one of these. With n examples a launch has n nodes of the kind; a launch's time is the
 * difference of the two runs over LEVELS. A kind without children is measured as leaves alone. */
#include "engine/bench/cell_times.h"

#include <math.h>

#include "engine/base/fit.h"
#include "engine/bench/hand_graph.h"
#include "engine/bench/watch.h"
#include "engine/device/cpu/cpu_device.h"

#define LEVELS      2u
#define REPEATS     9u
#define BYTES_MAX   (768.0 * 1024 * 1024) /* of the op's memory, at most */
#define SECONDS_MIN 1e-9
#define RUN_SECONDS 0.4 /* a longer run is the last of its kind */

struct rig {
    const struct cell_times_options *o;
    const struct graph_node *node;
    struct hand_graph h;
    struct graph_field field;
    uint32_t *args; /* the hand graph's, then the cells' programs */
    uint32_t out, words, saved, saved_cols;
    uint32_t examples_max, leaf; /* leaf: its kind */
    uint64_t *keys;
    uint32_t *key_begin;
    struct device *device;
};

static void rig_close(struct rig *r)
{
    device_close(r->device);
    hand_close(&r->h);
    free(r->args);
    free(r->keys);
    free(r->key_begin);
}

/* Makes the op's tensors; lowers examples_max to bound its memory. */
static status tensors_make(struct rig *r, struct hand_tensors *in, struct hand_tensors *param,
                           struct hand_tensors *saved, struct tree_attr attr)
{
    const uint32_t key_max = r->field.ids_max, word_cols = r->node->input_count > 1 ? key_max * attr.dim : 0;
    struct op_shape shape = {.attr = (const uint8_t *)&attr,
                             .input_count = r->node->input_count,
                             .input_cols = (uint32_t[]){0, word_cols},
                             .input_keys = (uint32_t[]){key_max, 0},
                             .program = r->o->graph->args + r->node->program_begin,
                             .program_count = tree_cell_words(r->node)};
    TRY(op_table[OP_ID_tree].shape(&shape, NULL, 0));
    r->saved_cols = shape.saved[0].cols;
    const double bytes = (double)sizeof(float) * (r->saved_cols + word_cols + shape.output_cols);
    while (r->examples_max > 1 && r->examples_max * bytes > BYTES_MAX) r->examples_max /= 2;
    in->t[in->count++] = hand_field(&r->h, 0);
    if (word_cols) in->t[in->count++] = r->words = hand_tensor(&r->h, r->examples_max, word_cols, word_cols);
    for (uint32_t i = 0; i < shape.param_count; i++)
        param->t[param->count++] = hand_tensor(&r->h, shape.param[i].rows, shape.param[i].cols, shape.param[i].cols);
    r->out = hand_tensor(&r->h, r->examples_max, shape.output_cols, odd_lines_floats(shape.output_cols));
    /* Nothing reads its old content, so it is not filled. */
    r->saved = saved->t[saved->count++] = hand_tensor(&r->h, 0, r->saved_cols, r->saved_cols);
    free(r->h.view[r->saved].data);
    r->h.view[r->saved].data = hand_block((size_t)r->examples_max * r->saved_cols);
    if (r->h.view[r->saved].data == NULL) r->h.is_lacking = true;
    return ST_OK;
}

static status rig_open(struct rig *r, const struct cell_times_options *o, uint32_t key_max)
{
    struct tree_attr attr;
    struct hand_tensors in = {0}, param = {0}, saved = {0};
    *r = (struct rig){.o = o, .node = &o->graph->nodes[o->tree], .examples_max = 1 << (PLACE_SIZES - 1)};
    r->field = (struct graph_field){.ids_max = key_max};
    while (r->leaf < o->cells->kind_count && o->cells->children_min[r->leaf] > 0) r->leaf++;
    if (r->leaf == o->cells->kind_count) FAIL(INVALID, "expected a [cell] whose nodes need no children, found none");
    memcpy(&attr, r->node->attr, sizeof attr);
    attr.units = o->cells->units;
    attr.gives = 0;
    attr.batching = TREE_BY_HEIGHT; /* a launch has all nodes of a level, whatever the graph says */
    attr.automaton_words = 0;
    hand_open(&r->h, r->examples_max, 1);
    r->h.graph.fields = &r->field;
    r->h.graph.field_count = 1;
    TRY(tensors_make(r, &in, &param, &saved, attr));
    struct graph_node *n = hand_node(&r->h, OP_ID_tree, in, param, r->out, saved, &attr, sizeof attr, NULL);
    const uint32_t cell_words = tree_cell_words(r->node);
    r->args = malloc((r->h.graph.arg_count + cell_words) * sizeof *r->args);
    r->keys = malloc((size_t)r->examples_max * key_max * sizeof *r->keys);
    r->key_begin = malloc((r->examples_max + 1) * sizeof *r->key_begin);
    if (r->args == NULL || r->keys == NULL || r->key_begin == NULL || r->h.is_lacking)
        FAIL(MEMORY, "no memory to measure trees of %u units", attr.units);
    memcpy(r->args, r->h.args, r->h.graph.arg_count * sizeof *r->args);
    memcpy(r->args + r->h.graph.arg_count, o->graph->args + r->node->program_begin, cell_words * sizeof *r->args);
    n->program_begin = r->h.graph.arg_count;
    n->program_count = cell_words;
    r->h.graph.args = r->args;
    r->h.graph.arg_count += n->program_count;
    r->h.header.batch = r->h.header.micro = r->examples_max;
    r->h.batch.key = r->keys;
    r->h.batch.key_begin = r->key_begin;
    return cpu_device_open(&r->device, &r->h.graph, o->threads, NULL, o->isa);
}

/* --- runs --------------------------------------------------------------------------------------- */

static void key_put(struct rig *r, uint32_t kind, uint32_t children)
{
    r->keys[r->h.batch.key_count++] = tree_key(kind, children, r->o->cells->word_bytes[kind] > 0, 0.5f);
}

/* Makes examples with `levels` levels of a kind over `leaves` leaves, or,
 * with levels 0, of the leaves alone. */
static void examples_make(struct rig *r, uint32_t examples, uint32_t kind, uint32_t levels, uint32_t leaves)
{
    const uint32_t children = r->o->cells->children[kind];
    r->h.batch.example_count = examples;
    r->h.batch.key_count = r->key_begin[0] = 0;
    for (uint32_t e = 0; e < examples; e++) {
        for (uint32_t i = 0; i < leaves && levels == 0; i++) key_put(r, r->leaf, 0);
        for (uint32_t i = 0; i < levels; i++) {
            for (uint32_t c = i > 0; c < children; c++) key_put(r, r->leaf, 0);
            key_put(r, kind, children);
        }
        r->key_begin[e + 1] = r->h.batch.key_count;
    }
    for (uint32_t t = 0; t < r->h.graph.tensor_count; t++)
        if (t == r->out || t == r->saved || (r->node->input_count > 1 && t == r->words)) r->h.view[t].rows = examples;
}

static double run_seconds(struct rig *r)
{
    const uint64_t begin_ns = watch_ns(r->o->threads);
    CHECK(device_submit(r->device, &r->h.context, &r->h.node[0], 1) == ST_OK);
    return (double)(watch_ns(r->o->threads) - begin_ns) * 1e-9;
}

/* Seconds of a launch with `nodes` nodes of the kind; *longest: of the longest run. */
static double launch_seconds(struct rig *r, uint32_t kind, uint32_t nodes, double *longest)
{
    const uint32_t children = r->o->cells->children[kind], leaves = children ? LEVELS * (children - 1) + 1 : 1;
    double times[REPEATS];
    uint32_t count = 0;
    *longest = 0;
    for (uint32_t i = 0; i <= REPEATS; i++) {
        double seconds, less = 0;
        if (children > 0) {
            examples_make(r, nodes, kind, 0, leaves);
            less = run_seconds(r);
        }
        examples_make(r, nodes, kind, children ? LEVELS : 0, leaves);
        seconds = run_seconds(r);
        *longest = fmax(*longest, seconds);
        if (i > 0 || seconds > RUN_SECONDS) times[count++] = children ? (seconds - less) / LEVELS : seconds;
        if (seconds > RUN_SECONDS) break;
    }
    return fit_quantile(times, count, 0.5);
}

/* Extends the times to sizes from `measured` on, in a line from the last, of the upper half's slope. */
static void sizes_extend(double seconds[PLACE_SIZES], uint32_t measured)
{
    double nodes[PLACE_SIZES];
    for (uint32_t i = 0; i < PLACE_SIZES; i++) nodes[i] = (double)(UINT32_C(1) << i);
    const uint32_t first = measured / 2, last = measured - 1;
    const struct fit_line line = fit_line(nodes + first, seconds + first, measured - first);
    for (uint32_t i = measured; i < PLACE_SIZES; i++)
        seconds[i] = seconds[last] + line.slope * (nodes[i] - nodes[last]);
}

static void kind_measure(struct rig *r, uint32_t kind, double seconds[PLACE_SIZES], double seconds_max)
{
    double longest = 0, spent = 0, least = SECONDS_MIN;
    uint32_t size = 0;
    for (; size < PLACE_SIZES && UINT32_C(1) << size <= r->examples_max && longest < RUN_SECONDS; size++) {
        if (size > 0 && spent + 2 * longest * (REPEATS + 1) > seconds_max) break;
        seconds[size] = least = fmax(least, launch_seconds(r, kind, UINT32_C(1) << size, &longest));
        spent += longest * (REPEATS + 1);
    }
    sizes_extend(seconds, size);
}

status cell_times_measure(double seconds[PLACE_KINDS_MAX][PLACE_SIZES], const struct cell_times_options *o)
{
    status st = ST_OK;
    for (uint32_t k = 0; k < o->cells->kind_count && st == ST_OK; k++) {
        struct rig *r = malloc(sizeof *r);
        if (r == NULL) FAIL(MEMORY, "no memory to measure trees");
        const uint32_t children = o->cells->children[k];
        st = rig_open(r, o, children ? LEVELS * children + 1 : 1);
        if (st == ST_OK) kind_measure(r, k, seconds[k], o->seconds / o->cells->kind_count);
        rig_close(r);
        free(r);
    }
    return st;
}
