/* A tree, or any directed acyclic graph, as data: one key for each node, children before parents, in one
 * field of an example (io/read/trees.c writes it, graph/op_tree.c computes over it). The keys alone suffice:
 * a node takes the nodes that stand last on a stack as its children, and then stands there in their place.
 *
 *     text     (2 (3 good) (1 (2 old) (2 days)))
 *     keys      leaf 0   leaf 1   leaf 2   inner of 2   inner of 2
 *     stack     0        0 1      0 1 2    0 3          4      what is left are roots; the example's is the last
 *
 * A node that is named once more (TREE_AGAIN) goes onto the stack a second time, so it gets several parents.
 * Several roots are a forest; a chain of nodes with one child each is a sequence. */
#ifndef HETERPS_BASE_TREE_H
#define HETERPS_BASE_TREE_H

#include <stdbool.h>
#include <stdint.h>

#define TREE_NONE         UINT32_MAX
#define TREE_KINDS_MAX    128u
#define TREE_CHILDREN_MAX 65535u

/* Bits of a key. */
/* 32: a float's bits, its number; NaN: it has none; of one named again: which node of the example */
#define TREE_NUMBER_SHIFT   0
#define TREE_KIND_SHIFT     32                  /* 8: which of data.kinds */
#define TREE_CHILDREN_SHIFT 40                  /* 16 */
#define TREE_WORD           (UINT64_C(1) << 56) /* its word is the next key of the example's field of words */
#define TREE_AGAIN          (UINT64_C(1) << 57)
#define TREE_BITS           58

/* Nodes of one or more examples, one example after another; a node's children have lower indices. */
struct tree_nodes {
    uint32_t count;
    uint8_t *kind;         /* [count]                                                               */
    float *number;         /* [count]: NaN: none                                                    */
    uint32_t *word;        /* [count]: position among the words of its example, or NONE             */
    uint32_t *child_begin; /* [count + 1]                                                           */
    uint32_t *child;       /* [child_begin[count]]; never more than there are keys                  */
};

uint64_t tree_key(uint32_t kind, uint32_t child_count, bool has_word, float number);
uint64_t tree_key_again(uint32_t node);
/* Appends the nodes of an example, given by `count` keys. The example has `word_count` words and kinds below
 * kind_count; the arrays must have room. `stack` [count] is scratch. Returns NULL; or, for keys that no
 * reader has written, a sentence about what they lack, and then nothing is appended. */
const char *tree_nodes_add(struct tree_nodes *nodes, const uint64_t *key, uint32_t count, uint32_t word_count,
                           uint32_t kind_count, uint32_t *stack);

#endif
