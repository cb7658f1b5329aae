/* Calls the library's kernels directly: its manager of jobs, and its one call for a key, would link all other
 * ciphers and processors, 4 to 12 MB of them. */
#include "io/net/gcm.h"

#include <cpuid.h>
#include <intel-ipsec-mb.h>
#include <sodium.h>

#include "engine/base/isa.h"
#include "engine/base/status.h"

_Static_assert(sizeof(struct gcm_key_data) <= sizeof((struct gcm_key *)0)->expanded, "room for the library's key");

typedef void key_powers(struct gcm_key_data *key);
typedef void crypt(const struct gcm_key_data *key, struct gcm_context_data *context, uint8_t *out, const uint8_t *in,
                   uint64_t bytes, const uint8_t *nonce, const uint8_t *seen, uint64_t seen_bytes, uint8_t *tag,
                   uint64_t tag_bytes);

/* The library has these for its manager and for its aes_gcm_pre_256_…; it declares only the others. */
key_powers aes_gcm_precomp_256_vaes_avx512, aes_gcm_precomp_256_sse;
crypt aes_gcm_enc_256_vaes_avx512, aes_gcm_dec_256_vaes_avx512;

static const struct {
    key_powers *powers; /* of the hash key, for as many blocks as the way takes at once */
    crypt *encrypt, *decrypt;
} ways[GCM_WAYS] = {
    [GCM_VAES] = {aes_gcm_precomp_256_vaes_avx512, aes_gcm_enc_256_vaes_avx512, aes_gcm_dec_256_vaes_avx512},
    [GCM_AES] = {aes_gcm_precomp_256_sse, aes_gcm_enc_256_sse, aes_gcm_dec_256_sse},
};

/* Whether there are vectors of AES and of carry-less products: not every compiler names these bits. */
static bool has_vector_aes(void)
{
    unsigned eax, ebx, ecx, edx;
    return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) && ecx & bit_VAES && ecx & bit_VPCLMULQDQ;
}

bool gcm_way_runs(enum gcm_way way)
{
    switch (way) {
    case GCM_VAES: return isa_runs_here(ISA_avx512) && has_vector_aes() && gcm_way_runs(GCM_AES);
    case GCM_AES:
        return __builtin_cpu_supports("aes") && __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.2");
    case GCM_WAYS: break;
    }
    return false;
}

enum gcm_way gcm_way_best(void)
{
    enum gcm_way way = 0;
    while (way < GCM_WAYS && !gcm_way_runs(way)) way++;
    return way;
}

void gcm_key_set(struct gcm_key *key, enum gcm_way way, const uint8_t secret[GCM_KEY_BYTES])
{
    struct gcm_key_data *data = (struct gcm_key_data *)key->expanded;
    _Alignas(16) uint8_t reverse[sizeof data->expanded_keys]; /* GCM does not use it */
    key->way = way;
    aes_keyexp_256_sse(secret, data->expanded_keys, reverse);
    ways[way].powers(data);
    sodium_memzero(reverse, sizeof reverse);
}

void gcm_seal(const struct gcm_key *key, const uint8_t nonce[GCM_NONCE_BYTES], const uint8_t *seen, size_t seen_bytes,
              const uint8_t *in, uint8_t *out, size_t bytes, uint8_t tag[GCM_TAG_BYTES])
{
    struct gcm_context_data context;
    ways[key->way].encrypt((const struct gcm_key_data *)key->expanded, &context, out, in, bytes, nonce, seen,
                           seen_bytes, tag, GCM_TAG_BYTES);
    sodium_memzero(&context, sizeof context);
}

bool gcm_open(const struct gcm_key *key, const uint8_t nonce[GCM_NONCE_BYTES], const uint8_t *seen, size_t seen_bytes,
              const uint8_t *in, uint8_t *out, size_t bytes, const uint8_t tag[GCM_TAG_BYTES])
{
    struct gcm_context_data context;
    uint8_t found[GCM_TAG_BYTES];
    ways[key->way].decrypt((const struct gcm_key_data *)key->expanded, &context, out, in, bytes, nonce, seen,
                           seen_bytes, found, GCM_TAG_BYTES);
    const bool is_right = sodium_memcmp(found, tag, GCM_TAG_BYTES) == 0;
    if (!is_right) sodium_memzero(out, bytes);
    sodium_memzero(&context, sizeof context);
    sodium_memzero(found, sizeof found);
    return is_right;
}
