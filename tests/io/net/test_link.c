/* Links: what is sent arrives, whatever the sizes, vectors, back end and faults; what breaks off, is garbled,
 * crowded, slow or garbage is told, counted, and harms no other link. */
#include "tests/io/net/link_rig.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "engine/base/steady.h"

#define MESSAGES 300u
#define AREA     (3u << 20)

static struct link_event arrived[64];
static uint32_t arrived_count;
static uint8_t arrived_bytes[300000];

static void keep_event(struct end *e, const struct link_event *event)
{
    if (event->what == LINK_ARRIVES) {
        struct iovec part = {arrived_bytes, event->bytes};
        link_receive(e->links, event->link, &part, 1);
    }
    if (event->what == LINK_ARRIVED && arrived_count < 64) arrived[arrived_count++] = *event;
}

/* Message number n of the flood, a function of n and the seed: how long it is, how it is
 * cut into vectors, what is in it. */
static uint32_t flood_bytes(uint32_t n, uint32_t seed)
{
    static const uint32_t edges[] = {0,     1,     7,      4056,   4072,   4096,         65535,
                                     65536, 65537, 131072, 262144, 262145, (1 << 20) + 3};
    uint64_t state = (uint64_t)seed << 32 | n;
    uint64_t draw = test_random(&state);
    if (draw % 3 == 0) return edges[(draw >> 8) % (sizeof edges / sizeof *edges)];
    return (uint32_t)((draw >> 8) % (draw % 3 == 1 ? 300 : 200000));
}

static uint32_t flood_cut(uint32_t n, uint32_t seed, uint8_t *at, uint32_t bytes, struct iovec *part)
{
    uint64_t state = (uint64_t)seed << 40 | n;
    uint32_t count = 1 + (uint32_t)(test_random(&state) % LINK_PARTS_MAX), left = bytes;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t here = i + 1 == count ? left : (uint32_t)(test_random(&state) % (left + 1));
        part[i] = (struct iovec){at + bytes - left, here};
        left -= here;
    }
    return count;
}

struct flood {
    uint32_t seed, sent, arrived;
    uint8_t *out, *in; /* [AREA] */
    uint32_t link;
};

static uint8_t *flood_at(uint8_t *area, uint32_t n) { return area + n * 977 % (AREA - (1 << 20) - 64); }

static void flood_event(struct end *e, const struct link_event *event)
{
    struct flood *f = e->context;
    if (event->what != LINK_ARRIVES && event->what != LINK_ARRIVED) return;
    const uint32_t n = f->arrived, bytes = flood_bytes(n, f->seed);
    struct iovec part[LINK_PARTS_MAX];
    assert_int_equal(event->kind, n % 1000);
    assert_true(event->tag == (uint64_t)n << 33);
    assert_int_equal(event->bytes, bytes);
    if (event->what == LINK_ARRIVES) {
        memset(flood_at(f->in, n), 0, bytes + 1);
        uint32_t count = flood_cut(n, f->seed + 1, flood_at(f->in, n), bytes, part);
        link_receive(e->links, event->link, part, count);
        return;
    }
    assert_memory_equal(flood_at(f->in, n), flood_at(f->out, n), bytes);
    assert_int_equal(flood_at(f->in, n)[bytes], bytes ? 0 : flood_at(f->in, n)[bytes]);
    f->arrived++;
}

static void flood_push(struct end *e, struct flood *f)
{
    while (f->sent < MESSAGES) {
        const uint32_t n = f->sent, bytes = flood_bytes(n, f->seed);
        struct link_message m = {.kind = (uint16_t)(n % 1000), .tag = (uint64_t)n << 33};
        m.part_count = flood_cut(n, f->seed, flood_at(f->out, n), bytes, m.part);
        if (bytes == 0) m.part_count = 0;
        if (!link_send(e->links, f->link, &m, n)) return;
        f->sent++;
    }
}

