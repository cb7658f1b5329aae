/* Progress, as text and as events. */
#include "engine/run/report.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "engine/base/words.h"
#include "engine/run/summary.h"
#include "io/event_file.h"
#include "io/store/store_figures.h"
#include "io/store/store_life.h"

/* How often a terminal's line is redrawn, a plain line printed, an event written. */
#define REDRAW_NS ((uint64_t)200000000)
#define LINE_NS   ((uint64_t)5000000000)
#define EVENT_NS  ((uint64_t)1000000000)
/* Fewer examples than this are read again in no time. */
#define AGAIN_MIN 100000u
#define BAR_WIDTH 8 /* the whole line then fits a terminal of 80 columns */
/* A pass of fewer steps gets a warning: one pass over 7,199 real clicks gives an AUC of .585 in 4 steps of
 * 2,048, of .700 in 113 steps of 64. A batch below BATCH_LEAST says little. */
#define STEPS_FEW   100u
#define BATCH_LEAST 16u

/* Examples a second; only bsp drains the pipeline at the end of a step. */
static double plan_expected(const struct session *s)
{
    bool drains = sync_by_lane(s->setup.settings.train_sync);
    return replanner_expected(s->replanner, drains ? batch_micro_count(graph_batch(&s->setup.graph)) : UINT32_MAX,
                              s->crew.threads);
}

/* Tells what a plan that was made for a cluster promises. */
static void plan_tell(const struct session *s)
{
    const struct solution *solution = replanner_solution(s->replanner);
    char rate[27], proof[64];
    double expected = plan_expected(s);
    if (solution->is_proven)
        snprintf(proof, sizeof proof, "proven optimal");
    else
        snprintf(proof, sizeof proof, "by %s", solution->method);
    log_info("planned  %s: %s samples/s expected here, %.4g USD", proof, words_whole(rate, (uint64_t)expected),
             solution->result.cost);
    log_event_begin("planned");
    log_event_text("method", solution->method);
    log_event_u64("proven", solution->is_proven);
    log_event_f64("samples_per_s", expected);
    log_event_f64("throughput", solution->result.throughput);
    log_event_f64("cost", solution->result.cost);
    log_event_end();
}

/* Tells how many examples of a resumed pass have to be read again, if this takes time. */
static void again_tell(const struct session *s, const struct progress *p)
{
    const struct model_data *data = &s->setup.model.data;
    const bool is_cached = s->setup.settings.cache_ram || s->setup.settings.cache_ssd;
    uint64_t from = data->mark_count ? data->mark[data->mark_count - 1].example : 0, again = p->epoch_examples - from;
    char text[27];
    if (again < AGAIN_MIN || again > p->epoch_examples || is_cached) return;
    log_info("resume   reads %s examples again that this pass has done: "
             "their place in the text is unknown (packed files and standard input have no marks)",
             words_whole(text, again));
}

void report_start(struct report *r, const struct session *s)
{
    const struct graph *g = &s->setup.graph;
    *r = (struct report){.session = s,
                         .begin_ns = clock_ns(),
                         .examples_at_begin = s->setup.model.progress.examples,
                         .passes_at_begin = s->setup.model.progress.epoch - s->setup.model.progress.first_epoch,
                         .step_at_begin = s->setup.model.progress.step,
                         .examples_at_last = s->setup.model.progress.examples};
    r->last_ns = r->begin_ns;
    uint64_t param_count = 0;
    for (uint32_t i = 0; i < g->layer_count; i++) param_count += g->layers[i].param_count;
    char params[27], plan[256];
    log_info("train    %s: %s parameters, batch %u in micro-batches of %u, %u thread%s",
             graph_string(g, g->header->name), words_whole(params, param_count), g->header->batch, g->header->micro,
             s->crew.threads, words_s(s->crew.threads));
    if (s->crew.plan.stage_count > 1 || s->replanner)
        log_info("plan     %s", plan_text(&s->crew.plan, g, plan, sizeof plan));
    if (s->replanner) plan_tell(s);
    const struct progress *p = &s->setup.model.progress;
    bool is_new_pass = p->step == p->first_step && p->epoch_examples == 0;
    if (p->step)
        log_info("%s after step %" PRIu64 "%s", is_new_pass ? "continue" : "resume  ", p->step,
                 is_new_pass ? ": a new pass begins" : "");
    again_tell(s, p);
    log_event_begin("start");
    log_event_text("graph", s->setup.graph_path);
    log_event_text("version", HETERPS_VERSION);
    log_event_u64("params", param_count);
    log_event_u64("step", s->setup.model.progress.step);
    log_event_u64("rows_budget_bytes", s->setup.settings.store_ram);
    setup_memory_fields();
    log_event_text("devices", pipeline_device(s->crew.pipeline)->vt->name);
    log_event_text("plan", plan_text(&s->crew.plan, g, plan, sizeof plan));
    log_event_u64("threads", s->crew.threads);
    log_event_end();
}

