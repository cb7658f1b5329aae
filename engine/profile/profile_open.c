/* Opens a run of a profile: data, the user's or generated, slots, sums of gradients, rows, a device for each
 * number of cores, and room for samples. One block of memory; nothing is allocated while turns run. */
#include "engine/profile/profile_run_internal.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/log.h"
#include "engine/device/cpu/cpu_device.h"

/* Bounds the keys of a step, and so its micro-batches: sums of gradients of many keys would be large. */
#define STEP_KEYS_MAX ((uint64_t)1 << 22)
/* Bounds of the rows of generated data. */
#define GENERATED_ROWS_MIN 2048u
#define GENERATED_ROWS_MAX GEN_MEMORY_ROWS_UNKNOWN

/* Generates about as many rows as measuring reads in its time. */
static status data_generate(struct run *r)
{
    double rows = r->o->seconds * GENERATED_ROWS_MAX;
    if (rows < GENERATED_ROWS_MIN) rows = GENERATED_ROWS_MIN;
    return gen_memory_open(
        &r->generated,
        &(struct gen_memory_options){.format = (enum reader_format)r->o->settings->data_format,
                                     .schema = &r->schema.reader,
                                     .row_count = rows < GENERATED_ROWS_MAX ? (uint32_t)rows : GENERATED_ROWS_MAX,
                                     .vocab = GEN_MEMORY_VOCAB_UNKNOWN});
}

static status data_open(struct run *r)
{
    const struct graph *g = r->graph;
    const struct settings *settings = r->o->settings;
    const char *paths = r->o->data;
    TRY(schema_open(&r->schema, g, settings));
    if (paths == NULL) {
        TRY(data_generate(r));
        paths = r->generated.path;
    }
    TRY(reader_open(&r->reader, &(struct reader_options){.format = (enum reader_format)settings->data_format,
                                                         .paths = paths,
                                                         .schema = r->schema.reader,
                                                         .bad_skip = settings->data_bad_lines == BAD_LINES_SKIP,
                                                         .seed = g->header->seed,
                                                         .part = "profile",
                                                         .notices = &log_notices}));
    if (r->reader->is_stream) FAIL(USAGE, "%s can be read only once; a profile needs a file", paths);
    if (r->o->data) r->result->examples = (double)r->reader->example_estimate;
    return reader_start(r->reader, 0);
}

static uint64_t step_rows_max(const struct run *r, uint32_t table)
{
    return (uint64_t)r->micros_max * r->shape.micro * r->graph->tables[table].key_count_max;
}

static void run_layout(struct layout *l, struct run *r)
{
    const struct graph *g = r->graph;
    uint32_t spans[GRAPH_TABLES_MAX], config_count = r->o->config_count;
    size_t kind_layers = (size_t)r->o->kind_count * g->layer_count, cells = kind_layers * config_count;
    for (uint32_t t = 0; t < g->table_count; t++) spans[t] = g->tables[t].span_floats;
    struct input *inputs;
    LAYOUT_TAKE(l, r->slots, SLOT_COUNT);
    for (uint32_t s = 0; s < SLOT_COUNT; s++) slot_layout(l, l->arena ? &r->slots[s] : NULL, g, true);
    LAYOUT_TAKE(l, inputs, SLOT_COUNT);
    for (uint32_t s = 0; s < SLOT_COUNT; s++) {
        input_layout(l, l->arena ? &inputs[s] : NULL, g, spans, false);
        if (!l->arena) continue;
        r->slots[s].index = inputs[s].index = s;
        r->slots[s].input = &inputs[s];
    }
    LAYOUT_TAKE(l, r->rows, g->table_count);
    LAYOUT_TAKE(l, r->numbers, g->table_count);
    for (uint32_t t = 0; t < g->table_count; t++) {
        uint32_t rows_max = (uint32_t)step_rows_max(r, t);
        bool reads_shows = optimizer_reads_shows(&g->optimizers[g->tables[t].optimizer]);
        row_numbers_layout(l->arena ? &r->numbers[t] : NULL, l, rows_max, r->micros_max);
        struct step_rows_wants wants = {
            .shows = reads_shows, .lanes = r->shape.lanes > 1, .keys = g->tables[t].store == TABLE_BF16};
        step_rows_layout(l->arena ? &r->rows[t] : NULL, l, rows_max, wants);
    }
    gradients_layout(&r->gradients, l, g, r->shape.lanes, (uint64_t)r->micros_max * r->shape.micro);
    LAYOUT_TAKE(l, r->scratch, gradients_scratch(g, r->shape.lanes));
    LAYOUT_TAKE(l, r->segments, g->node_count);
    LAYOUT_TAKE(l, r->updates, (size_t)g->layer_count * g->update_count + g->table_count);
    uint32_t block_count = clip_blocks_list(g, 0, g->forward_count, NULL);
    LAYOUT_TAKE(l, r->blocks, block_count);
    LAYOUT_TAKE(l, r->squares, block_count);
    if (l->arena) (void)clip_blocks_list(g, 0, g->forward_count, r->blocks);
    LAYOUT_TAKE(l, r->devices, config_count);
    LAYOUT_TAKE(l, r->steps, config_count);
    LAYOUT_TAKE(l, r->pass, kind_layers * PASSES_MAX);
    LAYOUT_TAKE(l, r->param, kind_layers * PASSES_MAX);
    LAYOUT_TAKE(l, r->row, kind_layers * PASSES_MAX);
    LAYOUT_TAKE(l, r->is_disturbed, (size_t)config_count * ROUNDS_MAX);
    LAYOUT_TAKE(l, r->round_pass, cells * ROUNDS_MAX);
    LAYOUT_TAKE(l, r->round_update, cells * ROUNDS_MAX);
    LAYOUT_TAKE(l, r->round_total, (size_t)config_count * ROUNDS_MAX);
    LAYOUT_TAKE(l, r->round_reading, ROUNDS_MAX + READING_TURNS);
}

