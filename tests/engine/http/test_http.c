/* Connections and their bounds: addresses, what is counted while requests come and are
 * answered, how long a client may take, how many there may be. Server and clients are on one
 * thread, so that every count is known. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine/http/http.h"
#include "tests/engine/fixture_files.h"

static struct {
    struct event_base *base;
    struct http *http;
    struct evhttp_request *asked[8]; /* that wait for an answer */
    uint32_t asked_count, gone_count;
} rig;

static void handle(void *context, struct evhttp_request *request)
{
    (void)context;
    if (strcmp(evhttp_request_get_uri(request), "/now") == 0) {
        http_reply_text(rig.http, request, 200, "now");
        return;
    }
    assert_true(rig.asked_count < 8);
    rig.asked[rig.asked_count++] = request;
}

static void gone(void *context)
{
    (void)context;
    rig.gone_count++;
}

static const struct http_options usual = {.listen = "127.0.0.1:0",
                                          .flag = "--figures",
                                          .connection_most = 50,
                                          .idle_s = 60,
                                          .patience_s = 30,
                                          .body_max = 1000,
                                          .held_max = 4000,
                                          .handle = handle,
                                          .gone = gone};

static void rig_open(const struct http_options *options)
{
    struct http_options o = *options;
    memset(&rig, 0, sizeof rig);
    rig.base = http_base_new(true);
    assert_non_null(rig.base);
    assert_int_equal(event_base_priority_init(rig.base, 3), 0);
    o.base = rig.base;
    assert_ok(http_open(&rig.http, &o));
}

static void rig_close(void)
{
    http_close(rig.http);
    event_base_free(rig.base);
}

static int client_open(void)
{
    const char *address = http_address(rig.http);
    assert_int_equal(strncmp(address, "127.0.0.1:", 10), 0);
    const struct sockaddr_in to = {.sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)atoi(address + 10)),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0 && connect(fd, (const struct sockaddr *)&to, sizeof to) == 0);
    return fd;
}

static void client_send(int fd, const char *text)
{
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

/* Lets the server work until that holds. */
#define until(condition)                                                                                               \
    while (!(condition)) assert_int_equal(event_base_loop(rig.base, EVLOOP_ONCE), 0)

static bool is_readable(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, 0) > 0;
}

/* What comes first, and its bytes; 0: the server has closed. */
static size_t client_receive(int fd, char text[4096])
{
    until(is_readable(fd));
    ssize_t bytes = recv(fd, text, 4095, 0);
    text[bytes > 0 ? bytes : 0] = 0;
    return bytes > 0 ? (size_t)bytes : 0;
}

static uint64_t answers(int wanted)
{
    int code;
    uint64_t count;
    for (uint32_t i = 0; http_answers(rig.http, i, &code, &count); i++)
        if (code == wanted) return count;
    fail_msg("no count of %d", wanted);
    return 0;
}

