/* The Open Inference Protocol, version 2, over HTTP: which models there are, what a model takes and gives,
 * and inference. Errors are objects with a member `error`, as the protocol demands. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/heap.h"
#include "engine/eval/heads.h"
#include "engine/serve/inference.h"
#include "engine/serve/server.h"

#define JSON_TYPE     "application/json"
#define HEADER_LENGTH "Inference-Header-Content-Length"

/* --- answers ---------------------------------------------------------------------------------- */

static void reply_error(struct http *http, struct evhttp_request *request, int code, const char *format, ...)
    PRINTF_LIKE(4, 5);
static void reply_error(struct http *http, struct evhttp_request *request, int code, const char *format, ...)
{
    char why[2048];
    struct evbuffer *body = evbuffer_new();
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why, sizeof why, format, arguments);
    va_end(arguments);
    if (body) {
        evbuffer_add_printf(body, "{\"error\":");
        inference_text_put(body, why, strlen(why));
        evbuffer_add_printf(body, "}\n");
    }
    http_reply(http, request, code, JSON_TYPE, body);
    if (body) evbuffer_free(body);
}

/* --- what there is ---------------------------------------------------------------------------- */

static void server_tell(struct server *s, struct evhttp_request *request)
{
    struct evbuffer *to = evbuffer_new();
    if (to)
        evbuffer_add_printf(to,
                            "{\"name\":\"heterps-run\",\"version\":\"%s\",\"extensions\":[\"binary_tensor_data\"]}\n",
                            HETERPS_VERSION);
    http_reply(s->http, request, to ? 200 : 500, JSON_TYPE, to);
    if (to) evbuffer_free(to);
}

/* The model's outputs, one for each of *count losses. NULL: no memory. */
static struct inference_output *outputs_make(const struct served *m, uint32_t *count)
{
    const struct graph *g = &servant_setup(m->version->servant)->graph;
    struct inference_output *outputs = calloc(g->forward_count + 1, sizeof *outputs);
    const bool is_words = servant_top_max(m->version->servant) > 0;
    *count = 0;
    for (uint32_t i = graph_loss_next(g, 0); outputs && i < g->forward_count; i = graph_loss_next(g, i + 1))
        outputs[(*count)++] =
            (struct inference_output){.name = graph_string(g, g->nodes[i].name),
                                      .width = is_words ? servant_setup(m->version->servant)->settings.eval_top
                                                        : head_predict_count(g, &g->nodes[i]),
                                      .is_texts = is_words};
    return outputs;
}

static void tensor_tell(struct evbuffer *to, const char *before, const char *name, const char *type, uint32_t width,
                        bool is_list)
{
    evbuffer_add_printf(to, "%s{\"name\":", before);
    inference_text_put(to, name, strlen(name));
    evbuffer_add_printf(to, ",\"datatype\":\"%s\",\"shape\":[-1", type);
    if (width > 1 || is_list) evbuffer_add_printf(to, ",%u", width);
    evbuffer_add_printf(to, "]}");
}

static void model_tell(struct server *s, struct served *m, struct evhttp_request *request)
{
    struct evbuffer *to = evbuffer_new();
    uint32_t count;
    struct inference_output *outputs = outputs_make(m, &count);
    if (to == NULL || outputs == NULL) {
        reply_error(s->http, request, 500, "no memory for an answer");
    } else {
        evbuffer_add_printf(to, "{\"name\":\"%s\",\"versions\":[\"%s\"],\"platform\":\"heterps\",\"inputs\":[", m->name,
                            m->version->name);
        for (uint32_t i = 0; i < m->version->lines.count; i++)
            tensor_tell(to, i ? "," : "", m->version->lines.column[i].name,
                        m->version->lines.column[i].is_number ? "FP32" : "BYTES", 1, false);
        evbuffer_add_printf(to, "],\"outputs\":[");
        for (uint32_t i = 0; i < count; i++)
            tensor_tell(to, i ? "," : "", outputs[i].name, outputs[i].is_texts ? "BYTES" : "FP32", outputs[i].width,
                        outputs[i].is_texts);
        evbuffer_add_printf(to, "]}\n");
        http_reply(s->http, request, 200, JSON_TYPE, to);
    }
    free(outputs);
    if (to) evbuffer_free(to);
}

