/* Counts occurrences of keys that have no row yet, some ten thousand a step at first, later few. Whether a
 * key is admitted is asked for every key of a micro-batch that is not resident. */
#include "io/store/admission.h"

#include <inttypes.h>
#include <string.h>
#include <xxhash.h>

#include "engine/base/memory.h"
#include "io/store/shard.h"

#define PART           "store admission"
#define VERSION        1u
#define HEADER_BYTES   64u
#define RECORD_BYTES   16u
#define LINE_BYTES     ((uint64_t)CACHE_LINE_BYTES)
#define LINE_BITS      512u
#define BLOOM_COUNTS   4u  /* of a key   */
#define BLOOM_COUNTERS 12u /* for a key */
/* Three of four cells may be used. */
#define EXACT_CELLS(keys) ((keys) / 3 * 4 + 8)

/* --- where a key is ----------------------------------------------------------------------------- */

static uint64_t mix(uint64_t key)
{
    key = (key ^ key >> 32) * UINT64_C(0x9fb21c651e98df25);
    key = (key ^ key >> 29) * UINT64_C(0xd6e8feb86659fd93);
    return key ^ key >> 32;
}

static uint64_t home_of(const struct admission *a, uint64_t key)
{
    const uint64_t cells = a->shard_lines ? a->shard_lines : a->cell_count;
    const uint64_t home = (uint64_t)((unsigned __int128)mix(key) * cells >> 64);
    return a->shard_lines ? shard_of(key) * a->shard_lines + home : home;
}

/* Exact: the key's cell, or the empty cell where it belongs. */
static uint64_t cell_of(const struct admission *a, uint64_t key)
{
    uint64_t cell = home_of(a, key);
    while (a->count[cell] != 0 && a->key[cell] != key) cell = cell + 1 == a->cell_count ? 0 : cell + 1;
    return cell;
}

/* Bloom: a counter has one byte, or shares it with others. */
struct counter {
    uint8_t *byte;
    uint32_t shift, mask;
};
/* Counter n of lines. */
static struct counter counter_at(uint8_t *lines, uint32_t bits, uint64_t n)
{
    return (struct counter){lines + n * bits / 8, (uint32_t)(n * bits % 8), (1u << bits) - 1};
}
static void counters_of(const struct admission *a, uint64_t key, struct counter counter[BLOOM_COUNTS])
{
    uint8_t *line = a->count + home_of(a, key) * LINE_BYTES;
    uint64_t choice = mix(key + UINT64_C(0x9e3779b97f4a7c15));
    for (uint32_t i = 0; i < BLOOM_COUNTS; i++, choice >>= 16)
        counter[i] = counter_at(line, a->bits, (uint32_t)choice % (LINE_BITS / a->bits));
}
static uint8_t counter_get(struct counter c) { return (uint8_t)(*c.byte >> c.shift & c.mask); }
static void counter_set(struct counter c, uint8_t value)
{
    *c.byte = (uint8_t)((*c.byte & ~(c.mask << c.shift)) | (uint32_t)value << c.shift);
}

/* The first counter of lines that is above `most`, or the end of the lines. */
static uint64_t counter_above(uint8_t *lines, size_t bytes, uint32_t bits, uint32_t most)
{
    const uint64_t end = bytes * 8 / bits;
    uint64_t n = 0;
    while (n < end && counter_get(counter_at(lines, bits, n)) <= most) n++;
    return n;
}

static uint32_t count_of(const struct admission *a, uint64_t key)
{
    if (a->admit_by == ADMIT_EXACT) return a->count[cell_of(a, key)];
    struct counter counter[BLOOM_COUNTS];
    uint32_t least = UINT32_MAX;
    counters_of(a, key, counter);
    for (uint32_t i = 0; i < BLOOM_COUNTS; i++)
        if (counter_get(counter[i]) < least) least = counter_get(counter[i]);
    return least;
}

/* --- opening ------------------------------------------------------------------------------------ */

static uint32_t bits_of(uint32_t admit)
{
    uint32_t bits = 1;
    while (admit - 1 >= 1u << bits) bits *= 2;
    return bits;
}

static void place(struct admission *a, struct layout *l)
{
    uint64_t *key = NULL;
    uint8_t *count;
    struct addition *addition;
    struct admission_step *step;
    if (a->admit_by == ADMIT_EXACT) LAYOUT_TAKE(l, key, a->cell_count);
    LAYOUT_TAKE(l, count, a->admit_by == ADMIT_EXACT ? a->cell_count : a->cell_count * LINE_BYTES);
    LAYOUT_TAKE(l, addition, a->addition_max);
    LAYOUT_TAKE(l, step, a->step_max);
    if (!l->arena) return;
    a->key = key;
    a->count = count;
    a->addition = addition;
    a->step = step;
}

