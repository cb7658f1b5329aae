/* What a training does before its first step: refuses what cannot be done, takes all memory, so that the plan
 * of memory is whole, and fills the model. Once a run. */
#include <inttypes.h>
#include <string.h>

#include "engine/base/log.h"
#include "engine/base/paths.h"
#include "engine/base/thread.h"
#include "engine/model/warm_start.h"
#include "engine/node/stream.h"
#include "engine/run/first_read.h"
#include "engine/run/train_internal.h"
#include "io/store/store_rows.h"

/* Whether evaluation uses lines of the training data. */
static bool holds_out(const struct trainer *t)
{
    return t->eval.sets.count && t->eval.sets.item[0].paths == t->options->data;
}

/* A stream can be read only once, so settings that would read it twice are refused before anything else opens
 * it, which would take bytes of the training data. A dry run reads nothing; without data it has the null
 * device in the place of a file. */
static status stream_check(const struct trainer *t)
{
    const struct settings *settings = &t->session->setup.settings;
    if (!feed_is_stream(t->feed) || t->options->dry_run) return ST_OK;
    if (settings->train_epochs > 1 && settings->cache_ram == 0 && settings->cache_ssd == 0)
        FAIL(INVALID,
             "%s is a stream and can be read once, but train.epochs = %" PRIu64
             "; give a file, or a data cache (--set cache.ram=1GiB), or --set train.epochs=1",
             feed_paths(t->feed), (uint64_t)settings->train_epochs);
    if (holds_out(t))
        FAIL(INVALID,
             "%s is a stream and can be read once, but data.eval_fraction = %g holds lines of it out for evaluation; "
             "give a file, --eval FILE, or --set data.eval_fraction=0",
             feed_paths(t->feed), (double)settings->data_eval_fraction);
    return ST_OK;
}

/* The same of a stream that is evaluated on. */
static status eval_stream_check(const struct trainer *t)
{
    const struct settings *settings = &t->session->setup.settings;
    if (t->eval.feed && feed_is_stream(t->eval.feed) && (settings->eval_every || t->stop.head))
        FAIL(INVALID,
             "%s is a stream and can be read once, but eval.every = %" PRIu64
             ", train.stop = %s; give a file, or --set eval.every=0 --set train.stop=none",
             feed_paths(t->eval.feed), settings->eval_every, settings->train_stop);
    return ST_OK;
}

/* Warns of settings that ask for what cannot be seen. */
static status settings_check(const struct trainer *t)
{
    const struct settings *settings = &t->session->setup.settings;
    struct batch_shape shape = graph_batch(t->graph);
    const bool has_workers = t->node ? node_count(t->node) > 1 : settings->train_pipelines > 1;
    if (settings->train_exact && has_workers && settings->checkpoint_seconds > 0)
        FAIL(INVALID,
             "train.exact with checkpoint.seconds = %g: a save lets all waves in, so the result would depend on when "
             "one falls due; give --set checkpoint.every=STEPS in its place",
             (double)settings->checkpoint_seconds);
    if (settings->checkpoint_every && t->options->out == NULL)
        log_warning("checkpoint.every = %" PRIu64 " saves nothing without --out DIR", settings->checkpoint_every);
    if (settings->checkpoint_seconds > 0 && t->options->out == NULL)
        log_warning("checkpoint.seconds = %g saves nothing without --out DIR", (double)settings->checkpoint_seconds);
    const bool saves = t->options->out && (settings->checkpoint_every || settings->checkpoint_seconds > 0);
    if (t->node && node_index(t->node) == 0 && node_count(t->node) > 1 && t->options->use == NULL && !saves)
        log_warning("no save before the end: if a node is lost, all nodes begin this run again; "
                    "give --out DIR and --set checkpoint.seconds=600, or checkpoint.every");
    if (settings->eval_every && t->eval.sets.count == 0)
        log_warning("eval.every = %" PRIu64 " measures nothing without --eval FILE", settings->eval_every);
    if (settings->train_micro == 0 && shape.micro < 32 && shape.micro < shape.batch / shape.lanes)
        log_warning("batch / lanes = %u has no divisor from 32 to 512, so micro-batches have %u examples and are slow; "
                    "choose another train.batch",
                    shape.batch / shape.lanes, shape.micro);
    return ST_OK;
}

