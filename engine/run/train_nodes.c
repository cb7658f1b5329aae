/* What a training on several nodes does beside steps, evaluations and saves: all nodes begin from
 * the same data and the same save, and end where node 0 says. For the main threads of all nodes, in
 * the same order, between two jobs. */
#include <inttypes.h>
#include <string.h>

#include "engine/base/log.h"
#include "engine/base/paths.h"
#include "engine/base/stop.h"
#include "engine/base/trace.h"
#include "engine/node/probe.h"
#include "engine/node/save.h"
#include "engine/node/stream.h"
#include "engine/node/talk.h"
#include "engine/run/train_internal.h"
#include "engine/sync/waves.h"

/* The fastest of these echoes tells how far two clocks are apart. */
#define ECHOES 16u

/* --- before the first step ----------------------------------------------------------------------- */

/* From what a training begins; what its flags say of it. */
enum start { START_FIRST, START_INIT, START_RESUME, START_CONTINUE, START_COUNT };
static const char *const start_text[START_COUNT] = {"without --init, --resume and --continue", "with --init",
                                                    "with --resume", "with --continue"};

static enum start start_of(const struct train_options *o)
{
    if (o->resume) return o->is_new_pass ? START_CONTINUE : START_RESUME;
    return o->init ? START_INIT : START_FIRST;
}

status train_nodes_start(const struct trainer *t)
{
    if (t->node == NULL || t->options->use) return ST_OK;
    struct reduce *reduce = node_reduce(t->node);
    const enum start own = start_of(t->options);
    uint32_t first = own;
    TRY(reduce_tell(reduce, &first, sizeof first));
    status st = ST_OK;
    if (first != own)
        st = status_fail(ST_MISMATCH, __FILE__, __LINE__, "it begins %s, and node 0 %s: give all nodes the same",
                         start_text[own], start_text[first < START_COUNT ? first : START_FIRST]);
    return reduce_agree(reduce, st);
}

/* Whether node 0 reads the data for all. */
static bool is_shared(const struct trainer *t) { return t->node && reduce_stream(node_reduce(t->node)); }

status train_nodes_check(const struct trainer *t)
{
    if (t->node == NULL || t->options->use) return ST_OK;
    const bool is_eval = t->eval.feed && feed_is_stream(t->eval.feed);
    if (is_eval)
        FAIL(INVALID,
             "%s is a stream: on several nodes each node reads all evaluation data; give files that all nodes can read",
             feed_paths(t->eval.feed));
    if (feed_is_stream(t->feed) && !is_shared(t))
        FAIL(INVALID,
             "%s is a stream, and node 0's data are not: give all nodes the same --data, "
             "and only addresses whose server tells the size",
             feed_paths(t->feed));
    return ST_OK;
}

static status stream_check(const struct session *s, const char *data, uint32_t path_count)
{
    if (node_computes(s->node) && paths_count(data) != path_count)
        FAIL(MISMATCH, "it reads other data: %u files, and node 0 %u, of which one is a stream", paths_count(data),
             path_count);
    if (node_index(s->node) == 0 && paths_have_address(data))
        FAIL(INVALID, "on several nodes a stream is read by node 0 alone, "
                      "and cannot be mixed with addresses of the web; give files in their place");
    return ST_OK;
}

status train_data_share(struct session *s, const char *data, bool *is_stream)
{
    struct {
        uint32_t is_stream, path_count;
    } first = {0};
    *is_stream = false;
    if (s->node == NULL) return ST_OK;
    struct reduce *reduce = node_reduce(s->node);
    if (node_index(s->node) == 0) first.is_stream = paths_have_stream(data), first.path_count = paths_count(data);
    TRY(reduce_tell(reduce, &first, sizeof first));
    if (!first.is_stream) return ST_OK;
    status st = stream_check(s, data, first.path_count);
    if (st == ST_OK) st = reduce_stream_open(reduce);
    *is_stream = true;
    return reduce_agree(reduce, st);
}

/* A file of node 0's data. */
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
    FAIL(MISMATCH, "it reads other data: its %s has as many bytes as that of node 0, but different ones", f->name);
}

/* Checks that all nodes that read files read the same bytes; names may differ. */
static status data_compare(struct reduce *reduce, const struct model_data *data)
{
    const bool reads = exchange_computes(reduce_exchange(reduce));
    struct data_record first = data_record_of(data, 0);
    status st = ST_OK;
    for (uint32_t file = 0; file == 0 || file < first.file_count; file++) {
        const struct data_record own = first = data_record_of(data, file);
        TRY(reduce_tell(reduce, &first, sizeof first));
        if (st == ST_OK && reads && memcmp(&own, &first, sizeof own) != 0) st = data_differs(data, file, &first);
    }
    return reduce_agree(reduce, st);
}

