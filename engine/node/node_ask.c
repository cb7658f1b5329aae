/* What the main thread asks the node's thread for: to listen, to begin; and, in a job without an exchange, to
 * carry its messages and to look at links. One at a time. */
#include <inttypes.h>

#include "engine/node/node_internal.h"

void node_ask_done(struct node *n)
{
    n->ask.is_under_way = false;
    /* Release pairs with is_answered(). */
    atomic_store_explicit(&n->shared_ask, ASK_NONE, memory_order_release);
    bell_ring(&n->bell);
}

static void listen_begin(struct node *n)
{
    n->listens = true;
    node_ask_done(n);
}

static void begin(struct node *n)
{
    n->listens = n->has_begun = true;
    reduce_start(n->reduce, n->begin_step);
    node_ask_done(n);
}

static void give(struct node *n)
{
    const struct link_message m = {
        .kind = KIND_GIVEN, .part = {{(void *)(uintptr_t)n->ask.from, n->ask.bytes}}, .part_count = 1};
    const uint32_t link = n->link_of[n->ask.index];
    n->ask.is_under_way = link != MEMBER_NONE && link_send(n->links, link, &m, COOKIE_GIVEN);
}

void node_ask_look(struct node *n)
{
    /* Acquire pairs with node_asked(): the exchange, the first step, the model's rows. */
    const enum node_ask ask = (enum node_ask)atomic_load_explicit(&n->shared_ask, memory_order_acquire);
    if (ask == ASK_NONE || n->ask.is_under_way || node_state(n) != STATE_RUNNING) return;
    switch (ask) {
    case ASK_NONE:
    case ASK_TAKE: break; /* when it comes */
    case ASK_LISTEN: listen_begin(n); break;
    case ASK_BEGIN: begin(n); break;
    case ASK_GIVE: give(n); break;
    case ASK_ECHO:
    case ASK_SWAP: node_probe_begin(n, ask); break;
    }
}

bool node_given_arrives(struct node *n, uint32_t link, const struct link_event *e)
{
    char name[NODE_NAME_BYTES];
    const bool is_asked = atomic_load_explicit(&n->shared_ask, memory_order_acquire) == ASK_TAKE &&
                          !n->ask.is_under_way && node_state(n) == STATE_RUNNING && n->link_of[n->ask.index] == link;
    if (!is_asked) return false;
    if (e->bytes != n->ask.bytes) {
        node_break(n, status_fail(ST_INVALID, __FILE__, __LINE__,
                                  "%s has sent %u bytes; expected %" PRIu64 ": it does not run the same program",
                                  node_name(n, n->ask.index, name), e->bytes, n->ask.bytes));
        return false;
    }
    n->ask.is_under_way = true;
    link_receive(n->links, link, &(struct iovec){n->ask.to, e->bytes}, 1);
    return true;
}
