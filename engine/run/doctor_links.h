/* Makes lines of a doctor from what has been measured of a cluster's nodes and links: a line for each node
 * and for each pair of nodes, and in words what is wrong or slow. It measures nothing itself. */
#ifndef HETERPS_ENGINE_RUN_DOCTOR_LINKS_H
#define HETERPS_ENGINE_RUN_DOCTOR_LINKS_H

#include "engine/node/member.h"
#include "engine/run/doctor_needs.h"
#include "io/net/link_path.h"

#define DOCTOR_WHY_BYTES 320u

struct doctor_node {
    bool is_in;                 /* the node has come */
    char why[DOCTOR_WHY_BYTES]; /* why it has not; "": unknown */
    char place[ADDRESS_TEXT_BYTES];
    char host[64], version[32], isa[16];
    uint32_t cores;
    uint64_t files; /* files that one of its processes may have open */
};

/* Which way bytes go. */
enum doctor_way { DOCTOR_TO_LOW, DOCTOR_TO_HIGH, DOCTOR_BOTH, DOCTOR_WAY_COUNT };

/* Two nodes, as the node of the higher rank, which connects to the other, sees them. */
struct doctor_pair {
    bool is_linked, is_measured;
    char why[DOCTOR_WHY_BYTES]; /* why they are not linked */
    struct link_path path;
    uint64_t echo_ns;       /* median of small messages there and back                         */
    uint64_t echo_least_ns; /* the fastest of these messages */
    int64_t ahead_ns;       /* how far the lower rank's clock is ahead; error: at most half of echo_least_ns */
    double bytes_a_s[DOCTOR_WAY_COUNT]; /* DOCTOR_BOTH: each way, both ways at once */
};

struct doctor_links {
    uint32_t node_count;
    double wait_s; /* how long nodes were waited for */
    const struct doctor_node *nodes;
    const struct doctor_pair *pairs; /* ranks low < high: at doctor_pair_at(low, high) */
};
static inline uint32_t doctor_pair_at(uint32_t low, uint32_t high) { return high * (high - 1) / 2 + low; }

/* The headers above the columns of nodes and of links. */
#define DOCTOR_HEADER_BYTES 256u
void doctor_links_headers(char nodes[DOCTOR_HEADER_BYTES], char links[DOCTOR_HEADER_BYTES]);
void doctor_links_look(const struct doctor_links *links, doctor_say *say, void *context);

#endif
