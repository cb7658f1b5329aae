/* Addresses as data: the bytes that a file with the same content gives, wherever reading
 * begins, and what data is known by. */
#include "tests/io/net/web_server.h"
#include "tests/io/read/look_test.h"

#include "io/read/source.h"

#define BYTES ((size_t)6 << 20)
static uint8_t data[BYTES], copy[2 * BYTES + 1];

struct opened {
    struct arena arena;
    struct source source;
};

/* Once: a server of a test before may still read it. */
static void data_fill(void)
{
    static bool is_filled;
    for (size_t i = 0; i < BYTES && !is_filled; i++) data[i] = (uint8_t)('a' + (i * 2654435761u >> 16) % 25);
    is_filled = true;
}

static status open_paths(struct opened *o, const char *paths)
{
    data_fill();
    TRY(arena_open(&o->arena, "test", source_bytes(paths, NULL)));
    const status st = source_open(&o->source, &o->arena, paths, &(struct source_options){.silence_ms = 60000});
    if (st == ST_OK) return st;
    source_close(&o->source);
    arena_close(&o->arena);
    return st;
}

static void close_paths(struct opened *o)
{
    source_close(&o->source);
    arena_close(&o->arena);
}

/* The current file from where it stands. */
static size_t read_file(struct source *source)
{
    size_t done = 0;
    for (size_t got = 1; got; done += got) {
        assert_true(done + 100000 < sizeof copy);
        assert_ok(source_read(source, copy + done, 100000, &got));
    }
    return done;
}

static void server_of(struct web_server *s)
{
    *s = (struct web_server){.data = data, .bytes = BYTES, .etag = "\"one\""};
    data_fill();
    web_server_open(s);
}

static void source_read__address__gives_the_bytes_of_a_file(void **state)
{
    (void)state;
    for (int no_ranges = 0; no_ranges < 2; no_ranges++) {
        struct web_server s;
        struct opened o;
        bool end;
        char paths[2000];
        server_of(&s);
        s.no_ranges = no_ranges;
        const char *file = test_file("plain", "in between\n", 11);
        snprintf(paths, sizeof paths, "%s,%s,%s", web_server_address(&s, "/a?key=secret"), file,
                 web_server_address(&s, "/b"));
        assert_ok(open_paths(&o, paths));
        assert_false(o.source.is_stream);
        assert_int_equal(o.source.size_bytes, 2 * BYTES + 11);
        for (int pass = 0; pass < 2; pass++) {
            if (pass) assert_ok(source_restart(&o.source));
            assert_null(strstr(source_name(&o.source), "secret"));
            assert_true(source_is_plain(&o.source) && !source_is_dry(&o.source, 0));
            assert_int_equal(read_file(&o.source), BYTES);
            assert_memory_equal(copy, data, BYTES);
            assert_ok(source_next(&o.source, &end));
            assert_int_equal(read_file(&o.source), 11);
            assert_ok(source_next(&o.source, &end));
            assert_false(end);
            assert_int_equal(read_file(&o.source), BYTES);
            assert_memory_equal(copy, data, BYTES);
            assert_ok(source_next(&o.source, &end));
            assert_true(end);
        }
        assert_int_equal(o.source.byte_count, 2 * (2 * BYTES + 11));
        const uint64_t at[] = {1, 200000, BYTES - 1, BYTES / 2, 0};
        for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
            assert_ok(source_seek(&o.source, 2, at[i]));
            assert_int_equal(read_file(&o.source), BYTES - at[i]);
            assert_memory_equal(copy, data + at[i], BYTES - at[i]);
        }
        close_paths(&o);
        web_server_close(&s);
    }
}

/* The first answer tells that there are ranges; those of the pieces behind it come
 * only if all are asked for. */
static void source_read__address__is_read_by_several_connections_at_once(void **state)
{
    (void)state;
    static uint8_t large[SOURCE_WEB_CONNECTIONS * SOURCE_WEB_PIECE_BYTES];
    struct web_server s = {
        .data = large, .bytes = sizeof large, .together = SOURCE_WEB_CONNECTIONS, .together_from = 2};
    struct opened o;
    size_t all = 0;
    web_server_open(&s);
    assert_ok(open_paths(&o, web_server_address(&s, "/a")));
    for (size_t got = 1; got; all += got) assert_ok(source_read(&o.source, copy, sizeof copy, &got));
    assert_int_equal(all, sizeof large);
    assert_false(s.was_alone);
    close_paths(&o);
    web_server_close(&s);
}

