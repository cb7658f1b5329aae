/* Stages on several nodes: where they lie, and one node's bytes whatever the plan and the order in which
 * messages come, with workers that are late; saved, and gone on with elsewhere. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/node/save.h"
#include "tests/engine/node/stages_fixture.h"

/* SEEDS=N in the environment: N plans of each kind. */
#define PLANS (getenv("SEEDS") ? SEEDS : 2u)

/* --- where they lie ------------------------------------------------------------------------------- */

static void assert_whole_on(const struct exchange_stages *s, const uint32_t *nodes)
{
    for (uint32_t i = 0; i < s->count; i++) {
        assert_true(exchange_stage_is_whole(s, i));
        assert_int_equal(exchange_stage_node(s, i, 0), nodes[i]);
    }
}

static void stages_place__all_are_there__as_the_plan_says(void **state)
{
    (void)state;
    struct exchange_stages s;
    assert_ok(placed(&s, model_text, "0-4:1:1@1 5-5:1:1@0 6-6:1:1@2 7-8:1:1@0", 3, 3, all_ranks));
    const uint32_t nodes[] = {1, 0, 2, 0}, layers[] = {0, 5, 6, 7};
    assert_int_equal(s.count, 4);
    assert_whole_on(&s, nodes);
    assert_memory_equal(s.first_layer, layers, sizeof layers);
    stages_free(&s);
    assert_ok(placed(&s, tables_text, "0-3:1:1@1 4-8:1:1@0", 2, 2, all_ranks));
    for (uint32_t table = 0; table < 3; table++) assert_int_equal(s.node_of_table[table], 1);
    stages_free(&s);
}

static void stages_place__some_are_lost__on_the_next_below(void **state)
{
    (void)state;
    struct exchange_stages s;
    const uint32_t ranks[] = {0, 2};
    const uint32_t nodes[] = {0, 0, 1, 1};
    assert_ok(placed(&s, model_text, "0-4:1:1@1 5-5:1:1@0 6-6:1:1@2 7-8:1:1@3", 4, 2, ranks));
    assert_whole_on(&s, nodes);
    stages_free(&s);
}

/* Lanes of each node, stage by stage. */
static void assert_lanes(const struct exchange_stages *s, const uint32_t *counts)
{
    for (uint32_t i = 0; i < s->count; i++)
        for (uint32_t n = 0; n < s->node_count; n++)
            assert_int_equal(exchange_stage_lanes(s, i, n).count, counts[i * s->node_count + n]);
}

static void stages_place__some_on_several_nodes__even_shares_of_lanes(void **state)
{
    (void)state;
    struct exchange_stages s;
    const uint32_t all[] = {2, 3, 3, 0, 4, 4, 8, 0, 0};
    assert_ok(placed(&s, model_text, "0-4:1:1@0+1+2 5-5:1:1@1+2 6-8:1:1@0", 3, 3, all_ranks));
    assert_lanes(&s, all);
    assert_int_equal(exchange_stage_node(&s, 0, 1), 0);
    assert_int_equal(exchange_stage_node(&s, 0, 2), 1);
    assert_int_equal(exchange_stage_node(&s, 1, 4), 2);
    assert_int_equal(exchange_stages_sections(&s), 2);
    const struct fold_lanes hull = exchange_stages_hull(&s, 1);
    assert_int_equal(hull.begin, 0);
    assert_int_equal(hull.count, 5);
    stages_free(&s);
    /* Node 1 is lost: node 2 has its lanes; of the stage that it had alone, node 0 has them. */
    const uint32_t ranks[] = {0, 2}, left[] = {4, 4, 0, 8, 8, 0, 8, 0};
    assert_ok(placed(&s, model_text, "0-4:1:1@0+1+2 5-5:1:1@1+2 6-6:1:1@1 7-8:1:1@0", 3, 2, ranks));
    assert_lanes(&s, left);
    stages_free(&s);
    assert_ok(placed(&s, tables_text, "0-3:1:1@0+1 4-8:1:1@0", 2, 2, all_ranks));
    assert_null(s.node_of_table);
    stages_free(&s);
}

