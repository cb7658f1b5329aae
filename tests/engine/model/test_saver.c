/* The saver: what it writes beside changes to the model is the model as it was when the save began, however
 * small the buffer; saves build on each other and begin anew when they have grown; a failure leaves the save
 * before it, is told once, and keeps nobody waiting. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/engine/model/model_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "engine/base/log.h"
#include "engine/model/model_saved.h"
#include "engine/model/saver.h"
#include "io/store/store_save.h"

#define TABLES 2u
#define ROWS   400u
#define FLOATS 20u /* of a span at most */
/* Of a model with a disk: less RAM than its rows need. */
#define DISK_RAM_BYTES ((uint64_t)12 << 20)
#define DISK_ROWS      100000u

/* A model whose rows are marked, its saver, and the values that the save under way must have. */
static struct trained {
    struct model model;
    struct saver *saver;
    char path[128];
    float *param, *state;
    float span[TABLES][ROWS][FLOATS];
    uint64_t row_count[TABLES];
    struct progress progress;
} t;

static uint32_t span_floats(uint32_t table) { return fixture_graph.tables[table].span_floats; }

/* A step: every `stride`-th row and all of the dense part are changed. */
static void train_step(uint32_t stride)
{
    const struct graph_header *h = fixture_graph.header;
    for (uint32_t table = 0; table < TABLES; table++)
        for (uint64_t row = 0; row < t.row_count[table]; row += stride) {
            float *span = store_span(t.model.store, table, row);
            store_rows_change(t.model.store, table, &span, 1);
            for (uint32_t i = 0; i < span_floats(table); i++) span[i] += 1.0f + (float)i;
        }
    /* Padding between tensors keeps its zeros. */
    for (uint64_t i = 0; i < h->param_floats; i++) t.model.param[i] *= 1.5f;
    for (uint64_t i = 0; i < h->state_floats; i++) t.model.state[i] *= 1.25f;
    t.model.progress.step++;
    t.model.progress.examples += 8;
}

static void training_open(const char *name, uint64_t buffer_bytes)
{
    const struct graph_header *h = fixture_graph.header;
    memset(&t, 0, sizeof t);
    snprintf(t.path, sizeof t.path, "%s", fixture_path(name));
    fixture_model(&t.model, 0, 0);
    assert_ok(model_dir_check(&fixture_graph, t.path));
    const struct saver_options options = {.model = &t.model, .path = t.path, .keep = 1, .buffer_bytes = buffer_bytes};
    assert_ok(saver_open(&t.saver, &options));
    fixture_fill(&t.model, 1, ROWS);
    for (uint32_t table = 0; table < TABLES; table++) {
        t.row_count[table] = ROWS;
        assert_true(span_floats(table) <= FLOATS);
    }
    t.param = calloc(h->param_floats, sizeof *t.param);
    t.state = calloc(h->state_floats, sizeof *t.state);
    assert_true(t.param && t.state);
    train_step(1);
}

static void training_close(void)
{
    saver_close(t.saver);
    model_close(&t.model);
    free(t.param);
    free(t.state);
}

/* Begins a save, and keeps what it must have. */
static void save_begin_kept(void)
{
    const struct graph_header *h = fixture_graph.header;
    memcpy(t.param, t.model.param, h->param_floats * sizeof *t.param);
    memcpy(t.state, t.model.state, h->state_floats * sizeof *t.state);
    for (uint32_t table = 0; table < TABLES; table++)
        for (uint64_t row = 0; row < ROWS; row++)
            memcpy(t.span[table][row], store_span(t.model.store, table, row), span_floats(table) * sizeof(float));
    t.progress = t.model.progress;
    assert_ok(saver_begin(t.saver, t.row_count, 0));
    assert_true(saver_is_busy(t.saver));
}

