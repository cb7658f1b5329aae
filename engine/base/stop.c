/* Turns SIGINT and SIGTERM into a flag that the training loop looks at between steps. */
#include "engine/base/stop.h"

#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <unistd.h>

static _Atomic int received_signal;
/* Set while no alarm is pending, read only by its handler. */
static bool (*wake_function)(void *);
static void *wake_context;

#define PATIENCE_SECONDS 1

static void on_signal(int number)
{
    /* Relaxed: the flag carries no other data. */
    if (atomic_exchange_explicit(&received_signal, number, memory_order_relaxed) != 0) _exit(128 + number);
    alarm(PATIENCE_SECONDS);
}

static void on_alarm(int number)
{
    (void)number;
    if (wake_function && !wake_function(wake_context)) alarm(PATIENCE_SECONDS);
}

void stop_listen(bool (*wake)(void *context), void *context)
{
    alarm(0);
    wake_function = wake;
    wake_context = context;
    if (wake && stop_requested()) alarm(PATIENCE_SECONDS);
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    action.sa_handler = on_alarm;
    sigaction(SIGALRM, &action, NULL);
}

int stop_signal(void) { return atomic_load_explicit(&received_signal, memory_order_relaxed); }

bool stop_requested(void) { return stop_signal() != 0; }
