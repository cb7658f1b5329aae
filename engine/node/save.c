/* A save in the order of its messages; a few a run. */
#include "engine/node/save.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/heap.h"
#include "engine/model/manifest.h"
#include "engine/model/model_names.h"
#include "engine/node/files.h"
#include "engine/node/reduce_internal.h"
#include "io/store/admission.h"
#include "io/store/store_life.h"
#include "io/store/store_rows.h"
#include "io/store/store_ticket.h"

/* What travels of a file of rows that another node has written. */
struct part_word {
    uint64_t bytes, xxh3, rows;
    char name[256];
};

/* --- who is apart ------------------------------------------------------------------------------ */

/* By rank 0: makes an empty file of a name that nothing else has. Killed saves leave files of such
 * names, so the next save removes it. */
static status token_make(char path[FILE_PATH_BYTES], const char *directory, char name[64])
{
    uint64_t number;
    if (getrandom(&number, sizeof number, 0) != sizeof number) FAIL(SYSTEM, "no random numbers");
    snprintf(name, 64, MANIFEST_NAME ".tmp.%" PRIu64, number);
    const int fd = open(file_path_join(path, directory, name), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0) FAIL(IO, "%s: cannot make a file: %s", path, strerror(errno));
    close(fd);
    return ST_OK;
}

status reduce_apart_find(struct reduce *r, const char *directory)
{
    char path[FILE_PATH_BYTES], name[64] = {0};
    const bool is_first = r->exchange.rank == 0;
    status st = is_first ? token_make(path, directory, name) : ST_OK;
    const bool is_made = is_first && st == ST_OK;
    st = reduce_agree(r, st);
    if (st == ST_OK) st = reduce_tell(r, name, sizeof name);
    name[sizeof name - 1] = 0;
    if (!is_first && st == ST_OK) {
        const uint64_t is_apart = access(file_path_join(path, directory, name), F_OK) != 0;
        r->apart = is_apart << r->exchange.rank;
        st = reduce_say_all(r, 0, &is_apart, sizeof is_apart);
    }
    for (uint32_t n = 1; is_first && n < r->exchange.node_count && st == ST_OK; n++) {
        uint64_t is_apart = 0;
        st = reduce_hear_all(r, n, &is_apart, sizeof is_apart);
        r->apart |= (uint64_t)(is_apart != 0) << n;
    }
    if (is_made) (void)unlink(path);
    return st;
}

uint64_t reduce_apart(const struct reduce *r) { return r->apart; }

static bool is_apart(const struct reduce *r, uint32_t node) { return r->apart >> node & 1; }

/* --- the optimizer's state -------------------------------------------------------------------- */

/* Calls `of` for every stretch of the state that is the node's; of stages, of the
 * parameters, too, which rank 0 may lack. */
static status slices_each(struct reduce *r, uint32_t node,
                          status (*of)(struct reduce *r, uint32_t node, float *state, uint64_t count))
{
    const struct exchange *x = &r->exchange;
    for (uint32_t bucket = 0; bucket < x->bucket_count; bucket++)
        for (uint32_t i = 0; i < x->slices[bucket].run_count; i++) {
            const struct param_run *run = &x->slices[bucket].runs[i];
            uint64_t begin;
            const uint64_t count = slice_floats(x, node, bucket, i, &begin);
            if (x->stages) TRY(of(r, node, r->model->param + begin, count));
            for (uint32_t s = 0; s < run->state_count; s++) {
                float *state = r->model->state + run->state_offset + s * run->state_stride;
                TRY(of(r, node, state + (begin - run->offset), count));
            }
        }
    return ST_OK;
}

static status slice_say(struct reduce *r, uint32_t node, float *state, uint64_t count)
{
    (void)node;
    return reduce_say_all(r, 0, state, count * sizeof *state);
}

static status slice_hear(struct reduce *r, uint32_t node, float *state, uint64_t count)
{
    return reduce_hear_all(r, node, state, count * sizeof *state);
}

