/* Serves saved models over HTTP until a signal ends it: the verb's work. */
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
    const char *token_file; /* NULL: everybody who reaches it may ask … */
    bool insecure;          /* … which beyond loopback has to be said   */
    uint32_t connections;   /* 0: as many as descriptors allow, up to SERVE_CONNECTIONS */
    uint32_t idle_s, patience_s;
    const char *const *set; /* [set_count]: of all models */
    uint32_t set_count, threads;
    const char *isa;
    bool learn;             /* from lines that are sent, and save */
    uint32_t learn_threads; /* 0: half of the processors */
};
#define SERVE_CONNECTIONS 16384u

/* OK: a signal ended it, and all that had been asked is answered. USAGE: options that exclude each other, or beyond
 * loopback neither tokens nor `insecure`; what opening a model or listening fails with. */
MUST_USE status serve_run(const struct serve_options *options);

#endif