bool report_is_due(const struct report *r)
{
    uint64_t period = log_format() == LOG_JSON ? EVENT_NS : log_is_terminal() ? REDRAW_NS : LINE_NS;
    return clock_ns() - r->last_ns >= period;
}

/* Shown at most until the last step is done: reading runs ahead of it, and percentages are rounded up. */
#define SHARE_BEFORE_END 0.99

/* Whether as many steps are done as the run may do. */
static bool steps_are_done(const struct report *r, const struct progress *p)
{
    const uint64_t steps_max = r->session->setup.settings.train_steps_max;
    return steps_max && p->step - p->first_step >= steps_max;
}

/* The share of the work that is done, 0 … 1, or a negative number if the end is not known. */
static double share_done(const struct report *r, const struct progress *p, struct feed_counts counts)
{
    const struct settings *settings = &r->session->setup.settings;
    double share = -1;
    if (counts.size_bytes && settings->train_epochs)
        share = ((double)r->passes_at_begin + (double)counts.byte_count / (double)counts.size_bytes) /
                (double)settings->train_epochs;
    if (settings->train_steps_max) {
        double by_steps = (double)(p->step - p->first_step) / (double)settings->train_steps_max;
        if (share < 0 || by_steps > share) share = by_steps;
    }
    return share > 1 ? 1 : share;
}

/* How long the rest takes at the speed of this run, which may have gone on from a save; negative: unknown. */
static double seconds_left(const struct report *r, const struct progress *p, double share, double elapsed)
{
    if (!(share > 0) || p->step <= r->step_at_begin) return -1;
    double share_here = share * (double)(p->step - r->step_at_begin) / (double)(p->step - p->first_step);
    return elapsed * (1 - share) / share_here;
}

static void duration_text(char *buffer, size_t bytes, double seconds)
{
    uint64_t whole = (uint64_t)(seconds + 0.5);
    if (whole >= 3600)
        snprintf(buffer, bytes, "%" PRIu64 ":%02" PRIu64 ":%02" PRIu64, whole / 3600, whole / 60 % 60, whole % 60);
    else
        snprintf(buffer, bytes, "%" PRIu64 ":%02" PRIu64, whole / 60, whole % 60);
}

static bool is_loss(const struct head *head) { return op_table[head->node->op].traits & OP_IS_LOSS; }

/* "last 65,536: AUC 0.76123, log loss 0.47001, ", with only the main figure of further
 * losses; returns `buffer`. */
static const char *window_text(const struct report_progress *now, char *buffer, size_t bytes)
{
    char count[27];
    buffer[0] = 0;
    if (now->window == 0) return buffer;
    size_t end = (size_t)snprintf(buffer, bytes, "last %s: ", words_whole(count, now->window));
    for (uint32_t i = 0; i < now->heads->count && end < bytes; i++) {
        const struct head *head = &now->heads->items[i];
        const bool is_main = head == heads_main(now->heads);
        const uint32_t main_figure = head_main_figure(head);
        if (!is_loss(head)) continue;
        if (!is_main) end += (size_t)snprintf(buffer + end, bytes - end, "%s ", head->name);
        for (uint32_t k = is_main ? 0 : main_figure; k <= main_figure && end < bytes; k++)
            if (k == main_figure || !isnan(head->values[k]))
                end += (size_t)snprintf(buffer + end, bytes - end, "%s %.*f, ", head->figures[k].text,
                                        head->figures[k].digits, head->values[k]);
    }
    return buffer;
}

/* For a line with little room: "AUC 0.761 ", or nothing. */
static const char *window_short(const struct report_progress *now, char *buffer, size_t bytes)
{
    buffer[0] = 0;
    if (now->window == 0) return buffer;
    const struct head *head = heads_main(now->heads);
    if (head_main_figure(head) && !isnan(head->values[0]))
        snprintf(buffer, bytes, "%s %.3f  ", head->figures[0].text, head->values[0]);
    return buffer;
}

