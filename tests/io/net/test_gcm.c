/* AES-256-GCM by every way that runs here, against another library's and a published case,
 * and what must be refused. */
#include "tests/io/io_test.h"

#include <sodium.h>

#include "io/net/gcm.h"

#define MOST 70000u

static uint8_t plain[MOST], sealed[MOST], other[MOST], back[MOST];

static int start(void **state)
{
    (void)state;
    if (sodium_init() < 0) return -1;
    randombytes_buf(plain, sizeof plain);
    return 0;
}

/* Case 16 of "The Galois/Counter Mode of Operation", McGrew and Viega: 60 bytes, and 20 that are seen. */
static void gcm_seal__published_case__its_bytes(void **state)
{
    (void)state;
    static const uint8_t secret[32] = {0xfe, 0xff, 0xe9, 0x92, 0x86, 0x65, 0x73, 0x1c, 0x6d, 0x6a, 0x8f,
                                       0x94, 0x67, 0x30, 0x83, 0x08, 0xfe, 0xff, 0xe9, 0x92, 0x86, 0x65,
                                       0x73, 0x1c, 0x6d, 0x6a, 0x8f, 0x94, 0x67, 0x30, 0x83, 0x08};
    static const uint8_t nonce[12] = {0xca, 0xfe, 0xba, 0xbe, 0xfa, 0xce, 0xdb, 0xad, 0xde, 0xca, 0xf8, 0x88};
    static const uint8_t seen[20] = {0xfe, 0xed, 0xfa, 0xce, 0xde, 0xad, 0xbe, 0xef, 0xfe, 0xed,
                                     0xfa, 0xce, 0xde, 0xad, 0xbe, 0xef, 0xab, 0xad, 0xda, 0xd2};
    static const uint8_t text[60] = {0xd9, 0x31, 0x32, 0x25, 0xf8, 0x84, 0x06, 0xe5, 0xa5, 0x59, 0x09, 0xc5,
                                     0xaf, 0xf5, 0x26, 0x9a, 0x86, 0xa7, 0xa9, 0x53, 0x15, 0x34, 0xf7, 0xda,
                                     0x2e, 0x4c, 0x30, 0x3d, 0x8a, 0x31, 0x8a, 0x72, 0x1c, 0x3c, 0x0c, 0x95,
                                     0x95, 0x68, 0x09, 0x53, 0x2f, 0xcf, 0x0e, 0x24, 0x49, 0xa6, 0xb5, 0x25,
                                     0xb1, 0x6a, 0xed, 0xf5, 0xaa, 0x0d, 0xe6, 0x57, 0xba, 0x63, 0x7b, 0x39};
    static const uint8_t expected[16] = {0x52, 0x2d, 0xc1, 0xf0, 0x99, 0x56, 0x7d, 0x07};
    static const uint8_t expected_tag[16] = {0x76, 0xfc, 0x6e, 0xce, 0x0f, 0x4e, 0x17, 0x68,
                                             0xcd, 0xdf, 0x88, 0x53, 0xbb, 0x2d, 0x55, 0x1b};
    for (enum gcm_way way = 0; way < GCM_WAYS; way++) {
        struct gcm_key key;
        uint8_t tag[16];
        if (!gcm_way_runs(way)) continue;
        gcm_key_set(&key, way, secret);
        gcm_seal(&key, nonce, seen, sizeof seen, text, sealed, sizeof text, tag);
        assert_memory_equal(sealed, expected, 8);
        assert_memory_equal(tag, expected_tag, 16);
    }
}

/* Of any length, in place too, with and without what is seen. */
static void gcm__every_way__what_another_library_says(void **state)
{
    (void)state;
    uint32_t ways = 0;
    if (!crypto_aead_aes256gcm_is_available()) skip();
    for (enum gcm_way way = 0; way < GCM_WAYS; way++) {
        if (!gcm_way_runs(way)) continue;
        ways++;
        for (uint32_t i = 0; i < 700; i++) {
            const size_t bytes = i < 400 ? i : i < 699 ? randombytes_uniform(MOST) : MOST;
            const size_t seen_bytes = i % 3 == 0 ? 0 : randombytes_uniform(130);
            uint8_t secret[32], nonce[12], tag[16], other_tag[16];
            const uint8_t *seen = seen_bytes ? plain + 7 : NULL, *in = bytes ? plain : NULL;
            struct gcm_key key;
            randombytes_buf(secret, sizeof secret);
            randombytes_buf(nonce, sizeof nonce);
            gcm_key_set(&key, way, secret);
            memset(tag, 0, sizeof tag);
            gcm_seal(&key, nonce, seen, seen_bytes, in, sealed, bytes, tag);
            crypto_aead_aes256gcm_encrypt_detached(other, other_tag, NULL, in, bytes, seen, seen_bytes, NULL, nonce,
                                                   secret);
            assert_memory_equal(sealed, other, bytes);
            assert_memory_equal(tag, other_tag, 16);
            memcpy(back, plain, bytes);
            gcm_seal(&key, nonce, seen, seen_bytes, back, back, bytes, tag);
            assert_memory_equal(back, other, bytes);
            assert_true(gcm_open(&key, nonce, seen, seen_bytes, back, back, bytes, other_tag));
            assert_memory_equal(back, plain, bytes);
        }
    }
    printf("# ways that run here: %u\n", ways);
    assert_true(ways > 0);
}

/* A bit of the tag, of what is sealed, of what is seen or of the nonce is another:
 * refused, and nothing is left. */
static void gcm_open__another_bit__refused_and_wiped(void **state)
{
    (void)state;
    enum { BYTES = 300 };
    for (enum gcm_way way = 0; way < GCM_WAYS; way++) {
        if (!gcm_way_runs(way)) continue;
        uint8_t secret[32] = {1}, nonce[12] = {2}, seen[20] = {3}, tag[16];
        static const uint8_t zeros[BYTES];
        struct gcm_key key;
        gcm_key_set(&key, way, secret);
        gcm_seal(&key, nonce, seen, sizeof seen, plain, sealed, BYTES, tag);
        const struct {
            uint8_t *at;
            size_t bytes;
        } parts[] = {{tag, sizeof tag}, {sealed, BYTES}, {seen, sizeof seen}, {nonce, sizeof nonce}};
        for (size_t p = 0; p < sizeof parts / sizeof *parts; p++)
            for (size_t bit = 0; bit < 8 * parts[p].bytes; bit++) {
                parts[p].at[bit / 8] ^= (uint8_t)(1 << bit % 8);
                memset(back, 1, BYTES);
                assert_false(gcm_open(&key, nonce, seen, sizeof seen, sealed, back, BYTES, tag));
                assert_memory_equal(back, zeros, BYTES);
                parts[p].at[bit / 8] ^= (uint8_t)(1 << bit % 8);
            }
        assert_true(gcm_open(&key, nonce, seen, sizeof seen, sealed, back, BYTES, tag));
        assert_memory_equal(back, plain, BYTES);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gcm_seal__published_case__its_bytes),
        cmocka_unit_test(gcm__every_way__what_another_library_says),
        cmocka_unit_test(gcm_open__another_bit__refused_and_wiped),
    };
    return cmocka_run_group_tests(tests, start, NULL) ? 1 : 0;
}
