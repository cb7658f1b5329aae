/* The shape rule of ops on several inputs, element by element. */
#include "graph/op_rules.h"

status broadcast_shape(struct op_shape *s, uint32_t flops)
{
    uint32_t widest = 0;
    for (uint32_t i = 0; i < s->input_count; i++) {
        if (s->input_cols[i] == 0) FAIL(INVALID, "expected inputs that are not sparse fields; input %u is one", i + 1);
        if (s->input_cols[i] > s->input_cols[widest]) widest = i;
    }
    s->output_cols = s->input_cols[widest];
    for (uint32_t i = 0; i < s->input_count; i++)
        if (s->input_cols[i] != s->output_cols && s->input_cols[i] != 1)
            FAIL(INVALID, "expected inputs of %u columns, as input %u has, or of 1; input %u has %u", s->output_cols,
                 widest + 1, i + 1, s->input_cols[i]);
    s->flops_forward = s->flops_backward = (uint64_t)flops * s->input_count * s->output_cols;
    return ST_OK;
}
