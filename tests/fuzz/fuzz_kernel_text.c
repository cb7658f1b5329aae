/* Any bytes as a text of the kernel: every parser gives an answer that keeps within its bounds. */
#define FUZZ_NAME "kernel_text"
#include "tests/fuzz/driver.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/kernel_text.h"
#include "engine/base/status.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    /* As file_text_read gives it: ended by a NUL, in a block of just its size. */
    char *text = malloc(bytes + 1), value[16];
    CHECK(text != NULL);
    memcpy(text, data, bytes);
    text[bytes] = 0;
    uint64_t number;
    (void)kernel_number_find(text, "MemTotal:", &number);
    (void)kernel_number_find(text, "", &number);
    CHECK(kernel_text_find(text, "model name", value, sizeof value) == (*value != 0) && strlen(value) < sizeof value);
    CHECK(kernel_choice_find(text, value, sizeof value) == (*value != 0) && strlen(value) < sizeof value);
    CHECK(strchr(value, ']') == NULL);

    uint32_t numbers[64];
    const uint32_t count = kernel_list_read(text, numbers, 64);
    CHECK(count <= 64);
    for (uint32_t i = 1; i < count; i++) CHECK(numbers[i] > numbers[i - 1]);

    struct kernel_mount mount;
    const char *at = text;
    while (kernel_mount_next(&at, &mount))
        CHECK(at <= text + strlen(text) && *mount.top && *mount.file_system && *mount.source && *mount.options);
    CHECK(*at == 0);
    free(text);
    return 0;
}
