/* Choices, rows and sums of routed experts. */
#include "gpu/experts.h"

#include "gpu/each.h"
#include "gpu/math.h"

/* --- forward ------------------------------------------------------------------------------------------ */

/* The expert that follows `before` by falling logit, of equals by number; NONE before the first; NONE where
 * no logit that is a number is left. All lanes of the warp. */
DEVICE uint32_t expert_next(const float *logit, uint32_t count, uint32_t before)
{
    const float limit = before == ROUTED_NONE ? 0 : logit[before];
    uint32_t best = ROUTED_NONE;
    float value = 0;
    for (uint32_t e = threadIdx.x; e < count; e += WARP_LANES) {
        const float z = logit[e];
        if (before != ROUTED_NONE && !(z < limit || (z == limit && e > before))) continue;
        if (best == ROUTED_NONE ? z == z : z > value) {
            best = e;
            value = z;
        }
    }
    for (uint32_t by = WARP_LANES / 2; by > 0; by /= 2) {
        const uint32_t other = __shfl_xor_sync(WARP_ALL, best, by);
        const float z = __shfl_xor_sync(WARP_ALL, value, by);
        if (other == ROUTED_NONE) continue;
        if (best == ROUTED_NONE || z > value || (z == value && other < best)) {
            best = other;
            value = z;
        }
    }
    return best;
}

KERNEL(routed_choose)
{
    const uint32_t lane = threadIdx.x;
    EACH_EXAMPLE(b)
    {
        const float *logit = in_row(a.logits, b);
        uint32_t *expert = a.expert + (size_t)b * a.top, before = ROUTED_NONE;
        float *gate = a.gate + (size_t)b * a.top, *p = a.p + (size_t)b * a.count, greatest = 0, chosen = 0, sum = 0;
        for (uint32_t j = 0; j < a.top; j++) {
            const uint32_t next = expert_next(logit, a.count, before), e = next == ROUTED_NONE ? j : next;
            if (j == 0) greatest = logit[e];
            const float power = gpu_exp(logit[e] - greatest);
            chosen += power;
            if (lane == j % WARP_LANES) {
                expert[j] = e;
                gate[j] = power;
            }
            before = e;
        }
        for (uint32_t e = lane; e < a.count; e += WARP_LANES) sum += gpu_exp(logit[e] - greatest);
        sum = warp_sum(sum);
        for (uint32_t e = lane; e < a.count; e += WARP_LANES) p[e] = __fdiv_rn(gpu_exp(logit[e] - greatest), sum);
        /* A NaN among the logits shows, whichever experts were chosen. */
        if (a.top == 1 || sum != sum) chosen = sum;
        for (uint32_t j = lane; j < a.top; j += WARP_LANES) gate[j] = __fdiv_rn(gate[j], chosen);
    }
}

/* The choices in order, some at a time: first those of rank 0. Each warp counts its own; two lots of counts
 * take turns, so that one barrier is enough. */
#define QUEUE_WARPS (ROUTED_THREADS / WARP_LANES)
KERNEL_BOUND(routed_queue, ROUTED_THREADS)
{
    SHARED(uint32_t, counted, 2 * QUEUE_WARPS);
    const uint32_t lane = threadIdx.x % WARP_LANES, warp = threadIdx.x / WARP_LANES, B = a.now->example_count,
                   choices = B * a.top;
    uint32_t before = 0;
    for (uint32_t first = 0, lot = 0; first < choices; first += ROUTED_THREADS, lot ^= QUEUE_WARPS) {
        const uint32_t i = first + threadIdx.x, choice = i < choices ? i % B * a.top + i / B : 0,
                       is_here = i < choices && a.expert[choice] == blockIdx.x,
                       votes = __ballot_sync(WARP_ALL, is_here);
        if (lane == 0) counted[lot + warp] = __popc(votes);
        __syncthreads();
        uint32_t place = before + __popc(votes & ((1u << lane) - 1));
        UNROLL for (uint32_t w = 0; w < QUEUE_WARPS; w++)
        {
            const uint32_t count = counted[lot + w];
            place += w < warp ? count : 0;
            before += count;
        }
        if (is_here) a.place[choice] = place < a.capacity ? place : ROUTED_NONE;
    }
    if (threadIdx.x != 0) return;
    a.rows[blockIdx.x] = before < a.capacity ? before : a.capacity;
    a.load[blockIdx.x] = __fdiv_rn((float)before, (float)choices);
}

