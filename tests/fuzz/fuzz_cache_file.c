/* Any bytes as the file of a data cache, of the first byte's way: as they are, or with hashes that fit over
 * head, index and tail, so that what they say is looked at. The file is found or left, with a reason; what it
 * is found to hold lies within it, and what it knows of the data is its own. */
#define FUZZ_NAME "cache_file"
#include "tests/fuzz/driver.h"

#include <xxhash.h>

#include "io/cache/block.h"
#include "io/cache/cache_file.h"
#include "tests/fuzz/format.h"

#define BLOCKS 64u
#define TAIL   40u

/* Gives the file hashes as io/cache/cache_file.c makes them. */
static void hashes_put(uint8_t *file, size_t bytes, const struct cache_file_head *head)
{
    if (bytes < sizeof *head + TAIL) return;
    memcpy(file, head, sizeof *head);
    uint64_t words[5], magic = head->magic;
    memcpy(words, file + bytes - TAIL, sizeof words); /* magic, block count, index at, its hash, hash */
    words[0] = magic;
    words[1] %= BLOCKS + 2;
    size_t entries = words[1] * 8;
    if (entries + TAIL + sizeof *head <= bytes) {
        words[2] = bytes - TAIL - entries;
        words[3] = XXH3_64bits_withSeed(file + words[2], entries, words[1]);
    }
    words[4] = XXH3_64bits_withSeed(words, 32, head->hash);
    memcpy(file + bytes - TAIL, words, sizeof words);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static struct arena arena;
    static struct data_sources sources;
    static struct cache_file file;
    static struct cache_place places[BLOCKS];
    static char path[64];
    if (!arena.base) {
        struct layout sum = {0};
        struct cache_file_options o = {.path = path,
                                       .sources = &sources,
                                       .bytes_max = 1 << 20,
                                       .block_count_max = BLOCKS,
                                       .row_count_max = 1000,
                                       .block_bytes_max = 8192,
                                       .held_count = 1};
        data_sources_layout(&sources, &sum, "a", false);
        cache_file_layout(&file, &sum, &o);
        CHECK(arena_open(&arena, "fuzz", sum.bytes) == ST_OK);
        struct layout place = {.arena = &arena};
        data_sources_layout(&sources, &place, "a", false);
        cache_file_layout(&file, &place, &o);
        cache_file_head_make(&file); /* of a source of which all is 0 */
    }
    char why[512];
    uint64_t count = 0;
    uint8_t *copy = malloc(bytes ? bytes : 1);
    CHECK(copy);
    if (bytes) memcpy(copy, data, bytes);
    size_t file_bytes = bytes ? bytes - 1 : 0;
    if (bytes && data[0] % 4) {
        if (file_bytes > sizeof file.head + sizeof *sources.source && data[0] % 4 > 1)
            memset(copy + 1 + sizeof file.head, 0, sizeof *sources.source);
        hashes_put(copy + 1, file_bytes, &file.head);
    }
    snprintf(path, sizeof path, "%s", format_file(copy + (bytes ? 1 : 0), file_bytes));
    bool is_found = cache_file_find(&file, places, &count, why, sizeof why);
    CHECK(is_found == (*why == 0));
    for (uint64_t i = 0; is_found && i < count; i++) {
        const struct cache_place *p = &places[i];
        CHECK(p->bytes >= BLOCK_HEAD_BYTES && p->bytes <= file.o.block_bytes_max && p->row_count <= 1000);
        CHECK((uint64_t)p->file_page * CACHE_PAGE + p->bytes <= file_bytes);
    }
    CHECK(count <= BLOCKS || !is_found);
    cache_file_leave(&file, false);
    cache_file_know(path, &sources);
    CHECK(sources.source_is_earlier || (sources.source->name_hash | sources.source->probe_hash) == 0);
    sources.source_is_earlier = false;
    *sources.source = (struct data_source){0};
    free(copy);
    return 0;
}
