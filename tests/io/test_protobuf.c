/* Fields as the encoding has them: numbers and bytes worked out by hand,
 * from the examples of its description. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "io/protobuf.h"

static void check(struct protobuf *p, const char *expected, size_t bytes)
{
    assert_false(p->is_cut);
    assert_int_equal(p->bytes, bytes);
    assert_memory_equal(p->data, expected, bytes);
    protobuf_clear(p);
}
#define CHECK_BYTES(p, text) check(p, text, sizeof(text) - 1)

static void protobuf__numbers__are_varints_and_words(void **state)
{
    (void)state;
    struct protobuf p = {0};
    protobuf_u64(&p, 1, 150);
    CHECK_BYTES(&p, "\x08\x96\x01");
    protobuf_u64(&p, 1, 0);
    protobuf_u64(&p, 15, 127);
    protobuf_u64(&p, 16, 128);
    CHECK_BYTES(&p, "\x08\x00\x78\x7f\x80\x01\x80\x01");
    protobuf_u64(&p, 2, (uint64_t)-2);
    CHECK_BYTES(&p, "\x10\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01");
    protobuf_f32(&p, 2, 1.0f);
    protobuf_f64(&p, 1, -2.0);
    CHECK_BYTES(&p, "\x15\x00\x00\x80\x3f\x09\x00\x00\x00\x00\x00\x00\x00\xc0");
    protobuf_free(&p);
    assert_true(p.data == NULL && p.bytes == 0);
}

static void protobuf__bytes__have_their_length(void **state)
{
    (void)state;
    struct protobuf p = {0}, inner = {0};
    protobuf_text(&p, 2, "testing");
    CHECK_BYTES(&p, "\x12\x07testing");
    protobuf_u64(&inner, 1, 150);
    protobuf_message(&p, 3, &inner);
    protobuf_append(&p, &inner);
    protobuf_text(&p, 4, "");
    CHECK_BYTES(&p, "\x1a\x03\x08\x96\x01\x08\x96\x01\x22\x00");
    uint8_t *room = protobuf_room(&p, 1, 300);
    assert_non_null(room);
    memset(room, 0, 300);
    assert_int_equal(p.bytes, 303);
    assert_memory_equal(p.data, "\x0a\xac\x02\x00", 4);
    protobuf_free(&p);
    protobuf_free(&inner);
}

static void protobuf__no_memory__is_kept(void **state)
{
    (void)state;
    struct protobuf p = {0}, outer = {0};
    assert_null(protobuf_room(&p, 1, SIZE_MAX - 2)); /* with what is there more than can be counted */
    assert_true(p.is_cut);
    protobuf_u64(&p, 1, 1);
    assert_true(p.is_cut);
    protobuf_message(&outer, 1, &p);
    assert_true(outer.is_cut);
    protobuf_free(&p);
    protobuf_free(&outer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(protobuf__numbers__are_varints_and_words),
        cmocka_unit_test(protobuf__bytes__have_their_length),
        cmocka_unit_test(protobuf__no_memory__is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
