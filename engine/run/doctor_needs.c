/* Says what an opened training needs, section by section. Once a call of `doctor`. */
#include "engine/run/doctor_needs.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "engine/base/machine.h"
#include "engine/base/paths.h"
#include "engine/base/words.h"
#include "engine/device/cpu/cpu_device.h"
#include "engine/eval/evaluate.h"
#include "engine/model/model_saved.h"
#include "engine/model/warm_start.h"
#include "engine/pipe/placement.h"
#include "engine/run/first_read.h"
#include "engine/run/report.h"
#include "gpu/blas.h"
#include "gpu/gpu.h"
#include "io/store/store_figures.h"
#include "io/store/store_rows.h"

#define BYTES(value)     words_size((char[WORDS_SIZE_BYTES]){0}, value)
#define COUNT(value)     words_whole((char[27]){0}, value)
#define TEXT(bytes, ...) text_make((char[bytes]){0}, bytes, __VA_ARGS__)
#define TOLD_TABLES_MAX  64u

static const char *text_make(char *text, size_t bytes, const char *format, ...) PRINTF_LIKE(3, 4);
static const char *text_make(char *text, size_t bytes, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, bytes, format, arguments);
    va_end(arguments);
    return text;
}

/* The training that is looked at, and where lines go. */
struct look {
    struct session *session;
    const struct train_options *options;
    const struct eval_sets *eval;
    struct doctor_memory *memory;
    doctor_say *say;
    void *context;
};

void doctor_tell(doctor_say *say, void *context, enum doctor_section section, enum doctor_state state, const char *what,
                 const char *needed, const char *found, const char *todo)
{
    struct doctor_line line = {.section = section, .state = state};
    snprintf(line.what, sizeof line.what, "%s", what);
    snprintf(line.needed, sizeof line.needed, "%s", needed);
    snprintf(line.found, sizeof line.found, "%s", found);
    snprintf(line.todo, sizeof line.todo, "%s", todo ? todo : "");
    say(context, &line);
}

static void tell(const struct look *l, enum doctor_section section, enum doctor_state state, const char *what,
                 const char *needed, const char *found, const char *todo)
{
    doctor_tell(l->say, l->context, section, state, what, needed, found, todo);
}

/* --- model -------------------------------------------------------------------------------------- */

static void model_look(const struct look *l)
{
    const struct session *s = l->session;
    const struct graph *g = &s->setup.graph;
    const enum isa isa = cpu_device_isa(pipeline_device(s->crew.pipeline));
    uint64_t param_count = 0;
    for (uint32_t i = 0; i < g->layer_count; i++) param_count += g->layers[i].param_count;
    tell(l, DOCTOR_model, DOCTOR_OK, graph_string(g, g->header->name), "",
         TEXT(128, "%u layers, %s parameters, %u table%s", g->layer_count, COUNT(param_count), g->table_count,
              words_s(g->table_count)),
         NULL);
    const bool is_bf16 = s->setup.settings.train_precision == PRECISION_BF16, is_fast = isa >= ISA_avx512bf16;
    tell(l, DOCTOR_model, is_bf16 && !is_fast ? DOCTOR_WARN : DOCTOR_OK, "instruction set",
         is_bf16 ? isa_names[is_fast ? isa : ISA_avx512bf16] : "", isa_names[isa],
         is_bf16 && !is_fast ? "train.precision = bf16 is not faster than float32 here: "
                               "it takes the same multiply-adds, and rounding; give --set train.precision=f32"
                             : NULL);
}

/* --- data --------------------------------------------------------------------------------------- */

static status examples_look(void *context, const struct micro_batch *m, bool is_end, bool *is_enough)
{
    (void)is_end;
    *(uint32_t *)context = m->example_count;
    *is_enough = true;
    return ST_OK;
}

