/* Blocks by classes of size. */
#include "engine/http/blocks.h"

#include <event2/event.h>
#include <stdalign.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* What lies before a block's bytes. */
struct block {
    alignas(16) size_t class; /* its bytes in steps of BLOCKS_STEP; beyond BLOCKS_CLASSES it is malloc's */
    struct block *next;       /* of those that are kept */
};

static _Thread_local struct {
    bool keeps;
    struct block *kept[BLOCKS_CLASSES + 1];
    size_t kept_bytes[BLOCKS_CLASSES + 1];
} own;

void blocks_for_libevent(void) { event_set_mem_functions(blocks_take, blocks_retake, blocks_give); }

static size_t bytes_of(size_t class) { return sizeof(struct block) + class * BLOCKS_STEP; }

void blocks_keep(void) { own.keeps = true; }

void blocks_drop(void)
{
    own.keeps = false;
    for (size_t class = 0; class <= BLOCKS_CLASSES; class ++) {
        for (struct block *b = own.kept[class], *next; b; b = next) {
            next = b->next;
            free(b);
        }
        own.kept[class] = NULL;
        own.kept_bytes[class] = 0;
    }
}

void *blocks_take(size_t bytes)
{
    const size_t class = bytes / BLOCKS_STEP + (bytes % BLOCKS_STEP != 0);
    struct block *b = class <= BLOCKS_CLASSES ? own.kept[class] : NULL;
    if (b) {
        own.kept[class] = b->next;
        own.kept_bytes[class] -= bytes_of(class);
        return b + 1;
    }
    if (bytes > SIZE_MAX - sizeof *b - BLOCKS_STEP || (b = malloc(bytes_of(class))) == NULL) return NULL;
    b->class = class;
    return b + 1;
}

void blocks_give(void *block)
{
    if (block == NULL) return;
    struct block *b = (struct block *)block - 1;
    const size_t class = b->class;
    if (!own.keeps || class > BLOCKS_CLASSES || own.kept_bytes[class] + bytes_of(class) > BLOCKS_CLASS_BYTES) {
        free(b);
        return;
    }
    own.kept_bytes[class] += bytes_of(class);
    b->next = own.kept[class];
    own.kept[class] = b;
}

void *blocks_retake(void *block, size_t bytes)
{
    if (block == NULL) return blocks_take(bytes);
    struct block *b = (struct block *)block - 1;
    const size_t has = b->class * BLOCKS_STEP;
    if (bytes <= has && b->class <= BLOCKS_CLASSES) return block;
    void *other = blocks_take(bytes);
    if (other == NULL) return NULL;
    memcpy(other, block, has < bytes ? has : bytes);
    blocks_give(block);
    return other;
}
