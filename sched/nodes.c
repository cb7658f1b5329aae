/* Puts instances on nodes, and tells which link a cut crosses. Once a plan. */
#include "sched/nodes.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/words.h"
#include "sched/plan.h"

_Static_assert(INSTANCE_NODES_MAX == PLAN_NODES_MAX, "a plan may have stages on all nodes of an instance");

static status type_fail(const struct cluster *c, const struct cluster_type *type, const char *text)
{
    FAIL(INVALID, "%s:%u: [type %s]: %s", c->path, type->line, type->resource.name, text);
}

/* The network of a node as its types give it, for texts without links;
 * bandwidth 0: no type is on the node. */
static status network_of(const struct cluster *c, uint32_t node, struct instance_link *network)
{
    const struct cluster_type *first = NULL;
    *network = (struct instance_link){0};
    for (uint32_t t = 0; t < c->type_count; t++) {
        const struct cluster_type *type = &c->types[t];
        if (!(type->nodes >> node & 1)) continue;
        if (!(type->network_bandwidth > 0))
            return type_fail(c, type,
                             "expected network_bandwidth, as it has a node, or a section [link] for all links");
        if (first && (first->network_bandwidth != type->network_bandwidth ||
                      first->rates.link_latency != type->rates.link_latency))
            return type_fail(c, type,
                             "expected the network_bandwidth and link_latency of the other type on its node, "
                             "or a section [link] for all links");
        first = type;
        *network = (struct instance_link){type->network_bandwidth, type->rates.link_latency};
    }
    return ST_OK;
}

static bool is_used(const struct cluster *c, uint32_t node)
{
    for (uint32_t t = 0; t < c->type_count; t++)
        if (c->types[t].nodes >> node & 1) return true;
    return false;
}

/* Sets the links that the text leaves open. */
static status links_complete(const struct cluster *c, struct instance_nodes *n)
{
    struct instance_link network[INSTANCE_NODES_MAX] = {0};
    bool says_links = c->link.bandwidth > 0;
    for (uint32_t l = 0; l < n->count * n->count; l++) says_links |= n->links[l].bandwidth > 0;
    for (uint32_t a = 0; a < n->count && !says_links && n->count > 1; a++) TRY(network_of(c, a, &network[a]));
    for (uint32_t a = 0; a < n->count; a++)
        for (uint32_t b = 0; b < n->count; b++) {
            struct instance_link *link = instance_link(n, a, b);
            if (a == b || link->bandwidth > 0) continue;
            *link = c->link;
            if (!says_links)
                *link = (struct instance_link){network[b].bandwidth, fmax(network[a].latency, network[b].latency)};
            /* No text gives the links of a node without types, and no cut crosses them. */
            if (!(link->bandwidth > 0) && !(is_used(c, a) && is_used(c, b)))
                *link = (struct instance_link){RESOURCE_FIGURE_MAX, 0};
            if (!(link->bandwidth > 0))
                FAIL(INVALID,
                     "%s: expected how fast the link from node %s to node %s is, found nothing of it: "
                     "give [link %s..%s], or [link] for all that have no section; `doctor --cluster` measures them",
                     c->path, n->node[a].name, n->node[b].name, n->node[a].name, n->node[b].name);
        }
    return ST_OK;
}

status nodes_check(const struct cluster *c, const struct nodes_step *step)
{
    for (uint32_t t = 0; t < c->type_count; t++) {
        const struct cluster_type *type = &c->types[t];
        const uint32_t count = (uint32_t)__builtin_popcountll(type->nodes);
        char text[160];
        if (c->nodes == NULL) continue;
        if (count == 0) return type_fail(c, type, "expected a node of all types or of none");
        uint32_t lanes = count; /* that the examples of a step divide into */
        while (step->examples > lanes && fmod(step->examples, lanes) > 0) lanes++;
        snprintf(text, sizeof text,
                 "expected at most as many nodes as a step has lanes, %u, found %u; --set train.lanes=%u", step->lanes,
                 count, lanes);
        if (step->lanes > 0 && count > step->lanes) return type_fail(c, type, text);
    }
    return ST_OK;
}

