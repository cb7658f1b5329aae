/* Who has which lanes, slices and rows: what nodes have said holds where all are there, and is a proportion
 * where some are lost; what does not add up is refused in words; and what --lanes may say. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "engine/node/division.h"
#include "tests/engine/fixture_files.h"

static const uint32_t ranks[MEMBER_NODES_MAX] = {0, 1, 2, 3, 4, 5, 6, 7};

struct asked {
    uint32_t lanes, node_count, job_nodes;
    uint64_t says[8];
    uint32_t slices, rows;
};
static status divide(struct division *d, const struct asked *a)
{
    return division_make(d, &(struct division_options){.lanes = a->lanes,
                                                       .node_count = a->node_count,
                                                       .job_nodes = a->job_nodes ? a->job_nodes : a->node_count,
                                                       .says = a->says,
                                                       .rank_of = ranks,
                                                       .slices = a->slices,
                                                       .rows = a->rows});
}

#define SAID(n)  ((n) + 1)
#define SPEED(n) (DIVISION_SPEED | (n))
#define LINK(n)  (UINT64_C(n) << 32)

static void division_make__any_words__lanes_of_each(void **state)
{
    (void)state;
    static const struct {
        struct asked asked;
        uint32_t lanes[8];
    } cases[] = {
        {{8, 3, 0, {0}, 0, 0}, {3, 3, 2}},
        {{16, 4, 0, {0}, 0, 0}, {4, 4, 4, 4}},
        {{8, 3, 0, {SAID(3), SAID(5), SAID(0)}, 0, 0}, {3, 5, 0}},
        {{8, 3, 0, {LINK(9) | SAID(3), LINK(1), LINK(7) | SAID(0)}, 0, 0}, {3, 5, 0}}, /* links do not matter */
        {{8, 4, 0, {0, SAID(0), 0, SAID(0)}, 0, 0}, {4, 0, 4, 0}}, /* who says nothing shares the rest */
        {{8, 3, 0, {0, SAID(5), 0}, 0, 0}, {2, 5, 1}},
        {{16, 3, 0, {SPEED(10), SPEED(30), SPEED(24)}, 0, 0}, {3, 7, 6}}, /* 2.5, 7.5 and 6 of 16 */
        {{8, 2, 0, {SPEED(1), SPEED(DIVISION_SPEED_MAX)}, 0, 0}, {1, 7}}, /* one at least */
        {{9, 3, 0, {SPEED(30), 0, SPEED(60)}, 0, 0}, {2, 3, 4}},          /* of average speed */
        {{9, 3, 0, {SAID(3), SPEED(1), SPEED(2)}, 0, 0}, {3, 2, 4}},
        /* some are lost */
        {{8, 2, 3, {SAID(2), SAID(2)}, 0, 0}, {4, 4}},
        {{8, 2, 3, {SAID(3), SAID(1)}, 0, 0}, {6, 2}},
        {{8, 2, 3, {SAID(3), SAID(0)}, 0, 0}, {8, 0}},
        {{8, 3, 4, {0, 0, SAID(0)}, 0, 0}, {4, 4, 0}},
        {{16, 2, 3, {SPEED(10), SPEED(30)}, 0, 0}, {4, 12}},
        {{8, 1, 3, {SAID(1)}, 0, 0}, {8}},
        {{1024, 8, 64, {SAID(1), SAID(1), SAID(1), SAID(1), SAID(1), SAID(1), SAID(1), SAID(1017)}, 0, 0},
         {1, 1, 1, 1, 1, 1, 1, 1017}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct division d;
        assert_ok(divide(&d, &cases[i].asked));
        assert_int_equal(d.lane_begin[0], 0);
        for (uint32_t n = 0; n < cases[i].asked.node_count; n++)
            if (d.lane_begin[n + 1] - d.lane_begin[n] != cases[i].lanes[n])
                fail_msg("case %zu, node %u: %u lanes, expected %u", i, n, d.lane_begin[n + 1] - d.lane_begin[n],
                         cases[i].lanes[n]);
        assert_int_equal(d.lane_begin[cases[i].asked.node_count], cases[i].asked.lanes);
    }
}

