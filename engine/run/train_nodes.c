/* What a training on several nodes does beside steps: it begins from the same data and the same save, saves what each
 * node has, and does what node 0 has decided. Everything here is done by the main threads of all nodes in the same
 * order, between two jobs. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/base/log.h"
#include "engine/base/stop.h"
#include "engine/base/words.h"
#include "engine/model/manifest.h"
#include "engine/run/train_internal.h"

/* --- before the first step ----------------------------------------------------------------------- */

status train_nodes_check(const struct trainer *t)
{
    const struct settings *s = &t->session->setup.settings;
    const bool has_tables = t->graph->table_count > 0;
    if (t->node == NULL) return ST_OK;
    if (feed_is_stream(t->feed))
        FAIL(INVALID, "%s is a stream: on several nodes each reads all data; give files that all nodes can read",
             t->options->data);
    if (has_tables && t->eval.sets.count > 0)
        FAIL(INVALID,
             "several nodes cannot evaluate a model with tables yet, whose rows are spread over them: leave --eval "
             "out%s, and evaluate what is "
             "saved: heterps-run eval GRAPH --model DIR --data FILE",
             *s->data_eval               ? ", give --set data.eval="
             : s->data_eval_fraction > 0 ? ", give --set data.eval_fraction=0"
                                         : "");
    if (store_takes_turns(t->session->setup.model.store))
        FAIL(INVALID, "training on several nodes needs rows that stay in RAM, found a disk or rows that come and go");
    if (has_tables && t->options->init)
        FAIL(INVALID, "several nodes cannot take first values of tables by --init yet; make a save of them by "
                      "`heterps-run import`, and go on "
                      "from that: --continue DIR");
    if (s->cache_ssd)
        FAIL(INVALID,
             "several nodes have no file for a data cache yet: give --set cache.ssd=0; cache.ram is each node's own");
    return ST_OK;
}

/* A file of the data, as nodes compare it. */
struct data_record {
    uint64_t file_count, bytes, xxh3;
    char name[104];
};

static void data_record_fill(struct data_record *r, const struct model_data *data, uint32_t file)
{
    *r = (struct data_record){.file_count = data->file_count};
    if (file >= data->file_count) return;
    r->bytes = data->file[file].bytes;
    r->xxh3 = data->file[file].xxh3;
    snprintf(r->name, sizeof r->name, "%s", data->file[file].name);
}

static status data_differs(const struct trainer *t, uint32_t index, const struct data_record *there,
                           const struct data_record *here)
{
    char name[NODE_NAME_BYTES];
    node_name(t->node, index, name);
    if (there->file_count != here->file_count)
        FAIL(MISMATCH, "%s reads other data: %" PRIu64 " files, and node 0 %" PRIu64, name, there->file_count,
             here->file_count);
    if (there->bytes != here->bytes)
        FAIL(MISMATCH, "%s reads other data: its %.*s has %" PRIu64 " bytes, and that of node 0 %" PRIu64, name,
             (int)sizeof there->name - 1, there->name, there->bytes, here->bytes);
    FAIL(MISMATCH, "%s reads other data: its %.*s has as many bytes as that of node 0, but other ones", name,
         (int)sizeof there->name - 1, there->name);
}

/* All read the same files, whatever their names. */
static status data_compare(const struct trainer *t)
{
    const struct model_data *data = &t->session->setup.model.data;
    struct data_record own, other;
    data_record_fill(&own, data, 0);
    uint64_t file_count = own.file_count;
    TRY(node_tell(t->node, &file_count, sizeof file_count));
    for (uint32_t f = 0; f == 0 || f < file_count; f++) {
        data_record_fill(&own, data, f);
        if (node_index(t->node) > 0) TRY(node_give(t->node, 0, &own, sizeof own));
        for (uint32_t i = 1; i < node_count(t->node) && node_index(t->node) == 0; i++) {
            TRY(node_take(t->node, i, &other, sizeof other));
            if (other.file_count != own.file_count || other.bytes != own.bytes || other.xxh3 != own.xxh3)
                return data_differs(t, i, &other, &own);
        }
    }
    return ST_OK;
}

