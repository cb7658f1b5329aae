/* News of steps: node 0 tells nodes without lanes, which read no data, of every step as soon as it has read
 * the step. Such a node begins a step by its news, and until then no node is done with the step; so node 0 is
 * never ahead by more steps than it reads ahead. */
#include <inttypes.h>

#include "engine/node/reduce_internal.h"

/* By the thread that reads. */
void step_tell(struct exchange *x, uint64_t step, struct exchange_news news)
{
    struct reduce *r = (struct reduce *)x;
    if (x->rank != 0) return;
    x->news[step % EXCHANGE_NEWS] = news;
    /* Release pairs with news_step(). */
    atomic_store_explicit(&x->shared_news, step + 1, memory_order_release);
    r->post->vt->wake(r->post);
}

status news_step(struct reduce *r)
{
    struct exchange *x = &r->exchange;
    if (x->rank != 0) return ST_OK;
    const uint64_t until = atomic_load_explicit(&x->shared_news, memory_order_acquire);
    for (; r->news_until < until; r->news_until++)
        for (uint32_t n = 1; n < x->node_count; n++) {
            const struct exchange_news *news = &x->news[r->news_until % EXCHANGE_NEWS];
            if (!has_lanes(r, n)) TRY(part_send(r, n, KIND_NEWS, r->news_until, news, sizeof *news));
        }
    return ST_OK;
}

static bool news_expect(struct reduce *r, uint32_t from, uint64_t step, uint64_t bytes, struct reduce_message *message)
{
    struct exchange *x = &r->exchange;
    (void)step;
    (void)bytes;
    message->step = atomic_load_explicit(&x->shared_news, memory_order_relaxed);
    if (from != 0 || x->own.count > 0 || message->step >= r->values_until + EXCHANGE_NEWS) return false;
    message->bytes = sizeof *x->news;
    message->part[0].iov_base = &x->news[message->step % EXCHANGE_NEWS];
    return true;
}

static status news_arrived(struct reduce *r, uint32_t from, const struct reduce_message *message)
{
    struct exchange *x = &r->exchange;
    const uint32_t count = x->news[message->step % EXCHANGE_NEWS].example_count, most = r->graph->header->batch;
    if (count > most)
        FAIL(INVALID,
             "node %u tells of %u examples of step %" PRIu64
             "; expected at most %u: it does not train the same graph in the same way",
             reduce_name(r, from), count, message->step, most);
    /* Release pairs with the acquire of the thread that waits. */
    atomic_store_explicit(&x->shared_news, message->step + 1, memory_order_release);
    if (x->news_bell) bell_ring(x->news_bell);
    return ST_OK;
}

const struct message_kind news_kind = {.expect = news_expect, .arrived = news_arrived};
