/* Model directories: what is saved is loaded bit for bit; what is damaged, cut, missing or of another graph
 * is refused by name. What interrupts a save is in test_model_interrupted.c. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <inttypes.h>
#include <jansson.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <xxhash.h>

#include "tests/engine/model/model_dir_test.h"

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
    assert_ok(fixture_save(&model, path));
    model.param[0] += 1;
    assert_ok(fixture_save(&model, path));
    assert_string_equal(fixture_names(path),
                        "dense.30-1.safetensors emb.30-1.rows lock manifest.json side.car.30-1.rows");
    struct model loaded;
    assert_ok(load(&loaded, path));
    fixture_assert_equal(&model, &loaded, NULL);
    model_close(&loaded);
    assert_ok(fixture_save(&model, path));
    assert_string_equal(fixture_names(path), "dense.30.safetensors emb.30.rows lock manifest.json side.car.30.rows");
    model_close(&model);
}

static void model_save__row_count__saves_rows_below_it(void **state)
{
    (void)state;
    struct model model, loaded;
    const uint64_t row_count[] = {30, 0};
    fixture_model(&model, 1, 50);
    assert_ok(model_save(
        &model, &(struct model_save_options){.path = fixture_path("watermark"), .row_count = row_count}, NULL));
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

static void model_save__bytes__are_those_of_its_files(void **state)
{
    (void)state;
    static const char *const names[] = {"manifest.json", "dense.10.safetensors", "emb.10.rows", "side.car.10.rows"};
    struct model model;
    uint64_t bytes, sum_bytes = 0;
    fixture_model(&model, 1, 20);
    assert_ok(model_save(&model, &(struct model_save_options){.path = fixture_path("bytes"), .keep = 1}, &bytes));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char name[64];
        struct stat stat_of_file;
        snprintf(name, sizeof name, "bytes/%s", names[i]);
        assert_int_equal(stat(fixture_path(name), &stat_of_file), 0);
        sum_bytes += (uint64_t)stat_of_file.st_size;
    }
    assert_int_equal(bytes, sum_bytes);
    model_close(&model);
}

/* --- several saves ---------------------------------------------------------------------------- */

static void model_save__keep_one__never_leaves_an_older_manifest(void **state)
{
    (void)state;
    const char *path = fixture_path("keep_one");
    for (uint64_t seed = 1; seed <= 5; seed++) {
        char names[200];
        save_kept(path, seed, 1);
        snprintf(names, sizeof names, "dense.%d.safetensors emb.%d.rows lock manifest.json side.car.%d.rows",
                 (int)seed * 10, (int)seed * 10, (int)seed * 10);
        assert_string_equal(fixture_names(path), names);
        assert_kept(path, "manifest.json", seed);
    }
}

static void model_save__keep_three__the_last_three_are_whole_by_name(void **state)
{
    (void)state;
    char path[512];
    snprintf(path, sizeof path, "%s", fixture_path("keep_three"));
    for (uint64_t seed = 1; seed <= 8; seed++) {
        save_kept(path, seed, 3);
        assert_kept(path, "manifest.json", seed);
        for (uint64_t older = 1; older < seed; older++) {
            char name[64], file[600];
            struct stat ignored;
            snprintf(name, sizeof name, "manifest.%d.json", (int)older * 10);
            snprintf(file, sizeof file, "%s/%s", path, name);
            if (older + 2 >= seed)
                assert_kept(path, name, older);
            else
                assert_int_equal(stat(file, &ignored), -1);
        }
        assert_int_equal(assert_all_whole(path), seed < 3 ? (int)seed : 3);
    }
    assert_string_equal(fixture_names(path),
                        "dense.60.safetensors dense.70.safetensors dense.80.safetensors emb.60.rows emb.70.rows "
                        "emb.80.rows lock manifest.60.json manifest.70.json manifest.json side.car.60.rows "
                        "side.car.70.rows side.car.80.rows");
}

