/* Any bytes as another node's request for rows: an error, or a letter whose every part lies within the bytes. */
#define FUZZ_NAME "asked"
#include "tests/fuzz/driver.h"

#include "engine/slot/asked.h"

static const char model_text[] = "[data]\nsparse = C1..C3\n"
                                 "[table emb]\ndim = 3\noptimizer = adagrad_row 0.05\n"
                                 "[table side]\ndim = 2\n"
                                 "[embedding e]\ntable = emb\ninput = C1..C2\n"
                                 "[embedding w]\ntable = side\ninput = C3\n"
                                 "[concat x]\ninput = e, w\n"
                                 "[fc y]\ninput = x\nunits = 1\n"
                                 "[loss bce]\ninput = y\n"
                                 "[train]\nbatch = 8\nlanes = 2\n";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static struct graph graph;
    static struct asked_shape shape;
    if (shape.graph == NULL) {
        CHECK(graph_compile(&graph, "model.cfg", model_text, sizeof model_text - 1, NULL, 0, NULL) == ST_OK);
        shape = (struct asked_shape){
            .graph = &graph, .owner_count = 3, .example_max = 4, .run_count = 1, .shows = {true, false}};
    }
    struct asked_letter letter;
    uint8_t *at = aligned_alloc(8, (bytes + 7) / 8 * 8 + 8);
    CHECK(at != NULL);
    memcpy(at, data, bytes);
    const status st = asked_letter_read(&letter, &shape, at, bytes);
    CHECK(st == ST_OK || st == ST_INVALID);
    for (uint32_t t = 0; st == ST_OK && t < graph.table_count; t++) {
        CHECK((const uint8_t *)(letter.key[t] + letter.count[t]) <= at + bytes);
        CHECK((letter.occurrences[t] != NULL) == shape.shows[t]);
        if (letter.occurrences[t]) CHECK((const uint8_t *)(letter.occurrences[t] + letter.count[t]) <= at + bytes);
    }
    free(at);
    return 0;
}
