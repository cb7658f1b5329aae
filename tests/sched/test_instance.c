/* Instances: what a text says is read, written and read again as the same; anything wrong in it is refused by
 * its place, what was expected and found; random ones are repeatable and of use. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "graph/op.h"
#include "sched/provision.h"
#include "tests/sched/instance_equal.h"

#define SHARED_FOLDER "../shared/instances"

static const char good_text[] =
    "{\"format\": \"heterps-instance-1\", \"name\": \"tiny\", \"seed\": 7, \"graph_hash\": \"00c0ffee00c0ffee\",\n"
    " \"L\": 3, \"T\": 2, \"B_o\": 256, \"M\": 1e6, \"epochs\": 2, \"throughput_limit\": 9121.6,\n"
    " \"types\": [{\"name\": \"core\", \"price_per_hour\": 0.04, \"limit\": 480, \"device\": \"cpu\", "
    "\"source\": \"measured\",\n"
    "   \"slow\": \"fc 4\", \"slow_from\": 20},\n"
    "  {\"name\": \"v100\", \"price_per_hour\": 2.42, \"limit\": 32}],\n"
    " \"layers\": [{\"name\": \"e\", \"type\": \"embedding\", \"in_bytes\": 416, \"weight_bytes\": 423293696,\n"
    "   \"oct\": [0.1, 0.2], \"alpha\": [1, 0.5], \"odt\": [0, 3e-2], \"beta\": [0, 1],\n"
    "   \"cut_bytes\": 3328, \"tied_behind\": 2, \"fixed\": [0.01, 0.02], \"alpha_low\": [0.9, 0.4], "
    "\"alpha_high\": [0.95, 0.6]},\n"
    "  {\"name\": \"h1\", \"type\": \"fc\", \"in_bytes\": 64, \"weight_bytes\": 0,\n"
    "   \"oct\": [0.3, 0.4], \"alpha\": [0.25, 0.75], \"odt\": [4, 5], \"beta\": [0.5, 0.5]},\n"
    "  {\"name\": \"bce\", \"type\": \"loss\", \"in_bytes\": 4.5, \"weight_bytes\": 8,\n"
    "   \"oct\": [0.7, 0.8], \"alpha\": [0.125, 0.875], \"odt\": [6, 7], \"beta\": [0.25, 0.25]}],\n"
    " \"service\": {\"seconds\": 2e-6, \"cores\": 3}, \"parameter_server\": {\"seconds\": 1e-6, "
    "\"price_per_hour\": 0.05}, \"run\": {\"micros\": 4, \"cores\": 16},\n"
    " \"optimum\": {\"cost\": null}}\n";

#define TEXT_BYTES 8192

/* Puts `to` in place of `from`, which stands in the text once. */
static void replace(char text[TEXT_BYTES], const char *from, const char *to)
{
    char *at = strstr(text, from);
    if (at == NULL || strstr(at + 1, from) != NULL) fail_msg("not once in the text: %s", from);
    assert_true(strlen(text) + strlen(to) < TEXT_BYTES);
    memmove(at + strlen(to), at + strlen(from), strlen(at + strlen(from)) + 1);
    memcpy(at, to, strlen(to));
}

/* The good instance with one change. */
static status parse_changed(struct instance *instance, const char *from, const char *to)
{
    char text[TEXT_BYTES];
    strcpy(text, good_text);
    if (from != NULL) replace(text, from, to);
    return instance_parse(instance, "i.json", text, strlen(text));
}

static void assert_parses(const char *from, const char *to)
{
    struct instance instance;
    if (parse_changed(&instance, from, to) != ST_OK) fail_msg("%s: %s", to, status_message());
    assert_int_equal(instance_check(&instance), ST_OK);
    instance_free(&instance);
    assert_null(instance.memory);
}

/* Refused with exactly this message behind "i.json". */
static void assert_refused(const char *from, const char *to, const char *message)
{
    struct instance instance, empty = {0};
    memset(&instance, 0xAA, sizeof instance);
    status st = parse_changed(&instance, from, to);
    if (st != ST_INVALID) fail_msg("%s: expected INVALID, found status %d", to, st);
    if (strncmp(status_message(), "i.json", 6) != 0 || strcmp(status_message() + 6, message) != 0)
        fail_msg("%s:\nexpected i.json%s\nfound    %s", to, message, status_message());
    assert_memory_equal(&instance, &empty, sizeof instance);
}

