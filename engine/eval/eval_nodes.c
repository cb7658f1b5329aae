/* Sends terms as pieces, and rank 0's figures to all. A piece is a run of a micro-batch's examples: their
 * count, then their terms. Some thousand pieces an evaluation. */
#include "engine/eval/eval_nodes.h"

#include <string.h>

#include "engine/base/batch.h"
#include "engine/eval/by_value.h"

/* Rank 0's message after an evaluation; the text of a failure follows, then the values of each head. */
struct verdict {
    uint64_t example_count;
    uint32_t code, bytes; /* of the failure's text */
};

static uint32_t verdict_bytes(const struct eval_nodes *n, const struct verdict *verdict)
{
    return (uint32_t)(sizeof *verdict + verdict->bytes + n->heads->count * sizeof n->heads->items->values);
}

static uint32_t to_words(size_t bytes) { return (uint32_t)((bytes + 7) & ~(size_t)7); }

/* How many examples' terms fit into `bytes` after their count; even. */
static uint32_t examples_in(const struct heads *heads, uint32_t bytes)
{
    const uint32_t pair = (uint32_t)heads_terms_bytes(heads, 2); /* two examples need no padding */
    return bytes < sizeof(uint64_t) ? 0 : (bytes - (uint32_t)sizeof(uint64_t)) / pair * 2;
}

/* --- terms ------------------------------------------------------------------------------------ */

static status terms_take(void *context, const void *piece, uint32_t bytes)
{
    struct eval_nodes *n = context;
    uint64_t count = 0;
    if (bytes >= sizeof count) memcpy(&count, piece, sizeof count);
    if (count == 0 || count > n->shape.micro || bytes != sizeof count + heads_terms_bytes(n->heads, (uint32_t)count))
        FAIL(INVALID,
             "a node has sent terms of an evaluation that cannot be right: not all nodes run the same program");
    const uint8_t *terms = (const uint8_t *)piece + sizeof count;
    TRY(heads_terms_add(n->heads, terms, (uint32_t)count));
    return n->by ? by_value_terms_add(n->by, n->heads, terms, (uint32_t)count) : ST_OK;
}

status eval_nodes_begin(struct eval_nodes *n, struct reduce *reduce, struct heads *heads, struct by_value *by)
{
    *n = (struct eval_nodes){.heads = heads, .by = by, .shape = graph_batch(heads->graph)};
    gather_begin(&n->gather, reduce, terms_take, n);
    if (examples_in(heads, GATHER_PIECE_BYTES) == 0 ||
        verdict_bytes(n, &(struct verdict){.bytes = STATUS_MESSAGE_BYTES}) > TALK_BYTES)
        FAIL(INVALID, "an example of %u heads has more figures than %u bytes; evaluate on one node", heads->count,
             TALK_BYTES / 2);
    return ST_OK;
}

static status terms_say(struct eval_nodes *n, const struct slot *slot)
{
    const struct micro_batch *m = &slot->input->batch;
    const uint64_t first = m->step * n->shape.batch + (uint64_t)m->micro_index * n->shape.micro;
    const uint32_t least = (uint32_t)(sizeof first + heads_terms_bytes(n->heads, 2));
    TRY(heads_labels_check(n->heads, slot, first));
    for (uint32_t begin = 0, end; begin < m->example_count; begin = end) {
        uint8_t *at;
        uint32_t room;
        TRY(gather_place(&n->gather, m->step, least, &at, &room));
        const uint32_t fit = examples_in(n->heads, room), left = m->example_count - begin;
        const uint64_t count = left < fit ? left : fit;
        end = begin + (uint32_t)count;
        memcpy(at, &count, sizeof count);
        heads_terms_write(n->heads, slot, begin, end, at + sizeof count);
        gather_put(&n->gather, (uint32_t)(sizeof count + heads_terms_bytes(n->heads, (uint32_t)count)));
    }
    if (m->is_last || m->micro_index + 1 == n->micro_end) gather_step_end(&n->gather, m->step);
    return ST_OK;
}

