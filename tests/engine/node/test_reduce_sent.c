/* What nodes of a training send, and when: each float once to whom it is for, in buckets, within backward
 * passes; and what becomes of messages whose contents no node sends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sched.h>

#include "tests/engine/node/nodes_fixture.h"

/* --- what is sent ------------------------------------------------------------------------------- */

static uint64_t own_floats(const struct exchange *x, uint32_t node)
{
    return slices_floats(x, node, &x->divisions[0], x->bucket_count);
}

/* Each run's sums to their owners, the own slice's values and the losses to all others; and the first
 * node's grant of the three steps. */
static void nodes__three_steps__send_each_float_once_to_whom_it_is_for(void **state)
{
    (void)state;
    for (size_t i = 0; i < CUT_COUNT; i++) {
        const struct cut *cut = &cuts[i];
        const uint32_t nodes = cut->node_count;
        nodes_open(cut, NULL, 1, NULL);
        nodes_run(3);
        const struct exchange *x = reduce_exchange(runners[0].training.reduce);
        uint64_t all = 0;
        for (uint32_t n = 0; n < nodes; n++) all += own_floats(x, n);
        assert_true(all >= 70 * 70 + 70 * 26);
        for (uint32_t n = 0; n < nodes; n++) {
            const uint64_t own = own_floats(x, n), losses = 2 * (cut->lane_begin[n + 1] - cut->lane_begin[n]);
            uint64_t runs = 0;
            for (uint32_t p = 0; p < x->divisions[0].piece_count; p++) runs += x->divisions[0].pieces[p].node == n;
            const uint64_t bytes = 4 * (runs * (all - own) + (nodes - 1) * own) + 8 * losses * (nodes - 1);
            const uint64_t grants = n ? 0 : 8 * (nodes - 1);
            assert_int_equal(net.bytes[n], 3 * bytes + grants);
            assert_int_equal(reduce_sent_bytes(runners[n].training.reduce), 3 * bytes + grants);
        }
        nodes_close();
    }
}

/* Floats of the node's slice that no optimizer of the text changes: statistics. */
static uint64_t own_statistics(const struct exchange *x, const struct graph *g, uint32_t node)
{
    uint64_t floats = 0, begin;
    for (uint32_t b = 0; b < x->bucket_count; b++)
        for (uint32_t run = 0; run < x->slices[b].run_count; run++)
            if (optimizer_table[g->optimizers[g->updates[x->slices[b].runs[run].update].optimizer].kind].is_internal)
                floats += slice_floats(x, node, b, run, &begin);
    return floats;
}

/* Sums of gradients in two bytes each, of statistics in four, as values are. */
static void nodes__sums_in_bfloat16__half_the_bytes_of_sums(void **state)
{
    (void)state;
    static const char *const halved[] = {"train.reduce=bf16", NULL};
    for (size_t i = 0; i < CUT_COUNT; i++) {
        const uint32_t nodes = cuts[i].node_count;
        nodes_open(&cuts[i], halved, i, NULL);
        nodes_run(3);
        const struct exchange *x = reduce_exchange(runners[0].training.reduce);
        for (uint32_t n = 0; n < nodes; n++) {
            const uint64_t own = own_floats(x, n), losses = 2 * (cuts[i].lane_begin[n + 1] - cuts[i].lane_begin[n]);
            uint64_t runs = 0, sums = 0;
            for (uint32_t p = 0; p < x->divisions[0].piece_count; p++) runs += x->divisions[0].pieces[p].node == n;
            for (uint32_t to = 0; to < nodes; to++)
                if (to != n) sums += 2 * own_floats(x, to) + 2 * own_statistics(x, &runners[0].training.graph, to);
            const uint64_t bytes = runs * sums + 4 * (nodes - 1) * own;
            assert_int_equal(net.bytes[n], 3 * (bytes + 8 * losses * (nodes - 1)) + (n ? 0 : 8 * (nodes - 1)));
            if (runs < 2) assert_int_equal(reduce_least_bytes(runners[n].training.reduce), bytes);
        }
        nodes_close();
    }
}

