/* Any bytes as another node's request for rows: an error, or a letter whose every part lies within
 * the bytes; and as bits that say which of its values come early: both parts together are all
 * values, and each finds its places. */
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

/* Bits of `keys` keys, out of the input's end. */
static void parts_check(const struct graph *g, const struct asked_letter *letter, const uint8_t *data, size_t bytes)
{
    const size_t keys = asked_keys_count(g, letter->count), bits_bytes = asked_bits_bytes(keys);
    size_t floats = 0, part_floats[2];
    for (uint32_t t = 0; t < g->table_count; t++) floats += (size_t)letter->count[t] * g->tables[t].dim;
    if (keys == 0) return;
    uint64_t *bits = malloc(bits_bytes);
    float *values = calloc(floats, sizeof *values), *part = calloc(floats, sizeof *part);
    CHECK(bits && values && part);
    for (size_t i = 0; i < bits_bytes; i++) ((uint8_t *)bits)[i] = data[bytes - 1 - i % bytes];
    for (int bit = 0; bit < 2; bit++) part_floats[bit] = asked_part_floats(g, letter->count, bits, bit);
    CHECK(part_floats[0] + part_floats[1] == floats);
    for (size_t i = 0; i < part_floats[0]; i++) values[i] = 1;
    for (size_t i = 0; i < part_floats[1]; i++) part[i] = 2;
    asked_part_spread(g, letter->count, bits, false, values, values);
    asked_part_spread(g, letter->count, bits, true, part, values);
    const float *value = values;
    size_t key = 0;
    for (uint32_t t = 0; t < g->table_count; t++)
        for (const size_t end = key + letter->count[t]; key < end; key++)
            for (uint32_t d = 0; d < g->tables[t].dim; d++) CHECK(*value++ == (asked_bit(bits, key) ? 2 : 1));
    free(bits);
    free(values);
    free(part);
}

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
    if (st == ST_OK) parts_check(&graph, &letter, data, bytes);
    free(at);
    return 0;
}
