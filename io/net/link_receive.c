/* From the socket to memory. A header comes into `stage`, with the bytes behind it. Bytes of the payload
 * there are copied to their place; the rest is received into its place directly, up to 256 KiB a receive,
 * each piece's check into a slot:
 *
 *     stage    │ … header check piece │
 *     vectors                         │ piece check piece check piece check │ */
#include "io/net/link_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static uint64_t body_bytes(const struct links *all, const struct receiver *r)
{
    return frame_body_bytes(r->header.bytes, all->check_bytes);
}

/* Vectors of the body from its present end on, for at most `max` bytes; at least one vector, as long as the
 * body is not complete. Returns how many bytes. */
static uint64_t body_vectors(const struct links *all, struct receiver *r, uint64_t max, uint32_t *vec_count)
{
    const uint64_t unit_bytes = FRAME_PIECE_BYTES + all->check_bytes, whole = body_bytes(all, r);
    uint64_t at = r->at, end = r->at + max < whole ? r->at + max : whole;
    *vec_count = 0;
    while (at < end && *vec_count + LINK_PARTS_MAX + 1 <= VEC_MAX) {
        const uint32_t index = (uint32_t)(at / unit_bytes), bytes = frame_piece_bytes(r->header.bytes, index);
        const uint64_t inside = at % unit_bytes, left = end - at;
        if (inside < bytes) {
            const uint64_t wanted = left < bytes - inside ? left : bytes - inside;
            bool is_whole;
            *vec_count += frame_slice(r->part, r->part_count, (uint64_t)index * FRAME_PIECE_BYTES + inside, wanted,
                                      r->vec + *vec_count, LINK_PARTS_MAX, &is_whole);
            at += wanted;
        } else {
            const uint64_t of_check = inside - bytes, rest = all->check_bytes - of_check;
            const uint64_t wanted = left < rest ? left : rest;
            uint8_t *check = r->slot[(r->number + index) % SLOTS].check;
            r->vec[(*vec_count)++] = (struct iovec){check + of_check, wanted};
            at += wanted;
        }
    }
    return at - r->at;
}

/* Decrypts a piece in its place, or, if it lies in several vectors, by way of one buffer. */
static bool piece_unseal(const struct links *all, struct receiver *r, uint64_t number, const struct iovec *part,
                         uint32_t count, uint32_t bytes)
{
    uint8_t *at = count == 1 ? part[0].iov_base : all->piece;
    const uint8_t *tag = r->slot[number % SLOTS].check;
    uint32_t moved = 0;
    for (uint32_t i = 0; count > 1 && i < count; moved += (uint32_t)part[i++].iov_len)
        memcpy(at + moved, part[i].iov_base, part[i].iov_len);
    if (!secure_open(&r->cipher, number, at, at, bytes, tag)) return false;
    moved = 0;
    for (uint32_t i = 0; count > 1 && i < count; moved += (uint32_t)part[i++].iov_len)
        memcpy(part[i].iov_base, at + moved, part[i].iov_len);
    return true;
}

static bool piece_is_right(const struct links *all, struct receiver *r, uint32_t index)
{
    struct iovec part[LINK_PARTS_MAX];
    bool is_whole;
    const uint64_t number = r->number + index;
    const uint32_t bytes = frame_piece_bytes(r->header.bytes, index),
                   count = frame_slice(r->part, r->part_count, (uint64_t)index * FRAME_PIECE_BYTES, bytes, part,
                                       LINK_PARTS_MAX, &is_whole);
    if (all->is_sealed) return piece_unseal(all, r, number, part, count, bytes);
    const uint64_t check = all->check(number, part, count);
    return memcmp(&check, r->slot[number % SLOTS].check, sizeof check) == 0;
}

static void arrived(struct links *all, struct link *l)
{
    struct receiver *r = &l->receiver;
    r->number += frame_piece_count(r->header.bytes);
    r->phase = RECEIVE_HEADER;
    r->is_told = true;
    all->counts.received_count++;
    link_tell(all, l,
              &(struct link_event){
                  .what = LINK_ARRIVED, .kind = r->header.kind, .bytes = r->header.bytes, .tag = r->header.tag});
}

