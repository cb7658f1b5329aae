/* Measures, and runs the studies of a report, once a start. */
#include "engine/bench/placements.h"

#include <math.h>
#include <stdlib.h>

#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "engine/base/stop.h"
#include "engine/base/words.h"
#include "engine/bench/cell_times.h"

#define MEASURE_SECONDS 5.0
#define LEAVES_MIN      5u /* the usual sizes of sentences of the Stanford Sentiment Treebank */
#define LEAVES_MAX      34u
#define SMALL_MIN       2u /* with outputs at most PLACE_EXACT_MAX units */
#define SMALL_MAX       5u
#define CLASSES         5u
#define UPDATES         600.0
#define SAMPLES         16u
#define TRIALS          1000u
#define SMALL_LISTS     40u
#define EPISODES        10000.0
#define NOISE           3.0 /* a pass four times as long on average */

struct run {
    const struct placements_options *o;
    struct trees_report *r;
    const struct cluster_type *host, *card;
    struct place_cells cells;
    uint32_t leaf, inner; /* kinds of nodes */
    struct place_machine machine;
};

static status types_find(struct run *run)
{
    const struct cluster *c = run->o->cluster;
    for (uint32_t t = 0; t < c->type_count; t++) {
        const struct cluster_type *type = &c->types[t];
        if (type->resource.device == RESOURCE_CPU && run->host == NULL) run->host = type;
        if (type->resource.device != RESOURCE_CPU && type->has_rates && run->card == NULL) run->card = type;
    }
    if (run->host && run->card) return ST_OK;
    FAIL(INVALID, "%s: --trees needs %s, found none", c->path,
         run->host ? "a type of another device with flops, memory_bandwidth and link_bandwidth: the card"
                   : "a type with device = cpu: the processor");
}

static status kinds_find(struct run *run)
{
    const struct place_cells *cells = &run->cells;
    run->leaf = run->inner = cells->kind_count;
    for (uint32_t k = cells->kind_count; k-- > 0;) {
        if (cells->children_min[k] == 0) run->leaf = k;
        if (cells->children[k] == 2) run->inner = k;
    }
    if (run->leaf < cells->kind_count && run->inner < cells->kind_count) return ST_OK;
    FAIL(INVALID, "%s: --trees draws binary trees: expected a [cell] without children and one of two, found no %s",
         run->o->graph_path, run->leaf < cells->kind_count ? "one of two" : "one without");
}

/* --- the machine ------------------------------------------------------------------------------- */

/* Sets the times on all cores of the type. */
static void host_seconds_set(struct run *run, double measured[PLACE_KINDS_MAX][PLACE_SIZES])
{
    const struct cluster_rates *rates = &run->host->rates;
    const double cores = run->host->resource.limit, share = 1 - rates->alpha + rates->alpha / cores;
    const struct place_work *work = run->cells.work;
    const uint32_t output = run->cells.kind_count;
    /* An output is a product as fast as those of the cells. */
    for (uint32_t i = 0; i < PLACE_SIZES; i++)
        measured[output][i] = measured[run->inner][i] * work[output].flops / work[run->inner].flops;
    for (uint32_t k = 0; k <= output; k++)
        for (uint32_t i = 0; i < PLACE_SIZES; i++)
            run->machine.seconds[0][k][i] = measured[k][i] * share + (cores > 1 ? rates->batch_overhead : 0);
}

static void devices_set(struct run *run, uint32_t cards)
{
    const struct cluster_rates *rates[PLACE_DEVICES_MAX] = {&run->host->rates};
    run->machine.device_count = 1 + cards;
    for (uint32_t d = 1; d <= cards; d++) {
        rates[d] = &run->card->rates;
        for (uint32_t k = 0; k <= run->cells.kind_count; k++)
            place_seconds_declare(run->machine.seconds[d][k], &run->cells.work[k], rates[d]);
    }
    place_links_declare(&run->machine, &run->cells, true, rates);
}

/* Makes the machine of one host and one card. memory 0: the graph's. */
static status machine_make(struct run *run, uint32_t memory)
{
    double measured[PLACE_KINDS_MAX][PLACE_SIZES] = {{0}};
    struct cell_times_options options = {.graph = run->o->graph,
                                         .cells = &run->cells,
                                         .threads = 1,
                                         .isa = run->o->isa,
                                         .seconds = MEASURE_SECONDS * fmin(1, run->o->effort)};
    TRY(place_cells_of_graph(&run->cells, &options.tree, run->o->graph, run->o->graph_path, memory, CLASSES));
    TRY(kinds_find(run));
    TRY(cell_times_measure(measured, &options));
    run->machine = (struct place_machine){.is_together = true};
    host_seconds_set(run, measured);
    devices_set(run, 1);
    return ST_OK;
}

/* --- studies ------------------------------------------------------------------------------------ */

static uint32_t lists_of(uint32_t trees) { return trees <= 16 ? 20 : trees <= 64 ? 8 : 4; }

static status forests_make(const struct run *run, struct forests *f, uint32_t lists, uint32_t trees,
                           uint32_t leaves_min, uint32_t leaves_max)
{
    const struct forests_options options = {.count = lists,
                                            .trees = trees,
                                            .leaves_min = leaves_min,
                                            .leaves_max = leaves_max,
                                            .leaf_kind = run->leaf,
                                            .inner_kind = run->inner,
                                            .output_kind = run->cells.kind_count,
                                            .seed = run->o->seed};
    return forests_open(f, &options);
}

