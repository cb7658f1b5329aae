/* What a worker sends that holds the key and sends anything: letters that are none, waves and rounds for
 * which there is no place, requests for rows of others, and answers of too few rounds are refused by name.
 * And what an owner waits for before it sends sums. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/engine/node/waves_fixture.h"

#include "engine/node/reduce_internal.h"
#include "engine/node/waves_internal.h"
#include "engine/sync/wsp_rows.h"
#include "io/store/store_rows.h"

/* --- letters -------------------------------------------------------------------------------------- */

/* Nodes of which nobody carries messages. */
static void silent_nodes_open(struct waves_set *set, uint32_t node_count)
{
    const struct cut cut = workers(node_count);
    text = rows_text;
    node_waves = 2;
    nodes_open(&cut, waves_set(set, 1, false), 0, NULL);
    post_close(&net);
}
static void silent_open(struct waves_set *set) { silent_nodes_open(set, 2); }

static void silent_close(void)
{
    for (uint32_t n = 0; n < net.node_count; n++) training_close(&runners[n].training);
    node_waves = 0;
    text = model_text;
}

static void assert_refused(status st, const char *words)
{
    assert_int_equal(st, ST_INVALID);
    if (!strstr(status_message(), words)) fail_msg("\"%s\" lacks \"%s\"", status_message(), words);
}

static void waves_letter__is_none__is_refused(void **state)
{
    (void)state;
    struct waves_set set;
    uint64_t random = 1;
    silent_open(&set);
    struct exchange_waves *x = reduce_exchange(runners[0].training.reduce)->waves;
    uint8_t *letter = calloc(1, x->letter_max);
    const struct wave_head head = {
        .minibatches = 1, .in_flight = 2, .clock_distance = 1, .record_count = 1, .is_last = 1};
    const struct wave_record record = {.step = 1, .example_count = 4};
    const size_t begin = sizeof head + 2 * sizeof record;
    memcpy(letter + sizeof head, &record, sizeof record);
    struct wave_head other[] = {head, head, head, head, head, head};
    other[0].is_last = 0;      /* of fewer than a wave has */
    other[1].record_count = 2; /* a whole one that is the last */
    other[2].minibatches = 4;  /* which these can't be */
    other[3].is_exact = 1;
    other[4].is_last = 2;
    other[5].minibatches = 3; /* two more than it has told of */
    for (uint32_t i = 0; i < sizeof other / sizeof *other; i++) {
        memcpy(letter, &other[i], sizeof head);
        assert_true(x->come(x->context, 1, 0, letter, begin) != ST_OK);
    }
    memcpy(letter, &head, sizeof head);
    assert_true(x->come(x->context, 1, 1, letter, begin) != ST_OK);     /* of another wave        */
    assert_true(x->come(x->context, 1, 0, letter, begin - 8) != ST_OK); /* too short              */
    struct wave_letter of = {.worker = 1, .at = letter, .begin = begin, .bytes = begin + 8};
    assert_refused(wave_rows_come(&x->rows, &of), "rows of a wave that cannot be right"); /* a half of what rows have */
    of.bytes = x->letter_max;
    uint64_t rows_of[3] = {7, 1}; /* of no table */
    memcpy(letter + begin, rows_of, sizeof rows_of);
    assert_refused(wave_rows_come(&x->rows, &of), "rows of a wave that cannot be right");
    rows_of[0] = 0, rows_of[1] = UINT64_MAX / 8; /* of more than a wave has */
    memcpy(letter + begin, rows_of, sizeof rows_of);
    assert_refused(wave_rows_come(&x->rows, &of), "rows of a wave that cannot be right");
    rows_of[1] = 1; /* of this owner, and of the other; table 0 twice */
    for (uint32_t owner = 0; owner < 2; owner++) {
        while (x->owner_of[shard_of(rows_of[2])] != owner) rows_of[2]++;
        memcpy(letter + begin, rows_of, sizeof rows_of);
        of.bytes = begin + letter_rows_bytes(&runners[0].training.graph, 0, 1);
        memcpy(letter + of.bytes, letter + begin, of.bytes - begin);
        if (owner == 0) assert_ok(wave_rows_come(&x->rows, &of));
        if (owner == 1) assert_refused(wave_rows_come(&x->rows, &of), "whose owner is node 1 was sent to node 0");
        of.bytes += of.bytes - begin;
        if (owner == 0) assert_refused(wave_rows_come(&x->rows, &of), "rows of a table twice in a wave");
    }
    for (uint32_t i = 0; i < 20000; i++) { /* whatever: refused, or heard, and no harm */
        of.bytes = begin + draw(&random, x->letter_max - begin);
        letter[begin + draw(&random, 64)] = (uint8_t)draw(&random, 256);
        if (wave_rows_come(&x->rows, &of) == ST_OK) memset(letter + begin, 1, 64);
    }
    for (uint32_t i = 0; i < 2000; i++) {
        const size_t bytes = sizeof head + draw(&random, x->letter_max - sizeof head);
        letter[sizeof head + draw(&random, 64)] = (uint8_t)draw(&random, 256);
        if (x->come(x->context, 1, 0, letter, bytes) == ST_OK) break;
    }
    free(letter);
    silent_close();
}

