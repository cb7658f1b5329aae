/* What nodes of a training send, and when: each float once to whom it is for, in buckets, within backward
 * passes; and what becomes of messages and plans that do not fit. */
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
    return slices_floats(x, node, 0, x->bucket_count);
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
            for (uint32_t p = 0; p < x->piece_count; p++) runs += x->pieces[p].node == n;
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
            for (uint32_t p = 0; p < x->piece_count; p++) runs += x->pieces[p].node == n;
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
            for (uint32_t p = 0; p < x->piece_count; p++) runs += x->pieces[p].node == n;
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
            for (uint32_t n = 0; n < x->node_count; n++) floats += slices_floats(x, n, b, b + 1);
        }
        assert_int_equal(x->slices[0].forward_begin, 0);
        assert_int_equal(x->slices[x->bucket_count - 1].forward_end, g->forward_count);
        for (uint32_t u = 0; u < g->update_count; u++)
            if (g->updates[u].table == GRAPH_NONE) updated += g->updates[u].param_count;
        assert_int_equal(floats, updated);
        nodes_close();
    }
}

/* --- what does not fit -------------------------------------------------------------------------- */

/* Whatever nodes do not do is refused before the first step, by its name. */
static void pipeline_open__what_one_node_alone_does__refused_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *set[4], *plan, *said;
    } cases[] = {
        {.set = {"train.sync=asp", "train.lanes=1", "train.micro=32"},
         .said = "training on several nodes needs train.sync = bsp, or wsp between nodes that have all layers"},
        {.set = {"model.rules=9", "emb.admit=2", "emb.admit_by=bloom"},
         .said = "table \"emb\": on several nodes admit_by = bloom needs the filters by shards of rules 10, "
                 "found [model] rules = 9; set admit_by = exact, or compile the model with --set model.rules=10"},
        {.plan = "0-8:1:1e",
         .said = "training on several nodes needs stages on cores, or a plan that says on which node each lies, "
                 "found stage 1 of 1 on type emu"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct training t;
        const struct setup setup = {
            .threads = 1,
            .plan = cases[i].plan,
            .nodes = {
                .rank = 0, .node_count = 2, .lane_begin = (const uint32_t[]){0, 1, 8}, .post = &net.node[0].post}};
        struct setup here = setup;
        const uint32_t one_lane[] = {0, 1};
        if (i == 0) here.nodes.lane_begin = one_lane;
        if (i == 0) here.nodes.node_count = 1;
        post_open(&net, 2, 1, 0);
        const status st = training_open(&t, tables_text, cases[i].set, data_path, &here);
        if (st == ST_OK) fail_msg("case %zu is not refused", i);
        assert_string_equal(status_message(), cases[i].said);
    }
}

static void reduce_place__another_message_than_the_next__refused(void **state)
{
    (void)state;
    struct iovec part[REDUCE_PARTS_MAX];
    uint32_t part_count;
    struct training t;
    const struct setup setup = {
        .threads = 1,
        .nodes = {.rank = 1, .node_count = 2, .lane_begin = (const uint32_t[]){0, 4, 8}, .post = &net.node[1].post}};
    post_open(&net, 2, 1, 0);
    assert_ok(training_open(&t, model_text, NULL, data_path, &setup));
    reduce_start(t.reduce, 7);
    assert_int_equal(reduce_place(t.reduce, 0, EXCHANGE_SUMS, 8, 100, part, &part_count), ST_INVALID);
    uint64_t bytes;
    assert_int_equal(sscanf(strstr(status_message(), "expected "), "expected %lu", &bytes), 1);
    assert_int_equal(reduce_place(t.reduce, 0, EXCHANGE_VALUES, 7, bytes, part, &part_count), ST_INVALID);
    assert_int_equal(reduce_place(t.reduce, 0, EXCHANGE_SUMS, 8, bytes, part, &part_count), ST_INVALID);
    assert_int_equal(reduce_place(t.reduce, 0, EXCHANGE_SUMS, 7, bytes - 4, part, &part_count), ST_INVALID);
    assert_int_equal(reduce_place(t.reduce, 0, 77, 7, bytes, part, &part_count), ST_INVALID);
    assert_ok(reduce_place(t.reduce, 0, EXCHANGE_SUMS, 7, bytes, part, &part_count));
    uint64_t placed = 0;
    for (uint32_t i = 0; i < part_count; i++) placed += part[i].iov_len;
    assert_int_equal(placed, bytes);
    training_close(&t);
}

