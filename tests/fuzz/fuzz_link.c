/* Any bytes on a link, in any of six roles, which the first byte chooses: behind a connection from outside or
 * one of ours, plain or sealed, greeting included; and behind a greeting, from one whose checks are right,
 * plain or with the key. The link takes them, or is lost with a sentence; a message that arrives has as many
 * bytes as it said, written nowhere else. */
#define FUZZ_NAME "link"
#include "tests/fuzz/driver.h"

#include "io/net/link_internal.h"

#define BYTES_MAX 200000u
#define PROLOGUE  77u

static const struct secure_key key = {"the key of the fuzzer has 32 byt"};

enum role { ACCEPTED, CONNECTED, ACCEPTED_SEALED, CONNECTED_SEALED, RIGHT, RIGHT_SEALED, ROLE_COUNT };

static struct links *links_of(bool is_sealed)
{
    static struct links *all[2];
    static struct arena arena[2];
    if (all[is_sealed]) return all[is_sealed];
    const char *why;
    const struct links_options o = {.link_count = 1,
                                    .queued_max = 4,
                                    .message_bytes_max = BYTES_MAX,
                                    .half_open_max = 1,
                                    .prologue = PROLOGUE,
                                    .keys = &key,
                                    .key_count = is_sealed,
                                    .poll_only = true};
    CHECK(secure_start() == ST_OK);
    CHECK(arena_open(&arena[is_sealed], "fuzz", links_bytes(&o)) == ST_OK);
    CHECK(links_open(&all[is_sealed], &arena[is_sealed], &o, &why) == ST_OK);
    return all[is_sealed];
}

/* The place of the message that is under way: a block of exactly its bytes, in up to three vectors. */
static uint8_t *place;
static uint32_t arrived_count;

static void events_answer(struct links *all, struct link *l)
{
    for (; all->event_count; all->event_count--) {
        const struct link_event e = all->event[all->event_head];
        all->event_head = (all->event_head + 1) % all->event_max;
        if (e.what == LINK_LOST) CHECK(*l->why && e.code != ST_OK);
        if (e.what != LINK_ARRIVES && e.what != LINK_ARRIVED) continue;
        CHECK(e.bytes <= BYTES_MAX && e.kind < FRAME_KIND_END);
        l->receiver.is_told = false;
        if (e.what == LINK_ARRIVED) {
            arrived_count++;
            free(place);
            place = NULL;
            continue;
        }
        CHECK(place == NULL && (place = malloc(e.bytes)) != NULL);
        const uint32_t cut = (uint32_t)(e.tag % e.bytes), rest = e.bytes - cut;
        const struct iovec part[3] = {{place, cut}, {place + cut, rest / 2}, {place + cut + rest / 2, rest - rest / 2}};
        link_receive(all, 0, part, 3);
    }
}

/* As if the socket gave them. */
static void bytes_give(struct links *all, struct link *l, const uint8_t *data, size_t bytes)
{
    for (;;) {
        struct uring_request request;
        size_t moved = 0;
        events_answer(all, l);
        if (l->state == LINK_IS_LOST) return;
        if (!receiver_prepare(all, l, &request)) {
            if (all->event_count == 0) return;
            continue;
        }
        const struct msghdr *m = request.buffer;
        for (size_t i = 0; i < m->msg_iovlen && bytes; i++) {
            size_t here = m->msg_iov[i].iov_len < bytes ? m->msg_iov[i].iov_len : bytes;
            memcpy(m->msg_iov[i].iov_base, data, here);
            data += here;
            bytes -= here;
            moved += here;
        }
        if (moved == 0) return;
        receiver_moved(all, l, moved);
    }
}

static void link_prepare(struct links *all, struct link *l, bool is_incoming)
{
    struct queued *queue = l->sender.queue;
    uint8_t *sealed = l->sender.sealed;
    memset(l, 0, sizeof *l);
    l->sender.queue = queue;
    l->sender.sealed = sealed;
    l->fd = -1;
    l->peer.any.sa_family = AF_INET;
    l->is_incoming = is_incoming;
    l->state = LINK_IS_GREETING;
    all->recent_count = 0;
    all->event_count = 0;
    if (is_incoming || !all->is_sealed) return;
    uint8_t prologue[FRAME_PROLOGUE_BYTES];
    frame_greeting_put(l->sender.greeting, FRAME_CHACHA, PROLOGUE);
    frame_prologue_put(prologue, l->sender.greeting, PROLOGUE);
    secure_handshake_begin(&l->handshake, FRAME_CHACHA, true, &key, prologue, sizeof prologue, NULL);
    CHECK(secure_handshake_write(&l->handshake, NULL, 0, l->sender.greeting + FRAME_PREAMBLE_BYTES));
}

/* One who is let in: of each message the data has a header and, as it says, a payload, or what is
 * left of one; its checks are right. */
static void messages_give(struct links *all, struct link *l, const uint8_t *data, size_t bytes)
{
    static const uint8_t secret[32] = {1};
    static uint8_t out[FRAME_PIECE_BYTES + FRAME_CHECK_MAX];
    struct secure_cipher cipher;
    uint64_t number = 0;
    if (all->is_sealed) {
        secure_cipher_set(&cipher, FRAME_CHACHA, secret);
        secure_cipher_set(&l->receiver.cipher, FRAME_CHACHA, secret);
    }
    link_opened(all, l);
    for (size_t left = 0; bytes && l->state != LINK_IS_LOST;) {
        const bool is_header = left == 0;
        size_t here = is_header ? FRAME_HEADER_BYTES : left < FRAME_PIECE_BYTES ? left : FRAME_PIECE_BYTES;
        struct frame_header header;
        if (here > bytes) here = bytes;
        if (is_header && here < FRAME_HEADER_BYTES) return;
        left -= is_header ? 0 : here;
        if (is_header && frame_header_get(&header, data, UINT32_MAX) == ST_OK) left = header.bytes;
        const struct iovec part = {(void *)(uintptr_t)data, here};
        const uint64_t check = all->check(number, &part, 1);
        memcpy(out, data, here);
        memcpy(out + here, &check, sizeof check);
        if (all->is_sealed) secure_seal(&cipher, number, data, out, here, out + here);
        number++;
        bytes_give(all, l, out, here + all->check_bytes);
        data += here;
        bytes -= here;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (bytes == 0) return 0;
    const enum role role = data[0] % ROLE_COUNT;
    struct links *all = links_of(role == ACCEPTED_SEALED || role == CONNECTED_SEALED || role == RIGHT_SEALED);
    struct link *l = &all->link[0];
    link_prepare(all, l, role == ACCEPTED || role == ACCEPTED_SEALED);
    arrived_count = 0;
    if (role == RIGHT || role == RIGHT_SEALED)
        messages_give(all, l, data + 1, bytes - 1);
    else
        bytes_give(all, l, data + 1, bytes - 1);
    /* Whoever has not the key is never let in. */
    if (role == ACCEPTED_SEALED || role == CONNECTED_SEALED) CHECK(l->state != LINK_IS_OPEN && arrived_count == 0);
    free(place);
    place = NULL;
    return 0;
}
