/* Generated data in memory, under a path that a reader can open:
 * for measurements where there is no data yet. */
#ifndef HETERPS_ENGINE_DATA_GEN_MEMORY_H
#define HETERPS_ENGINE_DATA_GEN_MEMORY_H

#include "engine/data/gen_criteo.h"
#include "engine/data/schema.h"

/* What stands for data that are not there yet, where a graph is profiled and where its plans are tried: rows,
 * and values of a field. */
#define GEN_MEMORY_ROWS_UNKNOWN      32768u
#define GEN_MEMORY_VOCAB_UNKNOWN     100000u

#define GEN_MEMORY_REWRITE_BYTES_MAX (4 * GEN_CRITEO_LINE_BYTES_MAX)

struct gen_memory {
    int fd;
    char path[32]; /* "": nothing is open */
};
struct gen_memory_options {
    enum reader_format format;
    const struct reader_schema *schema; /* of formats other than criteo; borrowed */
    uint64_t row_count;
    uint32_t vocab; /* values of a field, drawn as in gen_criteo.h with exponent 1.05 */
    /* criteo: turns a row's line, newline included, into a line of another format; returns its bytes, at most
     * GEN_MEMORY_REWRITE_BYTES_MAX. NULL: lines stay as they are. */
    size_t (*rewrite)(const char *line, size_t bytes, char *out);
};

/* Makes rows 0 to row_count - 1 of seed 1. SYSTEM, IO: the kernel gives no memory; MEMORY. */
MUST_USE status gen_memory_open(struct gen_memory *data, const struct gen_memory_options *options);
/* Zeroed memory may be closed. */
void gen_memory_close(struct gen_memory *data);

#endif
