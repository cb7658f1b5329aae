/* Lives of links: listening, connecting, greeting, losing, closing; their events; and the loop that hands
 * requests to the kernel and takes the finished ones.
 *
 *     link_connect ──▶ CONNECTING ──▶ GREETING ──▶ OPEN ──▶ LOST ──▶ link_close ──▶ FREE
 *     accepted     ──────────────────▶ GREETING ──▶ OPEN   (lost before it is open: freed here, and counted) */
#include "io/net/link_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/tcp.h>
#include <sodium.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "engine/base/clock.h"

#define GREETING_NS   UINT64_C(1000000000)
#define FILES_REST_NS UINT64_C(100000000) /* no connection is accepted for this long when files have run out */
#define ACCEPTS_MAX   16u                 /* at a time: open links have their turn between */
#define BACKLOG       128
#define UNSENT_BYTES  (256 << 10)

/* What a request is for: its tag. */
enum duty { DUTY_SEND, DUTY_RECEIVE, DUTY_CONNECT, DUTY_LISTEN, DUTY_WAKE, DUTY_COUNT };
static uint64_t tag_of(uint32_t index, enum duty duty) { return (uint64_t)index * DUTY_COUNT + duty; }

static uint32_t index_of(const struct links *all, const struct link *l) { return (uint32_t)(l - all->link); }

/* --- memory ------------------------------------------------------------------------------------ */

static struct uring_options uring_options_of(const struct links_options *o)
{
    return (struct uring_options){.depth = 2 * o->link_count + LINK_LISTENERS_MAX + 1,
                                  .is_for_sockets = true,
                                  .threads_only = o->poll_only,
                                  .faults = o->faults};
}

static uint32_t events_max(const struct links_options *o)
{
    return o->link_count *
           (o->queued_max + 4); /* sent: queued_max; opened, arrives or arrived, lost: each once until it is taken */
}

static void links_layout(struct links *all, struct layout *layout, const struct links_options *o)
{
    LAYOUT_TAKE(layout, all->link, o->link_count);
    LAYOUT_TAKE(layout, all->ready, uring_options_of(o).depth);
    LAYOUT_TAKE(layout, all->done, uring_options_of(o).depth);
    LAYOUT_TAKE(layout, all->event, events_max(o));
    for (uint32_t i = 0; i < o->link_count; i++) {
        struct queued *queue = layout_take(layout, o->queued_max, sizeof *queue);
        uint8_t *sealed = o->key_count ? layout_take(layout, SEALED_BYTES, 1) : NULL;
        if (all->link) all->link[i].sender.queue = queue;
        if (all->link) all->link[i].sender.sealed = sealed;
    }
    if (o->key_count) LAYOUT_TAKE(layout, all->piece, FRAME_PIECE_BYTES);
}

size_t links_bytes(const struct links_options *options)
{
    struct links unused = {0};
    const struct uring_options uring = uring_options_of(options);
    struct layout sum = {.bytes = arena_bytes(sizeof unused)};
    links_layout(&unused, &sum, options);
    return sum.bytes + uring_bytes(&uring);
}

/* --- events ------------------------------------------------------------------------------------ */

void link_tell(struct links *all, struct link *l, const struct link_event *event)
{
    CHECK(all->event_count < all->event_max);
    struct link_event *e = &all->event[(all->event_head + all->event_count++) % all->event_max];
    *e = *event;
    e->link = index_of(all, l);
    e->incoming = l->is_incoming;
}

static uint32_t events_take(struct links *all, struct link_event *events, uint32_t max)
{
    uint32_t count = 0;
    for (; count < max && all->event_count; count++, all->event_count--) {
        events[count] = all->event[all->event_head];
        all->event_head = (all->event_head + 1) % all->event_max;
        if (events[count].what == LINK_ARRIVES || events[count].what == LINK_ARRIVED)
            all->link[events[count].link].receiver.is_told = false;
    }
    return count;
}

