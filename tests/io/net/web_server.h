/* A server of the web for tests, which has one file and does what a test tells it to: a thread a
 * connection, on a port that is free. */
#ifndef HETERPS_TESTS_WEB_SERVER_H
#define HETERPS_TESTS_WEB_SERVER_H

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include "tests/io/io_test.h"

#define WEB_SERVER_CONNECTIONS 256u

struct web_server {
    /* what it does: set before anybody asks */
    const uint8_t *_Atomic data;
    size_t bytes;
    bool no_ranges, chunked, no_length, closes; /* closes: after every answer */
    const char *etag;                           /* or NULL                                          */
    const char *status;                         /* "503 Busy": of the first status_count answers               */
    const char *location;                       /* of answers to /moved…                                      */
    const char *range;                          /* in place of Content-Range                                  */
    size_t chunk_bytes;                         /* 0: 1000                                                    */
    size_t cut_bytes;                           /* of a body; then the connection is closed, as long as …     */
    size_t range_bytes_max;                     /* that an answer has; 0: as many as are asked for            */
    size_t length_more;                         /* by how much Content-Length is too large                    */
    const char *modified, *date;                /* Last-Modified and Date, or NULL                            */
    uint32_t together;                          /* requests that have to be there before one is answered …    */
    uint64_t together_from;                     /* … from this request on, but for number 0                   */
    uint64_t silent_from;                       /* number of the first request that is not answered …         */
    _Atomic int status_count, cut_count, silent_count;
    const char *etag_later; /* from request etag_from on                                  */
    uint64_t etag_from;
    const char *json;       /* what op=GETFILESTATUS is answered with                     */
    const char *json_later; /* from request json_from on */
    uint64_t json_from;
    const char *early; /* sent before every answer: NULL, or others of 1xx */
    const char *late;  /* an answer as it is sent, from request late_from on */
    uint64_t late_from;
    /* what it has seen */
    _Atomic uint64_t request_count, range_count, body_bytes;
    _Atomic uint32_t together_count;
    _Atomic bool was_alone; /* fewer than `together` were there for 20 s */
    pthread_mutex_t target_lock;
    char last_target[512]; /* read when nobody asks */
    /* its own */
    int fd;
    uint16_t port;
    pthread_t thread, connection[WEB_SERVER_CONNECTIONS];
    _Atomic int connection_fd[WEB_SERVER_CONNECTIONS];
    uint32_t connection_count;
    _Atomic bool shared_is_over;
};

struct web_client {
    struct web_server *server;
    uint32_t index;
};

static bool web_server_send(int fd, const void *data, size_t bytes)
{
    for (size_t sent = 0; sent < bytes;) {
        const ssize_t got = send(fd, (const uint8_t *)data + sent, bytes - sent, MSG_NOSIGNAL);
        if (got <= 0) return false;
        sent += (size_t)got;
    }
    return true;
}

/* Until the other side hangs up. */
static void web_server_wait(int fd)
{
    char ignored[64];
    while (recv(fd, ignored, sizeof ignored, 0) > 0) continue;
}

/* A body, in chunks if it is sent so; false: it was cut. */
static bool web_server_body(struct web_server *s, int fd, const uint8_t *data, size_t bytes)
{
    const bool is_cut = s->cut_bytes && bytes > s->cut_bytes && atomic_fetch_sub(&s->cut_count, 1) > 0;
    const size_t sent = is_cut ? s->cut_bytes : bytes, step = s->chunk_bytes ? s->chunk_bytes : 1000;
    atomic_fetch_add(&s->body_bytes, sent);
    if (!s->chunked) return web_server_send(fd, data, sent) && !is_cut;
    for (size_t at = 0; at < sent; at += step) {
        char head[32];
        const size_t part = sent - at < step ? sent - at : step;
        const int length = snprintf(head, sizeof head, "%zx\r\n", part);
        if (!web_server_send(fd, head, (size_t)length) || !web_server_send(fd, data + at, part) ||
            !web_server_send(fd, "\r\n", 2))
            return false;
    }
    return !is_cut && web_server_send(fd, "0\r\n\r\n", 5);
}