static status place_one(struct reduce *r, uint16_t kind, uint64_t step, uint64_t bytes)
{
    struct iovec part[REDUCE_PARTS_MAX];
    uint32_t part_count;
    TRY(reduce_place(r, 0, kind, step, bytes, part, &part_count));
    for (uint32_t i = 0; i < part_count; i++) memset(part[i].iov_base, 0, part[i].iov_len);
    return ST_OK;
}

/* The second of two nodes, whom the first one sends messages. */
static struct reduce *second_open(struct training *t)
{
    static const uint32_t halves[] = {0, 4, 8}; /* borrowed by what is opened */
    const struct setup setup = {.threads = 1,
                                .nodes = {.rank = 1, .node_count = 2, .lane_begin = halves, .post = &net.node[1].post}};
    post_open(&net, 2, 1, 0);
    assert_ok(training_open(t, tables_text, NULL, data_path, &setup));
    reduce_start(t->reduce, 7);
    return t->reduce;
}

/* The second node asks for rows of its first step: three of table emb,
 * of the first node, and none of its own. */
#define ASKED_FLOATS 12u
#define BITS         8u /* bytes */
static void three_ask(struct reduce *r)
{
    static uint8_t letters[2 * 16 + 3 * 8];
    static size_t letter_begin[] = {0, 40, 56}, float_begin[] = {0, ASKED_FLOATS, ASKED_FLOATS};
    static uint32_t count[2 * 3] = {3};
    static const struct asked_step asked = {
        .step = 7, .letters = letters, .letter_begin = letter_begin, .count = count, .float_begin = float_begin};
    r->exchange.vt->ask(&r->exchange, &asked);
    assert_ok(reduce_look(r));
}

/* Some of the rows at least, whole floats. */
static void reduce_place__early_rows_of_no_such_size__refused(void **state)
{
    (void)state;
    static const uint64_t wrong[] = {0, 4, BITS, BITS + 3, BITS + 6, BITS + 4 * ASKED_FLOATS + 4, UINT64_MAX};
    struct training t;
    struct reduce *r = second_open(&t);
    assert_int_equal(place_one(r, KIND_EARLY, 7, BITS + 16), ST_INVALID); /* it has asked for none */
    three_ask(r);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(place_one(r, KIND_EARLY, 7, wrong[i]), ST_INVALID);
        assert_non_null(strstr(status_message(), "; expected none of that kind"));
    }
    assert_int_equal(place_one(r, KIND_EARLY, 8, BITS + 16), ST_INVALID);
    assert_ok(place_one(r, KIND_EARLY, 7, BITS + 4 * ASKED_FLOATS));
    assert_ok(place_one(r, KIND_EARLY, 7, BITS + 16));
    training_close(&t);
}

/* Early rows of the step; bit k of the bits: not row k. The values: 1, 2, … */
static status early_give(struct reduce *r, uint64_t bits, uint32_t floats)
{
    struct iovec part[REDUCE_PARTS_MAX];
    uint32_t part_count;
    TRY(reduce_place(r, 0, KIND_EARLY, 7, BITS + floats * sizeof(float), part, &part_count));
    assert_int_equal(part_count, 2);
    assert_int_equal(part[0].iov_len, BITS);
    memcpy(part[0].iov_base, &bits, BITS);
    for (uint32_t i = 0; i < floats; i++) ((float *)part[1].iov_base)[i] = (float)(i + 1);
    return reduce_arrived(r, 0);
}

static void rows_give(struct reduce *r, uint32_t floats)
{
    struct iovec part[REDUCE_PARTS_MAX];
    uint32_t part_count;
    assert_ok(reduce_place(r, 0, KIND_ROWS, 7, floats * sizeof(float), part, &part_count));
    assert_int_equal(part_count, 1);
    for (uint32_t i = 0; i < floats; i++) ((float *)part[0].iov_base)[i] = (float)(100 + i);
    assert_ok(reduce_arrived(r, 0));
}

static bool is_open(const struct reduce *r) { return atomic_load(&r->exchange.rows.shared_step) == 8; }

