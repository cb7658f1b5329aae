/* Files that go between nodes as they are written: whole and in order, of any size; cut where who writes has
 * failed; to the end where who reads has; and whatever else comes is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "engine/node/files.h"

#define NODES 2u
static const uint32_t lane_begin[NODES + 1] = {0, 2, 4};
#include "tests/engine/node/ends_fixture.h"

static void both_do(uint64_t seed, void *(*out)(void *), void *(*in)(void *))
{
    ends_open(seed);
    post_start(&net);
    assert_int_equal(pthread_create(&ends[1].thread, NULL, out, &ends[1]), 0);
    assert_int_equal(pthread_create(&ends[0].thread, NULL, in, &ends[0]), 0);
    for (uint32_t n = 0; n < NODES; n++) assert_int_equal(pthread_join(ends[n].thread, NULL), 0);
    all_close();
}

/* --- whole ---------------------------------------------------------------------------------------- */

static const size_t sizes[] = {0, 1, 65527, 65528, 65529, 400000};
#define FILE_COUNT (sizeof sizes / sizeof *sizes)
static uint8_t bytes[400000];
static bool is_read_half; /* nobody reads on behind the second file's first bytes */

static uint8_t byte_of(size_t at) { return (uint8_t)(at * 7 + at / 251); }
static const char *name_of(size_t file, char text[16])
{
    snprintf(text, 16, "file.%zu", file);
    return text;
}

/* Every second one as it is written, in pieces, the others at once. */
static status file_out(struct files_out *files, size_t file)
{
    struct file_writer writer = {0};
    char name[16];
    if (file % 2) return files_out_put(files, name_of(file, name), bytes, sizes[file]);
    status st = file_writer_open_sink(&writer, name_of(file, name), &files->sink);
    for (size_t at = 0, count; st == ST_OK && at < sizes[file]; at += count) {
        count = sizes[file] - at < 1000 ? sizes[file] - at : 1000;
        st = file_writer_put(&writer, bytes + at, count);
    }
    if (st == ST_OK && file_writer_hash(&writer) != XXH3_64bits(bytes, sizes[file]))
        st = status_fail(ST_CORRUPT, __FILE__, __LINE__, "another hash");
    if (st == ST_OK) st = file_writer_commit(&writer);
    if (st != ST_OK) file_writer_abort(&writer);
    return st;
}

static void *out_main(void *context)
{
    struct end *end = context;
    struct files_out files;
    status st = ST_OK;
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = byte_of(i);
    files_out_begin(&files, end->reduce, 0);
    for (size_t file = 0; file < FILE_COUNT && st == ST_OK; file++) st = file_out(&files, file);
    end->st = files_out_end(&files, st);
    if (end->st == ST_OK) end->st = reduce_agree(end->reduce, ST_OK); /* what is said after it is heard as that */
    return NULL;
}

static status files_hear(struct files_in *files)
{
    for (size_t file = 0;; file++) {
        bool is_one;
        char name[16];
        const uint8_t *data;
        size_t count, come = 0;
        TRY(files_in_next(files, &is_one));
        if (!is_one) return file == FILE_COUNT ? ST_OK : status_fail(ST_CORRUPT, __FILE__, __LINE__, "%zu files", file);
        CHECK(strcmp(files->name, name_of(file, name)) == 0 && files->bytes == (file % 2 ? sizes[file] : 0));
        do {
            TRY(files_in_data(files, &data, &count));
            CHECK(count <= sizes[file] - come && (count == 0 || memcmp(data, bytes + come, count) == 0));
            come += count;
            if (is_read_half && file == 1) return ST_OK;
        } while (count > 0);
        CHECK(come == sizes[file]);
    }
}

static void *in_main(void *context)
{
    struct end *end = context;
    struct files_in files;
    files_in_begin(&files, end->reduce, 1);
    end->st = files_in_end(&files, files_hear(&files));
    if (end->st == ST_OK) end->st = reduce_agree(end->reduce, ST_OK);
    failure_keep(&end->failure, end->st);
    return NULL;
}

