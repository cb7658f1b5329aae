/* Places of nodes, from flags. */
#include "engine/node/place.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "cfg/key.h"
#include "engine/base/clock.h"
#include "engine/base/log.h"

/* How long an unknown name is asked for. */
#define NAME_NS UINT64_C(60000000000)

static bool is_same(const struct address *a, const struct address *b)
{
    return address_same_host(a, b) && address_port(a) == address_port(b);
}

/* Takes the next place of a list, up to its comma. */
static status address_next(struct node_place *place, const char *text, size_t bytes)
{
    char one[300];
    struct address *address = &place->address[place->count];
    if (place->count == MEMBER_NODES_MAX) FAIL(USAGE, "--nodes: expected at most %u nodes", MEMBER_NODES_MAX);
    if (bytes == 0 || bytes >= sizeof one)
        FAIL(USAGE, "--nodes: expected ADDRESS:PORT,ADDRESS:PORT,…, found \"%.*s\" as number %u",
             bytes < 80 ? (int)bytes : 80, text, place->count);
    snprintf(one, sizeof one, "%.*s", (int)bytes, text);
    TRY(address_parse(address, one, NODE_PORT));
    for (uint32_t i = 0; i < place->count; i++)
        if (is_same(address, &place->address[i]))
            FAIL(USAGE, "--nodes: %s is given twice; each node listens at a place of its own", one);
    place->count++;
    return ST_OK;
}

static status list_parse(struct node_place *place, const char *nodes)
{
    for (const char *at = nodes;; at++) {
        const size_t bytes = strcspn(at, ",");
        TRY(address_next(place, at, bytes));
        at += bytes;
        if (*at == 0) return ST_OK;
    }
}

static status rank_check(uint32_t count, uint32_t rank)
{
    if (rank == PLACE_RANK_NONE)
        FAIL(USAGE, "--rank: expected 0 to %u, the number of this node in --nodes, found none", count - 1);
    if (rank >= count)
        FAIL(USAGE, "--rank: expected 0 to %u, the number of this node in --nodes, found %u", count - 1, rank);
    return ST_OK;
}

/* Node 0 listens where its name says. If the name is unknown here, or this machine's alone, as Debian has it
 * of a machine's own (127.0.1.1), node 0 listens at all of its addresses. */
static status first_place(struct node_place *place, const char *coordinator)
{
    struct address *a = &place->address[0];
    const status st = address_parse(a, coordinator, NODE_PORT);
    const bool is_usual = st == ST_OK && (!address_is_loopback(a) || a->any.sa_family == AF_INET6 ||
                                          a->v4.sin_addr.s_addr == htonl(INADDR_LOOPBACK));
    return is_usual || !address_has_name(coordinator) ? st : address_any(a, coordinator, NODE_PORT);
}

/* Node 0 listens there; this node, if it is another, anywhere. */
static status coordinator_set(struct node_place *place, uint64_t count, const char *coordinator, uint64_t rank)
{
    place->count = (uint32_t)count;
    place->rank = (uint32_t)rank;
    if (rank == 0) return first_place(place, coordinator);
    TRY(address_parse(&place->address[0], coordinator, NODE_PORT));
    return address_parse(&place->address[rank], place->address[0].any.sa_family == AF_INET6 ? "[::]:0" : "0.0.0.0:0",
                         0);
}

status place_parse(struct node_place *place, const char *nodes, const char *coordinator, uint32_t rank)
{
    uint64_t count;
    memset(place->address, 0, sizeof place->address);
    place->count = 0;
    if (cfg_parse_u64(nodes, &count)) {
        if (count < 1 || count > MEMBER_NODES_MAX)
            FAIL(USAGE, "--nodes: expected a number from 1 to %u, or a list of places", MEMBER_NODES_MAX);
        TRY(rank_check((uint32_t)count, rank));
        if (coordinator) return coordinator_set(place, count, coordinator, rank);
        FAIL(USAGE, "--nodes %s: give --coordinator ADDRESS:PORT, where node 0 listens, or a list of where all do",
             nodes);
    }
    if (coordinator) FAIL(USAGE, "--coordinator goes with a number of nodes; a list says where node 0 listens");
    TRY(list_parse(place, nodes));
    TRY(rank_check(place->count, rank));
    place->rank = rank;
    return ST_OK;
}

/* --- the environment ------------------------------------------------------------------------------ */

static status number_of(const char *name, const char *text, uint64_t *number)
{
    if (!cfg_parse_u64(text, number)) FAIL(USAGE, "%s: expected a number, found \"%.40s\"", name, text);
    return ST_OK;
}

/* What launchers set, in the order in which they are looked for: an MPI may run below Slurm, and torchrun
 * below both. Kubernetes sets an indexed job's number by itself; a stateful set's pod has it as the label
 * apps.kubernetes.io/pod-index (since 1.28), which a manifest hands on as POD_INDEX. */
