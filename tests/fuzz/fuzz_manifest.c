/* Any bytes as a manifest: an error, or a manifest, whose recipe may be compared with a graph's.
 * As a checksum keeps random bytes out, they are also read with a checksum that fits, put behind
 * them in place of the last line. */
#define FUZZ_NAME "manifest"
#include "tests/fuzz/driver.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "engine/model/recipe.h"

static const char text[] = "[data]\ndense = I1..I3\nsparse = C1..C3\nshuffle = 16\n[table emb]\ndim = 4\n"
                           "[embedding e]\ntable = emb\ninput = sparse\n[concat x]\ninput = e, dense\n"
                           "[fc y]\ninput = x\nunits = 1\n[loss bce]\ninput = y\n";

static void recipe_run(const struct manifest *m)
{
    static struct graph graph;
    if (graph.header == NULL) CHECK(graph_compile(&graph, "fuzz.cfg", text, sizeof text - 1, NULL, 0, NULL) == ST_OK);
    (void)!recipe_refuse("FILE", m, &graph, false);
}

static void check(const uint8_t *data, size_t bytes)
{
    struct manifest m;
    if (manifest_read(&m, "FILE", data, bytes) != ST_OK) return;
    CHECK(m.model != NULL && strchr(m.dense.name, '/') == NULL);
    for (uint32_t i = 0; i < m.table_count; i++) {
        CHECK(m.tables[i].name != NULL);
        for (uint32_t k = 0; k < m.tables[i].part_count; k++) CHECK(strchr(m.tables[i].part[k].file.name, '/') == NULL);
    }
    for (uint32_t i = 0; i < m.tensor_count; i++) CHECK(m.tensors[i].name != NULL);
    CHECK(m.text == NULL || strlen(m.text) == m.text_bytes);
    recipe_run(&m);
    manifest_free(&m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static const char end[] = ",\n  \"xxh3\": \"0123456789abcdef\"\n}\n";
    check(data, bytes);
    const uint8_t *last_line = memmem(data, bytes, end, 12);
    size_t kept = last_line ? (size_t)(last_line - data) : bytes;
    char *sealed = malloc(kept + sizeof end);
    CHECK(sealed != NULL);
    if (kept) memcpy(sealed, data, kept);
    snprintf(sealed + kept, sizeof end, ",\n  \"xxh3\": \"%016" PRIx64 "\"\n}\n", (uint64_t)XXH3_64bits(sealed, kept));
    check((const uint8_t *)sealed, kept + sizeof end - 1);
    free(sealed);
    return 0;
}
