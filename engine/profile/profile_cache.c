/* Keeps profiles, a file for each question, named by the xxh3 of all on which the answer depends. Examples
 * in a file are the data's (PROFILE_EXAMPLES_UNKNOWN where the data do not tell); goals, prices and limits
 * are set after reading the file. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_STATIC_LINKING_ONLY /* for a state on the stack */
#include <xxhash.h>

#include "engine/base/file.h"
#include "engine/base/cores.h"
#include "engine/base/log.h"
#include "engine/base/paths.h"
#include "engine/device/card/measure.h"
#include "engine/device/cpu/cpu_device.h"
#include "engine/profile/profile_data.h"
#include "gpu/gpu.h"

/* Changes with the content of files. */
#define FILE_VERSION 4u

/* --- the name --------------------------------------------------------------------------------- */

static void add(XXH3_state_t *hash, const void *data, size_t bytes) { XXH3_64bits_update(hash, data, bytes); }
static void add_text(XXH3_state_t *hash, const char *text)
{
    add(hash, text ? text : "", (text ? strlen(text) : 0) + 1);
}
static void add_u64(XXH3_state_t *hash, uint64_t value) { add(hash, &value, sizeof value); }
static void add_f64(XXH3_state_t *hash, double value) { add(hash, &value, sizeof value); }

static void graph_add(XXH3_state_t *hash, const struct graph *g)
{
    const struct graph_header *h = g->header;
    add_u64(hash, h->model_hash);
    add(hash, g->nodes, g->node_count * sizeof *g->nodes);
    add(hash, g->args, g->arg_count * sizeof *g->args);
    add(hash, g->updates, g->update_count * sizeof *g->updates);
    add(hash, g->optimizers, g->optimizer_count * sizeof *g->optimizers);
    for (uint32_t l = 0; l < g->layer_count; l++) add_text(hash, graph_string(g, g->layers[l].name));
    uint32_t shape[] = {h->batch, h->micro, h->lanes};
    add(hash, shape, sizeof shape);
}

/* Adds a stored profile by its content. */
static void stored_add(XXH3_state_t *hash, const struct cluster *cluster, const struct cluster_type *type)
{
    struct file_map map;
    add_text(hash, type->profile);
    if (*type->profile == 0) return;
    char path[FILE_PATH_BYTES];
    if (file_map_read(&map, profile_stored_path(path, cluster, type)) == ST_OK) {
        add(hash, map.data, map.bytes);
        file_map_close(&map);
    }
}

/* Adds the cluster without goals and prices, which are taken from its text each time. */
static void cluster_add(XXH3_state_t *hash, const struct profile_options *o)
{
    const struct cluster *cluster = o->cluster;
    for (uint32_t t = 0; t < cluster->type_count; t++) {
        const struct cluster_type *type = &cluster->types[t];
        const struct resource_slow *slow = &type->resource.slow;
        char text[32];
        add_text(hash, type->resource.name);
        add_text(hash, resource_device_text(&type->resource, text, sizeof text));
        if (resource_is_slowed_at(slow, o->step)) add(hash, slow->op, sizeof slow->op);
        const struct cluster_rates *rates = &type->rates;
        double figures[] = {rates->flops,          rates->memory_bandwidth,
                            rates->link_bandwidth, rates->batch_overhead,
                            rates->alpha,          rates->beta};
        add(hash, figures, sizeof figures);
        stored_add(hash, cluster, type);
        struct gpu_facts card;
        if (card_is_here(&type->resource) && gpu_describe(type->resource.device_index, &card) == ST_OK) {
            add_text(hash, card.name);
            add_text(hash, card.link);
            add_u64(hash, card.memory_bytes);
        }
    }
}

/* Adds the processor's model and features: the first processor's lines in /proc/cpuinfo. */
static void processor_add(XXH3_state_t *hash)
{
    static const char *const keys[] = {"vendor_id", "cpu family", "model", "stepping", "cache size", "flags"};
    char line[8192];
    FILE *file = fopen("/proc/cpuinfo", "re");
    while (file && fgets(line, sizeof line, file) && line[0] != '\n')
        for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
            if (strncmp(line, keys[k], strlen(keys[k])) == 0) add_text(hash, line);
    if (file) fclose(file);
}

