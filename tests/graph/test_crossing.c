/* What crosses the cuts around each run of layers, of all texts: as it has been counted ever since
 * test_cut.c counted it by hand. A fingerprint of all lists; where it changes, that test says of
 * some of them what they should be. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "graph/crossing.h"
#include "graph/cut.h"
#include "tests/fault_alloc.h"
#include "tests/graph/wide_texts.h"

static uint64_t hash_add(uint64_t hash, const void *data, size_t bytes)
{
    return XXH3_64bits_withSeed(data, bytes, hash);
}

static uint64_t crossings_of(const struct graph *g, uint64_t hash)
{
    for (uint32_t first = 0; first < g->layer_count; first++)
        for (uint32_t last = first; last < g->layer_count; last++) {
            struct crossing c;
            assert_int_equal(crossing_find(&c, g, first, last), ST_OK);
            hash = hash_add(hash, c.count, sizeof c.count);
            for (uint32_t l = 0; l < CROSSING_LISTS; l++)
                hash = hash_add(hash, c.tensor[l], c.count[l] * sizeof *c.tensor[l]);
            hash = hash_add(hash, (const uint8_t[]){c.counts_keys, c.reads_weights}, 2);
            crossing_free(&c);
            assert_null(c.tensor[0]);
        }
    return hash;
}

static void crossing_find__every_run_of_layers__lists_what_it_did(void **state)
{
    (void)state;
    static const char *const rules = "model.rules=12";
    const uint64_t expected = UINT64_C(0x37b586aa08fc5328);
    uint64_t hash = 0;
    for (size_t i = 0; i < ALL_TEXT_COUNT; i++) {
        struct graph g;
        const struct op_text *text = text_at(i);
        if (graph_compile(&g, "m.cfg", text->text, strlen(text->text), &rules, 1, &wide_source) != ST_OK)
            fail_msg("%s: %s", text->name, status_message());
        hash = crossings_of(&g, hash);
        graph_close(&g);
    }
    if (hash != expected) fail_msg("the fingerprint is 0x%016" PRIx64, hash);
}

static void crossing_find__no_memory__says_so_fault(void **state)
{
    (void)state;
    FAULT_ALLOC_SKIP();
    struct graph g;
    struct crossing c;
    struct cut cut;
    const struct op_text *text = &wide_texts[0];
    if (graph_compile(&g, "m.cfg", text->text, strlen(text->text), NULL, 0, NULL) != ST_OK)
        fail_msg("%s", status_message());
    EACH_ALLOCATION_FAILS(crossing_find(&c, &g, 1, 2), crossing_free(&c));
    EACH_ALLOCATION_FAILS(graph_cut(&g, 1, &cut, NULL, NULL, NULL, NULL), (void)0);
    graph_close(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(crossing_find__every_run_of_layers__lists_what_it_did),
        cmocka_unit_test(crossing_find__no_memory__says_so_fault),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
