/* Bytes of the web, from a server that does as servers do: ranges, none, cuts, silence, other data, lies. */
#include "tests/io/net/web_server.h"

#include "engine/base/clock.h"
#include "io/net/web.h"

#define PIECE_BYTES 30000u
#define PIECES      3u
#define BYTES       ((size_t)400003)

static uint8_t data[BYTES], copy[BYTES + 1], memory[PIECES * PIECE_BYTES];

static struct web_server server_of(void)
{
    for (size_t i = 0; i < BYTES; i++) data[i] = (uint8_t)(i * 2654435761u >> 13);
    return (struct web_server){.data = data, .bytes = BYTES, .etag = "\"one\""};
}

static struct web *client(uint32_t silence_ms, uint32_t patience_ms)
{
    struct web *web;
    assert_ok(web_open(&web, &(struct web_options){.connections = 3,
                                                   .memory = memory,
                                                   .piece_count = PIECES,
                                                   .piece_bytes = PIECE_BYTES,
                                                   .silence_ms = silence_ms,
                                                   .patience_ms = patience_ms}));
    return web;
}

/* Reads to the end, in pieces of odd sizes, and compares. */
static status read_all(struct web *web, uint64_t at, uint64_t end)
{
    size_t done = 0;
    for (size_t got = 1; got; done += got) {
        const size_t room = sizeof copy - done;
        TRY(web_read(web, copy + done, 7001 < room ? 7001 : room, &got));
    }
    assert_int_equal(done, end - at);
    assert_memory_equal(copy, data + at, done);
    return ST_OK;
}

/* Reads all, whatever the server does on the way; returns its facts. */
static struct web_facts reads(struct web_server *s, const char *target)
{
    struct web_facts facts;
    web_server_open(s);
    struct web *web = client(30000, 60000);
    assert_ok(web_begin(web, web_server_address(s, target), NULL, 0, UINT64_MAX));
    assert_ok(web_facts(web, &facts));
    assert_ok(read_all(web, 0, s->bytes));
    web_close(web);
    web_server_close(s);
    return facts;
}

/* Fails with that; of what would be asked for again and again after patience_ms. */
static void fails_late(struct web_server *s, const char *target, uint32_t silence_ms, uint32_t patience_ms, status code,
                       const char *words)
{
    web_server_open(s);
    struct web *web = client(silence_ms, patience_ms);
    assert_ok(web_begin(web, web_server_address(s, target), NULL, 0, UINT64_MAX));
    const status st = read_all(web, 0, s->bytes);
    if (st != code || !strstr(status_message(), words)) fail_msg("status %d, \"%s\"", st, status_message());
    web_close(web);
    web_server_close(s);
}

static void fails(struct web_server *s, const char *target, status code, const char *words)
{
    fails_late(s, target, 30000, 60000, code, words);
}

static void web_read__ranges__gives_all_bytes_over_several_requests(void **state)
{
    (void)state;
    struct web_server s = server_of();
    const struct web_facts facts = reads(&s, "/data?key=secret");
    assert_true(facts.has_size && facts.has_ranges && facts.size_bytes == BYTES && facts.version != 0);
    assert_int_equal(s.range_count, (BYTES + PIECE_BYTES - 1) / PIECE_BYTES);
    assert_int_equal(s.body_bytes, BYTES); /* nothing twice */
    assert_string_equal(s.last_target, "/data?key=secret");
}

static void web_read__part__asks_for_that_alone(void **state)
{
    (void)state;
    struct web_server s = server_of();
    struct web_facts facts;
    size_t got;
    web_server_open(&s);
    struct web *web = client(30000, 60000);
    const char *address = web_server_address(&s, "/data");
    assert_ok(web_begin(web, address, NULL, 0, 10));
    assert_ok(web_facts(web, &facts));
    assert_ok(read_all(web, 0, 10));
    assert_int_equal(s.body_bytes, 10);
    assert_ok(web_begin(web, address, &facts, 70001, 200002));
    assert_ok(read_all(web, 70001, 200002));
    assert_ok(web_begin(web, address, &facts, BYTES - 5, UINT64_MAX));
    assert_ok(read_all(web, BYTES - 5, BYTES));
    assert_ok(web_begin(web, address, &facts, BYTES, UINT64_MAX));
    assert_ok(web_read(web, copy, 10, &got));
    assert_int_equal(got, 0);
    /* Leaving in the middle of it. */
    for (int i = 0; i < 20; i++) {
        assert_ok(web_begin(web, address, i % 2 ? &facts : NULL, (uint64_t)i * 1000, UINT64_MAX));
        for (int n = 0; n < i; n++) assert_ok(web_read(web, copy, 5000, &got));
    }
    web_close(web);
    web_server_close(&s);
}

