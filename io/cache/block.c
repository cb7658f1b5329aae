/* Blocks of the data cache: columns out of examples and back. The values of a column pass through one array
 * of 64-bit words, whatever their size. */
#include "io/cache/block.h"

#include <inttypes.h>
#include <lz4.h>
#include <string.h>
#include <xxhash.h>

#include "engine/base/isa.h"

#define MAGIC UINT32_C(0x6b6c6268) /* "hblk" */
/* Codes are 16 bits. */
#define ENTRIES_MAX 65536u
/* Enough for dictionaries to pay, few enough for a block to stay in a second-level
 * cache while it is decoded. */
#define ROWS_MAX 16384u
#define ROWS_MIN 64u
/* Most bytes of a block's rows before they become columns. */
#define PLAIN_BYTES ((size_t)16 << 20)
/* Room for keys, a field: lists are usually shorter than they may be. */
#define KEYS_A_FIELD 4u
/* LZ4 is used where it saves an eighth of a stream: less is not worth the time of unpacking. */
#define LZ4_PART 8u

struct block_head {
    uint64_t hash; /* of the bytes behind the hash */
    uint32_t magic, bytes, row_count, zero;
    uint64_t text_bytes;
};

struct column_head {
    uint32_t count, entry_count, stored_bytes;
    uint8_t lengths; /* keys: enum block_lengths */
    uint8_t is_lz4;
    uint16_t zero;
};
_Static_assert(sizeof(struct block_head) == BLOCK_HEAD_BYTES && offsetof(struct block_head, bytes) == BLOCK_BYTES_AT &&
                   sizeof(struct column_head) == 16,
               "io/cache/block.h");

static size_t pad8(size_t bytes) { return (bytes + 7) & ~(size_t)7; }

/* --- sizes ------------------------------------------------------------------------------------ */

struct block_shape block_shape_of(struct example_shape e)
{
    size_t row_bytes = 4 * ((size_t)e.label_count + e.dense_count + 8) + 12 * (size_t)e.field_count;
    size_t rows = PLAIN_BYTES / row_bytes;
    rows = rows > ROWS_MAX ? ROWS_MAX : rows < ROWS_MIN ? ROWS_MIN : rows;
    size_t keys = rows * e.key_count_max, usual = rows * e.field_count * KEYS_A_FIELD;
    if (keys > usual) keys = usual > e.key_count_max ? usual : e.key_count_max;
    CHECK(keys < UINT32_MAX / 16 && e.field_count <= e.key_count_max);
    return (struct block_shape){.example = e, .row_count_max = (uint32_t)rows, .key_count_max = (uint32_t)keys};
}

uint32_t block_piece_rows(struct block_shape shape) { return (shape.row_count_max + BLOCK_PIECES - 1) / BLOCK_PIECES; }

/* Columns of four bytes with a value a row. */
static size_t row_columns(struct example_shape e) { return (size_t)e.label_count + e.dense_count + e.has_weight + 4; }

/* Bound of all columns without their heads, and of their streams, too: a dictionary is used where it is
 * smaller than the values, or where it adds codes of two bytes a row to existing keys. */
static size_t columns_bytes(struct block_shape s)
{
    size_t rows = (size_t)s.row_count_max + 1;
    return row_columns(s.example) * (4 * rows + 16) + (s.example.has_group ? 8 * rows + 16 : 0) +
           s.example.field_count * (6 * rows + 64) + 12 * (size_t)s.key_count_max;
}

size_t block_bytes_max(struct block_shape s)
{
    size_t columns = row_columns(s.example) + 1 + 3 * (size_t)s.example.field_count;
    return sizeof(struct block_head) + columns * sizeof(struct column_head) + columns_bytes(s);
}

/* --- writing ---------------------------------------------------------------------------------- */

static size_t values_max(struct block_shape s)
{
    return s.key_count_max > s.row_count_max ? s.key_count_max : (size_t)s.row_count_max + 1;
}
static uint32_t table_size(size_t count)
{
    uint32_t size = 16;
    while (size < 2 * count && size < 2 * ENTRIES_MAX) size *= 2;
    return size;
}

