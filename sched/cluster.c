/* Reads cluster texts. Once a start. */
#include "sched/cluster.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cfg/settings.h"
#include "engine/base/file.h"
#include "sched/json_read.h"

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

/* --- keys ------------------------------------------------------------------------------------- */

/* A row of a table of keys whose values go into a struct OF. */
#define ROW(OF, NAME, TYPE, FALLBACK, MIN, MAX, UNIT, MEANING)                                                         \
    {.name = #NAME,                                                                                                    \
     .type = CFG_##TYPE,                                                                                               \
     .fallback = FALLBACK,                                                                                             \
     .min = MIN,                                                                                                       \
     .max = MAX,                                                                                                       \
     .unit = UNIT,                                                                                                     \
     .meaning = MEANING,                                                                                               \
     .offset = offsetof(struct OF, NAME)},
struct type_keys {
#define TYPE_KEY(key, type, fallback, min, max, unit, meaning) CFG_CTYPE_##type key;
#include "sched/cluster.def"
};
static const struct cfg_key type_keys[] = {
#define TYPE_KEY(...) ROW(type_keys, __VA_ARGS__)
#include "sched/cluster.def"
};
struct goal_keys {
#define GOAL_KEY(key, type, fallback, min, max, unit, meaning) CFG_CTYPE_##type key;
#include "sched/cluster.def"
};
static const struct cfg_key goal_keys[] = {
#define GOAL_KEY(...) ROW(goal_keys, __VA_ARGS__)
#include "sched/cluster.def"
};
struct node_keys {
#define NODE_KEY(key, type, fallback, min, max, unit, meaning) CFG_CTYPE_##type key;
#include "sched/cluster.def"
};
static const struct cfg_key node_keys[] = {
#define NODE_KEY(...) ROW(node_keys, __VA_ARGS__)
#include "sched/cluster.def"
};
struct link_keys {
#define LINK_KEY(key, type, fallback, min, max, unit, meaning) CFG_CTYPE_##type key;
#include "sched/cluster.def"
};
static const struct cfg_key link_keys[] = {
#define LINK_KEY(...) ROW(link_keys, __VA_ARGS__)
#include "sched/cluster.def"
};

const char *const cluster_kinds[] = {"type", "goal", "node", "link", NULL};

const struct cfg_key *cluster_keys(const char *kind, size_t *key_count)
{
    static const struct {
        const struct cfg_key *keys;
        size_t count;
    } tables[] = {{type_keys, COUNT_OF(type_keys)},
                  {goal_keys, COUNT_OF(goal_keys)},
                  {node_keys, COUNT_OF(node_keys)},
                  {link_keys, COUNT_OF(link_keys)}};
    *key_count = 0;
    for (size_t k = 0; cluster_kinds[k]; k++)
        if (strcmp(kind, cluster_kinds[k]) == 0) {
            *key_count = tables[k].count;
            return tables[k].keys;
        }
    return NULL;
}

/* --- sections --------------------------------------------------------------------------------- */

static status device_read(const struct ini *ini, const struct ini_section *section, const char *text,
                          struct resource_type *type)
{
    if (resource_device_parse(strcmp(text, "cuda") == 0 ? "cuda:0" : text, type)) return ST_OK;
    return ini_fail(ini, section, ini_entry_find(section, "device"),
                    "expected cpu, cuda, cuda:N (N from 0 to 999), emu, sim or paced, found \"%.60s\"", text);
}

static status slow_read(const struct ini *ini, const struct ini_section *section, const struct type_keys *keys,
                        struct resource_slow *slow)
{
    if (resource_slow_parse(keys->slow, slow) != ST_OK)
        return ini_fail(ini, section, ini_entry_find(section, "slow"), "%s", status_message());
    slow->from_step = keys->slow_from;
    slow->for_steps = keys->slow_for;
    slow->every_steps = keys->slow_every;
    if (resource_slow_turns_check(slow) == ST_OK) return ST_OK;
    return ini_fail(ini, section, ini_entry_find(section, "slow_every"), "%s", status_message());
}

