/* Sealed links: who has the key gets in, under either of two; who has not, says what another has said, or
 * changes a bit on the way, does not, and is counted; nothing of what is sent can be read on the way. */
#include "tests/io/net/link_rig.h"

static struct links_options sealed_options(void)
{
    struct links_options o = rig_options();
    o.keys = rig_keys;
    o.key_count = 1;
    return o;
}

/* Stands between two ends, keeps what both say, and changes a byte of it, if asked to. */
struct relay {
    int to_a, to_b;
    uint8_t said[2][4096]; /* by a, by b */
    size_t bytes[2];
    size_t bad_at[2]; /* which byte of theirs to change; SIZE_MAX: none */
};

static void relay_turn(struct relay *r)
{
    int fd[2] = {r->to_a, r->to_b};
    for (int side = 0; side < 2; side++) {
        uint8_t bytes[2048];
        ssize_t got = recv(fd[side], bytes, sizeof bytes, MSG_DONTWAIT);
        if (got == 0) shutdown(fd[!side], SHUT_WR);
        if (got <= 0) continue;
        assert_true(r->bytes[side] + (size_t)got <= sizeof r->said[side]);
        if (r->bad_at[side] - r->bytes[side] < (size_t)got) bytes[r->bad_at[side] - r->bytes[side]] ^= 0x10;
        memcpy(r->said[side] + r->bytes[side], bytes, (size_t)got);
        r->bytes[side] += (size_t)got;
        (void)!send(fd[!side], bytes, (size_t)got, MSG_NOSIGNAL);
    }
}

/* a connects to the relay, which connects to b. */
static void relay_open(struct relay *r, struct end *a, struct end *b, struct address *bound)
{
    struct address here = rig_loopback(false);
    uint32_t link;
    socklen_t bytes = sizeof here;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, &here.any, address_bytes(&here)), 0);
    assert_int_equal(listen(fd, 1), 0);
    assert_int_equal(getsockname(fd, &here.any, &bytes), 0);
    assert_ok(link_connect(a->links, &here, clock_ns() + RIG_WAIT_NS, &link));
    end_turn(a, 0);
    r->to_a = accept(fd, NULL, NULL);
    r->to_b = rig_socket(b, bound);
    assert_true(r->to_a >= 0 && r->to_b >= 0);
    close(fd);
}

static void relay_close(struct relay *r)
{
    close(r->to_a);
    close(r->to_b);
}

static uint8_t arrived_bytes[2000];
static uint32_t arrived_count;

static void keep_event(struct end *e, const struct link_event *event)
{
    if (event->what == LINK_ARRIVES)
        link_receive(e->links, event->link, &(struct iovec){arrived_bytes, event->bytes}, 1);
    arrived_count += event->what == LINK_ARRIVED;
}

#define TEXT "what the nodes tell each other is nobody's but theirs"

/* Both join by way of a relay, and a sends TEXT. Returns whether TEXT arrives; else the link is lost
 * at one end or never seen there. */
static bool relayed(struct relay *r, struct end *a, struct end *b, struct address *bound)
{
    const uint64_t end_ns = clock_ns() + RIG_WAIT_NS;
    const uint64_t refused = links_counts(b->links)->garbage_count;
    const uint32_t lost = a->lost_count + b->lost_count;
    bool is_sent = false;
    a->link = b->link = RIG_NONE;
    arrived_count = 0;
    a->on_event = b->on_event = keep_event;
    relay_open(r, a, b, bound);
    while (arrived_count == 0) {
        relay_turn(r);
        end_turn(a, 0);
        end_turn(b, 0);
        if (a->link != RIG_NONE && !is_sent) {
            const struct link_message m = {.kind = 9, .part = {{(char *)TEXT, sizeof TEXT}}, .part_count = 1};
            is_sent = link_send(a->links, a->link, &m, 0);
        }
        if (links_counts(b->links)->garbage_count > refused || a->lost_count + b->lost_count > lost) return false;
        if (clock_ns() > end_ns) fail_msg("neither joined nor lost");
    }
    return true;
}

