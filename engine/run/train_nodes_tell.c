/* Tells at the end what each node of a training has done: the others send their
 * accounts to node 0, which prints all. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/log.h"
#include "engine/base/words.h"
#include "engine/node/member.h"
#include "engine/node/probe.h"
#include "engine/node/stream.h"
#include "engine/node/talk.h"
#include "engine/run/train_internal.h"

_Static_assert(REDUCE_NODES_MAX == MEMBER_NODES_MAX, "nodes are as many");

/* A node's account, sent as it is: both ends are the same version of the program. */
struct account {
    uint32_t rank, lane_begin, lane_count;
    bool is_worker;  /* it has minibatches of its own, and no lanes */
    uint64_t stages; /* where nodes have stages: bit s: it has stage s; stages from 64 on are not told */
    uint64_t wall_ns, worker_count, busy_ns[WORK_COUNT], reading_ns, sent_bytes, rows, asked_rows, early_rows;
    uint64_t local_max, global_max; /* of a worker: updates that a minibatch has missed at one of its stages */
    double least_a_step;            /* the least bytes that it has to send */
    struct reduce_rounds rounds;
};

static struct account own_account(const struct trainer *t, struct reduce *reduce, const struct exchange *x,
                                  uint64_t steps)
{
    const struct reduce_rows rows = reduce_rows(reduce);
    struct pipeline_times times;
    struct pipeline_figures figures;
    /* The least of workers, for the dense part, is for a wave of each. */
    const double dense_steps = x->waves ? (double)x->waves->in_flight * x->waves->turn_count : 1;
    struct account a = {.rank = node_rank(t->node, x->rank),
                        .lane_begin = x->own.begin,
                        .lane_count = x->own.count,
                        .sent_bytes = reduce_sent_bytes(reduce),
                        .asked_rows = rows.asked,
                        .early_rows = rows.early,
                        .least_a_step = (double)reduce_least_bytes(reduce) / dense_steps +
                                        (double)(rows.least_bytes + reduce_stream_bytes(reduce)) / (double)steps,
                        .rounds = reduce_rounds(reduce)};
    if (x->waves) a.is_worker = true;
    pipeline_times(t->session->crew.pipeline, &times);
    pipeline_figures(t->session->crew.pipeline, &figures);
    a.wall_ns = times.wall_ns;
    a.worker_count = times.worker_count;
    memcpy(a.busy_ns, times.busy_ns, sizeof a.busy_ns);
    a.reading_ns = figures.read_ns + figures.prepare_ns;
    a.local_max = figures.staleness.local_max;
    a.global_max = figures.staleness.global_max;
    for (uint32_t s = 0; x->stages && s < x->stages->count && s < 64; s++)
        a.stages |= (uint64_t)(exchange_stage_lanes(x->stages, s, x->rank).count > 0) << s;
    for (uint32_t i = 0; i < t->graph->table_count; i++) a.rows += reduce_own_rows(reduce)[i];
    return a;
}

static double share(uint64_t part, uint64_t whole) { return whole ? (double)part / (double)whole : 0; }

/* Of the time in which the others' rounds were under way: the share of rounds whose
 * last part was this node's. */
static double last_share(const struct account *all, uint32_t count, uint32_t node)
{
    uint64_t last_ns = 0, ns = 0;
    for (uint32_t n = 0; n < count; n++) {
        if (n == node) continue;
        last_ns += all[n].rounds.last_ns[node];
        ns += all[n].rounds.ns;
    }
    return share(last_ns, ns);
}

static double work_share(const struct account *a, enum stage_work work)
{
    return share(a->busy_ns[work], a->wall_ns * a->worker_count);
}

/* "0-2,5" for a mask. */
static char *stages_text(uint64_t stages, char *text, size_t bytes)
{
    size_t used = 0;
    *text = 0;
    for (uint32_t s = 0, end; s < 64 && used < bytes; s = end + 1) {
        for (end = s; end < 64 && stages >> end & 1;) end++;
        if (end == s) continue;
        used +=
            (size_t)snprintf(text + used, bytes - used, end - s > 1 ? "%s%u-%u" : "%s%u", used ? "," : "", s, end - 1);
    }
    return text;
}

static void table_print(const struct account *all, uint32_t count, uint64_t steps)
{
    const bool by_stages = all[0].stages != 0;
    log_info("nodes    node  %7s  forward  backward  update  reading  exchange  came last        sent  of least"
             "           rows      asked for",
             by_stages          ? "stages"
             : all[0].is_worker ? "worker"
                                : "lanes");
    for (uint32_t n = 0; n < count; n++) {
        const struct account *a = &all[n];
        char lanes[24] = "none", sent[WORDS_BYTES], rows[WORDS_WHOLE_BYTES], asked[WORDS_WHOLE_BYTES], times[16] = "-";
        if (a->lane_count) snprintf(lanes, sizeof lanes, "%u-%u", a->lane_begin, a->lane_begin + a->lane_count - 1);
        if (a->is_worker) snprintf(lanes, sizeof lanes, "%u", n);
        if (by_stages) stages_text(a->stages, lanes, sizeof lanes);
        if (a->least_a_step > 0)
            snprintf(times, sizeof times, "%.2f", (double)a->sent_bytes / (double)steps / a->least_a_step);
        log_info("nodes    %4u  %7s  %6.0f%%  %7.0f%%  %5.0f%%  %6.0f%%  %7.0f%%  %8.0f%%  %10s  %8s  %13s  %13s",
                 a->rank, lanes, 100 * work_share(a, WORK_FORWARD), 100 * work_share(a, WORK_BACKWARD),
                 100 * work_share(a, WORK_UPDATE), 100 * share(a->reading_ns, a->wall_ns),
                 100 * share(a->rounds.ns, a->wall_ns), 100 * last_share(all, count, n),
                 words_volume(sent, a->sent_bytes), times, words_whole(rows, a->rows),
                 words_whole(asked, a->asked_rows));
    }
}

