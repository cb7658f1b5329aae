/* heterps-run doctor: what a training needs of this machine, and every reason for which the training would be
 * refused before its first step.
 *
 * A child opens the training as `train` does (run_train), up to its first step. Doctor tells the child's
 * refusal, and looks for a change of the options that ends the refusal: it tries one relaxation after
 * another, each in a child of its own. It keeps the one that helps, and goes on to the next refusal, or to an
 * opened training, whose figures it tells (engine/run/doctor_needs.h). So doctor tells what training itself
 * says, and nothing that a child claims, plans or notes outlives the child. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "engine/base/log.h"
#include "engine/cmd/findings.h"
#include "engine/cmd/run.h"
#include "engine/model/model_names.h"
#include "engine/plan/planner.h"
#include "engine/profile/profile.h"
#include "engine/run/doctor_needs.h"

#define LINES_MAX    512u
#define REFUSALS_MAX 64u /* more than relaxations and wrong settings together */
#define RAM_STEP     ((uint64_t)1 << 20)

/* --- a try -------------------------------------------------------------------------------------- */

struct lines {
    struct doctor_line line[LINES_MAX];
    uint32_t count;
};

/* What a child says: lines, then one record with is_end. The line of a refusal or a warning has no
 * `what`, and its sentence in `todo`. */
struct record {
    bool is_end, is_opened;
    struct failure end;
    struct doctor_line line;
    struct doctor_memory memory;
};

struct outcome {
    struct failure end;
    bool is_opened; /* the training was opened: `memory` and `lines` are its */
    struct doctor_memory memory;
    struct lines lines;
};

/* The child's end of the pipe. */
struct teller {
    int fd;
    struct record end;
};

static void record_send(int fd, const struct record *record)
{
    const uint8_t *bytes = (const uint8_t *)record;
    for (size_t done = 0; done < sizeof *record;) {
        const ssize_t wrote = write(fd, bytes + done, sizeof *record - done);
        if (wrote < 0 && errno != EINTR) return; /* the parent has gone */
        if (wrote > 0) done += (size_t)wrote;
    }
}

static void line_send(void *context, const struct doctor_line *line)
{
    const struct teller *teller = context;
    record_send(teller->fd, &(struct record){.line = *line});
}

static void warning_send(void *context, const char *warning)
{
    doctor_tell(line_send, context, DOCTOR_model, DOCTOR_WARN, "", "", "", warning);
}

static status opened(void *context, struct session *session, const struct train_options *options,
                     const struct eval_sets *eval)
{
    struct teller *teller = context;
    doctor_look(session, options, eval, &teller->end.memory, line_send, teller);
    teller->end.is_opened = true;
    return ST_OK;
}

static _Noreturn void child_run(const char *graph, const struct run_options *o, int fd)
{
    static struct teller teller;
    struct run_options options = *o;
    teller.fd = fd;
    /* The child must not read what the training would read from standard input. */
    const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (nothing >= 0) (void)dup2(nothing, STDIN_FILENO);
    log_open(LOG_TEXT, -1);
    log_warnings_take(warning_send, &teller);
    options.look = opened;
    options.look_context = &teller;
    teller.end.is_end = true;
    failure_keep(&teller.end.end, run_train(graph, &options));
    record_send(fd, &teller.end);
    _exit(0);
}

static bool record_take(int fd, struct record *record)
{
    uint8_t *bytes = (uint8_t *)record;
    size_t done = 0;
    while (done < sizeof *record) {
        const ssize_t got = read(fd, bytes + done, sizeof *record - done);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return false;
        done += (size_t)got;
    }
    return true;
}

static void outcome_collect(struct outcome *out, int fd)
{
    static struct record record;
    memset(out, 0, sizeof *out);
    failure_keep(&out->end,
                 status_fail(ST_SYSTEM, __FILE__, __LINE__, "the check of this training ended before it was complete"));
    while (record_take(fd, &record)) {
        if (!record.is_end) {
            if (out->lines.count < LINES_MAX) out->lines.line[out->lines.count++] = record.line;
            continue;
        }
        out->end = record.end;
        out->is_opened = record.is_opened;
        out->memory = record.memory;
    }
}

