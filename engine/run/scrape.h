/* A training's figures over HTTP, for Prometheus and for people: GET /metrics, /healthz and /readyz.
 *
 *     threads that train ──step_done, looked, told: atomic stores──▶ figures ◀──loads── HTTP thread ◀── who asks
 *
 * No thread that trains waits or allocates for a client. Names and the feed, which end with the training, are
 * lent under a lock, from struct train_watch's `begun` to its `ending`. */
#ifndef HETERPS_ENGINE_RUN_SCRAPE_H
#define HETERPS_ENGINE_RUN_SCRAPE_H

#include "engine/run/train.h"

struct scrape_options {
    const char *listen;     /* ADDR:PORT, as --metrics says */
    uint32_t rank;          /* of several nodes: added to the port, unless the port is 0 */
    const char *token_file; /* unless NULL: figures only for clients that send one of its tokens */
    bool insecure;
};
struct scrape;
/* Listens, and says where; until a training begins, /readyz answers 503. USAGE: `listen` is no
 * address, or other machines reach it and there are neither tokens nor `insecure`. SYSTEM, MEMORY;
 * also fails as tokens_read does. */
MUST_USE status scrape_open(struct scrape **scrape, const struct scrape_options *options);
/* Tries what scrape_open does: listens for a moment, and answers nobody. Fails as scrape_open does. */
MUST_USE status scrape_check(const struct scrape_options *options);
/* Adds a scrape's memory to the plan of memory. */
void scrape_memory_note(void);
/* Stops listening, and frees all. NULL is ignored. */
void scrape_close(struct scrape *scrape);
/* Sets *watch, which belongs to the scrape, to the follower of this session's training. The session stays
 * open until train_run has returned. Once. MEMORY. */
MUST_USE status scrape_watch(struct scrape *scrape, const struct session *session, const struct train_watch **watch);

#endif
