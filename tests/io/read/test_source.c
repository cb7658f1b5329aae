/* Bytes out of files, gzip files, pipes and standard input. */
#include "tests/io/io_test.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "engine/base/inputs.h"
#include "io/read/source.h"

struct opened {
    struct arena arena;
    struct source source;
};

static status open_paths(struct opened *o, const char *paths)
{
    TRY(arena_open(&o->arena, "test", source_bytes(paths, NULL)));
    return source_open(&o->source, &o->arena, paths, &(struct source_options){0});
}

/* Makes the page cache forget the file, as far as it will. */
static void file_forget(const char *path)
{
    int fd = open(path, O_RDONLY);
    assert_true(fd >= 0 && fsync(fd) == 0 && posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0);
    close(fd);
}

static void close_paths(struct opened *o)
{
    source_close(&o->source);
    arena_close(&o->arena);
}

/* Reads the current file to its end in pieces of `piece` bytes. */
static status read_file(struct source *source, size_t piece, uint8_t *out, size_t capacity, size_t *out_bytes)
{
    *out_bytes = 0;
    for (;;) {
        size_t bytes, room = capacity - *out_bytes;
        TRY(source_read(source, out + *out_bytes, piece < room ? piece : room, &bytes));
        if (!bytes) return ST_OK;
        *out_bytes += bytes;
        assert_true(*out_bytes < capacity);
    }
}

static void random_fill_bytes(uint8_t *out, size_t bytes)
{
    uint64_t state = 7;
    for (size_t i = 0; i < bytes; i++) out[i] = (uint8_t)(test_random(&state) >> 8);
}

#define BIG_BYTES ((size_t)3000017)
static uint8_t big[BIG_BYTES], copy[BIG_BYTES * 2 + 1];

static void source_read__plain_file__gives_its_bytes(void **state)
{
    (void)state;
    const size_t pieces[] = {1 << 10, 131072, 1 << 20, BIG_BYTES + 1};
    struct opened o;
    assert_ok(open_paths(&o, test_file("big", big, BIG_BYTES)));
    assert_int_equal(inputs_spare(test_path("big")), ST_USAGE); /* what is read is not written to */
    assert_false(o.source.is_stream);
    assert_int_equal(o.source.size_bytes, BIG_BYTES);
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        size_t bytes;
        if (i) assert_ok(source_restart(&o.source));
        assert_ok(read_file(&o.source, pieces[i], copy, sizeof copy, &bytes));
        assert_int_equal(bytes, BIG_BYTES);
        assert_memory_equal(copy, big, BIG_BYTES);
        assert_int_equal(o.source.byte_count, (i + 1) * BIG_BYTES);
    }
    close_paths(&o);
}

static void source_read__file_that_is_not_cached__is_read_ahead(void **state)
{
    (void)state;
    enum { BYTES = 9000011 };
    uint8_t *data = malloc(BYTES), *out = malloc(BYTES + 4 * sizeof big);
    random_fill_bytes(data, BYTES);
    const char *path = test_file("cold", data, BYTES);
    uint32_t ahead_count = 0;
    for (int round = 0; round < 6; round++) {
        struct opened o;
        size_t bytes;
        file_forget(path);
        assert_ok(arena_open(&o.arena, "test", source_bytes(path, NULL)));
        assert_ok(source_open(&o.source, &o.arena, path, &(struct source_options){.io_threads = round % 2}));
        for (int pass = 0; pass < 2; pass++) {
            size_t got = 0, piece = round < 2 ? 100000 : 1000000;
            if (pass) assert_ok(source_restart(&o.source)); /* with blocks in flight */
            for (size_t at = 0; at < (round == 5 ? 2000000 : BYTES); at += got) {
                assert_ok(source_read(&o.source, out + at, piece, &got));
                assert_true(got > 0);
                assert_memory_equal(out + at, data + at, got);
                ahead_count += o.source.is_ahead;
            }
            file_forget(path);
        }
        assert_ok(source_restart(&o.source));
        assert_ok(read_file(&o.source, 300000, out, BYTES + 1, &bytes));
        assert_int_equal(bytes, BYTES);
        assert_memory_equal(out, data, BYTES);
        close_paths(&o);
    }
    if (ahead_count == 0) print_message("# the page cache forgets nothing here\n");
    free(data);
    free(out);
}

