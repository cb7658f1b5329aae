/* Rows that go to disk and come back: all of them, with their last values, through cleaning, false candidates
 * and both ways of reading; and what is said when the disk does not keep its word. */
#include "tests/io/io_test.h"

#include <errno.h>
#include <sys/syscall.h>

#include "io/store/cold.h"
#include "io/store/segment.h"
#include "io/uring.h"

#define SPAN       64u
#define DISK_BYTES ((uint64_t)9 << 20)
#define FETCH_MAX  650u

/* Every row there is, by number: where it is, and how often it has changed. */
struct world {
    struct home *home;
    uint32_t row_count;
    struct row {
        bool is_resident, is_made, has_arrived, was_found, was_saved, is_walked;
        uint32_t version;
        float span[SPAN];
    } * row;
    uint64_t fetched, refused; /* rows that were there; copies of rows that were nobody's */
};

static uint64_t key_of(uint32_t row) { return (row + 1) * UINT64_C(0x9e3779b97f4a7c15); }
static uint32_t row_of(uint64_t key) { return (uint32_t)(key * UINT64_C(0xf1de83e19937733d)) - 1; } /* the inverse */

static void span_make(float *span, uint32_t row, uint32_t version)
{
    for (uint32_t i = 0; i < SPAN; i++) span[i] = (float)row + (float)(version * SPAN + i) / 1024;
}

static bool is_resident(void *context, uint32_t table, uint64_t key)
{
    const struct world *w = context;
    assert_int_equal(table, 0);
    return row_of(key) < w->row_count && w->row[row_of(key)].is_resident;
}

static void arrived(void *context, const struct home_row *arrival, bool is_found)
{
    struct world *w = context;
    assert_int_equal(arrival->table, 0);
    if (row_of(arrival->key) >= w->row_count) { /* of nobody */
        assert_true(arrival->is_copy && !is_found);
        w->refused++;
        return;
    }
    struct row *row = &w->row[row_of(arrival->key)];
    if (arrival->is_copy) return;
    assert_ptr_equal(arrival->span, row->span);
    assert_false(row->has_arrived);
    row->has_arrived = true;
    row->was_found = is_found;
    row->was_saved = arrival->is_saved;
}

/* What reads and writes of the next world meet, or NULL. */
static struct uring_faults *faults;

static void world_open(struct world *w, uint32_t row_count, bool io_threads, uint32_t tag_bits)
{
    static char path[600];
    snprintf(path, sizeof path, "%s", test_path("rows"));
    const struct home_table_options table = {.name = "emb", .span_floats = SPAN, .bytes = DISK_BYTES};
    const struct home_options options = {.path = path,
                                         .table_count = 1,
                                         .table = &table,
                                         .fetch_max = FETCH_MAX,
                                         .io_threads = io_threads,
                                         .faults = faults,
                                         .tag_bits = tag_bits,
                                         .context = w,
                                         .is_resident = is_resident,
                                         .arrived = arrived};
    *w = (struct world){.row_count = row_count, .row = calloc(row_count, sizeof *w->row)};
    assert_ok(cold_home.open(&w->home, &options));
}

static void world_close(struct world *w)
{
    home_close(w->home);
    free(w->row);
    assert_int_equal(unlink(test_path("rows/lock")), 0);
    assert_int_equal(rmdir(test_path("rows")), 0); /* no segment stays */
}

/* Asks for rows by a batch; rows that are nowhere are made. */
static status rows_ask(struct world *w, const uint32_t *rows, uint32_t count, uint64_t *batch)
{
    uint32_t asked = 0;
    TRY(home_ask(w->home));
    for (uint32_t i = 0; i < count; i++) {
        struct row *row = &w->row[rows[i]];
        if (row->is_resident) continue;
        row->is_resident = true;
        row->has_arrived = false;
        home_prefetch(w->home, 0, key_of(rows[i]));
        if (home_find(w->home, &(struct home_row){.key = key_of(rows[i]), .span = row->span})) {
            asked++;
        } else {
            assert_false(row->is_made);
            row->is_made = row->has_arrived = true;
            span_make(row->span, rows[i], row->version);
        }
    }
    w->fetched += asked;
    return home_bring(w->home, batch);
}