/* Both ends send MESSAGES messages each at the same time. */
static void flood_both(bool poll_only, bool is_v6, enum frame_seal seal, struct uring_faults *faults)
{
    struct links_options o = rig_options();
    struct end a, b;
    o.keys = rig_keys;
    o.key_count = seal != FRAME_PLAIN;
    o.chacha_only = seal == FRAME_CHACHA;
    struct flood to_b = {.seed = 5 + poll_only}, to_a = {.seed = 9 + is_v6};
    o.poll_only = poll_only;
    o.faults = faults;
    end_open(&a, &o);
    end_open(&b, &o);
    rig_join(&a, &b, is_v6);
    assert_false(a.last.incoming);
    assert_true(b.last.incoming);
    uint8_t *area = malloc(4 * (size_t)AREA);
    assert_non_null(area);
    uint64_t state = 1;
    for (uint32_t i = 0; i < 2 * AREA; i++) area[i] = (uint8_t)(i % 8 ? area[i - 1] + 31u : test_random(&state));
    to_b.out = area, to_a.out = area + AREA, to_b.in = area + 2 * AREA, to_a.in = area + 3 * AREA;
    to_b.link = a.link, to_a.link = b.link;
    a.on_event = b.on_event = flood_event;
    a.context = &to_a, b.context = &to_b;
    const struct steady_counts before = steady_counts();
    steady_begin();
    while (to_b.arrived < MESSAGES || to_a.arrived < MESSAGES) {
        flood_push(&a, &to_b);
        flood_push(&b, &to_a);
        end_turn(&a, 0);
        end_turn(&b, 0);
        if (a.lost_count) fail_msg("%s", link_why(a.links, a.link));
        if (b.lost_count) fail_msg("%s", link_why(b.links, b.link));
    }
    steady_end();
    assert_int_equal(steady_counts().allocations, before.allocations);
    assert_int_equal(steady_counts().locks, before.locks);
    RIG_UNTIL(&a, &b, a.sent_count == MESSAGES && b.sent_count == MESSAGES);
    const struct link_counts *ca = links_counts(a.links), *cb = links_counts(b.links);
    assert_true(ca->sent_bytes == cb->received_bytes && cb->sent_bytes == ca->received_bytes);
    assert_true(ca->sent_count == MESSAGES && ca->received_count == MESSAGES && ca->lost_count == 0);
    assert_int_equal(a.lost_count + b.lost_count, 0);
    if (faults) assert_true(faults->hit_count[URING_SHORT] > 100 && faults->hit_count[URING_AGAIN] > 100);
    free(area);
    end_close(&a);
    end_close(&b);
}

static void links__any_messages_both_ways__arrive_as_sent(void **state)
{
    (void)state;
    const bool has_v6 = rig_has_v6();
    for (int poll_only = 0; poll_only < 2; poll_only++)
        for (int is_v6 = 0; is_v6 <= has_v6; is_v6++) flood_both(poll_only, is_v6, FRAME_PLAIN, NULL);
    if (!has_v6) print_message("# no IPv6 on loopback\n");
}

static void links_fault__short_and_again__arrive_as_sent(void **state)
{
    (void)state;
    for (int poll_only = 0; poll_only < 2; poll_only++) {
        struct uring_faults faults = {.seed = 3, .one_in = {[URING_SHORT] = 2, [URING_AGAIN] = 5}, .align_bytes = 1};
        flood_both(poll_only, false, FRAME_PLAIN, &faults);
    }
}

static void links_sealed__any_messages_both_ways__arrive_as_sent(void **state)
{
    (void)state;
    for (enum frame_seal seal = FRAME_CHACHA; seal < FRAME_SEAL_COUNT; seal++)
        for (int with_faults = 0; with_faults < 2; with_faults++) {
            struct uring_faults faults = {
                .seed = 4, .one_in = {[URING_SHORT] = 2, [URING_AGAIN] = 5}, .align_bytes = 1};
            if (secure_seal_runs(seal)) flood_both(with_faults, false, seal, with_faults ? &faults : NULL);
        }
}

/* Many messages without payload, or with hardly any, that go together:
 * more checks than have a place at a time. */
static void links__burst_of_small_messages__arrive_in_order(void **state)
{
    (void)state;
    for (uint32_t bytes = 0; bytes < 2; bytes++) {
        struct links_options o = rig_options();
        struct end a, b;
        o.queued_max = 100;
        end_open(&a, &o);
        end_open(&b, &o);
        rig_join(&a, &b, false);
        b.on_event = keep_event;
        arrived_count = 0;
        for (uint32_t i = 0; i < 60; i++) {
            struct link_message m = {.tag = i, .part = {{"x", bytes}}, .part_count = 1};
            assert_true(link_send(a.links, a.link, &m, i));
        }
        RIG_UNTIL(&a, &b, arrived_count == 60);
        for (uint32_t i = 0; i < 60; i++) assert_int_equal(arrived[i].tag, i);
        end_close(&a);
        end_close(&b);
    }
}