/* --- a peer that has the key and does not keep to the clock -------------------------------------- */

/* A node sends node 0 a message, by this thread; `from` is what it says. */
static status node_sent(uint32_t node, uint16_t kind, uint64_t step, const void *from, uint64_t bytes)
{
    struct iovec part[REDUCE_PARTS_MAX];
    uint32_t part_count;
    struct reduce *r = runners[0].training.reduce;
    TRY(reduce_place(r, node, kind, step, bytes, part, &part_count));
    for (uint32_t i = 0; i < part_count; from = (const uint8_t *)from + part[i++].iov_len)
        memcpy(part[i].iov_base, from, part[i].iov_len);
    return reduce_arrived(r, node);
}
static status sent(uint16_t kind, uint64_t step, const void *from, uint64_t bytes)
{
    return node_sent(1, kind, step, from, bytes);
}

static status wave_sent(uint64_t wave)
{
    struct {
        struct wave_head head;
        struct wave_record record[2];
    } letter = {
        .head = {.wave = wave, .minibatches = 2 * wave + 2, .in_flight = 2, .clock_distance = 1, .record_count = 2}};
    for (uint64_t i = 0; i < 2; i++) letter.record[i].step = 2 * (2 * wave + i) + 1;
    return sent(KIND_WAVE, 2 * wave, &letter, sizeof letter);
}

static void waves_peer__runs_ahead_of_its_clock__is_refused(void **state)
{
    (void)state;
    struct waves_set set;
    silent_open(&set);
    for (uint64_t wave = 0; wave < WAVES_PLACES(1); wave++) assert_ok(wave_sent(wave));
    assert_refused(wave_sent(WAVES_PLACES(1)),
                   "node 1 sent wave 5, and there is room for waves below 5: it does not wait");
    silent_close();
}

static void waves_peer__sends_rounds_without_receipts__is_refused(void **state)
{
    (void)state;
    struct waves_set set;
    silent_open(&set);
    const struct exchange_waves *x = reduce_exchange(runners[0].training.reduce)->waves;
    const uint64_t bytes = (x->cut[2] - x->cut[1]) * sizeof(float) + 2 * sizeof(uint64_t); /* and numbers of rows */
    float *sums = calloc(1, bytes);
    for (uint64_t round = 0; round < WAVES_ROUNDS; round++) assert_ok(sent(KIND_ROUND, 2 * round, sums, bytes));
    assert_refused(sent(KIND_ROUND, 2 * WAVES_ROUNDS, sums, bytes),
                   "node 1 sent round 2 of waves, and there is room for rounds below 2: it does not wait");
    const uint64_t nothing = 0;
    assert_ok(sent(KIND_ADDED, 0, &nothing, sizeof nothing));
    assert_refused(sent(KIND_ADDED, 1, &nothing, sizeof nothing),
                   "node 1 says that it has added rounds of waves below 1; expected a number from 0 to 0");
    free(sums);
    silent_close();
}