/* The parts that follow from the settings. */
static struct admission shape_of(const char *table, const struct row_life *life)
{
    struct admission a = {
        .table = table, .admit = life->admit, .admit_by = life->admit_by, .key_max = life->admit_keys};
    if (a.admit_by == ADMIT_EXACT) {
        a.cell_count = EXACT_CELLS(a.key_max);
    } else {
        a.bits = bits_of(a.admit);
        a.cell_count = a.key_max * BLOOM_COUNTERS * a.bits / LINE_BITS + 1;
        if (a.admit_by == ADMIT_BLOOM_SHARDS) {
            a.shard_lines = (a.cell_count + SHARD_COUNT - 1) / SHARD_COUNT;
            a.cell_count = a.shard_lines * SHARD_COUNT;
        }
    }
    return a;
}

status admission_open(struct admission *a, const struct admission_options *o)
{
    CHECK(o->life.admit > 1 && o->life.admit <= ADMIT_MAX);
    *a = shape_of(o->table, &o->life);
    a->addition_max = o->addition_max;
    a->step_max = o->ticket_max + 1;
    struct layout sum = {0};
    place(a, &sum);
    if (sum.bytes == SIZE_MAX || arena_open(&a->arena, PART, sum.bytes) != ST_OK) {
        const uint64_t keys = a->key_max;
        *a = (struct admission){0};
        FAIL(MEMORY, "table \"%s\": no memory to count %" PRIu64 " keys for its admission; lower admit_keys%s",
             o->table, keys, o->life.admit_by == ADMIT_EXACT ? ", or set admit_by = bloom" : "");
    }
    place(a, &(struct layout){.arena = &a->arena});
    return ST_OK;
}

void admission_close(struct admission *a)
{
    arena_close(&a->arena);
    *a = (struct admission){0};
}

/* --- counting ----------------------------------------------------------------------------------- */

bool admission_has(const struct admission *a, uint64_t key) { return count_of(a, key) >= a->admit - 1; }

/* Exact: the key's cell, or an empty one for it. FULL. */
static status cell_find(const struct admission *a, uint64_t key, uint64_t *cell)
{
    *cell = cell_of(a, key);
    if (a->count[*cell] == 0 && a->used_count == a->key_max)
        FAIL(FULL,
             "table \"%s\": %" PRIu64
             " keys have occurred, as many as its admission counts; raise admit_keys, or set admit_by = bloom",
             a->table, a->key_max);
    return ST_OK;
}

/* Raises the key's counters that are below `to` to it; keeps the old ones in the addition. */
static status count_raise(struct admission *a, uint64_t key, uint32_t to, struct addition *addition)
{
    addition->key = key;
    if (a->admit_by == ADMIT_EXACT) {
        uint64_t cell;
        TRY(cell_find(a, key, &cell));
        addition->other[0] = a->count[cell];
        a->used_count += a->count[cell] == 0;
        a->key[cell] = key;
        a->count[cell] = (uint8_t)to;
        return ST_OK;
    }
    struct counter counter[BLOOM_COUNTS];
    counters_of(a, key, counter);
    for (uint32_t i = 0; i < BLOOM_COUNTS; i++) addition->other[i] = counter_get(counter[i]);
    for (uint32_t i = 0; i < BLOOM_COUNTS; i++)
        if (addition->other[i] < to) counter_set(counter[i], (uint8_t)to);
    return ST_OK;
}

status admission_add(struct admission *a, uint64_t key)
{
    CHECK(a->turned == 0);
    const uint32_t count = count_of(a, key);
    if (count >= a->admit - 1) return ST_OK;
    CHECK(a->addition_end - a->addition_begin < a->addition_max);
    TRY(count_raise(a, key, count + 1, &a->addition[a->addition_end % a->addition_max]));
    a->addition_end++;
    return ST_OK;
}

status admission_grant(struct admission *a, uint64_t key)
{
    struct addition ignored;
    CHECK(a->addition_begin == a->addition_end);
    return admission_has(a, key) ? ST_OK : count_raise(a, key, a->admit - 1, &ignored);
}

bool admission_has_order(const struct admission *a) { return a->admit_by == ADMIT_BLOOM_SHARDS && a->bits > 1; }

