/* Any bytes as a layer table: an error with its file, or layers that are as the struct says and
 * give an instance, or a reason. */
#define FUZZ_NAME "layers"
#include "tests/fuzz/driver.h"

#include <string.h>

#include "sched/estimate.h"

static const char cluster_text[] = "[type a]\nprice_per_hour = 0.04\nlimit = 48\n"
                                   "flops = 1e10\nmemory_bandwidth = 1e9\nlink_bandwidth = 1e9\n"
                                   "[goal]\nexamples = 1e6\n";

static void check_layer(const struct layer_facts *layer)
{
    const double figures[] = {layer->in_bytes,    layer->out_bytes, layer->touched_bytes, layer->weight_bytes,
                              layer->dense_bytes, layer->flops,     layer->cut_bytes / 2};
    CHECK(layer->name[0] && layer->kind[0] && strlen(layer->kind) <= INSTANCE_NAME_BYTES);
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++)
        CHECK(figures[i] >= 0 && figures[i] <= RESOURCE_FIGURE_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static struct cluster cluster;
    struct layer_table table;
    struct instance instance;
    if (cluster.types == NULL) CHECK(cluster_parse(&cluster, "c.cfg", cluster_text, sizeof cluster_text - 1) == ST_OK);
    if (layer_table_parse(&table, "l.cfg", (const char *)data, bytes) != ST_OK) {
        CHECK(table.memory == NULL && strncmp(status_message(), "l.cfg", 5) == 0);
        return 0;
    }
    CHECK(table.layer_count >= 1 && table.layer_count <= INSTANCE_LAYERS_MAX && table.name != NULL);
    for (uint32_t l = 0; l < table.layer_count; l++) check_layer(&table.layers[l]);
    if (estimate(&instance, &table, &cluster, 256) == ST_OK) {
        CHECK(instance.layer_count == table.layer_count && instance_check(&instance) == ST_OK);
        instance_free(&instance);
    }
    layer_table_free(&table);
    return 0;
}