/* A drive that moves less than is asked, or not now, is read on; one that fails is named, with the byte. */
static void source_read__faults_of_the_drive__read_on_or_said(void **state)
{
    (void)state;
    enum { BYTES = 9000011 };
    uint8_t *data = malloc(BYTES), *out = malloc(BYTES + 1);
    uint64_t hit_count = 0;
    random_fill_bytes(data, BYTES);
    const char *path = test_file("faulty", data, BYTES);
    for (uint32_t round = 0; round < 8; round++) {
        /* A failure alone: blocks behind one that ends early are read once more,
         * and what they met is forgotten. */
        const bool is_broken = round % 4 >= 2;
        struct uring_faults faults = {.seed = round, .align_bytes = 1};
        if (is_broken)
            faults.one_in[URING_EIO] = 10;
        else
            faults.one_in[URING_SHORT] = faults.one_in[URING_AGAIN] = 4;
        struct opened o;
        size_t bytes;
        file_forget(path);
        assert_ok(arena_open(&o.arena, "test", source_bytes(path, NULL)));
        assert_ok(source_open(&o.source, &o.arena, path,
                              &(struct source_options){.io_threads = round % 2, .faults = &faults}));
        status st = read_file(&o.source, 100000, out, BYTES + 1, &bytes);
        assert_memory_equal(out, data, bytes);
        if (faults.hit_count[URING_EIO] == 0) {
            assert_ok(st);
            assert_int_equal(bytes, BYTES);
        } else {
            char place[64];
            snprintf(place, sizeof place, "faulty at byte %zu: Input/output error", bytes);
            assert_fails(IO, place, st);
        }
        hit_count += is_broken ? faults.hit_count[URING_EIO] : faults.hit_count[URING_SHORT];
        close_paths(&o);
    }
    if (hit_count == 0) print_message("# the page cache forgets nothing here\n");
    free(data);
    free(out);
}

/* What is cut off is a short file; what grows is read to its end. */
static void source_read__file_changes_meanwhile__cut_is_told_and_more_is_read(void **state)
{
    (void)state;
    enum { BYTES = 6000000 };
    uint8_t *data = malloc(BYTES), *out = malloc(2 * BYTES);
    random_fill_bytes(data, BYTES);
    for (int round = 0; round < 4; round++) {
        const char *path = test_file("changes", data, BYTES);
        struct opened o;
        size_t got, bytes;
        file_forget(path);
        assert_ok(open_paths(&o, path));
        assert_ok(source_read(&o.source, out, 1000, &got));
        if (round % 2 == 0) {
            assert_int_equal(truncate(path, 1000000), 0);
            assert_fails(IO, ", and had 6000000 bytes when it was opened: it has been cut; start anew",
                         read_file(&o.source, 70000, out + got, BYTES, &bytes));
            assert_true(got + bytes >= 1000000 && got + bytes <= BYTES);
            /* Of a read that is under way the system may have zeroed what is behind the new end. */
            assert_memory_equal(out, data, 1000000);
        } else {
            FILE *file = fopen(path, "ab");
            assert_non_null(file);
            assert_int_equal(fwrite("more", 1, 4, file), 4);
            fclose(file);
            assert_ok(read_file(&o.source, 70000, out + got, 2 * BYTES - got, &bytes));
            assert_int_equal(got + bytes, BYTES + 4);
            assert_memory_equal(out + BYTES, "more", 4);
            assert_memory_equal(out, data, BYTES);
        }
        close_paths(&o);
    }
    free(data);
    free(out);
}

