/* Writes and reads models behind their graphs. */
#include "engine/model/lean.h"

#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

#include "engine/base/bf16.h"
#include "engine/base/inputs.h"
#include "io/store/store_life.h"
#include "io/store/store_rows.h"

#define LEAN_VERSION 1u
#define LEAN_ALIGN   64u
#define PIECE_FLOATS 4096u
#define INT8_MAX_F   127.0f

const char *const lean_stores[] = {"f32", "bf16", "int8", NULL};

struct lean_header {
    char magic[8];
    uint32_t version, header_bytes;
    uint64_t bytes;    /* of the model, this header included, without the graph */
    uint64_t checksum; /* xxh3-64 of the model with this field zero           */
    uint64_t model_hash;
    uint64_t step, epoch, examples;
    uint64_t param_offset, param_floats; /* from the header's beginning */
    uint32_t table_count, store;
    char tag[MODEL_TAG_BYTES];
};
struct lean_table {
    uint64_t row_count;
    uint64_t key_offset, vector_offset, scale_offset; /* likewise; scale_offset 0: there are no scales */
    uint32_t dim, zero;
};
_Static_assert(sizeof(struct lean_header) == 128 && sizeof(struct lean_table) == 40, "the table above");

static uint64_t aligned(uint64_t bytes) { return (bytes + LEAN_ALIGN - 1) / LEAN_ALIGN * LEAN_ALIGN; }
static uint64_t vector_bytes(enum lean_store store, uint32_t dim)
{
    static const uint8_t bytes[LEAN_STORE_COUNT] = {sizeof(float), sizeof(uint16_t), sizeof(int8_t)};
    return (uint64_t)bytes[store] * dim;
}

/* Sets the places of the model's parts; returns the model's bytes. */
static uint64_t layout(struct lean_header *h, struct lean_table *tables)
{
    uint64_t at = aligned(sizeof *h + (uint64_t)h->table_count * sizeof *tables);
    h->param_offset = at;
    at = aligned(at + h->param_floats * sizeof(float));
    for (uint32_t t = 0; t < h->table_count; t++) {
        tables[t].key_offset = at;
        at = aligned(at + tables[t].row_count * sizeof(uint64_t));
        tables[t].vector_offset = at;
        at = aligned(at + tables[t].row_count * vector_bytes(h->store, tables[t].dim));
        tables[t].scale_offset = h->store == LEAN_INT8 ? at : 0;
        if (h->store == LEAN_INT8) at = aligned(at + tables[t].row_count * sizeof(uint16_t));
    }
    return at;
}

/* --- numbers ---------------------------------------------------------------------------------- */

/* The bits of the least bfloat16 that, times 127, reaches the vector's greatest magnitude; 0 for zeros. */
static uint16_t scale_of(const float *vector, uint32_t dim)
{
    float most = 0;
    for (uint32_t i = 0; i < dim; i++) most = fmaxf(most, fabsf(vector[i]));
    uint16_t bits = bf16_bits(most / INT8_MAX_F); /* cut off: the scale may be too small */
    while (most > 0 && (bf16_float(bits) == 0 || bf16_float(bits) * INT8_MAX_F < most)) bits++;
    return bits;
}

static void int8_of(const float *vector, uint32_t dim, float scale, int8_t *to)
{
    for (uint32_t i = 0; i < dim; i++) to[i] = scale > 0 ? (int8_t)lrintf(vector[i] / scale) : 0;
}

/* --- writing ---------------------------------------------------------------------------------- */

struct lean {
    const struct model *model;
    const struct lean_options *options;
    struct lean_header header;
    struct lean_table *tables;
    struct model_sorted *sorted;
    uint16_t *scales; /* of the table being written */
    struct file_writer writer;
    XXH3_state_t *hash; /* put() adds bytes to the hash; NULL: it writes them */
    uint64_t at;
};

static status put(struct lean *l, const void *data, uint64_t bytes)
{
    if (l->hash == NULL) TRY(file_writer_put(&l->writer, data, bytes));
    if (l->hash) CHECK(XXH3_64bits_update(l->hash, data, bytes) == XXH_OK);
    l->at += bytes;
    return ST_OK;
}