static void events_forget(struct links *all, uint32_t link)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < all->event_count; i++) {
        struct link_event e = all->event[(all->event_head + i) % all->event_max];
        if (e.link != link) all->event[(all->event_head + kept++) % all->event_max] = e;
    }
    all->event_count = kept;
}

/* --- ends -------------------------------------------------------------------------------------- */

void link_lose(struct links *all, struct link *l, status code, const char *format, ...)
{
    char peer[ADDRESS_TEXT_BYTES], words[WHY_BYTES];
    va_list arguments;
    if (l->state == LINK_IS_LOST) return;
    va_start(arguments, format);
    vsnprintf(words, sizeof words, format, arguments);
    va_end(arguments);
    snprintf(l->why, sizeof l->why, "%s: %.*s", address_text(peer, &l->peer),
             (int)(sizeof l->why - ADDRESS_TEXT_BYTES - 3), words);
    l->code = code;
    const bool is_unseen = l->is_incoming && l->state == LINK_IS_GREETING;
    l->state = LINK_IS_LOST;
    (void)shutdown(l->fd, SHUT_RDWR); /* ends the requests under way */
    if (!is_unseen) {
        all->counts.lost_count++;
        link_tell(all, l, &(struct link_event){.what = LINK_LOST, .code = code});
        return;
    }
    l->is_unseen = true;
    if (l->is_late) {
        all->counts.late_count++;
        return;
    }
    all->counts.garbage_count++;
    snprintf(all->counts.garbage_why, sizeof all->counts.garbage_why, "%.*s", (int)sizeof all->counts.garbage_why - 1,
             l->why);
}

static bool link_is_busy(const struct link *l) { return l->sender.is_busy || l->receiver.is_busy || l->is_awaiting; }

/* Resets the link, and wipes its keys. */
static void link_wipe(struct link *l, int fd)
{
    struct queued *queue = l->sender.queue;
    uint8_t *sealed = l->sender.sealed;
    sodium_memzero(l, sizeof *l);
    l->sender.queue = queue;
    l->sender.sealed = sealed;
    l->fd = fd;
}

static void link_free(struct link *l)
{
    close(l->fd);
    link_wipe(l, -1);
}

/* --- beginnings -------------------------------------------------------------------------------- */

static struct link *link_take(struct links *all)
{
    for (uint32_t i = 0; i < all->o.link_count; i++)
        if (all->link[i].state == LINK_IS_FREE) return &all->link[i];
    return NULL;
}

static struct secure_handshake *handshake_begin(const struct links *all, struct link *l, const uint8_t *preamble,
                                                uint32_t key)
{
    uint8_t prologue[FRAME_PROLOGUE_BYTES];
    frame_prologue_put(prologue, preamble, all->o.prologue);
    secure_handshake_begin(&l->handshake, preamble[8], !l->is_incoming, &all->o.keys[key], prologue, sizeof prologue,
                           NULL);
    return &l->handshake;
}

/* Puts this end's greeting on its way; false: the other end's greeting is of no use. */
static bool link_greet(struct links *all, struct link *l, enum frame_seal seal)
{
    struct sender *s = &l->sender;
    frame_greeting_put(s->greeting, seal, all->o.prologue);
    if (all->is_sealed && !l->is_incoming) (void)handshake_begin(all, l, s->greeting, 0);
    if (all->is_sealed && !secure_handshake_write(&l->handshake, NULL, 0, s->greeting + FRAME_PREAMBLE_BYTES))
        return false;
    s->greeting_end = FRAME_GREETING_BYTES;
    return true;
}

void link_opened(struct links *all, struct link *l)
{
    l->receiver.phase = RECEIVE_HEADER;
    l->state = LINK_IS_OPEN;
    all->counts.opened_count++;
    link_tell(all, l, &(struct link_event){.what = LINK_OPENED});
}

