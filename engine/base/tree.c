/* Trees as keys: writes keys, and makes nodes with their children from a list of keys. */
#include "engine/base/tree.h"

#include <math.h>
#include <string.h>

uint64_t tree_key(uint32_t kind, uint32_t child_count, bool has_word, float number)
{
    uint32_t bits;
    memcpy(&bits, &number, sizeof bits);
    return (uint64_t)bits << TREE_NUMBER_SHIFT | (uint64_t)kind << TREE_KIND_SHIFT |
           (uint64_t)child_count << TREE_CHILDREN_SHIFT | (has_word ? TREE_WORD : 0);
}

uint64_t tree_key_again(uint32_t node) { return TREE_AGAIN | node; }

const char *tree_nodes_add(struct tree_nodes *nodes, const uint64_t *key, uint32_t count, uint32_t word_count,
                           uint32_t kind_count, uint32_t *stack)
{
    uint32_t first = nodes->count, node = first, depth = 0, word = 0, child = nodes->child_begin[first];
    for (uint32_t i = 0; i < count; i++) {
        uint32_t bits = (uint32_t)key[i];
        if (key[i] >> TREE_BITS != 0) return "a key that is no node";
        if (key[i] & TREE_AGAIN) {
            if (bits >= node - first) return "a node named again that did not come before";
            stack[depth++] = first + bits;
            continue;
        }
        uint32_t kind = (uint8_t)(key[i] >> TREE_KIND_SHIFT), children = (uint16_t)(key[i] >> TREE_CHILDREN_SHIFT);
        if (kind >= kind_count) return "a node of a kind that is none of data.kinds";
        if (children > depth) return "a node with more children than there are nodes before it";
        if ((key[i] & TREE_WORD) && word == word_count) return "more nodes with words than words";
        nodes->kind[node] = (uint8_t)kind;
        memcpy(&nodes->number[node], &bits, sizeof bits);
        nodes->word[node] = key[i] & TREE_WORD ? word++ : TREE_NONE;
        depth -= children;
        memcpy(nodes->child + child, stack + depth, children * sizeof *stack);
        child += children;
        stack[depth++] = node++;
        nodes->child_begin[node] = child;
    }
    nodes->count = node;
    return NULL;
}