static bool web_server_text(int fd, const char *code, const char *head, const char *body)
{
    char text[2048];
    const int bytes =
        snprintf(text, sizeof text, "HTTP/1.1 %s\r\n%sContent-Length: %zu\r\n\r\n", code, head, strlen(body));
    return web_server_send(fd, text, (size_t)bytes) && web_server_send(fd, body, strlen(body));
}

/* A connection has one request at a time: those that are there together are of as many connections. */
static void web_server_together(struct web_server *s)
{
    atomic_fetch_add(&s->together_count, 1);
    for (uint32_t ms = 0; atomic_load(&s->together_count) < s->together && !atomic_load(&s->was_alone); ms++) {
        usleep(1000);
        if (ms == 20000) atomic_store(&s->was_alone, true);
    }
}

/* Answers; false: the connection ends. */
static bool web_server_answer(struct web_server *s, int fd, const char *request)
{
    const uint64_t number = atomic_fetch_add(&s->request_count, 1);
    char target[512] = "", head[1024], line[128];
    const char *asked = strcasestr(request, "\r\nRange: bytes=");
    size_t first = 0, last = s->bytes ? s->bytes - 1 : 0, offset, length;
    sscanf(request, "GET %511s", target);
    pthread_mutex_lock(&s->target_lock);
    memcpy(s->last_target, target, sizeof target);
    pthread_mutex_unlock(&s->target_lock);
    if (number > 0 && number >= s->together_from) web_server_together(s);
    if (s->early && !web_server_send(fd, s->early, strlen(s->early))) return false;
    if (s->late && number >= s->late_from) return web_server_send(fd, s->late, strlen(s->late));
    if (strstr(target, "missing")) return web_server_text(fd, "404 Not Found", "", "nothing here");
    if (strstr(target, "GETFILESTATUS"))
        return web_server_text(fd, "200 OK", "", s->json_later && number >= s->json_from ? s->json_later : s->json);
    if (strncmp(target, "/moved", 6) == 0) {
        snprintf(line, sizeof line, "Location: %s\r\n", s->location);
        return web_server_text(fd, "307 Temporary Redirect", line, "elsewhere");
    }
    if (s->status && atomic_fetch_sub(&s->status_count, 1) > 0) return web_server_text(fd, s->status, "", "no");
    if (number >= s->silent_from && atomic_fetch_sub(&s->silent_count, 1) > 0) {
        web_server_wait(fd);
        return false;
    }
    const char *part = strstr(target, "&offset=");
    const bool is_part = part && sscanf(part, "&offset=%zu&length=%zu", &offset, &length) == 2;
    const bool is_range = asked && !s->no_ranges && !is_part;
    if (is_range) {
        atomic_fetch_add(&s->range_count, 1);
        sscanf(asked + 15, "%zu-%zu", &first, &last);
        if (first >= s->bytes) {
            snprintf(line, sizeof line, "Content-Range: bytes */%zu\r\n", s->bytes);
            return web_server_text(fd, "416 Range Not Satisfiable", s->range ? "" : line, "");
        }
        if (last >= s->bytes) last = s->bytes - 1;
        if (s->range_bytes_max && last - first >= s->range_bytes_max) last = first + s->range_bytes_max - 1;
    }
    if (is_part) {
        first = offset;
        last = offset + length <= s->bytes ? offset + length - 1 : s->bytes - 1;
    }
    const size_t bytes = s->bytes ? last - first + 1 : 0;
    size_t at = (size_t)snprintf(head, sizeof head, "HTTP/1.1 %s\r\n", is_range ? "206 Partial Content" : "200 OK");
    if (s->chunked)
        at += (size_t)snprintf(head + at, sizeof head - at, "Transfer-Encoding: chunked\r\n");
    else if (!s->no_length)
        at += (size_t)snprintf(head + at, sizeof head - at, "Content-Length: %zu\r\n", bytes + s->length_more);
    if (is_range && s->range)
        at += (size_t)snprintf(head + at, sizeof head - at, "Content-Range: %s\r\n", s->range);
    else if (is_range)
        at += (size_t)snprintf(head + at, sizeof head - at, "Content-Range: bytes %zu-%zu/%zu\r\n", first, last,
                               s->bytes);
    const char *etag = s->etag_later && number >= s->etag_from ? s->etag_later : s->etag;
    if (etag) at += (size_t)snprintf(head + at, sizeof head - at, "ETag: %s\r\n", etag);
    if (s->modified) at += (size_t)snprintf(head + at, sizeof head - at, "Last-Modified: %s\r\n", s->modified);
    if (s->date) at += (size_t)snprintf(head + at, sizeof head - at, "Date: %s\r\n", s->date);
    if (s->closes) at += (size_t)snprintf(head + at, sizeof head - at, "Connection: close\r\n");
    at += (size_t)snprintf(head + at, sizeof head - at, "\r\n");
    return web_server_send(fd, head, at) && web_server_body(s, fd, s->data + first, bytes) && !s->no_length &&
           !s->length_more && !s->closes;
}

