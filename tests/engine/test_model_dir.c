/* Model directories: what is saved is loaded bit for bit; what is damaged, cut, missing or of another graph is
 * refused by name; and whatever interrupts a save leaves a whole one. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "tests/engine/model_fixture.h"

static void save_new(const char *path, uint64_t seed, uint64_t row_count)
{
    struct model model;
    fixture_model(&model, seed, row_count);
    assert_ok(model_save(&model, NULL, path));
    model_close(&model);
}

/* Loads into a model of the fixture's graph, which the caller compares or just closes. */
static status load(struct model *model, const char *path)
{
    fixture_model(model, 0, 0);
    return model_load(model, path);
}

static void assert_holds(const char *path, uint64_t seed, uint64_t row_count)
{
    struct model expected, loaded;
    fixture_model(&expected, seed, row_count);
    assert_ok(load(&loaded, path));
    fixture_assert_equal(&expected, &loaded, NULL);
    model_close(&expected);
    model_close(&loaded);
}

/* --- round trips ------------------------------------------------------------------------------ */

static void model_load__after_save__same_bytes_and_progress(void **state)
{
    (void)state;
    save_new(fixture_path("round"), 1, 50);
    assert_holds(fixture_path("round"), 1, 50);
}

static void model_load__no_rows__same_bytes(void **state)
{
    (void)state;
    save_new(fixture_path("no_rows"), 1, 0);
    assert_holds(fixture_path("no_rows"), 1, 0);
}

static void model_load__many_blocks__same_bytes(void **state)
{
    (void)state;
    save_new(fixture_path("blocks"), 2, 4096 * 3 + 7);
    assert_holds(fixture_path("blocks"), 2, 4096 * 3 + 7);
}

static void model_save__again__replaces_and_leaves_no_old_file(void **state)
{
    (void)state;
    const char *path = fixture_path("again");
    save_new(path, 1, 5);
    fixture_write(fixture_path("again/notes.txt"), "mine", 4);
    fixture_write(fixture_path("again/emb.7.rows.tmp.12"), "left", 4);
    fixture_write(fixture_path("again/manifest.json.tmp.12"), "left", 4);
    assert_string_equal(fixture_names(path),
                        "dense.10.safetensors emb.10.rows emb.7.rows.tmp.12 lock manifest.json manifest.json.tmp.12 "
                        "notes.txt side.car.10.rows");
    save_new(path, 2, 9);
    assert_string_equal(fixture_names(path),
                        "dense.20.safetensors emb.20.rows lock manifest.json notes.txt side.car.20.rows");
    assert_holds(path, 2, 9);
}

static void model_save__same_step__does_not_touch_the_named_files(void **state)
{
    (void)state;
    struct model model;
    const char *path = fixture_path("same_step");
    fixture_model(&model, 3, 5);
    assert_ok(model_save(&model, NULL, path));
    model.param[0] += 1;
    assert_ok(model_save(&model, NULL, path));
    assert_string_equal(fixture_names(path),
                        "dense.30-1.safetensors emb.30-1.rows lock manifest.json side.car.30-1.rows");
    struct model loaded;
    assert_ok(load(&loaded, path));
    fixture_assert_equal(&model, &loaded, NULL);
    model_close(&loaded);
    assert_ok(model_save(&model, NULL, path));
    assert_string_equal(fixture_names(path), "dense.30.safetensors emb.30.rows lock manifest.json side.car.30.rows");
    model_close(&model);
}

static void model_save__row_count__saves_rows_below_it(void **state)
{
    (void)state;
    struct model model, loaded;
    const uint64_t row_count[] = {30, 0};
    fixture_model(&model, 1, 50);
    assert_ok(model_save(&model, row_count, fixture_path("watermark")));
    assert_ok(load(&loaded, fixture_path("watermark")));
    fixture_assert_equal(&model, &loaded, row_count);
    model_close(&loaded);
    model_close(&model);
}

static void model_save__equal_models__equal_bytes(void **state)
{
    (void)state;
    static const char *const names[] = {"manifest.json", "dense.10.safetensors", "emb.10.rows", "side.car.10.rows"};
    save_new(fixture_path("twin_a"), 1, 20);
    save_new(fixture_path("twin_b"), 1, 20);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char name[64];
        size_t a_bytes, b_bytes;
        snprintf(name, sizeof name, "twin_a/%s", names[i]);
        uint8_t *a = fixture_read(fixture_path(name), &a_bytes);
        snprintf(name, sizeof name, "twin_b/%s", names[i]);
        uint8_t *b = fixture_read(fixture_path(name), &b_bytes);
        assert_int_equal(a_bytes, b_bytes);
        assert_memory_equal(a, b, a_bytes);
        free(a);
        free(b);
    }
}

