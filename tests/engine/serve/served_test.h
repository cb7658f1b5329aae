/* What tests of a whole server share: a small model in two saves, the server in a process of its own, and a
 * client that sends bytes and keeps what comes. Include after cmocka.h. */
#ifndef HETERPS_TESTS_ENGINE_SERVE_SERVED_TEST_H
#define HETERPS_TESTS_ENGINE_SERVE_SERVED_TEST_H

#include <arpa/inet.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "engine/base/log.h"
#include "engine/model/lean.h"
#include "engine/model/model.h"
#include "engine/serve/serve.h"
#include "io/store/store_rows.h"
#include "tests/engine/fixture_files.h"

/* y = wa a + wb b + c, and a job without a row is a vector of zeros. */
static const char served_text[] = "[model]\nname = line\n"
                                  "[data]\nformat = csv\ndense = a, b\nsparse = job\ntransform = none\n"
                                  "[table emb]\ndim = 2\noptimizer = adagrad 0.1\n"
                                  "[embedding e]\ntable = emb\ninput = job\npool = sum\n"
                                  "[concat x]\ninput = dense, e\n"
                                  "[fc y]\ninput = x\nunits = 1\n"
                                  "[loss bce]\ninput = y\nlabel = label\n"
                                  "[train]\nbatch = 8\noptimizer = sgd 0.01\n"
                                  "[serve]\nbody = 4KiB\nwait = 0.1\nvalues = 40\n"
                                  "[store]\nram = 1MiB\n";

struct served_weights {
    float a, b, c;
};
static const struct served_weights served_weights_old = {0.5f, -0.25f, 0.125f}, served_weights_new = {1, 2, -3};

/* Compiles the graph with an assignment (NULL: none) into a file of the test's directory. */
FIXTURE static void served_compile(struct graph *graph, const char *name, const char *assignment)
{
    assert_ok(
        graph_compile(graph, "line.cfg", served_text, sizeof served_text - 1, &assignment, assignment != NULL, NULL));
    assert_ok(graph_write(graph, fixture_path(name)));
}

/* A model with these weights, and two rows, after that step. */
FIXTURE static void served_make(struct graph *graph, struct model *model, uint64_t step, struct served_weights w)
{
    float *span;
    served_compile(graph, "line.bin", NULL);
    assert_ok(model_open(model, graph, &(struct model_budget){.ram_bytes = 1 << 20}));
    model_init(model);
    for (uint32_t i = 0; i < graph->tensor_count; i++) {
        const struct graph_tensor *t = &graph->tensors[i];
        float *at = model->param + t->offset;
        if (t->kind != TENSOR_PARAM) continue;
        if (t->rows * t->cols == 1)
            at[0] = w.c;
        else
            at[0] = w.a, at[1] = w.b;
    }
    for (uint64_t key = 1; key <= 2; key++) assert_ok(store_insert(model->store, 0, key, &span));
    model->progress.step = step;
}

/* Saves it in a directory. */
FIXTURE static void served_save(const char *directory, uint64_t step, struct served_weights w)
{
    struct graph graph;
    struct model model;
    served_make(&graph, &model, step, w);
    assert_ok(model_dir_check(&graph, directory));
    assert_ok(model_save(&model, &(struct model_save_options){.path = directory, .keep = 3}, NULL));
    model_close(&model);
    graph_close(&graph);
}

/* Exports it into a file. */
FIXTURE static void served_export(const char *path, uint64_t step, struct served_weights w)
{
    struct graph graph;
    struct model model;
    struct lean_written written;
    served_make(&graph, &model, step, w);
    assert_ok(lean_write(&model, &(struct lean_options){.path = path}, &written));
    model_close(&model);
    graph_close(&graph);
}

/* The directory of the program, with the model in saves 10 and 20; its paths stay. */
static char served_directory[512], served_graph[512];
FIXTURE static int served_open(void **state)
{
    (void)state;
    if (fixture_directory_make("test_serve") != 0) return -1;
    snprintf(served_directory, sizeof served_directory, "%s", fixture_path("model"));
    snprintf(served_graph, sizeof served_graph, "%s", fixture_path("line.bin"));
    log_open(LOG_TEXT, -1);
    alarm(300); /* what hangs ends the program, and so fails the test */
    served_save(served_directory, 10, served_weights_old);
    served_save(served_directory, 20, served_weights_new);
    return 0;
}

FIXTURE static int served_close(void **state)
{
    (void)state;
    return fixture_directory_remove();
}

/* --- the server ------------------------------------------------------------------------------- */

struct running {
    pid_t pid;
    uint16_t port;
    FILE *events;
};

/* Of the model alone, which is called line. */
FIXTURE static struct serve_options served_options(void)
{
    static const struct serve_model model = {"line", served_graph, served_directory};
    return (struct serve_options){
        .listen = "127.0.0.1:0", .models = &model, .model_count = 1, .idle_s = 60, .patience_s = 30, .threads = 1};
}