KERNEL(routed_begin)
{
    uint32_t before = 0;
    if (threadIdx.x == 0) a.begin[0] = 0;
    for (uint32_t first = 0; first < a.count; first += WARP_LANES) {
        const uint32_t e = first + threadIdx.x,
                       up_to = before + warp_sum_up_to(e < a.count ? a.rows[e] : 0, threadIdx.x);
        if (e < a.count) a.begin[e + 1] = up_to;
        before = __shfl_sync(WARP_ALL, up_to, WARP_LANES - 1);
    }
}

KERNEL(routed_gather)
{
    EACH_ROW(choice, a.now->example_count * a.top)
    {
        const uint32_t place = a.place[choice],
                       row = place == ROUTED_NONE ? ROUTED_NONE : a.begin[a.expert[choice]] + place;
        const float *x = in_row(a.x, choice / a.top);
        if (threadIdx.x == 0) a.row[choice] = row;
        if (row == ROUTED_NONE) continue;
        if (threadIdx.x == 0) a.from[row] = choice;
        for (uint32_t k = threadIdx.x; k < a.cols; k += WARP_LANES) a.in[(size_t)row * a.cols + k] = x[k];
    }
}

KERNEL(routed_outputs)
{
    EACH_EXAMPLE(b)
    EACH_COL(i, a.cols)
    {
        float sum = 0;
        for (uint32_t choice = b * a.top; choice < (b + 1) * a.top; choice++) {
            const uint32_t row = a.row[choice];
            if (row != ROUTED_NONE) sum = __fmaf_rn(a.gate[choice], a.rows[(size_t)row * a.cols + i], sum);
        }
        out_row(a.out, b)[i] = sum;
    }
}

/* --- backward ----------------------------------------------------------------------------------------- */

KERNEL(routed_gates)
{
    EACH_ROW(choice, a.now->example_count * a.top)
    {
        const uint32_t row = a.row[choice];
        const float *dout = in_row(a.dout, choice / a.top), gate = a.gate[choice];
        const size_t at = row == ROUTED_NONE ? 0 : (size_t)row * a.cols;
        float sum = 0;
        for (uint32_t i = threadIdx.x; i < a.cols && row != ROUTED_NONE; i += WARP_LANES) {
            const float out = a.out[at + i];
            sum = __fmaf_rn(dout[i], out, sum);
            a.dz[at + i] = gate * dout[i] * gpu_slope(a.activation, 0, out);
        }
        sum = warp_sum(sum);
        if (threadIdx.x == 0) a.dgate[choice] = sum;
    }
}

KERNEL(routed_inputs)
{
    EACH_EXAMPLE(b)
    EACH_COL(k, a.cols)
    {
        float sum = 0;
        for (uint32_t choice = b * a.top; choice < (b + 1) * a.top; choice++) {
            const uint32_t row = a.row[choice];
            if (row != ROUTED_NONE) sum += a.rows[(size_t)row * a.cols + k];
        }
        grad_put(&out_row(a.dx, b)[k], sum, a.adds);
    }
}

KERNEL(routed_logits)
{
    EACH_EXAMPLE(b)
    {
        const uint32_t *expert = a.expert + (size_t)b * a.top;
        const float *gate = a.gate + (size_t)b * a.top, *dgate = a.dgate + (size_t)b * a.top,
                    *p = a.p + (size_t)b * a.count, balance = a.balance * (float)a.count * (a.weight ? a.weight[b] : 1);
        float through = 0, load = 0;
        for (uint32_t j = 0; j < a.top; j++) through = __fmaf_rn(gate[j], dgate[j], through);
        if (a.balance != 0)
            for (uint32_t e = threadIdx.x; e < a.count; e += WARP_LANES) load = __fmaf_rn(a.load[e], p[e], load);
        load = warp_sum(load);
        for (uint32_t e = threadIdx.x; e < a.count; e += WARP_LANES) {
            float slope = a.top == 1 ? -p[e] * through : 0;
            if (a.balance != 0) slope = __fmaf_rn(balance * p[e], a.load[e] - load, slope);
            for (uint32_t j = 0; j < a.top; j++)
                if (expert[j] == e) slope += a.top == 1 ? gate[j] * dgate[j] : gate[j] * (dgate[j] - through);
            grad_put(&out_row(a.dlogits, b)[e], slope, a.adds);
        }
    }
}
