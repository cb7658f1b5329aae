/* The plan of memory in words: parts made by hand, with what they take and have in
 * use; and a plan that is too large. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <sys/mman.h>

#include "engine/base/log.h"
#include "engine/base/memory.h"
#include "engine/base/scope.h"
#include "engine/crew/setup.h"
#include "io/store/store_rows.h"
#include "tests/engine/fixture_files.h"

#define MIB ((size_t)1 << 20)

static char said[8192], tables[512]; /* the lines of parts, and those of tables */
static struct setup opened;          /* in the first scope */
static struct scope *before, *own;

/* A scope with nothing planned. */
static void begin(void)
{
    assert_ok(scope_open(&own));
    before = scope_enter(own);
    log_open(LOG_TEXT, 0);
    log_results_to_output();
}
static void end(void)
{
    scope_enter(before);
    scope_close(own);
}

/* What is printed by `tell`. */
static const char *printed(void (*tell)(const void *), const void *what, int verbosity)
{
    fflush(NULL);
    int out = dup(STDOUT_FILENO), err = dup(STDERR_FILENO), file = memfd_create("out", MFD_CLOEXEC);
    assert_true(out >= 0 && err >= 0 && file >= 0);
    dup2(file, STDOUT_FILENO);
    dup2(file, STDERR_FILENO);
    log_open(LOG_TEXT, verbosity);
    tell(what);
    fflush(NULL);
    ssize_t bytes = pread(file, said, sizeof said - 1, 0);
    dup2(out, STDOUT_FILENO);
    dup2(err, STDERR_FILENO);
    close(out), close(err), close(file);
    log_open(LOG_TEXT, 0);
    assert_true(bytes >= 0);
    said[bytes] = 0;
    char *line = strstr(said, "table    ");
    snprintf(tables, sizeof tables, "%s", line ? line : "");
    if (line) *line = 0;
    return said;
}

static void plan_some(const void *setup) { setup_memory_plan(setup, false); }
static void plan_all(const void *setup) { setup_memory_plan(setup, true); }
static void report(const void *none)
{
    (void)none;
    setup_memory_report();
}

/* Parts of less than a fiftieth are one; those of nothing are none. */
static void setup_memory_plan__small_parts__are_one_unless_all_are_asked_for(void **state)
{
    (void)state;
    begin();
    memory_note("rows", 60 * MIB);
    memory_note("nothing", 0);
    memory_note("slots", 2 * MIB);
    memory_note("reader", 37 * MIB);
    memory_note("log", MIB);
    assert_string_equal(printed(plan_some, &opened, 0),
                        "memory   100 MiB planned: rows 60 MiB, slots 2 MiB, reader 37 MiB, 1 other part 1 MiB\n");
    memory_note("tail", 1024);
    assert_string_equal(printed(plan_some, &opened, 0),
                        "memory   100 MiB planned: rows 60 MiB, reader 37 MiB, 3 other parts 3 MiB\n");
    assert_string_equal(printed(plan_all, &opened, 0),
                        "memory   100 MiB planned: rows 60 MiB, slots 2 MiB, reader 37 MiB, log 1 MiB, tail 1 KiB\n");
    static char all[sizeof said];
    strcpy(all, said);
    assert_string_equal(printed(plan_some, &opened, 1), all);
    end();
}

/* Lines are of at most 110 columns, and go on below the first item. */
static void setup_memory_plan__many_parts__take_lines(void **state)
{
    (void)state;
    static const char *const names[] = {"parameters", "gradients", "embeddings",    "slots of micro", "reader ahead",
                                        "threads",    "program",   "cache of data", "evaluation",     "progress"};
    begin();
    for (size_t i = 0; i < 10; i++) memory_note(names[i], 10 * MIB);
    printed(plan_some, &opened, 0);
    assert_string_equal(
        said,
        "memory   100 MiB planned: parameters 10 MiB, gradients 10 MiB, embeddings 10 MiB, slots of micro 10 MiB,\n"
        "         reader ahead 10 MiB, threads 10 MiB, program 10 MiB, cache of data 10 MiB, evaluation 10 MiB,\n"
        "         progress 10 MiB\n");
    end();
}

/* Of blocks it is known how much is in use. */
static void setup_memory_report__blocks__used_of_planned(void **state)
{
    (void)state;
    void *block, *other;
    begin();
    assert_ok(memory_take("rows", 64 * MIB, &block));
    assert_ok(memory_take("untouched", 64 * MIB, &other));
    memory_note("noted", 5 * MIB);
    memset(block, 1, 16 * MIB);
    printed(report, NULL, 0);
    const char *parts = strstr(said, " of 133 MiB planned: ");
    assert_non_null(parts);
    assert_memory_equal(said, "memory   at most ", 17);
    assert_string_equal(parts, " of 133 MiB planned: rows 16 MiB of 64 MiB\n");
    memory_give("untouched", other, 64 * MIB);
    memory_give("rows", block, 64 * MIB);
    end();
}

static void setup_memory_plan__tables__rooms_for_rows(void **state)
{
    (void)state;
    const uint64_t room = store_row_max(opened.model.store, 0);
    char expected[160];
    begin();
    memory_note("rows", MIB);
    /* A row of 4 floats, and as much state. */
    assert_true(room > MIB / 32 / 2 && room < MIB / 32);
    snprintf(expected, sizeof expected, "table    emb: room for %llu,%03llu rows of 32 B (store.ram = 1 MiB)\n",
             (unsigned long long)room / 1000, (unsigned long long)room % 1000);
    printed(plan_some, &opened, 0);
    assert_string_equal(tables, expected);
    assert_ok(setup_memory_check(&opened));
    memory_note("mountain", (size_t)1 << 60);
    assert_int_equal(setup_memory_check(&opened), ST_MEMORY);
    assert_message("the plan needs 1 EiB of memory, but ");
    assert_message(", or lower store.ram (1 MiB of the plan), train.batch or --threads");
    end();
}

static int group_open(void **state)
{
    (void)state;
    static const char text[] =
        "[data]\nsparse = C1..C4\n[table emb]\ndim = 4\noptimizer = adagrad 0.05\n"
        "[embedding e]\ntable = emb\ninput = C1..C4\npool = sum\n[fc y]\ninput = e\nunits = 1\n[loss bce]\ninput = y\n"
        "[train]\nbatch = 32\n[store]\nram = 1MiB\n";
    struct graph graph;
    static char path[512];
    if (fixture_directory_make("test_memory") != 0) return -1;
    snprintf(path, sizeof path, "%s", fixture_path("g.bin"));
    assert_ok(graph_compile(&graph, "small.cfg", text, sizeof text - 1, NULL, 0, NULL));
    assert_ok(graph_write(&graph, path));
    graph_close(&graph);
    assert_ok(setup_open(&opened, &(struct setup_options){.graph_path = path, .training = true}));
    return 0;
}
static int group_close(void **state)
{
    (void)state;
    setup_close(&opened);
    return fixture_directory_remove();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(setup_memory_plan__small_parts__are_one_unless_all_are_asked_for),
        cmocka_unit_test(setup_memory_plan__many_parts__take_lines),
        cmocka_unit_test(setup_memory_report__blocks__used_of_planned),
        cmocka_unit_test(setup_memory_plan__tables__rooms_for_rows),
    };
    return cmocka_run_group_tests(tests, group_open, group_close) ? 1 : 0;
}
