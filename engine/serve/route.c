/* Decides which function answers a request, and who may ask. */
#include <string.h>

#include "engine/serve/server.h"

/* --- /predict --------------------------------------------------------------------------------- */

static void predict_finish(struct server *s, struct request *r, const struct ask *ask)
{
    request_headers(r, ask);
    http_reply(s->http, r->http, 200, "text/plain; charset=utf-8", r->lines);
}

/* Takes lines in the graph's own format; answers as `predict` does for a file of these bytes. */
static void predict(struct server *s, struct served *model, struct evhttp_request *request)
{
    if (request_is_packed(s, request, http_reply_text)) return;
    char id[LEARN_ID_BYTES];
    learn_keep(model, learn_id(request, id), evhttp_request_get_input_buffer(request));
    request_put(s, model, request, evhttp_request_get_input_buffer(request),
                (struct request_end){.finish = predict_finish});
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
    http_reply_text(s->http, request, s->is_draining ? 503 : 200, "%s", s->is_draining ? "the server is ending" : "ok");
}

static void metrics(struct server *s, struct served *model, struct evhttp_request *request)
{
    (void)model;
    exposition_reply(s->http, request, figures_metrics, s);
}

/* --- dispatch --------------------------------------------------------------------------------- */

enum method { METHOD_GET = 1, METHOD_POST = 2 };
static const struct route {
    const char *path; /* if it ends with '/', a model's name may follow */
    enum method method;
    bool is_open; /* no token needed */
    void (*answer)(struct server *server, struct served *model, struct evhttp_request *request);
} routes[] = {
    {"/predict/", METHOD_POST, false, predict},
    {"/healthz", METHOD_GET, true, healthz},
    {"/readyz", METHOD_GET, true, readyz},
    {"/metrics", METHOD_GET, false, metrics},
    {"/learn/position/", METHOD_GET, false, learn_position},
    {"/learn/", METHOD_POST, false, learn_post},
    {"/", METHOD_GET, false, page_get},
    {"/page/", METHOD_GET, false, page_get},
    {"/page/", METHOD_POST, false, page_post},
    {"/figures/", METHOD_GET, false, page_figures},
    {"/version/", METHOD_GET, false, version_get},
    {"/version/", METHOD_POST, false, version_post},
};
#define ROUTE_COUNT (sizeof routes / sizeof *routes)

struct served *server_model(const struct server *s, const char *name)
{
    if (*name == 0) return &s->models[0];
    for (uint32_t i = 0; i < s->model_count; i++)
        if (strcmp(s->models[i].name, name) == 0) return &s->models[i];
    return NULL;
}

/* Whether the path is the route's; *name: the model's name in it. */
static bool route_is(const struct route *route, const char *path, const char **name)
{
    const size_t bytes = strlen(route->path);
    *name = "";
    if (bytes == 1 || route->path[bytes - 1] != '/') return strcmp(path, route->path) == 0;
    if (strncmp(path, route->path, bytes - 1) != 0) return false;
    if (path[bytes - 1] == '/') *name = path + bytes;
    return path[bytes - 1] == 0 || (path[bytes - 1] == '/' && path[bytes] != 0);
}

static void dispatch(struct server *s, const struct route *route, const char *name, struct evhttp_request *request)
{
    struct served *model = server_model(s, name);
    if (!route->is_open && !access_allows(s->http, s->tokens, request)) return;
    if (model == NULL) {
        http_reply_text(s->http, request, 404, "there is no model of this name");
    } else {
        route->answer(s, model, request);
    }
}

void route(void *context, struct evhttp_request *request)
{
    struct server *s = context;
    const struct evhttp_uri *uri = evhttp_request_get_evhttp_uri(request);
    const char *path = uri ? evhttp_uri_get_path(uri) : NULL, *name;
    const enum method method = evhttp_request_get_command(request) == EVHTTP_REQ_POST ? METHOD_POST : METHOD_GET;
    bool is_other_method = false;
    if (access_is_foreign(s->http, request)) return;
    if (path && strncmp(path, "/v2", 3) == 0 && (path[3] == 0 || path[3] == '/')) {
        const bool is_open = strncmp(path, "/v2/health/", 11) == 0;
        if (is_open || access_allows(s->http, s->tokens, request)) infer_route(s, path + 3, request);
        return;
    }
    for (size_t i = 0; path && i < ROUTE_COUNT; i++) {
        if (!route_is(&routes[i], path, &name)) continue;
        if (routes[i].method == method) {
            dispatch(s, &routes[i], name, request);
            return;
        }
        is_other_method = true;
    }
    if (is_other_method) {
        evhttp_add_header(evhttp_request_get_output_headers(request), "Allow",
                          method == METHOD_POST ? "GET, HEAD" : "POST");
        http_reply_text(s->http, request, 405, "this path takes %s", method == METHOD_POST ? "GET" : "POST");
        return;
    }
    http_reply_text(s->http, request, 404, "there is nothing here; POST /predict takes lines of the model's data");
}
