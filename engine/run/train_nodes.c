/* What a training on several nodes does beside steps, evaluations and saves: it begins from the same data and the same
 * save, and says what came of it. By the main threads of all nodes, in the same order, between two jobs. */
#include <inttypes.h>
#include <string.h>

#include "engine/base/log.h"
#include "engine/base/stop.h"
#include "engine/base/words.h"
#include "engine/node/talk.h"
#include "engine/run/train_internal.h"

/* --- before the first step ----------------------------------------------------------------------- */

status train_nodes_check(const struct trainer *t)
{
    if (t->node == NULL) return ST_OK;
    const bool is_eval = t->eval.feed && feed_is_stream(t->eval.feed);
    if (feed_is_stream(t->feed) || is_eval)
        FAIL(INVALID, "%s is a stream: on several nodes each reads all data; give files that all nodes can read",
             is_eval ? t->eval.sets.item[t->eval.at].paths : t->options->data);
    return ST_OK;
}

/* A file of the data, as node 0 has it. */
struct data_record {
    uint64_t file_count, bytes, xxh3;
};

static struct data_record data_record_of(const struct model_data *data, uint32_t file)
{
    struct data_record r = {.file_count = data->file_count};
    if (file >= data->file_count) return r;
    r.bytes = data->file[file].bytes;
    r.xxh3 = data->file[file].xxh3;
    return r;
}

static status data_differs(const struct model_data *own, uint32_t file, const struct data_record *of_first)
{
    if (own->file_count != of_first->file_count)
        FAIL(MISMATCH, "it reads other data: %u files, and node 0 %" PRIu64, own->file_count, of_first->file_count);
    const struct model_data_file *f = &own->file[file];
    if (f->bytes != of_first->bytes)
        FAIL(MISMATCH, "it reads other data: its %s has %" PRIu64 " bytes, and that of node 0 %" PRIu64, f->name,
             f->bytes, of_first->bytes);
    FAIL(MISMATCH, "it reads other data: its %s has as many bytes as that of node 0, but other ones", f->name);
}

/* All read the same files, whatever their names. */
static status data_compare(struct reduce *reduce, const struct model_data *data)
{
    struct data_record first = data_record_of(data, 0);
    status st = ST_OK;
    for (uint32_t f = 0; f == 0 || f < first.file_count; f++) {
        const struct data_record own = first = data_record_of(data, f);
        TRY(reduce_tell(reduce, &first, sizeof first));
        if (st == ST_OK && memcmp(&own, &first, sizeof own) != 0) st = data_differs(data, f, &first);
    }
    return reduce_agree(reduce, st);
}

/* And evaluate the same. */
static status eval_compare(const struct trainer *t, struct reduce *reduce)
{
    uint64_t count = t->eval.sets.count;
    status st = ST_OK;
    TRY(reduce_tell(reduce, &count, sizeof count));
    if (count != t->eval.sets.count)
        st = status_fail(ST_MISMATCH, __FILE__, __LINE__,
                         "it evaluates %u sets of data, and node 0 %" PRIu64 ": give all nodes the same --eval",
                         t->eval.sets.count, count);
    TRY(reduce_agree(reduce, st));
    for (uint32_t i = 0; i < t->eval.sets.count; i++) {
        struct model_data data = {0};
        st = model_data_look(&data, t->eval.sets.item[i].paths);
        st = reduce_agree(reduce, st);
        if (st == ST_OK) st = data_compare(reduce, &data);
        model_data_close(&data);
        TRY(st);
    }
    return ST_OK;
}

/* All go on from the same save. */
static status save_compare(const struct trainer *t, struct reduce *reduce)
{
    const struct model *model = &t->session->setup.model;
    struct {
        uint64_t step;
        char tag[MODEL_TAG_BYTES];
    } first = {.step = model->progress.step};
    memcpy(first.tag, model->tag, sizeof first.tag);
    TRY(reduce_tell(reduce, &first, sizeof first));
    first.tag[sizeof first.tag - 1] = 0;
    status st = ST_OK;
    if (strcmp(first.tag, model->tag) != 0 || first.step != model->progress.step)
        st = status_fail(ST_MISMATCH, __FILE__, __LINE__,
                         "it goes on from save %s of step %" PRIu64 ", and node 0 from %s of step %" PRIu64,
                         *model->tag ? model->tag : "none", model->progress.step, *first.tag ? first.tag : "none",
                         first.step);
    return reduce_agree(reduce, st);
}

status train_nodes_begin(const struct trainer *t)
{
    const struct batch_shape shape = graph_batch(t->graph);
    char name[NODE_NAME_BYTES];
    if (t->node == NULL) return ST_OK;
    struct reduce *reduce = node_reduce(t->node);
    TRY(data_compare(reduce, &t->session->setup.model.data));
    TRY(eval_compare(t, reduce));
    TRY(save_compare(t, reduce));
    const struct exchange *x = reduce_exchange(reduce);
    log_info("nodes    %u: %s has lanes %u to %u of %u%s", x->node_count, node_name(t->node, node_index(t->node), name),
             x->own.begin, x->own.begin + x->own.count - 1, shape.lanes,
             t->options->out ? "; every node writes to --out" : "");
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
    const struct exchange *x = reduce_exchange(node_reduce(t->node));
    const uint32_t n = x->node_count;
    const uint64_t sent = reduce_sent_bytes(node_reduce(t->node));
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

bool train_is_stopped(const struct trainer *t) { return t->node ? t->nodes_stopped : stop_requested(); }

status train_nodes_job_end(struct trainer *t, bool *is_end)
{
    enum exchange_word word;
    if (t->node == NULL) return ST_OK;
    struct reduce *reduce = node_reduce(t->node);
    (void)exchange_granted(reduce_exchange(reduce), &word);
    struct {
        uint32_t is_end, is_stopped;
    } end = {*is_end, word == EXCHANGE_STOPPED && !*is_end};
    TRY(reduce_tell(reduce, &end, sizeof end));
    *is_end = end.is_end;
    t->nodes_stopped = end.is_stopped;
    return ST_OK;
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