static struct saver_done save_end_told(void)
{
    struct saver_done done;
    saver_wait(t.saver);
    assert_true(saver_is_done(t.saver));
    assert_ok(saver_take(t.saver, &done));
    assert_false(saver_is_busy(t.saver));
    assert_memory_equal(&done.progress, &t.progress, sizeof done.progress);
    assert_int_equal(done.row_count, TABLES * ROWS);
    return done;
}

/* The row's number in the model that is trained. */
static uint64_t row_of(uint32_t table, uint64_t key)
{
    for (uint64_t row = 0; row < ROWS; row++)
        if (store_key(t.model.store, table, row) == key) return row;
    fail_msg("table %u has no key %016llx", table, (unsigned long long)key);
    return 0;
}

/* The directory holds the model as it was when the last save began. */
static void assert_saved(void)
{
    const struct graph_header *h = fixture_graph.header;
    struct model loaded;
    fixture_model(&loaded, 0, 0);
    assert_ok(model_load(&loaded, t.path));
    assert_memory_equal(loaded.param, t.param, h->param_floats * sizeof *t.param);
    assert_memory_equal(loaded.state, t.state, h->state_floats * sizeof *t.state);
    assert_memory_equal(&loaded.progress, &t.progress, sizeof t.progress);
    for (uint32_t table = 0; table < TABLES; table++) {
        assert_int_equal(store_row_count(loaded.store, table), ROWS);
        for (uint64_t row = 0; row < ROWS; row++)
            assert_memory_equal(store_span(loaded.store, table, row),
                                t.span[table][row_of(table, store_key(loaded.store, table, row))],
                                span_floats(table) * sizeof(float));
    }
    model_close(&loaded);
}

static void saver__rows_change_while_it_writes__saves_them_as_they_were_at_begin(void **state)
{
    (void)state;
    training_open("beside", 1 << 20);
    for (uint32_t save = 0; save < 20; save++) {
        save_begin_kept();
        for (uint32_t stride = 1; stride < 4; stride++) train_step(stride);
        save_end_told();
        assert_saved();
    }
    training_close();
}

/* A buffer of two rows holds none of the hundreds that are changed at once. Whether a save's thread has
 * written them before is chance. */
static void saver__buffer_is_full__who_changes_rows_waits_and_nothing_is_lost(void **state)
{
    (void)state;
    bool has_waited = false;
    training_open("full", 300);
    for (uint32_t save = 0; save < 50; save++) {
        save_begin_kept();
        train_step(1);
        has_waited |= save_end_told().wait_ms > 0;
        assert_saved();
    }
    assert_true(has_waited);
    training_close();
}

static void saver_open__buffer_of_one_row__is_refused(void **state)
{
    (void)state;
    struct saver *saver = NULL;
    struct model model;
    fixture_model(&model, 0, 0);
    const struct saver_options options = {.model = &model, .path = fixture_path("none"), .buffer_bytes = 100};
    assert_int_equal(saver_open(&saver, &options), ST_INVALID);
    assert_message("checkpoint.buffer");
    assert_null(saver);
    model_close(&model);
}

/* How many names of the directory hold `part`. */
static uint32_t names_count(const char *part)
{
    uint32_t count = 0;
    for (const char *at = fixture_names(t.path); (at = strstr(at, part)) != NULL; at++) count++;
    return count;
}

/* A save has what has changed since the one before it, and lists that one's files; all files of a chain have
 * at most twice a full save's bytes. Only the newest save stays. */