uint8_t *admission_lines(const struct admission *a, uint32_t begin, uint32_t end, size_t *bytes)
{
    CHECK(a->admit_by == ADMIT_BLOOM_SHARDS && begin <= end && end <= SHARD_COUNT);
    *bytes = (end - begin) * a->shard_lines * LINE_BYTES;
    return a->count + begin * a->shard_lines * LINE_BYTES;
}

bool admission_lines_check(const struct admission *a, uint8_t *lines, size_t bytes)
{
    return counter_above(lines, bytes, a->bits, a->admit - 1) == bytes * 8 / a->bits;
}

bool admission_next(const struct admission *a, uint64_t *at, uint64_t *key, uint32_t *count)
{
    CHECK(a->admit_by == ADMIT_EXACT);
    while (*at < a->cell_count && a->count[*at] == 0) ++*at;
    if (*at == a->cell_count) return false;
    *key = a->key[*at];
    *count = a->count[(*at)++];
    return true;
}

status admission_merge(struct admission *a, uint64_t key, uint32_t count)
{
    struct addition ignored;
    CHECK(count > 0 && count < a->admit);
    return count_raise(a, key, count, &ignored);
}

/* --- steps -------------------------------------------------------------------------------------- */

/* Whether ticket x was prepared after y. */
static bool is_after(uint32_t x, uint32_t y) { return (int32_t)(x - y) > 0; }

void admission_step_end(struct admission *a, uint32_t ticket)
{
    CHECK(a->step_end - a->step_begin < a->step_max);
    a->step[a->step_end++ % a->step_max] = (struct admission_step){.ticket = ticket, .end = a->addition_end};
}

void admission_release(struct admission *a, uint32_t ticket)
{
    for (; a->step_begin < a->step_end && !is_after(a->step[a->step_begin % a->step_max].ticket, ticket);
         a->step_begin++)
        a->addition_begin = a->step[a->step_begin % a->step_max].end;
}

/* Exchanges the addition's counters with the current ones. */
static void swap(struct admission *a, struct addition *addition, bool is_back)
{
    if (a->admit_by == ADMIT_EXACT) {
        const uint64_t cell = cell_of(a, addition->key);
        const uint8_t count = a->count[cell];
        a->used_count += (count == 0) - (uint64_t)(addition->other[0] == 0);
        a->count[cell] = addition->other[0];
        addition->other[0] = count;
        return;
    }
    struct counter counter[BLOOM_COUNTS];
    counters_of(a, addition->key, counter);
    for (uint32_t k = 0; k < BLOOM_COUNTS; k++) {
        /* Two of them may be the same counter: so the way back has the opposite order. */
        const uint32_t i = is_back ? BLOOM_COUNTS - 1 - k : k;
        const uint8_t count = counter_get(counter[i]);
        counter_set(counter[i], addition->other[i]);
        addition->other[i] = count;
    }
}

void admission_turn_back(struct admission *a, uint32_t ticket)
{
    CHECK(a->turned == 0);
    uint64_t end = a->addition_begin;
    for (uint64_t n = a->step_begin; n < a->step_end && !is_after(a->step[n % a->step_max].ticket, ticket); n++)
        end = a->step[n % a->step_max].end;
    for (; a->addition_end - a->turned > end; a->turned++)
        swap(a, &a->addition[(a->addition_end - a->turned - 1) % a->addition_max], true);
}

void admission_turn_forth(struct admission *a)
{
    for (; a->turned > 0; a->turned--) swap(a, &a->addition[(a->addition_end - a->turned) % a->addition_max], false);
}

/* --- the file ----------------------------------------------------------------------------------- */

struct header {
    char magic[8];
    uint32_t version, admit, admit_by, zero;
    uint64_t key_max, record_count, name_hash, file_bytes, reserved;
};
_Static_assert(sizeof(struct header) == HEADER_BYTES, "the header of the table of offsets");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "records are copied as they lie in memory");

static uint64_t record_bytes_of(uint32_t admit_by) { return admit_by == ADMIT_EXACT ? RECORD_BYTES : LINE_BYTES; }

struct record {
    uint64_t key, place; /* cell << 8 | count */
};
_Static_assert(sizeof(struct record) == RECORD_BYTES, "a record of the file");

static status records_put(const struct admission *a, struct file_writer *writer)
{
    struct record records[256];
    uint32_t count = 0;
    for (uint64_t cell = 0; cell < a->cell_count; cell++) {
        if (a->count[cell] == 0) continue;
        records[count++] = (struct record){a->key[cell], cell << 8 | a->count[cell]};
        if (count < sizeof records / sizeof *records) continue;
        TRY(file_writer_put(writer, records, sizeof records));
        count = 0;
    }
    return count ? file_writer_put(writer, records, count * sizeof *records) : ST_OK;
}

