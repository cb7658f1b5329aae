/* Figures in Prometheus's text format 0.0.4: for each name a head,
 * then lines of values, with or without labels. */
#ifndef HETERPS_ENGINE_HTTP_EXPOSITION_H
#define HETERPS_ENGINE_HTTP_EXPOSITION_H

#include "engine/http/http.h"

/* The head of a name, which the caller's lines of values follow. type: "counter", "gauge" or "histogram". */
void exposition_head(struct evbuffer *to, const char *name, const char *type, const char *help);
/* A head, and one value without labels. */
void exposition_u64(struct evbuffer *to, const char *name, const char *type, const char *help, uint64_t value);
void exposition_f64(struct evbuffer *to, const char *name, const char *type, const char *help, double value);
/* The program's version. */
void exposition_build(struct evbuffer *to);
/* Answers a request for figures; `write` writes them. */
void exposition_reply(struct http *http, struct evhttp_request *request,
                      void (*write)(void *context, struct evbuffer *to), void *context);

#endif