/* The same for the stages that are whole on a node, and for their parameters. */
static status stages_each(struct reduce *r, uint32_t node,
                          status (*of)(struct reduce *r, uint32_t node, float *floats, uint64_t count))
{
    const struct exchange_stages *stages = r->exchange.stages;
    if (r->exchange.waves) return ST_OK; /* at a job's end each node has all */
    for (uint32_t s = 0; stages && s < stages->count; s++) {
        if (!exchange_stage_is_whole(stages, s) || exchange_stage_node(stages, s, 0) != node) continue;
        for (uint32_t i = 0; i < stages->extents[s].run_count; i++) {
            const struct param_run *run = &stages->extents[s].runs[i];
            TRY(of(r, node, r->model->param + run->offset, run->count));
            for (uint32_t k = 0; k < run->state_count; k++)
                TRY(of(r, node, r->model->state + run->state_offset + k * run->state_stride, run->count));
        }
    }
    return ST_OK;
}

status reduce_gather(struct reduce *r)
{
    const uint32_t rank = r->exchange.rank;
    for (uint32_t n = rank ? rank : 1; n < (rank ? rank + 1 : r->exchange.node_count); n++) {
        TRY(stages_each(r, n, rank ? slice_say : slice_hear));
        TRY(slices_each(r, n, rank ? slice_say : slice_hear));
    }
    return ST_OK;
}

/* --- files of rows ---------------------------------------------------------------------------- */

static status parts_say(struct reduce *r, const struct manifest_part *parts)
{
    for (uint32_t t = 0; t < r->graph->table_count; t++) {
        const struct manifest_part *p = &parts[t];
        struct part_word word = {.bytes = p->file.bytes, .xxh3 = p->file.xxh3, .rows = p->rows};
        CHECK(strlen(p->file.name) < sizeof word.name); /* it is a file's */
        memcpy(word.name, p->file.name, strlen(p->file.name));
        TRY(reduce_say_all(r, 0, &word, sizeof word));
    }
    return ST_OK;
}

/* Checks that a file that the node has written is here, too. */
static status file_check(const char *path, const struct part_word *word, uint32_t name)
{
    char full[FILE_PATH_BYTES];
    struct stat about;
    if (stat(file_path_join(full, path, word->name), &about) != 0 || (uint64_t)about.st_size != word->bytes)
        FAIL(IO, "%s: not found here as node %u has written it", full, name);
    return ST_OK;
}

static status parts_hear(struct reduce *r, uint32_t from, const char *path, struct manifest_part *parts,
                         struct failure *missing)
{
    for (uint32_t t = 0; t < r->graph->table_count; t++) {
        struct part_word word;
        char *name;
        TRY(reduce_hear_all(r, from, &word, sizeof word));
        if (memchr(word.name, 0, sizeof word.name) == NULL || word.name[0] == 0 || strchr(word.name, '/'))
            FAIL(INVALID, "node %u names no file for its rows: it does not run the same program", reduce_name(r, from));
        if (!failure_is(missing)) failure_keep(missing, file_check(path, &word, reduce_name(r, from)));
        TRY(heap_text(&name, "%s", word.name));
        parts[t] = (struct manifest_part){.file = {name, word.bytes, word.xxh3}, .rows = word.rows};
    }
    return ST_OK;
}

/* Writes a file of rows that comes from a node that is apart. */
static status file_come(struct files_in *files, const char *path)
{
    struct file_writer writer = {0};
    char full[FILE_PATH_BYTES];
    const uint8_t *data;
    size_t bytes;
    status st = model_name_kind(files->name) == MODEL_NAME_DATA
                    ? file_writer_open(&writer, file_path_join(full, path, files->name))
                    : status_fail(ST_INVALID, __FILE__, __LINE__, "\"%.80s\" is no file of a save", files->name);
    for (bytes = 1; st == ST_OK && bytes > 0;) {
        st = files_in_data(files, &data, &bytes);
        if (st == ST_OK) st = file_writer_put(&writer, data, bytes);
    }
    if (st == ST_OK) st = file_writer_commit(&writer);
    if (st != ST_OK) file_writer_abort(&writer);
    return st;
}

