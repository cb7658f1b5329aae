/* What doctor says of a training that fits and of one that does not: each line's state, what is needed and
 * found, and what to change. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/engine/run/session_fixture.h"

#include "engine/base/machine.h"
#include "engine/base/words.h"
#include "engine/model/model_saved.h"
#include "engine/run/doctor_needs.h"
#include "io/store/store_figures.h"

#define ROWS 100u

static char data_path[256], eval_path[256];

static int group_open(void **state)
{
    if (session_fixture_open(state) != 0) return -1;
    snprintf(data_path, sizeof data_path, "%s", fixture_path("data.tsv"));
    snprintf(eval_path, sizeof eval_path, "%s", fixture_path("eval.tsv"));
    fixture_data(data_path, 0, ROWS, NULL);
    fixture_data(eval_path, ROWS, ROWS, NULL);
    return 0;
}

/* The lines of a look, and the session that was looked at. */
static struct looked {
    struct opened o;
    struct doctor_memory memory;
    struct memory_part parts[64]; /* of the plan, when it was looked at */
    size_t part_count;
    uint32_t count;
    struct doctor_line lines[128];
} l;

static void line_keep(void *context, const struct doctor_line *line)
{
    (void)context;
    CHECK(l.count < sizeof l.lines / sizeof *l.lines);
    l.lines[l.count++] = *line;
}

static status look(void *context, struct session *session, const struct train_options *options,
                   const struct eval_sets *eval)
{
    (void)context;
    while (l.part_count < 64 && memory_part_get(l.part_count, &l.parts[l.part_count])) l.part_count++;
    doctor_look(session, options, eval, &l.memory, line_keep, NULL);
    return ST_OK;
}

static const char *plan_path;

/* Looks at what a training with these options would need, by the plan of plan_path,
 * if any; looked_close follows. */
static void looked_open(const struct train_options *options, const char *const *set)
{
    struct train_options all = *options;
    all.look = look;
    if (all.data == NULL) all.data = data_path;
    memset(&l, 0, sizeof l);
    opened_begin_planned(&l.o, set, LOG_TEXT, plan_path);
    status st = all.out ? model_dir_check(&l.o.session.setup.graph, all.out) : ST_OK;
    if (st == ST_OK) st = train_run(&l.o.session, &all);
    opened_end(&l.o);
    assert_ok(st);
    assert_true(l.count > 0);
}
static void looked_close(void) { opened_close(&l.o); }

/* The line of that section and name. */
static const struct doctor_line *line_of(enum doctor_section section, const char *what)
{
    for (uint32_t i = 0; i < l.count; i++)
        if (l.lines[i].section == section && strcmp(l.lines[i].what, what) == 0) return &l.lines[i];
    fail_msg("no line \"%s\"", what);
    return NULL;
}

/* The line has that state, and these texts are in it; NULL: any. */
static void assert_line(enum doctor_section section, const char *what, enum doctor_state state, const char *needed,
                        const char *found, const char *todo)
{
    const struct doctor_line *line = line_of(section, what);
    if (line->state != state || (needed && strcmp(line->needed, needed) != 0) ||
        (found && !strstr(line->found, found)) || (todo && !strstr(line->todo, todo)))
        fail_msg("%s: state %d, needs \"%s\", \"%s\", to do \"%s\"", what, line->state, line->needed, line->found,
                 line->todo);
    assert_true((line->state == DOCTOR_OK) == (*line->todo == 0));
}

static const char *bytes_text(uint64_t bytes)
{
    static char text[16];
    return words_size(text, bytes);
}

/* --- what fits ----------------------------------------------------------------------------------- */

