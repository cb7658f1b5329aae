/* What own waves have changed of rows, against a plain list of all changes: what a minibatch reads, and what
 * letters to owners have. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "engine/sync/wsp_rows.h"
#include "io/store/shard.h"
#include "tests/engine/fixture_files.h"

#define FLOATS   3u
#define KEYS     40u
#define OWNERS   3u
#define DISTANCE 2u
#define WAVES    60u

/* A wave has two minibatches of five examples of two keys. */
static struct graph_header header = {.micro = 5};
static struct graph_table table = {.key_count_max = 2, .span_floats = FLOATS};
static struct graph graph = {.header = &header, .tables = &table, .table_count = 1};
static const struct sync_site site = {.graph = &graph, .in_flight = 2, .clock_distance = DISTANCE};

static struct arena arena;
static struct own_rows rows;
static uint8_t owner_of[SHARD_COUNT];

static uint64_t random_state;
static uint64_t draw(uint64_t bound)
{
    uint64_t x = (random_state += UINT64_C(0x9e3779b97f4a7c15));
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    return (x ^ x >> 31) % bound;
}

static void open_all(void)
{
    struct layout sum = {0}, taken = {.arena = &arena};
    own_rows_layout(NULL, &sum, &site, 0);
    assert_ok(arena_open(&arena, "test", sum.bytes));
    own_rows_layout(&rows, &taken, &site, 0);
    for (uint32_t s = 0; s < SHARD_COUNT; s++) owner_of[s] = (uint8_t)(s % OWNERS);
}

/* changed[w][k]: by how much wave w has changed key k; whole numbers, whose sums are exact. */
static float changed[WAVES][KEYS];
static float expected_of(uint64_t key, uint64_t level)
{
    float sum = 1000 * (float)key;
    for (uint64_t w = level; w < WAVES; w++) sum += changed[w][key];
    return sum;
}

static void row_change(uint64_t wave, uint64_t key, uint64_t level)
{
    const float value[FLOATS] = {1000 * (float)key, 1, 2}, more = (float)draw(5);
    float row[FLOATS];
    own_rows_read(&rows, key, level, value, row);
    assert_true(row[0] == expected_of(key, level));
    row[0] += more;
    own_rows_keep(&rows, wave, key, level, value, row);
    changed[wave][key] += more;
}

static void letters_check(uint64_t wave, const bool *is_changed)
{
    uint32_t count[OWNERS] = {0}, all = 0;
    uint64_t letter[OWNERS][64];
    uint8_t *at[OWNERS];
    own_rows_count(&rows, wave, owner_of, count);
    for (uint32_t o = 0; o < OWNERS; o++) at[o] = (uint8_t *)letter[o];
    own_rows_write(&rows, wave, 0, owner_of, OWNERS, count, at);
    for (uint32_t o = 0; o < OWNERS; all += count[o++]) {
        struct letter_rows of;
        const size_t bytes = letter_rows_bytes(&graph, 0, count[o]);
        assert_int_equal(at[o] - (uint8_t *)letter[o], count[o] ? bytes : 0);
        if (count[o] == 0) continue;
        assert_true(letter_rows_at(&graph, (uint8_t *)letter[o], bytes, 0, &of));
        assert_false(letter_rows_at(&graph, (uint8_t *)letter[o], bytes - 8, 0, &of));
        assert_int_equal(of.count, count[o]);
        const uint64_t *key = letter[o] + sizeof of / sizeof *key;
        const float *change = (const float *)(key + count[o]);
        for (uint32_t i = 0; i < count[o]; i++, change += FLOATS) {
            assert_true(is_changed[key[i]] && owner_of[shard_of(key[i])] == o);
            assert_true(change[0] == changed[wave][key[i]] && change[1] == 0);
        }
    }
    for (uint32_t k = 0; k < KEYS; k++) all -= is_changed[k];
    assert_int_equal(all, 0);
}

static void own_rows__waves_of_any_rows__read_and_written_as_changed(void **state)
{
    (void)state;
    open_all();
    for (uint32_t job = 0; job < 3; job++) {
        const uint64_t base = job * 20;
        for (uint64_t wave = base; wave < base + 19; wave++) {
            bool is_changed[KEYS] = {false};
            for (uint32_t i = 0; i < 20; i++) { /* at most as many as a wave has keys */
                const uint64_t oldest = wave > base + DISTANCE + 2 ? wave - DISTANCE - 2 : base,
                               key = draw(job == 1 ? KEYS : 3);
                row_change(wave, key, oldest + draw(wave - oldest + 1));
                is_changed[key] = true;
            }
            letters_check(wave, is_changed);
        }
        own_rows_clear(&rows);
        memset(changed, 0, sizeof changed); /* owners have all */
    }
    arena_close(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(own_rows__waves_of_any_rows__read_and_written_as_changed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
