/* Texts under ids: found until they are taken, their time is over, or others need the room. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "engine/serve/join.h"

static struct join *join_make(uint64_t wait_ns, size_t bytes)
{
    struct join *j;
    assert_int_equal(join_open(&j, wait_ns, bytes), ST_OK);
    return j;
}

static bool put(struct join *j, const char *id, const char *text, uint64_t now_ns)
{
    char *room = join_put(j, id, strlen(text), now_ns);
    if (room) memcpy(room, text, strlen(text));
    return room != NULL;
}

static bool is_there(struct join *j, const char *id, const char *expected, uint64_t now_ns)
{
    size_t bytes;
    const char *text = join_find(j, id, now_ns, &bytes);
    return text && bytes == strlen(expected) && memcmp(text, expected, bytes) == 0;
}

static void join__texts__are_found_until_taken(void **state)
{
    (void)state;
    struct join *j = join_make(100, 10000);
    assert_true(put(j, "a", "one", 0) && put(j, "b", "", 0) && put(j, "c", "three", 0));
    assert_true(is_there(j, "a", "one", 1) && is_there(j, "b", "", 1) && is_there(j, "c", "three", 1));
    join_take(j, "b");
    assert_false(is_there(j, "b", "", 1));
    assert_true(put(j, "a", "again", 1)); /* in place of the one before */
    assert_true(is_there(j, "a", "again", 1) && is_there(j, "c", "three", 1));
    const struct join_counts counts = join_counts(j, 1);
    assert_int_equal(counts.count, 2);
    assert_int_equal(counts.taken, 1);
    assert_int_equal(counts.expired + counts.crowded, 0);
    join_close(j);
}

static void join__time_is_over__gone(void **state)
{
    (void)state;
    struct join *j = join_make(100, 10000);
    assert_true(put(j, "a", "one", 0) && put(j, "b", "two", 50) && put(j, "a", "anew", 60));
    assert_true(is_there(j, "a", "anew", 149) && is_there(j, "b", "two", 149));
    assert_false(is_there(j, "b", "two", 150));
    assert_true(is_there(j, "a", "anew", 159));
    assert_false(is_there(j, "a", "anew", 160));
    assert_int_equal(join_counts(j, 160).expired, 2);
    assert_int_equal(join_counts(j, 160).bytes, 0);
    join_close(j);
}

static void join__no_room__the_oldest_go(void **state)
{
    (void)state;
    char id[16], large[2000];
    struct join *j = join_make(UINT64_C(1) << 40, 1500);
    memset(large, 'x', sizeof large);
    large[sizeof large - 1] = 0;
    for (int i = 0; i < 100; i++) {
        snprintf(id, sizeof id, "%d", i);
        assert_true(put(j, id, "0123456789", (uint64_t)i));
        assert_true(join_counts(j, (uint64_t)i).bytes <= 1500);
    }
    const struct join_counts counts = join_counts(j, 100);
    assert_in_range(counts.count, 5, 30);
    assert_int_equal(counts.count + counts.crowded, 100);
    assert_true(is_there(j, "99", "0123456789", 100));
    assert_false(is_there(j, "0", "0123456789", 100));
    assert_false(
        put(j, "99", large, 100)); /* larger than all may be; the one before is not what was asked with this id */
    assert_false(is_there(j, "99", "0123456789", 100));
    join_close(j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(join__texts__are_found_until_taken),
        cmocka_unit_test(join__time_is_over__gone),
        cmocka_unit_test(join__no_room__the_oldest_go),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