/* Decides what is evaluated, and shares the budgets between the data caches of training and evaluation.
 * Memory serves further passes of this run; a file also serves further runs. */
static status caches_share(struct trainer *t, struct data_cache_budget *train)
{
    const struct settings *settings = &t->session->setup.settings;
    bool is_again = settings->train_epochs > 1, is_eval_again = settings->eval_every || t->stop.head;
    *train = (struct data_cache_budget){
        .ram_bytes = is_again ? settings->cache_ram : 0,
        .ssd_bytes = settings->cache_ssd,
        .path = settings->cache_path,
        .window = is_again && settings->cache_shuffle == CACHE_BLOCKS ? settings->cache_window : 0,
        .is_bounded = settings->train_steps_max > 0};
    if (train->window && settings->cache_ram == 0 && settings->cache_ssd == 0)
        FAIL(INVALID,
             "cache.shuffle = blocks needs all of the data in the cache for passes 2 to %" PRIu64
             ", found cache.ram = 0 and cache.ssd = 0; give one of them a size, or --set cache.shuffle=none",
             (uint64_t)settings->train_epochs);
    const uint32_t count = t->eval.sets.count;
    double share[EVAL_SETS_MAX], share_sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct evaluate_options *o = &t->eval.options[i];
        TRY(evaluate_lines(&t->session->setup, o->paths, t->options->data, &o->lines));
        if (holds_out(t)) o->lines = READER_HELD_OUT;
    }
    evaluate_shares(&t->session->setup, t->eval.options, count, t->options->data, share);
    for (uint32_t i = 0; i < count; i++) share_sum += share[i];
    for (uint32_t i = 0; i < count; i++) {
        struct data_cache_budget *cache = &t->eval.options[i].cache;
        const double of_ram = is_again ? share[i] : share[i] / share_sum; /* training that reads once needs none */
        cache->path = settings->cache_path;
        cache->ssd_bytes = (uint64_t)((double)settings->cache_ssd * share[i]);
        cache->ram_bytes = is_eval_again ? (uint64_t)((double)settings->cache_ram * of_ram) : 0;
        train->ssd_bytes -= cache->ssd_bytes;
        if (is_again) train->ram_bytes -= cache->ram_bytes;
    }
    return ST_OK;
}

/* Has room for all micro-batches that may be under way, at least for a step's. */
static status progressive_begin(struct trainer *t)
{
    const struct session *s = t->session;
    const uint32_t window = s->setup.settings.train_progressive, inputs = pipeline_input_count(s->crew.pipeline),
                   micro_count = batch_micro_count(graph_batch(t->graph));
    struct reduce *reduce = t->node ? node_reduce(t->node) : NULL;
    if (window == 0 || (reduce && reduce_exchange(reduce)->waves)) return ST_OK; /* waves have no order */
    return progressive_open(&t->progressive, t->graph, window, inputs > micro_count ? inputs : micro_count, reduce);
}

/* Takes memory for row_count and accounts. */
static status counts_open(struct trainer *t)
{
    const size_t row_bytes = t->graph->table_count * sizeof *t->row_count,
                 account_bytes = t->graph->table_count * sizeof *t->accounts;
    TRY(arena_open(&t->arena, "pipeline", arena_bytes(row_bytes) + arena_bytes(account_bytes)));
    t->row_count = arena_take(&t->arena, row_bytes);
    t->accounts = arena_take(&t->arena, account_bytes);
    return ST_OK;
}

