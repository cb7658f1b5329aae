/* Places of nodes, from flags. */
#include "engine/node/place.h"

#include <stdio.h>
#include <string.h>

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

status place_parse(struct node_place *place, const char *nodes, uint32_t rank)
{
    place->count = 0;
    for (const char *at = nodes;; at++) {
        const size_t bytes = strcspn(at, ",");
        TRY(address_next(place, at, bytes));
        at += bytes;
        if (*at == 0) break;
    }
    if (rank >= place->count)
        FAIL(USAGE, "--rank: expected 0 to %u, the number of this node in --nodes, found %s", place->count - 1,
             rank == PLACE_RANK_NONE ? "none" : "another");
    place->rank = rank;
    return ST_OK;
}