/* Opens the training in a child, and collects what the child says. SYSTEM: no child can be started. */
static status outcome_of(struct outcome *out, const char *graph, const struct run_options *o)
{
    int ends[2], wait_status;
    fflush(NULL);
    if (pipe2(ends, O_CLOEXEC) != 0) FAIL(SYSTEM, "cannot make a pipe: %s", strerror(errno));
    const pid_t parent = getpid(), child = fork();
    if (child < 0) {
        const int fork_errno = errno;
        close(ends[0]);
        close(ends[1]);
        FAIL(SYSTEM, "cannot start a process: %s", strerror(fork_errno));
    }
    if (child == 0) {
        close(ends[0]);
        /* The child ends with its parent, also if the parent has ended before prctl. */
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent) _exit(1);
        child_run(graph, o, ends[1]);
    }
    close(ends[1]);
    outcome_collect(out, ends[0]);
    close(ends[0]);
    while (waitpid(child, &wait_status, 0) < 0 && errno == EINTR) continue;
    if (WIFSIGNALED(wait_status))
        snprintf(out->end.message, sizeof out->end.message, "opening this training was ended by signal %d (%s)",
                 WTERMSIG(wait_status), strsignal(WTERMSIG(wait_status)));
    return ST_OK;
}

/* --- relaxations -------------------------------------------------------------------------------- */

static void plan_shares(struct run_options *o) { o->share = true; }
static void plan_none(struct run_options *o) { o->plan = NULL; }
static void cluster_none(struct run_options *o) { o->cluster.path = NULL; }
static void method_none(struct run_options *o) { o->cluster.method = NULL; }
static void threads_all(struct run_options *o) { o->threads = 0; }
static void isa_best_here(struct run_options *o) { o->isa = NULL; }
static void resume_none(struct run_options *o) { o->resume = o->continued = NULL; }
static void init_none(struct run_options *o) { o->init = NULL; }
static void out_none(struct run_options *o) { o->out = NULL; }
static void eval_none(struct run_options *o) { o->eval.count = 0; }
static void data_none(struct run_options *o) { o->data = "/dev/null"; }

/* Changes of the options that may end a refusal, and the section of the refusal. Doctor takes the
 * first that helps, so a change that takes less away comes first. A change includes the settings
 * that would be refused after it. */
static const struct relaxation {
    enum doctor_section section;
    void (*flag)(struct run_options *); /* or NULL */
    const char *set[6];                 /* …, NULL */
} relaxations[] = {
    {DOCTOR_plan, cluster_none, {NULL}},
    {DOCTOR_plan, method_none, {NULL}},
    {DOCTOR_model, isa_best_here, {NULL}},
    {DOCTOR_plan, NULL, {"train.pipelines=1"}},
    {DOCTOR_plan, plan_shares, {NULL}},
    {DOCTOR_plan, plan_none, {NULL}},
    {DOCTOR_plan, threads_all, {NULL}},
    {DOCTOR_plan, NULL, {"train.in_flight=0"}},
    {DOCTOR_disk, NULL, {"store.ssd=0"}},
    {DOCTOR_rows, NULL, {"train.sync=bsp", "train.pipelines=1"}},
    {DOCTOR_save, init_none, {NULL}},
    {DOCTOR_save, out_none, {"checkpoint.every=0", "checkpoint.seconds=0"}},
    {DOCTOR_save, resume_none, {"checkpoint.every=0", "checkpoint.seconds=0"}},
    {DOCTOR_data, NULL, {"train.stop=none"}},
    {DOCTOR_data, NULL, {"train.epochs=1"}},
    {DOCTOR_data, NULL, {"cache.ram=0", "cache.ssd=0", "cache.shuffle=none"}},
    {DOCTOR_data, NULL, {"eval.every=0"}},
    {DOCTOR_data, NULL, {"eval.every=0", "train.stop=none"}},
    {DOCTOR_data, NULL, {"data.eval_fraction=0", "eval.every=0", "train.stop=none"}},
    {DOCTOR_data, eval_none, {"data.eval=", "eval.every=0", "train.stop=none"}},
    {DOCTOR_data,
     data_none,
     {"data.eval_fraction=0", "train.epochs=1", "cache.ssd=0", "cache.ram=0", "cache.shuffle=none"}},
    {DOCTOR_save, NULL, {"checkpoint.every=0", "checkpoint.seconds=0"}},
};
#define RELAXATION_COUNT (sizeof relaxations / sizeof *relaxations)

