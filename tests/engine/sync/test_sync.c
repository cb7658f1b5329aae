/* What a pipeline promises any synchronisation: one that wants to be asked between pieces is asked at
 * every border of layers, in order, when the nodes before it are done; one that does not has its lists run
 * whole; and the bytes are the same. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/engine/pipe/pipeline_fixture.h"

/* Layers of several nodes, and one whose backward pass has none: 0 e, 1 x, 2 h1, 3 n1, 4 h2, 5 y, 6 bce. */
static const char model_text[] = "[model]\nname = small\n"
                                 "[data]\ndense = I1..I3\nsparse = C1..C3\n"
                                 "[table emb]\ndim = 2\ninit = uniform 0.1\noptimizer = adagrad 0.1\n"
                                 "[embedding e]\ntable = emb\ninput = sparse\n"
                                 "[concat x]\ninput = e, dense\n"
                                 "[fc h1]\ninput = x\nunits = 8\nactivation = relu\n"
                                 "[fc s1]\ninput = h1\nunits = 4\nactivation = tanh\nlayer = h1\n"
                                 "[batch_norm n1]\ninput = h1\n"
                                 "[dropout d1]\ninput = n1\nrate = 0.2\nlayer = n1\n"
                                 "[fc h2]\ninput = d1\nunits = 8\nactivation = tanh\n"
                                 "[concat x2]\ninput = h2, s1\nlayer = h2\n"
                                 "[fc y]\ninput = x2\nunits = 1\n"
                                 "[loss bce]\ninput = y\n"
                                 "[train]\nbatch = 32\nmicro = 8\nlanes = 2\nepochs = 2\noptimizer = adam 0.01\n"
                                 "[store]\nram = 1MiB\n";

#define DATA_ROWS  107u /* a last step of 11: a short micro-batch */
#define MICROS     (2 * ((DATA_ROWS + 7) / 8))
#define STAGES_MAX 8u
#define SLOTS_MAX  64u

static char data_path[128], eval_path[128];

static int group_open(void **state)
{
    if (fixture_open(state) != 0) return -1;
    snprintf(data_path, sizeof data_path, "%s", fixture_path("data.tsv"));
    snprintf(eval_path, sizeof eval_path, "%s", fixture_path("eval.tsv"));
    fixture_data(data_path, 0, DATA_ROWS, NULL);
    fixture_data(eval_path, 10000, 50, NULL);
    return 0;
}

static const struct setup setups[] = {
    {.threads = 1},
    {.plan = "0-1:1:1 2-4:1:1 5-6:1:1", .threads = 3, .delay_seed = 1, .delay_ns_max = 20000},
    {.plan = "0-2:2:2 3-6:2:2", .threads = 4, .delay_seed = 2, .delay_ns_max = 20000},
    {.plan = "0-0:1:1 1-3:1:1 4-6:1:1", .threads = 2, .share = true, .delay_seed = 3, .delay_ns_max = 20000},
};
#define SETUP_COUNT (sizeof setups / sizeof *setups)

/* --- who is asked ---------------------------------------------------------------------------------- */

/* A row of sync_bsp's functions and one more, and devices that note what they are given. What is of a slot in
 * a stage is one worker's at a time. */
static struct {
    struct sync_vt vt;
    const struct device_vt *inner;
    struct device_vt device_vt;
    const struct pipeline *pipeline;
    bool is_asked;
    uint32_t next[STAGES_MAX][SLOTS_MAX]; /* node that the slot's list of nodes goes on with */
    uint32_t done[SLOTS_MAX];             /* node behind the nodes that a device has run last */
    _Atomic uint32_t shared_asked, shared_submits, shared_broken_count;
    char broken[256];
} seen;

#define MUST(condition, ...)                                                                                           \
    do {                                                                                                               \
        if (!(condition) && atomic_fetch_add(&seen.shared_broken_count, 1) == 0)                                       \
            snprintf(seen.broken, sizeof seen.broken, __VA_ARGS__);                                                    \
    } while (0)

static void asked_piece_done(struct sync *s, const struct stage *stage, struct slot *slot, uint32_t node)
{
    const struct graph *g = s->site.graph;
    const struct extent *e = &stage->extent;
    uint32_t *next = &seen.next[stage->index][slot->index];
    const bool is_forward = node <= e->forward_end;
    const uint32_t end = is_forward ? e->forward_end : e->backward_end;
    MUST(node > *next && node <= end, "stage %s is asked at node %u behind %u", stage->name, node, *next);
    MUST(seen.done[slot->index] == node, "stage %s is asked at node %u, and %u is done", stage->name, node,
         seen.done[slot->index]);
    for (uint32_t n = *next; n + 1 < node; n++)
        MUST(g->nodes[n].layer == g->nodes[n + 1].layer, "stage %s is not asked at node %u", stage->name, n + 1);
    MUST(node == end || g->nodes[node].layer != g->nodes[node - 1].layer, "stage %s is asked within a layer, at %u",
         stage->name, node);
    *next = node != end ? node : is_forward ? e->backward_begin : e->forward_begin;
    atomic_fetch_add(&seen.shared_asked, 1);
}

