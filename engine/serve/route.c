/* Which request is answered by whom, and who may ask. */
#include <stdlib.h>
#include <string.h>

#include "engine/serve/server.h"

/* --- /predict --------------------------------------------------------------------------------- */

static void predict_finish(struct server *s, struct request *r, const struct ask *ask)
{
    request_headers(r, ask);
    http_reply(s->http, r->http, 200, "text/plain; charset=utf-8", r->lines);
}

/* Lines in the graph's own format; the answer is what `predict` writes of a file of these bytes. */
static void predict(struct server *s, struct served *model, struct evhttp_request *request)
{
    struct evbuffer *body = evhttp_request_get_input_buffer(request);
    const size_t bytes = evbuffer_get_length(body), max = servant_setup(model->servant)->settings.serve_body;
    const char *packing = evhttp_find_header(evhttp_request_get_input_headers(request), "Content-Encoding");
    if (packing && strcmp(packing, "identity") != 0) {
        http_reply_text(s->http, request, 415, "requests are not unpacked here: Content-Encoding %.40s", packing);
        return;
    }
    if (bytes > max) {
        http_reply_text(s->http, request, 413, "a request has at most serve.body = %zu bytes, this one %zu", max,
                        bytes);
        return;
    }
    char *text = malloc(bytes + READER_SLACK_BYTES);
    if (text) {
        evbuffer_remove(body, text, bytes);
        memset(text + bytes, 0, READER_SLACK_BYTES);
    }
    request_put(s, model, request, text, bytes, predict_finish);
}

/* --- states ----------------------------------------------------------------------------------- */

static void healthz(struct server *s, struct served *model, struct evhttp_request *request)
{
    (void)model;
    http_reply_text(s->http, request, 200, "ok");
}

static void readyz(struct server *s, struct served *model, struct evhttp_request *request)
{
    (void)model;
    http_reply_text(s->http, request, s->is_draining ? 503 : 200, "%s", s->is_draining ? "it is ending" : "ok");
}

/* --- dispatch --------------------------------------------------------------------------------- */

enum method { METHOD_GET = 1, METHOD_POST = 2 };
static const struct route {
    const char *path; /* with a '/' at the end: may be followed by a model's name */
    enum method method;
    bool is_open; /* without a token */
    void (*answer)(struct server *server, struct served *model, struct evhttp_request *request);
} routes[] = {
    {"/predict/", METHOD_POST, false, predict},
    {"/healthz", METHOD_GET, true, healthz},
    {"/readyz", METHOD_GET, true, readyz},
};
#define ROUTE_COUNT (sizeof routes / sizeof *routes)

/* The model of that name; of no name the first. NULL: there is none. */
static struct served *model_find(const struct server *s, const char *name)
{
    if (*name == 0) return &s->models[0];
    for (uint32_t i = 0; i < s->model_count; i++)
        if (strcmp(s->models[i].name, name) == 0) return &s->models[i];
    return NULL;
}

/* Whether the path is the route's; *name becomes the model's. */
static bool route_is(const struct route *r, const char *path, const char **name)
{
    const size_t bytes = strlen(r->path);
    *name = "";
    if (r->path[bytes - 1] != '/') return strcmp(path, r->path) == 0;
    if (strncmp(path, r->path, bytes - 1) != 0) return false;
    if (path[bytes - 1] == '/') *name = path + bytes;
    return path[bytes - 1] == 0 || (path[bytes - 1] == '/' && path[bytes] != 0);
}

static bool is_allowed(const struct server *s, struct evhttp_request *request)
{
    const char *authorization = evhttp_find_header(evhttp_request_get_input_headers(request), "Authorization");
    return s->tokens == NULL || tokens_match(s->tokens, authorization);
}

static void dispatch(struct server *s, const struct route *r, const char *name, struct evhttp_request *request)
{
    const bool is_post = evhttp_request_get_command(request) == EVHTTP_REQ_POST;
    struct served *model = model_find(s, name);
    struct evkeyvalq *headers = evhttp_request_get_output_headers(request);
    if (!r->is_open && !is_allowed(s, request)) {
        evhttp_add_header(headers, "WWW-Authenticate", "Basic realm=\"heterps\"");
        http_reply_text(s->http, request, 401, "a token is needed: Authorization: Bearer TOKEN");
    } else if (is_post != (r->method == METHOD_POST)) {
        evhttp_add_header(headers, "Allow", is_post ? "GET, HEAD" : "POST");
        http_reply_text(s->http, request, 405, "%s takes %s", r->path, is_post ? "GET" : "POST");
    } else if (model == NULL) {
        http_reply_text(s->http, request, 404, "no model is called so");
    } else {
        r->answer(s, model, request);
    }
}

void route(void *context, struct evhttp_request *request)
{
    struct server *s = context;
    const struct evhttp_uri *uri = evhttp_request_get_evhttp_uri(request);
    const char *path = uri ? evhttp_uri_get_path(uri) : NULL, *name;
    for (size_t i = 0; path && i < ROUTE_COUNT; i++) {
        if (!route_is(&routes[i], path, &name)) continue;
        dispatch(s, &routes[i], name, request);
        return;
    }
    http_reply_text(s->http, request, 404, "there is nothing here; POST /predict takes lines of the model's data");
}
