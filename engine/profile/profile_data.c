/* Finds the data of a profile; sets the goal of its instance. */
#include "engine/profile/profile_data.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/cores.h"
#include "engine/base/heap.h"
#include "engine/base/log.h"
#include "engine/base/paths.h"
#include "engine/base/trust.h"
#include "engine/device/card/measure.h"
#include "engine/sync/sync.h"
#include "graph/clip.h"

/* Examples of an epoch where neither cluster nor data tell: the choice of the cheapest
 * plan does not depend on them. */
#define EXAMPLES_ASSUMED 1e6

static status paths_find(struct profile_data *d, const struct profile_options *o)
{
    if (o->data == NULL && *d->settings.data_path == 0) return ST_OK;
    if (o->data == NULL) TRY(trust_sources_check("data.path", d->settings.data_path, o->graph_path));
    TRY(o->data ? heap_text(&d->paths, "%s", o->data) : paths_beside(&d->paths, o->graph_path, d->settings.data_path));
    if (!paths_have_stream(d->paths)) return ST_OK;
    char shown[PATHS_SHOWN_BYTES];
    log_info("profile  %s can be read only once: measured with generated rows", paths_shown(shown, d->paths));
    free(d->paths);
    d->paths = NULL;
    return ST_OK;
}

status profile_data_open(struct profile_data *d, const struct profile_options *o)
{
    *d = (struct profile_data){0};
    status st = ini_parse(&d->ini, o->graph_path, o->graph->text, o->graph->text_bytes);
    if (st == ST_OK) st = settings_read(&d->ini, &d->settings);
    if (st == ST_OK && d->settings.store_ssd > 0) st = trust_check("store.path", d->settings.store_path, o->graph_path);
    if (st == ST_OK) st = paths_find(d, o);
    if (st != ST_OK) profile_data_close(d);
    return st;
}

void profile_data_close(struct profile_data *d)
{
    free(d->paths);
    ini_free(&d->ini);
    *d = (struct profile_data){0};
}

const char *profile_stored_path(char path[FILE_PATH_BYTES], const struct cluster *cluster,
                                const struct cluster_type *type)
{
    const char *slash = strrchr(cluster->path, '/');
    int folder_bytes = slash && type->profile[0] != '/' ? (int)(slash + 1 - cluster->path) : 0;
    snprintf(path, FILE_PATH_BYTES, "%.*s%s", folder_bytes, cluster->path, type->profile);
    return path;
}

/* --- the goal --------------------------------------------------------------------------------- */

/* The cpu type that gets the next core: the one with the greatest limit / (2 given + 1), of equals the first.
 * This divides in proportion and favours neither great nor small limits (A. Sainte-Laguë, 1910). There is
 * such a type, because the limits sum to more than the cores given. */
static uint32_t next_type(const struct cluster *cluster, const uint32_t *given)
{
    uint32_t best = UINT32_MAX;
    double best_claim = 0;
    for (uint32_t t = 0; t < cluster->type_count; t++) {
        const struct resource_type *type = &cluster->types[t].resource;
        if (type->device != RESOURCE_CPU || given[t] == type->limit) continue;
        double claim = type->limit / (2.0 * given[t] + 1);
        if (claim > best_claim) best = t, best_claim = claim;
    }
    CHECK(best != UINT32_MAX);
    return best;
}

/* "a, b and c"; cut to the buffer. */
static void cpu_names_text(const struct cluster *cluster, uint32_t cpu_type_count, char *text, size_t bytes)
{
    size_t used = 0;
    uint32_t named = 0;
    for (uint32_t t = 0; t < cluster->type_count && used < bytes; t++) {
        const struct resource_type *type = &cluster->types[t].resource;
        if (type->device != RESOURCE_CPU) continue;
        const char *joint = named == 0 ? "" : named + 1 == cpu_type_count ? " and " : ", ";
        used += (size_t)snprintf(text + used, bytes - used, "%s%s", joint, type->name);
        named++;
    }
}

