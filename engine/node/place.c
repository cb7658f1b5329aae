/* Places of nodes, from flags. */
#include "engine/node/place.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cfg/key.h"

static bool is_same(const struct address *a, const struct address *b)
{
    return address_same_host(a, b) && address_port(a) == address_port(b);
}

/* The next text of a list, up to its comma. */
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
            FAIL(USAGE, "--nodes: %s is there twice; each node listens at a place of its own", one);
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

/* Node 0 is there; this one, if it is another, anywhere. */
static status coordinator_set(struct node_place *place, uint64_t count, const char *coordinator, uint64_t rank)
{
    if (count < 1 || count > MEMBER_NODES_MAX)
        FAIL(USAGE, "--nodes: expected a number from 1 to %u, or a list of places", MEMBER_NODES_MAX);
    if (rank >= count)
        FAIL(USAGE, "--rank: expected 0 to %u, found %s", (uint32_t)count - 1,
             rank == PLACE_RANK_NONE ? "none" : "another");
    place->count = (uint32_t)count;
    place->rank = (uint32_t)rank;
    TRY(address_parse(&place->address[0], coordinator, NODE_PORT));
    if (rank == 0) return ST_OK;
    return address_parse(&place->address[rank], place->address[0].any.sa_family == AF_INET6 ? "[::]:0" : "0.0.0.0:0",
                         0);
}

status place_parse(struct node_place *place, const char *nodes, const char *coordinator, uint32_t rank)
{
    uint64_t count;
    memset(place->address, 0, sizeof place->address);
    place->count = 0;
    if (cfg_parse_u64(nodes, &count)) {
        if (coordinator) return coordinator_set(place, count, coordinator, rank);
        FAIL(USAGE, "--nodes %s: give --coordinator ADDRESS:PORT, where node 0 listens, or a list of where all do",
             nodes);
    }
    if (coordinator) FAIL(USAGE, "--coordinator goes with a number of nodes; a list says where node 0 listens");
    TRY(list_parse(place, nodes));
    if (rank >= place->count)
        FAIL(USAGE, "--rank: expected 0 to %u, the number of this node in --nodes, found %s", place->count - 1,
             rank == PLACE_RANK_NONE ? "none" : "another");
    place->rank = rank;
    return ST_OK;
}

/* --- the environment ------------------------------------------------------------------------------ */

static status number_of(const char *name, const char *text, uint64_t *number)
{
    if (text == NULL) FAIL(USAGE, "%s is not in the environment, where others of a launcher are", name);
    if (!cfg_parse_u64(text, number)) FAIL(USAGE, "%s: expected a number, found \"%.40s\"", name, text);
    return ST_OK;
}

/* What launchers set, in the order in which they are looked for: an MPI may run below Slurm, and torchrun below both. */
struct launcher {
    const char *rank, *count;
    const char *hosts; /* a list of hosts, of which the first has rank 0; NULL: MASTER_ADDR says where that is */
};
static const struct launcher launchers[] = {
    {"RANK", "WORLD_SIZE", NULL},                                    /* torchrun    */
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", NULL},          /* Open MPI    */
    {"PMI_RANK", "PMI_SIZE", NULL},                                  /* MPICH       */
    {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_NODELIST"}, /* Slurm, srun */
    {"JOB_COMPLETION_INDEX", "WORLD_SIZE", NULL},                    /* Kubernetes  */
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

/* Where rank 0 is, by what the launcher says. */
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
    if (value("MASTER_PORT")) TRY(number_of("MASTER_PORT", value("MASTER_PORT"), &port));
    if (port >= UINT16_MAX) FAIL(USAGE, "MASTER_PORT: expected a port below %u, found %" PRIu64, UINT16_MAX, port);
    snprintf(first, 300, strchr(address, ':') ? "[%s]:%u" : "%s:%u", address, (unsigned)port + 1);
    return ST_OK;
}

status place_from_environment(struct node_place *place, const char *coordinator, const char *(*value)(const char *name))
{
    uint64_t rank, count;
    char first[300];
    memset(place->address, 0, sizeof place->address);
    place->count = 0;
    const struct launcher *l = launchers;
    while (l < launchers + LAUNCHERS && (value(l->rank) == NULL || (l->hosts && value(l->count) == NULL))) l++;
    if (l == launchers + LAUNCHERS) return ST_OK;
    TRY(number_of(l->rank, value(l->rank), &rank));
    TRY(number_of(l->count, value(l->count), &count));
    if (coordinator == NULL) TRY(first_find(l, rank, value, first));
    return coordinator_set(place, count, coordinator ? coordinator : first, rank);
}