/* Whether nobody has greeted with this point lately; remembers it. */
static bool point_is_new(struct links *all, const uint8_t point[32])
{
    uint64_t first;
    memcpy(&first, point, sizeof first);
    for (uint64_t i = 0; i < LINK_RECENT && i < all->recent_count; i++)
        if (all->recent[i] == first) return false;
    all->recent[all->recent_count++ % LINK_RECENT] = first;
    return true;
}

/* Answers an initiator's greeting: by any of the keys. */
static bool handshake_answers(struct links *all, struct link *l, const uint8_t *greeting)
{
    const uint8_t *message = greeting + FRAME_PREAMBLE_BYTES;
    uint8_t nothing;
    bool is_ours = false;
    for (uint32_t i = 0; i < all->o.key_count && !is_ours; i++)
        is_ours =
            secure_handshake_read(handshake_begin(all, l, greeting, i), message, SECURE_HANDSHAKE_BYTES, &nothing);
    if (!is_ours)
        link_lose(all, l, ST_INVALID,
                  "has another key, belongs to another job, or runs another version of the program");
    else if (!point_is_new(all, message))
        link_lose(all, l, ST_INVALID, "greets by what another has said before");
    else if (!link_greet(all, l, (enum frame_seal)greeting[8]))
        link_lose(all, l, ST_INVALID, "greets with a point that is of no use");
    else
        return true;
    return false;
}

/* Appends to the greeting, before any message of the caller, a message that only
 * an owner of the key can make. */
static void confirm_add(struct sender *s)
{
    const struct frame_header confirm = {.kind = FRAME_KIND_CONFIRM};
    uint8_t header[FRAME_HEADER_BYTES], *out = s->greeting + s->greeting_end;
    frame_header_put(header, &confirm);
    secure_seal(&s->cipher, s->number++, header, out, FRAME_HEADER_BYTES, out + FRAME_HEADER_BYTES);
    s->sealed_number = s->number;
    s->greeting_end += FRAME_HEADER_BYTES + FRAME_CHECK_MAX;
}

static void link_greeted_sealed(struct links *all, struct link *l, const uint8_t *greeting)
{
    uint8_t nothing;
    if (l->is_incoming) {
        if (!handshake_answers(all, l, greeting)) return;
    } else if (greeting[8] != l->sender.greeting[8] ||
               !secure_handshake_read(&l->handshake, greeting + FRAME_PREAMBLE_BYTES, SECURE_HANDSHAKE_BYTES,
                                      &nothing)) {
        link_lose(all, l, ST_INVALID, "the answer there is not of a node that has the key");
        return;
    }
    secure_handshake_split(&l->handshake, &l->sender.cipher, &l->receiver.cipher);
    if (l->is_incoming) {
        l->receiver.phase = RECEIVE_CONFIRM;
        return;
    }
    confirm_add(&l->sender);
    link_opened(all, l);
}

void link_greeted(struct links *all, struct link *l, const uint8_t greeting[FRAME_GREETING_BYTES])
{
    enum frame_seal seal;
    status st = frame_preamble_get(greeting, all->is_sealed, &seal);
    if (st == ST_OK && !all->is_sealed) st = frame_plain_get(greeting, all->o.prologue);
    if (st == ST_OK && all->is_sealed && !secure_seal_runs(seal))
        st = status_fail(ST_INVALID, __FILE__, __LINE__,
                         "the node there seals by AES-256-GCM, for which this processor has no instructions");
    if (st != ST_OK) {
        link_lose(all, l, ST_INVALID, "%s", status_message());
        return;
    }
    if (all->is_sealed) {
        link_greeted_sealed(all, l, greeting);
        return;
    }
    if (l->is_incoming) (void)link_greet(all, l, FRAME_PLAIN);
    link_opened(all, l);
}

/* Small messages go at once. The kernel sizes the buffers, but bytes that are not on the wire yet wait here,
 * because a later message may be more urgent for the sender. */
static void socket_tune(int fd)
{
    const int yes = 1, unsent_bytes = UNSENT_BYTES;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent_bytes, sizeof unsent_bytes);
}

