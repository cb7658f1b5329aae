/* Figures of a run for TensorBoard: a file of events, each a record of a Protocol Buffer with numbers
 * under names, a step and a time.
 *
 *     u64 bytes │ u32 masked CRC-32C of these 8 │ the event │ u32 masked CRC-32C of the event        little-endian
 *     masked: rotated right by 15 bits, plus 0xa282ead8
 *
 * The first event says the version; the second says at which step a run begins, so that later steps in an
 * earlier file of the folder no longer count. One thread. After opening nothing is allocated. */
#ifndef HETERPS_IO_EVENT_FILE_H
#define HETERPS_IO_EVENT_FILE_H

#include <stdint.h>

#include "engine/base/status.h"

/* Bytes of a name; a longer one is cut. */
#define EVENT_FILE_TAG 256u

struct event_file;
/* Makes the folder, if it is missing, and a new file in it. An event has at most scalar_max numbers; further
 * ones are left out. IO, MEMORY. */
MUST_USE status event_file_open(struct event_file **file, const char *folder, uint64_t step, uint32_t scalar_max);
/* NULL is ignored. */
void event_file_close(struct event_file *file);

/* An event: begin, its numbers, end, which writes it in one piece. Numbers that are not finite are left out.
 * IO: the file is then closed, and nothing more is written. */
void event_file_begin(struct event_file *file, uint64_t step);
void event_file_scalar(struct event_file *file, const char *tag, double value);
MUST_USE status event_file_end(struct event_file *file);

/* CRC-32C (Castagnoli) of bytes that follow those of `crc`; 0 at first. */
uint32_t event_file_crc(uint32_t crc, const void *data, size_t bytes);

#endif