/* An error of a send or a receive ends the link, at both ends, and no other. */
static void links_fault__error__link_is_lost(void **state)
{
    (void)state;
    for (int poll_only = 0; poll_only < 2; poll_only++) {
        struct uring_faults faults = {.align_bytes = 1};
        struct links_options o = rig_options();
        struct end a, b;
        o.poll_only = poll_only;
        end_open(&b, &o);
        o.faults = &faults;
        end_open(&a, &o);
        rig_join(&a, &b, false);
        struct link_message m = {.kind = 1, .part = {{"hello", 5}}, .part_count = 1};
        faults.one_in[URING_EIO] = 1;
        assert_true(link_send(a.links, a.link, &m, 0));
        RIG_UNTIL(&a, &b, a.lost_count == 1 && b.lost_count == 1);
        assert_int_equal(a.last.code, ST_PEER_LOST);
        assert_non_null(strstr(link_why(a.links, a.link), strerror(EIO)));
        assert_non_null(strstr(link_why(b.links, b.link), "has closed the connection"));
        assert_true(link_send(a.links, a.link, &m, 0)); /* and goes nowhere */
        link_close(a.links, a.link);
        assert_int_equal(end_turn(&a, 0), 0);
        end_close(&a);
        end_close(&b);
    }
}

/* --- frames by hand -------------------------------------------------------------------------- */

/* Writes a message as frame.h's table says, one byte of it changed, or none (bad_at: SIZE_MAX),
 * and only the first `limit` bytes. */
static void frame_write(int fd, uint64_t *number, uint32_t bytes, size_t bad_at, size_t limit)
{
    static uint8_t out[300000], payload[262144];
    frame_check *check = frame_check_of(NULL);
    size_t at = 0;
    for (uint32_t i = 0; i < bytes; i++) payload[i] = (uint8_t)(i * 7);
    const struct frame_header header = {.bytes = bytes, .kind = 12, .tag = UINT64_C(0x0102030405060708)};
    frame_header_put(out, &header);
    uint64_t value = check((*number)++, &(struct iovec){out, 16}, 1);
    memcpy(out + 16, &value, 8);
    at = 24;
    for (uint32_t begin = 0; begin < bytes; begin += 65536) {
        uint32_t here = bytes - begin < 65536 ? bytes - begin : 65536;
        memcpy(out + at, payload + begin, here);
        value = check((*number)++, &(struct iovec){payload + begin, here}, 1);
        memcpy(out + at + here, &value, 8);
        at += here + 8;
    }
    if (bad_at < at) out[bad_at] ^= 0x40;
    rig_write(fd, out, at < limit ? at : limit);
}

/* A socket that has greeted b. */
static int greeted(struct end *b, struct address *bound)
{
    uint8_t greeting[64], answer[64];
    int fd = rig_socket(b, bound);
    b->link = RIG_NONE;
    frame_greeting_put(greeting, FRAME_PLAIN, 77);
    rig_write(fd, greeting, 64);
    RIG_UNTIL(b, (struct end *)NULL, b->link != RIG_NONE);
    end_turn(b, 0);
    assert_int_equal(recv(fd, answer, 64, MSG_WAITALL), 64);
    assert_memory_equal(answer, greeting, 64);
    return fd;
}