/* A pass after the first reads the file that the first has read. */
static void source_restart__another_file_of_the_name__is_told(void **state)
{
    (void)state;
    struct opened o;
    size_t bytes;
    char other[512];
    const char *path = test_file("replaced", "old old old", 11);
    snprintf(other, sizeof other, "%s.new", path);
    assert_ok(open_paths(&o, path));
    assert_ok(read_file(&o.source, 100, copy, sizeof copy, &bytes));
    FILE *file = fopen(other, "w");
    assert_true(file != NULL && fputs("new text of the name", file) >= 0 && fclose(file) == 0);
    assert_int_equal(rename(other, path), 0);
    assert_fails(IO, "replaced is another file than it was when this run began (it had 11 bytes, and has 20)",
                 source_restart(&o.source));
    close_paths(&o);
    path = test_file("shorter", "old old old", 11);
    assert_ok(open_paths(&o, path));
    assert_ok(read_file(&o.source, 100, copy, sizeof copy, &bytes));
    assert_int_equal(truncate(path, 5), 0);
    assert_fails(IO, "it had 11 bytes, and has 5", source_restart(&o.source));
    close_paths(&o);
}

/* Says, while `is_lying`, that the file ends here, as Linux 5.9 and 5.10 do where
 * the page cache lacks something. */
static bool is_lying;
static uint32_t lie_count;
ssize_t preadv2(int fd, const struct iovec *vector, int count, off_t offset, int flags)
{
    lie_count += is_lying;
    return is_lying ? 0 : syscall(SYS_preadv2, fd, vector, count, offset, 0L, flags);
}

static void source_read__false_end_of_a_file__is_read_on(void **state)
{
    (void)state;
    enum { BYTES = 9000011 };
    uint8_t *data = malloc(BYTES), *out = malloc(BYTES + 1);
    struct opened o;
    size_t bytes;
    random_fill_bytes(data, BYTES);
    is_lying = true, lie_count = 0;
    assert_ok(open_paths(&o, test_file("lied", data, BYTES)));
    assert_ok(read_file(&o.source, 100000, out, BYTES + 1, &bytes));
    is_lying = false;
    assert_true(lie_count >= BYTES / 100000);
    assert_int_equal(bytes, BYTES);
    assert_memory_equal(out, data, BYTES);
    close_paths(&o);
    free(data);
    free(out);
}

/* Both packings that are read. */
static const struct pack {
    uint8_t *(*make)(const void *data, size_t bytes, size_t *out_bytes);
    const char *name;
    size_t magic_bytes;
} packs[] = {{test_gzip, "gzip", 2}, {test_zstd, "zstd", 4}};

static void members_check(const struct pack *p)
{
    size_t a_bytes, b_bytes, empty_bytes, bytes;
    uint8_t *a = p->make(big, BIG_BYTES - 5, &a_bytes), *b = p->make(big + BIG_BYTES - 5, 5, &b_bytes);
    uint8_t *empty = p->make("", 0, &empty_bytes);
    uint8_t *all = malloc(a_bytes + b_bytes + empty_bytes);
    memcpy(all, a, a_bytes);
    memcpy(all + a_bytes, empty, empty_bytes);
    memcpy(all + a_bytes + empty_bytes, b, b_bytes);
    struct opened o;
    /* The file's name does not say how it is packed. */
    assert_ok(open_paths(&o, test_file("members.tsv", all, a_bytes + empty_bytes + b_bytes)));
    for (int pass = 0; pass < 3; pass++) {
        if (pass) assert_ok(source_restart(&o.source));
        assert_ok(read_file(&o.source, pass == 1 ? 1000 : 100000, copy, sizeof copy, &bytes));
        assert_int_equal(bytes, BIG_BYTES);
        assert_memory_equal(copy, big, BIG_BYTES);
        assert_ok(source_read(&o.source, copy, 1, &bytes));
        assert_int_equal(bytes, 0);
    }
    assert_int_equal(o.source.byte_count, 3 * (a_bytes + b_bytes + empty_bytes));
    /* A restart in the middle of a member begins at the front as well. */
    assert_ok(source_restart(&o.source));
    assert_ok(source_read(&o.source, copy, 1000, &bytes));
    assert_ok(source_restart(&o.source));
    assert_ok(read_file(&o.source, 100000, copy, sizeof copy, &bytes));
    assert_int_equal(bytes, BIG_BYTES);
    assert_memory_equal(copy, big, BIG_BYTES);
    close_paths(&o);
    free(a);
    free(b);
    free(empty);
    free(all);
}

