/* Probes: an echo is a letter without bytes, whose answer's tag is the other end's clock; a swap is messages
 * of one buffer into one buffer, a few of them under way. */
#include "engine/node/probe.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "engine/base/clock.h"
#include "engine/node/node_internal.h"

#define UNDER_WAY_MAX 4u /* of a swap's messages */

static uint64_t real_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* --- the main thread's --------------------------------------------------------------------------- */

status node_echo(struct node *n, uint32_t to, struct probe_echo *echo, uint32_t count)
{
    if (count == 0) return ST_OK;
    n->ask.index = to;
    n->probing.echo = echo;
    n->probing.echo_count = count;
    return node_asked(n, ASK_ECHO);
}

status node_swap(struct node *n, uint32_t with, const uint8_t *out, uint64_t out_bytes, uint8_t *in, uint64_t in_bytes)
{
    if (out_bytes + in_bytes == 0) return ST_OK;
    n->ask.index = with;
    n->ask.from = out;
    n->ask.to = in;
    n->probing.out_left = out_bytes;
    n->probing.in_left = in_bytes;
    return node_asked(n, ASK_SWAP);
}

uint32_t node_rank(const struct node *n, uint32_t index) { return n->rank_of[index]; }

const struct link_path *node_path(const struct node *n, uint32_t rank)
{
    return n->probing.has_path[rank] ? &n->probing.path[rank] : NULL;
}

const char *node_path_why(const struct node *n, uint32_t rank) { return n->probing.why[rank]; }

/* --- the thread's: echoes ------------------------------------------------------------------------ */

static void echo_send(struct node *n)
{
    struct node_probing *p = &n->probing;
    p->begin_real_ns = real_ns();
    p->begin_ns = clock_ns();
    node_letter_send(n, n->link_of[n->ask.index], KIND_ECHO, 0, "", 0);
}

void node_echo_take(struct node *n, const struct link_event *e)
{
    node_letter_send(n, e->link, KIND_ECHOED, real_ns(), "", 0);
}

static bool is_asked(const struct node *n, enum node_ask what, uint32_t link)
{
    /* Acquire pairs with node_asked(). */
    return atomic_load_explicit(&n->shared_ask, memory_order_acquire) == what && n->ask.is_under_way &&
           n->link_of[n->ask.index] == link;
}

void node_echoed_take(struct node *n, const struct link_event *e)
{
    struct node_probing *p = &n->probing;
    const uint64_t ns = clock_ns() - p->begin_ns;
    if (!is_asked(n, ASK_ECHO, e->link)) return;
    *p->echo++ = probe_echo_of(p->begin_real_ns, e->tag, ns);
    if (--p->echo_count)
        echo_send(n);
    else
        node_ask_done(n);
}

/* --- the thread's: swaps ------------------------------------------------------------------------- */

static uint64_t piece_of(uint64_t left) { return left < PROBE_PIECE_BYTES ? left : PROBE_PIECE_BYTES; }

/* Sends what there is room for, and looks whether that was all. */
static void swap_step(struct node *n)
{
    struct node_probing *p = &n->probing;
    const uint32_t link = n->link_of[n->ask.index];
    while (p->out_left && p->under_way < UNDER_WAY_MAX && link != MEMBER_NONE) {
        const uint64_t bytes = piece_of(p->out_left);
        const struct link_message m = {
            .kind = KIND_SWAP, .part = {{(void *)(uintptr_t)n->ask.from, bytes}}, .part_count = 1};
        if (!link_send(n->links, link, &m, COOKIE_SWAP)) break; /* there is no room before a message is sent */
        p->out_left -= bytes;
        p->under_way++;
    }
    if (p->out_left == 0 && p->in_left == 0 && p->under_way == 0) node_ask_done(n);
}

bool node_swap_arrives(struct node *n, const struct link_event *e)
{
    struct node_probing *p = &n->probing;
    char name[NODE_NAME_BYTES];
    if (!is_asked(n, ASK_SWAP, e->link) || p->in_left == 0) return false; /* of the next swap */
    if (e->bytes != piece_of(p->in_left)) {
        node_break(n, status_fail(ST_INVALID, __FILE__, __LINE__, "%s has sent %u bytes in a probe; expected %" PRIu64,
                                  node_name(n, n->ask.index, name), e->bytes, piece_of(p->in_left)));
        return false;
    }
    link_receive(n->links, e->link, &(struct iovec){n->ask.to, e->bytes}, 1);
    return true;
}

void node_swap_arrived(struct node *n, const struct link_event *e)
{
    if (!is_asked(n, ASK_SWAP, e->link)) return;
    n->probing.in_left -= e->bytes;
    swap_step(n);
}

void node_swap_sent(struct node *n, const struct link_event *e)
{
    if (!is_asked(n, ASK_SWAP, e->link)) return;
    n->probing.under_way--;
    swap_step(n);
}

void node_probe_begin(struct node *n, enum node_ask ask)
{
    if (n->link_of[n->ask.index] == MEMBER_NONE) return; /* it is lost, and with it the job */
    n->ask.is_under_way = true;
    if (ask == ASK_ECHO)
        echo_send(n);
    else
        swap_step(n);
}

/* --- the thread's: what there was before --------------------------------------------------------- */

void node_probe_why(struct node *n, uint32_t rank, const char *why)
{
    if (n->o.is_partial && node_state(n) == STATE_MEETING)
        snprintf(n->probing.why[rank], sizeof n->probing.why[rank], "%s", why);
}

void node_probe_paths(struct node *n)
{
    const struct link_counts *counts = links_counts(n->links);
    for (uint32_t i = 0; i < n->count && n->o.is_partial; i++) {
        const uint32_t rank = n->rank_of[i];
        n->probing.has_path[rank] =
            n->link_of[i] != MEMBER_NONE && link_path_look(n->links, n->link_of[i], &n->probing.path[rank]) == ST_OK;
    }
    /* Nobody knows who made the refused connections: it may have been any of the missing nodes. */
    for (uint32_t r = 0; r < n->o.place->count && counts->garbage_count; r++)
        if (!n->probing.has_path[r] && *n->probing.why[r] == 0 && r != n->o.place->rank) {
            char why[WHY_BYTES];
            snprintf(why, sizeof why, "%" PRIu64 " connection%s refused here, the last one of %s",
                     counts->garbage_count, counts->garbage_count == 1 ? " was" : "s were", counts->garbage_why);
            node_probe_why(n, r, why);
        }
}
