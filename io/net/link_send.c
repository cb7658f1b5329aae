/* From the queue of a link to vectors for one sendmsg: headers and checks from slots, payloads
 * from the sender's memory. A sealed link encrypts all of these into one buffer, which is filled
 * again when its bytes have gone.
 *
 *     queue   │ message 7, half sent │ message 8 │ message 9 …
 *     vectors        piece check piece check  header check piece check …     up to 256 KiB, 48 vectors, 32 checks
 *     sealed         piece check  header check piece check …                 up to 132 KiB */
#include "io/net/link_internal.h"

#include <string.h>

static struct queued *queue_at(const struct links *all, struct sender *s, uint32_t index)
{
    return &s->queue[(s->head + index) % all->o.queued_max];
}

bool link_send(struct links *all, uint32_t link, const struct link_message *m, uint64_t cookie)
{
    struct link *l = &all->link[link];
    struct sender *s = &l->sender;
    uint64_t bytes = 0;
    CHECK(link < all->o.link_count && (l->state == LINK_IS_OPEN || l->state == LINK_IS_LOST));
    CHECK(m->part_count <= LINK_PARTS_MAX && m->kind < FRAME_KIND_END);
    if (s->count == all->o.queued_max) return false;
    for (uint32_t i = 0; i < m->part_count; i++) bytes += m->part[i].iov_len;
    CHECK(bytes <= UINT32_MAX);
    struct queued *q = queue_at(all, s, s->count++);
    *q = (struct queued){.header = {.bytes = (uint32_t)bytes, .kind = m->kind, .tag = m->tag},
                         .part_count = m->part_count,
                         .cookie = cookie,
                         .wire_bytes = FRAME_HEADER_BYTES + all->check_bytes +
                                       frame_body_bytes((uint32_t)bytes, all->check_bytes),
                         .check_first = s->number};
    memcpy(q->part, m->part, m->part_count * sizeof *m->part);
    s->number += 1 + frame_piece_count((uint32_t)bytes);
    return true;
}

/* The vectors so far. */
struct send_vectors {
    struct sender *s;
    uint32_t vec_count;
    uint64_t bytes;
    uint64_t slot_end; /* checks from here on have no slot yet */
};

static void batch_add(struct send_vectors *b, const void *at, size_t bytes)
{
    b->s->vec[b->vec_count++] = (struct iovec){(void *)(uintptr_t)at, bytes};
    b->bytes += bytes;
}

static void check_make(const struct links *all, struct queued *q, struct slot *slot, uint64_t index)
{
    const uint64_t number = q->check_first + index;
    uint64_t check;
    if (index == 0) {
        frame_header_put(slot->header, &q->header);
        const struct iovec header = {slot->header, FRAME_HEADER_BYTES};
        check = all->check(number, &header, 1);
    } else {
        struct iovec part[LINK_PARTS_MAX];
        bool is_whole;
        uint32_t count =
            frame_slice(q->part, q->part_count, (index - 1) * FRAME_PIECE_BYTES,
                        frame_piece_bytes(q->header.bytes, (uint32_t)index - 1), part, LINK_PARTS_MAX, &is_whole);
        check = all->check(number, part, count);
    }
    memcpy(slot->check, &check, sizeof check);
    q->made_count = index + 1;
}

/* Adds the rest of the header (index 0) or of a piece, and of its check, from its byte `at` on; false:
 * there is no room for all of it. */
static bool unit_add(const struct links *all, struct send_vectors *b, struct queued *q, uint64_t index, uint64_t at)
{
    const uint64_t number = q->check_first + index;
    struct slot *slot = &b->s->slot[number % SLOTS];
    if (number >= b->slot_end || b->vec_count + LINK_PARTS_MAX + 1 > VEC_MAX) return false;
    if (q->made_count == index) check_make(all, q, slot, index);
    if (index == 0) { /* header and check lie side by side */
        batch_add(b, slot->header + at, FRAME_HEADER_BYTES + all->check_bytes - at);
        return true;
    }
    const uint32_t bytes = frame_piece_bytes(q->header.bytes, (uint32_t)index - 1);
    if (at < bytes) {
        bool is_whole;
        b->vec_count += frame_slice(q->part, q->part_count, (index - 1) * FRAME_PIECE_BYTES + at, bytes - at,
                                    b->s->vec + b->vec_count, LINK_PARTS_MAX, &is_whole);
        b->bytes += bytes - at;
        at = bytes;
    }
    batch_add(b, slot->check + (at - bytes), all->check_bytes - (at - bytes));
    return true;
}

/* Adds a message from its byte `at` on; false: the batch is full. */
static bool message_add(const struct links *all, struct send_vectors *b, struct queued *q, uint64_t at)
{
    const uint64_t head_bytes = FRAME_HEADER_BYTES + all->check_bytes,
                   unit_bytes = FRAME_PIECE_BYTES + all->check_bytes;
    while (at < q->wire_bytes) {
        const uint64_t index = at < head_bytes ? 0 : 1 + (at - head_bytes) / unit_bytes;
        const uint64_t begin = index ? head_bytes + (index - 1) * unit_bytes : 0;
        if (b->bytes >= BATCH_BYTES || !unit_add(all, b, q, index, at - begin)) return false;
        at = index ? begin + unit_bytes : head_bytes; /* or beyond the end */
    }
    return true;
}