static void web_read__cut_connections__goes_on_at_the_byte(void **state)
{
    (void)state;
    struct web_server s = server_of();
    s.cut_bytes = 12345;
    s.cut_count = 9;
    reads(&s, "/data");
    assert_int_equal(s.body_bytes, BYTES);
    s = server_of();
    s.closes = true;
    reads(&s, "/data");
    s = server_of();
    s.range_bytes_max = 11111;
    reads(&s, "/data");
    assert_int_equal(s.body_bytes, BYTES);
}

static void web_read__busy_or_silent_server__is_asked_again(void **state)
{
    (void)state;
    struct web_server s = server_of();
    s.status = "503 Busy";
    s.status_count = 3;
    reads(&s, "/data");
    s = server_of();
    s.status = "520 Proxy's Own";
    s.status_count = 1;
    reads(&s, "/data");
    s = server_of();
    s.status = "501 Never";
    s.status_count = 1;
    fails(&s, "/data", ST_IO, "answers 501 Never; expected 200 or 206");
    s = server_of();
    s.silent_from = 2;
    s.silent_count = 1;
    web_server_open(&s);
    struct web *web = client(300, 20000);
    assert_ok(web_begin(web, web_server_address(&s, "/data"), NULL, 0, UINT64_MAX));
    assert_ok(read_all(web, 0, BYTES));
    web_close(web);
    web_server_close(&s);
    s = server_of();
    s.silent_count = 1000;
    fails_late(&s, "/data", 200, 700, ST_IO, "it sent nothing for ");
    s = server_of();
    s.status = "503 Busy";
    s.status_count = 1000;
    fails_late(&s, "/data", 30000, 700, ST_IO, "it answers 503 Busy");
}

static void web_read__no_ranges__is_one_stream(void **state)
{
    (void)state;
    struct web_server s = server_of();
    s.no_ranges = true;
    struct web_facts facts = reads(&s, "/data");
    assert_true(facts.has_size && !facts.has_ranges);
    assert_int_equal(s.request_count, 1);
    s = server_of(); /* cut: what was there is passed over */
    s.no_ranges = true;
    s.cut_bytes = 200000;
    s.cut_count = 1;
    reads(&s, "/data");
    assert_int_equal(s.request_count, 2);
    s = server_of();
    s.chunked = s.no_ranges = true;
    facts = reads(&s, "/data");
    assert_true(!facts.has_size && !facts.has_ranges);
    s = server_of(); /* from the middle on */
    s.no_ranges = true;
    web_server_open(&s);
    struct web *web = client(30000, 60000);
    assert_ok(web_begin(web, web_server_address(&s, "/data"), NULL, 150000, 250000));
    assert_ok(read_all(web, 150000, 250000));
    web_close(web);
    web_server_close(&s);
}

static void web_read__stream_that_is_cut__goes_on_only_if_it_is_the_same(void **state)
{
    (void)state;
    struct web_server s = server_of();
    s.chunked = s.no_ranges = true;
    s.cut_bytes = 200000;
    s.cut_count = 1;
    reads(&s, "/data"); /* its version is told */
    s = server_of();
    s.chunked = s.no_ranges = true;
    s.etag = NULL;
    s.cut_bytes = 200000;
    s.cut_count = 1;
    fails(&s, "/data", ST_IO, "tells neither size nor version");
    s = server_of();
    s.no_ranges = s.no_length = true;
    fails(&s, "/data", ST_INVALID, "neither a Content-Length nor chunks");
    s = server_of();
    s.chunked = s.no_ranges = true;
    s.chunk_bytes = BYTES;
    s.bytes = BYTES;
    reads(&s, "/data"); /* a chunk below the bound */
}