/* Waits for rows that a batch brings, and compares them. */
static status rows_await(struct world *w, const uint32_t *rows, uint32_t count, uint64_t batch)
{
    while (!home_has_arrived(w->home, batch)) TRY(home_poll(w->home, true));
    for (uint32_t i = 0; i < count; i++) {
        struct row *row = &w->row[rows[i]];
        float expected[SPAN];
        assert_true(row->has_arrived);
        if (!row->is_made) { /* another's tag */
            assert_false(row->was_found);
            row->is_made = true;
            span_make(row->span, rows[i], row->version);
        }
        span_make(expected, rows[i], row->version);
        assert_memory_equal(row->span, expected, sizeof expected);
    }
    return ST_OK;
}

static status rows_bring(struct world *w, const uint32_t *rows, uint32_t count)
{
    uint64_t batch;
    TRY(rows_ask(w, rows, count, &batch));
    return rows_await(w, rows, count, batch);
}

static status row_put(struct world *w, uint32_t r)
{
    struct row *row = &w->row[r];
    span_make(row->span, r, ++row->version);
    TRY(home_put(w->home, 0, key_of(r), row->span));
    row->is_resident = false;
    memset(row->span, 0xff, sizeof row->span);
    return ST_OK;
}

/* Rounds of random rows that come, change, and go, while the next ones are already on their way; every row
 * there is in the end. */
static void rows_move(struct world *w, uint32_t rounds)
{
    uint64_t state = w->row_count, batch[2];
    static uint32_t rows[2][FETCH_MAX];
    uint32_t count[2] = {0};
    for (uint32_t round = 0; round <= rounds; round++) {
        uint32_t *next = rows[round % 2], *last = rows[(round + 1) % 2], last_count = count[(round + 1) % 2];
        uint32_t next_count = round < rounds ? (uint32_t)(1 + test_random(&state) % FETCH_MAX) : 0;
        /* Not the rows of the last round: they are still used. */
        for (uint32_t i = 0; i < next_count; i++) do
                next[i] = (uint32_t)(test_random(&state) % w->row_count);
            while (w->row[next[i]].is_resident);
        assert_ok(rows_ask(w, next, next_count, &batch[round % 2]));
        count[round % 2] = next_count;
        if (last_count) assert_ok(rows_await(w, last, last_count, batch[(round + 1) % 2]));
        for (uint32_t i = 0; i < last_count; i++)
            if (w->row[last[i]].is_resident && (test_random(&state) % 8 || round == rounds))
                assert_ok(row_put(w, last[i]));
    }
}

static void rows_bring_all(struct world *w)
{
    static uint32_t all[FETCH_MAX];
    for (uint32_t begin = 0; begin < w->row_count; begin += FETCH_MAX) {
        uint32_t left = w->row_count - begin, here = left < FETCH_MAX ? left : FETCH_MAX;
        for (uint32_t i = 0; i < here; i++) all[i] = begin + i;
        assert_ok(rows_bring(w, all, here));
    }
}

/* Every row that is on disk once, and no other. */
static void rows_walk(struct world *w)
{
    uint64_t key;
    uint32_t count = 0, expected_count = 0;
    const float *span;
    float expected[SPAN];
    assert_ok(home_settle(w->home));
    home_walk_begin(w->home, 0);
    for (uint32_t r = 0; r < w->row_count; r++) {
        w->row[r].is_walked = false;
        expected_count += w->row[r].is_made && !w->row[r].is_resident;
    }
    for (;; count++) {
        assert_ok(home_walk_next(w->home, &key, &span));
        if (span == NULL) break;
        struct row *row = &w->row[row_of(key)];
        assert_false(row->is_resident || row->is_walked);
        row->is_walked = true;
        span_make(expected, row_of(key), row->version);
        assert_memory_equal(span, expected, sizeof expected);
    }
    assert_int_equal(count, expected_count);
    home_walk_end(w->home);
}

