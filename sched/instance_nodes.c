/* Makes, reads, checks and writes the nodes that an instance's types lie on. Once a start. */
#include "sched/instance_nodes.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

status instance_nodes_make(struct instance_nodes **out, uint32_t count, double message)
{
    *out = NULL;
    if (count < 1 || count > INSTANCE_NODES_MAX)
        FAIL(INVALID, "expected 1 to %u nodes, found %u", INSTANCE_NODES_MAX, count);
    struct instance_nodes *n =
        calloc(1, sizeof *n + count * sizeof *n->node + (size_t)count * count * sizeof *n->links);
    if (n == NULL) FAIL(MEMORY, "no memory for %u nodes", count);
    *n = (struct instance_nodes){.count = count, .message = message, .node = (struct instance_node *)(n + 1)};
    n->links = (struct instance_link *)(n->node + count);
    *out = n;
    return ST_OK;
}
_Static_assert(sizeof(struct instance_nodes) % 8 == 0 && sizeof(struct instance_node) % 8 == 0,
               "what stands behind them is aligned");

status instance_nodes_copy(struct instance_nodes **to, const struct instance_nodes *from)
{
    *to = NULL;
    if (from == NULL) return ST_OK;
    TRY(instance_nodes_make(to, from->count, from->message));
    (*to)->step = from->step;
    (*to)->lanes = from->lanes;
    memcpy((*to)->node, from->node, from->count * sizeof *from->node);
    memcpy((*to)->links, from->links, (size_t)from->count * from->count * sizeof *from->links);
    return ST_OK;
}

void instance_nodes_free(struct instance_nodes *nodes) { free(nodes); }

/* --- reading ---------------------------------------------------------------------------------- */

static status link_read(struct instance_nodes *n, const struct json_part *part)
{
    uint32_t from = 0, to = 0;
    TRY(json_part_u32(part, "from", JSON_REQUIRED, 0, n->count - 1, &from));
    TRY(json_part_u32(part, "to", JSON_REQUIRED, 0, n->count - 1, &to));
    struct instance_link *link = instance_link(n, from, to);
    if (to == from)
        return json_part_wrong(part, "to", json_object_get(part->object, "to"), "another node than \"from\"");
    if (link->bandwidth > 0)
        return json_part_wrong(part, "to", json_object_get(part->object, "to"), "one link from a node to another");
    TRY(json_part_real(part, "bandwidth", JSON_REQUIRED, RESOURCE_FIGURE_MIN, RESOURCE_FIGURE_MAX, &link->bandwidth));
    return json_part_real(part, "latency", JSON_REQUIRED, 0, RESOURCE_FIGURE_MAX, &link->latency);
}

static status links_read(struct instance_nodes *n, const struct json_part *whole)
{
    json_t *list = NULL;
    struct json_part part;
    if (n->count > 1) TRY(json_part_list(whole, "links", n->count * (n->count - 1), &list));
    for (uint32_t item = 0; item < json_array_size(list); item++) {
        TRY(json_part_item(whole, "links", list, item, &part));
        TRY(link_read(n, &part));
    }
    for (uint32_t from = 0; from < n->count; from++)
        for (uint32_t to = 0; to < n->count; to++)
            if (from != to && !(instance_link(n, from, to)->bandwidth > 0))
                return json_part_wrong(whole, "links", list,
                                       "a link from node %u to node %u, as from each to each other", from, to);
    return ST_OK;
}

status instance_nodes_read(struct instance *instance, const struct json_part *whole)
{
    json_t *list = NULL;
    struct json_part part;
    double message = 0;
    TRY(json_part_list(whole, "nodes", INSTANCE_NODES_MAX, &list));
    TRY(json_part_real(whole, "message", JSON_REQUIRED, RESOURCE_FIGURE_MIN, RESOURCE_FIGURE_MAX, &message));
    TRY(instance_nodes_make(&instance->nodes, (uint32_t)json_array_size(list), message));
    struct instance_nodes *n = instance->nodes;
    TRY(json_part_real(whole, "step", JSON_OPTIONAL, RESOURCE_FIGURE_MIN, RESOURCE_FIGURE_MAX, &n->step));
    TRY(json_part_u32(whole, "lanes", JSON_OPTIONAL, 1, INSTANCE_LANES_MAX, &n->lanes));
    for (uint32_t item = 0; item < n->count; item++) {
        struct instance_node *node = &n->node[item];
        TRY(json_part_item(whole, "nodes", list, item, &part));
        TRY(json_part_text(&part, "name", JSON_REQUIRED, INSTANCE_NODE_BYTES, node->name));
        TRY(json_part_real(&part, "memory", JSON_OPTIONAL, 0, RESOURCE_FIGURE_MAX, &node->memory_bytes));
        TRY(json_part_real(&part, "price_per_hour", JSON_OPTIONAL, 0, RESOURCE_FIGURE_MAX, &node->price_per_hour));
        TRY(json_part_u32(&part, "cores", JSON_OPTIONAL, 1, INSTANCE_CORES_MAX, &node->cores));
    }
    return links_read(n, whole);
}