struct told {
    uint32_t count;
    char text[2][1000];
};
static void tell(void *context, enum notice kind, const char *text)
{
    struct told *t = context;
    if (kind != NOTICE_INFO) return;
    assert_true(t->count < 2);
    snprintf(t->text[t->count++], sizeof t->text[0], "%s", text);
}

static void source_open__addresses_without_ranges__are_told_once_each(void **state)
{
    (void)state;
    struct web_server s, other;
    struct opened o;
    struct told told = {0};
    bool end;
    char paths[2000];
    server_of(&s);
    server_of(&other);
    s.no_ranges = true;
    snprintf(paths, sizeof paths, "%s,%s,%s", web_server_address(&s, "/a?key=secret"), web_server_address(&other, "/b"),
             web_server_address(&s, "/c"));
    assert_ok(arena_open(&o.arena, "test", source_bytes(paths, NULL)));
    assert_ok(source_open(&o.source, &o.arena, paths,
                          &(struct source_options){.notices = &(struct notices){.tell = tell, .context = &told}}));
    assert_int_equal(told.count, 2);
    assert_non_null(strstr(told.text[0], "/a: its server answers without ranges"));
    assert_non_null(strstr(told.text[1], "/c: its server answers without ranges"));
    for (int pass = 0; pass < 2; pass++) {
        if (pass) assert_ok(source_restart(&o.source));
        for (end = false; !end;) {
            assert_int_equal(read_file(&o.source), BYTES);
            assert_ok(source_next(&o.source, &end));
        }
    }
    assert_int_equal(told.count, 2);
    close_paths(&o);
    web_server_close(&s);
    web_server_close(&other);
}

static void source_open__address__fetches_its_first_bytes_alone(void **state)
{
    (void)state;
    for (int no_ranges = 0; no_ranges < 2; no_ranges++) {
        struct web_server s;
        struct opened o;
        server_of(&s);
        s.no_ranges = no_ranges;
        assert_ok(open_paths(&o, web_server_address(&s, "/a")));
        usleep(20000); /* what is asked for ahead would come */
        assert_int_equal(atomic_load(&s.request_count), 2);
        assert_true(no_ranges || atomic_load(&s.body_bytes) < 20000);
        assert_int_equal(read_file(&o.source), BYTES);
        assert_memory_equal(copy, data, BYTES);
        close_paths(&o);
        web_server_close(&s);
    }
}

static void source_seek__address__fetches_no_more_than_follows(void **state)
{
    (void)state;
    struct web_server s;
    struct opened o;
    server_of(&s);
    assert_ok(open_paths(&o, web_server_address(&s, "/a")));
    (void)read_file(&o.source);
    const uint64_t before = atomic_load(&s.body_bytes);
    assert_ok(source_seek(&o.source, 0, BYTES - 100000));
    assert_int_equal(read_file(&o.source), 100000);
    assert_true(atomic_load(&s.body_bytes) - before < 300000);
    close_paths(&o);
    web_server_close(&s);
}

