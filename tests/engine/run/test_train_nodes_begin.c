/* What several nodes compare and find out before the first step, with the other nodes made up: whose save
 * they go on from, whose clock their traces have, and what node 0 then says of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/engine/run/session_fixture.h"

#include <inttypes.h>

#include "engine/base/trace.h"
#include "engine/node/probe.h"
#include "engine/node/save.h"
#include "engine/node/stream.h"
#include "engine/node/talk.h"
#include "engine/run/train_internal.h"

/* In place of the exchange, the node and the trace. */
static struct {
    uint32_t index, count;
    uint32_t rank[8];  /* [count] */
    const void *first; /* what node 0 says next; NULL: this node says it */
    uint32_t first_bytes;
    uint32_t agreed;
    status told, echoed;
    uint64_t begin_real_ns;
    struct probe_echo echo[16];
    uint32_t echoes_to, echoes_count;
    struct trace_clock clock;
    uint32_t aligned;
    const char *speeds, *shares; /* shares NULL: even */
    struct exchange exchange;
    uint64_t apart;
    uint64_t begun_step;
} fake;

static status fake_tell(void *at, uint32_t bytes)
{
    if (fake.told != ST_OK) return status_fail(fake.told, __FILE__, __LINE__, "made up");
    if (fake.first == NULL) return ST_OK;
    assert_true(fake.index > 0);
    assert_int_equal(bytes, fake.first_bytes);
    memcpy(at, fake.first, bytes);
    fake.first = NULL;
    return ST_OK;
}
static status fake_agree(status st)
{
    fake.agreed++;
    return st;
}
static status fake_echo(uint32_t to, struct probe_echo *echo, uint32_t count)
{
    fake.echoes_to = to;
    fake.echoes_count = count;
    assert_true(count <= sizeof fake.echo / sizeof *fake.echo);
    memcpy(echo, fake.echo, count * sizeof *echo);
    return fake.echoed == ST_OK ? ST_OK : status_fail(fake.echoed, __FILE__, __LINE__, "made up");
}
static void fake_align(const struct trace_clock *clock)
{
    fake.clock = *clock;
    fake.aligned++;
}
static const char *fake_text(const char *from, char *text, size_t bytes)
{
    snprintf(text, bytes, "%s", from);
    return text;
}
static status fake_begin(uint64_t step)
{
    fake.begun_step = step;
    return ST_OK;
}
#define node_reduce(node)                ((void)(node), (struct reduce *)NULL)
#define node_index(node)                 ((void)(node), fake.index)
#define node_count(node)                 ((void)(node), fake.count)
#define node_rank(node, n)               ((void)(node), fake.rank[n])
#define node_computes(node)              ((void)(node), true)
#define node_echo(node, to, echo, count) fake_echo(to, echo, count)
#define node_speeds_text(node, text, n)  fake_text(fake.speeds, text, n)
#define node_lanes_text(node, text, n)   fake_text("5 and 3", text, n)
#define node_shares_text(node, text)     fake_text(fake.shares ? fake.shares : "", text, NODE_SHARES_BYTES)
#define node_begin(node, step)           fake_begin(step)
#define reduce_tell(reduce, at, bytes)   ((void)(reduce), fake_tell(at, bytes))
#define reduce_agree(reduce, st)         fake_agree(st)
#define reduce_exchange(reduce)          ((void)(reduce), &fake.exchange)
#define reduce_apart_find(reduce, path)  ((void)(reduce), ST_OK)
#define reduce_apart(reduce)             fake.apart
#define trace_begin_real_ns()            fake.begin_real_ns
#define trace_align(clock)               fake_align(clock)
#include "engine/run/train_nodes.c"

static struct opened told;
static struct session session;
static struct train_options options;
static struct trainer t;
static struct graph_header header;

/* This node is the one at `index` of two, of the ranks 0 and 3. */
static void begin(uint32_t index)
{
    memset(&fake, 0, sizeof fake);
    memset(&session, 0, sizeof session);
    fake.index = index;
    fake.count = fake.exchange.node_count = 2;
    for (uint32_t n = 2; n < 8; n++) fake.rank[n] = 60; /* nobody's */
    fake.rank[1] = 3;
    fake.speeds = "";
    options = (struct train_options){0};
    header = (struct graph_header){.batch = 64, .lanes = 8, .micro = 8};
    session.setup.graph.header = &header;
    t = (struct trainer){
        .session = &session, .options = &options, .graph = &session.setup.graph, .node = (struct node *)(void *)&fake};
}