/* --- damage ----------------------------------------------------------------------------------- */

/* The directory cannot be loaded, the message names the file, and the model is as it was. */
static void assert_refused(struct model *model, const struct model *fresh, const char *path, const char *name,
                           size_t at)
{
    status st = model_load(model, path);
    if (st != ST_CORRUPT && st != ST_INVALID)
        fail_msg("%s changed at byte %zu: status %d, %s", name, at, st, status_message());
    assert_message(name);
    fixture_assert_equal(fresh, model, NULL);
}

static const char *const small_files[] = {"manifest.json", "dense.10.safetensors", "emb.10.rows", "side.car.10.rows"};
#define SMALL_FILE_COUNT (sizeof small_files / sizeof *small_files)

static void model_load__any_byte_flipped__is_refused_by_name_fault(void **state)
{
    (void)state;
    struct model model, fresh;
    char path[512], file[600];
    snprintf(path, sizeof path, "%s", fixture_path("flip"));
    save_new(path, 1, 6);
    fixture_model(&model, 0, 0);
    fixture_model(&fresh, 0, 0);
    for (size_t f = 0; f < SMALL_FILE_COUNT; f++) {
        size_t bytes;
        snprintf(file, sizeof file, "%s/%s", path, small_files[f]);
        uint8_t *data = fixture_read(file, &bytes);
        for (size_t i = 0; i < bytes; i++) {
            const uint8_t flips[] = {1, 0x20, 0x80, ' ' ^ '\n'};
            uint8_t flip = flips[i % 4];
            data[i] ^= flip;
            fixture_write(file, data, bytes);
            assert_refused(&model, &fresh, path, small_files[f], i);
            data[i] ^= flip;
        }
        fixture_write(file, data, bytes);
        free(data);
    }
    assert_ok(model_load(&model, path));
    model_close(&model);
    model_close(&fresh);
}

static void model_load__any_file_cut_or_longer__is_refused_by_name_fault(void **state)
{
    (void)state;
    struct model model, fresh;
    char path[512], file[600];
    snprintf(path, sizeof path, "%s", fixture_path("cut"));
    save_new(path, 1, 6);
    fixture_model(&model, 0, 0);
    fixture_model(&fresh, 0, 0);
    for (size_t f = 0; f < SMALL_FILE_COUNT; f++) {
        size_t bytes;
        snprintf(file, sizeof file, "%s/%s", path, small_files[f]);
        uint8_t *data = fixture_read(file, &bytes);
        for (size_t length = 0; length < bytes; length++) {
            fixture_write(file, data, length);
            assert_refused(&model, &fresh, path, small_files[f], length);
        }
        data[bytes] = 0;
        fixture_write(file, data, bytes + 1);
        assert_refused(&model, &fresh, path, small_files[f], bytes);
        fixture_write(file, data, bytes);
        free(data);
    }
    assert_ok(model_load(&model, path));
    model_close(&model);
    model_close(&fresh);
}

static void model_load__large_rows_flipped__names_the_block_fault(void **state)
{
    (void)state;
    struct model model;
    save_new(fixture_path("large"), 1, 10000);
    size_t bytes;
    uint8_t *data = fixture_read(fixture_path("large/emb.10.rows"), &bytes);
    fixture_model(&model, 0, 0);
    for (int i = 0; i < 200; i++) {
        size_t at = 64 + (size_t)i * 7919 * 31 % (bytes - 64);
        data[at] ^= 4;
        fixture_write(fixture_path("large/emb.10.rows"), data, bytes);
        assert_int_equal(model_load(&model, fixture_path("large")), ST_CORRUPT);
        const char *place = strstr(status_message(), "bytes ");
        size_t first, last;
        assert_non_null(place);
        assert_int_equal(sscanf(place, "bytes %zu to %zu", &first, &last), 2);
        assert_in_range(at, first, last);
        data[at] ^= 4;
    }
    free(data);
    model_close(&model);
}