/* Puts zeros up to the next part's beginning. */
static status pad(struct lean *l)
{
    static const uint8_t zeros[LEAN_ALIGN];
    return put(l, zeros, aligned(l->at) - l->at);
}

/* Checks that readers will find finite numbers; bfloat16 rounds the greatest ones to infinity. */
static status vector_check(const struct lean *l, const float *vector, uint32_t dim)
{
    for (uint32_t i = 0; i < dim; i++) {
        if (!isfinite(vector[i]))
            FAIL(INVALID, "%s: a row to be written has a value that is not finite; export a save from before",
                 l->options->path);
        if (l->header.store == LEAN_BF16 && !isfinite(bf16_round(vector[i])))
            FAIL(INVALID,
                 "%s: a row to be written has the value %g, which is more than a bfloat16 can be; "
                 "export with --store f32",
                 l->options->path, (double)vector[i]);
    }
    return ST_OK;
}

static status vector_put(struct lean *l, const float *vector, uint32_t dim, uint64_t row)
{
    union {
        uint16_t bf16[PIECE_FLOATS];
        int8_t int8[2 * PIECE_FLOATS];
    } piece;
    if (l->hash != NULL) TRY(vector_check(l, vector, dim)); /* before anything is written */
    if (l->header.store == LEAN_F32) return put(l, vector, dim * sizeof *vector);
    if (l->header.store == LEAN_INT8) l->scales[row] = scale_of(vector, dim);
    for (uint32_t begin = 0; begin < dim; begin += PIECE_FLOATS) {
        const uint32_t count = dim - begin < PIECE_FLOATS ? dim - begin : PIECE_FLOATS;
        for (uint32_t i = 0; i < count && l->header.store == LEAN_BF16; i++)
            piece.bf16[i] = bf16_bits(bf16_round(vector[begin + i]));
        if (l->header.store == LEAN_INT8) int8_of(vector + begin, count, bf16_float(l->scales[row]), piece.int8);
        TRY(put(l, &piece, vector_bytes(l->header.store, count)));
    }
    return ST_OK;
}

static status table_put(struct lean *l, uint32_t table)
{
    const uint64_t count = l->tables[table].row_count;
    const uint32_t dim = l->tables[table].dim;
    struct model_sorted *sorted = l->sorted;
    uint64_t key;
    const float *vector;
    TRY(sorted->vt->begin(sorted, table, false));
    for (uint64_t i = 0; i < count; i++) {
        TRY(sorted->vt->next(sorted, &key, NULL));
        TRY(put(l, &key, sizeof key));
    }
    TRY(pad(l));
    TRY(sorted->vt->begin(sorted, table, true));
    for (uint64_t i = 0; i < count; i++) {
        TRY(sorted->vt->next(sorted, &key, &vector));
        TRY(vector_put(l, vector, dim, i));
    }
    TRY(pad(l));
    if (l->header.store != LEAN_INT8) return ST_OK;
    TRY(put(l, l->scales, count * sizeof *l->scales));
    return pad(l);
}

/* Puts everything, in order: once to hash, and once to write. */
static status all_put(struct lean *l)
{
    l->at = 0;
    TRY(put(l, &l->header, sizeof l->header));
    TRY(put(l, l->tables, l->header.table_count * sizeof *l->tables));
    TRY(pad(l));
    CHECK(l->at == l->header.param_offset);
    TRY(put(l, l->model->param, l->header.param_floats * sizeof(float)));
    TRY(pad(l));
    for (uint32_t t = 0; t < l->header.table_count; t++) TRY(table_put(l, t));
    CHECK(l->at == l->header.bytes);
    return ST_OK;
}

static void header_make(struct lean *l)
{
    const struct model *m = l->model;
    const struct graph_header *header = m->graph->header;
    l->header = (struct lean_header){.magic = GRAPH_MODEL_MAGIC,
                                     .version = LEAN_VERSION,
                                     .header_bytes = sizeof l->header,
                                     .model_hash = header->model_hash,
                                     .step = m->progress.step,
                                     .epoch = m->progress.epoch,
                                     .examples = m->progress.examples,
                                     .param_floats = header->param_floats,
                                     .table_count = m->graph->table_count,
                                     .store = l->options->store};
    /* A model that comes from no save has no tag yet: its step is what its first save would be called. */
    if (*m->tag)
        memcpy(l->header.tag, m->tag, sizeof l->header.tag);
    else
        snprintf(l->header.tag, sizeof l->header.tag, "%" PRIu64, m->progress.step);
    for (uint32_t t = 0; t < l->header.table_count; t++)
        l->tables[t] = (struct lean_table){.row_count = l->sorted->table[t].row_count, .dim = m->graph->tables[t].dim};
    l->header.bytes = layout(&l->header, l->tables);
}

