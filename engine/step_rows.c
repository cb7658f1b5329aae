/* Numbers a step's rows; once a micro-batch and table. */
#include "engine/step_rows.h"

#include <string.h>

void step_rows_layout(struct step_rows *rows, struct layout *l, uint32_t rows_max, bool reads_shows)
{
    struct step_rows taken = {0};
    LAYOUT_TAKE(l, taken.span, rows_max);
    if (reads_shows) LAYOUT_TAKE(l, taken.occurrence_count, rows_max);
    if (l->arena) *rows = taken;
}

void row_numbers_layout(struct row_numbers *numbers, struct layout *l, uint32_t rows_max, uint32_t micro_count)
{
    uint32_t cell_count = 16;
    while (cell_count < 2 * (uint64_t)rows_max && cell_count < (1u << 31)) cell_count *= 2;
    struct row_cell *cells = NULL;
    if (micro_count > 1) LAYOUT_TAKE(l, cells, cell_count);
    if (l->arena) *numbers = (struct row_numbers){cells, cell_count - 1, 0};
}

void step_rows_begin(struct row_numbers *n, struct step_rows *rows)
{
    rows->row_count = 0;
    if (++n->stamp != 0) return;
    /* The stamps have run out: old ones must not be taken for new. */
    if (n->cells) memset(n->cells, 0, ((size_t)n->cell_mask + 1) * sizeof *n->cells);
    n->stamp = 1;
}

/* Where the row is, or where it belongs. */
static struct row_cell *cell_of(const struct row_numbers *n, uint32_t row)
{
    uint32_t at = (row * 2654435769u) & n->cell_mask;
    while (n->cells[at].stamp == n->stamp && n->cells[at].row != row) at = (at + 1) & n->cell_mask;
    return &n->cells[at];
}

/* The first micro-batch of a step: its uniques are the step's rows so far. */
static void first_add(const struct row_numbers *n, struct step_rows *rows, struct ticket_table *table)
{
    rows->row_count = table->unique_count;
    memcpy(rows->span, table->span, table->unique_count * sizeof *rows->span);
    for (uint32_t u = 0; u < table->unique_count; u++) table->step_row[u] = u;
    for (uint32_t u = 0; u < table->unique_count && n->cells; u++)
        *cell_of(n, table->row[u]) = (struct row_cell){n->stamp, table->row[u], u};
    for (uint32_t u = 0; u < table->unique_count && rows->occurrence_count; u++)
        rows->occurrence_count[u] = table->occurrence_begin[u + 1] - table->occurrence_begin[u];
}

void step_rows_add(struct row_numbers *n, struct step_rows *rows, struct ticket_table *table)
{
    uint32_t *occurrence_count = rows->occurrence_count;
    if (rows->row_count == 0) {
        first_add(n, rows, table);
        return;
    }
    CHECK(n->cells);
    for (uint32_t u = 0; u < table->unique_count; u++) {
        struct row_cell *cell = cell_of(n, table->row[u]);
        if (cell->stamp != n->stamp) {
            *cell = (struct row_cell){n->stamp, table->row[u], rows->row_count};
            if (occurrence_count) occurrence_count[rows->row_count] = 0;
            rows->span[rows->row_count++] = table->span[u];
        }
        table->step_row[u] = cell->step_row;
        if (occurrence_count)
            occurrence_count[cell->step_row] += table->occurrence_begin[u + 1] - table->occurrence_begin[u];
    }
}