/* The options with which training is opened, and the findings so far. */
struct doctor {
    const char *graph;
    struct run_options options;
    uint32_t user_sets;     /* the first of options.set are the user's */
    char ram_set[64];       /* "store.ram=N", if doctor had to change it */
    char batch_set[64];     /* "train.batch=N", likewise                 */
    struct outcome outcome; /* of `options` */
    struct lines lines;
    uint32_t memory_refusal; /* index + 1 of the line about memory; 0: none */
    uint64_t fit;            /* store.ram with which the plan of memory fits, 0: unknown */
    struct outcome fitting;  /* of options with `fit` */
    struct outcome trial, refused;
};

static void set_add(struct run_options *o, const char *assignment)
{
    if (o->set.count < FLAG_LIST_MAX) o->set.item[o->set.count++] = assignment;
}

static void set_remove(struct run_options *o, uint32_t index)
{
    memmove(o->set.item + index, o->set.item + index + 1, (o->set.count - index - 1) * sizeof *o->set.item);
    o->set.count--;
}

/* Refusals for want of memory count as the same: their figures change from one moment to the next. */
static bool is_same(const struct outcome *a, const struct outcome *b)
{
    return a->end.code == b->end.code && (a->end.code == ST_MEMORY || strcmp(a->end.message, b->end.message) == 0);
}

/* Takes the options if with them the refusal is gone or another one. */
static status relaxed_try(struct doctor *d, const struct run_options *o, bool *helps)
{
    TRY(outcome_of(&d->trial, d->graph, o));
    *helps = !is_same(&d->trial, &d->outcome);
    if (!*helps) return ST_OK;
    d->outcome = d->trial;
    d->options = *o;
    return ST_OK;
}

/* Tries a budget of rows and a batch; batch 0: as set. */
static status memory_try(struct doctor *d, uint64_t ram, uint64_t batch, bool *helps)
{
    char ram_set[sizeof d->ram_set], batch_set[sizeof d->batch_set];
    struct run_options o = d->options;
    const uint32_t first = o.set.count;
    snprintf(ram_set, sizeof ram_set, "store.ram=%" PRIu64, ram);
    snprintf(batch_set, sizeof batch_set, "train.batch=%" PRIu64, batch);
    set_add(&o, ram_set);
    if (batch) set_add(&o, "train.micro=0"), set_add(&o, "train.lanes=1"), set_add(&o, batch_set);
    TRY(relaxed_try(d, &o, helps));
    if (!*helps) return ST_OK;
    strcpy(d->ram_set, ram_set);
    d->options.set.item[first] = d->ram_set;
    if (batch == 0) return ST_OK;
    strcpy(d->batch_set, batch_set);
    d->options.set.item[d->options.set.count - 1] = d->batch_set;
    return ST_OK;
}

static status settings_peek(const struct doctor *d, struct settings *settings, struct ini *ini)
{
    struct graph graph;
    TRY(graph_open_set(&graph, d->graph, d->options.set.item, d->options.set.count));
    status st = ini_parse(ini, d->graph, graph.text, graph.text_bytes);
    if (st == ST_OK) st = settings_read(ini, settings);
    graph_close(&graph);
    return st;
}

/* Looks for a budget of rows with which training opens: a half, a quarter, …; twice, four times, …; or, with
 * fewer examples a step, one of a few. */
