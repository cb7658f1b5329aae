/* The bytes on a link: messages, each a header and a payload in pieces. A check
 * follows the header and each piece.
 *
 *     offset       bytes    little-endian
 *     0            4        n, bytes of the payload
 *     4            2        kind, the sender's word for what it is: below 0xff00
 *     6            2        0
 *     8            8        tag, the sender's, too
 *     16           C        check of bytes 0 .. 15
 *     16 + C       P        the first piece of the payload: P = 64 KiB, or what there is
 *     16 + C + P   C        its check
 *     …                     further pieces, each with its check; a message without payload has none
 *
 * The checks of a direction are numbered from 0. C = 8: XXH3-64 of the bytes with the number as seed, so that
 * a piece that is lost, doubled or out of turn is noticed like a changed byte. C = 16, on a sealed link
 * (secure.h): header and pieces are ciphertext, the check is the tag, and the number is the nonce. The first
 * message of a sealed link comes from its initiator: kind 0xff00, tag 0, no payload. Only one with the
 * handshake's keys can send it, so the greeting was no replay.
 *
 * Before the first message both ends greet; the end that has connected begins:
 *
 *     0            7        "HPSLINK"
 *     7            1        1, the version of all this
 *     8            1        how messages are checked: enum frame_seal
 *     9            7        0
 *     16           48       FRAME_PLAIN: the prologue (link.h), 8 bytes, then 0s
 *                           else a message of Noise's handshake without payload: 32 bytes e, 16 tag;
 *                           Noise's prologue is bytes 0 .. 15 and the prologue's 8
 *
 * A receiver uses no bytes before their check: a wrong header ends the link, and so does a payload larger
 * than the receiver takes. A message counts when its last check is right. */
#ifndef HETERPS_IO_NET_FRAME_H
#define HETERPS_IO_NET_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "engine/base/status.h"

enum frame_seal { FRAME_PLAIN, FRAME_CHACHA, FRAME_AESGCM, FRAME_SEAL_COUNT };

#define FRAME_GREETING_BYTES 64u
#define FRAME_PREAMBLE_BYTES 16u
#define FRAME_HEADER_BYTES   16u
#define FRAME_PIECE_BYTES    65536u
#define FRAME_CHECK_MAX      16u
#define FRAME_KIND_END       0xff00u
#define FRAME_KIND_CONFIRM   0xff00u

struct frame_header {
    uint32_t bytes;
    uint16_t kind;
    uint64_t tag;
};
void frame_header_put(uint8_t out[FRAME_HEADER_BYTES], const struct frame_header *header);
/* INVALID: which field, expected and found. bytes_max: the largest payload that the receiver takes. */
MUST_USE status frame_header_get(struct frame_header *header, const uint8_t in[FRAME_HEADER_BYTES], uint32_t bytes_max);

/* Writes the greeting of a plain link; of a sealed link the part that is not Noise's. */
void frame_greeting_put(uint8_t out[FRAME_GREETING_BYTES], enum frame_seal seal, uint64_t prologue);
/* Reads the first 16 bytes. INVALID: no greeting of ours, another version, or one end is plain and the other
 * sealed; *seal is a known one, which perhaps does not run here. */
MUST_USE status frame_preamble_get(const uint8_t in[FRAME_GREETING_BYTES], bool is_sealed, enum frame_seal *seal);
/* Reads the rest of a plain greeting. INVALID: it is of another job. */
MUST_USE status frame_plain_get(const uint8_t in[FRAME_GREETING_BYTES], uint64_t prologue);
/* Noise's prologue. */
#define FRAME_PROLOGUE_BYTES 24u
void frame_prologue_put(uint8_t out[FRAME_PROLOGUE_BYTES], const uint8_t preamble[FRAME_PREAMBLE_BYTES],
                        uint64_t prologue);

/* The payload on the wire, C being check_bytes: its pieces, and its bytes with their checks. */
static inline uint32_t frame_piece_count(uint32_t bytes)
{
    return bytes / FRAME_PIECE_BYTES + (bytes % FRAME_PIECE_BYTES != 0);
}
static inline uint64_t frame_body_bytes(uint32_t bytes, uint32_t check_bytes)
{
    return bytes + (uint64_t)frame_piece_count(bytes) * check_bytes;
}
/* Bytes of piece `index`. */
static inline uint32_t frame_piece_bytes(uint32_t bytes, uint32_t index)
{
    uint64_t left = bytes - (uint64_t)index * FRAME_PIECE_BYTES;
    return left < FRAME_PIECE_BYTES ? (uint32_t)left : FRAME_PIECE_BYTES;
}

/* Puts `bytes` from `offset` on of the parts into at most `max` vectors, and returns how many; false in
 * *is_whole: more vectors are needed. */
uint32_t frame_slice(const struct iovec *parts, uint32_t part_count, uint64_t offset, uint64_t bytes, struct iovec *out,
                     uint32_t max, bool *is_whole);

/* The check of the bytes of some vectors, one after another, by the best instruction set here; for tests by a
 * name of isa.h. NULL: the best. */
typedef uint64_t frame_check(uint64_t number, const struct iovec *parts, uint32_t part_count);
frame_check *frame_check_of(const char *isa);
uint64_t frame_check_base(uint64_t number, const struct iovec *parts, uint32_t part_count);
uint64_t frame_check_avx2(uint64_t number, const struct iovec *parts, uint32_t part_count);
uint64_t frame_check_avx512(uint64_t number, const struct iovec *parts, uint32_t part_count);

#endif
