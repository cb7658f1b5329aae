/* Labels into lines: each format, lines that have labels and that lack them. That they are read as a file's
 * is in e2e/test_serve_learn.sh. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "cfg/settings.h"
#include "tests/engine/serve/labelled_test.h"

static status run(const struct setup *setup, const char *lines, const char *labels, char text[1024])
{
    struct evbuffer *to = evbuffer_new();
    assert_non_null(to);
    const status st = labelled_put(setup, lines, strlen(lines), labels, strlen(labels), to);
    const size_t bytes = evbuffer_get_length(to);
    assert_true(bytes < 1024);
    evbuffer_remove(to, text, bytes);
    text[bytes] = 0;
    evbuffer_free(to);
    return st;
}

static void check(const struct setup *setup, const char *lines, const char *labels, const char *expected)
{
    char text[1024];
    if (run(setup, lines, labels, text) != ST_OK) fail_msg("%s", status_message());
    assert_string_equal(text, expected);
}

static void fails(const struct setup *setup, const char *lines, const char *labels, const char *words)
{
    char text[1024];
    assert_int_equal(run(setup, lines, labels, text), ST_INVALID);
    if (strstr(status_message(), words) == NULL) fail_msg("%s", status_message());
}

static void labelled__csv__label_by_its_name(void **state)
{
    (void)state;
    const struct setup one = labelled_setup(DATA_CSV, 1, NULL), two = labelled_setup(DATA_CSV, 2, NULL);
    check(&one, "age,job\n39,cook\n40,\"a,\"\"b\"\n", "1\n0\n", "age,job,click\n39,cook,1\n40,\"a,\"\"b\",0\n");
    check(&one, "age, \"click\" ,job\r\n39,,cook\r\n40,1,x", "1\r\n0", "age,click,job\n39,1,cook\n40,0,x\n");
    check(&two, "buy,age\n,39\n", "1,0\n", "buy,age,click\n0,39,1\n");
    check(&one, "age\n1\n2\n3\n", "1\n\n0\n", "age,click\n1,1\n3,0\n");
    check(&one, "age\n", "", "age,click\n");
    check(&one, "click,age,job\n39,cook\n", "1\n", "click,age,job\n1,39,cook\n"); /* named, and not there */
    check(&one,
          "\xef\xbb\xbf"
          "click,age\n0,39\n\n\r\n",
          "1\n", "click,age\n1,39\n");
}

static void labelled__columns_by_order__label_in_its_place(void **state)
{
    (void)state;
    const struct setup middle = labelled_setup(DATA_CSV, 1, "age, click, job"),
                       first = labelled_setup(DATA_CRITEO, 1, NULL);
    check(&middle, "39,cook\n40,,smith\n", "1\n0\n", "39,1,cook\n40,0,smith\n");
    check(&middle, "39\n40,1,2,3\n", "1\n0\n", "39\n40,0,2,3\n"); /* malformed ones stay so */
    char lines[256] = "", expected[256] = "1";
    for (uint32_t i = 0; i < 38; i++) strcat(lines, "\t");
    strcat(expected, "\t");
    strcat(strcat(expected, lines), "\n");
    check(&first, lines, "1\n", expected);
    char labelled[256] = "0\t";
    check(&first, strcat(labelled, lines), "1\n", expected);
}

/* As readers have it: such a line is malformed, and the next one is itself again. */
static void labelled__quotation_mark_that_none_ends__ends_with_its_line(void **state)
{
    (void)state;
    const struct setup one = labelled_setup(DATA_CSV, 1, NULL), middle = labelled_setup(DATA_CSV, 1, "age, click, job");
    check(&one, "age,job\n39,\"cook\n40,smith\n41,\"x", "1\n0\n1\n",
          "age,job,click\n39,\"cook,1\n40,smith,0\n41,\"x,1\n");
    check(&one, "age,job\r\n39,\"a\"\"\r\n40,\"\r\n", "1\n0\n", "age,job,click\n39,\"a\"\",1\n40,\",0\n");
    check(&one, "age,\"clickX\n39,1\n", "0\n", "age,\"clickX,click\n39,1,0\n");
    check(&middle, "39,\"cook\n40,smith\n", "1\n0\n", "39,1,\"cook\n40,0,smith\n");
    fails(&middle, "39,cook\n40,smith\n", "1\n\"0\n", "ends label 1 of a line on this line, found none");
}

static void labelled__numbered_features__label_in_front(void **state)
{
    (void)state;
    const struct setup s = labelled_setup(DATA_LIBSVM, 1, NULL);
    check(&s, "1 qid:2 5:0.5 7\n 5:1\n5:1\n\n", "0\n1\n\n1\n", "0 qid:2 5:0.5 7\n1 5:1\n1 \n");
    check(&s, "7\n", "0\n", "0 \n"); /* a label alone: an example of nothing */
}

static void labelled__trees__label_is_the_number_of_the_root(void **state)
{
    (void)state;
    const struct setup s = labelled_setup(DATA_TREES, 1, NULL);
    check(&s, "(3 (2 a) (1 b))\n(leaf a)\r\n(inner:7(1 a)(2 b))\n(1 a)\n", "0\n1\n-2.5\n\n",
          "(0 (2 a) (1 b))\n(leaf:1 a)\n(inner:-2.5(1 a)(2 b))\n");
    check(&s, "(1 a) (.5 b)\n(-1)\n(inner)", "2\n3\n4", "(1 a) (2 b)\n(3)\n(inner:4)\n");
    check(&s, "(1 a)(#0)\n()\na\n(1 a))(2 b\n", "2\n2\n2\n2\n", "(1 a)(#0)\n()\na\n(1 a))(2 b\n"); /* stay so */
    check(&s, "((1 a)\n(3 (2 a)\n", "2\n2\n", "((1 a)\n(2 (2 a)\n");
}

static void labelled__what_does_not_fit__is_refused(void **state)
{
    (void)state;
    const struct setup one = labelled_setup(DATA_CSV, 1, NULL), two = labelled_setup(DATA_CSV, 2, NULL),
                       none = labelled_setup(DATA_LIBSVM, 0, NULL), pairs = labelled_setup(DATA_PAIRS, 1, NULL);
    fails(&one, "age\n1\n2\n", "1\n", "each of 2 lines, found 1");
    fails(&one, "age\n1\n", "1\n0\n", "each of 1 lines, found 2");
    fails(&one, "age\n1\n", "1,0\n", "expected 1 labels in a line, found 2");
    fails(&two, "age\n1\n", "1\n", "expected 2 labels in a line, found 1");
    fails(&none, "1:1\n", "1\n", "labels cannot be sent for lines of libsvm");
    fails(&pairs, "a b\n", "1\n", "labels cannot be sent for lines of pairs");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(labelled__csv__label_by_its_name),
        cmocka_unit_test(labelled__columns_by_order__label_in_its_place),
        cmocka_unit_test(labelled__quotation_mark_that_none_ends__ends_with_its_line),
        cmocka_unit_test(labelled__numbered_features__label_in_front),
        cmocka_unit_test(labelled__trees__label_is_the_number_of_the_root),
        cmocka_unit_test(labelled__what_does_not_fit__is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