static void source_read__packed_address__is_unpacked(void **state)
{
    (void)state;
    static uint8_t packed[2 * BYTES];
    data_fill();
    for (int is_zstd = 0; is_zstd < 2; is_zstd++) {
        struct web_server s;
        struct opened o;
        uLongf bytes = sizeof packed;
        server_of(&s);
        if (is_zstd) {
            bytes = ZSTD_compress(packed, sizeof packed, data, BYTES, 1);
        } else {
            z_stream z = {0};
            assert_int_equal(deflateInit2(&z, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
            z.next_in = data;
            z.avail_in = BYTES;
            z.next_out = packed;
            z.avail_out = sizeof packed;
            assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
            bytes = z.total_out;
            deflateEnd(&z);
        }
        s.data = packed;
        s.bytes = bytes;
        assert_ok(open_paths(&o, web_server_address(&s, "/a.packed")));
        assert_false(source_is_plain(&o.source));
        assert_int_equal(read_file(&o.source), BYTES);
        assert_memory_equal(copy, data, BYTES);
        close_paths(&o);
        web_server_close(&s);
    }
}

static void source_read__address_without_size__is_a_stream(void **state)
{
    (void)state;
    struct web_server s;
    struct opened o;
    server_of(&s);
    s.chunked = s.no_ranges = true;
    assert_ok(open_paths(&o, web_server_address(&s, "/a")));
    assert_true(o.source.is_stream && o.source.size_bytes == 0);
    assert_false(source_is_dry(&o.source, 0));
    assert_int_equal(read_file(&o.source), BYTES);
    assert_memory_equal(copy, data, BYTES);
    assert_fails(INVALID, "/a can be read only once", source_restart(&o.source));
    close_paths(&o);
    web_server_close(&s);
}

/* Each pass is of what the address was when it was opened. */
static void source_restart__address_that_has_changed__is_an_error(void **state)
{
    (void)state;
    for (int is_larger = 0; is_larger < 2; is_larger++) {
        struct web_server s;
        struct opened o;
        size_t got;
        server_of(&s);
        if (is_larger) s.bytes -= 1000;
        assert_ok(open_paths(&o, web_server_address(&s, "/a")));
        assert_int_equal(read_file(&o.source), s.bytes);
        if (is_larger)
            s.bytes += 1000;
        else
            s.etag = "\"two\"";
        status st = source_restart(&o.source);
        if (st == ST_OK) st = source_read(&o.source, copy, 1000, &got);
        assert_int_equal(st, ST_MISMATCH);
        assert_non_null(strstr(status_message(), "/a has changed while it was read: "));
        close_paths(&o);
        web_server_close(&s);
    }
}

static void source_open__what_is_not_there__is_said(void **state)
{
    (void)state;
    struct web_server s;
    struct opened o;
    server_of(&s);
    assert_fails(IO, "answers 404", open_paths(&o, web_server_address(&s, "/missing")));
    assert_fails(INVALID, "does not speak https", open_paths(&o, "https://host/a"));
    s.data = (const uint8_t *)"PK\003\004zip";
    s.bytes = 7;
    assert_fails(INVALID, "is packed by zip", open_paths(&o, web_server_address(&s, "/a")));
    web_server_close(&s);
}

/* Of a list that is refused the message has no query, nor what a comma has cut off it. */
static void source_open__lists_that_are_refused__show_no_query(void **state)
{
    (void)state;
    struct web_server s;
    struct opened o;
    char paths[2000];
    static const struct {
        const char *behind, *message;
    } cases[] = {
        {",", "/a,\" has an empty name"},
        {",./no-secret", "/a and its query is neither a file nor an address; a comma in an address is written as %2C"},
        {",-,-", "/a,-,-\" names standard input twice"},
    };
    server_of(&s);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(paths, sizeof paths, "%s%s", web_server_address(&s, "/a?key=secret"), cases[i].behind);
        const status st = open_paths(&o, paths);
        if (st == ST_OK || !strstr(status_message(), cases[i].message) || strstr(status_message(), "secret"))
            fail_msg("status %d, \"%s\"", st, status_message());
    }
    web_server_close(&s);
}

static void data_sources_look__address__is_known_as_its_file_is(void **state)
{
    (void)state;
    const size_t sizes[] = {0, 5, (1 << 20) - 1, (1 << 20) + 1, (5 << 20) + 3, BYTES};
    data_fill();
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int no_ranges = 0; no_ranges < 2; no_ranges++) {
            struct web_server s;
            struct look file, address;
            server_of(&s);
            s.bytes = sizes[i];
            s.no_ranges = no_ranges;
            look_open(&file, test_file("same", data, sizes[i]));
            look_open(&address, web_server_address(&s, "/a?k=1"));
            assert_int_equal(address.sources.source->size_bytes, sizes[i]);
            assert_int_equal(address.sources.source->content_hash, file.sources.source->content_hash);
            look_close(&file);
            look_close(&address);
            web_server_close(&s);
        }
}

