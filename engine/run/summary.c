/* Where the time went: shares of the wall clock, a table of them, and the sentence about the slowest part.
 *
 * A stage's share is of its own workers' time. In a shared pool, where every worker serves
 * every stage, a share is of all workers' time, so that the shares of the stages add up.
 * Printed once, at the end of training. */
#include "engine/run/summary.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/log.h"
#include "engine/base/words.h"

/* A part that is busy for this share or more is the bottleneck: if it never waited again, training would
 * be faster by a quarter at most. */
#define BUSY_SHARE 0.8
/* The same, where the other stages have next to nothing to do. */
#define LONE_SHARE 0.5
/* Reading ahead has short pauses of its own, so its thread is seldom busy to the last percent. */
#define READING_SHARE 0.75
/* Stages that differ by less are called equal; a stage that is idler by twice this
 * has time for another layer. */
#define EQUAL_SHARE 0.1
/* A lower share of time without input is noise; above it slots are worth a word where both ends lack them. */
#define STARVED_SHARE 0.05
#define SLOTS_SHARE   0.1

/* The cores of a gang share each op, and meet after it: a shorter op is not faster with more cores. */
#define CUT_NS         20000.0

#define SENTENCE_BYTES 1024
/* Longer names are cut in the table. */
#define NAME_COLUMNS_MAX 24u

/* A part of a whole: 0 … 1, whatever the clocks say. */
static double share_of(double part_ns, double whole_ns)
{
    if (!(whole_ns > 0) || !(part_ns > 0)) return 0;
    return part_ns < whole_ns ? part_ns / whole_ns : 1;
}

static int percent(double share) { return (int)(share * 100 + 0.5); }

struct stage_shares {
    double work[WORK_COUNT], busy, wait;
};
static struct stage_shares stage_shares(const struct pipeline_figures *f, const struct stage_figures *stage)
{
    double whole_ns = (double)f->wall_ns * stage->worker_count, busy_ns = 0;
    struct stage_shares shares;
    for (int work = 0; work < WORK_COUNT; work++) {
        shares.work[work] = share_of((double)stage->busy_ns[work], whole_ns);
        busy_ns += (double)stage->busy_ns[work];
    }
    shares.busy = share_of(busy_ns, whole_ns);
    shares.wait = share_of((double)stage->wait_ns, whole_ns);
    return shares;
}

/* Shares of all workers of a shared pool, at all stages. */
static struct stage_shares pool_shares(const struct pipeline_figures *f)
{
    struct stage_figures pool = {.worker_count = f->worker_count, .wait_ns = f->pool_wait_ns};
    for (uint32_t s = 0; s < f->stage_count; s++)
        for (int work = 0; work < WORK_COUNT; work++) pool.busy_ns[work] += f->stage[s].busy_ns[work];
    return stage_shares(f, &pool);
}

struct reading_shares {
    double parsing, rows, busy, wait, starved;
};
static struct reading_shares reading_shares(const struct pipeline_figures *f)
{
    double wall_ns = (double)f->wall_ns, first_workers = f->stage_count ? f->stage[0].worker_count : 0,
           busy = share_of((double)f->read_ns + (double)f->prepare_ns, wall_ns);
    return (struct reading_shares){
        .parsing = share_of((double)f->read_ns, wall_ns),
        .rows = share_of((double)f->prepare_ns, wall_ns),
        .busy = busy,
        /* The thread waits through evaluations and saves, too, which the wall clock of jobs leaves out. */
        .wait = fmin(share_of((double)f->read_wait_ns, wall_ns), 1 - busy),
        .starved = share_of((double)f->starved_ns, wall_ns * first_workers),
    };
}

static bool is_empty(const struct pipeline_figures *f) { return f->wall_ns == 0 || f->stage_count == 0; }

/* --- the sentence ----------------------------------------------------------------------------- */

