/* Files that go from one node to another as they are written, so that neither holds a whole file: between
 * rank 0 and any other, by blocks of talk (engine/node/talk.h). Each begins with a word of what follows.
 *
 *     NAME ─▶ DATA ─▶ … ─▶ DATA ─▶ CLOSE ─▶ NAME ─▶ … ─▶ CLOSE ─▶ END     after a failure of who writes, anywhere: CUT
 *
 * The reader hears all of it, even after a failure of its own: the next thing that is said comes after it. */
#ifndef HETERPS_ENGINE_NODE_FILES_H
#define HETERPS_ENGINE_NODE_FILES_H

#include "engine/base/file.h"
#include "engine/node/talk.h"

#define FILES_NAME_BYTES 256u

struct files_out {
    struct file_sink sink; /* first: a struct file_sink * is a struct files_out * */
    struct reduce *reduce;
    uint32_t to;
};
/* Files that are opened with its sink go to the node. */
void files_out_begin(struct files_out *files, struct reduce *reduce, uint32_t to);
/* Sends a file whose bytes are at hand. */
MUST_USE status files_out_put(struct files_out *files, const char *name, const void *data, size_t bytes);
/* There are no more files, or `st` has come in between, which it returns.
 * Fails as the exchange has failed. */
MUST_USE status files_out_end(struct files_out *files, status st);

struct files_in {
    struct reduce *reduce;
    uint32_t from;
    bool is_open, is_over, is_held; /* a file; nothing more comes; a block is not heard to its end */
    char name[FILES_NAME_BYTES];    /* of the file: nothing that leads out of a directory          */
    uint64_t bytes;                 /* of a file whose bytes were at hand                          */
};
void files_in_begin(struct files_in *files, struct reduce *reduce, uint32_t from);
/* The next file; *is_one false: there is none. What is left of the file before is dropped. INVALID: something
 * else comes. Fails as the exchange has failed. */
MUST_USE status files_in_next(struct files_in *files, bool *is_one);
/* The file's next bytes, which stay until the next call; *bytes 0: that was all. */
MUST_USE status files_in_data(struct files_in *files, const uint8_t **data, size_t *bytes);
/* Hears what is left, and returns `st`. */
MUST_USE status files_in_end(struct files_in *files, status st);

#endif
