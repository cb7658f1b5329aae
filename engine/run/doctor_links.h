/* What has been found of the nodes of a cluster and of the links between them, as lines of a doctor: one a node, one a
 * pair of nodes, and in words what is wrong with them, or slow. It measures nothing itself. */
#ifndef HETERPS_ENGINE_RUN_DOCTOR_LINKS_H
#define HETERPS_ENGINE_RUN_DOCTOR_LINKS_H

#include "engine/node/member.h"
#include "engine/run/doctor_needs.h"
#include "io/net/link_path.h"

#define DOCTOR_WHY_BYTES 320u

struct doctor_node {
    bool is_in;                 /* it has come                                                     */
    char why[DOCTOR_WHY_BYTES]; /* not; "": nothing is known of that                               */
    char place[ADDRESS_TEXT_BYTES];
    char host[64], version[32], isa[16];
    uint32_t cores;
    uint64_t files; /* that a process of it may have open */
};

/* Which way bytes go. */
enum doctor_way { DOCTOR_TO_LOW, DOCTOR_TO_HIGH, DOCTOR_BOTH, DOCTOR_WAY_COUNT };

/* Of two nodes, as the one of the higher rank sees it, which connects to the other. */
struct doctor_pair {
    bool is_linked, is_measured;
    char why[DOCTOR_WHY_BYTES]; /* they are not linked */
    struct link_path path;
    uint64_t echo_ns;                   /* median of small messages there and back                         */
    uint64_t echo_least_ns;             /* the fastest of them                                             */
    int64_t ahead_ns;                   /* so much the lower one's clock is ahead, within half of that     */
    double bytes_a_s[DOCTOR_WAY_COUNT]; /* both: each way, at once                                         */
};

struct doctor_links {
    uint32_t node_count;
    double wait_s; /* how long nodes were waited for */
    const struct doctor_node *nodes;
    const struct doctor_pair *pairs; /* of ranks low < high at doctor_pair_at */
};
static inline uint32_t doctor_pair_at(uint32_t low, uint32_t high) { return high * (high - 1) / 2 + low; }

/* Headers of the columns that lines of nodes and of links have. */
#define DOCTOR_HEADER_BYTES 256u
void doctor_links_headers(char nodes[DOCTOR_HEADER_BYTES], char links[DOCTOR_HEADER_BYTES]);
void doctor_links_look(const struct doctor_links *links, doctor_say *say, void *context);

#endif
