/* Between a feed's thread and a store, which one thread at a time may use: which slots wait for their rows,
 * which steps' rows are pinned, and who has the store.
 *
 *     store_prepare ──▶ waiting slots, in order ──rows have come──▶ shown
 *     steps, in order ──last slot back──▶ store_release
 *
 * A store that lives in RAM alone keeps its rows, so its gate is not closed: slots are shown at
 * once, and there is nothing to pin. */
#ifndef HETERPS_ENGINE_PIPE_ROW_GATE_H
#define HETERPS_ENGINE_PIPE_ROW_GATE_H

#include <stdatomic.h>

#include "engine/base/bell.h"
#include "engine/base/memory.h"
#include "io/store/store_ticket.h"

struct row_gate {
    /* set once */
    struct store *store;
    bool is_closed;              /* the store takes turns */
    struct bell *bell;           /* at which the thread waits for the store; whoever gives the store up rings */
    bool (*help)(void *context); /* what the thread does while it waits; returns whether there was anything */
    void *context;
    uint32_t waiting_max, step_max;
    /* the thread's */
    struct waiting_slot {
        uint32_t slot;
        const struct ticket *ticket;
    } * waiting; /* entry n at n % waiting_max */
    uint64_t waiting_begin, waiting_end;
    struct pinned_step {
        uint32_t ticket; /* its last one                */
        bool is_over;    /* its last slot has come back */
    } * step;            /* likewise */
    uint64_t step_begin, step_end;
    /* seen by all */
    _Atomic uint32_t shared_owner;
    _Atomic bool shared_is_wanted; /* another thread waits for the store: the thread begins no other turn first */
};

/* A gate for up to `waiting_max` slots and `step_max` steps; while the layout only counts bytes,
 * `gate` is not used. */
void row_gate_layout(struct row_gate *gate, struct layout *l, uint32_t waiting_max, uint32_t step_max);
void row_gate_open(struct row_gate *gate, struct store *store, struct bell *bell, bool (*help)(void *context),
                   void *context);

/* The thread's. */
/* Has the store make room for one more ticket. Not *has_room: a step must end first (row_gate_step_over). */
MUST_USE status row_gate_room(struct row_gate *gate, bool *has_room);
MUST_USE status row_gate_prepare(struct row_gate *gate, const struct micro_batch *m, enum store_mode mode,
                                 struct ticket *ticket);
/* The slot waits for its rows; its ticket has just been prepared, and stays until the slot is shown. */
void row_gate_wait(struct row_gate *gate, uint32_t slot, const struct ticket *ticket);
bool row_gate_is_waiting(const struct row_gate *gate);
/* Gives the next slot whose rows have come. First looks after what is under way; with
 * `wait`, until something has come. */
MUST_USE status row_gate_look(struct row_gate *gate, bool wait, uint32_t *slot, bool *is_shown);
/* Waits until all that is under way has come. */
MUST_USE status row_gate_settle(struct row_gate *gate);
/* As store_is_crowded. */
MUST_USE status row_gate_is_crowded(struct row_gate *gate, bool *is_crowded);
/* A step begins, and gets a number; its tickets so far end with this one; it is over; it never was a step. */
uint64_t row_gate_step_begin(struct row_gate *gate);
void row_gate_step_ticket(struct row_gate *gate, uint64_t step, uint32_t ticket);
void row_gate_step_over(struct row_gate *gate, uint64_t step);
void row_gate_step_cancel(struct row_gate *gate, uint64_t step);

/* For another thread: keeps the feed's thread out of the store, and waits until all rows under way have come.
 * Lasts until row_gate_let_go, which must follow in any case. */
MUST_USE status row_gate_hold(struct row_gate *gate);
void row_gate_let_go(struct row_gate *gate);

#endif
