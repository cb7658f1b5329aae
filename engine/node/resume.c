/* Loads rank 0's save on all nodes, which have it in a directory or get it from rank 0; once a start. */
#include <stdlib.h>
#include <string.h>

#include "engine/model/model_saved.h"
#include "engine/node/files.h"
#include "engine/node/reduce_internal.h"
#include "engine/node/save.h"
#include "engine/node/talk.h"
#include "io/store/shard.h"

/* Files by these names, in this order: of each table what it counts for admission, perhaps nothing; then of
 * each its rows, key and floats one behind the other. */
#define NAME_MANIFEST  "manifest"
#define NAME_DENSE     "dense"
#define NAME_ADMISSION "admission"
#define NAME_ROWS      "rows"

/* --- rank 0 ------------------------------------------------------------------------------------ */

static status map_send(struct files_out *files, const char *name, const struct file_map *map, const char *path)
{
    TRY(files_out_put(files, name, map->data, map->bytes));
    file_map_forget(map);
    return file_map_check(map, path);
}

static status manifest_send(struct files_out *files, const char *path)
{
    struct file_map map;
    TRY(file_map_read(&map, path));
    const status st = files_out_put(files, NAME_MANIFEST, map.data, map.bytes);
    file_map_close(&map);
    return st;
}

/* Sends the node's rows of a table. */
static status rows_send(const struct reduce *r, struct files_out *files, const struct model_rows *rows, uint32_t table,
                        uint32_t node)
{
    struct file_writer writer = {0};
    struct model_rows_walk walk = {0};
    const size_t bytes = rows->said->span_floats * sizeof(float);
    uint64_t key;
    const float *span;
    status st = file_writer_open_sink(&writer, NAME_ROWS, &files->sink);
    while (st == ST_OK && model_rows_next(rows, &walk, &key, &span)) {
        if (row_owner(r, table, key) != node) continue;
        st = file_writer_put(&writer, &key, sizeof key);
        if (st == ST_OK) st = file_writer_put(&writer, span, bytes);
    }
    model_rows_forget(rows);
    if (st == ST_OK) st = model_rows_check(rows);
    if (st == ST_OK) st = file_writer_commit(&writer);
    if (st != ST_OK) file_writer_abort(&writer);
    return st;
}

static status saved_send(const struct reduce *r, struct files_out *files, const struct model_saved *saved,
                         uint32_t node)
{
    TRY(manifest_send(files, saved->manifest_path));
    TRY(map_send(files, NAME_DENSE, &saved->dense_map, saved->dense_path));
    for (uint32_t t = 0; t < saved->manifest.table_count; t++) {
        const struct model_admission *admission = &saved->admission[t];
        TRY(map_send(files, NAME_ADMISSION, &admission->map, admission->path));
    }
    for (uint32_t t = 0; t < saved->manifest.table_count; t++) TRY(rows_send(r, files, &saved->rows[t], t, node));
    return ST_OK;
}

/* Sends the save to all that are to be served, one after the other. */
static status save_serve(struct reduce *r, const char *path, uint64_t served)
{
    struct model_saved saved;
    if (served == 0) return ST_OK;
    status st = model_saved_open(&saved, path);
    if (st == ST_OK) st = model_saved_verify(&saved);
    for (uint32_t n = 1; n < r->exchange.node_count; n++) {
        struct files_out files;
        if (!(served >> n & 1)) continue;
        files_out_begin(&files, r, n);
        if (st == ST_OK) st = saved_send(r, &files, &saved, n);
        st = files_out_end(&files, st);
    }
    model_saved_close(&saved);
    return st;
}

/* --- a node that is served --------------------------------------------------------------------- */

struct served {
    struct model_source source; /* first: a struct model_source * is a struct served * */
    struct files_in files;
    struct reduce *reduce;
    uint32_t table; /* whose rows come, or GRAPH_NONE     */
    uint8_t *row;   /* key and floats of the widest table  */
    const uint8_t *data;
    size_t left; /* of the present block */
};

/* The next file, which must have this name. */
static status file_expect(struct served *s, const char *name)
{
    bool is_one;
    TRY(files_in_next(&s->files, &is_one));
    if (!is_one || strcmp(s->files.name, name) != 0)
        FAIL(PEER_LOST, "node 0 has not sent the %s of the save", name); /* its own reason comes first */
    s->left = 0;
    return ST_OK;
}

