/* onnxruntime behind the loop that `heterps-run serve` has, too: libevent answers POST /predict with the
 * predictions of a net that `export --format onnx` wrote of a model of Criteo's columns with one loss, each
 * request by itself. What tests/bench/serve_bench compares with:
 *
 *     cc -O3 -march=native -o serve_onnx tests/others/serve_onnx.c -levent_extra -levent_core -lxxhash -ldl
 *     OTHER='./serve_onnx libonnxruntime.so.1.32.0 model.onnx' build/release/tests/bench/serve_bench …
 *
 * The library is that of the package onnxruntime of pip, which has no headers: functions are called by their
 * places in struct OrtApi, which only grows from version to version. One thread, all optimisations. Text is
 * read as simply and as fast as it can be: no line is checked. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <event2/buffer.h>
#include <event2/event.h>
#include <event2/http.h>
#include <math.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <xxhash.h>

#define NUMBERS  13
#define FIELDS   26
#define EXAMPLES 4096
enum {
    GET_ERROR_MESSAGE = 2,
    CREATE_ENV = 3,
    CREATE_SESSION = 7,
    RUN = 9,
    CREATE_OPTIONS = 10,
    SET_THREADS = 24,
    CREATE_TENSOR = 49,
    CREATE_MEMORY = 69
};
enum { IS_FLOAT = 1, IS_INT64 = 7 };

static void *const *api;
static void *session, *memory;
static const char *output_name;
static uint64_t seed[FIELDS];
static float number[NUMBERS][EXAMPLES], answer[EXAMPLES];
static int64_t key[FIELDS][EXAMPLES];

static void must(bool condition, const char *what)
{
    if (condition) return;
    fprintf(stderr, "serve_onnx: %s\n", what);
    exit(1);
}

static void done(void *status)
{
    if (status) must(false, ((const char *(*)(const void *))api[GET_ERROR_MESSAGE])(status));
}

static void *tensor(void *data, size_t bytes, int64_t count, int type)
{
    void *value;
    const int64_t shape[] = {count, 1};
    done(((void *(*)(void *, void *, size_t, const int64_t *, size_t, int, void **))api[CREATE_TENSOR])(
        memory, data, bytes, shape, 2, type, &value));
    return value;
}

/* Tensors of `count` examples, made once for each number of examples. */
struct tensors {
    void *in[NUMBERS + FIELDS], *out;
};
static struct tensors *tensors_of(int64_t count)
{
    static struct tensors *all[EXAMPLES + 1];
    if (all[count]) return all[count];
    struct tensors *t = all[count] = calloc(1, sizeof *t);
    for (int i = 0; i < NUMBERS; i++) t->in[i] = tensor(number[i], sizeof(float) * (size_t)count, count, IS_FLOAT);
    for (int i = 0; i < FIELDS; i++)
        t->in[NUMBERS + i] = tensor(key[i], sizeof(int64_t) * (size_t)count, count, IS_INT64);
    t->out = tensor(answer, sizeof(float) * (size_t)count, count, IS_FLOAT);
    return t;
}

static void run(int64_t count)
{
    static const char *names[NUMBERS + FIELDS];
    static char texts[NUMBERS + FIELDS][8];
    for (int i = 0; i < NUMBERS + FIELDS && names[NUMBERS + FIELDS - 1] == NULL; i++) {
        snprintf(texts[i], sizeof texts[i], i < NUMBERS ? "I%d" : "C%d", i < NUMBERS ? i + 1 : i - NUMBERS + 1);
        names[i] = texts[i];
    }
    struct tensors *t = tensors_of(count);
    done(((void *(*)(void *, void *, const char *const *, void *const *, size_t, const char *const *, size_t,
                     void **))api[RUN])(session, NULL, names, t->in, NUMBERS + FIELDS, &output_name, 1, &t->out));
}

