/* Writes generated rows into a file in memory. */
#include "engine/data/gen_memory.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine/data/gen_graph.h"

#define ZIPF         1.05
#define BUFFER_BYTES ((size_t)64 << 10)

static status text_write(int fd, const char *text, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        ssize_t wrote = write(fd, text + done, bytes - done);
        if (wrote < 0 && errno != EINTR) FAIL(IO, "generated data: %s; give --data FILE", strerror(errno));
        if (wrote > 0) done += (size_t)wrote;
    }
    return ST_OK;
}

static size_t criteo_row(const struct gen_criteo *gen, const struct gen_memory_options *o, uint64_t row, char *out)
{
    char line[GEN_CRITEO_LINE_BYTES_MAX];
    struct gen_criteo_truth truth;
    if (o->rewrite == NULL) return gen_criteo_row(gen, row, out, &truth);
    return o->rewrite(line, gen_criteo_row(gen, row, line, &truth), out);
}

/* Writes the rows of either generator; `first`: bytes that are in the buffer already. */
static status rows_write(int fd, const struct gen_memory_options *o, struct gen_criteo *criteo, struct gen_graph *graph,
                         char *buffer, size_t first)
{
    struct gen_criteo_truth truth;
    size_t used = first;
    for (uint64_t row = 0; row < o->row_count; row++) {
        if (used > BUFFER_BYTES) { /* after rows, or names of columns, there may be no room for a row */
            TRY(text_write(fd, buffer, used));
            used = 0;
        }
        used += criteo ? criteo_row(criteo, o, row, buffer + used) : gen_graph_row(graph, row, buffer + used, &truth);
    }
    return text_write(fd, buffer, used);
}

static status criteo_write(int fd, const struct gen_memory_options *o)
{
    struct gen_criteo *gen;
    TRY(gen_criteo_open(&gen, &(struct gen_criteo_options){.seed = 1, .vocab = o->vocab, .zipf = ZIPF}));
    char *buffer = malloc(BUFFER_BYTES + GEN_MEMORY_REWRITE_BYTES_MAX);
    status st = buffer ? rows_write(fd, o, gen, NULL, buffer, 0)
                       : status_fail(ST_MEMORY, __FILE__, __LINE__, "no memory for generated data");
    free(buffer);
    gen_criteo_close(gen);
    return st;
}

static status graph_rows_write(int fd, const struct gen_memory_options *o)
{
    struct gen_graph *gen;
    const struct gen_graph_options options = {o->schema, o->format, 1, o->vocab, ZIPF};
    TRY(gen_graph_open(&gen, &options));
    char *buffer = malloc(BUFFER_BYTES + gen_graph_line_bytes_max(gen));
    status st = buffer ? rows_write(fd, o, NULL, gen, buffer, gen_graph_header(gen, buffer))
                       : status_fail(ST_MEMORY, __FILE__, __LINE__, "no memory for generated data");
    free(buffer);
    gen_graph_close(gen);
    return st;
}

status gen_memory_open(struct gen_memory *data, const struct gen_memory_options *o)
{
    *data = (struct gen_memory){0};
    data->fd = memfd_create("heterps-generated", MFD_CLOEXEC);
    if (data->fd < 0) FAIL(SYSTEM, "no memory for generated data: %s; give --data FILE", strerror(errno));
    snprintf(data->path, sizeof data->path, "/proc/self/fd/%d", data->fd);
    status st = o->format == READER_CRITEO ? criteo_write(data->fd, o) : graph_rows_write(data->fd, o);
    if (st != ST_OK) gen_memory_close(data);
    return st;
}

void gen_memory_close(struct gen_memory *data)
{
    if (data->path[0]) close(data->fd);
    *data = (struct gen_memory){0};
}