static void figures_event(const struct head *head)
{
    for (uint32_t k = 0; k < head->figure_count; k++)
        if (!isnan(head->values[k])) log_event_f64(head->figures[k].key, head->values[k]);
}

static void window_event(const struct report_progress *now)
{
    log_event_u64("window", now->window);
    if (now->window == 0) return;
    figures_event(heads_main(now->heads));
    log_event_open_array("heads");
    for (uint32_t i = 0; i < now->heads->count; i++) {
        if (!is_loss(&now->heads->items[i])) continue;
        log_event_open(NULL);
        log_event_text("name", now->heads->items[i].name);
        figures_event(&now->heads->items[i]);
        log_event_close();
    }
    log_event_close_array();
}

#define PROGRESS_SCALARS 4u /* of training itself, beside the figures of heads */

status report_scalars_open(struct report *r, const char *folder, uint64_t step)
{
    const struct graph *g = &r->session->setup.graph;
    uint32_t count = PROGRESS_SCALARS;
    for (uint32_t i = 0; i < g->forward_count; i++) count += op_is_head(g->nodes[i].op) ? HEAD_FIGURES_MAX : 0;
    return event_file_open(&r->scalars, folder, step, count);
}

/* Ends an event of scalars; warns once if the file cannot be written. */
static void scalars_end(struct report *r)
{
    if (event_file_end(r->scalars) != ST_OK)
        log_warning("no further figures are kept for TensorBoard: %s", status_message());
}

static void scalars_heads(struct report *r, const char *prefix, const char *set, const struct heads *heads)
{
    char tag[EVENT_FILE_TAG + 1];
    for (uint32_t h = 0; h < heads->count; h++)
        for (uint32_t k = 0; k < heads->items[h].figure_count; k++) {
            snprintf(tag, sizeof tag, "%s%s%s/%s.%s", prefix, *set ? "/" : "", set, heads->items[h].name,
                     heads->items[h].figures[k].key);
            event_file_scalar(r->scalars, tag, heads->items[h].values[k]);
        }
}

void report_eval(struct report *r, const char *set, const struct heads *heads, uint64_t step)
{
    if (r->scalars == NULL) return;
    event_file_begin(r->scalars, step);
    scalars_heads(r, "eval", set, heads);
    scalars_end(r);
}

static void scalars_progress(struct report *r, const struct report_progress *is, double rate)
{
    if (r->scalars == NULL) return;
    event_file_begin(r->scalars, is->progress->step);
    event_file_scalar(r->scalars, "train/loss", is->loss);
    event_file_scalar(r->scalars, "train/samples_per_s", rate);
    event_file_scalar(r->scalars, "train/pass", (double)is->progress->epoch);
    event_file_scalar(r->scalars, "train/resident_MiB", (double)memory_resident_bytes() / (double)(1 << 20));
    if (is->window) scalars_heads(r, "progressive", "", is->heads);
    scalars_end(r);
}

double report_progress(struct report *r, const struct report_progress *is)
{
    const struct progress *p = is->progress;
    const double loss = is->loss;
    uint64_t now = is->ns;
    double seconds = (double)(now - r->last_ns - (r->pause_ns - r->pause_at_last)) * 1e-9;
    double rate = seconds > 0 ? (double)(p->examples - r->examples_at_last) / seconds : 0;
    double share = share_done(r, p, is->counts), elapsed = (double)(now - r->begin_ns) * 1e-9;
    double eta = seconds_left(r, p, share, elapsed);
    r->last_ns = now;
    r->examples_at_last = p->examples;
    r->pause_at_last = r->pause_ns;

    char bar[BAR_WIDTH + 1], eta_text[32] = "?", percent[8] = "";
    if (share >= 0) {
        const bool is_over = is->is_over || steps_are_done(r, p);
        double shown = share > SHARE_BEFORE_END && !is_over ? SHARE_BEFORE_END : share;
        int filled = (int)(shown * BAR_WIDTH);
        memset(bar, '-', BAR_WIDTH);
        memset(bar, '#', (size_t)filled);
        bar[BAR_WIDTH] = 0;
        if (eta >= 0) duration_text(eta_text, sizeof eta_text, eta);
        snprintf(percent, sizeof percent, "%3.0f%%", shown * 100);
    }
    char rate_text[27], window[512];
    words_whole(rate_text, (uint64_t)rate);
    if (log_is_terminal())
        log_redraw("[%s] %s step %" PRIu64 "  %s samples/s  loss %.4f  %sETA %s", share >= 0 ? bar : "…", percent,
                   p->step, rate_text, loss, window_short(is, window, sizeof window), eta_text);
    else
        log_info("progress %s step %" PRIu64 ": %s samples/s, loss %.5f, %sETA %s", percent, p->step, rate_text, loss,
                 window_text(is, window, sizeof window), eta_text);
    log_event_begin("progress");
    log_event_u64("step", p->step);
    log_event_u64("epoch", p->epoch);
    log_event_u64("samples", p->examples);
    log_event_f64("loss", loss);
    log_event_f64("samples_per_s", rate);
    log_event_f64("eta_s", eta < 0 ? (double)NAN : eta);
    window_event(is);
    log_event_end();
    scalars_progress(r, is, rate);
    return rate;
}