/* Starts it, and waits until it listens. */
FIXTURE static struct running served_start(const struct serve_options *options)
{
    struct running r;
    int ends[2];
    char line[4096];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    fflush(NULL);
    r.pid = fork();
    assert_true(r.pid >= 0);
    if (r.pid == 0) {
        alarm(200);
        dup2(ends[1], STDOUT_FILENO);
        log_open(LOG_JSON, -1);
        status st = serve_run(options);
        if (st != ST_OK) fprintf(stderr, "%s\n", status_message());
        exit(st == ST_OK ? 0 : 1);
    }
    close(ends[1]);
    r.events = fdopen(ends[0], "r");
    r.port = 0;
    while (r.port == 0 && fgets(line, sizeof line, r.events)) {
        const char *at = strstr(line, "\"address\":\"127.0.0.1:");
        if (at) r.port = (uint16_t)atoi(at + strlen("\"address\":\"127.0.0.1:"));
    }
    assert_true(r.port != 0);
    return r;
}

/* Ends it as an operator does; its exit status. */
FIXTURE static int served_end(struct running *r)
{
    int how;
    kill(r->pid, SIGTERM);
    assert_int_equal(waitpid(r->pid, &how, 0), r->pid);
    fclose(r->events);
    return WIFEXITED(how) ? WEXITSTATUS(how) : 128 + WTERMSIG(how);
}

/* Of a program whose tests all ask one server of the model alone. */
FIXTURE static struct running server;

FIXTURE static int server_open(void **state)
{
    const struct serve_options o = served_options();
    if (served_open(state) != 0) return -1;
    server = served_start(&o);
    return 0;
}

FIXTURE static int server_close(void **state) { return served_end(&server) | served_close(state); }

/* --- the client ------------------------------------------------------------------------------- */

FIXTURE static int served_connect(const struct running *r)
{
    const struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons(r->port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    static const struct timeval patience = {.tv_sec = 60}; /* then what has come is the answer */
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) == 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

FIXTURE static void served_send(int fd, const char *text, size_t bytes)
{
    assert_int_equal(send(fd, text, bytes, MSG_NOSIGNAL), bytes);
}

/* Reads an answer: up to as many bytes of a body as its header says; in a buffer of its own. */
FIXTURE static const char *served_receive(int fd)
{
    static char text[1 << 17];
    size_t bytes = 0, wanted = sizeof text;
    while (bytes < wanted) {
        ssize_t n = recv(fd, text + bytes, sizeof text - 1 - bytes, 0);
        if (n <= 0) break;
        bytes += (size_t)n;
        text[bytes] = 0;
        const char *body = strstr(text, "\r\n\r\n"), *length = strstr(text, "Content-Length: ");
        if (body && length && length < body)
            wanted = (size_t)(body + 4 - text) + (size_t)atoi(length + strlen("Content-Length: "));
    }
    text[bytes] = 0;
    return text;
}

/* An answer to METHOD PATH with these further header lines, each ended by "\r\n",
 * and this body, on that connection. */
FIXTURE static const char *served_ask_on(int fd, const char *what, const char *headers, const char *body)
{
    static char text[1 << 16];
    int bytes = snprintf(text, sizeof text, "%s HTTP/1.1\r\nHost: here\r\n%sContent-Length: %zu\r\n\r\n%s", what,
                         headers, strlen(body), body);
    assert_true(bytes > 0 && (size_t)bytes < sizeof text);
    served_send(fd, text, (size_t)bytes);
    return served_receive(fd);
}

FIXTURE static const char *served_ask(const struct running *r, const char *what, const char *headers, const char *body)
{
    int fd = served_connect(r);
    const char *answer = served_ask_on(fd, what, headers, body);
    close(fd);
    return answer;
}

/* The answer has this code and, if they are given, this header line and exactly this body. */
FIXTURE static void served_check(const char *answer, int code, const char *header, const char *body)
{
    const char *end = strstr(answer, "\r\n\r\n"), *at = header ? strstr(answer, header) : answer;
    if (strncmp(answer, "HTTP/1.1 ", 9) != 0 || atoi(answer + 9) != code || end == NULL)
        fail_msg("expected %d, found: %s", code, answer);
    if (at == NULL || at > end) fail_msg("expected the header %s, found: %s", header, answer);
    if (body && strcmp(end + 4, body) != 0) fail_msg("expected the body \"%s\", found: %s", body, answer);
}

/* The body has this piece. */
FIXTURE static void served_has(const char *answer, const char *piece)
{
    const char *end = strstr(answer, "\r\n\r\n");
    if (end == NULL || strstr(end, piece) == NULL) fail_msg("expected \"%s\" in: %s", piece, answer);
}

#endif