status nodes_apply(struct instance *instance, const struct cluster *c, const struct nodes_step *step)
{
    struct instance_nodes *nodes;
    if (c->nodes == NULL) return ST_OK;
    TRY(nodes_check(c, step));
    CHECK(instance->type_count == c->type_count && step->message > 0 && instance->nodes == NULL);
    for (uint32_t l = 0; l + 1 < instance->layer_count && c->nodes->count > 1; l++)
        if (!(instance->layers[l].cut_bytes > 0))
            FAIL(INVALID, "%s: how much crosses the cut behind layer %s is not known, and types lie on nodes", c->path,
                 instance->layers[l].name);
    TRY(instance_nodes_copy(&nodes, c->nodes));
    nodes->message = step->message;
    nodes->step = step->examples;
    nodes->lanes = step->lanes;
    status st = links_complete(c, nodes);
    if (st != ST_OK) {
        instance_nodes_free(nodes);
        return st;
    }
    instance->nodes = nodes;
    for (uint32_t t = 0; t < c->type_count; t++) {
        struct resource_type *type = &instance->types[t].resource;
        type->nodes = c->types[t].nodes;
        const uint32_t count = resource_node_count(type), lanes = step->lanes / count;
        /* A lane is one card's, and each node has so many at least. */
        if (count > 1 && resource_is_card(type->device) && lanes > 0 && type->limit > lanes) type->limit = lanes;
    }
    return ST_OK;
}

uint64_t nodes_of_plan(const struct instance *instance, const struct cost_stage *stages, uint32_t stage_count,
                       uint32_t type)
{
    uint64_t all = 0;
    for (uint32_t s = 0; s < stage_count; s++) all |= instance->types[stages[s].type].resource.nodes;
    if ((all & (all - 1)) == 0) return 0;
    const uint64_t nodes = nodes_packed(instance->types[type].resource.nodes, all),
                   end = nodes_packed(instance->types[stages[stage_count - 1].type].resource.nodes, all);
    /* Without steps node 0 has the last stage (engine/node/stages.h): nodes below come behind it. */
    if (instance->run.micros < INSTANCE_NEVER_DRAINED || (end & (end - 1)) != 0) return nodes;
    return (nodes & ~(2 * end - 1)) | (nodes & (end - 1)) << 1 | ((nodes & end) != 0);
}

const char *nodes_misplaced_text(enum cost_misplaced misplaced)
{
    switch (misplaced) {
    case COST_PLACED: break;
    case COST_APART:
        return "layers that share a table or parameters, or losses and the last stage, would lie on different nodes";
    case COST_TABLES: return "tables would lie on several nodes, and not all on the same";
    case COST_RUNS: return "too many runs of neighbouring stages would lie on several nodes";
    }
    return "";
}

/* --- what crosses which link ------------------------------------------------------------------ */

static struct cost_uses stage_uses(const struct cost_model *m, const struct cost_stage *stages, uint32_t stage_count,
                                   uint32_t s)
{
    const uint64_t next = s + 1 < stage_count ? cost_nodes(m, stages[s + 1].type) : 0;
    return cost_uses_begin(m, stages[s].first, stages[s].last, stages[s].type, next);
}

static bool is_same_link(const struct nodes_cut *cut, const struct cost_use *use)
{
    return (cut->from == use->from && cut->to == use->to) || (cut->from == use->to && cut->to == use->from);
}