static void assert_workers(const struct exchange_stages *s, uint32_t count, const uint8_t *worker_of,
                           const uint64_t *nodes_of)
{
    assert_int_equal(s->worker_count, count);
    assert_memory_equal(s->worker_of, worker_of, s->node_count);
    assert_memory_equal(s->nodes_of, nodes_of, s->count * sizeof *nodes_of);
}

/* Under wsp: each stage is whole at a node of the own worker. */
static void stages_place__of_workers__nth_node_of_each_stage(void **state)
{
    (void)state;
    struct exchange_stages s;
    static const char two[] = "0-4:1:1@1+2 5-8:1:1@0+3";
    placed_as.has_waves = true;
    for (uint32_t n = 0; n < 4; n++) {
        const uint32_t first[] = {1, 0}, second[] = {2, 3};
        placed_as.index = n;
        assert_ok(placed(&s, model_text, two, 4, 4, all_ranks));
        assert_workers(&s, 2, (const uint8_t[]){0, 0, 1, 1}, (const uint64_t[]){6, 9});
        assert_whole_on(&s, n < 2 ? first : second);
        stages_free(&s);
    }
    placed_as.index = 2; /* without node 2, which had the first stage of its worker, before it */
    assert_ok(placed(&s, model_text, two, 4, 3, (const uint32_t[]){0, 1, 3}));
    assert_workers(&s, 2, (const uint8_t[]){0, 0, 1}, (const uint64_t[]){6, 5});
    assert_whole_on(&s, (const uint32_t[]){2, 2});
    stages_free(&s);
    placed_as.index = 1; /* without 1 and 3: node 2 has the stage of the next above, node 0 all */
    assert_ok(placed(&s, model_text, two, 4, 2, (const uint32_t[]){0, 2}));
    assert_workers(&s, 2, (const uint8_t[]){0, 1}, (const uint64_t[]){3, 3});
    assert_whole_on(&s, (const uint32_t[]){1, 1});
    stages_free(&s);
    placed_as.index = 1; /* a whole worker is lost */
    assert_ok(placed(&s, model_text, two, 4, 2, all_ranks));
    assert_workers(&s, 1, (const uint8_t[]){0, 0}, (const uint64_t[]){2, 1});
    assert_whole_on(&s, (const uint32_t[]){1, 0});
    stages_free(&s);
    assert_ok(placed(&s, tables_text, "0-3:1:1@1 4-8:1:1@0", 2, 2, all_ranks));
    assert_null(s.node_of_table); /* rows are all workers' */
    stages_free(&s);
    placed_as.index = 0;
    assert_int_equal(placed(&s, model_text, "0-4:1:1@1+2 5-8:1:1@0", 3, 3, all_ranks), ST_INVALID);
    assert_non_null(strstr(status_message(), "stage 0 lies on 2 nodes and stage 1 on 1: under train.sync = wsp"));
    assert_int_equal(placed(&s, model_text, "0-4:1:1@0+1 5-8:1:1@1+2", 3, 3, all_ranks), ST_INVALID);
    assert_non_null(strstr(status_message(), "node 1 has stage 1 of worker 0, and an earlier stage of worker 1"));
    assert_int_equal(placed(&s, model_text, "0-4:1:1@0 5-8:1:1@1", 2, 2, all_ranks), ST_INVALID);
    assert_non_null(strstr(status_message(), "the last stage, 1, of node 0's worker is not on node 0"));
    placed_as.has_waves = false;
}

static bool are_even(const char *notation, uint32_t node_count)
{
    struct graph graph;
    struct plan plan;
    char json[4096];
    assert_ok(graph_compile(&graph, "test.cfg", model_text, strlen(model_text), NULL, 0, NULL));
    plan_json(json, sizeof json, notation);
    assert_ok(plan_parse(&plan, &graph, "plan.json", json, strlen(json)));
    const struct stages_options options = {
        .graph = &graph, .plan = &plan, .node_count = node_count, .job_nodes = 2, .rank_of = all_ranks};
    const bool are = stages_are_even(&options);
    plan_free(&plan);
    graph_close(&graph);
    return are;
}

static void stages_are_even__all_on_all_nodes__yes(void **state)
{
    (void)state;
    assert_true(are_even("0-4:1:1@0+1 5-8:1:1@0+1", 2));
    assert_false(are_even("0-4:1:1@0+1 5-8:1:1@0", 2));
    assert_false(are_even("0-4:1:1@0+1 5-8:1:1@0+1", 1)); /* one is left: all stages are whole */
}

