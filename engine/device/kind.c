/* The table of kinds. */
#include "engine/device/kind.h"

#define DEVICE(id, kind) extern const struct device_kind kind;
#include "engine/device/devices.def"
#undef DEVICE

#define DEVICE(id, kind) [RESOURCE_##id] = &kind,
static const struct device_kind *const kinds[RESOURCE_DEVICE_COUNT] = {
#include "engine/device/devices.def"
};

const struct device_kind *device_kind(enum resource_device device)
{
    CHECK((uint32_t)device < RESOURCE_DEVICE_COUNT && kinds[device] != NULL);
    return kinds[device];
}
