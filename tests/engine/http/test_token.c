/* Tokens: which lines of a file are some, and which headers have one. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/http/token.h"

static char path[512];

static status tokens_of(struct tokens *t, const char *text)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
    assert_int_equal(fclose(file), 0);
    return tokens_read(t, path);
}

static void fails(const char *text, const char *words)
{
    static struct tokens t;
    assert_int_equal(tokens_of(&t, text), ST_INVALID);
    if (!strstr(status_message(), words)) fail_msg("\"%s\" lacks \"%s\"", status_message(), words);
}

static void tokens__of_a_file__are_its_lines(void **state)
{
    (void)state;
    static struct tokens t;
    char text[600];
    assert_int_equal(
        tokens_of(&t, "# a comment, which is none\n\n0123456789abcdef\r\n  spaces in front \nlast-without-end"), ST_OK);
    assert_int_equal(t.count, 3);
    assert_true(tokens_match(&t, "Bearer 0123456789abcdef"));
    assert_true(tokens_match(&t, "bearer   last-without-end"));
    assert_false(tokens_match(&t, "Bearer # a comment, which is none"));
    assert_int_equal(tokens_of(&t, "\xef\xbb\xbf"
                                   "0123456789abcdef\n"),
                     ST_OK); /* behind a byte order mark */
    assert_true(tokens_match(&t, "Bearer 0123456789abcdef"));
    snprintf(text, sizeof text, "%0256d", 7);
    assert_int_equal(tokens_of(&t, text), ST_OK);
    snprintf(text, sizeof text, "Bearer %0256d", 7);
    assert_true(tokens_match(&t, text));
    strcat(text, "0"); /* longer, and the same so far */
    assert_false(tokens_match(&t, text));
    snprintf(text, sizeof text, "%0257d", 7);
    fails(text, "1: expected a token of 16 to 256 bytes, found 257");
    fails("\n0123456789abcde\n", "2: expected a token of 16 to 256 bytes, found 15");
    fails("# nothing\n", "expected a token of 16 bytes or more on each line, found none");
}

static void tokens__headers__match_whole_tokens_alone(void **state)
{
    (void)state;
    static struct tokens t;
    assert_int_equal(tokens_of(&t, "0123456789abcdef\nfedcba9876543210\n"), ST_OK);
    static const char *const right[] = {"Bearer 0123456789abcdef", "BEARER fedcba9876543210",
                                        /* any:fedcba9876543210, :0123456789abcdef */
                                        "Basic YW55OmZlZGNiYTk4NzY1NDMyMTA=", "basic OjAxMjM0NTY3ODlhYmNkZWY="};
    static const char *const wrong[] = {
        "", "Bearer", "Bearer ", "Bearer 0123456789abcde", "Bearer 0123456789abcdeff",
        "Bearer 0123456789abcdefedcba9876543210", "0123456789abcdef", "Digest 0123456789abcdef",
        /* without a colon; the token as the name; nothing behind the colon; no base64
                                         */
        "Basic MDEyMzQ1Njc4OWFiY2RlZg==", "Basic MDEyMzQ1Njc4OWFiY2RlZjo=", "Basic Og==", "Basic !!!!", "Basic",
        "Basic "};
    for (size_t i = 0; i < sizeof right / sizeof *right; i++)
        if (!tokens_match(&t, right[i])) fail_msg("refused: %s", right[i]);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (tokens_match(&t, wrong[i])) fail_msg("let in: %s", wrong[i]);
    assert_false(tokens_match(&t, NULL));
    char text[4096] = "Basic ";
    memset(text + 6, 'A', 4000); /* longer than any pair */
    assert_false(tokens_match(&t, text));
}

static int path_make(void **state)
{
    (void)state;
    const char *parent = getenv("TMPDIR");
    snprintf(path, sizeof path, "%s/tokens.XXXXXX", parent && *parent ? parent : "/tmp");
    int fd = mkstemp(path);
    return fd < 0 ? -1 : close(fd);
}

static int path_remove(void **state)
{
    (void)state;
    return unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(tokens__of_a_file__are_its_lines),
                                       cmocka_unit_test(tokens__headers__match_whole_tokens_alone)};
    return cmocka_run_group_tests(tests, path_make, path_remove) ? 1 : 0;
}
