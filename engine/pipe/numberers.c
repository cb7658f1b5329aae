/* A ring of inputs, and the threads that empty it. */
#include "engine/pipe/numberers.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "engine/base/bell.h"
#include "engine/base/clock.h"
#include "engine/base/cores.h"
#include "engine/base/ring.h"
#include "engine/base/thread.h"
#include "engine/base/trace.h"
#include "io/store/store_ticket.h"

struct numberer {
    struct numberers *numberers;
    struct distinct slots;
    pthread_t thread;
};

enum input_state { IS_WAITING, IS_BEGUN, IS_DONE };

struct numberers {
    struct numberers_options options;
    uint32_t started_count;
    struct numberer *numberer; /* [options.count + 1]; 0 is the feed's thread */
    struct ring todo;
    struct bell todo_bell, done_bell;
    _Atomic uint32_t *shared_state; /* [input_count]: enum input_state */
    _Atomic bool shared_is_closing;
};

void numberers_layout(struct numberers **numberers, struct layout *l, uint32_t count, uint32_t input_count,
                      size_t key_count_max)
{
    struct numberers *n;
    struct numberer *numberer;
    _Atomic uint32_t *state;
    LAYOUT_TAKE(l, n, 1);
    LAYOUT_TAKE(l, numberer, count + 1);
    LAYOUT_TAKE(l, state, input_count);
    ring_layout(l->arena ? &n->todo : NULL, l, input_count, RING_MANY);
    for (uint32_t i = 0; i <= count; i++) distinct_slots_layout(l->arena ? &numberer[i].slots : NULL, l, key_count_max);
    if (!l->arena) return;
    n->numberer = numberer;
    n->shared_state = state;
    *numberers = n;
}

static void input_number(struct numberer *numberer, uint32_t index)
{
    struct numberers *n = numberer->numberers;
    struct input *input = &n->options.inputs[index];
    const uint64_t begin_ns = clock_ns();
    /* Relaxed: a thread that sees it late numbers another input meanwhile. */
    atomic_store_explicit(&n->shared_state[index], IS_BEGUN, memory_order_relaxed);
    store_number(n->options.store, &numberer->slots, &input->batch, &input->ticket);
    trace_span(TRACE_PREPARE, "number", begin_ns, clock_ns(), input->batch.step, input->batch.micro_index);
    /* Release pairs with the acquire in done_look(): the ticket comes before it. */
    atomic_store_explicit(&n->shared_state[index], IS_DONE, memory_order_release);
    bell_ring(&n->done_bell);
}

/* --- threads -------------------------------------------------------------------------------------- */

struct wanted {
    struct numberers *numberers;
    uint32_t index;
    bool is_found;
};

static bool todo_look(void *context)
{
    struct wanted *w = context;
    w->is_found = ring_try_pop(&w->numberers->todo, &w->index);
    /* Acquire pairs with the release in numberers_stop(). */
    return w->is_found || atomic_load_explicit(&w->numberers->shared_is_closing, memory_order_acquire);
}

static bool done_look(void *context)
{
    const struct wanted *w = context;
    /* Acquire pairs with the release in input_number(). */
    return atomic_load_explicit(&w->numberers->shared_state[w->index], memory_order_acquire) == IS_DONE;
}

static void *numberer_main(void *argument)
{
    struct numberer *numberer = argument;
    struct numberers *n = numberer->numberers;
    cores_pin(n->options.processors, n->options.processor_count);
    trace_thread("numbering");
    for (;;) {
        struct wanted wanted = {.numberers = n};
        bell_await(&n->todo_bell, false, todo_look, &wanted);
        if (!wanted.is_found) return NULL;
        input_number(numberer, wanted.index);
    }
}

status numberers_start(struct numberers *n, const struct numberers_options *options)
{
    n->options = *options;
    for (uint32_t i = 0; i <= options->count; i++) n->numberer[i].numberers = n;
    for (; n->started_count < options->count; n->started_count++) {
        struct numberer *numberer = &n->numberer[n->started_count + 1];
        const int error = thread_start(&numberer->thread, numberer_main, numberer);
        if (error) FAIL(SYSTEM, "cannot start a thread that numbers keys: %s", strerror(error));
    }
    return ST_OK;
}

void numberers_stop(struct numberers *n)
{
    if (n == NULL) return;
    /* Release pairs with the acquire in todo_look(). */
    atomic_store_explicit(&n->shared_is_closing, true, memory_order_release);
    bell_ring(&n->todo_bell);
    for (uint32_t i = 0; i < n->started_count; i++) pthread_join(n->numberer[i + 1].thread, NULL);
    n->started_count = 0;
}

/* --- the feed's thread ------------------------------------------------------------------------------- */

void numberers_push(struct numberers *n, uint32_t index)
{
    /* Relaxed: the ring makes it visible. */
    atomic_store_explicit(&n->shared_state[index], IS_WAITING, memory_order_relaxed);
    CHECK(ring_try_push(&n->todo, index));
    bell_ring(&n->todo_bell);
}

void numberers_await(struct numberers *n, uint32_t index)
{
    struct wanted wanted = {.numberers = n, .index = index};
    while (!done_look(&wanted)) {
        uint32_t oldest;
        /* Relaxed: the ring makes the state visible. This thread waits for an input that is begun: later
         * inputs are for the other numberers, as this thread has more to do. */
        if (atomic_load_explicit(&n->shared_state[index], memory_order_relaxed) == IS_WAITING &&
            ring_try_pop(&n->todo, &oldest))
            input_number(&n->numberer[0], oldest);
        else
            bell_await(&n->done_bell, true, done_look, &wanted);
    }
}
