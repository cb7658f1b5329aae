/* Types on nodes of their own: what the link adds to a cut, on which node a stage lies, what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sched/nodes.h"
#include "sched/provision.h"
#include "tests/sched/instance_equal.h"

static const char cpu_text[] = "[type cpu]\nprice_per_hour = 0.04\nlimit = 8\n%s\n"
                               "[type card]\nprice_per_hour = 2\nlimit = 2\n%s\n";

static struct instance_layer layers[] = {{.name = "e", .kind = "embedding", .cut_bytes = 400, .weight_bytes = 1000},
                                         {.name = "h", .kind = "fc", .cut_bytes = 100, .weight_bytes = 300},
                                         {.name = "y", .kind = "fc", .cut_bytes = 0, .weight_bytes = 20}};
static struct instance_time times[9];
static struct instance_type types[3];
static struct instance instance;

/* A text of 2 or 3 types. */
static status text_applied(const char *text)
{
    struct cluster cluster;
    instance_nodes_free(instance.nodes);
    instance.nodes = NULL;
    if (cluster_parse(&cluster, "c.cfg", text, strlen(text)) != ST_OK) return ST_INVALID;
    memset(types, 0, sizeof types);
    for (size_t at = 0; at < 9; at++) times[at] = (struct instance_time){.oct = 1, .alpha = 1, .odt = 0.5, .beta = 0.8};
    instance = (struct instance){.name = "i",
                                 .layer_count = 3,
                                 .type_count = cluster.type_count,
                                 .batch = 1000,
                                 .examples = 3600,
                                 .epochs = 1,
                                 .types = types,
                                 .layers = layers,
                                 .times = times};
    for (uint32_t t = 0; t < cluster.type_count; t++) {
        types[t].resource = cluster.types[t].resource;
        types[t].resource.name = t == 0 ? "a" : t == 1 ? "b" : "c";
    }
    const status st = nodes_apply(&instance, &cluster, 100);
    cluster_free(&cluster);
    return st;
}
static void text_apply(const char *text)
{
    if (text_applied(text) != ST_OK) fail_msg("%s", status_message());
}

static status applied(const char *of_cpu, const char *of_card)
{
    char text[512];
    snprintf(text, sizeof text, cpu_text, of_cpu, of_card);
    return text_applied(text);
}

/* Seconds an example that the first stage of a plan moves. */
static double moved(const type_index plan[3], uint32_t stage)
{
    struct cost_model model;
    struct cost_stage stages[3];
    assert_int_equal(cost_model_open(&model, &instance), ST_OK);
    assert_true(cost_stages(&model, plan, stages) > stage);
    cost_model_free(&model);
    return stages[stage].time.move;
}
static void assert_near(double found, double expected)
{
    if (!(found > expected - 1e-12 && found < expected + 1e-12))
        fail_msg("found %.17g, expected %.17g", found, expected);
}

#define LINK "network_bandwidth = 1e6\nlink_latency = 0.001\n"

static void nodes_apply__types_on_nodes__cuts_take_the_link(void **state)
{
    (void)state;
    assert_int_equal(applied("node = 1\n" LINK, "node = 0\n" LINK), ST_OK);
    /* 0.1 of half a second does not divide; 400 B / 1e6 B/s + 2 * 1 ms / 100 an example. */
    assert_near(moved((type_index[]){0, 1, 1}, 0), 0.0001 + 400e-6 + 20e-6);
    assert_near(moved((type_index[]){1, 1, 0}, 0), 0.0001 + 100e-6 + 20e-6);
    assert_near(moved((type_index[]){1, 1, 0}, 1), 0.0001);
    assert_near(moved((type_index[]){1, 1, 1}, 0), 0.0001);
    uint32_t node;
    const struct cost_stage both[] = {{.type = 0}, {.type = 1}, {.type = 0}}, one[] = {{.type = 0}};
    assert_true(nodes_of_plan(&instance, both, 3, 0, &node) && node == 1);
    assert_true(nodes_of_plan(&instance, both, 3, 1, &node) && node == 0);
    assert_false(nodes_of_plan(&instance, one, 1, 0, &node));
}

/* Without sections bytes come at the rate of who receives them, and a message takes the longer of the two. */
static void nodes_apply__networks_that_differ__bytes_come_at_the_receivers_rate(void **state)
{
    (void)state;
    assert_int_equal(applied("node = 0\nnetwork_bandwidth = 1e6\nlink_latency = 0.001",
                             "node = 1\nnetwork_bandwidth = 4e6\nlink_latency = 0.002"),
                     ST_OK);
    const struct instance_link *there = instance_link(instance.nodes, 0, 1),
                               *back = instance_link(instance.nodes, 1, 0);
    assert_true(there->bandwidth == 4e6 && back->bandwidth == 1e6);
    assert_true(there->latency == 0.002 && back->latency == 0.002);
}

