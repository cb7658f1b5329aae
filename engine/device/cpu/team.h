/* A team is a gang of threads that runs one list of ops together. Every op is cut into pieces by output. A
 * thread claims pieces, those of its own share first, and all threads meet before the next op. A piece is the
 * same whoever computes it, so any number of threads gives the same bytes. A thread that the system takes off
 * its core delays only one piece. Waiting threads spin briefly, then sleep on a futex.
 *
 * A thread that has other work may stand in for the last member, on whose core it runs: it helps
 * when it has nothing else to do. */
#ifndef HETERPS_ENGINE_DEVICE_CPU_TEAM_H
#define HETERPS_ENGINE_DEVICE_CPU_TEAM_H

#include <stdbool.h>
#include <stdint.h>
#include <stddef.h>

#include "engine/base/status.h"

struct bell;
struct team;

/* A piece of work: called for every piece in [0, piece_count) exactly once, by some member. `scratch`
 * is the member's own, 64-byte aligned, scratch_bytes long; it still holds what the member's last
 * piece, of any run, has left there. */
typedef void team_work(void *context, uint32_t piece, void *scratch);

/* Starts member_count - 1 threads; the caller of team_run is the last member, number 0. `processors`:
 * [member_count], borrowed, or NULL. Members 1, 2, … are pinned to processors[1], [2], …; the caller of
 * team_run pins itself to processors[0], if at all. Without `processors` the threads may run wherever the
 * calling thread may. Members spin while they wait only if the process may use a processor for each
 * (cores_allowed). Fails with MEMORY, or SYSTEM if a thread cannot be started. Close with team_close. */
MUST_USE status team_open(struct team **team, uint32_t member_count, size_t scratch_bytes, const int *processors);
void team_close(struct team *team);
/* Sets whether waiting members spin before they sleep; at first they do unless they outnumber the
 * processors. Call between runs. */
void team_spin_set(struct team *team, bool spins);
/* The number of members that a run is worth cutting for at the moment: all, or one
 * (team_helper_away_set). It may change at any time. */
uint32_t team_member_count(const struct team *team);

/* Runs all pieces (fewer than 2^24) and returns when all are done; what they wrote is visible to the caller.
 * One caller at a time, and never from inside a piece. */
void team_run(struct team *team, team_work *work, void *context, uint32_t piece_count);

/* From now on the last member stays away, and a helper that waits at `bell` (kept) takes its
 * place: every run of several pieces rings the bell. NULL: the member is back. A team of one
 * has no helper. Call between runs. */
void team_helper_set(struct team *team, struct bell *bell);
/* Says that the helper of a team of two comes seldom, so the caller runs everything by itself from its next
 * run on; or that the helper comes again. In a larger team nothing changes: one member counts little there.
 * The helper may call this at any time. */
void team_helper_away_set(struct team *team, bool is_away);
/* Works off pieces of the present run, if there are any, and returns whether there were. One thread at a
 * time, never the caller of team_run. */
bool team_help(struct team *team);

/* For tests: every member waits a random time (up to max_ns) before each piece. 0: off. Only between runs. */
void team_delay_set(struct team *team, uint64_t seed, uint32_t max_ns);

#endif