static void writer_layout(struct block_writer *w, struct layout *l, struct block_shape s)
{
    struct block_writer none;
    if (!w) w = &none;
    size_t rows = s.row_count_max, values = values_max(s);
    *w = (struct block_writer){.shape = s};
    LAYOUT_TAKE(l, w->rows.label, rows * s.example.label_count);
    LAYOUT_TAKE(l, w->rows.dense, rows * s.example.dense_count);
    if (s.example.has_weight) LAYOUT_TAKE(l, w->rows.weight, rows);
    if (s.example.has_group) LAYOUT_TAKE(l, w->rows.group, rows);
    LAYOUT_TAKE(l, w->rows.key, s.key_count_max);
    if (s.example.has_value) LAYOUT_TAKE(l, w->rows.value, s.key_count_max);
    LAYOUT_TAKE(l, w->rows.key_begin, rows * s.example.field_count + 1);
    LAYOUT_TAKE(l, w->rows.is_bad, rows);
    LAYOUT_TAKE(l, w->counts, rows + 1);
    LAYOUT_TAKE(l, w->value8, values);
    LAYOUT_TAKE(l, w->stream, values * sizeof *w->value8);
    LAYOUT_TAKE(l, w->has, rows);
    LAYOUT_TAKE(l, w->entry, ENTRIES_MAX);
    LAYOUT_TAKE(l, w->code, values);
    LAYOUT_TAKE(l, w->table, table_size(values));
    w->lz4_state = layout_take(l, (size_t)LZ4_sizeofState(), 1);
}

size_t block_writer_bytes(struct block_shape shape)
{
    struct layout sum = {0};
    writer_layout(NULL, &sum, shape);
    return sum.bytes;
}

void block_writer_place(struct block_writer *writer, struct arena *arena, struct block_shape shape)
{
    struct layout place = {.arena = arena};
    writer_layout(writer, &place, shape);
}

void block_writer_clear(struct block_writer *writer)
{
    micro_batch_clear(&writer->rows);
    writer->counts[0] = (struct block_counts){0};
}

bool block_writer_has_room(const struct block_writer *w)
{
    return w->rows.example_count < w->shape.row_count_max &&
           w->shape.key_count_max - w->rows.key_count >= w->shape.example.key_count_max;
}

/* Makes codes of the `count` values, and puts the distinct values into `entry`; returns how many, 0 for more
 * than ENTRIES_MAX. With `has`, entry 0 is kept for absent values. */
static uint32_t codes_make(struct block_writer *w, size_t count, const uint8_t *has)
{
    uint32_t mask = table_size(count) - 1, entry_count = has ? 1 : 0;
    memset(w->table, 0, ((size_t)mask + 1) * sizeof *w->table);
    w->entry[0] = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t value = w->value8[i];
        w->code[i] = 0;
        if (has && !has[i]) continue;
        uint32_t at = (uint32_t)((value * UINT64_C(0x9e3779b97f4a7c15)) >> 40) & mask;
        while (w->table[at] && w->entry[w->table[at] - 1] != value) at = (at + 1) & mask;
        if (!w->table[at]) {
            if (entry_count == ENTRIES_MAX) return 0;
            w->entry[entry_count++] = value;
            w->table[at] = entry_count;
        }
        w->code[i] = (uint16_t)(w->table[at] - 1);
    }
    return entry_count;
}

static size_t code_bytes_of(uint32_t entry_count) { return entry_count <= 1 ? 0 : entry_count <= 256 ? 1 : 2; }

static void words_put(uint8_t *out, const uint64_t *word, size_t count, size_t value_bytes)
{
    if (value_bytes == sizeof *word) {
        memcpy(out, word, count * sizeof *word);
        return;
    }
    uint32_t *out4 = (uint32_t *)(void *)out;
    for (size_t i = 0; i < count; i++) out4[i] = (uint32_t)word[i];
}

/* Appends the `count` values of value8, each of `value_bytes`, as a column; returns its end. */
static uint8_t *column_put(struct block_writer *w, uint8_t *out, size_t count, size_t value_bytes, const uint8_t *has,
                           enum block_lengths lengths)
{
    struct column_head *head = (struct column_head *)(void *)out;
    uint32_t entry_count = codes_make(w, count, has);
    size_t code_bytes = code_bytes_of(entry_count);
    if (!has && entry_count * value_bytes + count * code_bytes >= count * value_bytes) entry_count = 0;
    *head = (struct column_head){.count = (uint32_t)count, .entry_count = entry_count, .lengths = (uint8_t)lengths};
    out += sizeof *head;
    words_put(out, w->entry, entry_count, value_bytes);
    out += pad8(entry_count * value_bytes);
    uint8_t *stream = w->stream;
    size_t stream_bytes = count * (entry_count ? code_bytes : value_bytes);
    if (entry_count == 0)
        words_put(stream, w->value8, count, value_bytes);
    else if (code_bytes == 2)
        memcpy(stream, w->code, stream_bytes);
    else
        for (size_t i = 0; i < stream_bytes; i++) stream[i] = (uint8_t)w->code[i];
    int room = (int)(stream_bytes - stream_bytes / LZ4_PART), packed = 0;
    if (stream_bytes >= 64)
        packed =
            LZ4_compress_fast_extState(w->lz4_state, (const char *)stream, (char *)out, (int)stream_bytes, room, 1);
    head->is_lz4 = packed > 0;
    head->stored_bytes = packed > 0 ? (uint32_t)packed : (uint32_t)stream_bytes;
    if (packed <= 0) memcpy(out, stream, stream_bytes);
    size_t padded = pad8(head->stored_bytes);
    memset(out + head->stored_bytes, 0, padded - head->stored_bytes);
    return out + padded;
}