static char *temporary(char path[64])
{
    strcpy(path, "/tmp/test_instance_XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    return path;
}

/* Writes an instance, reads it back, and compares. */
static void assert_survives(const struct instance *instance)
{
    char path[64];
    struct instance read;
    temporary(path);
    if (instance_write(instance, path) != ST_OK || instance_read(&read, path) != ST_OK)
        fail_msg("%s", status_message());
    assert_true(instance_equal(instance, &read));
    instance_free(&read);
    unlink(path);
}

/* --- good ones -------------------------------------------------------------------------------- */

static void instance_parse__good__says_what_the_text_says(void **state)
{
    (void)state;
    struct instance i;
    assert_int_equal(parse_changed(&i, NULL, NULL), ST_OK);
    assert_string_equal(i.name, "tiny");
    assert_int_equal(i.layer_count, 3);
    assert_int_equal(i.type_count, 2);
    assert_true(i.batch == 256 && i.examples == 1e6 && i.epochs == 2 && i.throughput_limit == 9121.6);
    assert_true(i.has_graph_hash && i.graph_hash == 0x00c0ffee00c0ffee);
    assert_true(i.service_seconds == 2e-6 && i.service_cores == 3);
    assert_true(i.server_seconds == 1e-6 && i.server_price == 0.05);
    const struct resource_type *core = &i.types[0].resource, *v100 = &i.types[1].resource;
    assert_string_equal(core->name, "core");
    assert_true(core->price_per_hour == 0.04 && core->limit == 480 && core->device == RESOURCE_CPU);
    assert_true(core->slow.op[OP_ID_fc] == 4 && core->slow.op[OP_ID_concat] == 1 && core->slow.from_step == 20);
    assert_int_equal(i.types[0].source, INSTANCE_MEASURED);
    assert_string_equal(v100->name, "v100");
    assert_true(v100->price_per_hour == 2.42 && v100->limit == 32 && v100->device == RESOURCE_SIM);
    assert_false(resource_is_slowed(&v100->slow));
    assert_int_equal(i.types[1].source, INSTANCE_GIVEN);
    assert_string_equal(i.layers[0].name, "e");
    assert_string_equal(i.layers[0].kind, "embedding");
    assert_true(i.layers[0].in_bytes == 416 && i.layers[0].weight_bytes == 423293696 && i.layers[0].cut_bytes == 3328);
    assert_string_equal(i.layers[2].name, "bce");
    assert_true(i.layers[2].in_bytes == 4.5 && i.layers[2].cut_bytes == 0);
    static const struct instance_time expected[] = {
        {0.1, 1, 0, 0, 0.01, 0, 0.9, 0.95}, {0.2, 0.5, 3e-2, 1, 0.02, 0, 0.4, 0.6}, {0.3, 0.25, 4, 0.5, 0, 0, 0, 0},
        {0.4, 0.75, 5, 0.5, 0, 0, 0, 0},    {0.7, 0.125, 6, 0.25, 0, 0, 0, 0},      {0.8, 0.875, 7, 0.25, 0, 0, 0, 0},
    };
    assert_memory_equal(i.times, expected, sizeof expected);
    assert_true(instance_time(&i, 2, 1)->oct == 0.8);
    assert_survives(&i);
    instance_free(&i);
}

static void instance_parse__other_ways_to_say_it__are_read(void **state)
{
    (void)state;
    assert_parses("\"limit\": 480", "\"limit\": 480.0");
    assert_parses("9121.6", "0");
    assert_parses("\"B_o\": 256", "\"B_o\": 0.5");
    assert_parses("\"name\": \"tiny\"", "\"name\": \"\"");
    assert_parses("\"name\": \"tiny\", ", "");
    assert_parses("\"graph_hash\"", "\"hash\"");
    assert_parses("\"service\"", "\"services\"");
    assert_parses("\"parameter_server\"", "\"server\"");
    assert_parses("\"device\": \"cpu\"", "\"device\": \"cuda:3\"");
    assert_parses("\"source\": \"measured\"", "\"source\": \"declared\"");
    assert_parses("\"slow\": \"fc 4\"", "\"slow\": \"\"");
    assert_parses("\"v100\"", "\"Karte \xC3\xBC\"");
    assert_parses("2.42", "0");
    assert_parses("\"h1\"", "\"e\"");
}

static void instance_read__shared_instances__read_and_are_written_as_the_same(void **state)
{
    (void)state;
    struct dirent **entries;
    int count = scandir(SHARED_FOLDER, &entries, NULL, alphasort), read_count = 0;
    if (count < 0) {
        printf("# no " SHARED_FOLDER "\n");
        skip();
    }
    for (int n = 0; n < count; n++) {
        char path[512];
        struct instance instance;
        snprintf(path, sizeof path, SHARED_FOLDER "/%s", entries[n]->d_name);
        if (strstr(path, ".inst.json")) {
            if (instance_read(&instance, path) != ST_OK) fail_msg("%s", status_message());
            assert_true(instance.types[0].resource.device == RESOURCE_SIM);
            assert_survives(&instance);
            instance_free(&instance);
            read_count++;
        }
        free(entries[n]);
    }
    free(entries);
    assert_true(read_count > 0);
}

/* --- wrong ones ------------------------------------------------------------------------------- */

static void instance_parse__not_json__names_line_and_column(void **state)
{
    (void)state;
    assert_refused("\"seed\": 7,", "\"seed\": 7", ":1:71: '}' expected near '\"graph_hash\"'");
    assert_refused("\"seed\": 7,", "\"L\": 3,", ":2:4: duplicate object key near '\"L\"'");
    assert_refused("9121.6", "1e999", ":2:77: real number overflow near '1e999'");
    assert_refused("\"heterps-instance-1\"", "\"heterps-solution-1\"",
                   ": format: expected \"heterps-instance-1\" or \"heterps-instance-2\", found \"heterps-solution-1\"");
    assert_refused("\"heterps-instance-1\"", "\"heterps-instance-3\"",
                   ": format: expected \"heterps-instance-1\" or \"heterps-instance-2\", found \"heterps-instance-3\"");
    struct instance instance;
    assert_int_equal(instance_parse(&instance, "i.json", "3", 1), ST_INVALID);
    assert_int_equal(instance_parse(&instance, "i.json", "[{}]", 4), ST_INVALID);
    assert_string_equal(status_message(), "i.json: the file: expected an object, found a list of 1");
}

static void instance_parse__cut_anywhere__is_refused(void **state)
{
    (void)state;
    for (size_t bytes = 0; bytes < strlen(good_text) - 1; bytes++) {
        struct instance instance;
        /* A block of its own size, so that AddressSanitizer sees a look beyond it. */
        char *cut = malloc(bytes + 1);
        memcpy(cut + 1, good_text, bytes);
        assert_int_equal(instance_parse(&instance, "i.json", cut + 1, bytes), ST_INVALID);
        assert_null(instance.memory);
        free(cut);
    }
}

static void instance_parse__wrong_sizes__are_named(void **state)
{
    (void)state;
    assert_refused("\"L\": 3", "\"L\": 0", ": L: expected a whole number from 1 to 1024, found 0");
    assert_refused("\"L\": 3", "\"L\": 2", ": layers: expected a list of 2 objects, as L says, found a list of 3");
    assert_refused("\"T\": 2", "\"T\": 1025", ": T: expected a whole number from 1 to 1024, found 1025");
    assert_refused("\"T\": 2", "\"T\": 3", ": types: expected a list of 3 objects, as T says, found a list of 2");
    assert_refused("\"L\": 3, \"T\": 2", "\"L\": 513, \"T\": 512",
                   ": T: expected at most 511 types, as L is 513 and L * T at most 262144, found 512");
    assert_refused("\"layers\": ", "\"strata\": ", ": layers: expected a list of 3 objects, as L says, found nothing");
    assert_refused("\"alpha\": [1, 0.5]", "\"alpha\": [1]",
                   ": layers[0].alpha: expected a list of 2 numbers, one for each type, found a list of 1");
    assert_refused("\"alpha\": [1, 0.5], ", "",
                   ": layers[0].alpha: expected a list of 2 numbers, one for each type, found nothing");
    assert_refused("\"fixed\": [0.01, 0.02]", "\"fixed\": 1",
                   ": layers[0].fixed: expected a list of 2 numbers, one for each type, found 1");
    assert_refused("{\"name\": \"v100\", \"price_per_hour\": 2.42, \"limit\": 32}", "7",
                   ": types[1]: expected an object, found 7");
}

static void instance_parse__wrong_numbers__are_named(void **state)
{
    (void)state;
    assert_refused("\"B_o\": 256", "\"B_o\": 0", ": B_o: expected a number above 0, found 0");
    assert_refused("\"B_o\": 256", "\"B_o\": 1e-19", ": B_o: expected a number above 0, found 1e-19");
    assert_refused("1e6", "1e19", ": M: expected a number from 1e-18 to 1e+18, found 1e+19");
    assert_refused("\"epochs\": 2, ", "", ": epochs: expected a number above 0, found nothing");
    assert_refused("9121.6", "-1", ": throughput_limit: expected a number of at least 0, found -1");
    assert_refused("9121.6", "\"9\"", ": throughput_limit: expected a number of at least 0, found \"9\"");
    assert_refused("2.42", "-2.42", ": types[1].price_per_hour: expected a number of at least 0, found -2.42");
    assert_refused("\"limit\": 32", "\"limit\": 0",
                   ": types[1].limit: expected a whole number from 1 to 4294967295, found 0");
    assert_refused("\"in_bytes\": 64", "\"in_bytes\": null",
                   ": layers[1].in_bytes: expected a number of at least 0, found null");
    assert_refused("\"weight_bytes\": 8", "\"weight_bytes\": -8",
                   ": layers[2].weight_bytes: expected a number of at least 0, found -8");
    assert_refused("3328", "-1", ": layers[0].cut_bytes: expected a number of at least 0, found -1");
    assert_refused("\"tied_behind\": 2", "\"tied_behind\": 3",
                   ": layers[0].tied_behind: expected a whole number from 0 to 2, found 3");
    assert_refused("\"tied_behind\": 2", "\"tied_before\": 1",
                   ": layers[0].tied_before: expected a whole number from 0 to 0, found 1");
    assert_refused("[0.3, 0.4]", "[0.3, 0]", ": layers[1].oct[1]: expected a number above 0, found 0");
    assert_refused("[0.25, 0.75]", "[1.25, 0.75]", ": layers[1].alpha[0]: expected a number from 0 to 1, found 1.25");
    assert_refused("[4, 5]", "[4, true]", ": layers[1].odt[1]: expected a number of at least 0, found true");
    assert_refused("[0.5, 0.5]", "[0.5, -0.5]", ": layers[1].beta[1]: expected a number from 0 to 1, found -0.5");
    assert_refused("[0.9, 0.4]", "[0.9, 0.7]",
                   ": layers[0].alpha_high[1]: expected at least alpha_low, 0.7, found 0.6");
    assert_refused("\"cores\": 3", "\"cores\": 1025",
                   ": service.cores: expected a whole number from 0 to 1024, found 1025");
    assert_refused("\"seconds\": 2e-6, ", "", ": service.seconds: expected a number of at least 0, found nothing");
    assert_refused("{\"seconds\": 1e-6, \"price_per_hour\": 0.05}", "1",
                   ": parameter_server: expected an object, found 1");
    assert_refused("\"fixed\": [0.01, 0.02]", "\"fixed\": [0.01, 0.02], \"update\": [0.1, 0.21]",
                   ": layers[0].update[1]: expected at most oct, 0.2, found 0.21");
    assert_refused("\"micros\": 4", "\"micros\": 0",
                   ": run.micros: expected a whole number from 1 to 4294967295, found 0");
    assert_refused("\"cores\": 16", "\"cores\": 0", ": run.cores: expected a whole number from 1 to 1024, found 0");
    assert_refused("0.05", "-0.05", ": parameter_server.price_per_hour: expected a number of at least 0, found -0.05");
}

static void instance_parse__wrong_texts__are_named(void **state)
{
    (void)state;
    char to[512], message[512], name[INSTANCE_NAME_BYTES + 2];
    assert_refused("00c0ffee00c0ffee", "00c0ffee", ": graph_hash: expected 16 digits 0-9a-f, found \"00c0ffee\"");
    assert_refused("\"v100\"", "\"core\"",
                   ": types[1].name: expected another name than that of types[0], found \"core\"");
    assert_refused("\"v100\"", "\"\"", ": types[1].name: expected a text of 1 to 127 bytes, found \"\"");
    assert_refused("\"h1\"", "\"h\\u0007\"",
                   ": layers[1].name: expected a text without control characters (0x07 at its byte 1), found \"h?\"");
    assert_refused("\"type\": \"fc\", ", "", ": layers[1].type: expected a text of 1 to 128 bytes, found nothing");
    assert_refused("\"device\": \"cpu\"", "\"device\": \"cuda\"",
                   ": types[0].device: expected " RESOURCE_DEVICES_TEXT ", found \"cuda\"");
    assert_refused(
        "\"measured\"", "\"guessed\"",
        ": types[0].source: expected \"given\", \"measured\", \"stored\" or \"declared\", found \"guessed\"");
    assert_refused("\"fc 4\"", "\"fcc 4\"",
                   ": types[0].slow: expected a section of the model text, or all, found \"fcc\"");
    assert_refused("\"slow_from\": 20", "\"slow_from\": -1",
                   ": types[0].slow_from: expected a whole number from 0 to 9223372036854775807, found -1");
    memset(name, 'n', sizeof name);
    name[INSTANCE_NAME_BYTES] = 0;
    snprintf(to, sizeof to, "\"%s\"", name);
    assert_parses("\"h1\"", to);
    snprintf(to, sizeof to, "\"%sn\"", name);
    snprintf(message, sizeof message, ": layers[1].name: expected a text of 1 to 128 bytes, found \"%.60s…\"", name);
    assert_refused("\"h1\"", to, message);
}

static void instance_parse__text_that_would_fill_memory__is_refused_before_it_is_read(void **state)
{
    (void)state;
    const size_t bytes = (size_t)64 << 20;
    char *text = malloc(bytes + 1);
    struct instance instance;
    memset(text, '[', bytes + 1);
    assert_int_equal(instance_parse(&instance, "i.json", text, bytes), ST_INVALID);
    assert_string_equal(status_message(),
                        "i.json: expected an instance of at most 2097152 values, found about 67108864");
    assert_int_equal(instance_parse(&instance, "i.json", text, bytes + 1), ST_INVALID);
    assert_string_equal(status_message(), "i.json: expected an instance of at most 67108864 bytes, found 67108865");
    free(text);
}

/* --- made, copied, checked -------------------------------------------------------------------- */

static void instance_make__too_large__is_refused(void **state)
{
    (void)state;
    struct instance i;
    assert_int_equal(instance_make(&i, INSTANCE_LAYERS_MAX + 1, 1), ST_INVALID);
    assert_int_equal(instance_make(&i, 1, RESOURCE_TYPES_MAX + 1), ST_INVALID);
    assert_int_equal(instance_make(&i, 1024, 257), ST_INVALID);
    assert_int_equal(instance_make(&i, 0, 1), ST_INVALID);
    assert_null(i.memory);
    assert_int_equal(instance_make(&i, 1024, 256), ST_OK);
    assert_true(i.layers[1023].name[0] == 0 && i.times[1024 * 256 - 1].oct == 0);
    instance_free(&i);
}

static void instance_text__long__is_cut_between_characters(void **state)
{
    (void)state;
    struct instance i;
    char text[200];
    assert_int_equal(instance_make(&i, 1, 1), ST_OK);
    memset(text, 'x', sizeof text);
    text[127] = '\xC3', text[128] = '\xBC', text[199] = 0;
    const char *cut = instance_text(&i, text);
    assert_int_equal(strlen(cut), 127);
    text[127] = 'x', text[128] = 0;
    assert_string_equal(instance_text(&i, text), text);
    assert_string_equal(instance_text(&i, ""), "");
    instance_free(&i);
}

static void instance_copy__the_first_overwritten_and_freed__stays_whole(void **state)
{
    (void)state;
    struct instance i, copy, again;
    assert_int_equal(parse_changed(&i, NULL, NULL), ST_OK);
    assert_int_equal(instance_copy(&copy, &i), ST_OK);
    assert_true(instance_equal(&copy, &i));
    /* Whatever still points into the first shows. */
    memset(i.times, 0xAA, 6 * sizeof *i.times);
    ((char *)(uintptr_t)i.name)[0] = '?';
    for (uint32_t t = 0; t < i.type_count; t++) ((char *)(uintptr_t)i.types[t].resource.name)[0] = '?';
    for (uint32_t l = 0; l < i.layer_count; l++)
        ((char *)(uintptr_t)i.layers[l].name)[0] = ((char *)(uintptr_t)i.layers[l].kind)[0] = '?';
    assert_int_equal(parse_changed(&again, NULL, NULL), ST_OK);
    assert_true(instance_equal(&copy, &again));
    instance_free(&i);
    assert_true(instance_equal(&copy, &again));
    instance_free(&copy);
    instance_free(&again);
}

static void instance_check__numbers_out_of_range__are_told(void **state)
{
    (void)state;
    struct instance i;
    assert_int_equal(parse_changed(&i, NULL, NULL), ST_OK);
    assert_int_equal(instance_check(&i), ST_OK);
    const struct {
        double *number, wrong;
        const char *message;
    } cases[] = {
        {&i.batch, 0, "a batch of 0 examples"},
        {&i.examples, NAN, "nan examples an epoch"},
        {&i.epochs, INFINITY, "inf epochs"},
        {&i.throughput_limit, INFINITY, "a throughput limit of inf examples/s"},
        {&i.service_seconds, -1, "-1 service seconds an example"},
        {&i.server_seconds, -1, "-1 parameter server seconds an example"},
        {&i.server_price, INFINITY, "inf USD an hour for a parameter server's core"},
        {&i.types[1].resource.price_per_hour, -2, "type \"v100\" at -2 USD an hour"},
        {&i.layers[1].in_bytes, -1, "layer \"h1\" has -1 bytes of input"},
        {&i.layers[1].cut_bytes, 1e19, "layer \"h1\" has 1e+19 bytes behind it"},
        {&i.times[2].oct, 0, "layer \"h1\" on type \"core\": oct is 0"},
        {&i.times[3].alpha, 1.5, "layer \"h1\" on type \"v100\": alpha is 1.5"},
        {&i.times[5].odt, NAN, "layer \"bce\" on type \"v100\": odt is nan"},
        {&i.times[1].alpha_low, 0.75, "layer \"e\" on type \"v100\": alpha is from 0.75 to 0.6"},
    };
    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        double right = *cases[n].number;
        *cases[n].number = cases[n].wrong;
        assert_int_equal(instance_check(&i), ST_INVALID);
        assert_string_equal(status_message(), cases[n].message);
        *cases[n].number = right;
    }
    i.layers[1].tied_before = 1;
    i.layers[1].tied_behind = 1;
    assert_int_equal(instance_check(&i), ST_OK);
    i.layers[1].tied_before = 2;
    assert_int_equal(instance_check(&i), ST_INVALID);
    assert_string_equal(status_message(), "layer \"h1\", 1 of 3, is tied to 2 before it and 1 behind it");
    i.layers[1].tied_before = 0;
    i.layers[1].tied_behind = 2;
    assert_int_equal(instance_check(&i), ST_INVALID);
    assert_string_equal(status_message(), "layer \"h1\", 1 of 3, is tied to 0 before it and 2 behind it");
    i.layers[1].tied_behind = 0;
    i.service_cores = 1024;
    assert_int_equal(instance_check(&i), ST_OK);
    i.service_cores = 1025;
    assert_int_equal(instance_check(&i), ST_INVALID);
    assert_string_equal(status_message(), "1025 service cores");
    i.service_cores = 3;
    i.types[1].resource.limit = 0;
    assert_int_equal(instance_check(&i), ST_INVALID);
    assert_string_equal(status_message(), "type \"v100\" has a limit of 0 units");
    instance_free(&i);
}

