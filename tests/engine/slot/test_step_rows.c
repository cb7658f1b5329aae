/* The numbers of a step's rows, compared with those of a list that is searched from its front:
 * rows in order of first occurrence, whatever lies in the table of cells from steps before; and
 * those of the rows of its lanes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "engine/slot/step_rows.h"

#define MICROS  4u
#define UNIQUES 50u /* of a micro-batch, at most */

/* A micro-batch's ticket of one table. */
struct uniques {
    uint32_t row[UNIQUES], step_row[UNIQUES], lane_row[UNIQUES], occurrence_begin[UNIQUES + 1];
    float *span[UNIQUES];
    struct ticket_table table;
};

static float spans[1 << 20];
static uint64_t seed = 1;

static uint32_t draw_below(uint32_t bound)
{
    seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (uint32_t)((seed >> 32) * bound >> 32);
}

/* Distinct rows below row_count, in any order, each with some occurrences. */
static void uniques_draw(struct uniques *q, uint32_t row_count)
{
    uint32_t count = draw_below((row_count < UNIQUES ? row_count : UNIQUES) + 1), sum = 0;
    for (uint32_t u = 0; u < count;) {
        bool is_there = false;
        q->row[u] = draw_below(row_count);
        for (uint32_t before = 0; before < u; before++) is_there |= q->row[before] == q->row[u];
        if (is_there) continue;
        q->span[u] = &spans[q->row[u]];
        q->occurrence_begin[u++] = sum;
        sum += 1 + draw_below(5);
    }
    q->occurrence_begin[count] = sum;
    q->table = (struct ticket_table){.unique_count = count,
                                     .row = q->row,
                                     .span = q->span,
                                     .occurrence_begin = q->occurrence_begin,
                                     .step_row = q->step_row,
                                     .lane_row = q->lane_row};
}

/* What is known of a step's rows and lanes by looking through lists. */
struct listed {
    uint32_t row[MICROS * UNIQUES], occurrences[MICROS * UNIQUES], count;
    struct {
        uint32_t step_row, lane;
    } lane_row[MICROS * UNIQUES];
    uint32_t lane_row_count;
};

/* Of one lane the numbers are the rows'; of several each row that a lane has first is the next, and is behind
 * the same row's in the lane before. */
static void lane_row_compare(struct listed *l, const struct step_rows *rows, uint32_t step_row, uint32_t lane_row,
                             uint32_t lane)
{
    uint32_t at = 0, before = ROW_NONE;
    for (; at < l->lane_row_count && (l->lane_row[at].step_row != step_row || l->lane_row[at].lane != lane); at++)
        if (l->lane_row[at].step_row == step_row) before = at;
    if (at == l->lane_row_count) {
        l->lane_row[at].step_row = step_row;
        l->lane_row[l->lane_row_count++].lane = lane;
    }
    assert_int_equal(lane_row, at);
    assert_int_equal(rows->last_lane_row[step_row], at);
    assert_int_equal(rows->lane_rows[at].before, before);
    assert_int_equal(rows->lane_rows[at].lane, lane);
}

static void steps_compare(uint32_t row_count, uint32_t micros, uint32_t lanes, uint32_t step_count, uint32_t stamp,
                          bool reads_shows)
{
    const struct step_rows_wants wants = {.shows = reads_shows, .lanes = lanes > 1};

    struct layout sum = {0};
    struct arena arena;
    struct row_numbers numbers;
    struct step_rows rows;
    step_rows_layout(NULL, &sum, micros * UNIQUES, wants);
    row_numbers_layout(NULL, &sum, micros * UNIQUES, micros);
    assert_int_equal(arena_open(&arena, "rows", sum.bytes), ST_OK);
    struct layout place = {.arena = &arena};
    step_rows_layout(&rows, &place, micros * UNIQUES, wants);
    row_numbers_layout(&numbers, &place, micros * UNIQUES, micros);
    numbers.stamp = stamp;
    for (uint32_t step = 0; step < step_count; step++) {
        struct listed l = {0};
        step_rows_begin(&numbers, &rows);
        for (uint32_t micro = 0; micro < micros; micro++) {
            struct uniques q;
            uniques_draw(&q, row_count);
            const uint32_t lane = micro * lanes / micros;
            step_rows_add(&numbers, &rows, &q.table, lane);
            for (uint32_t u = 0; u < q.table.unique_count; u++) {
                uint32_t at = 0;
                while (at < l.count && l.row[at] != q.row[u]) at++;
                if (at == l.count) l.row[l.count++] = q.row[u];
                l.occurrences[at] += q.occurrence_begin[u + 1] - q.occurrence_begin[u];
                assert_int_equal(q.step_row[u], at);
                if (lanes > 1) lane_row_compare(&l, &rows, at, q.lane_row[u], lane);
            }
            assert_int_equal(rows.row_count, l.count);
            assert_int_equal(rows.lane_row_count, l.lane_row_count);
            for (uint32_t i = 0; i < l.count; i++) {
                assert_ptr_equal(rows.span[i], &spans[l.row[i]]);
                if (reads_shows) assert_int_equal(rows.occurrence_count[i], l.occurrences[i]);
            }
        }
    }
    arena_close(&arena);
}

