/* Noise's symmetric state and handshake (sections 5.2, 5.3 and 9 of its specification), and ciphers. */
#include "io/net/secure.h"

#include <sodium.h>
#include <string.h>

#define BLOCK_BYTES 128u /* BLAKE2b's, for HMAC */

static const char *const protocol_names[FRAME_SEAL_COUNT] = {
    [FRAME_CHACHA] = "Noise_NNpsk0_25519_ChaChaPoly_BLAKE2b",
    [FRAME_AESGCM] = "Noise_NNpsk0_25519_AESGCM_BLAKE2b",
};

status secure_start(void)
{
    if (sodium_init() < 0) FAIL(SYSTEM, "libsodium finds no source of random numbers");
    return ST_OK;
}

bool secure_seal_runs(enum frame_seal seal)
{
    return seal == FRAME_CHACHA || (seal == FRAME_AESGCM && gcm_way_best() < GCM_WAYS);
}

enum frame_seal secure_seal_best(void) { return secure_seal_runs(FRAME_AESGCM) ? FRAME_AESGCM : FRAME_CHACHA; }

/* --- ciphers ----------------------------------------------------------------------------------- */

void secure_cipher_set(struct secure_cipher *c, enum frame_seal seal, const uint8_t key[SECURE_KEY_BYTES])
{
    c->seal = seal;
    c->epoch = 0;
    memmove(c->key, key, SECURE_KEY_BYTES);
    if (seal == FRAME_AESGCM) gcm_key_set(&c->gcm, gcm_way_best(), key);
}

/* 32 zero bits and the number: little-endian for ChaCha20, big-endian for AES (sections 12.3, 12.4). */
static void nonce_put(uint8_t nonce[12], enum frame_seal seal, uint64_t number)
{
    memset(nonce, 0, 4);
    for (uint32_t i = 0; i < 8; i++) nonce[4 + i] = (uint8_t)(number >> 8 * (seal == FRAME_AESGCM ? 7 - i : i));
}

static void encrypt(const struct secure_cipher *c, uint64_t number, const uint8_t *hash, const uint8_t *in,
                    uint8_t *out, size_t bytes, uint8_t *tag)
{
    uint8_t nonce[12];
    nonce_put(nonce, c->seal, number);
    const size_t hash_bytes = hash ? SECURE_HASH_BYTES : 0;
    if (c->seal == FRAME_AESGCM)
        gcm_seal(&c->gcm, nonce, hash, hash_bytes, in, out, bytes, tag);
    else
        (void)crypto_aead_chacha20poly1305_ietf_encrypt_detached(out, tag, NULL, in, bytes, hash, hash_bytes, NULL,
                                                                 nonce, c->key);
}

static bool decrypt(const struct secure_cipher *c, uint64_t number, const uint8_t *hash, const uint8_t *in,
                    uint8_t *out, size_t bytes, const uint8_t *tag)
{
    uint8_t nonce[12];
    nonce_put(nonce, c->seal, number);
    const size_t hash_bytes = hash ? SECURE_HASH_BYTES : 0;
    if (c->seal == FRAME_AESGCM) return gcm_open(&c->gcm, nonce, hash, hash_bytes, in, out, bytes, tag);
    return crypto_aead_chacha20poly1305_ietf_decrypt_detached(out, NULL, in, bytes, tag, hash, hash_bytes, nonce,
                                                              c->key) == 0;
}

/* REKEY: encrypts 32 zeros under a number that no message has. */
static void rekey_until(struct secure_cipher *c, uint64_t epoch)
{
    CHECK(epoch >= c->epoch);
    while (c->epoch < epoch) {
        uint8_t key[SECURE_KEY_BYTES] = {0}, tag[FRAME_CHECK_MAX];
        const uint64_t next = c->epoch + 1;
        encrypt(c, UINT64_MAX, NULL, key, key, sizeof key, tag);
        secure_cipher_set(c, c->seal, key);
        c->epoch = next;
        sodium_memzero(key, sizeof key);
    }
}

void secure_seal(struct secure_cipher *c, uint64_t number, const uint8_t *in, uint8_t *out, size_t bytes,
                 uint8_t tag[FRAME_CHECK_MAX])
{
    rekey_until(c, number / SECURE_REKEY_EVERY);
    encrypt(c, number, NULL, in, out, bytes, tag);
}

bool secure_open(struct secure_cipher *c, uint64_t number, const uint8_t *in, uint8_t *out, size_t bytes,
                 const uint8_t tag[FRAME_CHECK_MAX])
{
    rekey_until(c, number / SECURE_REKEY_EVERY);
    return decrypt(c, number, NULL, in, out, bytes, tag);
}

/* --- the symmetric state ------------------------------------------------------------------------ */

/* HMAC of RFC 2104 with BLAKE2b; Noise does not use BLAKE2b's own keyed form. */
static void hmac(const uint8_t key[SECURE_HASH_BYTES], const void *a, size_t a_bytes, const void *b, size_t b_bytes,
                 uint8_t out[SECURE_HASH_BYTES])
{
    crypto_generichash_state state;
    uint8_t pad[BLOCK_BYTES], inner[SECURE_HASH_BYTES];
    for (uint32_t i = 0; i < BLOCK_BYTES; i++) pad[i] = (i < SECURE_HASH_BYTES ? key[i] : 0) ^ 0x36;
    crypto_generichash_init(&state, NULL, 0, SECURE_HASH_BYTES);
    crypto_generichash_update(&state, pad, sizeof pad);
    crypto_generichash_update(&state, a, a_bytes);
    crypto_generichash_update(&state, b, b_bytes);
    crypto_generichash_final(&state, inner, sizeof inner);
    for (uint32_t i = 0; i < BLOCK_BYTES; i++) pad[i] ^= 0x36 ^ 0x5c;
    crypto_generichash_init(&state, NULL, 0, SECURE_HASH_BYTES);
    crypto_generichash_update(&state, pad, sizeof pad);
    crypto_generichash_update(&state, inner, sizeof inner);
    crypto_generichash_final(&state, out, SECURE_HASH_BYTES);
    sodium_memzero(pad, sizeof pad);
    sodium_memzero(&state, sizeof state);
}

