/* What each policy of batching the nodes of trees gains, as Markdown: forward passes of [tree], and backward
 * passes where cells have weights, by each policy in turn, on MathFunc and on graphs of nodes of three kinds;
 * by one thread, in its processor time.
 *
 *     tree_batching [--rounds N] [--isa NAME]
 *
 * A pass takes about nodes * a + batches * b; a and b follow from the times of each node by itself and of
 * heights. "no batch" is the time of a pass if batches cost nothing, which bounds every policy's gain over
 * heights; "fewest" is its time with as many batches as itinerary_bound says. Medians of rounds. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cfg/key.h"
#include "engine/base/clock.h"
#include "engine/device/cpu/cpu_device.h"
#include "graph/device.h"
#include "sched/trees/automaton_learn.h"
#include "sched/trees/random_trees.h"

#define SETS       20u
#define TREES      25u
#define KEY_MAX    4000u
#define ROUNDS_MAX 99u
#define POLICIES   4u

static const char *const policy_names[POLICIES] = {"node", "height", "agenda", "learned"};
static const batching_id policy_ids[POLICIES] = {BATCHING_ID_per_node, BATCHING_ID_by_height, BATCHING_ID_agenda,
                                                 BATCHING_ID_learned};
static uint32_t rounds = 9;
static const char *isa = NULL;

static const struct family {
    const char *name, *kinds, *cells;
    uint32_t kind_count, examples, key_max, units;
} families[] = {
#define MATH                                                                                                           \
    "[cell const]\nv = number\n[cell sin]\nv = sin(left.v)\n[cell cos]\nv = cos(left.v)\n"                             \
    "[cell add]\nv = sum(child.v)\n[cell mul]\nv = prod(child.v)\n"
#define THREE                                                                                                          \
    "[cell a]\ns = sum(child.v)\nv = tanh(affine(s))\n[cell b]\ns = sum(child.v)\nv = sigmoid(affine(s)) * s\n"        \
    "[cell c]\ns = sum(child.v)\nv = softsign(affine(s) + s)\n"
    {"25 trees of MathFunc, 40 to 64 nodes", "const, sin, cos, add, mul", MATH, MATH_KINDS, TREES, 128, 1},
    {"a graph of 1,000 nodes of three kinds, 2 units", "a, b, c", THREE, GRAPH_KINDS, 1, KEY_MAX, 2},
    {"the same, 16 units", "a, b, c", THREE, GRAPH_KINDS, 1, KEY_MAX, 16},
    {"the same, 64 units", "a, b, c", THREE, GRAPH_KINDS, 1, KEY_MAX, 64},
    {"the same, 150 units", "a, b, c", THREE, GRAPH_KINDS, 1, KEY_MAX, 150},
};

static void must(status st)
{
    if (st == ST_OK) return;
    fprintf(stderr, "tree_batching: %s\n", status_message());
    exit(1);
}

static void *room(size_t bytes)
{
    void *memory = aligned_alloc(CACHE_LINE_BYTES, arena_bytes(bytes + 1));
    if (memory == NULL) must(status_fail(ST_MEMORY, __FILE__, __LINE__, "no memory for %zu bytes", bytes));
    memset(memory, 0, bytes);
    return memory;
}

/* --- data -------------------------------------------------------------------------------------- */

struct set {
    struct tree_nodes nodes;
    uint64_t *key;
    uint32_t key_begin[TREES + 1];
};

/* An example's nodes from `first` on as keys; each child is named again,
 * so that it stands last on the stack. */
static uint32_t keys_put(uint64_t *key, const struct tree_nodes *nodes, uint32_t first, bool is_tree)
{
    uint32_t count = 0;
    for (uint32_t i = first; i < nodes->count; i++) {
        const uint32_t begin = nodes->child_begin[i], end = nodes->child_begin[i + 1];
        for (uint32_t e = begin; e < end && !is_tree; e++) key[count++] = tree_key_again(nodes->child[e] - first);
        key[count++] = tree_key(nodes->kind[i], end - begin, false, nodes->number[i]);
    }
    return count;
}

