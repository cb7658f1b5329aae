/* Sends pieces in blocks. A block has pieces of one step; it goes when it is full, or when the step is over,
 * because rank 0 waits for the step's end. */
#include "engine/eval/gather.h"

#include <string.h>

#include "engine/base/memory.h"
#include "engine/base/thread.h"
#include "engine/sync/waves.h"

/* The header of a piece. A node's last piece has step LAST, the node's status as code, and its message. */
struct gather_piece {
    uint64_t step;
    uint32_t bytes; /* after it, without padding to a multiple of 8 */
    uint16_t is_last, code;
};
#define LAST UINT64_MAX
_Static_assert(sizeof(struct gather_piece) == TALK_BYTES - GATHER_PIECE_BYTES, "a piece has what is left of a block");

static uint32_t padded(uint32_t bytes) { return (bytes + 7) & ~UINT32_C(7); }

/* The nodes that have pieces. */
static uint64_t tellers_find(const struct exchange *x)
{
    uint64_t tellers = 0;
    if (x->waves) return x->waves->tellers;
    if (x->stages == NULL) return UINT64_MAX >> (64 - x->node_count);
    for (uint32_t n = 0; n < x->node_count; n++)
        tellers |= (uint64_t)(exchange_stage_lanes(x->stages, x->stages->count - 1, n).count > 0) << n;
    return tellers;
}

void gather_begin(struct gather *g, struct reduce *reduce,
                  status (*take)(void *context, const void *piece, uint32_t bytes), void *context)
{
    const struct exchange *x = reduce_exchange(reduce);
    *g = (struct gather){.reduce = reduce,
                         .take = take,
                         .context = context,
                         .by_stages = x->stages != NULL && x->waves == NULL,
                         .tellers = tellers_find(x)};
}

struct fold_lanes gather_lanes(const struct gather *g)
{
    const struct exchange *x = reduce_exchange(g->reduce);
    return g->by_stages ? exchange_stage_lanes(x->stages, x->stages->count - 1, x->rank) : (struct fold_lanes){0};
}

/* --- another node ----------------------------------------------------------------------------- */

static void block_say(struct gather *g)
{
    if (g->used == 0) return;
    reduce_say(g->reduce, 0, g->used);
    g->block = NULL;
    g->used = 0;
}

status gather_place(struct gather *g, uint64_t step, uint32_t least, uint8_t **at, uint32_t *room)
{
    CHECK(least <= GATHER_PIECE_BYTES);
    if (step != g->step || TALK_BYTES - g->used < sizeof(struct gather_piece) + padded(least)) block_say(g);
    g->step = step;
    if (g->block == NULL) TRY(reduce_say_place_until(g->reduce, 0, &g->shared_stop, &g->block));
    *at = g->block + g->used + sizeof(struct gather_piece);
    *room = TALK_BYTES - g->used - (uint32_t)sizeof(struct gather_piece);
    return ST_OK;
}

static void piece_put(struct gather *g, const struct gather_piece *piece)
{
    uint8_t *at = g->block + g->used;
    memcpy(at, piece, sizeof *piece);
    memset(at + sizeof *piece + piece->bytes, 0, padded(piece->bytes) - piece->bytes);
    g->used += (uint32_t)sizeof *piece + padded(piece->bytes);
}

void gather_put(struct gather *g, uint32_t bytes)
{
    piece_put(g, &(struct gather_piece){.step = g->step, .bytes = bytes});
}

void gather_step_end(struct gather *g, uint64_t step)
{
    if (g->used && g->step == step) {
        const struct gather_piece end = {.step = step, .is_last = 1};
        if (TALK_BYTES - g->used >= sizeof end) piece_put(g, &end);
    }
    block_say(g); /* else the next block's step tells the end */
}

