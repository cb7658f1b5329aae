/* What a trace costs the traced thread for each span, with and without --trace, and the main thread for each
 * record that it writes into the file.
 *
 * Usage: trace_bench [FILE]      writes about 60 MB into FILE (else a temporary file in TMPDIR), and removes it
 *
 * Seven repeats of each, in turn; the median and the best. A span off is one test of a
 * thread-local pointer; a span on is a record written into the ring; an op in a traced list is
 * such a record and one reading of the clock. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/trace.h"

#define REPEATS 7
#define SPANS   60000u /* fits a ring */

static double ns_of(uint64_t begin_ns, uint64_t end_ns, uint32_t count)
{
    return (double)(end_ns - begin_ns) / (double)count;
}

static double spans_run(uint64_t at_ns)
{
    uint64_t begin_ns = clock_ns();
    for (uint32_t n = 0; n < SPANS; n++) {
        trace_span(TRACE_OP, "h1", at_ns + n, at_ns + n + 40000, n / 64, n % 64);
        __asm__ volatile("" ::: "memory"); /* or the test of the pointer would leave the loop */
    }
    return ns_of(begin_ns, clock_ns(), SPANS);
}

/* As a device does it: one reading of the clock between two ops. */
static double ops_run(void)
{
    uint64_t begin_ns = clock_ns(), last_ns = begin_ns;
    for (uint32_t n = 0; n < SPANS; n++) {
        uint64_t now_ns = clock_ns();
        trace_span(TRACE_OP, "h1", last_ns, now_ns, n / 64, n % 64);
        last_ns = now_ns;
    }
    return ns_of(begin_ns, last_ns, SPANS);
}

static double drain_run(void)
{
    uint64_t begin_ns = clock_ns();
    if (trace_drain() != ST_OK) {
        fprintf(stderr, "trace_bench: %s\n", status_message());
        exit(1);
    }
    return ns_of(begin_ns, clock_ns(), SPANS);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void row_print(const char *what, double *ns)
{
    qsort(ns, REPEATS, sizeof *ns, by_value);
    printf("%-34s %8.2f ns   best %8.2f ns\n", what, ns[REPEATS / 2], ns[0]);
}

int main(int argument_count, char **arguments)
{
    char path[4096];
    const char *directory = getenv("TMPDIR");
    if (argument_count > 1)
        snprintf(path, sizeof path, "%s", arguments[1]);
    else
        snprintf(path, sizeof path, "%s/trace_bench.%d.json", directory ? directory : "/tmp", (int)getpid());
    double off[REPEATS], on[REPEATS], ops[REPEATS], drain[REPEATS];
    for (int r = 0; r < REPEATS; r++) off[r] = spans_run(clock_ns());
    if (trace_open(path, 1) != ST_OK) {
        fprintf(stderr, "trace_bench: %s\n", status_message());
        return 1;
    }
    trace_thread("bench");
    /* Touches the ring's pages and the file's first ones, which weigh nothing in a long run. */
    spans_run(clock_ns());
    drain_run();
    for (int r = 0; r < REPEATS; r++) {
        on[r] = spans_run(clock_ns());
        drain[r] = drain_run();
        ops[r] = ops_run();
        drain_run();
    }
    uint32_t record_count = SPANS * (1 + 2 * REPEATS);
    struct stat st;
    if (trace_close() != ST_OK || stat(path, &st) != 0) {
        fprintf(stderr, "trace_bench: %s\n", status_message());
        return 1;
    }
    unlink(path);
    row_print("a span without --trace", off);
    row_print("a span with --trace", on);
    row_print("an op with --trace (and the clock)", ops);
    row_print("a record drained (main thread)", drain);
    printf("%-34s %8.1f bytes\n", "a record in the file", (double)st.st_size / record_count);
    /* A worker writes some 20 records a micro-batch: their share of a core's time
     * if a micro-batch takes 1 ms. */
    printf("20 records a millisecond: %.3f %% of the worker, %.3f %% of a core for the file\n",
           20 * ops[REPEATS / 2] * 1e-4, 20 * drain[REPEATS / 2] * 1e-4);
    return 0;
}