/* Two cuts of one link: each takes the bytes of both, and its own two messages. */
static void cost_stages__cuts_on_one_link__share_it(void **state)
{
    (void)state;
    assert_int_equal(applied("node = 1\n" LINK, "node = 0\n" LINK), ST_OK);
    assert_near(moved((type_index[]){0, 1, 0}, 0), 0.0001 + 500e-6 + 20e-6);
    assert_near(moved((type_index[]){0, 1, 0}, 1), 0.0001 + 500e-6 + 20e-6);
}

#define TYPES3                                                                                                         \
    "[type a]\nprice_per_hour = 1\nlimit = 4\nnode = x\n[type b]\nprice_per_hour = 1\nlimit = 4\nnode = x\n"           \
    "[type c]\nprice_per_hour = 1\nlimit = 4\nnode = y\n"

static void nodes_apply__links_that_differ__each_cut_takes_its_own(void **state)
{
    (void)state;
    text_apply(TYPES3 "[node y]\nmemory = 1100\nprice_per_hour = 7\n[node x]\n[link y..x]\n"
                      "bandwidth = 1e6\nbandwidth_back = 4e6\nlatency = 0.001\nlatency_back = 0.003\n");
    /* Neighbours of one node cross nothing. */
    assert_near(moved((type_index[]){0, 1, 2}, 0), 0.0001);
    /* Half of 100 B each way; 4 ms in a message of 100. */
    assert_near(moved((type_index[]){0, 1, 2}, 1), 0.0001 + 50e-6 + 12.5e-6 + 40e-6);
    assert_near(moved((type_index[]){2, 1, 1}, 0), 0.0001 + 200e-6 + 50e-6 + 40e-6);
    /* Nodes are in the order of the text, and a plan has those that it is on. */
    uint32_t node;
    const struct cost_stage three[] = {{.type = 0}, {.type = 1}, {.type = 2}}, two[] = {{.type = 0}, {.type = 1}};
    assert_true(nodes_of_plan(&instance, three, 3, 0, &node) && node == 1);
    assert_true(nodes_of_plan(&instance, three, 3, 1, &node) && node == 1);
    assert_true(nodes_of_plan(&instance, three, 3, 2, &node) && node == 0);
    assert_false(nodes_of_plan(&instance, two, 2, 0, &node));
}

static void provision__nodes__cost_their_price_and_hold_what_fits(void **state)
{
    (void)state;
    struct cost_model m;
    struct cost_stage stages[3];
    text_apply(TYPES3 "[node x]\nprice_per_hour = 2\n[node y]\nmemory = 1100\nprice_per_hour = 7\n"
                      "[link]\nbandwidth = 1e9\n");
    assert_int_equal(cost_model_open(&m, &instance), ST_OK);
    /* 1,000 bytes fit on y, 1,300 do not. */
    uint32_t count = cost_stages(&m, (type_index[]){2, 0, 0}, stages);
    struct cost_result r = provision_exact(&m, stages, count);
    assert_true(r.is_feasible);
    double units = 0, tau = 1 / r.throughput;
    for (uint32_t s = 0; s < count; s++) units += stages[s].k;
    assert_near(r.cost / (tau * (units + 2 + 7)), 1);
    count = cost_stages(&m, (type_index[]){2, 2, 0}, stages);
    r = provision_exact(&m, stages, count);
    assert_true(!r.is_feasible && r.is_memory_short && r.limiting_stage == 0 && r.throughput == 0);
    /* A node is paid once, whatever is on it. */
    count = cost_stages(&m, (type_index[]){0, 1, 0}, stages);
    assert_true(cost_nodes_price(&m, stages, count) == 2);
    cost_model_free(&m);
}