static void link__bytes_by_the_table__are_a_message(void **state)
{
    (void)state;
    struct links_options o = rig_options();
    struct address bound = {0};
    struct end b;
    end_open(&b, &o);
    b.on_event = keep_event;
    int fd = greeted(&b, &bound);
    uint64_t number = 0;
    arrived_count = 0;
    const uint32_t sizes[] = {0, 5, 65536, 70000, 0, 200000};
    for (uint32_t i = 0; i < 6; i++) {
        frame_write(fd, &number, sizes[i], SIZE_MAX, SIZE_MAX);
        RIG_UNTIL(&b, (struct end *)NULL, arrived_count == i + 1);
        assert_true(arrived[i].kind == 12 && arrived[i].bytes == sizes[i] && arrived[i].tag == 0x0102030405060708);
        for (uint32_t k = 0; k < sizes[i]; k++) assert_true(arrived_bytes[k] == (uint8_t)(k * 7));
    }
    /* And a message of ours is that, byte for byte. */
    static uint8_t expected[24 + 6 + 8], got[sizeof expected];
    const struct frame_header header = {.bytes = 6, .kind = 3, .tag = 4};
    uint64_t value;
    frame_header_put(expected, &header);
    value = frame_check_base(0, &(struct iovec){expected, 16}, 1);
    memcpy(expected + 16, &value, 8);
    memcpy(expected + 24, "secret", 6);
    value = frame_check_base(1, &(struct iovec){expected + 24, 6}, 1);
    memcpy(expected + 30, &value, 8);
    struct link_message m = {.kind = 3, .tag = 4, .part = {{"sec", 3}, {"", 0}, {"ret", 3}}, .part_count = 3};
    assert_true(link_send(b.links, b.link, &m, 0));
    RIG_UNTIL(&b, (struct end *)NULL, b.sent_count == 1);
    assert_int_equal(recv(fd, got, sizeof got, MSG_WAITALL), sizeof got);
    assert_memory_equal(got, expected, sizeof got);
    close(fd);
    end_close(&b);
}

/* Every header byte, and some of payload and checks, changed: the link is lost, with a sentence,
 * and the message has not arrived. */
static void link__any_byte_changed__is_corrupt(void **state)
{
    (void)state;
    struct links_options o = rig_options();
    struct address bound = {0};
    struct end b;
    end_open(&b, &o);
    b.on_event = keep_event;
    const uint32_t bytes = 70000;
    for (size_t bad_at = 0; bad_at < 24 + bytes + 16; bad_at += bad_at < 30 ? 1 : 4999) {
        int fd = greeted(&b, &bound);
        uint64_t number = 0;
        arrived_count = 0;
        b.lost_count = 0;
        frame_write(fd, &number, bytes, bad_at, SIZE_MAX);
        RIG_UNTIL(&b, (struct end *)NULL, b.lost_count == 1);
        assert_int_equal(arrived_count, 0);
        assert_int_equal(b.last.code, ST_CORRUPT);
        assert_non_null(strstr(link_why(b.links, b.link), "not match"));
        link_close(b.links, b.link);
        close(fd);
    }
    /* A message that comes a second time does not fit its turn. */
    int fd = greeted(&b, &bound);
    uint64_t number = 0;
    frame_write(fd, &number, 10, SIZE_MAX, SIZE_MAX);
    RIG_UNTIL(&b, (struct end *)NULL, arrived_count == 1);
    number = 0;
    frame_write(fd, &number, 10, SIZE_MAX, SIZE_MAX);
    RIG_UNTIL(&b, (struct end *)NULL, b.lost_count == 2);
    assert_int_equal(arrived_count, 1);
    close(fd);
    end_close(&b);
}

/* Whoever ends within a message is lost, with where; between messages, without. */
static void link__end_within_a_message__is_told_with_its_place(void **state)
{
    (void)state;
    static const struct {
        uint32_t bytes;
        size_t limit;
        const char *words;
    } cases[] = {{100, 0, "has closed the connection"},
                 {100, 10, "closed the connection within the header of a message"},
                 {100, 24, "within a message of kind 12, after 0 of its 108 bytes"},
                 {200000, 24 + 65544 + 500, "within a message of kind 12, after 66044 of its 200032 bytes"},
                 {200000, 24 + 200031, "after 200031 of its 200032 bytes"}};
    for (int poll_only = 0; poll_only < 2; poll_only++)
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            struct links_options o = rig_options();
            struct address bound = {0};
            struct end b;
            uint64_t number = 0;
            o.poll_only = poll_only;
            end_open(&b, &o);
            b.on_event = keep_event;
            arrived_count = 0;
            int fd = greeted(&b, &bound);
            if (cases[i].limit) frame_write(fd, &number, cases[i].bytes, SIZE_MAX, cases[i].limit);
            close(fd);
            RIG_UNTIL(&b, (struct end *)NULL, b.lost_count == 1);
            assert_int_equal(b.last.code, ST_PEER_LOST);
            if (!strstr(link_why(b.links, b.link), cases[i].words))
                fail_msg("\"%s\" lacks \"%s\"", link_why(b.links, b.link), cases[i].words);
            assert_int_equal(strncmp(link_why(b.links, b.link), "127.0.0.1:", 10), 0);
            assert_int_equal(arrived_count, 0);
            end_close(&b);
        }
}

