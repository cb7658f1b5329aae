/* Cluster texts: a good one says what it says; anything wrong in it is refused by line, section and
 * key, what was expected and found. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "graph/op.h"
#include "sched/cluster.h"

static const char good_text[] = "; two types\n"
                                "[type cpu]\n"
                                "device = cpu\n"
                                "price_per_hour = 0.04\n"
                                "limit = 48\n"
                                "slow = fc 4, embedding 2\n"
                                "slow_from = 100\n"
                                "[goal]\n"
                                "throughput = 100000\n"
                                "examples = 45840617\n"
                                "epochs = 2.5\n"
                                "service_cores = 2\n"
                                "[type v100]\n"
                                "device = cuda\n"
                                "price_per_hour = 2.42\n"
                                "limit = 8\n"
                                "profile = v100.json\n"
                                "flops = 15.7e12\n"
                                "memory_bandwidth = 4.5e11\n"
                                "link_bandwidth = 1e10\n"
                                "batch_overhead = 5e-5\n"
                                "alpha = 0.9677\n"
                                "beta = 0.75\n";
#define TEXT_BYTES 4096

/* The good text with `to` in place of `from`, which stands in it once. */
static char *changed(char text[TEXT_BYTES], const char *from, const char *to)
{
    const char *at = strstr(good_text, from);
    if (at == NULL || strstr(at + 1, from) != NULL) fail_msg("not once in the text: %s", from);
    snprintf(text, TEXT_BYTES, "%.*s%s%s", (int)(at - good_text), good_text, to, at + strlen(from));
    return text;
}

static status parse_text(struct cluster *cluster, const char *text)
{
    return cluster_parse(cluster, "c.cfg", text, strlen(text));
}

static void assert_text_refused(const char *text, const char *message)
{
    struct cluster cluster, empty = {0};
    memset(&cluster, 0xAA, sizeof cluster);
    if (parse_text(&cluster, text) != ST_INVALID) fail_msg("expected INVALID: %s", text);
    assert_string_equal(status_message(), message);
    assert_memory_equal(&cluster, &empty, sizeof cluster);
}

static void assert_refused(const char *from, const char *to, const char *message)
{
    char text[TEXT_BYTES];
    assert_text_refused(changed(text, from, to), message);
}

static void cluster_parse__good__says_what_the_text_says(void **state)
{
    (void)state;
    struct cluster c;
    assert_int_equal(parse_text(&c, good_text), ST_OK);
    assert_string_equal(c.path, "c.cfg");
    assert_int_equal(c.type_count, 2);
    const struct cluster_type *cpu = &c.types[0], *v100 = &c.types[1];
    assert_string_equal(cpu->resource.name, "cpu");
    assert_int_equal(cpu->resource.device, RESOURCE_CPU);
    assert_true(cpu->resource.price_per_hour == 0.04 && cpu->resource.limit == 48 && cpu->line == 2);
    assert_true(cpu->resource.slow.op[OP_ID_fc] == 4 && cpu->resource.slow.op[OP_ID_embed_bag] == 2);
    assert_int_equal(cpu->resource.slow.from_step, 100);
    assert_string_equal(cpu->profile, "");
    assert_false(cpu->has_rates);
    assert_string_equal(v100->resource.name, "v100");
    assert_int_equal(v100->resource.device, RESOURCE_CUDA);
    assert_int_equal(v100->resource.device_index, 0);
    assert_false(resource_is_slowed(&v100->resource.slow));
    assert_string_equal(v100->profile, "v100.json");
    assert_true(v100->has_rates && v100->line == 13);
    assert_true(v100->rates.flops == 15.7e12 && v100->rates.memory_bandwidth == 4.5e11);
    assert_true(v100->rates.link_bandwidth == 1e10 && v100->rates.batch_overhead == 5e-5);
    assert_true(v100->rates.alpha == 0.9677 && v100->rates.beta == 0.75);
    assert_true(c.throughput == 100000 && c.examples == 45840617 && c.epochs == 2.5 && c.service_cores == 2);
    cluster_free(&c);
    assert_null(c.memory);
}

