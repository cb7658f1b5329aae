/* Terms in blocks, a chunk for each run of examples of a micro-batch: some thousand chunks an evaluation. A block goes
 * when it is full, or its step is over, for rank 0 waits for that. */
#include "engine/eval/nodes.h"

#include <string.h>

#include "engine/base/batch.h"

/* Before the terms of `count` examples; of a node's last ones of a step code is 1. 0 examples: the last chunk of all,
 * which has behind it the message of what the node has failed with, if code is that. */
struct chunk {
    uint64_t step;
    uint32_t count, code;
};

/* What rank 0 says behind an evaluation: the values of each head behind it, or a message. */
struct verdict {
    uint64_t example_count;
    uint32_t code, bytes; /* of the message */
};

static uint32_t verdict_bytes(const struct eval_nodes *n, const struct verdict *verdict)
{
    return (uint32_t)(sizeof *verdict + verdict->bytes + n->heads->count * sizeof n->heads->items->values);
}

static uint32_t to_words(size_t bytes) { return (uint32_t)((bytes + 7) & ~(size_t)7); }

/* Examples whose terms fit into so many bytes behind a chunk. */
static uint32_t examples_in(const struct heads *heads, uint32_t bytes)
{
    const uint32_t pair = (uint32_t)heads_terms_bytes(heads, 2); /* two have no padding */
    return bytes < sizeof(struct chunk) ? 0 : (bytes - (uint32_t)sizeof(struct chunk)) / pair * 2;
}

status eval_nodes_begin(struct eval_nodes *n, struct reduce *reduce, struct heads *heads)
{
    *n = (struct eval_nodes){.reduce = reduce, .heads = heads, .shape = graph_batch(heads->graph)};
    if (examples_in(heads, TALK_BYTES) == 0 ||
        verdict_bytes(n, &(struct verdict){.bytes = STATUS_MESSAGE_BYTES}) > TALK_BYTES)
        FAIL(INVALID, "an example of %u heads has more figures than %u bytes; evaluate on one node", heads->count,
             TALK_BYTES / 2);
    return ST_OK;
}

/* --- another node ----------------------------------------------------------------------------- */

static void block_say(struct eval_nodes *n)
{
    if (n->block && n->used) reduce_say(n->reduce, 0, n->used);
    if (n->used) n->block = NULL;
    n->used = 0;
}

/* A chunk's place, behind which there are `bytes`, or in the next block. */
static status chunk_place(struct eval_nodes *n, uint32_t bytes, struct chunk **chunk)
{
    if (n->block && TALK_BYTES - n->used < sizeof **chunk + bytes) block_say(n);
    if (n->block == NULL) TRY(reduce_say_place(n->reduce, 0, &n->block));
    *chunk = (struct chunk *)(void *)(n->block + n->used);
    n->used += (uint32_t)sizeof **chunk + bytes;
    return ST_OK;
}

static status terms_say(struct eval_nodes *n, const struct slot *slot)
{
    const struct micro_batch *m = &slot->input->batch;
    const uint64_t first = m->step * n->shape.batch + (uint64_t)m->micro_index * n->shape.micro;
    TRY(heads_labels_check(n->heads, slot, first));
    if (m->step != n->step) block_say(n); /* an empty one has ended the step before */
    n->step = m->step;
    for (uint32_t begin = 0, end; begin < m->example_count; begin = end) {
        uint32_t room = n->block ? examples_in(n->heads, TALK_BYTES - n->used) : 0;
        if (room == 0) room = examples_in(n->heads, TALK_BYTES);
        end = m->example_count - begin < room ? m->example_count : begin + room;
        struct chunk *chunk;
        TRY(chunk_place(n, (uint32_t)heads_terms_bytes(n->heads, end - begin), &chunk));
        *chunk = (struct chunk){.step = m->step, .count = end - begin, .code = m->is_last && end == m->example_count};
        heads_terms_write(n->heads, slot, begin, end, chunk + 1);
    }
    if (m->is_last) block_say(n);
    return ST_OK;
}

static status end_say(struct eval_nodes *n, status st)
{
    const char *message = st == ST_OK ? "" : status_message();
    const uint32_t bytes = to_words(strlen(message) + 1);
    struct chunk *chunk;
    block_say(n);
    TRY(chunk_place(n, bytes, &chunk));
    *chunk = (struct chunk){.step = UINT64_MAX, .code = st};
    memset(chunk + 1, 0, bytes);
    memcpy(chunk + 1, message, strlen(message));
    block_say(n);
    return ST_OK;
}

/* --- rank 0 ----------------------------------------------------------------------------------- */

static status chunk_invalid(uint32_t name)
{
    FAIL(INVALID, "node %u sent terms of an evaluation that are none: it does not run the same program", name);
}

/* The chunk at `at`, of `left` bytes; *bytes of it. */
static status chunk_read(const struct eval_nodes *n, uint32_t from, const uint8_t *at, uint32_t left,
                         const struct chunk **chunk, uint32_t *bytes)
{
    *chunk = (const struct chunk *)(const void *)at;
    if (left < sizeof **chunk) return chunk_invalid(reduce_name(n->reduce, from));
    const uint32_t count = (*chunk)->count;
    *bytes = left;
    if (count > n->shape.micro || (*chunk)->code >= (count ? 2 : ST_COUNT))
        return chunk_invalid(reduce_name(n->reduce, from));
    if (count) *bytes = (uint32_t)(sizeof **chunk + heads_terms_bytes(n->heads, count));
    if (*bytes > left || (count == 0 && (left == sizeof **chunk || at[left - 1] != 0)))
        return chunk_invalid(reduce_name(n->reduce, from));
    return ST_OK;
}