/* All go on from the same save. */
static status save_compare(const struct trainer *t)
{
    const struct model *model = &t->session->setup.model;
    struct {
        char tag[MODEL_TAG_BYTES];
        uint64_t step;
    } own = {.step = model->progress.step}, other;
    char name[NODE_NAME_BYTES];
    memcpy(own.tag, model->tag, sizeof own.tag);
    if (node_index(t->node) > 0) return node_give(t->node, 0, &own, sizeof own);
    for (uint32_t i = 1; i < node_count(t->node); i++) {
        TRY(node_take(t->node, i, &other, sizeof other));
        other.tag[sizeof other.tag - 1] = 0;
        if (strcmp(other.tag, own.tag) != 0 || other.step != own.step)
            FAIL(MISMATCH, "%s goes on from save %s of step %" PRIu64 ", and node 0 from %s of step %" PRIu64,
                 node_name(t->node, i, name), *other.tag ? other.tag : "none", other.step, *own.tag ? own.tag : "none",
                 own.step);
    }
    return ST_OK;
}

status train_nodes_begin(const struct trainer *t)
{
    const struct batch_shape shape = graph_batch(t->graph);
    if (t->node == NULL) return ST_OK;
    TRY(data_compare(t));
    TRY(save_compare(t));
    const struct exchange *x = node_exchange(t->node);
    log_info("nodes    %u: node 0 has lanes %u to %u of %u%s", node_count(t->node), x->own.begin,
             x->own.begin + x->own.count - 1, shape.lanes, t->options->out ? "; every node writes to --out" : "");
    return node_begin(t->node, t->session->setup.model.progress.step);
}

/* Floats that updates change: each is summed at its owner, and comes back. */
static uint64_t slice_floats(const struct exchange *x)
{
    uint64_t floats = 0, begin, end;
    for (uint32_t n = 0; n < x->node_count; n++)
        for (uint32_t r = 0; r < x->slices.run_count; r++) {
            extent_part(&x->slices, n, r, &begin, &end);
            floats += end - begin;
        }
    return floats;
}

void train_nodes_tell(const struct trainer *t, uint64_t steps)
{
    if (t->node == NULL || steps == 0) return;
    const struct exchange *x = node_exchange(t->node);
    const uint32_t n = x->node_count;
    const uint64_t sent = node_sent_bytes(t->node);
    const double least = 2.0 * (double)slice_floats(x) * sizeof(float) * (n - 1) / n,
                 a_step = (double)sent / (double)steps;
    char all[WORDS_BYTES], one[WORDS_BYTES];
    log_event_begin("nodes");
    log_event_u64("nodes", n);
    log_event_u64("sent_bytes", sent);
    log_event_f64("sent_bytes_a_step", a_step);
    log_event_f64("sent_bytes_least", least);
    log_event_end();
    if (t->graph->table_count > 0 || n == 1)
        log_info("nodes    this one has sent %s, %s a step", words_volume(all, sent), words_bytes(one, a_step));
    else
        log_info("nodes    this one has sent %s, %s a step: %.2f times the sums and values of its share",
                 words_volume(all, sent), words_bytes(one, a_step), a_step / least);
}

/* --- stopping ------------------------------------------------------------------------------------ */

bool train_stop_look(const struct trainer *t)
{
    if (t->node && stop_requested()) node_stop_ask(t->node);
    return t->node == NULL && stop_requested();
}

bool train_is_stopped(const struct trainer *t)
{
    if (t->node == NULL) return stop_requested();
    (void)train_stop_look(t);
    return t->session->setup.model.progress.step >= node_until(t->node);
}

status train_nodes_stopped(const struct trainer *t)
{
    const uint64_t step = t->session->setup.model.progress.step;
    if (t->options->out)
        FAIL(AGAIN, "all nodes have stopped after step %" PRIu64 "; the model is saved; go on with --resume %s", step,
             t->options->out);
    FAIL(AGAIN, "all nodes have stopped after step %" PRIu64 "; nothing was saved, because --out DIR was not given",
         step);
}

/* --- saves --------------------------------------------------------------------------------------- */

/* What node 0 is told of a file of rows. */
struct part_record {
    uint64_t rows, bytes, xxh3;
    char name[232];
};

/* Each gives node 0 the optimizer state of its slice. */
static status states_gather(const struct trainer *t)
{
    const struct exchange *x = node_exchange(t->node);
    float *state = t->session->setup.model.state;
    const uint32_t self = node_index(t->node);
    for (uint32_t n = self > 0 ? self : 1; n < (self > 0 ? self + 1 : node_count(t->node)); n++)
        for (uint32_t r = 0; r < x->slices.run_count; r++) {
            const struct param_run *run = &x->slices.runs[r];
            uint64_t begin, end;
            extent_part(&x->slices, n, r, &begin, &end);
            for (uint32_t s = 0; s < run->state_count && begin < end; s++) {
                float *at = state + run->state_offset + s * run->state_stride + (begin - run->offset);
                const uint64_t bytes = (end - begin) * sizeof *at;
                TRY(self > 0 ? node_give(t->node, 0, at, bytes) : node_take(t->node, n, at, bytes));
            }
        }
    return ST_OK;
}

