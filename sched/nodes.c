/* Adds links to instances: once a plan. */
#include "sched/nodes.h"

static status type_fail(const struct cluster *c, const struct cluster_type *type, const char *text)
{
    FAIL(INVALID, "%s:%u: [type %s]: %s", c->path, type->line, type->resource.name, text);
}

static status types_check(const struct cluster *c, bool *on_nodes)
{
    const struct cluster_type *first = &c->types[0];
    *on_nodes = first->node_plus > 0;
    for (uint32_t t = 0; t < c->type_count; t++) {
        const struct cluster_type *type = &c->types[t];
        if ((type->node_plus > 0) != *on_nodes) return type_fail(c, type, "expected a node of all types or of none");
        if (!*on_nodes) continue;
        for (uint32_t other = 0; other < t; other++)
            if (c->types[other].node_plus == type->node_plus)
                return type_fail(c, type, "another type is on its node: give each type a node of its own");
        if (!(type->network_bandwidth > 0)) return type_fail(c, type, "expected network_bandwidth, as it has a node");
        if (type->network_bandwidth != first->network_bandwidth ||
            type->rates.link_latency != first->rates.link_latency)
            return type_fail(c, type,
                             "expected the network_bandwidth and link_latency of the first type: links that differ "
                             "are not planned with yet");
    }
    return ST_OK;
}

status nodes_apply(struct instance *instance, const struct cluster *c, double micro)
{
    bool on_nodes;
    TRY(types_check(c, &on_nodes));
    if (!on_nodes) return ST_OK;
    CHECK(instance->type_count == c->type_count && micro > 0);
    for (uint32_t t = 0; t < c->type_count; t++) instance->types[t].resource.node_plus = c->types[t].node_plus;
    for (uint32_t l = 0; l + 1 < instance->layer_count; l++) {
        const double bytes = instance->layers[l].cut_bytes * instance->batch;
        if (!(bytes > 0))
            FAIL(INVALID, "%s: how much crosses the cut behind layer %s is not known, and types lie on nodes", c->path,
                 instance->layers[l].name);
        const double link =
            bytes / c->types[0].network_bandwidth + 2 * c->types[0].rates.link_latency * instance->batch / micro;
        for (uint32_t t = 0; t < instance->type_count; t++) {
            struct instance_time *time = &instance->times[(size_t)l * instance->type_count + t];
            const double shared = time->odt * time->beta;
            time->odt += link;
            time->beta = shared / time->odt;
        }
    }
    return ST_OK;
}

bool nodes_of_plan(const struct instance *instance, const struct cost_stage *stages, uint32_t stage_count,
                   uint32_t type, uint32_t *node)
{
    const uint32_t own = instance->types[type].resource.node_plus;
    uint32_t count = 0;
    *node = 0;
    for (uint32_t t = 0; t < instance->type_count; t++) {
        const uint32_t other = instance->types[t].resource.node_plus;
        uint32_t s = 0;
        while (s < stage_count && stages[s].type != t) s++;
        if (other == 0 || s == stage_count) continue;
        count++;
        *node += other < own;
    }
    return count > 1;
}
