/* Losses and metrics as in graph/op_*.c, in float32. */
#include "gpu/loss.h"

#include "gpu/each.h"
#include "gpu/math.h"

#define ABSENT  0xffffffffu
#define NOT_NUM __uint_as_float(0x7fc00000u)

/* log(1 + e^x) */
DEVICE float softplus(float x) { return (x < 0 ? 0 : x) + gpu_log1p(gpu_exp(x < 0 ? x : -x)); }

KERNEL(pair_loss_forward)
{
    EACH_EXAMPLE(b)
    {
        const float x = *in_row(a.x, b), y = *in_row(a.y, b);
        float loss;
        if (a.kind == PAIR_BCE)
            loss = y >= 0 && y <= 1 ? softplus(x) - x * y : NOT_NUM;
        else if (a.kind == PAIR_SQUARED)
            loss = (x - y) * (x - y);
        else
            loss = a.margin - x + y < 0 ? 0 : a.margin - x + y;
        *out_row(a.out, b) = scale_of(a.weight, a.scale, b) * loss;
    }
}

KERNEL(pair_loss_backward)
{
    EACH_EXAMPLE(b)
    {
        const float x = *in_row(a.x, b), y = *in_row(a.y, b);
        float slope;
        if (a.kind == PAIR_BCE)
            slope = gpu_sigmoid(x) - y;
        else if (a.kind == PAIR_SQUARED)
            slope = 2 * (x - y);
        else
            slope = a.margin - x + y > 0 ? -1 : 0;
        slope *= scale_of(a.weight, a.scale, b);
        if (a.dx.data) grad_put(out_row(a.dx, b), slope, a.x_adds);
        if (a.dy.data) grad_put(out_row(a.dy, b), -slope, a.y_adds);
    }
}

/* The class that a label names, or ABSENT. */
DEVICE uint32_t class_of(float label, uint32_t classes)
{
    if (!(label >= 0 && label < (float)classes)) return ABSENT;
    const uint32_t number = (uint32_t)label;
    return (float)number == label ? number : ABSENT;
}
DEVICE uint32_t is_hit(const float *log_q, uint32_t j) { return log_q && j > 0 && log_q[j] > 0; }
DEVICE float log_q_of(const float *log_q, uint32_t j) { return log_q ? log_q[j] : 0; }

KERNEL(log_loss_forward)
{
    EACH_EXAMPLE(b)
    {
        const float *x = in_row(a.x, b), *q = a.log_q.data ? in_row(a.log_q, b) : (const float *)0;
        const uint32_t target = q ? 0 : class_of(*in_row(a.label, b), a.cols);
        float greatest = x[0] - log_q_of(q, 0), sum = 0;
        for (uint32_t j = threadIdx.x; j < a.cols; j += WARP_LANES) {
            const float z = x[j] - log_q_of(q, j);
            if (!is_hit(q, j) && z > greatest) greatest = z;
        }
        greatest = warp_max(greatest);
        for (uint32_t j = threadIdx.x; j < a.cols; j += WARP_LANES)
            if (!is_hit(q, j)) sum += gpu_exp(x[j] - log_q_of(q, j) - greatest);
        sum = warp_sum(sum);
        if (threadIdx.x == 0) {
            const float loss = target == ABSENT ? NOT_NUM : gpu_log(sum) - (x[target] - log_q_of(q, target) - greatest);
            float *saved = out_row(a.saved, b);
            saved[0] = loss;
            saved[1] = greatest;
            saved[2] = sum;
            *out_row(a.out, b) = scale_of(a.weight, a.scale, b) * loss;
        }
    }
}

KERNEL(log_loss_backward)
{
    EACH_EXAMPLE(b)
    EACH_COL(j, a.cols)
    {
        const float *x = in_row(a.x, b), *q = a.log_q.data ? in_row(a.log_q, b) : (const float *)0,
                    *saved = in_row(a.saved, b);
        const uint32_t target = q ? 0 : class_of(*in_row(a.label, b), a.cols);
        const float p = is_hit(q, j) ? 0 : __fdiv_rn(gpu_exp(x[j] - log_q_of(q, j) - saved[1]), saved[2]);
        grad_put(&out_row(a.dx, b)[j], scale_of(a.weight, a.scale, b) * (p - (j == target ? 1 : 0)), a.adds);
    }
}

/* A node's greatest score, and the sum of exp(score - greatest). */
DEVICE float node_sum(const float *x, uint32_t classes, float *greatest)
{
    float sum = 0;
    *greatest = x[0];
    for (uint32_t j = 1; j < classes; j++) *greatest = x[j] > *greatest ? x[j] : *greatest;
    for (uint32_t j = 0; j < classes; j++) sum += gpu_exp(x[j] - *greatest);
    return sum;
}

KERNEL(node_loss_forward)
{
    EACH_EXAMPLE(b)
    {
        float loss = 0;
        for (uint32_t node = threadIdx.x; node < a.nodes; node += WARP_LANES) {
            const uint32_t target = a.words[(size_t)b * a.nodes + node];
            const float *x = in_row(a.x, b) + (size_t)node * a.classes;
            float greatest;
            if (target == NODE_NONE) continue;
            if (target == NODE_STRANGE) {
                loss = NOT_NUM;
                continue;
            }
            const float sum = node_sum(x, a.classes, &greatest);
            loss += gpu_log(sum) - (x[target] - greatest);
        }
        loss = warp_sum(loss);
        if (threadIdx.x == 0) {
            *out_row(a.saved, b) = loss;
            *out_row(a.out, b) = scale_of(a.weight, a.scale, b) * loss;
        }
    }
}