static void web_read__stream_that_ends_before_its_cut__has_changed(void **state)
{
    (void)state;
    struct web_server s = server_of();
    s.chunked = s.no_ranges = true;
    s.cut_bytes = 200000;
    s.cut_count = 1;
    s.late = "HTTP/1.1 200 OK\r\nETag: \"one\"\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nabcd\r\n0\r\n\r\n";
    s.late_from = 1;
    fails(&s, "/data", ST_MISMATCH, "has changed while it was read: it had ");
    s = server_of(); /* and one that has no byte for whoever asks for all of it */
    s.chunked = s.no_ranges = true;
    s.cut_bytes = 200000;
    s.cut_count = 1;
    s.late = "HTTP/1.1 416 No\r\nContent-Range: bytes */10\r\nContent-Length: 0\r\n\r\n";
    s.late_from = 1;
    fails(&s, "/data", ST_INVALID, "answers 416 to byte ");
}

static void web_read__answers_on_the_way__are_passed_over(void **state)
{
    (void)state;
    struct web_server s = server_of();
    s.early = "HTTP/1.1 100 Continue\r\n\r\n";
    reads(&s, "/data");
    s = server_of();
    s.early = "HTTP/1.1 103 Early Hints\r\nETag: \"hint\"\r\nContent-Length: 5\r\n\r\n"
              "HTTP/1.1 102 Processing\r\n\r\n";
    const struct web_facts facts = reads(&s, "/data");
    assert_string_equal(facts.version_text, "\"one\"");
    assert_int_equal(s.body_bytes, BYTES);
}

static void web_read__large_chunk__is_refused(void **state)
{
    (void)state;
    static uint8_t zeros[3 << 20];
    struct web_server s = {
        .data = zeros, .bytes = sizeof zeros, .chunked = true, .no_ranges = true, .chunk_bytes = sizeof zeros};
    web_server_open(&s);
    struct web *web = client(30000, 60000);
    assert_ok(web_begin(web, web_server_address(&s, "/data"), NULL, 0, UINT64_MAX));
    size_t got;
    assert_fails(INVALID, "chunks of more than", web_read(web, copy, sizeof copy, &got));
    web_close(web);
    web_server_close(&s);
}

static void web_read__changed_data__is_an_error(void **state)
{
    (void)state;
    struct web_server s = server_of();
    s.etag_later = "\"two\"";
    s.etag_from = 4;
    fails(&s, "/data", ST_MISMATCH, "tells the version \"two\", and told \"one\" before; start anew");
    s = server_of(); /* and of what was looked at before */
    struct web_facts facts = {.has_size = true, .has_ranges = true, .size_bytes = BYTES - 1};
    web_server_open(&s);
    struct web *web = client(30000, 60000);
    size_t got;
    assert_ok(web_begin(web, web_server_address(&s, "/data"), &facts, 100, UINT64_MAX));
    assert_fails(MISMATCH, "it had 400002 bytes, and has 400003", web_read(web, copy, 10, &got));
    web_close(web);
    web_server_close(&s);
    s = server_of(); /* whose size nobody tells any more */
    s.chunked = s.no_ranges = true;
    s.etag = NULL;
    facts.size_bytes = BYTES;
    web_server_open(&s);
    web = client(30000, 60000);
    assert_ok(web_begin(web, web_server_address(&s, "/data"), &facts, 0, UINT64_MAX));
    assert_fails(MISMATCH, "does not tell its size any more", web_read(web, copy, 10, &got));
    web_close(web);
    web_server_close(&s);
}

static void web_read__wrong_length__is_said(void **state)
{
    (void)state;
    struct web_server s = server_of();
    s.no_ranges = true;
    s.length_more = 10;
    fails_late(&s, "/data", 30000, 700, ST_IO, "at byte 400003: nothing has come");
}