/* Checks that all nodes evaluate the same data; they have agreed on the number of sets before. */
static status eval_compare(const struct trainer *t, struct reduce *reduce)
{
    for (uint32_t i = 0; i < t->eval.sets.count; i++) {
        struct model_data data = {0};
        status st = node_computes(t->node) ? model_data_look(&data, t->eval.sets.item[i].paths, NULL) : ST_OK;
        st = reduce_agree(reduce, st);
        if (st == ST_OK) st = data_compare(reduce, &data);
        model_data_close(&data);
        TRY(st);
    }
    return ST_OK;
}

/* Checks that all nodes go on from the same save. */
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

/* Checks that all workers have waves of one length, which each worker may have chosen by itself, and one rule
 * of who waits for whom. */
static status waves_compare(struct reduce *reduce)
{
    const struct exchange_waves *waves = reduce_exchange(reduce)->waves;
    if (waves == NULL) return ST_OK;
    struct {
        uint32_t in_flight, clock_distance, is_exact;
    } first = {waves->in_flight, waves->clock_distance, waves->is_exact};
    TRY(reduce_tell(reduce, &first, sizeof first));
    status st = ST_OK;
    if (first.in_flight != waves->in_flight)
        st = status_fail(ST_MISMATCH, __FILE__, __LINE__,
                         "its waves have %u minibatches, and those of node 0 %u: --set train.in_flight=N for all",
                         waves->in_flight, first.in_flight);
    else if (first.clock_distance != waves->clock_distance)
        st = status_fail(ST_MISMATCH, __FILE__, __LINE__,
                         "its clock distance is %u, and that of node 0 %u: --set train.clock_distance=N for all",
                         waves->clock_distance, first.clock_distance);
    else if (first.is_exact != waves->is_exact)
        st = status_fail(ST_MISMATCH, __FILE__, __LINE__,
                         "its train.exact is %s, and that of node 0 %s: give all nodes the same",
                         waves->is_exact ? "yes" : "no", first.is_exact ? "yes" : "no");
    return reduce_agree(reduce, st);
}

/* Gives this node's trace times of node 0's clock, if node 0 has a trace. By all nodes. */
static status traces_align(const struct trainer *t, struct reduce *reduce)
{
    struct trace_clock clock = {.begin_real_ns = trace_begin_real_ns()};
    struct probe_echo echo[ECHOES];
    TRY(reduce_tell(reduce, &clock, sizeof clock));
    if (clock.begin_real_ns == 0) return ST_OK;
    for (uint32_t n = 0; n < node_count(t->node); n++) clock.ranks |= UINT64_C(1) << node_rank(t->node, n);
    if (node_index(t->node) > 0) {
        TRY(node_echo(t->node, 0, echo, ECHOES));
        uint32_t best = 0;
        for (uint32_t i = 1; i < ECHOES; i++) best = echo[i].ns < echo[best].ns ? i : best;
        clock.ahead_ns = echo[best].ahead_ns;
        clock.within_ns = echo[best].ns / 2;
    }
    trace_align(&clock);
    return reduce_agree(reduce, ST_OK);
}

/* "node 1", "nodes 1 and 2", … for a mask. */
static const char *nodes_text(const struct trainer *t, uint64_t nodes, char *text, size_t bytes)
{
    size_t used = (size_t)snprintf(text, bytes, "node%s", nodes & (nodes - 1) ? "s" : "");
    for (uint32_t n = 0, left; n < node_count(t->node) && used < bytes; n++) {
        if (!(nodes >> n & 1)) continue;
        left = (uint32_t)__builtin_popcountll(nodes >> n);
        used += (size_t)snprintf(text + used, bytes - used, " %u%s", node_rank(t->node, n),
                                 left > 2    ? ","
                                 : left == 2 ? " and"
                                             : "");
    }
    return text;
}

status train_nodes_resume(const struct trainer *t)
{
    uint64_t served;
    char text[512];
    const enum model_purpose purpose = t->options->use           ? MODEL_TO_USE
                                       : t->options->is_new_pass ? MODEL_TO_CONTINUE
                                                                 : MODEL_TO_RESUME;
    TRY(reduce_load(node_reduce(t->node), t->options->resume, purpose, &served));
    if (served && node_index(t->node) == 0)
        log_info("resume   this node has sent its save to %s: %s does not have it there",
                 nodes_text(t, served, text, sizeof text), t->options->resume);
    return ST_OK;
}

/* Where saves are written, after "; "; or "". */
static status saves_find(const struct trainer *t, char *text, size_t bytes)
{
    char nodes[400];
    *text = 0;
    if (t->options->out == NULL) return ST_OK;
    struct reduce *reduce = node_reduce(t->node);
    TRY(reduce_apart_find(reduce, t->options->out));
    if (reduce_apart(reduce) == 0)
        snprintf(text, bytes, "; every node writes to --out");
    else
        snprintf(text, bytes, "; node 0 writes to --out, also for %s, which do%s not share it",
                 nodes_text(t, reduce_apart(reduce), nodes, sizeof nodes),
                 reduce_apart(reduce) & (reduce_apart(reduce) - 1) ? "" : "es");
    return ST_OK;
}