/* Only all three rates together make sense. */
static status rates_check(const struct ini *ini, const struct ini_section *section, struct cluster_type *type)
{
    const struct cluster_rates *r = &type->rates;
    int given_count = (r->flops > 0) + (r->memory_bandwidth > 0) + (r->link_bandwidth > 0);
    if (given_count != 0 && given_count != 3)
        return ini_fail(ini, section, NULL,
                        "expected all of flops, memory_bandwidth and link_bandwidth or none of them, found no \"%s\"",
                        r->flops == 0              ? "flops"
                        : r->memory_bandwidth == 0 ? "memory_bandwidth"
                                                   : "link_bandwidth");
    type->has_rates = given_count == 3;
    return ST_OK;
}

static status type_read(const struct ini *ini, const struct ini_section *section, struct cluster_type *type)
{
    struct type_keys keys;
    if (section->name[0] == 0 || strlen(section->name) > RESOURCE_NAME_BYTES || !json_is_plain(section->name))
        return ini_fail(ini, section, NULL, "expected [type NAME] with a name of 1 to %u bytes in UTF-8",
                        RESOURCE_NAME_BYTES);
    TRY(cfg_read(ini, section, type_keys, COUNT_OF(type_keys), &keys));
    *type = (struct cluster_type){
        .resource = {.name = section->name, .price_per_hour = keys.price_per_hour, .limit = keys.limit},
        .rates = {keys.flops, keys.memory_bandwidth, keys.link_bandwidth, keys.batch_overhead, keys.alpha, keys.beta,
                  keys.link_latency},
        .memory_bytes = keys.memory,
        .per_node = keys.per_node,
        .network_bandwidth = keys.network_bandwidth,
        .profile = keys.profile,
        .line = section->line,
    };
    if (keys.node[0] && keys.nodes[0])
        return ini_fail(ini, section, ini_entry_find(section, "nodes"), "expected node or nodes, found both");
    type->node_names = keys.nodes[0] ? keys.nodes : keys.node;
    type->resource.adds_moves = !keys.overlaps;
    TRY(device_read(ini, section, keys.device, &type->resource));
    TRY(slow_read(ini, section, &keys, &type->resource.slow));
    return rates_check(ini, section, type);
}

/* --- nodes and links --------------------------------------------------------------------------- */

static uint32_t node_find(const struct instance_nodes *n, const char *name, size_t bytes)
{
    for (uint32_t a = 0; a < n->count; a++)
        if (strlen(n->node[a].name) == bytes && memcmp(n->node[a].name, name, bytes) == 0) return a;
    return n->count;
}

/* "a, b, c", cut where the buffer is too short. */
static const char *names_text(const struct instance_nodes *n, char *buffer, size_t bytes)
{
    size_t used = 0;
    buffer[0] = 0;
    for (uint32_t a = 0; a < n->count && used < bytes; a++)
        used += (size_t)snprintf(buffer + used, bytes - used, "%s%s", a ? ", " : "", n->node[a].name);
    return buffer;
}

static status node_read(const struct ini *ini, const struct ini_section *section, struct instance_node *node)
{
    struct node_keys keys;
    const size_t bytes = strlen(section->name);
    if (bytes == 0 || bytes > INSTANCE_NODE_BYTES || strstr(section->name, "..") || !json_is_plain(section->name))
        return ini_fail(ini, section, NULL,
                        "expected [node NAME] with a name of 1 to %u bytes in UTF-8, without \"..\"",
                        INSTANCE_NODE_BYTES);
    TRY(cfg_read(ini, section, node_keys, COUNT_OF(node_keys), &keys));
    memcpy(node->name, section->name, bytes + 1);
    node->memory_bytes = (double)keys.memory;
    node->price_per_hour = keys.price_per_hour;
    node->cores = keys.cores;
    return ST_OK;
}