static void stages_place__cannot_be__says_why(void **state)
{
    (void)state;
    struct exchange_stages s;
    assert_int_equal(placed(&s, model_text, "0-4:1:1@1 5-7:1:1@0 8-8:1:1@0+1", 2, 2, all_ranks), ST_OK);
    stages_free(&s);
    static const char early_loss[] = "[data]\ndense = I1..I3\n[concat x]\ninput = dense\n[fc y]\ninput = x\nunits = 1\n"
                                     "[loss early]\nkind = bce\ninput = y\n[fc z]\ninput = x\nunits = 1\n"
                                     "[loss late]\nkind = bce\ninput = z\n[train]\nbatch = 32\nlanes = 8\n";
    assert_int_equal(placed(&s, early_loss, "0-2:1:1@0 3-4:1:1@0+1", 2, 2, all_ranks), ST_INVALID);
    assert_non_null(strstr(status_message(), "[loss early] is in stage 0, on node 0; expected losses and heads on node "
                                             "0, 1, where the last stage is"));
    assert_int_equal(placed(&s, model_text, "0-7:1:1@0+1 8-8:1:1@0", 2, 2, all_ranks), ST_OK);
    stages_free(&s);
    assert_int_equal(placed(&s, model_text, "0-3:1:1@0 4-4:1:1@0+1 5-8:1:1@0", 2, 2, all_ranks), ST_INVALID);
    assert_non_null(strstr(status_message(), "\" on node 0 and \"h2\" on node 0, 1 share a table or parameters"));
    static const char two_tables[] = "[data]\nsparse = C1..C2\n[table e]\ndim = 2\n[table f]\ndim = 2\n"
                                     "[embedding e]\ntable = e\ninput = C1\n"
                                     "[embedding f]\ntable = f\ninput = C2\n"
                                     "[concat x]\ninput = e, f\n"
                                     "[fc y]\ninput = x\nunits = 1\n[loss bce]\ninput = y\n[train]\nbatch = 32\n"
                                     "lanes = 8\n";
    assert_int_equal(placed(&s, two_tables, "0-0:1:1@0+1 1-4:1:1@0", 2, 2, all_ranks), ST_INVALID);
    assert_non_null(strstr(status_message(), "tables \"e\" and \"f\" are looked up on other nodes"));
    assert_int_equal(placed(&s, model_text, "0-4:1:1@0 5-8:1:1@1", 3, 3, all_ranks), ST_INVALID);
    assert_non_null(strstr(status_message(), "lie on 2 nodes, and this job has 3"));
    assert_int_equal(placed(&s, model_text, "0-3:1:1@0 4-8:1:1@1", 2, 2, all_ranks), ST_INVALID);
    assert_non_null(strstr(status_message(), "share a table or parameters"));
    assert_int_equal(placed(&s, tables_text, "0-1:1:1@0 2-8:1:1@1", 2, 2, all_ranks), ST_INVALID);
    assert_non_null(strstr(status_message(), "share a table or parameters"));
}

/* --- bytes ------------------------------------------------------------------------------------------ */

static const char *save_path;
static void *save_main(void *context)
{
    struct runner *r = context;
    r->st = feed_hold(r->training.feed);
    if (r->st == ST_OK) r->st = reduce_save(r->training.reduce, save_path, 1, NULL, NULL);
    feed_let_go(r->training.feed);
    failure_keep(&r->failure, r->st);
    return NULL;
}

/* Of `seeds` drawn plans, from seed `first` on. */
static void assert_same(const char *const *set, bool is_shared, uint64_t seeds, uint64_t first)
{
    const struct outcome expected = alone(set);
    for (uint64_t seed = first; seed < first + seeds; seed++) {
        uint64_t random = seed;
        struct drawn d = {0};
        plan_draw(&d, is_shared, &random);
        stages_train(expected, &d, set, seed);
    }
}

static void stages__any_plan__one_nodes_bytes(void **state)
{
    (void)state;
    static const char *const bounded[] = {"train.clip_norm=0.01", NULL};
    assert_same(NULL, false, PLANS, 1);
    assert_same(bounded, false, PLANS, 100);
}

