/* Lines out of values: what a line of each format looks like, and what it cannot have. That they are
 * read back is in e2e/test_serve.sh. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "engine/serve/line.h"

static struct reader_column dense[] = {{.name = "age"}, {.name = "I2"}},
                            field[] = {{.name = "job"}, {.name = "C26"}, {.name = "job"}};
static struct setup setup;

static void setup_make(uint32_t format)
{
    setup = (struct setup){.settings.data_format = format,
                           .schema.reader = {.example = {.dense_count = 1, .field_count = 3},
                                             .dense = format == DATA_CRITEO ? dense + 1 : dense,
                                             .field = field,
                                             .separator = ',',
                                             .has_header = true,
                                             .has_quotes = true,
                                             .columns = ""}};
}

/* The line of values in the order of the columns, NULL where one is absent, behind the line of names. */
static status line_of(const struct lines *l, const char *const *values, char *text, size_t room)
{
    struct line_value value[4] = {{0}};
    struct evbuffer *to = evbuffer_new();
    assert_non_null(to);
    for (uint32_t i = 0; i < l->count; i++)
        if (values[i]) value[i] = (struct line_value){values[i], strlen(values[i])};
    status st = lines_names_put(l, to);
    if (st == ST_OK) st = lines_put(l, value, to);
    const size_t bytes = evbuffer_get_length(to);
    assert_true(bytes < room);
    evbuffer_remove(to, text, bytes);
    text[bytes] = 0;
    evbuffer_free(to);
    return st;
}

static void check(const char *const *values, const char *expected)
{
    struct lines l;
    char text[512];
    assert_int_equal(lines_open(&l, &setup), ST_OK);
    if (line_of(&l, values, text, sizeof text) != ST_OK) fail_msg("%s", status_message());
    assert_string_equal(text, expected);
    lines_close(&l);
}

static void fails(const char *const *values, const char *words)
{
    struct lines l;
    char text[512];
    assert_int_equal(lines_open(&l, &setup), ST_OK);
    assert_int_equal(line_of(&l, values, text, sizeof text), ST_INVALID);
    if (!strstr(status_message(), words)) fail_msg("\"%s\" lacks \"%s\"", status_message(), words);
    lines_close(&l);
}

static void lines__csv__has_names_and_marks_where_they_are_needed(void **state)
{
    (void)state;
    setup_make(DATA_CSV);
    check((const char *const[]){"39", "cook", "x"}, "age,job,C26\n39,cook,x\n");
    check((const char *const[]){NULL, "", NULL}, "age,job,C26\n,,\n");
    check((const char *const[]){" 1", "a, \"b\"", "c "}, "age,job,C26\n\" 1\",\"a, \"\"b\"\"\",\"c \"\n");
    fails((const char *const[]){"1", "a\nb", "c"}, "column job: expected a value without line ends");
    fails((const char *const[]){"1", "a\r", "c"}, "column job: expected a value without line ends");
    setup.schema.reader.has_quotes = false;
    check((const char *const[]){"1", "a \"b\"", "c"}, "age,job,C26\n1,a \"b\",c\n");
    fails((const char *const[]){"1", "a", "b,c"}, "column C26: expected a value without the separator");
    setup.schema.reader.has_header = false;
    setup.schema.reader.columns = "id, C26, label, age";
    check((const char *const[]){"39", "cook", "x"}, ",x,,39\n");
}

static void lines__criteo__have_all_columns_but_the_label(void **state)
{
    (void)state;
    setup_make(DATA_CRITEO);
    check((const char *const[]){"7", "nobody reads it", "k"},
          "\t7\t\t\t\t\t\t\t\t\t\t\t"
          "\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\tk\n");
    fails((const char *const[]){"7", "", "a\tb"}, "column C26: expected a value without tabs");
}

static void lines__other_formats__are_one_text(void **state)
{
    (void)state;
    struct lines l;
    setup_make(DATA_LIBSVM);
    check((const char *const[]){"1 3:0.5 4:1"}, "1 3:0.5 4:1\n");
    fails((const char *const[]){"1 3:0.5\n4:1"}, "column text: expected a value without line ends");
    assert_int_equal(lines_open(&l, &setup), ST_OK);
    assert_int_equal(lines_find(&l, "text"), 0);
    assert_int_equal(lines_find(&l, "age"), LINE_NONE);
    lines_close(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines__csv__has_names_and_marks_where_they_are_needed),
        cmocka_unit_test(lines__criteo__have_all_columns_but_the_label),
        cmocka_unit_test(lines__other_formats__are_one_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
