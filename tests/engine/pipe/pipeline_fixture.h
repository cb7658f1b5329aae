/* What the tests of the pipeline share: click data of their own, plans in a short notation, and
 * a training that opens what engine/run/session.c opens, but from texts and with a machine of
 * any size. Include after cmocka.h. */
#ifndef HETERPS_TESTS_PIPELINE_FIXTURE_H
#define HETERPS_TESTS_PIPELINE_FIXTURE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "engine/node/reduce.h"
#include "engine/data/schema.h"
#include "engine/node/stages.h"
#include "engine/pipe/feed.h"
#include "engine/pipe/pipeline_internal.h"
#include "io/store/store_rows.h"
#include "tests/engine/fixture_clicks.h"
#include "tests/engine/pipe/plan_fixture.h"

/* Sanitizers make everything slow: fewer runs of shorter data are enough for them. */
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
#define SCALED(normal, sanitized) (sanitized)
#else
#define SCALED(normal, sanitized) (normal)
#endif

#define FIXTURE_TABLES 4

FIXTURE static int fixture_open(void **state)
{
    (void)state;
    if (fixture_directory_make("test_pipeline") != 0) return -1;
    alarm(300); /* a pipeline that hangs ends the program, and so fails the test */
    return 0;
}

FIXTURE static void fixture_tree_remove(const char *name)
{
    assert_int_equal(nftw(fixture_path(name), fixture_remove, 16, FTW_DEPTH | FTW_PHYS), 0);
}

FIXTURE static int fixture_close(void **state)
{
    (void)state;
    return fixture_directory_remove();
}

/* --- a training ------------------------------------------------------------------------------- */

struct setup {
    const char *plan; /* NULL: one stage, all threads in one gang                                  */
    uint32_t threads;
    bool share;
    uint32_t in_flight;
    uint64_t delay_seed;
    uint32_t delay_ns_max;
    uint64_t ram_bytes, disk_bytes; /* 0: as the text says; no disk                             */
    const char *disk_name;          /* of its directory; NULL: "disk"                           */
    uint64_t card_row_bytes;
    bool io_threads;
    bool joins_lanes;            /* as a training does that has one stage on cores                      */
    struct reduce_options nodes; /* node_count 0: there is one */
};

struct training {
    struct graph graph;
    struct ini ini;
    struct settings settings;
    struct schema schema;
    struct model model;
    struct cores cores;
    struct plan plan;
    struct reduce *reduce;         /* with the other nodes, or NULL */
    struct exchange_stages stages; /* of a plan with nodes */
    struct pipeline *pipeline;
    struct feed *feed;
    bool is_end;
    /* told by workers, one at a time */
    uint64_t row_count[FIXTURE_TABLES];
    uint32_t ticket;
    double *loss; /* [loss_max]: of the step's examples, summed; NULL: not kept            */
    uint32_t *example_count;
    uint64_t loss_max;
    XXH3_state_t *told; /* hash of all that was told */
    /* when to stop by itself */
    bool wants_stop;
    uint64_t stop_step; /* of several nodes: after this step; 0: after none */
};

FIXTURE static void training_told(void *context, const struct step_done *done)
{
    struct training *t = context;
    struct progress *progress = &t->model.progress;
    /* Steps come in order; a worker may not longjmp. */
    CHECK(done->step == progress->step && t->graph.table_count <= FIXTURE_TABLES);
    if (done->epoch != progress->epoch) {
        progress->epoch = done->epoch;
        progress->epoch_examples = 0;
    }
    if (progress->step < t->loss_max) {
        t->loss[progress->step] = done->loss_sum;
        t->example_count[progress->step] = done->example_count;
    }
    progress->step++;
    progress->epoch_examples += done->example_count;
    progress->examples += done->example_count;
    for (uint32_t i = 0; i < t->graph.table_count; i++) t->row_count[i] = done->row_count[i];
    t->ticket = done->ticket;
    if (t->reduce && t->stop_step && progress->step == t->stop_step) {
        struct exchange *exchange = reduce_exchange(t->reduce);
        exchange->vt->job_stop(exchange);
    }
    XXH3_64bits_update(t->told, &done->loss_sum, sizeof done->loss_sum);
    XXH3_64bits_update(t->told, t->row_count, sizeof t->row_count);
}