static status memory_relax(struct doctor *d, bool *helps)
{
    static const uint64_t rams[] = {(uint64_t)256 << 20, (uint64_t)32 << 20, (uint64_t)4 << 20};
    struct settings settings;
    struct ini ini = {0};
    const status st = settings_peek(d, &settings, &ini);
    ini_free(&ini);
    if (st != ST_OK) return ST_OK; /* the refusal comes from the settings */
    for (uint64_t ram = settings.store_ram / 2; ram >= RAM_STEP && !*helps; ram /= 2) TRY(memory_try(d, ram, 0, helps));
    for (uint64_t ram = settings.store_ram, i = 0; i < 12 && ram < UINT64_MAX / 4 && !*helps; i++)
        TRY(memory_try(d, ram *= 2, 0, helps));
    for (uint64_t batch = settings.train_batch / 2; batch && !*helps; batch /= 2)
        for (uint32_t i = 0; i < sizeof rams / sizeof *rams && !*helps; i++) TRY(memory_try(d, rams[i], batch, helps));
    return ST_OK;
}

/* Tries without rows that stay on a card, whose memory they may be too many for. */
static status rows_leave_card(struct doctor *d, bool *helps)
{
    struct run_options o = d->options;
    set_add(&o, "store.gpu=0");
    return relaxed_try(d, &o, helps);
}

/* Finds a change that ends the present refusal, and keeps the change. *section: the refusal's. */
static status relax(struct doctor *d, bool *helps, enum doctor_section *section)
{
    *helps = false;
    *section = DOCTOR_plan;
    if (d->outcome.end.code == ST_MEMORY) TRY(rows_leave_card(d, helps));
    if (*helps) return ST_OK;
    *section = DOCTOR_memory;
    if (d->outcome.end.code == ST_MEMORY) TRY(memory_relax(d, helps));
    for (size_t i = 0; i < RELAXATION_COUNT && !*helps; i++) {
        struct run_options o = d->options;
        *section = relaxations[i].section;
        if (relaxations[i].flag) relaxations[i].flag(&o);
        for (uint32_t k = 0; relaxations[i].set[k]; k++) set_add(&o, relaxations[i].set[k]);
        TRY(relaxed_try(d, &o, helps));
    }
    for (uint32_t i = 0; i < d->user_sets && !*helps; i++) {
        struct run_options o = d->options;
        *section = DOCTOR_model;
        set_remove(&o, i);
        TRY(relaxed_try(d, &o, helps));
        d->user_sets -= *helps;
    }
    return ST_OK;
}

/* --- findings ----------------------------------------------------------------------------------- */

static void line_keep(void *context, const struct doctor_line *line)
{
    struct lines *lines = context;
    if (lines->count < LINES_MAX) lines->line[lines->count++] = *line;
}

static void refusal_keep(struct doctor *d, const struct outcome *outcome, enum doctor_section section)
{
    if (section == DOCTOR_memory && d->memory_refusal == 0) d->memory_refusal = d->lines.count + 1;
    doctor_tell(line_keep, &d->lines, section, DOCTOR_FAIL, "", "", "", outcome->end.message);
}

/* Fails as reading the cluster and preparing a profile for it do, before anything is measured. */
static status cluster_check(const struct doctor *d, const char *path, const struct run_options *asked)
{
    struct cluster cluster = {0};
    struct graph graph;
    struct settings settings;
    struct ini ini = {0};
    struct instance instance = {0};
    TRY(graph_open_set(&graph, d->graph, d->options.set.item, d->options.set.count));
    status st = settings_peek(d, &settings, &ini);
    if (st == ST_OK) st = cluster_read(&cluster, path);
    if (st == ST_OK)
        st = profile_check(&instance, &(struct profile_options){.graph = &graph,
                                                                .graph_path = d->graph,
                                                                .cluster = &cluster,
                                                                .data = d->options.data,
                                                                .isa = d->options.isa,
                                                                .here = !asked->share});
    if (st == ST_OK) st = planner_units_share(&instance, settings.train_pipelines);
    instance_free(&instance);
    cluster_free(&cluster);
    ini_free(&ini);
    graph_close(&graph);
    return st;
}

/* Checks --cluster, without the measuring and planning of a training's start. Comes last: a process that has
 * looked for cards may not fork any more. */
static void cluster_look(struct doctor *d, const struct run_options *asked)
{
    const char *path = asked->cluster.path;
    if (path == NULL || asked->plan) return;
    const bool fits = cluster_check(d, path, asked) == ST_OK;
    doctor_tell(line_keep, &d->lines, DOCTOR_plan, fits ? DOCTOR_OK : DOCTOR_FAIL, "--cluster", "", path,
                fits ? "the plan is made when training starts, from times that are measured then; "
                       "all lines here are for one stage on all cores"
                     : status_message());
}