static void data_add(XXH3_state_t *hash, const struct profile_data *data)
{
    const struct settings *s = &data->settings;
    char path[PATH_MAX];
    const char *paths = data->paths, *name;
    size_t bytes;
    uint32_t choices[] = {s->data_format, s->data_transform, s->data_missing, s->data_ids_over};
    add(hash, choices, sizeof choices);
    add_u64(hash, s->store_ram);
    add_text(hash, data->paths);
    while (paths_next(&paths, &name, &bytes)) {
        struct stat about;
        if (stat(path_copy(path, name, bytes), &about) != 0) continue;
        add_u64(hash, (uint64_t)about.st_size);
        add_u64(hash, (uint64_t)about.st_mtim.tv_sec);
        add_u64(hash, (uint64_t)about.st_mtim.tv_nsec);
    }
}

static status name_make(const struct profile_options *o, uint64_t *name)
{
    struct profile_data data;
    struct cores cores;
    TRY(profile_data_open(&data, o));
    XXH3_state_t state, *hash = &state;
    XXH3_64bits_reset(hash);
    add_text(hash, HETERPS_VERSION);
    add_u64(hash, FILE_VERSION);
    add_u64(hash, GRAPH_VERSION);
    graph_add(hash, o->graph);
    cluster_add(hash, o);
    data_add(hash, &data);
    processor_add(hash);
    cores_allowed(&cores);
    add_u64(hash, cores.count);
    add_u64(hash, cores.is_whole);
    add_text(hash, o->isa ? o->isa : isa_names[isa_best()]);
    add_f64(hash, o->batch);
    *name = XXH3_64bits_digest(hash);
    profile_data_close(&data);
    return ST_OK;
}

/* --- the folder ------------------------------------------------------------------------------- */

/* Finds the folder, made if absent; "" after a remark if it cannot be written. */
static void folder_find(char *folder, size_t bytes)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int used = -1;
    /* The XDG specification says that relative paths are ignored. */
    if (cache && cache[0] == '/')
        used = snprintf(folder, bytes, "%s/heterps-run", cache);
    else if (home && home[0] == '/')
        used = snprintf(folder, bytes, "%s/.cache/heterps-run", home);
    if (used < 0 || (size_t)used >= bytes) {
        log_info("profile  neither XDG_CACHE_HOME nor HOME names a folder: measured each time");
        folder[0] = 0;
        return;
    }
    for (char *slash = folder + 1; (slash = strchr(slash, '/')) != NULL; slash++) {
        *slash = 0;
        (void)mkdir(folder, 0700); /* the check below finds a folder that is not there */
        *slash = '/';
    }
    if ((mkdir(folder, 0700) == 0 || errno == EEXIST) && access(folder, R_OK | W_OK | X_OK) == 0) return;
    log_info("profile  %s: %s: measured each time", folder, strerror(errno));
    folder[0] = 0;
}

/* --- answers ---------------------------------------------------------------------------------- */

static bool is_answer(const struct instance *i, const struct profile_options *o)
{
    const struct graph *g = o->graph;
    if (!i->has_graph_hash || i->graph_hash != g->header->model_hash || i->layer_count != g->layer_count ||
        i->type_count != o->cluster->type_count || i->batch != (o->batch > 0 ? o->batch : g->header->micro))
        return false;
    for (uint32_t l = 0; l < g->layer_count; l++)
        if (strcmp(i->layers[l].name, graph_string(g, g->layers[l].name)) != 0) return false;
    for (uint32_t t = 0; t < i->type_count; t++)
        if (strcmp(i->types[t].resource.name, o->cluster->types[t].resource.name) != 0) return false;
    return true;
}

/* Reads the answer; false: there is no valid answer. */
static bool answer_read(struct instance *instance, const struct profile_options *o, const char *path)
{
    if (access(path, F_OK) != 0) return false;
    if (instance_read(instance, path) != ST_OK) {
        log_detail("profile  %s: measured anew", status_message());
        return false;
    }
    if (is_answer(instance, o)) return true;
    log_detail("profile  %s is of another graph: measured anew", path);
    instance_free(instance);
    return false;
}

status profile_cached(struct instance *instance, const struct profile_options *o)
{
    char folder[4000], path[4096];
    uint64_t name;
    TRY(name_make(o, &name));
    folder_find(folder, sizeof folder);
    if (*folder == 0) return profile_measure(instance, o);
    snprintf(path, sizeof path, "%s/profile-%016" PRIx64 ".json", folder, name);
    if (!(o->seconds > 0) && answer_read(instance, o, path)) {
        log_info("profile  from %s (--no-cache measures anew)", path);
        return profile_goal_set(instance, o);
    }
    bool is_busy;
    TRY(profile_take(instance, o, &is_busy));
    if (!is_busy && instance_write(instance, path) != ST_OK)
        log_info("profile  %s: measured each time", status_message());
    return profile_goal_set(instance, o);
}