/* The busiest stage, its shares, and how busy the least busy one is. */
static uint32_t slowest_stage(const struct pipeline_figures *f, struct stage_shares *shares, double *busy_min)
{
    uint32_t slowest = 0;
    *busy_min = 1;
    for (uint32_t s = 0; s < f->stage_count; s++) {
        struct stage_shares of = stage_shares(f, &f->stage[s]);
        if (s == 0 || of.busy > shares->busy) {
            *shares = of;
            slowest = s;
        }
        if (of.busy < *busy_min) *busy_min = of.busy;
    }
    return slowest;
}

/* The neighbour that waits most, if it has time for another layer; or NULL. Layers of a stage are
 * consecutive, so only a neighbour can take one. */
static const struct stage_figures *neighbour_idle(const struct pipeline_figures *f, uint32_t slowest, double busy)
{
    const struct stage_figures *idle = NULL;
    double wait = 0;
    for (uint32_t s = slowest ? slowest - 1 : 0; s <= slowest + 1 && s < f->stage_count; s++) {
        struct stage_shares of = stage_shares(f, &f->stage[s]);
        if (s == slowest || of.busy > busy - 2 * EQUAL_SHARE || of.wait <= wait) continue;
        idle = &f->stage[s];
        wait = of.wait;
    }
    return idle;
}

static void stage_sentence(const struct pipeline_figures *f, uint32_t slowest, double busy, char text[SENTENCE_BYTES])
{
    const char *name = f->stage[slowest].name;
    const struct device_kind *kind = f->stage[slowest].kind;
    char whose[64] = "";
    if (kind->has_memory) snprintf(whose, sizeof whose, "a stream of its %s is ", kind->unit);
    int bytes = snprintf(text, SENTENCE_BYTES, "stage %s is the bottleneck: %sbusy %d%% of the time%s", name, whose,
                         percent(busy), kind->has_memory ? "" : "; give it more cores (k)");
    /* Only a name like "e..x" has several layers, and one to give. */
    const struct stage_figures *idle = strstr(name, "..") ? neighbour_idle(f, slowest, busy) : NULL;
    if (idle)
        snprintf(text + bytes, SENTENCE_BYTES - (size_t)bytes, "%s move a layer to %s, which waits %d%%",
                 kind->has_memory ? ";" : ", or", idle->name, percent(stage_shares(f, idle).wait));
}

/* Whether the busiest stage waits for longer than all other stages work. Filling and draining a step takes no
 * longer than this work, so it does not explain the wait, and the stage's own work stays the longest part. */
static bool is_lone(const struct pipeline_figures *f, uint32_t slowest, double busy)
{
    double others = 0;
    for (uint32_t s = 0; s < f->stage_count; s++)
        if (s != slowest) others += stage_shares(f, &f->stage[s]).busy * f->stage[s].worker_count;
    return f->stage_count > 1 && !f->is_shared && busy >= LONE_SHARE && others < (1 - busy) / 2;
}

/* How long an op takes, on average; 0: unknown. */
static double op_ns(const struct stage_figures *stage)
{
    uint64_t count = stage->task_count[WORK_FORWARD] * stage->op_count;
    return count ? (double)(stage->busy_ns[WORK_FORWARD] + stage->busy_ns[WORK_BACKWARD]) / (double)count : 0;
}

/* For a single stage, which is busy. */
static void alone_sentence(const struct stage_figures *stage, double busy, char text[SENTENCE_BYTES])
{
    double ns = op_ns(stage);
    int bytes = snprintf(text, SENTENCE_BYTES,
                         "computation is the bottleneck: the one stage is busy %d%% of the time; ", percent(busy));
    char *at = text + bytes;
    size_t left_bytes = SENTENCE_BYTES - (size_t)bytes;
    bool is_small = ns > 0 && ns < CUT_NS && !stage->kind->has_memory;
    if (is_small && stage->core_count > stage->worker_count)
        snprintf(at, left_bytes, "an op takes %.3g us, too little to be cut among cores: --threads 1 may be faster",
                 ns * 1e-3);
    else if (is_small)
        snprintf(at, left_bytes, "an op takes %.3g us, too little to be cut among more cores", ns * 1e-3);
    else if (stage->kind->has_memory)
        snprintf(at, left_bytes, "layers on cores, or on another %s, would help", stage->kind->unit);
    else
        snprintf(at, left_bytes, "more cores would help");
}

