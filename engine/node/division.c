/* Divides lanes: once a generation. */
#include "engine/node/division.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cfg/key.h"
#include "engine/base/words.h"

/* Where lanes are proportions: parts of a lane. */
#define PARTS 4096u
/* Bytes a second of a link; as frames have them, in kilobytes. */
#define KILO            1e3
#define BANDWIDTH_LEAST 1e3
#define BANDWIDTH_MOST  4e12

/* Checks that each node that computes has a lane at least. */
static status lanes_suffice(uint32_t lanes, uint32_t node_count)
{
    if (node_count > lanes)
        FAIL(INVALID,
             "%u of %u nodes would have nothing to compute of %u lane%s: give at most as many nodes, "
             "or --set train.lanes=%u; start nodes that are to compute nothing with --lanes 0",
             node_count - lanes, node_count, lanes, words_s(lanes), node_count);
    return ST_OK;
}

/* The number before the next comma, to which *at moves. */
static status number_next(const char *name, const char **at, const char *text, uint32_t *number)
{
    char one[16];
    uint64_t value;
    const size_t bytes = strcspn(*at, ",");
    snprintf(one, sizeof one, "%.*s", bytes < sizeof one ? (int)bytes : 0, *at);
    if (!cfg_parse_u64(one, &value) || value > DIVISION_LANES_MAX)
        FAIL(USAGE,
             "%s: expected this node's number of lanes, all nodes' numbers with commas, or auto, found \"%.80s\"", name,
             text);
    *number = (uint32_t)value;
    *at += bytes;
    return ST_OK;
}

/* Likewise, of bytes a second, in kilobytes. */
static status bandwidth_next(const char *name, const char **at, const char *text, uint32_t *bandwidth)
{
    char one[32];
    double value;
    const size_t bytes = strcspn(*at, ",");
    snprintf(one, sizeof one, "%.*s", bytes < sizeof one ? (int)bytes : 0, *at);
    if (!cfg_parse_f64(one, &value) || value < BANDWIDTH_LEAST || value > BANDWIDTH_MOST)
        FAIL(USAGE,
             "%s: expected bytes a second of this node's link, as 1.25e9, from %g to %g, or all nodes' with commas, "
             "found \"%.80s\"",
             name, BANDWIDTH_LEAST, BANDWIDTH_MOST, text);
    *bandwidth = (uint32_t)(value / KILO);
    *at += bytes;
    return ST_OK;
}

/* Reads a number, or a list with one for each node of the job: node 0's, and this node's. */
typedef status next_read(const char *name, const char **at, const char *text, uint32_t *number);
static status list_read(const char *name, const char *text, next_read *next, uint32_t rank, uint32_t job_nodes,
                        uint32_t *first, uint32_t *own, uint32_t *count)
{
    uint32_t number = 0;
    *first = *own = *count = 0;
    for (const char *at = text;; at++) {
        TRY(next(name, &at, text, &number));
        if (*count == 0) *first = number;
        if ((*count)++ == rank || *count == 1) *own = number;
        if (*at == 0) break;
    }
    if (*count > 1 && *count != job_nodes)
        FAIL(USAGE, "%s %.80s: expected a number for each of %u nodes, found %u", name, text, job_nodes, *count);
    return ST_OK;
}

status division_parse(const char *name, const char *text, uint32_t rank, uint32_t job_nodes, uint32_t *says,
                      bool *is_auto)
{
    uint32_t own, first, count;
    *says = DIVISION_SAYS_NOTHING;
    *is_auto = strcmp(text, "auto") == 0;
    if (*is_auto) return ST_OK;
    TRY(list_read(name, text, number_next, rank, job_nodes, &first, &own, &count));
    if (first == 0 && (rank == 0 || count > 1))
        FAIL(USAGE, "%s %.80s: node 0 reads the data for all, and speaks for them: give it at least one lane", name,
             text);
    *says = division_lanes(own);
    return ST_OK;
}

