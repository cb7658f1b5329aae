/* A graph and a model for predicting only, in one file: the graph's own bytes, and behind them parameters and
 * rows without optimizer state. Such a file can stand wherever a graph or a saved model can.
 *
 *     | graph (graph/graph_file.c) | header | tables | parameters | keys | vectors | scales | keys | … |
 *       each part on a multiple of 64 bytes
 *
 *   byte 0    magic "HPSMODEL"            a model is valid if: magic, version and sizes are ours, xxh3-64 over all of
 *        8    version, header_bytes       it, the checksum taken as 0, is the checksum, every part lies where the parts
 *       16    bytes, checksum             before it end, keys ascend, and every number is finite
 *       32    the rest of struct lean_header, all little-endian; then table_count of struct lean_table
 *
 * Vectors are float32; bfloat16, the upper half of float32 rounded to nearest; or int8 with a bfloat16 scale
 * for each row: value = number * scale, with the least scale for which every |number| is at most 127. So int8
 * takes dim + 2 bytes of a row's 4 dim.
 *
 * Workload: written once, read once a start. */
#ifndef HETERPS_ENGINE_MODEL_LEAN_H
#define HETERPS_ENGINE_MODEL_LEAN_H

#include "engine/model/model_sorted.h"

enum lean_store { LEAN_F32, LEAN_BF16, LEAN_INT8, LEAN_STORE_COUNT };
extern const char *const lean_stores[LEAN_STORE_COUNT + 1]; /* their names, and NULL */

struct lean_options {
    const char *path;
    enum lean_store store;
    bool has_score;
    float score; /* rows with a lower score, as of the model's period, are left out */
};
struct lean_written {
    uint64_t bytes, vector_bytes; /* of the file; of vectors, scales included                        */
    uint64_t row_count, left_out; /* of all tables: rows written, and rows left out by their score    */
    uint64_t f32_bytes;           /* of the same vectors as float32                                 */
};
/* Writes graph and model. INVALID: a table's rows have no counters, and so no score; IO. */
MUST_USE status lean_write(const struct model *model, const struct lean_options *options, struct lean_written *written);

/* The same with rows from `sorted`, some of which other nodes may hold. */
MUST_USE status lean_write_sorted(const struct model *model, struct model_sorted *sorted,
                                  const struct lean_options *options, struct lean_written *written);

/* Whether the file has a model behind its graph. */
bool lean_is(const char *path);
/* Fills a freshly opened model of that graph. CORRUPT, INVALID and MISMATCH (the model is of another graph,
 * or of another --set) name the file and the byte; FULL as model_load. */
MUST_USE status lean_load(struct model *model, const char *path);
/* Checks all that lean_load checks, without a model. */
MUST_USE status lean_verify(const struct graph *graph, const char *path);
/* As lean_load, from a file's bytes, aligned to 8; `path` is for messages. */
MUST_USE status lean_read(struct model *model, const char *path, const uint8_t *data, size_t bytes);

#endif