static status end_say(struct gather *g, status st)
{
    const char *message = st == ST_OK ? "" : status_message();
    const uint32_t bytes = (uint32_t)strlen(message) + 1;
    uint8_t *at;
    uint32_t room;
    TRY(gather_place(g, LAST, bytes, &at, &room));
    memcpy(at, message, bytes);
    piece_put(g, &(struct gather_piece){.step = LAST, .bytes = bytes, .is_last = 1, .code = (uint16_t)st});
    block_say(g);
    return ST_OK;
}

/* --- rank 0 ----------------------------------------------------------------------------------- */

static status piece_invalid(uint32_t name)
{
    FAIL(INVALID, "node %u sent a piece of an evaluation that cannot be right: it does not run the same program", name);
}

/* Reads and checks the header of the piece at `at`, with `left` bytes. */
static status piece_read(const struct gather *g, uint32_t from, const uint8_t *at, uint32_t left,
                         struct gather_piece *piece)
{
    if (left < sizeof *piece) return piece_invalid(reduce_name(g->reduce, from));
    memcpy(piece, at, sizeof *piece);
    const uint32_t behind = left - (uint32_t)sizeof *piece;
    const bool is_end = piece->step == LAST;
    if (piece->bytes > behind || padded(piece->bytes) > behind || piece->code >= ST_COUNT ||
        (!is_end && piece->code != 0) || (is_end && (piece->bytes == 0 || at[sizeof *piece + piece->bytes - 1] != 0)))
        return piece_invalid(reduce_name(g->reduce, from));
    return ST_OK;
}

/* Takes in the node's pieces of steps up to `step`; *is_end: its last piece has come. `drop`:
 * hears the pieces, and takes none. */
static status node_hear(struct gather *g, uint32_t from, uint64_t step, bool drop, bool *is_end)
{
    *is_end = false;
    for (bool is_over = false; !is_over;) {
        const uint8_t *at;
        uint32_t left;
        struct gather_piece piece;
        TRY(reduce_hear_until(g->reduce, from, &g->shared_stop, &at, &left));
        TRY(piece_read(g, from, at, left, &piece));
        if (piece.step > step && piece.step != LAST) return ST_OK; /* blocks are of one step */
        while (left > 0 && !*is_end) {
            TRY(piece_read(g, from, at, left, &piece));
            const uint8_t *data = at + sizeof piece;
            *is_end = piece.step == LAST;
            is_over = piece.is_last && (*is_end || piece.step == step);
            if (*is_end && piece.code) {
                const status st = status_fail((status)piece.code, __FILE__, __LINE__, "node %u: %s",
                                              reduce_name(g->reduce, from), (const char *)data);
                reduce_heard(g->reduce, from);
                g->ended |= UINT64_C(1) << from;
                return st;
            }
            if (!*is_end && !drop && piece.bytes > 0) TRY(g->take(g->context, data, piece.bytes));
            at += sizeof piece + padded(piece.bytes);
            left -= (uint32_t)sizeof piece + padded(piece.bytes);
        }
        reduce_heard(g->reduce, from);
        if (*is_end) g->ended |= UINT64_C(1) << from;
    }
    return ST_OK;
}

/* The other nodes that may have further pieces. */
static uint64_t others_left(const struct gather *g) { return g->tellers & ~g->ended & ~UINT64_C(1); }

/* Takes in the other nodes' pieces of the next step, in order of nodes. */
static status step_hear(struct gather *g)
{
    bool is_end;
    for (uint64_t left = others_left(g); left; left &= left - 1)
        TRY(node_hear(g, (uint32_t)__builtin_ctzll(left), g->step, false, &is_end));
    g->step++;
    return ST_OK;
}

status gather_until(struct gather *g, uint64_t before)
{
    while (g->step < before) TRY(step_hear(g));
    return ST_OK;
}

/* Hears all other nodes to their last piece, in any case. */
static status ends_hear(struct gather *g, status st)
{
    struct failure failure;
    failure_keep(&failure, st);
    for (uint32_t from = 1; from < reduce_node_count(g->reduce); from++) {
        bool is_end;
        if (g->ended >> from & 1) continue;
        st = node_hear(g, from, LAST, failure_is(&failure), &is_end);
        if (st != ST_OK && !failure_is(&failure)) failure_keep(&failure, st);
    }
    return failure_adopt(&failure);
}