status train_nodes_begin(const struct trainer *t)
{
    const struct batch_shape shape = graph_batch(t->graph);
    char text[512], saves[512], shares[NODE_SHARES_BYTES];
    if (t->node == NULL) return ST_OK;
    struct reduce *reduce = node_reduce(t->node);
    TRY(data_compare(reduce, &t->session->setup.model.data));
    TRY(eval_compare(t, reduce));
    TRY(save_compare(t, reduce));
    TRY(waves_compare(reduce));
    TRY(saves_find(t, saves, sizeof saves));
    TRY(traces_align(t, reduce));
    const struct exchange *x = reduce_exchange(reduce);
    if (*node_speeds_text(t->node, text, sizeof text)) log_info("nodes    measured: %s examples a second", text);
    if (x->waves)
        log_info("nodes    %u workers%s, whose waves have %u minibatches; clock distance %u%s", x->waves->turn_count,
                 x->stages ? ", on the nodes that the plan gives their stages" : "", x->waves->in_flight,
                 t->session->setup.settings.train_clock_distance, saves);
    else if (x->stages)
        log_info("nodes    %u, which have the stages that the plan gives them%s", x->node_count, saves);
    else
        log_info("nodes    %u, which have %s of %u lanes%s", x->node_count, node_lanes_text(t->node, text, sizeof text),
                 shape.lanes, saves);
    if (*node_shares_text(t->node, shares)) log_info("nodes    cluster.bandwidth: %s", shares);
    return node_begin(t->node, t->session->setup.model.progress.step);
}

/* --- stopping ------------------------------------------------------------------------------------ */

bool train_is_stopped(const struct trainer *t) { return t->node ? t->nodes_stopped : stop_requested(); }

status train_nodes_reading(struct trainer *t)
{
    struct failure failure;
    if (t->node == NULL || node_index(t->node) == 0 || !node_computes(t->node) || is_shared(t)) return ST_OK;
    failure_keep(&failure, feed_result(t->feed));
    return !failure_is(&failure) || node_ends_soon(t->node) ? ST_OK : failure_adopt(&failure);
}

/* For workers: tells rank 0 whether the data have ended for any of them. A worker without a step of its own
 * between the data's end and a job's bound comes to the bound, time and again. */
static status workers_end(struct reduce *reduce, bool *is_end)
{
    uint32_t ended = *is_end;
    if (reduce_exchange(reduce)->waves == NULL) return ST_OK;
    if (reduce_rank(reduce) != 0) return reduce_say_all(reduce, 0, &ended, sizeof ended);
    for (uint32_t n = 1; n < reduce_node_count(reduce); n++) {
        TRY(reduce_hear_all(reduce, n, &ended, sizeof ended));
        *is_end |= ended != 0;
    }
    return ST_OK;
}

status train_nodes_job_end(struct trainer *t, bool *is_end)
{
    enum exchange_word word;
    if (t->node == NULL) return ST_OK;
    struct reduce *reduce = node_reduce(t->node);
    (void)exchange_granted(reduce_exchange(reduce), &word);
    TRY(workers_end(reduce, is_end));
    /* Of workers that are halted one may have read all its data, and others not: this is no end. */
    const bool is_halted = word == EXCHANGE_STOPPED && reduce_exchange(reduce)->waves, is_whole = *is_end && !is_halted;
    const bool is_stopped = word == EXCHANGE_STOPPED && !reduce_job_is_cut(reduce);
    struct {
        uint32_t is_end, is_stopped, is_timed;
    } end = {is_whole, is_stopped && !is_whole, 0};
    if (node_index(t->node) == 0) end.is_timed = train_saves_time(t);
    const status st = *is_end && is_shared(t) && node_index(t->node) == 0 ? feed_result(t->feed) : ST_OK;
    if (st == ST_STOPPED || (st != ST_OK && (is_stopped || stop_requested()))) {
        if (st != ST_STOPPED) log_warning("%s; ignored, since a signal asks to stop", status_message());
        end.is_end = 0;
        end.is_stopped = 1;
    }
    TRY(reduce_tell(reduce, &end, sizeof end));
    *is_end = end.is_end;
    t->nodes_stopped = end.is_stopped;
    t->save_is_timed = end.is_timed;
    return ST_OK;
}

status train_nodes_data_end(const struct trainer *t)
{
    const status st = feed_result(t->feed);
    struct failure failure;
    if (!is_shared(t)) return st;
    failure_keep(&failure, reduce_agree(node_reduce(t->node), st));
    /* Node 0 ends the job, and with it the other nodes. */
    if (failure_is(&failure) && node_index(t->node) > 0) (void)node_ends_soon(t->node);
    return failure_adopt(&failure);
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