static void stages__some_on_several_nodes__one_nodes_bytes(void **state)
{
    (void)state;
    static const char *const bounded[] = {"train.clip_norm=0.01", NULL};
    assert_same(NULL, true, PLANS, 500);
    assert_same(bounded, true, PLANS, 600);
}

/* Passes that end with a whole step, with a step of one example, behind a whole micro-batch, and at once. */
static void stages__passes_of_any_length__one_nodes_bytes(void **state)
{
    (void)state;
    static const uint64_t lengths[] = {96, 65, 38, 1};
    char path[128];
    data = path;
    for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++) {
        rows = lengths[k];
        snprintf(path, sizeof path, "%s%u", fixture_path("rows"), (unsigned)rows);
        fixture_data(path, 100, rows, NULL);
        assert_same(NULL, true, PLANS, 700 + k);
        text = tables_text;
        assert_same(NULL, true, PLANS, 800 + k);
        text = model_text;
    }
    data = data_path;
    rows = DATA_ROWS;
}

static void stages__tables__one_nodes_bytes(void **state)
{
    (void)state;
    static const char *const bounded[] = {"train.clip_norm=0.01", NULL};
    static const char *const lives[] = {"emb.ttl=2", "emb.admit=2", "store.period=3", "wide.rows=60", NULL};
    text = tables_text;
    for (int is_shared = 0; is_shared < 2; is_shared++) {
        assert_same(bounded, is_shared, PLANS, 300);
        assert_same(lives, is_shared, PLANS, 400);
    }
    text = model_text;
}

/* Begun by one plan, gone on with by another on other nodes, ended on one. */
static void resumed_elsewhere(const char *const *set, bool is_shared, uint64_t seed)
{
    const struct outcome expected = alone(set);
    const char *saved = NULL;
    char path[160];
    uint64_t random = seed;
    snprintf(path, sizeof path, "%s", fixture_path("saved"));
    save_path = path;
    for (uint32_t steps = 3; steps <= 6; steps += 3) {
        struct drawn d = {0};
        plan_draw(&d, is_shared, &random);
        stages_open(&d, set, seed, saved);
        nodes_run(steps);
        nodes_do(save_main);
        nodes_are_well();
        nodes_close();
        saved = path;
    }
    struct training t;
    assert_ok(training_open(&t, text, set, data, &(struct setup){.threads = 1}));
    training_start(&t, saved);
    if (training_hash(&t) != alone_until(set, 6)) fail_msg("seed %u: other bytes are saved", (unsigned)seed);
    assert_ok(training_until(&t, UINT64_MAX));
    if (training_hash(&t) != expected.model) fail_msg("seed %u: other bytes at the end", (unsigned)seed);
    training_close(&t);
    fixture_tree_remove("saved");
}

static void stages__saved_and_resumed_elsewhere__one_nodes_bytes(void **state)
{
    (void)state;
    static const char *const lives[] = {"emb.ttl=2",           "emb.admit=2",    "wide.admit=2",
                                        "wide.admit_by=bloom", "store.period=3", NULL};
    text = tables_text;
    for (int is_shared = 0; is_shared < 2; is_shared++) {
        resumed_elsewhere(NULL, is_shared, 1);
        resumed_elsewhere(lives, is_shared, 2);
    }
    text = model_text;
}

/* A slot comes back once, and only from where it was sent. */
static void reduce_place__slot_that_is_not_away__refused(void **state)
{
    (void)state;
    struct training t;
    struct iovec part[REDUCE_PARTS_MAX];
    uint32_t part_count;
    const uint64_t back = UINT64_C(1) << 48; /* of slot 0, over the cut behind stage 0 */
    const struct setup setup = {
        .plan = "0-4:1:1@0 5-8:1:1@1", .threads = 1, .nodes = {.rank = 0, .node_count = 2, .post = &net.node[0].post}};
    post_open(&net, 2, 1, 0);
    assert_ok(training_open(&t, text, NULL, data, &setup));
    reduce_start(t.reduce, 0);
    assert_int_equal(reduce_place(t.reduce, 1, KIND_SLOT, back, sizeof(float), part, &part_count), ST_INVALID);
    assert_non_null(strstr(status_message(), "; expected none of that kind"));
    training_close(&t);
}