static struct study_options options_of(const struct run *run, struct forests *f, uint32_t seeds, bool has_dqn)
{
    const double updates = UPDATES * run->o->effort, episodes = EPISODES * run->o->effort;
    return (struct study_options){.machine = &run->machine,
                                  .forests = f,
                                  .seed = run->o->seed,
                                  .seeds = seeds,
                                  .updates = updates > STUDY_WINDOWS ? (uint32_t)updates : STUDY_WINDOWS,
                                  .samples = SAMPLES,
                                  .noise = seeds > 1 ? NOISE : 0,
                                  .trials = TRIALS,
                                  .dqn_episodes = !has_dqn || run->o->is_dqn_left_out ? 0
                                                  : episodes > STUDY_WINDOWS          ? (uint32_t)episodes
                                                                                      : STUDY_WINDOWS};
}

static status study_of(const struct run *run, struct study *s, uint32_t trees, uint32_t seeds, bool has_dqn,
                       double *nodes)
{
    struct forests f;
    if (stop_requested()) FAIL(STOPPED, "stopped while placements of trees were compared");
    TRY(forests_make(run, &f, lists_of(trees), trees, LEAVES_MIN, LEAVES_MAX));
    const struct study_options options = options_of(run, &f, seeds, has_dqn);
    const status st = study_run(s, &options);
    if (nodes) *nodes = f.node_count;
    forests_close(&f);
    return st;
}

static status small_of(const struct run *run, struct study_small *small)
{
    struct forests f;
    TRY(forests_make(run, &f, SMALL_LISTS, 1, SMALL_MIN, SMALL_MAX));
    const struct study_options options = options_of(run, &f, 1, false);
    const status st = study_small_run(small, &options);
    forests_close(&f);
    return st;
}

static int nodes_compare(const void *a, const void *b)
{
    const struct place_units *x = *(const struct place_units *const *)a, *y = *(const struct place_units *const *)b;
    return (x->count > y->count) - (x->count < y->count);
}

/* The least, the middle and the greatest tree of a list. */
static status inputs_of(const struct run *run)
{
    struct forests f;
    TRY(forests_make(run, &f, lists_of(1), 1, LEAVES_MIN, LEAVES_MAX));
    qsort(f.units, f.count, sizeof *f.units, nodes_compare);
    for (uint32_t i = 0; i < REPORT_INPUTS; i++) {
        const struct place_units *u = f.units[i * (f.count - 1) / (REPORT_INPUTS - 1)];
        run->r->input[i].nodes = u->count / 2;
        for (uint32_t d = 0; d < 2; d++) {
            for (uint32_t k = 0; k < u->count; k++) f.device[k] = (uint8_t)d;
            *(d ? &run->r->input[i].card_seconds : &run->r->input[i].host_seconds) =
                place_time(&f.clock, u, &run->machine, f.device).seconds;
        }
    }
    forests_close(&f);
    return ST_OK;
}

static status cards_of(struct run *run)
{
    struct trees_report *r = run->r;
    r->card_max = run->card->resource.limit < REPORT_CARDS ? run->card->resource.limit : REPORT_CARDS;
    for (uint32_t cards = 0; cards <= r->card_max; cards++) {
        devices_set(run, cards);
        TRY(study_of(run, &r->cards[cards], r->trees, 1, false, NULL));
    }
    devices_set(run, 1);
    return ST_OK;
}

static status grid_of(struct run *run)
{
    for (uint32_t a = 0; a < REPORT_MEMORIES; a++) {
        log_info("trees    memory %u of the grid", report_memories[a]);
        TRY(machine_make(run, report_memories[a]));
        TRY(small_of(run, &run->r->small[a]));
        for (uint32_t b = 0; b < REPORT_BATCHES; b++)
            TRY(study_of(run, &run->r->grid[a][b], report_batches[b], 1, true, NULL));
    }
    return ST_OK;
}

status placements_compare(struct trees_report *r, const struct placements_options *o)
{
    const uint64_t begin_ns = clock_ns();
    struct run run = {.o = o, .r = r};
    *r = (struct trees_report){.graph = graph_string(o->graph, o->graph->header->name),
                               .cluster = o->cluster->path,
                               .trees = o->trees,
                               .leaves_min = LEAVES_MIN,
                               .leaves_max = LEAVES_MAX,
                               .seeds = o->seeds,
                               .has_grid = o->has_grid};
    TRY(types_find(&run));
    r->host = run.host->resource.name;
    r->card = run.card->resource.name;
    r->cores = run.host->resource.limit;
    TRY(machine_make(&run, 0));
    r->memory = run.cells.units;
    r->machine = run.machine;
    log_info("trees    one at a time, %s", words_plural(WORDS, o->seeds, "seed"));
    TRY(study_of(&run, &r->one, 1, o->seeds, true, &r->nodes_one));
    log_info("trees    %u at once", o->trees);
    TRY(study_of(&run, &r->batch, o->trees, o->seeds, false, &r->nodes_batch));
    TRY(inputs_of(&run));
    TRY(small_of(&run, &r->small[0]));
    TRY(cards_of(&run));
    run.machine.is_synchronous = true;
    TRY(study_of(&run, &r->one_synchronous, 1, 1, false, NULL));
    TRY(study_of(&run, &r->batch_synchronous, o->trees, 1, false, NULL));
    run.machine.is_synchronous = false;
    if (o->has_grid) TRY(grid_of(&run));
    r->seconds = (double)(clock_ns() - begin_ns) * 1e-9;
    return ST_OK;
}
