/* Letters: once a step an asker writes them, and an owner reads one of each asker. Numbering is once a
 * micro-batch, and costs a look into two tables of keys; both fit into the second cache. */
#include "engine/slot/asked.h"

#include "graph/optimizer.h"
#include "graph/row_vector.h"

#include <inttypes.h>
#include <string.h>

static size_t to_words(size_t bytes) { return (bytes + 7) & ~(size_t)7; }

static size_t counts_bytes(const struct asked_shape *shape)
{
    return to_words(shape->graph->table_count * sizeof(uint32_t));
}

static size_t rows_max(const struct asked_shape *shape, uint32_t table)
{
    return (size_t)shape->example_max * shape->graph->tables[table].key_count_max;
}

static size_t row_bytes(const struct asked_shape *shape, uint32_t table)
{
    return sizeof(uint64_t) + (shape->shows[table] + (size_t)shape->clicks[table]) * sizeof(uint32_t);
}

void asked_shape_wants(struct asked_shape *shape)
{
    const struct graph *g = shape->graph;
    for (uint32_t t = 0; t < g->table_count; t++) {
        const struct row_life *life = &g->tables[t].life;
        shape->clicks[t] = life->counts;
        shape->shows[t] =
            life->counts || life->admit > 1 || optimizer_reads_shows(&g->optimizers[g->tables[t].optimizer]);
    }
}

size_t asked_letter_bytes_max(const struct asked_shape *shape)
{
    size_t bytes = counts_bytes(shape);
    for (uint32_t t = 0; t < shape->graph->table_count; t++) bytes += rows_max(shape, t) * row_bytes(shape, t);
    return to_words(bytes);
}

size_t asked_keys_bytes(const struct asked_shape *shape, const uint32_t *count, uint32_t owner)
{
    size_t bytes = 0;
    for (uint32_t t = 0; t < shape->graph->table_count; t++)
        bytes += count[owner * shape->graph->table_count + t] * row_bytes(shape, t);
    return bytes;
}

uint32_t asked_row_floats(const struct asked_shape *shape, uint32_t table)
{
    const struct graph_table *of = &shape->graph->tables[table];
    return shape->is_whole ? of->span_floats : row_vector_floats(of);
}

size_t asked_floats_max(const struct asked_shape *shape)
{
    size_t floats = 0;
    for (uint32_t t = 0; t < shape->graph->table_count; t++) floats += rows_max(shape, t) * asked_row_floats(shape, t);
    return floats;
}

size_t asked_piece_floats_max(const struct asked_shape *shape)
{
    size_t floats = 0;
    for (uint32_t t = 0; t < shape->graph->table_count; t++) floats += rows_max(shape, t) * shape->graph->tables[t].dim;
    return floats;
}

size_t asked_keys_max(const struct asked_shape *shape)
{
    size_t keys = 0;
    for (uint32_t t = 0; t < shape->graph->table_count; t++) keys += rows_max(shape, t);
    return keys;
}

/* --- parts of values -------------------------------------------------------------------------- */

size_t asked_keys_count(const struct graph *g, const uint32_t *count)
{
    size_t keys = 0;
    for (uint32_t t = 0; t < g->table_count; t++) keys += count[t];
    return keys;
}

size_t asked_part_floats(const struct graph *g, const uint32_t *count, const uint64_t *bits, bool bit)
{
    size_t floats = 0, key = 0;
    for (uint32_t t = 0; t < g->table_count; t++) {
        size_t keys = 0;
        for (const size_t end = key + count[t]; key < end; key++) keys += asked_bit(bits, key) == bit;
        floats += keys * row_vector_floats(&g->tables[t]);
    }
    return floats;
}