static void nodes_cuts__a_plan__says_which_link_each_crosses(void **state)
{
    (void)state;
    struct cost_model m;
    struct cost_stage stages[3];
    struct nodes_cut cuts[3];
    char text[512];
    text_apply(TYPES3 "[node x]\n[node y]\n[link x..y]\nbandwidth = 1e6\nbandwidth_back = 2e6\n");
    assert_int_equal(cost_model_open(&m, &instance), ST_OK);
    uint32_t count = cost_stages(&m, (type_index[]){0, 1, 2}, stages);
    assert_int_equal(nodes_cuts(&m, stages, count, cuts), 1);
    assert_true(cuts[0].stage == 1 && cuts[0].from == 0 && cuts[0].to == 1 && cuts[0].cut_count == 1);
    assert_string_equal(nodes_cut_text(&instance, stages, &cuts[0], text, sizeof text),
                        "from node x to y (h to y): 100 B an example, 75.0 µs at 977 KiB/s there and 1.91 MiB/s back");
    count = cost_stages(&m, (type_index[]){0, 2, 1}, stages);
    assert_int_equal(nodes_cuts(&m, stages, count, cuts), 2);
    assert_true(cuts[0].cut_count == 2 && cuts[1].cut_count == 2 && cuts[1].from == 1);
    assert_non_null(strstr(nodes_cut_text(&instance, stages, &cuts[1], text, sizeof text), "; 2 cuts share the link"));
    cost_model_free(&m);
}

static void nodes_apply__no_nodes__changes_nothing(void **state)
{
    (void)state;
    assert_int_equal(applied("", ""), ST_OK);
    assert_null(instance.nodes);
    assert_near(moved((type_index[]){0, 1, 1}, 0), 0.0001);
    uint32_t node;
    const struct cost_stage both[] = {{.type = 0}, {.type = 1}};
    assert_false(nodes_of_plan(&instance, both, 2, 1, &node));
}

static void nodes_apply__cannot_be__says_why(void **state)
{
    (void)state;
    static const struct {
        const char *cpu, *card, *message;
    } wrong[] = {
        {"node = 64\n" LINK, "node = 0\n" LINK,
         "c.cfg:4: [type cpu] node: expected a node from 0 to 63, as there is no [node] section, found \"64\""},
        {"node = 0\n" LINK, "", "[type card]: expected a node of all types or of none"},
        {"node = 0", "node = 1\n" LINK, "[type cpu]: expected network_bandwidth, as it has a node"},
        {"node = 0\n[node b]", "node = b",
         "c.cfg:4: [type cpu] node: expected the name of a [node] section (b), found \"0\""},
        {"node = 0", "node = 1\n[link 0..2]\nbandwidth = 1",
         "c.cfg:9: [link 0..2]: expected [link A..B] with two nodes (0, 1)"},
        {"node = 0", "node = 1\n[link 0]\nbandwidth = 1",
         "c.cfg:9: [link 0]: expected [link A..B] with two nodes (0, 1)"},
        {"node = 0", "node = 1\n[link 0..0]\nbandwidth = 1", "expected two nodes, found one twice"},
        {"node = 0", "node = 1\n[link 0..1]\nbandwidth = 1\n[link 1..0]\nbandwidth = 1",
         "c.cfg:11: [link 1..0]: another section has told this link already"},
        {"node = 0", "node = 1\n[link]\nbandwidth = 1\nbandwidth_back = 2", "there is no way back"},
        {"node = 0", "node = 1\n[link 0..1]\nbandwidth = 1\nlatency_back = x",
         "expected a number from 0 to 1e6 (s), found \"x\""},
        {"", "[link]\nbandwidth = 1", "c.cfg:8: [link]: expected nodes that it joins"},
        {"node = a\n[node a]\n[node b..b]\n", "node = a", "c.cfg:6: [node b..b]: expected [node NAME] with a name"},
        {"node = a\n[node a]\n[node b]\n[node c]\n[link a..c]\nbandwidth = 1", "node = b",
         "expected how fast the link from node a to node b is, found nothing of it: give [link a..b]"},
    };
    for (size_t w = 0; w < sizeof wrong / sizeof *wrong; w++) {
        assert_int_equal(applied(wrong[w].cpu, wrong[w].card), ST_INVALID);
        if (strstr(status_message(), wrong[w].message) == NULL) fail_msg("%s", status_message());
    }
    layers[1].cut_bytes = 0;
    assert_int_equal(applied("node = 0\n" LINK, "node = 1\n" LINK), ST_INVALID);
    assert_non_null(strstr(status_message(), "the cut behind layer h is not known"));
    layers[1].cut_bytes = 100;
}

