/* Memory for connections and requests, by classes of size. A thread that keeps blocks uses a block given back
 * for the next one taken. A request takes and gives back some fifty small blocks, and many requests are under
 * way at once: more than malloc keeps at hand for a thread, so each call went malloc's slow way (1.7 us of a
 * request's 27). libevent takes its memory here after blocks_for_libevent.
 *
 *     take ──▶ kept[class] ─┬─ one is there ──▶ block          block: class | next, then the bytes (16-aligned)
 *                           └─ malloc
 *     give ──▶ kept[class], if the thread keeps blocks and the class has room (BLOCKS_CLASS_BYTES); else free */
#ifndef HETERPS_ENGINE_HTTP_BLOCKS_H
#define HETERPS_ENGINE_HTTP_BLOCKS_H

#include <stddef.h>

/* Larger blocks are malloc's. libevent's buffers begin at 1024 bytes. */
#define BLOCKS_LARGEST 1024u
#define BLOCKS_STEP    32u
#define BLOCKS_CLASSES (BLOCKS_LARGEST / BLOCKS_STEP)
/* What a thread keeps of one class, headers included: enough for 128 requests under way with eight blocks of
 * the class each, or one large one. */
#define BLOCKS_CLASS_BYTES ((size_t)128 << 10)
/* What a thread keeps of all classes. */
#define BLOCKS_KEPT_MAX (BLOCKS_CLASSES * BLOCKS_CLASS_BYTES)

/* All memory of libevent comes from here from now on; call it before anything of libevent. Memory that
 * libevent gives to its caller, such as evhttp_htmlescape's, must then not be given to free(). */
void blocks_for_libevent(void);

/* From here to blocks_drop the calling thread keeps blocks given back; blocks_drop frees them. */
void blocks_keep(void);
void blocks_drop(void);

/* As malloc, realloc and free. A thread may give back a block that another one took. */
void *blocks_take(size_t bytes);
void *blocks_retake(void *block, size_t bytes);
void blocks_give(void *block);

#endif