static void step_rows_add__random_steps__number_rows_as_they_first_occur(void **state)
{
    (void)state;
    static const uint32_t row_counts[] = {1, 3, 60, 1000, 1 << 20};
    for (size_t i = 0; i < sizeof row_counts / sizeof row_counts[0]; i++) {
        steps_compare(row_counts[i], 1, 1, 50, 0, i % 2);
        for (uint32_t lanes = 1; lanes <= MICROS; lanes *= 2) {
            steps_compare(row_counts[i], MICROS, lanes, 100, 0, i % 2);
            steps_compare(row_counts[i], MICROS, lanes, 100, 0, !(i % 2));
        }
    }
}

static void step_rows_begin__stamps_run_out__begins_anew(void **state)
{
    (void)state;
    steps_compare(100, MICROS, 1, 20, UINT32_MAX - 10, true);
    steps_compare(100, MICROS, 2, 20, UINT32_MAX - 10, true);
}

/* Rows of this step's and of the next step's micro-batches: those of this one are
 * found, in any stretch of bits. */
static void row_numbers_find__rows_of_other_steps__only_the_steps_own(void **state)
{
    (void)state;
    struct layout sum = {0};
    struct arena arena;
    struct row_numbers numbers;
    struct step_rows rows;
    step_rows_layout(NULL, &sum, MICROS * UNIQUES, (struct step_rows_wants){0});
    row_numbers_layout(NULL, &sum, MICROS * UNIQUES, MICROS);
    assert_int_equal(arena_open(&arena, "rows", sum.bytes), ST_OK);
    struct layout place = {.arena = &arena};
    step_rows_layout(&rows, &place, MICROS * UNIQUES, (struct step_rows_wants){0});
    row_numbers_layout(&numbers, &place, MICROS * UNIQUES, MICROS);
    for (uint32_t step = 0, found = 0; step < 100; step++) {
        struct uniques q[MICROS], other;
        uint64_t bits[4] = {0};
        step_rows_begin(&numbers, &rows);
        for (uint32_t micro = 0; micro < MICROS; micro++) {
            uniques_draw(&q[micro], 300);
            step_rows_add(&numbers, &rows, &q[micro].table, 0);
        }
        uniques_draw(&other, 300);
        const uint32_t first = draw_below(150), count = other.table.unique_count;
        row_numbers_find(&numbers, other.row, count, bits, first);
        for (uint32_t i = 0; i < 4 * 64; i++) {
            bool is_there = false;
            for (uint32_t micro = 0; micro < MICROS && i >= first && i < first + count; micro++)
                for (uint32_t u = 0; u < q[micro].table.unique_count; u++)
                    is_there |= q[micro].row[u] == other.row[i - first];
            assert_int_equal(bits[i / 64] >> i % 64 & 1, is_there);
            found += is_there;
        }
        if (step == 99) assert_in_range(found, 100, 100 * UNIQUES / 2);
    }
    arena_close(&arena);
}

/* Keys without a row among those that have one: each has a number of its own and nobody's span.
 * The others keep their numbers and counts. */
