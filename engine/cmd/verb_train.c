/* heterps-run GRAPH (or: heterps-run train GRAPH): trains, evaluates, saves. heterps-run
 * plan-memory GRAPH: how much memory a training would take. heterps-run doctor GRAPH takes the
 * same flags (cmd/verb_doctor.c). */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/base/heap.h"
#include "engine/base/inputs.h"
#include "engine/base/log.h"
#include "engine/base/paths.h"
#include "engine/base/trace.h"
#include "engine/base/trust.h"
#include "engine/cmd/run.h"
#include "engine/model/model_saves.h"
#include "engine/node/talk.h"
#include "sched/solution.h"

/* How long node 0 waits for traces of other nodes, which end a moment before or after its own. */
#define TRACES_WAIT_NS UINT64_C(10000000000)
/* How long planning may take before training begins. */
#define PLAN_SECONDS 1.0

static const struct flag flags[] = {
    {.name = "--data",
     .type = FLAG_READ,
     .value = "FILE",
     .meaning = "training data: files separated by commas (in a name: \\,), .gz, .zst or plain; - is standard input; "
                "http://HOST/PATH is read from a server; default: data.path of the graph",
     .offset = offsetof(struct run_options, data)},
    {.name = "--eval",
     .type = FLAG_SETS,
     .value = "FILE",
     .meaning = "evaluation data; given several times, as NAME=FILE: several sets, of which the first decides about "
                "train.stop; default: data.eval of the graph, or the lines that data.eval_fraction holds out",
     .offset = offsetof(struct run_options, eval)},
    {.name = "--out",
     .type = FLAG_TEXT,
     .value = "DIR",
     .meaning = "save the model here at the end, at a signal, and as checkpoint.every and checkpoint.seconds say",
     .offset = offsetof(struct run_options, out)},
    {.name = "--resume",
     .type = FLAG_TEXT,
     .value = "DIR",
     .meaning = "go on from a saved model, and save there unless --out says otherwise; "
                "DIR/manifest.STEP.json: from an older save",
     .offset = offsetof(struct run_options, resume)},
    {.name = "--continue",
     .type = FLAG_TEXT,
     .value = "DIR",
     .meaning =
         "train a saved model, with all its state, on other data, such as the next day's: a new pass; else as --resume",
     .offset = offsetof(struct run_options, continued)},
    {.name = "--again",
     .type = FLAG_SWITCH,
     .meaning = "if --out has a save (with --continue: a save of a training on this very data), "
                "go on from it as --resume does; else do as the other flags say: "
                "for a command that is started again unchanged",
     .offset = offsetof(struct run_options, again)},
    {.name = "--init",
     .type = FLAG_TEXT,
     .value = "PATH",
     .meaning = "take first values, by name and shape, from another model's directory, an exported one, "
                "a directory of .npy files, or a .safetensors file",
     .offset = offsetof(struct run_options, init)},
    {.name = "--plan",
     .type = FLAG_READ,
     .value = "FILE",
     .meaning = "stages, and cores for each (plan.json); default: one stage on all cores",
     .offset = offsetof(struct run_options, plan)},
    {.name = "--cluster",
     .type = FLAG_READ,
     .value = "FILE",
     .meaning = "types of resources and a goal: the graph is profiled, planned for them, "
                "and planned anew when its times change",
     .offset = offsetof(struct run_options, cluster.path)},
    {.name = "--method",
     .type = FLAG_TEXT,
     .value = "NAME",
     .meaning = "with --cluster: how to plan (default auto; see `heterps-run plan --help`)",
     .offset = offsetof(struct run_options, cluster.method)},
    {.name = "--try",
     .type = FLAG_F64,
     .value = "S",
     .meaning = "with --cluster: train the plans of several methods about S seconds each, and take the best measured",
     .offset = offsetof(struct run_options, cluster.try_seconds),
     .min = 0.01,
     .max = 1e6},
    {.name = "--no-cache",
     .type = FLAG_SWITCH,
     .meaning = "with --cluster: measure the graph anew",
     .offset = offsetof(struct run_options, cluster.no_cache)},
    {.name = "--share",
     .type = FLAG_SWITCH,
     .meaning = "let the plan's stages share the cores, where it asks for more than there are",
     .offset = offsetof(struct run_options, share)},
    {.name = "--threads",
     .type = FLAG_U32,
     .value = "N",
     .meaning = "cores to compute on; default: all processors of this process; never changes the result",
     .offset = offsetof(struct run_options, threads),
     .min = 1,
     .max = 1024},
    {.name = "--trace",
     .type = FLAG_WRITE,
     .value = "FILE",
     .meaning = "write what every thread does, for chrome://tracing or Perfetto",
     .offset = offsetof(struct run_options, trace)},
    {.name = "--tensorboard",
     .type = FLAG_TEXT,
     .value = "DIR",
     .meaning = "write figures for TensorBoard into a file in DIR: loss, speed, progressive validation, evaluations",
     .offset = offsetof(struct run_options, tensorboard)},
    {.name = "--metrics",
     .type = FLAG_TEXT,
     .value = "ADDR:PORT",
     .meaning = "while it trains answer GET /metrics (figures for Prometheus), /healthz and /readyz there; "
                "port 0: a free one, which is printed; of several nodes each listens at PORT + its rank",
     .offset = offsetof(struct run_options, metrics)},
    {.name = "--token-file",
     .type = FLAG_TEXT,
     .value = "FILE",
     .meaning = "with --metrics: tokens, one a line: only clients that send one may ask for figures",
     .offset = offsetof(struct run_options, token_file)},
    RUN_NODES_FLAGS(struct run_options, nodes, "train on several nodes, each of which runs this command",
                    "; with --metrics: whoever reaches the address may ask"),
    {.name = "--lanes",
     .type = FLAG_TEXT,
     .value = "N",
     .meaning = "with --nodes: how many of train.lanes this node computes, or, with commas, "
                "each node in order of ranks; 0: none, the node only has parameters and rows, and needs no data; "
                "auto: in proportion to its speed; default: nodes share them evenly",
     .offset = offsetof(struct run_options, nodes.lanes)},
    {.name = "--roster-fd",
     .type = FLAG_U32,
     .value = "N",
     .meaning = "with --nodes: the file that a node leaves when it starts itself anew",
     .offset = offsetof(struct run_options, nodes.roster_fd),
     .min = 3,
     .max = 1 << 20},
    {.name = "--dry-run",
     .type = FLAG_SWITCH,
     .meaning = "print the plan of memory, check that this machine can give it, and end",
     .offset = offsetof(struct run_options, dry_run)},
    {.name = "--isa",
     .type = FLAG_TEXT,
     .value = "NAME",
     .meaning = "instruction set: base, avx2, avx512, avx512bf16, amx; default: the best here",
     .offset = offsetof(struct run_options, isa)},
    {.name = "--set",
     .type = FLAG_LIST,
     .value = "SECTION.KEY=VALUE",
     .meaning = "override a setting of the graph; may be repeated",
     .offset = offsetof(struct run_options, set)},
};