static void link_begin(struct links *all, struct link *l, int fd, const struct address *peer, uint64_t end_ns)
{
    link_wipe(l, fd);
    l->peer = *peer;
    l->end_ns = end_ns;
    if (end_ns < all->next_end_ns) all->next_end_ns = end_ns;
    socket_tune(fd);
}

status link_connect(struct links *all, const struct address *address, uint64_t end_ns, uint32_t *link)
{
    struct link *l = link_take(all);
    char text[ADDRESS_TEXT_BYTES];
    if (l == NULL) FAIL(FULL, "all %u links are taken", all->o.link_count);
    int fd = socket(address->any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) FAIL(SYSTEM, "a connection to %s: %s", address_text(text, address), strerror(errno));
    link_begin(all, l, fd, address, end_ns);
    l->state = LINK_IS_CONNECTING;
    *link = index_of(all, l);
    if (connect(fd, &address->any, address_bytes(address)) != 0 && errno != EINPROGRESS)
        link_lose(all, l, ST_PEER_LOST, "cannot connect: %s", strerror(errno));
    return ST_OK;
}

static void link_connected(struct links *all, struct link *l)
{
    int error = 0;
    socklen_t bytes = sizeof error;
    if (l->state != LINK_IS_CONNECTING) return;
    if (getsockopt(l->fd, SOL_SOCKET, SO_ERROR, &error, &bytes) != 0) error = errno;
    if (error == 0 && fcntl(l->fd, F_SETFL, 0) != 0) error = errno; /* requests need a blocking socket from now on */
    if (error) {
        link_lose(all, l, ST_PEER_LOST, "cannot connect: %s", strerror(error));
        return;
    }
    l->state = LINK_IS_GREETING;
    (void)link_greet(all, l, !all->is_sealed ? FRAME_PLAIN : all->o.chacha_only ? FRAME_CHACHA : secure_seal_best());
}

status links_listen(struct links *all, const struct address *address, struct address *bound)
{
    char text[ADDRESS_TEXT_BYTES];
    const int yes = 1;
    struct address here;
    socklen_t bytes = sizeof here;
    CHECK(all->listener_count < LINK_LISTENERS_MAX);
    int fd = socket(address->any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) FAIL(SYSTEM, "listening on %s: %s", address_text(text, address), strerror(errno));
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (address->any.sa_family == AF_INET6) (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &yes, sizeof yes);
    if (bind(fd, &address->any, address_bytes(address)) != 0 || listen(fd, BACKLOG) != 0 ||
        getsockname(fd, &here.any, &bytes) != 0) {
        const int error = errno;
        close(fd);
        const status st = status_fail(ST_SYSTEM, __FILE__, __LINE__, "listening on %s: %s", address_text(text, address),
                                      strerror(error));
        errno = error;
        return st;
    }
    if (bound) *bound = here;
    all->listener[all->listener_count++] = (struct listener){.fd = fd};
    return ST_OK;
}

status links_listen_at(struct links *all, int socket)
{
    int listens = 0;
    socklen_t bytes = sizeof listens;
    CHECK(all->listener_count < LINK_LISTENERS_MAX);
    if (getsockopt(socket, SOL_SOCKET, SO_ACCEPTCONN, &listens, &bytes) != 0 || !listens)
        FAIL(SYSTEM, "descriptor %d: expected a socket that listens, found %s", socket,
             errno == EBADF ? "nothing" : "something else");
    if (fcntl(socket, F_SETFL, O_NONBLOCK) != 0) FAIL(SYSTEM, "descriptor %d: %s", socket, strerror(errno));
    all->listener[all->listener_count++] = (struct listener){.fd = socket};
    return ST_OK;
}

/* Whether another connection from this host may be half open. */
static bool crowd_has_room(const struct links *all, const struct address *peer)
{
    uint32_t all_count = 0, same_count = 0;
    for (uint32_t i = 0; i < all->o.link_count; i++) {
        const struct link *l = &all->link[i];
        if (!l->is_incoming || (l->state != LINK_IS_GREETING && !l->is_unseen)) continue;
        all_count++;
        same_count += address_same_host(&l->peer, peer);
    }
    const uint32_t same_max = all->o.same_host_max ? all->o.same_host_max : LINK_SAME_HOST_MAX;
    return all_count < all->o.half_open_max && same_count < same_max;
}