/* Seals the header (index 0) or a piece of a message behind the bytes sealed so
 * far; false: there is no room. */
static bool unit_seal(struct sender *s, const struct queued *q, uint64_t index)
{
    uint8_t *out = s->sealed + s->sealed_end;
    if (index == 0) {
        uint8_t header[FRAME_HEADER_BYTES];
        if (s->sealed_end + FRAME_HEADER_BYTES + FRAME_CHECK_MAX > SEALED_BYTES) return false;
        frame_header_put(header, &q->header);
        secure_seal(&s->cipher, q->check_first, header, out, FRAME_HEADER_BYTES, out + FRAME_HEADER_BYTES);
        s->sealed_end += FRAME_HEADER_BYTES + FRAME_CHECK_MAX;
        return true;
    }
    const uint32_t bytes = frame_piece_bytes(q->header.bytes, (uint32_t)index - 1);
    struct iovec part[LINK_PARTS_MAX];
    bool is_whole;
    if (s->sealed_end + bytes + FRAME_CHECK_MAX > SEALED_BYTES) return false;
    const uint32_t count =
        frame_slice(q->part, q->part_count, (index - 1) * FRAME_PIECE_BYTES, bytes, part, LINK_PARTS_MAX, &is_whole);
    const uint8_t *in = count == 1 ? part[0].iov_base : out;
    for (uint32_t i = 0, at = 0; count > 1 && i < count; at += (uint32_t)part[i++].iov_len)
        memcpy(out + at, part[i].iov_base, part[i].iov_len);
    secure_seal(&s->cipher, q->check_first + index, in, out, bytes, out + bytes);
    s->sealed_end += bytes + FRAME_CHECK_MAX;
    return true;
}

/* Fills the empty buffer, from where the last filling ended. */
static void queue_seal(const struct links *all, struct sender *s)
{
    s->sealed_begin = s->sealed_end = 0;
    for (uint32_t i = 0; i < s->count; i++) {
        const struct queued *q = queue_at(all, s, i);
        const uint64_t end = q->check_first + 1 + frame_piece_count(q->header.bytes);
        for (; s->sealed_number < end; s->sealed_number++)
            if (!unit_seal(s, q, s->sealed_number - q->check_first)) return;
    }
}

bool sender_prepare(struct links *all, struct link *l, struct uring_request *request)
{
    struct sender *s = &l->sender;
    struct send_vectors b = {.s = s};
    if (s->greeting_begin < s->greeting_end)
        batch_add(&b, s->greeting + s->greeting_begin, s->greeting_end - s->greeting_begin);
    if (l->state == LINK_IS_OPEN && all->is_sealed) {
        if (s->sealed_begin == s->sealed_end) queue_seal(all, s);
        if (s->sealed_begin < s->sealed_end)
            batch_add(&b, s->sealed + s->sealed_begin, s->sealed_end - s->sealed_begin);
    } else if (l->state == LINK_IS_OPEN && s->count) {
        /* The checks of the first message that have gone have given their slots back. */
        const uint64_t head_bytes = FRAME_HEADER_BYTES + all->check_bytes,
                       unit_bytes = FRAME_PIECE_BYTES + all->check_bytes;
        const uint64_t gone = s->at < head_bytes ? 0 : 1 + (s->at - head_bytes) / unit_bytes;
        b.slot_end = queue_at(all, s, 0)->check_first + gone + SLOTS;
        for (uint32_t i = 0; i < s->count; i++)
            if (!message_add(all, &b, queue_at(all, s, i), i ? 0 : s->at)) break;
    }
    if (b.bytes == 0) return false;
    s->message = (struct msghdr){.msg_iov = s->vec, .msg_iovlen = b.vec_count};
    *request = (struct uring_request){
        .kind = URING_SEND, .is_whole = true, .fd = l->fd, .buffer = &s->message, .bytes = (uint32_t)b.bytes};
    return true;
}

void sender_moved(struct links *all, struct link *l, uint64_t bytes)
{
    struct sender *s = &l->sender;
    all->counts.sent_bytes += bytes;
    const uint32_t greeting_left = s->greeting_end - s->greeting_begin;
    const uint64_t greeted = bytes < greeting_left ? bytes : greeting_left;
    s->greeting_begin += (uint32_t)greeted;
    s->at += bytes - greeted;
    if (all->is_sealed) s->sealed_begin += (uint32_t)(bytes - greeted);
    while (s->count && s->at >= queue_at(all, s, 0)->wire_bytes) {
        const struct queued *q = queue_at(all, s, 0);
        s->at -= q->wire_bytes;
        link_tell(all, l, &(struct link_event){.what = LINK_SENT, .cookie = q->cookie});
        all->counts.sent_count++;
        s->head = (s->head + 1) % all->o.queued_max;
        s->count--;
    }
    CHECK(s->count || s->at == 0);
}