/* By rank 0: takes all that nodes have to send, whatever fails here meanwhile. */
static status files_come(struct reduce *r, const char *path)
{
    struct failure first = {0};
    for (uint32_t n = 1; n < r->exchange.node_count; n++) {
        struct files_in files;
        bool is_one = true;
        status st = ST_OK;
        if (!is_apart(r, n)) continue;
        files_in_begin(&files, r, n);
        while (st == ST_OK && is_one && !failure_is(&first)) {
            st = files_in_next(&files, &is_one);
            if (st == ST_OK && is_one) st = file_come(&files, path);
        }
        st = files_in_end(&files, st);
        if (!failure_is(&first)) failure_keep(&first, st);
    }
    return failure_adopt(&first);
}

/* --- what tables have counted for the admission of keys ------------------------------------------ */

struct count_word {
    uint64_t key, count; /* count 0: there are no more */
};
#define COUNTS_AT_ONCE 1024u

/* Says the counts of the own shards. */
static status counts_say(struct reduce *r, uint32_t table, const struct admission *admission)
{
    struct count_word words[COUNTS_AT_ONCE];
    uint64_t at = 0, key;
    uint32_t count, used = 0;
    for (bool is_end = false; !is_end;) {
        is_end = !admission_next(admission, &at, &key, &count);
        if (!is_end && row_owner(r, table, key) != r->exchange.rank) continue;
        words[used++] = is_end ? (struct count_word){0} : (struct count_word){key, count};
        if (used < COUNTS_AT_ONCE && !is_end) continue;
        memset(words + used, 0, (COUNTS_AT_ONCE - used) * sizeof *words);
        TRY(reduce_say_all(r, 0, words, sizeof words));
        used = 0;
    }
    return ST_OK;
}

/* Counts the key in `all`, unless counting has failed before. */
static void count_merge(struct admission *all, struct failure *full, uint64_t key, uint64_t count)
{
    if (!failure_is(full)) failure_keep(full, admission_merge(all, key, (uint32_t)count));
}

static status counts_hear(struct reduce *r, uint32_t from, uint32_t admit, struct admission *all, struct failure *full)
{
    struct count_word words[COUNTS_AT_ONCE];
    for (;;) {
        TRY(reduce_hear_all(r, from, words, sizeof words));
        for (uint32_t i = 0; i < COUNTS_AT_ONCE; i++) {
            if (words[i].count == 0) return ST_OK;
            if (words[i].count >= admit)
                FAIL(INVALID, "node %u has counted a key %" PRIu64 " times; expected less than admit = %u",
                     reduce_name(r, from), words[i].count, admit);
            count_merge(all, full, words[i].key, words[i].count);
        }
    }
}

static uint8_t *lines_of(const struct reduce *r, uint32_t table, uint32_t node, size_t *bytes)
{
    const uint8_t *node_of_table = r->model->share.owner_of_table;
    uint32_t begin = 0, end = 0;
    if (node_of_table == NULL) shards_of(r->owner_of, node, &begin, &end);
    if (node_of_table && node_of_table[table] == node) end = SHARD_COUNT;
    return admission_lines(store_admission(r->model->store, table), begin, end, bytes);
}

/* Filters of shards: rank 0 hears them to their places in its own filter, where it counts nothing itself. */
static status lines_gather(struct reduce *r, uint32_t table, const struct admission *own)
{
    size_t bytes;
    if (r->exchange.rank != 0) {
        const uint8_t *lines = lines_of(r, table, r->exchange.rank, &bytes);
        return reduce_say_all(r, 0, lines, bytes);
    }
    for (uint32_t n = 1; n < r->exchange.node_count; n++) {
        uint8_t *lines = lines_of(r, table, n, &bytes);
        TRY(reduce_hear_all(r, n, lines, bytes));
        if (!admission_lines_check(own, lines, bytes))
            FAIL(INVALID, "node %u has counted keys of table \"%s\" more often than admit = %u counts",
                 reduce_name(r, n), own->table, own->admit);
    }
    return ST_OK;
}

