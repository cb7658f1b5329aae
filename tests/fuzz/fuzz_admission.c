/* Any bytes as a file of admission, for tables of both kinds and two sizes: an error, or counts
 * within their bounds that are written as they were read. The checksum is made to fit first, so that
 * what lies behind it is reached. */
#define FUZZ_NAME "admission"
#include "tests/fuzz/driver.h"

#include <xxhash.h>

#include "io/store/admission.h"

static void table_read(uint32_t admit_by, uint64_t admit_keys, const uint8_t *data, size_t bytes)
{
    struct admission a;
    const struct admission_options o = {.table = "emb",
                                        .life = {.admit = 4, .admit_by = admit_by, .admit_keys = admit_keys},
                                        .addition_max = 4,
                                        .ticket_max = 1};
    CHECK(admission_open(&a, &o) == ST_OK);
    status st = admission_read(&a, "FILE", data, bytes);
    CHECK(st == ST_OK || st == ST_INVALID || st == ST_CORRUPT || st == ST_MISMATCH);
    if (st == ST_OK)
        for (uint64_t key = 0; key < 4; key++) {
            st = admission_add(&a, key);
            CHECK(st == ST_OK || st == ST_FULL);
        }
    admission_turn_back(&a, 0);
    admission_turn_forth(&a);
    admission_close(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    uint8_t *sealed = malloc(bytes + 1);
    CHECK(sealed != NULL);
    memcpy(sealed, data, bytes);
    if (bytes >= 8) {
        const uint64_t hash = XXH3_64bits(sealed, bytes - 8);
        memcpy(sealed + bytes - 8, &hash, 8);
    }
    for (uint32_t by = ADMIT_EXACT; by <= ADMIT_BLOOM_SHARDS; by++) {
        table_read(by, 20, sealed, bytes);
        table_read(by, 50, sealed, bytes);
    }
    free(sealed);
    return 0;
}