static void cut_check(const struct pack *p)
{
    size_t packed_bytes, bytes;
    uint8_t *packed = p->make("0123456789 0123456789 0123456789 some text", 42, &packed_bytes);
    for (size_t cut = p->magic_bytes; cut < packed_bytes; cut++) {
        struct opened o;
        assert_ok(open_paths(&o, test_file("cut.gz", packed, cut)));
        char place[64];
        snprintf(place, sizeof place, "cut.gz: the %s data ends early, at byte %zu", p->name, cut);
        assert_fails(CORRUPT, place, read_file(&o.source, 100, copy, sizeof copy, &bytes));
        close_paths(&o);
    }
    free(packed);
}

static void garbled_check(const struct pack *p)
{
    char words[64];
    size_t packed_bytes, bytes;
    uint8_t *packed = p->make(big, 1000, &packed_bytes);
    struct opened o;
    packed[packed_bytes - (p->make == test_gzip ? 6 : 2)] ^= 1; /* of the checksum */
    assert_ok(open_paths(&o, test_file("sum.gz", packed, packed_bytes)));
    snprintf(words, sizeof words, "sum.gz: not %s data %s", p->name, p->make == test_gzip ? "at byte" : "between byte");
    assert_fails(CORRUPT, words, read_file(&o.source, 100, copy, sizeof copy, &bytes));
    close_paths(&o);
    packed[packed_bytes - (p->make == test_gzip ? 6 : 2)] ^= 1;
    uint8_t *tail = malloc(packed_bytes + 9);
    memcpy(tail, packed, packed_bytes);
    memcpy(tail + packed_bytes, "leftover", 9);
    assert_ok(open_paths(&o, test_file("tail.gz", tail, packed_bytes + 9)));
    snprintf(words, sizeof words, "tail.gz: not %s data %s", p->name,
             p->make == test_gzip ? "at byte" : "between byte");
    assert_fails(CORRUPT, words, read_file(&o.source, 5000, copy, sizeof copy, &bytes));
    close_paths(&o);
    free(tail);
    free(packed);
}

static void source_read__packed_members__are_joined(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof packs / sizeof *packs; i++) members_check(&packs[i]);
}

/* As gzip itself: zeros behind a member, few or many, are nothing, and a member may follow them. */
static void source_read__zeros_behind_gzip__are_passed(void **state)
{
    (void)state;
    enum { ZEROS = 300000 };
    size_t packed_bytes, bytes;
    uint8_t *packed = test_gzip("some text", 9, &packed_bytes), *all = calloc(2 * packed_bytes + ZEROS, 1);
    struct opened o;
    memcpy(all, packed, packed_bytes);
    for (size_t zeros = 1; zeros <= ZEROS; zeros = zeros == 1 ? 512 : zeros * 5) {
        assert_ok(open_paths(&o, test_file("zeros.gz", all, packed_bytes + zeros)));
        assert_ok(read_file(&o.source, 100, copy, sizeof copy, &bytes));
        assert_int_equal(bytes, 9);
        close_paths(&o);
    }
    memcpy(all + packed_bytes + 512, packed, packed_bytes);
    assert_ok(open_paths(&o, test_file("zeros.gz", all, 2 * packed_bytes + 512)));
    assert_ok(read_file(&o.source, 100, copy, sizeof copy, &bytes));
    assert_int_equal(bytes, 18);
    assert_memory_equal(copy, "some textsome text", 18);
    close_paths(&o);
    free(packed);
    free(all);
}

static void source_read__packed_and_cut_anywhere__is_corrupt(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof packs / sizeof *packs; i++) cut_check(&packs[i]);
}

static void source_read__packed_and_garbled__is_corrupt(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof packs / sizeof *packs; i++) garbled_check(&packs[i]);
}