/* For stages that are busy, or idle for another reason than reading. */
static void stages_sentence(const struct pipeline_figures *f, const struct reading_shares *r, double computing,
                            char text[SENTENCE_BYTES])
{
    struct stage_shares shares = {0};
    double busy_min;
    uint32_t slowest = slowest_stage(f, &shares, &busy_min);
    const struct stage_figures *stage = &f->stage[slowest];
    bool is_busy = computing >= BUSY_SHARE;
    if (is_busy && f->stage_count == 1) {
        alone_sentence(stage, computing, text);
    } else if (is_busy && f->is_shared) {
        snprintf(text, SENTENCE_BYTES,
                 "computation is the bottleneck: the shared cores are busy %d%% of the time, "
                 "most of all with stage %s (%d%%); more cores would help",
                 percent(computing), stage->name, percent(shares.busy));
    } else if (is_busy && shares.busy - busy_min < EQUAL_SHARE) {
        snprintf(
            text, SENTENCE_BYTES,
            "computation is the bottleneck: all stages are busy %d%% to %d%% of the time; more cores (k) would help",
            percent(busy_min), percent(shares.busy));
    } else if (is_busy || is_lone(f, slowest, computing)) {
        stage_sentence(f, slowest, computing, text);
    } else {
        /* Rounded up, or "no more than" would not be true. */
        int most = (int)ceil(computing * 100 - 1e-9);
        int bytes = snprintf(text, SENTENCE_BYTES,
                             f->is_shared          ? "the shared cores are busy no more than %d%% of the time"
                             : f->stage_count == 1 ? "the one stage is busy no more than %d%% of the time"
                                                   : "no stage is busy more than %d%% of the time",
                             most);
        char *at = text + bytes;
        size_t left_bytes = SENTENCE_BYTES - (size_t)bytes;
        bool has_clock = f->staleness.global_max > 0 && f->staleness.global_bound != UINT64_MAX;
        bool is_single = f->stage_count == 1 && f->stage[0].worker_count == 1;
        if (f->rows_come_and_go && r->starved >= SLOTS_SHARE && r->wait >= SLOTS_SHARE)
            snprintf(at, left_bytes,
                     "; reading and computing wait for each other (%d%%), because rows come and go at the end of each "
                     "step: fewer, larger steps (train.batch) would wait less",
                     percent(r->starved));
        else if (r->starved >= SLOTS_SHARE && r->wait >= SLOTS_SHARE)
            snprintf(at, left_bytes,
                     "; now input is missing (%d%%), now reading lacks a free slot (%d%%): "
                     "more slots (train.in_flight) may help",
                     percent(r->starved), percent(r->wait));
        else if (is_single)
            snprintf(at, left_bytes, " and reading %d%%: neither is the bottleneck by itself", percent(r->busy));
        else if (f->staleness.has_staleness)
            snprintf(at, left_bytes, "; more minibatches under way (train.in_flight)%s may help",
                     has_clock ? " or a greater train.clock_distance" : "");
        else
            snprintf(at, left_bytes,
                     ": every step fills and drains the pipeline; "
                     "more micro-batches a step (train.batch / train.micro) or slots (train.in_flight) may help");
    }
}

/* Copies `text`, cut before a character that does not fit whole. */
static char *text_fit(char *buffer, size_t bytes, const char *text)
{
    static const char end[] = "…";
    size_t length = strlen(text);
    if (bytes == 0) return buffer;
    if (length >= bytes) {
        bool has_room = bytes >= sizeof end;
        length = bytes - (has_room ? sizeof end : 1);
        while (length > 0 && ((uint8_t)text[length] & 0xC0) == 0x80) length--;
        memcpy(buffer, text, length);
        memcpy(buffer + length, has_room ? end : "", has_room ? sizeof end : 1);
    } else {
        memcpy(buffer, text, length + 1);
    }
    return buffer;
}

