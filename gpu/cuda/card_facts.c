/* Which cards there are, and what they are. */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/cuda/driver.h"

uint32_t gpu_count(const char **why) { return cuda_ready(why); }

/* The first number of a file of sysfs, "32.0 GT/s PCIe", "16"; 0 if it cannot be had. */
static double sysfs_number(const char *bus_id, const char *file)
{
    char path[128], text[64] = "";
    snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/%s", bus_id, file);
    FILE *f = fopen(path, "re");
    if (f == NULL) return 0;
    if (fgets(text, sizeof text, f) == NULL) text[0] = 0;
    fclose(f);
    const double number = strtod(text, NULL);
    return number > 0 && number < 1e6 ? number : 0;
}

static double least(double x, double y) { return y > 0 && y < x ? y : x; }

/* "PCIe 5.0 x16": the best that both ends can, for a card that rests has slowed its link down. "" where the
 * system does not say. */
static void link_text(char *text, size_t text_bytes, const char *bus_id)
{
    static const double rates[] = {2.5, 5, 8, 16, 32, 64}; /* GT/s of generations 1 … 6 */
    const double rate = least(sysfs_number(bus_id, "max_link_speed"), sysfs_number(bus_id, "../max_link_speed"));
    const double lanes = least(sysfs_number(bus_id, "max_link_width"), sysfs_number(bus_id, "../max_link_width"));
    uint32_t generation = 0;
    while (generation < sizeof rates / sizeof *rates && rate >= rates[generation]) generation++;
    text[0] = 0;
    if (generation > 0 && lanes >= 1) snprintf(text, text_bytes, "PCIe %u.0 x%.0f", generation, lanes);
}

status gpu_describe(uint32_t index, struct gpu_facts *facts)
{
    const char *why;
    const uint32_t count = cuda_ready(&why);
    struct cuda_card c = {.index = index, .name = "not yet opened"};
    char bus_id[32];
    size_t bytes, free_bytes;
    *facts = (struct gpu_facts){0};
    snprintf(facts->device, sizeof facts->device, "cuda:%u", index);
    if (index >= count && count == 0) FAIL(USAGE, "no card %u: %s", index, why);
    if (index >= count) FAIL(USAGE, "no card %u: there are %u, numbered from 0", index, count);
    CUDA_TRY(&c, cuDeviceGet, (&c.device, (int)index), "looking for it");
    CUDA_TRY(&c, cuDeviceGetName, (c.name, sizeof c.name, c.device), "asking for its name");
    memcpy(facts->name, c.name, sizeof facts->name);
    TRY(cuda_attribute(&c, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &facts->major));
    TRY(cuda_attribute(&c, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &facts->minor));
    TRY(cuda_attribute(&c, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &facts->core_count));
    if (cuda_calls.cuDeviceGetPCIBusId(bus_id, sizeof bus_id, c.device) == CUDA_SUCCESS) {
        for (char *p = bus_id; *p; p++) *p = (char)tolower((unsigned char)*p);
        link_text(facts->link, sizeof facts->link, bus_id);
    }
    CUDA_TRY(&c, cuDeviceTotalMem, (&bytes, c.device), "asking for its memory");
    facts->memory_bytes = bytes;
    /* What is free only an open card says. */
    TRY(cuda_retain(&c, "opening it to see what memory is free"));
    status st = cuda_enter(&c);
    if (st == ST_OK && cuda_calls.cuMemGetInfo(&free_bytes, &bytes) == CUDA_SUCCESS) facts->free_bytes = free_bytes;
    cuda_calls.cuDevicePrimaryCtxRelease(c.device);
    return st;
}
