/* Lists of hosts: what is taken, and what is refused in which words. */
#include "tests/io/io_test.h"

#include "engine/node/hosts.h"

static status parse(struct hosts *hosts, const char *text) { return hosts_parse(hosts, "--hosts", text, strlen(text)); }

static void hosts_parse__list__is_in_order_of_ranks(void **state)
{
    (void)state;
    static struct hosts h;
    assert_ok(parse(&h, "a,anna@b.example:2222,[fd00::2]:22,anna@[fd00::3],fd00::4,a"));
    assert_int_equal(h.count, 6);
    const struct host expected[] = {{"", "a", 0},           {"anna", "b.example", 2222}, {"", "fd00::2", 22},
                                    {"anna", "fd00::3", 0}, {"", "fd00::4", 0},          {"", "a", 0}};
    for (uint32_t i = 0; i < 6; i++) {
        assert_string_equal(h.host[i].user, expected[i].user);
        assert_string_equal(h.host[i].name, expected[i].name);
        assert_int_equal(h.host[i].port, expected[i].port);
    }
}

static void hosts_parse__file__has_remarks(void **state)
{
    (void)state;
    static struct hosts h;
    assert_ok(parse(&h, "# a, b\na # the first\n\n  b#the second\r\n#c"));
    assert_int_equal(h.count, 2);
    assert_string_equal(h.host[1].name, "b");
}

static void hosts_parse__what_is_wrong__is_refused(void **state)
{
    (void)state;
    static struct hosts h;
    char many[65 * 4 + 1] = "", lengthy[400];
    for (int i = 0; i < 65; i++) strcat(many, "abc,");
    memset(lengthy, 'a', sizeof lengthy);
    assert_fails(USAGE, "expected hosts", parse(&h, ""));
    assert_fails(USAGE, "expected hosts", parse(&h, " ,\n# a"));
    assert_fails(USAGE, "at most 64 hosts", parse(&h, many));
    assert_fails(USAGE, "it is too long", hosts_parse(&h, "--hosts", lengthy, sizeof lengthy));
    assert_fails(USAGE, "byte 0", hosts_parse(&h, "--hosts", "a\0b", 3));
    for (const char *const *text = (const char *const[]){"-a", "b,-a", "-a@b", "a@-b", "a@[-b::]", NULL}; *text; text++)
        assert_fails(USAGE, "flag", parse(&h, *text));
    assert_fails(USAGE, "the port is a number", parse(&h, "a:0"));
    assert_fails(USAGE, "the port is a number", parse(&h, "a:65536"));
    assert_fails(USAGE, "the port is a number", parse(&h, "a:"));
    assert_fails(USAGE, "[ has no ]", parse(&h, "[fd00::2"));
    assert_fails(USAGE, "behind ] comes a port", parse(&h, "[fd00::2]22"));
    assert_fails(USAGE, "of IPv6", parse(&h, "[a]"));
    assert_fails(USAGE, "the user's name", parse(&h, "@a"));
    assert_fails(USAGE, "the user's name", parse(&h, "a;b@c"));
    for (const char *const *text = (const char *const[]){"a;b", "$(a)", "a'b", "a/b", "a@", "a\\b", "\"a\"", NULL};
         *text; text++)
        assert_fails(USAGE, "a host's name has", parse(&h, *text));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hosts_parse__list__is_in_order_of_ranks),
        cmocka_unit_test(hosts_parse__file__has_remarks),
        cmocka_unit_test(hosts_parse__what_is_wrong__is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
