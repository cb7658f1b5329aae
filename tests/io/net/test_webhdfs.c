/* Targets and answers of WebHDFS. */
#include "tests/io/io_test.h"

#include "io/net/webhdfs.h"

static struct web_address address_of(const char *text)
{
    struct web_address a;
    assert_ok(web_address_parse(&a, text));
    return a;
}

static bool is_one(const char *text)
{
    const struct web_address a = address_of(text);
    return webhdfs_is(&a);
}

static void webhdfs_is__addresses__files_that_are_opened_whole(void **state)
{
    (void)state;
    assert_true(is_one("http://n:9870/webhdfs/v1/a/b?op=OPEN"));
    assert_true(is_one("http://n/webhdfs/v1/a?user.name=x&OP=open&y=1"));
    assert_false(is_one("http://n/webhdfs/v1/a"));
    assert_false(is_one("http://n/webhdfs/v1/a?op=OPENED"));
    assert_false(is_one("http://n/webhdfs/v1/a?op=OPEN&offset=5"));
    assert_false(is_one("http://n/other/webhdfs/v1/a?op=OPEN"));
}

static void webhdfs_part__status__their_targets(void **state)
{
    (void)state;
    struct web_address a = address_of("http://n/webhdfs/v1/a?user.name=x&op=OPEN&y=1"), to;
    assert_ok(webhdfs_part(&to, &a, 7, 50));
    assert_string_equal(to.target, "/webhdfs/v1/a?user.name=x&op=OPEN&y=1&offset=7&length=50");
    assert_ok(webhdfs_status(&to, &a));
    assert_string_equal(to.target, "/webhdfs/v1/a?user.name=x&op=GETFILESTATUS&y=1");
    memset(a.target + strlen(a.target), 'y', WEB_TARGET_BYTES - 10 - strlen(a.target));
    assert_fails(INVALID, "with offset and length", webhdfs_part(&to, &a, 7, 50));
}

static status status_read(const char *text, uint64_t *size, uint64_t *modified)
{
    return webhdfs_status_read(text, strlen(text), size, modified);
}

static void webhdfs_status_read__answers__size_and_time(void **state)
{
    (void)state;
    uint64_t size, modified;
    assert_ok(status_read("{\"FileStatus\": {\"blockSize\": 1, \"length\": 24930, \"type\": \"FILE\", "
                          "\"modificationTime\": 1320171722771}}",
                          &size, &modified));
    assert_true(size == 24930 && modified == 1320171722771);
    assert_fails(INVALID, "no JSON", status_read("{", &size, &modified));
    assert_fails(INVALID, "expected type FILE", status_read("{\"FileStatus\": {}}", &size, &modified));
    assert_fails(INVALID, "expected type FILE",
                 status_read("{\"FileStatus\": {\"length\": 0, \"type\": \"DIRECTORY\", \"modificationTime\": 1}}",
                             &size, &modified));
    assert_fails(INVALID, "expected type FILE",
                 status_read("{\"FileStatus\": {\"length\": -1, \"type\": \"FILE\", \"modificationTime\": 1}}", &size,
                             &modified));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(webhdfs_is__addresses__files_that_are_opened_whole),
        cmocka_unit_test(webhdfs_part__status__their_targets),
        cmocka_unit_test(webhdfs_status_read__answers__size_and_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
