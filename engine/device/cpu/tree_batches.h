/* The batches of a tree's nodes where [tree] names another policy than by height: made for every
 * micro-batch, before its forward pass. */
#ifndef HETERPS_ENGINE_DEVICE_CPU_TREE_BATCHES_H
#define HETERPS_ENGINE_DEVICE_CPU_TREE_BATCHES_H

#include "graph/tree_frame.h"

/* Bytes of scratch for the batches of `examples` examples of at most key_max keys. */
size_t tree_batches_bytes(uint32_t examples, uint32_t key_max);
/* Sets the batches of a run that tree_forward_begin() has begun; `memory` is scratch of `bytes`
 * bytes, aligned to a cache line. */
void tree_batches_make(struct tree_run *run, void *memory, size_t bytes);

#endif
