/* Places of nodes, from flags: what is taken, and what is refused in which words. */
#include "tests/io/io_test.h"

#include "engine/node/place.h"

static void place_parse__list__is_in_order_of_ranks(void **state)
{
    (void)state;
    struct node_place p = {.listen_fd = -1};
    char text[ADDRESS_TEXT_BYTES];
    assert_ok(place_parse(&p, "10.0.0.1:5000,[fd00::2]:5001,10.0.0.3", 1));
    assert_int_equal(p.count, 3);
    assert_int_equal(p.rank, 1);
    assert_string_equal(address_text(text, &p.address[0]), "10.0.0.1:5000");
    assert_string_equal(address_text(text, &p.address[1]), "[fd00::2]:5001");
    assert_string_equal(address_text(text, &p.address[2]), "10.0.0.3:4711");
    assert_ok(place_parse(&p, "10.0.0.1", 0)); /* one node is a job, too */
    assert_int_equal(p.count, 1);
}

static void place_parse__what_is_wrong__is_refused(void **state)
{
    (void)state;
    struct node_place p;
    char many[65 * 16] = "";
    assert_fails(USAGE, "--rank: expected 0 to 1", place_parse(&p, "10.0.0.1,10.0.0.2", 2));
    assert_fails(USAGE, "found none", place_parse(&p, "10.0.0.1,10.0.0.2", PLACE_RANK_NONE));
    assert_fails(USAGE, "found \"\" as number 0", place_parse(&p, "", 0));
    assert_fails(USAGE, "found \"\" as number 1", place_parse(&p, "10.0.0.1,", 0));
    assert_fails(USAGE, "10.0.0.1:4711 is there twice", place_parse(&p, "10.0.0.1,10.0.0.1:4711", 0));
    assert_int_equal(place_parse(&p, "10.0.0.1:0x5", 0), ST_INVALID);
    for (int i = 0; i < 65; i++) snprintf(many + strlen(many), 16, "%s10.0.0.%d", i ? "," : "", i + 1);
    assert_fails(USAGE, "at most 64 nodes", place_parse(&p, many, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(place_parse__list__is_in_order_of_ranks),
        cmocka_unit_test(place_parse__what_is_wrong__is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