static status type_node_fail(const struct cluster *c, const struct cluster_type *type, const char *expected)
{
    const struct ini_section *section = ini_find(&c->ini, "type", type->resource.name);
    const struct ini_entry *one = ini_entry_find(section, "node"), *several = ini_entry_find(section, "nodes");
    return ini_fail(&c->ini, section, several && *several->value ? several : one, "expected %s, found \"%.60s\"",
                    expected, type->node_names);
}

/* Takes the next name of the type's nodes, of which *at is the rest: a whole text for `node`, and one
 * between commas for `nodes`. Returns its bytes; 0: there is none. */
static size_t node_name_next(const struct cluster *c, const struct cluster_type *type, const char **at,
                             const char **name)
{
    const struct ini_entry *several = ini_entry_find(ini_find(&c->ini, "type", type->resource.name), "nodes");
    const bool is_list = several && *several->value;
    const bool is_behind_comma = is_list && *at > type->node_names && (*at)[-1] == ',';
    if (**at == 0 && !is_behind_comma) return 0;
    *name = *at + (is_list ? strspn(*at, " \t") : 0);
    size_t bytes = is_list ? strcspn(*name, ",") : strlen(*name);
    *at = *name + bytes + ((*name)[bytes] == ',');
    while (is_list && bytes > 0 && ((*name)[bytes - 1] == ' ' || (*name)[bytes - 1] == '\t')) bytes--;
    return bytes ? bytes : SIZE_MAX; /* no node has an empty name */
}

static status type_node_add(const struct cluster *c, struct cluster_type *type, uint32_t node)
{
    if (type->nodes >> node & 1) return type_node_fail(c, type, "each node once");
    type->nodes |= UINT64_C(1) << node;
    return ST_OK;
}

/* Makes the nodes of the `count` [node] sections, in the order of the text. */
static status nodes_named(struct cluster *c, uint32_t count)
{
    char text[512], names[480];
    uint32_t made = 0;
    TRY(instance_nodes_make(&c->nodes, count, 1));
    for (uint32_t i = 0; i < c->ini.section_count; i++)
        if (strcmp(c->ini.sections[i].kind, "node") == 0)
            TRY(node_read(&c->ini, &c->ini.sections[i], &c->nodes->node[made++]));
    for (uint32_t t = 0; t < c->type_count; t++) {
        struct cluster_type *type = &c->types[t];
        const char *at = type->node_names, *name = at;
        for (size_t bytes; (bytes = node_name_next(c, type, &at, &name)) > 0;) {
            const uint32_t node = node_find(c->nodes, name, bytes);
            if (node == count) {
                snprintf(text, sizeof text, "the name of a [node] section (%s)",
                         names_text(c->nodes, names, sizeof names));
                return type_node_fail(c, type, text);
            }
            TRY(type_node_add(c, type, node));
        }
    }
    return ST_OK;
}

/* Reads the numbers that a type gives. */
static status type_numbers_read(const struct cluster *c, struct cluster_type *type)
{
    const char *at = type->node_names, *name = at;
    for (size_t bytes; (bytes = node_name_next(c, type, &at, &name)) > 0;) {
        char digits[24] = "", text[96];
        uint64_t number;
        if (bytes < sizeof digits) memcpy(digits, name, bytes), digits[bytes] = 0;
        if (!cfg_parse_u64(digits, &number) || number >= INSTANCE_NODES_MAX) {
            snprintf(text, sizeof text, "a node from 0 to %u, as there is no [node] section", INSTANCE_NODES_MAX - 1);
            return type_node_fail(c, type, text);
        }
        TRY(type_node_add(c, type, (uint32_t)number));
    }
    return ST_OK;
}