static status room_take(struct lean *l)
{
    const struct graph *g = l->model->graph;
    uint64_t rows_max = 0;
    for (uint32_t t = 0; t < g->table_count; t++)
        if (l->sorted->table[t].row_count > rows_max) rows_max = l->sorted->table[t].row_count;
    l->tables = calloc((size_t)g->table_count + 1, sizeof *l->tables);
    l->scales = malloc(rows_max * sizeof *l->scales + 1);
    l->hash = XXH3_createState();
    if (!l->tables || !l->scales || !l->hash)
        FAIL(MEMORY, "%s: no memory to write %u tables", l->options->path, g->table_count);
    return ST_OK;
}

static status write_all(struct lean *l)
{
    const struct graph *g = l->model->graph;
    const struct model_sorted_filter filter = {l->options->has_score, l->options->score};
    for (uint32_t t = 0; t < g->table_count; t++) TRY(l->sorted->vt->open(l->sorted, t, &filter));
    TRY(room_take(l));
    header_make(l);
    CHECK(XXH3_64bits_reset(l->hash) == XXH_OK);
    TRY(all_put(l));
    l->header.checksum = XXH3_64bits_digest(l->hash);
    XXH3_freeState(l->hash);
    l->hash = NULL;
    TRY(file_writer_open(&l->writer, l->options->path));
    TRY(file_writer_put(&l->writer, g->header, g->header->file_bytes));
    TRY(all_put(l));
    return file_writer_commit(&l->writer);
}

status lean_write_sorted(const struct model *model, struct model_sorted *sorted, const struct lean_options *options,
                         struct lean_written *written)
{
    struct lean l = {.model = model, .sorted = sorted, .options = options};
    const struct graph *g = model->graph;
    const status st = write_all(&l);
    if (st != ST_OK) file_writer_abort(&l.writer);
    *written = (struct lean_written){.bytes = g->header->file_bytes + l.header.bytes};
    for (uint32_t t = 0; t < g->table_count; t++) {
        const uint32_t dim = g->tables[t].dim;
        const uint64_t scale = options->store == LEAN_INT8 ? sizeof(uint16_t) : 0, count = sorted->table[t].row_count;
        written->row_count += count;
        written->left_out += sorted->table[t].left_out;
        written->vector_bytes += count * (vector_bytes(options->store, dim) + scale);
        written->f32_bytes += count * dim * sizeof(float);
        sorted->vt->close(sorted, t);
    }
    XXH3_freeState(l.hash);
    free(l.tables);
    free(l.scales);
    return st;
}

status lean_write(const struct model *model, const struct lean_options *options, struct lean_written *written)
{
    struct model_sorted_own own;
    status st = model_sorted_own_open(&own, model);
    if (st == ST_OK) st = lean_write_sorted(model, &own.sorted, options, written);
    model_sorted_own_close(&own);
    return st;
}

/* --- reading ---------------------------------------------------------------------------------- */

bool lean_is(const char *path)
{
    struct graph_header graph;
    char magic[sizeof((struct lean_header *)NULL)->magic];
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return false;
    const bool has_graph = pread(fd, &graph, sizeof graph, 0) == (ssize_t)sizeof graph &&
                           memcmp(graph.magic, GRAPH_MAGIC, sizeof graph.magic) == 0;
    const bool has_model = has_graph &&
                           pread(fd, magic, sizeof magic, (off_t)graph.file_bytes) == (ssize_t)sizeof magic &&
                           memcmp(magic, GRAPH_MODEL_MAGIC, sizeof magic) == 0;
    close(fd);
    return has_model;
}