static void model_load__file_of_another_save__is_refused_fault(void **state)
{
    (void)state;
    struct model model;
    size_t bytes;
    save_new(fixture_path("mix_a"), 1, 6);
    save_new(fixture_path("mix_b"), 2, 6);
    uint8_t *data = fixture_read(fixture_path("mix_b/emb.20.rows"), &bytes);
    fixture_write(fixture_path("mix_a/emb.10.rows"), data, bytes);
    assert_int_equal(load(&model, fixture_path("mix_a")), ST_CORRUPT);
    assert_message("emb.10.rows");
    free(data);
    model_close(&model);
}

static void model_load__missing_file__names_it(void **state)
{
    (void)state;
    struct model model;
    save_new(fixture_path("missing"), 1, 6);
    assert_int_equal(unlink(fixture_path("missing/emb.10.rows")), 0);
    assert_int_equal(load(&model, fixture_path("missing")), ST_IO);
    assert_message("emb.10.rows");
    assert_int_equal(unlink(fixture_path("missing/manifest.json")), 0);
    assert_int_equal(model_load(&model, fixture_path("missing")), ST_INVALID);
    assert_message("no manifest.json");
    assert_int_equal(model_load(&model, fixture_path("nowhere")), ST_INVALID);
    assert_message("nowhere");
    model_close(&model);
}

/* --- other graphs, other budgets -------------------------------------------------------------- */

static void model_load__another_graph__says_what_differs(void **state)
{
    (void)state;
    static const struct {
        const char *assignment, *message;
    } cases[] = {
        {"h1.units=6", "h1.weight: the graph has ["},
        {"emb.dim=8", "table emb: the graph has dim 8"},
        {"side.car.optimizer=sgd 0.1", "table side.car"},
        {"train.optimizer=sgd 0.1", ".state0"},
        {"train.seed=2", "model hash"},
        {"data.transform=none", "model hash"},
    };
    save_new(fixture_path("graph"), 1, 6);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct graph graph;
        struct model model;
        fixture_compile(&graph, cases[i].assignment);
        assert_ok(model_open(&model, &graph, FIXTURE_RAM_BYTES));
        if (model_load(&model, fixture_path("graph")) != ST_MISMATCH)
            fail_msg("%s: %s", cases[i].assignment, status_message());
        assert_message("graph/manifest.json");
        assert_message(cases[i].message);
        model_close(&model);
        graph_close(&graph);
    }
    /* Of the recipe nothing matters. */
    struct graph graph;
    struct model model;
    fixture_compile(&graph, "train.batch=16");
    assert_ok(model_open(&model, &graph, FIXTURE_RAM_BYTES));
    assert_ok(model_load(&model, fixture_path("graph")));
    model_close(&model);
    graph_close(&graph);
}

static void model_load__small_budget__is_full(void **state)
{
    (void)state;
    struct model model;
    save_new(fixture_path("full"), 1, 12000);
    assert_ok(model_open(&model, &fixture_graph, 256 << 10));
    assert_int_equal(model_load(&model, fixture_path("full")), ST_FULL);
    assert_message("store.ram");
    model_close(&model);
}

/* --- directories ------------------------------------------------------------------------------ */

static void model_dir_check__new_empty_or_ours__is_claimed(void **state)
{
    (void)state;
    struct stat stat_of_lock;
    assert_ok(model_dir_check(&fixture_graph, fixture_path("claim")));
    assert_int_equal(stat(fixture_path("claim/lock"), &stat_of_lock), 0);
    assert_ok(model_dir_check(&fixture_graph, fixture_path("claim")));
    assert_string_equal(fixture_names(fixture_path("claim")), "lock");
    /* As a first save leaves it that is killed. */
    fixture_write(fixture_path("claim/dense.10.safetensors"), "x", 1);
    fixture_write(fixture_path("claim/emb.10-2.rows.tmp.99"), "x", 1);
    assert_ok(model_dir_check(&fixture_graph, fixture_path("claim")));
    save_new(fixture_path("claim"), 1, 3);
    assert_string_equal(fixture_names(fixture_path("claim")),
                        "dense.10-1.safetensors emb.10-1.rows lock manifest.json side.car.10-1.rows");
    assert_ok(model_dir_check(&fixture_graph, fixture_path("claim")));
}