static uint8_t *floats_put(struct block_writer *w, uint8_t *out, const float *value, size_t stride)
{
    const uint32_t *bits = (const uint32_t *)(const void *)value;
    uint32_t rows = w->rows.example_count;
    for (uint32_t i = 0; i < rows; i++) w->value8[i] = bits[i * stride];
    return column_put(w, out, rows, sizeof(uint32_t), NULL, BLOCK_ONE);
}

static uint8_t *counts_put(struct block_writer *w, uint8_t *out, size_t offset)
{
    uint32_t rows = w->rows.example_count;
    for (uint32_t i = 0; i <= rows; i++) {
        uint32_t count;
        memcpy(&count, (const uint8_t *)&w->counts[i] + offset, sizeof count);
        w->value8[i] = count;
    }
    return column_put(w, out, (size_t)rows + 1, sizeof(uint32_t), NULL, BLOCK_ONE);
}

static enum block_lengths lengths_of(const uint32_t *begin, size_t stride, uint32_t rows)
{
    uint32_t least = UINT32_MAX, most = 0;
    for (uint32_t i = 0; i < rows; i++) {
        uint32_t length = begin[i * stride + 1] - begin[i * stride];
        least = length < least ? length : least;
        most = length > most ? length : most;
    }
    return most > 1 ? BLOCK_LISTS : rows == 0 || least == 1 ? BLOCK_ONE : BLOCK_ONE_OR_NONE;
}

static uint8_t *field_put(struct block_writer *w, uint8_t *out, uint32_t field)
{
    const struct micro_batch *m = &w->rows;
    uint32_t rows = m->example_count;
    size_t stride = w->shape.example.field_count, count = 0;
    const uint32_t *begin = m->key_begin + field;
    enum block_lengths lengths = lengths_of(begin, stride, rows);
    uint8_t *has = lengths == BLOCK_ONE_OR_NONE ? w->has : NULL;
    if (lengths == BLOCK_LISTS) {
        for (uint32_t i = 0; i < rows; i++) w->value8[i] = begin[i * stride + 1] - begin[i * stride];
        out = column_put(w, out, rows, sizeof(uint32_t), NULL, BLOCK_LISTS);
    }
    for (uint32_t i = 0; i < rows; i++) {
        uint32_t from = begin[i * stride], to = begin[i * stride + 1];
        for (uint32_t k = from; k < to; k++) w->value8[count++] = m->key[k];
        if (!has) continue;
        has[i] = from < to;
        if (from == to) w->value8[count++] = 0;
    }
    out = column_put(w, out, count, sizeof(uint64_t), has, lengths);
    if (!m->value) return out;
    const uint32_t *bits = (const uint32_t *)(const void *)m->value;
    count = 0;
    for (uint32_t i = 0; i < rows; i++)
        for (uint32_t k = begin[i * stride]; k < begin[i * stride + 1]; k++) w->value8[count++] = bits[k];
    return column_put(w, out, count, sizeof(uint32_t), NULL, BLOCK_ONE);
}

