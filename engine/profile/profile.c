/* Decides what to measure, and makes an instance from measured, stored and declared times. */
#include "engine/profile/profile.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/fit.h"
#include "engine/base/log.h"
#include "engine/device/card/measure.h"
#include "engine/profile/profile_data.h"
#include "engine/profile/profile_run.h"
#include "graph/cut.h"
#include "graph/op.h"
#include "sched/estimate.h"

/* Most sizes of micro-batches: train.micro, a half, a quarter, an eighth. */
#define SIZES_MAX 4u
/* Most gangs: 1, 2, 4, … up to CORES_MAX, and all cores. */
#define UNITS_MAX 12u
#define MOVES     5u
/* Least and greatest bytes of a measured transfer. */
#define MOVE_BYTES_MIN 4096.0
#define MOVE_BYTES_MAX (double)(16u << 20)
/* Assumed where alpha cannot be measured: see profile.h. */
#define ALPHA_OF_CALCULATION 0.95
#define ALPHA_OF_MEMORY      0.9
/* Less than a clock can tell. */
#define SECONDS_MIN 1e-9

#define KIND_NONE   UINT32_MAX

/* Bytes that cross the cut after a layer with B_o examples, there and back. */
struct moved {
    double forward, backward;
};

struct profile {
    const struct profile_options *o;
    const struct graph *graph;
    struct profile_data data;
    struct cores cores;
    struct layer_table table;
    double batch; /* B_o */
    uint32_t micro;
    /* measured types with the same slowing are of one kind */
    uint32_t *kind_of; /* [type_count]; KIND_NONE: not measured */
    const struct resource_slow **kinds;
    uint32_t kind_count;
    const struct resource_type **cards; /* [card_count]: measured types on cards */
    uint32_t *card_of;                  /* [type_count]                          */
    uint32_t card_count;
    double sizes[SIZES_MAX], units[UNITS_MAX];
    uint32_t size_count, unit_count;
    struct profile_config configs[SIZES_MAX + UNITS_MAX]; /* the sizes on one core, then the gangs */
    uint32_t config_count;
    double move_bytes[MOVES];
    struct moved *moved; /* [layer_count] */
    struct profile_run_result result;
    struct fit_line move; /* seconds of a transfer by its bytes */
};

/* --- what to measure -------------------------------------------------------------------------- */

static bool is_cpu_measured(const struct cluster_type *type)
{
    return type->resource.device == RESOURCE_CPU && *type->profile == 0;
}
static bool is_card_measured(const struct cluster_type *type)
{
    return *type->profile == 0 && card_is_here(&type->resource);
}
static bool is_measured(const struct cluster_type *type) { return is_cpu_measured(type) || is_card_measured(type); }

/* The slowing of a type at the options' step, or NULL. */
static const struct resource_slow *slow_of(const struct profile *p, const struct cluster_type *type)
{
    const struct resource_slow *slow = &type->resource.slow;
    return resource_is_slowed_at(slow, p->o->step) ? slow : NULL;
}

static bool slow_is_same(const struct resource_slow *a, const struct resource_slow *b)
{
    return a == b || (a && b && memcmp(a->op, b->op, sizeof a->op) == 0);
}

static void kinds_list(struct profile *p)
{
    const struct cluster *cluster = p->o->cluster;
    for (uint32_t t = 0; t < cluster->type_count; t++) {
        p->kind_of[t] = p->card_of[t] = KIND_NONE;
        if (is_card_measured(&cluster->types[t])) {
            p->card_of[t] = p->card_count;
            p->cards[p->card_count++] = &cluster->types[t].resource;
        }
        if (!is_cpu_measured(&cluster->types[t])) continue;
        const struct resource_slow *slow = slow_of(p, &cluster->types[t]);
        uint32_t c = 0;
        while (c < p->kind_count && !slow_is_same(p->kinds[c], slow)) c++;
        if (c == p->kind_count) p->kinds[p->kind_count++] = slow;
        p->kind_of[t] = c;
    }
    /* Cards get micro-batches that have been through passes on the CPU. */
    if (p->kind_count == 0 && p->card_count > 0) p->kinds[p->kind_count++] = NULL;
}

