/* The verb `serve`: serves saved models over HTTP until a signal comes. */
#ifndef HETERPS_ENGINE_SERVE_SERVE_H
#define HETERPS_ENGINE_SERVE_SERVE_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/status.h"

struct serve_model {
    const char *name; /* in paths: letters, digits, '-', '_', '.' */
    const char *graph, *model;
};
#define SERVE_MODELS_MAX 64u

struct serve_options {
    const char *listen;               /* ADDR:PORT */
    const struct serve_model *models; /* [model_count], at least one */
    uint32_t model_count;
    const char *token_file; /* NULL: everybody who reaches the address may ask */
    bool insecure;          /* the user allows everybody beyond this machine   */
    uint32_t connections;   /* 0: as many as descriptors allow, at most SERVE_CONNECTIONS */
    uint32_t idle_s, patience_s;
    const char *const *set; /* [set_count]: of all models */
    uint32_t set_count, threads;
    const char *isa;
    bool learn;             /* from lines that clients send, and save */
    uint32_t learn_threads; /* 0: half of the processors */
};
#define SERVE_CONNECTIONS 16384u

/* OK: a signal came, and every request has been answered. USAGE: options that exclude each
 * other, or an address beyond loopback with neither tokens nor `insecure`. Also fails as
 * opening a model or listening does. */
MUST_USE status serve_run(const struct serve_options *options);

#endif