uint32_t nodes_cuts(const struct cost_model *m, const struct cost_stage *stages, uint32_t stage_count,
                    struct nodes_cut cuts[NODES_CUTS_MAX])
{
    struct cost_use use;
    uint32_t count = 0;
    for (uint32_t s = 0; s < stage_count; s++) {
        struct cost_uses uses = stage_uses(m, stages, stage_count, s);
        struct nodes_cut *exchange = NULL;
        while (cost_uses_next(&uses, &use)) {
            const double seconds = use.bytes * m->links[(size_t)use.from * m->node_count + use.to].a_byte + use.wait;
            struct nodes_cut *cut = use.is_exchange ? exchange : NULL;
            if (cut && !(seconds > cut->seconds)) continue;
            if (cut == NULL && count == NODES_CUTS_MAX) continue;
            if (cut == NULL) cut = &cuts[count++];
            *cut = (struct nodes_cut){s, use.from, use.to, use.is_exchange, use.bytes, seconds, 0};
            if (use.is_exchange) exchange = cut;
        }
    }
    for (uint32_t s = 0; s < stage_count; s++) {
        struct cost_uses uses = stage_uses(m, stages, stage_count, s);
        while (cost_uses_next(&uses, &use))
            for (uint32_t other = 0; other < count; other++) cuts[other].cut_count += is_same_link(&cuts[other], &use);
    }
    return count;
}

static const char *stage_text(const struct instance *instance, const struct cost_stage *stage, char *buffer,
                              size_t bytes)
{
    const char *first = instance->layers[stage->first].name, *last = instance->layers[stage->last].name;
    snprintf(buffer, bytes, "%s%s%s", first, stage->first < stage->last ? ".." : "",
             stage->first < stage->last ? last : "");
    return buffer;
}

/* "a, b and c", cut where the buffer is too short. */
static const char *nodes_names(const struct instance *instance, uint64_t nodes, char *buffer, size_t bytes)
{
    size_t used = 0;
    buffer[0] = 0;
    for (uint64_t left = nodes; left && used < bytes; left &= left - 1)
        used += (size_t)snprintf(buffer + used, bytes - used, "%s%s",
                                 left == nodes       ? ""
                                 : left & (left - 1) ? ", "
                                                     : " and ",
                                 instance->nodes->node[__builtin_ctzll(left)].name);
    return buffer;
}

/* Whether nodes of a stage on this side of the cut share it. */
static bool is_shared(const struct instance *instance, const struct cost_stage *stages, const struct nodes_cut *cut)
{
    return cut->is_exchange || resource_node_count(&instance->types[stages[cut->stage].type].resource) > 1 ||
           resource_node_count(&instance->types[stages[cut->stage + 1].type].resource) > 1;
}

char *nodes_cut_text(const struct instance *instance, const struct cost_stage *stages, const struct nodes_cut *cut,
                     char *buffer, size_t bytes)
{
    const struct instance_nodes *n = instance->nodes;
    const struct instance_link *there = instance_link(n, cut->from, cut->to),
                               *back = instance_link(n, cut->to, cut->from);
    char before[2 * INSTANCE_NAME_BYTES + 4], behind[2 * INSTANCE_NAME_BYTES + 4], shared[96] = "", rate[96];
    if (there->bandwidth == back->bandwidth)
        snprintf(rate, sizeof rate, "%s/s each way", words_bytes(WORDS, there->bandwidth));
    else
        snprintf(rate, sizeof rate, "%s/s there and %s/s back", words_bytes(WORDS, there->bandwidth),
                 words_bytes(WORDS, back->bandwidth));
    if (cut->cut_count > 1)
        snprintf(shared, sizeof shared, "; %u %s share the link", cut->cut_count,
                 is_shared(instance, stages, cut) ? "cuts and exchanges" : "cuts");
    stage_text(instance, &stages[cut->stage], before, sizeof before);
    if (cut->is_exchange) {
        char names[512];
        snprintf(buffer, bytes, "between nodes %s (%s): %s an example on each link, %s at %s, from %s to %s%s",
                 nodes_names(instance, instance->types[stages[cut->stage].type].resource.nodes, names, sizeof names),
                 before, words_bytes(WORDS, cut->bytes), words_seconds(WORDS, cut->seconds), rate,
                 n->node[cut->from].name, n->node[cut->to].name, shared);
        return buffer;
    }
    snprintf(buffer, bytes, "from node %s to %s (%s to %s): %s an example, %s at %s%s", n->node[cut->from].name,
             n->node[cut->to].name, before, stage_text(instance, &stages[cut->stage + 1], behind, sizeof behind),
             words_bytes(WORDS, cut->bytes), words_seconds(WORDS, cut->seconds), rate, shared);
    return buffer;
}