static void link__more_than_it_takes__is_refused(void **state)
{
    (void)state;
    struct links_options o = rig_options();
    struct address bound = {0};
    struct end b;
    uint64_t number = 0;
    o.message_bytes_max = 1000;
    end_open(&b, &o);
    b.on_event = keep_event;
    arrived_count = 0;
    int fd = greeted(&b, &bound);
    frame_write(fd, &number, 1000, SIZE_MAX, SIZE_MAX);
    frame_write(fd, &number, 1001, SIZE_MAX, SIZE_MAX);
    RIG_UNTIL(&b, (struct end *)NULL, b.lost_count == 1);
    assert_int_equal(arrived_count, 1);
    assert_int_equal(b.last.code, ST_INVALID);
    assert_non_null(strstr(link_why(b.links, b.link), "expected at most 1000 bytes, found 1001"));
    close(fd);
    end_close(&b);
}

/* --- back pressure, closing ------------------------------------------------------------------- */

/* A link whose message has no place waits; another one goes on; then it, too. */
static void link__no_place_yet__others_go_on(void **state)
{
    (void)state;
    struct links_options o = rig_options();
    struct address bound = {0};
    struct end b;
    uint64_t number = 0;
    end_open(&b, &o);
    int held = greeted(&b, &bound);
    uint32_t held_link = b.link;
    frame_write(held, &number, 50000, SIZE_MAX, SIZE_MAX);
    RIG_UNTIL(&b, (struct end *)NULL, b.last.what == LINK_ARRIVES);
    int fd = greeted(&b, &bound);
    b.on_event = keep_event;
    arrived_count = 0;
    number = 0;
    for (uint32_t i = 0; i < 20; i++) frame_write(fd, &number, i, SIZE_MAX, SIZE_MAX);
    RIG_UNTIL(&b, (struct end *)NULL, arrived_count == 20);
    for (uint32_t i = 0; i < 20; i++) assert_true(arrived[i].link == b.link && arrived[i].bytes == i);
    struct iovec part = {arrived_bytes, 50000};
    link_receive(b.links, held_link, &part, 1);
    RIG_UNTIL(&b, (struct end *)NULL, arrived_count == 21);
    assert_true(arrived[20].link == held_link && arrived_bytes[49999] == (uint8_t)(49999 * 7));
    close(fd);
    close(held);
    end_close(&b);
}

/* The queue is bounded, and a link can be closed, and its number be used again, whatever is under way. */
static void link_close__under_way__is_at_once_and_final(void **state)
{
    (void)state;
    for (int poll_only = 0; poll_only < 2; poll_only++) {
        struct links_options o = rig_options();
        struct end a, b;
        o.poll_only = poll_only;
        end_open(&a, &o);
        end_open(&b, &o);
        rig_join(&a, &b, false);
        uint8_t *big = calloc(1, 32 << 20);
        struct link_message m = {.part = {{big, 32 << 20}}, .part_count = 1};
        for (uint32_t i = 0; i < 16; i++) assert_true(link_send(a.links, a.link, &m, i));
        assert_false(link_send(a.links, a.link, &m, 16));
        RIG_UNTIL(&a, &b, b.last.what == LINK_ARRIVES);
        struct iovec part = {big, 32 << 20};
        link_receive(b.links, b.link, &part, 1);
        end_turn(&b, 0);
        link_close(a.links, a.link);
        memset(big, 1, 32 << 20);
        RIG_UNTIL(&a, &b, b.lost_count == 1);
        link_close(b.links, b.link);
        free(big);
        assert_int_equal(end_turn(&a, 0) + end_turn(&b, 0), 0);
        uint32_t first = a.link;
        a.link = b.link = RIG_NONE;
        rig_join(&a, &b, false);
        assert_int_equal(a.link, first);
        end_close(&a);
        end_close(&b);
    }
}