/* Values go to nodes that compute; from a node that does not, only words and its slice come. */
static void nodes__some_without_lanes__no_float_goes_to_who_reads_none(void **state)
{
    (void)state;
    for (size_t i = 0; i < SERVER_CUT_COUNT; i++) {
        const struct cut *cut = &server_cuts[i].cut;
        node_slices = server_cuts[i].slices;
        nodes_open(cut, NULL, 1, NULL);
        nodes_run(3);
        const struct exchange *x = reduce_exchange(runners[0].training.reduce);
        uint64_t all = 0, computing = 0;
        for (uint32_t n = 0; n < cut->node_count; n++) {
            all += own_floats(x, n);
            computing += cut->lane_begin[n] < cut->lane_begin[n + 1];
            assert_true(own_floats(x, n) == 0 || node_slices == 0 || (node_slices >> n & 1));
        }
        for (uint32_t n = 0; n < cut->node_count; n++) {
            const uint64_t own = own_floats(x, n), lanes = cut->lane_begin[n + 1] - cut->lane_begin[n];
            uint64_t runs = 0;
            for (uint32_t p = 0; p < x->divisions[0].piece_count; p++) runs += x->divisions[0].pieces[p].node == n;
            const uint64_t bytes = 3 * 4 * (runs * (all - own) + own * (computing - (lanes > 0)));
            /* Losses or a word in each step; of the first one grants,
             * and news of all that it has read ahead. */
            const uint64_t others = cut->node_count - 1, words = 3 * 8 * (lanes ? 2 * lanes : 1) * others,
                           ahead = n ? 0 : others * (8 * 3 + sizeof(struct exchange_news) * (3 + EXCHANGE_NEWS));
            assert_in_range(net.bytes[n], bytes + words, bytes + words + ahead);
            if (runs < 2) assert_int_equal(reduce_least_bytes(runners[n].training.reduce), bytes / 3);
        }
        nodes_close();
    }
    node_slices = 0;
}

/* --- when it is sent ---------------------------------------------------------------------------- */

/* Of the first node. */
static struct {
    const struct sync_vt *sync;
    const struct exchange_vt *exchange;
    struct sync_vt sync_vt;
    struct exchange_vt exchange_vt;
    /* Of the step: backward passes; rounds of sums, and those before the end of the last pass. */
    uint32_t passes, begun, begun_within;
    uint32_t steps;
} seen;

static void begin_seen(struct exchange *x, enum exchange_round round, uint32_t bucket)
{
    if (round == EXCHANGE_SUMS) {
        assert_int_equal(bucket, x->bucket_count - 1 - seen.begun);
        seen.begun++;
    }
    if (round == EXCHANGE_VALUES && bucket == 0) {
        assert_int_equal(seen.begun, x->bucket_count);
        /* Of a later step they may wait until the step in front is closed. */
        if (seen.steps == 0) assert_int_equal(seen.begun_within, x->bucket_count - 1);
        seen.begun = seen.passes = 0;
        seen.steps++;
    }
    seen.exchange->begin(x, round, bucket);
}

static void backward_seen(struct sync *s, const struct stage *stage, struct slot *slot)
{
    /* What the other node does meanwhile may end a bucket's sums, but not begin one. */
    if (++seen.passes == 8) seen.begun_within = seen.begun;
    seen.sync->backward_done(s, stage, slot);
}

static void look_at(uint32_t node, struct training *t)
{
    if (node != 0) return;
    struct exchange *x = reduce_exchange(t->reduce);
    memset(&seen, 0, sizeof seen);
    seen.sync = t->pipeline->sync->vt;
    seen.sync_vt = *seen.sync;
    seen.sync_vt.backward_done = backward_seen;
    t->pipeline->sync->vt = &seen.sync_vt;
    seen.exchange = x->vt;
    seen.exchange_vt = *x->vt;
    seen.exchange_vt.begin = begin_seen;
    x->vt = &seen.exchange_vt;
}