/* Copies leave the rows where they are. */
static void rows_copy(struct world *w)
{
    static float span[FETCH_MAX][SPAN];
    const struct home_counts before = home_counts(w->home, 0);
    for (uint32_t begin = 0; begin + FETCH_MAX <= w->row_count; begin += FETCH_MAX) {
        uint64_t batch;
        bool is_asked[FETCH_MAX];
        assert_ok(home_ask(w->home));
        for (uint32_t i = 0; i < FETCH_MAX; i++)
            is_asked[i] =
                !w->row[begin + i].is_resident &&
                home_find(w->home, &(struct home_row){.key = key_of(begin + i), .span = span[i], .is_copy = true});
        assert_ok(home_bring(w->home, &batch));
        while (!home_has_arrived(w->home, batch)) assert_ok(home_poll(w->home, true));
        for (uint32_t i = 0; i < FETCH_MAX; i++) {
            float expected[SPAN];
            span_make(expected, begin + i, w->row[begin + i].version);
            if (is_asked[i]) assert_memory_equal(span[i], expected, sizeof expected);
        }
    }
    assert_int_equal(home_counts(w->home, 0).row_count, before.row_count);
}

static void rows_come_back_as_they_went(void **state)
{
    (void)state;
    for (uint32_t variant = 0; variant < 3; variant++) {
        struct world w;
        uint32_t rows = (uint32_t)cold_row_max(SPAN, DISK_BYTES) * 7 / 9; /* seven tenths of the disk */
        world_open(&w, rows, variant == 1, variant == 2 ? 10 : 0);
        rows_move(&w, variant == 1 ? 140 : 300); /* threads take turns with whoever else is at work here */
        rows_walk(&w);
        rows_copy(&w);
        rows_bring_all(&w);
        struct home_counts counts = home_counts(w.home, 0);
        assert_true(counts.put > 2 * rows && counts.cleaned > 0);
        assert_true(counts.fetched + counts.false_count >= w.fetched);
        if (variant == 2)
            assert_true(counts.false_count > 0);
        else
            assert_int_equal(counts.false_count, 0);
        assert_true(counts.read_count < counts.fetched + counts.false_count);
        double amplification = (double)counts.write_bytes / ((double)counts.put * SPAN * sizeof(float));
        if (variant == 0) print_message("# %s: write amplification %.2f\n", home_words(w.home), amplification);
        assert_true(amplification < 3);
        world_close(&w);
    }
}

/* Keys that nobody has are taken for others', while cleaning moves the others' rows: none is found,
 * and every row stays itself. */
static void false_candidates_do_not_keep_cleaning_from_its_work(void **state)
{
    (void)state;
    struct world w;
    const uint32_t rows = (uint32_t)cold_row_max(SPAN, DISK_BYTES) * 8 / 9, asked_max = 400;
    static uint32_t some[400];
    static float nowhere[400][SPAN];
    uint64_t random = 5, batch, met = 0, expected = 0;
    world_open(&w, rows, false, 6);
    for (uint32_t r = 0; r < rows; r++) w.row[r].is_made = w.row[r].is_resident = true;
    for (uint32_t r = 0; r < rows; r++) assert_ok(row_put(&w, r));
    for (uint32_t round = 0; round < 40; round++) {
        for (uint32_t i = 0; i < asked_max; i++) some[i] = (uint32_t)(test_random(&random) % rows);
        assert_ok(rows_bring(&w, some, asked_max));
        const struct home_counts before = home_counts(w.home, 0);
        assert_ok(home_ask(w.home));
        for (uint32_t i = 0; i < asked_max; i++)
            expected += home_find(
                w.home,
                &(struct home_row){.key = key_of(rows + round * asked_max + i), .span = nowhere[i], .is_copy = true});
        assert_ok(home_bring(w.home, &batch));
        /* The rows are on their way, and what they read is cleaned meanwhile. */
        for (uint32_t i = 0; i < asked_max; i++)
            if (w.row[some[i]].is_resident) assert_ok(row_put(&w, some[i]));
        while (!home_has_arrived(w.home, batch)) assert_ok(home_poll(w.home, true));
        const struct home_counts after = home_counts(w.home, 0);
        met += after.cleaned > before.cleaned && after.false_count > before.false_count;
    }
    assert_true(expected > 1000 && met > 10);
    assert_int_equal(w.refused, expected);
    rows_walk(&w);
    rows_bring_all(&w);
    world_close(&w);
}