size_t block_write(struct block_writer *w, uint64_t seed, uint64_t text_bytes, uint8_t *block)
{
    struct example_shape e = w->shape.example;
    const struct micro_batch *m = &w->rows;
    uint8_t *out = block + sizeof(struct block_head);
    for (uint32_t i = 0; i < e.label_count; i++) out = floats_put(w, out, m->label + i, e.label_count);
    for (uint32_t i = 0; i < e.dense_count; i++) out = floats_put(w, out, m->dense + i, e.dense_count);
    if (e.has_weight) out = floats_put(w, out, m->weight, 1);
    if (e.has_group) {
        memcpy(w->value8, m->group, m->example_count * sizeof *m->group);
        out = column_put(w, out, m->example_count, sizeof(uint64_t), NULL, BLOCK_ONE);
    }
    for (uint32_t i = 0; i < m->example_count; i++) w->value8[i] = m->is_bad[i];
    out = column_put(w, out, m->example_count, sizeof(uint32_t), NULL, BLOCK_ONE);
    out = counts_put(w, out, offsetof(struct block_counts, bad));
    out = counts_put(w, out, offsetof(struct block_counts, cut));
    out = counts_put(w, out, offsetof(struct block_counts, unknown));
    for (uint32_t field = 0; field < e.field_count; field++) out = field_put(w, out, field);
    size_t bytes = (size_t)(out - block);
    CHECK(bytes <= block_bytes_max(w->shape));
    struct block_head *head = (struct block_head *)(void *)block;
    *head = (struct block_head){
        .magic = MAGIC, .bytes = (uint32_t)bytes, .row_count = m->example_count, .text_bytes = text_bytes};
    head->hash = XXH3_64bits_withSeed(block + sizeof head->hash, bytes - sizeof head->hash, seed);
    return bytes;
}

/* --- reading: checks -------------------------------------------------------------------------- */

static void reader_layout(struct block_reader *r, struct layout *l, struct block_shape s)
{
    struct block_reader none;
    if (!r) r = &none;
    *r = (struct block_reader){.shape = s};
    LAYOUT_TAKE(l, r->scratch, columns_bytes(s));
    LAYOUT_TAKE(l, r->tile, (size_t)BLOCK_TILE * s.example.field_count + 16);
    LAYOUT_TAKE(l, r->tile_mask, BLOCK_TILE);
    LAYOUT_TAKE(l, r->row_keys, s.row_count_max);
    LAYOUT_TAKE(l, r->number, (size_t)s.example.label_count + s.example.dense_count);
    LAYOUT_TAKE(l, r->field, s.example.field_count);
    LAYOUT_TAKE(l, r->begin, (size_t)s.example.field_count * BLOCK_PIECES);
}

size_t block_reader_bytes(struct block_shape shape)
{
    struct layout sum = {0};
    reader_layout(NULL, &sum, shape);
    return sum.bytes;
}

void block_reader_place(struct block_reader *reader, struct arena *arena, struct block_shape shape, const char *isa)
{
    struct layout place = {.arena = arena};
    reader_layout(reader, &place, shape);
    static const struct block_kernels *const all[ISA_IO_COUNT] = {&block_kernels_base, &block_kernels_avx2,
                                                                  &block_kernels_avx512};
    enum isa_io chosen;
    isa_io_find(isa, &chosen);
    reader->kernels = all[chosen];
}

/* The rest of a block, and of the memory for streams. */
struct cursor {
    const uint8_t *at, *end;
    uint8_t *scratch, *scratch_end;
};

static uint32_t code_max(const struct block_column *column)
{
    uint32_t most = 0;
    if (column->code_bytes == 1) {
        const uint8_t *code = column->stream;
        uint8_t most1 = 0;
        for (uint32_t i = 0; i < column->count; i++) most1 = code[i] > most1 ? code[i] : most1;
        most = most1;
    } else if (column->code_bytes == 2) {
        const uint16_t *code = column->stream;
        uint16_t most2 = 0;
        for (uint32_t i = 0; i < column->count; i++) most2 = code[i] > most2 ? code[i] : most2;
        most = most2;
    }
    return most;
}

