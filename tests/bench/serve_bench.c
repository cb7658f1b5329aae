/* What serving costs: `heterps-run serve` beside a server of libevent that answers a constant,
 * and beside `predict` from a file.
 *
 *     ./build.sh bench && build/release/tests/bench/serve_bench PROGRAM GRAPH MODEL DATA [SECONDS]
 *     OTHER='./serve_onnx LIBONNXRUNTIME MODEL.onnx' …     with tests/others/serve_onnx.c, too
 *
 * Servers have one core, the client another. Turns of SECONDS (2) alternate, and the middle of TURNS of them
 * is told. Compare figures of one run alone. DATA are lines of a format without a line of names.
 *
 *     client, 64 connections ──single lines──▶ constant | serve        requests a second, times
 *     the same at half of serve's rate                                 times, from when a request should have gone
 *     client, 4 connections  ──256 lines each──▶ serve | other         lines a second, of predict's, and of the other's
 *     client, 64 connections ──single lines──▶ serve | other           requests a second
 *     client, 64 connections ──single lines──▶ serve --learn           answers a second of serve; another posts
 */
#include <errno.h>
#include <event2/buffer.h>
#include <event2/event.h>
#include <event2/http.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/clock.h"

#define TURNS          5
#define CONNECTIONS    64u
#define MANY           256u
#define REQUESTS_MAX   4096u
#define TIMES_MAX      (1u << 22)
#define SECOND_NS      UINT64_C(1000000000)
#define HEAD_BYTES_MAX 4096u

static void must(bool condition, const char *what)
{
    if (condition) return;
    fprintf(stderr, "serve_bench: %s: %s\n", what, strerror(errno));
    exit(1);
}

/* --- servers ---------------------------------------------------------------------------------- */

static int core_server, core_client;

static void pin(int core)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(core, &set);
    must(sched_setaffinity(0, sizeof set, &set) == 0, "pinning");
}

static void cores_choose(void)
{
    cpu_set_t set;
    must(sched_getaffinity(0, sizeof set, &set) == 0, "cores");
    core_server = core_client = -1;
    for (int i = 0; i < CPU_SETSIZE; i++) {
        if (!CPU_ISSET(i, &set)) continue;
        if (core_server >= 0 && core_client < 0) core_client = i;
        if (core_server < 0) core_server = i;
    }
    must(core_client >= 0, "two cores are needed");
}

struct server {
    pid_t pid;
    uint16_t port;
};

static void constant_answer(struct evhttp_request *request, void *unused)
{
    static const char text[] = "0.106322766\n";
    struct evbuffer *body = evbuffer_new();
    (void)unused;
    evbuffer_add(body, text, sizeof text - 1);
    evhttp_add_header(evhttp_request_get_output_headers(request), "Content-Type", "text/plain");
    evhttp_send_reply(request, 200, "OK", body);
    evbuffer_free(body);
}

static struct server constant_start(void)
{
    struct server s = {0};
    struct event_base *base = event_base_new();
    struct evhttp *http = evhttp_new(base);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t bytes = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    must(fd >= 0 && bind(fd, (struct sockaddr *)&address, bytes) == 0 && listen(fd, 1024) == 0, "listening");
    must(getsockname(fd, (struct sockaddr *)&address, &bytes) == 0, "the address");
    evhttp_set_gencb(http, constant_answer, NULL);
    must(evhttp_accept_socket(http, fd) == 0, "accepting");
    s.port = ntohs(address.sin_port);
    s.pid = fork();
    must(s.pid >= 0, "fork");
    if (s.pid > 0) return s;
    event_reinit(base);
    pin(core_server);
    event_base_dispatch(base);
    _exit(0);
}

