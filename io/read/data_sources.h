/* What data is: size, time and sampled bytes of each path. A change is noticed by them, but for one
 * that keeps a path's size, time and sampled bytes. For the data cache, and for saves: training goes on
 * only with the data of the save. */
#ifndef HETERPS_IO_READ_DATA_SOURCES_H
#define HETERPS_IO_READ_DATA_SOURCES_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/memory.h"
#include "engine/base/status.h"

/* As it is in a data cache's file; little-endian. For an address of the web its version (web_facts) stands
 * for the time, and its name is without the query, so the same data with a new signature is the same. */
struct data_source {
    uint64_t name_hash, size_bytes, modified_ns, content_hash;
    uint64_t probe_hash; /* of some KiB of an address whose version is strong (web_facts); else 0 */
};

/* The size of an address whose server does not tell it. */
#define DATA_SOURCE_STREAM UINT64_MAX

struct web;

struct data_sources {
    char *paths;     /* each with its final 0 */
    struct web *web; /* opened when an address is looked at for the first time */
    uint8_t *web_memory;
    uint32_t path_count;
    bool is_stream; /* then nothing is looked at, and all are 0 */
    /* [path_count]: the look with which others are compared; an unchanged address keeps its sample */
    struct data_source *source;
    /* `source` is of an earlier run: some KiB of an address are compared before it keeps its sample */
    bool source_is_earlier;
    struct data_source *found; /* [path_count]: for the caller, another look                         */
    uint8_t *sample;
};

/* `paths` separated by commas; keeps nothing. */
void data_sources_layout(struct data_sources *sources, struct layout *layout, const char *paths, bool is_stream);
/* Looks at the data and fills in source [path_count]. An address whose server tells the same size and strong
 * version as in the member `source` is not sampled again; of an address without a size only the name is
 * known. IO, and as web_read: the data cannot be read. */
MUST_USE status data_sources_look(struct data_sources *sources, struct data_source *source);
/* Closes what looking at addresses opened; the memory of the layout stays. */
void data_sources_close(struct data_sources *sources);
/* Says in `why` how the member `source` differs from `was`; false if they are the same. */
bool data_sources_differ(const struct data_sources *sources, const struct data_source *was, char *why, size_t bytes);

#endif