void report_pause(struct report *r, uint64_t ns) { r->pause_ns += ns; }

void report_saved(struct report *r, const struct report_save *save)
{
    char rows[27], written[27], bytes[16], linked[48] = "", linked_bytes[16], waited[64] = "";
    words_whole(rows, save->row_count);
    if (save->linked_bytes)
        snprintf(linked, sizeof linked, ", %s linked", words_size(linked_bytes, save->linked_bytes));
    if (save->wait_ms >= 1)
        snprintf(waited, sizeof waited, "; threads waited %.0f ms for checkpoint.buffer", save->wait_ms);
    if (save->is_beside)
        log_info("saved    %s at step %" PRIu64 " (%s of %s rows, %s%s, %.0f ms beside training; stall %.1f ms%s)",
                 save->path, save->progress->step, words_whole(written, save->written_count), rows,
                 words_size(bytes, save->bytes), linked, save->ms, save->pause_ms, waited);
    else
        log_info("saved    %s at step %" PRIu64 " (%s rows, %.0f ms)", save->path, save->progress->step, rows,
                 save->pause_ms);
    log_event_begin("checkpoint");
    log_event_text("path", save->path);
    log_event_u64("step", save->progress->step);
    log_event_u64("rows", save->row_count);
    log_event_u64("rows_written", save->written_count);
    log_event_u64("bytes", save->bytes);
    log_event_u64("bytes_linked", save->linked_bytes);
    log_event_f64("ms", save->ms);
    log_event_f64("pause_ms", save->pause_ms);
    log_event_f64("wait_ms", save->wait_ms);
    log_event_end();
    r->save_count++;
    if (save->pause_ms > r->save_pause_ms_max) r->save_pause_ms_max = save->pause_ms;
}

void report_unsaved(const char *what) { log_info("unsaved  %s", what); }

void report_save_late(struct report *r, bool is_merged)
{
    r->save_late_count++;
    r->save_merged_count += is_merged;
}

/* How long saves have kept training, and how many came later than due. */
static void saves_report(const struct report *r)
{
    char count[27], late_count[27], merged_count[27], late[128] = "";
    if (r->save_late_count)
        snprintf(late, sizeof late,
                 "; %s fell due while another was being written and came later, %s of these with the next",
                 words_whole(late_count, r->save_late_count), words_whole(merged_count, r->save_merged_count));
    log_info("saves    %s so far: training stood still for %.1f ms at most%s", words_whole(count, r->save_count),
             r->save_pause_ms_max, late);
}

void report_replan(struct report *r, uint64_t step, const char *why, bool is_changed)
{
    const struct session *s = r->session;
    char plan[512], rate[27];
    double expected = plan_expected(s);
    plan_text(&s->crew.plan, &s->setup.graph, plan, sizeof plan);
    if (is_changed)
        log_info("replan   step %" PRIu64 ": %s; now %s: %s samples/s expected", step, why, plan,
                 words_whole(rate, (uint64_t)expected));
    else
        log_detail("replan   step %" PRIu64 ": %s; the plan is still the best", step, why);
    log_event_begin("replan");
    log_event_u64("step", step);
    log_event_text("why", why);
    log_event_text("plan", plan);
    log_event_f64("samples_per_s", expected);
    log_event_u64("changed", is_changed);
    log_event_end();
}

