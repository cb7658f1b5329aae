/* What is said of nodes and links: nothing of a node or link that is well; of each that is not, its
 * sentence, at the line it belongs to. */
#include "tests/io/io_test.h"

#include "engine/run/doctor_links.h"

#define NODES 4u
#define PAIRS (NODES * (NODES - 1) / 2)
#define GIGA  1e9

static struct doctor_node nodes[NODES];
static struct doctor_pair pairs[PAIRS];
static struct doctor_line lines[NODES + PAIRS + 1];
static uint32_t line_count;

static void keep(void *context, const struct doctor_line *line)
{
    (void)context;
    assert_true(line_count < NODES + PAIRS);
    lines[line_count++] = *line;
}

/* Four nodes that are well. */
static int start(void **state)
{
    (void)state;
    memset(nodes, 0, sizeof nodes);
    memset(pairs, 0, sizeof pairs);
    for (uint32_t i = 0; i < NODES; i++) {
        nodes[i] = (struct doctor_node){.is_in = true,
                                        .place = "10.0.0.1:4711",
                                        .host = "a",
                                        .version = "1",
                                        .isa = "avx2",
                                        .cores = 8,
                                        .files = 1024};
    }
    for (uint32_t i = 0; i < PAIRS; i++) {
        pairs[i] = (struct doctor_pair){.is_linked = true,
                                        .is_measured = true,
                                        .path = {.seal = FRAME_AESGCM, .mtu_bytes = 1500, .segment_bytes = 1448},
                                        .echo_ns = 50000,
                                        .echo_least_ns = 40000,
                                        .bytes_a_s = {GIGA, GIGA, GIGA / 2}};
        assert_ok(address_parse(&pairs[i].path.own, "10.0.0.2:50000", 0));
        assert_ok(address_parse(&pairs[i].path.peer, "10.0.0.1:4711", 0));
    }
    return 0;
}

static void look(void)
{
    line_count = 0;
    doctor_links_look(&(struct doctor_links){.node_count = NODES, .wait_s = 20, .nodes = nodes, .pairs = pairs}, keep,
                      NULL);
}

/* The line of `what` says so, and all other lines say nothing. */
static void assert_alone(const char *what, enum doctor_state state, const char *todo)
{
    look();
    bool is_there = false;
    for (uint32_t i = 0; i < line_count; i++) {
        const bool is_it = strcmp(lines[i].what, what) == 0;
        is_there |= is_it;
        if (is_it && lines[i].state == state && strstr(lines[i].todo, todo)) continue;
        if (is_it || *lines[i].todo || lines[i].state != DOCTOR_OK)
            fail_msg("%s: state %d: %s", lines[i].what, (int)lines[i].state, lines[i].todo);
    }
    assert_true(is_there);
}

static struct doctor_pair *pair(uint32_t low, uint32_t high) { return &pairs[doctor_pair_at(low, high)]; }

static void links__that_are_well__are_a_line_each(void **state)
{
    (void)state;
    char node_header[DOCTOR_HEADER_BYTES], link_header[DOCTOR_HEADER_BYTES];
    assert_alone("node 1 - node 0", DOCTOR_OK, "");
    assert_int_equal(line_count, NODES + PAIRS);
    assert_string_equal(lines[NODES + PAIRS - 1].what, "node 3 - node 2");
    assert_string_equal(
        lines[NODES].found,
        "10.0.0.2:50000 > 10.0.0.1:4711                AES-GCM     1500    50.0 µs         954 MiB/s    954 MiB/s    "
        "477 MiB/s     +0 ns ± 20.0 µs");
    doctor_links_headers(node_header, link_header);
    assert_int_equal(strstr(link_header, "MTU") - link_header, strstr(lines[NODES].found, "1500") - lines[NODES].found);
    assert_int_equal(strstr(node_header, "instr") - node_header, strstr(lines[0].found, "avx2") - lines[0].found);
}

static void a_pair__that_is_not_linked__says_who_does_not_reach_whom(void **state)
{
    (void)state;
    *pair(1, 3) = (struct doctor_pair){.why = "10.0.0.1:4711: cannot connect: Connection refused"};
    assert_alone(
        "node 3 - node 1", DOCTOR_FAIL,
        "node 3 does not reach node 1: 10.0.0.1:4711: cannot connect: Connection refused; is that the address");
    *pair(1, 3) = (struct doctor_pair){.is_linked = true};
    assert_alone("node 3 - node 1", DOCTOR_FAIL, "not measured");
}