/* --- inference -------------------------------------------------------------------------------- */

struct inferring {
    struct inference inference;
    struct inference_output *outputs;
};

static void inferring_free(void *detail)
{
    struct inferring *inferring = detail;
    inference_free(&inferring->inference);
    free(inferring->outputs);
    free(inferring);
}

/* The lines as one text with a 0 behind it; NULL: no memory. */
static const char *lines_text(struct evbuffer *lines, size_t *bytes)
{
    *bytes = evbuffer_get_length(lines);
    return evbuffer_add(lines, "", 1) == 0 ? (const char *)evbuffer_pullup(lines, -1) : NULL;
}

static uint64_t lines_count(const char *text, size_t bytes)
{
    uint64_t count = 0;
    for (const char *at = text, *end = text + bytes; at < end && (at = memchr(at, '\n', (size_t)(end - at))) != NULL;
         at++)
        count++;
    return count;
}

static void infer_finish(struct server *s, struct request *r, const struct ask *ask)
{
    const struct inferring *inferring = r->detail;
    const uint64_t names = r->version->lines.has_names;
    char length[32];
    size_t bytes;
    if (ask->bad_count) {
        reply_error(s->http, r->http, 400, "example %" PRIu64 ": %s", ask->bad_line - names, ask->why);
        return;
    }
    const char *text = lines_text(r->lines, &bytes);
    const uint64_t count = text ? lines_count(text, bytes) : 0;
    if (text && count != inferring->inference.example_count) {
        reply_error(s->http, r->http, 400, "expected a prediction for each of %u examples, found %" PRIu64,
                    inferring->inference.example_count, count);
        return;
    }
    struct evbuffer *json = evbuffer_new(), *binary = evbuffer_new();
    if (text && json && binary &&
        inference_answer(&inferring->inference, r->version->model->name, r->version->name, text, bytes, json, binary) ==
            ST_OK) {
        snprintf(length, sizeof length, "%zu", evbuffer_get_length(json));
        const bool has_binary = evbuffer_get_length(binary) > 0;
        if (has_binary) evhttp_add_header(evhttp_request_get_output_headers(r->http), HEADER_LENGTH, length);
        evbuffer_add_buffer(json, binary);
        request_headers(r, ask);
        http_reply(s->http, r->http, 200, has_binary ? "application/octet-stream" : JSON_TYPE, json);
    } else {
        reply_error(s->http, r->http, 500, "no memory for an answer");
    }
    if (json) evbuffer_free(json);
    if (binary) evbuffer_free(binary);
}

/* How many bytes of a body are JSON: all, unless a header says how many. False: the header is no number. */
static bool json_length(struct evhttp_request *request, size_t bytes, size_t *length)
{
    const char *text = evhttp_find_header(evhttp_request_get_input_headers(request), HEADER_LENGTH);
    uint64_t value = bytes;
    const bool is_number = text == NULL || cfg_parse_u64(text, &value);
    *length = value < bytes || text == NULL ? (size_t)value : value > bytes ? bytes + 1 : bytes;
    return is_number;
}

static status infer_read(struct served *m, struct evhttp_request *request, struct inferring *inferring,
                         struct evbuffer *lines)
{
    struct evbuffer *body = evhttp_request_get_input_buffer(request);
    const size_t bytes = evbuffer_get_length(body);
    size_t json_bytes;
    uint32_t count;
    if (!json_length(request, bytes, &json_bytes)) FAIL(INVALID, HEADER_LENGTH ": expected a number");
    inferring->outputs = outputs_make(m, &count);
    const uint8_t *text = bytes ? evbuffer_pullup(body, -1) : (const uint8_t *)"";
    if (inferring->outputs == NULL || text == NULL) FAIL(MEMORY, "no memory for a request");
    return inference_read(&inferring->inference, &m->version->lines, inferring->outputs, count, text, bytes, json_bytes,
                          lines);
}

