/* Cross-entropy among candidates that a micro-batch shares (graph/op_shared_softmax.c): B queries, their
 * targets, and N = B * K words of D columns.
 *
 *     forward     prepare ─▶ f32_din_…: similarities ─▶ loss
 *     backward    prepare ─▶ f32_din_… ─▶ dlogits: G [B, N] ─▶ f32_forward_…: G words
 *                         ─▶ f32_dweight_…: G' queries ─▶ put
 *
 * Gradients are first taken of the normalised vectors: with q^ = u q, dq = u (dq^ - (q^ . dq^) q^), and so
 * for words. */
#ifndef HETERPS_GPU_SHARED_SOFTMAX_H
#define HETERPS_GPU_SHARED_SOFTMAX_H

#include <stddef.h>

#include "gpu/now.h"

#define SHARED_ABSENT  (-1e30f) /* in place of minus log q, of words that are no candidates; of a logit likewise */
#define SHARED_THREADS 256u

/* The keys of the field, and the logarithms of their probabilities, or data NULL. */
struct shared_field {
    const uint32_t *key_begin;
    const uint64_t *key;
    uint32_t field, field_count;
    struct gpu_in log_q;
};
/* Normalises queries and words; the similarity of each target. norm.data NULL: it is not written. A warp a
 * word, and a warp a query and its target. */
struct shared_prepare_args {
    const struct gpu_now *now;
    struct gpu_in q, vectors; /* [B, D], [B, (1 + K) * D] */
    struct shared_field of;
    struct gpu_out norm;   /* [B, 2 + K]: inverse norms of query, target, words */
    float *query, *word;   /* [B, D], [N, D] */
    float *target, *minus; /* [B]: logits; [N]: minus log q, or ABSENT */
    uint64_t *key;         /* [N]: of candidates */
    uint32_t D, words, is_cosine;
    float scale, eps;
};
/* Makes logits of similarities, in place, and the loss of each example. A block an example. */
struct shared_loss_args {
    const struct gpu_now *now;
    struct shared_field of;
    float *logit; /* [B, stride] */
    const float *target, *minus;
    const uint64_t *key;
    const float *weight; /* of examples, or NULL */
    struct gpu_out row, out;
    uint32_t words, stride;
    float scale, loss_scale;
};
/* Makes gradients of similarities of these, in place. */
struct shared_dlogits_args {
    const struct gpu_now *now;
    struct shared_field of;
    float *logit;
    const float *minus;
    const uint64_t *key;
    const float *weight;
    struct gpu_in row;
    uint32_t words, stride;
    float scale, loss_scale;
};
/* The gradients of queries, targets and words, from those of the normalised ones, which are added over their
 * parts. data NULL: nobody wants this one. Warps as in shared_prepare. */
struct shared_put_args {
    const struct gpu_now *now;
    struct gpu_in vectors, norm, row;
    const float *query, *word, *target;
    const float *dquery, *dword; /* [query_parts], [word_parts]: [B, D], [N, D] */
    const float *weight;
    struct gpu_out dq, dvectors;
    size_t query_floats, word_floats; /* of a part */
    uint32_t D, words, is_cosine, query_parts, word_parts, q_adds, vectors_add;
    float scale, loss_scale;
};

#endif