/* Takes in what the node has of steps up to this one; *is_end: that was its last chunk. Where `drop`, what comes is
 * only heard. */
static status node_hear(struct eval_nodes *n, uint32_t from, uint64_t step, bool drop, bool *is_end)
{
    *is_end = false;
    for (bool is_over = false; !is_over;) {
        const uint8_t *at;
        uint32_t left, bytes = 0;
        TRY(reduce_hear(n->reduce, from, &at, &left));
        const struct chunk *chunk = (const struct chunk *)(const void *)at;
        const bool is_later = left >= sizeof *chunk && chunk->step > step; /* blocks are of one step */
        if (is_later && (chunk->count || chunk->code == ST_OK)) return ST_OK;
        for (; left > 0 && !*is_end; at += bytes, left -= bytes) {
            TRY(chunk_read(n, from, at, left, &chunk, &bytes));
            *is_end = chunk->count == 0;
            is_over = *is_end || (chunk->code && chunk->step == step);
            if (*is_end && chunk->code)
                return status_fail((status)chunk->code, __FILE__, __LINE__, "node %u: %s", reduce_name(n->reduce, from),
                                   (const char *)(chunk + 1));
            if (!*is_end && !drop) TRY(heads_terms_add(n->heads, chunk + 1, chunk->count));
        }
        reduce_heard(n->reduce, from);
    }
    return ST_OK;
}

/* All other nodes' of the steps before this one that have not been taken in. */
static status steps_hear(struct eval_nodes *n, uint64_t before)
{
    bool is_end;
    for (; n->step < before; n->step++)
        for (uint32_t from = 1; from < reduce_node_count(n->reduce); from++)
            TRY(node_hear(n, from, n->step, false, &is_end));
    return ST_OK;
}

/* --- both ------------------------------------------------------------------------------------- */

status eval_nodes_add(struct eval_nodes *n, const struct slot *slot)
{
    if (reduce_rank(n->reduce) != 0) return terms_say(n, slot);
    TRY(steps_hear(n, slot->input->batch.step)); /* it has the first lane of every step */
    return heads_add(n->heads, slot);
}

/* To the last chunk of all others, in any case. */
static status ends_hear(struct eval_nodes *n, status st)
{
    struct failure failure;
    failure_keep(&failure, st);
    for (uint32_t from = 1; from < reduce_node_count(n->reduce); from++) {
        bool is_end;
        st = node_hear(n, from, UINT64_MAX, failure_is(&failure), &is_end);
        if (st != ST_OK && !failure_is(&failure)) failure_keep(&failure, st);
    }
    return failure_adopt(&failure);
}

status eval_nodes_end(struct eval_nodes *n, status st)
{
    if (reduce_rank(n->reduce) != 0) {
        TRY(end_say(n, st));
        return ST_OK;
    }
    if (st == ST_OK) st = steps_hear(n, n->step + 1);
    return ends_hear(n, st);
}

static status verdict_say(struct eval_nodes *n, const struct verdict *verdict, const char *message)
{
    for (uint32_t to = 1; to < reduce_node_count(n->reduce); to++) {
        uint8_t *at;
        TRY(reduce_say_place(n->reduce, to, &at));
        memcpy(at, verdict, sizeof *verdict);
        memcpy(at + sizeof *verdict, message, verdict->bytes);
        at += sizeof *verdict + verdict->bytes;
        for (uint32_t h = 0; h < n->heads->count; h++, at += sizeof n->heads->items->values)
            memcpy(at, n->heads->items[h].values, sizeof n->heads->items->values);
        reduce_say(n->reduce, to, verdict_bytes(n, verdict));
    }
    return ST_OK;
}

static status verdict_hear(struct eval_nodes *n, uint64_t *example_count)
{
    const uint8_t *at;
    uint32_t bytes;
    struct verdict verdict = {0};
    TRY(reduce_hear(n->reduce, 0, &at, &bytes));
    if (bytes >= sizeof verdict) memcpy(&verdict, at, sizeof verdict);
    at += sizeof verdict;
    if (bytes < sizeof verdict || verdict.code >= ST_COUNT || verdict.bytes > TALK_BYTES ||
        bytes != verdict_bytes(n, &verdict) || (verdict.bytes && at[verdict.bytes - 1] != 0))
        return chunk_invalid(reduce_name(n->reduce, 0));
    *example_count = verdict.example_count;
    status st = ST_OK;
    if (verdict.code && verdict.bytes)
        st = status_fail((status)verdict.code, __FILE__, __LINE__, "%s", (const char *)at);
    at += verdict.bytes;
    for (uint32_t h = 0; h < n->heads->count; h++, at += sizeof n->heads->items->values)
        memcpy(n->heads->items[h].values, at, sizeof n->heads->items->values);
    reduce_heard(n->reduce, 0);
    return st;
}

status eval_nodes_tell(struct eval_nodes *n, status st, uint64_t *example_count)
{
    if (reduce_rank(n->reduce) != 0) return verdict_hear(n, example_count);
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