static void web_read__moved__is_followed(void **state)
{
    (void)state;
    struct web_server there = server_of(), here = server_of();
    char location[100];
    web_server_open(&there);
    snprintf(location, sizeof location, "%s", web_server_address(&there, "/data"));
    here.location = location;
    reads(&here, "/moved");
    assert_true(there.body_bytes == BYTES && here.body_bytes == 0);
    web_server_close(&there);
    here = server_of();
    here.location = "data?there=1"; /* beside it */
    reads(&here, "/moved");
    assert_string_equal(here.last_target, "/data?there=1");
    here = server_of();
    here.location = "/moved";
    fails(&here, "/moved", ST_IO, "servers have redirected the request 6 times");
    here = server_of();
    here.location = "https://elsewhere/data";
    fails(&here, "/moved", ST_INVALID, "does not speak https");
}

static void web_read__refusals__say_what_to_do(void **state)
{
    (void)state;
    struct web_server s = server_of();
    fails(&s, "/missing?signature=secret", ST_IO, "/missing: 127.0.0.1:");
    assert_null(strstr(status_message(), "secret"));
    assert_non_null(strstr(status_message(), "answers 404 Not Found; look whether the address is right"));
    s = server_of();
    s.status = "403 Forbidden";
    s.status_count = 1;
    fails(&s, "/data", ST_IO, "signed for a time may be over");
    s = server_of();
    s.range = "bytes 5-9/20";
    fails(&s, "/data", ST_INVALID, "was asked for byte 0 on, and answers \"bytes 5-9/20\"");
    s = server_of();
    s.range = "bytes 0-9/*";
    fails(&s, "/data", ST_INVALID, "expected \"bytes A-B/SIZE\"");
    /* Nobody there: a port that was free a moment ago. */
    s = server_of();
    web_server_open(&s);
    web_server_close(&s);
    struct web *web = client(30000, 60000);
    struct web_facts facts;
    struct web_server there = server_of(); /* an address before it has answered */
    web_server_open(&there);
    assert_ok(web_begin(web, web_server_address(&there, "/data"), NULL, 0, UINT64_MAX));
    assert_ok(web_facts(web, &facts));
    web_server_close(&there);
    const uint64_t before = clock_ns();
    assert_ok(web_begin(web, web_server_address(&s, "/data"), NULL, 0, UINT64_MAX));
    assert_fails(IO, "the connection was refused", web_facts(web, &facts));
    assert_true(clock_ns() - before < 50 * UINT64_C(1000000000)); /* it does not have a minute's patience */
    assert_ok(web_begin(web, "http://no-such-host.invalid:1/data", NULL, 0, UINT64_MAX));
    assert_fails(IO, "no answer from no-such-host.invalid:1: address", web_facts(web, &facts));
    assert_fails(INVALID, "does not speak https", web_begin(web, "https://host/data", NULL, 0, UINT64_MAX));
    web_close(web);
}

static void web_read__nothing_there__is_at_its_end(void **state)
{
    (void)state;
    struct web_server s = server_of(); /* 416, with the size */
    s.bytes = 0;
    reads(&s, "/data");
    s = server_of();
    s.bytes = 0;
    s.no_ranges = true;
    reads(&s, "/data");
    s = server_of(); /* 416, without it: asked again without a range */
    s.bytes = 0;
    s.range = "";
    reads(&s, "/data");
    s = server_of(); /* beyond its end */
    web_server_open(&s);
    struct web *web = client(30000, 60000);
    size_t got;
    assert_ok(web_begin(web, web_server_address(&s, "/data"), NULL, BYTES + 7, UINT64_MAX));
    assert_ok(web_read(web, copy, 10, &got));
    assert_int_equal(got, 0);
    web_close(web);
    web_server_close(&s);
}