/* Whether a single thread, which needs no longer than all cores of the one stage together, would still wait
 * for reading. */
static bool one_would_do(const struct pipeline_figures *f, double computing)
{
    return f->stage_count == 1 && !f->stage->kind->has_memory && f->stage->core_count > 1 &&
           computing * f->stage->core_count < BUSY_SHARE;
}

char *summary_bottleneck(const struct pipeline_figures *f, char *buffer, size_t bytes)
{
    char text[SENTENCE_BYTES];
    if (is_empty(f)) return text_fit(buffer, bytes, "nothing was trained");
    struct reading_shares r = reading_shares(f);
    struct stage_shares slowest = {0};
    double busy_min;
    if (f->is_shared)
        slowest = pool_shares(f);
    else
        slowest_stage(f, &slowest, &busy_min);
    double computing = slowest.busy;
    /* Reading's thread is busier than the stages that wait for it, and input is missing for most of the time
     * in which the slowest stage is idle. */
    bool is_reading =
        r.busy >= READING_SHARE && r.busy > computing && r.starved >= STARVED_SHARE && r.starved >= (1 - computing) / 2;
    if (is_reading)
        snprintf(
            text, sizeof text,
            "reading is the bottleneck: %s waits %d%% of the time for input while reading is busy %d%% (reading and "
            "parsing %d%%, rows %d%%); %s or cores of its own (service_cores of a plan) may help%s",
            f->is_shared          ? "the shared pool"
            : f->stage_count == 1 ? "computation"
                                  : "the first stage",
            percent(r.starved), percent(r.busy), percent(r.parsing), percent(r.rows),
            f->read_ns >= f->prepare_ns ? "a faster source" : "fewer keys an example",
            one_would_do(f, computing) ? "; for computation one thread would do (--threads 1)" : "");
    else
        stages_sentence(f, &r, computing, text);
    return text_fit(buffer, bytes, text);
}

/* --- the table -------------------------------------------------------------------------------- */

/* Characters; a terminal shows one a column. */
static uint32_t columns_of(const char *text)
{
    uint32_t columns = 0;
    for (; *text; text++) columns += ((uint8_t)*text & 0xC0) != 0x80;
    return columns;
}

/* `name` in exactly `columns` columns: cut, or filled up with blanks. */
static void name_fit(char *out, size_t out_bytes, const char *name, uint32_t columns)
{
    uint32_t length = columns_of(name), kept = length > columns ? columns - 1 : length;
    const char *end = name;
    for (uint32_t column = 0; column < kept; column++) do
            end++;
        while (((uint8_t)*end & 0xC0) == 0x80);
    int fill = length > columns ? 0 : (int)(columns - length);
    snprintf(out, out_bytes, "%.*s%s%*s", (int)(end - name), name, length > columns ? "…" : "", fill, "");
}

static int ring_text(char *out, size_t bytes, const char *name, uint64_t pushes, uint64_t depth_sum, uint32_t cells)
{
    if (pushes == 0) return 0;
    return snprintf(out, bytes, "%s %.1f of %u", name, (double)depth_sum / (double)pushes, cells);
}

/* One line: `cores` and `wait` are texts, because they may be absent. */
static void row_print(const char *name, uint32_t columns, const char *cores, const struct stage_shares *shares,
                      const char *wait, const char *rings)
{
    char fitted[4 * NAME_COLUMNS_MAX + 4], line[256];
    name_fit(fitted, sizeof fitted, name, columns);
    snprintf(line, sizeof line, "%s  %5s  %4d%%  %6d%%  %7d%%  %5d%%  %5s  %s", fitted, cores, percent(shares->busy),
             percent(shares->work[WORK_FORWARD]), percent(shares->work[WORK_BACKWARD]),
             percent(shares->work[WORK_UPDATE]), wait, rings);
    size_t bytes = strlen(line);
    while (bytes > 0 && line[bytes - 1] == ' ') bytes--;
    log_info("%.*s", (int)bytes, line);
}

