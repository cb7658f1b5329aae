/* How files are packed, which their first bytes tell and not their names. */
#ifndef HETERPS_IO_READ_PACKING_H
#define HETERPS_IO_READ_PACKING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/status.h"

enum packing { PACKING_NONE, PACKING_GZIP, PACKING_ZSTD };

/* The first bytes of a file, which tell how it is packed. */
#define PACKING_MAGIC_BYTES 10
/* What zstd's levels up to 19 use; and the most that a file's first frame may ask for, as in zstd. */
#define PACKING_WINDOW_BYTES     ((size_t)8 << 20)
#define PACKING_WINDOW_BYTES_MAX ((size_t)128 << 20)

/* From the first `count` bytes of a file; *is_cut: more bytes would tell. INVALID: it is packed by what is
 * not read here, and which program unpacks it. */
MUST_USE status packing_find(const char *name, const uint8_t *bytes, size_t count, enum packing *packing, bool *is_cut);
/* The largest window of a list's files that are packed by zstd, or may be; 0: none is.
 * Asked before they are opened. */
size_t packing_zstd_window(const char *paths);

#endif