/* --- who does not get in ----------------------------------------------------------------------- */

static void link_connect__nobody_there__says_so(void **state)
{
    (void)state;
    struct links_options o = rig_options();
    struct address here = rig_loopback(false);
    struct end a;
    uint32_t link;
    end_open(&a, &o);
    int fd = socket(AF_INET, SOCK_STREAM, 0); /* bound, and not listening */
    socklen_t bytes = sizeof here;
    assert_int_equal(bind(fd, &here.any, address_bytes(&here)), 0);
    assert_int_equal(getsockname(fd, &here.any, &bytes), 0);
    assert_ok(link_connect(a.links, &here, clock_ns() + RIG_WAIT_NS, &link));
    RIG_UNTIL(&a, (struct end *)NULL, a.lost_count == 1);
    assert_int_equal(a.last.code, ST_PEER_LOST);
    assert_non_null(strstr(link_why(a.links, link), "cannot connect: Connection refused"));
    link_close(a.links, link);
    /* Listens, and says nothing. */
    assert_int_equal(listen(fd, 1), 0);
    assert_ok(link_connect(a.links, &here, clock_ns() + 30000000, &link));
    RIG_UNTIL(&a, (struct end *)NULL, a.lost_count == 2);
    assert_non_null(strstr(link_why(a.links, link), "does not greet in time"));
    link_close(a.links, link);
    for (uint32_t i = 0; i < o.link_count; i++) assert_ok(link_connect(a.links, &here, UINT64_MAX, &link));
    assert_fails(FULL, "all 8 links are taken", link_connect(a.links, &here, UINT64_MAX, &link));
    link_close(a.links, link);
    close(fd);
    end_close(&a);
}

static void link__other_job__is_refused(void **state)
{
    (void)state;
    struct links_options o = rig_options();
    struct address here = rig_loopback(false), bound;
    struct end a, b;
    uint32_t link;
    end_open(&a, &o);
    o.prologue = 78;
    end_open(&b, &o);
    assert_ok(links_listen(b.links, &here, &bound));
    assert_ok(link_connect(a.links, &bound, UINT64_MAX, &link));
    RIG_UNTIL(&a, &b, a.lost_count == 1 && links_counts(b.links)->garbage_count == 1);
    assert_int_equal(b.lost_count, 0);
    assert_non_null(strstr(links_counts(b.links)->garbage_why, "belongs to another job"));
    end_close(&a);
    end_close(&b);
}

/* Garbage, silence, crowds: counted, closed, and an open link goes on beside them. */
static void link__hostile_connections__are_counted_and_harm_nobody(void **state)
{
    (void)state;
    for (int poll_only = 0; poll_only < 2; poll_only++) {
        struct links_options o = rig_options();
        struct address bound = {0};
        struct end b;
        uint64_t number = 0, random = 4;
        o.poll_only = poll_only;
        end_open(&b, &o);
        b.on_event = keep_event;
        arrived_count = 0;
        int good = greeted(&b, &bound);
        for (uint32_t i = 0; i < 40; i++) {
            uint8_t garbage[200];
            for (uint32_t k = 0; k < sizeof garbage; k++) garbage[k] = (uint8_t)test_random(&random);
            if (i % 4 == 0) frame_greeting_put(garbage, FRAME_PLAIN, 77 + i); /* right but for a byte */
            if (i % 4 == 0) garbage[i % 16] ^= 1;
            int fd = rig_socket(&b, &bound);
            rig_write(fd, garbage, i % 4 == 1 ? 63 : sizeof garbage);
            if (i % 4 == 1) shutdown(fd, SHUT_WR);
            assert_true(rig_is_closed(fd, &b));
            close(fd);
        }
        assert_int_equal(links_counts(b.links)->garbage_count, 40);
        assert_true(*links_counts(b.links)->garbage_why);
        /* Four of one host are waited for; the fifth is not, though there is room for another host's. */
        int silent[5];
        for (uint32_t i = 0; i < 5; i++) silent[i] = rig_socket(&b, &bound);
        assert_true(rig_is_closed(silent[4], &b));
        assert_int_equal(links_counts(b.links)->crowded_count, 1);
        frame_write(good, &number, 1000, SIZE_MAX, SIZE_MAX);
        RIG_UNTIL(&b, (struct end *)NULL, arrived_count == 1);
        for (uint32_t i = 0; i < 5; i++) close(silent[i]);
        RIG_UNTIL(&b, (struct end *)NULL, links_counts(b.links)->garbage_count == 44);
        assert_int_equal(b.lost_count, 0);
        assert_int_equal(links_counts(b.links)->opened_count, 1);
        close(good);
        end_close(&b);
    }
}