static void both_open(struct end *a, struct end *b, const struct links_options *oa, const struct links_options *ob)
{
    end_open(a, oa);
    end_open(b, ob);
}

static void both_close(struct end *a, struct end *b)
{
    end_close(a);
    end_close(b);
}

static void links_sealed__on_the_way__nothing_can_be_read(void **state)
{
    (void)state;
    for (int chacha = 0; chacha < 2; chacha++) {
        struct links_options o = sealed_options();
        struct end a, b;
        struct relay r = {.bad_at = {SIZE_MAX, SIZE_MAX}};
        struct address bound = {0};
        o.chacha_only = chacha;
        both_open(&a, &b, &o, &o);
        assert_true(relayed(&r, &a, &b, &bound));
        assert_memory_equal(arrived_bytes, TEXT, sizeof TEXT);
        assert_true(r.bytes[0] > sizeof TEXT && r.bytes[1] >= FRAME_GREETING_BYTES);
        for (int side = 0; side < 2; side++) assert_null(memmem(r.said[side], r.bytes[side], TEXT, 8));
        assert_int_equal(r.said[0][8], chacha ? FRAME_CHACHA : secure_seal_best());
        relay_close(&r);
        both_close(&a, &b);
    }
}

/* Every byte on the way, changed: of a's greeting, confirmation and message,
 * of b's greeting. Nothing arrives. After a changed greeting no end has opened. */
static void links_sealed__any_byte_changed__nothing_arrives(void **state)
{
    (void)state;
    struct links_options o = sealed_options();
    struct end a, b;
    struct address bound = {0};
    both_open(&a, &b, &o, &o);
    for (int side = 0; side < 2; side++)
        for (size_t at = 0; at < (side ? 64u : 64 + 32 + 32 + sizeof TEXT + 16); at += at < 16 ? 3 : 5) {
            struct relay r = {.bad_at = {side ? SIZE_MAX : at, side ? at : SIZE_MAX}};
            memset(arrived_bytes, 0, sizeof arrived_bytes);
            assert_false(relayed(&r, &a, &b, &bound));
            assert_int_equal(arrived_count, 0);
            if (side || at < FRAME_GREETING_BYTES) {
                assert_int_equal(links_counts(a.links)->opened_count, 0);
                assert_int_equal(links_counts(b.links)->opened_count, 0);
            }
            assert_int_not_equal(memcmp(arrived_bytes, TEXT, sizeof TEXT), 0);
            relay_close(&r);
            both_close(&a, &b); /* whatever is left of the link */
            both_open(&a, &b, &o, &o);
            bound = (struct address){0};
        }
    both_close(&a, &b);
}