/* --- written ---------------------------------------------------------------------------------- */

static void instance_write__awkward_numbers__read_back_as_the_same(void **state)
{
    (void)state;
    struct instance i;
    assert_int_equal(parse_changed(&i, NULL, NULL), ST_OK);
    static const double numbers[] = {0.1 + 0.2, 1.0 / 3, 1e-18, 0x1p53, 0x1p53 - 1, 123456789012345678.0,
                                     1e18,      5e17 / 3};
    for (size_t n = 0; n + 1 < sizeof numbers / sizeof *numbers; n++) {
        i.batch = numbers[n];
        i.layers[1].in_bytes = numbers[n + 1];
        i.times[0].oct = numbers[n];
        i.types[1].resource.price_per_hour = numbers[n + 1];
        assert_survives(&i);
    }
    instance_free(&i);
}

/* Each figure that a file leaves out where it is 0, alone. */
static void instance_write__figures_that_may_be_absent__are_read_back(void **state)
{
    (void)state;
    struct instance i;
    assert_int_equal(parse_changed(&i, NULL, NULL), ST_OK);
    i.layers[0].tied_behind = 0, i.layers[0].cut_bytes = 0;
    i.service_seconds = i.server_seconds = i.server_price = 0, i.service_cores = 0;
    assert_survives(&i);
    i.layers[1].tied_before = 1;
    assert_survives(&i);
    i.layers[1].tied_before = 0, i.layers[1].tied_behind = 1;
    assert_survives(&i);
    i.layers[1].tied_behind = 0, i.layers[2].cut_bytes = 12;
    assert_survives(&i);
    i.layers[2].cut_bytes = 0, i.service_cores = 2;
    assert_survives(&i);
    i.service_cores = 0, i.service_seconds = 0.5;
    assert_survives(&i);
    i.service_seconds = 0, i.server_price = 3;
    assert_survives(&i);
    i.server_price = 0, i.server_seconds = 0.25;
    assert_survives(&i);
    instance_free(&i);
}