/* Tells what has become of tables whose rows come and go. */
static void life_report(const struct session *s, const struct table_account *accounts)
{
    for (uint32_t t = 0; t < s->setup.graph.table_count; t++) {
        if (!store_lives(s->setup.model.store, t)) continue;
        const struct store_life_counts life = accounts[t].life;
        const char *name = graph_string(&s->setup.graph, s->setup.graph.tables[t].name);
        char made[27], refused[27], score[27], age[27], evicted[27];
        log_info("life     %s: %s rows made, %s occurrences of keys not admitted; "
                 "%s rows died by score, %s by age; %s evicted",
                 name, words_whole(made, life.admitted), words_whole(refused, life.refused),
                 words_whole(score, life.died[ROW_DEAD_SCORE]), words_whole(age, life.died[ROW_DEAD_AGE]),
                 words_whole(evicted, life.evicted));
        if (s->setup.graph.tables[t].life.vector_score > 0)
            log_info("life     %s: %s of %s rows have a vector", name, words_whole(made, accounts[t].vector_count),
                     words_whole(score, accounts[t].row_count));
        if (life.evictions)
            log_info("life     %s: more than %" PRIu64 " rows %" PRIu64
                     " times: finding those of the least scores took %.1f s",
                     name, s->setup.graph.tables[t].life.row_max, life.evictions, (double)life.eviction_ns * 1e-9);
    }
}

/* The same as an object of the event `done`, if there is anything to tell. */
static void life_event(const struct session *s, const struct table_account *accounts)
{
    bool is_open = false;
    for (uint32_t t = 0; t < s->setup.graph.table_count; t++) {
        if (!store_lives(s->setup.model.store, t)) continue;
        const struct store_life_counts life = accounts[t].life;
        if (!is_open) log_event_open("life");
        is_open = true;
        log_event_open(graph_string(&s->setup.graph, s->setup.graph.tables[t].name));
        log_event_u64("rows_made", life.admitted);
        log_event_u64("occurrences_not_admitted", life.refused);
        log_event_u64("rows_died_by_score", life.died[ROW_DEAD_SCORE]);
        log_event_u64("rows_died_by_age", life.died[ROW_DEAD_AGE]);
        log_event_u64("rows_evicted", life.evicted);
        log_event_u64("evictions", life.evictions);
        log_event_f64("eviction_s", (double)life.eviction_ns * 1e-9);
        log_event_close();
    }
    if (is_open) log_event_close();
}

/* Whether this node has rows on a disk, or another node has used its disk. */
static bool has_disk(const struct session *s, const struct table_account *accounts)
{
    bool has = store_has_home(s->setup.model.store);
    for (uint32_t t = 0; t < s->setup.graph.table_count; t++)
        has |= accounts[t].store.disk_rows > 0 || accounts[t].store.disk.put > 0;
    return has;
}

/* Tells where the rows of each table are, and what the disk has cost. */
static void disk_report(const struct session *s, const struct table_account *accounts)
{
    for (uint32_t t = 0; t < s->setup.graph.table_count; t++) {
        const struct store_counts c = accounts[t].store;
        const uint64_t left_bytes = c.disk.put * s->setup.graph.tables[t].span_floats * sizeof(float);
        char disk[27], reads[27], read_bytes[16], write_bytes[16];
        log_info("disk     %s: %s rows on disk; %.2f%% of rows were found in RAM; %s reads, %s; "
                 "written %s, %.2f times what left RAM",
                 graph_string(&s->setup.graph, s->setup.graph.tables[t].name), words_whole(disk, c.disk_rows),
                 c.touched ? 100.0 * (1 - (double)c.disk.fetched / (double)c.touched) : 100.0,
                 words_whole(reads, c.disk.read_count), words_size(read_bytes, c.disk.read_bytes),
                 words_size(write_bytes, c.disk.write_bytes),
                 left_bytes ? (double)c.disk.write_bytes / (double)left_bytes : 0.0);
    }
}

/* The same as an object of the event `done`. */
static void disk_event(const struct session *s, const struct table_account *accounts)
{
    log_event_open("disk");
    for (uint32_t t = 0; t < s->setup.graph.table_count; t++) {
        const struct store_counts c = accounts[t].store;
        log_event_open(graph_string(&s->setup.graph, s->setup.graph.tables[t].name));
        log_event_u64("ram_rows", c.ram_rows);
        log_event_u64("disk_rows", c.disk_rows);
        log_event_u64("rows_touched", c.touched);
        log_event_u64("rows_fetched", c.disk.fetched);
        log_event_u64("reads", c.disk.read_count);
        log_event_u64("read_bytes", c.disk.read_bytes);
        log_event_u64("rows_put", c.disk.put);
        log_event_u64("rows_cleaned", c.disk.cleaned);
        log_event_u64("write_bytes", c.disk.write_bytes);
        log_event_close();
    }
    log_event_close();
}