/* Takes a column off. `count`: the number of values that it must have; ANY: up to `count_max`. */
#define ANY UINT32_MAX
static status column_read(struct cursor *c, size_t value_bytes, uint32_t count, uint32_t count_max,
                          struct block_column *column, enum block_lengths *lengths)
{
    struct column_head head;
    if ((size_t)(c->end - c->at) < sizeof head) FAIL(CORRUPT, "a column begins behind the block's end");
    memcpy(&head, c->at, sizeof head);
    c->at += sizeof head;
    if (count == ANY ? head.count > count_max : head.count != count)
        FAIL(CORRUPT, "a column has %" PRIu32 " values, expected %s%" PRIu32, head.count,
             count == ANY ? "at most " : "", count == ANY ? count_max : count);
    if (head.entry_count > ENTRIES_MAX || head.lengths > BLOCK_LISTS || head.is_lz4 > 1 || head.zero)
        FAIL(CORRUPT, "a column's head is none: %" PRIu32 " entries, kind %u, packing %u", head.entry_count,
             head.lengths, head.is_lz4);
    size_t entry_bytes = pad8(head.entry_count * value_bytes), left = (size_t)(c->end - c->at);
    if (entry_bytes > left || pad8(head.stored_bytes) > left - entry_bytes)
        FAIL(CORRUPT, "a column of %zu and %" PRIu32 " bytes ends behind the block's end", entry_bytes,
             head.stored_bytes);
    *column = (struct block_column){.entry = head.entry_count ? c->at : NULL,
                                    .stream = c->at + entry_bytes,
                                    .count = head.count,
                                    .entry_count = head.entry_count};
    column->code_bytes = (uint8_t)(head.entry_count ? code_bytes_of(head.entry_count) : value_bytes);
    size_t stream_bytes = (size_t)head.count * column->code_bytes;
    if (head.is_lz4) {
        if (pad8(stream_bytes) > (size_t)(c->scratch_end - c->scratch))
            FAIL(CORRUPT, "its columns hold more than a block's");
        int got = LZ4_decompress_safe((const char *)column->stream, (char *)c->scratch, (int)head.stored_bytes,
                                      (int)stream_bytes);
        if (got < 0 || (size_t)got != stream_bytes)
            FAIL(CORRUPT, "a column unpacks to %d bytes, expected %zu", got, stream_bytes);
        column->stream = c->scratch;
        c->scratch += pad8(stream_bytes);
    } else if (head.stored_bytes != stream_bytes) {
        FAIL(CORRUPT, "a column's stream has %" PRIu32 " bytes, expected %zu", head.stored_bytes, stream_bytes);
    }
    c->at += entry_bytes + pad8(head.stored_bytes);
    if (head.entry_count && code_max(column) >= head.entry_count)
        FAIL(CORRUPT, "a code is %" PRIu32 ", expected less than %" PRIu32, code_max(column), head.entry_count);
    if (lengths) *lengths = (enum block_lengths)head.lengths;
    return ST_OK;
}

static uint32_t value4_at(const struct block_column *column, uint32_t i)
{
    const uint32_t *from = column->entry ? column->entry : column->stream;
    if (!column->entry) return from[i];
    return from[column->code_bytes == 0   ? 0
                : column->code_bytes == 1 ? ((const uint8_t *)column->stream)[i]
                                          : ((const uint16_t *)column->stream)[i]];
}

static bool has_key(const struct block_field *f, uint32_t row)
{
    if (f->lengths == BLOCK_ONE) return true;
    return f->key.code_bytes == 1   ? ((const uint8_t *)f->key.stream)[row] != 0
           : f->key.code_bytes == 2 ? ((const uint16_t *)f->key.stream)[row] != 0
                                    : false;
}

/* Whether a row's keys have the row's own index in the columns of all fields. */
static bool is_simple(const struct block_reader *r) { return !r->has_lists && !r->shape.example.has_value; }

static uint32_t length_at(const struct block_field *f, uint32_t row)
{
    return f->lengths == BLOCK_LISTS ? value4_at(&f->length, row) : has_key(f, row);
}

/* Notes where the keys of each piece begin. */
static void begins_note(struct block_reader *r, struct block_field *f)
{
    uint32_t piece_rows = block_piece_rows(r->shape), at = 0;
    for (uint32_t row = 0, piece = 0; row < r->row_count; row++) {
        if (row == piece * piece_rows) f->begin[piece++] = at;
        at += length_at(f, row);
    }
}

/* Checks the lengths of a field of lists: their sum is the number of keys, and no row has too many. */
static status lengths_check(struct block_reader *r, const struct block_field *f)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < r->row_count; i++) {
        uint32_t length = value4_at(&f->length, i);
        if (length > r->shape.example.key_count_max - r->row_keys[i])
            FAIL(CORRUPT, "row %" PRIu32 " has more than %" PRIu32 " keys", i, r->shape.example.key_count_max);
        r->row_keys[i] += length;
        sum += length;
    }
    if (sum != f->key.count) FAIL(CORRUPT, "a field has %" PRIu32 " keys, expected %" PRIu64, f->key.count, sum);
    return ST_OK;
}