static void instance_write__wrong_instance__leaves_the_file(void **state)
{
    (void)state;
    struct instance i, read;
    char path[64];
    temporary(path);
    assert_int_equal(parse_changed(&i, NULL, NULL), ST_OK);
    assert_int_equal(instance_write(&i, path), ST_OK);
    i.layers[1].name = "\xFF";
    assert_int_equal(instance_write(&i, path), ST_INVALID);
    assert_string_equal(status_message(), "layer 1 has no name, or one that is not UTF-8");
    i.layers[1].name = "h1";
    /* A model's name is for people. */
    i.name = "\xFF";
    assert_int_equal(instance_read(&read, path), ST_OK);
    assert_string_equal(read.name, "tiny");
    instance_free(&read);
    assert_int_equal(instance_write(&i, path), ST_OK);
    assert_int_equal(instance_read(&read, path), ST_OK);
    assert_string_equal(read.name, "");
    instance_free(&read);
    instance_free(&i);
    unlink(path);
    assert_int_equal(instance_read(&read, path), ST_IO);
    assert_non_null(strstr(status_message(), path));
    assert_null(read.memory);
}

/* --- random ----------------------------------------------------------------------------------- */

static void instance_random__same_arguments__same_instance(void **state)
{
    (void)state;
    struct instance a, b, c;
    assert_int_equal(instance_random(&a, 1, 8, 4), ST_OK);
    assert_int_equal(instance_random(&b, 1, 8, 4), ST_OK);
    assert_int_equal(instance_random(&c, 2, 8, 4), ST_OK);
    assert_true(instance_equal(&a, &b));
    assert_false(instance_equal(&a, &c));
    assert_survives(&a);
    instance_free(&a);
    instance_free(&b);
    instance_free(&c);
}