/* Further bytes of the body are in their places: checks the pieces that they complete. */
static void body_advance(struct links *all, struct link *l, uint64_t bytes)
{
    struct receiver *r = &l->receiver;
    const uint64_t unit_bytes = FRAME_PIECE_BYTES + all->check_bytes, whole = body_bytes(all, r);
    const uint32_t begin = (uint32_t)(r->at / unit_bytes);
    r->at += bytes;
    const uint32_t end = r->at == whole ? frame_piece_count(r->header.bytes) : (uint32_t)(r->at / unit_bytes);
    for (uint32_t i = begin; i < end; i++)
        if (!piece_is_right(all, r, i)) {
            link_lose(all, l, ST_CORRUPT,
                      "bytes %" PRIu64 " to %" PRIu64 " of the %" PRIu32
                      " of a message of kind %u do not match their check: memory or network is faulty there or here",
                      (uint64_t)i * FRAME_PIECE_BYTES,
                      (uint64_t)i * FRAME_PIECE_BYTES + frame_piece_bytes(r->header.bytes, i) - 1, r->header.bytes,
                      r->header.kind);
            return;
        }
    if (r->at == whole) arrived(all, l);
}

/* Whether stage has a header with the right check; decrypts it on a sealed link. */
static bool header_is_right(const struct links *all, struct receiver *r, uint8_t *at)
{
    if (all->is_sealed) return secure_open(&r->cipher, r->number, at, at, FRAME_HEADER_BYTES, at + FRAME_HEADER_BYTES);
    const struct iovec header = {at, FRAME_HEADER_BYTES};
    const uint64_t check = all->check(r->number, &header, 1);
    return memcmp(&check, at + FRAME_HEADER_BYTES, sizeof check) == 0;
}

static void confirm_take(struct links *all, struct link *l, uint8_t *at)
{
    struct receiver *r = &l->receiver;
    if (!header_is_right(all, r, at) || frame_header_get(&r->header, at, 0) != ST_OK ||
        r->header.kind != FRAME_KIND_CONFIRM) {
        link_lose(all, l, ST_INVALID, "greets by what another has said before, and has not the key");
        return;
    }
    r->number++;
    link_opened(all, l);
}

static void header_take(struct links *all, struct link *l, uint8_t *at)
{
    struct receiver *r = &l->receiver;
    if (!header_is_right(all, r, at)) {
        link_lose(all, l, ST_CORRUPT,
                  "the header of a message does not match its check: memory or network is faulty there or here, "
                  "or no node sends it");
        return;
    }
    r->number++;
    if (frame_header_get(&r->header, at, all->o.message_bytes_max) != ST_OK) {
        link_lose(all, l, ST_INVALID, "%s", status_message());
        return;
    }
    if (r->header.kind >= FRAME_KIND_END) {
        link_lose(all, l, ST_INVALID, "expected a message of a kind below %u, found %u", FRAME_KIND_END,
                  r->header.kind);
        return;
    }
    r->at = 0;
    if (r->header.bytes == 0) {
        arrived(all, l);
        return;
    }
    r->phase = RECEIVE_PLACE;
    r->is_told = true;
    link_tell(all, l,
              &(struct link_event){
                  .what = LINK_ARRIVES, .kind = r->header.kind, .bytes = r->header.bytes, .tag = r->header.tag});
}

/* Copies the body's bytes in stage to their place. */
static void stage_to_body(struct links *all, struct link *l)
{
    struct receiver *r = &l->receiver;
    uint32_t vec_count;
    const uint64_t bytes = body_vectors(all, r, r->stage_end - r->stage_begin, &vec_count);
    for (uint32_t i = 0; i < vec_count; i++) {
        memcpy(r->vec[i].iov_base, r->stage + r->stage_begin, r->vec[i].iov_len);
        r->stage_begin += (uint32_t)r->vec[i].iov_len;
    }
    body_advance(all, l, bytes);
}

/* Looks at the bytes in stage, one greeting, header or body after another; false: the link is lost,
 * or an event must be taken first. */