/* Returns about how many examples these lines of the paths have; 0: unknown. */
static uint64_t paths_look(const struct look *l, const char *what, const char *paths, enum reader_part lines)
{
    const struct feed_options feed = crew_feed_options(&l->session->crew, paths);
    struct reader_options options = feed.reader;
    struct reader *reader;
    char room[PATHS_SHOWN_BYTES];
    const char *shown = paths_shown(room, paths);
    options.lines = lines;
    options.readers = 1;
    options.processor_count = 0;
    status st = reader_open(&reader, &options);
    if (st != ST_OK) {
        tell(l, DOCTOR_data, DOCTOR_FAIL, what, "", shown, status_message());
        return 0;
    }
    const bool is_stream = reader->is_stream;
    const uint64_t bytes = reader->size_bytes, estimate = reader->example_estimate;
    reader_close(reader);
    if (is_stream) {
        tell(l, DOCTOR_data, DOCTOR_WARN, what, "", shown,
             "a stream can be read only once, so its lines were not checked");
        return 0;
    }
    uint32_t example_count = 0;
    uint64_t bad_count;
    st = first_read(&l->session->crew, &l->session->setup, paths, lines, examples_look, &example_count, &bad_count);
    const char *found = TEXT(512, "%s: %s, about %s examples", shown, BYTES(bytes), COUNT(estimate));
    if (st != ST_OK)
        tell(l, DOCTOR_data, DOCTOR_FAIL, what, "", found, status_message());
    else if (example_count == 0)
        tell(l, DOCTOR_data, DOCTOR_FAIL, what, "", found,
             bad_count ? "no examples: every line is malformed" : "no examples");
    else if (bad_count)
        tell(l, DOCTOR_data, DOCTOR_WARN, what, "", found,
             TEXT(160, "%s of the first %s lines are malformed, and skipped (data.bad_lines = skip)", COUNT(bad_count),
                  COUNT(bad_count + example_count)));
    else
        tell(l, DOCTOR_data, DOCTOR_OK, what, "", TEXT(600, "%s; the first %s read well", found, COUNT(example_count)),
             NULL);
    return st == ST_OK && example_count ? estimate : 0;
}

/* `estimate`: examples of a pass. */
static void steps_look(const struct look *l, uint64_t estimate)
{
    const uint32_t batch = graph_batch(&l->session->setup.graph).batch, smaller = report_batch_smaller(estimate, batch);
    if (estimate == 0) return;
    tell(l, DOCTOR_data, smaller ? DOCTOR_WARN : DOCTOR_OK, "steps a pass", "",
         TEXT(64, "about %s", COUNT((estimate + batch - 1) / batch)),
         smaller ? TEXT(160, "a smaller train.batch than %u would learn more in a pass; --set train.batch=%u", batch,
                        smaller)
                 : NULL);
}

static void data_look(const struct look *l)
{
    const struct session *s = l->session;
    const bool holds_out = s->setup.settings.data_eval_fraction > 0;
    steps_look(l, paths_look(l, "training", l->options->data, holds_out ? READER_TRAIN : READER_ALL));
    for (uint32_t i = 0; i < l->eval->count; i++) {
        const struct eval_set *set = &l->eval->item[i];
        enum reader_part lines = READER_HELD_OUT;
        const bool is_part = set->paths == l->options->data;
        if (is_part || evaluate_lines(&s->setup, set->paths, l->options->data, &lines) == ST_OK)
            (void)paths_look(l, TEXT(80, DOCTOR_EVALUATION "%s%s", *set->name ? " " : "", set->name), set->paths,
                             lines);
    }
    if (l->eval->count == 0)
        tell(l, DOCTOR_data, DOCTOR_OK, DOCTOR_EVALUATION, "", "none: neither --eval, data.eval nor data.eval_fraction",
             NULL);
}

/* --- memory ------------------------------------------------------------------------------------- */

static void memory_look(const struct look *l)
{
    const struct session *s = l->session;
    struct memory_part part;
    const struct memory_limit limit = memory_limit();
    *l->memory = (struct doctor_memory){.planned_bytes = memory_planned_bytes(),
                                        .room_bytes = limit.room_bytes,
                                        .store_ram = s->setup.settings.store_ram};
    for (size_t i = 0; memory_part_get(i, &part); i++)
        if (part.planned_bytes) tell(l, DOCTOR_memory, DOCTOR_OK, part.name, BYTES(part.planned_bytes), "", NULL);
    const bool fits = setup_memory_check(&s->setup) == ST_OK;
    tell(l, DOCTOR_memory, fits ? DOCTOR_OK : DOCTOR_FAIL, "in all", BYTES(l->memory->planned_bytes),
         limit.room_bytes == SIZE_MAX ? "no bound" : TEXT(400, "%s (%s)", BYTES(limit.room_bytes), limit.name),
         fits ? NULL : status_message());
}

/* --- rows --------------------------------------------------------------------------------------- */

/* Looks at the model that --init names, without its values. */
static void init_look(const struct look *l)
{
    const char *path = l->options->init;
    if (path == NULL) return;
    const bool fits =
        warm_start(&l->session->setup.model, &(struct warm_start_options){.path = path, .only_looks = true}) == ST_OK;
    tell(l, DOCTOR_save, fits ? DOCTOR_OK : DOCTOR_FAIL, "--init", "", path, fits ? NULL : status_message());
}

