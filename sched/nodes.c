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
        if (type->node_plus != node + 1) continue;
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
        if (c->types[t].node_plus == node + 1) return true;
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

static status types_check(const struct cluster *c)
{
    for (uint32_t t = 0; t < c->type_count; t++)
        if (c->types[t].node_plus == 0) return type_fail(c, &c->types[t], "expected a node of all types or of none");
    return ST_OK;
}

status nodes_apply(struct instance *instance, const struct cluster *c, double message)
{
    struct instance_nodes *nodes;
    if (c->nodes == NULL) return ST_OK;
    TRY(types_check(c));
    CHECK(instance->type_count == c->type_count && message > 0 && instance->nodes == NULL);
    for (uint32_t l = 0; l + 1 < instance->layer_count && c->nodes->count > 1; l++)
        if (!(instance->layers[l].cut_bytes > 0))
            FAIL(INVALID, "%s: how much crosses the cut behind layer %s is not known, and types lie on nodes", c->path,
                 instance->layers[l].name);
    TRY(instance_nodes_copy(&nodes, c->nodes));
    nodes->message = message;
    status st = links_complete(c, nodes);
    if (st != ST_OK) {
        instance_nodes_free(nodes);
        return st;
    }
    instance->nodes = nodes;
    for (uint32_t t = 0; t < c->type_count; t++) instance->types[t].resource.node_plus = c->types[t].node_plus;
    return ST_OK;
}

bool nodes_of_plan(const struct instance *instance, const struct cost_stage *stages, uint32_t stage_count,
                   uint32_t type, uint32_t *node)
{
    const uint32_t own = instance->types[type].resource.node_plus;
    bool is_in[INSTANCE_NODES_MAX + 1] = {0};
    uint32_t count = 0;
    *node = 0;
    for (uint32_t s = 0; s < stage_count; s++) is_in[instance->types[stages[s].type].resource.node_plus] = true;
    for (uint32_t number = 1; number <= INSTANCE_NODES_MAX; number++) {
        count += is_in[number];
        *node += is_in[number] && number < own;
    }
    return count > 1;
}

/* --- what crosses which link ------------------------------------------------------------------ */

uint32_t nodes_cuts(const struct cost_model *m, const struct cost_stage *stages, uint32_t stage_count,
                    struct nodes_cut *cuts)
{
    uint32_t count = 0;
    for (uint32_t s = 0; s + 1 < stage_count; s++) {
        const struct cost_link *link = cost_link(m, stages[s].type, stages[s + 1].type);
        if (link == NULL) continue;
        cuts[count++] = (struct nodes_cut){.stage = s,
                                           .from = m->node[stages[s].type],
                                           .to = m->node[stages[s + 1].type],
                                           .bytes = m->cut_bytes[stages[s].last],
                                           .seconds = cost_link_seconds(m, stages[s].last, link)};
    }
    for (uint32_t a = 0; a < count; a++)
        for (uint32_t b = 0; b < count; b++)
            cuts[a].cut_count += (cuts[a].from == cuts[b].from && cuts[a].to == cuts[b].to) ||
                                 (cuts[a].from == cuts[b].to && cuts[a].to == cuts[b].from);
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
    if (cut->cut_count > 1) snprintf(shared, sizeof shared, "; %u cuts share the link", cut->cut_count);
    snprintf(buffer, bytes, "from node %s to %s (%s to %s): %s an example, %s at %s%s", n->node[cut->from].name,
             n->node[cut->to].name, stage_text(instance, &stages[cut->stage], before, sizeof before),
             stage_text(instance, &stages[cut->stage + 1], behind, sizeof behind), words_bytes(WORDS, cut->bytes),
             words_seconds(WORDS, cut->seconds), rate, shared);
    return buffer;
}
