/* What an asker writes and an owner reads: every key of a step once, in its owner's letter, in order of first
 * occurrence, with how often it occurs; spans that lie as values come; and letters that nobody can have
 * written are refused, each for what is wrong with it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "engine/slot/asked.h"
#include "tests/engine/fixture_files.h"

static const char model_text[] = "[data]\ndense = I1\nsparse = C1..C4\n"
                                 "[table emb]\ndim = 3\noptimizer = adagrad_row 0.05\n"
                                 "[table side]\ndim = 2\n"
                                 "[embedding e]\ntable = emb\ninput = C1, C3\n"
                                 "[embedding w]\ntable = side\ninput = C4, C2\n"
                                 "[concat x]\ninput = e, w, dense\n"
                                 "[fc y]\ninput = x\nunits = 1\n"
                                 "[loss bce]\ninput = y\n"
                                 "[train]\nbatch = 24\nmicro = 6\nlanes = 4\n";

#define MICROS 3u /* of the asker's lanes */
#define MICRO  6u
#define FIELDS 4u
#define TABLES 2u

static struct graph graph;
static struct asked_shape shape;
static struct arena arena;
static struct asked_step step;
static struct step_rows rows[TABLES];
static struct key_numbers numbers[TABLES];
static struct micro_batch micro[MICROS];
static struct ticket ticket[MICROS];
static float *values;
static uint8_t owner_of[SHARD_COUNT];
#define EIGHT 1, 1, 1, 1, 1, 1, 1, 1
static const uint16_t even[64] = {EIGHT, EIGHT, EIGHT, EIGHT, EIGHT, EIGHT, EIGHT, EIGHT};
static uint64_t random_state = 1;

static uint64_t draw(uint64_t bound)
{
    random_state = random_state * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (random_state >> 33) % bound;
}

static void asker_layout(struct layout *l)
{
    const struct step_rows_wants wants = {.shows = true, .lanes = true};
    const uint32_t spans[TABLES] = {0, 0};
    for (uint32_t t = 0; t < TABLES; t++) {
        step_rows_layout(&rows[t], l, MICROS * MICRO * FIELDS, wants);
        key_numbers_layout(&numbers[t], l, &shape, t);
    }
    asked_step_layout(&step, l, &shape);
    for (uint32_t index = 0; index < MICROS; index++) {
        l->bytes += micro_batch_bytes(graph_batch(&graph), graph_example(&graph)) +
                    ticket_bytes(graph_batch(&graph), graph_example(&graph), TABLES, spans, false);
        if (!l->arena) continue;
        micro_batch_place(&micro[index], l->arena, graph_batch(&graph), graph_example(&graph));
        ticket_place(&ticket[index], l->arena, graph_batch(&graph), graph_example(&graph), TABLES, spans, false);
    }
    LAYOUT_TAKE(l, values, asked_floats_max(&shape));
}

static void asker_open(uint32_t owners)
{
    assert_ok(graph_compile(&graph, "test.cfg", model_text, strlen(model_text), NULL, 0, NULL));
    shape = (struct asked_shape){.graph = &graph,
                                 .owner_count = owners,
                                 .owner_of = owner_of,
                                 .example_max = MICROS * MICRO,
                                 .run_count = 2,
                                 .shows = {true, owners % 2 == 1}};
    shards_share(owner_of, even, owners);
    struct layout sum = {0}, taken = {.arena = &arena};
    asker_layout(&sum);
    assert_ok(arena_open(&arena, "test", sum.bytes));
    asker_layout(&taken);
    step.rows = rows;
}

static void asker_close(void)
{
    arena_close(&arena);
    graph_close(&graph);
}

/* Keys below `bound`, some fields empty. */
static void micro_draw(struct micro_batch *m, uint32_t examples, uint64_t bound)
{
    micro_batch_clear(m);
    m->example_count = examples;
    for (uint32_t home = 0; home < examples * FIELDS; home++) {
        m->key_begin[home] = m->key_count;
        if (draw(5) == 0) continue;
        m->key[m->key_count] = draw(bound) * UINT64_C(0x9e3779b97f4a7c15);
        m->key_home[m->key_count++] = home;
    }
    m->key_begin[examples * FIELDS] = m->key_count;
}

/* Of a table: how often the key occurs in the step so far; *is_first: nowhere before the position. */
static uint32_t occurrences_of(uint32_t table, uint64_t key)
{
    uint32_t count = 0;
    for (uint32_t index = 0; index < MICROS; index++)
        for (uint32_t p = 0; p < micro[index].key_count; p++) {
            const uint32_t field = micro[index].key_home[p] % FIELDS;
            count += micro[index].key[p] == key && (field == 0 || field == 2 ? 0u : 1u) == table;
        }
    return count;
}