/* Of one worker, with its stages on two nodes: neither has a use for what the other has changed. */
static void waves_peer__sends_changes_of_other_stages__is_refused(void **state)
{
    (void)state;
    struct waves_set set;
    node_plan = "0-2:1:1@1 3-7:1:1@0";
    silent_open(&set);
    const struct exchange_waves *x = reduce_exchange(runners[0].training.reduce)->waves;
    const uint64_t own_bytes = (x->cut[1] - x->cut[0]) * sizeof(float),
                   bytes = (x->cut[2] - x->cut[1]) * sizeof(float) + 2 * sizeof(uint64_t);
    struct {
        struct wave_head head;
        struct wave_record record[2];
        float change[4096];
    } letter = {.head = {.minibatches = 2, .in_flight = 2, .clock_distance = 1, .record_count = 2}};
    float *sums = calloc(1, bytes);
    assert_true(own_bytes <= sizeof letter.change);
    assert_refused(sent(KIND_WAVE, 1, &letter, offsetof(__typeof__(letter), change) + own_bytes), "node 1");
    assert_ok(sent(KIND_WAVE, 0, &letter, offsetof(__typeof__(letter), change)));
    assert_refused(sent(KIND_ROUND, 0, sums, bytes), "node 1");
    assert_ok(sent(KIND_ROUND, 0, sums, 3 * sizeof(uint64_t))); /* numbers of rows alone */
    free(sums);
    silent_close();
    node_plan = NULL;
}

/* --- what an owner waits for ---------------------------------------------------------------------- */

/* The last wave of a worker of three, of one minibatch. */
struct last_letter {
    struct wave_head head;
    struct wave_record record[2];
};
static struct last_letter last_letter(uint32_t worker)
{
    return (struct last_letter){
        .head = {.minibatches = 1, .in_flight = 2, .clock_distance = 1, .record_count = 1, .is_last = 1},
        .record = {{.step = worker}}};
}

static uint32_t messages_to(uint32_t to, uint16_t kind)
{
    uint32_t count = 0;
    for (uint64_t i = net.way[0][to].begin; i < net.way[0][to].end; i++)
        count += net.way[0][to].letter[i % POST_QUEUE].message.kind == kind;
    return count;
}

/* Node 0's wave goes, without changes. */
static void own_wave_give(struct exchange_waves *x)
{
    const struct last_letter letter = last_letter(0);
    memcpy(x->letter[0], &letter, sizeof letter);
    for (uint32_t o = 0; o <= x->worker_count; o++) x->rows_begin[0][o] = sizeof letter;
    x->has_change[0] = false;
    atomic_store(&x->shared_busy, 1);
    atomic_store(&x->shared_given, 1);
    assert_ok(reduce_look(runners[0].training.reduce));
}

/* Three workers, whose last stages are on nodes 0 to 2: these get the sums of what they have changed although
 * nothing of the first stages, on nodes 3 to 5, has come. The round is here when all letters are. */
static void waves_owner__nodes_of_its_stage_have_sent__sends_their_sums(void **state)
{
    (void)state;
    struct waves_set set;
    node_plan = "0-2:1:1@3+4+5 3-7:1:1@0+1+2";
    silent_nodes_open(&set, 6);
    struct reduce *r = runners[0].training.reduce;
    struct exchange_waves *x = reduce_exchange(r)->waves;
    own_wave_give(x);
    for (uint32_t to = 1; to < 6; to++) assert_int_equal(messages_to(to, KIND_ROUND), 0);
    struct last_letter letter = last_letter(1);
    assert_ok(node_sent(1, KIND_WAVE, 0, &letter, sizeof letter));
    assert_ok(reduce_look(r));
    assert_int_equal(messages_to(2, KIND_ROUND), 1); /* of nodes 0 and 1 */
    for (uint32_t to = 1; to < 6; to++)
        if (to != 2) assert_int_equal(messages_to(to, KIND_ROUND), 0); /* node 2's wave is awaited */
    assert_int_equal(waves_of(r)->come[0], 0);
    letter = last_letter(2);
    assert_ok(node_sent(2, KIND_WAVE, 0, &letter, sizeof letter));
    assert_ok(reduce_look(r));
    for (uint32_t to = 1; to < 6; to++) assert_int_equal(messages_to(to, KIND_ROUND), 1);
    assert_int_equal(waves_of(r)->come[0], 1); /* its own sums, too */
    assert_int_equal(waves_of(r)->round, 0);
    assert_int_equal(waves_of(r)->end, NOT_YET);
    silent_close();
    node_plan = NULL;
}

/* --- rows that workers ask for -------------------------------------------------------------------- */

/* What node 0 has sent node 1 last. */
static const struct reduce_message *sent_last(void)
{
    assert_true(net.way[0][1].end > 0);
    return &net.way[0][1].letter[(net.way[0][1].end - 1) % POST_QUEUE].message;
}