FIXTURE static bool training_tick(void *context) { return ((struct training *)context)->wants_stop; }

FIXTURE static void training_close(struct training *t)
{
    pipeline_forget(t->pipeline);
    feed_close(t->feed);
    pipeline_close(t->pipeline);
    reduce_close(t->reduce);
    stages_free(&t->stages);
    plan_free(&t->plan);
    model_close(&t->model);
    schema_close(&t->schema);
    ini_free(&t->ini);
    graph_close(&t->graph);
    XXH3_freeState(t->told);
    free(t->loss);
    free(t->example_count);
    memset(t, 0, sizeof *t);
}

/* On as many nodes as there are. */
FIXTURE static status training_stages_place(struct training *t, struct reduce_options *nodes)
{
    const uint32_t ranks[] = {0, 1, 2, 3, 4, 5, 6, 7};
    const struct stages_options options = {.graph = &t->graph,
                                           .plan = &t->plan,
                                           .node_count = nodes->node_count,
                                           .job_nodes = nodes->node_count,
                                           .rank_of = ranks,
                                           .index = nodes->rank,
                                           .has_waves = nodes->has_waves};
    TRY(stages_place(&t->stages, &options));
    for (uint32_t s = 0; s < t->plan.stage_count; s++)
        t->plan.stages[s].is_elsewhere = exchange_stage_lanes(&t->stages, s, nodes->rank).count == 0;
    nodes->stages = &t->stages;
    return ST_OK;
}

/* Opens everything up to the feed, which is not started; `set` ends in NULL. */
FIXTURE static status training_open_parts(struct training *t, const char *text, const char *const *set,
                                          const char *data, const struct setup *setup)
{
    uint32_t set_count = 0;
    char json[4096];
    while (set && set[set_count]) set_count++;
    TRY(graph_compile(&t->graph, "test.cfg", text, strlen(text), set, set_count, NULL));
    if (setup->joins_lanes) graph_lanes_join(&t->graph, "test.cfg");
    TRY(ini_parse(&t->ini, "test.cfg", t->graph.text, t->graph.text_bytes));
    TRY(settings_read(&t->ini, &t->settings));
    TRY(schema_open(&t->schema, &t->graph, &t->settings));
    TRY(model_open(&t->model, &t->graph,
                   &(struct model_budget){
                       .ram_bytes = setup->ram_bytes ? setup->ram_bytes : t->settings.store_ram,
                       .disk_bytes = setup->disk_bytes,
                       .path = setup->disk_bytes ? fixture_path(setup->disk_name ? setup->disk_name : "disk") : NULL,
                       .io_threads = setup->io_threads,
                       .lives = true}));
    cores_allowed(&t->cores);
    if (setup->plan) {
        plan_json(json, sizeof json, setup->plan);
        TRY(plan_parse(&t->plan, &t->graph, "plan.json", json, strlen(json)));
    } else {
        TRY(plan_single(&t->plan, &t->graph, setup->threads));
    }
    struct reduce_options nodes = setup->nodes;
    nodes.graph = &t->graph;
    nodes.model = &t->model;
    nodes.is_bf16 = t->settings.train_reduce == REDUCE_BF16;
    if (t->plan.node_count) TRY(training_stages_place(t, &nodes));
    if (nodes.node_count) TRY(reduce_open(&t->reduce, &nodes));
    struct exchange *exchange = t->reduce ? reduce_exchange(t->reduce) : NULL;
    struct pipeline_options options = {.graph = &t->graph,
                                       .model = &t->model,
                                       .plan = &t->plan,
                                       .share = setup->share,
                                       .cores = &t->cores,
                                       .core_count = setup->threads,
                                       .card_row_bytes = setup->card_row_bytes,
                                       .training = true,
                                       .sync = t->settings.train_sync,
                                       .in_flight = setup->in_flight ? setup->in_flight : t->settings.train_in_flight,
                                       .pipeline_count = t->settings.train_pipelines,
                                       .clock_distance = t->settings.train_clock_distance,
                                       .is_exact = t->settings.train_exact,
                                       .is_bf16 = t->settings.train_reduce == REDUCE_BF16,
                                       .exchange = exchange};
    TRY(pipeline_open(&t->pipeline, &options));
    pipeline_delay_set(t->pipeline, setup->delay_seed, setup->delay_ns_max);
    struct feed_options feed = {.graph = &t->graph,
                                .model = &t->model,
                                .training = true,
                                .exchange = exchange_of_rows(exchange),
                                .lanes = exchange_lanes(exchange),
                                .is_by_step = exchange_shares_stages(exchange),
                                .waves = exchange ? exchange->waves : NULL,
                                .input_count = pipeline_input_count(t->pipeline),
                                .epochs = t->settings.train_epochs,
                                .steps_max = t->settings.train_steps_max,
                                .reader = {.format = READER_CRITEO,
                                           .paths = data,
                                           .schema = t->schema.reader,
                                           .shuffle = t->settings.data_shuffle,
                                           .seed = t->graph.header->seed,
                                           .part = "reader"}};
    TRY(feed_open(&t->feed, &feed));
    feed_bell_set(t->feed, pipeline_feed_bell(t->pipeline));
    return ST_OK;
}