/* The walk's reads, of which some are broken off by a signal, or end early. */
static uint32_t pread_fault;
static _Atomic uint32_t shared_pread_count;
static _Atomic uint64_t shared_pread_bytes, shared_pwrite_bytes;
ssize_t pread(int fd, void *buffer, size_t bytes, off_t offset)
{
    const uint32_t count = ++shared_pread_count;
    if (pread_fault && count % pread_fault == 0) {
        errno = EINTR;
        return -1;
    }
    if (pread_fault && count % pread_fault == 1 && bytes > SEGMENT_ALIGN_BYTES) bytes = SEGMENT_ALIGN_BYTES;
    const ssize_t got = syscall(SYS_pread64, fd, buffer, bytes, offset);
    if (got > 0) shared_pread_bytes += (uint64_t)got;
    return got;
}
ssize_t pwrite(int fd, const void *data, size_t bytes, off_t offset)
{
    const ssize_t put = syscall(SYS_pwrite64, fd, data, bytes, offset);
    if (put > 0) shared_pwrite_bytes += (uint64_t)put;
    return put;
}

/* Figures are the calls that there were. */
static void counts_are_those_of_the_reads_and_writes(void **state)
{
    (void)state;
    struct world w;
    world_open(&w, 15000, true, 0);
    shared_pwrite_bytes = 0;
    for (uint32_t r = 0; r < w.row_count; r++) {
        w.row[r].is_made = w.row[r].is_resident = true;
        assert_ok(row_put(&w, r));
    }
    assert_ok(home_settle(w.home));
    struct home_counts counts = home_counts(w.home, 0);
    assert_int_equal(counts.row_count, w.row_count);
    assert_int_equal(counts.put, w.row_count);
    assert_int_equal(counts.write_bytes, shared_pwrite_bytes);
    assert_int_equal(counts.read_count + counts.read_bytes + counts.fetched, 0);
    shared_pread_count = 0;
    shared_pread_bytes = 0;
    rows_bring_all(&w);
    counts = home_counts(w.home, 0);
    assert_int_equal(counts.fetched, w.row_count);
    assert_int_equal(counts.read_count, shared_pread_count);
    assert_int_equal(counts.read_bytes, shared_pread_bytes);
    assert_int_equal(counts.row_count, 0);
    assert_true(counts.read_count > 10 && counts.read_count < w.row_count);
    world_close(&w);
}

static void walk_goes_on_behind_signals_and_short_reads(void **state)
{
    (void)state;
    struct world w;
    world_open(&w, 15000, true, 0);
    for (uint32_t r = 0; r < w.row_count; r++) {
        w.row[r].is_made = w.row[r].is_resident = true;
        assert_ok(row_put(&w, r));
    }
    for (uint32_t fault = 2; fault < 6; fault++) {
        assert_ok(home_settle(w.home));
        shared_pread_count = 0;
        pread_fault = fault;
        rows_walk(&w);
        pread_fault = 0;
        assert_true(shared_pread_count > 4);
    }
    world_close(&w);
}