/* Which keys get in where; and a plain end never joins a sealed one. */
static void links_sealed__keys__one_in_common_that_begins(void **state)
{
    (void)state;
    static const struct {
        uint32_t a_first, a_count, b_first, b_count; /* from which of the keys on, how many */
        uint64_t prologue;
        bool joins;
        const char *words; /* at b */
    } cases[] = {{0, 1, 0, 1, 77, true, NULL},
                 {1, 1, 1, 1, 77, true, NULL},
                 {0, 1, 1, 1, 77, false, "has another key"},
                 {0, 1, 0, 2, 77, true, NULL},
                 {1, 1, 0, 2, 77, true, NULL},
                 {0, 2, 1, 1, 77, false, "has another key"},
                 {0, 1, 0, 1, 78, false, "belongs to another job"},
                 {0, 0, 0, 1, 77, false, "has no key and this one has one"},
                 {0, 1, 0, 0, 77, false, "has a key and this one has none"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct links_options oa = rig_options(), ob = rig_options();
        struct end a, b;
        struct relay r = {.bad_at = {SIZE_MAX, SIZE_MAX}};
        struct address bound = {0};
        oa.keys = rig_keys + cases[i].a_first, oa.key_count = cases[i].a_count;
        ob.keys = rig_keys + cases[i].b_first, ob.key_count = cases[i].b_count;
        ob.prologue = cases[i].prologue;
        both_open(&a, &b, &oa, &ob);
        assert_int_equal(relayed(&r, &a, &b, &bound), cases[i].joins);
        const struct link_counts *c = links_counts(b.links);
        assert_int_equal(c->opened_count, cases[i].joins);
        if (!cases[i].joins) {
            const uint64_t end_ns = clock_ns() + RIG_WAIT_NS;
            if (!strstr(c->garbage_why, cases[i].words))
                fail_msg("\"%s\" lacks \"%s\"", c->garbage_why, cases[i].words);
            while (a.lost_count == 0 && clock_ns() < end_ns) {
                relay_turn(&r);
                end_turn(&a, 0);
                end_turn(&b, 0);
            }
            assert_int_equal(a.last.what, LINK_LOST);
            assert_non_null(strstr(link_why(a.links, a.last.link), "it refuses this node"));
        }
        relay_close(&r);
        both_close(&a, &b);
    }
}

/* What an initiator has said, said again: as long as it is remembered it is not even
 * answered, and later it opens nothing. */
static void links_sealed__said_again__opens_nothing(void **state)
{
    (void)state;
    for (int forgotten = 0; forgotten < 2; forgotten++) {
        struct links_options o = sealed_options();
        struct end a, b, anew;
        struct relay r = {.bad_at = {SIZE_MAX, SIZE_MAX}};
        struct address bound = {0};
        both_open(&a, &b, &o, &o);
        assert_true(relayed(&r, &a, &b, &bound));
        end_open(&anew, &o); /* as b, after a start */
        if (forgotten) bound = (struct address){0};
        struct end *victim = forgotten ? &anew : &b;
        const uint64_t opened = links_counts(victim->links)->opened_count;
        int fd = rig_socket(victim, &bound);
        rig_write(fd, r.said[0], r.bytes[0]);
        assert_true(rig_is_closed(fd, victim));
        const struct link_counts *c = links_counts(victim->links);
        assert_int_equal(c->garbage_count, 1);
        assert_true(c->opened_count == opened);
        assert_non_null(strstr(c->garbage_why, "what another has said before"));
        assert_int_equal(strstr(c->garbage_why, "and has not the key") != NULL, forgotten);
        close(fd);
        relay_close(&r);
        end_close(&anew);
        both_close(&a, &b);
    }
}

/* What this end says, said back to it. */
static void links_sealed__reflected__opens_nothing(void **state)
{
    (void)state;
    struct links_options o = sealed_options();
    struct end a;
    struct address here = rig_loopback(false);
    socklen_t bytes = sizeof here;
    uint32_t link;
    uint8_t said[FRAME_GREETING_BYTES];
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    end_open(&a, &o);
    assert_int_equal(bind(fd, &here.any, address_bytes(&here)), 0);
    assert_int_equal(listen(fd, 1), 0);
    assert_int_equal(getsockname(fd, &here.any, &bytes), 0);
    assert_ok(link_connect(a.links, &here, clock_ns() + RIG_WAIT_NS, &link));
    end_turn(&a, 0);
    int back = accept(fd, NULL, NULL);
    size_t got = 0;
    while (got < sizeof said) {
        end_turn(&a, 0);
        ssize_t more = recv(back, said + got, sizeof said - got, MSG_DONTWAIT);
        if (more > 0) got += (size_t)more;
    }
    rig_write(back, said, sizeof said);
    RIG_UNTIL(&a, (struct end *)NULL, a.lost_count == 1);
    assert_int_equal(links_counts(a.links)->opened_count, 0);
    assert_non_null(strstr(link_why(a.links, link), "not of a node that has the key"));
    close(back);
    close(fd);
    end_close(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(links_sealed__on_the_way__nothing_can_be_read),
        cmocka_unit_test(links_sealed__any_byte_changed__nothing_arrives),
        cmocka_unit_test(links_sealed__keys__one_in_common_that_begins),
        cmocka_unit_test(links_sealed__said_again__opens_nothing),
        cmocka_unit_test(links_sealed__reflected__opens_nothing),
    };
    return cmocka_run_group_tests(tests, rig_start, NULL) ? 1 : 0;
}