static void configs_list(struct profile *p)
{
    for (uint32_t size = p->micro; size > 0 && p->size_count < SIZES_MAX; size /= 2) p->sizes[p->size_count++] = size;
    for (uint32_t units = 1; units < p->cores.count; units *= 2) p->units[p->unit_count++] = units;
    p->units[p->unit_count++] = p->cores.count;
    for (uint32_t s = 0; s < p->size_count; s++)
        p->configs[p->config_count++] = (struct profile_config){1, (uint32_t)p->sizes[s]};
    for (uint32_t u = 1; u < p->unit_count; u++)
        p->configs[p->config_count++] = (struct profile_config){(uint32_t)p->units[u], p->micro};
}

/* Sizes in equal ratios from the least to the greatest transfer of the graph. */
static status moves_list(struct profile *p)
{
    double low = INFINITY, high = 0;
    for (uint32_t l = 0; l < p->graph->layer_count; l++) {
        struct cut cut;
        TRY(graph_cut(p->graph, l, &cut, NULL, NULL, NULL, NULL));
        p->moved[l] = (struct moved){(double)cut.forward_bytes * p->batch + (double)cut.micro_bytes,
                                     (double)cut.backward_bytes * p->batch};
        double ways[] = {p->moved[l].forward, p->moved[l].backward};
        for (int i = 0; i < 2; i++) {
            if (ways[i] > 0 && ways[i] < low) low = ways[i];
            if (ways[i] > high) high = ways[i];
        }
    }
    if (low > MOVE_BYTES_MAX / 16) low = MOVE_BYTES_MAX / 16;
    if (low < MOVE_BYTES_MIN) low = MOVE_BYTES_MIN;
    if (high > MOVE_BYTES_MAX) high = MOVE_BYTES_MAX;
    if (high < 16 * low) high = 16 * low;
    for (uint32_t i = 0; i < MOVES; i++) p->move_bytes[i] = low * pow(high / low, i / (MOVES - 1.0));
    return ST_OK;
}

/* --- measured types --------------------------------------------------------------------------- */

static const struct profile_seconds *seconds_of(const struct profile *p, uint32_t kind, uint32_t config, uint32_t layer)
{
    return &p->result.layers[((size_t)kind * p->config_count + config) * p->graph->layer_count + layer];
}

static double at_least(double seconds) { return seconds > SECONDS_MIN ? seconds : SECONDS_MIN; }

/* Fixed and per-example seconds of a layer's passes. */
static struct fit_line passes_fit(const struct profile *p, uint32_t kind, uint32_t layer)
{
    double seconds[SIZES_MAX];
    for (uint32_t s = 0; s < p->size_count; s++) seconds[s] = at_least(seconds_of(p, kind, s, layer)->pass);
    return fit_line(p->sizes, seconds, p->size_count);
}

/* The config of a gang; one core has the first size's. */
static uint32_t unit_config(const struct profile *p, uint32_t unit) { return unit == 0 ? 0 : p->size_count + unit - 1; }

/* How many gangs were measured without disturbance. */
static uint32_t units_measured(const struct profile *p)
{
    uint32_t count = 0;
    for (uint32_t u = 0; u < p->unit_count; u++) count += !p->result.is_disturbed[unit_config(p, u)];
    return count;
}

static void alpha_fit(const struct profile *p, uint32_t kind, uint32_t layer, struct instance_time *time)
{
    double units[UNITS_MAX], seconds[UNITS_MAX], update_share = (double)p->micro / p->graph->header->batch;
    uint32_t count = 0;
    if (units_measured(p) < 2) {
        bool calculates = p->graph->layers[layer].flops_forward > 0;
        time->alpha = calculates ? ALPHA_OF_CALCULATION : ALPHA_OF_MEMORY;
        return;
    }
    for (uint32_t u = 0; u < p->unit_count; u++) {
        const struct profile_seconds *taken = seconds_of(p, kind, unit_config(p, u), layer);
        if (p->result.is_disturbed[unit_config(p, u)]) continue;
        units[count] = p->units[u];
        seconds[count++] = at_least(taken->pass + taken->update * update_share);
    }
    struct fit_share fit = fit_share(units, seconds, count);
    time->alpha = fit.share;
    time->alpha_low = fit.low;
    time->alpha_high = fit.high;
}