status profile_limits(const struct cluster *cluster, uint32_t core_count, uint32_t *limits)
{
    uint32_t service = cluster->service_cores, cores = core_count > service + 1 ? core_count - service : 1, given = 0;
    uint64_t sum = 0;
    for (uint32_t t = 0; t < cluster->type_count; t++) {
        const struct resource_type *type = &cluster->types[t].resource;
        limits[t] = type->limit;
        if (type->device != RESOURCE_CPU) continue;
        sum += type->limit;
        given++;
    }
    if (sum <= cores) return ST_OK;
    if (given > cores) {
        char names[512];
        cpu_names_text(cluster, given, names, sizeof names);
        FAIL(INVALID,
             "%s: the types %s of device cpu need a core of this machine each, which has %u%s; "
             "give --share, or fewer types",
             cluster->path, names, cores, service ? " beside the service cores" : "");
    }
    for (uint32_t t = 0; t < cluster->type_count; t++)
        if (cluster->types[t].resource.device == RESOURCE_CPU) limits[t] = 1;
    for (; given < cores; given++) limits[next_type(cluster, limits)]++;
    return ST_OK;
}

/* Limits a type on cards here to the cards from its own on. */
static void cards_limit(const struct cluster *cluster, uint32_t *limits)
{
    for (uint32_t t = 0; t < cluster->type_count; t++) {
        const uint32_t here = cards_here(&cluster->types[t].resource);
        if (here > 0 && limits[t] > here) limits[t] = here;
    }
}

status profile_limits_wanted(const struct profile_options *o, uint32_t *limits)
{
    struct cores cores;
    cores_allowed(&cores);
    if (o->here) {
        TRY(profile_limits(o->cluster, cores.count, limits));
        cards_limit(o->cluster, limits);
        return ST_OK;
    }
    for (uint32_t t = 0; t < o->cluster->type_count; t++) limits[t] = o->cluster->types[t].resource.limit;
    cards_limit(o->cluster, limits);
    return ST_OK;
}

static void types_set(struct instance *instance, const struct cluster *cluster, const uint32_t *limits)
{
    for (uint32_t t = 0; t < instance->type_count; t++) {
        struct resource_type *type = &instance->types[t].resource;
        const char *name = type->name; /* the instance's own */
        *type = cluster->types[t].resource;
        type->name = name;
        if (limits[t] < type->limit)
            log_info("profile  %s: %u of the cluster's %u units are here", name, limits[t], type->limit);
        type->limit = limits[t];
    }
}

/* Without steps one stage has all gradients whose norm is bounded: all layers go together. */
static void layers_tie(struct instance *instance)
{
    const uint32_t last = instance->layer_count - 1;
    for (uint32_t l = 0; l <= last; l++) {
        instance->layers[l].tied_before = l;
        instance->layers[l].tied_behind = last - l;
    }
}

/* How a training of the graph runs: here, or on a machine with all cores of the cluster, if it has more. */
static status run_set(struct instance *instance, const struct profile_options *o)
{
    struct profile_data data;
    struct cores here;
    uint64_t cores = o->cluster->service_cores;
    TRY(profile_data_open(&data, o));
    cores_allowed(&here);
    for (uint32_t t = 0; t < instance->type_count; t++)
        if (instance->types[t].resource.device == RESOURCE_CPU) cores += instance->types[t].resource.limit;
    if (cores < here.count) cores = here.count;
    if (cores > INSTANCE_CORES_MAX) cores = INSTANCE_CORES_MAX;
    instance->run = (struct instance_run){.micros = INSTANCE_NEVER_DRAINED, .cores = (uint32_t)cores};
    if (sync_by_lane(data.settings.train_sync))
        instance->run.micros = batch_micro_count(graph_batch(o->graph));
    else if (clip_optimizer(o->graph))
        layers_tie(instance);
    profile_data_close(&data);
    return ST_OK;
}

status profile_goal_set(struct instance *instance, const struct profile_options *o)
{
    const struct cluster *cluster = o->cluster;
    uint32_t limits[RESOURCE_TYPES_MAX];
    status st = profile_limits_wanted(o, limits);
    if (st == ST_OK) {
        types_set(instance, cluster, limits);
        st = run_set(instance, o);
    }
    if (st != ST_OK) {
        instance_free(instance);
        return st;
    }
    if (cluster->examples > 0) instance->examples = cluster->examples;
    if (instance->examples == PROFILE_EXAMPLES_UNKNOWN) {
        instance->examples = EXAMPLES_ASSUMED;
        log_info("profile  neither [goal] of %s nor the data tells the examples of an epoch: costs are for a million",
                 cluster->path);
    }
    instance->epochs = cluster->epochs > 0 ? cluster->epochs : 1;
    instance->throughput_limit = isfinite(cluster->throughput) ? cluster->throughput : 0;
    instance->service_cores = cluster->service_cores;
    return ST_OK;
}
