/* The table of ops: one entry a line of ops.def. A line without its functions does not link. */
#include "graph/op_rules.h"

const struct op op_table[OP_ID_COUNT] = {
#define OP(id, section, kind, inputs, traits, source)                                                                  \
    [OP_ID_##id] = {#id,                                                                                               \
                    section,                                                                                           \
                    kind,                                                                                              \
                    source,                                                                                            \
                    OP_INPUTS_##inputs,                                                                                \
                    traits,                                                                                            \
                    &op_##id##_keys,                                                                                   \
                    op_##id##_parse,                                                                                   \
                    op_##id##_shape,                                                                                   \
                    op_##id##_forward,                                                                                 \
                    op_##id##_backward},
#include "graph/ops.def"
#undef OP
};
