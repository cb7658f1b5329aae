/* What a power cut at any moment of a save would leave: the saves before it, whole. Kills and full disks are
 * in test_model_interrupted.c, what a save holds in test_model_dir.c. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <sys/stat.h>

#include "engine/model/manifest.h"
#include "tests/engine/model/model_dir_test.h"
#include "tests/power_cut.h"

static void model_save__power_cut__leaves_whole_saves_crash(void **state)
{
    (void)state;
    char path[512];
    for (uint32_t keep = 1; keep <= 3; keep++) {
        char name[16];
        snprintf(name, sizeof name, "keep_%u", keep);
        snprintf(path, sizeof path, "%s", fixture_path(name));
        power_begin(path);
        for (uint64_t seed = 1; seed <= 5; seed++) {
            save_kept(path, seed, keep);
            assert_string_equal(power_end(path), "");
        }
        assert_int_equal(assert_all_whole(path), keep);
    }
}

/* A file system that knows no links has the older manifest copied. */
static bool refuses_links;
int linkat(int from_directory, const char *from, int to_directory, const char *to, int flags)
{
    if (refuses_links) {
        errno = EPERM;
        return -1;
    }
    return (int)syscall(SYS_linkat, from_directory, from, to_directory, to, flags);
}

static void model_save__power_cut_without_links__leaves_whole_saves_crash(void **state)
{
    (void)state;
    char path[512];
    snprintf(path, sizeof path, "%s", fixture_path("copied"));
    refuses_links = true;
    power_begin(path);
    for (uint64_t seed = 1; seed <= 4; seed++) {
        save_kept(path, seed, 2);
        assert_string_equal(power_end(path), "");
    }
    refuses_links = false;
    assert_int_equal(assert_all_whole(path), 2);
}

/* Of two owners the second writes a file of each of its tables, and the first one's manifest names them. */
static void model_save_rows__second_owner__a_part_of_each_table(void **state)
{
    (void)state;
    static const uint8_t owner_of[SHARD_COUNT];
    static const char *const names[] = {"emb+1.30.rows", "side.car+1.30.rows"};
    char path[512], file[FILE_PATH_BYTES];
    struct model first, second, all;
    struct manifest_part parts[2];
    struct model_save_options options = {.path = path, .keep = 1};
    snprintf(path, sizeof path, "%s", fixture_path("owners"));
    fixture_model(&first, 3, 5);
    fixture_model(&second, 4, 6);
    second.progress = first.progress;
    first.share = (struct model_share){.owner = 0, .owner_count = 2, .owner_of = owner_of};
    second.share = (struct model_share){.owner = 1, .owner_count = 2, .owner_of = owner_of};
    assert_ok(model_save_claim(&first, path, &options.generation));
    assert_ok(model_save_rows(&second, &options, parts));
    for (int i = 0; i < 2; i++) {
        struct stat about;
        assert_string_equal(parts[i].file.name, names[i]);
        assert_int_equal(parts[i].rows, 6);
        assert_int_equal(stat(file_path_join(file, path, names[i]), &about), 0);
        assert_int_equal(about.st_size, parts[i].file.bytes);
    }
    options.others = parts;
    assert_ok(model_save(&first, &options, NULL));
    model_parts_free(parts, 2);
    assert_true(parts[0].file.name == NULL && parts[1].file.name == NULL);
    assert_ok(load(&all, path));
    for (uint32_t table = 0; table < 2; table++) {
        assert_int_equal(store_row_count(all.store, table), 11);
        assert_int_equal(store_key(all.store, table, 4), store_key(first.store, table, 4));
        assert_int_equal(store_key(all.store, table, 10), store_key(second.store, table, 5));
    }
    model_close(&first);
    model_close(&second);
    model_close(&all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(model_save__power_cut__leaves_whole_saves_crash),
        cmocka_unit_test(model_save__power_cut_without_links__leaves_whole_saves_crash),
        cmocka_unit_test(model_save_rows__second_owner__a_part_of_each_table),
    };
    return cmocka_run_group_tests(tests, fixture_open, fixture_close) ? 1 : 0;
}