static void table_print(const struct pipeline_figures *f)
{
    static const char pool_name[] = "shared";
    uint32_t columns = 8; /* as wide as the words before the other lines */
    for (uint32_t s = 0; s < f->stage_count; s++)
        if (columns_of(f->stage[s].name) > columns) columns = columns_of(f->stage[s].name);
    if (columns > NAME_COLUMNS_MAX) columns = NAME_COLUMNS_MAX;
    log_info("%-*s  cores   busy  forward  backward  update   wait  ring in (mean of cells)", (int)columns, "stage");
    char cores[16] = "", wait[16] = "", rings[96];
    for (uint32_t s = 0; s < f->stage_count; s++) {
        const struct stage_figures *stage = &f->stage[s];
        struct stage_shares shares = stage_shares(f, stage);
        if (!f->is_shared) {
            if (stage->kind->has_memory)
                snprintf(cores, sizeof cores, "%.15s", stage->kind->unit);
            else
                snprintf(cores, sizeof cores, "%u", stage->core_count);
            snprintf(wait, sizeof wait, "%d%%", percent(shares.wait));
        }
        rings[0] = '\0';
        int bytes =
            ring_text(rings, sizeof rings, "fwd", stage->forward_pushes, stage->forward_depth_sum, stage->ring_cells);
        ring_text(rings + bytes, sizeof rings - (size_t)bytes, bytes ? ", bwd" : "bwd", stage->backward_pushes,
                  stage->backward_depth_sum, stage->ring_cells);
        row_print(stage->name, columns, cores, &shares, wait, rings);
    }
    if (!f->is_shared) return;
    struct stage_shares pool = pool_shares(f);
    snprintf(cores, sizeof cores, "%u", f->stage[0].core_count);
    snprintf(wait, sizeof wait, "%d%%", percent(pool.wait));
    row_print(pool_name, columns, cores, &pool, wait, "");
}

static void staleness_print(const struct pipeline_figures *f)
{
    char others[128] = "", bound[32] = "no bound";
    if (f->staleness.global_bound != UINT64_MAX)
        snprintf(bound, sizeof bound, "bound %" PRIu64, f->staleness.global_bound);
    /* A single pipeline has no others to lag behind. */
    if (f->staleness.global_max > 0)
        snprintf(others, sizeof others, "; of other pipelines: mean %.1f, most %" PRIu64 " (%s)",
                 f->staleness.global_mean, f->staleness.global_max, bound);
    log_info("stale     own updates missing: mean %.1f, most %" PRIu64 " (bound %" PRIu64 ")%s",
             f->staleness.local_mean, f->staleness.local_max, f->staleness.local_bound, others);
}

/* Tells how many bytes cards have moved. */
static void moved_print(const struct pipeline_figures *f)
{
    uint64_t cut_bytes = 0, other_bytes = 0;
    bool has_card = false;
    for (uint32_t s = 0; s < f->stage_count; s++) {
        cut_bytes += f->stage[s].cut_bytes;
        other_bytes += f->stage[s].other_bytes;
        has_card |= f->stage[s].kind->has_memory;
    }
    for (uint32_t s = 0; s < f->stage_count; s++) {
        const struct device_row_figures *rows = &f->stage[s].rows;
        const uint64_t all = rows->resident + rows->cold;
        if (all > 0)
            log_info("rows      of steps %d%% were on the card; %" PRIu64 " moved in, %" PRIu64 " home",
                     percent(share_of((double)rows->resident, (double)all)), rows->moved_in, rows->moved_home);
    }
    if (has_card)
        log_info("moved     %s across cuts, %s of columns and losses", words_volume(WORDS, cut_bytes),
                 words_volume(WORDS, other_bytes));
}