static void doctor_look__training_that_fits__every_section_is_ok(void **state)
{
    (void)state;
    const char *out = fixture_path("model");
    bool is_told[DOCTOR_SECTION_COUNT] = {false};
    looked_open(&(struct train_options){.eval = eval_sets_of(eval_path), .out = out}, NULL);
    for (uint32_t i = 0; i < l.count; i++) {
        if (l.lines[i].section == DOCTOR_save && strcmp(l.lines[i].what, "--out") == 0) continue;
        if (l.lines[i].section == DOCTOR_plan && strcmp(l.lines[i].what, "cores") == 0) continue; /* the machine's */
        if (strcmp(l.lines[i].what, "steps a pass") == 0) continue;                               /* the data's    */
        if (l.lines[i].state != DOCTOR_OK) fail_msg("%s: %s", l.lines[i].what, l.lines[i].todo);
    }
    for (uint32_t i = 0; i < l.count; i++) is_told[l.lines[i].section] = true;
    for (uint32_t i = 0; i < DOCTOR_SECTION_COUNT; i++) assert_int_equal(is_told[i], i < DOCTOR_nodes);
    assert_line(DOCTOR_model, "small", DOCTOR_OK, "", "6 layers, 106 parameters, 1 table", "");
    assert_line(DOCTOR_data, "training", DOCTOR_OK, "", "the first 32 read well", "");
    assert_line(DOCTOR_data, "evaluation", DOCTOR_OK, "", "the first 32 read well", "");
    assert_line(DOCTOR_data, "steps a pass", DOCTOR_WARN, "", "about ", "--set train.batch=16");
    assert_line(DOCTOR_disk, "rows", DOCTOR_OK, "", "none on disk (store.ssd = 0)", "");
    assert_line(DOCTOR_cards, "stages on cards", DOCTOR_OK, "none", NULL, "");
    looked_close();
}

static void doctor_look__no_out_and_no_eval__nothing_will_be_saved(void **state)
{
    (void)state;
    looked_open(&(struct train_options){0}, NULL);
    assert_line(DOCTOR_save, "--out", DOCTOR_WARN, "", "none", "nothing will be saved; give --out DIR");
    assert_line(DOCTOR_data, "evaluation", DOCTOR_OK, "", "none: neither --eval", "");
    looked_close();
}

/* --- memory and rows ----------------------------------------------------------------------------- */

static void doctor_look__memory__parts_of_the_plan_and_their_sum(void **state)
{
    (void)state;
    uint32_t lines = 0, taken = 0;
    uint64_t sum = 0;
    looked_open(&(struct train_options){0}, (const char *const[]){"store.ram=3MiB", NULL});
    for (size_t i = 0; i < l.part_count; i++) {
        sum += l.parts[i].planned_bytes;
        if (l.parts[i].planned_bytes == 0) continue;
        taken++;
        assert_line(DOCTOR_memory, l.parts[i].name, DOCTOR_OK, bytes_text(l.parts[i].planned_bytes), "", "");
    }
    for (uint32_t i = 0; i < l.count; i++) lines += l.lines[i].section == DOCTOR_memory;
    assert_int_equal(lines, taken + 1);
    assert_true(taken > 5);
    assert_int_equal(l.memory.planned_bytes, sum);
    assert_int_equal(l.memory.store_ram, 3 << 20);
    assert_true(sum <= l.memory.room_bytes);
    assert_line(DOCTOR_memory, "in all", DOCTOR_OK, bytes_text(sum), "", "");
    looked_close();
}

/* Another run of the process has planned more than any machine has. */
static void doctor_look__more_memory_than_there_is__fails_with_what_to_lower(void **state)
{
    (void)state;
    struct scope *large;
    assert_int_equal(scope_open(&large), ST_OK);
    struct scope *before = scope_enter(large);
    memory_note("ballast", (size_t)1 << 60);
    scope_enter(before);
    looked_open(&(struct train_options){0}, NULL);
    scope_close(large);
    assert_true(l.memory.planned_bytes > l.memory.room_bytes);
    assert_line(DOCTOR_memory, "in all", DOCTOR_FAIL, bytes_text(l.memory.planned_bytes), "",
                "or lower store.ram (1 MiB of the plan)");
    assert_line(DOCTOR_model, "small", DOCTOR_OK, NULL, NULL, ""); /* the look goes on */
    assert_line(DOCTOR_save, "--out", DOCTOR_WARN, NULL, NULL, NULL);
    looked_close();
}

