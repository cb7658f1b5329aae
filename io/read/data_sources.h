/* What data is: size, time and sampled bytes of each path, by which a change is noticed. One that keeps a path's size
 * and time and spares the sampled bytes is not. For the data cache, and for saves, which are gone on with on the data
 * that they stand in. */
#ifndef HETERPS_IO_READ_DATA_SOURCES_H
#define HETERPS_IO_READ_DATA_SOURCES_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/memory.h"
#include "engine/base/status.h"

/* As it is in a data cache's file; little-endian. Of an address of the web its version (web_facts) stands for the
 * time, and its name is without the query, so that what is signed anew is the same data. */
struct data_source {
    uint64_t name_hash, size_bytes, modified_ns, content_hash;
};

/* Of an address whose server does not tell its size. */
#define DATA_SOURCE_STREAM UINT64_MAX

struct web;

struct data_sources {
    char *paths;     /* each with its final 0 */
    struct web *web; /* opened when an address is looked at first */
    uint8_t *web_memory;
    uint32_t path_count;
    bool is_stream;             /* nothing is looked at: all are 0 */
    struct data_source *source; /* [path_count]: of the data as it was looked at last, or before that */
    struct data_source *found;  /* [path_count]: of what it is compared with                          */
    uint8_t *sample;
};

/* `paths` separated by commas; keeps nothing. */
void data_sources_layout(struct data_sources *sources, struct layout *layout, const char *paths, bool is_stream);
/* Looks at the data: *source is what it is. An address whose server tells the size and version that it had at the last
 * look is not sampled again; of one whose server tells no size nothing is known but its name. IO, and as web_read: it
 * cannot be read. */
MUST_USE status data_sources_look(struct data_sources *sources, struct data_source *source);
/* Gives back what looking at addresses took; the memory of the layout stays. */
void data_sources_close(struct data_sources *sources);
/* Says in `why` how `was` differs from `source`; false if it does not. */
bool data_sources_differ(const struct data_sources *sources, const struct data_source *was, char *why, size_t bytes);

#endif