KERNEL(node_loss_backward)
{
    EACH_EXAMPLE(b)
    EACH_COL(node, a.nodes)
    {
        const uint32_t target = a.words[(size_t)b * a.nodes + node];
        const float *x = in_row(a.x, b) + (size_t)node * a.classes, scale = scale_of(a.weight, a.scale, b);
        float *dx = out_row(a.dx, b) + (size_t)node * a.classes, greatest = 0;
        const float sum = target == NODE_NONE ? 1 : node_sum(x, a.classes, &greatest);
        for (uint32_t j = 0; j < a.classes; j++) {
            const float p = target == NODE_NONE ? 0 : __fdiv_rn(gpu_exp(x[j] - greatest), sum);
            grad_put(&dx[j], target == NODE_NONE ? 0 : scale * (p - (j == target ? 1 : 0)), a.adds);
        }
    }
}

DEVICE float nce_logit(const float *x, const float *q, uint32_t j, float log_k, uint32_t corrects)
{
    return corrects ? x[j] - (q[j] + log_k) : x[j];
}

KERNEL(nce_forward)
{
    EACH_EXAMPLE(b)
    {
        const float *x = in_row(a.x, b), *q = in_row(a.log_q, b);
        float loss = 0;
        for (uint32_t j = threadIdx.x; j < a.cols; j += WARP_LANES) {
            const float z = nce_logit(x, q, j, a.log_k, a.corrects);
            if (!is_hit(q, j)) loss += softplus(j == 0 ? -z : z);
        }
        loss = warp_sum(loss);
        if (threadIdx.x == 0) {
            *out_row(a.saved, b) = loss;
            *out_row(a.out, b) = scale_of(a.weight, a.scale, b) * loss;
        }
    }
}

KERNEL(nce_backward)
{
    EACH_EXAMPLE(b)
    EACH_COL(j, a.cols)
    {
        const float *q = in_row(a.log_q, b);
        const float slope = gpu_sigmoid(nce_logit(in_row(a.x, b), q, j, a.log_k, a.corrects)) - (j == 0 ? 1 : 0);
        grad_put(&out_row(a.dx, b)[j], is_hit(q, j) ? 0 : scale_of(a.weight, a.scale, b) * slope, a.adds);
    }
}

DEVICE uint32_t warp_count(uint32_t count)
{
    for (uint32_t by = WARP_LANES / 2; by > 0; by /= 2) count += __shfl_xor_sync(WARP_ALL, count, by);
    return count;
}
DEVICE float metric_value(uint32_t kind, uint32_t k, uint32_t above, uint32_t equal)
{
    const float rank = (float)above + 0.5f * (float)equal;
    if (kind == METRIC_ACCURACY) return above == 0 ? __fdiv_rn(1, 1 + (float)equal) : 0;
    if (kind == METRIC_HIT_RATE) return rank < (float)k ? 1 : 0;
    return rank < (float)k ? __fdiv_rn(0.693147181f, gpu_log(2 + rank)) : 0;
}

KERNEL(metric_rank)
{
    EACH_EXAMPLE(b)
    {
        const float *x = in_row(a.scores, b), *also = a.also.data ? in_row(a.also, b) : (const float *)0,
                    *q = a.has_label ? (const float *)0 : also;
        uint32_t above = 0, equal = 0, target = 0;
        if (a.cols == 1) {
            const float score = a.has_label && !(*also > 0.5f) ? -*x : *x, other = a.has_label ? 0 : *also;
            above = !(other <= score);
            equal = other == score;
        } else {
            if (a.has_label) target = class_of(*also, a.cols);
            for (uint32_t j = threadIdx.x; j < a.cols && target != ABSENT; j += WARP_LANES) {
                if (j == target || is_hit(q, j)) continue;
                above += !(x[j] <= x[target]);
                equal += x[j] == x[target];
            }
            above = warp_count(above);
            equal = warp_count(equal);
        }
        if (threadIdx.x == 0) *out_row(a.out, b) = target == ABSENT ? NOT_NUM : metric_value(a.kind, a.k, above, equal);
    }
}

KERNEL(softmax_forward)
{
    EACH_EXAMPLE(b)
    for (uint32_t g = 0; g < a.groups; g++) {
        const float *x = in_row(a.in, b) + g * a.cols;
        float *y = out_row(a.out, b) + g * a.cols, greatest = x[0], sum = 0;
        for (uint32_t i = threadIdx.x; i < a.cols; i += WARP_LANES) greatest = x[i] > greatest ? x[i] : greatest;
        greatest = warp_max(greatest);
        for (uint32_t i = threadIdx.x; i < a.cols; i += WARP_LANES) sum += gpu_exp(x[i] - greatest);
        sum = warp_sum(sum);
        for (uint32_t i = threadIdx.x; i < a.cols; i += WARP_LANES) y[i] = __fdiv_rn(gpu_exp(x[i] - greatest), sum);
    }
}

KERNEL(softmax_backward)
{
    EACH_EXAMPLE(b)
    for (uint32_t g = 0; g < a.groups; g++) {
        const float *y = in_row(a.out, b) + g * a.cols, *dy = in_row(a.dout, b) + g * a.cols;
        float *dx = out_row(a.din, b) + g * a.cols, sum = 0;
        for (uint32_t i = threadIdx.x; i < a.cols; i += WARP_LANES) sum += y[i] * dy[i];
        sum = warp_sum(sum);
        for (uint32_t i = threadIdx.x; i < a.cols; i += WARP_LANES) grad_put(&dx[i], y[i] * (dy[i] - sum), a.adds);
    }
}