static void files__of_any_size__come_whole_and_in_order(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 4; seed++) {
        is_read_half = seed == 3;
        both_do(seed, out_main, in_main);
        for (uint32_t n = 0; n < NODES; n++) assert_ok(ends[n].st);
    }
}

/* --- cut ------------------------------------------------------------------------------------------ */

static void *cut_main(void *context)
{
    struct end *end = context;
    struct files_out files;
    files_out_begin(&files, end->reduce, 0);
    status st = files.sink.open(&files.sink, "file.0");
    if (st == ST_OK) st = files.sink.put(&files.sink, bytes, 70000);
    if (st == ST_OK) st = status_fail(ST_IO, __FILE__, __LINE__, "the disk is full");
    end->st = files_out_end(&files, st);
    return NULL;
}

static void *cut_hear_main(void *context)
{
    struct end *end = context;
    struct files_in files;
    const uint8_t *data;
    size_t count = 1;
    bool is_one;
    files_in_begin(&files, end->reduce, 1);
    status st = files_in_next(&files, &is_one);
    while (st == ST_OK && count > 0) st = files_in_data(&files, &data, &count);
    end->st = files_in_end(&files, st);
    failure_keep(&end->failure, end->st);
    return NULL;
}

static void files__who_writes_fails__cut_there(void **state)
{
    (void)state;
    both_do(1, cut_main, cut_hear_main);
    assert_int_equal(ends[1].st, ST_IO);
    assert_int_equal(ends[0].st, ST_PEER_LOST);
    assert_string_equal(ends[0].failure.message, "node 1 has not sent file.0 to its end");
}

/* --- what else comes ------------------------------------------------------------------------------ */

/* Two blocks, the second of which is a word of `what` and of `said` bytes, and `count` bytes behind it. */
static struct {
    const char *name; /* of the file that the first opens; NULL: there is one block */
    uint32_t what, said, count;
} hostile;

static void *hostile_main(void *context)
{
    struct end *end = context;
    const uint32_t word[2] = {hostile.what, hostile.said};
    struct files_out files;
    uint8_t *at;
    files_out_begin(&files, end->reduce, 0);
    end->st = hostile.name ? files.sink.open(&files.sink, hostile.name) : ST_OK;
    if (end->st == ST_OK) end->st = reduce_say_place(end->reduce, 0, &at);
    if (end->st != ST_OK) return NULL;
    memset(at, 'x', hostile.count + sizeof word);
    memcpy(at, word, sizeof word);
    reduce_say(end->reduce, 0, hostile.count);
    return NULL;
}

static void files__what_is_none__refused(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint32_t what, said, count; /* of the block, its word included */
    } cases[] = {
        {NULL, 0, 264, 272}, /* a title of x without an end */
        {NULL, 0, 10, 18},           {NULL, 1, 8, 16},   {NULL, 2, 0, 8},   {NULL, 9, 0, 8},       {NULL, 0, 0, 3},
        {"file", 0, 264, 272},       {"file", 1, 9, 16}, {"file", 1, 0, 8}, {"file", 1, 0, 65536}, {"file", 3, 0, 8},
        {"file", 1, UINT32_MAX, 16}, {"a/b", 2, 0, 8},   {"..", 2, 0, 8},   {"", 2, 0, 8},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        hostile.name = cases[i].name;
        hostile.what = cases[i].what;
        hostile.said = cases[i].said;
        hostile.count = cases[i].count;
        both_do(i, hostile_main, cut_hear_main);
        if (ends[0].st != ST_INVALID) fail_msg("case %zu: %s", i, ends[0].failure.message);
        assert_non_null(strstr(ends[0].failure.message, "node 1 sends a file "));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files__of_any_size__come_whole_and_in_order),
        cmocka_unit_test(files__who_writes_fails__cut_there),
        cmocka_unit_test(files__what_is_none__refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