static void cluster_parse__only_what_is_needed__has_the_defaults(void **state)
{
    (void)state;
    struct cluster c;
    assert_int_equal(parse_text(&c, "[type a]\nprice_per_hour = 0\nlimit = 1\n"), ST_OK);
    assert_int_equal(c.types[0].resource.device, RESOURCE_SIM);
    assert_true(c.types[0].rates.alpha == 1 && c.types[0].rates.beta == 1 && c.types[0].rates.batch_overhead == 0);
    assert_true(c.throughput == 0 && c.examples == 0 && c.epochs == 1 && c.service_cores == 0);
    cluster_free(&c);
}

static void cluster_parse__other_ways_to_say_it__are_read(void **state)
{
    (void)state;
    struct cluster c;
    char text[TEXT_BYTES];
    assert_int_equal(parse_text(&c, changed(text, "throughput = 100000", "throughput = max")), ST_OK);
    assert_true(isinf(c.throughput));
    cluster_free(&c);
    assert_int_equal(parse_text(&c, changed(text, "device = cuda", "device = cuda:3")), ST_OK);
    assert_int_equal(c.types[1].resource.device_index, 3);
    cluster_free(&c);
    assert_int_equal(parse_text(&c, changed(text, "[type v100]", "[type K\xC3\xA4rte]")), ST_OK);
    cluster_free(&c);
    const char *turns = changed(text, "slow_from = 100", "slow_from = 100\nslow_for = 3\nslow_every = 12");
    assert_int_equal(parse_text(&c, turns), ST_OK);
    assert_true(c.types[0].resource.slow.for_steps == 3 && c.types[0].resource.slow.every_steps == 12);
    cluster_free(&c);
    assert_int_equal(parse_text(&c, changed(text, "slow = fc 4, embedding 2", "slow = all 1")), ST_OK);
    assert_true(c.types[0].resource.slow.from_step == 0 && c.types[0].resource.slow.every_steps == 0);
    assert_false(resource_is_slowed(&c.types[0].resource.slow));
    cluster_free(&c);
}

static void cluster_parse__wrong_value__is_named(void **state)
{
    (void)state;
    assert_refused(
        "device = cuda", "device = gpu",
        "c.cfg:14: [type v100] device: expected cpu, cuda, cuda:N (N from 0 to 999), emu, sim or paced, found \"gpu\"");
    assert_refused("limit = 48", "limit = 0",
                   "c.cfg:5: [type cpu] limit: expected a whole number from 1 to 4294967295 (units), found \"0\"");
    assert_refused("limit = 48\n", "",
                   "c.cfg:2: [type cpu]: expected a key \"limit\" (units of all stages together; "
                   "where it has nodes, on each of them: a whole number from 1 to 4294967295 (units)), found none");
    assert_refused("2.42", "-1",
                   "c.cfg:15: [type v100] price_per_hour: expected a number from 0 to 1e18 (USD), found \"-1\"");
    assert_refused("alpha = 0.9677", "alpha = 1.1",
                   "c.cfg:22: [type v100] alpha: expected a number from 0 to 1, found \"1.1\"");
    assert_refused("fc 4, embedding 2", "fcc 4",
                   "c.cfg:6: [type cpu] slow: expected a section of the model text, or all, found \"fcc\"");
    assert_refused("link_bandwidth = 1e10\n", "",
                   "c.cfg:13: [type v100]: expected all of flops, memory_bandwidth and link_bandwidth or none of them, "
                   "found no \"link_bandwidth\"");
    assert_refused("flops = 15.7e12", "flops = 0",
                   "c.cfg:13: [type v100]: expected all of flops, memory_bandwidth and link_bandwidth or none of them, "
                   "found no \"flops\"");
    static const char *const wrong[] = {"-1", "nan", "1e19", "fast", "Max", ""};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char to[64], message[256];
        snprintf(to, sizeof to, "throughput = %s", wrong[i]);
        snprintf(message, sizeof message,
                 "c.cfg:9: [goal] throughput: expected a number from 0 to 1e+18 (examples/s) or max, found \"%s\"",
                 wrong[i]);
        assert_refused("throughput = 100000", to, message);
    }
    assert_refused("epochs = 2.5", "epochs = 0",
                   "c.cfg:11: [goal] epochs: expected a number from 1e-18 to 1e18, found \"0\"");
}