/* Rank 0 gets all counts of a table: exact ones in `all`, whose memory the caller gives back, unless
 * it is *full; filters in its own. */
static status table_counts_gather(struct reduce *r, uint32_t t, struct admission *all, struct failure *full)
{
    const struct row_life *life = &r->graph->tables[t].life;
    const struct admission *own = store_admission(r->model->store, t);
    uint64_t at = 0, key;
    uint32_t count;
    if (own == NULL) return ST_OK;
    if (own->admit_by == ADMIT_BLOOM_SHARDS) return lines_gather(r, t, own);
    if (r->exchange.rank != 0) return counts_say(r, t, own);
    const struct admission_options options = {.table = own->table, .life = *life, .addition_max = 1, .ticket_max = 1};
    if (!failure_is(full)) failure_keep(full, admission_open(all, &options));
    while (admission_next(own, &at, &key, &count))
        if (row_owner(r, t, key) == 0) count_merge(all, full, key, count);
    for (uint32_t n = 1; n < r->exchange.node_count; n++) TRY(counts_hear(r, n, life->admit, all, full));
    return ST_OK;
}

/* --- a save ----------------------------------------------------------------------------------- */

/* All nodes get the tag that rank 0 has claimed. */
static status save_claim(struct reduce *r, const char *path, uint32_t *generation)
{
    status st = ST_OK;
    uint64_t word = 0;
    if (r->exchange.rank == 0) {
        st = model_save_claim(r->model, path, generation);
        word = *generation;
    }
    TRY(reduce_agree(r, st));
    TRY(reduce_tell(r, &word, sizeof word));
    *generation = (uint32_t)word;
    return ST_OK;
}

/* Another node's part. */
static status rows_save(struct reduce *r, struct model_save_options *o, struct manifest_part *parts)
{
    const uint32_t tables = r->graph->table_count;
    const bool to_send = is_apart(r, r->exchange.rank);
    struct files_out files;
    files_out_begin(&files, r, 0);
    o->sink = to_send ? &files.sink : NULL;
    status written = model_save_rows(r->model, o, parts);
    if (to_send) written = files_out_end(&files, written);
    status st = reduce_agree(r, written);
    if (st == ST_OK) st = reduce_gather(r);
    for (uint32_t t = 0; t < tables && st == ST_OK; t++) st = table_counts_gather(r, t, NULL, NULL);
    if (st == ST_OK) st = parts_say(r, parts);
    if (st == ST_OK) st = reduce_agree(r, ST_OK); /* what rank 0 has made of it */
    /* The files stay. After a failure of this node there are none; after another's, rank 0's
     * manifest may name them already. */
    model_parts_free(parts, tables);
    return st;
}

/* The rows of all parts: row_count [table_count]. */
static void parts_count(const struct reduce *r, const struct manifest_part *parts, uint64_t *row_count)
{
    const uint32_t tables = r->graph->table_count;
    for (uint32_t t = 0; t < tables; t++) {
        row_count[t] = r->own_rows[t];
        for (uint32_t n = 0; n + 1 < r->exchange.node_count; n++) row_count[t] += parts[(size_t)n * tables + t].rows;
    }
}

/* What the other nodes have written of a save. */
static uint64_t parts_bytes(const struct reduce *r, const struct manifest_part *parts)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < (r->exchange.node_count - 1) * r->graph->table_count; i++) bytes += parts[i].file.bytes;
    return bytes;
}