status division_bandwidth_parse(const char *text, uint32_t rank, uint32_t job_nodes, uint32_t *bandwidth)
{
    uint32_t first, count;
    *bandwidth = 0;
    return *text ? list_read("cluster.bandwidth", text, bandwidth_next, rank, job_nodes, &first, bandwidth, &count)
                 : ST_OK;
}

bool division_bandwidths(const uint64_t *says, uint32_t node_count, uint32_t *bandwidth)
{
    uint64_t sum = 0, count = 0;
    for (uint32_t n = 0; n < node_count; n++) {
        sum += division_bandwidth(says[n]);
        count += division_bandwidth(says[n]) > 0;
    }
    for (uint32_t n = 0; n < node_count; n++) {
        bandwidth[n] = division_bandwidth(says[n]);
        if (bandwidth[n] == 0 && count) bandwidth[n] = (uint32_t)(sum / count);
    }
    return count > 0;
}

/* What a node has said of its lanes. */
static uint32_t said(const struct division_options *o, uint32_t node) { return division_of_lanes(o->says[node]); }

static bool has_said(uint32_t says) { return says != DIVISION_SAYS_NOTHING && !(says & DIVISION_SPEED); }

/* What nodes have said, for messages: "3 of node 0, 5 of node 2". */
static const char *said_text(const struct division_options *o, char *text, size_t bytes)
{
    size_t used = 0;
    *text = 0;
    for (uint32_t n = 0; n < o->node_count && used < bytes; n++)
        if (has_said(said(o, n)))
            used += (size_t)snprintf(text + used, bytes - used, "%s%u of node %u", used ? ", " : "", said(o, n) - 1,
                                     o->rank_of[n]);
    return text;
}

/* The lanes that nodes have said, and how many have said none of them. */
static uint64_t said_sum(const struct division_options *o, uint32_t *others)
{
    uint64_t sum = 0;
    *others = 0;
    for (uint32_t n = 0; n < o->node_count; n++) {
        *others += !has_said(said(o, n));
        if (has_said(said(o, n))) sum += said(o, n) - 1;
    }
    return sum;
}

/* Speeds of nodes that have said no lanes; 0: it has.
 * Without a word a node counts as fast as others on average. */
static void speeds_find(const struct division_options *o, uint64_t *speed)
{
    uint64_t sum = 0, count = 0;
    for (uint32_t n = 0; n < o->node_count; n++) {
        if (!(said(o, n) & DIVISION_SPEED)) continue;
        sum += said(o, n) & DIVISION_SPEED_MAX;
        count++;
    }
    for (uint32_t n = 0; n < o->node_count; n++) {
        if (has_said(said(o, n))) continue;
        speed[n] = said(o, n) & DIVISION_SPEED ? said(o, n) & DIVISION_SPEED_MAX : count ? sum / count : 1;
        if (speed[n] == 0) speed[n] = 1;
    }
}

/* Shares `lanes` in proportion to weights, one at least to each node with a weight. Each further one goes to
 * the node that misses most of its share. */
static void lanes_share(uint32_t lanes, uint32_t node_count, const uint64_t *weight, uint32_t *count)
{
    int64_t sum = 0;
    uint32_t given = 0;
    for (uint32_t n = 0; n < node_count; n++) {
        sum += (int64_t)weight[n];
        if (weight[n]) count[n] = 1;
        given += weight[n] != 0;
    }
    for (; given < lanes; given++) {
        uint32_t most = 0;
        int64_t missing_most = INT64_MIN;
        for (uint32_t n = 0; n < node_count; n++) {
            const int64_t missing = (int64_t)(lanes * weight[n]) - (int64_t)count[n] * sum;
            if (weight[n] == 0 || missing <= missing_most) continue;
            most = n;
            missing_most = missing;
        }
        count[most]++;
    }
}

