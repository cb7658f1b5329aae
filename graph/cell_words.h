/* The words of a cell (graph/cell.h): operands, steps, products. Kernels of cards read them, too, so this
 * header is C and CUDA C++ alike. */
#ifndef HETERPS_GRAPH_CELL_WORDS_H
#define HETERPS_GRAPH_CELL_WORDS_H

#include <stdbool.h>
#include <stdint.h>

#define CELL_STATES_MAX    4u
#define CELL_INPUTS_MAX    8u
#define CELL_REGISTERS_MAX 64u
#define CELL_STEPS_MAX     256u

/* An operand: kind << 28 | index << 16 | child. */
enum cell_operand_kind {
    CELL_REGISTER,    /* index                                                              */
    CELL_EDGE,        /* edge register: index                                               */
    CELL_WORD,        /* the vector of the node's word, from the tree's second input        */
    CELL_NUMBER,      /* the node's number, in every column                                 */
    CELL_CONSTANT,    /* index                                                              */
    CELL_STATE,       /* state `index` of child `child`, counted from 0                     */
    CELL_CHILD_STATE, /* state `index` of the edge's child                                  */
    CELL_OPERAND_KINDS
};
struct cell_operand {
    uint32_t kind, index, child;
};
#define CELL_OPERAND_KIND(word)  ((word) >> 28)
#define CELL_OPERAND_INDEX(word) ((word) >> 16 & 0xfff)
#define CELL_OPERAND_CHILD(word) ((word)&0xffff)
static inline uint32_t cell_operand_pack(enum cell_operand_kind kind, uint32_t index, uint32_t child)
{
    return (uint32_t)kind << 28 | index << 16 | child;
}
static inline struct cell_operand cell_operand(uint32_t word)
{
    return (struct cell_operand){CELL_OPERAND_KIND(word), CELL_OPERAND_INDEX(word), CELL_OPERAND_CHILD(word)};
}

enum cell_op {
    CELL_PRODUCT,  /* a: number of the product                               */
    CELL_COPY,     /* to = a                                                 */
    CELL_ADD,      /* to = a + b                                             */
    CELL_SUBTRACT, /* to = a - b                                             */
    CELL_MULTIPLY, /* to = a * b                                             */
    CELL_FMA,      /* to = to + a * b                                        */
    CELL_ACTIVATE, /* to = activation(a), b: enum activation                 */
    CELL_SIN,      /* to = sin(a); `to` is not a, as with …                  */
    CELL_COS,      /* … to = cos(a)                                          */
    CELL_SUM,      /* to = sum over the node's edges of a, in their order; … */
    CELL_PROD,     /* … the product                                          */
    CELL_OP_COUNT
};
struct cell_step {
    uint32_t op, to, a, b;
};
static inline bool cell_step_has_b(const struct cell_step *s)
{
    return s->op == CELL_ADD || s->op == CELL_SUBTRACT || s->op == CELL_MULTIPLY || s->op == CELL_FMA;
}
/* Whether the step goes over all edges of a node. */
static inline bool cell_step_is_fold(const struct cell_step *s) { return s->op == CELL_SUM || s->op == CELL_PROD; }
/* result [rows, output_count * units] = [inputs] weight + bias; a row is a node, or an edge. */
struct cell_product {
    uint32_t is_edge;
    uint32_t output, output_count; /* registers, or edge registers */
    uint32_t input_count;
    uint32_t input[CELL_INPUTS_MAX];
};
struct cell {
    uint32_t register_count, edge_count; /* registers, and edge registers                            */
    uint32_t product_count, step_count, constant_count;
    uint32_t children_min, children_max;
    uint32_t needs_word, needs_number;
    uint32_t state[CELL_STATES_MAX]; /* the states' registers; as many as the tree has states      */
};

#endif