/* What crosses a cut, by the fields of its message's step (hops.c). */
#define TAG(cut, way, slot, number)                                                                                    \
    (UINT64_C(cut) << 49 | (uint64_t)(way) << 48 | (uint64_t)(slot) << 32 | (uint64_t)(number))

/* The second of three nodes takes slots over the cut behind the first stage, a micro-batch each once. */
static void reduce_place__slot_that_no_stage_sends__refused(void **state)
{
    (void)state;
    struct training t;
    struct iovec part[REDUCE_PARTS_MAX];
    uint32_t part_count;
    const uint64_t most = 2 * 70 * sizeof(float); /* h2 of a micro-batch */
    const struct setup setup = {.plan = "0-4:1:1@0 5-6:1:1@1 7-8:1:1@2",
                                .threads = 1,
                                .nodes = {.rank = 1, .node_count = 3, .post = &net.node[1].post}};
    post_open(&net, 3, 1, 0);
    assert_ok(training_open(&t, text, NULL, data, &setup));
    reduce_start(t.reduce, 0);
    const uint32_t slots = t.pipeline->slot_count;
    const struct {
        uint32_t from;
        uint64_t tag, bytes;
    } wrong[] = {
        {0, TAG(0, HOPS_FORWARD, 0, 0), 0},        {0, TAG(0, HOPS_FORWARD, 0, 0), sizeof(float) - 1},
        {0, TAG(0, HOPS_FORWARD, 0, 0), most + 1}, {0, TAG(0, HOPS_FORWARD, slots, 0), most},
        {2, TAG(0, HOPS_FORWARD, 0, 0), most},                                            /* of another node */
        {0, TAG(0, HOPS_BACK, 0, 0), most},                                               /* the other way */
        {2, TAG(1, HOPS_FORWARD, 0, 0), most},     {0, TAG(2, HOPS_FORWARD, 0, 0), most}, /* behind the last stage */
        {0, TAG(3, HOPS_FORWARD, 0, 0), most},     {0, TAG(32767, HOPS_FORWARD, 0, 0), most},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const status st =
            reduce_place(t.reduce, wrong[i].from, KIND_SLOT, wrong[i].tag, wrong[i].bytes, part, &part_count);
        if (st != ST_INVALID) fail_msg("case %zu is not refused", i);
    }
    void *first = NULL;
    for (uint32_t slot = 0; slot < slots; slot++) {
        const uint64_t tag = TAG(0, HOPS_FORWARD, slot, 7 + slot);
        assert_ok(reduce_place(t.reduce, 0, KIND_SLOT, tag, slot ? most : sizeof(float), part, &part_count));
        if (slot == 0) first = part[0].iov_base;
        assert_ptr_equal(part[0].iov_base, (uint8_t *)first + slot * most);
        assert_ok(reduce_arrived(t.reduce, 0));
        assert_int_equal(reduce_place(t.reduce, 0, KIND_SLOT, tag, most, part, &part_count), ST_INVALID); /* twice */
    }
    training_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stages_place__all_are_there__as_the_plan_says),
        cmocka_unit_test(stages_place__some_are_lost__on_the_next_below),
        cmocka_unit_test(stages_place__some_on_several_nodes__even_shares_of_lanes),
        cmocka_unit_test(stages_place__of_workers__nth_node_of_each_stage),
        cmocka_unit_test(stages_are_even__all_on_all_nodes__yes),
        cmocka_unit_test(stages_place__cannot_be__says_why),
        cmocka_unit_test(reduce_place__slot_that_is_not_away__refused),
        cmocka_unit_test(reduce_place__slot_that_no_stage_sends__refused),
        cmocka_unit_test(stages__any_plan__one_nodes_bytes),
        cmocka_unit_test(stages__some_on_several_nodes__one_nodes_bytes),
        cmocka_unit_test(stages__passes_of_any_length__one_nodes_bytes),
        cmocka_unit_test(stages__tables__one_nodes_bytes),
        cmocka_unit_test(stages__saved_and_resumed_elsewhere__one_nodes_bytes),
    };
    return cmocka_run_group_tests(tests, group_open, fixture_close);
}
