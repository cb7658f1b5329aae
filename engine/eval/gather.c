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

void gather_begin(struct gather *g, struct reduce *reduce,
                  status (*take)(void *context, const void *piece, uint32_t bytes), void *context)
{
    const struct exchange_stages *stages = reduce_exchange(reduce)->stages;
    const struct exchange_waves *waves = reduce_exchange(reduce)->waves;
    *g = (struct gather){.reduce = reduce,
                         .take = take,
                         .context = context,
                         .by_stages = stages != NULL && waves == NULL,
                         .tellers = waves ? waves->tellers : UINT64_MAX};
    if (stages) g->teller = exchange_stage_node(stages, stages->count - 1, 0);
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
    if (g->block == NULL) TRY(reduce_say_place(g->reduce, 0, &g->block));
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
        /* Blocks are of one step; a failure is heard at once. */
        if (piece.step > step && (piece.step != LAST || piece.code == ST_OK)) return ST_OK;
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

status gather_until(struct gather *g, uint64_t before)
{
    bool is_end;
    if (g->by_stages) return ST_OK;
    for (; g->step < before; g->step++)
        for (uint32_t from = 1; from < reduce_node_count(g->reduce); from++)
            if (g->tellers >> from & 1) TRY(node_hear(g, from, g->step, false, &is_end));
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

static void *hearing(void *context)
{
    struct gather *g = context;
    bool is_end;
    failure_keep(&g->heard, node_hear(g, g->teller, LAST, false, &is_end));
    return NULL;
}

status gather_start(struct gather *g)
{
    if (!g->by_stages || reduce_rank(g->reduce) != 0 || g->teller == 0) return ST_OK;
    const int error = thread_start(&g->thread, hearing, g);
    if (error) FAIL(SYSTEM, "cannot start the thread that hears an evaluation: %s", strerror(error));
    memory_note("threads", THREAD_STACK_BYTES);
    g->is_hearing = true;
    return ST_OK;
}

/* On rank 0: waits until the thread has heard all, or, after a failure, stops it. */
static status hearing_end(struct gather *g, status st)
{
    struct failure failure;
    if (!g->is_hearing) return st;
    failure_keep(&failure, st);
    /* Relaxed: the thread only ends by it. */
    if (st != ST_OK) atomic_store_explicit(&g->shared_stop, true, memory_order_relaxed);
    if (st != ST_OK) reduce_hear_stop(g->reduce);
    pthread_join(g->thread, NULL);
    memory_note("threads", -THREAD_STACK_BYTES); /* taken back, modulo 2^64 */
    return failure_is(&failure) ? failure_adopt(&failure) : failure_adopt(&g->heard);
}

/* Rank 0 may finish its stages before other nodes do. */
static status stages_end(struct gather *g, status st)
{
    if (reduce_rank(g->reduce) != 0) return st == ST_OK ? end_say(g, ST_OK) : st;
    TRY(hearing_end(g, st));
    return ends_hear(g, ST_OK);
}

status gather_end(struct gather *g, status st)
{
    if (g->by_stages) return stages_end(g, st);
    if (reduce_rank(g->reduce) != 0) return end_say(g, st);
    if (st == ST_OK) st = gather_until(g, g->step + 1);
    return ends_hear(g, st);
}
