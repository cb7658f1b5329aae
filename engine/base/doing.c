/* Counts of what the process is doing. They lie behind a word that another program can find in the memory of
 * a stopped process (tests/quality/aim.py), which cannot say anything itself. */
#include "engine/base/doing.h"

static struct {
    char word[16];
    _Atomic uint32_t shared_count[DOING_COUNT];
} board = {.word = "heterps: doing:"};

static const char *const names[] = {
#define DOING_NAME(name, text) #name,
    DOINGS(DOING_NAME)};

/* Relaxed, all: counts, which order nothing. */
void doing_begin(enum doing what) { atomic_fetch_add_explicit(&board.shared_count[what], 1, memory_order_relaxed); }

void doing_end(enum doing what) { atomic_fetch_sub_explicit(&board.shared_count[what], 1, memory_order_relaxed); }

uint32_t doing_count(enum doing what) { return atomic_load_explicit(&board.shared_count[what], memory_order_relaxed); }

const char *doing_name(enum doing what) { return names[what]; }