/* --- the same save -------------------------------------------------------------------------------- */

/* As a node says it (save_compare). */
struct save_said {
    uint64_t step;
    char tag[MODEL_TAG_BYTES];
};

static status compared(const char *own_tag, uint64_t own_step, struct save_said first)
{
    begin(1);
    snprintf(session.setup.model.tag, sizeof session.setup.model.tag, "%s", own_tag);
    session.setup.model.progress.step = own_step;
    fake.first = &first;
    fake.first_bytes = sizeof first;
    const status st = save_compare(&t, NULL);
    assert_int_equal(fake.agreed, 1);
    return st;
}

static void save_compare__other_save_than_node_0__is_named_with_both(void **state)
{
    (void)state;
    assert_ok(compared("2000", 2000, (struct save_said){2000, "2000"}));
    assert_ok(compared("", 0, (struct save_said){0, ""}));
    static const struct {
        const char *own_tag;
        uint64_t own_step;
        struct save_said first;
        const char *told;
    } cases[] = {
        {"2000", 2000, {2000, "2000-1"}, "it goes on from save 2000 of step 2000, and node 0 from 2000-1 of step 2000"},
        {"2000", 2000, {1000, "2000"}, "it goes on from save 2000 of step 2000, and node 0 from 2000 of step 1000"},
        {"2000", 2000, {1000, "1000"}, "it goes on from save 2000 of step 2000, and node 0 from 1000 of step 1000"},
        {"", 0, {1000, "1000"}, "it goes on from save none of step 0, and node 0 from 1000 of step 1000"},
        {"1000", 1000, {0, ""}, "it goes on from save 1000 of step 1000, and node 0 from none of step 0"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(compared(cases[i].own_tag, cases[i].own_step, cases[i].first), ST_MISMATCH);
        assert_message(cases[i].told);
    }
}

/* A tag without an end, from a node of another mind, is not read past its array. */
static void save_compare__tag_without_an_end__is_cut(void **state)
{
    (void)state;
    struct save_said first = {.step = 1};
    memset(first.tag, '7', sizeof first.tag);
    assert_int_equal(compared("7", 1, first), ST_MISMATCH);
    assert_message("from 777777777777777777777777777777777777777 of step 1"); /* 39 */
}

/* Node 0 says what it has itself. */
static void save_compare__on_node_0__tells_its_own(void **state)
{
    (void)state;
    begin(0);
    snprintf(session.setup.model.tag, sizeof session.setup.model.tag, "30");
    session.setup.model.progress.step = 30;
    assert_ok(save_compare(&t, NULL));
    assert_int_equal(fake.agreed, 1);
    fake.told = ST_PEER_LOST;
    assert_int_equal(save_compare(&t, NULL), ST_PEER_LOST);
}

/* --- traces --------------------------------------------------------------------------------------- */

/* Of sixteen echoes the fastest counts, wherever it is. */
static void traces_align__other_node__by_the_fastest_echo(void **state)
{
    (void)state;
    static const uint32_t fastest[] = {0, 1, 9, 15};
    for (size_t i = 0; i < sizeof fastest / sizeof *fastest; i++) {
        begin(1);
        const struct trace_clock first = {.begin_real_ns = 123456789};
        fake.first = &first;
        fake.first_bytes = sizeof first;
        fake.begin_real_ns = 77; /* its own */
        for (uint32_t n = 0; n < 16; n++)
            fake.echo[n] = (struct probe_echo){.ns = 1000 + 10 * n, .ahead_ns = 5 + (int64_t)n};
        fake.echo[fastest[i]] = (struct probe_echo){.ns = 600, .ahead_ns = -4000};
        assert_ok(traces_align(&t, NULL));
        assert_int_equal(fake.echoes_to, 0);
        assert_int_equal(fake.echoes_count, 16);
        assert_int_equal(fake.aligned, 1);
        assert_int_equal(fake.agreed, 1);
        assert_int_equal(fake.clock.begin_real_ns, 123456789);
        assert_true(fake.clock.ahead_ns == -4000);
        assert_int_equal(fake.clock.within_ns, 300);
        assert_int_equal(fake.clock.ranks, 9); /* 0 and 3 */
    }
}

static void traces_align__node_0__by_its_own_clock(void **state)
{
    (void)state;
    begin(0);
    fake.begin_real_ns = 77;
    fake.count = 3;
    fake.rank[2] = 40;
    assert_ok(traces_align(&t, NULL));
    assert_int_equal(fake.echoes_count, 0);
    assert_int_equal(fake.aligned, 1);
    assert_int_equal(fake.agreed, 1);
    assert_true(fake.clock.begin_real_ns == 77 && fake.clock.ahead_ns == 0 && fake.clock.within_ns == 0);
    assert_true(fake.clock.ranks == (UINT64_C(9) | UINT64_C(1) << 40));
}

/* Where node 0 has no trace, there is no clock to have: whatever this node has. */
static void traces_align__node_0_has_none__nothing_is_asked(void **state)
{
    (void)state;
    const struct trace_clock first = {0};
    begin(1);
    fake.first = &first;
    fake.first_bytes = sizeof first;
    fake.begin_real_ns = 77;
    assert_ok(traces_align(&t, NULL));
    assert_true(fake.echoes_count == 0 && fake.aligned == 0);
}

static void traces_align__node_0_is_gone__fails_so(void **state)
{
    (void)state;
    const struct trace_clock first = {.begin_real_ns = 1};
    begin(1);
    fake.told = ST_PEER_LOST;
    assert_int_equal(traces_align(&t, NULL), ST_PEER_LOST);
    begin(1);
    fake.first = &first;
    fake.first_bytes = sizeof first;
    fake.echoed = ST_PEER_LOST;
    assert_int_equal(traces_align(&t, NULL), ST_PEER_LOST);
    assert_int_equal(fake.aligned, 0);
}

/* --- what is told --------------------------------------------------------------------------------- */

/* What node 0 says as it begins: told.text. */
static void begun(void)
{
    memset(&told, 0, sizeof told);
    assert_ok(scope_open(&told.scope));
    told.before = scope_enter(told.scope);
    log_open(LOG_TEXT, 0);
    opened_keep(&told);
    const status st = train_nodes_begin(&t);
    opened_end(&told);
    scope_enter(told.before);
    scope_close(told.scope);
    json_decref(told.events);
    assert_ok(st);
}

static void train_nodes_begin__speeds_were_measured__are_told_before_lanes(void **state)
{
    (void)state;
    begin(0);
    session.setup.model.progress.step = 12;
    fake.speeds = "12,000 and ?";
    begun();
    assert_string_equal(told.text, "nodes    measured: 12,000 and ? examples a second\n"
                                   "nodes    2, which have 5 and 3 of 8 lanes\n");
    assert_int_equal(fake.begun_step, 12);
    begin(0);
    fake.shares = "rows are 75% and 25%";
    begun();
    assert_string_equal(told.text, "nodes    2, which have 5 and 3 of 8 lanes\n"
                                   "nodes    cluster.bandwidth: rows are 75% and 25%\n");
    assert_int_equal(fake.begun_step, 0);
}

static void train_nodes_begin__nodes_have_stages__so_it_says(void **state)
{
    (void)state;
    static const struct exchange_stages stages;
    begin(0);
    fake.exchange.stages = &stages;
    fake.speeds = "12,000 and 7";
    options.out = "/models/m";
    fake.apart = 2;
    begun();
    assert_string_equal(told.text, "nodes    measured: 12,000 and 7 examples a second\n"
                                   "nodes    2, which have the stages that the plan gives them; "
                                   "node 0 writes to --out, also for node 3, which does not share it\n");
}

/* A training of one node compares nothing, and says nothing. */
static void train_nodes_begin__one_node__nothing(void **state)
{
    (void)state;
    begin(0);
    t.node = NULL;
    fake.speeds = "12,000 and ?";
    begun();
    assert_string_equal(told.text, "");
    assert_int_equal(fake.agreed, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(save_compare__other_save_than_node_0__is_named_with_both),
        cmocka_unit_test(save_compare__tag_without_an_end__is_cut),
        cmocka_unit_test(save_compare__on_node_0__tells_its_own),
        cmocka_unit_test(traces_align__other_node__by_the_fastest_echo),
        cmocka_unit_test(traces_align__node_0__by_its_own_clock),
        cmocka_unit_test(traces_align__node_0_has_none__nothing_is_asked),
        cmocka_unit_test(traces_align__node_0_is_gone__fails_so),
        cmocka_unit_test(train_nodes_begin__speeds_were_measured__are_told_before_lanes),
        cmocka_unit_test(train_nodes_begin__nodes_have_stages__so_it_says),
        cmocka_unit_test(train_nodes_begin__one_node__nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
