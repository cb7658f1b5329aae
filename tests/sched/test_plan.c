/* Plans: a good one says what its text says; anything wrong in it is refused by the key's place, what was
 * expected and what was found; and it is told to people in one line. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "sched/plan.h"

static const char model_text[] = "[model]\nname = tiny\n"
                                 "[data]\ndense = I1..I2\nsparse = C1..C2\n"
                                 "[table emb]\ndim = 2\n"
                                 "[embedding e]\ntable = emb\ninput = sparse\n"
                                 "[concat x]\ninput = e, dense\n"
                                 "[fc h1]\ninput = x\nunits = 4\nactivation = relu\n"
                                 "[fc h2]\ninput = h1\nunits = 1\n"
                                 "[loss bce]\ninput = h2\nlabel = label\n";
static struct graph graph;

/* Layers e x | h1 | h2 bce. The hash of the graph is put in place of HASH. */
static const char good_text[] =
    "{\"format\": \"heterps-solution-1\", \"graph_hash\": \"HASH\", \"method\": \"rl\", \"seed\": 1,\n"
    " \"types\": [{\"name\": \"core\", \"device\": \"cpu\", \"price_per_hour\": 0.04, \"limit\": 48},\n"
    "  {\"name\": \"v100\", \"device\": \"cuda:2\", \"price_per_hour\": 2.42}],\n"
    " \"layers\": [\"e\", \"x\", \"h1\", \"h2\", \"bce\"],\n"
    " \"plan\": [0, 0, 1, 0, 0],\n"
    " \"stages\": [{\"first\": 0, \"last\": 1, \"type\": 0, \"k\": 6, \"replicas\": 3, \"et\": 2.5e-6, "
    "\"cut_bytes\": 48},\n"
    "  {\"first\": 2, \"last\": 2, \"type\": 1, \"k\": 2},\n"
    "  {\"first\": 3, \"last\": 4, \"type\": 0, \"k\": 4}],\n"
    " \"service_cores\": 2, \"feasible\": true, \"proven\": false, \"cost\": 1.5, \"lower_bound\": null, "
    "\"more\": {\"a\": [1]}}\n";

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

static const char *graph_hash(void)
{
    static char hash[17];
    snprintf(hash, sizeof hash, "%016" PRIx64, graph.header->model_hash);
    return hash;
}

static char *good(char text[TEXT_BYTES])
{
    strcpy(text, good_text);
    replace(text, "HASH", graph_hash());
    return text;
}

/* The good plan with one change. */
static status parse_changed(struct plan *plan, const char *from, const char *to)
{
    char text[TEXT_BYTES];
    good(text);
    if (from != NULL) replace(text, from, to);
    return plan_parse(plan, &graph, "p.json", text, strlen(text));
}

static void assert_parses(const char *from, const char *to)
{
    struct plan plan;
    if (parse_changed(&plan, from, to) != ST_OK) fail_msg("%s: %s", to, status_message());
    plan_free(&plan);
    assert_null(plan.memory);
}

/* Refused with exactly this message behind "p.json". */
static void assert_refused_as(status code, const char *from, const char *to, const char *message)
{
    struct plan plan, empty = {0};
    memset(&plan, 0xAA, sizeof plan);
    status st = parse_changed(&plan, from, to);
    if (st != code) fail_msg("%s: expected status %d, found %d", to, code, st);
    if (strncmp(status_message(), "p.json", 6) != 0 || strcmp(status_message() + 6, message) != 0)
        fail_msg("%s:\nexpected p.json%s\nfound    %s", to, message, status_message());
    assert_memory_equal(&plan, &empty, sizeof plan);
}

static void assert_refused(const char *from, const char *to, const char *message)
{
    assert_refused_as(ST_INVALID, from, to, message);
}

/* --- good plans ------------------------------------------------------------------------------- */

static void plan_parse__good__says_what_the_text_says(void **state)
{
    (void)state;
    struct plan plan;
    assert_int_equal(parse_changed(&plan, NULL, NULL), ST_OK);
    assert_int_equal(plan.type_count, 2);
    assert_string_equal(plan.types[0].name, "core");
    assert_int_equal(plan.types[0].device, RESOURCE_CPU);
    assert_true(plan.types[0].price_per_hour == 0.04);
    assert_int_equal(plan.types[0].limit, 48);
    assert_string_equal(plan.types[1].name, "v100");
    assert_int_equal(plan.types[1].device, RESOURCE_CUDA);
    assert_int_equal(plan.types[1].device_index, 2);
    assert_true(plan.types[1].price_per_hour == 2.42);
    assert_int_equal(plan.types[1].limit, 0);
    assert_int_equal(plan.stage_count, 3);
    static const struct plan_stage expected[] = {
        {.first_layer = 0, .last_layer = 1, .type = 0, .k = 6, .replicas = 3, .et = 2.5e-6, .cut_bytes = 48},
        {.first_layer = 2, .last_layer = 2, .type = 1, .k = 2, .replicas = 2},
        {.first_layer = 3, .last_layer = 4, .type = 0, .k = 4, .replicas = 1},
    };
    assert_memory_equal(plan.stages, expected, sizeof expected);
    assert_int_equal(plan.service_cores, 2);
    assert_true(plan.has_graph_hash);
    assert_int_equal(plan.graph_hash, graph.header->model_hash);
    assert_string_equal(plan.method, "rl");
    assert_true(plan.time_scale == 1);
    assert_false(resource_is_slowed(&plan.types[0].slow));
    assert_int_equal(plan_cpu_cores(&plan), 12);
    plan_free(&plan);
}

