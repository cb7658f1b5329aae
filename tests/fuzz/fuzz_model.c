/* Model texts: any bytes either compile into a graph that passes its own validation and runs within
 * its memory, or give one error. */
#define FUZZ_NAME "model"
#include "tests/fuzz/driver.h"

#include "tests/graph/rig.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct graph g;
    if (graph_compile(&g, "fuzz.cfg", (const char *)data, bytes, NULL, 0, NULL) != ST_OK) return 0;
    uint32_t examples = g.header->micro < 3 ? g.header->micro : 3;
    if (rig_fits(&g, examples)) {
        struct rig r;
        rig_open(&r, &g, 1, examples);
        rig_forward(&r);
        rig_backward(&r);
        rig_close(&r);
    }
    graph_close(&g);
    return 0;
}
