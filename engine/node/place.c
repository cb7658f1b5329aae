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

status place_from_environment(struct node_place *place, const char *coordinator, const char *(*value)(const char *name))
{
    static const char *const names[][2] = {{"RANK", "WORLD_SIZE"}, {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"}};
    uint64_t rank, count, port = NODE_PORT - 1;
    char master[300];
    memset(place->address, 0, sizeof place->address);
    place->count = 0;
    uint32_t which = 0;
    while (which < 2 && value(names[which][0]) == NULL) which++;
    if (which == 2) return ST_OK;
    TRY(number_of(names[which][0], value(names[which][0]), &rank));
    TRY(number_of(names[which][1], value(names[which][1]), &count));
    if (coordinator == NULL) {
        const char *address = value("MASTER_ADDR");
        if (address == NULL)
            FAIL(USAGE,
                 "%s is %" PRIu64 ", but nothing says where node 0 is: give --coordinator ADDRESS:PORT, or MASTER_ADDR",
                 names[which][0], rank);
        if (value("MASTER_PORT")) TRY(number_of("MASTER_PORT", value("MASTER_PORT"), &port));
        if (port >= UINT16_MAX) FAIL(USAGE, "MASTER_PORT: expected a port below %u, found %" PRIu64, UINT16_MAX, port);
        snprintf(master, sizeof master, strchr(address, ':') ? "[%s]:%u" : "%s:%u", address, (unsigned)port + 1);
        coordinator = master;
    }
    return coordinator_set(place, count, coordinator, rank);
}
