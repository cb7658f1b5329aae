/* A text compiles to the same graph, byte for byte: its tensors and where they lie, names, layers and their
 * costs, updates, hashes. What changes a fingerprint changes what models are, or where a plan cuts them, and
 * wants a new version of the rules (graph.h), or a reason. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "graph/op.h"
#include "tests/graph/wide_texts.h"

/* Of the sections, as the current rules make them; later ops change the numbering, but not these. */
static uint64_t fingerprint_of(const struct op_text *text, uint64_t seed)
{
    struct graph g;
    static const char *const rules = "model.rules=12";
    if (graph_compile(&g, "m.cfg", text->text, strlen(text->text), &rules, 1, &wide_source) != ST_OK)
        fail_msg("%s: %s", text->name, status_message());
    struct graph_header *copy = malloc(g.bytes);
    assert_non_null(copy);
    memcpy(copy, g.header, g.bytes);
    copy->checksum = copy->numbering = 0;
    const uint64_t hash = XXH3_64bits_withSeed(copy, g.bytes, seed);
    free(copy);
    graph_close(&g);
    return hash;
}

static void graph_compile__every_text__keeps_its_bytes(void **state)
{
    (void)state;
    static const struct {
        const char *what;
        size_t begin, end;
        uint64_t fingerprint;
    } cases[] = {
        {"texts of ops", 0, OP_TEXT_COUNT, UINT64_C(0xf8075d90c3764d7b)},
        {"texts of trees", OP_TEXT_COUNT, OP_TEXT_COUNT + TREE_TEXT_COUNT, UINT64_C(0x48066171541979ba)},
        {"wide texts", OP_TEXT_COUNT + TREE_TEXT_COUNT, ALL_TEXT_COUNT, UINT64_C(0xfe8dbb3a940a1041)},
    };
    bool is_good = true;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t hash = 0;
        for (size_t t = cases[i].begin; t < cases[i].end; t++) {
            const uint64_t one = fingerprint_of(text_at(t), 0);
            hash = XXH3_64bits_withSeed(&one, sizeof one, hash);
        }
        if (hash != cases[i].fingerprint) printf("# %s: the fingerprint is 0x%016" PRIx64 "\n", cases[i].what, hash);
        is_good = is_good && hash == cases[i].fingerprint;
    }
    assert_true(is_good);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(graph_compile__every_text__keeps_its_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