static void instance_random__seed_1__is_the_same_on_every_machine_golden(void **state)
{
    (void)state;
    struct instance i;
    assert_int_equal(instance_random(&i, 1, 8, 4), ST_OK);
    assert_true(i.throughput_limit == 933611.9781678867);
    assert_true(i.times[5].oct == 0.00019618423158696287);
    instance_free(&i);
}

/* Whether the first layers on type 0 and the others on another type keep to limits and throughput. */
static bool is_split_feasible(const struct cost_model *model, uint32_t first_count, uint32_t type)
{
    struct cost_stage stages[32];
    type_index types[32];
    for (uint32_t l = 0; l < model->layer_count; l++) types[l] = l < first_count ? 0 : (type_index)type;
    return provision_exact(model, stages, cost_stages(model, types, stages)).is_feasible;
}

/* Some plan reaches the throughput, and cores alone do in some instances but not in all. */
static void instance_random__many__can_be_solved_and_bind_sometimes(void **state)
{
    (void)state;
    static const uint32_t layer_counts[] = {4, 5, 8, 16, 20}, type_counts[] = {1, 2, 4, 8};
    uint32_t count = 0, cpu_count = 0, mixed_count = 0;
    for (uint64_t seed = 0; seed < 10; seed++)
        for (size_t layers_at = 0; layers_at < sizeof layer_counts / sizeof *layer_counts; layers_at++)
            for (size_t types_at = 0; types_at < sizeof type_counts / sizeof *type_counts; types_at++) {
                struct instance i;
                struct cost_model model;
                bool is_feasible = false;
                assert_int_equal(instance_random(&i, seed, layer_counts[layers_at], type_counts[types_at]), ST_OK);
                assert_int_equal(instance_check(&i), ST_OK);
                assert_int_equal(cost_model_open(&model, &i), ST_OK);
                bool is_cpu_feasible = is_split_feasible(&model, i.layer_count, 0);
                for (uint32_t t = 0; t < i.type_count; t++)
                    for (uint32_t first = 0; first < i.layer_count; first++)
                        is_feasible = is_feasible || is_split_feasible(&model, first, t);
                assert_true(is_feasible);
                if (i.type_count > 1) {
                    count++;
                    cpu_count += is_cpu_feasible;
                    bool is_single = is_cpu_feasible;
                    for (uint32_t t = 0; t < i.type_count; t++)
                        is_single = is_single || is_split_feasible(&model, 0, t);
                    mixed_count += !is_single;
                }
                cost_model_free(&model);
                instance_free(&i);
            }
    printf("# of %u with several types: %u feasible on cores alone, %u on no type alone\n", count, cpu_count,
           mixed_count);
    assert_in_range(cpu_count, count / 10, count * 9 / 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(instance_parse__good__says_what_the_text_says),
        cmocka_unit_test(instance_parse__other_ways_to_say_it__are_read),
        cmocka_unit_test(instance_read__shared_instances__read_and_are_written_as_the_same),
        cmocka_unit_test(instance_parse__not_json__names_line_and_column),
        cmocka_unit_test(instance_parse__cut_anywhere__is_refused),
        cmocka_unit_test(instance_parse__wrong_sizes__are_named),
        cmocka_unit_test(instance_parse__wrong_numbers__are_named),
        cmocka_unit_test(instance_parse__wrong_texts__are_named),
        cmocka_unit_test(instance_parse__text_that_would_fill_memory__is_refused_before_it_is_read),
        cmocka_unit_test(instance_make__too_large__is_refused),
        cmocka_unit_test(instance_text__long__is_cut_between_characters),
        cmocka_unit_test(instance_copy__the_first_overwritten_and_freed__stays_whole),
        cmocka_unit_test(instance_check__numbers_out_of_range__are_told),
        cmocka_unit_test(instance_write__awkward_numbers__read_back_as_the_same),
        cmocka_unit_test(instance_write__figures_that_may_be_absent__are_read_back),
        cmocka_unit_test(instance_write__wrong_instance__leaves_the_file),
        cmocka_unit_test(instance_random__same_arguments__same_instance),
        cmocka_unit_test(instance_random__seed_1__is_the_same_on_every_machine_golden),
        cmocka_unit_test(instance_random__many__can_be_solved_and_bind_sometimes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