static void plan_parse__only_what_is_needed__has_the_defaults(void **state)
{
    (void)state;
    static const char text[] =
        "{\"format\": \"heterps-solution-1\", \"types\": [{\"name\": \"c\", \"device\": \"cpu\"}],"
        "\"stages\": [{\"first\": 0, \"last\": 4, \"type\": 0, \"k\": 3}]}";
    struct plan plan;
    assert_int_equal(plan_parse(&plan, &graph, "p.json", text, sizeof text - 1), ST_OK);
    assert_int_equal(plan.service_cores, 0);
    assert_false(plan.has_graph_hash);
    assert_string_equal(plan.method, "");
    assert_true(plan.types[0].price_per_hour == 0);
    assert_int_equal(plan.stages[0].replicas, 1);
    assert_true(plan.stages[0].et == 0);
    assert_int_equal(plan.stages[0].cut_bytes, 0);
    assert_int_equal(plan_cpu_cores(&plan), 3);
    plan_free(&plan);
}

static void plan_parse__other_ways_to_say_it__are_read(void **state)
{
    (void)state;
    assert_parses("\"k\": 6", "\"k\": 6.0");
    assert_parses("\"et\": 2.5e-6", "\"et\": 0");
    assert_parses("\"cut_bytes\": 48", "\"cut_bytes\": 4.8e1");
    assert_parses("\"k\": 2", "\"k\": 2, \"replicas\": 2");
    assert_parses("\"cuda:2\"", "\"cuda:0\"");
    assert_parses("\"cuda:2\"", "\"cuda:999\"");
    assert_parses("\"cuda:2\"", "\"emu\"");
    assert_parses("\"cuda:2\"", "\"sim\"");
    assert_parses("\"limit\": 48", "\"limit\": 10");
    assert_parses("\"service_cores\": 2", "\"service_cores\": 0");
    assert_parses("\"method\": \"rl\"", "\"method\": \"\"");
    assert_parses("\"core\"", "\"Kern \xC3\xBC\"");
    assert_parses("\"layers\"", "\"layer_names\"");
    assert_parses("\"plan\"", "\"plan_of_layers\"");
    assert_parses("\"graph_hash\"", "\"hash\"");
    assert_parses("\"feasible\": true, ", "");
}

static void plan_parse__simulated__has_gangs_slowings_and_a_scale(void **state)
{
    (void)state;
    static const char text[] =
        "{\"format\": \"heterps-solution-1\", \"time_scale\": 0.25, \"types\": [{\"name\": \"a\", \"device\": \"sim\", "
        "\"slow\": \"fc 4, embedding 2.5\", \"slow_from\": 9, \"slow_for\": 2, \"slow_every\": 6}, "
        "{\"name\": \"b\", \"device\": \"cpu\", \"slow\": \"all 3\"}],"
        "\"stages\": [{\"first\": 0, \"last\": 1, \"type\": 0, \"k\": 6}, {\"first\": 2, \"last\": 3, \"type\": 0, "
        "\"k\": 6, \"replicas\": 3}, {\"first\": 4, \"last\": 4, \"type\": 1, \"k\": 1}]}";
    struct plan plan;
    char told[128];
    if (plan_parse(&plan, &graph, "p.json", text, strlen(text)) != ST_OK) fail_msg("%s", status_message());
    assert_true(plan.time_scale == 0.25);
    assert_int_equal(plan.stages[0].replicas, 1);
    assert_int_equal(plan.stages[1].replicas, 3);
    assert_true(plan.types[0].slow.op[OP_ID_fc] == 4 && plan.types[0].slow.op[OP_ID_embed_bag] == 2.5f);
    assert_true(plan.types[0].slow.op[OP_ID_concat] == 1 && plan.types[0].slow.from_step == 9);
    assert_true(plan.types[0].slow.for_steps == 2 && plan.types[0].slow.every_steps == 6);
    assert_true(plan.types[1].slow.op[OP_ID_concat] == 3 && plan.types[1].slow.from_step == 0);
    assert_int_equal(plan_cpu_cores(&plan), 1);
    assert_string_equal(plan_text(&plan, &graph, told, sizeof told),
                        "3 stages: e..x on 6 a | h1..h2 on 6 a as 3 replicas | bce on 1 b");
    plan_free(&plan);
}