static void doctor_look__rows_of_a_save_that_do_not_fit__fail(void **state)
{
    (void)state;
    struct opened o;
    char out[256], absent[300];
    snprintf(out, sizeof out, "%s", fixture_path("large"));
    opened_begin(&o, (const char *const[]){"store.ram=16MiB", NULL}, LOG_TEXT);
    model_init(&o.session.setup.model);
    const uint64_t row_count = 30000;
    for (uint64_t key = 1; key <= row_count; key++) {
        float *span;
        assert_ok(store_insert(o.session.setup.model.store, 0, key << 20, &span));
    }
    assert_ok(model_save(&o.session.setup.model, &(struct model_save_options){.path = out}, NULL));
    opened_end(&o);
    opened_close(&o);

    looked_open(&(struct train_options){.resume = out}, (const char *const[]){"store.ram=16MiB", NULL});
    assert_line(DOCTOR_rows, "emb of the save", DOCTOR_OK, "30,000 rows", "room for", "");
    looked_close();
    looked_open(&(struct train_options){.resume = out}, NULL);
    char room[64], count[27];
    snprintf(room, sizeof room, "room for %s", words_whole(count, store_row_max(l.o.session.setup.model.store, 0)));
    assert_line(DOCTOR_rows, "emb of the save", DOCTOR_FAIL, "30,000 rows", room, "raise store.ram");
    assert_line(DOCTOR_rows, "emb", DOCTOR_OK, "", "rows of 32 B in RAM", "");
    looked_close();
    snprintf(absent, sizeof absent, "%s/nowhere", out);
    looked_open(&(struct train_options){.init = absent}, NULL);
    assert_line(DOCTOR_save, "--init", DOCTOR_FAIL, "", absent, "nowhere");
    looked_close();
}

/* --- disk and the directory of saves --------------------------------------------------------------- */

static void doctor_look__rows_on_disk__as_many_bytes_as_are_asked_for(void **state)
{
    (void)state;
    char path[300], size[] = "store.ssd=16MiB";
    snprintf(path, sizeof path, "store.path=%s", fixture_path("rows"));
    looked_open(&(struct train_options){0}, (const char *const[]){size, path, "store.ram=32MiB", NULL});
    assert_line(DOCTOR_disk, "rows", DOCTOR_OK, "16 MiB", " free in ", "");
    struct store *store = l.o.session.setup.model.store;
    const uint64_t disk_rows = store_counts(store, 0).disk.row_max, ram_rows = store_row_max(store, 0) - disk_rows;
    char found[128], ram[27], disk[27];
    assert_true(disk_rows > 100000 && ram_rows > 100000);
    snprintf(found, sizeof found, "room for %s rows of 32 B in RAM, %s on disk", words_whole(ram, ram_rows),
             words_whole(disk, disk_rows));
    assert_line(DOCTOR_rows, "emb", DOCTOR_OK, "", found, "");
    line_of(DOCTOR_disk, "open files");
    line_of(DOCTOR_disk, "reads and writes");
    looked_close();
}

static void doctor_look__data_cache_larger_than_the_disk__may_be_cut_short(void **state)
{
    (void)state;
    char path[300], size[64];
    struct machine_disk disk;
    assert_ok(machine_disk_read(&disk, fixture_directory));
    snprintf(path, sizeof path, "cache.path=%s", fixture_path("cache"));
    snprintf(size, sizeof size, "cache.ssd=%lluGiB", (unsigned long long)(2 * (disk.total_bytes >> 30) + 2));
    looked_open(&(struct train_options){0}, (const char *const[]){path, size, "train.epochs=2", NULL});
    assert_line(DOCTOR_disk, "data cache", DOCTOR_WARN, NULL, fixture_directory, "the cache may be cut short");
    looked_close();
    looked_open(&(struct train_options){0}, (const char *const[]){path, "cache.ssd=1MiB", "train.epochs=2", NULL});
    assert_line(DOCTOR_disk, "data cache", DOCTOR_OK, "1 MiB", fixture_directory, "");
    looked_close();
}

/* As many saves as are kept, and the one that is being written;
 * each with all rows that there is room for, at most. */