static const char json_text[] =
    "{\"format\": \"heterps-instance-2\", \"L\": 1, \"T\": 2, \"B_o\": 256, \"M\": 1000, \"epochs\": 1, "
    "\"throughput_limit\": 0, \"types\": [{\"name\": \"a\", \"price_per_hour\": 1, \"limit\": 2, \"node\": 1}, "
    "{\"name\": \"b\", \"price_per_hour\": 1, \"limit\": 2, \"node\": 0, \"overlaps\": false}], "
    "\"layers\": [{\"name\": \"x\", \"type\": \"fc\", \"in_bytes\": 1, \"weight_bytes\": 4, \"oct\": [1, 2], "
    "\"alpha\": [1, 1], \"odt\": [0, 0], \"beta\": [1, 1]}], \"nodes\": [{\"name\": \"p\", \"memory\": 100}, "
    "{\"name\": \"q\", \"price_per_hour\": 0.5}], \"message\": 64, \"links\": [{\"from\": 0, \"to\": 1, "
    "\"bandwidth\": 1e9, \"latency\": 1e-5}, {\"from\": 1, \"to\": 0, \"bandwidth\": 1e8, \"latency\": 0}]}";

static void instance__nodes__are_read_written_and_refused_by_their_place(void **state)
{
    (void)state;
    struct instance i, again;
    char path[] = "/tmp/test_nodes_XXXXXX", text[2048];
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    if (instance_parse(&i, "i.json", json_text, strlen(json_text)) != ST_OK) fail_msg("%s", status_message());
    assert_true(i.nodes->count == 2 && i.nodes->node[0].memory_bytes == 100 && i.nodes->node[1].price_per_hour == 0.5);
    assert_true(instance_link(i.nodes, 1, 0)->bandwidth == 1e8 && i.types[0].resource.node_plus == 2);
    assert_true(i.types[1].resource.adds_moves && !i.types[0].resource.adds_moves && i.nodes->message == 64);
    assert_int_equal(instance_write(&i, path), ST_OK);
    assert_int_equal(instance_read(&again, path), ST_OK);
    unlink(path);
    assert_true(instance_equal(&i, &again));
    struct instance copy;
    assert_int_equal(instance_copy(&copy, &i), ST_OK);
    instance_free(&i);
    assert_true(instance_equal(&copy, &again));
    instance_free(&copy);
    instance_free(&again);
    static const struct {
        const char *from, *to, *message;
    } wrong[] = {
        {"\"node\": 1", "\"node\": 2", "types[0].node: expected"},
        {"\"from\": 1, \"to\": 0", "\"from\": 1, \"to\": 1",
         "links[1].to: expected another node than \"from\", found 1"},
        {"\"from\": 1, \"to\": 0", "\"from\": 0, \"to\": 1", "links[1].to: expected one link from a node to another"},
        {"\"message\": 64, ", "", "message: expected"},
        {"\"bandwidth\": 1e8", "\"bandwidth\": 0", "links[1].bandwidth: expected"},
        {"\"overlaps\": false", "\"overlaps\": 1", "types[1].overlaps: expected true or false, found 1"},
        {", {\"from\": 1, \"to\": 0, \"bandwidth\": 1e8, \"latency\": 0}", "",
         "links: expected a link from node 1 to node 0"},
    };
    for (size_t w = 0; w < sizeof wrong / sizeof *wrong; w++) {
        const char *at = strstr(json_text, wrong[w].from);
        assert_non_null(at);
        snprintf(text, sizeof text, "%.*s%s%s", (int)(at - json_text), json_text, wrong[w].to,
                 at + strlen(wrong[w].from));
        assert_int_equal(instance_parse(&i, "i.json", text, strlen(text)), ST_INVALID);
        if (strstr(status_message(), wrong[w].message) == NULL) fail_msg("%s", status_message());
    }
}

static int end(void **state)
{
    (void)state;
    instance_nodes_free(instance.nodes);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_apply__types_on_nodes__cuts_take_the_link),
        cmocka_unit_test(nodes_apply__networks_that_differ__bytes_come_at_the_receivers_rate),
        cmocka_unit_test(cost_stages__cuts_on_one_link__share_it),
        cmocka_unit_test(nodes_apply__links_that_differ__each_cut_takes_its_own),
        cmocka_unit_test(provision__nodes__cost_their_price_and_hold_what_fits),
        cmocka_unit_test(nodes_cuts__a_plan__says_which_link_each_crosses),
        cmocka_unit_test(instance__nodes__are_read_written_and_refused_by_their_place),
        cmocka_unit_test(nodes_apply__no_nodes__changes_nothing),
        cmocka_unit_test(nodes_apply__cannot_be__says_why),
    };
    return cmocka_run_group_tests(tests, NULL, end);
}
