/* Connections and their bounds.
 *
 * libevent's server gives no list of its connections. So each connection is noted when it is accepted:
 * on_accept makes its bufferevent, and on_adopt, as soon as libevent has completed the connection, finds it
 * in the bufferevent's callbacks. */
#include "engine/http/http.h"

#include <arpa/inet.h>
#include <errno.h>
#include <event2/bufferevent.h>
#include <event2/listener.h>
#include <event2/util.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "cfg/key.h"
#include "engine/base/log.h"

#define BACKLOG       1024
#define HEADERS_BYTES (16 << 10)
/* Of the line with a chunk's length, and of one read behind it. */
#define CHUNK_LINE_BYTES ((size_t)32 << 10)
/* Bytes that a connection may always hold, whatever the others hold. */
#define HELD_FREE_BYTES ((size_t)16 << 10)
/* Descriptors of the process besides its connections. */
#define OTHER_FDS 256u
/* No connection has a descriptor from here on, even if the process has many others, such as files of rows. */
#define FDS_MOST 65536u

static const struct {
    int code;
    const char *phrase;
} codes[] = {
    {200, "OK"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {409, "Conflict"},
    {413, "Content Too Large"},
    {415, "Unsupported Media Type"},
    {417, "Expectation Failed"},
    {501, "Not Implemented"},
    {503, "Service Unavailable"},
    {500, "Internal Server Error"},
};
#define CODE_COUNT (sizeof codes / sizeof *codes)

/* What was taken last. In a body of chunks libevent takes a line's text, its end, the chunk, and an empty
 * line; TAKEN_LENGTH: the end of a line that has a text, so a chunk follows. In headers this is wrong, until
 * the empty line that ends them. */
enum taken { TAKEN_NONE, TAKEN_TEXT, TAKEN_LENGTH };

struct connection {
    struct http *http;
    struct bufferevent *bev;
    struct event *watch; /* see on_watch(); NULL: no memory */
    struct connection *previous, *next;
    int fd;
    uint64_t owes_since; /* the sweep since which the client owes something; 0: nothing */
    bool is_asking;      /* its request is worked on                                    */
    bool is_told;        /* watch may yet be called for what the request was read from  */
    enum taken taken;    /* what libevent has taken out of what comes                   */
    bool is_line_end;    /* the next bytes that it will take end a line                 */
    bool is_chunked;     /* a header has said so                                        */
    size_t held;         /* bytes in its buffers; and of a request, until it is whole   */
};

struct http {
    struct http_options options;
    struct evhttp *server;
    struct evconnlistener *listener; /* NULL: drained */
    struct event *adopt, *sweep;
    struct connection *all;    /* adopted connections                */
    struct connection *fresh;  /* accepted ones, not yet adopted     */
    struct connection **by_fd; /* [fd_max]; NULL where there is none */
    uint32_t fd_max, count, asking;
    size_t held;
    uint64_t sweeps; /* one a second, from 1 on */
    time_t date_s;
    char date[30]; /* date_s as answers tell it */
    uint64_t answers[CODE_COUNT];
    bool is_full, is_drained;
    bool is_handling; /* libevent is in the middle of a connection's callback */
    bool is_replying; /* libevent is given an answer; it makes others of its own */
    char address[64];
};

/* libevent's warnings, such as what the system refuses. */
static void on_log(int severity, const char *message)
{
    if (severity >= EVENT_LOG_WARN) log_detail("http     libevent: %s", message);
}

struct event_base *http_base_new(bool many_requests)
{
    event_set_log_callback(on_log);
    struct event_config *config = event_config_new();
    if (config == NULL) return NULL;
    if (many_requests) (void)event_config_set_flag(config, EVENT_BASE_FLAG_EPOLL_USE_CHANGELIST);
    struct event_base *base = event_base_new_with_config(config);
    event_config_free(config);
    return base;
}

/* --- connections ------------------------------------------------------------------------------ */

static void held_add(struct connection *c, size_t added, size_t taken)
{
    c->held += added - taken;
    c->http->held += added - taken;
}

/* Bytes of a request that a connection may hold: those of the largest. */
static size_t request_max(const struct http *h) { return h->options.body_max + 2 * (size_t)HEADERS_BYTES; }

/* Follows what libevent takes, which tells nobody that a line of a chunk has no end. It looks for the end
 * from the first byte each time that bytes come, in a time that grows with their square. */
static void taken_follow(struct connection *c, struct evbuffer *buffer, size_t n_deleted)
{
    static const char chunked[] = "Transfer-Encoding:";
    char front[sizeof chunked] = "";
    if (n_deleted && c->taken == TAKEN_TEXT)
        c->taken = TAKEN_LENGTH;
    else if (n_deleted)
        c->taken = c->taken == TAKEN_LENGTH || c->is_line_end ? TAKEN_NONE : TAKEN_TEXT;
    (void)evbuffer_copyout(buffer, front, sizeof front - 1);
    c->is_line_end = front[0] == '\n' || (front[0] == '\r' && front[1] == '\n');
    c->is_chunked = c->is_chunked || strncasecmp(front, chunked, sizeof chunked - 1) == 0;
}

/* Bytes of a request have come. What libevent takes, as each chunk of a body, it keeps until the request is
 * whole; of one that is too large it keeps nothing. */
static void on_input(struct evbuffer *buffer, const struct evbuffer_cb_info *info, void *context)
{
    struct connection *c = context;
    taken_follow(c, buffer, info->n_deleted);
    const size_t room = c->held < request_max(c->http) ? request_max(c->http) - c->held : 0;
    held_add(c, info->n_added < room ? info->n_added : room, 0);
    if (info->n_added && c->owes_since == 0 && !c->is_asking) c->owes_since = c->http->sweeps;
    /* In the middle of a request no answer could say why. */
    const size_t bytes = evbuffer_get_length(buffer),
                 bytes_max = c->is_chunked && c->taken != TAKEN_LENGTH ? CHUNK_LINE_BYTES : request_max(c->http);
    if ((c->http->held > c->http->options.held_max && c->held > HELD_FREE_BYTES) || bytes > bytes_max)
        shutdown(c->fd, SHUT_RDWR);
}

/* The code's place in the table; the last place if it has none. */
static uint32_t code_index(int code)
{
    uint32_t i = 0;
    while (i + 1 < CODE_COUNT && codes[i].code != code) i++;
    return i;
}

/* Counts an answer whose first line ends the buffer, if a first line does: libevent itself answers what is no
 * request, or a body that is too large. */
static void own_answer_count(struct http *h, struct evbuffer *buffer, size_t line_bytes)
{
    char line[16] = "";
    struct evbuffer_ptr begin;
    if (evbuffer_ptr_set(buffer, &begin, evbuffer_get_length(buffer) - line_bytes, EVBUFFER_PTR_SET) != 0) return;
    (void)evbuffer_copyout_from(buffer, &begin, line, sizeof line - 1);
    const long code = strncmp(line, "HTTP/1.", 7) == 0 ? strtol(line + 8, NULL, 10) : 0; /* behind the digit */
    if (code >= 200) h->answers[code_index((int)code)]++;                                /* not "100 Continue" */
}

static void on_output(struct evbuffer *buffer, const struct evbuffer_cb_info *info, void *context)
{
    struct connection *c = context;
    held_add(c, info->n_added, info->n_deleted);
    if (info->n_added && !c->http->is_replying) own_answer_count(c->http, buffer, info->n_added);
}

/* The request is whole, and its handler's: the buffers have what is left. */
static void held_settle(struct connection *c)
{
    held_add(c,
             evbuffer_get_length(bufferevent_get_input(c->bev)) + evbuffer_get_length(bufferevent_get_output(c->bev)),
             c->held);
}

static void listener_set(struct http *h)
{
    bool is_full = h->count >= h->options.connection_max;
    if (h->listener == NULL || is_full == h->is_full) return;
    h->is_full = is_full;
    if (is_full)
        (void)evconnlistener_disable(h->listener);
    else
        (void)evconnlistener_enable(h->listener);
}

static void connection_end(struct connection *c)
{
    struct http *h = c->http;
    evbuffer_remove_cb(bufferevent_get_input(c->bev), on_input, c);
    evbuffer_remove_cb(bufferevent_get_output(c->bev), on_output, c);
    if (c->watch) event_free(c->watch);
    h->held -= c->held;
    h->asking -= c->is_asking;
    h->count--;
    if (c->fd >= 0 && h->by_fd[c->fd] == c) h->by_fd[c->fd] = NULL;
    if (c->previous) c->previous->next = c->next;
    if (c->next) c->next->previous = c->previous;
    if (h->all == c) h->all = c->next;
    free(c);
    listener_set(h);
}

static void on_close(struct evhttp_connection *connection, void *context)
{
    struct http *h = ((struct connection *)context)->http;
    (void)connection;
    connection_end(context);
    h->options.gone(h->options.context);
}

/* The server stops reading while a request is worked on: two changes of what the system watches, in vain, as
 * most clients send nothing meanwhile. So a second event watches, too, until something comes that nobody
 * reads yet: the next request, or the connection's end. */
static void on_watch(evutil_socket_t unused, short what, void *context)
{
    struct connection *c = context;
    (void)unused, (void)what;
    if (bufferevent_get_enabled(c->bev) & EV_READ) return;
    if (c->is_told)
        c->is_told = false;
    else
        (void)event_del(c->watch);
}

/* Adopts the fresh connections: the server has set callbacks whose argument is libevent's connection. If the
 * server has given a connection up, there is no argument. */
static void on_adopt(evutil_socket_t unused, short what, void *context)
{
    struct http *h = context;
    (void)unused, (void)what;
    for (struct connection *c = h->fresh, *next; c; c = next) {
        bufferevent_data_cb read_cb, write_cb;
        bufferevent_event_cb event_cb;
        void *argument;
        struct bufferevent *bev = c->bev;
        next = c->next;
        c->next = NULL;
        bufferevent_getcb(bev, &read_cb, &write_cb, &event_cb, &argument);
        c->fd = bufferevent_getfd(bev);
        if (argument == NULL || c->fd < 0 || (uint32_t)c->fd >= h->fd_max) {
            connection_end(c);
        } else {
            static const int on = 1;
            (void)setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
            h->by_fd[c->fd] = c;
            c->watch = event_new(h->options.base, c->fd, EV_READ | EV_PERSIST, on_watch, c);
            c->next = h->all;
            if (h->all) h->all->previous = c;
            h->all = c;
            evhttp_connection_set_closecb(argument, on_close, c);
        }
        bufferevent_decref(bev);
    }
    h->fresh = NULL;
}

static struct bufferevent *on_accept(struct event_base *base, void *context)
{
    struct http *h = context;
    struct connection *c = calloc(1, sizeof *c);
    struct bufferevent *bev = bufferevent_socket_new(base, -1, 0);
    if (c == NULL || bev == NULL) { /* on NULL libevent makes its own, or refuses */
        free(c);
        return bev;
    }
    *c = (struct connection){.http = h, .bev = bev, .next = h->fresh, .fd = -1};
    h->fresh = c;
    h->count++;
    listener_set(h);
    bufferevent_incref(bev); /* until it is adopted */
    evbuffer_add_cb(bufferevent_get_input(bev), on_input, c);
    evbuffer_add_cb(bufferevent_get_output(bev), on_output, c);
    event_active(h->adopt, EV_TIMEOUT, 0);
    return bev;
}

/* Shuts down connections that have owed something for too long; the server sees their end, and frees them. */
static void on_sweep(evutil_socket_t unused, short what, void *context)
{
    struct http *h = context;
    (void)unused, (void)what;
    h->sweeps++;
    for (const struct connection *c = h->all; c; c = c->next)
        if (c->owes_since && h->sweeps - c->owes_since > h->options.patience_s) shutdown(c->fd, SHUT_RDWR);
}

/* The connection of a request; NULL: it is not adopted. */
static struct connection *connection_of(const struct http *h, struct evhttp_request *request)
{
    struct evhttp_connection *connection = evhttp_request_get_connection(request);
    int fd = connection ? bufferevent_getfd(evhttp_connection_get_bufferevent(connection)) : -1;
    return fd >= 0 && (uint32_t)fd < h->fd_max ? h->by_fd[fd] : NULL;
}

/* --- requests --------------------------------------------------------------------------------- */

static void on_request(struct evhttp_request *request, void *context)
{
    struct http *h = context;
    struct connection *c = connection_of(h, request);
    if (c) {
        c->owes_since = 0;
        c->is_asking = true;
        c->taken = TAKEN_NONE;
        c->is_chunked = false;
        c->is_told = true;
        if (c->watch && !event_pending(c->watch, EV_READ, NULL)) (void)event_add(c->watch, NULL);
        h->asking++;
        held_settle(c);
    }
    h->is_handling = true;
    h->options.handle(h->options.context, request);
    h->is_handling = false;
}

static void on_answered(struct evhttp_request *request, void *context)
{
    const struct http *h = context;
    struct connection *c = connection_of(h, request);
    if (c) c->owes_since = evbuffer_get_length(bufferevent_get_input(c->bev)) ? h->sweeps : 0; /* of the next request */
}

bool http_answers(const struct http *h, uint32_t i, int *code, uint64_t *count)
{
    if (i >= CODE_COUNT) return false;
    *code = codes[i].code;
    *count = h->answers[i];
    return true;
}

/* The date of this second; libevent would format it anew for each answer. */
static const char *date_now(struct http *h)
{
    const time_t now = time(NULL);
    if (now != h->date_s) (void)evutil_date_rfc1123(h->date, sizeof h->date, NULL);
    h->date_s = now;
    return h->date;
}

/* Writes the answer at once, as far as the socket takes it; libevent, which would first wait for the socket,
 * writes the rest. The connection may be freed when this returns. */
static void answer_write(struct connection *c)
{
    struct evbuffer *output = bufferevent_get_output(c->bev);
    evbuffer_unfreeze(output, 1);
    (void)evbuffer_write(output, c->fd); /* libevent meets an error again, and handles it */
    evbuffer_freeze(output, 1);
    if (evbuffer_get_length(output) == 0)
        bufferevent_trigger(c->bev, EV_WRITE, 0);
    else
        (void)bufferevent_disable(c->bev, EV_READ);
}

/* An answer to HEAD: the body's length without the body.
 * libevent would leave out the length, and write the bytes. */
static void body_to_length(struct evkeyvalq *headers, struct evbuffer *body)
{
    char length[24];
    snprintf(length, sizeof length, "%zu", body ? evbuffer_get_length(body) : 0);
    evhttp_add_header(headers, "Content-Length", length);
    if (body) (void)evbuffer_drain(body, evbuffer_get_length(body));
}

void http_reply(struct http *h, struct evhttp_request *request, int code, const char *type, struct evbuffer *body)
{
    struct connection *c = connection_of(h, request);
    struct evkeyvalq *headers = evhttp_request_get_output_headers(request);
    evhttp_add_header(headers, "Date", date_now(h));
    if (type) evhttp_add_header(headers, "Content-Type", type);
    evhttp_add_header(headers, "X-Content-Type-Options", "nosniff");
    if (h->is_drained) evhttp_add_header(headers, "Connection", "close");
    if (c) {
        c->is_asking = false;
        c->owes_since = h->sweeps;
        h->asking--;
        evhttp_request_set_on_complete_cb(request, on_answered, h);
    }
    const uint32_t index = code_index(code);
    h->answers[index]++;
    if (evhttp_request_get_command(request) == EVHTTP_REQ_HEAD) body_to_length(headers, body);
    h->is_replying = true;
    evhttp_send_reply(request, codes[index].code, codes[index].phrase, body);
    h->is_replying = false;
    /* What comes before the answer is written is read after it, even the connection's end. libevent has begun
     * to read again, and would drop requests that came before the end. */
    if (c && (h->is_handling || evbuffer_get_length(bufferevent_get_input(c->bev)) != 0))
        (void)bufferevent_disable(c->bev, EV_READ);
    if (c && !h->is_handling) answer_write(c);
}

void http_reply_text(struct http *h, struct evhttp_request *request, int code, const char *format, ...)
{
    struct evbuffer *body = evbuffer_new();
    va_list arguments;
    va_start(arguments, format);
    if (body && (evbuffer_add_vprintf(body, format, arguments) < 0 || evbuffer_add(body, "\n", 1) != 0))
        evbuffer_drain(body, evbuffer_get_length(body));
    va_end(arguments);
    http_reply(h, request, code, "text/plain; charset=utf-8", body);
    if (body) evbuffer_free(body);
}

/* --- listening -------------------------------------------------------------------------------- */

union address {
    struct sockaddr any;
    struct sockaddr_in four;
    struct sockaddr_in6 six;
    struct sockaddr_storage storage;
};

/* "ADDR:PORT"; ADDR: four numbers, an IPv6 address in brackets, or localhost. */
static bool address_read(const char *listen, union address *a, int *bytes)
{
    char text[INET6_ADDRSTRLEN + 2];
    uint64_t port;
    const char *colon = strrchr(listen, ':');
    const size_t length = colon ? (size_t)(colon - listen) : sizeof text;
    *bytes = 0;
    memset(a, 0, sizeof *a);
    if (length >= sizeof text || !cfg_parse_u64(colon + 1, &port) || port > 65535) return false;
    memcpy(text, listen, length);
    text[length] = 0;
    if (text[0] == '[' && text[length - 1] == ']') {
        text[length - 1] = 0;
        *bytes = sizeof a->six;
        a->six.sin6_family = AF_INET6;
        a->six.sin6_port = htons((uint16_t)port);
        return inet_pton(AF_INET6, text + 1, &a->six.sin6_addr) == 1;
    }
    *bytes = sizeof a->four;
    a->four.sin_family = AF_INET;
    a->four.sin_port = htons((uint16_t)port);
    return inet_pton(AF_INET, strcmp(text, "localhost") == 0 ? "127.0.0.1" : text, &a->four.sin_addr) == 1;
}

static status address_parse(const char *flag, const char *listen, union address *a, int *bytes)
{
    if (address_read(listen, a, bytes)) return ST_OK;
    FAIL(USAGE, "%s: expected ADDR:PORT in numbers, such as 127.0.0.1:8080 or [::1]:8080, found \"%.100s\"", flag,
         listen);
}

status http_is_loopback(const char *flag, const char *listen, bool *is_loopback)
{
    union address a;
    int bytes;
    TRY(address_parse(flag, listen, &a, &bytes));
    *is_loopback = a.any.sa_family == AF_INET ? ntohl(a.four.sin_addr.s_addr) >> 24 == 127
                                              : IN6_IS_ADDR_LOOPBACK(&a.six.sin6_addr) != 0;
    return ST_OK;
}

static void address_tell(struct http *h)
{
    union address a;
    socklen_t bytes = sizeof a;
    char text[INET6_ADDRSTRLEN] = "";
    if (getsockname(evconnlistener_get_fd(h->listener), &a.any, &bytes) != 0) return;
    const bool is_six = a.any.sa_family == AF_INET6;
    (void)inet_ntop(a.any.sa_family, is_six ? (void *)&a.six.sin6_addr : (void *)&a.four.sin_addr, text, sizeof text);
    snprintf(h->address, sizeof h->address, is_six ? "[%s]:%u" : "%s:%u", text,
             ntohs(is_six ? a.six.sin6_port : a.four.sin_port));
}

/* Raises the limit of descriptors to what the connections need; or, where their number is not given,
 * sets it to what the limit allows. */
static status fds_plan(struct http *h)
{
    struct rlimit limit;
    struct http_options *o = &h->options;
    const bool is_given = o->connection_max > 0;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        FAIL(SYSTEM, "cannot raise the limit of descriptors: %s", strerror(errno));
    const rlim_t wanted = (rlim_t)(is_given ? o->connection_max : o->connection_most) + OTHER_FDS;
    if (limit.rlim_cur < wanted) {
        limit.rlim_cur = limit.rlim_max < wanted ? limit.rlim_max : wanted;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
    if (limit.rlim_cur < wanted && (is_given || limit.rlim_cur <= OTHER_FDS))
        FAIL(USAGE,
             "%s: %u connections need %llu descriptors, and this process may have %llu; "
             "raise the limit with ulimit -n%s",
             o->flag, is_given ? o->connection_max : o->connection_most, (unsigned long long)wanted,
             (unsigned long long)limit.rlim_cur, o->fewer ? o->fewer : "");
    if (!is_given) o->connection_max = (uint32_t)((limit.rlim_cur < wanted ? limit.rlim_cur : wanted) - OTHER_FDS);
    const rlim_t most = limit.rlim_cur < FDS_MOST ? limit.rlim_cur : FDS_MOST;
    h->fd_max = o->connection_max + OTHER_FDS > most ? o->connection_max + OTHER_FDS : (uint32_t)most;
    h->by_fd = calloc(h->fd_max, sizeof *h->by_fd);
    if (h->by_fd == NULL) FAIL(MEMORY, "no memory for %u connections", o->connection_max);
    return ST_OK;
}

static status server_open(struct http *h)
{
    const struct http_options *o = &h->options;
    union address address;
    int bytes;
    TRY(address_parse(o->flag, o->listen, &address, &bytes));
    TRY(fds_plan(h));
    h->server = evhttp_new(o->base);
    h->adopt = event_new(o->base, -1, 0, on_adopt, h);
    h->sweep = event_new(o->base, -1, EV_PERSIST, on_sweep, h);
    if (h->server == NULL || h->adopt == NULL || h->sweep == NULL) FAIL(MEMORY, "no memory for a server");
    evhttp_set_gencb(h->server, on_request, h);
    evhttp_set_bevcb(h->server, on_accept, h);
    evhttp_set_default_content_type(h->server, NULL);
    evhttp_set_allowed_methods(h->server, EVHTTP_REQ_GET | EVHTTP_REQ_HEAD | EVHTTP_REQ_POST);
    evhttp_set_max_headers_size(h->server, HEADERS_BYTES);
    evhttp_set_max_body_size(h->server, (ev_ssize_t)o->body_max);
    /* Reads the rest of a body that is too large: else its client finds the connection cut, and no answer. */
    (void)evhttp_set_flags(h->server, EVHTTP_SERVER_LINGERING_CLOSE);
    /* One timeout for all connections: libevent then needs no heap of times. */
    const struct timeval *idle = event_base_init_common_timeout(o->base, &(struct timeval){.tv_sec = o->idle_s});
    if (idle == NULL) FAIL(MEMORY, "no memory for a server");
    evhttp_set_timeout_tv(h->server, idle);
    h->listener =
        evconnlistener_new_bind(o->base, NULL, NULL, LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC | LEV_OPT_REUSEABLE,
                                BACKLOG, &address.any, bytes);
    if (h->listener == NULL || evhttp_bind_listener(h->server, h->listener) == NULL)
        FAIL(SYSTEM, "%s %s: %s", o->flag, o->listen, strerror(errno));
    address_tell(h);
    CHECK(event_add(h->sweep, &(struct timeval){.tv_sec = 1}) == 0);
    return ST_OK;
}

status http_open(struct http **out, const struct http_options *o)
{
    struct http *h = calloc(1, sizeof *h);
    *out = NULL;
    if (h == NULL) FAIL(MEMORY, "no memory for a server");
    h->options = *o;
    h->sweeps = 1;
    status st = server_open(h);
    if (st != ST_OK)
        http_close(h);
    else
        *out = h;
    return st;
}

void http_close(struct http *h)
{
    if (h == NULL) return;
    h->listener = NULL; /* the server frees it */
    if (h->server) evhttp_free(h->server);
    if (h->fresh) on_adopt(-1, 0, h);
    if (h->adopt) event_free(h->adopt);
    if (h->sweep) event_free(h->sweep);
    free(h->by_fd);
    free(h);
}

const char *http_address(const struct http *h) { return h->address; }

void http_drain(struct http *h)
{
    if (h->listener) (void)evconnlistener_disable(h->listener);
    h->is_drained = true;
    h->listener = NULL;
}

uint32_t http_busy_count(const struct http *h)
{
    uint32_t count = 0;
    for (const struct connection *c = h->all; c; c = c->next) count += c->owes_since != 0 || c->is_asking;
    return count;
}

uint32_t http_connection_count(const struct http *h) { return h->count; }
uint32_t http_asking_count(const struct http *h) { return h->asking; }
uint32_t http_connection_max(const struct http *h) { return h->options.connection_max; }
size_t http_held_bytes(const struct http *h) { return h->held; }
void http_hold(struct http *h, int64_t bytes) { h->held += (size_t)bytes; }