/* Without [node] sections, makes the nodes of the numbers that types give, in the order of the numbers. */
static status nodes_numbered(struct cluster *c)
{
    uint64_t all = 0;
    for (uint32_t t = 0; t < c->type_count; t++) {
        TRY(type_numbers_read(c, &c->types[t]));
        all |= c->types[t].nodes;
    }
    if (all == 0) return ST_OK;
    TRY(instance_nodes_make(&c->nodes, (uint32_t)__builtin_popcountll(all), 1));
    uint32_t used = 0;
    for (uint64_t left = all; left; left &= left - 1)
        snprintf(c->nodes->node[used++].name, INSTANCE_NODE_BYTES, "%d", __builtin_ctzll(left));
    for (uint32_t t = 0; t < c->type_count; t++) c->types[t].nodes = nodes_packed(c->types[t].nodes, all);
    return ST_OK;
}

/* Finds the two nodes of [link A..B]. */
static status link_ends_read(const struct cluster *c, const struct ini_section *section, uint32_t ends[2])
{
    char text[512];
    const char *dots = strstr(section->name, "..");
    if (dots) {
        ends[0] = node_find(c->nodes, section->name, (size_t)(dots - section->name));
        ends[1] = node_find(c->nodes, dots + 2, strlen(dots + 2));
    }
    if (dots == NULL || ends[0] == c->nodes->count || ends[1] == c->nodes->count)
        return ini_fail(&c->ini, section, NULL, "expected [link A..B] with two nodes (%s), or [link] for all",
                        names_text(c->nodes, text, sizeof text));
    if (ends[0] == ends[1]) return ini_fail(&c->ini, section, NULL, "expected two nodes, found one twice");
    if (instance_link(c->nodes, ends[0], ends[1])->bandwidth > 0)
        return ini_fail(&c->ini, section, NULL, "another section has told this link already");
    return ST_OK;
}

static status link_read(struct cluster *c, const struct ini_section *section)
{
    const struct ini *ini = &c->ini;
    struct link_keys keys;
    uint32_t ends[2];
    if (c->nodes == NULL)
        return ini_fail(ini, section, NULL, "expected nodes that it joins: give each type a node, found none");
    TRY(cfg_read(ini, section, link_keys, COUNT_OF(link_keys), &keys));
    const bool is_default = section->name[0] == 0;
    const struct ini_entry *latency_back = ini_entry_find(section, "latency_back"),
                           *bandwidth_back = ini_entry_find(section, "bandwidth_back");
    double back = keys.latency;
    if (is_default && (latency_back || bandwidth_back))
        return ini_fail(ini, section, latency_back ? latency_back : bandwidth_back,
                        "of [link], which is from each node to each other, there is no way back: give [link A..B]");
    if (keys.latency_back[0] && !(cfg_parse_f64(keys.latency_back, &back) && back >= 0 && back <= 1e6))
        return ini_fail(ini, section, latency_back, "expected a number from 0 to 1e6 (s), found \"%.60s\"",
                        keys.latency_back);
    const struct instance_link there = {keys.bandwidth, keys.latency};
    if (is_default) {
        c->link = there;
        return ST_OK;
    }
    TRY(link_ends_read(c, section, ends));
    *instance_link(c->nodes, ends[0], ends[1]) = there;
    *instance_link(c->nodes, ends[1], ends[0]) =
        (struct instance_link){keys.bandwidth_back > 0 ? keys.bandwidth_back : keys.bandwidth, back};
    return ST_OK;
}

/* Types must have been read. */
static status nodes_read(struct cluster *c)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < c->ini.section_count; i++) count += strcmp(c->ini.sections[i].kind, "node") == 0;
    if (count > INSTANCE_NODES_MAX)
        return ini_fail(&c->ini, NULL, NULL, "expected at most %u nodes, found %u", INSTANCE_NODES_MAX, count);
    TRY(count > 0 ? nodes_named(c, count) : nodes_numbered(c));
    for (uint32_t i = 0; i < c->ini.section_count; i++)
        if (strcmp(c->ini.sections[i].kind, "link") == 0) TRY(link_read(c, &c->ini.sections[i]));
    return ST_OK;
}