status instance_type_nodes_read(const struct instance *instance, const struct json_part *part,
                                struct resource_type *type)
{
    const struct instance_nodes *n = instance->nodes;
    if (n == NULL) return ST_OK;
    TRY(json_part_nodes(part, n->count, &type->nodes));
    if (type->nodes == 0)
        return json_part_wrong(part, "node", NULL, "the node that its units are on, or \"nodes\", from 0 to %u",
                               n->count - 1);
    if (n->lanes == 0 || resource_node_count(type) <= n->lanes) return ST_OK;
    return json_part_wrong(part, "nodes", json_object_get(part->object, "nodes"),
                           "at most %u nodes, as a step has so many lanes", n->lanes);
}

/* --- checking --------------------------------------------------------------------------------- */

static bool is_within(double number, double min, double max) { return number >= min && number <= max; }

status instance_nodes_check(const struct instance *i)
{
    const struct instance_nodes *n = i->nodes;
    const double least = RESOURCE_FIGURE_MIN, most = RESOURCE_FIGURE_MAX;
    for (uint32_t t = 0; t < i->type_count; t++) {
        const struct resource_type *type = &i->types[t].resource;
        if ((type->nodes != 0) != (n != NULL) || (n && (type->nodes & ~instance_nodes_all(n))))
            FAIL(INVALID, "type \"%s\" is on nodes 0x%" PRIx64 " of %u", type->name, type->nodes, n ? n->count : 0);
        if (n && n->lanes > 0 && resource_node_count(type) > n->lanes)
            FAIL(INVALID, "type \"%s\" is on %u nodes, which share %u lanes", type->name, resource_node_count(type),
                 n->lanes);
    }
    if (n == NULL) return ST_OK;
    if (!is_within(n->message, least, most)) FAIL(INVALID, "a message of %g examples", n->message);
    if (n->step != 0 && !is_within(n->step, least, most)) FAIL(INVALID, "a step of %g examples", n->step);
    if (n->lanes > INSTANCE_LANES_MAX) FAIL(INVALID, "a step of %u lanes", n->lanes);
    for (uint32_t a = 0; a < n->count; a++) {
        const struct instance_node *node = &n->node[a];
        if (node->name[0] == 0 || !json_is_plain(node->name))
            FAIL(INVALID, "node %u has no name, or one that is not UTF-8", a);
        if (!is_within(node->memory_bytes, 0, most) || !is_within(node->price_per_hour, 0, most))
            FAIL(INVALID, "node \"%s\" with %g bytes of memory, at %g USD an hour", node->name, node->memory_bytes,
                 node->price_per_hour);
        if (node->cores > INSTANCE_CORES_MAX) FAIL(INVALID, "node \"%s\" with %u cores", node->name, node->cores);
        for (uint32_t b = 0; b < n->count; b++) {
            const struct instance_link *link = instance_link(n, a, b);
            if (a != b && (!is_within(link->bandwidth, least, most) || !is_within(link->latency, 0, most)))
                FAIL(INVALID, "a link from node \"%s\" to node \"%s\" of %g bytes/s and %g s", node->name,
                     n->node[b].name, link->bandwidth, link->latency);
        }
    }
    return ST_OK;
}

/* --- writing ---------------------------------------------------------------------------------- */

static json_t *node_json(const struct instance_node *node)
{
    json_t *object = json_pack("{s:s}", "name", node->name);
    if (node->memory_bytes > 0) json_object_set_new(object, "memory", json_figure(node->memory_bytes));
    if (node->price_per_hour > 0) json_object_set_new(object, "price_per_hour", json_figure(node->price_per_hour));
    if (node->cores > 0) json_object_set_new(object, "cores", json_integer(node->cores));
    return object;
}

bool instance_nodes_put(json_t *whole, const struct instance *i)
{
    const struct instance_nodes *n = i->nodes;
    if (n == NULL) return true;
    json_t *nodes = json_array(), *links = json_array();
    for (uint32_t a = 0; a < n->count; a++) {
        json_array_append_new(nodes, node_json(&n->node[a]));
        for (uint32_t b = 0; b < n->count; b++) {
            const struct instance_link *link = instance_link(n, a, b);
            if (a != b)
                json_array_append_new(links, json_pack("{s:I, s:I, s:o, s:o}", "from", (json_int_t)a, "to",
                                                       (json_int_t)b, "bandwidth", json_figure(link->bandwidth),
                                                       "latency", json_figure(link->latency)));
        }
    }
    bool is_whole = json_array_size(nodes) == n->count && json_array_size(links) == n->count * (n->count - 1);
    /* The object takes each list, even after a failure. */
    is_whole = json_object_set_new(whole, "nodes", nodes) == 0 && is_whole;
    if (n->count > 1)
        is_whole = json_object_set_new(whole, "links", links) == 0 && is_whole;
    else
        json_decref(links);
    if (n->step > 0) is_whole = json_object_set_new(whole, "step", json_figure(n->step)) == 0 && is_whole;
    if (n->lanes > 0) is_whole = json_object_set_new(whole, "lanes", json_integer(n->lanes)) == 0 && is_whole;
    return json_object_set_new(whole, "message", json_figure(n->message)) == 0 && is_whole;
}