static void model_dir_check__anything_else__is_refused_and_untouched(void **state)
{
    (void)state;
    struct model model;
    fixture_model(&model, 1, 3);
    assert_int_equal(mkdir(fixture_path("foreign"), 0777), 0);
    fixture_write(fixture_path("foreign/emb.10.rows"), "x", 1); /* named like ours, but no lock beside it */
    assert_int_equal(model_dir_check(&fixture_graph, fixture_path("foreign")), ST_INVALID);
    assert_message("emb.10.rows");
    assert_int_equal(model_save(&model, NULL, fixture_path("foreign")), ST_INVALID);
    fixture_write(fixture_path("foreign/lock"), "", 0);
    fixture_write(fixture_path("foreign/thesis.tex"), "x", 1);
    assert_int_equal(model_save(&model, NULL, fixture_path("foreign")), ST_INVALID);
    assert_message("thesis.tex");
    fixture_write(fixture_path("foreign/manifest.json"), "{\"name\": \"a web page\"}\n", 23);
    assert_int_equal(model_save(&model, NULL, fixture_path("foreign")), ST_INVALID);
    assert_message("manifest.json");
    assert_string_equal(fixture_names(fixture_path("foreign")), "emb.10.rows lock manifest.json thesis.tex");

    assert_int_equal(model_dir_check(&fixture_graph, fixture_path("foreign/thesis.tex")), ST_IO);
    assert_int_equal(model_dir_check(&fixture_graph, fixture_path("no/parent")), ST_IO);
    model_close(&model);
}

static void model_dir_check__another_graphs_model__is_refused_and_untouched(void **state)
{
    (void)state;
    struct graph other;
    const char *set = "h1.units=6";
    assert_ok(graph_compile(&other, "other.cfg", fixture_text, strlen(fixture_text), &set, 1));
    save_new(fixture_path("ours"), 1, 3);
    assert_int_equal(model_dir_check(&other, fixture_path("ours")), ST_MISMATCH);
    assert_message("another graph");
    struct model model;
    assert_ok(model_open(&model, &other, FIXTURE_RAM_BYTES));
    assert_int_equal(model_save(&model, NULL, fixture_path("ours")), ST_MISMATCH);
    model_close(&model);
    graph_close(&other);
    assert_ok(model_dir_check(&fixture_graph, fixture_path("ours")));
}

/* Claims a directory, says so through a pipe, and waits to be killed. */
static void child_hold(const char *path, int ready)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    char byte = model_dir_check(&fixture_graph, path) == ST_OK;
    if (write(ready, &byte, 1) == 1) pause();
    _exit(1);
}

static void model_dir_check__claimed_by_another_process__is_refused(void **state)
{
    (void)state;
    int ready[2];
    char byte = 0;
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) child_hold(fixture_path("held"), ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_int_equal(byte, 1);
    assert_int_equal(model_dir_check(&fixture_graph, fixture_path("held")), ST_SYSTEM);
    assert_message("another process writes to");
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_ok(model_dir_check(&fixture_graph, fixture_path("held")));
    close(ready[0]);
    close(ready[1]);
}

/* --- interruptions ---------------------------------------------------------------------------- */

static void model_save__no_space__keeps_the_old_model_fault(void **state)
{
    (void)state;
    struct rlimit unlimited, limit;
    struct model model;
    const char *path = fixture_path("space");
    save_new(path, 1, 6);
    char names[1024];
    snprintf(names, sizeof names, "%s", fixture_names(path));
    fixture_model(&model, 2, 3000);
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &unlimited), 0);
    /* The limits fall into the dense file, the first table and the second; 3,000 rows take more than 100,000 bytes
     * each. */
    static const rlim_t limits[] = {0, 1, 100, 1000, 20000, 140000, 160000};
    int failure_count = 0;
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        limit = (struct rlimit){.rlim_cur = limits[i], .rlim_max = unlimited.rlim_max};
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
        status st = model_save(&model, NULL, path);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &unlimited), 0);
        if (st == ST_OK) break;
        failure_count++;
        assert_int_equal(st, ST_IO);
        assert_message("File too large");
        assert_string_equal(fixture_names(path), names);
        assert_holds(path, 1, 6);
    }
    assert_true(failure_count >= 5);
    assert_ok(model_save(&model, NULL, path));
    model_close(&model);
    assert_holds(path, 2, 3000);
}