/* Transfers that end early go on where they ended, whichever back end does them. */
static void rows_come_back_from_a_drive_that_stutters(void **state)
{
    (void)state;
    for (int io_threads = 0; io_threads < 2; io_threads++) {
        struct world w;
        struct uring_faults stutter = {
            .seed = 9, .one_in = {[URING_SHORT] = 4, [URING_AGAIN] = 6}, .align_bytes = SEGMENT_ALIGN_BYTES};
        faults = &stutter;
        world_open(&w, (uint32_t)cold_row_max(SPAN, DISK_BYTES) * 7 / 9, io_threads, 0);
        rows_move(&w, 100);
        rows_walk(&w);
        rows_bring_all(&w);
        assert_true(stutter.hit_count[URING_SHORT] > 10 && stutter.hit_count[URING_AGAIN] > 10);
        world_close(&w);
        faults = NULL;
    }
}

/* The first failure of a drive comes up with file and byte. */
static void failure_of_a_drive_is_said(void **state)
{
    (void)state;
    for (int variant = 0; variant < 4; variant++) {
        struct world w;
        struct uring_faults failing = {.seed = (uint64_t)variant, .spared = 5, .align_bytes = SEGMENT_ALIGN_BYTES};
        bool is_full = variant % 2;
        failing.one_in[is_full ? URING_ENOSPC : URING_EIO] = 1;
        faults = &failing;
        uint32_t rows = (uint32_t)cold_row_max(SPAN, DISK_BYTES) * 7 / 9, put = 0;
        world_open(&w, rows, variant / 2, 0);
        for (uint32_t r = 0; r < rows; r++) w.row[r].is_made = w.row[r].is_resident = true;
        status st = ST_OK;
        for (; put < rows && st == ST_OK; put++) st = row_put(&w, put);
        for (uint32_t r = 0; r < put && st == ST_OK; r++) st = rows_bring(&w, &r, 1);
        assert_fails(IO, is_full ? "No space left on device" : "Input/output error", st);
        assert_non_null(strstr(status_message(), "/rows/emb."));
        assert_non_null(strstr(status_message(), "at byte "));
        world_close(&w);
        faults = NULL;
    }
}

/* Rows of blocks that a save has had come back as saved; those behind them,
 * of the same segment too, do not. */
static void rows_of_given_stretches_come_back_as_saved(void **state)
{
    (void)state;
    enum { GROUPS = 7, GROUP = 40 };
    struct world w;
    world_open(&w, GROUPS * GROUP, false, 0);
    uint32_t saved = 0, segments = 0, given = 0;
    for (uint32_t r = 0; r < w.row_count; r++) {
        w.row[r].is_made = w.row[r].is_resident = true;
        assert_ok(row_put(&w, r));
        if (r % GROUP != GROUP - 1 || r / GROUP == GROUPS - 1) continue;
        struct home_stretch stretch = {0};
        assert_ok(home_write_out(w.home));
        for (uint64_t number = 0; home_stretch_next(w.home, 0, false, number, &stretch); number = stretch.number)
            segments++, given += stretch.block_begin > 0;
        saved = r + 1;
    }
    assert_true(segments >= GROUPS - 1 && given > 0); /* some go on in a segment that a save has had a part of */
    assert_ok(home_write_out(w.home));
    rows_bring_all(&w);
    for (uint32_t r = 0; r < w.row_count; r++) assert_int_equal(w.row[r].was_saved, r < saved);
    world_close(&w);
}