void asked_part_spread(const struct graph *g, const uint32_t *count, const uint64_t *bits, bool bit, const float *part,
                       float *values)
{
    size_t key = asked_keys_count(g, count);
    for (uint32_t t = 0; t < g->table_count; t++) values += (size_t)count[t] * row_vector_floats(&g->tables[t]);
    part += asked_part_floats(g, count, bits, bit);
    /* From the last one on: none takes the place of one that is still to move. */
    for (uint32_t t = g->table_count; t-- > 0;) {
        const uint32_t floats = row_vector_floats(&g->tables[t]);
        for (uint32_t i = count[t]; i > 0; i--) {
            values -= floats;
            if (asked_bit(bits, --key) != bit) continue;
            part -= floats;
            memmove(values, part, floats * sizeof *values);
        }
    }
}

/* --- an owner's ------------------------------------------------------------------------------- */

/* An asker's keys of a table occur at most as often as its examples have keys. */
static status occurrences_check(const struct asked_letter *letter, const struct asked_shape *asker, uint32_t table)
{
    uint64_t occurrences = 0;
    for (uint32_t i = 0; i < letter->count[table]; i++) occurrences += letter->occurrences[table][i];
    if (occurrences <= rows_max(asker, table)) return ST_OK;
    FAIL(INVALID, "a request for rows of table \"%s\" whose keys occur %" PRIu64 " times; expected at most %zu",
         graph_string(asker->graph, asker->graph->tables[table].name), occurrences, rows_max(asker, table));
}

status asked_letter_read(struct asked_letter *letter, const struct asked_shape *asker, const uint8_t *at, size_t bytes)
{
    const struct graph *g = asker->graph;
    size_t expected = counts_bytes(asker);
    *letter = (struct asked_letter){.count = (const uint32_t *)at};
    if (bytes < expected)
        FAIL(INVALID, "a request for rows of %zu bytes; expected %zu or more for %u tables", bytes, expected,
             g->table_count);
    const uint8_t *end = at + expected;
    for (uint32_t t = 0; t < g->table_count; t++) {
        if (letter->count[t] > rows_max(asker, t))
            FAIL(INVALID, "a request for %u rows of table \"%s\"; expected at most %zu", letter->count[t],
                 graph_string(g, g->tables[t].name), rows_max(asker, t));
        expected += letter->count[t] * row_bytes(asker, t);
    }
    expected = to_words(expected);
    if (bytes != expected)
        FAIL(INVALID, "a request for rows of %zu bytes; expected %zu, as its counts say", bytes, expected);
    for (uint32_t t = 0; t < g->table_count; end += letter->count[t++] * sizeof(uint64_t))
        letter->key[t] = (const uint64_t *)end;
    for (uint32_t t = 0; t < g->table_count; t++) {
        if (!asker->shows[t]) continue;
        letter->occurrences[t] = (const uint32_t *)end;
        end += letter->count[t] * sizeof(uint32_t);
        TRY(occurrences_check(letter, asker, t));
    }
    for (uint32_t t = 0; t < g->table_count; t++) {
        if (!asker->clicks[t]) continue;
        letter->clicks[t] = (const uint32_t *)end;
        end += letter->count[t] * sizeof(uint32_t);
    }
    return ST_OK;
}

/* --- an asker's ------------------------------------------------------------------------------- */

void asked_step_layout(struct asked_step *step, struct layout *l, const struct asked_shape *shape)
{
    struct asked_step taken = {0};
    const uint32_t tables = shape->graph->table_count;
    /* All letters together have the keys that one may have. */
    LAYOUT_TAKE(l, taken.letters, asked_letter_bytes_max(shape) + shape->owner_count * (counts_bytes(shape) + 8));
    LAYOUT_TAKE(l, taken.letter_begin, shape->owner_count + 1);
    LAYOUT_TAKE(l, taken.count, (size_t)shape->owner_count * tables);
    LAYOUT_TAKE(l, taken.float_begin, shape->owner_count + 1);
    LAYOUT_TAKE(l, taken.piece_begin, shape->owner_count + 1);
    if (shape->is_whole) LAYOUT_TAKE(l, taken.values, asked_floats_max(shape));
    if (shape->is_whole) LAYOUT_TAKE(l, taken.live, asked_floats_max(shape));
    if (shape->is_whole) LAYOUT_TAKE(l, taken.level, shape->owner_count);
    if (l->arena) *step = taken;
}