/* A program that says its address; NULL ends the arguments. */
static struct server program_start(const char *const *arguments)
{
    struct server s = {0};
    int pipes[2];
    char line[512];
    must(pipe(pipes) == 0, "pipe");
    s.pid = fork();
    must(s.pid >= 0, "fork");
    if (s.pid == 0) {
        pin(core_server);
        dup2(pipes[1], STDERR_FILENO);
        execv(arguments[0], (char *const *)(uintptr_t)arguments);
        _exit(127);
    }
    close(pipes[1]);
    FILE *said = fdopen(pipes[0], "r");
    while (s.port == 0 && fgets(line, sizeof line, said)) {
        const char *at = strstr(line, "http://127.0.0.1:");
        if (at) s.port = (uint16_t)atoi(at + 17);
    }
    must(s.port != 0, "the server does not start");
    return s; /* what else the server says goes to the pipe, which has room for it */
}

static struct server serve_start(const char *program, const char *graph, const char *model)
{
    return program_start(
        (const char *const[]){program, "serve", graph, "--model", model, "--listen", "127.0.0.1:0", NULL});
}

static void server_end(struct server s)
{
    kill(s.pid, SIGTERM);
    waitpid(s.pid, NULL, 0);
}

/* --- requests --------------------------------------------------------------------------------- */

static char *request[REQUESTS_MAX];
static size_t request_bytes[REQUESTS_MAX];
static uint32_t request_count;

static char *data;
static size_t data_bytes;
static uint64_t data_lines;

static void data_read(const char *path)
{
    FILE *file = fopen(path, "rb");
    must(file != NULL, path);
    fseek(file, 0, SEEK_END);
    data_bytes = (size_t)ftell(file);
    rewind(file);
    data = malloc(data_bytes + 1);
    must(data && fread(data, 1, data_bytes, file) == data_bytes, path);
    fclose(file);
    for (size_t i = 0; i < data_bytes; i++) data_lines += data[i] == '\n';
}

/* Makes requests of `lines` lines each from all data, at most REQUESTS_MAX. */
static void requests_make(const char *to, uint32_t lines)
{
    const char *at = data, *end = data + data_bytes;
    for (uint32_t i = 0; i < request_count; i++) free(request[i]);
    for (request_count = 0; request_count < REQUESTS_MAX && at < end; request_count++) {
        const char *from = at;
        for (uint32_t i = 0; i < lines && at < end; i++) {
            const char *stop = memchr(at, '\n', (size_t)(end - at));
            at = stop ? stop + 1 : end;
        }
        char head[256];
        const int head_bytes = snprintf(
            head, sizeof head, "POST /%s HTTP/1.1\r\nHost: a\r\nContent-Length: %zu\r\n\r\n", to, (size_t)(at - from));
        request_bytes[request_count] = (size_t)head_bytes + (size_t)(at - from);
        request[request_count] = malloc(request_bytes[request_count]);
        must(request[request_count] != NULL, "memory");
        memcpy(request[request_count], head, (size_t)head_bytes);
        memcpy(request[request_count] + head_bytes, from, (size_t)(at - from));
    }
}

/* --- the client ------------------------------------------------------------------------------- */

struct connection {
    int fd;
    bool is_waiting;
    uint64_t begin_ns;
    char head[HEAD_BYTES_MAX];
    size_t held;   /* bytes of the head so far */
    uint64_t left; /* of the body              */
    bool has_head;
    uint32_t number; /* of its request            */
};

static struct connection connections[CONNECTIONS];
static uint64_t *times;
static uint32_t time_count, next_request;

static int connect_to(uint16_t port)
{
    static const int on = 1;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    must(fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) == 0, "connecting");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return fd;
}

/* Blocks until all is sent: requests fit a socket, or the server reads them at once. */
static void send_next(struct connection *c, uint64_t begin_ns)
{
    c->number = next_request++ % request_count;
    c->begin_ns = begin_ns;
    c->is_waiting = true;
    for (size_t sent = 0; sent < request_bytes[c->number];) {
        const ssize_t got = send(c->fd, request[c->number] + sent, request_bytes[c->number] - sent, MSG_NOSIGNAL);
        must(got > 0, "sending");
        sent += (size_t)got;
    }
}