/* Whether the rows of the save to go on from have room. */
static void resumed_rows_look(const struct look *l)
{
    const struct graph *g = &l->session->setup.graph;
    struct model_saved saved;
    if (l->options->resume == NULL) return;
    if (model_saved_open(&saved, l->options->resume) != ST_OK) {
        tell(l, DOCTOR_save, DOCTOR_FAIL, l->options->is_new_pass ? "--continue" : "--resume", "", l->options->resume,
             status_message());
        return;
    }
    for (uint32_t i = 0; i < saved.manifest.table_count; i++) {
        const struct manifest_table *said = &saved.manifest.tables[i];
        for (uint32_t t = 0; t < g->table_count; t++) {
            if (strcmp(graph_string(g, g->tables[t].name), said->name) != 0) continue;
            const uint64_t row_max = store_row_max(l->session->setup.model.store, t);
            const bool fits = said->rows <= row_max;
            tell(l, DOCTOR_rows, fits ? DOCTOR_OK : DOCTOR_FAIL, TEXT(80, "%s of the save", said->name),
                 TEXT(64, "%s rows", COUNT(said->rows)), TEXT(64, "room for %s", COUNT(row_max)),
                 fits ? NULL : "raise store.ram, or give rows a disk: --set store.ssd=… --set store.path=DIR");
        }
    }
    model_saved_close(&saved);
}

static void rows_look(const struct look *l)
{
    const struct session *s = l->session;
    const struct graph *g = &s->setup.graph;
    for (uint32_t t = 0; t < g->table_count && t < TOLD_TABLES_MAX; t++) {
        const uint64_t rows = store_row_max(s->setup.model.store, t);
        const uint64_t disk_rows =
            store_has_home(s->setup.model.store) ? store_counts(s->setup.model.store, t).disk.row_max : 0;
        const char *found =
            TEXT(200, "room for %s rows of %u B in RAM", COUNT(rows - disk_rows), g->tables[t].span_floats * 4);
        tell(l, DOCTOR_rows, DOCTOR_OK, graph_string(g, g->tables[t].name), "",
             disk_rows ? TEXT(300, "%s, %s on disk", found, COUNT(disk_rows)) : found, NULL);
    }
    resumed_rows_look(l);
    init_look(l);
}

/* --- disk --------------------------------------------------------------------------------------- */

/* Whether a directory's disk has the bytes free. */
static void free_look(const struct look *l, enum doctor_section section, const char *what, const char *directory,
                      uint64_t needed_bytes, enum doctor_state state_if_not, const char *todo)
{
    struct machine_disk disk;
    if (machine_disk_read(&disk, directory) != ST_OK) {
        tell(l, section, DOCTOR_FAIL, what, BYTES(needed_bytes), "", status_message());
        return;
    }
    const bool fits = disk.free_bytes >= needed_bytes;
    tell(l, section, fits ? DOCTOR_OK : state_if_not, what, BYTES(needed_bytes),
         TEXT(400, "%s free in %s%s%s", BYTES(disk.free_bytes), directory, *disk.file_system ? ", " : "",
              disk.file_system),
         fits ? NULL : todo);
}

static void disk_look(const struct look *l)
{
    const struct settings *set = &l->session->setup.settings;
    const struct store *store = l->session->setup.model.store;
    struct rlimit files;
    if (store_has_home(store)) {
        struct machine_disk disk = {0};
        (void)!machine_disk_read(&disk, set->store_path);
        free_look(l, DOCTOR_disk, DOCTOR_ROWS, set->store_path, set->store_ssd, DOCTOR_FAIL,
                  "free some of it, or give another store.path");
        if (disk.free_bytes < set->store_ssd) l->memory->disk_free_bytes = disk.free_bytes;
        const char *by = store_disk_name(store);
        const bool is_cached = strstr(by, "page cache") != NULL;
        tell(l, DOCTOR_disk, is_cached ? DOCTOR_WARN : DOCTOR_OK, "reads and writes", "", by,
             is_cached ? "no O_DIRECT in this directory: reads take memory that is not planned; "
                         "give a store.path on a file system such as ext4 or xfs"
                       : NULL);
        if (getrlimit(RLIMIT_NOFILE, &files) == 0)
            tell(l, DOCTOR_disk, DOCTOR_OK, "open files", COUNT(store_disk_files(store)), COUNT(files.rlim_cur), NULL);
    } else {
        tell(l, DOCTOR_disk, DOCTOR_OK, DOCTOR_ROWS, "", "none on disk (store.ssd = 0)", NULL);
    }
    if (set->cache_ssd) {
        const char *paths = l->options->data, *name = set->cache_path;
        size_t bytes;
        char path[PATH_MAX];
        snprintf(path, sizeof path, "%s", name);
        if (*name == 0 && paths_next(&paths, &name, &bytes)) path_copy(path, name, bytes);
        char *slash = strrchr(path, '/');
        if (slash) slash[slash == path] = 0;
        free_look(l, DOCTOR_disk, "data cache", slash ? path : ".", set->cache_ssd, DOCTOR_WARN,
                  "the cache may be cut short; lower cache.ssd, or give another cache.path");
    }
}

/* --- the directory of saves --------------------------------------------------------------------- */