static void model_save__older_save__is_not_written_again(void **state)
{
    (void)state;
    static const char *const before[] = {"manifest.json", "dense.10.safetensors", "emb.10.rows"},
                             *const after[] = {"manifest.10.json", "dense.10.safetensors", "emb.10.rows"};
    char path[512];
    struct stat stat_before[3], stat_after[3];
    snprintf(path, sizeof path, "%s", fixture_path("not_again"));
    save_kept(path, 1, 2);
    for (int i = 0; i < 3; i++) {
        char file[FILE_PATH_BYTES];
        assert_int_equal(stat(file_path_join(file, path, before[i]), &stat_before[i]), 0);
    }
    save_kept(path, 2, 2);
    for (int i = 0; i < 3; i++) {
        char file[FILE_PATH_BYTES];
        assert_int_equal(stat(file_path_join(file, path, after[i]), &stat_after[i]), 0);
        assert_int_equal(stat_before[i].st_ino, stat_after[i].st_ino);
    }
}

static void model_save__another_keep__is_that_of_the_last_save(void **state)
{
    (void)state;
    const char *path = fixture_path("keeps");
    for (uint64_t seed = 1; seed <= 4; seed++) save_kept(path, seed, 4);
    assert_int_equal(assert_all_whole(path), 4);
    save_kept(path, 5, 2);
    assert_string_equal(fixture_names(path),
                        "dense.40.safetensors dense.50.safetensors emb.40.rows emb.50.rows lock manifest.40.json "
                        "manifest.json side.car.40.rows side.car.50.rows");
    save_kept(path, 6, 3);
    assert_int_equal(assert_all_whole(path), 3);
    save_kept(path, 7, 1);
    assert_string_equal(fixture_names(path), "dense.70.safetensors emb.70.rows lock manifest.json side.car.70.rows");
}

static void model_save__same_step_kept__each_save_has_a_name_of_its_own(void **state)
{
    (void)state;
    struct model model;
    const char *path = fixture_path("same_step_kept");
    fixture_model(&model, 3, 2);
    float first = model.param[0];
    for (int i = 0; i < 4; i++) {
        model.param[0] = first + (float)i;
        assert_ok(model_save(&model, &(struct model_save_options){.path = path, .keep = 3}, NULL));
    }
    assert_string_equal(fixture_names(path),
                        "dense.30-1.safetensors dense.30-2.safetensors dense.30-3.safetensors emb.30-1.rows "
                        "emb.30-2.rows emb.30-3.rows lock manifest.30-1.json manifest.30-2.json manifest.json "
                        "side.car.30-1.rows side.car.30-2.rows side.car.30-3.rows");
    static const char *const manifests[] = {"manifest.30-1.json", "manifest.30-2.json", "manifest.json"};
    for (int i = 0; i < 3; i++) {
        struct model loaded;
        char manifest_path[FILE_PATH_BYTES];
        assert_ok(load(&loaded, file_path_join(manifest_path, path, manifests[i])));
        assert_true(loaded.param[0] == first + (float)(i + 1));
        model_close(&loaded);
    }
    model_close(&model);
}

/* Steps 10, 20, 30; training goes back to 20 and saves at 25:
 * 30 goes when it is the third of the last, not before. */
static void model_save__went_back__later_steps_stay_until_newer_saves_replace_them(void **state)
{
    (void)state;
    struct model model;
    const char *path = fixture_path("back");
    for (uint64_t seed = 1; seed <= 3; seed++) save_kept(path, seed, 3);
    fixture_model(&model, 0, 0);
    assert_ok(model_load(&model, fixture_path("back/manifest.20.json")));
    assert_int_equal(model.progress.step, 20);
    assert_ok(model_dir_check(&fixture_graph, path));
    assert_kept(path, "manifest.json", 3);
    static const struct {
        uint64_t step;
        const char *older;
    } saves[] = {{25, "manifest.20.json manifest.30.json manifest.json"},
                 {28, "manifest.25.json manifest.30.json manifest.json"},
                 {30, "manifest.25.json manifest.28.json manifest.json"},
                 {31, "manifest.28.json manifest.30-1.json manifest.json"}};
    for (size_t i = 0; i < sizeof saves / sizeof *saves; i++) {
        struct model newest;
        model.progress.step = saves[i].step;
        assert_ok(model_save(&model, &(struct model_save_options){.path = path, .keep = 3}, NULL));
        const char *names = strstr(fixture_names(path), "manifest.");
        assert_non_null(names);
        if (strncmp(names, saves[i].older, strlen(saves[i].older)) != 0)
            fail_msg("after step %d: %s", (int)saves[i].step, names);
        assert_int_equal(assert_all_whole(path), 3);
        assert_ok(load(&newest, path));
        assert_int_equal(newest.progress.step, saves[i].step);
        model_close(&newest);
    }
    model_close(&model);
}