status admission_put(const struct admission *a, struct file_writer *writer)
{
    struct header h = {.version = VERSION,
                       .admit = a->admit,
                       .admit_by = a->admit_by,
                       .key_max = a->key_max,
                       .record_count = a->admit_by == ADMIT_EXACT ? a->used_count : a->cell_count,
                       .name_hash = XXH3_64bits(a->table, strlen(a->table))};
    memcpy(h.magic, ADMISSION_MAGIC, sizeof h.magic);
    h.file_bytes = sizeof h + h.record_count * record_bytes_of(a->admit_by) + sizeof(uint64_t);
    CHECK(writer->written_bytes == 0);
    TRY(file_writer_put(writer, &h, sizeof h));
    TRY(a->admit_by == ADMIT_EXACT ? records_put(a, writer)
                                   : file_writer_put(writer, a->count, a->cell_count * LINE_BYTES));
    const uint64_t hash = file_writer_hash(writer);
    TRY(file_writer_put(writer, &hash, sizeof hash));
    CHECK(writer->written_bytes == h.file_bytes);
    return ST_OK;
}

static status header_read(struct header *h, const char *path, const uint8_t *data, size_t bytes)
{
    uint64_t hash, content_bytes;
    if (bytes < sizeof *h + sizeof hash)
        FAIL(INVALID, "%s: %zu bytes are too few for a file of admission", path, bytes);
    memcpy(h, data, sizeof *h);
    if (memcmp(h->magic, ADMISSION_MAGIC, sizeof h->magic) != 0)
        FAIL(INVALID, "%s: byte 0: not a file of admission (expected \"%s\")", path, ADMISSION_MAGIC);
    if (h->version != VERSION)
        FAIL(INVALID, "%s: byte 8: version %u, where this program reads %u: written by a newer heterps-run, or damaged",
             path, h->version, VERSION);
    memcpy(&hash, data + bytes - sizeof hash, sizeof hash);
    if (XXH3_64bits(data, bytes - sizeof hash) != hash)
        FAIL(CORRUPT, "%s: bytes 0 to %zu do not match their checksum", path, bytes - sizeof hash - 1);
    if (h->zero || h->reserved || h->admit < 2 || h->admit > ADMIT_MAX || h->admit_by > ADMIT_BLOOM_SHARDS ||
        __builtin_mul_overflow(h->record_count, record_bytes_of(h->admit_by), &content_bytes) ||
        h->file_bytes != bytes || content_bytes != bytes - sizeof *h - sizeof hash)
        FAIL(INVALID,
             "%s: the header's numbers are impossible (admit %u, kind %u, keys %" PRIu64 ", bytes %" PRIu64 ")", path,
             h->admit, h->admit_by, h->record_count, h->file_bytes);
    return ST_OK;
}

status admission_file_check(const char *path, const uint8_t *data, size_t bytes)
{
    struct header h;
    return header_read(&h, path, data, bytes);
}

/* A count of a file that another admit may have written: an admitted key stays admitted. */
static uint8_t times_of(const struct admission *a, const struct header *h, uint8_t times)
{
    return times == h->admit - 1 || times > a->admit - 1 ? (uint8_t)(a->admit - 1) : times;
}

/* Every key into its cell of the file, where a look-up must find it. */
static status records_copy(struct admission *a, const char *path, const uint8_t *data, const struct header *h)
{
    const uint64_t count = h->record_count;
    struct record r;
    for (uint64_t i = 0; i < count; i++) {
        memcpy(&r, data + i * sizeof r, sizeof r);
        const uint64_t cell = r.place >> 8;
        const uint8_t times = (uint8_t)r.place;
        if (cell >= a->cell_count || a->count[cell] != 0 || times == 0 || times > h->admit - 1)
            FAIL(INVALID, "%s: byte %" PRIu64 ": key %016" PRIx64 " cannot be in cell %" PRIu64 " %u times", path,
                 HEADER_BYTES + i * sizeof r, r.key, cell, times);
        a->key[cell] = r.key;
        a->count[cell] = times_of(a, h, times);
    }
    a->used_count = count;
    for (uint64_t i = 0; i < count; i++) {
        memcpy(&r, data + i * sizeof r, sizeof r);
        if (cell_of(a, r.key) != r.place >> 8)
            FAIL(INVALID, "%s: byte %" PRIu64 ": key %016" PRIx64 " is not where it belongs", path,
                 HEADER_BYTES + i * sizeof r, r.key);
    }
    return ST_OK;
}

