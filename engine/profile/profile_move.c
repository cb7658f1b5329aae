/* Times how a core reads bytes that another core has just written. Two threads take turns on one buffer:
 *
 *     writer   writes all bytes, takes the time, ready = n                        writes again, …
 *     reader                                        sees ready, reads, takes the time, asked = n + 1
 *
 * Every turn takes the lines out of the reader's caches, as a stage that runs a slot anew
 * takes them out of the next stage's. */
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/fit.h"
#include "engine/base/futex.h"
#include "engine/base/memory.h"
#include "engine/base/thread.h"
#include "engine/profile/profile_run.h"

#define MOVE_SAMPLES 64u

struct move {
    uint64_t *words;
    size_t word_count;                          /* of the present size; the reader sets it before shared_asked */
    int processor;                              /* of the writer */
    _Alignas(64) _Atomic uint32_t shared_asked; /* turn; MOVE_QUIT: the writer ends */
    _Alignas(64) _Atomic uint32_t shared_ready;
    uint64_t written_ns; /* the writer sets it before shared_ready */
};
#define MOVE_QUIT UINT32_MAX

/* Waits until the turn is no longer `old`; yields at times, in case threads share a core. */
static uint32_t turn_await(_Atomic uint32_t *shared_turn, uint32_t old)
{
    uint32_t turn;
    for (uint32_t looks = 0;; looks++) {
        /* Acquire pairs with the release of the new turn: the buffer, or its size, is visible. */
        turn = atomic_load_explicit(shared_turn, memory_order_acquire);
        if (turn != old) return turn;
        if (looks > 10000) sched_yield();
    }
}

static void *writer_main(void *argument)
{
    struct move *m = argument;
    if (m->processor >= 0) cores_pin(&m->processor, 1);
    for (uint32_t turn = 0; (turn = turn_await(&m->shared_asked, turn)) != MOVE_QUIT;) {
        for (size_t i = 0; i < m->word_count; i++) m->words[i] = turn + i;
        m->written_ns = clock_ns();
        atomic_store_explicit(&m->shared_ready, turn, memory_order_release);
    }
    return NULL;
}

static uint64_t words_sum(const uint64_t *words, size_t count)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < count; i++) sum += words[i];
    return sum;
}

/* One turn, in seconds. */
static double move_turn(struct move *m, uint32_t turn)
{
    atomic_store_explicit(&m->shared_asked, turn, memory_order_release);
    CHECK(turn_await(&m->shared_ready, turn - 1) == turn);
    uint64_t sum = words_sum(m->words, m->word_count), end_ns = clock_ns();
    uint64_t expected = m->word_count * (uint64_t)turn + m->word_count * (m->word_count - 1) / 2;
    CHECK(sum == expected);
    return (double)(end_ns - m->written_ns) * 1e-9;
}

static double copy_turn(const struct move *m, uint64_t *to, uint32_t turn)
{
    for (size_t i = 0; i < m->word_count; i++) m->words[i] = turn + i;
    uint64_t begin_ns = clock_ns();
    memcpy(to, m->words, m->word_count * sizeof *to);
    __asm__ volatile("" : : "r"(to) : "memory"); /* keeps the compiler from dropping the copy */
    return (double)(clock_ns() - begin_ns) * 1e-9;
}

status profile_move(const double *bytes, double *seconds, uint32_t count, uint32_t core_count, int other,
                    double time_limit)
{
    struct move m = {.processor = other};
    double bytes_max = 0, samples[MOVE_SAMPLES];
    for (uint32_t i = 0; i < count; i++)
        if (bytes[i] > bytes_max) bytes_max = bytes[i];
    size_t block_bytes = 2 * ((size_t)bytes_max + sizeof *m.words);
    void *block;
    pthread_t writer;
    bool is_copy = core_count < 2;
    TRY(memory_take("profile", block_bytes, &block));
    memset(block, 1, block_bytes); /* makes every page resident before the first turn */
    m.words = block;
    uint64_t *copy = m.words + block_bytes / 2 / sizeof *m.words;
    if (!is_copy) {
        int error = thread_start(&writer, writer_main, &m);
        if (error) {
            memory_give("profile", block, block_bytes);
            FAIL(SYSTEM, "cannot start a thread to measure transfers: %s", strerror(error));
        }
    }
    for (uint32_t i = 0, turn = 0; i < count; i++) {
        uint64_t begin_ns = clock_ns();
        uint32_t taken = 0;
        m.word_count = ((size_t)bytes[i] + sizeof *m.words - 1) / sizeof *m.words;
        for (uint32_t s = 0; s < MOVE_SAMPLES; s++) {
            turn++;
            double took = is_copy ? copy_turn(&m, copy, turn) : move_turn(&m, turn);
            if (s > 0) samples[taken++] = took; /* the first warms up */
            if (taken >= 3 && (double)(clock_ns() - begin_ns) * 1e-9 > time_limit / count) break;
        }
        seconds[i] = fit_quantile(samples, taken, 0.25);
        if (seconds[i] < 1e-9) seconds[i] = 1e-9; /* less than the clock can tell */
    }
    atomic_store_explicit(&m.shared_asked, MOVE_QUIT, memory_order_release);
    if (!is_copy) pthread_join(writer, NULL);
    memory_give("profile", block, block_bytes);
    return ST_OK;
}
