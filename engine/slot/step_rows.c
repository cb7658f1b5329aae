/* Numbers a step's rows; once a micro-batch and table. */
#include "engine/slot/step_rows.h"

#include <string.h>

/* Uniques between asking for a cell and looking at it: a second-level cache takes some
 * 15 ns, and so do four of them. */
#define FETCH_AHEAD 16u

void step_rows_layout(struct step_rows *rows, struct layout *l, uint32_t rows_max, struct step_rows_wants wants)
{
    struct step_rows taken = {0};
    LAYOUT_TAKE(l, taken.span, rows_max);
    if (wants.shows) LAYOUT_TAKE(l, taken.occurrence_count, rows_max);
    if (wants.clicks) LAYOUT_TAKE(l, taken.click_count, rows_max);
    if (wants.keys) LAYOUT_TAKE(l, taken.key, rows_max);
    if (wants.nobody_floats) LAYOUT_TAKE(l, taken.nobody, wants.nobody_floats);
    if (wants.lanes) LAYOUT_TAKE(l, taken.last_lane_row, rows_max);
    if (wants.lanes) LAYOUT_TAKE(l, taken.lane_rows, rows_max);
    if (l->arena) *rows = taken;
}

void row_numbers_layout(struct row_numbers *numbers, struct layout *l, uint32_t rows_max, uint32_t micro_count)
{
    uint32_t cell_count = 16;
    while (cell_count < 2 * (uint64_t)rows_max && cell_count < (1u << 31)) cell_count *= 2;
    struct row_numbers taken = {.cell_mask = cell_count - 1};
    if (micro_count > 1) {
        LAYOUT_TAKE(l, taken.cells, cell_count);
        LAYOUT_TAKE(l, taken.row, rows_max);
    }
    if (l->arena) *numbers = taken;
}

void step_rows_begin(struct row_numbers *n, struct step_rows *rows)
{
    rows->row_count = rows->lane_row_count = 0;
    if (++n->stamp != 0) return;
    /* The stamps have run out: old ones must not be taken for new. */
    if (n->cells) memset(n->cells, 0, ((size_t)n->cell_mask + 1) * sizeof *n->cells);
    n->stamp = 1;
}

static struct row_cell *home_of(const struct row_numbers *n, uint32_t row)
{
    return &n->cells[(row * 2654435769u) & n->cell_mask];
}

/* Where the row is, or where it belongs. Whether it is there nobody can predict, so only another row in its
 * home costs a branch: a cell of an earlier step names some row, too, which is looked at and ignored. */
static struct row_cell *cell_of(const struct row_numbers *n, uint32_t row)
{
    struct row_cell *cell = home_of(n, row);
    while ((n->row[cell->step_row] ^ row) & -(uint32_t)(cell->stamp == n->stamp))
        cell = &n->cells[(uint32_t)(cell - n->cells + 1) & n->cell_mask];
    return cell;
}

/* The unique whose home is asked for when that of `unique` is looked at. */
static uint32_t unique_ahead(const struct ticket_table *table, uint32_t unique)
{
    return unique + FETCH_AHEAD < table->unique_count ? unique + FETCH_AHEAD : unique;
}

/* The first micro-batch of a step: its uniques are the step's rows so far. */
static void first_add(const struct row_numbers *n, struct step_rows *rows, struct ticket_table *table)
{
    rows->row_count = table->unique_count;
    memcpy(rows->span, table->span, table->unique_count * sizeof *rows->span);
    for (uint32_t u = 0; u < table->unique_count; u++) table->step_row[u] = u;
    if (n->cells) memcpy(n->row, table->row, table->unique_count * sizeof *n->row);
    for (uint32_t u = 0; u < table->unique_count && n->cells; u++) {
        __builtin_prefetch(home_of(n, table->row[unique_ahead(table, u)]), 1);
        *cell_of(n, table->row[u]) = (struct row_cell){n->stamp, u};
    }
    for (uint32_t u = 0; u < table->unique_count && rows->occurrence_count; u++)
        rows->occurrence_count[u] = table->occurrence_begin[u + 1] - table->occurrence_begin[u];
    for (uint32_t u = 0; u < table->unique_count && table->scratch; u++)
        if (table->row[u] == ROW_NONE) rows->span[u] = rows->nobody;
}

/* Of a later micro-batch of the step. */
static void next_add(const struct row_numbers *n, struct step_rows *rows, struct ticket_table *table)
{
    uint32_t *occurrence_count = rows->occurrence_count, row_count = rows->row_count;
    CHECK(n->cells);
    for (uint32_t u = 0; u < table->unique_count; u++) {
        if (table->row[u] == ROW_NONE) {
            n->row[row_count] = ROW_NONE;
            rows->span[row_count] = rows->nobody;
            if (occurrence_count) occurrence_count[row_count] = 0;
            table->step_row[u] = row_count++;
            continue;
        }
        __builtin_prefetch(home_of(n, table->row[unique_ahead(table, u)]), 1);
        struct row_cell *cell = cell_of(n, table->row[u]);
        /* All ones, or 0. */
        uint32_t is_known = -(uint32_t)(cell->stamp == n->stamp);
        uint32_t step_row = row_count + ((cell->step_row - row_count) & is_known);
        /* Of a known one too, until the next new one takes the place. There is room: each unique has a key of
         * the step. */
        n->row[row_count] = table->row[u];
        rows->span[row_count] = table->span[u];
        *cell = (struct row_cell){n->stamp, step_row};
        table->step_row[u] = step_row;
        row_count += 1 + is_known;
        if (occurrence_count == NULL) continue;
        uint32_t count = table->occurrence_begin[u + 1] - table->occurrence_begin[u];
        occurrence_count[step_row] = (occurrence_count[step_row] & is_known) + count;
    }
    rows->row_count = row_count;
}