/* How many keys each owner is asked for. */
static void keys_count(struct asked_step *step, const struct asked_shape *shape, const struct key_numbers *numbers)
{
    const uint32_t tables = shape->graph->table_count;
    memset(step->count, 0, (size_t)shape->owner_count * tables * sizeof *step->count);
    for (uint32_t t = 0; t < tables; t++)
        for (uint32_t r = 0; r < step->rows[t].row_count; r++)
            step->count[shape->owner_of[shard_of(numbers[t].step.key[r])] * tables + t]++;
}

/* Where letters and values of an owner begin. */
static void owners_begin(struct asked_step *step, const struct asked_shape *shape)
{
    const uint32_t tables = shape->graph->table_count;
    step->letter_begin[0] = step->float_begin[0] = step->piece_begin[0] = 0;
    for (uint32_t o = 0; o < shape->owner_count; o++) {
        const uint32_t *count = step->count + (size_t)o * tables;
        size_t bytes = counts_bytes(shape), floats = 0, piece_floats = 0;
        for (uint32_t t = 0; t < tables; t++) {
            bytes += count[t] * row_bytes(shape, t);
            floats += (size_t)count[t] * asked_row_floats(shape, t);
            piece_floats += (size_t)count[t] * shape->graph->tables[t].dim;
        }
        step->letter_begin[o + 1] = step->letter_begin[o] + to_words(bytes);
        step->float_begin[o + 1] = step->float_begin[o] + floats;
        step->piece_begin[o + 1] = step->piece_begin[o] + piece_floats;
    }
}

/* Writes a table's part of every letter, in order of the step's rows. */
static void table_write(struct asked_step *step, const struct asked_shape *shape, const struct key_numbers *numbers,
                        uint32_t table, float *values)
{
    const uint32_t tables = shape->graph->table_count, floats = asked_row_floats(shape, table);
    const struct step_rows *rows = &step->rows[table];
    uint64_t *key[ASKED_OWNERS_MAX];
    uint32_t *occurrences[ASKED_OWNERS_MAX], *clicks[ASKED_OWNERS_MAX];
    float *value[ASKED_OWNERS_MAX];
    for (uint32_t o = 0; o < shape->owner_count; o++) {
        const uint32_t *count = step->count + (size_t)o * tables;
        uint8_t *at = step->letters + step->letter_begin[o] + counts_bytes(shape);
        key[o] = (uint64_t *)at;
        value[o] = values + step->float_begin[o];
        for (uint32_t t = 0; t < tables; t++) at += count[t] * sizeof(uint64_t);
        for (uint32_t t = 0; t < table; t++) {
            key[o] += count[t];
            value[o] += (size_t)count[t] * asked_row_floats(shape, t);
            if (shape->shows[t]) at += count[t] * sizeof(uint32_t);
        }
        occurrences[o] = (uint32_t *)at;
        for (uint32_t t = table; t < tables; t++)
            if (shape->shows[t]) at += count[t] * sizeof(uint32_t);
        for (uint32_t t = 0; t < table; t++)
            if (shape->clicks[t]) at += count[t] * sizeof(uint32_t);
        clicks[o] = (uint32_t *)at;
    }
    for (uint32_t r = 0; r < rows->row_count; r++) {
        const uint64_t of = numbers->step.key[r];
        const uint32_t o = shape->owner_of[shard_of(of)];
        *key[o]++ = of;
        if (rows->key) rows->key[r] = of;
        if (shape->shows[table]) *occurrences[o]++ = rows->occurrence_count[r];
        if (shape->clicks[table]) *clicks[o]++ = rows->click_count[r];
        rows->span[r] = value[o];
        value[o] += floats;
    }
}