/* --- all -------------------------------------------------------------------------------------- */

/* Takes the node's next micro-batch out of the pipeline, or finds that there is none. */
static status own_next(struct gather *g)
{
    const struct slot *slot = pipeline_out_await(g->pipeline, &g->shared_over);
    /* Relaxed: set before shared_over. */
    if (atomic_load_explicit(&g->shared_stop, memory_order_relaxed)) FAIL(STOPPED, "the pass has failed");
    g->own_is_over = slot == NULL;
    if (slot == NULL) return ST_OK;
    TRY(g->own(g->context, slot));
    pipeline_out_give(g->pipeline, slot);
    return ST_OK;
}

/* On rank 0: only the last step of the data may have fewer micro-batches. */
static status turns_take(struct gather *g)
{
    while (!g->own_is_over || others_left(g)) {
        for (uint32_t i = 0; i < g->own_micros && !g->own_is_over; i++) TRY(own_next(g));
        TRY(step_hear(g));
    }
    return ST_OK;
}

static status own_take(struct gather *g)
{
    while (!g->own_is_over) TRY(own_next(g));
    return ST_OK;
}

static void *gather_main(void *context)
{
    struct gather *g = context;
    const status st = reduce_rank(g->reduce) == 0 ? turns_take(g) : own_take(g);
    failure_keep(&g->failure, st);
    /* Relaxed: once it is set, the pass is over. */
    if (st != ST_OK && !atomic_load_explicit(&g->shared_stop, memory_order_relaxed)) pipeline_fail(g->pipeline, st);
    return NULL;
}

status gather_start(struct gather *g, struct pipeline *pipeline, uint32_t micros,
                    status (*own)(void *context, const struct slot *slot))
{
    const uint32_t rank = reduce_rank(g->reduce);
    if (!g->by_stages || (rank != 0 && !(g->tellers >> rank & 1))) return ST_OK;
    g->pipeline = pipeline;
    g->own = own;
    g->own_micros = micros * gather_lanes(g).count;
    g->own_is_over = g->own_micros == 0;
    const int error = thread_start(&g->thread, gather_main, g);
    if (error) FAIL(SYSTEM, "cannot start the thread that takes in an evaluation: %s", strerror(error));
    memory_note("threads", THREAD_STACK_BYTES);
    g->is_running = true;
    return ST_OK;
}

/* Waits until the thread has taken all, or, after a failure, stops it. */
static status thread_end(struct gather *g, status st)
{
    struct failure failure;
    if (!g->is_running) return st;
    failure_keep(&failure, st);
    /* Relaxed: published by the next one. */
    if (st != ST_OK) atomic_store_explicit(&g->shared_stop, true, memory_order_relaxed);
    /* Release pairs with the acquire in pipeline_out_await(). */
    atomic_store_explicit(&g->shared_over, true, memory_order_release);
    pipeline_out_ring(g->pipeline);
    if (st != ST_OK) reduce_talk_stop(g->reduce);
    pthread_join(g->thread, NULL);
    memory_note("threads", -THREAD_STACK_BYTES); /* taken back, modulo 2^64 */
    return failure_is(&failure) ? failure_adopt(&failure) : failure_adopt(&g->failure);
}

/* Rank 0 may finish its stages before other nodes do. */
static status stages_end(struct gather *g, status st)
{
    TRY(thread_end(g, st));
    return reduce_rank(g->reduce) != 0 ? end_say(g, ST_OK) : ends_hear(g, ST_OK);
}

status gather_end(struct gather *g, status st)
{
    if (g->by_stages) return stages_end(g, st);
    if (reduce_rank(g->reduce) != 0) return end_say(g, st);
    if (st == ST_OK) st = gather_until(g, g->step + 1);
    return ends_hear(g, st);
}