/* All that the budget allows, and one row more. */
static void full_disk_is_said(void **state)
{
    (void)state;
    struct world w;
    uint32_t rows = (uint32_t)cold_row_max(SPAN, DISK_BYTES);
    world_open(&w, rows + 1, false, 0);
    for (uint32_t r = 0; r <= rows; r++) w.row[r].is_made = w.row[r].is_resident = true;
    for (uint32_t r = 0; r < rows; r++) assert_ok(row_put(&w, r));
    assert_fails(FULL, "raise store.ssd", row_put(&w, rows));
    /* A full home can be used, too: cleaning finds room for all rows that come and go. */
    uint64_t random = 3;
    for (uint32_t round = 0; round < 60; round++) {
        static uint32_t some[330];
        for (uint32_t i = 0; i < 330; i++) some[i] = (uint32_t)(test_random(&random) % rows);
        assert_ok(rows_bring(&w, some, 330));
        for (uint32_t i = 0; i < 330; i++)
            if (w.row[some[i]].is_resident) assert_ok(row_put(&w, some[i]));
    }
    world_close(&w);
}

static void file_find(char *name, size_t bytes)
{
    DIR *directory = opendir(test_path("rows"));
    assert_non_null(directory);
    *name = 0;
    for (struct dirent *e; (e = readdir(directory)) != NULL;)
        if (strstr(e->d_name, ".segment") && (*name == 0 || strcmp(e->d_name, strrchr(name, '/') + 1) < 0))
            snprintf(name, bytes, "%s/%s", test_path("rows"), e->d_name);
    closedir(directory);
    assert_true(*name != 0);
}

/* A flipped bit anywhere in a block is found before a row of it is used, by fetches as by cleaning. */
static void flipped_bit_is_found(void **state)
{
    (void)state;
    const uint32_t rows = 6000;
    uint64_t random = 7;
    for (uint32_t trial = 0; trial < 20; trial++) {
        struct world w;
        char name[600];
        uint8_t byte;
        world_open(&w, rows, trial % 2, 0);
        for (uint32_t r = 0; r < rows; r++) {
            w.row[r].is_made = w.row[r].is_resident = true;
            assert_ok(row_put(&w, r));
        }
        assert_ok(home_settle(w.home));
        file_find(name, sizeof name); /* the oldest: its rows are written */
        int fd = open(name, O_RDWR);
        off_t at = (off_t)(test_random(&random) % 4096);
        assert_int_equal(pread(fd, &byte, 1, at), 1);
        byte ^= (uint8_t)(1u << test_random(&random) % 8);
        assert_int_equal(pwrite(fd, &byte, 1, at), 1);
        fsync(fd);
        close(fd);
        const uint32_t first = 0;
        assert_fails(CORRUPT, name, rows_bring(&w, &first, 1));
        assert_fails(CORRUPT, name, home_settle(w.home)); /* and again, whoever asks */
        world_close(&w);
    }
}

/* Behind a full segment's blocks: what is in them. */
static void full_segment_ends_with_its_trailer(void **state)
{
    (void)state;
    struct {
        uint64_t magic;
        uint32_t version, span_floats, block_bytes, block_count, row_count, zero;
        uint64_t number, hash;
    } trailer;
    struct world w;
    char name[600];
    const uint32_t rows = 6000;
    struct stat about;
    uint64_t row_count = 0;
    world_open(&w, rows, false, 0);
    for (uint32_t r = 0; r < rows; r++) {
        w.row[r].is_made = w.row[r].is_resident = true;
        assert_ok(row_put(&w, r));
    }
    assert_ok(home_settle(w.home));
    file_find(name, sizeof name);
    int fd = open(name, O_RDONLY);
    assert_int_equal(fstat(fd, &about), 0);
    const off_t at = about.st_size - (off_t)SEGMENT_ALIGN_BYTES;
    assert_int_equal(pread(fd, &trailer, sizeof trailer, at), sizeof trailer);
    assert_int_equal(trailer.span_floats, SPAN);
    assert_int_equal(trailer.zero, 0);
    assert_int_equal((off_t)trailer.block_count * trailer.block_bytes, at);
    for (uint32_t b = 0; b < trailer.block_count; b++) { /* hash, row count */
        uint32_t count;
        assert_int_equal(pread(fd, &count, sizeof count, (off_t)b * trailer.block_bytes + 8), sizeof count);
        row_count += count;
    }
    assert_true(row_count > trailer.block_count);
    assert_int_equal(trailer.row_count, row_count);
    close(fd);
    world_close(&w);
}

