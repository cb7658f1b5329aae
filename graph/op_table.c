/* The table of ops: one entry a line of ops.def. A line without its functions does not link. */
#include <string.h>

#include "graph/op_rules.h"

const struct op op_table[OP_ID_COUNT] = {
#define OP(id, section_name, kind_name, inputs_kind, trait_bits, from, ...)                                            \
    [OP_ID_##id] = {.name = #id,                                                                                       \
                    .section = section_name,                                                                           \
                    .kind = kind_name,                                                                                 \
                    .source = from,                                                                                    \
                    .inputs = OP_INPUTS_##inputs_kind,                                                                 \
                    .traits = trait_bits,                                                                              \
                    .keys = &op_##id##_keys,                                                                           \
                    .parse = op_##id##_parse,                                                                          \
                    .shape = op_##id##_shape,                                                                          \
                    .forward = op_##id##_forward,                                                                      \
                    .backward = op_##id##_backward,                                                                    \
                    __VA_ARGS__},
#include "graph/ops.def"
#undef OP
};

uint32_t op_section_first(uint32_t op)
{
    uint32_t first = 0;
    while (strcmp(op_table[first].section, op_table[op].section) != 0) first++;
    return first;
}
