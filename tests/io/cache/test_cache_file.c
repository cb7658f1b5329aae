/* The file of the data cache by itself: blocks that are written are found, read ahead and given back, by
 * io_uring and by threads; of a file that is not this data's, or garbled anywhere, it says what is wrong. */
#include "tests/io/io_test.h"

#include <errno.h>

#include "io/cache/block.h"
#include "io/cache/cache_file.h"

#define BLOCKS_MAX      600u /* the index takes three runs */
#define BLOCK_BYTES_MAX 20000u
#define ROWS_MAX        1000u
#define SCHEMA          77u

struct scene {
    struct arena arena;
    struct data_sources sources;
    struct cache_file file;
    struct cache_place places[BLOCKS_MAX + 1];
    char path[1024], data[1024];
    uint64_t found;
    char why[512];
};

static void told_keep(void *context, enum notice kind, const char *text)
{
    (void)kind;
    snprintf(context, 512, "%s", text);
}
static char told[512];
static const struct notices notices = {.tell = told_keep, .context = told};

static const char *put_file(const char *name, const char *text)
{
    const char *path = test_path(name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    return path;
}

static struct cache_file_options options_of(struct scene *s)
{
    return (struct cache_file_options){.path = s->path,
                                       .sources = &s->sources,
                                       .schema = SCHEMA,
                                       .bytes_max = 64 << 20,
                                       .block_count_max = BLOCKS_MAX,
                                       .row_count_max = ROWS_MAX,
                                       .block_bytes_max = BLOCK_BYTES_MAX,
                                       .held_count = 3,
                                       .notices = &notices};
}

/* Opens a cache with these options, of a data file that is there. */
static void scene_open(struct scene *s, const struct cache_file_options *changed)
{
    struct layout sum = {0};
    struct cache_file_options o = changed ? *changed : options_of(s);
    o.sources = &s->sources;
    data_sources_layout(&s->sources, &sum, s->data, false);
    cache_file_layout(&s->file, &sum, &o);
    assert_ok(arena_open(&s->arena, "test", sum.bytes + cache_file_uring_bytes(&o) + CACHE_PAGE));
    struct layout taken = {.arena = &s->arena};
    data_sources_layout(&s->sources, &taken, s->data, false);
    cache_file_layout(&s->file, &taken, &o);
    assert_ok(data_sources_look(&s->sources, s->sources.source));
    assert_ok(cache_file_open(&s->file, &s->arena));
    cache_file_head_make(&s->file);
    told[0] = 0;
}
static void scene_close(struct scene *s)
{
    cache_file_close(&s->file);
    arena_close(&s->arena);
}
static void scene_begin(struct scene *s)
{
    memset(s, 0, sizeof *s);
    snprintf(s->path, sizeof s->path, "%s", test_path("cache"));
    snprintf(s->data, sizeof s->data, "%s", put_file("data", "some data\n"));
    unlink(s->path);
}

/* Of block n: from one head's bytes up, a multiple of 8, some of whole pages;
 * its bytes are made of its number. */
static uint32_t bytes_of(uint32_t n)
{
    return n % 7 == 0 ? (uint32_t)CACHE_PAGE * (1 + n % 3) : (uint32_t)(BLOCK_HEAD_BYTES + n * 136 % 12000) / 8 * 8;
}
static uint32_t rows_of(uint32_t n) { return n % (ROWS_MAX + 1); }
static void block_fill(uint8_t *to, uint32_t n)
{
    for (uint32_t i = 0; i < bytes_of(n); i++) to[i] = (uint8_t)(n * 31 + i * 7 + i / 251);
}

static void blocks_write(struct scene *s, uint32_t count)
{
    cache_file_begin(&s->file);
    assert_string_equal(s->file.why, "");
    for (uint32_t n = 0; n < count; n++) {
        uint8_t *room = cache_file_room(&s->file);
        block_fill(room, n);
        s->places[n] = (struct cache_place){bytes_of(n), rows_of(n), 0, CACHE_RAM_NONE};
        cache_file_put(&s->file, &s->places[n]);
    }
    cache_file_end(&s->file, s->places, count);
}

static void block_check(struct scene *s, uint32_t n)
{
    static uint8_t expected[BLOCK_BYTES_MAX];
    const uint8_t *bytes = cache_file_get(&s->file, n, &s->places[n]);
    block_fill(expected, n);
    assert_non_null(bytes);
    assert_int_equal((uintptr_t)bytes % CACHE_PAGE, 0);
    assert_memory_equal(bytes, expected, bytes_of(n));
}

static void cache_file__blocks__are_found_and_read_in_any_order(void **state)
{
    (void)state;
    static struct scene s;
    static const uint32_t counts[] = {0, 1, 255, 256, 257, BLOCKS_MAX};
    for (size_t c = 0; c < 2 * sizeof counts / sizeof *counts; c++) {
        const uint32_t count = counts[c / 2];
        scene_begin(&s);
        struct cache_file_options o = options_of(&s);
        o.io_threads = c % 2;
        scene_open(&s, &o);
        assert_ok(cache_file_check(&s.file));
        blocks_write(&s, count);
        /* While it is on its way to the disk it can be read. */
        if (count > 2) block_check(&s, 2), cache_file_release(&s.file, 2);
        scene_close(&s);
        assert_int_equal(access(s.path, F_OK), 0);
        assert_int_equal(access(test_path("cache.new"), F_OK), -1);
        memset(s.places, 0, sizeof s.places);
        scene_open(&s, &o);
        assert_true(cache_file_find(&s.file, s.places, &s.found, s.why, sizeof s.why));
        assert_string_equal(s.why, "");
        assert_int_equal(s.found, count);
        uint32_t page = 1;
        for (uint32_t n = 0; n < count; n++) {
            assert_int_equal(s.places[n].bytes, bytes_of(n));
            assert_int_equal(s.places[n].row_count, rows_of(n));
            assert_int_equal(s.places[n].file_page, page);
            assert_true(s.places[n].ram_page == CACHE_RAM_NONE);
            page += (bytes_of(n) + CACHE_PAGE - 1) / CACHE_PAGE;
        }
        for (uint32_t k = 0; k < count; k++) {
            const uint32_t n = (uint32_t)((uint64_t)k * 37 % count), next = (uint32_t)((uint64_t)(k + 1) * 37 % count);
            if (count == 256 || count == 257 || count == BLOCKS_MAX)
                (void)cache_file_want(&s.file, next, &s.places[next]);
            block_check(&s, n);
            cache_file_release(&s.file, n);
        }
        scene_close(&s);
    }
}

/* Three are held, and four more asked for; then there is room for no other until one is given back. */
static void cache_file_want__all_buffers_taken__is_refused(void **state)
{
    (void)state;
    static struct scene s;
    scene_begin(&s);
    scene_open(&s, NULL);
    blocks_write(&s, 20);
    scene_close(&s); /* whose way to the disk is a request, too */
    scene_open(&s, NULL);
    assert_true(cache_file_find(&s.file, s.places, &s.found, s.why, sizeof s.why));
    assert_int_equal(s.file.buffer_count, 7);
    for (uint32_t n = 0; n < 3; n++) block_check(&s, n);
    block_check(&s, 1); /* is there */
    uint32_t wanted = 0;
    for (uint32_t n = 3; n < 7; n++) wanted += cache_file_want(&s.file, n, &s.places[n]);
    assert_int_equal(wanted, 4);
    for (uint32_t n = 3; n < 7; n++) assert_true(cache_file_want(&s.file, n, &s.places[n])); /* on its way already */
    assert_false(cache_file_want(&s.file, 7, &s.places[7]));
    for (uint32_t n = 3; n < 7; n++) block_check(&s, n);
    assert_false(cache_file_want(&s.file, 7, &s.places[7]));
    cache_file_release(&s.file, 1);
    assert_true(cache_file_want(&s.file, 7, &s.places[7]));
    assert_false(cache_file_want(&s.file, 8, &s.places[8]));
    block_check(&s, 7);
    block_check(&s, 0);
    cache_file_release(&s.file, 19); /* nobody has it */
    cache_file_release_all(&s.file);
    for (uint32_t n = 10; n < 14; n++) assert_true(cache_file_want(&s.file, n, &s.places[n]));
    cache_file_release_all(&s.file); /* also those on their way */
    for (uint32_t n = 14; n < 20; n++) block_check(&s, n);
    scene_close(&s);
}

/* Changes 8 bytes of the file at `at`, from its end where that is negative; or cuts it off there. */
static void garble(const char *path, int64_t at, bool cuts)
{
    struct stat about;
    uint64_t word;
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0 && fstat(fd, &about) == 0);
    if (at < 0) at += about.st_size;
    if (cuts)
        assert_int_equal(ftruncate(fd, at), 0);
    else
        assert_true(pread(fd, &word, 8, at) == 8 && (word ^= 0x100, pwrite(fd, &word, 8, at) == 8));
    close(fd);
}