static void http_is_loopback__by_its_address(void **state)
{
    (void)state;
    static const struct {
        const char *listen;
        int is_loopback; /* -1: it is none */
    } cases[] = {
        {"127.0.0.1:0", 1},
        {"127.9.8.7:65535", 1},
        {"localhost:80", 1},
        {"[::1]:80", 1},
        {"126.0.0.1:80", 0},
        {"128.0.0.1:80", 0},
        {"0.0.0.0:80", 0},
        {"[::]:80", 0},
        {"[fe80::1]:80", 0},
        {"10.127.0.1:80", 0},
        {"127.0.0.1", -1},
        {"127.0.0.1:", -1},
        {"127.0.0.1:65536", -1},
        {":80", -1},
        {"here:80", -1},
        {"127.0.0:80", -1},
        {"[::1:80", -1},
        {"::1]:80", -1},
        {"[127.0.0.1]:80", -1},
        {"127.0.0.1:x", -1},
        {"[1111:2222:3333:4444:5555:6666:255.255.255.255]:80", 0},
        {"[11111:2222:3333:4444:5555:6666:255.255.255.255]:80", -1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bool is_loopback = false;
        status st = http_is_loopback("--figures", cases[i].listen, &is_loopback);
        const int found = st == ST_OK ? is_loopback : -1;
        if (found != cases[i].is_loopback) fail_msg("%s: found %d", cases[i].listen, found);
        if (st != ST_OK) assert_int_equal(st, ST_USAGE);
        if (st != ST_OK) assert_message("--figures: expected ADDR:PORT in numbers");
    }
}

static void http_open__no_address_or_one_that_is_taken__fails(void **state)
{
    (void)state;
    struct http *other;
    struct http_options o = usual;
    char taken[64];
    rig_open(&usual);
    o.base = rig.base;
    o.listen = "here";
    assert_int_equal(http_open(&other, &o), ST_USAGE);
    assert_null(other);
    snprintf(taken, sizeof taken, "%s", http_address(rig.http));
    o.listen = taken;
    assert_int_equal(http_open(&other, &o), ST_SYSTEM);
    assert_message(taken);
    o.listen = "127.0.0.1:0";
    o.connection_max = 2000000000;
    assert_int_equal(http_open(&other, &o), ST_USAGE);
    assert_message("--figures: 2000000000 connections need 2000000256 descriptors");
    rig_close();
}

static void http_reply__counts_follow_a_request(void **state)
{
    (void)state;
    char text[4096];
    rig_open(&usual);
    assert_int_equal(http_connection_max(rig.http), 50);
    assert_int_equal(http_connection_count(rig.http), 0);
    int fd = client_open(), other = client_open();
    until(http_connection_count(rig.http) == 2);
    client_send(fd, "POST /x HTTP/1.1\r\nHost: h\r\nContent-Le");
    until(http_held_bytes(rig.http) > 0);
    assert_int_equal(http_busy_count(rig.http), 1); /* a request has begun */
    assert_int_equal(http_asking_count(rig.http), 0);
    client_send(fd, "ngth: 4\r\n\r\nbody");
    until(rig.asked_count == 1);
    assert_int_equal(http_busy_count(rig.http), 1);
    assert_int_equal(http_asking_count(rig.http), 1);
    struct evbuffer *input = evhttp_request_get_input_buffer(rig.asked[0]);
    assert_int_equal(evbuffer_get_length(input), 4);
    const size_t held = http_held_bytes(rig.http);
    http_hold(rig.http, 100);
    assert_int_equal(http_held_bytes(rig.http), held + 100);
    http_hold(rig.http, -100);
    assert_int_equal(http_held_bytes(rig.http), held);
    http_reply_text(rig.http, rig.asked[0], 409, "%s, %d", "no", 7);
    assert_int_equal(http_asking_count(rig.http), 0);
    assert_int_equal(http_busy_count(rig.http), 0); /* the answer is written */
    assert_true(client_receive(fd, text) > 0);
    assert_int_equal(strncmp(text, "HTTP/1.1 409 Conflict\r\n", 23), 0);
    assert_non_null(strstr(text, "Content-Type: text/plain; charset=utf-8\r\n"));
    assert_non_null(strstr(text, "X-Content-Type-Options: nosniff\r\n"));
    assert_non_null(strstr(text, "\r\n\r\nno, 7\n"));
    until(http_busy_count(rig.http) == 0);
    assert_int_equal(http_held_bytes(rig.http), 0);
    assert_int_equal(answers(409), 1);
    assert_int_equal(answers(200), 0);
    assert_int_equal(rig.gone_count, 0);
    close(fd);
    until(rig.gone_count == 1);
    assert_int_equal(http_connection_count(rig.http), 1);
    close(other);
    until(rig.gone_count == 2);
    assert_int_equal(http_connection_count(rig.http), 0);
    assert_int_equal(http_held_bytes(rig.http), 0);
    rig_close();
}

/* What a socket does not take at once is written as the client reads. */
/* Also by a client that sends no more. */
static void larger_than_a_socket(bool is_half_closed)
{
    enum { BYTES = 8 << 20 };
    char text[4096];
    struct http_options o = usual;
    o.held_max = 4 * BYTES;
    rig_open(&o);
    int fd = client_open();
    client_send(fd, "GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    until(rig.asked_count == 1);
    if (is_half_closed) shutdown(fd, SHUT_WR);
    char *body = calloc(1, BYTES);
    struct evbuffer *answer = evbuffer_new();
    assert_true(body && answer && evbuffer_add(answer, body, BYTES) == 0);
    http_reply(rig.http, rig.asked[0], 200, NULL, answer);
    assert_int_equal(http_busy_count(rig.http), 1);
    size_t got = client_receive(fd, text);
    const char *end = strstr(text, "\r\n\r\n");
    assert_non_null(end);
    for (const size_t head = (size_t)(end + 4 - text); got < head + BYTES;) got += client_receive(fd, text);
    until(http_busy_count(rig.http) == 0);
    assert_int_equal(http_held_bytes(rig.http), 0);
    evbuffer_free(answer);
    free(body);
    close(fd);
    rig_close();
}
static void http_reply__larger_than_a_socket__is_busy_until_it_is_read(void **state)
{
    (void)state;
    larger_than_a_socket(false);
    larger_than_a_socket(true);
}

/* What has come is answered, whatever follows it: the answer of HEAD has the length
 * of a body that does not come. */
static void http__half_closed_with_requests__all_are_answered(void **state)
{
    (void)state;
    char text[4096], all[8192] = "";
    rig_open(&usual);
    int fd = client_open();
    client_send(fd, "GET /now HTTP/1.1\r\nHost: h\r\n\r\n"
                    "HEAD /now HTTP/1.1\r\nHost: h\r\n\r\n"
                    "GET /now HTTP/1.1\r\nHost: h\r\n\r\n"
                    "GET /then HTTP/1.1\r\nHost: h\r\n\r\n");
    shutdown(fd, SHUT_WR);
    until(rig.asked_count == 1);
    for (int i = 0; i < 5; i++) assert_int_equal(event_base_loop(rig.base, EVLOOP_NONBLOCK), 0);
    http_reply_text(rig.http, rig.asked[0], 200, "now");
    while (client_receive(fd, text) > 0) strcat(all, text);
    const char *at = all;
    for (int i = 0; i < 4; i++) {
        assert_int_equal(strncmp(at, "HTTP/1.1 200 OK\r\n", 17), 0);
        at = strstr(at, "Content-Length: 4\r\n");
        assert_non_null(at);
        at = strstr(at, "\r\n\r\n");
        assert_non_null(at);
        at += 4;
        if (i == 1) continue;
        assert_int_equal(strncmp(at, "now\n", 4), 0);
        at += 4;
    }
    assert_int_equal(*at, 0);
    until(rig.gone_count == 1);
    close(fd);
    rig_close();
}

/* Requests without end in one piece: few of them are held at a time. */
static void http__many_requests_at_once__few_are_held(void **state)
{
    (void)state;
    enum { COUNT = 3000 };
    static const char request[] = "GET /now HTTP/1.1\r\nHost: h\r\n\r\n";
    static char many[COUNT * (sizeof request - 1) + 1];
    char text[4096];
    for (uint32_t i = 0; i < COUNT; i++) memcpy(many + i * (sizeof request - 1), request, sizeof request);
    struct http_options o = usual;
    o.held_max = 1 << 20;
    rig_open(&o);
    int fd = client_open();
    client_send(fd, many);
    while (answers(200) < COUNT) {
        assert_int_equal(event_base_loop(rig.base, EVLOOP_NONBLOCK), 0);
        if (is_readable(fd)) assert_true(recv(fd, text, sizeof text, 0) > 0);
        assert_true(http_held_bytes(rig.http) <= 20000);
    }
    assert_int_equal(rig.gone_count, 0);
    close(fd);
    rig_close();
}

/* The length of a chunk has no end: looking for it would take longer with every byte. */
static void http__a_chunk_whose_length_has_no_end__is_closed(void **state)
{
    (void)state;
    /* What comes before it: nothing; a whole chunk; one without the line end behind it; line ends alone. */
    static const char *const before[] = {"", "5\r\nhello\r\n", "5\r\nhello", "1a\n%026d\n\n\r\n", "2\r\n\r\n\r\n"};
    static char endless[40001], begin[512], chunks[256];
    struct http_options o = usual;
    o.body_max = 1 << 20;
    o.held_max = 4 << 20;
    memset(endless, 'a', sizeof endless - 1);
    for (size_t i = 0; i < sizeof before / sizeof *before; i++) {
        rig_open(&o);
        int fd = client_open();
        snprintf(chunks, sizeof chunks, before[i], 0);
        snprintf(begin, sizeof begin, "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n%s", chunks);
        begin[40] = 0; /* in the middle of the header's name */
        client_send(fd, begin);
        until(http_held_bytes(rig.http) > 0);
        snprintf(begin, sizeof begin, "%s%s", "ing: chunked\r\n\r\n", chunks);
        client_send(fd, begin);
        client_send(fd, endless);
        until(rig.gone_count == 1);
        assert_int_equal(rig.asked_count, 0);
        close(fd);
        rig_close();
    }
}

/* Sends a body's beginning, and then LARGE bytes without a line end, in pieces; answers what comes of it. */
enum { LARGE = 200000, PIECE = 10000 };
static void large_send(int fd, const char *begin, const char *end)
{
    static char piece[PIECE + 1];
    char text[4096];
    memset(piece, 'a', PIECE);
    client_send(fd, begin);
    for (int sent = 0; sent < LARGE; sent += PIECE) {
        client_send(fd, piece);
        until(http_held_bytes(rig.http) >= (size_t)sent + PIECE || rig.asked_count || rig.gone_count);
    }
    client_send(fd, end);
    until(rig.asked_count == 1 || rig.gone_count);
    assert_int_equal(rig.gone_count, 0);
    assert_in_range(evbuffer_get_length(evhttp_request_get_input_buffer(rig.asked[0])), LARGE, LARGE + 40);
    http_reply_text(rig.http, rig.asked[0], 200, "ok");
    rig.asked_count = 0;
    assert_true(client_receive(fd, text) > 0);
}

/* A large chunk, and a body of a known length, are not taken for a line: behind chunks and lines of every
 * length, and in each request of a connection. */
static void http__a_large_body_in_pieces__is_read(void **state)
{
    (void)state;
    static const char *const before[] = {"", "5\r\nhello\r\n", "1\r\n1\r\n", "1a\n%026d\n",
                                         "02\r\n\r\n\r\n\n5\nhello\n"};
    char begin[512], chunks[256];
    struct http_options o = usual;
    o.body_max = 1 << 20;
    o.held_max = 4 << 20;
    rig_open(&o);
    int fd = client_open();
    for (size_t i = 0; i < sizeof before / sizeof *before; i++) {
        snprintf(chunks, sizeof chunks, before[i], 0);
        snprintf(begin, sizeof begin, "POST / HTTP/1.1\r\nHost: h\r\n%sTransfer-Encoding: chunked\r\n\r\n%s%x\r\n",
                 i % 2 ? "X: y\r\n" : "", chunks, LARGE);
        large_send(fd, begin, i % 2 ? "\r\n0\r\nTrailer: t\r\n\r\n" : "0\r\n\r\n");
        snprintf(begin, sizeof begin, "POST / HTTP/1.1\r\nHost: h\r\n%sContent-Length: %u\r\n\r\n",
                 i % 2 ? "" : "X: y\r\n", LARGE);
        large_send(fd, begin, "");
    }
    close(fd);
    rig_close();
}

/* The next request, and the end of what a client sends, wait for the answer; both are answered. */
static void http__what_comes_before_an_answer__is_read_behind_it(void **state)
{
    (void)state;
    char text[4096];
    rig_open(&usual);
    int fd = client_open();
    client_send(fd, "GET /a HTTP/1.1\r\nHost: h\r\n\r\n");
    until(rig.asked_count == 1);
    client_send(fd, "GET /b HTTP/1.1\r\nHost: h\r\n\r\n");
    for (int i = 0; i < 3; i++) assert_int_equal(event_base_loop(rig.base, EVLOOP_NONBLOCK), 0);
    assert_int_equal(rig.asked_count, 1);
    assert_int_equal(http_asking_count(rig.http), 1);
    http_reply(rig.http, rig.asked[0], 200, NULL, NULL);
    until(rig.asked_count == 2);
    assert_true(client_receive(fd, text) > 0);
    shutdown(fd, SHUT_WR);
    for (int i = 0; i < 3; i++) assert_int_equal(event_base_loop(rig.base, EVLOOP_NONBLOCK), 0);
    assert_int_equal(rig.gone_count, 0);
    http_reply(rig.http, rig.asked[1], 200, NULL, NULL);
    assert_true(client_receive(fd, text) > 0);
    assert_int_equal(strncmp(text, "HTTP/1.1 200 OK\r\n", 17), 0);
    assert_int_equal(client_receive(fd, text), 0);
    assert_int_equal(answers(200), 2);
    until(rig.gone_count == 1);
    close(fd);
    rig_close();
}

static void http__a_flood_before_an_answer__stays_in_the_socket(void **state)
{
    (void)state;
    static char flood[100001];
    rig_open(&usual);
    int fd = client_open();
    client_send(fd, "GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    until(rig.asked_count == 1);
    memset(flood, 'x', sizeof flood - 1);
    client_send(fd, flood);
    for (int i = 0; i < 20; i++) assert_int_equal(event_base_loop(rig.base, EVLOOP_NONBLOCK), 0);
    assert_true(http_held_bytes(rig.http) <= 16384); /* what is read at once */
    assert_int_equal(rig.gone_count, 0);
    close(fd);
    rig_close();
}

static void http_reply__a_code_without_a_name__is_an_error_of_the_server(void **state)
{
    (void)state;
    char text[4096];
    rig_open(&usual);
    int fd = client_open();
    client_send(fd, "GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    until(rig.asked_count == 1);
    http_reply(rig.http, rig.asked[0], 418, NULL, NULL);
    assert_true(client_receive(fd, text) > 0);
    assert_int_equal(strncmp(text, "HTTP/1.1 500 Internal Server Error\r\n", 36), 0);
    assert_null(strstr(text, "Content-Type:"));
    assert_int_equal(answers(500), 1);
    close(fd);
    rig_close();
}

static void http__a_body_beyond_the_bound__is_not_handled(void **state)
{
    (void)state;
    char text[4096];
    rig_open(&usual);
    int fd = client_open(), other = client_open();
    snprintf(text, sizeof text, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1001\r\n\r\n%01001d", 0);
    client_send(fd, text); /* is read to its end: only then a client looks for an answer */
    assert_true(client_receive(fd, text) > 0);
    assert_int_equal(strncmp(text, "HTTP/1.1 413 ", 13), 0);
    snprintf(text, sizeof text, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1000\r\n\r\n%01000d", 0);
    client_send(other, text);
    until(rig.asked_count == 1);
    assert_int_equal(evbuffer_get_length(evhttp_request_get_input_buffer(rig.asked[0])), 1000);
    http_reply_text(rig.http, rig.asked[0], 200, "ok");
    assert_true(client_receive(other, text) > 0);
    close(fd);
    close(other);
    rig_close();
}

/* libevent answers without the handler; "100 Continue" is no answer, and an answer of ours counts once. */
static void http__what_no_handler_answers__is_counted(void **state)
{
    (void)state;
    static const struct {
        int code;
        const char *text;
    } cases[] = {
        {400, "no request\r\n\r\n"},
        {413, "POST /now HTTP/1.1\r\nContent-Length: 1001\r\n\r\n%01001d"},
        {413, "POST /now HTTP/1.0\r\nContent-Length: 1001\r\n\r\n%01001d"},
        {417, "POST /now HTTP/1.1\r\nExpect: more\r\nContent-Length: 1\r\n\r\n0"},
        {501, "DELETE /now HTTP/1.1\r\n\r\n"},
        {200, "POST /now HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n0"},
    };
    char text[4096];
    uint64_t sum = 0, count;
    rig_open(&usual);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const uint64_t before = answers(cases[i].code);
        const int fd = client_open();
        snprintf(text, sizeof text, cases[i].text, 0); /* a format that is ours */
        client_send(fd, text);
        assert_true(client_receive(fd, text) > 0);
        assert_int_equal(answers(cases[i].code), before + 1);
        close(fd);
    }
    for (uint32_t i = 0; http_answers(rig.http, i, &(int){0}, &count); i++) sum += count;
    assert_int_equal(sum, sizeof cases / sizeof *cases);
    rig_close();
}

/* The second and the third wait while two are open. */
static void http__as_many_connections_as_there_may_be__others_wait(void **state)
{
    (void)state;
    struct http_options o = usual;
    o.connection_max = 2;
    rig_open(&o);
    assert_int_equal(http_connection_max(rig.http), 2);
    int fds[3];
    for (int i = 0; i < 3; i++) {
        fds[i] = client_open(); /* the third one in the system's queue */
        client_send(fds[i], "GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    }
    until(rig.asked_count == 2);
    for (int i = 0; i < 5; i++) assert_int_equal(event_base_loop(rig.base, EVLOOP_NONBLOCK), 0);
    assert_int_equal(rig.asked_count, 2);
    assert_int_equal(http_connection_count(rig.http), 2);
    assert_int_equal(http_asking_count(rig.http), 2);
    http_reply_text(rig.http, rig.asked[0], 200, "ok");
    close(fds[0]);
    until(rig.asked_count == 3);
    assert_int_equal(http_connection_count(rig.http), 2);
    for (int i = 1; i < 3; i++) {
        http_reply_text(rig.http, rig.asked[i], 200, "ok");
        close(fds[i]);
    }
    until(http_connection_count(rig.http) == 0);
    rig_close();
}

/* Half a request, and an answer that nobody reads, are given up; a client that waits for an answer is not. */
static void http__who_owes_something_for_too_long__is_closed(void **state)
{
    (void)state;
    struct http_options o = usual;
    char text[4096];
    o.patience_s = 1;
    rig_open(&o);
    int half = client_open(), waits = client_open(), idle = client_open();
    client_send(waits, "GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    until(rig.asked_count == 1);
    client_send(half, "GET / HTTP/1.1\r\nHo");
    assert_int_equal(client_receive(half, text), 0);
    until(rig.gone_count == 1);
    assert_int_equal(http_connection_count(rig.http), 2);
    assert_int_equal(http_asking_count(rig.http), 1);
    http_reply_text(rig.http, rig.asked[0], 200, "late");
    assert_true(client_receive(waits, text) > 0);
    assert_non_null(strstr(text, "\r\n\r\nlate\n"));
    close(half);
    close(waits);
    close(idle);
    rig_close();
}

static void http__more_bytes_than_may_be_held__close_who_sends_them(void **state)
{
    (void)state;
    struct http_options o = usual;
    char text[4096];
    static char many[60001];
    o.body_max = 100000;
    o.held_max = 30000;
    rig_open(&o);
    int fd = client_open(), other = client_open();
    client_send(fd, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 90000\r\n\r\n");
    http_hold(rig.http, 40000); /* of requests that are worked on */
    client_send(other, "GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    until(rig.asked_count == 1); /* one that holds little is served still */
    http_reply_text(rig.http, rig.asked[0], 200, "ok");
    assert_true(client_receive(other, text) > 0);
    memset(many, 'x', sizeof many - 1);
    client_send(fd, many);
    until(rig.gone_count == 1);
    assert_int_equal(http_connection_count(rig.http), 1);
    assert_int_equal(http_held_bytes(rig.http), 40000);
    close(fd);
    close(other);
    rig_close();
}

/* libevent takes chunk after chunk out of the connection's buffer, and keeps them. */
static void http__chunks_of_a_body_that_is_not_whole__are_held(void **state)
{
    (void)state;
    struct http_options o = usual;
    char text[4096];
    o.body_max = 30000;
    o.held_max = 40000;
    rig_open(&o);
    int fds[2] = {client_open(), client_open()};
    for (int i = 0; i < 2; i++) client_send(fds[i], "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n");
    snprintf(text, sizeof text, "7d0\r\n%02000d\r\n", 0);
    for (int n = 1; n <= 10; n++) {
        client_send(fds[0], text);
        until(http_held_bytes(rig.http) >= (size_t)n * 2000);
    }
    for (int n = 11; n <= 20 && rig.gone_count == 0; n++) {
        client_send(fds[1], text);
        until(http_held_bytes(rig.http) >= (size_t)n * 2000 || rig.gone_count > 0);
    }
    until(rig.gone_count == 1); /* the second one, which made it too much */
    assert_in_range(http_held_bytes(rig.http), 20000, 21000);
    client_send(fds[0], "0\r\n\r\n");
    until(rig.asked_count == 1);
    assert_int_equal(http_held_bytes(rig.http), 0); /* what the request has is its handler's */
    assert_int_equal(evbuffer_get_length(evhttp_request_get_input_buffer(rig.asked[0])), 20000);
    http_reply_text(rig.http, rig.asked[0], 200, "ok");
    assert_true(client_receive(fds[0], text) > 0);
    for (int i = 0; i < 2; i++) close(fds[i]);
    rig_close();
}

static void http_drain__takes_none_and_closes_behind_answers(void **state)
{
    (void)state;
    char text[4096];
    rig_open(&usual);
    int fd = client_open();
    client_send(fd, "GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    until(rig.asked_count == 1);
    http_drain(rig.http);
    http_drain(rig.http);
    int late = client_open();
    client_send(late, "GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    for (int i = 0; i < 5; i++) assert_int_equal(event_base_loop(rig.base, EVLOOP_NONBLOCK), 0);
    assert_int_equal(rig.asked_count, 1);
    assert_int_equal(http_busy_count(rig.http), 1);
    http_reply_text(rig.http, rig.asked[0], 200, "last");
    assert_true(client_receive(fd, text) > 0);
    assert_non_null(strstr(text, "Connection: close\r\n"));
    until(rig.gone_count == 1);
    assert_int_equal(http_busy_count(rig.http), 0);
    close(fd);
    close(late);
    rig_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(http_is_loopback__by_its_address),
        cmocka_unit_test(http_open__no_address_or_one_that_is_taken__fails),
        cmocka_unit_test(http_reply__counts_follow_a_request),
        cmocka_unit_test(http_reply__larger_than_a_socket__is_busy_until_it_is_read),
        cmocka_unit_test(http__half_closed_with_requests__all_are_answered),
        cmocka_unit_test(http__many_requests_at_once__few_are_held),
        cmocka_unit_test(http__a_chunk_whose_length_has_no_end__is_closed),
        cmocka_unit_test(http__a_large_body_in_pieces__is_read),
        cmocka_unit_test(http__what_comes_before_an_answer__is_read_behind_it),
        cmocka_unit_test(http__a_flood_before_an_answer__stays_in_the_socket),
        cmocka_unit_test(http_reply__a_code_without_a_name__is_an_error_of_the_server),
        cmocka_unit_test(http__a_body_beyond_the_bound__is_not_handled),
        cmocka_unit_test(http__what_no_handler_answers__is_counted),
        cmocka_unit_test(http__as_many_connections_as_there_may_be__others_wait),
        cmocka_unit_test(http__who_owes_something_for_too_long__is_closed),
        cmocka_unit_test(http__more_bytes_than_may_be_held__close_who_sends_them),
        cmocka_unit_test(http__chunks_of_a_body_that_is_not_whole__are_held),
        cmocka_unit_test(http_drain__takes_none_and_closes_behind_answers),
    };
    alarm(300);
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