static void division_make__any_placement__holders(void **state)
{
    (void)state;
    struct division d;
    struct asked a = {8, 4, 0, {SAID(4), SAID(0), SAID(4), SAID(0)}, CLUSTER_SPREAD, CLUSTER_SPREAD};
    assert_ok(divide(&d, &a));
    assert_int_equal(d.slices, 15);
    assert_int_equal(d.rows, 15);
    a.slices = CLUSTER_SERVERS;
    a.rows = CLUSTER_LOCAL;
    assert_ok(divide(&d, &a));
    assert_int_equal(d.slices, 10);
    assert_int_equal(d.rows, 5);
    /* All servers are lost: somebody has to have them. */
    a = (struct asked){8, 2, 4, {SAID(4), SAID(4)}, CLUSTER_SERVERS, CLUSTER_SERVERS};
    assert_ok(divide(&d, &a));
    assert_int_equal(d.slices, 3);
    assert_int_equal(d.rows, 3);
}

static void division_make__what_does_not_add_up__refused_in_words(void **state)
{
    (void)state;
    static const struct {
        struct asked asked;
        const char *message;
    } cases[] = {
        {{8, 9, 9, {0}, 0, 0},
         "1 of 9 nodes would have nothing to compute of 8 lanes: give at most as many nodes, or --set train.lanes=9; "
         "start nodes that are to compute nothing with --lanes 0"},
        {{8, 3, 0, {SAID(3), SAID(5), SAID(1)}, 0, 0},
         "nodes have 9 lanes (--lanes: 3 of node 0, 5 of node 1, 1 of node 2), and train.lanes is 8: "
         "change one of them, or --set train.lanes=9"},
        {{8, 2, 0, {SAID(3), SAID(4)}, 0, 0},
         "nodes have 7 lanes (--lanes: 3 of node 0, 4 of node 1), and train.lanes is 8: "
         "change one of them, or --set train.lanes=7"},
        {{8, 3, 0, {SAID(7), 0, 0}, 0, 0},
         "nodes have 7 lanes (--lanes: 7 of node 0), and 2 others need one each at least: train.lanes is 8; "
         "change one of them, or --set train.lanes=9"},
        {{8, 2, 0, {0}, CLUSTER_SERVERS, 0},
         "cluster.slices = servers, but every node has lanes: "
         "start one with --lanes 0, or --set cluster.slices=spread"},
        {{8, 2, 0, {0}, 0, CLUSTER_SERVERS},
         "cluster.rows = servers, but every node has lanes: start one with --lanes 0, or --set cluster.rows=spread"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct division d;
        assert_int_equal(divide(&d, &cases[i].asked), ST_INVALID);
        assert_string_equal(status_message(), cases[i].message);
    }
}

static void division_parse__numbers_lists_and_auto(void **state)
{
    (void)state;
    uint32_t says;
    bool is_auto;
    assert_ok(division_parse("--lanes", "5", 1, 3, &says, &is_auto));
    assert_true(says == SAID(5) && !is_auto);
    assert_ok(division_parse("--lanes", "0", 2, 3, &says, &is_auto));
    assert_true(says == SAID(0) && !is_auto);
    assert_ok(division_parse("--lanes", "3,5,0", 0, 3, &says, &is_auto));
    assert_int_equal(says, SAID(3));
    assert_ok(division_parse("--lanes", "3,5,0", 2, 3, &says, &is_auto));
    assert_int_equal(says, SAID(0));
    assert_ok(division_parse("--lanes", "auto", 0, 3, &says, &is_auto));
    assert_true(says == DIVISION_SAYS_NOTHING && is_auto);
    static const struct {
        uint32_t rank;
        const char *text, *message;
    } wrong[] = {
        {0, "0", "--lanes 0: node 0 reads the data for all, and speaks for them: give it at least one lane"},
        {0, "0,8,0", "--lanes 0,8,0: node 0 reads the data for all, and speaks for them: give it at least one lane"},
        {1, "0,8,0", "--lanes 0,8,0: node 0 reads the data for all, and speaks for them: give it at least one lane"},
        {1, "3,5", "--lanes 3,5: expected a number for each of 3 nodes, found 2"},
        {1, "1,2,3,2", "--lanes 1,2,3,2: expected a number for each of 3 nodes, found 4"},
        {1, "3,,5", "found \"3,,5\""},
        {1, "", "found \"\""},
        {1, "-1", "found \"-1\""},
        {1, "automatic", "found \"automatic\""},
        {1, "2000000", "found \"2000000\""},
        {1, "00000000000000000001", "found \"00000000000000000001\""},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(division_parse("--lanes", wrong[i].text, wrong[i].rank, 3, &says, &is_auto), ST_USAGE);
        assert_non_null(strstr(status_message(), wrong[i].message));
    }
}

static void division_bandwidth_parse__a_number_or_a_list(void **state)
{
    (void)state;
    static const struct {
        uint32_t rank;
        const char *text;
        uint32_t bandwidth;
    } right[] = {{1, "", 0},     {2, "1.25e9", 1250000}, {0, "1e9,2e9,1000", 1000000}, {1, "1e9,2e9,1000", 2000000},
                 {0, "1999", 1}, {2, "1e9,2e9,1000", 1}, {0, "4e12", 4000000000}};
    uint32_t bandwidth;
    for (size_t i = 0; i < sizeof right / sizeof *right; i++) {
        assert_ok(division_bandwidth_parse(right[i].text, right[i].rank, 3, &bandwidth));
        assert_int_equal(bandwidth, right[i].bandwidth);
    }
    static const struct {
        const char *text, *message;
    } wrong[] = {
        {"1e9,1e9", "cluster.bandwidth 1e9,1e9: expected a number for each of 3 nodes, found 2"},
        {"1e9,1e9,1e9,1e9", "expected a number for each of 3 nodes, found 4"},
        {"999", "cluster.bandwidth: expected bytes a second of this node's link, as 1.25e9, from 1000 to 4e+12, or all "
                "nodes' with commas, found \"999\""},
        {"1e9,0,1e9", "found \"1e9,0,1e9\""},
        {"4.1e12", "found \"4.1e12\""},
        {"1e9,", "found \"1e9,\""},
        {"fast", "found \"fast\""},
        {"nan", "found \"nan\""},
        {"1000000000000000000000000000000000000", "found \"1000"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(division_bandwidth_parse(wrong[i].text, 0, 3, &bandwidth), ST_USAGE);
        if (strstr(status_message(), wrong[i].message) == NULL) fail_msg("\"%s\"", status_message());
    }
}

/* Who says nothing counts with the mean; what is said of lanes does not matter. */
static void division_bandwidths__some_say__the_mean_of_those(void **state)
{
    (void)state;
    uint32_t bandwidth[4];
    assert_false(division_bandwidths((const uint64_t[]){0, SAID(3), SPEED(7), 0}, 4, bandwidth));
    assert_true(division_bandwidths((const uint64_t[]){LINK(100), SAID(3), LINK(201) | SPEED(7), 0}, 4, bandwidth));
    static const uint32_t expected[] = {100, 150, 201, 150};
    assert_memory_equal(bandwidth, expected, sizeof expected);
    assert_true(
        division_bandwidths((const uint64_t[]){division_says(DIVISION_SAYS_NOTHING, UINT32_MAX),
                                               division_says(division_speed(DIVISION_SPEED_MAX), UINT32_MAX), 0},
                            3, bandwidth));
    assert_int_equal(bandwidth[2], UINT32_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(division_make__any_words__lanes_of_each),
        cmocka_unit_test(division_make__any_placement__holders),
        cmocka_unit_test(division_make__what_does_not_add_up__refused_in_words),
        cmocka_unit_test(division_parse__numbers_lists_and_auto),
        cmocka_unit_test(division_bandwidth_parse__a_number_or_a_list),
        cmocka_unit_test(division_bandwidths__some_say__the_mean_of_those),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