static void data_sources_look__address_again__asks_for_its_version_alone(void **state)
{
    (void)state;
    struct web_server s;
    struct look l, other;
    char why[1000];
    server_of(&s);
    look_open(&l, web_server_address(&s, "/a?signature=1"));
    const struct data_source was = *l.sources.source;
    const uint64_t before = atomic_load(&s.request_count);
    assert_ok(data_sources_look(&l.sources, l.sources.found));
    assert_int_equal(atomic_load(&s.request_count), before + 1);
    assert_false(data_sources_differ(&l.sources, l.sources.found, why, sizeof why));
    look_open(&other, web_server_address(&s, "/a?signature=2")); /* signed anew: the same */
    assert_false(data_sources_differ(&other.sources, &was, why, sizeof why));
    look_close(&other);
    s.etag = "\"two\"";
    assert_ok(data_sources_look(&l.sources, l.sources.source));
    assert_true(data_sources_differ(&l.sources, &was, why, sizeof why));
    assert_non_null(strstr(why, "/a has been written to since"));
    look_close(&l);
    web_server_close(&s);
}

/* What a second run asks of an address, beside a look of the first: some KiB where the version proves it the
 * same, and all samples where it does not, or the KiB are others. */
static void data_sources_look__address_of_an_earlier_run__is_sampled_unless_its_version_proves_it(void **state)
{
    (void)state;
    static const char *const at = "Sun, 06 Nov 1994 08:49:37 GMT", *const later = "Sun, 06 Nov 1994 08:49:39 GMT",
                             *const soon = "Sun, 06 Nov 1994 08:49:38 GMT";
    static const struct {
        const char *etag, *modified, *date;
        bool is_proved;
    } cases[] = {
        {"\"one\"", NULL, NULL, true},     {"W/\"one\"", NULL, NULL, false}, {NULL, NULL, later, false},
        {NULL, at, later, true},           {NULL, at, soon, false},          {NULL, at, NULL, false},
        {NULL, "yesterday", later, false}, {"\"one\"", at, later, true},     {"\"one\"", at, soon, false},
    };
    enum { SIZE = 1 << 16, ROUNDS = 4 }; /* all of it is sampled */
    static uint8_t other[ROUNDS][SIZE];
    data_fill();
    for (int round = 0; round < ROUNDS; round++) {
        memcpy(other[round], data, SIZE);
        if (round) other[round][round == 1 ? 0 : round == 2 ? SIZE / 2 : SIZE - 1] ^= 1;
    }
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct web_server s;
        struct look first, second;
        char why[1000];
        server_of(&s);
        s.bytes = SIZE;
        s.etag = cases[i].etag, s.modified = cases[i].modified, s.date = cases[i].date;
        look_open(&first, web_server_address(&s, "/a"));
        for (int round = 0; round < ROUNDS; round++) {
            s.data = other[round];
            look_place(&second, web_server_address(&s, "/a"));
            *second.sources.source = *first.sources.source;
            second.sources.source_is_earlier = true;
            const uint64_t before = atomic_load(&s.body_bytes);
            assert_ok(data_sources_look(&second.sources, second.sources.source));
            assert_int_equal(atomic_load(&s.body_bytes) - before < 20000, cases[i].is_proved && round == 0);
            assert_false(second.sources.source_is_earlier);
            const bool differs = data_sources_differ(&second.sources, first.sources.source, why, sizeof why);
            assert_int_equal(differs, round > 0);
            look_close(&second);
        }
        look_close(&first);
        web_server_close(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(source_read__address__gives_the_bytes_of_a_file),
        cmocka_unit_test(source_read__address__is_read_by_several_connections_at_once),
        cmocka_unit_test(source_open__addresses_without_ranges__are_told_once_each),
        cmocka_unit_test(source_open__address__fetches_its_first_bytes_alone),
        cmocka_unit_test(source_seek__address__fetches_no_more_than_follows),
        cmocka_unit_test(source_read__packed_address__is_unpacked),
        cmocka_unit_test(source_read__address_without_size__is_a_stream),
        cmocka_unit_test(source_restart__address_that_has_changed__is_an_error),
        cmocka_unit_test(source_open__what_is_not_there__is_said),
        cmocka_unit_test(source_open__lists_that_are_refused__show_no_query),
        cmocka_unit_test(data_sources_look__address__is_known_as_its_file_is),
        cmocka_unit_test(data_sources_look__address_again__asks_for_its_version_alone),
        cmocka_unit_test(data_sources_look__address_of_an_earlier_run__is_sampled_unless_its_version_proves_it),
    };
    return cmocka_run_group_tests(tests, test_directory_make, test_directory_remove) ? 1 : 0;
}
