/* Lines for Prometheus. */
#include "engine/http/exposition.h"

#include <inttypes.h>

void exposition_head(struct evbuffer *to, const char *name, const char *type, const char *help)
{
    evbuffer_add_printf(to, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

void exposition_u64(struct evbuffer *to, const char *name, const char *type, const char *help, uint64_t value)
{
    exposition_head(to, name, type, help);
    evbuffer_add_printf(to, "%s %" PRIu64 "\n", name, value);
}

void exposition_f64(struct evbuffer *to, const char *name, const char *type, const char *help, double value)
{
    exposition_head(to, name, type, help);
    evbuffer_add_printf(to, "%s %.9g\n", name, value);
}

void exposition_build(struct evbuffer *to)
{
    exposition_head(to, "heterps_build_info", "gauge", "1, with the program's version.");
    evbuffer_add_printf(to, "heterps_build_info{version=\"%s\"} 1\n", HETERPS_VERSION);
}

void exposition_reply(struct http *http, struct evhttp_request *request,
                      void (*write)(void *context, struct evbuffer *to), void *context)
{
    struct evbuffer *text = evbuffer_new();
    if (text) write(context, text);
    http_reply(http, request, text ? 200 : 500, "text/plain; version=0.0.4; charset=utf-8", text);
    if (text) evbuffer_free(text);
}
