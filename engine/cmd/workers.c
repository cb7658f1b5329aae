/* Virtual workers for plan --workers: prints a table of the chosen proposal's stages, the reason for its
 * number of minibatches in flight, and the rates of the other allocations. */
#include "engine/cmd/workers.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/log.h"
#include "engine/base/words.h"
#include "sched/workers/propose.h"
#include "sched/workers/wave.h"
#include "sched/workers/workers_plan.h"

#define TRIED_MAX  (ALLOCATION_ID_COUNT * PLACEMENT_COUNT)
#define NAME_WIDTH 20u

struct tried {
    allocation_id allocation;
    enum placement placement;
    struct proposal *proposal; /* NULL: none; the reason is below */
    char reason[512];
};
struct subject {
    struct workers_model model;
    struct workers_cluster cluster;
    struct cluster text; /* of a net */
    struct planner planner;
    struct tried tried[TRIED_MAX];
    uint32_t tried_count;
};

/* --- what is planned for ------------------------------------------------------------------------ */

static status net_read(struct subject *s, const struct planner_source *source)
{
    struct net net = {0};
    double flops[RESOURCE_TYPES_MAX];
    TRY(cluster_read(&s->text, source->cluster_path));
    for (uint32_t type = 0; type < s->text.type_count; type++) flops[type] = s->text.types[type].rates.flops;
    TRY(workers_cluster_of(&s->cluster, &s->text));
    TRY(net_make(&net, source->net, planner_classes(source)));
    const status st = workers_model_of_net(&s->model, &net, planner_batch(source), flops, s->text.type_count);
    net_free(&net);
    return st;
}

static status planner_read(struct subject *s, const struct planner_source *source)
{
    TRY(planner_open(&s->planner, source));
    TRY(workers_cluster_of(&s->cluster, &s->planner.cluster));
    return workers_model_of_instance(&s->model, &s->planner.instance);
}

/* --- trying ------------------------------------------------------------------------------------- */

/* The index of a name in a list that NULL ends; the list's length if the name is not in it. */
static uint32_t name_find(const char *const *names, const char *name)
{
    uint32_t i = 0;
    while (names[i] && strcmp(names[i], name) != 0) i++;
    return i;
}

static status asked_check(const struct planner_source *source, const struct workers_asked *asked)
{
    const uint32_t allocation = name_find(allocation_names, asked->allocation);
    if (allocation == ALLOCATION_ID_COUNT && strcmp(asked->allocation, "auto") != 0)
        FAIL(USAGE, "--workers: expected auto, np, ed or hd, found \"%s\"", asked->allocation);
    if (asked->placement && name_find(placement_names, asked->placement) == PLACEMENT_COUNT)
        FAIL(USAGE, "--placement: expected default or local, found \"%s\"", asked->placement);
    if (source->instance_path)
        FAIL(USAGE, "--workers asks a cluster for nodes and memory, which --instance does not have: "
                    "give GRAPH, --layers FILE or --net NAME, and --cluster FILE");
    if (source->cluster_path == NULL)
        FAIL(USAGE, "--workers needs --cluster FILE, with memory, per_node and network_bandwidth of its types");
    return planner_source_check(source);
}

static status one_try(struct subject *s, const struct workers_asked *asked, allocation_id allocation,
                      enum placement placement)
{
    struct tried *t = &s->tried[s->tried_count++];
    *t = (struct tried){.allocation = allocation, .placement = placement, .proposal = malloc(sizeof *t->proposal)};
    if (t->proposal == NULL) FAIL(MEMORY, "no memory for a proposal");
    const struct propose_options options = {
        .allocation = allocation, .placement = placement, .distance = asked->distance, .in_flight = asked->in_flight};
    const status st = workers_propose(t->proposal, &s->model, &s->cluster, &options);
    if (st == ST_OK) return ST_OK;
    free(t->proposal);
    t->proposal = NULL;
    snprintf(t->reason, sizeof t->reason, "%s", status_message());
    return st == ST_INFEASIBLE ? ST_OK : st;
}

static status all_try(struct subject *s, const struct workers_asked *asked)
{
    for (uint32_t a = 0; a < ALLOCATION_ID_COUNT; a++)
        for (uint32_t placement = 0; placement < PLACEMENT_COUNT; placement++) {
            const bool is_asked =
                strcmp(asked->allocation, "auto") == 0 || strcmp(asked->allocation, allocation_names[a]) == 0;
            if (!is_asked || (asked->placement && strcmp(asked->placement, placement_names[placement]) != 0)) continue;
            TRY(one_try(s, asked, (allocation_id)a, (enum placement)placement));
        }
    return ST_OK;
}

static const struct tried *best_of(const struct subject *s)
{
    const struct tried *best = NULL;
    for (uint32_t i = 0; i < s->tried_count; i++) {
        const struct tried *t = &s->tried[i];
        if (t->proposal && (best == NULL || t->proposal->result.rate > best->proposal->result.rate)) best = t;
    }
    return best;
}

/* --- telling ------------------------------------------------------------------------------------ */

