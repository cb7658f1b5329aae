/* The nodes of a training in one process: a post that carries their messages late and in any order that each
 * pair's own order allows, by a seed, on one thread, which is the node's thread of all of them. A message is
 * sent when a copy of it has been taken, which may be long before it comes; it comes in two halves, between
 * which anything may happen. Include after cmocka.h. */
#ifndef HETERPS_TESTS_POST_FIXTURE_H
#define HETERPS_TESTS_POST_FIXTURE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/node/reduce_internal.h"
#include "engine/node/stream.h"
#include "tests/engine/fixture_files.h"

#define POST_NODES_MAX 8u
#define POST_QUEUE     64u

/* What a message has behind it. */
enum post_stage { POST_GIVEN, POST_SENT, POST_PLACED, POST_HALF };

struct post_letter {
    enum post_stage stage;
    struct reduce_message message;
    uint8_t *copy;
    struct iovec part[REDUCE_PARTS_MAX];
    uint32_t part_count;
};

struct post_net;
struct post_node {
    struct post post; /* first */
    struct post_net *net;
    uint32_t rank;
    struct reduce *reduce;
    _Atomic bool shared_is_woken;
};

struct post_net {
    uint32_t node_count;
    struct post_node node[POST_NODES_MAX];
    struct {
        struct post_letter letter[POST_QUEUE];
        uint64_t begin, end;
        uint64_t sent;                     /* of these, as far as the sender knows */
    } way[POST_NODES_MAX][POST_NODES_MAX]; /* from, to */
    uint64_t random;
    uint32_t sleep_ns_max;
    _Atomic uint64_t bytes[POST_NODES_MAX]; /* sent by each */
    _Atomic uint64_t looks;                 /* requests for rows as they are, by all */
    status failure;
    _Atomic status shared_fails; /* by a test: what all fail with */
    _Atomic bool shared_is_over;
    pthread_t thread;
};

FIXTURE static uint32_t post_draw(struct post_net *net, uint32_t bound)
{
    net->random = net->random * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (uint32_t)((net->random >> 33) % bound);
}

FIXTURE static status post_send(struct post *post, uint32_t to, const struct reduce_message *message)
{
    struct post_node *node = (struct post_node *)post;
    struct post_net *net = node->net;
    CHECK(net->way[node->rank][to].end - net->way[node->rank][to].begin < POST_QUEUE);
    net->way[node->rank][to].letter[net->way[node->rank][to].end++ % POST_QUEUE] =
        (struct post_letter){.message = *message};
    net->bytes[node->rank] += message->bytes;
    if (message->kind == KIND_LOOK) atomic_fetch_add(&net->looks, 1);
    return ST_OK;
}

/* Sees, and may change, what of a message is on its way; NULL: nobody does. */
static void (*post_seen)(struct post_net *net, uint32_t from, uint32_t to, const struct reduce_message *message,
                         uint8_t *copy);

FIXTURE static void post_wake(struct post *post) { atomic_store(&((struct post_node *)post)->shared_is_woken, true); }

static const struct post_vt post_vt = {.send = post_send, .wake = post_wake};

/* Bytes [begin, end) of the copy go where the receiver wants them. */
FIXTURE static void letter_copy(const struct post_letter *l, uint64_t begin, uint64_t end)
{
    uint64_t at = 0;
    for (uint32_t i = 0; i < l->part_count; at += l->part[i++].iov_len) {
        const uint64_t part_end = at + l->part[i].iov_len, from = at > begin ? at : begin,
                       to = part_end < end ? part_end : end;
        if (from < to) memcpy((uint8_t *)l->part[i].iov_base + (from - at), l->copy + from, to - from);
    }
}