static void move_fit(const struct profile *p, uint32_t layer, const struct fit_line *move, struct instance_time *time)
{
    const struct moved moved = p->moved[layer];
    double bytes = move->slope * (moved.forward + moved.backward);
    time->odt = bytes + move->fixed * ((moved.forward > 0) + (moved.backward > 0));
    time->beta = time->odt > 0 ? bytes / time->odt : 1;
}

static void measured_time(const struct profile *p, uint32_t kind, uint32_t layer, struct instance_time *time)
{
    *time = (struct instance_time){0};
    struct fit_line line = passes_fit(p, kind, layer);
    const struct profile_seconds *whole = seconds_of(p, kind, 0, layer);
    double pass = p->batch == p->micro ? whole->pass : line.fixed + line.slope * p->batch;
    double update = whole->update * (p->batch / p->graph->header->batch);
    time->oct = at_least(pass + update);
    time->update = update < time->oct ? update : time->oct;
    time->fixed = line.fixed < pass ? line.fixed : pass;
    alpha_fit(p, kind, layer, time);
    move_fit(p, layer, &p->move, time);
    const char *name = graph_string(p->graph, p->graph->layers[layer].name);
    if (line.has_interval)
        log_detail(
            "profile  %s: %.3g us + %.3g us an example (95 %%: %.3g to %.3g, %.3g to %.3g), update %.3g us a step",
            name, line.fixed * 1e6, line.slope * 1e6, line.fixed_low * 1e6, line.fixed_high * 1e6, line.slope_low * 1e6,
            line.slope_high * 1e6, whole->update * 1e6);
    else
        log_detail("profile  %s: %.3g us + %.3g us an example (of too few batch sizes for an interval), "
                   "update %.3g us a step",
                   name, line.fixed * 1e6, line.slope * 1e6, whole->update * 1e6);
}

/* Times on a card. A stage has one card, so nothing divides. */
static void card_time(const struct profile *p, uint32_t card, uint32_t layer, struct instance_time *time)
{
    const struct card_times *times = &p->result.cards[card];
    const uint32_t layer_count = p->graph->layer_count;
    const struct fit_line move = fit_line(p->move_bytes, times->move, MOVES);
    double seconds[SIZES_MAX];
    for (uint32_t s = 0; s < p->size_count; s++) seconds[s] = at_least(times->pass[s * layer_count + layer]);
    *time = (struct instance_time){.alpha = 1, .beta = 1, .oct = INSTANCE_CANNOT};
    move_fit(p, layer, &move, time);
    time->beta = 1;
    if (isinf(seconds[0])) return;
    const struct fit_line line = fit_line(p->sizes, seconds, p->size_count);
    const double pass = p->batch == p->micro ? seconds[0] : line.fixed + line.slope * p->batch,
                 update = times->update[layer] * (p->batch / p->graph->header->batch);
    time->oct = at_least(pass + update);
    time->update = update < time->oct ? update : time->oct;
    time->fixed = line.fixed < pass ? line.fixed : pass;
}

/* --- stored and declared types ---------------------------------------------------------------- */

static status layers_match(const struct profile *p, const struct instance *stored, const char *path,
                           const struct cluster_type *type)
{
    const struct graph *g = p->graph;
    if (stored->layer_count != g->layer_count)
        FAIL(MISMATCH, "%s: %u layers, but the graph %s, which [type %s] of %s shall run, has %u", path,
             stored->layer_count, p->o->graph_path, type->resource.name, p->o->cluster->path, g->layer_count);
    for (uint32_t l = 0; l < g->layer_count; l++) {
        const char *name = graph_string(g, g->layers[l].name);
        if (strcmp(stored->layers[l].name, name) != 0)
            FAIL(MISMATCH,
                 "%s: layer %u is \"%s\", but that of the graph %s, which [type %s] of %s shall run, is \"%s\"", path,
                 l, stored->layers[l].name, p->o->graph_path, type->resource.name, p->o->cluster->path, name);
    }
    return ST_OK;
}