/* What the first frame asks for is planned; what a later one asks for beyond it is not. */
static void source_read__zstd_window__is_what_the_first_frame_asks_for(void **state)
{
    (void)state;
    static uint8_t zeros[(size_t)20 << 20];
    static uint8_t out[2 * sizeof zeros + 1];
    size_t small_bytes, large_bytes, bytes;
    uint8_t *small = test_zstd_window(zeros, sizeof zeros, 23, &small_bytes),
            *large = test_zstd_window(zeros, sizeof zeros, 25, &large_bytes), *both = malloc(small_bytes + large_bytes);
    for (int is_late = 0; is_late <= 1; is_late++) {
        struct opened o;
        memcpy(both, is_late ? small : large, is_late ? small_bytes : large_bytes);
        memcpy(both + (is_late ? small_bytes : large_bytes), is_late ? large : small,
               is_late ? large_bytes : small_bytes);
        assert_ok(open_paths(&o, test_file("window.zst", both, small_bytes + large_bytes)));
        if (is_late)
            assert_fails(MEMORY, "window.zst: its zstd window is larger than the 8 MiB",
                         read_file(&o.source, 1 << 20, out, sizeof out, &bytes));
        else
            assert_ok(read_file(&o.source, 1 << 20, out, sizeof out, &bytes));
        assert_true(is_late || bytes == 2 * sizeof zeros);
        close_paths(&o);
    }
    free(small);
    free(large);
    free(both);
}

static void source_open__packed_in_another_way__says_how_to_unpack(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t count;
        const char *words;
    } cases[] = {{"\3757zXZ\0abc", 9, "packed by xz, which is not read here, but gzip and zstd are"},
                 {"BZh91AY&SYabc", 13, "packed by bzip2"},
                 {"BZh11AY&SY", 10, "bzip2 -dc FILE | heterps-run"},
                 {"\x04\x22\x4d\x18", 4, "packed by lz4"},
                 {"PK\x03\x04...", 7, "packed by zip"},
                 {"7z\xbc\xaf\x27\x1c", 6, "packed by 7-zip"},
                 {"\x1f\x9d.", 3, "packed by compress"}};
    char paths[4096];
    struct opened o;
    size_t bytes;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        /* Also a path that would be read much later. */
        snprintf(paths, sizeof paths, "%s,%s", test_text("plain", "a"),
                 test_file("packed", cases[i].bytes, cases[i].count));
        assert_fails(INVALID, cases[i].words, open_paths(&o, paths));
        close_paths(&o);
    }
    /* Text that begins alike. */
    assert_ok(open_paths(&o, test_text("plain", "BZh91AY&S")));
    assert_ok(read_file(&o.source, 10, copy, sizeof copy, &bytes));
    assert_int_equal(bytes, 9);
    close_paths(&o);
}

static void source_next__several_files__come_one_after_another(void **state)
{
    (void)state;
    char paths[4096];
    size_t gzip_bytes, bytes;
    uint8_t *gzip = test_gzip("two", 3, &gzip_bytes);
    snprintf(paths, sizeof paths, "%s,%s,%s,%s", test_text("1", "one"), test_file("2", gzip, gzip_bytes),
             test_text("3", ""), test_text("4", "4"));
    const char *contents[] = {"one", "two", "", "4"};
    struct opened o;
    assert_ok(open_paths(&o, paths));
    assert_int_equal(o.source.size_bytes, 3 + gzip_bytes + 0 + 1);
    for (int i = 0; i < 4; i++) {
        bool end;
        assert_ok(read_file(&o.source, 100, copy, sizeof copy, &bytes));
        assert_int_equal(bytes, strlen(contents[i]));
        assert_memory_equal(copy, contents[i], bytes);
        assert_ok(source_next(&o.source, &end));
        assert_int_equal(end, i == 3);
    }
    close_paths(&o);
    free(gzip);
}

static void source_open__one_byte_of_the_magic__is_a_plain_file(void **state)
{
    (void)state;
    struct opened o;
    size_t bytes;
    assert_ok(open_paths(&o, test_text("short", "\x1f")));
    assert_ok(read_file(&o.source, 10, copy, sizeof copy, &bytes));
    assert_int_equal(bytes, 1);
    close_paths(&o);
}

