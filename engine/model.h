/* A model is what training changes: dense parameters, their optimizer state, the rows of the tables, and how far
 * training has come. Parameters lie in one array at the offsets of their tensors; state beside them.
 *
 *     graph ──model_open──▶ initial values ──model_load──▶ values of a model directory ──training──▶ model_save */
#ifndef HETERPS_ENGINE_MODEL_H
#define HETERPS_ENGINE_MODEL_H

#include "graph/graph.h"
#include "graph/optimizer.h"
#include "io/store.h"

struct progress {
    uint64_t step;           /* steps done since the start of training                                  */
    uint64_t epoch;          /* passes finished                                                          */
    uint64_t epoch_examples; /* examples of the current pass that are done                               */
    uint64_t examples;       /* since the start of training                                             */
};

struct model {
    const struct graph *graph;
    float *param; /* [header->param_floats]                                                           */
    float *state; /* [header->state_floats]: of update u at state_offset[u]: [state_count, param_count] */
    uint64_t *state_offset; /* [update_count]                                                         */
    struct store *store;
    struct progress progress;
};

/* Takes the memory and fills in the initial values: a function of the graph and its seed. `ram_bytes`: the tables' budget.
 * Keeps the graph until model_close. */
MUST_USE status model_open(struct model *model, const struct graph *graph, uint64_t ram_bytes);
void model_close(struct model *model);
/* The initial row of a key: store_table_options.row_init with the model as context. */
void model_row_init(void *model, uint32_t table, uint64_t key, float *span);

/* Saves into directory `path` (made if absent), replacing what an earlier save left there in one piece:
 *     manifest.json                      format, version, graph's model hash, progress, files with bytes and xxh3; written last
 *     dense.STEP.safetensors             parameters by name, optimizer state as NAME.state0, …
 *     TABLE.STEP.rows                    checksummed binary: header, then key and span of each row, in order of creation
 * Files of an older save are removed after the manifest names the new ones. `row_count` [table_count]: rows to save of each table
 * (those that exist at this step whatever has been read ahead); NULL: all. A directory that holds anything but a model is refused. */
MUST_USE status model_save(const struct model *model, const uint64_t *row_count, const char *path);
/* Loads what model_save wrote into a freshly opened model: sizes, checksums, model hash and every name and shape are verified first.
 * CORRUPT, MISMATCH or INVALID name the file and what differs. Rows beyond the budget: FULL. */
MUST_USE status model_load(struct model *model, const char *path);
/* Writes dense.safetensors and, a table, TABLE.keys+vectors.safetensors ("keys" U64 [n], "vectors" F32 [n, dim]), rows sorted by key,
 * into directory `path` (made if absent). The bytes depend on the model's values only. */
MUST_USE status model_export(const struct model *model, const char *path);

#endif