/* Of one host as many are waited for as the caller says. */
static void link__half_open_of_one_host__are_as_many_as_the_options_say(void **state)
{
    (void)state;
    struct links_options o = rig_options();
    struct address any, bound;
    struct end b;
    int fd[6];
    o.same_host_max = 5;
    end_open(&b, &o);
    assert_ok(address_parse(&any, "127.0.0.1:0", 0));
    assert_ok(links_listen(b.links, &any, &bound));
    for (uint32_t i = 0; i < 6; i++) fd[i] = rig_socket(&b, &bound);
    assert_true(rig_is_closed(fd[5], &b));
    assert_int_equal(links_counts(b.links)->crowded_count, 1);
    for (uint32_t i = 0; i < 6; i++) close(fd[i]);
    RIG_UNTIL(&b, (struct end *)NULL, links_counts(b.links)->garbage_count == 5);
    end_close(&b);
}

/* Of all hosts together half_open_max are waited for. */
static void link__half_open_of_many_hosts__are_bounded(void **state)
{
    (void)state;
    struct links_options o = rig_options();
    struct address any, bound;
    struct end b;
    int fd[7];
    end_open(&b, &o);
    assert_ok(address_parse(&any, "127.0.0.1:0", 0));
    assert_ok(links_listen(b.links, &any, &bound));
    for (uint32_t i = 0; i < 7; i++) { /* each from an address of its own */
        struct address from = any;
        from.v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1 + i);
        fd[i] = socket(AF_INET, SOCK_STREAM, 0);
        assert_int_equal(bind(fd[i], &from.any, address_bytes(&from)), 0);
        assert_int_equal(connect(fd[i], &bound.any, address_bytes(&bound)), 0);
    }
    assert_true(rig_is_closed(fd[6], &b));
    assert_int_equal(links_counts(b.links)->crowded_count, 1);
    for (uint32_t i = 0; i < 7; i++) close(fd[i]);
    RIG_UNTIL(&b, (struct end *)NULL, links_counts(b.links)->garbage_count == 6);
    end_close(&b);
}

static void link__silent_connection__is_let_go_in_time(void **state)
{
    (void)state;
    struct links_options o = rig_options();
    struct address bound = {0};
    struct end b;
    o.greeting_ns = 20000000;
    end_open(&b, &o);
    int fd = rig_socket(&b, &bound);
    rig_write(fd, "HPS", 3);
    assert_true(rig_is_closed(fd, &b));
    assert_int_equal(links_counts(b.links)->late_count, 1);
    assert_int_equal(links_counts(b.links)->garbage_count, 0);
    close(fd);
    end_close(&b);
}

/* --- being woken -------------------------------------------------------------------------------- */

#define WAKES 2000u

struct waker {
    struct links *links;
    _Atomic uint32_t rung, seen;
};
static void *waker_main(void *argument)
{
    struct waker *w = argument;
    for (uint32_t i = 1; i <= WAKES; i++) {
        atomic_store(&w->rung, i);
        links_wake(w->links);
        while (atomic_load(&w->seen) < i) sched_yield();
    }
    return NULL;
}

/* Every ring is answered, whether it comes before links_wait or while that sleeps,
 * and none of an event's place. */
static void links_wake__by_another_thread__wait_returns(void **state)
{
    (void)state;
    for (int poll_only = 0; poll_only < 2; poll_only++) {
        struct links_options o = rig_options();
        struct waker w = {0};
        struct end e;
        pthread_t thread;
        o.poll_only = poll_only;
        end_open(&e, &o);
        w.links = e.links;
        assert_int_equal(pthread_create(&thread, NULL, waker_main, &w), 0);
        while (atomic_load(&w.seen) < WAKES) {
            assert_int_equal(end_turn(&e, UINT64_MAX), 0);
            atomic_store(&w.seen, atomic_load(&w.rung));
        }
        assert_int_equal(pthread_join(thread, NULL), 0);
        (void)end_turn(&e, 0); /* what was rung beside the last look */
        const uint64_t begin_ns = clock_ns();
        assert_int_equal(end_turn(&e, begin_ns + 20000000), 0);
        assert_true(clock_ns() >= begin_ns + 20000000);
        end_close(&e);
    }
}

