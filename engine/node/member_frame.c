/* Frames of membership, byte by byte. */
#include "engine/node/member_frame.h"

#include <inttypes.h>
#include <string.h>

#define HEAD_BYTES   56u
#define NONCES_BEGIN 96u

static uint8_t *put(uint8_t *at, uint64_t value, uint32_t bytes)
{
    for (uint32_t i = 0; i < bytes; i++) at[i] = (uint8_t)(value >> 8 * i);
    return at + bytes;
}

static uint64_t get(const uint8_t *at, uint32_t bytes)
{
    uint64_t value = 0;
    for (uint32_t i = 0; i < bytes; i++) value |= (uint64_t)at[i] << 8 * i;
    return value;
}

size_t member_frame_put(uint8_t out[MEMBER_FRAME_BYTES_MAX], const struct member_frame *f, uint32_t nodes)
{
    const uint64_t head[] = {f->incarnation, f->generation, f->nonce, f->facts, f->value, f->mask};
    const struct member_roster *r = &f->roster;
    const uint64_t roster[] = {r->incarnation, r->generation, r->mask, r->barred};
    uint8_t *at = put(put(out, (uint64_t)f->kind, 4), f->rank, 4);
    CHECK(nodes >= 1 && nodes <= MEMBER_NODES_MAX);
    for (uint32_t i = 0; i < 6; i++) at = put(at, head[i], 8);
    if (f->kind != FRAME_ROSTER) return HEAD_BYTES;
    for (uint32_t i = 0; i < 4; i++) at = put(at, roster[i], 8);
    at = put(put(at, r->losses, 4), nodes, 4);
    for (uint32_t i = 0; i < nodes; i++) at = put(at, r->nonce[i], 8);
    for (uint32_t i = 0; i < nodes; i++) at = put(at, r->says[i], 8);
    return (size_t)(at - out);
}

static status mask_check(const uint8_t *in, uint32_t offset, uint64_t all)
{
    if (get(in + offset, 8) & ~all)
        FAIL(INVALID, "a frame of membership: byte %" PRIu32 ": expected ranks of the cluster's, found mask %" PRIx64,
             offset, get(in + offset, 8));
    return ST_OK;
}

status member_frame_get(struct member_frame *f, const uint8_t *in, size_t bytes, uint32_t nodes)
{
    const uint64_t all = nodes == 64 ? UINT64_MAX : (UINT64_C(1) << nodes) - 1;
    if (bytes < HEAD_BYTES)
        FAIL(INVALID, "a frame of membership: expected at least %u bytes, found %zu", HEAD_BYTES, bytes);
    const uint64_t kind = get(in, 4);
    if (kind > FRAME_STOP) FAIL(INVALID, "a frame of membership: byte 0: no kind is %" PRIu64, kind);
    const size_t expected = kind == FRAME_ROSTER ? NONCES_BEGIN + 16 * (size_t)nodes : HEAD_BYTES;
    if (bytes != expected) FAIL(INVALID, "a frame of membership: expected %zu bytes, found %zu", expected, bytes);
    *f = (struct member_frame){.kind = (enum member_frame_kind)kind,
                               .rank = (uint32_t)get(in + 4, 4),
                               .incarnation = get(in + 8, 8),
                               .generation = get(in + 16, 8),
                               .nonce = get(in + 24, 8),
                               .facts = get(in + 32, 8),
                               .value = get(in + 40, 8),
                               .mask = get(in + 48, 8)};
    if (f->rank >= nodes)
        FAIL(INVALID, "a frame of membership: byte 4: expected a rank below %" PRIu32 ", found %" PRIu32, nodes,
             f->rank);
    TRY(mask_check(in, 48, all));
    if (kind != FRAME_ROSTER) return ST_OK;
    struct member_roster *r = &f->roster;
    r->incarnation = get(in + 56, 8);
    r->generation = get(in + 64, 8);
    r->mask = get(in + 72, 8);
    r->barred = get(in + 80, 8);
    r->losses = (uint32_t)get(in + 88, 4);
    TRY(mask_check(in, 72, all));
    TRY(mask_check(in, 80, all));
    if (!(r->mask & 1)) FAIL(INVALID, "a frame of membership: byte 72: expected rank 0 in the roster, found it is not");
    if (get(in + 92, 4) != nodes)
        FAIL(INVALID, "a frame of membership: byte 92: expected %" PRIu32 " nodes, found %" PRIu64, nodes,
             get(in + 92, 4));
    for (uint32_t i = 0; i < nodes; i++) r->nonce[i] = get(in + NONCES_BEGIN + 8 * i, 8);
    for (uint32_t i = 0; i < nodes; i++) r->says[i] = get(in + NONCES_BEGIN + 8 * (nodes + i), 8);
    return ST_OK;
}