void row_numbers_find(const struct row_numbers *n, const uint32_t *row, uint32_t count, uint64_t *bits, size_t first)
{
    for (uint32_t i = 0; i < count; i++) {
        __builtin_prefetch(home_of(n, row[i + FETCH_AHEAD < count ? i + FETCH_AHEAD : i]));
        const uint64_t is_known = cell_of(n, row[i])->stamp == n->stamp;
        bits[(first + i) / 64] |= is_known << (first + i) % 64;
    }
}

/* Numbers the uniques among the rows of lanes: `rows_before` rows of the step were there before this
 * micro-batch, and no lane has the others yet. */
static void lane_rows_add(struct step_rows *rows, const struct ticket_table *table, uint32_t rows_before, uint32_t lane)
{
    for (uint32_t u = 0; u < table->unique_count; u++) {
        const uint32_t row = table->step_row[u];
        uint32_t last = row < rows_before ? rows->last_lane_row[row] : ROW_NONE;
        if (last == ROW_NONE || rows->lane_rows[last].lane != lane) {
            rows->lane_rows[rows->lane_row_count] = (struct lane_row){.before = last, .lane = lane};
            last = rows->last_lane_row[row] = rows->lane_row_count++;
        }
        table->lane_row[u] = last;
    }
}

/* The same of a micro-batch of several lanes, for each key: numbers of a unique come in the order of data. */
static void lanes_rows_add(struct step_rows *rows, const struct ticket_table *table, uint32_t rows_before,
                           const struct step_lanes *lanes)
{
    uint32_t lane_row_count = rows->lane_row_count;
    for (uint32_t u = 0; u < table->unique_count; u++) {
        const uint32_t row = table->step_row[u];
        /* Of the lanes of this micro-batch none has the row before. */
        uint32_t last = row < rows_before ? rows->last_lane_row[row] : ROW_NONE, end = 0, lane = 0;
        for (uint32_t i = table->occurrence_begin[u]; i < table->occurrence_begin[u + 1]; i++) {
            const uint32_t position = table->occurrence[i];
            if (position >= end) {
                while (position >= lanes->key_begin[lane + 1]) lane++;
                end = lanes->key_begin[lane + 1];
                rows->lane_rows[lane_row_count] = (struct lane_row){.before = last, .lane = lanes->first + lane};
                last = lane_row_count++;
            }
            table->lane_row[position] = last;
        }
        rows->last_lane_row[row] = last;
    }
    rows->lane_row_count = lane_row_count;
}

void step_lanes_of(struct step_lanes *lanes, const struct micro_batch *m, struct batch_shape shape,
                   uint32_t field_count)
{
    CHECK(shape.joined > 1 && shape.joined <= STEP_LANES_MAX);
    lanes->first = batch_lane_of(shape, m->micro_index) * shape.joined;
    for (uint32_t i = 0; i <= shape.joined; i++) {
        const uint32_t example = i * (shape.micro / shape.joined);
        lanes->key_begin[i] =
            m->key_begin[(size_t)(example < m->example_count ? example : m->example_count) * field_count];
    }
}

static uint32_t rows_add(struct row_numbers *n, struct step_rows *rows, struct ticket_table *table)
{
    const uint32_t rows_before = rows->row_count;
    if (rows_before == 0)
        first_add(n, rows, table);
    else
        next_add(n, rows, table);
    return rows_before;
}

void step_rows_add(struct row_numbers *n, struct step_rows *rows, struct ticket_table *table, uint32_t lane)
{
    const uint32_t rows_before = rows_add(n, rows, table);
    if (rows->lane_rows) lane_rows_add(rows, table, rows_before, lane);
}

void step_rows_add_joined(struct row_numbers *n, struct step_rows *rows, struct ticket_table *table,
                          const struct step_lanes *lanes)
{
    lanes_rows_add(rows, table, rows_add(n, rows, table), lanes);
}

void step_rows_add_keys(const struct distinct *numbers, struct step_rows *rows, struct ticket_table *table,
                        const uint64_t *key, uint32_t lane)
{
    const uint32_t rows_before = rows->row_count;
    for (uint32_t u = 0; u < table->unique_count; u++) {
        const uint32_t count = rows->row_count, row = distinct_number(numbers, key[u], &rows->row_count);
        table->step_row[u] = row;
        if (rows->occurrence_count == NULL) continue;
        if (row == count) rows->occurrence_count[row] = 0;
        rows->occurrence_count[row] += table->occurrence_begin[u + 1] - table->occurrence_begin[u];
    }
    if (rows->lane_rows) lane_rows_add(rows, table, rows_before, lane);
}

void step_rows_judge(struct step_rows *rows, uint32_t first_new, const struct ticket_table *table,
                     const struct micro_batch *m, uint32_t field_count, uint32_t label, uint32_t label_count)
{
    for (uint32_t u = 0; u < table->unique_count && rows->click_count; u++) {
        const uint32_t row = table->step_row[u];
        uint32_t clicks = row < first_new ? rows->click_count[row] : 0;
        for (uint32_t i = table->occurrence_begin[u]; i < table->occurrence_begin[u + 1] && label < label_count; i++)
            clicks += m->label[(size_t)(m->key_home[table->occurrence[i]] / field_count) * label_count + label] > 0.5f;
        rows->click_count[row] = clicks;
    }
}

void step_rows_keys(struct step_rows *rows, const struct ticket_table *table, const uint64_t *key)
{
    for (uint32_t u = 0; u < table->unique_count && rows->key; u++)
        rows->key[table->step_row[u]] = key[table->occurrence[table->occurrence_begin[u]]];
}