static void *web_server_serve(void *argument)
{
    struct web_client *c = argument;
    struct web_server *s = c->server;
    const int fd = atomic_load(&s->connection_fd[c->index]);
    char request[4096];
    size_t got = 0;
    for (bool goes_on = true; goes_on;) {
        const ssize_t bytes = recv(fd, request + got, sizeof request - 1 - got, 0);
        if (bytes <= 0) break;
        got += (size_t)bytes;
        request[got] = 0;
        if (strstr(request, "\r\n\r\n") == NULL) continue;
        got = 0;
        goes_on = web_server_answer(s, fd, request);
    }
    shutdown(fd, SHUT_RDWR); /* closed when the server is */
    free(c);
    return NULL;
}

static void *web_server_main(void *argument)
{
    struct web_server *s = argument;
    for (;;) {
        const int fd = accept(s->fd, NULL, NULL);
        if (fd < 0 || atomic_load(&s->shared_is_over) || s->connection_count == WEB_SERVER_CONNECTIONS) break;
        const int one = 1; /* or every second answer waits 40 ms for an acknowledgement */
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        struct web_client *c = malloc(sizeof *c);
        *c = (struct web_client){s, s->connection_count};
        atomic_store(&s->connection_fd[c->index], fd);
        if (pthread_create(&s->connection[c->index], NULL, web_server_serve, c) != 0) abort();
        s->connection_count++;
    }
    return NULL;
}

static void web_server_open(struct web_server *s)
{
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof here;
    s->fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(s->fd >= 0 && bind(s->fd, (struct sockaddr *)&here, sizeof here) == 0 && listen(s->fd, 64) == 0);
    assert_int_equal(getsockname(s->fd, (struct sockaddr *)&here, &bytes), 0);
    s->port = ntohs(here.sin_port);
    assert_int_equal(pthread_create(&s->thread, NULL, web_server_main, s), 0);
}

static void web_server_close(struct web_server *s)
{
    atomic_store(&s->shared_is_over, true);
    shutdown(s->fd, SHUT_RDWR);
    pthread_join(s->thread, NULL);
    for (uint32_t i = 0; i < s->connection_count; i++) {
        shutdown(atomic_load(&s->connection_fd[i]), SHUT_RDWR);
        pthread_join(s->connection[i], NULL);
        close(atomic_load(&s->connection_fd[i]));
    }
    close(s->fd);
}

/* An address of it; good for the next seven calls too. */
static inline const char *web_server_address(const struct web_server *s, const char *target)
{
    static char text[8][600];
    static unsigned next;
    char *out = text[next++ % 8];
    snprintf(out, sizeof text[0], "http://127.0.0.1:%u%s", s->port, target);
    return out;
}

#endif
