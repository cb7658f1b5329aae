/* Plans in a short notation. Include after cmocka.h. */
#ifndef HETERPS_TESTS_PLAN_FIXTURE_H
#define HETERPS_TESTS_PLAN_FIXTURE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/engine/fixture_files.h"

/* The JSON of "0-3:2:2@0+1 4-10:1:1@0 +1": of each stage first layer - last layer : k : replicas; "e" of
 * emulated cards, "s" of what computes nothing; its nodes, if it has any; at the end service cores. */
FIXTURE static void plan_json(char *text, size_t bytes, const char *notation)
{
    size_t used = (size_t)snprintf(text, bytes,
                                   "{\"format\": \"heterps-solution-1\", \"types\": [{\"name\": \"cpu\", "
                                   "\"device\": \"cpu\", \"price_per_hour\": 0.04, \"limit\": 64}, {\"name\": \"emu\", "
                                   "\"device\": \"emu\", \"price_per_hour\": 1, \"limit\": 64}, {\"name\": \"sim\", "
                                   "\"device\": \"sim\", \"price_per_hour\": 1, \"limit\": 64}], \"stages\": [");
    unsigned first, last, k, replicas, service = 0;
    int length;
    const char *comma = "";
    for (; sscanf(notation, "%u-%u:%u:%u%n", &first, &last, &k, &replicas, &length) == 4; comma = ", ") {
        const int type = notation[length] == 'e' ? 1 : notation[length] == 's' ? 2 : 0;
        notation += length + (type > 0);
        used += (size_t)snprintf(text + used, bytes - used,
                                 "%s{\"first\": %u, \"last\": %u, \"type\": %d, \"k\": %u, \"replicas\": %u", comma,
                                 first, last, type, k, replicas);
        if (type == 2) used += (size_t)snprintf(text + used, bytes - used, ", \"et\": 0.001");
        const bool has_nodes = *notation == '@';
        if (has_nodes) used += (size_t)snprintf(text + used, bytes - used, ", \"nodes\": [");
        for (; *notation == '@' || *notation == '+'; notation += strcspn(notation + 1, "+ ") + 1)
            used += (size_t)snprintf(text + used, bytes - used, "%s%lu", *notation == '+' ? ", " : "",
                                     strtoul(notation + 1, NULL, 10));
        used += (size_t)snprintf(text + used, bytes - used, has_nodes ? "]}" : "}");
        notation += *notation == ' ';
    }
    if (*notation == '+') service = (unsigned)atoi(notation + 1);
    used += (size_t)snprintf(text + used, bytes - used, "], \"service_cores\": %u}", service);
    assert_true(used < bytes);
}

#endif