static void not_found(struct scene *s, const struct cache_file_options *o, const char *why)
{
    scene_open(s, o);
    assert_false(cache_file_find(&s->file, s->places, &s->found, s->why, sizeof s->why));
    if (strstr(s->why, why) == NULL) fail_msg("\"%s\" lacks \"%s\"", s->why, why);
    assert_int_equal(*s->why == 0, *why == 0);
    assert_int_equal(s->file.fd, -1);
    scene_close(s);
}

static void cache_file_find__garbled_or_of_other_data__says_why(void **state)
{
    (void)state;
    static struct scene s;
    enum { COUNT = 300 };
    static const struct {
        int64_t at;
        bool cuts;
        const char *why;
    } cases[] = {{0, false, "it is no data cache"},
                 {8, false, "it is of version 259, and this program's is 3"},
                 {24, false, "its head is not what was written"},
                 {32, false, "its head is not what was written"},
                 {-8, false, "its end is not what was written"},
                 {-40, false, "its end is not what was written"},
                 {-32, false, "its end is not what was written"},
                 {-24, false, "its end is not what was written"},
                 {-16, false, "its end is not what was written"},
                 {-48, false, "its index is not what was written"},
                 {-40 - 8 * COUNT, false, "its index is not what was written"},
                 {-1, true, "its end is not what was written"},
                 {100, true, "its end is not what was written"},
                 {20, true, "it is no data cache"},
                 {0, true, "it is no data cache"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        scene_begin(&s);
        scene_open(&s, NULL);
        blocks_write(&s, COUNT);
        scene_close(&s);
        garble(s.path, cases[i].at, cases[i].cuts);
        not_found(&s, NULL, cases[i].why);
        assert_int_equal(access(s.path, F_OK), 0); /* it stays until another takes its place */
    }
    scene_begin(&s);
    not_found(&s, NULL, "");
    scene_open(&s, NULL);
    blocks_write(&s, COUNT);
    scene_close(&s);
    struct cache_file_options o = options_of(&s);
    o.schema++;
    not_found(&s, &o, "columns, settings or the program have changed");
    o = options_of(&s);
    o.block_count_max = COUNT - 1;
    not_found(&s, &o, "it has 300 blocks, more than there is room for under cache.ssd");
    o = options_of(&s);
    o.row_count_max = rows_of(COUNT - 1) - 1;
    not_found(&s, &o, "its index is not what was written");
    o = options_of(&s);
    o.block_bytes_max = 3 * CACHE_PAGE - 8;
    not_found(&s, &o, "its index is not what was written");
    o = options_of(&s);
    o.bytes_max = 0;
    not_found(&s, &o, "");
    put_file("data", "other data\n");
    not_found(&s, NULL, "data");
    char two[2100];
    snprintf(two, sizeof two, "%s,%s", s.data, s.data);
    snprintf(s.data, sizeof s.data, "%.1000s", two);
    not_found(&s, NULL, "it is of 1 files, and the data of 2");
    /* As many blocks, rows and bytes as there may be. */
    scene_begin(&s);
    scene_open(&s, NULL);
    blocks_write(&s, COUNT);
    scene_close(&s);
    o = options_of(&s);
    o.block_count_max = COUNT;
    o.row_count_max = COUNT - 1;
    o.block_bytes_max = 3 * CACHE_PAGE;
    scene_open(&s, &o);
    assert_true(cache_file_find(&s.file, s.places, &s.found, s.why, sizeof s.why));
    scene_close(&s);
}

/* One page of a head, three blocks of a page, and the tail: a byte less is too little. */
static void cache_file_put__more_than_it_may_take__leaves_no_file(void **state)
{
    (void)state;
    static struct scene s;
    for (uint32_t lacks = 0; lacks < 2; lacks++) {
        scene_begin(&s);
        struct cache_file_options o = options_of(&s);
        o.bytes_max = 4 * CACHE_PAGE + 40 - lacks;
        scene_open(&s, &o);
        cache_file_begin(&s.file);
        for (uint32_t n = 0; n < 3; n++) {
            memset(cache_file_room(&s.file), (int)n, CACHE_PAGE);
            s.places[n] = (struct cache_place){(uint32_t)CACHE_PAGE, 1, 0, CACHE_RAM_NONE};
            cache_file_put(&s.file, &s.places[n]);
        }
        char expected[256];
        snprintf(expected, sizeof expected,
                 ".new: writing: the data takes more than cache.ssd = %zu bytes; no file is kept", (size_t)o.bytes_max);
        assert_int_equal(strstr(told, expected) != NULL, lacks);
        assert_int_equal(s.file.fd < 0, lacks);
        assert_int_equal(strstr(s.file.why, "takes more than") != NULL, lacks);
        assert_int_equal(access(test_path("cache.new"), F_OK), lacks ? -1 : 0);
        (void)cache_file_room(&s.file); /* there is memory in any case */
        cache_file_end(&s.file, s.places, 3);
        scene_close(&s);
        assert_int_equal(access(s.path, F_OK), lacks ? -1 : 0);
    }
}

static void cache_file_begin__what_is_not_ours__stays(void **state)
{
    (void)state;
    static struct scene s;
    char text[16] = "";
    scene_begin(&s);
    put_file("cache.new", "precious\n");
    scene_open(&s, NULL);
    assert_fails(INVALID,
                 "cache.new: expected a data cache, or nothing, found another file, which the cache would replace",
                 cache_file_check(&s.file));
    cache_file_begin(&s.file);
    assert_non_null(strstr(s.file.why, "cache.new: it is no data cache"));
    assert_int_equal(s.file.fd, -1);
    scene_close(&s);
    FILE *file = fopen(test_path("cache.new"), "rb");
    assert_true(file && fgets(text, sizeof text, file));
    fclose(file);
    assert_string_equal(text, "precious\n");
    unlink(test_path("cache.new"));
    put_file("cache", "precious, too\n");
    scene_open(&s, NULL);
    assert_fails(INVALID, "cache: expected a data cache, or nothing, found another file", cache_file_check(&s.file));
    /* The other file has come to the name after the check: the new file goes. */
    blocks_write(&s, 3);
    cache_file_close(&s.file);
    assert_non_null(strstr(told, "renaming: what has come to its name meanwhile is no data cache; no file is kept"));
    arena_close(&s.arena);
    assert_int_equal(access(test_path("cache.new"), F_OK), -1);
    unlink(s.path);
    /* Nothing is in the way: an empty file, or a directory, where no file can be made. */
    put_file("cache", "");
    scene_open(&s, NULL);
    assert_ok(cache_file_check(&s.file));
    scene_close(&s);
    unlink(s.path);
    assert_int_equal(mkdir(s.path, 0700), 0);
    scene_open(&s, NULL);
    assert_ok(cache_file_check(&s.file));
    cache_file_begin(&s.file);
    assert_non_null(strstr(s.file.why, "cache: Is a directory"));
    scene_close(&s);
    assert_int_equal(rmdir(s.path), 0);
}

static void cache_file_begin__another_run_writes__goes_without(void **state)
{
    (void)state;
    static struct scene s, other;
    scene_begin(&s);
    scene_open(&s, NULL);
    cache_file_begin(&s.file);
    assert_string_equal(s.file.why, "");
    scene_begin(&other);
    scene_open(&other, NULL);
    cache_file_begin(&other.file);
    assert_non_null(strstr(other.file.why, "cache.new: another run writes it"));
    assert_int_equal(other.file.fd, -1);
    scene_close(&other);
    assert_int_equal(access(test_path("cache.new"), F_OK), 0); /* it is the first one's */
    cache_file_leave(&s.file, false);                          /* and not whole */
    assert_int_equal(access(test_path("cache.new"), F_OK), -1);
    scene_close(&s);
    /* A whole one goes only where that is asked for. */
    scene_open(&s, NULL);
    blocks_write(&s, 1);
    scene_close(&s);
    for (int removes = 0; removes < 2; removes++) {
        scene_open(&s, NULL);
        assert_true(cache_file_find(&s.file, s.places, &s.found, s.why, sizeof s.why));
        cache_file_leave(&s.file, removes);
        assert_int_equal(access(s.path, F_OK), -removes);
        scene_close(&s);
    }
}

/* Without a file there is one buffer, for blocks that are kept elsewhere. */
static void cache_file__no_file__has_room_for_a_block(void **state)
{
    (void)state;
    static struct scene s;
    scene_begin(&s);
    struct cache_file_options o = options_of(&s);
    o.bytes_max = 0;
    scene_open(&s, &o);
    assert_ok(cache_file_check(&s.file));
    assert_int_equal(s.file.buffer_count, 1);
    cache_file_begin(&s.file);
    assert_int_equal(s.file.fd, -1);
    memset(cache_file_room(&s.file), 1, BLOCK_BYTES_MAX);
    cache_file_put(&s.file, &s.places[0]);
    cache_file_end(&s.file, s.places, 1);
    assert_false(cache_file_want(&s.file, 0, &s.places[0]));
    errno = 0;
    assert_null(cache_file_get(&s.file, 0, &s.places[0]));
    assert_int_equal(errno, EBADF);
    scene_close(&s);
    assert_int_equal(access(test_path("cache.new"), F_OK), -1);
}

/* A file that got shorter while it is read. */
static void cache_file_get__the_end_is_gone__says_so(void **state)
{
    (void)state;
    static struct scene s;
    scene_begin(&s);
    scene_open(&s, NULL);
    blocks_write(&s, 9);
    scene_close(&s);
    scene_open(&s, NULL);
    assert_true(cache_file_find(&s.file, s.places, &s.found, s.why, sizeof s.why));
    garble(s.path, (int64_t)(s.places[8].file_page * CACHE_PAGE), true);
    assert_null(cache_file_get(&s.file, 8, &s.places[8]));
    assert_int_equal(errno, ENODATA);
    cache_file_release(&s.file, 8);
    block_check(&s, 7);
    scene_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cache_file__blocks__are_found_and_read_in_any_order),
        cmocka_unit_test(cache_file_want__all_buffers_taken__is_refused),
        cmocka_unit_test(cache_file_find__garbled_or_of_other_data__says_why),
        cmocka_unit_test(cache_file_put__more_than_it_may_take__leaves_no_file),
        cmocka_unit_test(cache_file_begin__what_is_not_ours__stays),
        cmocka_unit_test(cache_file_begin__another_run_writes__goes_without),
        cmocka_unit_test(cache_file__no_file__has_room_for_a_block),
        cmocka_unit_test(cache_file_get__the_end_is_gone__says_so),
    };
    return cmocka_run_group_tests(tests, test_directory_make, test_directory_remove) ? 1 : 0;
}
