/* Reads cluster texts. Once a start. */
#include "sched/cluster.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cfg/settings.h"
#include "engine/base/file.h"
#include "sched/json_read.h"
#include "sched/plan.h"

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

/* --- keys ------------------------------------------------------------------------------------- */

struct type_keys {
#define TYPE_KEY(key, type, fallback, min, max, unit, meaning) CFG_CTYPE_##type key;
#define GOAL_KEY(key, type, fallback, min, max, unit, meaning)
#define LAYER_KEY(key, type, fallback, min, max, unit, meaning)
#include "sched/cluster.def"
#undef TYPE_KEY
#undef GOAL_KEY
};
struct goal_keys {
#define TYPE_KEY(key, type, fallback, min, max, unit, meaning)
#define GOAL_KEY(key, type, fallback, min, max, unit, meaning) CFG_CTYPE_##type key;
#include "sched/cluster.def"
#undef TYPE_KEY
#undef GOAL_KEY
};
static const struct cfg_key type_keys[] = {
#define TYPE_KEY(key, type, fallback, min, max, unit, meaning)                                                         \
    {#key, CFG_##type, fallback, min, max, unit, meaning, .offset = offsetof(struct type_keys, key)},
#define GOAL_KEY(key, type, fallback, min, max, unit, meaning)
#include "sched/cluster.def"
#undef TYPE_KEY
#undef GOAL_KEY
};
static const struct cfg_key goal_keys[] = {
#define TYPE_KEY(key, type, fallback, min, max, unit, meaning)
#define GOAL_KEY(key, type, fallback, min, max, unit, meaning)                                                         \
    {#key, CFG_##type, fallback, min, max, unit, meaning, .offset = offsetof(struct goal_keys, key)},
#include "sched/cluster.def"
#undef TYPE_KEY
#undef GOAL_KEY
#undef LAYER_KEY
};

const char *const cluster_kinds[] = {"type", "goal", NULL};

const struct cfg_key *cluster_keys(const char *kind, size_t *key_count)
{
    bool is_type = strcmp(kind, "type") == 0, is_goal = strcmp(kind, "goal") == 0;
    *key_count = is_type ? COUNT_OF(type_keys) : is_goal ? COUNT_OF(goal_keys) : 0;
    return is_type ? type_keys : is_goal ? goal_keys : NULL;
}

/* --- sections --------------------------------------------------------------------------------- */

static status device_read(const struct ini *ini, const struct ini_section *section, const char *text,
                          struct resource_type *type)
{
    if (resource_device_parse(strcmp(text, "cuda") == 0 ? "cuda:0" : text, type)) return ST_OK;
    return ini_fail(ini, section, ini_entry_find(section, "device"),
                    "expected cpu, cuda, cuda:N (N from 0 to 999), emu, sim or paced, found \"%.60s\"", text);
}

static status node_read(const struct ini *ini, const struct ini_section *section, const char *text, uint32_t *node_plus)
{
    uint64_t node;
    *node_plus = 0;
    if (*text == 0) return ST_OK;
    if (!cfg_parse_u64(text, &node) || node >= PLAN_NODES_MAX)
        return ini_fail(ini, section, ini_entry_find(section, "node"), "expected a node from 0 to %u, found \"%.60s\"",
                        PLAN_NODES_MAX - 1, text);
    *node_plus = (uint32_t)node + 1;
    return ST_OK;
}

static status slow_read(const struct ini *ini, const struct ini_section *section, const struct type_keys *keys,
                        struct resource_slow *slow)
{
    if (resource_slow_parse(keys->slow, slow) == ST_OK) {
        slow->from_step = resource_is_slowed(slow) ? keys->slow_from : 0;
        return ST_OK;
    }
    return ini_fail(ini, section, ini_entry_find(section, "slow"), "%s", status_message());
}

/* Rates make sense together only. */
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
    TRY(node_read(ini, section, keys.node, &type->node_plus));
    TRY(device_read(ini, section, keys.device, &type->resource));
    TRY(slow_read(ini, section, &keys, &type->resource.slow));
    return rates_check(ini, section, type);
}

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

/* Counts the types; every section is of a kind that there is. */
static status sections_check(struct cluster *cluster)
{
    const struct ini *ini = &cluster->ini;
    for (uint32_t i = 0; i < ini->section_count; i++) {
        const struct ini_section *section = &ini->sections[i];
        if (strcmp(section->kind, "type") == 0) {
            if (++cluster->type_count > RESOURCE_TYPES_MAX)
                return ini_fail(ini, section, NULL, "expected at most %u types, found another", RESOURCE_TYPES_MAX);
        } else if (strcmp(section->kind, "goal") != 0) {
            return ini_fail(ini, section, NULL, "no such section; expected [type NAME] or [goal]");
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
    ini_free(&cluster->ini);
    *cluster = (struct cluster){0};
}