static void infer(struct server *s, struct served *m, struct evhttp_request *request)
{
    if (request_is_packed(s, request, reply_error)) return;
    struct inferring *inferring = calloc(1, sizeof *inferring);
    struct evbuffer *lines = evbuffer_new();
    const status st = inferring && lines ? infer_read(m, request, inferring, lines) : ST_MEMORY;
    if (st == ST_OK) {
        learn_keep(m, inferring->inference.id, lines);
        request_put(s, m, request, lines,
                    (struct request_end){.finish = infer_finish,
                                         .wrong = reply_error,
                                         .detail = inferring,
                                         .detail_free = inferring_free,
                                         .wants.each = true});
    } else {
        reply_error(s->http, request,
                    st == ST_MEMORY ? 503
                    : st == ST_FULL ? 413
                                    : 400,
                    "%s", inferring && lines ? status_message() : "no memory");
        if (inferring) inferring_free(inferring);
    }
    if (lines) evbuffer_free(lines);
}

/* --- the best words --------------------------------------------------------------------------- */

static void top_finish(struct server *s, struct request *r, const struct ask *ask)
{
    request_headers(r, ask);
    http_reply(s->http, r->http, 200, "text/plain; charset=utf-8", r->lines);
}

/* Takes lines of the data's format, and answers each with as many words as the query's `k` says. */
static void top(struct server *s, struct served *m, struct evhttp_request *request)
{
    const uint32_t max = servant_top_max(m->version->servant);
    const char *query = evhttp_uri_get_query(evhttp_request_get_evhttp_uri(request));
    uint64_t k = servant_setup(m->version->servant)->settings.eval_top;
    if (max == 0)
        reply_error(s->http, request, 404, "this model predicts no words of a vocabulary");
    else if (query && (strncmp(query, "k=", 2) != 0 || !cfg_parse_u64(query + 2, &k) || k < 1 || k > max))
        reply_error(s->http, request, 400, "expected ?k=1 to ?k=%u, found ?%.40s", max, query);
    else if (!request_is_packed(s, request, reply_error))
        request_put(s, m, request, evhttp_request_get_input_buffer(request),
                    (struct request_end){.finish = top_finish, .wrong = reply_error, .wants.top = (uint32_t)k});
}

/* --- dispatch --------------------------------------------------------------------------------- */

/* The next part of a path, up to a '/' or the end; moves *path behind it.
 * False: there is none, or it is too long. */
static bool part_next(const char **path, char part[128])
{
    const size_t bytes = strcspn(*path, "/");
    if (bytes == 0 || bytes >= 128) return false;
    memcpy(part, *path, bytes);
    part[bytes] = 0;
    *path += bytes + ((*path)[bytes] == '/');
    return true;
}

/* NAME[/versions/VERSION][/ready|/infer|/top] */
static void model_route(struct server *s, const char *path, bool is_post, struct evhttp_request *request)
{
    char part[128];
    struct served *m = part_next(&path, part) ? server_model(s, part) : NULL;
    if (m == NULL) {
        reply_error(s->http, request, 404, "there is no model of this name");
        return;
    }
    if (strncmp(path, "versions/", 9) == 0) {
        path += 9;
        if (!part_next(&path, part) || strcmp(part, m->version->name) != 0) {
            reply_error(s->http, request, 404, "this version is not served; it is %s", m->version->name);
            return;
        }
    }
    if (*path == 0 && !is_post)
        model_tell(s, m, request);
    else if (strcmp(path, "ready") == 0 && !is_post)
        http_reply(s->http, request, s->is_draining ? 503 : 200, JSON_TYPE, NULL);
    else if (strcmp(path, "infer") == 0 && is_post)
        infer(s, m, request);
    else if (strcmp(path, "top") == 0 && is_post)
        top(s, m, request);
    else
        reply_error(s->http, request, 404, "there is nothing here; GET a model, GET its ready, POST its infer or top");
}

void infer_route(struct server *s, const char *path, struct evhttp_request *request)
{
    const bool is_post = evhttp_request_get_command(request) == EVHTTP_REQ_POST;
    if (*path == 0 && !is_post)
        server_tell(s, request);
    else if (strcmp(path, "/health/live") == 0 && !is_post)
        http_reply(s->http, request, 200, JSON_TYPE, NULL);
    else if (strcmp(path, "/health/ready") == 0 && !is_post)
        http_reply(s->http, request, s->is_draining ? 503 : 200, JSON_TYPE, NULL);
    else if (strncmp(path, "/models/", 8) == 0)
        model_route(s, path + 8, is_post, request);
    else
        reply_error(s->http, request, 404, "there is nothing here");
}