/* The early rows divided by the rows that all nodes were asked for. */
static double early_share(const struct account *all, uint32_t count)
{
    uint64_t asked = 0, early = 0;
    for (uint32_t n = 0; n < count; n++) {
        asked += all[n].asked_rows;
        early += all[n].early_rows;
    }
    return share(early, asked);
}

/* The maximum divided by the mean, over the nodes that have rows; 0: none has. */
static double skew_of(const struct account *all, uint32_t count, bool of_asked)
{
    uint64_t sum = 0, most = 0, holders = 0;
    for (uint32_t n = 0; n < count; n++) {
        const uint64_t value = of_asked ? all[n].asked_rows : all[n].rows;
        if (all[n].rows == 0 && all[n].asked_rows == 0) continue;
        holders++;
        sum += value;
        if (value > most) most = value;
    }
    return sum ? (double)most * (double)holders / (double)sum : 0;
}

/* The same table, as an array of the event. */
static void table_event(const struct account *all, uint32_t count, uint64_t steps)
{
    log_event_open_array("each");
    for (uint32_t n = 0; n < count; n++) {
        const struct account *a = &all[n];
        char stages[24];
        log_event_open(NULL);
        log_event_u64("rank", a->rank);
        log_event_u64("lane_begin", a->lane_begin);
        log_event_u64("lanes", a->lane_count);
        if (all[0].stages) log_event_text("stages", stages_text(a->stages, stages, sizeof stages));
        log_event_f64("forward", work_share(a, WORK_FORWARD));
        log_event_f64("backward", work_share(a, WORK_BACKWARD));
        log_event_f64("update", work_share(a, WORK_UPDATE));
        log_event_f64("reading", share(a->reading_ns, a->wall_ns));
        log_event_f64("exchange", share(a->rounds.ns, a->wall_ns));
        log_event_f64("came_last", last_share(all, count, n));
        log_event_u64("sent_bytes", a->sent_bytes);
        log_event_f64("sent_bytes_a_step", (double)a->sent_bytes / (double)steps);
        log_event_f64("sent_bytes_least", a->least_a_step);
        log_event_u64("rows", a->rows);
        log_event_u64("asked_rows", a->asked_rows);
        log_event_u64("early_rows", a->early_rows);
        if (a->is_worker) log_event_u64("local_max", a->local_max), log_event_u64("global_max", a->global_max);
        log_event_close();
    }
    log_event_close_array();
}

/* Node 0 has told what its own minibatches have missed. */
static void staleness_print(const struct account *all, uint32_t count)
{
    uint64_t local_max = 0, global_max = 0;
    for (uint32_t n = 0; n < count; n++) {
        if (all[n].local_max > local_max) local_max = all[n].local_max;
        if (all[n].global_max > global_max) global_max = all[n].global_max;
    }
    log_info("nodes    of the minibatches of all nodes: own updates missing: most %" PRIu64
             "; of other workers: most %" PRIu64,
             local_max, global_max);
}

/* Prints all nodes' accounts, on node 0. */
static void accounts_tell(const struct trainer *t, uint32_t count, uint64_t steps, const struct account *all)
{
    const double rows = skew_of(all, count, false), asked = skew_of(all, count, true);
    log_event_begin("nodes");
    log_event_u64("nodes", count);
    log_event_u64("sent_bytes", all[0].sent_bytes);
    log_event_f64("sent_bytes_a_step", (double)all[0].sent_bytes / (double)steps);
    log_event_f64("sent_bytes_least", all[0].least_a_step);
    if (t->graph->table_count > 0) {
        log_event_f64("rows_skew", rows);
        log_event_f64("asked_skew", asked);
    }
    table_event(all, count, steps);
    log_event_end();
    table_print(all, count, steps);
    if (all[0].is_worker) staleness_print(all, count);
    if (rows == 0 || count == 1 || all[0].stages || all[0].is_worker) return;
    log_info(
        "nodes    the node with the most rows has %.2f times the mean; the node asked for the most rows, %.2f times",
        rows, asked);
    const double early = early_share(all, count);
    if (early == 0) return;
    log_info("nodes    of the rows that nodes were asked for, %.0f%% were sent before the update of the step in front",
             100 * early);
}

status train_nodes_tell(const struct trainer *t, uint64_t steps)
{
    struct account all[REDUCE_NODES_MAX];
    if (t->node == NULL || steps == 0) return ST_OK;
    struct reduce *reduce = node_reduce(t->node);
    const struct exchange *x = reduce_exchange(reduce);
    all[0] = own_account(t, reduce, x, steps);
    if (x->rank > 0) return reduce_say_all(reduce, 0, &all[0], sizeof all[0]);
    for (uint32_t n = 1; n < x->node_count; n++) TRY(reduce_hear_all(reduce, n, &all[n], sizeof all[n]));
    accounts_tell(t, x->node_count, steps, all);
    return ST_OK;
}