/* One worker, so that what is done within a pass is done by it. */
static void nodes__several_buckets__all_but_the_first_are_sent_within_the_last_backward_pass(void **state)
{
    (void)state;
    const uint64_t seed = 4; /* by which the first node has one thread, and there are several buckets */
    node_look = look_at;
    nodes_open(&cuts[1], NULL, seed, NULL);
    node_look = NULL;
    assert_in_range(reduce_exchange(runners[0].training.reduce)->bucket_count, 3, EXCHANGE_BUCKETS_MAX);
    nodes_run(3);
    assert_int_equal(seen.steps, 3);
    nodes_close();
}

/* The second node keeps its last values of a step until the first one has let in the next step. */
static struct {
    const struct sync_vt *sync;
    const struct exchange_vt *exchange;
    struct sync_vt sync_vt;
    struct exchange_vt exchange_vt;
    uint32_t step_count;
    _Atomic uint32_t given, late;
    _Atomic uint64_t bound; /* steps below it have begun on the first node */
} held;

static void bind_held(struct sync *s, struct slot *slot, uint32_t pipeline)
{
    held.sync->bind(s, slot, pipeline);
    atomic_store(&held.bound, slot->input->batch.step + 1);
}

static void begin_held(struct exchange *x, enum exchange_round round, uint32_t bucket)
{
    const uint32_t given = round == EXCHANGE_VALUES ? atomic_fetch_add(&held.given, 1) + 1 : 0;
    const uint32_t next = given / x->bucket_count;
    const uint64_t end_ns = clock_ns() + UINT64_C(20000000000);
    if (given && given % x->bucket_count == 0 && next < held.step_count)
        while (atomic_load(&held.bound) <= next && clock_ns() < end_ns) sched_yield();
    if (given && given % x->bucket_count == 0 && next < held.step_count && atomic_load(&held.bound) <= next)
        atomic_fetch_add(&held.late, 1);
    held.exchange->begin(x, round, bucket);
}

static void hold_at(uint32_t node, struct training *t)
{
    struct exchange *x = reduce_exchange(t->reduce);
    struct sync *sync = t->pipeline->sync;
    if (node == 0) {
        held.sync = sync->vt;
        held.sync_vt = *sync->vt;
        held.sync_vt.bind = bind_held;
        sync->vt = &held.sync_vt;
    } else {
        held.exchange = x->vt;
        held.exchange_vt = *x->vt;
        held.exchange_vt.begin = begin_held;
        x->vt = &held.exchange_vt;
    }
}

static void nodes__values_of_others_late__next_step_has_begun(void **state)
{
    (void)state;
    memset(&held, 0, sizeof held);
    held.step_count = 3;
    node_look = hold_at;
    nodes_open(&cuts[1], NULL, 4, NULL); /* several buckets, two nodes */
    node_look = NULL;
    const struct exchange *x = reduce_exchange(runners[1].training.reduce);
    assert_true(x->bucket_count > 1);
    nodes_run(held.step_count);
    assert_int_equal(held.given, held.step_count * x->bucket_count);
    assert_int_equal(held.late, 0);
    nodes_close();
}

/* Steps of which rows are on their way, from each of two nodes. */
static struct {
    const struct exchange_vt *exchange[2];
    struct exchange_vt exchange_vt[2];
    _Atomic uint64_t early[2], late_steps;
    uint64_t step_count;
    bool is_spoilt;
} rows_seen;

static void early_see(struct post_net *of, uint32_t from, uint32_t to, const struct reduce_message *m, uint8_t *copy)
{
    (void)of;
    (void)to;
    if (m->kind != KIND_EARLY) return;
    if (rows_seen.is_spoilt) copy[0] ^= 1;
    atomic_store(&rows_seen.early[from], m->step + 1);
}

