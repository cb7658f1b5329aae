/* Any bytes as a .npy file: an error, or one array that ends where the bytes do. */
#define FUZZ_NAME "npy"
#include "tests/fuzz/driver.h"

#include "io/npy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct npy npy;
    status st = npy_open(&npy, "FILE", data, bytes);
    CHECK(st == ST_OK || st == ST_INVALID);
    if (st != ST_OK) return 0;
    const struct safetensors_tensor *a = &npy.array;
    uint64_t expected_bytes;
    CHECK((unsigned)a->type < SAFETENSORS_TYPE_COUNT && a->rank <= SAFETENSORS_RANK_MAX);
    CHECK(safetensors_tensor_bytes(a, &expected_bytes) && expected_bytes == a->bytes);
    CHECK(a->data > data && a->data + a->bytes == data + bytes);
    volatile uint8_t sink = 0;
    for (uint64_t k = 0; k < a->bytes; k++) sink ^= a->data[k];
    (void)sink;
    return 0;
}
