/* Any bytes as a model behind a graph (engine/model/lean.h), with a header that fits them as far as sizes,
 * hash and checksum go: what is read has finite numbers, and is within its memory. */
#define FUZZ_NAME "lean"
#include "tests/fuzz/driver.h"

#include <math.h>
#include <xxhash.h>

#include "engine/model/lean.h"
#include "io/store/store_rows.h"

#define BYTES_AT    16u
#define CHECKSUM_AT 24u
#define HASH_AT     32u
#define HEADER      128u

static const char text[] =
    "[data]\ndense = I1\nsparse = C1..C2\n[table emb]\ndim = 3\n[embedding e]\ntable = emb\ninput = C1..C2\n"
    "[fc y]\ninput = e\nunits = 1\n[loss bce]\ninput = y\n[train]\nbatch = 4\n";
static struct graph graph;

static void check(const struct model *model)
{
    for (uint64_t row = 0; row < store_row_count(model->store, 0); row++)
        for (uint32_t i = 0; i < 3; i++) CHECK(isfinite(store_span(model->store, 0, row)[i]));
    for (uint64_t i = 0; i < graph.header->param_floats; i++) CHECK(isfinite(model->param[i]));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (graph.header == NULL && graph_compile(&graph, "fuzz.cfg", text, sizeof text - 1, NULL, 0, NULL) != ST_OK)
        abort();
    struct model model;
    uint8_t *file = malloc(graph.bytes + bytes);
    if (file == NULL) return 0;
    memcpy(file, graph.header, graph.bytes);
    uint8_t *image = file + graph.bytes;
    if (bytes) memcpy(image, data, bytes);
    if (bytes >= HEADER) {
        const uint64_t size = bytes, hash = graph.header->model_hash;
        memcpy(image, GRAPH_MODEL_MAGIC, 8);
        memcpy(image + BYTES_AT, &size, sizeof size);
        memcpy(image + HASH_AT, &hash, sizeof hash);
        memset(image + CHECKSUM_AT, 0, 8);
        const uint64_t sum = XXH3_64bits(image, bytes);
        memcpy(image + CHECKSUM_AT, &sum, sizeof sum);
    }
    if (model_open(&model, &graph, &(struct model_budget){.ram_bytes = 1 << 20}) != ST_OK) abort();
    if (lean_read(&model, "fuzz", file, graph.bytes + bytes) == ST_OK) check(&model);
    model_close(&model);
    free(file);
    return 0;
}