static void listener_accept(struct links *all, struct listener *listener)
{
    for (uint32_t i = 0; i < ACCEPTS_MAX; i++) {
        struct address peer;
        socklen_t bytes = sizeof peer;
        int fd = accept4(listener->fd, &peer.any, &bytes, SOCK_CLOEXEC);
        if (fd < 0) {
            const bool is_tried_again = errno == EAGAIN || errno == ECONNABORTED || errno == EINTR;
            if (!is_tried_again) listener->rest_end_ns = clock_ns() + FILES_REST_NS;
            return;
        }
        struct link *l = crowd_has_room(all, &peer) ? link_take(all) : NULL;
        if (l == NULL) {
            all->counts.crowded_count++;
            close(fd);
            continue;
        }
        link_begin(all, l, fd, &peer, clock_ns() + all->o.greeting_ns);
        l->is_incoming = true;
        l->state = LINK_IS_GREETING;
    }
}

/* --- the loop ---------------------------------------------------------------------------------- */

/* The requests of a link that can be made now; also notes when it is late. */
static uint32_t link_requests(struct links *all, struct link *l, struct uring_request *out)
{
    const uint32_t index = index_of(all, l);
    uint32_t count = 0;
    if (l->state == LINK_IS_CONNECTING && !l->is_awaiting) {
        out[count++] = (struct uring_request){
            .kind = URING_AWAIT, .for_writing = true, .fd = l->fd, .tag = tag_of(index, DUTY_CONNECT)};
        l->is_awaiting = true;
    }
    if (l->state == LINK_IS_GREETING || l->state == LINK_IS_OPEN) {
        /* Receiving first: the bytes that have come may be answered in the same call. */
        if (!l->receiver.is_busy && receiver_prepare(all, l, &out[count])) {
            out[count++].tag = tag_of(index, DUTY_RECEIVE);
            l->receiver.is_busy = true;
        }
        if (l->state != LINK_IS_LOST && !l->sender.is_busy && sender_prepare(all, l, &out[count])) {
            out[count++].tag = tag_of(index, DUTY_SEND);
            l->sender.is_busy = true;
        }
    }
    if ((l->state == LINK_IS_CONNECTING || l->state == LINK_IS_GREETING) && l->end_ns < all->next_end_ns)
        all->next_end_ns = l->end_ns;
    if (l->is_unseen && !link_is_busy(l)) link_free(l);
    return count;
}

status links_submit(struct links *all)
{
    uint32_t count = 0;
    all->next_end_ns = UINT64_MAX;
    for (uint32_t i = 0; i < all->listener_count; i++) {
        struct listener *listener = &all->listener[i];
        if (listener->is_awaiting) continue;
        if (listener->rest_end_ns && clock_ns() < listener->rest_end_ns) {
            if (listener->rest_end_ns < all->next_end_ns) all->next_end_ns = listener->rest_end_ns;
            continue;
        }
        all->ready[count++] =
            (struct uring_request){.kind = URING_AWAIT, .fd = listener->fd, .tag = tag_of(i, DUTY_LISTEN)};
        listener->is_awaiting = true;
        listener->rest_end_ns = 0;
    }
    if (!all->is_awaiting_wake) {
        all->ready[count++] =
            (struct uring_request){.kind = URING_AWAIT, .fd = all->wake_fd, .tag = tag_of(0, DUTY_WAKE)};
        all->is_awaiting_wake = true;
    }
    for (uint32_t i = 0; i < all->o.link_count; i++)
        if (all->link[i].state != LINK_IS_FREE) count += link_requests(all, &all->link[i], all->ready + count);
    return count ? uring_submit(all->uring, all->ready, count) : ST_OK;
}