static void step_rows_add__keys_without_a_row__are_nobodys_in_each_micro_batch(void **state)
{
    (void)state;
    enum { COUNT = 4, FLOATS = 8 };
    const struct step_rows_wants wants = {.shows = true, .nobody_floats = FLOATS};
    static const uint32_t row[MICROS][COUNT] = {
        {ROW_NONE, 5, ROW_NONE, 6}, {6, ROW_NONE, 7, ROW_NONE}, {5, 6, 7, ROW_NONE}, {ROW_NONE, 8, 5, 7}};
    static const uint32_t number[MICROS][COUNT] = {{0, 1, 2, 3}, {3, 4, 5, 6}, {1, 3, 5, 7}, {8, 9, 1, 5}};
    static const uint32_t after[MICROS] = {4, 7, 8, 10}, begin[COUNT + 1] = {0, 2, 3, 7, 12};
    struct layout sum = {0};
    struct arena arena;
    struct row_numbers numbers;
    struct step_rows rows;
    step_rows_layout(NULL, &sum, MICROS * COUNT, wants);
    row_numbers_layout(NULL, &sum, MICROS * COUNT, MICROS);
    assert_int_equal(arena_open(&arena, "rows", sum.bytes), ST_OK);
    struct layout place = {.arena = &arena};
    step_rows_layout(&rows, &place, MICROS * COUNT, wants);
    row_numbers_layout(&numbers, &place, MICROS * COUNT, MICROS);
    assert_non_null(rows.nobody);
    for (uint32_t step = 0; step < 2; step++) {
        uint32_t shows[MICROS * COUNT] = {0};
        step_rows_begin(&numbers, &rows);
        for (uint32_t micro = 0; micro < MICROS; micro++) {
            struct uniques q;
            float scratch[COUNT] = {0};
            for (uint32_t u = 0; u < COUNT; u++) {
                q.row[u] = row[micro][u];
                q.span[u] = row[micro][u] == ROW_NONE ? NULL : &spans[row[micro][u]];
                q.occurrence_begin[u] = begin[u];
            }
            q.occurrence_begin[COUNT] = begin[COUNT];
            q.table = (struct ticket_table){.unique_count = COUNT,
                                            .row = q.row,
                                            .span = q.span,
                                            .occurrence_begin = q.occurrence_begin,
                                            .step_row = q.step_row,
                                            .lane_row = q.lane_row,
                                            .scratch = scratch};
            step_rows_add(&numbers, &rows, &q.table, 0);
            assert_int_equal(rows.row_count, after[micro]);
            assert_memory_equal(q.step_row, number[micro], sizeof number[micro]);
            for (uint32_t u = 0; u < COUNT; u++) {
                const uint32_t at = number[micro][u];
                assert_ptr_equal(rows.span[at], row[micro][u] == ROW_NONE ? rows.nobody : &spans[row[micro][u]]);
                shows[at] += begin[u + 1] - begin[u];
                if (row[micro][u] != ROW_NONE) assert_int_equal(rows.occurrence_count[at], shows[at]);
            }
        }
    }
    arena_close(&arena);
}

/* --- micro-batches of several lanes ------------------------------------------------------------- */

#define JOINED   3u
#define EXAMPLES 4u /* of a lane, with up to three keys each */
#define KEYS     (JOINED * EXAMPLES * 3)

/* A micro-batch of JOINED lanes of one field, its ticket, and which lane each key is of. */
struct joined {
    struct micro_batch m;
    uint64_t key[KEYS];
    uint32_t key_begin[JOINED * EXAMPLES + 1], key_home[KEYS], lane_of[KEYS];
    float label[JOINED * EXAMPLES * 2];
    uint32_t row[KEYS], step_row[KEYS], lane_row[KEYS], occurrence_begin[KEYS + 1], occurrence[KEYS];
    float *span[KEYS];
    struct ticket_table table;
};

static void joined_draw(struct joined *j, uint32_t micro_index, uint32_t example_count, uint32_t row_count)
{
    uint32_t count = 0, unique_count = 0, at = 0;
    for (uint32_t e = 0; e < example_count; e++) {
        j->key_begin[e] = count;
        j->label[2 * e] = 1;
        j->label[2 * e + 1] = (float)draw_below(3) / 2; /* 0.5 is no click */
        for (uint32_t i = draw_below(4); i-- > 0; count++) {
            j->key[count] = 1000 + draw_below(row_count);
            j->key_home[count] = e;
            j->lane_of[count] = micro_index * JOINED + e / EXAMPLES;
        }
    }
    j->key_begin[example_count] = count;
    for (uint32_t p = 0; p < count; p++) {
        bool is_first = true;
        for (uint32_t before = 0; before < p; before++) is_first &= j->key[before] != j->key[p];
        if (!is_first) continue;
        j->row[unique_count] = (uint32_t)j->key[p] - 1000;
        j->span[unique_count] = &spans[j->row[unique_count]];
        j->occurrence_begin[unique_count++] = at;
        for (uint32_t same = p; same < count; same++)
            if (j->key[same] == j->key[p]) j->occurrence[at++] = same;
    }
    j->occurrence_begin[unique_count] = at;
    j->m = (struct micro_batch){.micro_index = micro_index,
                                .example_count = example_count,
                                .key = j->key,
                                .key_begin = j->key_begin,
                                .key_home = j->key_home,
                                .label = j->label,
                                .key_count = count};
    j->table = (struct ticket_table){.unique_count = unique_count,
                                     .row = j->row,
                                     .span = j->span,
                                     .occurrence_begin = j->occurrence_begin,
                                     .occurrence = j->occurrence,
                                     .step_row = j->step_row,
                                     .lane_row = j->lane_row};
}

/* What a step knows of a row by the keys one after another. */
struct counted {
    uint32_t shows, clicks, last_lane, last_number;
};

/* Each key of the micro-batch has the number that its row has in its lane,
 * behind the row's in the lane before. */
