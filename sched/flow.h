/* Tasks on places and links, in simulated time: how long a cluster takes for work that is laid out as a
 * graph.
 *
 * A task waits for the tasks before it, then for its place, which it holds until it is done: first for its
 * seconds (of computing, or of a message's way), then until its bytes have gone over its links.
 *
 *     place    one task at a time, the one that was ready first, of several the one added first: a card, a stream of
 *              messages, or a link that sends one thing after another. Tasks of flow_first are served before others
 *     link     any number of tasks at a time, which share its bytes a second: rates are max-min fair, like those of
 *              streams over a switch (all rates rise together until a link is full; its tasks keep theirs, others rise)
 *
 * A task without a place starts when the tasks before it are done; without seconds and bytes it only joins
 * other tasks. The result depends on the calls alone. A graph is built, run once, read, and freed:
 *
 *     struct flow f = {0};
 *     const uint32_t card = flow_place_add(&f), out = flow_link_add(&f, 7e9);
 *     const uint32_t forward = flow_task_add(&f, card, 0.01);
 *     const uint32_t sent = flow_transfer_add(&f, FLOW_NONE, 4e6, &out, 1);
 *     flow_after(&f, sent, forward);
 *     TRY_GOTO(flow_run(&f), end);
 *     seconds = f.tasks[sent].end;
 *
 * A run costs tasks * log(tasks), and for every task that begins or ends on links the tasks then on links *
 * links. */
#ifndef HETERPS_SCHED_FLOW_H
#define HETERPS_SCHED_FLOW_H

#include <stdint.h>

#include "engine/base/status.h"

#define FLOW_NONE UINT32_MAX

struct flow_task {
    uint32_t place; /* FLOW_NONE: none */
    uint32_t link_first, link_count;
    bool is_first; /* by flow_first */
    double seconds, bytes;
    /* After the run, in seconds from the start: when all tasks before it were done;
     * when it had its place; its end. */
    double ready, begin, end;
};
struct flow_place {
    double busy; /* seconds, once it has run */
};
struct flow_link {
    double rate;  /* bytes a second                    */
    double bytes; /* carried in all, once it has run   */
};
struct flow_edge {
    uint32_t before, after;
};

/* All zero: no tasks. The arrays grow; their lengths are the counts below. */
struct flow {
    struct flow_task *tasks;
    struct flow_place *places;
    struct flow_link *links;
    struct flow_edge *edges;
    uint32_t *task_links; /* of task t: from its link_first */
    uint32_t task_count, place_count, link_count, edge_count, task_link_count;
    double seconds;   /* until the last task was done  */
    bool is_too_long; /* memory was short: flow_run says so */
};

/* All return the number of the added place, link or task; if memory is short,
 * any number, and flow_run fails. */
uint32_t flow_place_add(struct flow *f);
/* rate > 0. */
uint32_t flow_link_add(struct flow *f, double rate);
/* seconds >= 0. */
uint32_t flow_task_add(struct flow *f, uint32_t place, double seconds);
/* bytes >= 0 over all of the links at one rate; no link twice. Without links the transfer takes no time. */
uint32_t flow_transfer_add(struct flow *f, uint32_t place, double bytes, const uint32_t *links, uint32_t link_count);
/* Of the tasks that are ready for a place, this one is served before those that are not first. */
void flow_first(struct flow *f, uint32_t task);
/* `task` starts only when `before` is done; if either is FLOW_NONE, the call does nothing. */
void flow_after(struct flow *f, uint32_t task, uint32_t before);

/* Sets the times of all tasks. MEMORY; INVALID, naming a task: tasks wait for each other in a ring. */
MUST_USE status flow_run(struct flow *f);
void flow_free(struct flow *f);

#endif
