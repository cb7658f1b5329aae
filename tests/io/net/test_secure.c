/* Handshakes and ciphers against published vectors of the Noise protocols, and what must be refused. */
#include "tests/io/io_test.h"

#include <sodium.h>

#include "io/net/secure.h"

/* Vectors of cacophony, an implementation in Haskell, of its file vectors/cacophony.txt. Both
 * protocols' have the same inputs. */
#define PROLOGUE         "4a6f686e2047616c74"
#define PSK              "54686973206973206d7920417573747269616e20706572737065637469766521"
#define SECRET_INITIATOR "893e28b9dc6ca8d611ab664754b8ceb7bac5117349a4439a6b0569da977c464a"
#define SECRET_RESPONDER "bbdb4cdbd309f1a1f2e1456967fe288cadd6f712d65dc7b7793d5e63da6b375b"
static const char *const payloads[6] = {"4c756477696720766f6e204d69736573",
                                        "4d757272617920526f746862617264",
                                        "462e20412e20486179656b",
                                        "4361726c204d656e676572",
                                        "4a65616e2d426170746973746520536179",
                                        "457567656e2042f6686d20766f6e2042617765726b"};
static const struct vector {
    const char *name;
    enum frame_seal seal;
    const char *hash;
    const char *message[6]; /* two of the handshake, then by turns */
} vectors[] = {
    {"Noise_NNpsk0_25519_AESGCM_BLAKE2b",
     FRAME_AESGCM,
     "d73c5533886889dde8746bfcd5d0eb738dcc2321bcc0e05981cff516b7e8da25effe1be1e0168075ea4df017c8e636f6012c55f726b466a5a"
     "e61bafdf6542ef2",
     {"ca35def5ae56cec33dc2036731ab14896bc4c75dbb07a61f879f8e3afa4c7944ab67782ba522df522e3b26fec332f0247af54ca69936a856"
      "158422652c5f2f6c",
      "95ebc60d2b1fa672c1f46a8aa265ef51bfe38e7ccb39ec5be34069f14480884357c12fca03369a584fdf46ddf33b8418701bb6c0fb9cf977"
      "43064e7dc9f9cc",
      "9c7cf240c92984f10f318283aad9fa98f5c609379329386bdcd041",
      "d10737813549738317379aa5a89afaa7709f09dea1e86863645037",
      "50d6a3e902be8fb400fe88a3df63bfcb0f0f82d1829c5cadb09eaf58d2363ec110",
      "f9291acf81dab96f88793a2885461fdf2b313fb54b9fbff07d695e0f5280646a75ff8a86ba"}},
    {"Noise_NNpsk0_25519_ChaChaPoly_BLAKE2b",
     FRAME_CHACHA,
     "ed5e9692d0ab507b6c2beec3f584fd5b127817a9d20b26cd50aa72c507260fa31aa7d88dd3723316338af37ce0b4cfb2923aeb848bbf2b934"
     "911306f01ffc963",
     {"ca35def5ae56cec33dc2036731ab14896bc4c75dbb07a61f879f8e3afa4c7944ed63df2f5a12aee1185ee9c50305f2ecf12421dcb53c047a"
      "63b784cf7c54a105",
      "95ebc60d2b1fa672c1f46a8aa265ef51bfe38e7ccb39ec5be34069f1448088430e0fe7d5c0c9b92f7478716c8852f1b4f389edb75e3ebe54"
      "6fafafd5b6f0f7",
      "0fe04b26dcfbb69f8a6a94c61f1a26ef88769218d32f5d17c068a6",
      "2239e0c540c01f09eb1f4cc5258fd5acfefff18a5a3773f21b7bfe",
      "f216cb03d30fb8af1e561fe02a07552d09b416e27a75e62c77d193718b0bdaae9f",
      "6e8baf98b944184dd7dc5ef14d8108cbeca626de118a5460f3308e294d61e17238bce29bd9"}},
};

static size_t unhex(uint8_t *out, const char *text)
{
    size_t bytes;
    assert_int_equal(sodium_hex2bin(out, 256, text, strlen(text), NULL, &bytes, NULL), 0);
    return bytes;
}

struct pair {
    struct secure_handshake initiator, responder;
    struct secure_cipher to_responder[2], to_initiator[2]; /* of the sender, of the receiver */
};

static void pair_begin(struct pair *p, enum frame_seal seal, bool is_fixed)
{
    uint8_t prologue[256], secret[256];
    struct secure_key key;
    const size_t bytes = unhex(prologue, PROLOGUE);
    assert_int_equal(sodium_hex2bin(key.bytes, 32, PSK, 64, NULL, NULL, NULL), 0);
    unhex(secret, SECRET_INITIATOR);
    secure_handshake_begin(&p->initiator, seal, true, &key, prologue, bytes, is_fixed ? secret : NULL);
    unhex(secret, SECRET_RESPONDER);
    secure_handshake_begin(&p->responder, seal, false, &key, prologue, bytes, is_fixed ? secret : NULL);
}