static const char nodes_text[] = "{\"format\": \"heterps-solution-1\", \"types\": [{\"name\": \"a\", \"device\": "
                                 "\"cpu\"}], \"stages\": [{\"first\": 0, \"last\": 1, \"type\": 0, \"k\": 1%s}, "
                                 "{\"first\": 2, \"last\": 4, \"type\": 0, \"k\": 1%s}]}";

static status parse_nodes(struct plan *plan, const char *first, const char *second)
{
    char text[512];
    snprintf(text, sizeof text, nodes_text, first, second);
    return plan_parse(plan, &graph, "p.json", text, strlen(text));
}

static void plan_parse__stages_on_nodes__all_or_none_and_each_node_has_one(void **state)
{
    (void)state;
    struct plan plan;
    char told[128];
    if (parse_nodes(&plan, ", \"node\": 1", ", \"node\": 0") != ST_OK) fail_msg("%s", status_message());
    assert_int_equal(plan.node_count, 2);
    assert_int_equal(plan.stages[0].nodes, 2);
    assert_int_equal(plan.stages[1].nodes, 1);
    assert_string_equal(plan_text(&plan, &graph, told, sizeof told),
                        "2 stages: e..x on 1 a, node 1 | h1..bce on 1 a, node 0");
    plan_free(&plan);
    if (parse_nodes(&plan, ", \"nodes\": [0, 2]", ", \"nodes\": [1]") != ST_OK) fail_msg("%s", status_message());
    assert_int_equal(plan.node_count, 3);
    assert_int_equal(plan.stages[0].nodes, 5);
    assert_string_equal(plan_text(&plan, &graph, told, sizeof told),
                        "2 stages: e..x on 1 a, nodes 0, 2 | h1..bce on 1 a, node 1");
    plan_free(&plan);
    static const struct {
        const char *first, *second, *message;
    } wrong[] = {
        {", \"node\": 0", "", "p.json: stages[1].node: expected a node, as stages[0] has one, found nothing"},
        {"", ", \"node\": 0", "p.json: stages[1].node: expected none, as stages[0] has none, found 0"},
        {", \"node\": 0", ", \"node\": 64", "p.json: stages[1].node: expected a whole number from 0 to 63, found 64"},
        {", \"nodes\": [0, 1]", ", \"nodes\": []",
         "p.json: stages[1].nodes: expected a list of nodes in ascending order, found a list of 0"},
        {", \"nodes\": [1, 0]", "", "p.json: stages[0].nodes[1]: expected a whole number from 2 to 63, found 0"},
        {", \"nodes\": [1], \"node\": 1", "",
         "p.json: stages[0].nodes: expected none beside \"node\", found a list of 1"},
        {", \"node\": 0", ", \"node\": 2",
         "p.json: stages[].node: expected a stage on each of the nodes 0 to 2, found none on node 1"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(parse_nodes(&plan, wrong[i].first, wrong[i].second), ST_INVALID);
        assert_string_equal(status_message(), wrong[i].message);
    }
}

static void plan_parse__neighbours_of_one_type__stay_two_stages(void **state)
{
    (void)state;
    struct plan plan;
    assert_int_equal(parse_changed(&plan, "\"first\": 0, \"last\": 1, \"type\": 0, \"k\": 6",
                                   "\"first\": 0, \"last\": 0, \"type\": 0, \"k\": 1}, "
                                   "{\"first\": 1, \"last\": 1, \"type\": 0, \"k\": 6"),
                     ST_OK);
    assert_int_equal(plan.stage_count, 4);
    assert_int_equal(plan.stages[1].type, plan.stages[0].type);
    plan_free(&plan);
}

static void plan_single__any_graph__is_one_gang_for_all_layers(void **state)
{
    (void)state;
    struct plan plan;
    char text[64];
    assert_int_equal(plan_single(&plan, &graph, 7), ST_OK);
    assert_int_equal(plan.stage_count, 1);
    assert_int_equal(plan.stages[0].first_layer, 0);
    assert_int_equal(plan.stages[0].last_layer, 4);
    assert_int_equal(plan.stages[0].k, 7);
    assert_int_equal(plan.stages[0].replicas, 1);
    assert_int_equal(plan.types[plan.stages[0].type].device, RESOURCE_CPU);
    assert_int_equal(plan_cpu_cores(&plan), 7);
    assert_true(plan.time_scale == 1 && !resource_is_slowed(&plan.types[0].slow));
    assert_string_equal(plan.method, "");
    assert_string_equal(plan_text(&plan, &graph, text, sizeof text), "1 stage: e..bce on 7 cpu");
    plan_free(&plan);
}

/* --- wrong plans ------------------------------------------------------------------------------ */

static void plan_parse__not_json__names_line_and_column(void **state)
{
    (void)state;
    struct plan plan;
    assert_refused("\"seed\": 1,", "\"seed\": 1", ":2:8: '}' expected near '\"types\"'");
    assert_refused("\"seed\": 1,", "\"seed\": 1, \"seed\": 2,", ":1:100: duplicate object key near '\"seed\"'");
    assert_refused("\"seed\": 1,", "\"seed\": 9999999999999999999,",
                   ":1:110: too big integer near '9999999999999999999'");
    assert_int_equal(plan_parse(&plan, &graph, "p.json", "", 0), ST_INVALID);
    assert_string_equal(status_message(), "p.json:1:0: '[' or '{' expected near end of file");
    assert_int_equal(plan_parse(&plan, &graph, "p.json", "[1, 2]", 6), ST_INVALID);
    assert_string_equal(status_message(), "p.json: the file: expected an object, found a list of 2");
}

static void plan_parse__cut_anywhere__is_refused(void **state)
{
    (void)state;
    char text[TEXT_BYTES];
    good(text);
    for (size_t bytes = 0; bytes < strlen(text) - 1; bytes++) {
        struct plan plan;
        /* A block of its own size, so that AddressSanitizer sees a look beyond it. */
        char *cut = malloc(bytes + 1);
        memcpy(cut + 1, text, bytes);
        assert_int_equal(plan_parse(&plan, &graph, "p.json", cut + 1, bytes), ST_INVALID);
        assert_null(plan.memory);
        free(cut);
    }
}

static void plan_parse__wrong_head__is_named(void **state)
{
    (void)state;
    assert_refused("\"heterps-solution-1\"", "\"heterps-solution-2\"",
                   ": format: expected \"heterps-solution-1\", found \"heterps-solution-2\"");
    assert_refused("\"format\": \"heterps-solution-1\", ", "",
                   ": format: expected \"heterps-solution-1\", found nothing");
    assert_refused("\"feasible\": true", "\"feasible\": false",
                   ": feasible: expected true: a plan that misses its goal is not run, found false");
    assert_refused("\"feasible\": true", "\"feasible\": 1",
                   ": feasible: expected true: a plan that misses its goal is not run, found 1");
    assert_refused("\"types\"", "\"kinds\"",
                   ": types: expected the types of resources that the stages are on, as [{\"name\": \"cpu\", "
                   "\"device\": \"cpu\"}] (the solution of an instance has none; a plan needs them), found nothing");
    assert_refused("\"stages\"", "\"parts\"", ": stages: expected a list of 1 to 5 objects, found nothing");
    assert_refused("\"method\": \"rl\"", "\"method\": 3", ": method: expected a text of 0 to 127 bytes, found 3");
    assert_refused("\"method\": \"rl\"", "\"method\": \"r\\tl\"",
                   ": method: expected a text without control characters (0x09 at its byte 1), found \"r?l\"");
    assert_refused("\"service_cores\": 2", "\"service_cores\": -1",
                   ": service_cores: expected a whole number from 0 to 1024, found -1");
    assert_refused("\"service_cores\": 2", "\"service_cores\": 1025",
                   ": service_cores: expected a whole number from 0 to 1024, found 1025");
    assert_refused("\"service_cores\": 2", "\"service_cores\": null",
                   ": service_cores: expected a whole number from 0 to 1024, found null");
    assert_refused(graph_hash(), "0123456789ABCDEF",
                   ": graph_hash: expected 16 digits 0-9a-f, found \"0123456789ABCDEF\"");
    assert_refused(graph_hash(), "0123456789abcde",
                   ": graph_hash: expected 16 digits 0-9a-f, found \"0123456789abcde\"");
}

static void plan_parse__wrong_type__is_named(void **state)
{
    (void)state;
    static const char devices[] = "expected \"cpu\", \"cuda:N\" (N from 0 to 999), \"emu\", \"sim\" or \"paced\"";
    static const char *const wrong_devices[] = {"tpu", "", "cuda", "cuda:", "cuda:1000", "cuda:01", "cuda:1x", "cpu:0"};
    for (size_t i = 0; i < sizeof wrong_devices / sizeof *wrong_devices; i++) {
        char to[64], message[256];
        snprintf(to, sizeof to, "\"device\": \"%s\"", wrong_devices[i]);
        snprintf(message, sizeof message, ": types[1].device: %s, found \"%s\"", devices, wrong_devices[i]);
        assert_refused("\"device\": \"cuda:2\"", to, message);
    }
    assert_refused(", \"device\": \"cpu\"", "",
                   ": types[0].device: expected \"cpu\", \"cuda:N\" (N from 0 to 999), \"emu\", \"sim\" or \"paced\", "
                   "found nothing");
    assert_refused("\"v100\"", "\"core\"",
                   ": types[1].name: expected another name than that of types[0], found \"core\"");
    assert_refused("\"v100\"", "\"\"", ": types[1].name: expected a text of 1 to 127 bytes, found \"\"");
    assert_refused("\"v100\"", "\"v\\u007f00\"",
                   ": types[1].name: expected a text without control characters (0x7f at its byte 1), found \"v?00\"");
    assert_refused("0.04", "-0.04", ": types[0].price_per_hour: expected a number of at least 0, found -0.04");
    assert_refused("0.04", "\"0.04\"", ": types[0].price_per_hour: expected a number of at least 0, found \"0.04\"");
    assert_refused("\"limit\": 48", "\"limit\": 0",
                   ": types[0].limit: expected a whole number from 1 to 4294967295, found 0");
    assert_refused("\"limit\": 48", "\"limit\": 4294967296",
                   ": types[0].limit: expected a whole number from 1 to 4294967295, found 4294967296");
    assert_refused("{\"name\": \"core\"", "7, {\"name\": \"core\"", ": types[0]: expected an object, found 7");
}

static void plan_parse__name_of_128_bytes__is_refused_and_cut_in_the_message(void **state)
{
    (void)state;
    char name[160] = "\"", message[512];
    /* 2 bytes a character; the message may not cut one in half. */
    for (int i = 0; i < 64; i++) strcat(name, "\xC3\xA4");
    strcat(name, "\"");
    snprintf(message, sizeof message, ": types[1].name: expected a text of 1 to 127 bytes, found %.61s…\"", name);
    assert_refused("\"v100\"", name, message);
    name[1] = 'v';
    name[2] = 'w'; /* odd from here on */
    memmove(name + 2, name + 3, strlen(name + 3) + 1);
    assert_parses("\"v100\"", name);
}

static void plan_parse__wrong_units__is_named(void **state)
{
    (void)state;
    static const char *const wrong_counts[] = {"0", "-1", "1025", "2.5", "1e300", "\"2\"", "null", "true"};
    for (size_t i = 0; i < sizeof wrong_counts / sizeof *wrong_counts; i++) {
        char to[64], message[256];
        const char *found = strcmp(wrong_counts[i], "1e300") == 0 ? "1e+300" : wrong_counts[i];
        const char *k = strcmp(wrong_counts[i], "1025") == 0 ? "4294967296" : wrong_counts[i];
        snprintf(to, sizeof to, "\"k\": %s", k);
        snprintf(message, sizeof message, ": stages[0].k: expected a whole number from 1 to 4294967295, found %s",
                 k == wrong_counts[i] ? found : k);
        assert_refused("\"k\": 6", to, message);
        snprintf(to, sizeof to, "\"replicas\": %s", wrong_counts[i]);
        snprintf(message, sizeof message, ": stages[0].replicas: expected a whole number from 1 to 1024, found %s",
                 found);
        assert_refused("\"replicas\": 3", to, message);
    }
    assert_refused(", \"k\": 4", "", ": stages[2].k: expected a whole number from 1 to 4294967295, found nothing");
    assert_refused("\"replicas\": 3", "\"replicas\": 4", ": stages[0].replicas: expected a divisor of k, 6, found 4");
    assert_refused("\"replicas\": 3", "\"replicas\": 12", ": stages[0].replicas: expected a divisor of k, 6, found 12");
    assert_refused("\"k\": 2", "\"k\": 2, \"replicas\": 1",
                   ": stages[1].replicas: expected none, or 2 as k: on \"v100\" every unit is a replica, found 1");
    assert_refused(
        "\"limit\": 48", "\"limit\": 9",
        ": stages[2].k: expected at most 3: the limit of \"core\" is 9, of which earlier stages have 6, found 4");
    assert_refused(
        "\"limit\": 48", "\"limit\": 5",
        ": stages[0].k: expected at most 5: the limit of \"core\" is 5, of which earlier stages have 0, found 6");
    assert_refused("\"cuda:2\"", "\"sim\", \"slow\": \"fc 0\"",
                   ": types[1].slow: expected ops and factors from 1 to 1000, "
                   "as in \"fc 4, embedding 2.5\" or \"all 3\", found \"fc 0\"");
    assert_refused("\"cuda:2\"", "\"sim\", \"slow\": \"all 2\", \"slow_for\": 4, \"slow_every\": 4",
                   ": types[1].slow: expected slow_for from 1 to less than slow_every, 4 steps, found 4; "
                   "slow_every = 0 is once, and slow_for = 0 for good");
    assert_refused("\"cuda:2\"", "\"sim\", \"slow\": 4",
                   ": types[1].slow: expected a text of 0 to 1023 bytes, found 4");
    assert_refused("\"cuda:2\"", "\"sim\", \"slow_from\": 0.5",
                   ": types[1].slow_from: expected a whole number from 0 to 9223372036854775807, found 0.5");
    assert_refused("\"service_cores\": 2", "\"time_scale\": 0", ": time_scale: expected a number above 0, found 0");
    assert_refused("\"type\": 1", "\"type\": 2", ": stages[1].type: expected a whole number from 0 to 1, found 2");
    assert_refused("\"type\": 1", "\"type\": -1", ": stages[1].type: expected a whole number from 0 to 1, found -1");
    assert_refused("2.5e-6", "-2.5e-6", ": stages[0].et: expected a number of at least 0, found -2.5e-06");
    assert_refused("\"cut_bytes\": 48", "\"cut_bytes\": 0.5",
                   ": stages[0].cut_bytes: expected a whole number from 0 to 9223372036854775807, found 0.5");
}

static void plan_parse__gaps_and_overlaps__are_named(void **state)
{
    (void)state;
    assert_refused("\"first\": 0", "\"first\": 1",
                   ": stages[0].first: expected 0, the graph's first layer (\"e\"), found 1");
    assert_refused(
        "\"first\": 2", "\"first\": 3",
        ": stages[1].first: expected 2: that layer (\"h1\") follows stages[0], and would be in no stage, found 3");
    assert_refused("\"first\": 2", "\"first\": 1",
                   ": stages[1].first: expected 2 (\"h1\"), as stages[0] has the layers up to 1, found 1");
    assert_refused("\"last\": 2", "\"last\": 1",
                   ": stages[1].last: expected a layer from 2 (\"h1\") to 4 (\"bce\"), the graph's last, found 1");
    assert_refused("\"last\": 4", "\"last\": 5",
                   ": stages[2].last: expected a layer from 3 (\"h2\") to 4 (\"bce\"), the graph's last, found 5");
    assert_refused(
        "\"last\": 4", "\"last\": 3",
        ": stages[2].last: expected 4 (\"bce\"), the graph's last layer, in the last stage, found 3 (\"h2\")");
    assert_refused("\"last\": 4", "\"last\": 4294967299",
                   ": stages[2].last: expected a whole number from 0 to 16777216, found 4294967299");
    assert_refused("\"last\": 2", "\"last\": 4",
                   ": stages[2].first: expected no further stage, as stages[1] ends with the graph's last layer, "
                   "4 (\"bce\"), found 3");
    assert_refused("\"stages\": [", "\"stages\": [], \"x\": [",
                   ": stages: expected a list of 1 to 5 objects, found a list of 0");
    assert_refused("\"stages\": [", "\"stages\": [1, 2, 3, ",
                   ": stages: expected a list of 1 to 5 objects, found a list of 6");
    assert_refused("\"stages\": [", "\"stages\": [null, ", ": stages[0]: expected an object, found null");
}

static void plan_parse__other_layers__names_the_first_that_differs(void **state)
{
    (void)state;
    assert_refused("\"h1\"", "\"h9\"", ": layers[2]: expected \"h1\", the graph's layer, found \"h9\"");
    assert_refused("\"h1\"", "1", ": layers[2]: expected \"h1\", the graph's layer, found 1");
    assert_refused("\"h1\", ", "", ": layers[2]: expected \"h1\", the graph's layer, found \"h2\"");
    assert_refused(", \"bce\"", "",
                   ": layers: expected 5 names, as the graph has layers (\"bce\" is the first that is missing), "
                   "found a list of 4");
    assert_refused("\"bce\"", "\"bce\", \"auc\"",
                   ": layers: expected 5 names, as the graph has layers (up to \"bce\"), found a list of 6");
    assert_refused("\"layers\": [", "\"layers\": \"e\", \"x\": [", ": layers: expected a list of names, found \"e\"");
}

static void plan_parse__types_of_layers_contradict_stages__names_the_layer(void **state)
{
    (void)state;
    assert_refused("[0, 0, 1, 0, 0]", "[0, 0, 0, 0, 0]",
                   ": plan[2]: expected 1, as stages[1] says of layer \"h1\", found 0");
    assert_refused("[0, 0, 1, 0, 0]", "[0, 0, 1, 0, 7]",
                   ": plan[4]: expected 0, as stages[2] says of layer \"bce\", found 7");
    assert_refused("[0, 0, 1, 0, 0]", "[0, \"0\", 1, 0, 0]",
                   ": plan[1]: expected 0, as stages[0] says of layer \"x\", found \"0\"");
    assert_refused("[0, 0, 1, 0, 0]", "[0, 0, 1, 0]",
                   ": plan: expected a list of 5 types, one for each layer of the graph, found a list of 4");
    assert_refused("[0, 0, 1, 0, 0]", "{}",
                   ": plan: expected a list of 5 types, one for each layer of the graph, found an object");
}

/* Standard error goes into a file meanwhile; returns what was written. */
static const char *parse_overheard(const char *from, const char *to, status expected)
{
    static char heard[1024];
    FILE *file = tmpfile();
    struct plan plan;
    assert_non_null(file);
    fflush(stderr);
    int kept = dup(STDERR_FILENO);
    assert_true(dup2(fileno(file), STDERR_FILENO) >= 0);
    status st = parse_changed(&plan, from, to);
    dup2(kept, STDERR_FILENO);
    close(kept);
    assert_int_equal(st, expected);
    plan_free(&plan);
    rewind(file);
    heard[fread(heard, 1, sizeof heard - 1, file)] = 0;
    fclose(file);
    return heard;
}

static void plan_parse__hash_of_another_graph__is_remarked_on_where_the_layers_agree(void **state)
{
    (void)state;
    assert_string_equal(parse_overheard(NULL, NULL, ST_OK), "");
    const char *heard = parse_overheard(graph_hash(), "0123456789abcdef", ST_OK);
    assert_non_null(strstr(heard, "warning: p.json: its graph_hash is 0123456789abcdef"));
    /* Refused for another reason: the remark would only distract. */
    assert_string_equal(parse_overheard("\"k\": 6", "\"k\": 0", ST_INVALID), "");
}

static void plan_parse__hash_of_another_graph_and_no_layers__is_a_mismatch(void **state)
{
    (void)state;
    char text[TEXT_BYTES];
    struct plan plan;
    good(text);
    replace(text, "\"layers\"", "\"names\"");
    assert_int_equal(plan_parse(&plan, &graph, "p.json", text, strlen(text)), ST_OK);
    plan_free(&plan);
    replace(text, graph_hash(), "0123456789abcdef");
    assert_int_equal(plan_parse(&plan, &graph, "p.json", text, strlen(text)), ST_MISMATCH);
    assert_non_null(strstr(status_message(), "p.json: graph_hash: expected "));
    assert_non_null(strstr(status_message(), graph_hash()));
    assert_non_null(strstr(status_message(), "found 0123456789abcdef"));
    assert_null(plan.memory);
}

static void plan_parse__text_that_would_fill_memory__is_refused_before_it_is_read(void **state)
{
    (void)state;
    /* 22 million objects of 3 bytes each would take gigabytes. */
    const size_t bytes = (size_t)64 << 20;
    char *text = malloc(bytes + 1);
    struct plan plan;
    for (size_t i = 0; i < bytes; i++) text[i] = "{},"[i % 3];
    struct rusage before, after;
    getrusage(RUSAGE_SELF, &before);
    assert_int_equal(plan_parse(&plan, &graph, "p.json", text, bytes), ST_INVALID);
    assert_non_null(strstr(status_message(), "expected a plan of at most 2097152 values, found about 44739243"));
    assert_int_equal(plan_parse(&plan, &graph, "p.json", text, bytes + 1), ST_INVALID);
    assert_string_equal(status_message(), "p.json: expected a plan of at most 67108864 bytes, found 67108865");
    getrusage(RUSAGE_SELF, &after);
    assert_true(after.ru_maxrss - before.ru_maxrss < 64 << 10);
    /* As many values as there may be are read; and one more is not. */
    const size_t most = (size_t)2 << 20;
    memset(text, ',', most + 1);
    assert_int_equal(plan_parse(&plan, &graph, "p.json", text, most), ST_INVALID);
    assert_non_null(strstr(status_message(), "p.json:1:1: "));
    assert_int_equal(plan_parse(&plan, &graph, "p.json", text, most + 1), ST_INVALID);
    assert_non_null(strstr(status_message(), "at most 2097152 values, found about 2097153"));
    free(text);
}

/* --- files ------------------------------------------------------------------------------------ */

static void plan_read__file__is_parsed_and_absence_named(void **state)
{
    (void)state;
    char path[] = "/tmp/test_plan_XXXXXX", text[TEXT_BYTES];
    struct plan plan;
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    good(text);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    assert_int_equal(plan_read(&plan, &graph, path), ST_OK);
    assert_int_equal(plan.stage_count, 3);
    plan_free(&plan);
    /* The text does not have to live as long as the plan: the strings are its own. */
    assert_int_equal(ftruncate(fd, 0), 0);
    assert_int_equal(plan_read(&plan, &graph, path), ST_INVALID);
    assert_non_null(strstr(status_message(), path));
    close(fd);
    unlink(path);
    assert_int_equal(plan_read(&plan, &graph, path), ST_IO);
    assert_non_null(strstr(status_message(), path));
    assert_null(plan.memory);
}

/* --- for people ------------------------------------------------------------------------------- */

static void plan_text__three_stages__tells_layers_units_and_replicas(void **state)
{
    (void)state;
    struct plan plan;
    char text[256], name[32];
    assert_int_equal(parse_changed(&plan, NULL, NULL), ST_OK);
    assert_string_equal(plan_text(&plan, &graph, text, sizeof text),
                        "3 stages: e..x on 6 core as 3 replicas | h1 on 2 v100 | h2..bce on 4 core");
    assert_string_equal(plan_stage_name(&plan, &graph, 0, name, sizeof name), "e..x");
    assert_string_equal(plan_stage_name(&plan, &graph, 1, name, sizeof name), "h1");
    assert_string_equal(plan_stage_name(&plan, &graph, 2, name, 7), "h2.…");
    assert_string_equal(resource_device_text(&plan.types[0], name, sizeof name), "cpu");
    assert_string_equal(resource_device_text(&plan.types[1], name, sizeof name), "cuda:2");
    plan_free(&plan);
}

static void plan_text__short_buffer__is_cut_between_characters(void **state)
{
    (void)state;
    struct plan plan;
    char whole[256], cut[256];
    assert_int_equal(parse_changed(&plan, "\"core\"", "\"\xE2\x82\xAC\xC3\xBC\""), ST_OK);
    plan_text(&plan, &graph, whole, sizeof whole);
    assert_string_equal(whole, "3 stages: e..x on 6 €ü as 3 replicas | h1 on 2 v100 | h2..bce on 4 €ü");
    for (size_t bytes = 1; bytes <= strlen(whole) + 1; bytes++) {
        memset(cut, 'Z', sizeof cut);
        assert_ptr_equal(plan_text(&plan, &graph, cut, bytes), cut);
        assert_true(strlen(cut) < bytes);
        for (size_t i = bytes; i < sizeof cut; i++) assert_int_equal(cut[i], 'Z');
        bool is_whole = bytes == strlen(whole) + 1;
        size_t kept = strlen(cut);
        if (!is_whole && bytes > 3) {
            kept -= 3;
            assert_string_equal(cut + kept, "…");
            assert_true(kept + 2 + 3 >= bytes - 1 - 3);
        }
        assert_memory_equal(cut, whole, kept);
        assert_true((whole[kept] & 0xC0) != 0x80);
        if (is_whole) assert_string_equal(cut, whole);
    }
    memset(cut, 'Z', sizeof cut);
    plan_text(&plan, &graph, cut, 0);
    assert_int_equal(cut[0], 'Z');
    plan_free(&plan);
}

static int graph_make(void **state)
{
    (void)state;
    return graph_compile(&graph, "tiny.cfg", model_text, sizeof model_text - 1, NULL, 0, NULL) != ST_OK ||
           graph.layer_count != 5;
}

static int graph_free(void **state)
{
    (void)state;
    graph_close(&graph);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plan_parse__good__says_what_the_text_says),
        cmocka_unit_test(plan_parse__only_what_is_needed__has_the_defaults),
        cmocka_unit_test(plan_parse__other_ways_to_say_it__are_read),
        cmocka_unit_test(plan_parse__simulated__has_gangs_slowings_and_a_scale),
        cmocka_unit_test(plan_parse__stages_on_nodes__all_or_none_and_each_node_has_one),
        cmocka_unit_test(plan_parse__neighbours_of_one_type__stay_two_stages),
        cmocka_unit_test(plan_single__any_graph__is_one_gang_for_all_layers),
        cmocka_unit_test(plan_parse__not_json__names_line_and_column),
        cmocka_unit_test(plan_parse__cut_anywhere__is_refused),
        cmocka_unit_test(plan_parse__wrong_head__is_named),
        cmocka_unit_test(plan_parse__wrong_type__is_named),
        cmocka_unit_test(plan_parse__name_of_128_bytes__is_refused_and_cut_in_the_message),
        cmocka_unit_test(plan_parse__wrong_units__is_named),
        cmocka_unit_test(plan_parse__gaps_and_overlaps__are_named),
        cmocka_unit_test(plan_parse__other_layers__names_the_first_that_differs),
        cmocka_unit_test(plan_parse__types_of_layers_contradict_stages__names_the_layer),
        cmocka_unit_test(plan_parse__hash_of_another_graph__is_remarked_on_where_the_layers_agree),
        cmocka_unit_test(plan_parse__hash_of_another_graph_and_no_layers__is_a_mismatch),
        cmocka_unit_test(plan_parse__text_that_would_fill_memory__is_refused_before_it_is_read),
        cmocka_unit_test(plan_read__file__is_parsed_and_absence_named),
        cmocka_unit_test(plan_text__three_stages__tells_layers_units_and_replicas),
        cmocka_unit_test(plan_text__short_buffer__is_cut_between_characters),
    };
    int failure_count = cmocka_run_group_tests(tests, graph_make, graph_free);
    return failure_count ? 1 : 0;
}