/* worker_like: the first worker with the same cards; workers_alike: how many have them. */
static uint32_t worker_like(const struct proposal *p, uint32_t v)
{
    uint32_t like = 0;
    while (memcmp(&p->allocation.workers[like], &p->allocation.workers[v], sizeof p->allocation.workers[v]) != 0)
        like++;
    return like;
}
static uint32_t workers_alike(const struct proposal *p, uint32_t v)
{
    uint32_t count = 0;
    for (uint32_t u = 0; u < p->allocation.worker_count; u++) count += worker_like(p, u) == v;
    return count;
}

static void head_print(const struct subject *s, const struct proposal *p)
{
    char text[256];
    const struct workers_model *m = &s->model;
    printf("model      %s: %s, %s of weights, minibatches of %s\n", m->name,
           words_plural(WORDS, m->layer_count, "layer"), words_bytes(WORDS, workers_weights(m, 0, m->layer_count)),
           words_count(WORDS, m->batch));
    printf("cluster    %s:", words_plural(WORDS, s->cluster.node_count, "node"));
    for (uint32_t n = 0; n < s->cluster.node_count; n++)
        printf("%s %u %s", n ? "," : "", s->cluster.nodes[n].card_count, s->cluster.nodes[n].name);
    printf("; a card receives %s/s within its node, a node %s/s from others\n", words_bytes(WORDS, s->cluster.inside),
           words_bytes(WORDS, s->cluster.between));
    printf("workers    %s:", allocation_names[p->options.allocation]);
    for (uint32_t v = 0, shown = 0; v < p->allocation.worker_count; v++)
        if (worker_like(p, v) == v)
            printf("%s %u of %s", shown++ ? "," : "", workers_alike(p, v),
                   worker_cards_text(&p->allocation.workers[v], &s->cluster, text, sizeof text));
    printf("; parameters %s\n", p->options.placement == PLACEMENT_LOCAL ? "where their stage runs (local)"
                                                                        : "by turns on all nodes (default)");
}

/* Says what bounds the number in flight. */
static void in_flight_print(const struct subject *s, const struct proposal *p)
{
    char text[256];
    const uint32_t n = p->options.in_flight;
    printf("in flight  %u minibatch%s a worker", n, n == 1 ? "" : "es");
    if (p->fits == 0) {
        printf(", as asked\n");
        return;
    }
    double most = 0;
    for (uint32_t i = 1; i <= p->fits; i++)
        if (p->rates[i] > most) most = p->rates[i];
    printf(": %s of the greatest rate of up to %u", words_share(WORDS, p->rates[n] / most), p->fits);
    if (p->binds < p->allocation.worker_count)
        printf("; the memory of %s has no room for %u",
               worker_cards_text(&p->allocation.workers[p->binds], &s->cluster, text, sizeof text), p->fits + 1);
    printf("\n");
}

static void rate_print(const struct subject *s, const struct proposal *p)
{
    uint32_t refused = 0;
    char text[1024];
    struct worker_cards one = {0};
    const double horovod = horovod_rate(&s->model, &s->cluster, &refused);
    one.of_node[refused] = 1;
    printf("rate       %s examples/s, in simulation; ", words_number(WORDS, p->result.rate, 4));
    if (p->nodes_rate > 0)
        printf("as nodes train it, which receive while they compute: %s; ", words_number(WORDS, p->nodes_rate, 4));
    if (horovod > 0)
        printf("all cards by all-reduce: %s\n", words_number(WORDS, horovod, 4));
    else
        printf("by all-reduce none: %s\n", workers_misfit_text(&s->model, &s->cluster, &one, 1, text, sizeof text));
    printf("bytes      %s a minibatch come to nodes or leave them\n", words_bytes(WORDS, p->result.node_bytes));
    if (p->allocation.worker_count == 1) return;
    const uint32_t n = p->options.in_flight, d = p->options.distance;
    printf("staleness  D = %u: a minibatch misses at most %" PRIu64 " of its own worker, %" PRIu64 " of another\n", d,
           wsp_local_bound(n), wsp_global_bound(n, d));
}

static void stages_print(const struct subject *s, const struct proposal *p, uint32_t v)
{
    const struct workers_model *m = &s->model;
    char text[256], first[64], last[64];
    printf("\nworker of %s\n", worker_cards_text(&p->allocation.workers[v], &s->cluster, text, sizeof text));
    printf("  %-10s %-41s %10s %10s %5s %10s %10s\n", "card", "layers", "computes", "receives", "holds", "memory",
           "of");
    for (uint32_t q = 0; q < p->workers[v].stage_count; q++) {
        const struct partition_stage *stage = &p->workers[v].stages[q];
        const struct workers_memory memory = workers_memory_of(m, stage->first, stage->end, stage->held);
        const double seconds = stage->compute + stage->receive_forward + stage->receive_backward;
        char layers[160];
        words_name(first, sizeof first, m->names[stage->first], NAME_WIDTH);
        words_name(last, sizeof last, m->names[stage->end - 1], NAME_WIDTH);
        snprintf(layers, sizeof layers, "%s%s%s", first, stage->end - stage->first > 1 ? ".." : "",
                 stage->end - stage->first > 1 ? last : "");
        printf("  %-10s %-41s %10s %10s %5u %10s %10s%s\n", s->cluster.nodes[stage->node].name, layers,
               words_seconds(WORDS, stage->compute),
               words_seconds(WORDS, stage->receive_forward + stage->receive_backward), stage->held,
               words_bytes(WORDS, workers_memory_sum(&memory)),
               words_bytes(WORDS, s->cluster.nodes[stage->node].memory_bytes),
               seconds >= p->workers[v].seconds * (1 - 1e-9) ? "  the slowest" : "");
    }
}

