/* Saves of a training: what a power cut would leave of them, rows on disk among them, and
 * what they are told to have cost. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/engine/run/session_fixture.h"

#include <errno.h>

#include "engine/base/clock.h"
#include "engine/model/model_saved.h"
#include "engine/run/train.h"
#include "io/store/store_figures.h"
#include "tests/power_cut.h"

#define BATCH 32u
#define STEPS 60u

static char data_path[256], eval_path[256];

static int group_open(void **state) { return session_fixture_open_data(state, STEPS * BATCH, data_path, eval_path); }

static void trained(struct opened *o, const char *out, const char *const *set)
{
    opened_begin(o, set, LOG_JSON);
    status st = model_dir_check(&o->session.setup.graph, out);
    const struct train_options options = {.data = data_path, .out = out, .eval = eval_sets_of(eval_path)};
    if (st == ST_OK) st = train_run(&o->session, &options);
    opened_end(o);
    assert_ok(st);
}

/* --- what lasts ---------------------------------------------------------------------------------- */

static void train_run__power_cut__leaves_whole_saves_crash(void **state)
{
    (void)state;
    static const char *const beside[] = {"checkpoint.every=7", "checkpoint.keep=2", NULL},
                             *const still[] = {"checkpoint.every=7", "checkpoint.keep=2", "emb.ttl=2",
                                               "emb.admit=2",        "store.period=10",   NULL},
                             *const best[] = {"train.stop=logloss", "eval.every=5", NULL};
    static const char *const *const sets[] = {beside, still, best};
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        struct opened o;
        char out[256], name[16], inside[300];
        snprintf(name, sizeof name, "lasts_%zu", i);
        snprintf(out, sizeof out, "%s", fixture_path(name));
        snprintf(inside, sizeof inside, "%s/best", out);
        power_begin(out);
        trained(&o, out, sets[i]);
        assert_string_equal(power_end(out), "");
        if (sets[i] == best) assert_string_equal(power_end(inside), "");
        assert_true(power.file_syncs > 3 && power.directory_syncs > 3);
        opened_close(&o);
    }
}

/* --- rows on disk -------------------------------------------------------------------------------- */

/* A directory on another file system. */
static bool refuses_links;
int link(const char *from, const char *to)
{
    if (!refuses_links) return (int)syscall(SYS_link, from, to);
    errno = EXDEV;
    return -1;
}

/* More keys than the rows that RAM has room for. */
static void many_keys_put(const char *path)
{
    struct gen_criteo *gen;
    char line[GEN_CRITEO_LINE_BYTES_MAX];
    struct gen_criteo_truth truth;
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_ok(gen_criteo_open(&gen, &(struct gen_criteo_options){.seed = 5, .vocab = 2000, .zipf = 0.5}));
    for (uint64_t row = 0; row < STEPS * BATCH; row++) fwrite(line, 1, gen_criteo_row(gen, row, line, &truth), file);
    gen_criteo_close(gen);
    assert_int_equal(fclose(file), 0);
}

/* What all saves together say that they have linked, and put into files of rows, is what
 * the last one's manifest names. */
static void saves_compare(const struct opened *o, const char *out)
{
    struct model_saved saved;
    size_t index;
    json_t *event;
    uint64_t linked_bytes = 0, written = 0, told_bytes = 0, told_written = 0;
    assert_ok(model_saved_open(&saved, out));
    assert_ok(model_saved_verify(&saved));
    const struct manifest_table *table = &saved.manifest.tables[0];
    for (uint32_t i = 0; i < table->part_count; i++) {
        const struct manifest_part *part = &table->part[i];
        if (part->block_bytes)
            linked_bytes += part->file.bytes;
        else
            written += part->rows;
    }
    json_array_foreach(o->events, index, event)
    {
        if (json_object_get(event, "bytes_linked") == NULL) continue;
        told_bytes += (uint64_t)json_integer_value(json_object_get(event, "bytes_linked"));
        told_written += (uint64_t)json_integer_value(json_object_get(event, "rows_written"));
    }
    assert_int_equal(told_written, written);
    assert_int_equal(told_bytes, refuses_links ? 0 : linked_bytes);
    assert_true(linked_bytes > 500000 && written > 500);
    model_saved_close(&saved);
}

static uint32_t descriptors_count(void)
{
    uint32_t count = 0;
    for (int fd = 0; fd < 1000; fd++) count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

/* Linked and copied: what the manifest names of segments lasts too, and is told. */
static void train_run__rows_on_disk_and_power_cut__leaves_whole_saves_crash(void **state)
{
    (void)state;
    char path[300], before[256];
    snprintf(path, sizeof path, "store.path=%s", fixture_path("rows"));
    snprintf(before, sizeof before, "%s", data_path);
    snprintf(data_path, sizeof data_path, "%s", fixture_path("many.tsv"));
    many_keys_put(data_path);
    const char *const set[] = {"emb.dim=64",          "store.ram=6MiB",    "store.ssd=8MiB",      path,
                               "checkpoint.every=20", "checkpoint.keep=2", "checkpoint.wait=yes", NULL};
    for (int i = 0; i < 2; i++) {
        struct opened o;
        char out[256];
        refuses_links = i == 1;
        snprintf(out, sizeof out, "%s", fixture_path(refuses_links ? "copied" : "linked"));
        power_begin(out);
        const uint32_t descriptors = descriptors_count();
        trained(&o, out, set);
        assert_string_equal(power_end(out), "");
        assert_string_equal(event_steps(&o, "checkpoint"), "20 40 60");
        saves_compare(&o, out);
        opened_close(&o);
        assert_int_equal(descriptors_count(), descriptors + 1); /* that of the lock, which the process keeps */
    }
    refuses_links = false;
    snprintf(data_path, sizeof data_path, "%s", before);
}

/* --- what they cost ------------------------------------------------------------------------------ */

/* Saves take long: that is no time of training, and so with what is told of pauses
 * no more than all there was. */
static void train_run__slow_saves__are_pauses(void **state)
{
    (void)state;
    static const char *const each[] = {"checkpoint.every=20", "checkpoint.wait=yes", "emb.ttl=100", "store.period=10",
                                       NULL},
                             *const beside[] = {"checkpoint.every=20", "checkpoint.wait=yes", NULL};
    static const char *const *const sets[] = {each, beside};
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        struct opened o;
        const uint64_t begin = clock_ns();
        power.sync_ns = 10000000;
        trained(&o, fixture_path(i ? "slow_beside" : "slow"), sets[i]);
        power.sync_ns = 0;
        const double all = (double)(clock_ns() - begin) * 1e-9, trained = event_number(&o, "done", "seconds"),
                     longest = event_number(&o, "done", "save_pause_ms_max");
        size_t index;
        double pauses = 0, longest_told = 0;
        json_t *event;
        json_array_foreach(o.events, index, event)
        {
            const double ms = json_number_value(json_object_get(event, "pause_ms"));
            pauses += ms * 1e-3;
            if (ms > longest_told) longest_told = ms;
        }
        if (!(trained + pauses <= all)) fail_msg("%g s of training, %g s of pauses, of %g", trained, pauses, all);
        assert_true(longest == longest_told);
        opened_close(&o);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(train_run__power_cut__leaves_whole_saves_crash),
        cmocka_unit_test(train_run__rows_on_disk_and_power_cut__leaves_whole_saves_crash),
        cmocka_unit_test(train_run__slow_saves__are_pauses),
    };
    return cmocka_run_group_tests(tests, group_open, session_fixture_close) ? 1 : 0;
}