static void pair_split(struct pair *p)
{
    secure_handshake_split(&p->initiator, &p->to_responder[0], &p->to_initiator[1]);
    secure_handshake_split(&p->responder, &p->to_initiator[0], &p->to_responder[1]);
}

/* Both messages of a handshake without payloads. */
static void pair_join(struct pair *p, enum frame_seal seal)
{
    uint8_t message[SECURE_HANDSHAKE_BYTES], nothing;
    pair_begin(p, seal, false);
    assert_true(secure_handshake_write(&p->initiator, NULL, 0, message));
    assert_true(secure_handshake_read(&p->responder, message, sizeof message, &nothing));
    assert_true(secure_handshake_write(&p->responder, NULL, 0, message));
    assert_true(secure_handshake_read(&p->initiator, message, sizeof message, &nothing));
    pair_split(p);
}

static void secure_handshake__published_vectors__are_met(void **state)
{
    (void)state;
    uint32_t count = 0;
    for (size_t v = 0; v < sizeof vectors / sizeof *vectors; v++) {
        const struct vector *t = &vectors[v];
        if (!secure_seal_runs(t->seal)) {
            print_message("# %s: not on this processor\n", t->name);
            continue;
        }
        struct pair p;
        pair_begin(&p, t->seal, true);
        for (uint32_t i = 0; i < 6; i++) {
            uint8_t payload[256], expected[256], message[256], back[256];
            const size_t bytes = unhex(payload, payloads[i]), message_bytes = unhex(expected, t->message[i]);
            const bool is_initiators = i % 2 == 0;
            if (i == 2) {
                uint8_t hash[256];
                unhex(hash, t->hash);
                assert_memory_equal(p.initiator.hash, hash, SECURE_HASH_BYTES);
                assert_memory_equal(p.responder.hash, hash, SECURE_HASH_BYTES);
                pair_split(&p);
            }
            if (i < 2) {
                struct secure_handshake *from = is_initiators ? &p.initiator : &p.responder;
                struct secure_handshake *to = is_initiators ? &p.responder : &p.initiator;
                assert_int_equal(message_bytes, SECURE_HANDSHAKE_BYTES + bytes);
                assert_true(secure_handshake_write(from, payload, bytes, message));
                assert_memory_equal(message, expected, message_bytes);
                assert_true(secure_handshake_read(to, message, message_bytes, back));
            } else {
                struct secure_cipher *way = is_initiators ? p.to_responder : p.to_initiator;
                const uint64_t number = (i - 2) / 2;
                assert_int_equal(message_bytes, bytes + FRAME_CHECK_MAX);
                secure_seal(&way[0], number, payload, message, bytes, message + bytes);
                assert_memory_equal(message, expected, message_bytes);
                assert_true(secure_open(&way[1], number, message, back, bytes, message + bytes));
            }
            assert_memory_equal(back, payload, bytes);
        }
        count++;
    }
    assert_true(count >= 1);
}