static void step_make(uint64_t bound, uint32_t last_examples)
{
    asked_step_begin(&step, &shape, numbers);
    for (uint32_t index = 0; index < MICROS; index++) {
        micro_draw(&micro[index], index + 1 < MICROS ? MICRO : last_examples, bound);
        asked_step_add(&step, &shape, numbers, &micro[index], index, &ticket[index]);
    }
    asked_step_close(&step, &shape, numbers, values);
    for (uint32_t index = 0; index < MICROS; index++) asked_step_spans(&step, TABLES, &ticket[index]);
}

static void letter_of(uint32_t owner, struct asked_letter *letter)
{
    assert_ok(asked_letter_read(letter, &shape, step.letters + step.letter_begin[owner],
                                step.letter_begin[owner + 1] - step.letter_begin[owner]));
}

/* Every owner writes the keys that it is asked for into its values; then every look-up finds its own. */
static void asked__any_owners__each_key_once_and_values_where_they_are_read(void **state)
{
    (void)state;
    static const uint32_t owners[] = {1, 2, 3, 5, 64};
    for (size_t i = 0; i < sizeof owners / sizeof *owners; i++) {
        asker_open(owners[i]);
        for (uint32_t round = 0; round < 8; round++) {
            uint32_t asked_count[TABLES] = {0};
            step_make(round < 4 ? 30 : 5000, round % 2 ? 0 : 4);
            for (uint32_t o = 0; o < owners[i]; o++) {
                struct asked_letter letter;
                letter_of(o, &letter);
                float *value = values + step.float_begin[o];
                for (uint32_t t = 0; t < TABLES; t++) {
                    assert_int_equal(letter.count[t], step.count[o * TABLES + t]);
                    assert_int_equal(letter.occurrences[t] != NULL, shape.shows[t]);
                    for (uint32_t k = 0; k < letter.count[t]; k++, value += graph.tables[t].dim) {
                        const uint64_t key = letter.key[t][k];
                        assert_int_equal(owner_of[shard_of(key)], o);
                        if (shape.shows[t])
                            assert_int_equal(letter.occurrences[t][k], occurrences_of(t, key));
                        else
                            assert_true(occurrences_of(t, key) > 0);
                        memcpy(value, &key, sizeof key);
                    }
                    asked_count[t] += letter.count[t];
                }
                assert_ptr_equal(value, values + step.float_begin[o + 1]);
            }
            for (uint32_t t = 0; t < TABLES; t++) assert_int_equal(asked_count[t], rows[t].row_count);
            for (uint32_t index = 0; index < MICROS; index++)
                for (uint32_t p = 0; p < micro[index].key_count; p++) {
                    const uint32_t field = micro[index].key_home[p] % FIELDS, t = field == 0 || field == 2 ? 0 : 1;
                    const uint32_t unique = ticket[index].table[t].unique_of[p];
                    assert_memory_equal(ticket[index].table[t].span[unique], &micro[index].key[p], sizeof(uint64_t));
                    const uint32_t lane_row = ticket[index].table[t].lane_row[unique];
                    assert_int_equal(rows[t].lane_rows[lane_row].lane, index);
                }
        }
        asker_close();
    }
}

/* Values that come in two parts, the first of them where all belong, lie as those that come in one. */
static void asked_part_spread__any_bits__values_lie_as_all_do(void **state)
{
    (void)state;
    asker_open(2);
    for (uint32_t round = 0; round < 30; round++) {
        const uint32_t count[TABLES] = {(uint32_t)draw(60), (uint32_t)draw(60)};
        float all[60 * 5], part[2][60 * 5], placed[60 * 5];
        uint64_t bits[2];
        size_t floats = 0, part_floats[2] = {0}, key = 0;
        for (int i = 0; i < 2; i++)
            bits[i] = round == 0 ? 0 : round == 1 ? UINT64_MAX : draw(1u << 31) << 33 | draw(1u << 31) << 2;
        assert_int_equal(asked_keys_count(&graph, count), count[0] + count[1]);
        for (uint32_t t = 0; t < TABLES; t++)
            for (uint32_t i = 0; i < count[t]; i++, key++)
                for (uint32_t d = 0; d < graph.tables[t].dim; d++) {
                    const bool bit = asked_bit(bits, key);
                    all[floats] = part[bit][part_floats[bit]++] = (float)floats;
                    floats++;
                }
        memset(placed, 0, sizeof placed);
        memcpy(placed, part[0], part_floats[0] * sizeof *placed);
        for (int bit = 0; bit < 2; bit++) {
            assert_int_equal(asked_part_floats(&graph, count, bits, bit), part_floats[bit]);
            asked_part_spread(&graph, count, bits, bit, bit ? part[1] : placed, placed);
        }
        assert_memory_equal(placed, all, floats * sizeof *all);
    }
    asker_close();
}