void summary_print(const struct pipeline_figures *f)
{
    char sentence[SENTENCE_BYTES];
    if (is_empty(f)) return;
    struct reading_shares r = reading_shares(f);
    summary_bottleneck(f, sentence, sizeof sentence);
    if (f->stage_count > 1) {
        table_print(f);
        log_info("reading   busy %d%% (reading and parsing %d%%, rows %d%%), waiting for free slots %d%%",
                 percent(r.busy), percent(r.parsing), percent(r.rows), percent(r.wait));
        log_info("slowest   %s", sentence);
    } else {
        struct stage_shares shares = stage_shares(f, &f->stage[0]);
        log_info("time      forward %d%%, backward %d%%, update %d%%, reading %d%%: %s",
                 percent(shares.work[WORK_FORWARD]), percent(shares.work[WORK_BACKWARD]),
                 percent(shares.work[WORK_UPDATE]), percent(r.busy), sentence);
    }
    moved_print(f);
    if (f->staleness.has_staleness) staleness_print(f);
}

/* --- the event -------------------------------------------------------------------------------- */

static void ring_event(const char *depth_name, uint64_t pushes, uint64_t depth_sum)
{
    if (pushes) log_event_f64(depth_name, (double)depth_sum / (double)pushes);
}

static void bound_event(const char *name, uint64_t bound)
{
    if (bound == UINT64_MAX)
        log_event_f64(name, (double)NAN); /* null */
    else
        log_event_u64(name, bound);
}

void summary_event(const struct pipeline_figures *f)
{
    char sentence[SENTENCE_BYTES];
    struct reading_shares r = reading_shares(f);
    log_event_open_array("stages");
    for (uint32_t s = 0; s < f->stage_count; s++) {
        const struct stage_figures *stage = &f->stage[s];
        struct stage_shares shares = stage_shares(f, stage);
        log_event_open(NULL);
        log_event_text("name", stage->name);
        log_event_u64("cores", stage->kind->has_memory ? 0 : stage->core_count);
        log_event_u64("workers", stage->worker_count);
        log_event_f64("busy", shares.busy);
        log_event_f64("forward", shares.work[WORK_FORWARD]);
        log_event_f64("backward", shares.work[WORK_BACKWARD]);
        log_event_f64("update", shares.work[WORK_UPDATE]);
        if (!f->is_shared) log_event_f64("wait", shares.wait);
        if (stage->cut_bytes) log_event_u64("cut_bytes", stage->cut_bytes);
        if (stage->kind->has_memory) log_event_u64("other_bytes", stage->other_bytes);
        if (stage->rows.resident + stage->rows.cold > 0) {
            log_event_u64("rows_resident", stage->rows.resident);
            log_event_u64("rows_cold", stage->rows.cold);
            log_event_u64("rows_moved_in", stage->rows.moved_in);
            log_event_u64("rows_moved_home", stage->rows.moved_home);
        }
        log_event_u64("ring_cells", stage->ring_cells);
        ring_event("forward_ring_depth", stage->forward_pushes, stage->forward_depth_sum);
        ring_event("backward_ring_depth", stage->backward_pushes, stage->backward_depth_sum);
        log_event_close();
    }
    log_event_close_array();
    if (f->is_shared) {
        struct stage_shares pool = pool_shares(f);
        log_event_open("shared");
        log_event_u64("workers", f->worker_count);
        log_event_f64("busy", pool.busy);
        log_event_f64("wait", pool.wait);
        log_event_close();
    }
    log_event_open("reading");
    log_event_f64("busy", r.busy);
    log_event_f64("parsing", r.parsing);
    log_event_f64("rows", r.rows);
    log_event_f64("wait", r.wait);
    log_event_f64("starved", r.starved);
    log_event_close();
    if (f->staleness.has_staleness) {
        log_event_open("staleness");
        log_event_f64("local_mean", f->staleness.local_mean);
        log_event_u64("local_max", f->staleness.local_max);
        bound_event("local_bound", f->staleness.local_bound);
        log_event_f64("global_mean", f->staleness.global_mean);
        log_event_u64("global_max", f->staleness.global_max);
        bound_event("global_bound", f->staleness.global_bound);
        log_event_close();
    }
    log_event_text("bottleneck", summary_bottleneck(f, sentence, sizeof sentence));
    log_event_u64("allocations", f->allocations);
    log_event_u64("locks", f->locks);
}