uint32_t report_batch_smaller(uint64_t pass_examples, uint32_t batch)
{
    if (pass_examples == 0 || (pass_examples + batch - 1) / batch >= STEPS_FEW) return 0;
    uint32_t smaller = BATCH_LEAST;
    while ((uint64_t)smaller * 2 * STEPS_FEW <= pass_examples) smaller *= 2;
    return smaller < batch ? smaller : 0;
}

/* Warns of a pass with few steps: a model learns by steps, and large batches leave few where data are few. */
static void steps_report(const struct session *s, uint64_t pass_examples)
{
    uint32_t batch = s->setup.graph.header->batch, smaller = report_batch_smaller(pass_examples, batch);
    if (smaller == 0) return;
    char steps[48];
    snprintf(steps, sizeof steps, "%s", words_plural(WORDS, (pass_examples + batch - 1) / batch, "step"));
    log_info("steps    a pass has %s of %u examples: a smaller train.batch, such as %u, would learn more in a pass",
             steps, batch, smaller);
}

void report_done(struct report *r, const struct progress *p, const struct table_account *accounts,
                 struct feed_counts counts)
{
    const struct session *s = r->session;
    double seconds = (double)(clock_ns() - r->begin_ns - r->pause_ns) * 1e-9;
    uint64_t examples = p->examples - r->examples_at_begin;
    double rate = seconds > 0 ? (double)examples / seconds : 0;
    char count[27], rate_text[27];
    log_info("done     %s samples in %.1f s: %s samples/s", words_whole(count, examples), seconds,
             words_whole(rate_text, (uint64_t)rate));
    for (uint32_t t = 0; t < s->setup.graph.table_count; t++)
        log_info("rows     %s: %s", graph_string(&s->setup.graph, s->setup.graph.tables[t].name),
                 words_whole(count, accounts[t].row_count));
    life_report(s, accounts);
    if (has_disk(s, accounts)) disk_report(s, accounts);
    if (r->save_count) saves_report(r);
    struct pipeline_figures figures;
    pipeline_figures(s->crew.pipeline, &figures);
    figures.rows_come_and_go = store_takes_turns(s->setup.model.store);
    summary_print(&figures);
    steps_report(s, p->pass_examples);
    setup_memory_report();
    if (counts.bad_count)
        log_warning("skipped %s of the training data", words_plural(WORDS, counts.bad_count, "malformed line"));
    if (counts.cut_count)
        log_warning("%" PRIu64 " lists of keys were longer than data.ids_max and were cut", counts.cut_count);
    if (counts.unknown_count)
        log_warning("%" PRIu64 " examples whose label or target is no word of its vocabulary were left out",
                    counts.unknown_count);
    log_event_begin("done");
    log_event_f64("seconds", seconds);
    log_event_u64("step", p->step);
    log_event_u64("samples", examples);
    log_event_f64("samples_per_s", rate);
    log_event_u64("bad_lines", counts.bad_count);
    log_event_u64("saves", r->save_count);
    log_event_u64("saves_late", r->save_late_count);
    log_event_f64("save_pause_ms_max", r->save_pause_ms_max);
    log_event_open("memory");
    struct memory_part part;
    for (size_t i = 0; memory_part_get(i, &part); i++) log_event_u64(part.name, memory_part_resident_bytes(part.name));
    log_event_close();
    log_event_u64("resident_bytes_max", memory_resident_bytes_max());
    log_event_u64("memory_bytes", memory_planned_bytes());
    log_event_open("store");
    for (uint32_t t = 0; t < s->setup.graph.table_count; t++)
        log_event_u64(graph_string(&s->setup.graph, s->setup.graph.tables[t].name), accounts[t].row_count);
    log_event_u64("used_bytes", s->setup.graph.table_count ? accounts->used_bytes : 0);
    log_event_close();
    life_event(s, accounts);
    if (has_disk(s, accounts)) disk_event(s, accounts);
    summary_event(&figures);
    log_event_end();
}