static void shards__many_keys__about_as_many_for_each_owner(void **state)
{
    (void)state;
    uint32_t count[7] = {0};
    shards_share(owner_of, even, 7);
    for (uint64_t key = 0; key < 70000; key++) count[owner_of[shard_of(key)]]++;
    for (uint32_t o = 0; o < 7; o++) assert_in_range(count[o], 9500, 10500);
    shards_share(owner_of, even, 64);
    for (uint32_t shard = 0; shard < SHARD_COUNT; shard++) assert_int_equal(owner_of[shard], shard / 64);
    shards_share(owner_of, even, 1);
    assert_int_equal(owner_of[SHARD_COUNT - 1], 0);
    shards_share(owner_of, (uint16_t[64]){[3] = 1, [63] = 1}, 64);
    assert_int_equal(owner_of[0], 3);
    assert_int_equal(owner_of[SHARD_COUNT / 2 - 1], 3);
    assert_int_equal(owner_of[SHARD_COUNT / 2], 63);
    assert_int_equal(owner_of[SHARD_COUNT - 1], 63);
}

/* Each owner has a run of as many shards as it has parts. */
static void shards__parts__as_many_shards_for_each_owner(void **state)
{
    (void)state;
    static const uint16_t parts[6] = {0, 4000, 0, 1, 95, 0};
    uint32_t begin, end, at = 0;
    shards_share(owner_of, parts, 6);
    for (uint32_t o = 0; o < 6; o++) {
        shards_of(owner_of, o, &begin, &end);
        assert_int_equal(end - begin, parts[o]);
        if (parts[o]) assert_int_equal(begin, at);
        at += parts[o];
    }
    /* 1 each: where the shares that are no whole shards are cut has always been so */
    shards_share(owner_of, even, 3);
    static const uint32_t cuts[4] = {0, 1366, 2731, 4096};
    for (uint32_t o = 0; o < 3; o++) {
        shards_of(owner_of, o, &begin, &end);
        assert_true(begin == cuts[o] && end == cuts[o + 1]);
    }
}

static void letter_refuse(const uint32_t *counts, size_t bytes, const char *message)
{
    static uint64_t at[1000];
    struct asked_letter letter;
    memset(at, 0, sizeof at);
    memcpy(at, counts, TABLES * sizeof *counts);
    assert_int_equal(asked_letter_read(&letter, &shape, (uint8_t *)at, bytes), ST_INVALID);
    assert_string_equal(status_message(), message);
}

static void asked_letter_read__what_nobody_writes__refused(void **state)
{
    (void)state;
    asker_open(2);
    letter_refuse((uint32_t[]){0, 0}, 7, "a request for rows of 7 bytes; expected 8 or more for 2 tables");
    letter_refuse((uint32_t[]){0, 0}, 0, "a request for rows of 0 bytes; expected 8 or more for 2 tables");
    letter_refuse((uint32_t[]){37, 0}, 8, "a request for 37 rows of table \"emb\"; expected at most 36");
    letter_refuse((uint32_t[]){0, UINT32_MAX}, 8,
                  "a request for 4294967295 rows of table \"side\"; expected at most 36");
    letter_refuse((uint32_t[]){3, 2}, 8 + 5 * 8 + 12, "a request for rows of 60 bytes; expected 64, as its counts say");
    letter_refuse((uint32_t[]){3, 2}, 72, "a request for rows of 72 bytes; expected 64, as its counts say");
    struct asked_letter letter;
    static uint64_t at[8] = {3 | UINT64_C(2) << 32, 10, 11, 12, 20, 21, 5 | UINT64_C(6) << 32, 7};
    assert_ok(asked_letter_read(&letter, &shape, (uint8_t *)at, 64));
    assert_ptr_equal(letter.key[1], at + 4);
    assert_int_equal(letter.occurrences[0][1], 6);
    assert_null(letter.occurrences[1]);
    at[7 - 1] = UINT32_MAX | UINT64_C(1) << 32; /* 36 modulo 2^32 */
    at[7] = 36;
    assert_int_equal(asked_letter_read(&letter, &shape, (uint8_t *)at, 64), ST_INVALID);
    assert_string_equal(status_message(), "a request for rows of table \"emb\" whose keys occur 4294967332 times; "
                                          "expected at most 36");
    at[6] = 5 | UINT64_C(6) << 32;
    at[7] = 25;
    assert_ok(asked_letter_read(&letter, &shape, (uint8_t *)at, 64));
    assert_true(asked_letter_bytes_max(&shape) == 8 + 36 * 8 + 36 * 8 + 36 * 4);
    asker_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(asked__any_owners__each_key_once_and_values_where_they_are_read),
        cmocka_unit_test(asked_part_spread__any_bits__values_lie_as_all_do),
        cmocka_unit_test(shards__many_keys__about_as_many_for_each_owner),
        cmocka_unit_test(shards__parts__as_many_shards_for_each_owner),
        cmocka_unit_test(asked_letter_read__what_nobody_writes__refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
