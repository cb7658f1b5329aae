/* A profile told to people, as a table. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "engine/profile/profile.h"
#include "tests/engine/fixture_files.h"

static void line_keep(void *context, const char *line)
{
    char *text = context;
    strcat(strcat(text, line), "\n");
}

static void two_make(struct instance *i)
{
    assert_ok(instance_make(i, 2, 2));
    i->name = "two";
    i->batch = 256;
    i->service_seconds = 2e-6;
    i->service_cores = 2;
    i->types[0] = (struct instance_type){.resource = {.name = "cpu"}, .source = INSTANCE_MEASURED};
    i->types[1] = (struct instance_type){.resource = {.name = "v100"}, .source = INSTANCE_DECLARED};
    i->layers[0] = (struct instance_layer){.name = "e", .kind = "embedding", .cut_bytes = 3328};
    i->layers[1] = (struct instance_layer){.name = "h1", .kind = "fc"};
    i->times[0] = (struct instance_time){0.00123, 0.9, 0.0001, 1, 0.00001, 0, 0.85, 0.95};
    i->times[1] = (struct instance_time){0.1, 0.5, 0, 0, 0, 0, 0, 0};
    i->times[2] = (struct instance_time){12.5, 1, 1e-6, 0, 0, 0, 0, 0};
    i->times[3] = (struct instance_time){1e-6, 0, 0, 0, 0, 0, 0, 0};
}

static void profile_tell__an_instance__is_a_table(void **state)
{
    (void)state;
    struct instance i;
    char text[4096] = "";
    two_make(&i);
    assert_int_equal(profile_tell(&i, line_keep, text), ST_OK);
    assert_string_equal(text,
                        "two: ms of 256 examples on one unit, cut bytes of one\n"
                        "layer  op         cut bytes  type      ms   fixed  alpha                   move ms  source\n"
                        "e      embedding      3,328  cpu     1.23  0.0100  0.900 (0.850 to 0.950)   0.1000  measured\n"
                        "                             v100     100  0.0000  0.500                    0.0000  declared\n"
                        "h1     fc                 0  cpu    12500  0.0000  1.000                    0.0010  measured\n"
                        "                             v100  0.0010  0.0000  0.000                    0.0000  declared\n"
                        "reading: 2.00 us an example on one core; 2 service cores read 1,000,000 examples/s\n");
    instance_free(&i);
}

/* Times at which a number loses a digit, and a type that cannot have a layer. */
static void profile_tell__milliseconds__three_digits(void **state)
{
    (void)state;
    static const struct {
        double seconds;
        const char *text;
    } cases[] = {
        {0.09994, " 99.9  "},      {0.09996, " 100  "},    {0.0099949, " 9.99  "},         {0.0099951, " 10.0  "},
        {0.00099949, " 0.9995  "}, {0.0009996, " 1.00  "}, {INSTANCE_CANNOT, " cannot  "}, {0.00001, " 0.0100  "},
    };
    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        struct instance i;
        char text[4096] = "";
        two_make(&i);
        i.service_seconds = 0;
        for (int t = 0; t < 4; t++) i.times[t] = (struct instance_time){.oct = cases[n].seconds};
        assert_ok(profile_tell(&i, line_keep, text));
        if (strstr(text, cases[n].text) == NULL) fail_msg("\"%s\" is not in: %s", cases[n].text, text);
        assert_null(strstr(text, "reading"));
        instance_free(&i);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(profile_tell__an_instance__is_a_table),
        cmocka_unit_test(profile_tell__milliseconds__three_digits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