/* Reads what is there; returns whether the answer is complete. */
static bool receive(struct connection *c)
{
    static char body[1 << 16];
    for (;;) {
        char *to = c->has_head ? body : c->head + c->held;
        const size_t room = c->has_head ? sizeof body : sizeof c->head - 1 - c->held;
        const ssize_t got = recv(c->fd, to, room, MSG_DONTWAIT);
        if (got < 0 && errno == EAGAIN) return false;
        must(got > 0, "receiving");
        uint64_t of_body = (uint64_t)got;
        if (!c->has_head) {
            c->held += (size_t)got;
            c->head[c->held] = 0;
            const char *end = strstr(c->head, "\r\n\r\n"), *length = strcasestr(c->head, "Content-Length: ");
            must(end || c->held < sizeof c->head - 1, "the head of an answer");
            if (end == NULL) continue;
            must(strncmp(c->head, "HTTP/1.1 200 ", 13) == 0 && length, "an answer other than 200");
            c->left = strtoull(length + 16, NULL, 10);
            c->has_head = true;
            of_body = c->held - (size_t)(end + 4 - c->head);
        }
        c->left -= of_body;
        if (c->left) continue;
        c->has_head = c->is_waiting = false;
        c->held = 0;
        return true;
    }
}

/* Asks over `count` connections for `seconds`. A connection asks again as soon as it has its answer;
 * or, with a rate, a free connection asks when a request is due, and the request waits while none is
 * free. Returns answers a second. */
static double ask(struct server s, uint32_t count, double seconds, double rate)
{
    struct epoll_event events[CONNECTIONS];
    int poll = epoll_create1(0);
    time_count = 0;
    for (uint32_t i = 0; i < count; i++) {
        connections[i] = (struct connection){.fd = connect_to(s.port)};
        epoll_ctl(poll, EPOLL_CTL_ADD, connections[i].fd, &(struct epoll_event){.events = EPOLLIN, .data.u32 = i});
    }
    const uint64_t begin = clock_ns(), end = begin + (uint64_t)(seconds * 1e9);
    uint64_t due = begin, answered = 0;
    const uint64_t step = rate > 0 ? (uint64_t)(1e9 / rate) : 0;
    for (uint64_t now = begin; now < end; now = clock_ns()) {
        for (uint32_t i = 0; i < count && (step == 0 || due <= now); i++) {
            if (connections[i].is_waiting) continue;
            send_next(&connections[i], step ? due : clock_ns());
            due += step;
        }
        const int ready = epoll_wait(poll, events, CONNECTIONS, step ? 0 : 100);
        for (int i = 0; i < ready; i++) {
            struct connection *c = &connections[events[i].data.u32];
            if (!receive(c)) continue;
            answered++;
            if (time_count < TIMES_MAX) times[time_count++] = clock_ns() - c->begin_ns;
            if (step == 0) send_next(c, clock_ns());
        }
    }
    const double took = (double)(clock_ns() - begin) * 1e-9;
    for (uint32_t i = 0; i < count; i++) close(connections[i].fd);
    close(poll);
    return (double)answered / took;
}

/* --- figures ---------------------------------------------------------------------------------- */

static int times_compare(const void *one, const void *other)
{
    const uint64_t first = *(const uint64_t *)one, second = *(const uint64_t *)other;
    return (first > second) - (first < second);
}

static int doubles_compare(const void *one, const void *other)
{
    const double a = *(const double *)one, b = *(const double *)other;
    return (a > b) - (a < b);
}

static double middle(double *values)
{
    qsort(values, TURNS, sizeof *values, doubles_compare);
    return values[TURNS / 2];
}

/* A quantile of the last turn's times, in milliseconds. */
static double quantile(double share)
{
    if (time_count == 0) return 0;
    qsort(times, time_count, sizeof *times, times_compare);
    return (double)times[(size_t)(share * (time_count - 1))] * 1e-6;
}

