/* What a node of a training refuses before it takes it: plans that nodes cannot have, and messages of another
 * kind, size or step than the next one of its sender. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/engine/node/nodes_fixture.h"

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
        {.plan = "0-8:1:1s",
         .said = "stage 1 of 1 is on type sim, which computes nothing, and several nodes share the stage: give it to "
                 "cores, cards or paced units, or by a plan with nodes to one node"},
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
static struct reduce *second_open(struct training *t, const char *model, const char *const *set)
{
    static const uint32_t halves[] = {0, 4, 8}; /* borrowed by what is opened */
    const struct setup setup = {.threads = 1,
                                .nodes = {.rank = 1, .node_count = 2, .lane_begin = halves, .post = &net.node[1].post}};
    post_open(&net, 2, 1, 0);
    assert_ok(training_open(t, model, set, data_path, &setup));
    reduce_start(t->reduce, 7);
    return t->reduce;
}

/* The second node asks for rows of its first step: three of table emb of the first node, and `own` of its
 * own, one at most, which is not there before the first node's letter is. */
#define ASKED_FLOATS 12u
#define BITS         8u /* bytes */
static void rows_ask(struct reduce *r, uint32_t own)
{
    static uint64_t letters[5 + 3];
    static size_t letter_begin[] = {0, 40, 0}, float_begin[] = {0, ASKED_FLOATS, 0};
    static uint32_t count[2 * 3];
    static const struct asked_step asked = {.step = 7,
                                            .letters = (uint8_t *)letters,
                                            .letter_begin = letter_begin,
                                            .count = count,
                                            .float_begin = float_begin};
    letter_begin[2] = letter_begin[1] + 16 + own * sizeof(uint64_t);
    float_begin[2] = ASKED_FLOATS + 4 * own;
    count[0] = 3;
    letters[5] = count[3] = own;
    r->exchange.vt->ask(&r->exchange, &asked);
    assert_ok(reduce_look(r));
}

/* Some of the rows at least, whole floats. */
static void reduce_place__early_rows_of_no_such_size__refused(void **state)
{
    (void)state;
    static const uint64_t wrong[] = {0, 4, BITS, BITS + 3, BITS + 6, BITS + 4 * ASKED_FLOATS + 4, UINT64_MAX};
    struct training t;
    struct reduce *r = second_open(&t, tables_text, NULL);
    assert_int_equal(place_one(r, KIND_EARLY, 7, BITS + 16), ST_INVALID); /* it has asked for none */
    rows_ask(r, 0);
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
    struct reduce *r = second_open(&t, tables_text, NULL);
    rows_ask(r, 0);
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

    r = second_open(&t, tables_text, NULL);
    rows_ask(r, 0);
    rows_give(r, ASKED_FLOATS);
    assert_true(is_open(r));
    assert_int_equal(early_give(r, 1 | 4, 4), ST_INVALID); /* behind the others */
    training_close(&t);

    r = second_open(&t, tables_text, NULL);
    rows_ask(r, 0);
    assert_ok(early_give(r, 0, ASKED_FLOATS)); /* all */
    assert_true(is_open(r));
    assert_int_equal(place_one(r, KIND_ROWS, 7, 0), ST_INVALID);
    training_close(&t);
}

/* Rows of a node come once, also while the step waits for those of others. */
static void reduce_place__rows_twice_before_the_step_opens__refused(void **state)
{
    (void)state;
    struct training t;
    for (int is_early = 0; is_early < 2; is_early++) {
        struct reduce *r = second_open(&t, tables_text, NULL);
        rows_ask(r, 1);
        if (is_early) assert_ok(early_give(r, 0, ASKED_FLOATS)); /* all */
        if (!is_early) rows_give(r, ASKED_FLOATS);
        assert_false(is_open(r));
        assert_int_equal(place_one(r, KIND_ROWS, 7, is_early ? 0 : 4 * ASKED_FLOATS), ST_INVALID);
        assert_non_null(strstr(status_message(), "; expected none of that kind"));
        assert_int_equal(early_give(r, 1 | 4, 4), ST_INVALID);
        assert_non_null(strstr(status_message(), "; expected none of that kind"));
        training_close(&t);
    }
}

/* Where rows come and go, none is early: there is no place for its bits. */
static void reduce_place__early_rows_where_rows_come_and_go__refused(void **state)
{
    (void)state;
    static const char *const set[] = {"wide.ttl=1", "store.period=2", NULL};
    struct training t;
    struct reduce *r = second_open(&t, tables_text, set);
    rows_ask(r, 0);
    assert_int_equal(place_one(r, KIND_EARLY, 7, BITS + 16), ST_INVALID);
    assert_non_null(strstr(status_message(), "; expected none of that kind"));
    assert_ok(place_one(r, KIND_ROWS, 7, 4 * ASKED_FLOATS));
    training_close(&t);
}