/* Bytes of a save with as many rows as there may be: key and span of each (io/store/row_file.h),
 * parameters and state as float32. */
static uint64_t save_bytes_max(const struct session *s, uint64_t *dense_bytes)
{
    const struct graph *g = &s->setup.graph;
    uint64_t sum = *dense_bytes = (g->header->param_floats + g->header->state_floats) * sizeof(float);
    for (uint32_t t = 0; t < g->table_count; t++)
        sum += store_row_max(s->setup.model.store, t) * (sizeof(uint64_t) + g->tables[t].span_floats * sizeof(float));
    return sum;
}

static void save_look(const struct look *l)
{
    const struct settings *set = &l->session->setup.settings;
    const char *out = l->options->out;
    uint64_t dense_bytes;
    const uint64_t most = save_bytes_max(l->session, &dense_bytes), count = (uint64_t)set->checkpoint_keep + 1;
    if (out == NULL) {
        tell(l, DOCTOR_save, DOCTOR_WARN, "--out", "", "none", "nothing will be saved; give --out DIR");
        return;
    }
    tell(l, DOCTOR_save, DOCTOR_OK, "--out", "", TEXT(400, "%s: writable, and no other run uses it", out), NULL);
    free_look(l, DOCTOR_save, "parameters", out, count * dense_bytes, DOCTOR_FAIL,
              TEXT(200, "free some of it, or give another --out: checkpoint.keep = %u saves and one more",
                   set->checkpoint_keep));
    free_look(l, DOCTOR_save, "with all rows", out, count * most, DOCTOR_WARN,
              "enough for fewer rows than there is room for; free some of it, or lower checkpoint.keep, "
              "store.ram or store.ssd");
}

/* --- plan --------------------------------------------------------------------------------------- */

static void plan_look(const struct look *l)
{
    const struct session *s = l->session;
    char text[512];
    const uint32_t pipelines = s->setup.settings.train_pipelines, cores = s->crew.cores.count;
    struct pipeline_figures figures;
    pipeline_figures(s->crew.pipeline, &figures);
    const uint32_t of_stages = plan_cpu_cores(&s->crew.plan) - s->crew.plan.service_cores;
    tell(l, DOCTOR_plan, DOCTOR_OK, "stages", "", plan_text(&s->crew.plan, &s->setup.graph, text, sizeof text), NULL);
    tell(l, DOCTOR_plan, figures.is_shared ? DOCTOR_WARN : DOCTOR_OK, "cores",
         COUNT((uint64_t)of_stages * pipelines + s->crew.plan.service_cores),
         cores == s->crew.threads ? COUNT(cores) : TEXT(64, "%u of %u (--threads)", s->crew.threads, cores),
         figures.is_shared ? "stages share the cores (--share), and are slower than planned" : NULL);
}

/* Says how many stages of the plan are on cards, and what cards there are. */
static void cards_look(const struct look *l)
{
    const struct plan *plan = &l->session->crew.plan;
    const char *why;
    uint64_t needed = 0;
    for (uint32_t i = 0; i < plan->stage_count; i++) needed += device_kind_of(plan, i)->has_memory;
    const uint32_t count = gpu_count(&why);
    tell(l, DOCTOR_cards, DOCTOR_OK, DOCTOR_CARD_STAGES, needed ? COUNT(needed) : "none",
         count ? COUNT(count) : TEXT(400, "none: %s", why), NULL);
    if (l->session->setup.settings.train_precision == PRECISION_TF32 && needed == 0)
        tell(l, DOCTOR_cards, DOCTOR_WARN, "train.precision", "a stage on a card", "none",
             "tf32 needs cards of compute capability 8.0 or more: here every product is in float32, "
             "as with --set train.precision=f32");
    const char *blas = count ? gpu_blas_library(&why) : NULL;
    if (count)
        tell(l, DOCTOR_cards, DOCTOR_OK, "products", "",
             blas ? blas : TEXT(400, "our own kernels; no cuBLASLt: %s", why), NULL);
    for (uint32_t i = 0; i < count; i++) {
        struct gpu_facts facts;
        if (gpu_describe(i, &facts) != ST_OK) continue;
        tell(l, DOCTOR_cards, DOCTOR_OK, facts.device, "",
             TEXT(300, "%s, %s of %s free", facts.name, BYTES(facts.free_bytes), BYTES(facts.memory_bytes)), NULL);
    }
}

void doctor_look(struct session *session, const struct train_options *options, const struct eval_sets *eval,
                 struct doctor_memory *memory, doctor_say *say, void *context)
{
    const struct look l = {session, options, eval, memory, say, context};
    memory_look(&l); /* before anything else takes memory */
    model_look(&l);
    data_look(&l);
    rows_look(&l);
    disk_look(&l);
    save_look(&l);
    plan_look(&l);
    cards_look(&l);
}