static status field_read(struct block_reader *r, struct cursor *c, struct block_field *f)
{
    uint32_t rows = r->row_count;
    enum block_lengths lengths;
    struct column_head head = {0};
    if ((size_t)(c->end - c->at) >= sizeof head) memcpy(&head, c->at, sizeof head);
    *f = (struct block_field){.lengths = (enum block_lengths)head.lengths,
                              .begin = r->begin + (size_t)(f - r->field) * BLOCK_PIECES};
    bool is_lists = head.lengths == BLOCK_LISTS;
    if (is_lists) TRY(column_read(c, sizeof(uint32_t), rows, 0, &f->length, NULL));
    TRY(column_read(c, sizeof(uint64_t), is_lists ? ANY : rows, r->shape.key_count_max, &f->key, &lengths));
    if (lengths != f->lengths)
        FAIL(CORRUPT, "a field's lengths are of kind %u, its keys' of kind %u", head.lengths, (unsigned)lengths);
    if (lengths == BLOCK_ONE_OR_NONE && f->key.entry == NULL) FAIL(CORRUPT, "a field lacks the entry of no key");
    if (is_lists) TRY(lengths_check(r, f));
    r->has_lists |= is_lists;
    r->has_absent |= lengths == BLOCK_ONE_OR_NONE;
    if (!r->shape.example.has_value) return ST_OK;
    uint32_t key_count = is_lists ? f->key.count : 0;
    for (uint32_t i = 0; !is_lists && i < rows; i++) key_count += has_key(f, i);
    return column_read(c, sizeof(uint32_t), key_count, 0, &f->value, NULL);
}

/* Reads all fields; checks that rows with lists do not have too many keys in all. */
static status fields_read(struct block_reader *r, struct cursor *c)
{
    struct example_shape e = r->shape.example;
    uint32_t single_count = 0, most = 0;
    memset(r->row_keys, 0, r->row_count * sizeof *r->row_keys);
    for (uint32_t field = 0; field < e.field_count; field++) {
        TRY(field_read(r, c, &r->field[field]));
        single_count += r->field[field].lengths != BLOCK_LISTS;
    }
    for (uint32_t i = 0; r->has_lists && i < r->row_count; i++) most = r->row_keys[i] > most ? r->row_keys[i] : most;
    if (most > e.key_count_max - single_count) FAIL(CORRUPT, "a row has more than %" PRIu32 " keys", e.key_count_max);
    for (uint32_t field = 0; !is_simple(r) && field < e.field_count; field++) begins_note(r, &r->field[field]);
    return ST_OK;
}

static void rows_count(struct block_reader *r, uint32_t count)
{
    uint32_t to = r->row + count + (r->row + count == r->row_count);
    for (uint32_t i = r->row; r->has_counts && i < to; i++) {
        r->sum.bad += value4_at(&r->count[0], i);
        r->sum.cut += value4_at(&r->count[1], i);
        r->sum.unknown += value4_at(&r->count[2], i);
    }
    r->row += count;
}

static status columns_read(struct block_reader *r, struct cursor *c)
{
    struct example_shape e = r->shape.example;
    uint32_t rows = r->row_count, number_count = e.label_count + e.dense_count;
    for (uint32_t i = 0; i < number_count; i++) TRY(column_read(c, sizeof(float), rows, 0, &r->number[i], NULL));
    if (e.has_weight) TRY(column_read(c, sizeof(float), rows, 0, &r->weight, NULL));
    if (e.has_group) TRY(column_read(c, sizeof(uint64_t), rows, 0, &r->group, NULL));
    TRY(column_read(c, sizeof(uint32_t), rows, 0, &r->is_bad, NULL));
    for (uint32_t i = 0; i < 3; i++) {
        TRY(column_read(c, sizeof(uint32_t), rows + 1, 0, &r->count[i], NULL));
        r->has_counts |= r->count[i].entry_count != 1 || value4_at(&r->count[i], 0) != 0;
    }
    TRY(fields_read(r, c));
    if (c->at != c->end) FAIL(CORRUPT, "%td bytes are left behind its columns", c->end - c->at);
    return ST_OK;
}