static void reduce_place__letter_two_steps_too_soon__refused(void **state)
{
    (void)state;
    struct training t;
    struct reduce *r = second_open(&t, tables_text, NULL);
    const uint64_t bytes = 16; /* of three tables, no keys */
    for (uint64_t step = 7; step < 9; step++) {
        assert_ok(place_one(r, KIND_LETTER, step, bytes));
        assert_ok(reduce_arrived(r, 0));
    }
    assert_int_equal(place_one(r, KIND_LETTER, 9, bytes), ST_INVALID);
    training_close(&t);
}

/* Who computes nothing asks for nothing, and without tables nobody does. */
static void reduce_place__letter_of_who_asks_for_nothing__refused(void **state)
{
    (void)state;
    static const uint32_t all_of_first[] = {0, 8, 8};
    const struct setup setup = {
        .threads = 1, .nodes = {.rank = 0, .node_count = 2, .lane_begin = all_of_first, .post = &net.node[0].post}};
    struct iovec part[REDUCE_PARTS_MAX];
    uint32_t part_count;
    struct training t;
    post_open(&net, 2, 1, 0);
    assert_ok(training_open(&t, tables_text, NULL, data_path, &setup));
    reduce_start(t.reduce, 7);
    assert_int_equal(reduce_place(t.reduce, 1, KIND_LETTER, 7, 16, part, &part_count), ST_INVALID);
    assert_non_null(strstr(status_message(), "; expected none of that kind"));
    training_close(&t);

    struct reduce *r = second_open(&t, model_text, NULL);
    assert_int_equal(place_one(r, KIND_LETTER, 7, 16), ST_INVALID);
    assert_int_equal(place_one(r, KIND_BINS, 0, 8), ST_INVALID);
    assert_int_equal(place_one(r, KIND_ROWS, 7, 16), ST_INVALID);
    assert_int_equal(place_one(r, KIND_EARLY, 7, 16), ST_INVALID);
    training_close(&t);
}

/* Sums of a step come behind the request for its rows. */
static void reduce_place__sums_before_the_letter__refused(void **state)
{
    (void)state;
    struct training t;
    struct reduce *r = second_open(&t, tables_text, NULL);
    assert_int_equal(place_one(r, EXCHANGE_SUMS, 7, 100), ST_INVALID);
    assert_non_null(strstr(status_message(), "; expected none of that kind"));
    assert_ok(place_one(r, KIND_LETTER, 7, 16));
    assert_ok(reduce_arrived(r, 0));
    assert_int_equal(place_one(r, EXCHANGE_SUMS, 7, 100), ST_INVALID);
    assert_non_null(strstr(status_message(), " of sums of step 7: "));
    training_close(&t);
}

/* The node's next message of the kind comes, of the step: zeros; false: it sends none. */
static bool next_give(struct reduce *r, uint32_t from, uint16_t kind, uint64_t step)
{
    struct iovec part[REDUCE_PARTS_MAX];
    uint32_t part_count;
    uint64_t bytes;
    assert_int_equal(reduce_place(r, from, kind, step, UINT64_MAX, part, &part_count), ST_INVALID);
    if (strstr(status_message(), "; expected none of that kind")) return false;
    assert_int_equal(sscanf(strstr(status_message(), "; expected "), "; expected %lu of", &bytes), 1);
    if (reduce_place(r, from, kind, step, bytes, part, &part_count) != ST_OK) return false;
    for (uint32_t i = 0; i < part_count; i++) memset(part[i].iov_base, 0, part[i].iov_len);
    assert_ok(reduce_arrived(r, from));
    return true;
}

/* Sums of the next step come when all of the open one has come: sums, squares, values of every bucket. */
static void reduce_place__sums_before_the_step_in_front_is_whole__refused(void **state)
{
    (void)state;
    static const char *const set[] = {"train.clip_norm=0.01", NULL};
    struct training t;
    for (int first = 0; first < 2; first++) {
        struct reduce *r = second_open(&t, model_text, set);
        const uint32_t buckets = r->exchange.bucket_count;
        while (next_give(r, 0, EXCHANGE_SUMS, 7)) continue;
        assert_false(next_give(r, 0, EXCHANGE_SUMS, 8));
        for (int i = 0; i < 2; i++) { /* squares and values, in either order */
            if (i == first) assert_true(next_give(r, 0, EXCHANGE_SQUARES, 7));
            for (uint32_t b = buckets; b-- > 0 && i != first;)
                while (next_give(r, 0, (uint16_t)(KIND_VALUES + b), 7)) continue;
            assert_int_equal(next_give(r, 0, EXCHANGE_SUMS, 8), i == 1);
        }
        training_close(&t);
    }
}

/* Of the open step alone, each bucket's once. */
static void reduce_place__values_of_another_step__refused(void **state)
{
    (void)state;
    struct training t;
    struct reduce *r = second_open(&t, model_text, NULL);
    const uint32_t buckets = r->exchange.bucket_count;
    for (uint32_t b = 0; b < buckets; b++) {
        const uint16_t kind = (uint16_t)(KIND_VALUES + b);
        assert_false(next_give(r, 0, kind, 6));
        assert_false(next_give(r, 0, kind, 8));
        while (next_give(r, 0, kind, 7)) continue;
        assert_false(next_give(r, 0, kind, 8));
    }
    assert_false(next_give(r, 0, (uint16_t)(KIND_VALUES + buckets), 7));
    training_close(&t);
}