/* Appends " WORD", quoted for a shell if it needs that. */
static void word_add(FILE *out, const char *word)
{
    bool is_plain = *word != 0;
    for (const char *p = word; *p; p++) is_plain = is_plain && (isalnum((unsigned char)*p) || strchr("_-./=,:+", *p));
    fputs(is_plain ? " " : " '", out);
    for (const char *p = word; *p; p++) *p == '\'' ? fputs("'\\''", out) : fputc(*p, out);
    if (!is_plain) fputc('\'', out);
}

/* Checks that the graph may name the first of its data: the cache lies beside it. */
static status first_trust(const char *key, const char *paths, const char *graph)
{
    char path[PATH_MAX];
    const char *name;
    size_t bytes;
    if (!paths_next(&paths, &name, &bytes)) return ST_OK;
    return trust_check(key, path_copy(path, name, bytes), graph);
}

/* Checks that the graph may name the place of the data cache: its own path, or beside the data. */
static status cache_trust(const struct session *s, const struct train_options *t, const char *data, const char *eval)
{
    const struct settings *settings = &s->setup.settings;
    if (settings->cache_ssd == 0 || t->dry_run) return ST_OK;
    if (*settings->cache_path) return trust_check("cache.path", settings->cache_path, s->setup.graph_path);
    if (t->data == data && data) TRY(first_trust("data.path", data, s->setup.graph_path));
    return eval ? first_trust("data.eval", eval, s->setup.graph_path) : ST_OK;
}

/* The file of the data cache, unless it is named after the data, which then is no address; or NULL. */
static const char *cache_named(const struct session *s)
{
    const struct settings *settings = &s->setup.settings;
    return settings->cache_ssd && *settings->cache_path ? settings->cache_path : NULL;
}