/* The factor of a layer on a slowed type: that of its most expensive op, which names the layer's kind. */
static double slowed_by(const struct profile *p, uint32_t type, uint32_t layer)
{
    const struct resource_slow *slow = slow_of(p, &p->o->cluster->types[type]);
    for (uint32_t op = 0; slow && op < OP_ID_COUNT; op++)
        if (strcmp(op_table[op].section, p->table.layers[layer].kind) == 0) return (double)slow->op[op];
    return 1;
}

static void time_slow(struct instance_time *time, double factor)
{
    time->oct *= factor;
    time->fixed *= factor;
    time->update *= factor;
}

/* Times for another batch: the fixed part stays, the rest grows in proportion. */
static struct instance_time time_scaled(const struct instance_time *time, double ratio)
{
    struct instance_time scaled = *time;
    scaled.oct = time->fixed + (time->oct - time->fixed) * ratio;
    scaled.update = time->update * ratio;
    scaled.odt = time->odt * ratio;
    return scaled;
}

static status stored_take(const struct profile *p, const struct instance *stored, const char *path, uint32_t type,
                          struct instance *instance)
{
    const struct cluster_type *of = &p->o->cluster->types[type];
    uint32_t t = 0;
    while (t < stored->type_count && strcmp(stored->types[t].resource.name, of->resource.name) != 0) t++;
    if (t == stored->type_count)
        FAIL(INVALID, "%s:%u: [type %s]: its stored profile %s has no type of this name, but \"%s\"%s",
             p->o->cluster->path, of->line, of->resource.name, path, stored->types[0].resource.name,
             stored->type_count > 1 ? " and others" : "");
    TRY(layers_match(p, stored, path, of));
    /* Times on a cpu type are multiplied, unless they were measured slowed. A sim device takes longer than
     * its plan says by itself: nothing is added. */
    bool is_slowed = of->resource.device == RESOURCE_CPU && !resource_is_slowed(&stored->types[t].resource.slow);
    for (uint32_t l = 0; l < instance->layer_count; l++) {
        struct instance_time *time = &instance->times[(size_t)l * instance->type_count + type];
        *time = time_scaled(instance_time(stored, l, t), p->batch / stored->batch);
        if (is_slowed) time_slow(time, slowed_by(p, type, l));
    }
    return ST_OK;
}

static status stored_read(const struct profile *p, uint32_t type, struct instance *instance)
{
    struct instance stored;
    char path[FILE_PATH_BYTES];
    profile_stored_path(path, p->o->cluster, &p->o->cluster->types[type]);
    TRY(instance_read(&stored, path));
    status st = stored_take(p, &stored, path, type, instance);
    instance_free(&stored);
    return st;
}

static status declared_take(const struct profile *p, uint32_t type, struct instance *instance)
{
    const struct cluster_type *of = &p->o->cluster->types[type];
    char device[16];
    if (!of->has_rates)
        FAIL(INVALID,
             "%s:%u: [type %s]: device %s is not here to be measured; give it a profile (profile = FILE, from "
             "`heterps-run profile` where it is), or rates: flops, memory_bandwidth and link_bandwidth",
             p->o->cluster->path, of->line, of->resource.name,
             resource_device_text(&of->resource, device, sizeof device));
    for (uint32_t l = 0; l < instance->layer_count; l++)
        instance->times[(size_t)l * instance->type_count + type] =
            estimate_time(&p->table.layers[l], &of->rates, p->batch);
    return ST_OK;
}

/* --- the instance ----------------------------------------------------------------------------- */