/* A line into example n; returns what comes behind it. */
static const char *line_read(const char *at, const char *end, int64_t n)
{
    at = (const char *)memchr(at, '\t', (size_t)(end - at)) + 1; /* behind the label */
    for (int i = 0; i < NUMBERS; i++, at++) {
        const char *from = at;
        bool is_negative = at < end && *at == '-';
        long value = 0;
        for (at += is_negative; at < end && *at != '\t'; at++) value = value * 10 + (*at - '0');
        number[i][n] = at == from ? NAN : (float)(is_negative ? -value : value);
    }
    for (int i = 0; i < FIELDS; i++) {
        const char *from = at;
        while (at < end && *at != '\t' && *at != '\n') at++;
        key[i][n] = at == from ? 0 : (int64_t)XXH3_64bits_withSeed(from, (size_t)(at - from), seed[i]);
        if (at < end) at++;
    }
    return at;
}

static void on_request(struct evhttp_request *request, void *unused)
{
    struct evbuffer *in = evhttp_request_get_input_buffer(request), *out = evbuffer_new();
    const size_t bytes = evbuffer_get_length(in);
    const char *at = (const char *)evbuffer_pullup(in, -1), *end = at + bytes;
    int64_t count = 0;
    (void)unused;
    for (; at < end && count < EXAMPLES; count++) at = line_read(at, end, count);
    run(count);
    for (int64_t n = 0; n < count; n++) {
        char text[32];
        evbuffer_add(out, text, (size_t)snprintf(text, sizeof text, "%.9g\n", (double)answer[n]));
    }
    evhttp_add_header(evhttp_request_get_output_headers(request), "Content-Type", "text/plain");
    evhttp_send_reply(request, 200, "OK", out);
    evbuffer_free(out);
}

/* The seeds of keys are notes of the model's file: a key, and behind it a field of its value. */
static void seeds_read(const char *path)
{
    FILE *file = fopen(path, "rb");
    must(file != NULL, path);
    fseek(file, 0, SEEK_END);
    const size_t bytes = (size_t)ftell(file);
    rewind(file);
    char *text = malloc(bytes + 1);
    must(text && fread(text, 1, bytes, file) == bytes, path);
    text[bytes] = 0;
    fclose(file);
    for (int i = 0; i < FIELDS; i++) {
        char name[40];
        const int name_bytes = snprintf(name, sizeof name, "heterps.seed.C%d\x12", i + 1);
        const char *found = memmem(text, bytes, name, (size_t)name_bytes);
        must(found != NULL, "a field without a seed");
        seed[i] = strtoull(found + name_bytes + 1, NULL, 10); /* behind its length */
    }
    free(text);
}

static void session_open(const char *library, const char *path)
{
    void *handle = dlopen(library, RTLD_NOW), *env, *options;
    must(handle != NULL, dlerror());
    struct {
        const void *(*get)(uint32_t version);
    } * (*base)(void) = dlsym(handle, "OrtGetApiBase");
    must(base != NULL, "no OrtGetApiBase");
    api = base()->get(10);
    must(api != NULL, "no interface of version 10");
    done(((void *(*)(int, const char *, void **))api[CREATE_ENV])(3, "serve_onnx", &env));
    done(((void *(*)(void **))api[CREATE_OPTIONS])(&options));
    done(((void *(*)(void *, int))api[SET_THREADS])(options, 1));
    done(((void *(*)(void *, const char *, void *, void **))api[CREATE_SESSION])(env, path, options, &session));
    done(((void *(*)(int, int, void **))api[CREATE_MEMORY])(1, 0, &memory));
}

int main(int argument_count, char **arguments)
{
    must(argument_count >= 3, "serve_onnx LIBONNXRUNTIME MODEL.onnx [OUTPUT]");
    output_name = argument_count > 3 ? arguments[3] : "bce";
    seeds_read(arguments[2]);
    session_open(arguments[1], arguments[2]);
    struct event_base *events = event_base_new();
    struct evhttp *http = evhttp_new(events);
    struct evhttp_bound_socket *bound = evhttp_bind_socket_with_handle(http, "127.0.0.1", 0);
    struct sockaddr_in address;
    socklen_t bytes = sizeof address;
    must(bound && getsockname(evhttp_bound_socket_get_fd(bound), (struct sockaddr *)&address, &bytes) == 0,
         "no socket");
    evhttp_set_gencb(http, on_request, NULL);
    fprintf(stderr, "http://127.0.0.1:%u\n", ntohs(address.sin_port));
    return event_base_dispatch(events);
}