/* Rank 0's part, of what the others have written. */
static status whole_save(struct reduce *r, struct model_save_options *o, struct manifest_part *parts, uint64_t *bytes,
                         uint64_t *row_count)
{
    const uint32_t tables = r->graph->table_count, others = r->exchange.node_count - 1;
    struct admission all[GRAPH_TABLES_MAX] = {0}, *admission[GRAPH_TABLES_MAX] = {0};
    struct failure full = {0};                           /* what rank 0 has failed with, while it hears the others */
    status st = reduce_agree(r, files_come(r, o->path)); /* the others have written */
    if (st == ST_OK) st = reduce_gather(r);
    for (uint32_t t = 0; t < tables && st == ST_OK; t++) st = table_counts_gather(r, t, &all[t], &full);
    for (uint32_t n = 0; n < others && st == ST_OK; n++)
        st = parts_hear(r, n + 1, o->path, parts + (size_t)n * tables, &full);
    if (st != ST_OK || failure_is(&full)) model_save_drop(r->model, o);
    if (st == ST_OK) {
        for (uint32_t t = 0; t < tables; t++)
            admission[t] = all[t].count ? &all[t] : store_admission(r->model->store, t);
        o->others = parts;
        o->admission = admission;
        const uint64_t others_bytes = parts_bytes(r, parts);
        st = reduce_agree(r, failure_is(&full) ? failure_adopt(&full) : model_save(r->model, o, bytes));
        if (st == ST_OK && bytes) *bytes += others_bytes;
    }
    for (uint32_t t = 0; t < tables; t++) admission_close(&all[t]);
    parts_count(r, parts, row_count);
    model_parts_free(parts, others * tables);
    return st;
}

/* Where stages find rows themselves, and read ahead: dead rows that are still on disk do not count, and
 * counts of keys and rows are turned back to the last step. */
static status lives_turn_back(struct reduce *r, uint32_t ticket)
{
    struct store *store = r->model->store;
    TRY(store_purge(store));
    for (uint32_t t = 0; t < r->graph->table_count; t++) {
        struct admission *admission = store_admission(store, t);
        if (admission) admission_turn_back(admission, ticket);
        if (store_lives(store, t)) r->own_rows[t] = store_row_count_at(store, t, r->own_rows[t], ticket);
    }
    return ST_OK;
}

static void lives_turn_forth(const struct reduce *r)
{
    for (uint32_t t = 0; r->exchange.stages && r->owned == NULL && t < r->graph->table_count; t++) {
        struct admission *admission = store_admission(r->model->store, t);
        if (admission) admission_turn_forth(admission);
    }
}

status reduce_save(struct reduce *r, const char *path, uint32_t keep, uint64_t *bytes, uint64_t *row_count)
{
    uint64_t saved_rows[GRAPH_TABLES_MAX] = {0};
    const uint32_t rows_bytes = r->graph->table_count * sizeof *saved_rows;
    struct model_save_options options = {.path = path, .row_count = reduce_own_rows(r), .keep = keep};
    const size_t most = (size_t)r->exchange.node_count * r->graph->table_count + 1;
    TRY(save_claim(r, path, &options.generation));
    struct manifest_part *parts = calloc(most, sizeof *parts);
    status st = parts ? ST_OK : status_fail(ST_MEMORY, __FILE__, __LINE__, "no memory for a save's files");
    TRY_GOTO(reduce_agree(r, st), done);
    st = store_hold(r);
    if (st == ST_OK && r->exchange.stages && r->owned == NULL) {
        options.ticket = r->exchange.rows.own_ticket;
        st = lives_turn_back(r, options.ticket);
    }
    if (st == ST_OK && r->owned) {
        options.ticket = owned_done_ticket(r->owned);
        st = store_settle(r->model->store);
    }
    st = reduce_agree(r, st);
    if (st == ST_OK)
        st = r->exchange.rank == 0 ? whole_save(r, &options, parts, bytes, saved_rows) : rows_save(r, &options, parts);
    if (st == ST_OK) st = reduce_tell(r, saved_rows, rows_bytes);
    if (st == ST_OK && row_count) memcpy(row_count, saved_rows, rows_bytes);
    lives_turn_forth(r);
    store_let_go(r);
done:
    free(parts);
    return st;
}