static void sets_make(const struct family *f, struct set *sets)
{
    struct draw d = draw_make(1, DRAW_TREES);
    double *value = room(sizeof(double) * KEY_MAX);
    for (uint32_t i = 0; i < SETS; i++) {
        struct set *s = &sets[i];
        struct layout l = {0};
        random_trees_layout(&s->nodes, &l, KEY_MAX, KEY_MAX);
        l = (struct layout){.base = room(l.bytes)};
        random_trees_layout(&s->nodes, &l, KEY_MAX, KEY_MAX);
        s->key = room(sizeof *s->key * KEY_MAX);
        s->key_begin[0] = 0;
        for (uint32_t tree = 0; tree < f->examples; tree++) {
            const uint32_t first = s->nodes.count;
            if (f->kind_count == MATH_KINDS)
                random_math_add(&s->nodes, value, 40 + draw_below(&d, 25), &d);
            else
                random_graph_add(&s->nodes, 1000, GRAPH_KINDS, 50, &d);
            s->key_begin[tree + 1] = s->key_begin[tree] + keys_put(s->key + s->key_begin[tree], &s->nodes, first,
                                                                   f->kind_count == MATH_KINDS);
        }
    }
    free(value);
}

static status sets_learn(void *context, const char *tree, uint32_t kind_count, uint32_t *words, size_t *word_count)
{
    (void)tree;
    const struct set *sets = context;
    struct tree_nodes list[SETS];
    struct learn_report report;
    const struct learn_options options = {.seed = 1, .sweeps = 100};
    for (uint32_t i = 0; i < SETS; i++) list[i] = sets[i].nodes;
    return automaton_learn(words, word_count, list, SETS, kind_count, &options, &report);
}

/* --- passes ------------------------------------------------------------------------------------ */

/* The op of a graph, on memory of its own. */
struct rig {
    struct graph graph;
    const struct graph_node *tree;
    struct micro_batch batch;
    struct op_context context;
    struct device *device;
};

static void rig_open(struct rig *r, const struct family *f, const char *policy, struct set *sets)
{
    char text[2048];
    const struct graph_source source = {.context = sets, .automaton = sets_learn};
    snprintf(text, sizeof text,
             "[data]\nformat = trees\nsparse = tree\nids_max = %u\nkinds = %s\n%s[tree t]\ninput = tree\nunits = %u\n"
             "state = v\nbatching = %s\n[fc y]\ninput = t\nunits = 1\n[loss l]\nkind = squared\ninput = y\n"
             "[train]\nbatch = %u\n",
             f->key_max, f->kinds, f->cells, f->units, policy, f->examples);
    must(graph_compile(&r->graph, "tree_batching.cfg", text, strlen(text), NULL, 0, &source));
    const struct graph *g = &r->graph;
    struct view *tensor = room(g->tensor_count * sizeof *tensor);
    uint8_t *slot = room(g->header->slot_bytes);
    float *param = room(g->header->param_floats * sizeof *param), *grad = room(g->header->grad_floats * sizeof *grad);
    for (uint64_t i = 0; i < g->header->param_floats; i++) param[i] = 0.01f * (float)(i % 7) - 0.03f;
    for (uint32_t i = 0; i < g->tensor_count; i++) {
        const struct graph_tensor *t = &g->tensors[i];
        tensor[i] = (struct view){.rows = t->rows ? t->rows : f->examples, .cols = t->cols, .stride = t->stride};
        if (t->kind == TENSOR_ACTIVATION) tensor[i].data = (float *)(void *)(slot + t->offset);
        if (t->kind == TENSOR_PARAM) tensor[i].data = param + t->offset;
        if (t->kind == TENSOR_PARAM_GRAD) tensor[i].data = grad + t->offset;
    }
    r->tree = g->nodes;
    while (r->tree->op != OP_ID_tree) r->tree++;
    r->batch = (struct micro_batch){.example_count = f->examples};
    r->context = (struct op_context){.graph = g, .tensor = tensor, .batch = &r->batch, .training = true};
    must(cpu_device_open(&r->device, g, 1, NULL, isa));
}

/* Microseconds of a forward and a backward pass, on average over the sets. */
static double rig_run(struct rig *r, const struct set *sets)
{
    const uint64_t begin_ns = clock_thread_ns();
    for (uint32_t i = 0; i < SETS; i++) {
        r->batch.key = sets[i].key;
        r->batch.key_begin = (uint32_t *)(uintptr_t)sets[i].key_begin;
        must(device_submit(r->device, &r->context, r->tree, 1));
        if (r->tree->other == GRAPH_NONE) continue; /* nothing of MathFunc is learned */
        must(device_submit(r->device, &r->context, &r->graph.nodes[r->tree->other], 1));
    }
    return (double)(clock_thread_ns() - begin_ns) / 1e3 / SETS;
}

