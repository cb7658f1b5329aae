/* Lines of predictions, number by number: columns of losses, malformed examples, and nodes of trees. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

#include "engine/eval/prediction.h"
#include "graph/op_rules.h"
#include "tests/graph/rig.h"

#define EXAMPLES 6u
#define BAD      2u

struct scene {
    struct graph g;
    struct rig r;
    struct input input;
    struct slot slot;
    struct prediction prediction;
    uint8_t is_bad[EXAMPLES];
};

/* Compiles, and computes forward. */
static void scene_open(struct scene *s, const char *text)
{
    *s = (struct scene){.is_bad = {[BAD] = 1}};
    if (graph_compile(&s->g, "test.cfg", text, strlen(text), NULL, 0, NULL) != ST_OK) fail_msg("%s", status_message());
    rig_open(&s->r, &s->g, 7, EXAMPLES);
    rig_forward(&s->r);
    s->input.batch = s->r.m;
    s->input.batch.is_bad = s->is_bad;
    s->slot = (struct slot){.input = &s->input, .tensor = s->r.tensor};
    assert_int_equal(prediction_open(&s->prediction, &s->g), ST_OK);
}

static void scene_close(struct scene *s)
{
    prediction_close(&s->prediction);
    assert_null(s->prediction.values);
    rig_close(&s->r);
    graph_close(&s->g);
}

/* The first input of the loss of that number: example b's scores. */
static const float *scores_of(const struct scene *s, uint32_t loss, uint32_t b)
{
    uint32_t at = graph_loss_next(&s->g, 0);
    while (loss-- > 0) at = graph_loss_next(&s->g, at + 1);
    return view_row(op_in(&s->r.context, &s->g.nodes[at], 0), b);
}

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }

/* Of `count` classes. */
static double share(const float *x, uint32_t count, uint32_t j)
{
    double sum = 0;
    for (uint32_t i = 0; i < count; i++) sum += exp((double)x[i]);
    return exp((double)x[j]) / sum;
}

/* A line is these numbers, to the digits that are written, with these characters between them. */
static void line_check(const char *line, size_t bytes, const double *expected, const char *between)
{
    const char *at = line, *end = line + bytes;
    for (uint32_t k = 0;; k++) {
        char *behind;
        const double found = strtod(at, &behind);
        assert_true(behind > at);
        if (!(isnan(expected[k]) ? isnan(found) : fabs(found - expected[k]) < 1e-6 * fabs(expected[k])))
            fail_msg("number %u: expected %.9g, found %.9g", k, expected[k], found);
        at = behind;
        if (between[k] == 0) break;
        assert_int_equal(*at, between[k]);
        at++;
    }
    assert_ptr_equal(at, end);
}

static const char losses_text[] =
    "[data]\ndense = I1..I3\nsparse = C1\n[train]\nbatch = 6\nmicro = 6\n"
    "[fc s]\ninput = dense\nunits = 4\nactivation = tanh\n[fc p]\ninput = dense\nunits = 1\n[fc two]\ninput = dense\n"
    "units = 2\n[loss a]\nkind = softmax\ninput = s\n[loss b]\nkind = squared\ninput = p\n[loss c]\nkind = bce\n"
    "input = p\n[loss d]\nkind = softmax\ninput = two\n";

static void prediction_write__several_losses__a_column_each(void **state)
{
    (void)state;
    struct scene s;
    scene_open(&s, losses_text);
    char *line = malloc(s.prediction.line_bytes_max);
    assert_non_null(line);
    assert_false(prediction_is_of_nodes(&s.g));
    assert_false(prediction_is_words(&s.g));
    for (uint32_t b = 0; b < EXAMPLES; b++) {
        const float *classes = scores_of(&s, 0, b), *p = scores_of(&s, 1, b), *two = scores_of(&s, 3, b);
        const double expected[] = {share(classes, 4, 0), share(classes, 4, 1), share(classes, 4, 2),
                                   share(classes, 4, 3), (double)*p,           sigmoid((double)*p),
                                   share(two, 2, 1)};
        const double none[] = {NAN, NAN, NAN, NAN};
        const size_t bytes = prediction_write(&s.prediction, &s.slot, b, line);
        assert_true(bytes < s.prediction.line_bytes_max);
        line_check(line, bytes, b == BAD ? none : expected, b == BAD ? "\t\t\t" : "   \t\t\t");
    }
    free(line);
    scene_close(&s);
}

#define TREE_OF                                                                                                        \
    "[data]\nformat = trees\nsparse = tree\nids_max = 9\nkinds = leaf, inner\n[train]\nbatch = 6\nmicro = 6\n"         \
    "[cell leaf]\nh = number * 0.7\n[cell inner]\nh = tanh(sum(child.h) + number)\n[tree t]\ninput = tree\n"           \
    "units = 2\nstate = h\ngives = nodes\n"
#define NODES(name, units)                                                                                             \
    "[fc y" name "]\ninput = t\ngroups = 9\nunits = " units "\n[loss " name "]\nkind = softmax_nodes\ninput = y" name  \
    ", tree\n"

/* Whatever the nodes of other examples, and behind keys that are said again. */
static void nodes_check(const char *text, uint32_t classes)
{
    struct scene s;
    scene_open(&s, text);
    char *line = malloc(s.prediction.line_bytes_max);
    uint32_t again_count = 0, node_count = 0;
    assert_non_null(line);
    assert_true(prediction_is_of_nodes(&s.g));
    for (uint32_t b = 0; b < EXAMPLES; b++) {
        uint32_t count = 0;
        for (uint32_t i = s.r.m.key_begin[b]; i < s.r.m.key_begin[b + 1]; i++) count += !(s.r.m.key[i] & TREE_AGAIN);
        again_count += s.r.m.key_begin[b + 1] - s.r.m.key_begin[b] - count;
        node_count += count;
        assert_int_equal(prediction_node_count(&s.prediction, &s.slot, b), b == BAD ? 1 : count);
        for (uint32_t place = 0; place < (b == BAD ? 1 : count); place++) {
            const float *scores = scores_of(&s, 0, b) + place * classes;
            double expected[3] = {NAN};
            for (uint32_t j = 0; j < 3 && b != BAD; j++) expected[j] = share(scores, classes, classes == 2 ? 1 : j);
            line_check(line, prediction_node_write(&s.prediction, &s.slot, b, place, line), expected,
                       b == BAD || classes == 2 ? "" : "  ");
        }
    }
    assert_true(again_count > 0 && node_count > 2 * EXAMPLES);
    free(line);
    scene_close(&s);
}

static void prediction_node_write__trees__a_line_each_node(void **state)
{
    (void)state;
    struct graph g;
    static const char several[] = TREE_OF NODES("a", "3") NODES("b", "3");
    nodes_check(TREE_OF NODES("a", "3"), 3);
    nodes_check(TREE_OF NODES("a", "2"), 2);
    if (graph_compile(&g, "test.cfg", several, sizeof several - 1, NULL, 0, NULL) != ST_OK)
        fail_msg("%s", status_message());
    assert_false(prediction_is_of_nodes(&g));
    graph_close(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prediction_write__several_losses__a_column_each),
        cmocka_unit_test(prediction_node_write__trees__a_line_each_node),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