static void others_print(const struct subject *s, const struct tried *best)
{
    if (s->tried_count > 1) printf("\n");
    for (uint32_t i = 0; i < s->tried_count; i++) {
        const struct tried *t = &s->tried[i];
        if (t == best) continue;
        printf("%s, %s: ", allocation_names[t->allocation], placement_names[t->placement]);
        if (t->proposal)
            printf("%s examples/s with %u in flight\n", words_number(WORDS, t->proposal->result.rate, 4),
                   t->proposal->options.in_flight);
        else
            printf("%s\n", t->reason);
    }
}

static void proposal_event(const struct subject *s, const struct proposal *p)
{
    log_event_begin("workers");
    log_event_text("model", s->model.name);
    log_event_text("allocation", allocation_names[p->options.allocation]);
    log_event_text("placement", placement_names[p->options.placement]);
    log_event_u64("workers", p->allocation.worker_count);
    log_event_u64("in_flight", p->options.in_flight);
    log_event_f64("rate", p->result.rate);
    if (p->nodes_rate > 0) log_event_f64("nodes_rate", p->nodes_rate);
    log_event_f64("node_bytes", p->result.node_bytes);
    log_event_end();
}

static status plan_write(const struct subject *s, const struct proposal *p, const char *path)
{
    const struct instance *instance = &s->planner.instance;
    const struct workers_plan plan = {.proposal = p,
                                      .model = &s->model,
                                      .cluster = &s->cluster,
                                      .text = s->text.types ? &s->text : &s->planner.cluster,
                                      .has_graph_hash = instance->has_graph_hash,
                                      .graph_hash = instance->graph_hash};
    return workers_plan_write(&plan, path);
}

/* How the plan is run. */
static void plan_print(const struct subject *s, const struct proposal *p, const char *path)
{
    const struct partition *cut = &p->workers[0];
    const uint32_t workers = p->allocation.worker_count;
    printf("\nplan       %s:", path);
    for (uint32_t q = cut->stage_count; q-- > 0;) {
        const uint32_t first = (cut->stage_count - 1 - q) * workers;
        printf("%s node%s %u", q + 1 < cut->stage_count ? "," : "", words_s(workers), first);
        if (workers > 1) printf(" to %u", first + workers - 1);
        printf(" on %s", s->cluster.nodes[cut->stages[q].node].name);
    }
    printf("; give --set train.sync=wsp --set train.in_flight=%u --set train.clock_distance=%u", p->options.in_flight,
           p->options.distance);
    /* Under wsp a minibatch is a batch of one micro-batch, in one lane. */
    const struct graph_header *graph = s->planner.graph.header;
    const uint32_t batch = (uint32_t)s->model.batch;
    if (graph && (graph->batch != batch || graph->micro != batch))
        printf(" --set train.batch=%u --set train.micro=%u", batch, batch);
    if (graph && graph->lanes != 1) printf(" --set train.lanes=1");
    printf("\n");
}

/* Tells the best proposal, or why there is none. */
static status outcome_tell(const struct subject *s, const char *out)
{
    const struct tried *best = best_of(s);
    if (best == NULL) FAIL(INFEASIBLE, "%s", s->tried[0].reason);
    const struct proposal *p = best->proposal;
    if (out) TRY(plan_write(s, p, out));
    proposal_event(s, p);
    if (log_format() != LOG_TEXT || log_verbosity() < 0 || (out && strcmp(out, "-") == 0)) return ST_OK;
    head_print(s, p);
    in_flight_print(s, p);
    rate_print(s, p);
    for (uint32_t v = 0; v < p->allocation.worker_count; v++)
        if (worker_like(p, v) == v) stages_print(s, p, v);
    others_print(s, best);
    if (out) plan_print(s, p, out);
    return ST_OK;
}

static status subject_read(struct subject *s, const struct planner_source *source)
{
    const bool is_net = source->net && source->graph_path == NULL && source->layers_path == NULL;
    return is_net ? net_read(s, source) : planner_read(s, source);
}

status workers_plan(const struct planner_source *source, const struct workers_asked *asked)
{
    struct subject s = {0};
    TRY(asked_check(source, asked));
    status st = subject_read(&s, source);
    if (st == ST_OK) st = all_try(&s, asked);
    if (st == ST_OK) st = outcome_tell(&s, asked->out);
    for (uint32_t i = 0; i < s.tried_count; i++) free(s.tried[i].proposal);
    workers_model_free(&s.model);
    cluster_free(&s.text);
    planner_close(&s.planner);
    return st;
}