status eval_nodes_add(struct eval_nodes *n, const struct slot *slot)
{
    if (reduce_rank(n->gather.reduce) != 0) return terms_say(n, slot);
    /* Rank 0 has the first lane of every step; where nodes have stages, its turn comes by itself. */
    if (!n->gather.by_stages) TRY(gather_until(&n->gather, slot->input->batch.step));
    TRY(heads_add(n->heads, slot));
    return n->by ? by_value_add(n->by, slot, n->heads->rank) : ST_OK;
}

static status own_add(void *context, const struct slot *slot) { return eval_nodes_add(context, slot); }

status eval_nodes_start(struct eval_nodes *n, struct pipeline *pipeline, bool *by_stages)
{
    const uint32_t a_lane = batch_micro_count(n->shape) / n->shape.lanes;
    const struct fold_lanes lanes = gather_lanes(&n->gather);
    n->micro_end = a_lane * (lanes.begin + lanes.count);
    *by_stages = n->gather.by_stages;
    return gather_start(&n->gather, pipeline, a_lane, own_add);
}

status eval_nodes_end(struct eval_nodes *n, status st) { return gather_end(&n->gather, st); }

/* --- what is found ---------------------------------------------------------------------------- */

static status verdict_say(struct eval_nodes *n, const struct verdict *verdict, const char *message)
{
    for (uint32_t to = 1; to < reduce_node_count(n->gather.reduce); to++) {
        uint8_t *at;
        TRY(reduce_say_place(n->gather.reduce, to, &at));
        memcpy(at, verdict, sizeof *verdict);
        memcpy(at + sizeof *verdict, message, verdict->bytes);
        at += sizeof *verdict + verdict->bytes;
        for (uint32_t h = 0; h < n->heads->count; h++, at += sizeof n->heads->items->values)
            memcpy(at, n->heads->items[h].values, sizeof n->heads->items->values);
        reduce_say(n->gather.reduce, to, verdict_bytes(n, verdict));
    }
    return ST_OK;
}

static status verdict_invalid(void)
{
    FAIL(INVALID, "node 0 has sent figures that cannot be right: it does not run the same program");
}

static status verdict_hear(struct eval_nodes *n, uint64_t *example_count)
{
    const uint8_t *at;
    uint32_t bytes;
    struct verdict verdict = {0};
    TRY(reduce_hear(n->gather.reduce, 0, &at, &bytes));
    if (bytes >= sizeof verdict) memcpy(&verdict, at, sizeof verdict);
    at += sizeof verdict;
    if (bytes < sizeof verdict || verdict.code >= ST_COUNT || verdict.bytes > TALK_BYTES ||
        bytes != verdict_bytes(n, &verdict) || (verdict.bytes && at[verdict.bytes - 1] != 0))
        return verdict_invalid();
    *example_count = verdict.example_count;
    status st = ST_OK;
    if (verdict.code && verdict.bytes)
        st = status_fail((status)verdict.code, __FILE__, __LINE__, "%s", (const char *)at);
    at += verdict.bytes;
    for (uint32_t h = 0; h < n->heads->count; h++, at += sizeof n->heads->items->values)
        memcpy(n->heads->items[h].values, at, sizeof n->heads->items->values);
    reduce_heard(n->gather.reduce, 0);
    return st;
}

status eval_nodes_tell(struct eval_nodes *n, status st, uint64_t *example_count)
{
    if (n->gather.by_stages && st != ST_OK && reduce_rank(n->gather.reduce) != 0) return st;
    if (reduce_rank(n->gather.reduce) != 0) return verdict_hear(n, example_count);
    struct failure failure;
    failure_keep(&failure, st);
    const char *message = st == ST_OK ? "" : failure.message;
    const struct verdict verdict = {
        .example_count = *example_count, .code = st, .bytes = st == ST_OK ? 0 : to_words(strlen(message) + 1)};
    char text[STATUS_MESSAGE_BYTES + 8] = "";
    memcpy(text, message, strlen(message));
    TRY(verdict_say(n, &verdict, text));
    return failure_adopt(&failure);
}
