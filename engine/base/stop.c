/* Turns SIGINT and SIGTERM into a flag of each scope that listens, which training loops look at between
 * steps.
 *
 * Handlers walk the list of listeners without a lock. A thread that removes a listener, or changes
 * what a handler may call, first makes the change and then waits until no handler is walking:
 * later handlers see the change. */
#include "engine/base/stop.h"

#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/scope_internal.h"

#define PATIENCE_SECONDS 1
#define SAME_NS          UINT64_C(1000000000)
#define LISTENERS_MAX    64u

static _Atomic int received_signal;  /* the first signal */
static _Atomic uint64_t received_ns; /* when it came; 0: none has come */
static _Atomic bool shared_are_left; /* other code handles signals */
static struct scope_stop *_Atomic shared_listeners[LISTENERS_MAX];
static _Atomic uint32_t shared_walks; /* walks of the list that are under way */

/* Calls `look` for each listener; returns whether any call returned true. Safe in a handler. */
static bool listeners_any(bool (*look)(struct scope_stop *stop, int number), int number)
{
    bool any = false;
    atomic_fetch_add(&shared_walks, 1);
    for (uint32_t i = 0; i < LISTENERS_MAX; i++) {
        struct scope_stop *stop = atomic_load(&shared_listeners[i]);
        if (stop != NULL && look(stop, number)) any = true;
    }
    atomic_fetch_sub(&shared_walks, 1);
    return any;
}

static void walks_await(void)
{
    while (atomic_load(&shared_walks) != 0) sched_yield();
}

/* Asks the listener to stop, unless it was asked before; returns whether it has a thread to wake. */
static bool ask(struct scope_stop *stop, int number)
{
    int none = 0;
    /* Relaxed: the flag carries no other data. */
    atomic_compare_exchange_strong_explicit(&stop->shared_signal, &none, number, memory_order_relaxed,
                                            memory_order_relaxed);
    return atomic_load(&stop->shared_wake) != NULL;
}

static int asked_by(struct scope_stop *stop)
{
    return atomic_load_explicit(&stop->shared_signal, memory_order_relaxed);
}

/* Whether the listener has been asked, and has a thread to wake. */
static bool is_waiting(struct scope_stop *stop, int unused)
{
    (void)unused;
    return asked_by(stop) != 0 && atomic_load(&stop->shared_wake) != NULL;
}

/* Wakes the listener's thread; returns whether nothing was stuck. */
static bool wake_in_vain(struct scope_stop *stop, int unused)
{
    (void)unused;
    bool (*wake)(void *) = atomic_load(&stop->shared_wake);
    return asked_by(stop) != 0 && wake != NULL && !wake(atomic_load(&stop->shared_context));
}

/* The end of a process group or a session sends each process SIGTERM, and this one's parent may send another:
 * within a second both count as one. */
static void on_signal(int number)
{
    const uint64_t now_ns = clock_ns();
    uint64_t first_ns = 0;
    if (!atomic_compare_exchange_strong(&received_ns, &first_ns, now_ns)) {
        if (number == SIGTERM && now_ns - first_ns < SAME_NS) return;
        _exit(128 + number);
    }
    atomic_store_explicit(&received_signal, number, memory_order_relaxed);
    if (listeners_any(ask, number)) alarm(PATIENCE_SECONDS);
}

static void on_alarm(int number)
{
    if (listeners_any(wake_in_vain, number)) alarm(PATIENCE_SECONDS);
}

/* Puts `after` in the place of `before` in the list; false: `before` is not in it. */
static bool listener_put(struct scope_stop *before, struct scope_stop *after)
{
    for (uint32_t i = 0; i < LISTENERS_MAX; i++) {
        struct scope_stop *present = before;
        if (atomic_compare_exchange_strong(&shared_listeners[i], &present, after)) return true;
    }
    return false;
}

void stop_listen(bool (*wake)(void *context), void *context)
{
    struct scope_stop *stop = &scope_now()->stop;
    atomic_store(&stop->shared_wake, NULL);
    walks_await();
    atomic_store(&stop->shared_context, context);
    atomic_store(&stop->shared_wake, wake);
    CHECK(listener_put(stop, stop) || listener_put(NULL, stop));
    struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    action.sa_handler = on_signal;
    if (!atomic_load_explicit(&shared_are_left, memory_order_relaxed)) {
        sigaction(SIGINT, &action, NULL);
        sigaction(SIGTERM, &action, NULL);
    }
    int received = atomic_load_explicit(&received_signal, memory_order_relaxed);
    if (received != 0) ask(stop, received);
    alarm(listeners_any(is_waiting, 0) ? PATIENCE_SECONDS : 0);
}

void stop_signals_leave(void) { atomic_store_explicit(&shared_are_left, true, memory_order_relaxed); }

void stop_ask(struct scope *scope, int signal)
{
    if (ask(&scope->stop, signal)) alarm(PATIENCE_SECONDS);
}

void scope_stop_close(struct scope_stop *stop)
{
    (void)listener_put(stop, NULL);
    walks_await();
}

int stop_signal(void) { return asked_by(&scope_now()->stop); }

bool stop_requested(void) { return stop_signal() != 0; }