static status map_come(struct served *s, const char *name, struct file_map *map)
{
    uint8_t *to;
    const uint8_t *data;
    size_t bytes, come = 0;
    TRY(file_expect(s, name));
    TRY(file_map_memory(map, s->files.bytes, &to));
    for (;;) {
        TRY(files_in_data(&s->files, &data, &bytes));
        if (bytes > map->bytes - come || (bytes == 0 && come < map->bytes))
            FAIL(INVALID, "expected %zu bytes of the %s of the save from node 0, found another number", map->bytes,
                 name);
        if (bytes == 0) return ST_OK;
        memcpy(to + come, data, bytes);
        come += bytes;
    }
}

/* Reads the bytes of the next row; *is_end: there is none. */
static status row_read(struct served *s, size_t bytes, bool *is_end)
{
    *is_end = false;
    for (size_t come = 0; come < bytes;) {
        if (s->left == 0) TRY(files_in_data(&s->files, &s->data, &s->left));
        *is_end = s->left == 0;
        if (*is_end && come > 0) FAIL(INVALID, "node 0 sends a part of a row");
        if (*is_end) return ST_OK;
        const size_t count = s->left < bytes - come ? s->left : bytes - come;
        memcpy(s->row + come, s->data, count);
        s->data += count;
        s->left -= count;
        come += count;
    }
    return ST_OK;
}

static status row_next(struct model_source *source, uint32_t table, uint64_t *key, const float **row)
{
    struct served *s = (struct served *)source;
    bool is_end;
    *row = NULL;
    if (s->table != table) TRY(file_expect(s, NAME_ROWS));
    s->table = table;
    TRY(row_read(s, sizeof *key + s->reduce->graph->tables[table].span_floats * sizeof **row, &is_end));
    if (is_end) return ST_OK;
    memcpy(key, s->row, sizeof *key);
    *row = (const float *)(const void *)(s->row + sizeof *key);
    return ST_OK;
}

static status files_hear(struct served *s)
{
    TRY(map_come(s, NAME_MANIFEST, &s->source.manifest));
    TRY(map_come(s, NAME_DENSE, &s->source.dense));
    for (uint32_t t = 0; t < s->source.table_count; t++) TRY(map_come(s, NAME_ADMISSION, &s->source.admission[t]));
    return ST_OK;
}

static status served_load(struct reduce *r, enum model_purpose purpose)
{
    const struct graph *g = r->graph;
    struct file_map admission[GRAPH_TABLES_MAX] = {0};
    uint32_t floats = 0;
    for (uint32_t t = 0; t < g->table_count; t++)
        if (g->tables[t].span_floats > floats) floats = g->tables[t].span_floats;
    struct served s = {.source = {.name = "the save of node 0",
                                  .admission = admission,
                                  .table_count = g->table_count,
                                  .row_next = row_next},
                       .reduce = r,
                       .table = GRAPH_NONE,
                       .row = malloc(sizeof(uint64_t) + floats * sizeof(float))};
    files_in_begin(&s.files, r, 0);
    status st = s.row ? ST_OK : status_fail(ST_MEMORY, __FILE__, __LINE__, "no memory for a row");
    if (st == ST_OK) st = files_hear(&s);
    if (st == ST_OK) st = model_load_from(r->model, &s.source, purpose);
    model_source_close(&s.source);
    st = files_in_end(&s.files, st);
    free(s.row);
    return st;
}

/* --- all ---------------------------------------------------------------------------------------- */

/* Which nodes have another save than rank 0 at `path`, or none; as reduce_apart. */
static status served_find(struct reduce *r, const char *path, uint64_t *served)
{
    const uint32_t rank = r->exchange.rank;
    uint64_t first, own;
    *served = 0;
    TRY(reduce_agree(r, rank == 0 ? model_manifest_hash(path, &first) : ST_OK));
    TRY(reduce_tell(r, &first, sizeof first));
    if (rank != 0) {
        const uint64_t has_none = model_manifest_hash(path, &own) != ST_OK || own != first;
        *served = has_none << rank;
        return reduce_say_all(r, 0, &has_none, sizeof has_none);
    }
    for (uint32_t n = 1; n < r->exchange.node_count; n++) {
        uint64_t has_none = 0;
        TRY(reduce_hear_all(r, n, &has_none, sizeof has_none));
        *served |= (uint64_t)(has_none != 0) << n;
    }
    return ST_OK;
}

status reduce_load(struct reduce *r, const char *path, enum model_purpose purpose, uint64_t *out)
{
    const uint32_t rank = r->exchange.rank;
    uint64_t served;
    status st = ST_OK;
    TRY(served_find(r, path, &served));
    const bool is_served = served >> rank & 1;
    if (!is_served) st = model_load_for(r->model, path, purpose);
    TRY(reduce_agree(r, st));
    if (rank == 0) st = save_serve(r, path, served);
    if (is_served) st = served_load(r, purpose);
    if (out) *out = served;
    return reduce_agree(r, st);
}