/* The sums of a step wait until rows of the next one have gone both ways. */
static void begin_waiting(struct exchange *x, enum exchange_round round, uint32_t bucket)
{
    const uint64_t end_ns = clock_ns() + UINT64_C(20000000000), step = ((struct reduce *)x)->step;
    bool is_there = round != EXCHANGE_SUMS || bucket > 0 || step + 1 >= rows_seen.step_count;
    while (!is_there && clock_ns() < end_ns) {
        is_there = atomic_load(&rows_seen.early[0]) > step + 1 && atomic_load(&rows_seen.early[1]) > step + 1;
        sched_yield();
    }
    if (!is_there) atomic_fetch_add(&rows_seen.late_steps, 1);
    rows_seen.exchange[x->rank]->begin(x, round, bucket);
}

static void wait_at(uint32_t node, struct training *t)
{
    struct exchange *x = reduce_exchange(t->reduce);
    rows_seen.exchange[node] = x->vt;
    rows_seen.exchange_vt[node] = *x->vt;
    rows_seen.exchange_vt[node].begin = begin_waiting;
    x->vt = &rows_seen.exchange_vt[node];
}

static void nodes__rows_that_the_open_step_has_not__come_before_its_sums(void **state)
{
    (void)state;
    memset(&rows_seen, 0, sizeof rows_seen);
    rows_seen.step_count = SCALED(6, 2); /* the next one is short: a node may have no examples */
    text = tables_text;
    node_look = wait_at;
    post_seen = early_see;
    nodes_open(&cuts[1], NULL, 4, NULL);
    node_look = NULL;
    nodes_run(rows_seen.step_count);
    assert_int_equal(rows_seen.late_steps, 0);
    nodes_close();
    text = model_text;
    post_seen = NULL;
}

/* Bits that do not say what has come. */
static void nodes__rows_that_come_early_spoilt__refused(void **state)
{
    (void)state;
    memset(&rows_seen, 0, sizeof rows_seen);
    rows_seen.is_spoilt = true;
    text = tables_text;
    post_seen = early_see;
    nodes_open(&cuts[1], NULL, 4, NULL);
    for (uint32_t n = 0; n < 2; n++) runners[n].until = UINT64_MAX;
    nodes_do(runner_main);
    for (uint32_t n = 0; n < 2; n++) {
        assert_int_equal(runners[n].st, ST_INVALID);
        assert_non_null(strstr(runners[n].failure.message, " early; expected "));
        assert_non_null(
            strstr(runners[n].failure.message, ", as its bits say: it does not train the same graph in the same way"));
    }
    nodes_close();
    text = model_text;
    post_seen = NULL;
}

/* What nodes tell each other of rows that are too many: messages, their bytes,
 * and how one of them is spoilt. */
static struct {
    _Atomic uint64_t messages, bytes, most_bytes;
    int spoilt;
} bins_seen;

static void bins_see(struct post_net *of, uint32_t from, uint32_t to, const struct reduce_message *m, uint8_t *copy)
{
    (void)of, (void)from, (void)to;
    if (m->kind != KIND_BINS) return;
    uint64_t word[2];
    bins_seen.messages++;
    bins_seen.bytes += m->bytes;
    if (m->bytes > bins_seen.most_bytes) bins_seen.most_bytes = m->bytes;
    if (bins_seen.spoilt == 0 || m->bytes < sizeof word) return;
    memcpy(word, copy, sizeof word);
    if (bins_seen.spoilt == 1) word[1] = word[0]; /* a bin twice */
    if (bins_seen.spoilt == 2) word[0] = word[0] >> 48 << 48;
    if (bins_seen.spoilt == 3) word[1] += 1 + m->step; /* more rows by one digit than by the next */
    memcpy(copy, word, sizeof word);
}