/* Fails as a training does that opens the trace; an old file stays as it is, and a new one is removed. */
static status trace_probe(const struct run_options *o)
{
    struct stat found;
    TRY(run_trace_check(o));
    const int fd = open(o->trace, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd >= 0) {
        close(fd);
        (void)unlink(o->trace);
        return ST_OK;
    }
    if (errno == EEXIST && stat(o->trace, &found) == 0 && S_ISDIR(found.st_mode)) errno = EISDIR;
    if (errno == EEXIST && access(o->trace, W_OK) == 0) return ST_OK;
    FAIL(IO, "cannot open the trace %s for writing: %s", o->trace, strerror(errno));
}

static void trace_look(struct doctor *d)
{
    const char *path = d->options.trace;
    if (path == NULL) return;
    const bool fits = trace_probe(&d->options) == ST_OK;
    doctor_tell(line_keep, &d->lines, DOCTOR_save, fits ? DOCTOR_OK : DOCTOR_FAIL, "--trace", "", path,
                fits ? NULL : status_message());
}

/* Makes a folder and a file in it, as a training does, and removes what it has made. */
static status folder_probe(const char *folder)
{
    char name[32], path[FILE_PATH_BYTES];
    bool is_direct;
    const bool is_new = access(folder, F_OK) != 0;
    TRY(file_directory_make(folder));
    snprintf(name, sizeof name, "probe.%ld", (long)getpid());
    const status st = file_probe(file_path_join(path, folder, name), &is_direct);
    if (is_new) (void)rmdir(folder);
    return st;
}

static void board_look(struct doctor *d)
{
    const char *folder = d->options.tensorboard;
    if (folder == NULL) return;
    const bool fits = folder_probe(folder) == ST_OK;
    doctor_tell(line_keep, &d->lines, DOCTOR_save, fits ? DOCTOR_OK : DOCTOR_FAIL, "--tensorboard", "", folder,
                fits ? NULL : status_message());
}

static void metrics_look(struct doctor *d)
{
    const struct node_place alone = {0};
    const char *listen = d->options.metrics ? d->options.metrics : "";
    struct scrape_options metrics;
    bool is_given;
    status st = run_metrics_take(&metrics, &d->options, &alone, &is_given);
    if (st == ST_OK && !is_given) return;
    if (st == ST_OK) st = scrape_check(&metrics);
    doctor_tell(line_keep, &d->lines, DOCTOR_save, st == ST_OK ? DOCTOR_OK : DOCTOR_FAIL, "--metrics", "", listen,
                st == ST_OK ? NULL : status_message());
}

/* Whether a line tells of something that a relaxation has changed from what the user asked for. */
static bool is_beside(const struct run_options *asked, const struct run_options *opened_with,
                      const struct doctor_line *l)
{
    if (l->section == DOCTOR_data && strcmp(l->what, "training") == 0) return opened_with->data != asked->data;
    if (l->section == DOCTOR_data && strncmp(l->what, DOCTOR_EVALUATION, strlen(DOCTOR_EVALUATION)) == 0)
        return opened_with->eval.count != asked->eval.count;
    if (l->section == DOCTOR_save && strcmp(l->what, "--out") == 0)
        return opened_with->out != asked->out || opened_with->resume != asked->resume ||
               opened_with->continued != asked->continued;
    const bool is_plan = opened_with->plan == asked->plan;
    if (l->section == DOCTOR_plan && strcmp(l->what, "stages") == 0) return !is_plan;
    if (l->section == DOCTOR_plan && strcmp(l->what, "cores") == 0)
        return !is_plan || opened_with->share != asked->share;
    if (l->section == DOCTOR_cards && strcmp(l->what, DOCTOR_CARD_STAGES) == 0) return !is_plan;
    return false;
}

/* Looks for a store.ram with which the plan of memory fits, by trying: a little less than what the rest of
 * the plan leaves. `m`: the plan's figures so far. */
