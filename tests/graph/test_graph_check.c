/* What of a graph's records is refused, and in which words: every word of them one more, one less, an awkward
 * number, under a checksum that holds, gives a message each, and all of them a fingerprint. Where it changes,
 * the tests of test_graph_file.c say whether what is accepted stays within its memory. */
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

struct told {
    uint64_t hash;
    uint32_t refused_count, tried_count;
};

/* The message without the place, which a longer header would move. */
static void told_add(struct told *told, uint8_t *image, size_t bytes)
{
    struct graph g;
    const size_t at = offsetof(struct graph_header, checksum);
    memset(image + at, 0, 8);
    const uint64_t checksum = XXH3_64bits(image, bytes);
    memcpy(image + at, &checksum, sizeof checksum);
    const status st = graph_open_memory(&g, "memory", image, bytes);
    const char *says = "";
    if (st == ST_OK) graph_close(&g);
    if (st != ST_OK) {
        says = strstr(status_message(), ": expected");
        if (st != ST_INVALID && st != ST_CORRUPT) fail_msg("status %d: %s", st, status_message());
        if (says == NULL) fail_msg("%s", status_message());
    }
    told->tried_count++;
    told->refused_count += st != ST_OK;
    told->hash = XXH3_64bits_withSeed(says, strlen(says), told->hash);
}

static struct told words_replace(const struct op_text *text)
{
    static const uint32_t awkward[] = {
        0, 1, 0x40400000 /* 3.0 */, 0xbf800000 /* -1.0 */, 0x7f800000 /* infinity */, UINT32_MAX};
    static const char *const rules = "model.rules=12";
    struct told told = {0};
    struct graph g;
    if (graph_compile(&g, "m.cfg", text->text, strlen(text->text), &rules, 1, &wide_source) != ST_OK)
        fail_msg("%s: %s", text->name, status_message());
    uint8_t *image = aligned_alloc(64, (g.bytes + 63) & ~(size_t)63);
    assert_non_null(image);
    memcpy(image, g.header, g.bytes);
    /* Behind the sections' table, which ends the part that says where things are. */
    const size_t begin = offsetof(struct graph_header, name), text_begin = g.header->section[SECTION_TEXT].offset,
                 text_end = text_begin + g.header->section[SECTION_TEXT].count;
    for (size_t i = begin; i + 4 <= g.bytes; i += 4) {
        if (i + 4 > text_begin && i < text_end) continue;
        uint32_t kept;
        memcpy(&kept, image + i, 4);
        const uint32_t near[] = {kept + 1, kept - 1};
        for (size_t k = 0; k < sizeof near / sizeof *near + sizeof awkward / sizeof *awkward; k++) {
            const uint32_t value = k < 2 ? near[k] : awkward[k - 2];
            if (value == kept) continue;
            memcpy(image + i, &value, 4);
            told_add(&told, image, g.bytes);
        }
        memcpy(image + i, &kept, 4);
    }
    free(image);
    graph_close(&g);
    return told;
}

static void graph_check__any_word_of_a_record_replaced__is_told_as_ever(void **state)
{
    (void)state;
    static const struct {
        const struct op_text *text;
        uint64_t fingerprint;
    } cases[] = {
        {&wide_texts[0], UINT64_C(0x045bd73a35527688)},
        {&wide_texts[1], UINT64_C(0xbbbf19abd7533292)},
        {&tree_texts[0], UINT64_C(0xb82a3a53599c92a2)},
    };
    bool is_good = true;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct told told = words_replace(cases[i].text);
        assert_in_range(told.refused_count, told.tried_count / 2, told.tried_count - 1);
        if (told.hash != cases[i].fingerprint)
            printf("# %s: %u of %u refused; the fingerprint is 0x%016" PRIx64 "\n", cases[i].text->name,
                   told.refused_count, told.tried_count, told.hash);
        is_good = is_good && told.hash == cases[i].fingerprint;
    }
    assert_true(is_good);
}

/* Each rule that goes by a row's counters needs them. */
static void graph_check__rule_of_life_without_counters__refused(void **state)
{
    (void)state;
    static const char text[] = "[data]\nsparse = C1\n[table emb]\ndim = 2\n[embedding e]\ntable = emb\ninput = C1\n"
                               "[fc y]\ninput = e\nunits = 1\n[loss bce]\ninput = y\n";
    for (int i = 0; i < 4; i++) {
        struct told told = {0};
        struct graph g;
        assert_int_equal(graph_compile(&g, "m.cfg", text, strlen(text), NULL, 0, NULL), ST_OK);
        struct row_life *life = (struct row_life *)&g.tables[0].life;
        if (i == 0) life->row_max = 7;
        if (i == 1) life->ttl = 1;
        if (i == 2) life->delete_score = 0.5f;
        if (i == 3) life->vector_score = 0.5f;
        told_add(&told, (uint8_t *)g.header, g.bytes);
        assert_int_equal(told.refused_count, 1);
        assert_non_null(strstr(status_message(), "expected counts for a table with rows, ttl, "));
        graph_close(&g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(graph_check__any_word_of_a_record_replaced__is_told_as_ever),
        cmocka_unit_test(graph_check__rule_of_life_without_counters__refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