static uint32_t asked_piece_end(const struct sync *s, const struct stage *stage, uint32_t begin, uint32_t end)
{
    const struct graph_node *nodes = s->site.graph->nodes;
    uint32_t next = begin + 1;
    (void)stage;
    while (next < end && nodes[next].layer == nodes[begin].layer) next++;
    return next;
}

static status seen_submit(struct device *d, const struct op_context *c, const struct graph_node *nodes, uint32_t count)
{
    const uint32_t begin = (uint32_t)(nodes - c->graph->nodes);
    bool is_whole = false;
    for (uint32_t stage = 0; stage < seen.pipeline->stage_count; stage++) {
        const struct extent *e = &seen.pipeline->stages[stage]->extent;
        is_whole |= begin == e->forward_begin && begin + count == e->forward_end;
        is_whole |= begin == e->backward_begin && begin + count == e->backward_end;
    }
    MUST(is_whole || (seen.is_asked && c->training), "%u nodes from %u on are no whole list", count, begin);
    status st = seen.inner->submit(d, c, nodes, count);
    seen.done[c->slot] = begin + count;
    if (c->training) atomic_fetch_add(&seen.shared_submits, 1);
    return st;
}

static void seen_open(struct training *t, bool is_asked)
{
    struct pipeline *p = t->pipeline;
    memset(&seen, 0, sizeof seen);
    assert_true(p->stage_count <= STAGES_MAX && p->slot_count <= SLOTS_MAX);
    seen.pipeline = p;
    seen.is_asked = is_asked;
    seen.inner = p->workers[0].device->vt;
    seen.device_vt = *seen.inner;
    seen.device_vt.submit = seen_submit;
    for (uint32_t i = 0; i < p->worker_count; i++) p->workers[i].device->vt = &seen.device_vt;
    for (uint32_t stage = 0; stage < p->stage_count; stage++)
        for (uint32_t i = 0; i < SLOTS_MAX; i++) seen.next[stage][i] = p->stages[stage]->extent.forward_begin;
    seen.vt = *p->sync->vt;
    if (is_asked) seen.vt.piece_end = asked_piece_end;
    if (is_asked) seen.vt.piece_done = asked_piece_done;
    p->sync->vt = &seen.vt;
}

/* Layers of the stage that have nodes in the run [begin, end). */
static uint32_t layers_of(const struct graph *g, uint32_t begin, uint32_t end)
{
    uint32_t count = 0;
    for (uint32_t n = begin; n < end; n++) count += n == begin || g->nodes[n].layer != g->nodes[n - 1].layer;
    return count;
}

static void pieces__asked_for_or_not__every_border_once_and_the_same_bytes(void **state)
{
    (void)state;
    uint64_t model = 0, told = 0, predictions = 0;
    for (size_t i = 0; i < 2 * SETUP_COUNT; i++) {
        struct training t;
        const bool is_asked = i % 2;
        uint32_t borders = 0, lists = 0;
        assert_ok(training_open(&t, model_text, NULL, data_path, &setups[i / 2]));
        seen_open(&t, is_asked);
        for (uint32_t stage = 0; stage < t.pipeline->stage_count; stage++) {
            const struct extent *e = &t.pipeline->stages[stage]->extent;
            borders += layers_of(&t.graph, e->forward_begin, e->forward_end) +
                       layers_of(&t.graph, e->backward_begin, e->backward_end);
            lists += 2;
        }
        training_start(&t, NULL);
        assert_ok(training_until(&t, UINT64_MAX));
        if (seen.broken[0]) fail_msg("%s: %s", setups[i / 2].plan, seen.broken);
        assert_int_equal(seen.shared_asked, is_asked ? MICROS * borders : 0);
        assert_int_equal(seen.shared_submits, MICROS * (is_asked ? borders : lists));
        const uint64_t now = training_hash(&t), tells = XXH3_64bits_digest(t.told),
                       predicts = training_predict(&t, eval_path);
        if (i == 0) model = now, told = tells, predictions = predicts;
        assert_int_equal(now, model);
        assert_int_equal(tells, told);
        assert_int_equal(predicts, predictions);
        /* Where nothing is trained nobody is asked. */
        assert_int_equal(seen.shared_asked, is_asked ? MICROS * borders : 0);
        if (seen.broken[0]) fail_msg("%s: %s", setups[i / 2].plan, seen.broken);
        training_close(&t);
    }
}

/* --- what there is ---------------------------------------------------------------------------------- */

static void sync_check__pipelines__only_without_lanes(void **state)
{
    (void)state;
    assert_true(sync_by_lane(SYNC_BSP));
    assert_false(sync_by_lane(SYNC_WSP));
    assert_false(sync_by_lane(SYNC_ASP));
    assert_ok(sync_check(SYNC_BSP, 1));
    assert_ok(sync_check(SYNC_WSP, 1));
    assert_ok(sync_check(SYNC_WSP, 5));
    assert_ok(sync_check(SYNC_ASP, 5));
    assert_int_equal(sync_check(SYNC_BSP, 2), ST_INVALID);
    assert_message("train.pipelines = 2 needs train.sync = wsp or asp; under bsp give a stage replicas");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces__asked_for_or_not__every_border_once_and_the_same_bytes),
        cmocka_unit_test(sync_check__pipelines__only_without_lanes),
    };
    return cmocka_run_group_tests(tests, group_open, fixture_close) ? 1 : 0;
}
