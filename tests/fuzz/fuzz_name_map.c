/* Any bytes as a name map: an error that says where, or pairs sorted by their names,
 * none of which occurs twice. */
#define FUZZ_NAME "name_map"
#include "tests/fuzz/driver.h"

#include "engine/model/name_map.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct name_map map;
    status st = name_map_parse(&map, "MAP", (const char *)data, bytes);
    CHECK(st == ST_OK || st == ST_INVALID);
    if (st != ST_OK) {
        CHECK(map.pairs == NULL && strncmp(status_message(), "MAP:", 4) == 0);
        return 0;
    }
    for (uint32_t i = 0; i < map.count; i++) {
        const struct name_pair *p = &map.pairs[i];
        CHECK(*p->theirs && *p->ours && p->line > 0);
        CHECK(i == 0 || strcmp(map.pairs[i - 1].theirs, p->theirs) < 0);
        CHECK(name_map_find(&map, p->theirs) == p);
    }
    CHECK(name_map_find(&map, "") == NULL);
    name_map_free(&map);
    return 0;
}