static void source_open__bad_paths__name_them(void **state)
{
    (void)state;
    struct opened o;
    assert_fails(IO, "absent: No such file", open_paths(&o, test_path("absent")));
    close_paths(&o);
    assert_fails(IO, "is a directory", open_paths(&o, test_directory));
    close_paths(&o);
    assert_fails(INVALID, "empty name", open_paths(&o, ""));
    close_paths(&o);
    char paths[4096];
    snprintf(paths, sizeof paths, "%s,", test_text("a", "a"));
    assert_fails(INVALID, "empty name", open_paths(&o, paths));
    close_paths(&o);
    /* Also a path that would be read much later. */
    snprintf(paths, sizeof paths, "%s,%s", test_text("a", "a"), test_path("absent"));
    assert_fails(IO, "absent: No such file", open_paths(&o, paths));
    close_paths(&o);
    assert_fails(INVALID, "standard input twice", open_paths(&o, "-,-"));
    close_paths(&o);
    assert_fails(IO, "day: No such file or directory; a comma in a name is written as \\,: ",
                 open_paths(&o, test_text("day,1", "a")));
    close_paths(&o);
}

/* Writes a few bytes at a time, so that the reader sees many short reads. */
static void *write_slowly(void *argument)
{
    int fd = *(int *)argument;
    for (size_t at = 0; at < 10000; at += 100)
        if (write(fd, big + at, 100) != 100) break;
    close(fd);
    return NULL;
}

static void source_read__pipe_on_standard_input__is_a_stream(void **state)
{
    (void)state;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    int saved = test_stdin_replace(ends[0]);
    pthread_t writer;
    assert_int_equal(pthread_create(&writer, NULL, write_slowly, &ends[1]), 0);
    struct opened o;
    size_t bytes;
    assert_ok(open_paths(&o, "-"));
    assert_true(o.source.is_stream);
    assert_int_equal(o.source.size_bytes, 0);
    assert_string_equal(source_name(&o.source), "standard input");
    assert_ok(read_file(&o.source, 333, copy, sizeof copy, &bytes));
    assert_int_equal(bytes, 10000);
    assert_memory_equal(copy, big, 10000);
    assert_fails(INVALID, "standard input can be read only once", source_restart(&o.source));
    close_paths(&o);
    pthread_join(writer, NULL);
    test_stdin_restore(saved);
}

static void *write_fifo(void *argument)
{
    int fd = open(argument, O_WRONLY);
    write_slowly(&fd);
    return NULL;
}

static void source_read__fifo__is_opened_once(void **state)
{
    (void)state;
    char paths[2048];
    const char *fifo = test_path("fifo");
    assert_int_equal(mkfifo(fifo, 0600), 0);
    snprintf(paths, sizeof paths, "%s,%s", test_text("first", "1"), fifo);
    pthread_t writer;
    assert_int_equal(pthread_create(&writer, NULL, write_fifo, (void *)(uintptr_t)fifo), 0);
    struct opened o;
    size_t bytes;
    bool end;
    assert_ok(open_paths(&o, paths));
    assert_true(o.source.is_stream);
    assert_int_equal(o.source.size_bytes, 0);
    assert_ok(read_file(&o.source, 100, copy, sizeof copy, &bytes));
    assert_ok(source_next(&o.source, &end));
    assert_false(end);
    assert_ok(read_file(&o.source, 100, copy, sizeof copy, &bytes));
    assert_int_equal(bytes, 10000);
    assert_memory_equal(copy, big, 10000);
    assert_fails(INVALID, "fifo can be read only once", source_restart(&o.source));
    close_paths(&o);
    pthread_join(writer, NULL);
}

/* One that reads for another, by turns: what it has given stays until it is taken. */
struct shared {
    struct source_share share;
    struct shared *of; /* who takes: the other's */
    uint8_t bytes[1 << 16];
    size_t begin, end;
    uint32_t file_ends;
    struct failure failure;
};

static status shared_give(struct source_share *share, const void *bytes, size_t count)
{
    struct shared *s = (struct shared *)share;
    assert_true(count <= sizeof s->bytes - s->end);
    memcpy(s->bytes + s->end, bytes, count);
    s->end += count;
    s->file_ends += count == 0;
    return ST_OK;
}

static status shared_give_failure(struct source_share *share, status st)
{
    failure_keep(&((struct shared *)share)->failure, st);
    return st;
}

static status shared_take(struct source_share *share, void *bytes, size_t capacity, size_t *count)
{
    struct shared *s = ((struct shared *)share)->of;
    const size_t left = s->end - s->begin, most = capacity < 1000 ? capacity : 1000;
    if (left == 0 && failure_is(&s->failure)) return failure_adopt(&s->failure);
    *count = left < most ? left : most;
    memcpy(bytes, s->bytes + s->begin, *count);
    s->begin += *count;
    return ST_OK;
}