static void a_node__that_has_not_come__is_one_fault_and_its_pairs_none(void **state)
{
    (void)state;
    nodes[2].is_in = false;
    for (uint32_t i = 0; i < NODES; i++)
        if (i != 2) *pair(i < 2 ? i : 2, i < 2 ? 2 : i) = (struct doctor_pair){.is_linked = false};
    assert_alone("node 2", DOCTOR_FAIL, "has not come within 20 s; is it started, with --rank 2");
    assert_int_equal(line_count, NODES + PAIRS - 3);
    snprintf(nodes[2].why, sizeof nodes[2].why, "the verb is train there");
    assert_alone("node 2", DOCTOR_FAIL, "within 20 s: the verb is train there; is it");
}

static void a_slow_pair__is_found_beside_the_others(void **state)
{
    (void)state;
    for (uint32_t way = 0; way < DOCTOR_WAY_COUNT; way++) pair(0, 2)->bytes_a_s[way] = 0.45 * GIGA;
    assert_alone("node 2 - node 0", DOCTOR_WARN,
                 "slow: 429 MiB/s, where half of the other links have 954 MiB/s or more");
    for (uint32_t way = 0; way < DOCTOR_WAY_COUNT; way++) pair(0, 2)->bytes_a_s[way] = 0.55 * GIGA;
    assert_alone("node 2 - node 0", DOCTOR_OK, "");
}

static void slow_pairs__are_found_though_all_are(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < PAIRS; i++) pairs[i].bytes_a_s[0] = pairs[i].bytes_a_s[1] = 12e6;
    look();
    for (uint32_t i = NODES; i < line_count; i++)
        assert_non_null(strstr(lines[i].todo, "slow: 11.4 MiB/s is less than a network of 1 Gbit/s gives"));
}

static void a_pair__with_one_slow_way__says_which(void **state)
{
    (void)state;
    pair(1, 2)->bytes_a_s[DOCTOR_TO_LOW] = 4 * GIGA;
    pair(1, 2)->bytes_a_s[DOCTOR_TO_HIGH] = 1.5 * GIGA;
    assert_alone("node 2 - node 1", DOCTOR_WARN,
                 "node 2 gets 1.40 GiB/s from node 1, and the other way goes 3.73 GiB/s");
    pair(1, 2)->bytes_a_s[DOCTOR_TO_LOW] = 1.5 * GIGA;
    pair(1, 2)->bytes_a_s[DOCTOR_TO_HIGH] = 4 * GIGA;
    assert_alone("node 2 - node 1", DOCTOR_WARN, "node 1 gets 1.40 GiB/s from node 2");
}

static void paths_and_times__are_judged(void **state)
{
    (void)state;
    pair(0, 3)->path.mtu_bytes = 1280;
    assert_alone("node 3 - node 0", DOCTOR_WARN, "packets of at most 1280 bytes pass");
    pair(0, 3)->path.mtu_bytes = 0; /* not known */
    assert_alone("node 3 - node 0", DOCTOR_OK, "");
    pair(0, 3)->echo_ns = 2100000;
    assert_alone("node 3 - node 0", DOCTOR_WARN, "far: ");
    pair(0, 3)->echo_ns = 1900000;
    pair(0, 3)->ahead_ns = 3 * INT64_C(1000000000);
    assert_alone("node 3 - node 0", DOCTOR_WARN, "the clock of node 3 is 3.00 s behind");
    assert_non_null(strstr(lines[NODES + doctor_pair_at(0, 3)].found, "-3.00 s ± 20.0 µs"));
    pair(0, 3)->ahead_ns = -3 * INT64_C(1000000000);
    assert_alone("node 3 - node 0", DOCTOR_WARN, "the clock of node 0 is 3.00 s behind");
    pair(0, 3)->ahead_ns = INT64_C(1000000000); /* it may be less than a second */
    assert_alone("node 3 - node 0", DOCTOR_OK, "");
}

static void nodes__with_few_files_or_other_instructions__are_told(void **state)
{
    (void)state;
    nodes[1].files = 64;
    assert_alone("node 1", DOCTOR_FAIL, "links take up to 96; raise the limit (ulimit -n)");
    nodes[1].files = 96;
    snprintf(nodes[3].isa, sizeof nodes[3].isa, "avx512");
    assert_alone(
        "node 3", DOCTOR_WARN,
        "all nodes of a training take the same instruction set, and others have no more than avx2: give --isa avx2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(links__that_are_well__are_a_line_each, start),
        cmocka_unit_test_setup(a_pair__that_is_not_linked__says_who_does_not_reach_whom, start),
        cmocka_unit_test_setup(a_node__that_has_not_come__is_one_fault_and_its_pairs_none, start),
        cmocka_unit_test_setup(a_slow_pair__is_found_beside_the_others, start),
        cmocka_unit_test_setup(slow_pairs__are_found_though_all_are, start),
        cmocka_unit_test_setup(a_pair__with_one_slow_way__says_which, start),
        cmocka_unit_test_setup(paths_and_times__are_judged, start),
        cmocka_unit_test_setup(nodes__with_few_files_or_other_instructions__are_told, start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