static void layers_describe(const struct profile *p, struct instance *instance)
{
    instance->name = instance_text(instance, graph_string(p->graph, p->graph->header->name));
    for (uint32_t l = 0; l < instance->layer_count; l++) {
        const struct layer_facts *facts = &p->table.layers[l];
        instance->layers[l] = (struct instance_layer){.name = instance_text(instance, facts->name),
                                                      .kind = instance_text(instance, facts->kind),
                                                      .in_bytes = facts->in_bytes,
                                                      .weight_bytes = facts->weight_bytes,
                                                      .dense_bytes = facts->dense_bytes,
                                                      .row_bytes = facts->row_bytes,
                                                      .cut_bytes = facts->cut_bytes,
                                                      .tied_before = facts->tied_before,
                                                      .tied_behind = facts->tied_behind,
                                                      .is_end = facts->is_end};
    }
}

static void types_describe(const struct profile *p, struct instance *instance)
{
    const struct cluster *cluster = p->o->cluster;
    for (uint32_t t = 0; t < instance->type_count; t++) {
        const struct cluster_type *of = &cluster->types[t];
        struct instance_type *type = &instance->types[t];
        type->resource = of->resource;
        type->resource.name = instance_text(instance, of->resource.name);
        type->source = is_measured(of) ? INSTANCE_MEASURED : *of->profile ? INSTANCE_STORED : INSTANCE_DECLARED;
    }
}

/* Takes all that is known without measuring, and checks the cluster. */
static status others_take(const struct profile *p, struct instance *instance)
{
    uint32_t limits[RESOURCE_TYPES_MAX];
    TRY(profile_limits_wanted(p->o, limits));
    layers_describe(p, instance);
    types_describe(p, instance);
    instance->batch = p->batch;
    instance->epochs = 1;
    instance->has_graph_hash = true;
    instance->graph_hash = p->graph->header->model_hash;
    for (uint32_t t = 0; t < instance->type_count; t++) {
        if (instance->types[t].source == INSTANCE_STORED) TRY(stored_read(p, t, instance));
        if (instance->types[t].source == INSTANCE_DECLARED) TRY(declared_take(p, t, instance));
    }
    return ST_OK;
}

static void alpha_tell(const struct profile *p)
{
    uint32_t count = units_measured(p);
    if (count == 1)
        log_info("profile  how layers divide among cores (alpha) is assumed, "
                 "%g for those that calculate and %g for others, for %s",
                 ALPHA_OF_CALCULATION, ALPHA_OF_MEMORY,
                 p->unit_count == 1 ? "one core is here" : "other programs used the cores meanwhile");
    if (count == 2)
        log_info("profile  alpha is that of two numbers of cores: a line through two points has no interval");
}

static bool is_busy(const struct profile *p)
{
    return p->result.spread > (p->o->spread_max > 0 ? p->o->spread_max : PROFILE_SPREAD);
}

static void remarks_tell(const struct profile *p)
{
    alpha_tell(p);
    if (is_busy(p))
        log_warning("the graph's profile was measured while the machine was busy: "
                    "the middle half of its rounds spreads over %.0f %%; it is not kept; --no-cache measures anew",
                    p->result.spread * 100);
    log_info("profile  measured in %.1f s: %u rounds, medians of them; their middle half spreads over %.1f %%",
             p->result.seconds, p->result.rounds, p->result.spread * 100);
    if (p->data.settings.store_ssd)
        log_info("profile  these times do not include waiting for rows on disk, "
                 "which `heterps-run bench disk DIR` measures");
    log_detail("profile  moving between cores: %.3g us + %.3g GB/s; reading %.3g us an example", p->move.fixed * 1e6,
               1e-9 / p->move.slope, p->result.reading_seconds * 1e6);
}

