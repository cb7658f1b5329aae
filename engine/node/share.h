/* How nodes divide a load whose owners are free: slices of the dense part, shards of rows. How long a node's
 * link takes for a step grows or falls with the node's share, and the step waits for the slowest link. So
 * shares are such that the greatest time is the least possible. */
#ifndef HETERPS_ENGINE_NODE_SHARE_H
#define HETERPS_ENGINE_NODE_SHARE_H

#include <stdbool.h>
#include <stdint.h>

/* Shares are whole parts of this many. */
#define SHARE_PARTS     4096u
#define SHARE_NODES_MAX 64u

/* A node's seconds, times its bandwidth, are the greater one of two lines, base + slope * share; base >= 0,
 * base + slope >= 0, bandwidth > 0. */
struct share_line {
    double base, slope;
};
struct share_load {
    struct share_line line[2];
    double bandwidth;
};
/* Fills in share [count], whose sum is 1, of 1 .. SHARE_NODES_MAX nodes; returns the least of the greatest
 * seconds. */
double share_find(const struct share_load *load, uint32_t count, double *share);
/* Rounds shares to whole parts, whose sum is SHARE_PARTS: the nodes that lose most by it get the parts that
 * are left, of equal ones the first. */
void share_round(const double *share, uint32_t count, uint16_t *parts);

/* What nodes divide. */
enum share_what {
    SHARE_SLICES, /* of the dense part: sums go to a slice's owner, and its values to all nodes with lanes */
    SHARE_ROWS    /* the rows of a step are asked for, and answered, in proportion to lanes and shares     */
};
struct share_options {
    enum share_what what;
    uint32_t node_count;
    /* [node_count + 1]: node n has the lanes [lane_begin[n], lane_begin[n + 1]); some node has. */
    const uint32_t *lane_begin;
    uint64_t holders; /* bit n: node n has a share; one bit at least */
    /* [node_count], in one unit; NULL: not told, and lanes and buckets do not count. */
    const uint32_t *bandwidth;
    /* Of slices: how many equal buckets the dense part travels in, one behind the other; 1 or more. */
    double buckets;
};
/* Fills in the parts [node_count] of each node, 0 where it is no holder. False: no bandwidth is told, or all
 * nodes with lanes or a share have the same, or no division is better than the even one. Then holders' parts
 * are 1 each. */
bool share_make(uint16_t *parts, const struct share_options *options);

#endif
