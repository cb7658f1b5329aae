/* Blocks by classes of size. */
#include "engine/http/blocks.h"

#include <event2/event.h>
#include <stdalign.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* What lies before a block's bytes. */
struct block_front {
    alignas(16) size_t steps; /* the size in steps of BLOCKS_STEP; above BLOCKS_CLASSES: malloc's own    */
    struct block_front *next; /* in the list of kept ones */
};

static _Thread_local struct {
    bool keeps;
    struct block_front *kept[BLOCKS_CLASSES + 1];
    size_t kept_bytes[BLOCKS_CLASSES + 1];
} own;

void blocks_for_libevent(void) { event_set_mem_functions(blocks_take, blocks_retake, blocks_give); }

static size_t bytes_of(size_t steps) { return sizeof(struct block_front) + steps * BLOCKS_STEP; }

/* AddressSanitizer has to see a use after the block was given back. */
#ifdef __SANITIZE_ADDRESS__
void blocks_keep(void) {}
#else
void blocks_keep(void) { own.keeps = true; }
#endif

void blocks_drop(void)
{
    own.keeps = false;
    for (size_t steps = 0; steps <= BLOCKS_CLASSES; steps++) {
        for (struct block_front *b = own.kept[steps], *next; b; b = next) {
            next = b->next;
            free(b);
        }
        own.kept[steps] = NULL;
        own.kept_bytes[steps] = 0;
    }
}

void *blocks_take(size_t bytes)
{
    const size_t steps = bytes / BLOCKS_STEP + (bytes % BLOCKS_STEP != 0);
    struct block_front *b = steps <= BLOCKS_CLASSES ? own.kept[steps] : NULL;
    if (b) {
        own.kept[steps] = b->next;
        own.kept_bytes[steps] -= bytes_of(steps);
        return b + 1;
    }
    if (bytes > SIZE_MAX - sizeof *b - BLOCKS_STEP || (b = malloc(bytes_of(steps))) == NULL) return NULL;
    b->steps = steps;
    return b + 1;
}

void blocks_give(void *block)
{
    if (block == NULL) return;
    struct block_front *b = (struct block_front *)block - 1;
    const size_t steps = b->steps;
    if (!own.keeps || steps > BLOCKS_CLASSES || own.kept_bytes[steps] + bytes_of(steps) > BLOCKS_CLASS_BYTES) {
        free(b);
        return;
    }
    own.kept_bytes[steps] += bytes_of(steps);
    b->next = own.kept[steps];
    own.kept[steps] = b;
}

void *blocks_retake(void *block, size_t bytes)
{
    if (block == NULL) return blocks_take(bytes);
    struct block_front *b = (struct block_front *)block - 1;
    const size_t has = b->steps * BLOCKS_STEP;
    if (bytes <= has && b->steps <= BLOCKS_CLASSES) return block;
    void *other = blocks_take(bytes);
    if (other == NULL) return NULL;
    memcpy(other, block, has < bytes ? has : bytes);
    blocks_give(block);
    return other;
}
