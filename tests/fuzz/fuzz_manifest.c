/* Any bytes as a manifest: an error, or a manifest. As a checksum keeps random bytes out, they are also read with a
 * checksum that fits, put behind them in place of the last line. */
#define FUZZ_NAME "manifest"
#include "tests/fuzz/driver.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "engine/manifest.h"

static void check(const uint8_t *text, size_t bytes)
{
    struct manifest m;
    if (manifest_read(&m, "FILE", text, bytes) != ST_OK) return;
    CHECK(m.model != NULL && strchr(m.dense.name, '/') == NULL);
    for (uint32_t i = 0; i < m.table_count; i++)
        CHECK(m.tables[i].name != NULL && strchr(m.tables[i].file.name, '/') == NULL);
    for (uint32_t i = 0; i < m.tensor_count; i++) CHECK(m.tensors[i].name != NULL);
    manifest_free(&m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static const char end[] = ",\n  \"xxh3\": \"0123456789abcdef\"\n}\n";
    check(data, bytes);
    const uint8_t *last_line = memmem(data, bytes, end, 12);
    size_t kept = last_line ? (size_t)(last_line - data) : bytes;
    char *text = malloc(kept + sizeof end);
    CHECK(text != NULL);
    if (kept) memcpy(text, data, kept);
    snprintf(text + kept, sizeof end, ",\n  \"xxh3\": \"%016" PRIx64 "\"\n}\n", (uint64_t)XXH3_64bits(text, kept));
    check((const uint8_t *)text, kept + sizeof end - 1);
    free(text);
    return 0;
}
