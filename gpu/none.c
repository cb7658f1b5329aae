/* A program without cards, such as the static binary. Linked if nothing before it offers cards. */
#include "gpu/gpu.h"

static const char *why(void) { return gpu_denied() ? gpu_denied() : "this program is built without the CUDA side"; }

uint32_t gpu_count(const char **reason)
{
    *reason = why();
    return 0;
}
status gpu_describe(uint32_t index, struct gpu_facts *facts)
{
    (void)facts;
    FAIL(USAGE, "no card %u: %s", index, why());
}
status gpu_open(uint32_t index, struct gpu **gpu)
{
    *gpu = NULL;
    FAIL(USAGE, "no card %u: %s", index, why());
}
