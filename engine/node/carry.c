/* Slots that cross between stages of several nodes (engine/pipe/hops.h), as messages:
 * two a micro-batch and cut. */
#include "engine/node/reduce_internal.h"

/* Most slots on their way to one node; others wait in its ring. */
#define CARRIED_MAX 32u

/* By any thread. */
void hops_carry(struct exchange *x)
{
    struct reduce *r = (struct reduce *)x;
    r->post->vt->wake(r->post);
}

status hops_step(struct reduce *r)
{
    struct exchange_hops *hops = r->exchange.hops;
    for (uint32_t n = 0; hops && n < r->exchange.node_count; n++) {
        const struct peer *peer = &r->peers[n];
        uint32_t number;
        while (peer->given - peer->sent < CARRIED_MAX && ring_try_pop(&hops->waiting[n], &number)) {
            const struct exchange_send *send = &hops->sends[number];
            /* Relaxed: a figure. */
            atomic_fetch_add_explicit(&r->shared_rows_bytes, send->bytes, memory_order_relaxed);
            TRY(part_send(r, n, KIND_SLOT, send->tag, send->at, send->bytes));
        }
    }
    return ST_OK;
}

static bool slot_expect(struct reduce *r, uint32_t from, uint64_t step, uint64_t bytes, struct reduce_message *message)
{
    struct exchange_hops *hops = r->exchange.hops;
    message->step = step;
    message->bytes = bytes;
    message->part[0].iov_base = hops ? hops->place(hops, from, step, bytes) : NULL;
    return message->part[0].iov_base != NULL;
}

static status slot_arrived(struct reduce *r, uint32_t from, const struct reduce_message *message)
{
    struct exchange_hops *hops = r->exchange.hops;
    hops->arrived(hops, from, message->step, message->bytes);
    return ST_OK;
}

const struct message_kind slot_kind = {.expect = slot_expect, .arrived = slot_arrived};
