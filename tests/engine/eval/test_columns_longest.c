/* A column whose name is as long as names may be, between quotation marks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "engine/eval/columns.h"
#include "io/read/column_names.h"

static char name[COLUMN_NAME_BYTES_MAX + 1], line[2 * COLUMN_NAME_BYTES_MAX + 100];

/* All of the name are marks, each of which stands there twice; a cell with a mark more is another name. */
static void columns__longest_name_between_marks__is_found(void **state)
{
    (void)state;
    static const struct reader_column click = {.name = "click"};
    static struct setup setup = {
        .settings.data_format = READER_CSV,
        .schema.reader = {
            .example = {.label_count = 1}, .label = &click, .has_header = true, .has_quotes = true, .separator = ','}};
    struct columns *c;
    memset(name, '"', sizeof name - 1);
    assert_int_equal(columns_open(&c, &setup, "--with", name), ST_OK);
    assert_string_equal(columns_name(c, 0), name);
    const struct reader_listener *l = columns_listener(c);
    for (int has_more = 0; has_more < 2; has_more++) {
        snprintf(line, sizeof line, "click,\"%s%s%s\",b", name, name, has_more ? "\"\"" : "");
        assert_int_equal(l->header(l->context, line, strlen(line)), has_more ? ST_INVALID : ST_OK);
        if (has_more) continue;
        static const char example[] = "1,mo,tu";
        struct column_text text;
        assert_int_equal(l->example(l->context, example, sizeof example - 1), ST_OK);
        assert_int_equal(columns_next(c, &text), ST_OK);
        assert_int_equal(text.bytes, 2);
        assert_memory_equal(text.text, "mo", 2);
    }
    columns_close(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(columns__longest_name_between_marks__is_found)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