static void link_moved(struct links *all, struct link *l, enum duty duty, int32_t result)
{
    char where[128];
    if (l->state == LINK_IS_LOST || result == -EAGAIN || result == -EINTR) return;
    if (result > 0 && duty == DUTY_SEND)
        sender_moved(all, l, (uint64_t)result);
    else if (result > 0)
        receiver_moved(all, l, (uint64_t)result);
    else if (duty == DUTY_RECEIVE && result == 0)
        link_lose(all, l, ST_PEER_LOST, "the node there has closed the connection%s",
                  receiver_where(all, l, where, sizeof where));
    else
        link_lose(all, l, ST_PEER_LOST, "the connection has ended%s: %s", receiver_where(all, l, where, sizeof where),
                  strerror(-result));
}

/* A ring after this call writes again, and changes before a ring that this call takes are seen here. */
static void wake_take(struct links *all)
{
    uint64_t count;
    all->is_awaiting_wake = false;
    all->is_woken = true;
    (void)!read(all->wake_fd, &count, sizeof count);
    /* Acquire and release: with links_wake(). */
    (void)atomic_exchange_explicit(&all->shared_is_rung, false, memory_order_acq_rel);
}

void links_wake(struct links *all)
{
    const uint64_t one = 1;
    /* Release: the changes before. Acquire: a ring that nobody has read yet is read after these changes. */
    if (atomic_exchange_explicit(&all->shared_is_rung, true, memory_order_acq_rel)) return;
    (void)!write(all->wake_fd, &one, sizeof one);
}

static void done_take(struct links *all, const struct uring_done *done)
{
    const uint32_t index = (uint32_t)(done->tag / DUTY_COUNT);
    const enum duty duty = (enum duty)(done->tag % DUTY_COUNT);
    if (duty == DUTY_LISTEN) {
        all->listener[index].is_awaiting = false;
        listener_accept(all, &all->listener[index]);
        return;
    }
    if (duty == DUTY_WAKE) {
        wake_take(all);
        return;
    }
    struct link *l = &all->link[index];
    if (duty == DUTY_CONNECT) {
        l->is_awaiting = false;
        link_connected(all, l);
        return;
    }
    if (duty == DUTY_SEND)
        l->sender.is_busy = false;
    else
        l->receiver.is_busy = false;
    link_moved(all, l, duty, done->result);
}

static void late_lose(struct links *all)
{
    const uint64_t now_ns = clock_ns();
    if (now_ns < all->next_end_ns) return;
    for (uint32_t i = 0; i < all->o.link_count; i++) {
        struct link *l = &all->link[i];
        if ((l->state != LINK_IS_CONNECTING && l->state != LINK_IS_GREETING) || now_ns < l->end_ns) continue;
        l->is_late = true;
        link_lose(all, l, ST_PEER_LOST,
                  l->state == LINK_IS_CONNECTING ? "no answer: is the node up, and no firewall between?"
                                                 : "connected, but the node there does not greet in time");
    }
}

static uint32_t reap(struct links *all, uint64_t end_ns)
{
    const uint32_t max = uring_options_of(&all->o).depth;
    uint32_t count = uring_reap(all->uring, all->done, max, 0);
    if (count || end_ns == 0) return count;
    const uint64_t spin_end_ns = all->o.spin_ns ? clock_ns() + all->o.spin_ns : 0;
    for (uint64_t end = spin_end_ns < end_ns ? spin_end_ns : end_ns; count == 0 && end != 0 && clock_ns() < end;)
        count = uring_reap(all->uring, all->done, max, 0);
    return count ? count : uring_reap(all->uring, all->done, max, end_ns);
}

