/* Turns at the store, and what waits for its rows. */
#include "engine/pipe/row_gate.h"
#include "io/store/store_life.h"
#include "io/store/store_ticket.h"

#include <time.h>

enum owner { OWNER_NONE, OWNER_THREAD, OWNER_HOLDER };
/* How often a holder asks; the thread's turns are short. */
#define HOLD_LOOK_NS 20000

void row_gate_layout(struct row_gate *gate, struct layout *l, uint32_t waiting_max, uint32_t step_max)
{
    struct row_gate taken;
    LAYOUT_TAKE(l, taken.waiting, waiting_max);
    LAYOUT_TAKE(l, taken.step, step_max);
    if (!l->arena) return;
    gate->waiting = taken.waiting;
    gate->step = taken.step;
    gate->waiting_max = waiting_max;
    gate->step_max = step_max;
}

void row_gate_open(struct row_gate *gate, struct store *store, struct bell *bell, bool (*help)(void *context),
                   void *context)
{
    gate->store = store;
    gate->is_closed = store_takes_turns(store);
    gate->bell = bell;
    gate->help = help;
    gate->context = context;
}

/* --- whose the store is ------------------------------------------------------------------------- */

static bool owner_try(struct row_gate *gate, uint32_t owner)
{
    uint32_t expected = OWNER_NONE;
    /* Acquire pairs with the release in owner_end(): what the last owner did to the store is visible. */
    return atomic_compare_exchange_strong_explicit(&gate->shared_owner, &expected, owner, memory_order_acquire,
                                                   memory_order_relaxed);
}

static void owner_end(struct row_gate *gate)
{
    atomic_store_explicit(&gate->shared_owner, OWNER_NONE, memory_order_release);
}

static bool turn_look(void *context)
{
    struct row_gate *gate = context;
    /* Relaxed: whether the holder comes a turn earlier decides nothing. */
    return !atomic_load_explicit(&gate->shared_is_wanted, memory_order_relaxed) && owner_try(gate, OWNER_THREAD);
}

static bool help_look(void *context)
{
    struct row_gate *gate = context;
    return gate->help(gate->context) ||
           (atomic_load_explicit(&gate->shared_owner, memory_order_relaxed) == OWNER_NONE &&
            !atomic_load_explicit(&gate->shared_is_wanted, memory_order_relaxed));
}

/* The thread's turns. */
static void turn_begin(struct row_gate *gate)
{
    if (!gate->is_closed) return;
    while (!turn_look(gate)) bell_await(gate->bell, false, help_look, gate);
}

static void turn_end(struct row_gate *gate)
{
    if (gate->is_closed) owner_end(gate);
}

status row_gate_hold(struct row_gate *gate)
{
    if (!gate->is_closed) return ST_OK;
    atomic_store_explicit(&gate->shared_is_wanted, true, memory_order_relaxed);
    while (!owner_try(gate, OWNER_HOLDER)) nanosleep(&(struct timespec){.tv_nsec = HOLD_LOOK_NS}, NULL);
    atomic_store_explicit(&gate->shared_is_wanted, false, memory_order_relaxed);
    return store_settle(gate->store);
}

void row_gate_let_go(struct row_gate *gate)
{
    if (!gate->is_closed) return;
    owner_end(gate);
    bell_ring(gate->bell);
}

/* --- tickets ---------------------------------------------------------------------------------- */

status row_gate_room(struct row_gate *gate, bool *has_room)
{
    *has_room = true;
    if (!gate->is_closed) return ST_OK;
    turn_begin(gate);
    status st = store_make_room(gate->store, has_room);
    turn_end(gate);
    return st;
}

status row_gate_prepare(struct row_gate *gate, const struct micro_batch *m, enum store_mode mode, struct ticket *ticket)
{
    turn_begin(gate);
    status st = store_prepare(gate->store, m, mode, ticket);
    turn_end(gate);
    return st;
}

void row_gate_wait(struct row_gate *gate, uint32_t slot, const struct ticket *ticket)
{
    CHECK(gate->waiting_end - gate->waiting_begin < gate->waiting_max);
    gate->waiting[gate->waiting_end++ % gate->waiting_max] = (struct waiting_slot){slot, ticket};
}

bool row_gate_is_waiting(const struct row_gate *gate) { return gate->waiting_begin < gate->waiting_end; }

status row_gate_look(struct row_gate *gate, bool wait, uint32_t *slot, bool *is_shown)
{
    *is_shown = false;
    if (!row_gate_is_waiting(gate)) return ST_OK;
    const struct waiting_slot *first = &gate->waiting[gate->waiting_begin % gate->waiting_max];
    status st = ST_OK;
    *is_shown = !gate->is_closed; /* the store may be another thread's then */
    turn_begin(gate);
    if (gate->is_closed) st = store_poll(gate->store, false);
    if (gate->is_closed) *is_shown = store_ready(gate->store, first->ticket);
    if (st == ST_OK && wait && !*is_shown) {
        st = store_poll(gate->store, true);
        *is_shown = store_ready(gate->store, first->ticket);
    }
    turn_end(gate);
    *slot = first->slot;
    gate->waiting_begin += *is_shown;
    return st;
}

status row_gate_settle(struct row_gate *gate)
{
    if (!gate->is_closed) return ST_OK;
    turn_begin(gate);
    status st = store_settle(gate->store);
    turn_end(gate);
    return st;
}

status row_gate_is_crowded(struct row_gate *gate, bool *is_crowded)
{
    *is_crowded = false;
    if (!gate->is_closed) return ST_OK;
    turn_begin(gate);
    status st = store_is_crowded(gate->store, is_crowded);
    turn_end(gate);
    return st;
}

/* --- steps ------------------------------------------------------------------------------------ */

uint64_t row_gate_step_begin(struct row_gate *gate)
{
    if (!gate->is_closed) return 0;
    CHECK(gate->step_end - gate->step_begin < gate->step_max);
    gate->step[gate->step_end % gate->step_max] = (struct pinned_step){0};
    return gate->step_end++;
}

void row_gate_step_ticket(struct row_gate *gate, uint64_t step, uint32_t ticket)
{
    if (gate->is_closed) gate->step[step % gate->step_max].ticket = ticket;
}

void row_gate_step_cancel(struct row_gate *gate, uint64_t step)
{
    if (!gate->is_closed) return;
    CHECK(step + 1 == gate->step_end);
    gate->step_end--;
}

void row_gate_step_over(struct row_gate *gate, uint64_t step)
{
    if (!gate->is_closed) return;
    gate->step[step % gate->step_max].is_over = true;
    turn_begin(gate);
    for (; gate->step_begin < gate->step_end; gate->step_begin++) {
        const struct pinned_step *first = &gate->step[gate->step_begin % gate->step_max];
        if (!first->is_over) break;
        store_release(gate->store, first->ticket);
    }
    turn_end(gate);
}