/* The command line that goes on where this one stops. malloc'd: the caller's. */
static char *resume_command(const char *graph, const struct run_options *o, const struct train_options *t)
{
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    if (out == NULL) return NULL;
    fputs("heterps-run", out);
    word_add(out, graph);
    const char *const pairs[][2] = {{"--data", o->data},
                                    {"--resume", t->out},
                                    {"--plan", o->plan},
                                    {"--cluster", o->cluster.path},
                                    {"--method", o->cluster.method},
                                    {"--isa", o->isa},
                                    {"--tensorboard", o->tensorboard},
                                    {"--metrics", o->metrics},
                                    {"--token-file", o->token_file}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if (pairs[i][1]) fprintf(out, " %s", pairs[i][0]), word_add(out, pairs[i][1]);
    for (uint32_t i = 0; i < o->eval.count; i++) fputs(" --eval", out), word_add(out, o->eval.item[i]);
    if (o->cluster.try_seconds > 0) fprintf(out, " --try %g", o->cluster.try_seconds);
    if (o->share) fputs(" --share", out);
    if (o->metrics && o->nodes.insecure) fputs(" --insecure", out);
    if (trust_is_whole()) fputs(" --trust-paths", out);
    for (uint32_t i = 0; i < o->set.count; i++) fputs(" --set", out), word_add(out, o->set.item[i]);
    return fclose(out) == 0 ? text : NULL;
}

/* Whether --again goes on from a save in the directory: from any, but where a new pass over other data is to
 * begin, which may be in the very directory that it continues, from a save of this pass. */
static status again_find(const struct session *s, const struct train_options *options, uint32_t *is_there)
{
    bool is_of_pass = true;
    *is_there = options->out && model_dir_find(options->out) == ST_OK;
    if (*is_there && options->is_new_pass) TRY(model_data_is_saved(&s->setup.model, options->out, &is_of_pass));
    *is_there = *is_there && is_of_pass;
    if (*is_there && options->is_new_pass)
        log_info("again    %s is a save of a training on this very data, which goes on", options->out);
    return ST_OK;
}

/* For --again, when it is known what the data are. Of several nodes the first one decides, whatever flags the
 * others have: a node that has waited for it was started earlier, without --again. */
static status again_look(const struct session *s, struct train_options *options, bool is_again)
{
    uint32_t is_there = 0;
    if (is_again && (s->node == NULL || node_index(s->node) == 0)) TRY(again_find(s, options, &is_there));
    if (s->node) TRY(reduce_tell(node_reduce(s->node), &is_there, sizeof is_there));
    if (!is_there) return ST_OK;
    options->resume = options->out;
    options->is_new_pass = false;
    options->is_again = true;
    options->init = NULL;
    return ST_OK;
}

/* Checks that all nodes evaluate the same number of sets. A node without lanes reads no
 * data, and takes node 0's number. */
static status sets_tell(const struct session *s, struct train_options *options)
{
    struct eval_sets *sets = &options->eval;
    uint32_t count = sets->count;
    if (s->node == NULL) return ST_OK;
    status st = ST_OK;
    TRY(reduce_tell(node_reduce(s->node), &count, sizeof count));
    if (node_computes(s->node) && count != sets->count)
        st = status_fail(ST_MISMATCH, __FILE__, __LINE__,
                         "it evaluates %u sets of data, and node 0 %u: give all nodes the same --eval", sets->count,
                         count);
    else if (count > EVAL_SETS_MAX)
        st = status_fail(ST_INVALID, __FILE__, __LINE__, "node 0 evaluates %u sets; expected at most %u", count,
                         EVAL_SETS_MAX);
    TRY(reduce_agree(node_reduce(s->node), st));
    if (node_computes(s->node)) return ST_OK;
    options->data = "";
    *sets = (struct eval_sets){.count = count};
    for (uint32_t i = 0; i < count; i++) sets->item[i].paths = "";
    return ST_OK;
}

/* Notes files of eval.exclude as inputs: they are opened when evaluation begins,
 * long after outputs are checked. */
static status exclude_note(const struct setup *setup)
{
    char *paths;
    if (*setup->settings.eval_exclude == 0) return ST_OK;
    TRY(setup_paths(setup, "eval.exclude", setup->settings.eval_exclude, &paths));
    status st = inputs_add("eval.exclude", paths);
    free(paths);
    return st;
}

static status train(struct session *s, const struct run_options *o, char **data, char **eval, char **out)
{
    struct train_options options = {.data = o->data,
                                    .out = o->out,
                                    .resume = o->continued ? o->continued : o->resume,
                                    .is_new_pass = o->continued != NULL,
                                    .init = o->init,
                                    .dry_run = o->dry_run,
                                    .use = o->use,
                                    .tensorboard = o->tensorboard,
                                    .look = o->look,
                                    .look_context = o->look_context};
    if (o->resume && o->continued)
        FAIL(USAGE,
             "--resume goes on with a pass over its data, --continue begins one over other data; give one of them");
    if (o->init && options.resume)
        FAIL(USAGE, "--init starts a new training, %s goes on with one; give one of them",
             o->continued ? "--continue" : "--resume");
    if (options.resume && o->out == NULL && !o->use) TRY(model_dir_of(options.resume, out));
    if (*out) options.out = *out;
    if (options.data == NULL && o->use == NULL && *s->setup.settings.data_path) {
        TRY(setup_paths(&s->setup, "data.path", s->setup.settings.data_path, data));
        options.data = *data;
        TRY(inputs_add("data.path", *data));
    }
    TRY(eval_sets_parse(&options.eval, "--eval", o->eval.item, o->eval.count));
    if (options.eval.count == 0 && o->use == NULL && *s->setup.settings.data_eval) {
        TRY(setup_paths(&s->setup, "data.eval", s->setup.settings.data_eval, eval));
        options.eval = eval_sets_of(*eval);
        TRY(inputs_add("data.eval", *eval));
    }
    TRY(exclude_note(&s->setup));
    TRY(sets_tell(s, &options));
    if (o->trace) TRY(inputs_spare(o->trace));
    TRY(cache_trust(s, &options, *data, *eval));
    /* Without data: plans memory as for a usual file. */
    if (options.data == NULL && o->dry_run) options.data = "/dev/null";
    if (o->use && !o->use->needs_data) options.data = "";
    if (options.data == NULL) FAIL(USAGE, "no training data: give --data FILE, or set data.path in the model");
    const bool is_first = s->node == NULL || node_index(s->node) == 0;
    bool is_shared = false;
    if (o->use == NULL) TRY(train_data_share(s, options.data, &is_shared));
    const bool reads = node_computes(s->node) && !is_shared && (o->use == NULL || o->use->needs_data);
    if (!o->dry_run && reads && (options.out || options.resume || s->node))
        TRY(model_data_look(&s->setup.model.data, options.data, cache_named(s)));
    if (o->again || s->node) TRY(again_look(s, &options, o->again));
    /* Before the check of `out`, which would make a mistyped directory. */
    if (options.resume && is_first && !o->use)
        TRY(model_resume_check(&s->setup.model, options.resume, options.is_new_pass));
    if (options.is_new_pass && *out && is_first && !o->dry_run && s->setup.settings.checkpoint_keep == 1)
        log_info("out      %s: the next save takes the place of this one (checkpoint.keep = 1); "
                 "to go back to it later, give --set checkpoint.keep=2, or --out another directory",
                 *out);
    if (options.out && options.resume == NULL && !o->dry_run && is_first && model_dir_find(options.out) == ST_OK)
        log_info("out      %s holds a model: the saves of this training take the place of its own", options.out);
    if (options.out && !o->dry_run && is_first) {
        if (model_dir_find(options.out) == ST_OK) older_saves_warn(options.out, s->setup.settings.checkpoint_keep);
        TRY(model_dir_check(&s->setup.graph, options.out));
    }
    if (o->scrape) TRY(scrape_watch(o->scrape, s, &options.watch));
    char *command = resume_command(s->setup.graph_path, o, &options);
    options.resume_command = command ? command : "--resume";
    status st = train_run(s, &options);
    free(command);
    return st;
}

status run_train(const char *graph, const struct run_options *o)
{
    struct session session;
    struct run_place place;
    struct session_cluster cluster = o->cluster;
    if (o->plan && cluster.path) FAIL(USAGE, "--plan is a plan, --cluster makes one; give one of them");
    if (cluster.try_seconds > 0 && cluster.path == NULL)
        FAIL(USAGE, "--try tries plans for a cluster: give --cluster FILE");
    const bool has_no_cluster = cluster.path == NULL && o->look == NULL; /* a look has put it aside */
    if (cluster.method && has_no_cluster) FAIL(USAGE, "--method finds a plan for a cluster: give --cluster FILE");
    if (cluster.no_cache && has_no_cluster)
        FAIL(USAGE, "--no-cache measures a cluster's profile anew: give --cluster FILE");
    if (cluster.method == NULL) cluster.method = "auto";
    TRY(solve_method_check(cluster.method)); /* before anything is measured */
    cluster.seed = 1;
    cluster.seconds = PLAN_SECONDS;
    cluster.data = o->data;
    TRY(run_place_take(&place, o));
    if (o->again && o->out == NULL && o->resume == NULL && o->continued == NULL && place.nodes.place.count == 0)
        FAIL(USAGE, "--again goes on from the save in --out DIR: give --out");
    const struct session_options options = {
        .setup = {.graph_path = graph, .set = o->set.item, .set_count = o->set.count, .training = true},
        .crew = {.threads = o->threads, .isa = o->isa, .share = o->share, .heeds_stop = o->use != NULL},
        .plan = o->plan,
        .cluster = cluster.path ? &cluster : NULL,
        .nodes = place.nodes.place.count ? &place.nodes : NULL};
    place.nodes.data = o->data;
    if (o->metrics) scrape_memory_note();
    TRY(session_open(&session, &options));
    char *data = NULL, *eval = NULL, *out = NULL;
    if (session.node && node_count(session.node) == 0) {
        log_warning("the job was completed without this node");
        session_close(&session);
        return ST_OK;
    }
    status st = session_end(&session, train(&session, o, &data, &eval, &out));
    session_close(&session);
    free(data);
    free(eval);
    free(out);
    return st;
}

/* Threads of a trace, at most: workers, readers, and the thread that speaks with other nodes. */
static uint32_t trace_threads(uint32_t threads, bool has_nodes)
{
    struct cores cores;
    cores_allowed(&cores);
    return (threads ? threads : cores.count) + 3 + has_nodes; /* the main thread, reading, reading for evaluation */
}

status run_trace_check(const struct run_options *o)
{
    const char *const models[] = {o->resume, o->continued, o->init, o->out};
    const char *slash = strrchr(o->trace, '/');
    char folder[FILE_PATH_BYTES];
    struct stat of_trace, of_model;
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - o->trace) + 1 : 1, slash ? o->trace : ".");
    for (size_t i = 0; i < sizeof models / sizeof *models && stat(folder, &of_trace) == 0; i++) {
        char *model = NULL;
        if (models[i] != NULL) TRY(model_dir_of(models[i], &model));
        const bool is_there = model != NULL && stat(model, &of_model) == 0 && of_model.st_dev == of_trace.st_dev &&
                              of_model.st_ino == of_trace.st_ino;
        free(model);
        if (is_there)
            FAIL(USAGE, "--trace %s lies in the model's directory %s; give another place", o->trace, models[i]);
    }
    return ST_OK;
}