/* A node with stages may be a step ahead with its values, not two, and none come twice. */
static void reduce_place__values_of_stages_twice_or_too_early__refused(void **state)
{
    (void)state;
    struct training t;
    const struct setup setup = {
        .plan = "0-4:1:1@0 5-8:1:1@1", .threads = 1, .nodes = {.rank = 0, .node_count = 2, .post = &net.node[0].post}};
    post_open(&net, 2, 1, 0);
    assert_ok(training_open(&t, model_text, NULL, data_path, &setup));
    reduce_start(t.reduce, 7);
    assert_false(next_give(t.reduce, 1, KIND_VALUES, 8));
    assert_false(next_give(t.reduce, 1, KIND_VALUES + 1, 7)); /* there is one bucket */
    assert_true(next_give(t.reduce, 1, KIND_VALUES, 7));
    assert_false(next_give(t.reduce, 1, KIND_VALUES, 7));
    assert_false(next_give(t.reduce, 1, KIND_VALUES, 9));
    assert_true(next_give(t.reduce, 1, KIND_VALUES, 8));
    assert_false(next_give(t.reduce, 1, KIND_VALUES, 8));
    assert_false(next_give(t.reduce, 1, KIND_VALUES, 9));
    training_close(&t);
}

/* Counts of rows come, in words of a bin above bit 48 and its rows below. */
static status bins_give(struct reduce *r, uint64_t round, const uint64_t *word, uint32_t words)
{
    struct iovec part[REDUCE_PARTS_MAX];
    uint32_t part_count;
    TRY(reduce_place(r, 0, KIND_BINS, round, words * sizeof *word, part, &part_count));
    memcpy(part[0].iov_base, word, words * sizeof *word);
    return reduce_arrived(r, 0);
}

/* Whole words, one a bin at most; a node is a round ahead at most, and its bins go up. */
static void reduce_place__counts_of_rows_out_of_order__refused(void **state)
{
    (void)state;
    static const char *const set[] = {"emb.rows=200", "store.period=3", NULL};
    static const uint64_t up[] = {UINT64_C(3) << 48 | 1, UINT64_C(4) << 48 | 2, UINT64_C(6) << 48 | 1},
                          down[] = {UINT64_C(3) << 48 | 1, UINT64_C(6) << 48 | 1, UINT64_C(4) << 48 | 1};
    struct training t;
    struct reduce *r = second_open(&t, tables_text, set);
    static const uint64_t wrong[] = {0, 4, 12, 8 * STORE_BINS + 8};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct iovec part[REDUCE_PARTS_MAX];
        uint32_t part_count;
        assert_int_equal(reduce_place(r, 0, KIND_BINS, 0, wrong[i], part, &part_count), ST_INVALID);
    }
    assert_int_equal(bins_give(r, 1, up, 3), ST_INVALID);
    assert_ok(bins_give(r, 0, up, 3));
    assert_int_equal(bins_give(r, 0, up, 3), ST_INVALID);
    assert_int_equal(bins_give(r, 1, down, 3), ST_INVALID);
    assert_non_null(strstr(status_message(), "that are not in the order of their bins"));
    training_close(&t);

    r = second_open(&t, tables_text, set);
    assert_ok(bins_give(r, 0, up, 3));
    assert_ok(bins_give(r, 1, up, 3));
    assert_int_equal(bins_give(r, 2, up, 3), ST_INVALID);
    assert_non_null(strstr(status_message(), "; expected none of that kind"));
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
        cmocka_unit_test(pipeline_open__what_one_node_alone_does__refused_by_name),
        cmocka_unit_test(reduce_place__another_message_than_the_next__refused),
        cmocka_unit_test(reduce_place__early_rows_of_no_such_size__refused),
        cmocka_unit_test(reduce_place__early_rows_out_of_turn__refused),
        cmocka_unit_test(reduce_place__rows_twice_before_the_step_opens__refused),
        cmocka_unit_test(reduce_place__early_rows_where_rows_come_and_go__refused),
        cmocka_unit_test(reduce_place__letter_two_steps_too_soon__refused),
        cmocka_unit_test(reduce_place__letter_of_who_asks_for_nothing__refused),
        cmocka_unit_test(reduce_place__sums_before_the_letter__refused),
        cmocka_unit_test(reduce_place__sums_before_the_step_in_front_is_whole__refused),
        cmocka_unit_test(reduce_place__values_of_another_step__refused),
        cmocka_unit_test(reduce_place__values_of_stages_twice_or_too_early__refused),
        cmocka_unit_test(reduce_place__counts_of_rows_out_of_order__refused),
        cmocka_unit_test(reduce_arrived__news_of_more_examples_than_a_batch__refused),
    };
    return cmocka_run_group_tests(tests, group_open, fixture_close);
}
