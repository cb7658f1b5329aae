/* Sealed links: both ends hold the cluster's key, prove it to each other, and encrypt everything else with
 * keys that nobody can compute later, with or without the cluster's key.
 * Noise_NNpsk0_25519_ChaChaPoly_BLAKE2b, or …_AESGCM_…, of the Noise Protocol Framework, revision 34, over
 * libsodium and gcm.h; bytes in, bytes out, and no sockets.
 *
 *     initiator  psk, e     ──▶  refused by its tag, before any curve arithmetic, if the key or the prologue is another
 *     responder       ◀──  e, ee
 *     both       split: a cipher for each direction; the initiator confirms, because a replay can say all before
 *
 * A cipher seals the checks of frame.h by their numbers, which are its nonces. It is rekeyed
 * (section 11.3) before number 65536 and every 65536 after it: within 4 GiB of payload. Only the
 * library of secure_start allocates. */
#ifndef HETERPS_IO_NET_SECURE_H
#define HETERPS_IO_NET_SECURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/status.h"
#include "io/net/frame.h"
#include "io/net/gcm.h"

#define SECURE_KEY_BYTES   32u
#define SECURE_HASH_BYTES  64u
#define SECURE_REKEY_EVERY UINT64_C(65536)
/* Bytes of a handshake's message beside its payload: e, and a tag. */
#define SECURE_HANDSHAKE_BYTES 48u

struct secure_key {
    uint8_t bytes[SECURE_KEY_BYTES];
};

/* Prepares the library; call once, before everything else here, and before threads.
 * SYSTEM: no source of randomness. */
MUST_USE status secure_start(void);
/* FRAME_AESGCM where the processor has instructions for it, else FRAME_CHACHA. */
enum frame_seal secure_seal_best(void);
/* Whether this way to seal runs here. */
bool secure_seal_runs(enum frame_seal seal);

/* One direction of a sealed link. */
struct secure_cipher {
    struct gcm_key gcm; /* for FRAME_AESGCM */
    uint8_t key[SECURE_KEY_BYTES];
    enum frame_seal seal;
    uint64_t epoch; /* how often it was rekeyed */
};
void secure_cipher_set(struct secure_cipher *cipher, enum frame_seal seal, const uint8_t key[SECURE_KEY_BYTES]);
/* Numbers never go back. in and out are the same, or do not overlap; any length below 4 GiB. */
void secure_seal(struct secure_cipher *cipher, uint64_t number, const uint8_t *in, uint8_t *out, size_t bytes,
                 uint8_t tag[FRAME_CHECK_MAX]);
/* False: the tag is not right, and `out` has nothing of the text. */
bool secure_open(struct secure_cipher *cipher, uint64_t number, const uint8_t *in, uint8_t *out, size_t bytes,
                 const uint8_t tag[FRAME_CHECK_MAX]);

/* A handshake under way: Noise's symmetric state, and the ephemeral keys. */
struct secure_handshake {
    struct secure_cipher cipher;
    uint8_t chain[SECURE_HASH_BYTES], hash[SECURE_HASH_BYTES];
    uint8_t secret[32], own[32], other[32]; /* ephemeral */
    uint64_t number;
    bool is_initiator;
};
/* ephemeral: 32 bytes in place of random ones, for test vectors; else NULL. */
void secure_handshake_begin(struct secure_handshake *h, enum frame_seal seal, bool is_initiator,
                            const struct secure_key *key, const void *prologue, size_t prologue_bytes,
                            const uint8_t ephemeral[32]);
/* Writes this end's message, of SECURE_HANDSHAKE_BYTES and the payload's. False: the other
 * end's curve point is of no use. */
MUST_USE bool secure_handshake_write(struct secure_handshake *h, const uint8_t *payload, size_t payload_bytes,
                                     uint8_t *out);
/* Reads the other end's message, of at least SECURE_HANDSHAKE_BYTES, and gives its payload. False: the other
 * end has another key or prologue. */
MUST_USE bool secure_handshake_read(struct secure_handshake *h, const uint8_t *in, size_t bytes, uint8_t *payload);
/* After both messages: gives the ciphers, and wipes the handshake. */
void secure_handshake_split(struct secure_handshake *h, struct secure_cipher *send, struct secure_cipher *receive);

#endif