static status metrics_open(struct run_options *o, const struct node_place *place)
{
    struct scrape_options metrics;
    bool is_given;
    TRY(run_metrics_take(&metrics, o, place, &is_given));
    return is_given && !o->dry_run ? scrape_open(&o->scrape, &metrics) : ST_OK;
}

static status run_traced(const char *graph, const struct run_options *o, const struct node_place *place)
{
    char *trace = NULL;
    if (o->trace && !o->dry_run) {
        TRY(run_trace_check(o));
        /* each node has a trace of its own */
        TRY(place->count ? heap_text(&trace, "%s.%u", o->trace, place->rank) : heap_text(&trace, "%s", o->trace));
        TRY(trace_open(trace, trace_threads(o->threads, place->count > 0)));
        if (place->count) trace_node(place->rank);
        trace_thread("main");
    }
    struct failure failure;
    failure_keep(&failure, run_train(graph, o));
    /* A run that has failed says why; its trace is cut for the same reason. */
    status st = trace_close();
    if (st != ST_OK && !failure_is(&failure)) log_warning("the trace is cut: %s", status_message());
    if (st == ST_OK && trace && trace_has_events() && place->count && place->rank == 0) {
        st = trace_merge(o->trace, TRACES_WAIT_NS, true);
        if (st != ST_OK) log_warning("the nodes' traces are not joined: %s", status_message());
    }
    free(trace);
    return failure_adopt(&failure);
}