/* On failure everything is closed. */
FIXTURE static status training_open(struct training *t, const char *text, const char *const *set, const char *data,
                                    const struct setup *setup)
{
    memset(t, 0, sizeof *t);
    t->told = XXH3_createState();
    XXH3_64bits_reset(t->told);
    status st = training_open_parts(t, text, set, data, setup);
    if (st == ST_OK) return st;
    struct failure failure;
    failure_keep(&failure, st);
    training_close(t);
    return failure_adopt(&failure);
}

/* Keeps the losses of steps below `count`. */
FIXTURE static void training_losses_keep(struct training *t, uint64_t count)
{
    t->loss = calloc(count, sizeof *t->loss);
    t->example_count = calloc(count, sizeof *t->example_count);
    assert_true(t->loss && t->example_count);
    t->loss_max = count;
}

/* Fills the model, from a directory if one is named, and starts the feed. */
FIXTURE static void training_start(struct training *t, const char *resume)
{
    if (resume)
        assert_ok(model_load(&t->model, resume));
    else
        model_init(&t->model);
    for (uint32_t i = 0; i < t->graph.table_count; i++) t->row_count[i] = store_row_count(t->model.store, i);
    struct progress from = t->model.progress;
    if (t->reduce) reduce_start(t->reduce, from.step);
    assert_ok(feed_start(t->feed, &from));
}

/* Saves the model as of the last finished step. */
FIXTURE static void training_save(const struct training *t, const char *path)
{
    struct model_save_options options = {.path = path, .row_count = t->row_count, .ticket = t->ticket};
    assert_ok(feed_hold(t->feed));
    assert_ok(model_save(&t->model, &options, NULL));
    feed_let_go(t->feed);
}

/* Trains until `step`, UINT64_MAX: to the end of the data. What the feed fails with is told at the end. */
FIXTURE static status training_until(struct training *t, uint64_t step)
{
    struct train_job job = {
        .feed = t->feed, .step_until = step, .step_done = training_told, .tick = training_tick, .context = t};
    TRY(pipeline_train(t->pipeline, &job, &t->is_end));
    return t->is_end ? feed_result(t->feed) : ST_OK;
}

struct keyed_row {
    uint64_t key;
    const float *span;
};
FIXTURE static int keyed_row_compare(const void *a, const void *b)
{
    uint64_t x = ((const struct keyed_row *)a)->key, y = ((const struct keyed_row *)b)->key;
    return x < y ? -1 : x > y;
}

/* The rows of a table as of the last finished step in the order of their keys: of one training, or of the
 * nodes of one, that each have some. */