/* --- figures ----------------------------------------------------------------------------------- */

static int order(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(double *values, uint32_t count)
{
    qsort(values, count, sizeof *values, order);
    return values[count / 2];
}

static double batches_of(const struct family *f, const struct set *sets, uint32_t policy, const struct rig *r)
{
    struct itinerary it;
    struct itinerary_scratch scratch;
    struct layout l = {0};
    itinerary_layout(&it, &l, KEY_MAX);
    itinerary_scratch_layout(&scratch, &l, KEY_MAX, KEY_MAX);
    l = (struct layout){.base = room(l.bytes)};
    void *memory = l.base;
    itinerary_layout(&it, &l, KEY_MAX);
    itinerary_scratch_layout(&scratch, &l, KEY_MAX, KEY_MAX);
    struct batching how = {.id = policy_ids[policy < POLICIES ? policy : 0]};
    const uint32_t cells = tree_cell_words(r->tree);
    how.automaton = automaton_of(r->graph.args + r->tree->program_begin + cells, r->tree->program_count - cells);
    double sum = 0;
    for (uint32_t i = 0; i < SETS; i++) {
        itinerary_make(&it, &sets[i].nodes, f->kind_count, &how, &scratch);
        sum += policy < POLICIES ? it.batch_count : itinerary_bound(&sets[i].nodes, f->kind_count, &scratch);
    }
    free(memory);
    return sum / SETS;
}

static void family_tell(const struct family *f)
{
    static struct set sets[SETS];
    static double time[POLICIES][ROUNDS_MAX], ratio[POLICIES][ROUNDS_MAX];
    static struct rig rigs[POLICIES];
    double batches[POLICIES + 1], us[POLICIES], nodes = 0;
    sets_make(f, sets);
    for (uint32_t p = 0; p < POLICIES; p++) rig_open(&rigs[p], f, policy_names[p], sets);
    for (uint32_t p = 0; p <= POLICIES; p++) batches[p] = batches_of(f, sets, p, &rigs[p < POLICIES ? p : 0]);
    for (uint32_t i = 0; i < SETS; i++) nodes += (double)sets[i].nodes.count / SETS;
    for (uint32_t p = 0; p < POLICIES; p++) rig_run(&rigs[p], sets);
    for (uint32_t i = 0; i < rounds; i++) {
        for (uint32_t p = 0; p < POLICIES; p++) time[p][i] = rig_run(&rigs[p], sets);
        for (uint32_t p = 0; p < POLICIES; p++) ratio[p][i] = time[1][i] / time[p][i];
    }
    for (uint32_t p = 0; p < POLICIES; p++) us[p] = median(time[p], rounds);
    const double batch_us = (us[0] - us[1]) / (batches[0] - batches[1]), none = us[1] - batch_us * batches[1];
    printf("\n%s: %.0f nodes; a batch costs %.2f us, a node %.3f us\n\n"
           "| policy | batches | of heights' | us a pass | heights' time over it |\n|---|---|---|---|---|\n",
           f->name, nodes, batch_us, none / nodes);
    for (uint32_t p = 0; p < POLICIES; p++)
        printf("| %s | %.1f | %.3f | %.1f | %.2f |\n", policy_names[p], batches[p], batches[p] / batches[1], us[p],
               median(ratio[p], rounds));
    const double fewest = none + batch_us * batches[POLICIES];
    printf("| fewest | %.1f | %.3f | %.1f | %.2f |\n| no batch | 0 | 0 | %.1f | %.2f |\n", batches[POLICIES],
           batches[POLICIES] / batches[1], fewest, us[1] / fewest, none, us[1] / none);
    fflush(stdout);
    for (uint32_t p = 0; p < POLICIES; p++) {
        device_close(rigs[p].device);
        graph_close(&rigs[p].graph);
    }
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i += 2) {
        uint64_t value = 0;
        const bool is_isa = strcmp(argv[i], "--isa") == 0;
        if ((!is_isa && strcmp(argv[i], "--rounds") != 0) || i + 1 == argc ||
            (!is_isa && (!cfg_parse_u64(argv[i + 1], &value) || value == 0 || value > ROUNDS_MAX))) {
            fprintf(stderr, "usage: tree_batching [--rounds N] [--isa NAME]; N: 1 to %u\n", ROUNDS_MAX);
            return 2;
        }
        if (is_isa)
            isa = argv[i + 1];
        else
            rounds = (uint32_t)value;
    }
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) family_tell(&families[i]);
    return 0;
}