static bool stage_look(struct links *all, struct link *l)
{
    struct receiver *r = &l->receiver;
    while (l->state != LINK_IS_LOST && !r->is_told && r->phase != RECEIVE_PLACE) {
        const uint32_t there = r->stage_end - r->stage_begin;
        const uint32_t wanted = r->phase == RECEIVE_GREETING ? FRAME_GREETING_BYTES
                                : r->phase == RECEIVE_BODY   ? 1
                                                             : FRAME_HEADER_BYTES + all->check_bytes;
        if (there < wanted) return true;
        uint8_t *at = r->stage + r->stage_begin;
        if (r->phase == RECEIVE_BODY) {
            stage_to_body(all, l);
            continue;
        }
        r->stage_begin += wanted;
        if (r->phase == RECEIVE_GREETING)
            link_greeted(all, l, at);
        else if (r->phase == RECEIVE_CONFIRM)
            confirm_take(all, l, at);
        else
            header_take(all, l, at);
    }
    return false;
}

bool receiver_prepare(struct links *all, struct link *l, struct uring_request *request)
{
    struct receiver *r = &l->receiver;
    uint32_t vec_count = 1;
    if (!stage_look(all, l)) return false;
    uint64_t bytes;
    r->is_direct = r->phase == RECEIVE_BODY;
    if (r->is_direct) { /* stage is empty */
        bytes = body_vectors(all, r, BATCH_BYTES, &vec_count);
    } else {
        memmove(r->stage, r->stage + r->stage_begin, r->stage_end - r->stage_begin);
        r->stage_end -= r->stage_begin;
        r->stage_begin = 0;
        bytes = STAGE_BYTES - r->stage_end;
        r->vec[0] = (struct iovec){r->stage + r->stage_end, bytes};
    }
    r->message = (struct msghdr){.msg_iov = r->vec, .msg_iovlen = vec_count};
    *request = (struct uring_request){
        .kind = URING_RECEIVE, .is_whole = r->is_direct, .fd = l->fd, .buffer = &r->message, .bytes = (uint32_t)bytes};
    return true;
}

void receiver_moved(struct links *all, struct link *l, uint64_t bytes)
{
    struct receiver *r = &l->receiver;
    all->counts.received_bytes += bytes;
    r->moved_bytes += bytes;
    if (r->is_direct)
        body_advance(all, l, bytes);
    else
        r->stage_end += (uint32_t)bytes;
}

const char *receiver_where(const struct links *all, const struct link *l, char *text, size_t bytes)
{
    const struct receiver *r = &l->receiver;
    *text = 0;
    if (r->phase == RECEIVE_BODY)
        snprintf(text, bytes, " within a message of kind %u, after %" PRIu64 " of its %" PRIu64 " bytes",
                 r->header.kind, r->at, body_bytes(all, r));
    else if (r->phase == RECEIVE_PLACE)
        snprintf(text, bytes, " within a message of kind %u", r->header.kind);
    else if (r->phase == RECEIVE_HEADER && r->stage_end != r->stage_begin)
        snprintf(text, bytes, " within the header of a message");
    else if (r->phase == RECEIVE_GREETING && !l->is_incoming && r->stage_end == 0)
        snprintf(text, bytes, " before it has greeted: it refuses this node%s, or is no node",
                 all->is_sealed ? " for its key, job or program" : " for its job or program");
    else if (r->phase == RECEIVE_GREETING || r->phase == RECEIVE_CONFIRM)
        snprintf(text, bytes, " before it has greeted");
    return text;
}

void link_receive(struct links *all, uint32_t link, const struct iovec *parts, uint32_t part_count)
{
    struct link *l = &all->link[link];
    struct receiver *r = &l->receiver;
    uint64_t bytes = 0;
    CHECK(link < all->o.link_count && part_count <= LINK_PARTS_MAX);
    for (uint32_t i = 0; i < part_count; i++) bytes += parts[i].iov_len;
    if (l->state == LINK_IS_LOST) return;
    CHECK(l->state == LINK_IS_OPEN && r->phase == RECEIVE_PLACE && bytes == r->header.bytes);
    memcpy(r->part, parts, part_count * sizeof *parts);
    r->part_count = part_count;
    r->phase = RECEIVE_BODY;
}