static status fit_find(struct doctor *d, struct doctor_memory m)
{
    for (uint32_t i = 0; i < 6; i++) {
        char assignment[64];
        struct run_options o = d->options;
        const uint64_t rest = m.planned_bytes - (m.store_ram < m.planned_bytes ? m.store_ram : m.planned_bytes);
        if (rest >= m.room_bytes || m.room_bytes == SIZE_MAX) return ST_OK;
        const uint64_t left = m.room_bytes - rest, ram = (left - left / 64) / RAM_STEP * RAM_STEP;
        if (ram == 0) return ST_OK;
        snprintf(assignment, sizeof assignment, "store.ram=%" PRIu64, ram);
        set_add(&o, assignment);
        TRY(outcome_of(&d->fitting, d->graph, &o));
        if (!d->fitting.is_opened) return ST_OK;
        m = d->fitting.memory;
        if (m.planned_bytes > m.room_bytes) continue;
        d->fit = ram;
        return ST_OK;
    }
    return ST_OK;
}

/* Where no budget of rows fits: tries fewer examples a step. */
static status fit_by_batch(struct doctor *d)
{
    struct settings settings;
    struct ini ini = {0};
    const status st = settings_peek(d, &settings, &ini);
    ini_free(&ini);
    if (st != ST_OK) return ST_OK;
    set_add(&d->options, "train.micro=0");
    set_add(&d->options, "train.lanes=1");
    set_add(&d->options, d->batch_set);
    for (uint64_t batch = settings.train_batch / 2; batch && d->fit == 0; batch /= 2) {
        snprintf(d->batch_set, sizeof d->batch_set, "train.batch=%" PRIu64, batch);
        TRY(outcome_of(&d->fitting, d->graph, &d->options));
        if (d->fitting.is_opened) TRY(fit_find(d, d->fitting.memory));
    }
    return ST_OK;
}

/* Adds to a refusal the budget with which the training fits. */
static void fit_tell(const struct doctor *d, struct doctor_line *l)
{
    const size_t used = strlen(l->todo);
    char *to = l->todo + used;
    if (d->fit)
        snprintf(to, sizeof l->todo - used, "; %s%s%s--set store.ram=%" PRIu64 "MiB fits",
                 *d->batch_set ? "--set " : "", d->batch_set, *d->batch_set ? " " : "", d->fit / RAM_STEP);
    else
        snprintf(to, sizeof l->todo - used,
                 "; no store.ram or train.batch is low enough: it takes a smaller model, or more memory");
}

/* Adds to the line of a disk with too few free bytes a budget with which training opens, if there is one. */
static status disk_tell(struct doctor *d, struct doctor_line *l)
{
    char assignment[64];
    struct run_options o = d->options;
    const uint64_t ssd = d->outcome.memory.disk_free_bytes / RAM_STEP;
    const size_t used = strlen(l->todo);
    if (ssd == 0) return ST_OK;
    snprintf(assignment, sizeof assignment, "store.ssd=%" PRIu64 "MiB", ssd);
    set_add(&o, assignment);
    TRY(outcome_of(&d->trial, d->graph, &o));
    if (d->trial.is_opened) snprintf(l->todo + used, sizeof l->todo - used, "; or --set %s", assignment);
    return ST_OK;
}

/* For an opened training: finds settings that fit, if its memory does not, and keeps its lines. */
static status opened_keep(struct doctor *d, const struct run_options *asked)
{
    const struct doctor_memory m = d->outcome.memory;
    const bool is_refused = d->memory_refusal != 0;
    if (is_refused || m.planned_bytes > m.room_bytes) {
        TRY(fit_find(d, m));
        if (d->fit == 0) TRY(fit_by_batch(d));
        if (is_refused) fit_tell(d, &d->lines.line[d->memory_refusal - 1]);
    }
    /* A training that could not be opened has no figures of its own. */
    if (is_refused && d->fit) {
        doctor_tell(line_keep, &d->lines, DOCTOR_memory, DOCTOR_WARN, "", "", "",
                    "the lines below are for a training with settings that fit");
        d->outcome = d->fitting;
    }
    for (uint32_t i = 0; i < d->outcome.lines.count; i++) {
        struct doctor_line *l = &d->outcome.lines.line[i];
        if (is_beside(asked, &d->options, l)) continue;
        if (l->section == DOCTOR_memory && l->state == DOCTOR_FAIL) fit_tell(d, l);
        if (l->section == DOCTOR_disk && l->state == DOCTOR_FAIL && strcmp(l->what, DOCTOR_ROWS) == 0)
            TRY(disk_tell(d, l));
        line_keep(&d->lines, l);
    }
    return ST_OK;
}