static const struct source_share_vt shared_vt = {shared_give, shared_give_failure, shared_take};

static status shared_open(struct opened *o, const char *paths, struct source_share *share)
{
    TRY(arena_open(&o->arena, "test", source_bytes(paths, share)));
    return source_open(&o->source, &o->arena, paths, &(struct source_options){.share = share});
}

static void source_open__shared_stream__others_get_its_stored_bytes(void **state)
{
    (void)state;
    static struct shared giver, taker;
    struct opened o, other;
    size_t bytes, stored;
    int stop[2];
    giver.share = (struct source_share){.vt = &shared_vt, .reads = true};
    taker = (struct shared){.share = {.vt = &shared_vt}, .of = &giver};
    random_fill_bytes(big, 30000);
    uint8_t *packed = test_gzip(big, 30000, &stored);
    char fifo[300];
    snprintf(fifo, sizeof fifo, "%s.fifo", test_text("shared", ""));
    assert_true(mkfifo(fifo, 0600) == 0 && pipe(stop) == 0);
    giver.share.stop_fd = stop[0];
    int writer = open(fifo, O_RDWR); /* it is there before who reads */
    assert_true(write(writer, packed, stored) == (ssize_t)stored);
    assert_ok(shared_open(&o, fifo, &giver.share));
    assert_ok(shared_open(&other, "/nowhere/else", &taker.share)); /* of which nothing is opened */
    assert_true(o.source.is_stream && other.source.is_stream);
    for (size_t i = 0; i < 2; i++) {
        struct source *source = i ? &other.source : &o.source;
        for (size_t got = 0; got < 30000; got += bytes) {
            assert_ok(source_read(source, copy + got, 30000 - got, &bytes));
            assert_true(bytes > 0);
        }
        assert_memory_equal(copy, big, 30000);
    }
    assert_int_equal(giver.end, stored);
    assert_int_equal(giver.file_ends, 0);
    /* The writer is silent, and reading is to end. */
    assert_true(write(stop[1], "x", 1) == 1);
    assert_int_equal(source_read(&o.source, copy, 1, &bytes), ST_STOPPED);
    assert_int_equal(source_read(&other.source, copy, 1, &bytes), ST_STOPPED);
    close_paths(&o);
    close_paths(&other);
    for (int i = 0; i < 2; i++) close(stop[i]);
    close(writer);
    free(packed);
}

int main(void)
{
    random_fill_bytes(big, BIG_BYTES);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(source_read__plain_file__gives_its_bytes),
        cmocka_unit_test(source_read__file_that_is_not_cached__is_read_ahead),
        cmocka_unit_test(source_read__faults_of_the_drive__read_on_or_said),
        cmocka_unit_test(source_read__file_changes_meanwhile__cut_is_told_and_more_is_read),
        cmocka_unit_test(source_restart__another_file_of_the_name__is_told),
        cmocka_unit_test(source_read__false_end_of_a_file__is_read_on),
        cmocka_unit_test(source_read__packed_members__are_joined),
        cmocka_unit_test(source_read__zeros_behind_gzip__are_passed),
        cmocka_unit_test(source_read__packed_and_cut_anywhere__is_corrupt),
        cmocka_unit_test(source_read__packed_and_garbled__is_corrupt),
        cmocka_unit_test(source_read__zstd_window__is_what_the_first_frame_asks_for),
        cmocka_unit_test(source_open__packed_in_another_way__says_how_to_unpack),
        cmocka_unit_test(source_next__several_files__come_one_after_another),
        cmocka_unit_test(source_open__one_byte_of_the_magic__is_a_plain_file),
        cmocka_unit_test(source_open__bad_paths__name_them),
        cmocka_unit_test(source_read__pipe_on_standard_input__is_a_stream),
        cmocka_unit_test(source_read__fifo__is_opened_once),
        cmocka_unit_test(source_open__shared_stream__others_get_its_stored_bytes),
    };
    return cmocka_run_group_tests(tests, test_directory_make, test_directory_remove) ? 1 : 0;
}