status run_verb(const char *graph, const struct run_options *given)
{
    struct run_options options = *given, *o = &options;
    struct node_place place;
    TRY(run_place_find(&place, o));
    if (o->dry_run || (o->use && o->use->prints && place.rank == 0)) log_results_to_output();
    if (place.count) log_node(place.rank, true);
    TRY(metrics_open(o, &place)); /* each node says where it listens */
    /* Node 0 speaks for all; the others print only warnings and errors. */
    if (place.count && place.rank > 0) {
        log_open(log_format(), log_verbosity() > 0 ? 1 : -1);
        log_node(place.rank, false);
    }
    struct failure failure;
    failure_keep(&failure, run_traced(graph, o, &place));
    scrape_close(o->scrape);
    return failure_adopt(&failure);
}

status run_use(const char *graph, const struct run_options *o)
{
    char shown[PATHS_SHOWN_BYTES];
    struct eval_sets sets;
    if (o->resume == NULL) FAIL(USAGE, "--model is needed: on several nodes a model is a save, in a directory");
    TRY(eval_sets_parse(&sets, "--data", o->eval.item, o->eval.count));
    for (uint32_t i = 0; i <= sets.count; i++) {
        const char *paths = i < sets.count ? sets.item[i].paths : o->data;
        if (paths && paths_have_stream(paths))
            FAIL(INVALID,
                 "%s is a stream: on several nodes each node reads all data; give files that all nodes can read",
                 paths_shown(shown, paths));
    }
    return run_verb(graph, o);
}

