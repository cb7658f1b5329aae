/* Which data a training stands in: how files are told apart, which marks a save keeps,
 * and both through a manifest. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "engine/model/manifest.h"
#include "tests/engine/model/model_fixture.h"

static const char *file_of(const char *name, const char *text)
{
    const char *path = fixture_path(name);
    fixture_write(path, text, strlen(text));
    return path;
}

static void assert_differ(const char *saved_paths, const char *present_paths, const char *message)
{
    struct model_data saved, present;
    assert_ok(model_data_look(&saved, saved_paths, NULL));
    assert_ok(model_data_look(&present, present_paths, NULL));
    status st = model_data_compare("M", &saved, &present);
    assert_int_equal(st, message ? ST_INVALID : ST_OK);
    if (message) assert_message(message);
    model_data_close(&saved);
    model_data_close(&present);
}

static void model_data_compare__files__are_told_by_what_they_hold(void **state)
{
    (void)state;
    char a[512], b[512], list[1200], other[1200];
    snprintf(a, sizeof a, "%s", file_of("a.tsv", "one\ntwo\n"));
    snprintf(b, sizeof b, "%s", file_of("b.tsv", "one\ntoo\n"));
    assert_differ(a, a, NULL);
    assert_differ(a, file_of("c.tsv", "one\ntwo\n"), NULL); /* moved */
    assert_differ(a, b, "which has as many bytes, but different ones");
    assert_differ(a, file_of("d.tsv", "one\ntwo\nthree\n"), "d.tsv of 14 bytes: it is other data");
    snprintf(list, sizeof list, "%s,%s", a, b);
    snprintf(other, sizeof other, "%s,%s", b, a);
    assert_differ(list, list, NULL);
    assert_differ(list, other, "a.tsv, found ");
    assert_differ(list, a, "has stopped in 2 files of data");
    assert_differ("-", a, NULL); /* nothing is known of a stream */
    assert_differ(a, "/dev/null", NULL);
}

static void model_data_mark__any_place__keeps_the_last_mark_before_it(void **state)
{
    (void)state;
    static struct reader_mark mark[3000];
    struct model_data data = {0};
    for (uint32_t i = 0; i < 3000; i++) mark[i] = (struct reader_mark){.example = 10 * i + 5, .byte = i};
    const uint64_t places[] = {0, 4, 5, 6, 14, 15, 1000, 29995, 50000};
    const uint32_t last[] = {0, 0, 1, 1, 1, 2, 100, 3000, 3000}; /* how many marks are not behind the place */
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        model_data_mark(&data, mark, 3000, places[i]);
        if (last[i] == 0) {
            assert_int_equal(data.mark_count, 0);
            continue;
        }
        assert_true(data.mark_count <= MODEL_MARKS_MAX);
        assert_int_equal(data.mark[data.mark_count - 1].byte, last[i] - 1);
        /* Each at most twice as far back as the mark behind it, up to the first half of them. */
        for (uint32_t k = 1; k < data.mark_count; k++)
            assert_true(data.mark[k].byte > data.mark[k - 1].byte &&
                        last[i] - data.mark[k - 1].byte == 2 * (last[i] - data.mark[k].byte));
        assert_true(2 * (last[i] - data.mark[0].byte) > last[i]);
    }
    model_data_mark(&data, NULL, 0, 100);
    assert_int_equal(data.mark_count, 0);
}

/* A manifest of nothing but this, written and read. */
static void manifest_through(const struct model_data *data, const struct progress *progress, struct manifest *got)
{
    struct manifest m;
    struct file_writer writer;
    struct file_map map;
    const char *path = fixture_path("manifest.json");
    assert_ok(manifest_make(&m, 0, 0));
    m.model = "tiny";
    m.dense.name = "dense";
    m.progress = *progress;
    assert_ok(manifest_data_set(&m, data));
    assert_ok(file_writer_open(&writer, path));
    assert_ok(manifest_put(&m, &writer));
    assert_ok(file_writer_commit(&writer));
    manifest_free(&m);
    assert_ok(file_map_open(&map, path));
    assert_ok(manifest_read(got, path, map.data, map.bytes));
    file_map_close(&map);
}

static void manifest__data__is_read_as_it_was_written(void **state)
{
    (void)state;
    char list[1200], a[512];
    struct model_data data;
    struct manifest got;
    snprintf(a, sizeof a, "%s", file_of("odd \xff.tsv", "1\n")); /* no UTF-8 */
    snprintf(list, sizeof list, "%s,%s", a, file_of("b.tsv", "2222\n"));
    assert_ok(model_data_look(&data, list, NULL));
    struct reader_mark mark[] = {
        {.example = 3, .byte = 1, .line = 9, .bad_count = 4, .cut_count = 5, .unknown_count = 6},
        {.example = 7, .byte = 4, .line = 2, .path = 1}};
    model_data_mark(&data, mark, 2, 7);
    const struct progress progress = {.step = 9, .epoch = 5, .first_epoch = 4, .first_step = 8};
    manifest_through(&data, &progress, &got);
    assert_memory_equal(&got.progress, &progress, sizeof progress);
    assert_int_equal(got.data.file_count, 2);
    assert_string_equal(got.data.file[0].name, "");
    assert_non_null(strstr(got.data.file[1].name, "b.tsv"));
    assert_int_equal(got.data.file[1].bytes, 5);
    assert_int_equal(got.data.mark_count, 2);
    for (uint32_t i = 0; i < 2; i++) {
        const struct reader_mark *found = &got.data.mark[i];
        assert_int_equal(found->example, mark[i].example);
        assert_int_equal(found->byte, mark[i].byte);
        assert_int_equal(found->line, mark[i].line);
        assert_int_equal(found->path, mark[i].path);
        assert_int_equal(found->bad_count, mark[i].bad_count);
        assert_int_equal(found->cut_count, mark[i].cut_count);
        assert_int_equal(found->unknown_count, mark[i].unknown_count);
    }
    assert_ok(model_data_compare("M", &got.data, &data));
    manifest_free(&got);
    model_data_close(&data);
    manifest_through(&data, &progress, &got); /* of a stream */
    assert_int_equal(got.data.file_count, 0);
    manifest_free(&got);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(model_data_compare__files__are_told_by_what_they_hold),
        cmocka_unit_test(model_data_mark__any_place__keeps_the_last_mark_before_it),
        cmocka_unit_test(manifest__data__is_read_as_it_was_written),
    };
    return cmocka_run_group_tests(tests, fixture_open, fixture_close) ? 1 : 0;
}