FIXTURE static void training_rows_hash(XXH3_state_t *hash, const struct training *const *nodes, uint32_t node_count,
                                       uint32_t table)
{
    const uint64_t most = nodes[0]->row_count[table];
    uint64_t count = 0;
    struct keyed_row *rows = malloc((most + 1) * sizeof *rows);
    assert_non_null(rows);
    for (uint32_t n = 0; n < node_count; n++) {
        const uint64_t own = node_count == 1 ? most : store_row_count(nodes[n]->model.store, table);
        assert_true(count + own <= most);
        for (uint64_t i = 0; i < own; i++)
            rows[count++] = (struct keyed_row){store_key(nodes[n]->model.store, table, i),
                                               store_span(nodes[n]->model.store, table, i)};
    }
    qsort(rows, count, sizeof *rows, keyed_row_compare);
    for (uint64_t i = 0; i < count; i++) {
        XXH3_64bits_update(hash, &rows[i].key, sizeof rows[i].key);
        XXH3_64bits_update(hash, rows[i].span, nodes[0]->graph.tables[table].span_floats * sizeof(float));
    }
    free(rows);
}

/* Parameters, optimizer state, progress, and rows: the first node's, but for rows, of which each has some. */
FIXTURE static uint64_t training_nodes_hash(const struct training *const *nodes, uint32_t node_count)
{
    const struct training *t = nodes[0];
    const struct graph *g = &t->graph;
    XXH3_state_t *hash = XXH3_createState();
    XXH3_64bits_reset(hash);
    XXH3_64bits_update(hash, t->model.param, g->header->param_floats * sizeof(float));
    XXH3_64bits_update(hash, t->model.state, g->header->state_floats * sizeof(float));
    XXH3_64bits_update(hash, &t->model.progress, sizeof t->model.progress);
    for (uint32_t table = 0; table < g->table_count; table++) training_rows_hash(hash, nodes, node_count, table);
    uint64_t result = XXH3_64bits_digest(hash);
    XXH3_freeState(hash);
    return result;
}
FIXTURE static uint64_t training_hash(const struct training *t) { return training_nodes_hash(&t, 1); }

/* Runs the forward pass over the data, and hashes what the heads read in the order in which it is told. */
struct predicted {
    const struct graph *graph;
    XXH3_state_t *hash;
};
FIXTURE static status training_predicted(void *context, const struct slot *slot)
{
    const struct predicted *predicted = context;
    for (uint32_t i = graph_head_next(predicted->graph, 0); i < predicted->graph->forward_count;
         i = graph_head_next(predicted->graph, i + 1))
        for (uint32_t b = 0; b < slot->input->batch.example_count; b++) {
            struct view in = slot->tensor[predicted->graph->args[predicted->graph->nodes[i].arg_begin]];
            XXH3_64bits_update(predicted->hash, in.data + (size_t)b * in.stride, in.cols * sizeof *in.data);
        }
    return ST_OK;
}
FIXTURE static uint64_t training_predict(struct training *t, const char *data)
{
    struct feed *feed;
    struct feed_options options = {
        .graph = &t->graph,
        .model = &t->model,
        .exchange = exchange_of_rows(t->reduce ? reduce_exchange(t->reduce) : NULL),
        .all_lanes = true,
        .input_count = pipeline_input_count(t->pipeline),
        .epochs = 1,
        .reader = {.format = READER_CRITEO, .paths = data, .schema = t->schema.reader, .part = "reader"}};
    assert_ok(feed_open(&feed, &options));
    feed_bell_set(feed, pipeline_feed_bell(t->pipeline));
    assert_ok(feed_start(feed, NULL));
    XXH3_state_t *hash = XXH3_createState();
    XXH3_64bits_reset(hash);
    struct predicted predicted = {&t->graph, hash};
    assert_ok(pipeline_forward(t->pipeline, feed, training_predicted, NULL, &predicted));
    uint64_t result = XXH3_64bits_digest(hash);
    XXH3_freeState(hash);
    feed_close(feed);
    return result;
}

/* --- random choices --------------------------------------------------------------------------- */

/* Below `bound`, from a state that the test keeps. */
FIXTURE static uint64_t draw(uint64_t *state, uint64_t bound)
{
    uint64_t x = (*state += UINT64_C(0x9e3779b97f4a7c15));
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return (x ^ x >> 31) % bound;
}

#endif