static void segments_list(struct run *r)
{
    const struct graph *g = r->graph;
    bool is_slowed = false; /* factors differ by op: every node is timed by itself */
    for (uint32_t k = 0; k < r->o->kind_count; k++) is_slowed |= r->o->kinds[k] != NULL;
    for (uint32_t n = 0; n < g->node_count; n++) {
        struct segment *last = r->segment_count ? &r->segments[r->segment_count - 1] : NULL;
        bool is_next = last && last->layer == g->nodes[n].layer && n != g->forward_count && !is_slowed;
        if (is_next)
            last->count++;
        else
            r->segments[r->segment_count++] = (struct segment){n, 1, g->nodes[n].layer};
    }
}

/* Lists the updates of each layer, as a stage of this layer alone would have them. */
static void updates_list(struct run *r)
{
    const struct graph *g = r->graph;
    for (uint32_t s = 0; s < r->segment_count; s++) {
        uint32_t begin = r->segments[s].begin, end = begin + r->segments[s].count;
        if (begin >= g->forward_count) break;
        for (uint32_t u = 0; u < g->update_count; u++) {
            struct layer_update update = {.layer = r->segments[s].layer, .update = u};
            if (!param_run_find(&update.run, g, &r->model, begin, end, u)) continue;
            update.block_begin = clip_blocks_list(g, 0, begin, NULL);
            update.block_count = clip_blocks_list(g, begin, end, NULL);
            r->updates[r->update_count++] = update;
        }
        for (uint32_t t = 0; t < g->table_count; t++) {
            uint32_t node = graph_table_first_node(g, t);
            if (begin <= node && node < end)
                r->updates[r->update_count++] =
                    (struct layer_update){.layer = r->segments[s].layer, .update = GRAPH_NONE, .table = t};
        }
    }
}

static status devices_open(struct run *r)
{
    const struct cores *cores = r->o->cores;
    for (uint32_t c = 0; c < r->o->config_count; c++) {
        const struct profile_config *config = &r->o->configs[c];
        CHECK(config->cores >= 1 && config->cores <= cores->count && config->examples >= 1 &&
              config->examples <= r->shape.micro);
        for (uint32_t before = 0; before < c && r->devices[c] == NULL; before++)
            if (r->o->configs[before].cores == config->cores) r->devices[c] = r->devices[before];
        if (r->devices[c]) continue;
        TRY(cpu_device_open(&r->devices[c], r->graph, config->cores, cores->is_whole ? cores->processor : NULL,
                            r->o->isa));
    }
    return ST_OK;
}

static void devices_close(struct run *r)
{
    for (uint32_t c = 0; r->devices && c < r->o->config_count; c++) {
        struct device *device = r->devices[c];
        if (device == NULL) continue;
        for (uint32_t i = c; i < r->o->config_count; i++)
            if (r->devices[i] == device) r->devices[i] = NULL;
        device_close(device);
    }
}

static status result_open(struct run *r)
{
    struct profile_run_result *result = r->result;
    size_t cells = (size_t)r->o->kind_count * r->o->config_count * r->graph->layer_count;
    result->layers = calloc(cells + 1, sizeof *result->layers);
    result->move_seconds = calloc(r->o->move_count + 1, sizeof *result->move_seconds);
    result->is_disturbed = calloc(r->o->config_count + 1, sizeof *result->is_disturbed);
    result->rows = calloc(r->graph->table_count + 1, sizeof *result->rows);
    result->cards = calloc(r->o->card_count + 1, sizeof *result->cards);
    result->card_count = result->cards ? r->o->card_count : 0;
    if (result->layers == NULL || result->move_seconds == NULL || result->is_disturbed == NULL ||
        result->rows == NULL || result->cards == NULL)
        FAIL(MEMORY, "no memory for a profile");
    return ST_OK;
}

status profile_open(struct run *r)
{
    const struct graph *g = r->graph;
    uint64_t micro_keys = (uint64_t)r->shape.micro * g->header->key_count_max + 1, most = STEP_KEYS_MAX / micro_keys;
    if (most > PASSES_MAX) most = PASSES_MAX;
    if (most > batch_micro_count(r->shape)) most = batch_micro_count(r->shape);
    r->micros_max = most > 1 ? (uint32_t)most : 1;
    TRY(result_open(r));
    const struct settings *settings = r->o->settings;
    TRY(settings_disk_check(settings));
    TRY(model_open(&r->model, g,
                   &(struct model_budget){.ram_bytes = settings->store_ram,
                                          .disk_bytes = settings->store_ssd,
                                          .path = settings->store_path,
                                          .io_threads = settings->data_io == IO_THREADS}));
    model_init(&r->model);
    struct layout sum = {0}, taken = {.arena = &r->arena};
    run_layout(&sum, r);
    if (sum.bytes == SIZE_MAX) FAIL(MEMORY, "a profile needs more bytes than any machine has; lower train.lanes");
    TRY(arena_open(&r->arena, "profile", sum.bytes));
    run_layout(&taken, r);
    segments_list(r);
    updates_list(r);
    TRY(data_open(r));
    return devices_open(r);
}

void profile_close(struct run *r)
{
    devices_close(r);
    if (r->reader) reader_close(r->reader);
    schema_close(&r->schema);
    gen_memory_close(&r->generated);
    arena_close(&r->arena);
    model_close(&r->model);
}