/* Saves the two models in turn, first the one of that index, until it is killed: at the latest with the test. */
static void child_save(const struct model models[2], uint64_t first, const char *path)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (uint64_t i = first;; i++) {
        if (model_save(&models[i % 2], NULL, path) != ST_OK) {
            fprintf(stderr, "# the child cannot save: %s\n", status_message());
            _exit(1);
        }
    }
}

static long nanoseconds_of_save(const struct model *model, const char *path)
{
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    assert_ok(model_save(model, NULL, path));
    clock_gettime(CLOCK_MONOTONIC, &end);
    return (end.tv_sec - begin.tv_sec) * 1000000000 + (end.tv_nsec - begin.tv_nsec);
}

static void model_save__killed_at_any_moment__a_whole_model_stays_crash(void **state)
{
    (void)state;
    struct model expected[2], loaded;
    const char *path = fixture_path("killed");
    fixture_model(&expected[0], 1, 200);
    fixture_model(&expected[1], 2, 300);
    save_new(path, 1, 200); /* in a claim of our own, which the children inherit */
    long save_ns = nanoseconds_of_save(&expected[1], path) + nanoseconds_of_save(&expected[0], path);
    if (save_ns > 400000000) save_ns = 400000000;
    srand(1);
    int seen[2] = {0}, which = 0;
    for (int i = 0; i < 50; i++) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) child_save(expected, which == 0, path);
        /* Up to a save of each. */
        struct timespec moment = {.tv_nsec = (long)((double)rand() / RAND_MAX * (double)save_ns)};
        nanosleep(&moment, NULL);
        /* While it saves, and after it was killed. */
        status during = load(&loaded, path);
        model_close(&loaded);
        assert_int_equal(kill(child, SIGKILL), 0);
        int child_status;
        assert_int_equal(waitpid(child, &child_status, 0), child);
        assert_true(WIFSIGNALED(child_status));
        if (during != ST_OK) fail_msg("round %d, during: %s", i, status_message());
        if (load(&loaded, path) != ST_OK) fail_msg("round %d, after: %s", i, status_message());
        which = loaded.progress.step == 20;
        seen[which]++;
        fixture_assert_equal(&expected[which], &loaded, NULL);
        model_close(&loaded);
    }
    printf("# of 50 kills, %d left the one model and %d the other\n", seen[0], seen[1]);
    assert_true(seen[0] > 0 && seen[1] > 0);
    /* The next save clears up. */
    assert_ok(model_save(&expected[0], NULL, path));
    int count = 0;
    for (const char *name = fixture_names(path); name; name = strchr(name + 1, ' ')) count++;
    assert_int_equal(count, 5);
    model_close(&expected[0]);
    model_close(&expected[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(model_load__after_save__same_bytes_and_progress),
        cmocka_unit_test(model_load__no_rows__same_bytes),
        cmocka_unit_test(model_load__many_blocks__same_bytes),
        cmocka_unit_test(model_save__again__replaces_and_leaves_no_old_file),
        cmocka_unit_test(model_save__same_step__does_not_touch_the_named_files),
        cmocka_unit_test(model_save__row_count__saves_rows_below_it),
        cmocka_unit_test(model_save__equal_models__equal_bytes),
        cmocka_unit_test(model_load__any_byte_flipped__is_refused_by_name_fault),
        cmocka_unit_test(model_load__any_file_cut_or_longer__is_refused_by_name_fault),
        cmocka_unit_test(model_load__large_rows_flipped__names_the_block_fault),
        cmocka_unit_test(model_load__file_of_another_save__is_refused_fault),
        cmocka_unit_test(model_load__missing_file__names_it),
        cmocka_unit_test(model_load__another_graph__says_what_differs),
        cmocka_unit_test(model_load__small_budget__is_full),
        cmocka_unit_test(model_dir_check__new_empty_or_ours__is_claimed),
        cmocka_unit_test(model_dir_check__anything_else__is_refused_and_untouched),
        cmocka_unit_test(model_dir_check__another_graphs_model__is_refused_and_untouched),
        cmocka_unit_test(model_dir_check__claimed_by_another_process__is_refused),
        cmocka_unit_test(model_save__no_space__keeps_the_old_model_fault),
        cmocka_unit_test(model_save__killed_at_any_moment__a_whole_model_stays_crash),
    };
    return cmocka_run_group_tests(tests, fixture_open, fixture_close) ? 1 : 0;
}