static void saver__saves_one_after_another__each_replaces_the_one_before(void **state)
{
    (void)state;
    static const struct {
        uint32_t stride, written;
        bool is_full;
        uint32_t files; /* of rows, of each table */
    } saves[] = {
        {1, TABLES * ROWS, true, 1},      /* the first                                      */
        {4, TABLES * ROWS / 4, false, 2}, /* a quarter                                      */
        {2, TABLES * ROWS / 2, false, 3}, /* 1 + 1/4 + 1/2                                  */
        {1, TABLES * ROWS, true, 1},      /* 2 3/4 would be more than twice a full save     */
        {ROWS, TABLES, false, 2},         /* a row of each table                            */
    };
    training_open("chain", 1 << 20);
    for (uint32_t i = 0; i < sizeof saves / sizeof *saves; i++) {
        train_step(saves[i].stride);
        save_begin_kept();
        struct saver_done done = save_end_told();
        assert_int_equal(done.is_full, saves[i].is_full);
        assert_int_equal(done.written_count, saves[i].written);
        assert_true(done.bytes > (uint64_t)saves[i].written * sizeof(uint64_t));
        assert_saved();
        assert_int_equal(names_count("emb."), saves[i].files);
        assert_int_equal(names_count("side.car."), saves[i].files);
        assert_int_equal(names_count("dense."), 1);
        assert_int_equal(names_count("manifest."), 1);
    }
    training_close();
}

static void saver__disk_is_full__told_once_and_the_save_before_stays(void **state)
{
    (void)state;
    struct rlimit unlimited, limit;
    struct saver_done done;
    training_open("failed", 300);
    save_begin_kept();
    save_end_told();
    char before[2048];
    snprintf(before, sizeof before, "%s", fixture_names(t.path));
    train_step(1);

    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &unlimited), 0);
    limit = (struct rlimit){.rlim_cur = 4000, .rlim_max = unlimited.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    assert_ok(saver_begin(t.saver, t.row_count, 0));
    train_step(1); /* nobody waits for a saver that has given up */
    saver_wait(t.saver);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &unlimited), 0);

    assert_true(saver_is_done(t.saver));
    assert_int_equal(status_fail(ST_INVALID, __FILE__, __LINE__, "another failure of this thread"), ST_INVALID);
    assert_int_equal(saver_take(t.saver, &done), ST_IO);
    assert_message(t.path);
    assert_message("File too large");
    assert_false(saver_is_busy(t.saver));
    train_step(1);
    assert_string_equal(fixture_names(t.path), before);
    assert_saved();
    training_close();
}

/* --- rows on disk ------------------------------------------------------------------------------- */

static bool link_is_refused; /* as between two file systems */
int link(const char *from, const char *to)
{
    if (!link_is_refused) return linkat(AT_FDCWD, from, AT_FDCWD, to, 0);
    errno = EXDEV;
    return -1;
}

static uint32_t files_open(void)
{
    uint32_t count = 0;
    DIR *directory = opendir("/proc/self/fd");
    assert_non_null(directory);
    while (readdir(directory) != NULL) count++;
    closedir(directory);
    return count;
}

/* Bytes of the segments that the newest save names. */
static uint64_t segments_saved(const char *path)
{
    struct model_saved saved;
    uint64_t sum = 0;
    assert_ok(model_saved_open(&saved, path));
    for (uint32_t table = 0; table < TABLES; table++)
        for (uint32_t i = 0; i < saved.manifest.tables[table].part_count; i++) {
            const struct manifest_part *part = &saved.manifest.tables[table].part[i];
            if (part->number) sum += part->file.bytes;
        }
    model_saved_close(&saved);
    return sum;
}

static struct saver_done tiered_save(struct model *model, struct saver *saver)
{
    uint64_t row_count[TABLES];
    struct saver_done done;
    for (uint32_t table = 0; table < TABLES; table++) row_count[table] = store_row_count(model->store, table);
    model->progress.step++;
    assert_ok(saver_begin(saver, row_count, 0));
    saver_wait(saver);
    assert_ok(saver_take(saver, &done));
    return done;
}

/* Linked segments are counted where a save is the first to name them; those that are copied are not,
 * and no file of theirs stays open. */