/* HKDF: `count` outputs, 2 or 3. */
static void derive(const uint8_t chain[SECURE_HASH_BYTES], const void *input, size_t bytes,
                   uint8_t out[][SECURE_HASH_BYTES], uint32_t count)
{
    static const uint8_t numbers[] = {1, 2, 3};
    uint8_t secret[SECURE_HASH_BYTES];
    hmac(chain, input, bytes, "", 0, secret);
    for (uint32_t i = 0; i < count; i++)
        hmac(secret, i ? out[i - 1] : numbers, i ? SECURE_HASH_BYTES : 0, &numbers[i], 1, out[i]);
    sodium_memzero(secret, sizeof secret);
}

static void hash_mix(struct secure_handshake *h, const void *data, size_t bytes)
{
    crypto_generichash_state state;
    crypto_generichash_init(&state, NULL, 0, SECURE_HASH_BYTES);
    crypto_generichash_update(&state, h->hash, sizeof h->hash);
    crypto_generichash_update(&state, data, bytes);
    crypto_generichash_final(&state, h->hash, sizeof h->hash);
}

static void key_mix(struct secure_handshake *h, const uint8_t *input, bool with_hash)
{
    uint8_t out[3][SECURE_HASH_BYTES];
    const uint32_t count = with_hash ? 3 : 2;
    derive(h->chain, input, 32, out, count);
    memcpy(h->chain, out[0], sizeof h->chain);
    if (with_hash) hash_mix(h, out[1], sizeof out[1]);
    secure_cipher_set(&h->cipher, h->cipher.seal, out[count - 1]);
    h->number = 0;
    sodium_memzero(out, sizeof out);
}

/* --- the handshake ------------------------------------------------------------------------------ */

void secure_handshake_begin(struct secure_handshake *h, enum frame_seal seal, bool is_initiator,
                            const struct secure_key *key, const void *prologue, size_t prologue_bytes,
                            const uint8_t ephemeral[32])
{
    CHECK(secure_seal_runs(seal));
    memset(h, 0, sizeof *h);
    h->cipher.seal = seal;
    h->is_initiator = is_initiator;
    memcpy(h->hash, protocol_names[seal], strlen(protocol_names[seal])); /* shorter than a hash: taken as it is */
    memcpy(h->chain, h->hash, sizeof h->chain);
    hash_mix(h, prologue, prologue_bytes);
    if (ephemeral)
        memcpy(h->secret, ephemeral, 32);
    else
        randombytes_buf(h->secret, 32);
    (void)crypto_scalarmult_base(h->own, h->secret);
    key_mix(h, key->bytes, true); /* psk of the initiator's message, which is the first for both */
}

/* e, of either end; with a psk its point is mixed into the key, too. */
static void point_mix(struct secure_handshake *h, const uint8_t point[32])
{
    hash_mix(h, point, 32);
    key_mix(h, point, false);
}

/* ee */
static bool secret_mix(struct secure_handshake *h)
{
    uint8_t shared[32];
    const bool is_good = crypto_scalarmult(shared, h->secret, h->other) == 0;
    if (is_good) key_mix(h, shared, false);
    sodium_memzero(shared, sizeof shared);
    return is_good;
}

bool secure_handshake_write(struct secure_handshake *h, const uint8_t *payload, size_t payload_bytes, uint8_t *out)
{
    uint8_t *text = out + 32;
    memcpy(out, h->own, 32);
    point_mix(h, h->own);
    if (!h->is_initiator && !secret_mix(h)) return false;
    encrypt(&h->cipher, h->number++, h->hash, payload, text, payload_bytes, text + payload_bytes);
    hash_mix(h, text, payload_bytes + FRAME_CHECK_MAX);
    return true;
}

bool secure_handshake_read(struct secure_handshake *h, const uint8_t *in, size_t bytes, uint8_t *payload)
{
    CHECK(bytes >= SECURE_HANDSHAKE_BYTES);
    const size_t payload_bytes = bytes - SECURE_HANDSHAKE_BYTES;
    const uint8_t *text = in + 32;
    memcpy(h->other, in, 32);
    point_mix(h, h->other);
    if (h->is_initiator && !secret_mix(h)) return false;
    if (!decrypt(&h->cipher, h->number++, h->hash, text, payload, payload_bytes, text + payload_bytes)) return false;
    hash_mix(h, text, payload_bytes + FRAME_CHECK_MAX);
    return true;
}

void secure_handshake_split(struct secure_handshake *h, struct secure_cipher *send, struct secure_cipher *receive)
{
    uint8_t out[2][SECURE_HASH_BYTES];
    derive(h->chain, "", 0, out, 2);
    secure_cipher_set(h->is_initiator ? send : receive, h->cipher.seal, out[0]);
    secure_cipher_set(h->is_initiator ? receive : send, h->cipher.seal, out[1]);
    sodium_memzero(out, sizeof out);
    sodium_memzero(h, sizeof *h);
}