static void model_save__older_manifest_damaged__it_and_its_files_stay_fault(void **state)
{
    (void)state;
    const char *path = fixture_path("unreadable");
    for (uint64_t seed = 1; seed <= 2; seed++) save_kept(path, seed, 3);
    fixture_write(fixture_path("unreadable/manifest.10.json"), "lost", 4);
    for (uint64_t seed = 3; seed <= 4; seed++) save_kept(path, seed, 2);
    assert_string_equal(
        fixture_names(path),
        "dense.10.safetensors dense.20.safetensors dense.30.safetensors dense.40.safetensors emb.10.rows emb.20.rows "
        "emb.30.rows emb.40.rows lock manifest.10.json manifest.30.json manifest.json side.car.10.rows "
        "side.car.20.rows side.car.30.rows side.car.40.rows");
    assert_kept(path, "manifest.30.json", 3);
    assert_kept(path, "manifest.json", 4);
}

/* A kill between the two names of the newest manifest leaves both;
 * the name may also be taken by something else. */
static void model_save__second_name_taken__is_given_anyway_crash(void **state)
{
    (void)state;
    char path[512];
    snprintf(path, sizeof path, "%s", fixture_path("both_names"));
    save_kept(path, 1, 2);
    assert_int_equal(link(fixture_path("both_names/manifest.json"), fixture_path("both_names/manifest.10.json")), 0);
    save_kept(path, 2, 2);
    assert_kept(path, "manifest.10.json", 1);
    assert_kept(path, "manifest.json", 2);
    assert_int_equal(assert_all_whole(path), 2);
    fixture_write(fixture_path("both_names/manifest.20.json"), "something else", 14);
    fixture_write(fixture_path("both_names/manifest.20.json.tmp.77"), "left", 4);
    save_kept(path, 3, 3);
    assert_kept(path, "manifest.10.json", 1);
    assert_kept(path, "manifest.20.json", 2);
    assert_int_equal(assert_all_whole(path), 3);
    assert_null(strstr(fixture_names(path), "tmp"));
    save_kept(path, 4, 1);
    assert_string_equal(fixture_names(path), "dense.40.safetensors emb.40.rows lock manifest.json side.car.40.rows");
}