/* Every bit of both messages, and every other condition: the handshake does not come about. */
static void secure_handshake__anything_changed__is_refused(void **state)
{
    (void)state;
    uint8_t first[SECURE_HANDSHAKE_BYTES], second[SECURE_HANDSHAKE_BYTES], nothing;
    struct secure_key key;
    uint8_t prologue[256];
    const size_t bytes = unhex(prologue, PROLOGUE);
    assert_int_equal(sodium_hex2bin(key.bytes, 32, PSK, 64, NULL, NULL, NULL), 0);
    for (uint32_t bit = 0; bit < 8 * SECURE_HANDSHAKE_BYTES; bit++) {
        struct pair p;
        pair_begin(&p, FRAME_CHACHA, false);
        assert_true(secure_handshake_write(&p.initiator, NULL, 0, first));
        struct secure_handshake responder = p.responder;
        first[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_false(secure_handshake_read(&responder, first, sizeof first, &nothing));
        first[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_true(secure_handshake_read(&p.responder, first, sizeof first, &nothing));
        assert_true(secure_handshake_write(&p.responder, NULL, 0, second));
        struct secure_handshake initiator = p.initiator;
        second[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_false(secure_handshake_read(&initiator, second, sizeof second, &nothing));
        /* The initiator's own message, sent back, is no answer. */
        assert_false(secure_handshake_read(&p.initiator, first, sizeof first, &nothing));
    }
    struct secure_handshake initiator, responder;
    for (int what = 0; what < 4; what++) {
        struct secure_key other = key;
        if (what == 0) other.bytes[31] ^= 1;
        secure_handshake_begin(&initiator, FRAME_CHACHA, true, &key, prologue, bytes, NULL);
        secure_handshake_begin(&responder, FRAME_CHACHA, false, &other, prologue, bytes - (what == 1), NULL);
        assert_true(secure_handshake_write(&initiator, NULL, 0, first));
        if (what == 2) memset(first, 0, 32); /* a point of low order, whose product anybody knows */
        assert_int_equal(secure_handshake_read(&responder, first, sizeof first, &nothing), what == 3);
    }
    /* One who has the key and answers with such a point: the product is refused. */
    secure_handshake_begin(&responder, FRAME_CHACHA, false, &key, prologue, bytes, NULL);
    memset(responder.other, 0, 32);
    assert_false(secure_handshake_write(&responder, NULL, 0, second));
}

/* Two handshakes of the same key have other keys; a direction's messages do not open as the other's, or
 * under another number, or changed. */
static void secure_open__not_what_was_sealed__is_refused(void **state)
{
    (void)state;
    for (enum frame_seal seal = FRAME_CHACHA; seal < FRAME_SEAL_COUNT; seal++) {
        if (!secure_seal_runs(seal)) continue;
        struct pair p, other;
        uint8_t text[100], sealed[100], back[100], tag[FRAME_CHECK_MAX];
        pair_join(&p, seal);
        pair_join(&other, seal);
        for (uint32_t i = 0; i < 100; i++) text[i] = (uint8_t)i;
        secure_seal(&p.to_responder[0], 5, text, sealed, 100, tag);
        assert_true(secure_open(&p.to_responder[1], 5, sealed, back, 100, tag));
        assert_memory_equal(back, text, 100);
        assert_false(secure_open(&p.to_responder[1], 4, sealed, back, 100, tag));
        assert_false(secure_open(&p.to_initiator[1], 5, sealed, back, 100, tag));
        assert_false(secure_open(&other.to_responder[1], 5, sealed, back, 100, tag));
        assert_false(secure_open(&p.to_responder[1], 5, sealed, back, 99, tag));
        for (uint32_t bit = 0; bit < 928; bit++) {
            uint8_t *at = bit < 800 ? sealed + bit / 8 : tag + (bit - 800) / 8;
            *at ^= (uint8_t)(1 << bit % 8);
            assert_false(secure_open(&p.to_responder[1], 5, sealed, back, 100, tag));
            *at ^= (uint8_t)(1 << bit % 8);
        }
        assert_true(secure_open(&p.to_responder[1], 5, sealed, sealed, 100, tag)); /* in place */
        assert_memory_equal(sealed, text, 100);
    }
}

/* Keys change where they are said to, on both ends, also when numbers leap, by Noise's REKEY. */
static void secure_rekey__numbers_go_on__both_ends_follow(void **state)
{
    (void)state;
    static const uint64_t numbers[] = {0, 65535, 65536, 65537, 131071, 131072, 4 * 65536 + 9};
    for (enum frame_seal seal = FRAME_CHACHA; seal < FRAME_SEAL_COUNT; seal++) {
        if (!secure_seal_runs(seal)) continue;
        struct pair p;
        uint8_t zeros[32] = {0}, expected[48], nonce[12] = {0, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255};
        pair_join(&p, seal);
        for (uint32_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
            uint8_t sealed[5], back[5], tag[FRAME_CHECK_MAX], key[32];
            memcpy(key, p.to_responder[0].key, 32);
            secure_seal(&p.to_responder[0], numbers[i], (const uint8_t *)"hello", sealed, 5, tag);
            assert_true(secure_open(&p.to_responder[1], numbers[i], sealed, back, 5, tag));
            assert_memory_equal(back, "hello", 5);
            assert_int_equal(p.to_responder[0].epoch, numbers[i] / 65536);
            if (numbers[i] != 65536) continue;
            if (seal == FRAME_CHACHA)
                crypto_aead_chacha20poly1305_ietf_encrypt(expected, NULL, zeros, 32, NULL, 0, NULL, nonce, key);
            else
                crypto_aead_aes256gcm_encrypt(expected, NULL, zeros, 32, NULL, 0, NULL, nonce, key);
            assert_memory_equal(p.to_responder[0].key, expected, 32);
        }
    }
}

static int start(void **state)
{
    (void)state;
    return secure_start() == ST_OK ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(secure_handshake__published_vectors__are_met),
        cmocka_unit_test(secure_handshake__anything_changed__is_refused),
        cmocka_unit_test(secure_open__not_what_was_sealed__is_refused),
        cmocka_unit_test(secure_rekey__numbers_go_on__both_ends_follow),
    };
    return cmocka_run_group_tests(tests, start, NULL) ? 1 : 0;
}