static void links_listen_at__socket_of_a_parent__is_reached_there(void **state)
{
    (void)state;
    struct links_options o = rig_options();
    struct end a, b;
    struct address here = rig_loopback(false);
    socklen_t bytes = sizeof here;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    end_open(&a, &o);
    end_open(&b, &o);
    assert_int_equal(bind(fd, &here.any, address_bytes(&here)), 0);
    assert_int_equal(links_listen_at(b.links, fd), ST_SYSTEM); /* it does not listen */
    assert_int_equal(listen(fd, 4), 0);
    assert_int_equal(getsockname(fd, &here.any, &bytes), 0);
    assert_ok(links_listen_at(b.links, fd));
    assert_int_equal(links_listen_at(b.links, 9999), ST_SYSTEM);
    assert_string_equal(status_message(), "descriptor 9999: expected a socket that listens, found nothing");
    assert_ok(link_connect(a.links, &here, clock_ns() + RIG_WAIT_NS, &a.link));
    RIG_UNTIL(&a, &b, b.link != RIG_NONE);
    assert_true(b.last.incoming);
    end_close(&a);
    end_close(&b);
}

/* [::] leaves IPv4 to others, who may listen at the same port. */
static void links_listen__any_address_of_ipv6__is_no_ipv4(void **state)
{
    (void)state;
    struct links_options o = rig_options();
    struct address any, bound;
    struct end b;
    int only = 0;
    socklen_t bytes = sizeof only;
    end_open(&b, &o);
    assert_ok(address_parse(&any, "[::]:0", 0));
    const int next = dup(STDIN_FILENO); /* what the socket will be called */
    close(next);
    if (links_listen(b.links, &any, &bound) == ST_OK) { /* else this machine has no IPv6 */
        assert_int_equal(getsockopt(next, IPPROTO_IPV6, IPV6_V6ONLY, &only, &bytes), 0);
        assert_int_equal(only, 1);
        assert_int_equal(getsockopt(next, SOL_SOCKET, SO_REUSEADDR, &only, &bytes), 0);
        assert_int_equal(only, 1);
        assert_true(address_port(&bound) != 0);
    }
    end_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(links__any_messages_both_ways__arrive_as_sent),
        cmocka_unit_test(links_sealed__any_messages_both_ways__arrive_as_sent),
        cmocka_unit_test(links__burst_of_small_messages__arrive_in_order),
        cmocka_unit_test(links_fault__short_and_again__arrive_as_sent),
        cmocka_unit_test(links_fault__error__link_is_lost),
        cmocka_unit_test(link__bytes_by_the_table__are_a_message),
        cmocka_unit_test(link__any_byte_changed__is_corrupt),
        cmocka_unit_test(link__end_within_a_message__is_told_with_its_place),
        cmocka_unit_test(link__more_than_it_takes__is_refused),
        cmocka_unit_test(link__no_place_yet__others_go_on),
        cmocka_unit_test(link_close__under_way__is_at_once_and_final),
        cmocka_unit_test(link_connect__nobody_there__says_so),
        cmocka_unit_test(link__other_job__is_refused),
        cmocka_unit_test(link__hostile_connections__are_counted_and_harm_nobody),
        cmocka_unit_test(link__half_open_of_one_host__are_as_many_as_the_options_say),
        cmocka_unit_test(link__half_open_of_many_hosts__are_bounded),
        cmocka_unit_test(link__silent_connection__is_let_go_in_time),
        cmocka_unit_test(links_wake__by_another_thread__wait_returns),
        cmocka_unit_test(links_listen_at__socket_of_a_parent__is_reached_there),
        cmocka_unit_test(links_listen__any_address_of_ipv6__is_no_ipv4),
    };
    return cmocka_run_group_tests(tests, rig_start, NULL) ? 1 : 0;
}