static void cut_file_is_said(void **state)
{
    (void)state;
    struct world w;
    char name[600];
    const uint32_t rows = 6000, first = 0;
    world_open(&w, rows, false, 0);
    for (uint32_t r = 0; r < rows; r++) {
        w.row[r].is_made = w.row[r].is_resident = true;
        assert_ok(row_put(&w, r));
    }
    file_find(name, sizeof name);
    assert_int_equal(truncate(name, 0), 0);
    assert_fails(IO, "ends at byte 0", rows_bring(&w, &first, 1));
    world_close(&w);
}

static void directory_has_one_owner(void **state)
{
    (void)state;
    struct world w;
    struct home *other;
    world_open(&w, 1, false, 0);
    const struct home_table_options table = {.name = "emb", .span_floats = SPAN, .bytes = DISK_BYTES};
    struct home_options options = {.path = test_path("rows"), .table_count = 1, .table = &table, .fetch_max = 1};
    assert_fails(SYSTEM, "give store.path a directory of its own", cold_home.open(&other, &options));
    world_close(&w);
    const struct home_table_options little = {.name = "emb", .span_floats = SPAN, .bytes = 1 << 20};
    options.table = &little;
    assert_fails(INVALID, "raise store.ssd", cold_home.open(&other, &options));
}

static bool is_there(const char *name)
{
    char path[600];
    snprintf(path, sizeof path, "%s/%s", test_path("rows"), name);
    return access(path, F_OK) == 0;
}

static void segments_of_dead_processes_go_and_saved_ones_stay(void **state)
{
    (void)state;
    static const char *const left[] = {"emb.00000007.segment", "a.b.123456789.segment"},
                             *const kept[] = {"emb.00000007.12345678.segment", "emb.00000007.segment.old",
                                              "emb.7.segment"};
    struct world w;
    (void)mkdir(test_path("rows"), 0755);
    for (int i = 0; i < 5; i++) {
        char path[600];
        snprintf(path, sizeof path, "%s/%s", test_path("rows"), i < 2 ? left[i] : kept[i - 2]);
        FILE *file = fopen(path, "w");
        assert_non_null(file);
        fclose(file);
    }
    world_open(&w, 1, false, 0);
    for (int i = 0; i < 2; i++) assert_false(is_there(left[i]));
    for (int i = 0; i < 3; i++) assert_true(is_there(kept[i]));
    for (int i = 0; i < 3; i++) {
        char path[600];
        snprintf(path, sizeof path, "%s/%s", test_path("rows"), kept[i]);
        assert_int_equal(unlink(path), 0);
    }
    world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_come_back_from_a_drive_that_stutters),
        cmocka_unit_test(failure_of_a_drive_is_said),
        cmocka_unit_test(rows_come_back_as_they_went),
        cmocka_unit_test(false_candidates_do_not_keep_cleaning_from_its_work),
        cmocka_unit_test(counts_are_those_of_the_reads_and_writes),
        cmocka_unit_test(walk_goes_on_behind_signals_and_short_reads),
        cmocka_unit_test(rows_of_given_stretches_come_back_as_saved),
        cmocka_unit_test(full_disk_is_said),
        cmocka_unit_test(flipped_bit_is_found),
        cmocka_unit_test(full_segment_ends_with_its_trailer),
        cmocka_unit_test(cut_file_is_said),
        cmocka_unit_test(directory_has_one_owner),
        cmocka_unit_test(segments_of_dead_processes_go_and_saved_ones_stay),
    };
    return cmocka_run_group_tests(tests, test_directory_make, test_directory_remove) ? 1 : 0;
}