static void cluster_parse__wrong_section__is_named(void **state)
{
    (void)state;
    assert_refused(
        "[goal]", "[gaol]",
        "c.cfg:8: [gaol]: no such section; expected [type NAME], [goal], [node NAME], [link A..B] or [link]");
    assert_refused("[goal]", "[goal a]", "c.cfg:8: [goal a]: expected [goal] without a name");
    assert_refused("[type cpu]", "[type]",
                   "c.cfg:2: [type]: expected [type NAME] with a name of 1 to 127 bytes in UTF-8");
    assert_refused("[type cpu]", "[type \xFF]",
                   "c.cfg:2: [type \xFF]: expected [type NAME] with a name of 1 to 127 bytes in UTF-8");
    assert_refused("[type v100]", "[type cpu]", "c.cfg:13: [type cpu] is here a second time; the first is in line 2");
    assert_refused("profile", "profil", "c.cfg:17: [type v100] profil: no such key; did you mean \"profile\"?");
    assert_text_refused("", "c.cfg: expected at least one [type NAME], found none");
    assert_text_refused("[goal]\n", "c.cfg: expected at least one [type NAME], found none");
    char name[129], text[TEXT_BYTES], message[512];
    memset(name, 'n', 128);
    name[128] = 0;
    snprintf(text, sizeof text, "[type %s]\nprice_per_hour = 1\nlimit = 1\n", name);
    snprintf(message, sizeof message, "c.cfg:1: [type %s]: expected [type NAME] with a name of 1 to 127 bytes in UTF-8",
             name);
    assert_text_refused(text, message);
}

static void cluster_parse__many_types__up_to_the_limit(void **state)
{
    (void)state;
    size_t room = 64 * (RESOURCE_TYPES_MAX + 1), used = 0;
    char *text = malloc(room);
    for (uint32_t t = 0; t <= RESOURCE_TYPES_MAX; t++) {
        if (t == RESOURCE_TYPES_MAX) {
            struct cluster c;
            assert_int_equal(cluster_parse(&c, "c.cfg", text, used), ST_OK);
            assert_int_equal(c.type_count, RESOURCE_TYPES_MAX);
            cluster_free(&c);
        }
        used += (size_t)snprintf(text + used, room - used, "[type t%u]\nprice_per_hour = 1\nlimit = 1\n", t);
    }
    assert_text_refused(text, "c.cfg:3073: [type t1024]: expected at most 1024 types, found another");
    free(text);
}

static void cluster_read__file__is_parsed_and_absence_named(void **state)
{
    (void)state;
    char path[] = "/tmp/test_cluster_XXXXXX";
    struct cluster c;
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, good_text, strlen(good_text)), strlen(good_text));
    close(fd);
    assert_int_equal(cluster_read(&c, path), ST_OK);
    assert_string_equal(c.path, path);
    assert_int_equal(c.type_count, 2);
    cluster_free(&c);
    unlink(path);
    assert_int_equal(cluster_read(&c, path), ST_IO);
    assert_non_null(strstr(status_message(), path));
    assert_null(c.memory);
}

static void cluster_keys__every_kind__has_its_table(void **state)
{
    (void)state;
    size_t count;
    for (const char *const *kind = cluster_kinds; *kind; kind++) {
        const struct cfg_key *keys = cluster_keys(*kind, &count);
        assert_non_null(keys);
        assert_in_range(count, 2, 24);
        for (size_t i = 0; i < count; i++) assert_true(keys[i].name[0] && keys[i].meaning[0]);
    }
    assert_null(cluster_keys("knot", &count));
    assert_int_equal(count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cluster_parse__good__says_what_the_text_says),
        cmocka_unit_test(cluster_parse__only_what_is_needed__has_the_defaults),
        cmocka_unit_test(cluster_parse__other_ways_to_say_it__are_read),
        cmocka_unit_test(cluster_parse__wrong_value__is_named),
        cmocka_unit_test(cluster_parse__wrong_section__is_named),
        cmocka_unit_test(cluster_parse__many_types__up_to_the_limit),
        cmocka_unit_test(cluster_read__file__is_parsed_and_absence_named),
        cmocka_unit_test(cluster_keys__every_kind__has_its_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