struct launcher {
    const char *rank, *count;
    const char *hosts; /* a list of hosts, the first of which has rank 0; NULL: MASTER_ADDR alone says where it is */
    bool is_step;      /* the rank is set outside of steps, too, where the number is not                           */
};
static const struct launcher launchers[] = {
    {"RANK", "WORLD_SIZE", NULL, false},                                   /* torchrun            */
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", NULL, false},         /* Open MPI            */
    {"PMI_RANK", "PMI_SIZE", "SLURM_STEP_NODELIST", false},                /* MPICH; Slurm's pmi2 */
    {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_NODELIST", true}, /* Slurm, srun         */
    {"JOB_COMPLETION_INDEX", "WORLD_SIZE", NULL, false},                   /* Kubernetes, a job   */
    {"POD_INDEX", "WORLD_SIZE", NULL, false},                              /* … a stateful set    */
};
#define LAUNCHERS (sizeof launchers / sizeof *launchers)

/* The first host of "n[1,3-5],m2": "n1". */
static status host_first(const char *name, const char *list, char host[256])
{
    size_t count = 0;
    const char *at = list;
    while (*at && *at != ',' && count < 255) {
        if (*at != '[') {
            host[count++] = *at++;
            continue;
        }
        for (at++; *at && strchr(",-]", *at) == NULL && count < 255;) host[count++] = *at++;
        at = strchr(at, ']');
        if (at++ == NULL) FAIL(USAGE, "%s: expected names of hosts, found \"%.80s\", whose [ has no ]", name, list);
    }
    host[count] = 0;
    if (count == 0 || count == 255) FAIL(USAGE, "%s: expected names of hosts, found \"%.80s\"", name, list);
    return ST_OK;
}

/* Where rank 0 is, as the launcher says. */
static status first_find(const struct launcher *l, uint64_t rank, const char *(*value)(const char *name),
                         char first[300])
{
    uint64_t port = NODE_PORT - 1;
    char host[256];
    const char *address = value("MASTER_ADDR");
    if (address == NULL && l->hosts && value(l->hosts)) {
        TRY(host_first(l->hosts, value(l->hosts), host));
        address = host;
    }
    if (address == NULL)
        FAIL(USAGE,
             "%s is %" PRIu64 ", but nothing says where node 0 is: give --coordinator ADDRESS:PORT, or MASTER_ADDR",
             l->rank, rank);
    const char *colon = strchr(address, ':');
    if (colon && strchr(colon + 1, ':') == NULL)
        FAIL(USAGE,
             "MASTER_ADDR: expected an address or a name without a port, which MASTER_PORT says, found \"%.80s\"",
             address);
    if (value("MASTER_PORT")) TRY(number_of("MASTER_PORT", value("MASTER_PORT"), &port));
    if (port >= UINT16_MAX) FAIL(USAGE, "MASTER_PORT: expected a port below %u, found %" PRIu64, UINT16_MAX, port);
    snprintf(first, 300, strchr(address, ':') ? "[%s]:%u" : "%s:%u", address, (unsigned)port + 1);
    return ST_OK;
}

/* Waits for a name, which may become known only when its machine is up. */
static status name_await(const char *coordinator)
{
    const uint64_t end_ns = clock_ns() + NAME_NS;
    struct address a;
    for (bool is_first = true;; is_first = false) {
        const status st = address_parse(&a, coordinator, NODE_PORT);
        if (st == ST_OK || !address_has_name(coordinator) || clock_ns() >= end_ns) return st;
        if (is_first) log_warning("waits for node 0 to have an address: %s", status_message());
        nanosleep(&(struct timespec){.tv_sec = 1}, NULL);
    }
}

status place_from_environment(struct node_place *place, const char *coordinator, const char *(*value)(const char *name))
{
    uint64_t rank, count;
    char first[300];
    memset(place->address, 0, sizeof place->address);
    place->count = 0;
    const struct launcher *l = launchers;
    while (l < launchers + LAUNCHERS && (value(l->rank) == NULL || (l->is_step && value(l->count) == NULL))) l++;
    if (l == launchers + LAUNCHERS) return ST_OK;
    if (value(l->count) == NULL) FAIL(USAGE, "%s is not in the environment, where %s is", l->count, l->rank);
    TRY(number_of(l->rank, value(l->rank), &rank));
    TRY(number_of(l->count, value(l->count), &count));
    if (count < 1 || count > MEMBER_NODES_MAX)
        FAIL(USAGE, "%s: expected 1 to %u nodes, found %" PRIu64, l->count, MEMBER_NODES_MAX, count);
    if (rank >= count)
        FAIL(USAGE, "%s: expected 0 to %" PRIu64 ", as %s is %" PRIu64 ", found %" PRIu64, l->rank, count - 1, l->count,
             count, rank);
    if (coordinator == NULL) TRY(first_find(l, rank, value, first));
    if (coordinator == NULL) coordinator = first;
    if (rank > 0) TRY(name_await(coordinator));
    return coordinator_set(place, count, coordinator, rank);
}