/* The letter's next event. */
FIXTURE static void letter_step(struct post_net *net, uint32_t from, uint32_t to, struct post_letter *l)
{
    struct reduce *sender = net->node[from].reduce, *receiver = net->node[to].reduce;
    const struct reduce_message *m = &l->message;
    uint64_t at = 0;
    switch (l->stage) {
    case POST_GIVEN:
        l->copy = malloc(m->bytes);
        CHECK(l->copy);
        for (uint32_t i = 0; i < m->part_count; at += m->part[i++].iov_len)
            memcpy(l->copy + at, m->part[i].iov_base, m->part[i].iov_len);
        if (post_seen) post_seen(net, from, to, m, l->copy);
        net->way[from][to].sent++;
        l->stage = POST_SENT;
        if (!reduce_is_stream(m->kind)) net->failure = reduce_sent(sender, to);
        break;
    case POST_SENT:
        net->failure = reduce_place(receiver, from, m->kind, m->step, m->bytes, l->part, &l->part_count);
        l->stage = POST_PLACED;
        break;
    case POST_PLACED:
        letter_copy(l, 0, m->bytes / 2);
        l->stage = POST_HALF;
        break;
    case POST_HALF:
        letter_copy(l, m->bytes / 2, m->bytes);
        free(l->copy);
        net->way[from][to].begin++;
        net->failure = reduce_arrived(receiver, from);
        break;
    }
}

/* Something that can happen, drawn; returns whether there was anything. */
FIXTURE static bool post_step(struct post_net *net)
{
    const uint32_t n = net->node_count, first = post_draw(net, n * n);
    for (uint32_t i = 0; i < n * n; i++) {
        const uint32_t from = (first + i) % (n * n) / n, to = (first + i) % n;
        if (from == to) {
            if (!atomic_exchange(&net->node[from].shared_is_woken, false)) continue;
            net->failure = reduce_look(net->node[from].reduce);
            return true;
        }
        /* The first one comes, or a later one is sent. */
        const uint64_t begin = net->way[from][to].begin, end = net->way[from][to].end, sent = net->way[from][to].sent;
        if (begin == end) continue;
        const uint64_t which = sent < end && (sent == begin || post_draw(net, 2)) ? sent : begin;
        letter_step(net, from, to, &net->way[from][to].letter[which % POST_QUEUE]);
        return true;
    }
    return false;
}

FIXTURE static void *post_main(void *argument)
{
    struct post_net *net = argument;
    while (!atomic_load(&net->shared_is_over) && net->failure == ST_OK) {
        const bool is_idle = !post_step(net);
        if (atomic_load(&net->shared_fails) != ST_OK)
            net->failure = status_fail(atomic_load(&net->shared_fails), "test", 1, "node 0: the disk is full");
        const uint32_t ns = net->sleep_ns_max ? post_draw(net, net->sleep_ns_max) : 0;
        if (is_idle || (ns && post_draw(net, 4) == 0))
            nanosleep(&(struct timespec){.tv_nsec = is_idle ? 5000 : ns}, NULL);
    }
    for (uint32_t n = 0; n < net->node_count && net->failure != ST_OK; n++)
        reduce_fail(net->node[n].reduce, net->failure);
    return NULL;
}

FIXTURE static void post_open(struct post_net *net, uint32_t node_count, uint64_t seed, uint32_t sleep_ns_max)
{
    memset(net, 0, sizeof *net);
    net->node_count = node_count;
    net->random = seed;
    net->sleep_ns_max = sleep_ns_max;
    for (uint32_t n = 0; n < node_count; n++) {
        net->node[n].post.vt = &post_vt;
        net->node[n].net = net;
        net->node[n].rank = n;
    }
}

FIXTURE static void post_start(struct post_net *net)
{
    assert_int_equal(pthread_create(&net->thread, NULL, post_main, net), 0);
}

FIXTURE static void post_close(struct post_net *net)
{
    atomic_store(&net->shared_is_over, true);
    assert_int_equal(pthread_join(net->thread, NULL), 0);
    for (uint32_t from = 0; from < net->node_count; from++)
        for (uint32_t to = 0; to < net->node_count; to++)
            for (; net->way[from][to].begin < net->way[from][to].end; net->way[from][to].begin++) {
                struct post_letter *l = &net->way[from][to].letter[net->way[from][to].begin % POST_QUEUE];
                if (l->stage != POST_GIVEN) free(l->copy);
            }
}

#endif
