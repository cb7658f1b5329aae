/* A training's figures over HTTP, for Prometheus and for people: GET /metrics, /healthz and /readyz.
 *
 *     threads that train ──step_done, looked, told: atomic stores──▶ figures ◀──loads── HTTP thread ◀── who asks
 *
 * No thread that trains waits for one that asks, or allocates for it. What begins and ends with the training (names,
 * the feed) is lent under a lock, from struct train_watch's `begun` to its `ending`. */
#ifndef HETERPS_ENGINE_RUN_SCRAPE_H
#define HETERPS_ENGINE_RUN_SCRAPE_H

#include "engine/run/train.h"

struct scrape_options {
    const char *listen;     /* ADDR:PORT, as --metrics says */
    uint32_t rank;          /* of several nodes: by so much the port is higher, unless that is 0 */
    const char *token_file; /* NULL, or: only who sends a token may ask for figures */
    bool insecure;
};
struct scrape;
/* Listens, and says where; until a training begins /readyz answers 503. USAGE: the address is none, or open to other
 * machines without tokens or `insecure`; SYSTEM, MEMORY; what tokens_read fails with. */
MUST_USE status scrape_open(struct scrape **scrape, const struct scrape_options *options);
/* Whether scrape_open could: listens for a moment, and answers nobody. What it fails with. */
MUST_USE status scrape_check(const struct scrape_options *options);
/* Adds what it takes to the plan of memory. */
void scrape_memory_note(void);
/* Ends it; NULL is ignored. */
void scrape_close(struct scrape *scrape);
/* Who follows the training of that session, which is open until train_run has returned; the scrape's. Once. MEMORY. */
MUST_USE status scrape_watch(struct scrape *scrape, const struct session *session, const struct train_watch **watch);

#endif
