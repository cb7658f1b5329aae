/* The reference of model texts: as cfg/README.md has it, and what it knows of a word. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "graph/reference.h"

static char *text;
static size_t text_bytes;

/* Ends the text that a stream has taken. */
static const char *text_of(FILE *out)
{
    assert_int_equal(fclose(out), 0);
    return text;
}
static FILE *text_begin(void)
{
    free(text);
    text = NULL;
    FILE *out = open_memstream(&text, &text_bytes);
    assert_non_null(out);
    return out;
}

static void reference_print__markdown__is_the_end_of_the_page(void **state)
{
    (void)state;
    static char page[1 << 20];
    FILE *file = fopen("cfg/README.md", "r"), *out = text_begin();
    assert_non_null(file);
    page[fread(page, 1, sizeof page - 1, file)] = 0;
    fclose(file);
    reference_print(out, true);
    const char *expected = text_of(out), *begin = strstr(page, "<!-- settings -->");
    assert_non_null(begin);
    assert_non_null(strstr(begin, expected));
    assert_true(strlen(expected) > 10000);
}

static void assert_has(const char *part)
{
    if (strstr(text, part) == NULL) fail_msg("\"%s\" is not in: %s", part, text);
}

static void reference_print__text__has_every_part(void **state)
{
    (void)state;
    FILE *out = text_begin();
    reference_print(out, false);
    text_of(out);
    assert_has("\n[train]\n");
    assert_has("\n[table NAME]\n");
    assert_has("\nOps: section; what it takes; what it computes, or where it comes from\n");
    assert_has("\n  [attention_pool]                 two inputs, a sparse field; ");
    assert_has("\n  [loss] kind = softmax            a prediction; a label; ");
    assert_has("\n[any op]\n");
    assert_has("\n[any loss]\n");
    assert_has("\n  adam        beta1=0.9 beta2=0.999 eps=1e-08  (");
    assert_has("\n  cosine      warmup=0 steps=100000 floor=0  (");
    assert_null(strstr(text, "moving_average"));
}

/* What is printed of the word; near: "a b", the names that are near. */
static const char *looked_up(const char *word, bool is_known, const char *near)
{
    FILE *out = text_begin();
    struct reference_word w = {.out = out, .word = word};
    char found[1024] = "";
    reference_word_print(&w);
    text_of(out);
    for (uint32_t i = 0; i < w.near_count; i++)
        snprintf(found + strlen(found), sizeof found - strlen(found), "%s%s", i ? " " : "", w.near[i]);
    assert_int_equal(w.is_known, is_known);
    if (near != NULL) assert_string_equal(found, near);
    return text;
}

static void reference_word_print__kinds_of_words__are_found_in_their_tables(void **state)
{
    (void)state;
    looked_up("adam", true, NULL);
    assert_has("\noptimizer = adam RATE KEY=VALUE ..., of [train] and [table NAME]\n  adam        beta1=0.9 ");
    looked_up("cosine", true, NULL);
    assert_has("\ntrain.schedule = cosine KEY=VALUE ...: what every learning rate is multiplied by\n  cosine ");
    looked_up("csv", true, NULL);
    assert_has("\ndata.format = csv: a line; numeric columns; fields; labels\n");
    assert_has("\n  separator ");
    assert_null(strstr(text, "\n  path "));
    looked_up("fc", true, NULL);
    assert_has("\n[fc]: takes one input; computes, or comes from: ");
    assert_has("\n  input ");
    assert_has("\n  units ");
    looked_up("softmax", true, NULL);
    assert_has("\n[softmax]: takes one input; ");
    assert_has("\n[loss] kind = softmax: takes a prediction; a label; ");
    looked_up("units", true, NULL);
    assert_has("\n[fc NAME]\n  units ");
    looked_up("checkpoint", true, NULL);
    assert_has("\n[checkpoint]\n");
    looked_up("l2", true, NULL);
    assert_has("\n[train]\n  l2 ");
    assert_has("\n[table NAME]\n  l2 ");
    looked_up("train.batch", true, NULL);
    assert_has("\n[train]\n  batch ");
    assert_string_equal(looked_up("moving_average", false, NULL), "");
}

static void reference_word_print__unknown__keeps_what_is_near(void **state)
{
    (void)state;
    assert_string_equal(looked_up("bacth", false, "batch"), "");
    assert_string_equal(looked_up("form", false, "format transform"), "");
    assert_string_equal(looked_up("qqqqqq", false, ""), "");
}

static void reference_word_is__many_near__keeps_so_many_once_each(void **state)
{
    (void)state;
    static const char *const names[] = {"wordA", "wordB", "wordC", "wordD", "wordE",
                                        "wordF", "wordG", "wordH", "wordI"};
    struct reference_word w = {.word = "words"};
    for (int round = 0; round < 2; round++)
        for (size_t i = 0; i < 9; i++) assert_false(reference_word_is(&w, names[i]));
    assert_int_equal(w.near_count, REFERENCE_NEAR_MAX);
    for (size_t i = 0; i < REFERENCE_NEAR_MAX; i++) assert_string_equal(w.near[i], names[i]);
    assert_false(w.is_known);
    assert_true(reference_word_is(&w, "words"));
    assert_true(w.is_known);
    /* Part of a name, from three letters on. */
    struct reference_word three = {.word = "arm"}, two = {.word = "ar"};
    assert_false(reference_word_is(&three, "warmupwarmup"));
    assert_false(reference_word_is(&two, "warmupwarmup"));
    assert_int_equal(three.near_count, 1);
    assert_int_equal(two.near_count, 0);
}

static int text_free(void **state)
{
    (void)state;
    free(text);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reference_print__markdown__is_the_end_of_the_page),
        cmocka_unit_test(reference_print__text__has_every_part),
        cmocka_unit_test(reference_word_print__kinds_of_words__are_found_in_their_tables),
        cmocka_unit_test(reference_word_print__unknown__keeps_what_is_near),
        cmocka_unit_test(reference_word_is__many_near__keeps_so_many_once_each),
    };
    return cmocka_run_group_tests(tests, NULL, text_free) ? 1 : 0;
}
