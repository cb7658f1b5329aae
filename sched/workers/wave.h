/* The rules of waves and of the clock distance, for pipelines of threads (engine/sync/wsp.c) and simulated
 * ones (wave_run.h) alike. Source: HetPipe (Park et al., USENIX ATC 2020), sections 4 and 5.
 *
 *   in flight          at most Nm minibatches a pipeline: one misses at most s_local = Nm - 1 updates of its own
 *   wave               Nm minibatches of a pipeline, numbered c = p / Nm; at its end their sum goes to the others
 *   clock distance D   a minibatch of wave c starts only when all other pipelines have sent c - D - 1 waves, and the
 *                      last of the wave only when they have sent c - D; it misses at most
 *                      s_global = (D + 1)(s_local + 1) + s_local - 1 minibatches of another pipeline */
#ifndef HETERPS_SCHED_WORKERS_WAVE_H
#define HETERPS_SCHED_WORKERS_WAVE_H

#include <stdint.h>

/* s_local and s_global of the head. */
static inline uint64_t wsp_local_bound(uint32_t in_flight) { return in_flight - 1; }
static inline uint64_t wsp_global_bound(uint32_t in_flight, uint32_t clock_distance)
{
    uint64_t local = wsp_local_bound(in_flight);
    return ((uint64_t)clock_distance + 1) * (local + 1) + local - 1;
}
/* Waves that every other pipeline must have sent before a pipeline starts its minibatch p (from 0). */
static inline uint64_t wsp_waves_needed(uint64_t p, uint32_t in_flight, uint32_t clock_distance)
{
    uint64_t wave = p / in_flight, is_last = p % in_flight == in_flight - 1;
    return wave + is_last > (uint64_t)clock_distance + 1 ? wave + is_last - clock_distance - 1 : 0;
}

#endif