/* Writes the own rows, and says what they are. */
static status rows_give(const struct trainer *t, struct model_save_options *options)
{
    const uint32_t tables = t->graph->table_count;
    struct manifest_part *parts = calloc((size_t)tables + 1, sizeof *parts);
    if (parts == NULL) FAIL(MEMORY, "no memory for the names of %u tables", tables);
    status st = model_save_rows(&t->session->setup.model, options, parts);
    for (uint32_t i = 0; i < tables && st == ST_OK; i++) {
        struct part_record record = {.rows = parts[i].rows, .bytes = parts[i].file.bytes, .xxh3 = parts[i].file.xxh3};
        snprintf(record.name, sizeof record.name, "%s", parts[i].file.name);
        st = node_give(t->node, 0, &record, sizeof record);
    }
    model_parts_free(parts, tables);
    free(parts);
    return st;
}

static status part_take(const struct trainer *t, const char *path, uint32_t index, struct manifest_part *part,
                        struct part_record *record)
{
    char full[FILE_PATH_BYTES], name[NODE_NAME_BYTES];
    struct stat about;
    TRY(node_take(t->node, index, record, sizeof *record));
    record->name[sizeof record->name - 1] = 0;
    if (strchr(record->name, '/') != NULL || stat(file_path_join(full, path, record->name), &about) != 0 ||
        (uint64_t)about.st_size != record->bytes)
        FAIL(IO, "%s is not here as %s has written it: --out has to be a directory that all nodes share", full,
             node_name(t->node, index, name));
    *part = (struct manifest_part){.file = {.name = record->name, .bytes = record->bytes, .xxh3 = record->xxh3},
                                   .rows = record->rows};
    return ST_OK;
}

/* Node 0: takes what the others have written, and writes the rest. */
static status save_whole(const struct trainer *t, struct model_save_options *options, uint64_t *bytes)
{
    const uint32_t tables = t->graph->table_count, others = node_count(t->node) - 1;
    const size_t count = (size_t)others * tables;
    struct manifest_part *parts = calloc(count + 1, sizeof *parts);
    struct part_record *records = calloc(count + 1, sizeof *records);
    status st = parts && records
                    ? ST_OK
                    : status_fail(ST_MEMORY, __FILE__, __LINE__, "no memory for the names of %zu files", count);
    for (size_t i = 0; i < count && st == ST_OK; i++)
        st = part_take(t, options->path, 1 + (uint32_t)(i / tables), &parts[i], &records[i]);
    options->others = parts;
    if (st == ST_OK) st = model_save(&t->session->setup.model, options, bytes);
    free(records);
    free(parts);
    return st;
}

status train_nodes_meet(const struct trainer *t)
{
    uint64_t word = 1;
    if (t->node == NULL) return ST_OK;
    if (node_index(t->node) > 0) return node_give(t->node, 0, &word, sizeof word);
    for (uint32_t i = 1; i < node_count(t->node); i++) TRY(node_take(t->node, i, &word, sizeof word));
    return ST_OK;
}

status train_nodes_save(const struct trainer *t, const struct model_save_options *given, uint64_t *bytes)
{
    struct model_save_options options = *given;
    uint64_t is_done = 1;
    options.row_count = node_own_rows(t->node);
    if (bytes) *bytes = 0;
    TRY(train_nodes_meet(t)); /* one that has found the model diverged does not come */
    if (node_index(t->node) == 0) TRY(model_save_claim(&t->session->setup.model, options.path, &options.generation));
    TRY(node_tell(t->node, &options.generation, sizeof options.generation));
    TRY(states_gather(t));
    TRY(node_index(t->node) == 0 ? save_whole(t, &options, bytes) : rows_give(t, &options));
    return node_tell(t->node, &is_done, sizeof is_done);
}

/* --- evaluations --------------------------------------------------------------------------------- */

status train_nodes_verdict(const struct trainer *t, bool *is_better)
{
    struct {
        uint64_t is_better;
        struct best best;
    } verdict = {*is_better, t->session->setup.model.best};
    if (t->node == NULL) return ST_OK;
    TRY(node_tell(t->node, &verdict, sizeof verdict));
    *is_better = verdict.is_better;
    verdict.best.figure[sizeof verdict.best.figure - 1] = 0;
    t->session->setup.model.best = verdict.best;
    return ST_OK;
}