static void web_read__webhdfs__asks_for_parts_by_the_query(void **state)
{
    (void)state;
    struct web_server s = server_of();
    char json[200];
    snprintf(json, sizeof json,
             "{\"FileStatus\":{\"length\":%zu,\"type\":\"FILE\",\"modificationTime\":1320171722771}}", BYTES);
    s.json = json;
    s.etag = NULL;
    s.no_ranges = true;
    const struct web_facts facts = reads(&s, "/webhdfs/v1/data/a.tsv?user.name=me&op=OPEN");
    assert_true(facts.has_size && facts.has_ranges && facts.size_bytes == BYTES && facts.version);
    assert_int_equal(s.request_count, 2 + (BYTES + PIECE_BYTES - 1) / PIECE_BYTES); /* GETFILESTATUS at both ends */
    assert_int_equal(s.body_bytes, BYTES);
    s = server_of();
    s.json = "{}";
    fails(&s, "/webhdfs/v1/a?op=OPEN", ST_INVALID, "expected type FILE");
    static char lengthy[100000]; /* is not asked for again */
    memset(lengthy, ' ', sizeof lengthy - 1);
    s = server_of();
    s.json = lengthy;
    fails(&s, "/webhdfs/v1/a?op=OPEN", ST_INVALID,
          "answers GETFILESTATUS with more than 4096 bytes; expected one FileStatus: look whether WebHDFS is there");
    assert_int_equal(s.request_count, 1);
    s = server_of(); /* more bytes than were asked for */
    s.json = json;
    s.length_more = 7;
    char told[80];
    snprintf(told, sizeof told, "was asked for %u bytes, and answers with %u", (unsigned)PIECE_BYTES,
             (unsigned)PIECE_BYTES + 7);
    fails(&s, "/webhdfs/v1/a?op=OPEN", ST_INVALID, told);
}

/* The parts of a file tell no version: WebHDFS is asked for it at both ends. */
static void web_read__webhdfs_that_is_overwritten__has_changed(void **state)
{
    (void)state;
    char json[200], json_later[200];
    const char *const text = "{\"FileStatus\":{\"length\":%zu,\"type\":\"FILE\",\"modificationTime\":%u}}";
    snprintf(json, sizeof json, text, BYTES, 1000u);
    snprintf(json_later, sizeof json_later, text, BYTES, 1001u);
    struct web_server s = server_of();
    s.json = json;
    s.json_later = json_later;
    s.json_from = 3;
    s.etag = NULL;
    fails(&s, "/webhdfs/v1/a?op=OPEN", ST_MISMATCH, "tells the version 1001, and told 1000 before");
    s = server_of(); /* before it is read once more */
    s.json = json_later;
    s.etag = NULL;
    const struct web_facts was = {
        .has_size = true, .has_ranges = true, .size_bytes = BYTES, .version = 1001, .version_text = "1000"};
    size_t got;
    web_server_open(&s);
    struct web *web = client(30000, 60000);
    assert_ok(web_begin(web, web_server_address(&s, "/webhdfs/v1/a?op=OPEN"), &was, 0, UINT64_MAX));
    assert_fails(MISMATCH, "tells the version 1001, and told 1000 before", web_read(web, copy, 10, &got));
    assert_int_equal(s.body_bytes, 0);
    web_close(web);
    web_server_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(web_read__ranges__gives_all_bytes_over_several_requests),
        cmocka_unit_test(web_read__part__asks_for_that_alone),
        cmocka_unit_test(web_read__cut_connections__goes_on_at_the_byte),
        cmocka_unit_test(web_read__busy_or_silent_server__is_asked_again),
        cmocka_unit_test(web_read__no_ranges__is_one_stream),
        cmocka_unit_test(web_read__stream_that_is_cut__goes_on_only_if_it_is_the_same),
        cmocka_unit_test(web_read__stream_that_ends_before_its_cut__has_changed),
        cmocka_unit_test(web_read__answers_on_the_way__are_passed_over),
        cmocka_unit_test(web_read__large_chunk__is_refused),
        cmocka_unit_test(web_read__changed_data__is_an_error),
        cmocka_unit_test(web_read__wrong_length__is_said),
        cmocka_unit_test(web_read__moved__is_followed),
        cmocka_unit_test(web_read__refusals__say_what_to_do),
        cmocka_unit_test(web_read__nothing_there__is_at_its_end),
        cmocka_unit_test(web_read__webhdfs__asks_for_parts_by_the_query),
        cmocka_unit_test(web_read__webhdfs_that_is_overwritten__has_changed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