status block_open(struct block_reader *r, const uint8_t *block, size_t bytes, uint64_t seed)
{
    struct block_head head;
    r->row_count = r->row = 0;
    r->sum = (struct block_counts){0};
    r->has_lists = r->has_absent = r->has_counts = false;
    if (bytes < sizeof head || bytes % 8) FAIL(CORRUPT, "%zu bytes are no block", bytes);
    memcpy(&head, block, sizeof head);
    uint64_t hash = XXH3_64bits_withSeed(block + sizeof hash, bytes - sizeof hash, seed);
    if (hash != head.hash) FAIL(CORRUPT, "its xxh3 is %016" PRIx64 ", expected %016" PRIx64, hash, head.hash);
    if (head.magic != MAGIC || head.bytes != bytes || head.row_count > r->shape.row_count_max || head.zero)
        FAIL(CORRUPT, "its head is none: %" PRIu32 " bytes of %zu, %" PRIu32 " rows of at most %" PRIu32, head.bytes,
             bytes, head.row_count, r->shape.row_count_max);
    struct cursor cursor = {.at = block + sizeof head,
                            .end = block + bytes,
                            .scratch = r->scratch,
                            .scratch_end = r->scratch + columns_bytes(r->shape)};
    r->row_count = head.row_count;
    r->text_bytes = head.text_bytes;
    status st = columns_read(r, &cursor);
    if (st != ST_OK) r->row_count = 0;
    if (st == ST_OK && r->row_count == 0) rows_count(r, 0);
    return st;
}

/* --- reading: rows ---------------------------------------------------------------------------- */

/* Copies `count` keys of a column. */
static void keys_copy(const struct block_reader *r, uint64_t *out, const struct block_column *column, uint32_t from,
                      uint32_t count)
{
    r->kernels->spread8(out, 1, column, from, count);
}

/* Appends the keys of `count` rows, whatever their fields are. */
static void lists_take(struct block_reader *r, struct micro_batch *m, uint32_t count)
{
    uint32_t field_count = r->shape.example.field_count, home = m->example_count * field_count;
    uint32_t position = m->key_count;
    m->key_begin[home] = position;
    for (uint32_t row = r->row; row < r->row + count; row++) {
        for (uint32_t i = 0; i < field_count; i++, home++) {
            struct block_field *f = &r->field[i];
            bool is_lists = f->lengths == BLOCK_LISTS;
            uint32_t length = length_at(f, row);
            keys_copy(r, m->key + position, &f->key, is_lists ? f->at : row, length);
            for (uint32_t k = 0; k < length; k++) m->key_home[position + k] = home;
            if (m->value) r->kernels->spread4((uint32_t *)(void *)(m->value + position), 1, &f->value, f->at, length);
            f->at += length;
            position += length;
            m->key_begin[home + 1] = position;
        }
    }
    m->key_count = position;
}

static void spread(const struct block_reader *r, float *out, size_t stride, const struct block_column *column,
                   uint32_t count)
{
    r->kernels->spread4((uint32_t *)(void *)out, stride, column, r->row, count);
}

/* Takes all of `count` rows but their keys. */
static void numbers_take(const struct block_reader *r, struct micro_batch *m, uint32_t count, uint32_t dense_stride)
{
    struct example_shape e = r->shape.example;
    uint32_t at = m->example_count;
    for (uint32_t i = 0; i < e.label_count; i++)
        spread(r, m->label + (size_t)at * e.label_count + i, e.label_count, &r->number[i], count);
    for (uint32_t i = 0; i < e.dense_count; i++)
        spread(r, m->dense + (size_t)at * dense_stride + i, dense_stride, &r->number[e.label_count + i], count);
    if (m->weight) spread(r, m->weight + at, 1, &r->weight, count);
    if (m->group) r->kernels->spread8(m->group + at, 1, &r->group, r->row, count);
    for (uint32_t i = 0; i < count; i++) m->is_bad[at + i] = value4_at(&r->is_bad, r->row + i) != 0;
}

static void tile_take(struct block_reader *r, struct micro_batch *m, uint32_t count, uint32_t dense_stride)
{
    numbers_take(r, m, count, dense_stride);
    if (!is_simple(r) || r->shape.example.field_count > BLOCK_MASK_BITS)
        lists_take(r, m, count);
    else
        r->kernels->keys(r, m, r->row, count);
    m->example_count += count;
    rows_count(r, count);
}

void block_take(struct block_reader *r, struct micro_batch *m, uint32_t limit, uint32_t dense_stride)
{
    while (m->example_count < limit && r->row < r->row_count) {
        uint32_t count = limit - m->example_count, left = r->row_count - r->row;
        count = count < left ? count : left;
        tile_take(r, m, count < BLOCK_TILE ? count : BLOCK_TILE, dense_stride);
    }
}

uint32_t block_skip(struct block_reader *r, uint64_t count)
{
    uint32_t left = r->row_count - r->row, skipped = count < left ? (uint32_t)count : left;
    for (uint32_t i = 0; !is_simple(r) && i < r->shape.example.field_count; i++)
        for (uint32_t row = r->row; row < r->row + skipped; row++) r->field[i].at += length_at(&r->field[i], row);
    rows_count(r, skipped);
    return skipped;
}

