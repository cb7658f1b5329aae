/* Headers, greetings, slices and checks, without any socket. */
#include "tests/io/io_test.h"

#include <xxhash.h>

#include "engine/base/isa.h"
#include "io/net/frame.h"

static void frame_header__any__is_little_endian_and_comes_back(void **state)
{
    (void)state;
    const struct frame_header header = {.bytes = 0x04030201, .kind = 0x0605, .tag = UINT64_C(0x100f0e0d0c0b0a09)};
    const uint8_t expected[16] = {1, 2, 3, 4, 5, 6, 0, 0, 9, 10, 11, 12, 13, 14, 15, 16};
    struct frame_header back;
    uint8_t out[16];
    frame_header_put(out, &header);
    assert_memory_equal(out, expected, 16);
    assert_ok(frame_header_get(&back, out, UINT32_MAX));
    assert_true(back.bytes == header.bytes && back.kind == header.kind && back.tag == header.tag);
    assert_ok(frame_header_get(&back, out, header.bytes));
    assert_fails(INVALID, "expected at most 67305984 bytes, found 67305985",
                 frame_header_get(&back, out, header.bytes - 1));
    out[7] = 1;
    assert_fails(INVALID, "bytes 6 and 7", frame_header_get(&back, out, UINT32_MAX));
}

static status greeting_get(const uint8_t *in, uint64_t prologue)
{
    enum frame_seal seal;
    TRY(frame_preamble_get(in, false, &seal));
    assert_int_equal(seal, FRAME_PLAIN);
    return frame_plain_get(in, prologue);
}

static void frame_greeting__any_byte_changed__is_refused(void **state)
{
    (void)state;
    uint8_t out[64];
    frame_greeting_put(out, FRAME_PLAIN, 0x1122334455667788);
    assert_memory_equal(out, "HPSLINK\1\0\0\0\0\0\0\0\0\x88\x77\x66\x55\x44\x33\x22\x11", 24);
    assert_ok(greeting_get(out, 0x1122334455667788));
    assert_fails(INVALID, "another job", greeting_get(out, 0x1122334455667789));
    for (uint32_t i = 0; i < 64; i++)
        for (uint32_t bit = 0; bit < 8; bit++) {
            out[i] ^= (uint8_t)(1 << bit);
            assert_fails(INVALID,
                         i < 7    ? "is no node"
                         : i == 7 ? "version"
                         : i == 8 ? bit < 2 ? "has a key" : "in an unknown way"
                         : i < 16 ? "expected 0"
                         : i < 24 ? "another job"
                                  : "expected 0",
                         greeting_get(out, 0x1122334455667788));
            out[i] ^= (uint8_t)(1 << bit);
        }
}

static void frame_slice__any_cut__are_the_bytes(void **state)
{
    (void)state;
    uint8_t bytes[100], found[100];
    uint64_t random = 3;
    for (uint32_t i = 0; i < 100; i++) bytes[i] = (uint8_t)i;
    for (uint32_t round = 0; round < 20000; round++) {
        struct iovec part[6], out[6];
        uint32_t at = 0, got = 0;
        for (uint32_t i = 0; i < 6; i++) {
            uint32_t here = i == 5 ? 100 - at : (uint32_t)(test_random(&random) % 40 % (101 - at));
            part[i] = (struct iovec){bytes + at, here};
            at += here;
        }
        const uint32_t offset = (uint32_t)(test_random(&random) % 100), max = (uint32_t)(test_random(&random) % 7);
        const uint32_t wanted = (uint32_t)(test_random(&random) % (101 - offset));
        bool is_whole;
        uint32_t count = frame_slice(part, 6, offset, wanted, out, max, &is_whole);
        assert_true(count <= max);
        for (uint32_t i = 0; i < count; i++) {
            assert_true(out[i].iov_len > 0);
            memcpy(found + got, out[i].iov_base, out[i].iov_len);
            got += (uint32_t)out[i].iov_len;
        }
        assert_int_equal(is_whole, got == wanted);
        assert_true(is_whole || count == max);
        assert_memory_equal(found, bytes + offset, got);
    }
}

static void frame_check__every_isa_and_cut__is_xxh3_of_the_bytes(void **state)
{
    (void)state;
    static uint8_t bytes[FRAME_PIECE_BYTES + 1];
    uint64_t random = 8;
    for (uint32_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)test_random(&random);
    for (const char *const *isa = isa_io_names; *isa; isa++) {
        frame_check *check = frame_check_of(*isa);
        if (check == NULL) continue;
        for (uint32_t round = 0; round < 300; round++) {
            const uint64_t number = test_random(&random) >> round % 64;
            const uint32_t begin = round % 2,
                           whole = (uint32_t)(test_random(&random) % (round < 200 ? 600 : FRAME_PIECE_BYTES));
            const uint32_t cut = whole ? (uint32_t)(test_random(&random) % whole) : 0;
            const struct iovec parts[] = {{bytes + begin, cut}, {bytes, 0}, {bytes + begin + cut, whole - cut}},
                               one = {bytes + begin, whole};
            const uint64_t expected = XXH3_64bits_withSeed(bytes + begin, whole, number);
            assert_true(check(number, parts, 3) == expected);
            assert_true(check(number, &one, 1) == expected);
        }
    }
}

static void frame_pieces__sizes__add_up(void **state)
{
    (void)state;
    static const struct {
        uint32_t bytes, count, last;
    } cases[] = {{0, 0, 0},     {1, 1, 1},          {65536, 1, 65536},
                 {65537, 2, 1}, {131072, 2, 65536}, {UINT32_MAX, 65536, 65535}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(frame_piece_count(cases[i].bytes), cases[i].count);
        if (cases[i].count) assert_int_equal(frame_piece_bytes(cases[i].bytes, cases[i].count - 1), cases[i].last);
        assert_true(frame_body_bytes(cases[i].bytes, 16) == cases[i].bytes + UINT64_C(16) * cases[i].count);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frame_header__any__is_little_endian_and_comes_back),
        cmocka_unit_test(frame_greeting__any_byte_changed__is_refused),
        cmocka_unit_test(frame_slice__any_cut__are_the_bytes),
        cmocka_unit_test(frame_check__every_isa_and_cut__is_xxh3_of_the_bytes),
        cmocka_unit_test(frame_pieces__sizes__add_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