struct figures {
    double rate[TURNS], half[TURNS], p99[TURNS];
};

static void turn(struct server s, struct figures *f, int i, double seconds, double rate)
{
    const double found = ask(s, CONNECTIONS, seconds, rate);
    if (rate > 0) {
        f->half[i] = quantile(0.5);
        f->p99[i] = quantile(0.99);
    } else {
        f->rate[i] = found;
    }
}

/* Lines a second that predict computes from the file, its start included. */
static double predict_once(const char *program, const char *graph, const char *model, const char *path)
{
    const uint64_t begin = clock_ns();
    pid_t pid = fork();
    int status;
    must(pid >= 0, "fork");
    if (pid == 0) {
        pin(core_server);
        execl(program, program, "predict", graph, "--model", model, "--data", path, "-o", "/dev/null", "-q",
              (char *)NULL);
        _exit(127);
    }
    must(waitpid(pid, &status, 0) == pid && status == 0, "predict");
    return (double)data_lines / ((double)(clock_ns() - begin) * 1e-9);
}

/* The second of two runs: where a host takes back what is free, the first one waits for memory. */
static double predict_rate(const char *program, const char *graph, const char *model, const char *path)
{
    (void)predict_once(program, graph, model, path);
    return predict_once(program, graph, model, path);
}

static void singles_tell(struct server serve, struct server other, double seconds)
{
    double served[TURNS], others[TURNS];
    requests_make("predict", 1);
    for (int i = 0; i < TURNS; i++) {
        served[i] = ask(serve, CONNECTIONS, seconds, 0);
        others[i] = ask(other, CONNECTIONS, seconds, 0);
    }
    const double of_serve = middle(served), of_other = middle(others);
    printf("single lines, 64 connections        serve %9.0f answers/s other   %9.0f answers/s %.2f of the other\n",
           of_serve, of_other, of_serve / of_other);
}

static void lines_tell(const char *program, const char *graph, const char *model, const char *path, struct server serve,
                       double seconds)
{
    double served[TURNS], predicted[TURNS], others[TURNS];
    const char *command = getenv("OTHER");
    struct server other = {0};
    char shell[1024];
    snprintf(shell, sizeof shell, "exec %s", command ? command : "");
    if (command) other = program_start((const char *const[]){"/bin/sh", "-c", shell, NULL});
    requests_make("predict", MANY);
    for (int i = 0; i < TURNS; i++) {
        served[i] = ask(serve, 4, seconds, 0) * MANY;
        predicted[i] = predict_rate(program, graph, model, path);
        if (command) others[i] = ask(other, 4, seconds, 0) * MANY;
    }
    if (command) {
        const double of_other = middle(others), of_all = middle(served);
        printf("%u lines a request, 4 connections   serve %9.0f lines/s   other   %9.0f lines/s   %.2f of the other\n",
               MANY, of_all, of_other, of_all / of_other);
        singles_tell(serve, other, seconds);
        server_end(other);
    }
    const double of_serve = middle(served), of_predict = middle(predicted);
    printf("%u lines a request, 4 connections   serve %9.0f lines/s   predict %9.0f lines/s   %.2f of predict\n", MANY,
           of_serve, of_predict, of_serve / of_predict);
}

/* Starts a process that posts lines to learn from, until it is ended. */
static pid_t teacher_start(struct server s)
{
    const pid_t pid = fork();
    must(pid >= 0, "fork");
    if (pid > 0) return pid;
    requests_make("learn", MANY);
    (void)ask(s, 1, 1e6, 0);
    _exit(0);
}

