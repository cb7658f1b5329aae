/* Places of the web: what an address is, what is none, where answers send, and what they say of bytes. */
#include "tests/io/io_test.h"

#include "io/net/web_address.h"

static void web_address_parse__addresses__host_and_target(void **state)
{
    (void)state;
    static const struct {
        const char *text, *host, *target, *shown;
    } cases[] = {
        {"http://a", "a", "/", "http://a/"},
        {"HTTP://a:81/x/y.tsv", "a:81", "/x/y.tsv", "http://a:81/x/y.tsv"},
        {"http://[fd00::1]:81/b/k?X-Sig=a%2Cb&t=1#part", "[fd00::1]:81", "/b/k?X-Sig=a%2Cb&t=1",
         "http://[fd00::1]:81/b/k"},
        {"http://a:/x", "a", "/x", "http://a/x"},
        {"http://a:65535/x", "a:65535", "/x", "http://a:65535/x"},
        {"http://[fd00::1]:/x", "[fd00::1]", "/x", "http://[fd00::1]/x"},
        {"http://[fd00::1]/x", "[fd00::1]", "/x", "http://[fd00::1]/x"},
        {"http://a?q=1", "a", "/?q=1", "http://a/"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct web_address a;
        char shown[WEB_SHOWN_BYTES];
        assert_ok(web_address_parse(&a, cases[i].text));
        assert_string_equal(a.host, cases[i].host);
        assert_string_equal(a.target, cases[i].target);
        assert_string_equal(web_address_shown(shown, &a), cases[i].shown);
    }
}

static void web_address_parse__others__are_refused_without_their_secrets(void **state)
{
    (void)state;
    struct web_address a;
    char text[WEB_TARGET_BYTES + 100] = "http://host/";
    assert_fails(INVALID, "proxy_pass https://host:8443;", web_address_parse(&a, "https://host:8443/x?secret=1"));
    assert_null(strstr(status_message(), "secret"));
    assert_fails(INVALID, "begins with http://", web_address_parse(&a, "gopher://host/x"));
    assert_fails(INVALID, "s3://b/k: this program reads files and http://", web_address_parse(&a, "s3://b/k?secret=1"));
    assert_fails(INVALID, "give its WebHDFS address", web_address_parse(&a, "HDFS://host/x"));
    assert_fails(INVALID, "found no host", web_address_parse(&a, "http:///x"));
    assert_fails(INVALID, "a name and a password", web_address_parse(&a, "http://me:secret@host/x"));
    assert_null(strstr(status_message(), "secret"));
    assert_fails(INVALID, "a name and a password", web_address_parse(&a, "https://me:secret@host/x"));
    assert_null(strstr(status_message(), "secret"));
    static const char *const ports[] = {"99999", "65536", "0", "8x", "-1", "000080"};
    for (size_t i = 0; i < sizeof ports / sizeof *ports; i++) {
        snprintf(text, sizeof text, "http://host:%s/x", ports[i]);
        assert_fails(INVALID, "expected a port of 1 to 65535", web_address_parse(&a, text));
    }
    snprintf(text, sizeof text, "http://host/");
    assert_fails(INVALID, "found no host", web_address_parse(&a, "http://:80/x"));
    assert_fails(INVALID, "found no host", web_address_parse(&a, "http://[]:80/x"));
    assert_fails(INVALID, "http://[fd00::1/x: its [ has no ]", web_address_parse(&a, "http://[fd00::1/x"));
    assert_fails(INVALID, "behind ] comes a port", web_address_parse(&a, "http://[fd00::1]80/x"));
    assert_fails(INVALID, "blanks", web_address_parse(&a, "http://host/a b"));
    assert_fails(INVALID, "control characters", web_address_parse(&a, "http://host/a\r\nX: y"));
    assert_fails(INVALID, "control characters in a host", web_address_parse(&a, "http://ho\nst/a"));
    memset(text + 12, 'a', WEB_TARGET_BYTES);
    assert_fails(INVALID, "a path and query of at most 8190 bytes", web_address_parse(&a, text));
    memset(text + 7, 'h', 300);
    assert_fails(INVALID, "a host of at most 271 bytes", web_address_parse(&a, text));
}

/* The longest that fit, and one byte more. */
static void web_address_parse__bounds__to_the_byte(void **state)
{
    (void)state;
    static char text[2 * WEB_TARGET_BYTES];
    char message[512];
    struct web_address a, from;
    assert_ok(web_address_parse(&a, "http://h:1/!~"));
    assert_ok(web_address_parse(&a, "http://h:65535"));
    assert_fails(INVALID, "http://h/a?b: expected no blanks", web_address_parse(&a, "http://h/a\177b"));
    int bytes = snprintf(text, sizeof text, "http://%0271d/", 0);
    assert_ok(web_address_parse(&a, text));
    assert_int_equal(strlen(a.host), WEB_HOST_BYTES - 1);
    snprintf(text, sizeof text, "http://%0272d/", 0);
    snprintf(message, sizeof message, "http://%0189d: expected a host of at most 271 bytes, found 272", 0);
    assert_fails(INVALID, message, web_address_parse(&a, text));
    bytes = snprintf(text, sizeof text, "http://h/%0*d", (int)WEB_TARGET_BYTES - 2, 0);
    assert_ok(web_address_parse(&a, text));
    assert_int_equal(strlen(a.target), WEB_TARGET_BYTES - 1);
    memcpy(text + bytes, "0", 2);
    assert_fails(INVALID, "found 8192", web_address_parse(&a, text));
    memcpy(text + bytes, "#fragment", 10);
    assert_ok(web_address_parse(&a, text));
    snprintf(text, sizeof text, "http://h?%0*d", (int)WEB_TARGET_BYTES - 3, 0); /* before which comes a slash */
    assert_ok(web_address_parse(&a, text));
    assert_int_equal(strlen(a.target), WEB_TARGET_BYTES - 1);
    snprintf(text, sizeof text, "http://h?%0*d", (int)WEB_TARGET_BYTES - 2, 0);
    assert_fails(INVALID, "found 8191", web_address_parse(&a, text));
    /* Beside a target. */
    assert_ok(web_address_parse(&from, "http://h/x"));
    snprintf(text, sizeof text, "%0*d", (int)WEB_TARGET_BYTES - 2, 0);
    assert_ok(web_address_follow(&a, &from, text));
    assert_int_equal(strlen(a.target), WEB_TARGET_BYTES - 1);
    snprintf(text, sizeof text, "%0*d", (int)WEB_TARGET_BYTES - 1, 0);
    assert_fails(INVALID, "http://…: expected a path and query of at most 8190 bytes, found 8192",
                 web_address_follow(&a, &from, text));
    snprintf(text, sizeof text, "%0*d", (int)WEB_TARGET_BYTES, 0);
    assert_fails(INVALID, "expected a path of at most 8191 bytes, found 8192", web_address_follow(&a, &from, text));
    /* A host that a message has no room for is cut there. */
    snprintf(text, sizeof text, "https://%0250d/", 0);
    snprintf(message, sizeof message, "proxy_pass https://%0200d; }", 0);
    assert_fails(INVALID, message, web_address_parse(&a, text));
}

static void web_address_follow__locations__from_where_they_are(void **state)
{
    (void)state;
    static const struct {
        const char *location, *host, *target;
    } cases[] = {
        {"http://b:1/z?q", "b:1", "/z?q"},
        {"//b/z", "b", "/z"},
        {"/z?q", "a", "/z?q"},
        {"z?q", "a", "/x/z?q"},
        {"", "a", "/x/"},
        {"?token=1", "a", "/x/y?token=1"},
        {"http://b", "b", "/"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct web_address a;
        assert_ok(web_address_parse(&a, "http://a/x/y?p=/not/this"));
        assert_ok(web_address_follow(&a, &a, cases[i].location));
        assert_string_equal(a.host, cases[i].host);
        assert_string_equal(a.target, cases[i].target);
    }
    struct web_address a;
    assert_ok(web_address_parse(&a, "http://a/x"));
    assert_fails(INVALID, "does not speak https", web_address_follow(&a, &a, "https://a/x"));
    assert_fails(INVALID, "blanks", web_address_follow(&a, &a, "/a b"));
    assert_string_equal(a.target, "/x");
}

static void web_range_parse__texts__bytes_or_none(void **state)
{
    (void)state;
    struct web_range r;
    assert_true(web_range_parse(&r, "bytes 5-9/10") && !r.is_none && r.first == 5 && r.last == 9 && r.total == 10);
    assert_true(web_range_parse(&r, " Bytes  0-0/999999999999999999 ") && r.total == 999999999999999999);
    assert_true(web_range_parse(&r, "bytes */0") && r.is_none && r.total == 0);
    static const char *const none[] = {
        "",           "bytes",      "bytes 5-10/10", "bytes 6-5/10", "bytes 0-1/*", "items 0-1/2",
        "bytes -1/2", "bytes 0-/2", "bytes 0-1/2x",  "bytes *-1/2",  "bytes 0-1",   "bytes 0-1/9999999999999999999"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) assert_false(web_range_parse(&r, none[i]));
    assert_false(web_range_parse(&r, NULL));
    uint64_t length;
    assert_true(web_length_parse(&length, " 17 ") && length == 17);
    assert_false(web_length_parse(&length, "-1") || web_length_parse(&length, "1,1") ||
                 web_length_parse(&length, NULL));
}

static void web_date_parse__texts__seconds_or_none(void **state)
{
    (void)state;
    int64_t seconds;
    assert_true(web_date_parse(&seconds, "Sun, 06 Nov 1994 08:49:37 GMT") && seconds == 784111777);
    assert_true(web_date_parse(&seconds, " Thu, 01 Jan 1970 00:00:00 GMT ") && seconds == 0);
    static const char *const none[] = {"",
                                       "now",
                                       "784111777",
                                       "Sun, 06 Nov 1994 08:49:37",
                                       "Sun, 06 Nov 1994",
                                       "Sun, 06 Nov 1994 08:49:37 GMT+1",
                                       "Sunday, 06-Nov-94 08:49:37 GMT",
                                       "Sun, 46 Nov 1994 08:49:37 GMT"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) assert_false(web_date_parse(&seconds, none[i]));
    assert_false(web_date_parse(&seconds, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(web_address_parse__addresses__host_and_target),
        cmocka_unit_test(web_address_parse__others__are_refused_without_their_secrets),
        cmocka_unit_test(web_address_parse__bounds__to_the_byte),
        cmocka_unit_test(web_address_follow__locations__from_where_they_are),
        cmocka_unit_test(web_range_parse__texts__bytes_or_none),
        cmocka_unit_test(web_date_parse__texts__seconds_or_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
