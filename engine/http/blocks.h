/* Memory for connections and requests: a thread that keeps blocks has those that are given back for what is taken next,
 * by classes of size. A request takes and gives back some fifty small blocks, and many requests are under way at
 * once: far more than malloc keeps at hand for a thread, so that each took its long way (1.7 us of a request's 27).
 * libevent takes its memory here once the program has said so.
 *
 *     take ──▶ kept[class] ─┬─ one is there ──▶ block          block: class | next, then the bytes (16-aligned)
 *                           └─ malloc
 *     give ──▶ kept[class], of a thread that keeps and has not BLOCKS_CLASS_BYTES of them; else free */
#ifndef HETERPS_ENGINE_HTTP_BLOCKS_H
#define HETERPS_ENGINE_HTTP_BLOCKS_H

#include <stddef.h>

/* Larger blocks are malloc's. libevent's buffers begin at 1024 bytes. */
#define BLOCKS_LARGEST 1024u
#define BLOCKS_STEP    32u
#define BLOCKS_CLASSES (BLOCKS_LARGEST / BLOCKS_STEP)
/* Of one class, with what a block has before its bytes: then the blocks of 128 requests under way, where one has
 * eight of a class or they are large. */
#define BLOCKS_CLASS_BYTES ((size_t)128 << 10)
/* Of all classes, of a thread that keeps. */
#define BLOCKS_KEPT_MAX (BLOCKS_CLASSES * BLOCKS_CLASS_BYTES)

/* From now on all memory of libevent comes from here: before anything of libevent is called. What it gives for
 * others to free, such as evhttp_htmlescape, is not free's then. */
void blocks_for_libevent(void);

/* The calling thread keeps what is given back; until blocks_drop, which frees what it has kept. */
void blocks_keep(void);
void blocks_drop(void);

/* As malloc, realloc and free. What one thread has taken another may give back. */
void *blocks_take(size_t bytes);
void *blocks_retake(void *block, size_t bytes);
void blocks_give(void *block);

#endif