/* Early rows come once at most, and before the others, which are then fewer by their number. */
static void reduce_place__early_rows_out_of_turn__refused(void **state)
{
    (void)state;
    static const float expected[ASKED_FLOATS] = {100, 101, 102, 103, 1, 2, 3, 4, 104, 105, 106, 107};
    struct training t;
    struct reduce *r = second_open(&t);
    three_ask(r);
    assert_ok(early_give(r, 1 | 4, 4));
    assert_int_equal(early_give(r, 1 | 4, 4), ST_INVALID); /* twice */
    assert_non_null(strstr(status_message(), "; expected none of that kind"));
    assert_int_equal(place_one(r, KIND_ROWS, 7, 4 * ASKED_FLOATS), ST_INVALID); /* all rows, as if none was early */
    assert_non_null(strstr(status_message(), "; expected 32 of rows of step 7: "));
    assert_false(is_open(r));
    rows_give(r, 8);
    assert_true(is_open(r));
    assert_memory_equal(r->exchange.rows.values[7 % 2], expected, sizeof expected);
    assert_int_equal(place_one(r, KIND_ROWS, 7, 32), ST_INVALID);
    training_close(&t);

    r = second_open(&t);
    three_ask(r);
    rows_give(r, ASKED_FLOATS);
    assert_true(is_open(r));
    assert_int_equal(early_give(r, 1 | 4, 4), ST_INVALID); /* behind the others */
    training_close(&t);

    r = second_open(&t);
    three_ask(r);
    assert_ok(early_give(r, 0, ASKED_FLOATS)); /* all */
    assert_true(is_open(r));
    assert_int_equal(place_one(r, KIND_ROWS, 7, 0), ST_INVALID);
    training_close(&t);
}

static void reduce_place__letter_two_steps_too_soon__refused(void **state)
{
    (void)state;
    struct training t;
    struct reduce *r = second_open(&t);
    const uint64_t bytes = 16; /* of three tables, no keys */
    for (uint64_t step = 7; step < 9; step++) {
        assert_ok(place_one(r, KIND_LETTER, step, bytes));
        assert_ok(reduce_arrived(r, 0));
    }
    assert_int_equal(place_one(r, KIND_LETTER, 9, bytes), ST_INVALID);
    training_close(&t);
}

/* Sums of a step come behind the request for its rows. */
static void reduce_place__sums_before_the_letter__refused(void **state)
{
    (void)state;
    struct training t;
    struct reduce *r = second_open(&t);
    assert_int_equal(place_one(r, EXCHANGE_SUMS, 7, 100), ST_INVALID);
    assert_non_null(strstr(status_message(), "; expected none of that kind"));
    assert_ok(place_one(r, KIND_LETTER, 7, 16));
    assert_ok(reduce_arrived(r, 0));
    assert_int_equal(place_one(r, EXCHANGE_SUMS, 7, 100), ST_INVALID);
    assert_non_null(strstr(status_message(), " of sums of step 7: "));
    training_close(&t);
}

/* A node without lanes makes steps of the news of steps. */
static void reduce_arrived__news_of_more_examples_than_a_batch__refused(void **state)
{
    (void)state;
    static const uint32_t all_of_first[] = {0, 8, 8};
    const struct setup setup = {
        .threads = 1, .nodes = {.rank = 1, .node_count = 2, .lane_begin = all_of_first, .post = &net.node[1].post}};
    struct exchange_news news = {.example_count = 32};
    struct iovec part[REDUCE_PARTS_MAX];
    uint32_t part_count;
    struct training t;
    post_open(&net, 2, 1, 0);
    assert_ok(training_open(&t, tables_text, NULL, "/missing/data", &setup));
    reduce_start(t.reduce, 7);
    for (uint64_t step = 7; step < 9; step++, news.example_count++) {
        assert_ok(reduce_place(t.reduce, 0, KIND_NEWS, step, sizeof news, part, &part_count));
        memcpy(part[0].iov_base, &news, sizeof news);
        assert_int_equal(reduce_arrived(t.reduce, 0), step == 7 ? ST_OK : ST_INVALID);
    }
    assert_string_equal(status_message(), "node 0 tells of 33 examples of step 8; expected at most 32: "
                                          "it does not train the same graph in the same way");
    training_close(&t);
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
        cmocka_unit_test(pipeline_open__what_one_node_alone_does__refused_by_name),
        cmocka_unit_test(reduce_place__another_message_than_the_next__refused),
        cmocka_unit_test(reduce_place__early_rows_of_no_such_size__refused),
        cmocka_unit_test(reduce_place__early_rows_out_of_turn__refused),
        cmocka_unit_test(reduce_place__letter_two_steps_too_soon__refused),
        cmocka_unit_test(reduce_place__sums_before_the_letter__refused),
        cmocka_unit_test(reduce_arrived__news_of_more_examples_than_a_batch__refused),
    };
    return cmocka_run_group_tests(tests, group_open, fixture_close);
}