static void model_load__a_manifest_as_path__is_that_save(void **state)
{
    (void)state;
    struct model model;
    char here[512];
    const char *path = fixture_path("as_path");
    for (uint64_t seed = 1; seed <= 3; seed++) save_kept(path, seed, 3);
    assert_holds(path, 3, 7);
    assert_holds(fixture_path("as_path/manifest.json"), 3, 7);
    assert_holds(fixture_path("as_path/manifest.20.json"), 2, 6);
    assert_non_null(getcwd(here, sizeof here));
    assert_int_equal(chdir(path), 0);
    assert_holds("manifest.10.json", 1, 5);
    assert_holds(".", 3, 7);
    assert_int_equal(chdir(here), 0);
    fixture_model(&model, 0, 0);
    assert_int_equal(model_load(&model, fixture_path("as_path/manifest.40.json")), ST_INVALID);
    assert_message("holds no model");
    assert_int_equal(model_load(&model, fixture_path("as_path/emb.10.rows")), ST_INVALID);
    assert_message("emb.10.rows: holds no model");
    assert_int_equal(model_dir_find(fixture_path("as_path/lock")), ST_INVALID);
    assert_ok(model_dir_find(fixture_path("as_path/manifest.20.json")));
    model_close(&model);
    static const char *const of[][2] = {
        {"a/b/manifest.1.json", "a/b"}, {"manifest.1.json", "."}, {"/manifest.1.json", "/"}, {"a/b", "a/b"}};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        char *directory;
        assert_ok(model_dir_of(of[i][0], &directory));
        assert_string_equal(directory, of[i][1]);
        free(directory);
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

/* --- versions of the manifest ------------------------------------------------------------------- */

/* Takes a manifest's keys away and gives it another version, and the checksum that then fits. */
static void manifest_change(const char *path, int version, bool is_old)
{
    size_t bytes;
    char end[64];
    uint8_t *text = fixture_read(path, &bytes);
    json_t *json = json_loadb((const char *)text, bytes, 0, NULL), *table;
    size_t index;
    assert_non_null(json);
    json_object_set_new(json, "version", json_integer(version));
    json_object_del(json, "xxh3");
    if (is_old) {
        assert_int_equal(json_object_del(json, "save"), 0);
        assert_int_equal(json_object_del(json, "text"), 0);
        assert_int_equal(json_object_del(json_object_get(json, "progress"), "pass_examples"), 0);
        json_array_foreach(json_object_get(json, "tables"), index, table)
        {
            json_t *part = json_array_get(json_object_get(table, "parts"), 0);
            assert_int_equal(json_object_del(table, "optimizer"), 0);
            assert_int_equal(json_object_update(table, part), 0);
            assert_int_equal(json_object_del(table, "parts"), 0);
        }
    }
    char *changed = json_dumps(json, JSON_INDENT(2));
    size_t kept = strlen(changed) - 2;
    int end_bytes = snprintf(end, sizeof end, ",\n  \"xxh3\": \"%016" PRIx64 "\"\n}\n", XXH3_64bits(changed, kept));
    changed = realloc(changed, kept + sizeof end);
    memcpy(changed + kept, end, (size_t)end_bytes);
    fixture_write(path, changed, kept + (size_t)end_bytes);
    free(changed);
    free(text);
    json_decref(json);
}

static void model_load__manifest_of_version_1__same_values(void **state)
{
    (void)state;
    struct model expected, loaded;
    const char *path = fixture_path("version");
    save_new(path, 1, 6);
    manifest_change(fixture_path("version/manifest.json"), 1, true);
    fixture_model(&expected, 1, 6);
    expected.progress.pass_examples = 0; /* nobody knew */
    assert_ok(load(&loaded, path));
    fixture_assert_equal(&expected, &loaded, NULL);
    model_close(&loaded);
    fixture_model(&loaded, 0, 0);
    assert_ok(model_resume(&loaded, path));
    model_close(&loaded);
    /* The next save is of this version, and keeps it. */
    save_kept(path, 2, 2);
    assert_ok(load(&loaded, fixture_path("version/manifest.10.json")));
    fixture_assert_equal(&expected, &loaded, NULL);
    assert_kept(path, "manifest.json", 2);
    model_close(&loaded);
    model_close(&expected);
}

static void model_load__manifest_of_a_later_version__is_refused(void **state)
{
    (void)state;
    struct model model;
    save_new(fixture_path("later"), 1, 6);
    manifest_change(fixture_path("later/manifest.json"), 8, false);
    assert_int_equal(load(&model, fixture_path("later")), ST_INVALID);
    assert_message("version 8, where this program reads 1 to 7: saved by a newer heterps-run");
    manifest_change(fixture_path("later/manifest.json"), 0, false);
    assert_int_equal(model_load(&model, fixture_path("later")), ST_INVALID);
    assert_message("version 0");
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
        assert_ok(model_open(&model, &graph, &(struct model_budget){.ram_bytes = FIXTURE_RAM_BYTES}));
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
    assert_ok(model_open(&model, &graph, &(struct model_budget){.ram_bytes = FIXTURE_RAM_BYTES}));
    assert_ok(model_load(&model, fixture_path("graph")));
    model_close(&model);
    graph_close(&graph);
}

static void model_load__small_budget__is_full(void **state)
{
    (void)state;
    struct model model;
    save_new(fixture_path("full"), 1, 12000);
    assert_ok(model_open(&model, &fixture_graph, &(struct model_budget){.ram_bytes = 256 << 10}));
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
    assert_int_equal(fixture_save(&model, fixture_path("foreign")), ST_INVALID);
    fixture_write(fixture_path("foreign/lock"), "", 0);
    fixture_write(fixture_path("foreign/thesis.tex"), "x", 1);
    assert_int_equal(fixture_save(&model, fixture_path("foreign")), ST_INVALID);
    assert_message("thesis.tex");
    fixture_write(fixture_path("foreign/manifest.json"), "{\"name\": \"a web page\"}\n", 23);
    assert_int_equal(fixture_save(&model, fixture_path("foreign")), ST_INVALID);
    assert_message("manifest.json");
    assert_string_equal(fixture_names(fixture_path("foreign")), "emb.10.rows lock manifest.json thesis.tex");

    /* Older saves without a newest are not started over. */
    for (uint64_t seed = 1; seed <= 2; seed++) save_kept(fixture_path("headless"), seed, 2);
    assert_int_equal(unlink(fixture_path("headless/manifest.json")), 0);
    assert_int_equal(fixture_save(&model, fixture_path("headless")), ST_INVALID);
    assert_message("manifest.10.json");
    assert_kept(fixture_path("headless"), "manifest.10.json", 1);

    assert_int_equal(model_dir_check(&fixture_graph, fixture_path("foreign/thesis.tex")), ST_IO);
    assert_int_equal(model_dir_check(&fixture_graph, fixture_path("no/parent")), ST_IO);
    model_close(&model);
}

/* A copy made of links is read; a save would go to where the links lead. */
static void model_dir_check__links_to_another_model__are_refused_and_untouched(void **state)
{
    (void)state;
    static const char *const names[] = {"manifest.json", "lock"};
    struct model model;
    fixture_model(&model, 2, 5);
    save_new(fixture_path("shared"), 1, 3);
    for (size_t i = 0; i < 2; i++) {
        char from[512], to[64];
        snprintf(to, sizeof to, "links.%zu", i);
        save_new(fixture_path(to), 1, 3);
        snprintf(to, sizeof to, "links.%zu/%s", i, names[i]);
        snprintf(from, sizeof from, "../shared/%s", names[i]);
        assert_int_equal(unlink(fixture_path(to)), 0);
        assert_int_equal(symlink(from, fixture_path(to)), 0);
        snprintf(to, sizeof to, "links.%zu", i);
        assert_holds(fixture_path(to), 1, 3);
        assert_int_equal(fixture_save(&model, fixture_path(to)), ST_INVALID);
        assert_message("a save here would change the directory that it leads to");
        assert_holds(fixture_path("shared"), 1, 3);
    }
    model_close(&model);
}

static void model_dir_check__another_graphs_model__is_refused_and_untouched(void **state)
{
    (void)state;
    struct graph other;
    const char *set = "h1.units=6";
    assert_ok(graph_compile(&other, "other.cfg", fixture_text, strlen(fixture_text), &set, 1, NULL));
    save_new(fixture_path("ours"), 1, 3);
    assert_int_equal(model_dir_check(&other, fixture_path("ours")), ST_MISMATCH);
    assert_message("another graph");
    struct model model;
    assert_ok(model_open(&model, &other, &(struct model_budget){.ram_bytes = FIXTURE_RAM_BYTES}));
    assert_int_equal(fixture_save(&model, fixture_path("ours")), ST_MISMATCH);
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
        cmocka_unit_test(model_save__bytes__are_those_of_its_files),
        cmocka_unit_test(model_save__keep_one__never_leaves_an_older_manifest),
        cmocka_unit_test(model_save__keep_three__the_last_three_are_whole_by_name),
        cmocka_unit_test(model_save__older_save__is_not_written_again),
        cmocka_unit_test(model_save__another_keep__is_that_of_the_last_save),
        cmocka_unit_test(model_save__same_step_kept__each_save_has_a_name_of_its_own),
        cmocka_unit_test(model_save__went_back__later_steps_stay_until_newer_saves_replace_them),
        cmocka_unit_test(model_save__older_manifest_damaged__it_and_its_files_stay_fault),
        cmocka_unit_test(model_save__second_name_taken__is_given_anyway_crash),
        cmocka_unit_test(model_load__a_manifest_as_path__is_that_save),
        cmocka_unit_test(model_load__any_byte_flipped__is_refused_by_name_fault),
        cmocka_unit_test(model_load__any_file_cut_or_longer__is_refused_by_name_fault),
        cmocka_unit_test(model_load__large_rows_flipped__names_the_block_fault),
        cmocka_unit_test(model_load__file_of_another_save__is_refused_fault),
        cmocka_unit_test(model_load__missing_file__names_it),
        cmocka_unit_test(model_load__manifest_of_version_1__same_values),
        cmocka_unit_test(model_load__manifest_of_a_later_version__is_refused),
        cmocka_unit_test(model_load__another_graph__says_what_differs),
        cmocka_unit_test(model_load__small_budget__is_full),
        cmocka_unit_test(model_dir_check__new_empty_or_ours__is_claimed),
        cmocka_unit_test(model_dir_check__anything_else__is_refused_and_untouched),
        cmocka_unit_test(model_dir_check__links_to_another_model__are_refused_and_untouched),
        cmocka_unit_test(model_dir_check__another_graphs_model__is_refused_and_untouched),
        cmocka_unit_test(model_dir_check__claimed_by_another_process__is_refused),
    };
    return cmocka_run_group_tests(tests, fixture_open, fixture_close) ? 1 : 0;
}