/* Sequence number of the last example that a server has learned from. */
static double learned(struct server s)
{
    static const char text[] = "GET /metrics HTTP/1.0\r\n\r\n", name[] = "\nheterps_learn_learned{";
    static char answer[1 << 16];
    size_t held = 0;
    const int fd = connect_to(s.port);
    must(send(fd, text, sizeof text - 1, MSG_NOSIGNAL) == (ssize_t)sizeof text - 1, "sending");
    for (ssize_t got; (got = recv(fd, answer + held, sizeof answer - 1 - held, 0)) > 0;) held += (size_t)got;
    answer[held] = 0;
    close(fd);
    const char *at = strstr(answer, name), *value = at ? strchr(at, ' ') : NULL;
    must(value != NULL, "no figures of learning");
    return atof(value);
}

/* Single lines, asked of a server alone, and of a server that meanwhile learns as fast
 * as it can on the same core. */
static void learning_tell(const char *program, const char *graph, const char *model, struct server serve,
                          double seconds)
{
    double alone[TURNS], beside[TURNS], rate[TURNS];
    char copy[] = "/tmp/serve_bench.XXXXXX", command[4096];
    must(mkdtemp(copy) != NULL, "a folder");
    snprintf(command, sizeof command, "cp -r '%s' %s/model", model, copy);
    must(system(command) == 0, "copying the model");
    snprintf(command, sizeof command, "%s/model", copy);
    const struct server learns =
        program_start((const char *const[]){program, "serve", graph, "--model", command, "--listen", "127.0.0.1:0",
                                            "--learn", "--set", "serve.publish=100000", NULL});
    requests_make("predict", 1);
    for (int i = 0; i < TURNS; i++) {
        alone[i] = ask(serve, CONNECTIONS, seconds, 0);
        const pid_t teacher = teacher_start(learns);
        const double before = learned(learns);
        beside[i] = ask(learns, CONNECTIONS, seconds, 0);
        rate[i] = (learned(learns) - before) / seconds;
        kill(teacher, SIGKILL);
        waitpid(teacher, NULL, 0);
    }
    const double of_alone = middle(alone), of_beside = middle(beside);
    printf("single lines, learning beside       serve %9.0f answers/s, and %.0f examples/s learned; "
           "alone %9.0f   %.2f of alone\n",
           of_beside, middle(rate), of_alone, of_beside / of_alone);
    server_end(learns);
    snprintf(command, sizeof command, "rm -r %s", copy);
    must(system(command) == 0, "removing the copy");
}

int main(int count, char **arguments)
{
    if (count < 5) {
        fprintf(stderr, "serve_bench PROGRAM GRAPH MODEL DATA [SECONDS]\n");
        return 2;
    }
    const double seconds = count > 5 ? atof(arguments[5]) : 2;
    struct figures constant, serve;
    cores_choose();
    times = malloc(TIMES_MAX * sizeof *times);
    must(times != NULL, "memory");
    data_read(arguments[4]);
    const struct server constants = constant_start(), served = serve_start(arguments[1], arguments[2], arguments[3]);
    pin(core_client);
    requests_make("predict", 1);
    for (int i = 0; i < TURNS; i++) {
        turn(constants, &constant, i, seconds, 0);
        turn(served, &serve, i, seconds, 0);
    }
    const double of_constant = middle(constant.rate), of_serve = middle(serve.rate);
    printf("single lines, %u connections        serve %9.0f answers/s constant %9.0f answers/s %.2f of constant\n",
           CONNECTIONS, of_serve, of_constant, of_serve / of_constant);
    for (int i = 0; i < TURNS; i++) {
        turn(constants, &constant, i, seconds, of_serve / 2);
        turn(served, &serve, i, seconds, of_serve / 2);
    }
    printf("at %6.0f a second                   serve %6.2f ms half, %6.2f ms p99   "
           "constant %6.2f ms half, %6.2f ms p99\n",
           of_serve / 2, middle(serve.half), middle(serve.p99), middle(constant.half), middle(constant.p99));
    lines_tell(arguments[1], arguments[2], arguments[3], arguments[4], served, seconds);
    learning_tell(arguments[1], arguments[2], arguments[3], served, seconds);
    server_end(constants);
    server_end(served);
    return 0;
}