/* --- the verb ----------------------------------------------------------------------------------- */

/* Directories, and the files that claim them, which opening a training makes.
 * What is new is removed afterwards. */
struct traces {
    char directory[3][FILE_PATH_BYTES]; /* "": none */
    bool had_directory[3], had_lock[3];
};

static status traces_note(struct traces *t, const struct doctor *d)
{
    struct settings settings;
    struct ini ini = {0};
    const struct run_options *o = &d->options;
    char *resumed = NULL, lock[FILE_PATH_BYTES];
    *t = (struct traces){0};
    const char *saved = o->continued ? o->continued : o->resume;
    if (saved) TRY(model_dir_of(saved, &resumed));
    const char *out = o->out ? o->out : resumed;
    if (out) {
        file_path_join(t->directory[0], out, MODEL_BEST_NAME);
        snprintf(t->directory[1], sizeof t->directory[1], "%s", out);
    }
    if (settings_peek(d, &settings, &ini) == ST_OK)
        snprintf(t->directory[2], sizeof t->directory[2], "%s", settings.store_path);
    ini_free(&ini);
    free(resumed);
    for (uint32_t i = 0; i < 3; i++) {
        t->had_directory[i] = access(t->directory[i], F_OK) == 0;
        t->had_lock[i] = access(file_path_join(lock, t->directory[i], MODEL_LOCK_NAME), F_OK) == 0;
    }
    return ST_OK;
}

static void traces_remove(const struct traces *t)
{
    char lock[FILE_PATH_BYTES];
    for (uint32_t i = 0; i < 3; i++) {
        if (*t->directory[i] == 0) continue;
        if (!t->had_lock[i]) (void)unlink(file_path_join(lock, t->directory[i], MODEL_LOCK_NAME));
        if (!t->had_directory[i]) (void)rmdir(t->directory[i]);
    }
}

static status look(struct doctor *d)
{
    bool helps = true;
    const struct run_options asked = d->options;
    if (d->options.plan == NULL) d->options.cluster.path = NULL;
    trace_look(d);
    board_look(d);
    metrics_look(d);
    TRY(outcome_of(&d->outcome, d->graph, &d->options));
    for (uint32_t i = 0; i < REFUSALS_MAX && helps && d->outcome.end.code != ST_OK; i++) {
        enum doctor_section section;
        d->refused = d->outcome;
        TRY(relax(d, &helps, &section));
        refusal_keep(d, &d->refused, helps ? section : d->refused.end.code == ST_MEMORY ? DOCTOR_memory : DOCTOR_model);
    }
    if (d->outcome.end.code == ST_OK)
        TRY(opened_keep(d, &asked));
    else
        doctor_tell(line_keep, &d->lines, DOCTOR_model, DOCTOR_WARN, "", "", "",
                    "the rest cannot be checked before this is fixed");
    cluster_look(d, &asked);
    return ST_OK;
}

status run_doctor(const char *const *positionals, const void *options)
{
    struct doctor *d = calloc(1, sizeof *d);
    struct traces traces;
    if (d == NULL) FAIL(MEMORY, "no memory to tell what is found");
    d->graph = positionals[0];
    d->options = *(const struct run_options *)options;
    d->user_sets = d->options.set.count;
    status st = traces_note(&traces, d);
    if (st == ST_OK) {
        st = look(d);
        traces_remove(&traces);
    }
    if (st == ST_OK)
        st = findings_tell(d->lines.line, d->lines.count,
                           &(struct findings_words){.of = "this training", .good = "training can begin"});
    free(d);
    return st;
}