static void joined_compare(const struct joined *j, const struct step_rows *rows, struct counted *counted)
{
    for (uint32_t u = 0; u < j->table.unique_count; u++)
        for (uint32_t i = j->occurrence_begin[u]; i < j->occurrence_begin[u + 1]; i++) {
            const uint32_t position = j->occurrence[i], number = j->lane_row[position];
            struct counted *c = &counted[j->row[u]];
            assert_in_range(number, 0, rows->lane_row_count - 1);
            assert_int_equal(rows->lane_rows[number].lane, j->lane_of[position]);
            if (c->shows == 0) assert_int_equal(rows->lane_rows[number].before, ROW_NONE);
            if (c->shows > 0 && c->last_lane == j->lane_of[position]) assert_int_equal(number, c->last_number);
            if (c->shows > 0 && c->last_lane != j->lane_of[position])
                assert_int_equal(rows->lane_rows[number].before, c->last_number);
            c->last_lane = j->lane_of[position];
            c->last_number = number;
            c->shows++;
            c->clicks += j->label[2 * j->key_home[position] + 1] > 0.5f;
        }
    for (uint32_t u = 0; u < j->table.unique_count; u++) {
        const struct counted *c = &counted[j->row[u]];
        const uint32_t step_row = j->step_row[u];
        assert_ptr_equal(rows->span[step_row], &spans[j->row[u]]);
        assert_int_equal(rows->key[step_row], 1000 + j->row[u]);
        assert_int_equal(rows->occurrence_count[step_row], c->shows);
        assert_int_equal(rows->click_count[step_row], c->clicks);
        assert_int_equal(rows->last_lane_row[step_row], c->last_number);
    }
}

/* Whether each list is as long as it has to be, which the next one would be seen to lie in otherwise. */
static void lists_check(const struct step_rows *rows, uint32_t rows_max)
{
    const uint32_t *const lists[] = {rows->occurrence_count, rows->click_count, rows->last_lane_row};
    for (size_t a = 0; a < sizeof lists / sizeof *lists; a++)
        for (size_t b = 0; b < sizeof lists / sizeof *lists; b++)
            assert_true(a == b || lists[a] + rows_max <= lists[b] || lists[b] + rows_max <= lists[a]);
}

static void step_rows_add_joined__random_steps__keys_have_their_lanes_rows(void **state)
{
    (void)state;
    enum { ROWS_MAX = MICROS * KEYS, FEW = 7, MANY = 60 };
    const struct step_rows_wants wants = {.shows = true, .clicks = true, .keys = true, .lanes = true};
    const struct batch_shape shape = {
        .batch = MICROS * JOINED * EXAMPLES, .micro = JOINED * EXAMPLES, .lanes = MICROS, .joined = JOINED};
    struct layout sum = {0};
    struct arena arena;
    struct row_numbers numbers;
    struct step_rows rows;
    step_rows_layout(NULL, &sum, ROWS_MAX, wants);
    row_numbers_layout(NULL, &sum, ROWS_MAX, MICROS);
    assert_int_equal(arena_open(&arena, "rows", sum.bytes), ST_OK);
    struct layout place = {.arena = &arena};
    step_rows_layout(&rows, &place, ROWS_MAX, wants);
    row_numbers_layout(&numbers, &place, ROWS_MAX, MICROS);
    lists_check(&rows, ROWS_MAX);
    for (uint32_t step = 0; step < 200; step++) {
        struct counted counted[MANY] = {{0}};
        step_rows_begin(&numbers, &rows);
        for (uint32_t micro = 0; micro < MICROS; micro++) {
            static struct joined j;
            struct step_lanes lanes;
            const uint32_t first_new = rows.row_count,
                           examples = micro + 1 < MICROS ? JOINED * EXAMPLES : 1 + draw_below(JOINED * EXAMPLES);
            joined_draw(&j, micro, examples, step % 2 ? FEW : MANY);
            step_lanes_of(&lanes, &j.m, shape, 1);
            assert_int_equal(lanes.first, micro * JOINED);
            step_rows_add_joined(&numbers, &rows, &j.table, &lanes);
            step_rows_keys(&rows, &j.table, j.key);
            step_rows_judge(&rows, first_new, &j.table, &j.m, 1, 1, 2);
            joined_compare(&j, &rows, counted);
        }
        uint32_t row_count = 0;
        for (uint32_t row = 0; row < MANY; row++) row_count += counted[row].shows > 0;
        assert_int_equal(rows.row_count, row_count);
    }
    arena_close(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(step_rows_add_joined__random_steps__keys_have_their_lanes_rows),
        cmocka_unit_test(step_rows_add__random_steps__number_rows_as_they_first_occur),
        cmocka_unit_test(step_rows_begin__stamps_run_out__begins_anew),
        cmocka_unit_test(step_rows_add__keys_without_a_row__are_nobodys_in_each_micro_batch),
        cmocka_unit_test(row_numbers_find__rows_of_other_steps__only_the_steps_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