/* --- the goal --------------------------------------------------------------------------------- */

static status throughput_read(const struct ini *ini, const struct ini_section *section, const char *text,
                              double *throughput)
{
    *throughput = INFINITY;
    if (strcmp(text, "max") == 0) return ST_OK;
    if (cfg_parse_f64(text, throughput) && *throughput >= 0 && *throughput <= RESOURCE_FIGURE_MAX) return ST_OK;
    return ini_fail(ini, section, ini_entry_find(section, "throughput"),
                    "expected a number from 0 to %.15g (examples/s) or max, found \"%.60s\"", RESOURCE_FIGURE_MAX,
                    text);
}

/* Defaults where the section is absent. */
static status goal_read(struct cluster *cluster, const struct ini_section *section)
{
    struct goal_keys keys;
    TRY(cfg_read(&cluster->ini, section, goal_keys, COUNT_OF(goal_keys), &keys));
    cluster->examples = keys.examples;
    cluster->epochs = keys.epochs;
    cluster->service_cores = keys.service_cores;
    return throughput_read(&cluster->ini, section, keys.throughput, &cluster->throughput);
}

/* Counts the types, and checks that the kind of every section exists. */
static status sections_check(struct cluster *cluster)
{
    const struct ini *ini = &cluster->ini;
    for (uint32_t i = 0; i < ini->section_count; i++) {
        const struct ini_section *section = &ini->sections[i];
        if (strcmp(section->kind, "type") == 0) {
            if (++cluster->type_count > RESOURCE_TYPES_MAX)
                return ini_fail(ini, section, NULL, "expected at most %u types, found another", RESOURCE_TYPES_MAX);
        } else if (strcmp(section->kind, "node") == 0 || strcmp(section->kind, "link") == 0) {
            continue;
        } else if (strcmp(section->kind, "goal") != 0) {
            return ini_fail(ini, section, NULL,
                            "no such section; expected [type NAME], [goal], [node NAME], [link A..B] or [link]");
        } else if (section->name[0]) {
            return ini_fail(ini, section, NULL, "expected [goal] without a name");
        }
    }
    if (cluster->type_count == 0) return ini_fail(ini, NULL, NULL, "expected at least one [type NAME], found none");
    return ST_OK;
}

static status sections_read(struct cluster *cluster)
{
    TRY(sections_check(cluster));
    cluster->memory = cluster->types = calloc(cluster->type_count, sizeof *cluster->types);
    if (cluster->types == NULL) FAIL(MEMORY, "%s: no memory for %u types", cluster->path, cluster->type_count);
    uint32_t t = 0;
    for (uint32_t i = 0; i < cluster->ini.section_count; i++)
        if (strcmp(cluster->ini.sections[i].kind, "type") == 0)
            TRY(type_read(&cluster->ini, &cluster->ini.sections[i], &cluster->types[t++]));
    TRY(nodes_read(cluster));
    return goal_read(cluster, ini_find(&cluster->ini, "goal", ""));
}

/* --- the whole -------------------------------------------------------------------------------- */

status cluster_parse(struct cluster *cluster, const char *path, const char *text, size_t bytes)
{
    *cluster = (struct cluster){0};
    TRY(ini_parse(&cluster->ini, path, text, bytes));
    cluster->path = cluster->ini.path;
    status st = sections_read(cluster);
    if (st != ST_OK) cluster_free(cluster);
    return st;
}

status cluster_read(struct cluster *cluster, const char *path)
{
    struct file_map map;
    *cluster = (struct cluster){0};
    TRY(file_map_read(&map, path));
    status st = cluster_parse(cluster, path, (const char *)map.data, map.bytes);
    file_map_close(&map);
    return st;
}

void cluster_free(struct cluster *cluster)
{
    free(cluster->memory);
    instance_nodes_free(cluster->nodes);
    ini_free(&cluster->ini);
    *cluster = (struct cluster){0};
}
