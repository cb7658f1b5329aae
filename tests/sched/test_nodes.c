/* Types on nodes of their own: what the link adds to a cut, on which node a stage lies, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "sched/nodes.h"

static const char cpu_text[] = "[type cpu]\nprice_per_hour = 0.04\nlimit = 8\n%s\n"
                               "[type card]\nprice_per_hour = 2\nlimit = 2\n%s\n";

static struct instance_layer layers[] = {
    {.name = "e", .cut_bytes = 400}, {.name = "h", .cut_bytes = 100}, {.name = "y", .cut_bytes = 0}};
static struct instance_time times[6];
static struct instance_type types[2];
static struct instance instance;

static status applied(const char *of_cpu, const char *of_card)
{
    char text[512];
    struct cluster cluster;
    snprintf(text, sizeof text, cpu_text, of_cpu, of_card);
    if (cluster_parse(&cluster, "c.cfg", text, strlen(text)) != ST_OK) return ST_INVALID;
    memset(types, 0, sizeof types);
    for (size_t i = 0; i < 6; i++) times[i] = (struct instance_time){.oct = 1, .alpha = 1, .odt = 0.5, .beta = 0.8};
    instance = (struct instance){
        .layer_count = 3, .type_count = 2, .batch = 1000, .types = types, .layers = layers, .times = times};
    const status st = nodes_apply(&instance, &cluster, 100);
    cluster_free(&cluster);
    return st;
}

#define LINK "network_bandwidth = 1e6\nlink_latency = 0.001\n"

static void nodes_apply__types_on_nodes__cuts_take_the_link(void **state)
{
    (void)state;
    assert_int_equal(applied("node = 1\n" LINK, "node = 0\n" LINK), ST_OK);
    /* 400 B * 1000 / 1e6 + 2 * 1 ms * 10; 0.1 of the second. The last layer has no cut. */
    const double expected[] = {0.5 + 0.42, 0.5 + 0.12, 0.5};
    for (uint32_t l = 0; l < 3; l++)
        for (uint32_t t = 0; t < 2; t++) {
            const struct instance_time *time = instance_time(&instance, l, t);
            assert_true(time->odt > expected[l] - 1e-12 && time->odt < expected[l] + 1e-12);
            /* What divides among units is as before. */
            assert_true(time->odt * time->beta > 0.4 - 1e-12 && time->odt * time->beta < 0.4 + 1e-12);
            assert_true(time->oct == 1);
        }
    uint32_t node;
    const struct cost_stage both[] = {{.type = 0}, {.type = 1}, {.type = 0}}, one[] = {{.type = 0}};
    assert_true(nodes_of_plan(&instance, both, 3, 0, &node) && node == 1);
    assert_true(nodes_of_plan(&instance, both, 3, 1, &node) && node == 0);
    assert_false(nodes_of_plan(&instance, one, 1, 0, &node));
}

static void nodes_apply__no_nodes__changes_nothing(void **state)
{
    (void)state;
    assert_int_equal(applied("", ""), ST_OK);
    for (size_t i = 0; i < 6; i++) assert_true(times[i].odt == 0.5 && times[i].beta == 0.8);
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
        {"node = 64\n" LINK, "node = 0\n" LINK, "c.cfg:4: [type cpu] node: expected a node from 0 to 63, found \"64\""},
        {"node = 0\n" LINK, "", "[type card]: expected a node of all types or of none"},
        {"node = 1\n" LINK, "node = 1\n" LINK, "[type card]: another type is on its node"},
        {"node = 0", "node = 1\n" LINK, "[type cpu]: expected network_bandwidth, as it has a node"},
        {"node = 0\n" LINK, "node = 1\nnetwork_bandwidth = 2e6\nlink_latency = 0.001",
         "[type card]: expected the network_bandwidth and link_latency of the first type"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(applied(wrong[i].cpu, wrong[i].card), ST_INVALID);
        if (strstr(status_message(), wrong[i].message) == NULL) fail_msg("%s", status_message());
    }
    layers[1].cut_bytes = 0;
    assert_int_equal(applied("node = 0\n" LINK, "node = 1\n" LINK), ST_INVALID);
    assert_non_null(strstr(status_message(), "the cut behind layer h is not known"));
    layers[1].cut_bytes = 100;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_apply__types_on_nodes__cuts_take_the_link),
        cmocka_unit_test(nodes_apply__no_nodes__changes_nothing),
        cmocka_unit_test(nodes_apply__cannot_be__says_why),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
