/* Addresses: what texts mean, what is refused, and that text and address come back as each other. */
#include "tests/io/io_test.h"

#include "io/net/address.h"

static void address_parse__good_texts__are_addresses(void **state)
{
    (void)state;
    static const struct {
        const char *text, *back;
    } cases[] = {{"10.0.0.7:4000", "10.0.0.7:4000"},
                 {"10.0.0.7", "10.0.0.7:77"},
                 {"0.0.0.0:0", "0.0.0.0:0"},
                 {"[::1]:65535", "[::1]:65535"},
                 {"[::1]", "[::1]:77"},
                 {"::1", "[::1]:77"},
                 {"2001:db8::5", "[2001:db8::5]:77"},
                 {"[fe80::1%lo]:9", "[fe80::1%lo]:9"},
                 {"node3:4000", "10.1.2.3:4000"},
                 {"NODE3.example", "10.1.2.3:77"},
                 {"six:1", "[fd00::6]:1"},
                 {"last", "10.1.2.9:77"}};
    const char *hosts =
        test_text("hosts", "# node3 is not here\n127.0.0.1 localhost\n\n10.1.2.3\tnode3.example node3 # x\n"
                           "garbage node4\n10.9.9.9 # node5\n10.9.9.9\nfd00::6 six\r\n10.1.2.4 node3\n10.1.2.9 last");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct address a, again;
        char text[ADDRESS_TEXT_BYTES];
        assert_ok(address_parse_at(hosts, NULL, &a, cases[i].text, 77));
        assert_string_equal(address_text(text, &a), cases[i].back);
        assert_ok(address_parse(&again, text, 1));
        assert_true(address_same_host(&a, &again) && address_port(&a) == address_port(&again));
    }
}

static void address_parse__bad_texts__are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *words;
    } cases[] = {{"", "found no host"},
                 {":4000", "found no host"},
                 {"[]:4000", "found no host"},
                 {"[::1", "its [ has no ]"},
                 {"[::1]4000", "\"[::1]4000\": behind ] comes a port"},
                 {"10.0.0.7:", "expected a port of 0 to 65535, found \"\""},
                 {"10.0.0.7:65536", "found \"65536\""},
                 {"10.0.0.7:-1", "found \"-1\""},
                 {"10.0.0.7:123456", "found \"123456\""},
                 {"10.0.0.7:4x", "found \"4x\""},
                 {"10.0.0.256:1", "neither an IPv4 or IPv6 address nor a name in"},
                 {"[fe80::1%nothing]:9", "neither"},
                 {"node4", "\"node4\" is neither"},
                 {"node5:1", "add the name there"}};
    const char *hosts = test_text("hosts", "garbage node4\n10.9.9.9 # node5\n");
    struct address a;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_fails(INVALID, cases[i].words, address_parse_at(hosts, NULL, &a, cases[i].text, 77));
    assert_fails(INVALID, "neither", address_parse_at("/nowhere", NULL, &a, "node", 77));
    char text[400];
    memset(text, 'a', sizeof text);
    text[sizeof text - 1] = 0;
    assert_fails(INVALID, "at most 255 characters, found 399", address_parse_at(hosts, NULL, &a, text, 77));
}

static void address_same_host__ports_apart__is_by_host(void **state)
{
    (void)state;
    static const char *const text[] = {"10.0.0.1:1",  "10.0.0.2:1",     "[::1]:1",    "[::2]:1",
                                       "127.0.0.5:1", "[fe80::1%lo]:1", "[fe80::1]:1"};
    for (size_t i = 0; i < 7; i++)
        for (size_t k = 0; k < 7; k++) {
            struct address a, b;
            assert_ok(address_parse(&a, text[i], 0));
            assert_ok(address_parse(&b, text[k], 0));
            address_port_set(&b, 9);
            assert_int_equal(address_port(&b), 9);
            assert_int_equal(address_same_host(&a, &b), i == k);
            assert_int_equal(address_is_loopback(&a), i == 2 || i == 4);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(address_parse__good_texts__are_addresses),
        cmocka_unit_test(address_parse__bad_texts__are_refused),
        cmocka_unit_test(address_same_host__ports_apart__is_by_host),
    };
    return cmocka_run_group_tests(tests, test_directory_make, test_directory_remove) ? 1 : 0;
}