static uint64_t checksum_of(const uint8_t *image, uint64_t bytes)
{
    static const uint64_t zero;
    const size_t at = offsetof(struct lean_header, checksum), behind = at + sizeof zero;
    XXH3_state_t *state = XXH3_createState();
    if (state == NULL) return 0;
    CHECK(XXH3_64bits_reset(state) == XXH_OK && XXH3_64bits_update(state, image, at) == XXH_OK &&
          XXH3_64bits_update(state, &zero, sizeof zero) == XXH_OK &&
          XXH3_64bits_update(state, image + behind, bytes - behind) == XXH_OK);
    const uint64_t sum = XXH3_64bits_digest(state);
    XXH3_freeState(state);
    return sum;
}

struct reading {
    const char *path;
    const uint8_t *image;  /* of the model: aligned, as the graph's bytes are a multiple */
    uint64_t bytes, begin; /* of the model; its beginning in the file */
    const struct lean_header *header;
    const struct lean_table *tables;
};

static status header_check(struct reading *r, const struct graph *g)
{
    const struct lean_header *h = r->header = (const void *)r->image;
    if (r->bytes < sizeof *h || memcmp(h->magic, GRAPH_MODEL_MAGIC, sizeof h->magic) != 0)
        FAIL(INVALID, "%s: byte %" PRIu64 ": expected a model behind the graph, found none", r->path, r->begin);
    if (h->version != LEAN_VERSION || h->header_bytes != sizeof *h)
        FAIL(INVALID, "%s: byte %" PRIu64 ": expected a model of version %u, found %u; export it again", r->path,
             r->begin + 8, LEAN_VERSION, h->version);
    if (h->bytes != r->bytes)
        FAIL(CORRUPT, "%s: byte %" PRIu64 ": expected a model of %" PRIu64 " bytes, found %" PRIu64, r->path,
             r->begin + 16, h->bytes, r->bytes);
    if (h->checksum != checksum_of(r->image, r->bytes))
        FAIL(CORRUPT, "%s: byte %" PRIu64 ": the model does not match its checksum: the file is damaged", r->path,
             r->begin + 24);
    if (h->model_hash != g->header->model_hash)
        FAIL(MISMATCH,
             "%s: expected a model of hash %016" PRIx64 ", found %016" PRIx64
             ": it is of another graph, or a --set changes what the model is",
             r->path, g->header->model_hash, h->model_hash);
    if (h->param_floats != g->header->param_floats || h->table_count != g->table_count || h->store >= LEAN_STORE_COUNT)
        FAIL(INVALID, "%s: byte %" PRIu64 ": the model's parameters or tables are not the graph's", r->path, r->begin);
    if (!*h->tag || memchr(h->tag, 0, sizeof h->tag) == NULL || h->tag[strspn(h->tag, "0123456789-")] != 0)
        FAIL(INVALID, "%s: byte %" PRIu64 ": expected the tag of a save, such as 2000", r->path, r->begin);
    return ST_OK;
}

static status parts_check(struct reading *r, const struct graph *g)
{
    const struct lean_header *h = r->header;
    struct lean_header expected = *h;
    struct lean_table tables[GRAPH_TABLES_MAX];
    const uint64_t tables_bytes = (uint64_t)h->table_count * sizeof *r->tables;
    if (r->bytes - sizeof *h < tables_bytes) FAIL(INVALID, "%s: the model ends within its tables", r->path);
    r->tables = (const void *)(r->image + sizeof *h);
    for (uint32_t t = 0; t < h->table_count; t++) {
        tables[t] = r->tables[t];
        if (tables[t].dim != g->tables[t].dim || tables[t].zero != 0 ||
            tables[t].row_count > r->bytes / sizeof(uint64_t))
            FAIL(INVALID, "%s: table %s: expected vectors of %u, and at most as many rows as the file has room for",
                 r->path, graph_string(g, g->tables[t].name), g->tables[t].dim);
    }
    const uint64_t bytes = layout(&expected, tables);
    if (bytes != r->bytes || expected.param_offset != h->param_offset ||
        memcmp(tables, r->tables, (size_t)tables_bytes) != 0)
        FAIL(INVALID, "%s: the model's parts do not lie where its sizes put them", r->path);
    return ST_OK;
}

static status not_finite(const struct reading *r, const char *what)
{
    FAIL(INVALID, "%s: %s: expected finite numbers, found one that is not", r->path, what);
}

