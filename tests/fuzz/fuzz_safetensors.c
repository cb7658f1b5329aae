/* Any bytes as a safetensors file: an error, or arrays within the bytes that fill the data. */
#define FUZZ_NAME "safetensors"
#include "tests/fuzz/driver.h"

#include "io/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct safetensors file;
    if (safetensors_open(&file, "FILE", data, bytes) != ST_OK) return 0;
    uint64_t sum = 0;
    volatile uint8_t sink = 0;
    for (uint32_t i = 0; i < file.tensor_count; i++) {
        const struct safetensors_tensor *t = &file.tensors[i];
        CHECK(t->name != NULL && t->rank <= SAFETENSORS_RANK_MAX);
        for (uint64_t k = 0; k < t->bytes; k++) sink ^= t->data[k];
        sum += t->bytes;
    }
    (void)sink;
    CHECK(file.tensor_count == 0 ||
          file.tensors[file.tensor_count - 1].data + file.tensors[file.tensor_count - 1].bytes == data + bytes);
    CHECK(sum <= bytes);
    safetensors_close(&file);
    return 0;
}