static void waves_asks__of_any_rows__are_answered_or_refused(void **state)
{
    (void)state;
    struct waves_set set;
    silent_open(&set);
    const struct training *t = &runners[0].training;
    const struct exchange_waves *x = reduce_exchange(t->reduce)->waves;
    const uint64_t bytes = t->graph.tables[0].span_floats * sizeof(float);
    uint64_t own[2] = {1}, other[2] = {1}; /* one key of the first table */
    while (x->owner_of[shard_of(own[1])] != 0) own[1]++;
    while (x->owner_of[shard_of(other[1])] != 1) other[1]++;
    float row[16] = {0};
    model_row_init((void *)(uintptr_t)&t->model, 0, own[1], row);
    assert_ok(sent(KIND_ASK, 0, own, sizeof own));
    assert_int_equal(sent_last()->kind, KIND_ANSWER);
    assert_int_equal(sent_last()->step, 0);
    assert_int_equal(sent_last()->bytes, bytes);
    assert_memory_equal(sent_last()->part[0].iov_base, row, bytes);
    assert_int_equal(store_row_count(t->model.store, 0), 0); /* who asks makes no row */
    assert_refused(sent(KIND_ASK, 0, other, sizeof other), "whose owner is node 1 was sent to node 0");
    const uint64_t before = net.way[0][1].end;
    assert_ok(sent(KIND_ASK, 5, own, sizeof own)); /* rounds that are not here */
    assert_int_equal(net.way[0][1].end, before);
    assert_refused(sent(KIND_ASK, 5, own, sizeof own), "expected none of that kind");
    assert_refused(sent(KIND_ANSWER, 0, row, bytes), "expected none of that kind");
    silent_close();
}

static void waves_answers__of_too_few_rounds__are_refused(void **state)
{
    (void)state;
    struct waves_set set;
    silent_open(&set);
    struct reduce *reduce = runners[0].training.reduce;
    struct exchange_waves *x = reduce_exchange(reduce)->waves;
    const size_t floats = runners[0].training.graph.tables[0].span_floats;
    float values[16], row[16] = {1, 2, 3};
    uint64_t letter[2] = {1}, level[2];
    size_t letter_begin[] = {0, 0, sizeof letter}, float_begin[] = {0, 0, floats};
    struct asked_step asked = {.letters = (uint8_t *)letter,
                               .letter_begin = letter_begin,
                               .float_begin = float_begin,
                               .values = values,
                               .level = level,
                               .round = 3};
    x->asked = &asked;
    atomic_store(&x->shared_asked, 1);
    assert_ok(reduce_look(reduce));
    assert_int_equal(sent_last()->kind, KIND_ASK);
    assert_int_equal(sent_last()->step, 3);
    assert_int_equal(reduce_waits(reduce), 0); /* node 1 itself waits for waves of node 0 */
    waves_of(reduce)->now[0].heard = 3;
    assert_int_equal(reduce_waits(reduce), 2);
    waves_of(reduce)->now[0].heard = 0;
    assert_refused(sent(KIND_ANSWER, 2, row, floats * sizeof *row),
                   "node 1 answers with rows after the rounds of waves below 2; expected 3 or more");
    assert_int_equal(atomic_load(&x->shared_answered), 0);
    assert_ok(sent(KIND_ANSWER, 4, row, floats * sizeof *row));
    assert_int_equal(atomic_load(&x->shared_answered), 1);
    assert_int_equal(level[1], 4);
    assert_memory_equal(values, row, floats * sizeof *row);
    assert_int_equal(reduce_waits(reduce), 0);
    silent_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waves_letter__is_none__is_refused),
        cmocka_unit_test(waves_peer__runs_ahead_of_its_clock__is_refused),
        cmocka_unit_test(waves_peer__sends_rounds_without_receipts__is_refused),
        cmocka_unit_test(waves_peer__sends_changes_of_other_stages__is_refused),
        cmocka_unit_test(waves_owner__nodes_of_its_stage_have_sent__sends_their_sums),
        cmocka_unit_test(waves_asks__of_any_rows__are_answered_or_refused),
        cmocka_unit_test(waves_answers__of_too_few_rounds__are_refused),
    };
    return cmocka_run_group_tests(tests, group_open, fixture_close) ? 1 : 0;
}
