/* The findings of plan --trees: placement policies on random trees of a graph's cells, one tree at a time as
 * in DynPartition, a batch of trees, and a grid of memories and batches. */
#ifndef HETERPS_SCHED_TREES_TREES_REPORT_H
#define HETERPS_SCHED_TREES_TREES_REPORT_H

#include <stdio.h>

#include "sched/trees/study.h"

#define REPORT_MEMORIES 5u
#define REPORT_BATCHES  5u
#define REPORT_CARDS    4u /* at most */
#define REPORT_INPUTS   3u
static const uint32_t report_memories[REPORT_MEMORIES] = {150, 300, 600, 1200, 2048};
static const uint32_t report_batches[REPORT_BATCHES] = {1, 4, 16, 64, 256}; /* trees */

struct trees_report {
    const char *graph, *cluster, *host, *card; /* names, borrowed              */
    uint32_t cores;                            /* of the host                  */
    uint32_t memory, trees;                    /* of `batch`                   */
    uint32_t leaves_min, leaves_max;
    uint32_t seeds;                /* of one and batch             */
    struct place_machine machine;  /* of one host and one card */
    double nodes_one, nodes_batch; /* of a list, on average      */
    struct study one, batch;
    struct study one_synchronous, batch_synchronous; /* of one seed */
    uint32_t card_max;
    struct study cards[REPORT_CARDS + 1]; /* [cards]: of the batch, on the host and these cards, one seed */
    struct {
        uint32_t nodes;
        double host_seconds, card_seconds;
    } input[REPORT_INPUTS];                    /* lists of one tree: the smallest, the middle one, the largest */
    struct study_small small[REPORT_MEMORIES]; /* without the grid the first alone, at `memory` */
    bool has_grid;
    struct study grid[REPORT_MEMORIES][REPORT_BATCHES];
    double seconds; /* of the whole study */
};

/* The best single device's time over ours, the better of learned and climbed from it. */
double report_gain(const struct study *s);
/* Writes tables in Markdown. */
void report_write(FILE *out, const struct trees_report *r);

#endif