/* At most a word a row and digit, so little where tables are small; what no node packs so ends both. */
static void nodes__rows_that_are_too_many__a_word_a_row(void **state)
{
    (void)state;
    static const char *const set[] = {"emb.rows=200", "store.period=3", NULL};
    text = tables_text;
    post_seen = bins_see;
    static const char *const words[] = {"", "sent counts of rows that are not in the ",
                                        "sent counts of rows that are not in the ", "nodes have counted "};
    for (int spoilt = 0; spoilt < 4; spoilt++) {
        memset(&bins_seen, 0, sizeof bins_seen);
        bins_seen.spoilt = spoilt;
        nodes_open(&cuts[1], set, 4, NULL);
        for (uint32_t n = 0; n < 2; n++) runners[n].until = UINT64_MAX;
        nodes_do(runner_main);
        for (uint32_t n = 0; n < 2; n++) {
            assert_int_equal(runners[n].st, spoilt ? ST_INVALID : ST_OK);
            const char *message = runners[n].failure.message;
            if (spoilt) assert_non_null(strstr(message, words[spoilt]));
        }
        assert_true(bins_seen.messages >= (spoilt ? 1 : 6));
        assert_in_range(bins_seen.most_bytes, 16, 8 * (200 + 32 * 5)); /* and the rows of a step, five columns */
        nodes_close();
    }
    text = model_text;
    post_seen = NULL;
}

/* Buckets cover all parameters once, the last layers' in the last;
 * each has as much as is asked for, but the first. */
static void exchange_buckets__any_least__each_float_in_one(void **state)
{
    (void)state;
    static const uint64_t seeds[] = {0, 1, 2}; /* is also the least */
    for (size_t i = 0; i < sizeof seeds / sizeof *seeds; i++) {
        nodes_open(&cuts[1], NULL, seeds[i], NULL);
        const struct exchange *x = reduce_exchange(runners[0].training.reduce);
        const struct graph *g = &runners[0].training.graph;
        uint64_t floats = 0, updated = 0;
        assert_true(seeds[i] ? x->bucket_count > 1 : x->bucket_count == 1);
        for (uint32_t b = 0; b < x->bucket_count; b++) {
            if (b > 0) assert_int_equal(x->slices[b].forward_begin, x->slices[b - 1].forward_end);
            if (b > 0) assert_int_equal(x->slices[b].backward_end, x->slices[b - 1].backward_begin);
        }
        for (uint32_t n = 0; n < x->node_count; n++) floats += slices_floats(x, n, &x->divisions[0], x->bucket_count);
        assert_int_equal(x->slices[0].forward_begin, 0);
        assert_int_equal(x->slices[x->bucket_count - 1].forward_end, g->forward_count);
        for (uint32_t u = 0; u < g->update_count; u++)
            if (g->updates[u].table == GRAPH_NONE) updated += g->updates[u].param_count;
        assert_int_equal(floats, updated);
        nodes_close();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes__three_steps__send_each_float_once_to_whom_it_is_for),
        cmocka_unit_test(nodes__sums_in_bfloat16__half_the_bytes_of_sums),
        cmocka_unit_test(nodes__some_without_lanes__no_float_goes_to_who_reads_none),
        cmocka_unit_test(nodes__several_buckets__all_but_the_first_are_sent_within_the_last_backward_pass),
        cmocka_unit_test(nodes__values_of_others_late__next_step_has_begun),
        cmocka_unit_test(nodes__rows_that_the_open_step_has_not__come_before_its_sums),
        cmocka_unit_test(nodes__rows_that_come_early_spoilt__refused),
        cmocka_unit_test(nodes__rows_that_are_too_many__a_word_a_row),
        cmocka_unit_test(exchange_buckets__any_least__each_float_in_one),
    };
    return cmocka_run_group_tests(tests, group_open, fixture_close);
}