static void saver__rows_on_disk__are_linked_or_copied_and_nothing_stays_open(void **state)
{
    (void)state;
    for (int copies = 0; copies < 2; copies++) {
        char path[256], rows[256];
        struct model model;
        struct saver *saver;
        float *span;
        snprintf(path, sizeof path, "%s", fixture_path(copies ? "copied" : "linked"));
        snprintf(rows, sizeof rows, "%s", fixture_path("rows"));
        assert_ok(model_dir_check(&fixture_graph, path)); /* keeps its lock */
        const uint32_t open_before = files_open();
        link_is_refused = copies;
        assert_ok(model_open(
            &model, &fixture_graph,
            &(struct model_budget){.ram_bytes = DISK_RAM_BYTES, .disk_bytes = (uint64_t)32 << 20, .path = rows}));
        model_init(&model);
        assert_ok(saver_open(
            &saver, &(struct saver_options){.model = &model, .path = path, .keep = 1, .buffer_bytes = 1 << 20}));
        for (uint64_t key = 1; key <= DISK_ROWS; key++)
            assert_ok(store_insert(model.store, 0, key * UINT64_C(0x9e3779b97f4a7c15), &span));
        const struct saver_done first = tiered_save(&model, saver), second = tiered_save(&model, saver);
        assert_true(segments_saved(path) > 100000);
        assert_int_equal(first.linked_bytes, copies ? 0 : segments_saved(path));
        assert_true(copies ? first.bytes > segments_saved(path) : first.bytes > 0);
        assert_int_equal(second.linked_bytes, 0);
        saver_close(saver);
        model_close(&model);
        assert_int_equal(files_open(), open_before);
    }
    link_is_refused = false;
}

/* The test ends with the save under way. */
/* Someone moves the directory away, or removes one file: the next save needs no file of the saves before. */
static void saver__files_of_earlier_saves_are_gone__the_next_save_is_whole(void **state)
{
    (void)state;
    static const char *const gone[] = {"", "", "emb.12.rows"}; /* nothing, all, one file */
    for (size_t i = 0; i < 3; i++) {
        char name[32], path[256];
        snprintf(name, sizeof name, "gone.%zu", i);
        training_open(name, 1 << 20);
        for (int save = 0; save < 3; save++) {
            train_step(save == 0 ? 1 : 7);
            save_begin_kept();
            assert_int_equal(save_end_told().is_full, save == 0 || (save == 2 && i > 0));
            assert_saved();
            if (save != 1 || i == 0) continue;
            snprintf(path, sizeof path, "%s%s%s", t.path, i == 1 ? ".moved" : "/", gone[i]);
            if (i == 1) assert_int_equal(rename(t.path, path), 0);
            if (i == 1) assert_int_equal(mkdir(t.path, 0777), 0);
            if (i == 2) assert_int_equal(unlink(path), 0);
        }
        training_close();
    }
}

static void saver_close__save_under_way__is_waited_for(void **state)
{
    (void)state;
    training_open("closed", 1 << 20);
    save_begin_kept();
    train_step(3);
    saver_close(t.saver);
    t.saver = NULL;
    assert_saved();
    training_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(saver__rows_change_while_it_writes__saves_them_as_they_were_at_begin),
        cmocka_unit_test(saver__buffer_is_full__who_changes_rows_waits_and_nothing_is_lost),
        cmocka_unit_test(saver_open__buffer_of_one_row__is_refused),
        cmocka_unit_test(saver__saves_one_after_another__each_replaces_the_one_before),
        cmocka_unit_test(saver__disk_is_full__told_once_and_the_save_before_stays),
        cmocka_unit_test(saver__rows_on_disk__are_linked_or_copied_and_nothing_stays_open),
        cmocka_unit_test(saver__files_of_earlier_saves_are_gone__the_next_save_is_whole),
        cmocka_unit_test(saver_close__save_under_way__is_waited_for),
    };
    log_open(LOG_TEXT, -1);
    alarm(300); /* who waits for the saver for ever fails */
    return cmocka_run_group_tests(tests, fixture_open, fixture_close) ? 1 : 0;
}