static status measure(struct profile *p, struct instance *instance)
{
    TRY(others_take(p, instance));
    TRY(profile_run(&(struct profile_run_options){.graph = p->graph,
                                                  .settings = &p->data.settings,
                                                  .data = p->data.paths,
                                                  .cores = &p->cores,
                                                  .isa = p->o->isa,
                                                  .configs = p->configs,
                                                  .config_count = p->kind_count ? p->config_count : 0,
                                                  .kinds = p->kinds,
                                                  .kind_count = p->kind_count,
                                                  .cards = p->cards,
                                                  .card_count = p->card_count,
                                                  .card_sizes = p->sizes,
                                                  .card_size_count = p->size_count,
                                                  .move_bytes = p->move_bytes,
                                                  .move_count = MOVES,
                                                  .seconds = p->o->seconds > 0 ? p->o->seconds : PROFILE_SECONDS},
                    &p->result));
    p->move = fit_line(p->move_bytes, p->result.move_seconds, MOVES);
    layer_table_rows(&p->table, p->graph, p->result.rows);
    for (uint32_t l = 0; l < instance->layer_count; l++) instance->layers[l].row_bytes = p->table.layers[l].row_bytes;
    if (p->kind_count > 0) remarks_tell(p);
    for (uint32_t t = 0; t < instance->type_count; t++)
        for (uint32_t l = 0; l < instance->layer_count && p->kind_of[t] != KIND_NONE; l++)
            measured_time(p, p->kind_of[t], l, &instance->times[(size_t)l * instance->type_count + t]);
    for (uint32_t t = 0; t < instance->type_count; t++)
        for (uint32_t l = 0; l < instance->layer_count && p->card_of[t] != KIND_NONE; l++)
            card_time(p, p->card_of[t], l, &instance->times[(size_t)l * instance->type_count + t]);
    instance->service_seconds = p->result.reading_seconds;
    instance->examples = p->result.examples > 0 ? p->result.examples : PROFILE_EXAMPLES_UNKNOWN;
    return instance_check(instance);
}

static status profile_open(struct profile *p)
{
    const struct graph *g = p->graph;
    uint32_t type_count = p->o->cluster->type_count;
    p->micro = g->header->micro;
    p->batch = p->o->batch > 0 ? p->o->batch : p->micro;
    cores_allowed(&p->cores);
    TRY(profile_data_open(&p->data, p->o));
    TRY(layer_table_of_graph(&p->table, g));
    p->kind_of = calloc(type_count, sizeof *p->kind_of);
    p->kinds = calloc(type_count, sizeof *p->kinds);
    p->card_of = calloc(type_count, sizeof *p->card_of);
    p->cards = calloc(type_count, sizeof *p->cards);
    p->moved = calloc(g->layer_count, sizeof *p->moved);
    if (p->kind_of == NULL || p->kinds == NULL || p->card_of == NULL || p->cards == NULL || p->moved == NULL)
        FAIL(MEMORY, "no memory for a profile");
    kinds_list(p);
    configs_list(p);
    return moves_list(p);
}

static void profile_close(struct profile *p)
{
    profile_run_free(&p->result);
    layer_table_free(&p->table);
    profile_data_close(&p->data);
    free(p->kind_of);
    free(p->kinds);
    free(p->card_of);
    free(p->cards);
    free(p->moved);
}

status profile_take(struct instance *instance, const struct profile_options *o, bool *busy)
{
    struct profile p = {.o = o, .graph = o->graph};
    *instance = (struct instance){0};
    status st = profile_open(&p);
    if (st == ST_OK) st = instance_make(instance, o->graph->layer_count, o->cluster->type_count);
    if (st == ST_OK) st = measure(&p, instance);
    if (st != ST_OK) instance_free(instance);
    *busy = is_busy(&p);
    profile_close(&p);
    return st;
}

status profile_check(struct instance *instance, const struct profile_options *o)
{
    struct profile p = {.o = o, .graph = o->graph};
    *instance = (struct instance){0};
    status st = profile_open(&p);
    if (st == ST_OK) st = instance_make(instance, o->graph->layer_count, o->cluster->type_count);
    if (st == ST_OK) st = others_take(&p, instance);
    profile_close(&p);
    if (st == ST_OK) return profile_goal_set(instance, o);
    instance_free(instance);
    return st;
}

status profile_measure(struct instance *instance, const struct profile_options *o)
{
    bool busy;
    TRY(profile_take(instance, o, &busy));
    return profile_goal_set(instance, o);
}