/* All nodes of the job are there: what they have said holds. */
static status whole_divide(const struct division_options *o, uint32_t *count)
{
    uint64_t speed[MEMBER_NODES_MAX] = {0};
    uint32_t others;
    char text[512];
    const uint64_t sum = said_sum(o, &others);
    if (others == o->node_count) TRY(lanes_suffice(o->lanes, o->node_count));
    if (others == 0 && sum != o->lanes)
        FAIL(INVALID,
             "nodes have %" PRIu64 " lanes (--lanes: %s), and train.lanes is %u: change one of them, "
             "or --set train.lanes=%" PRIu64,
             sum, said_text(o, text, sizeof text), o->lanes, sum);
    if (sum + others > o->lanes)
        FAIL(INVALID,
             "nodes have %" PRIu64 " lanes (--lanes: %s), and %u other%s need one each at least: train.lanes is %u; "
             "change one of them, or --set train.lanes=%" PRIu64,
             sum, said_text(o, text, sizeof text), others, words_s(others), o->lanes, sum + others);
    for (uint32_t n = 0; n < o->node_count; n++)
        if (has_said(said(o, n))) count[n] = said(o, n) - 1;
    speeds_find(o, speed);
    if (others) lanes_share(o->lanes - (uint32_t)sum, o->node_count, speed, count);
    return ST_OK;
}

/* Some nodes are there: those with lanes share all, in the proportion of what was said. A node that has said
 * nothing counts with an even share of the job's lanes, or, where speeds are known, with more or less. */
static status rest_divide(const struct division_options *o, uint32_t *count)
{
    uint64_t weight[MEMBER_NODES_MAX] = {0}, speeds = 0;
    uint32_t others, computing = 0;
    (void)said_sum(o, &others);
    speeds_find(o, weight);
    for (uint32_t n = 0; n < o->node_count; n++) speeds += weight[n];
    for (uint32_t n = 0; n < o->node_count; n++) {
        if (has_said(said(o, n)))
            weight[n] = (uint64_t)(said(o, n) - 1) * PARTS;
        else
            weight[n] =
                (uint64_t)((double)o->lanes * PARTS * others / o->job_nodes * (double)weight[n] / (double)speeds) + 1;
        computing += weight[n] != 0;
    }
    TRY(lanes_suffice(o->lanes, computing));
    lanes_share(o->lanes, o->node_count, weight, count);
    return ST_OK;
}

static status holders_find(const struct division_options *o, const char *key, uint32_t placement, uint64_t servers,
                           uint64_t *holders)
{
    const uint64_t all = UINT64_MAX >> (64 - o->node_count);
    *holders = placement == CLUSTER_LOCAL ? all & ~servers : placement == CLUSTER_SERVERS ? servers : all;
    if (*holders) return ST_OK;
    if (o->node_count == o->job_nodes)
        FAIL(INVALID,
             "cluster.%s = servers, but every node has lanes: start one with --lanes 0, or --set cluster.%s=spread",
             key, key);
    *holders = all;
    return ST_OK;
}

status division_make(struct division *d, const struct division_options *o)
{
    uint32_t count[MEMBER_NODES_MAX] = {0};
    uint64_t servers = 0;
    CHECK(o->node_count >= 1 && o->node_count <= o->job_nodes && o->job_nodes <= MEMBER_NODES_MAX);
    memset(d, 0, sizeof *d);
    CHECK(said(o, 0) != division_lanes(0)); /* division_parse */
    TRY(o->node_count == o->job_nodes ? whole_divide(o, count) : rest_divide(o, count));
    for (uint32_t n = 0; n < o->node_count; n++) {
        d->lane_begin[n + 1] = d->lane_begin[n] + count[n];
        if (count[n] == 0) servers |= UINT64_C(1) << n;
    }
    CHECK(d->lane_begin[o->node_count] == o->lanes);
    TRY(holders_find(o, "slices", o->slices, servers, &d->slices));
    return holders_find(o, "rows", o->rows, servers, &d->rows);
}