void asked_table_begin(const struct asked_step *step, const struct asked_shape *shape, uint32_t table, size_t *value,
                       size_t *piece)
{
    const struct graph_table *tables = shape->graph->tables;
    for (uint32_t o = 0; o < shape->owner_count; o++) {
        const uint32_t *count = step->count + (size_t)o * shape->graph->table_count;
        value[o] = step->float_begin[o];
        piece[o] = step->piece_begin[o];
        for (uint32_t t = 0; t < table; t++) {
            value[o] += (size_t)count[t] * asked_row_floats(shape, t);
            piece[o] += (size_t)count[t] * tables[t].dim;
        }
    }
}

void asked_step_close(struct asked_step *step, const struct asked_shape *shape, const struct key_numbers *numbers,
                      float *values)
{
    const uint32_t tables = shape->graph->table_count;
    keys_count(step, shape, numbers);
    owners_begin(step, shape);
    for (uint32_t o = 0; o < shape->owner_count; o++) {
        uint8_t *at = step->letters + step->letter_begin[o];
        memset(at, 0, counts_bytes(shape));
        memcpy(at, step->count + (size_t)o * tables, tables * sizeof(uint32_t));
        /* What fills up the last word. */
        memset(step->letters + step->letter_begin[o + 1] - sizeof(uint64_t), 0,
               step->letter_begin[o + 1] - step->letter_begin[o] > counts_bytes(shape) ? sizeof(uint64_t) : 0);
    }
    for (uint32_t t = 0; t < tables; t++) table_write(step, shape, &numbers[t], t, values);
}

/* --- numbers ---------------------------------------------------------------------------------- */

void key_numbers_layout(struct key_numbers *numbers, struct layout *l, const struct asked_shape *shape, uint32_t table)
{
    const struct graph *g = shape->graph;
    struct key_numbers taken = {0};
    uint8_t *serves;
    distinct_layout(&taken.distinct, l, (size_t)graph_batch(g).micro * g->tables[table].key_count_max);
    distinct_layout(&taken.step, l, rows_max(shape, table));
    LAYOUT_TAKE(l, taken.fields.run, (g->field_count + 1) / 2);
    LAYOUT_TAKE(l, serves, g->field_count);
    if (!l->arena) return;
    graph_table_serves(g, table, serves);
    key_fields_fill(&taken.fields, serves, g->field_count);
    *numbers = taken;
}

void asked_step_begin(struct asked_step *step, const struct asked_shape *shape, struct key_numbers *numbers)
{
    for (uint32_t t = 0; t < shape->graph->table_count; t++) {
        step->rows[t].row_count = step->rows[t].lane_row_count = 0;
        distinct_clear(&numbers[t].step);
    }
}

void asked_step_add(struct asked_step *step, const struct asked_shape *shape, struct key_numbers *numbers,
                    const struct micro_batch *m, uint32_t lane, struct ticket *ticket)
{
    for (uint32_t t = 0; t < shape->graph->table_count; t++) {
        struct ticket_table *table = &ticket->table[t];
        const struct asked_keys asked = distinct_keys(&numbers[t].distinct, &numbers[t].fields, m, table);
        const struct graph *g = shape->graph;
        const uint32_t before = step->rows[t].row_count;
        memset(table->row, 0, table->unique_count * sizeof *table->row); /* each has one; which, its owner knows */
        step_rows_add_keys(&numbers[t].step, &step->rows[t], table, asked.key, lane);
        step_rows_judge(&step->rows[t], before, table, m, g->field_count, g->tables[t].life.click_label,
                        g->label_count);
    }
}

void asked_step_spans(const struct asked_step *step, uint32_t table_count, struct ticket *ticket)
{
    for (uint32_t t = 0; t < table_count; t++) {
        struct ticket_table *table = &ticket->table[t];
        for (uint32_t u = 0; u < table->unique_count; u++) table->span[u] = step->rows[t].span[table->step_row[u]];
    }
}