status links_wait(struct links *all, struct link_event *events, uint32_t max, uint64_t end_ns, uint32_t *count)
{
    for (bool is_time = false;;) {
        TRY(links_submit(all));
        if (all->event_count || is_time || all->is_woken) break;
        const uint64_t until_ns = end_ns < all->next_end_ns ? end_ns : all->next_end_ns;
        const uint32_t done_count = reap(all, until_ns);
        for (uint32_t i = 0; i < done_count; i++) done_take(all, &all->done[i]);
        late_lose(all);
        is_time = end_ns == 0 || (done_count == 0 && end_ns != UINT64_MAX && clock_ns() >= end_ns);
    }
    all->is_woken = false;
    *count = events_take(all, events, max);
    return ST_OK;
}

/* --- open and close ---------------------------------------------------------------------------- */

status links_open(struct links **links, struct arena *arena, const struct links_options *o, const char **why)
{
    CHECK(o->link_count >= 1 && o->link_count <= LINK_COUNT_MAX && o->queued_max >= 1 && o->queued_max <= 65536);
    CHECK(o->key_count <= LINK_KEYS_MAX);
    struct links *all = arena_take(arena, sizeof *all);
    struct layout place = {.arena = arena};
    const struct uring_options uring = uring_options_of(o);
    links_layout(all, &place, o);
    all->o = *o;
    if (all->o.greeting_ns == 0) all->o.greeting_ns = GREETING_NS;
    all->event_max = events_max(o);
    all->check = frame_check_of(NULL);
    all->is_sealed = o->key_count > 0;
    all->check_bytes = all->is_sealed ? FRAME_CHECK_MAX : sizeof(uint64_t);
    all->next_end_ns = UINT64_MAX;
    for (uint32_t i = 0; i < o->link_count; i++) all->link[i].fd = -1;
    *links = NULL;
    all->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (all->wake_fd < 0) FAIL(SYSTEM, "eventfd: %s", strerror(errno));
    const status st = uring_open(&all->uring, arena, &uring, why);
    if (st != ST_OK) close(all->wake_fd);
    if (st == ST_OK) *links = all;
    return st;
}

void link_close(struct links *all, uint32_t link)
{
    CHECK(link < all->o.link_count);
    struct link *l = &all->link[link];
    CHECK(l->state != LINK_IS_FREE && !l->is_unseen);
    (void)shutdown(l->fd, SHUT_RDWR);
    l->state = LINK_IS_LOST;
    while (link_is_busy(l)) { /* takes finished requests of other links, too */
        const uint32_t count = uring_reap(all->uring, all->done, uring_options_of(&all->o).depth, UINT64_MAX);
        for (uint32_t i = 0; i < count; i++) done_take(all, &all->done[i]);
    }
    events_forget(all, link);
    link_free(l);
}

void links_close(struct links *all)
{
    if (all == NULL) return;
    for (uint32_t i = 0; i < all->o.link_count; i++)
        if (all->link[i].state != LINK_IS_FREE) (void)shutdown(all->link[i].fd, SHUT_RDWR);
    for (uint32_t i = 0; i < all->listener_count; i++) (void)shutdown(all->listener[i].fd, SHUT_RDWR);
    links_wake(all); /* ends the request of wake_fd, for which nobody waits any more */
    uring_close(all->uring);
    for (uint32_t i = 0; i < all->o.link_count; i++)
        if (all->link[i].state != LINK_IS_FREE) link_free(&all->link[i]);
    for (uint32_t i = 0; i < all->listener_count; i++) close(all->listener[i].fd);
    close(all->wake_fd);
}

const char *links_name(const struct links *all) { return uring_name(all->uring); }
const char *link_why(const struct links *all, uint32_t link) { return all->link[link].why; }
const struct address *link_peer(const struct links *all, uint32_t link) { return &all->link[link].peer; }
uint64_t link_received_bytes(const struct links *all, uint32_t link) { return all->link[link].receiver.moved_bytes; }
const struct link_counts *links_counts(const struct links *all) { return &all->counts; }

status link_own(const struct links *all, uint32_t link, struct address *own)
{
    socklen_t bytes = sizeof *own;
    if (getsockname(all->link[link].fd, &own->any, &bytes) != 0)
        FAIL(SYSTEM, "the address of this end of a connection: %s", strerror(errno));
    return ST_OK;
}
