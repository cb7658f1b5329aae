/* AES-256-GCM (NIST SP 800-38D) by the widest instructions that this processor has, from
 * Intel's library of kernels: 16 bytes a lane of a vector, four or sixteen blocks under way.
 * Without AES instructions it does not run. */
#ifndef HETERPS_IO_NET_GCM_H
#define HETERPS_IO_NET_GCM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GCM_KEY_BYTES   32u
#define GCM_NONCE_BYTES 12u
#define GCM_TAG_BYTES   16u

/* Kernels, from the widest on. */
enum gcm_way { GCM_VAES, GCM_AES, GCM_WAYS };
/* Whether the processor has the instructions of this way. */
bool gcm_way_runs(enum gcm_way way);
/* The widest way that runs; GCM_WAYS: none. */
enum gcm_way gcm_way_best(void);

/* A key in the form that rounds use. It is secret: its owner wipes it. */
struct gcm_key {
    _Alignas(64) uint8_t expanded[1088];
    enum gcm_way way;
};
void gcm_key_set(struct gcm_key *key, enum gcm_way way, const uint8_t secret[GCM_KEY_BYTES]);

/* Encrypts `bytes` of `in`; the tag vouches for them and for `seen_bytes` of `seen`, which travel in the
 * open. Never use a nonce twice with one key. in and out are the same, or do not overlap. */
void gcm_seal(const struct gcm_key *key, const uint8_t nonce[GCM_NONCE_BYTES], const uint8_t *seen, size_t seen_bytes,
              const uint8_t *in, uint8_t *out, size_t bytes, uint8_t tag[GCM_TAG_BYTES]);
/* The reverse. False: the tag is wrong, and `out` is wiped. */
bool gcm_open(const struct gcm_key *key, const uint8_t nonce[GCM_NONCE_BYTES], const uint8_t *seen, size_t seen_bytes,
              const uint8_t *in, uint8_t *out, size_t bytes, const uint8_t tag[GCM_TAG_BYTES]);

#endif