/* Reads a vector into the span of a row of the graph's table; NULL: checks it alone. */
static status vector_read(const struct reading *r, const struct lean_table *stored, uint64_t row,
                          const struct graph_table *to, float *span)
{
    const uint8_t *from = r->image + stored->vector_offset + row * vector_bytes(r->header->store, stored->dim);
    uint16_t scale_bits = 0;
    if (r->header->store == LEAN_INT8)
        memcpy(&scale_bits, r->image + stored->scale_offset + row * sizeof scale_bits, sizeof scale_bits);
    const float scale = bf16_float(scale_bits);
    for (uint32_t i = 0; i < stored->dim; i++) {
        uint16_t upper;
        float x;
        if (r->header->store == LEAN_F32) {
            memcpy(&x, from + i * sizeof x, sizeof x);
        } else if (r->header->store == LEAN_BF16) {
            memcpy(&upper, from + i * sizeof upper, sizeof upper);
            x = bf16_float(upper);
        } else {
            x = (float)(int8_t)from[i] * scale;
        }
        if (!isfinite(x)) return not_finite(r, "a row");
        if (span != NULL) row_vector_put(to, span, i, x);
    }
    return ST_OK;
}

/* `model`: NULL, to check the rows alone. */
static status table_read(const struct reading *r, const struct graph *g, struct model *model, uint32_t table)
{
    const struct lean_table *stored = &r->tables[table];
    const uint64_t *key = (const void *)(r->image + stored->key_offset);
    for (uint64_t i = 0; i < stored->row_count; i++) {
        float *span = NULL;
        if (i > 0 && key[i] <= key[i - 1])
            FAIL(INVALID, "%s: byte %" PRIu64 ": expected keys in ascending order", r->path,
                 r->begin + stored->key_offset + i * sizeof *key);
        if (model != NULL) TRY(store_insert(model->store, table, key[i], &span));
        TRY(vector_read(r, stored, i, &g->tables[table], span));
    }
    return ST_OK;
}

static status read_all(struct reading *r, const struct graph *g, struct model *model)
{
    TRY(header_check(r, g));
    TRY(parts_check(r, g));
    const struct lean_header *h = r->header;
    const float *param = (const void *)(r->image + h->param_offset);
    for (uint32_t t = 0; t < h->table_count; t++) TRY(table_read(r, g, model, t));
    for (uint64_t i = 0; i < h->param_floats; i++)
        if (!isfinite(param[i])) return not_finite(r, "a parameter");
    if (model == NULL) return ST_OK;
    memcpy(model->param, param, h->param_floats * sizeof *param);
    memcpy(model->tag, h->tag, sizeof model->tag);
    model->progress = (struct progress){.step = h->step, .epoch = h->epoch, .examples = h->examples};
    store_period_set(model->store, model_period(model->graph, h->step));
    return ST_OK;
}

static status image_read(const struct graph *g, struct model *model, const char *path, const uint8_t *data,
                         size_t bytes)
{
    const struct graph_header *graph = (const void *)data;
    if (bytes < sizeof *graph || memcmp(graph->magic, GRAPH_MAGIC, sizeof graph->magic) != 0 ||
        graph->file_bytes > bytes || graph->file_bytes % LEAN_ALIGN != 0)
        FAIL(INVALID, "%s: expected a graph with a model behind it", path);
    struct reading r = {.path = path,
                        .image = data + graph->file_bytes,
                        .bytes = bytes - graph->file_bytes,
                        .begin = graph->file_bytes};
    return read_all(&r, g, model);
}

status lean_read(struct model *model, const char *path, const uint8_t *data, size_t bytes)
{
    return image_read(model->graph, model, path, data, bytes);
}

static status file_read(const struct graph *g, struct model *model, const char *path)
{
    struct file_map map;
    TRY(file_map_open(&map, path));
    const status st = image_read(g, model, path, map.data, map.bytes), read = file_map_check(&map, path);
    file_map_close(&map);
    return read != ST_OK ? read : st;
}

status lean_load(struct model *model, const char *path)
{
    TRY(inputs_add(NULL, path));
    return file_read(model->graph, model, path);
}

status lean_verify(const struct graph *graph, const char *path) { return file_read(graph, NULL, path); }