static void doctor_look__saves__bytes_of_all_that_are_kept(void **state)
{
    (void)state;
    const char *out = fixture_path("saves");
    looked_open(&(struct train_options){.out = out}, (const char *const[]){"checkpoint.keep=9", NULL});
    const struct graph *g = &l.o.session.setup.graph;
    const uint64_t dense = (g->header->param_floats + g->header->state_floats) * sizeof(float);
    const uint64_t rows = store_row_max(l.o.session.setup.model.store, 0) * (8 + g->tables[0].span_floats * 4);
    assert_true(dense >= 3 * 106 * sizeof(float) && rows > 500000);
    assert_line(DOCTOR_save, "--out", DOCTOR_OK, "", out, "");
    assert_line(DOCTOR_save, "parameters", DOCTOR_OK, bytes_text(10 * dense), out, "");
    assert_line(DOCTOR_save, "with all rows", DOCTOR_OK, bytes_text(10 * (dense + rows)), out, "");
    looked_close();
}

/* --- data and plan --------------------------------------------------------------------------------- */

static void doctor_look__malformed_lines__warns_where_they_are_skipped_and_fails_where_not(void **state)
{
    (void)state;
    char path[256];
    snprintf(path, sizeof path, "%s", fixture_path("wrong.tsv"));
    fixture_data(path, 0, 3, "no line of clicks\n");
    fixture_data(path, 3, 2, NULL);
    looked_open(&(struct train_options){.data = path}, (const char *const[]){"data.bad_lines=skip", NULL});
    assert_line(DOCTOR_data, "training", DOCTOR_WARN, "", path, "1 of the first 6 lines are malformed");
    looked_close();
    looked_open(&(struct train_options){.data = path}, NULL);
    assert_line(DOCTOR_data, "training", DOCTOR_FAIL, "", path, "wrong.tsv:4");
    looked_close();
}

/* Each pipeline has a core for each stage; those of reading serve all pipelines. */
static void doctor_look__plan_with_service_cores__counts_them_once(void **state)
{
    (void)state;
    static const char plan[] =
        "{\"format\": \"heterps-solution-1\", \"service_cores\": 3, \"types\": [{\"name\": \"cpu\","
        "\"device\": \"cpu\", \"price_per_hour\": 1, \"limit\": 64}], \"stages\": ["
        "{\"first\": 0, \"last\": 2, \"type\": 0, \"k\": 1},"
        "{\"first\": 3, \"last\": 5, \"type\": 0, \"k\": 1}]}";
    plan_path = fixture_path("plan.json");
    assert_ok(file_write(plan_path, plan, sizeof plan - 1));
    looked_open(&(struct train_options){0},
                (const char *const[]){"train.pipelines=2", "train.sync=wsp", "train.optimizer=sgd 0.1", NULL});
    plan_path = NULL;
    assert_string_equal(line_of(DOCTOR_plan, "cores")->needed, "7");
    looked_close();
}

static void doctor_look__empty_file__fails(void **state)
{
    (void)state;
    char path[256];
    snprintf(path, sizeof path, "%s", fixture_path("empty.tsv"));
    fixture_data(path, 0, 0, NULL);
    looked_open(&(struct train_options){.data = path}, NULL);
    assert_line(DOCTOR_data, "training", DOCTOR_FAIL, "", path, "no examples");
    looked_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(doctor_look__training_that_fits__every_section_is_ok),
        cmocka_unit_test(doctor_look__no_out_and_no_eval__nothing_will_be_saved),
        cmocka_unit_test(doctor_look__memory__parts_of_the_plan_and_their_sum),
        cmocka_unit_test(doctor_look__more_memory_than_there_is__fails_with_what_to_lower),
        cmocka_unit_test(doctor_look__rows_of_a_save_that_do_not_fit__fail),
        cmocka_unit_test(doctor_look__rows_on_disk__as_many_bytes_as_are_asked_for),
        cmocka_unit_test(doctor_look__data_cache_larger_than_the_disk__may_be_cut_short),
        cmocka_unit_test(doctor_look__saves__bytes_of_all_that_are_kept),
        cmocka_unit_test(doctor_look__malformed_lines__warns_where_they_are_skipped_and_fails_where_not),
        cmocka_unit_test(doctor_look__plan_with_service_cores__counts_them_once),
        cmocka_unit_test(doctor_look__empty_file__fails),
    };
    return cmocka_run_group_tests(tests, group_open, session_fixture_close) ? 1 : 0;
}