/* Opens what is used in place of training. */
static status use_open(struct trainer *t)
{
    const struct train_use *use = t->options->use;
    eval_feeds_begin(&t->eval, &t->options->eval);
    TRY(counts_open(t));
    TRY(use->open(use->context, t->session, &t->eval));
    return setup_memory_check(&t->session->setup);
}

status train_open(struct trainer *t)
{
    struct session *s = t->session;
    if (t->options->use) return use_open(t);
    struct feed_options feed = crew_feed_options(&s->crew, t->options->data);
    feed.training = true;
    feed.epochs = s->setup.settings.train_epochs;
    feed.steps_max = s->setup.settings.train_steps_max;
    feed.reader.marks = true;
    if (t->node) feed.reader.share = reduce_stream(node_reduce(t->node));
    if (t->options->watch && t->options->watch->texts) {
        feed.reader.texts = t->options->watch->texts;
        feed.reader.bad_skip = true;
    }
    feed.reader.shuffle = s->setup.settings.data_shuffle;
    feed.reader.lines = s->setup.settings.data_eval_fraction > 0 ? READER_TRAIN : READER_ALL;
    const struct eval_sets *given = &t->options->eval, held_out = eval_sets_of(t->options->data);
    eval_feeds_begin(&t->eval, given->count == 0 && s->setup.settings.data_eval_fraction > 0 ? &held_out : given);
    if (paths_name_stdin(t->options->data) && eval_sets_name_stdin(given))
        FAIL(USAGE, "--data and --eval both read standard input; give one of them a file");
    TRY(heads_open(&t->heads, t->graph));
    TRY(early_stop_open(&t->stop, &t->heads, s->setup.settings.train_stop, s->setup.settings.train_patience,
                        &s->setup.model.best));
    if (t->stop.head && t->eval.sets.count == 0 && !t->options->dry_run)
        FAIL(INVALID, "train.stop = %s needs evaluation data; give --eval FILE, data.eval or data.eval_fraction",
             s->setup.settings.train_stop);
    TRY(counts_open(t));
    if (node_computes(t->node)) TRY(caches_share(t, &feed.cache));
    TRY(feed_open(&t->feed, &feed));
    feed_bell_set(t->feed, pipeline_feed_bell(s->crew.pipeline));
    TRY(stream_check(t));
    TRY(eval_feeds_reserve(&t->eval, &s->crew, &t->heads));
    TRY(progressive_begin(t));
    TRY(train_saver_open(t));
    TRY(eval_stream_check(t));
    TRY(train_nodes_check(t));
    TRY(settings_check(t));
    memory_note("threads", THREAD_STACK_BYTES); /* for the thread that touches rows' memory ahead */
    if (t->options->look) return ST_OK;
    setup_memory_plan(&s->setup, t->options->dry_run);
    return setup_memory_check(&s->setup);
}

status train_model_fill(struct trainer *t)
{
    struct model *model = &t->session->setup.model;
    TRY(train_nodes_start(t));
    if (t->options->resume && t->node)
        TRY(train_nodes_resume(t));
    else if (t->options->resume)
        TRY(t->options->is_new_pass ? model_continue(model, t->options->resume)
                                    : model_resume(model, t->options->resume));
    else
        model_init(model);
    if (t->options->init) TRY(warm_start(model, &(struct warm_start_options){.path = t->options->init}));
    if (t->options->init && !feed_is_stream(t->feed) && node_computes(t->node))
        TRY(first_rows_check(&t->session->crew, &t->session->setup, t->options->data, t->options->init));
    else if (t->options->init && t->node == NULL && !store_has_home(model->store)) {
        TRY(first_rows_open(&t->first_rows, &t->session->setup, feed_paths(t->feed), t->options->init));
        feed_look(t->feed, first_rows_look, t->first_rows);
    }
    for (uint32_t i = 0; i < t->graph->table_count; i++) t->row_count[i] = store_row_count(model->store, i);
    t->examples_reported = model->progress.examples;
    return ST_OK;
}
