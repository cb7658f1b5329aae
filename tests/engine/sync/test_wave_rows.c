/* Rows of waves at their owner: whatever rounds its rows have already, a worker gets the same bits as
 * after the round that it wants; rows are made by the first wave that changes them. What is refused of
 * letters is in tests/engine/node/test_waves_sent.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "engine/sync/wave_rows.h"
#include "engine/sync/wsp_rows.h"
#include "io/store/store_rows.h"
#include "tests/engine/fixture_files.h"

static const char model_text[] = "[data]\nsparse = C1..C2\n"
                                 "[table emb]\ndim = 3\ninit = uniform 0.1\noptimizer = adagrad 0.05\n"
                                 "[embedding e]\ntable = emb\ninput = C1..C2\n"
                                 "[fc y]\ninput = e\nunits = 1\n"
                                 "[loss bce]\ninput = y\n"
                                 "[train]\nbatch = 4\nsync = wsp\n[store]\nram = 1MiB\n";

#define WORKERS 3u
#define ROUNDS  12u
#define PLACES  (WORKERS * ROUNDS)
#define KEYS    8u /* of a letter, and of an asker's */

static struct graph graph;
static struct model model;
static struct sync_site site;
static struct arena arena;
static struct wave_rows rows;
static uint32_t floats;
static uint64_t letters[PLACES][64];

static uint64_t random_state;
static uint64_t draw(uint64_t bound)
{
    uint64_t x = (random_state += UINT64_C(0x9e3779b97f4a7c15));
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    return (x ^ x >> 31) % bound;
}

static void open_all(bool is_exact)
{
    struct layout sum = {0}, taken = {.arena = &arena};
    assert_ok(graph_compile(&graph, "test.cfg", model_text, strlen(model_text), NULL, 0, NULL));
    /* What look-ups give for a key without a row is not what its row begins with. */
    static const struct model_table_settings settings = {.unseen_is_zeros = true};
    assert_ok(model_open(&model, &graph, &(struct model_budget){.ram_bytes = 1 << 20, .table = &settings}));
    model_init(&model);
    site = (struct sync_site){.graph = &graph, .model = &model, .in_flight = 1, .is_exact = is_exact};
    memset(&rows, 0, sizeof rows);
    wave_rows_layout(&rows, &sum, &site, PLACES);
    assert_ok(arena_open(&arena, "test", sum.bytes));
    wave_rows_layout(&rows, &taken, &site, PLACES);
    floats = graph.tables[0].span_floats;
    assert_true(floats == 6);
}

static void close_all(void)
{
    arena_close(&arena);
    model_close(&model);
    graph_close(&graph);
}

/* Changes of some rows that depend on round and worker alone. */
static struct wave_letter letter_make(uint64_t round, uint32_t worker)
{
    const uint32_t place = (uint32_t)(round * WORKERS + worker);
    random_state = place;
    const struct letter_rows head = {.count = draw(4)};
    const struct wave_letter letter = {.place = place,
                                       .worker = worker,
                                       .round = round,
                                       .at = (uint8_t *)letters[place],
                                       .bytes = head.count ? letter_rows_bytes(&graph, 0, head.count) : 0};
    uint64_t *key = letters[place] + sizeof head / sizeof *key;
    float *change = (float *)(key + head.count);
    memcpy(letters[place], &head, sizeof head);
    for (uint32_t i = 0; i < head.count; i++) key[i] = i * 3 + draw(3);
    for (uint32_t i = 0; i < head.count * floats; i++) change[i] = 1.0f / (float)(1 + draw(1000));
    return letter;
}

static void values_get(uint64_t until, float *to)
{
    static const uint32_t count = KEYS;
    uint64_t key[KEYS];
    for (uint32_t i = 0; i < KEYS; i++) key[i] = i;
    const struct asked_letter asked = {.count = &count, .key = {key}};
    assert_ok(wave_rows_values(&rows, &asked, until, to));
}

static void round_add(void)
{
    for (uint32_t v = 0; v < WORKERS; v++) {
        const struct wave_letter letter = letter_make(rows.level, v);
        assert_ok(wave_rows_add(&rows, &letter));
    }
    rows.level++;
}

/* What the owner's rows are after each number of rounds, by the definition. */
static float expected[ROUNDS + 1][KEYS * 6];
static void expected_find(void)
{
    open_all(false);
    for (uint64_t round = 0; round <= ROUNDS; round++) {
        values_get(round, expected[round]);
        if (round < ROUNDS) round_add();
    }
    assert_true(store_row_count(model.store, 0) > 0);
    for (uint32_t i = 0; i < KEYS; i++) { /* before anything was changed: as rows are made */
        float row[6] = {0};
        model_row_init(&model, 0, i, row);
        assert_memory_equal(expected[0] + i * floats, row, sizeof row);
    }
    close_all();
}

static void wave_rows_exact__any_order_of_letters__values_of_the_round(void **state)
{
    (void)state;
    float values[KEYS * 6];
    expected_find();
    for (uint32_t ahead = 0; ahead <= 4; ahead++) {
        open_all(true);
        for (uint64_t here = 0; here <= ROUNDS; here++) {
            for (; rows.level + ahead < here;) round_add();
            const uint64_t count = store_row_count(model.store, 0);
            for (uint64_t until = rows.level; until <= here; until++) {
                values_get(until, values);
                assert_memory_equal(values, expected[until], sizeof values);
            }
            assert_int_equal(store_row_count(model.store, 0), count); /* who asks makes no row */
            for (uint32_t i = 0; i < WORKERS && here < ROUNDS; i++) { /* also of later waves, which come early */
                const uint32_t v = ahead % 2 ? WORKERS - 1 - i : i;
                const struct wave_letter letter = letter_make(here, v);
                assert_ok(wave_rows_come(&rows, &letter));
            }
        }
        close_all();
    }
}

static void wave_rows__a_key_twice__is_refused(void **state)
{
    (void)state;
    open_all(true);
    struct wave_letter letter = letter_make(0, 0);
    const struct letter_rows head = {.count = 2};
    memset(letters[0], 0, sizeof letters[0]);
    memcpy(letters[0], &head, sizeof head);
    letter.bytes = letter_rows_bytes(&graph, 0, 2);
    assert_ok(wave_rows_come(&rows, &letter));
    assert_int_equal(wave_rows_add(&rows, &letter), ST_INVALID);
    assert_non_null(strstr(status_message(), "a wave has a row of table \"emb\" twice"));
    close_all();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wave_rows_exact__any_order_of_letters__values_of_the_round),
        cmocka_unit_test(wave_rows__a_key_twice__is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
