/* The frames of membership (member.h) as bytes, the payload of a link's message:
 *
 *     offset   bytes   little-endian
 *     0        1       kind: enum member_frame_kind
 *     1        3       0
 *     4        4       rank of the sender
 *     8        8 each  incarnation, generation, nonce, facts, value, mask
 *     56               of FRAME_ROSTER, else it ends here:
 *     56       8 each  the roster's incarnation, generation, mask, barred
 *     88       4       its losses
 *     92       4       n, nodes of the cluster
 *     96       8 n     nonces, rank by rank
 *     96 + 8 n 8 n     what they say of themselves, likewise */
#ifndef HETERPS_ENGINE_NODE_MEMBER_FRAME_H
#define HETERPS_ENGINE_NODE_MEMBER_FRAME_H

#include <stddef.h>

#include "engine/base/status.h"
#include "engine/node/member.h"

#define MEMBER_FRAME_BYTES_MAX (96u + 16u * MEMBER_NODES_MAX)

/* Writes the frame; `nodes` as in the options of whoever sends it. Returns its bytes. */
size_t member_frame_put(uint8_t out[MEMBER_FRAME_BYTES_MAX], const struct member_frame *frame, uint32_t nodes);
/* INVALID: what is wrong, at which byte, and nothing of it may be used. Ranks and masks of a frame
 * that is taken are below `nodes`. */
MUST_USE status member_frame_get(struct member_frame *frame, const uint8_t *in, size_t bytes, uint32_t nodes);

#endif