static status run(const char *const *positionals, const void *options) { return run_verb(positionals[0], options); }

static const struct run_options none_given = {RUN_OPTIONS};
const struct command command_train = {.name = "train",
                                      .positionals = "GRAPH",
                                      .opens_positionals = true,
                                      .summary = "train a graph: the verb when none is given",
                                      .flags = flags,
                                      .flag_count = sizeof flags / sizeof *flags,
                                      .options_bytes = sizeof(struct run_options),
                                      .defaults = &none_given,
                                      .uses_cards = true,
                                      .run = run,
                                      .help = "Paths of flags are relative to the working directory, data.path, "
                                              "data.eval and eval.exclude to the folder of\n"
                                              "the graph, with --set, too.\n\n" EVAL_SETS_HELP "\n\n"
                                              "SIGINT and SIGTERM finish the step, save when --out is given, "
                                              "and say how to go on; a second signal ends at once."};

static const struct run_options dry_run = {RUN_OPTIONS, .dry_run = true};
const struct command command_plan_memory = {
    .name = "plan-memory",
    .positionals = "GRAPH",
    .opens_positionals = true,
    .summary = "print how much memory training a graph takes, part by part, without training",
    .flags = flags,
    .flag_count = sizeof flags / sizeof *flags,
    .options_bytes = sizeof(struct run_options),
    .defaults = &dry_run,
    .uses_cards = true,
    .run = run,
    .help = "The same as `train --dry-run`. Fails if this machine, its limits or its control group cannot give it. "
            "Without --data it plans for a\n"
            "file of any kind. --log json writes an event `plan_memory`: "
            "graph, memory_bytes, memory (bytes of each part), tables."};

const struct command command_doctor = {
    .name = "doctor",
    .positionals = "GRAPH",
    .opens_positionals = true,
    .summary = "say what training a graph needs of this machine, what does not fit, and what to change",
    .flags = flags,
    .flag_count = sizeof flags / sizeof *flags,
    .options_bytes = sizeof(struct run_options),
    .defaults = &none_given,
    .uses_cards = true,
    .run = run_doctor,
    .help =
        "heterps-run doctor graph.bin --data train.tsv --out model --set store.ssd=100GiB --set "
        "store.path=/data/rows\n\n"
        "Takes the flags of a training, opens what it would open and begins nothing. "
        "Tells every refusal, not only the first, and for each\n"
        "item whether it fits (ok), is worth a look (warn) or ends training (fail), what is needed, what is found, "
        "and what to change. The exit\n"
        "status is 1 if anything fails. --log json writes an event `doctor` a line: "
        "section, state, what, needed, found, todo; the last one is `verdict`.\n"
        "`heterps-run doctor --cluster`, on every node, looks at the links between nodes (doctor --cluster --help)."};