/* Counts of another size, or into bloom: adds every key, in the order of the file. */
static status records_add(struct admission *a, const char *path, const uint8_t *data, const struct header *h)
{
    struct record r;
    struct addition ignored;
    for (uint64_t i = 0; i < h->record_count; i++) {
        memcpy(&r, data + i * sizeof r, sizeof r);
        const uint8_t times = (uint8_t)r.place;
        const bool is_again = a->admit_by == ADMIT_EXACT && a->count[cell_of(a, r.key)] != 0;
        if (is_again || times == 0 || times > h->admit - 1)
            FAIL(INVALID, "%s: byte %" PRIu64 ": key %016" PRIx64 " cannot be there %u times%s", path,
                 HEADER_BYTES + i * sizeof r, r.key, times, is_again ? " more" : "");
        TRY(count_raise(a, r.key, times_of(a, h, times), &ignored));
    }
    return ST_OK;
}

static status records_read(struct admission *a, const char *path, const uint8_t *data, const struct header *h)
{
    const uint64_t count = h->record_count;
    if (count > h->key_max)
        FAIL(INVALID, "%s: %" PRIu64 " keys, where at most %" PRIu64 " can be", path, count, h->key_max);
    if (a->admit_by == ADMIT_EXACT && count > a->key_max)
        FAIL(MISMATCH,
             "%s: has counted %" PRIu64 " keys, and table \"%s\" has admit_keys = %" PRIu64
             ": raise admit_keys, or set admit_by = bloom",
             path, count, a->table, a->key_max);
    return a->admit_by == ADMIT_EXACT && h->key_max == a->key_max ? records_copy(a, path, data, h)
                                                                  : records_add(a, path, data, h);
}

static status lines_read(struct admission *a, const char *path, const uint8_t *data, const struct header *h)
{
    const uint64_t count = h->record_count;
    if (count != a->cell_count)
        FAIL(INVALID, "%s: %" PRIu64 " lines, where there must be %" PRIu64, path, count, a->cell_count);
    const size_t line_bytes = count * LINE_BYTES;
    memcpy(a->count, data, line_bytes);
    const uint64_t end = line_bytes * 8 / a->bits, above = counter_above(a->count, line_bytes, a->bits, h->admit - 1);
    if (above < end)
        FAIL(INVALID, "%s: byte %" PRIu64 ": a counter of %u, where at most %u can be", path,
             HEADER_BYTES + above * a->bits / 8, counter_get(counter_at(a->count, a->bits, above)), h->admit - 1);
    for (uint64_t n = 0; n < end && h->admit != a->admit; n++) {
        const struct counter counter = counter_at(a->count, a->bits, n);
        counter_set(counter, times_of(a, h, counter_get(counter)));
    }
    return ST_OK;
}

status admission_read(struct admission *a, const char *path, const uint8_t *data, size_t bytes)
{
    static const char *const kinds[] = {
        [ADMIT_EXACT] = "exact", [ADMIT_BLOOM] = "bloom (of rules before 10)", [ADMIT_BLOOM_SHARDS] = "bloom"};
    struct header h;
    CHECK(a->used_count == 0 && a->addition_begin == a->addition_end);
    TRY(header_read(&h, path, data, bytes));
    if (h.name_hash != XXH3_64bits(a->table, strlen(a->table)))
        FAIL(MISMATCH, "%s: is not of table \"%s\"", path, a->table);
    const bool is_exact = h.admit_by == ADMIT_EXACT;
    const uint32_t bits = bits_of(h.admit);
    if (!is_exact && (a->admit_by != h.admit_by || h.key_max != a->key_max || bits != a->bits))
        FAIL(MISMATCH,
             "%s: has counted for admit = %u, admit_by = %s, admit_keys = %" PRIu64
             ", and table \"%s\" has %u, %s, %" PRIu64 ": go on with the saved values (of admit any from %u to %u), "
             "or start anew from its tensors and rows with --init",
             path, h.admit, kinds[h.admit_by], h.key_max, a->table, a->admit, kinds[a->admit_by], a->key_max,
             bits > 1 ? (1u << bits / 2) + 1 : 2, 1u << bits);
    return is_exact ? records_read(a, path, data + HEADER_BYTES, &h) : lines_read(a, path, data + HEADER_BYTES, &h);
}