void block_seek(struct block_reader *r, uint32_t piece)
{
    r->row = piece * block_piece_rows(r->shape);
    CHECK(r->row < r->row_count);
    for (uint32_t i = 0; !is_simple(r) && i < r->shape.example.field_count; i++)
        r->field[i].at = r->field[i].begin[piece];
}

/* --- mixing ----------------------------------------------------------------------------------- */

void block_group_layout(struct block_group *g, struct layout *l, struct block_shape shape, uint32_t row_count_max)
{
    struct batch_shape batch = {.batch = row_count_max, .micro = row_count_max, .lanes = 1};
    struct example_shape e = shape.example;
    bool is_flat = e.field_count <= BLOCK_MASK_BITS && e.key_count_max == e.field_count && !e.has_value;
    *g = (struct block_group){.is_flat = is_flat, .field_count = e.field_count};
    e.dense_stride = e.dense_count;
    if (is_flat) {
        LAYOUT_TAKE(l, g->key, (size_t)row_count_max * e.field_count + 16);
        LAYOUT_TAKE(l, g->mask, row_count_max);
        e.field_count = e.key_count_max = 0;
    }
    l->bytes += micro_batch_bytes(batch, e);
    if (l->arena) micro_batch_place(&g->rows, l->arena, batch, e);
}

void block_group_clear(struct block_group *g) { micro_batch_clear(&g->rows); }

void block_group_take(struct block_group *g, struct block_reader *r, uint32_t count)
{
    struct micro_batch *m = &g->rows;
    uint32_t dense_count = r->shape.example.dense_count;
    CHECK(count <= r->row_count - r->row);
    if (!g->is_flat) {
        block_take(r, m, m->example_count + count, dense_count);
        return;
    }
    for (uint32_t end = r->row + count; r->row < end;) {
        uint32_t tile = end - r->row < BLOCK_TILE ? end - r->row : BLOCK_TILE;
        numbers_take(r, m, tile, dense_count);
        r->kernels->flat(r, g->key + (size_t)m->example_count * g->field_count, g->mask + m->example_count, r->row,
                         tile);
        m->example_count += tile;
        rows_count(r, tile);
    }
}

/* Appends the keys of rows that may have lists. */
static void list_keys_give(const struct block_group *g, struct micro_batch *m, const uint32_t *row, uint32_t count)
{
    const struct micro_batch *from = &g->rows;
    uint32_t fields = g->field_count, home = m->example_count * fields, position = m->key_count;
    m->key_begin[home] = position;
    for (uint32_t i = 0; i < count; i++, home += fields) {
        const uint32_t *begin = from->key_begin + (size_t)row[i] * fields;
        uint32_t key_count = begin[fields] - begin[0], home_step = home - row[i] * fields; /* modulo 2^32 */
        memcpy(m->key + position, from->key + begin[0], key_count * sizeof *m->key);
        if (m->value) memcpy(m->value + position, from->value + begin[0], key_count * sizeof *m->value);
        for (uint32_t k = 0; k < key_count; k++) m->key_home[position + k] = from->key_home[begin[0] + k] + home_step;
        for (uint32_t field = 1; field <= fields; field++)
            m->key_begin[home + field] = begin[field] - begin[0] + position;
        position += key_count;
    }
    m->key_count = position;
}

void block_group_give(const struct block_group *g, const struct block_reader *r, struct micro_batch *m,
                      uint32_t dense_stride, const uint32_t *row, uint32_t count)
{
    struct example_shape e = r->shape.example;
    const struct micro_batch *from = &g->rows;
    for (uint32_t i = 0, at = m->example_count; i < count; i++, at++) {
        memcpy(m->dense + (size_t)at * dense_stride, from->dense + (size_t)row[i] * e.dense_count,
               e.dense_count * sizeof *m->dense);
        for (uint32_t column = 0; column < e.label_count; column++)
            m->label[(size_t)at * e.label_count + column] = from->label[(size_t)row[i] * e.label_count + column];
        if (m->weight) m->weight[at] = from->weight[row[i]];
        if (m->group) m->group[at] = from->group[row[i]];
        m->is_bad[at] = from->is_bad[row[i]];
    }
    if (g->is_flat)
        r->kernels->flat_keys(g, m, row, count);
    else
        list_keys_give(g, m, row, count);
    m->example_count += count;
}
