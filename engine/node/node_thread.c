/* A node's thread: takes events of links, one after another, does what the main thread
 * asks for, and looks at the clock. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/trace.h"
#include "engine/node/node_internal.h"
#include "engine/node/stream.h"

#define TICK_NS   UINT64_C(250000000)
#define NOTICE_NS UINT64_C(2000000000)

/* --- links -------------------------------------------------------------------------------------- */

void node_link_close(struct node *n, uint32_t link)
{
    struct node_link *l = &n->link[link];
    if (l->state == NODE_LINK_FREE) return;
    link_close(n->links, link);
    free(l->drain);
    for (uint32_t i = 0; i < LETTERS; i++)
        if (n->letters[i].is_used && n->letters[i].link == link) n->letters[i].is_used = false;
    if (n->facts_link == link) n->facts_link = MEMBER_NONE;
    for (uint32_t i = 0; i < n->count; i++)
        if (n->link_of[i] == link) n->link_of[i] = MEMBER_NONE;
    *l = (struct node_link){.state = NODE_LINK_FREE};
    n->is_dead[link] = true;
}

/* Tells how many steps all have done. */
static void steps_tell(struct node *n)
{
    const uint64_t until = n->has_begun ? reduce_done(n->reduce) : n->begin_step;
    if (until > n->begin_step)
        node_member_tell(n,
                         (struct member_event){.kind = EVENT_STEP, .value = until - n->begin_step, .mask = UINT64_MAX});
}

/* The link has ended, or what is on it breaks the rules: its node is lost. */
static void link_drop(struct node *n, uint32_t link, const char *why)
{
    const uint32_t rank = n->member->channel[link].rank;
    char place[PLACE_TEXT_BYTES];
    if (n->link[link].state == NODE_LINK_UP && rank != MEMBER_NONE && node_loss_is_news(n) &&
        n->member->phase != MEMBER_LEAVING)
        snprintf(n->lost, sizeof n->lost, "%s is lost: %s", node_place_text(n, rank, place), why);
    const bool is_up = n->link[link].state == NODE_LINK_UP;
    node_link_close(n, link);
    if (is_up) steps_tell(n);
    if (is_up) node_member_tell(n, (struct member_event){.kind = EVENT_DOWN, .channel = link, .rank = MEMBER_NONE});
}

static void link_opened(struct node *n, const struct link_event *e)
{
    struct node_link *l = &n->link[e->link];
    const uint32_t rank = e->incoming ? MEMBER_NONE : l->rank;
    if (e->incoming) *l = (struct node_link){.rank = MEMBER_NONE};
    l->state = NODE_LINK_UP;
    l->index = INDEX_NONE;
    if (rank == 0) n->refused = 0;
    node_member_tell(n, (struct member_event){.kind = EVENT_UP, .channel = e->link, .rank = rank});
}

static void link_lost(struct node *n, const struct link_event *e)
{
    struct node_link *l = &n->link[e->link];
    char why[WHY_BYTES];
    snprintf(why, sizeof why, "%s", link_why(n->links, e->link));
    if (l->state != NODE_LINK_ASKED) {
        link_drop(n, e->link, why);
        return;
    }
    const uint32_t rank = l->rank;
    snprintf(n->connect_why, sizeof n->connect_why, "%s", why);
    node_probe_why(n, rank, why);
    if (rank == 0 && strstr(why, "before it has greeted: it refuses")) n->refused++;
    node_link_close(n, e->link);
    node_member_tell(n, (struct member_event){.kind = EVENT_DOWN, .channel = MEMBER_NONE, .rank = rank});
}

/* --- messages ----------------------------------------------------------------------------------- */

void node_letter_send(struct node *n, uint32_t link, enum node_kind kind, uint64_t tag, const void *bytes, size_t count)
{
    struct link_message m = {.kind = (uint16_t)kind, .tag = tag};
    uint32_t i = 0;
    CHECK(count <= LETTER_BYTES);
    while (i < LETTERS && n->letters[i].is_used) i++;
    if (n->link[link].state != NODE_LINK_UP || i == LETTERS)
        return; /* a beat, to a node that has long been silent itself */
    struct node_letter *letter = &n->letters[i];
    memcpy(letter->bytes, bytes, count);
    m.part[0] = (struct iovec){letter->bytes, count};
    m.part_count = count > 0;
    if (!link_send(n->links, link, &m, COOKIE_LETTER + i)) return;
    letter->is_used = true;
    letter->link = link;
    n->link[link].letters++;
}

/* On a node that has failed: takes a message of steps off the link, because the message
 * that ends the job comes after it. */
static void message_drain(struct node *n, const struct link_event *e)
{
    struct node_link *l = &n->link[e->link];
    l->drain = malloc(e->bytes ? e->bytes : 1);
    if (l->drain == NULL)
        link_drop(n, e->link, "no memory for what it sends");
    else
        link_receive(n->links, e->link, &(struct iovec){l->drain, e->bytes}, 1);
}

/* Puts the message where it belongs; false: there is no place for it yet. */
static bool message_place(struct node *n, const struct link_event *e)
{
    struct node_link *l = &n->link[e->link];
    struct iovec part[REDUCE_PARTS_MAX] = {{l->in, e->bytes}};
    uint32_t part_count = 1;
    if (e->kind == KIND_GIVEN) return node_given_arrives(n, e->link, e);
    if (e->kind == KIND_SWAP) return node_swap_arrives(n, e);
    if (reduce_has_kind(e->kind)) {
        if (node_state(n) == STATE_FAILED) {
            message_drain(n, e);
            return true;
        }
        const bool is_awaited = n->has_begun || (n->listens && reduce_is_talk(e->kind));
        if (!is_awaited || l->index == INDEX_NONE || node_state(n) != STATE_RUNNING) return false;
        const status st = reduce_place(n->reduce, l->index, e->kind, e->tag, e->bytes, part, &part_count);
        if (st != ST_OK) node_break(n, st);
        if (st != ST_OK) return false;
    } else if (e->kind == KIND_FACTS) {
        if (!node_is_first(n) || e->bytes > FACTS_BYTES_MAX) {
            link_drop(n, e->link, "it sends facts to whom they are no business of");
            return true;
        }
        if (n->facts_link != MEMBER_NONE) return false;
        n->facts_link = e->link;
        part[0].iov_base = n->facts_in;
    } else if ((e->kind != KIND_FRAME && e->kind != KIND_WHY && e->kind != KIND_PLACES) || e->bytes > LETTER_BYTES) {
        link_drop(n, e->link, "it sends what no node sends");
        return true;
    }
    link_receive(n->links, e->link, part, part_count);
    return true;
}

static void message_arrives(struct node *n, const struct link_event *e)
{
    struct node_link *l = &n->link[e->link];
    if (l->state == NODE_LINK_CLOSING || message_place(n, e)) return;
    n->has_waiting = l->is_waiting = true;
    l->waiting = *e;
}

/* A message that waited for a place may have one now. */
static void waiting_look(struct node *n)
{
    const bool had_waiting = n->has_waiting;
    n->has_waiting = false;
    for (uint32_t i = 0; i < n->link_count && had_waiting; i++) {
        struct node_link *l = &n->link[i];
        if (l->state != NODE_LINK_UP || !l->is_waiting) continue;
        const struct link_event e = l->waiting;
        l->is_waiting = !message_place(n, &e);
        n->has_waiting |= l->is_waiting;
    }
}

static void message_arrived(struct node *n, const struct link_event *e)
{
    struct node_link *l = &n->link[e->link];
    if (l->state != NODE_LINK_UP) return;
    if (reduce_has_kind(e->kind)) {
        free(l->drain);
        l->drain = NULL;
        if (l->index == INDEX_NONE || node_state(n) != STATE_RUNNING) return;
        const status st = reduce_arrived(n->reduce, l->index);
        if (st != ST_OK) node_break(n, st);
        return;
    }
    switch ((enum node_kind)e->kind) {
    case KIND_FRAME: node_frame_take(n, e->link, e->bytes); break;
    case KIND_FACTS: node_facts_take(n, e->link, e->bytes); break;
    case KIND_WHY: node_why_take(n, e->link, e->bytes); break;
    case KIND_GIVEN: node_ask_done(n); break;
    case KIND_HERE: l->port = (uint16_t)e->tag; break;
    case KIND_PLACES: node_places_take(n, e->link, e->bytes); break;
    case KIND_ECHO: node_echo_take(n, e); break;
    case KIND_ECHOED: node_echoed_take(n, e); break;
    case KIND_SWAP: node_swap_arrived(n, e); break;
    default: link_drop(n, e->link, "it sends what no node sends"); break;
    }
}

static void message_sent(struct node *n, const struct link_event *e)
{
    struct node_link *l = &n->link[e->link];
    if (e->cookie == COOKIE_REDUCE && node_state(n) == STATE_RUNNING) {
        const status st = reduce_sent(n->reduce, l->index);
        if (st != ST_OK) node_break(n, st);
    }
    if (e->cookie == COOKIE_GIVEN) node_ask_done(n);
    if (e->cookie == COOKIE_SWAP) node_swap_sent(n, e);
    if (e->cookie < COOKIE_LETTER) return;
    n->letters[e->cookie - COOKIE_LETTER].is_used = false;
    l->letters--;
    if (l->state == NODE_LINK_CLOSING && l->letters == 0) node_link_close(n, e->link);
}

static void event_take(struct node *n, const struct link_event *e)
{
    if (n->is_dead[e->link]) return;
    switch (e->what) {
    case LINK_OPENED: link_opened(n, e); break;
    case LINK_ARRIVES: message_arrives(n, e); break;
    case LINK_ARRIVED: message_arrived(n, e); break;
    case LINK_SENT: message_sent(n, e); break;
    case LINK_LOST: link_lost(n, e); break;
    }
}

/* --- failing ------------------------------------------------------------------------------------ */

void node_fail(struct node *n, status failure)
{
    struct failure kept;
    failure_keep(&kept, failure);
    if (node_state(n) >= STATE_FAILED) return;
    failure_keep(&n->result, failure);
    /* The memory that the main thread has lent is its own again. */
    if (n->ask.is_under_way && n->link_of[n->ask.index] != MEMBER_NONE) node_link_close(n, n->link_of[n->ask.index]);
    const bool listens = n->listens;
    node_state_set(n, STATE_FAILED);
    if (listens) reduce_fail(n->reduce, failure_adopt(&kept));
}

/* Tells the others that this node has failed, or, on node 0, that it is done. */
static void end_tell(struct node *n, uint64_t exit_status)
{
    if (!node_is_first(n) && n->link_of[0] != MEMBER_NONE)
        node_letter_send(n, n->link_of[0], KIND_WHY, 0, n->why, strlen(n->why));
    node_member_tell(n, (struct member_event){.kind = EVENT_FINISH, .value = exit_status});
}

void node_break(struct node *n, status failure)
{
    if (node_state(n) >= STATE_FAILED) return;
    snprintf(n->why, sizeof n->why, "node %u: %.*s", n->o.place->rank, (int)sizeof n->why - 32, status_message());
    node_fail(n, failure);
    end_tell(n, (uint64_t)status_exit(failure));
}

/* The main thread is done, if it has said so. */
static void finish_take(struct node *n, uint32_t finish)
{
    if (finish == 0) return;
    if (finish == UINT32_MAX) {
        node_state_set(n, STATE_OVER);
        return;
    }
    snprintf(n->why, sizeof n->why, "%s", n->finish_why);
    if (finish > 1) node_fail(n, status_fail(ST_SYSTEM, __FILE__, __LINE__, "%s", n->why));
    end_tell(n, finish - 1);
}

/* --- time --------------------------------------------------------------------------------------- */

/* A node is not silent that sends anything, or whose message waits for us to take it. */
static void heard_look(struct node *n)
{
    for (uint32_t i = 0; i < n->link_count; i++) {
        struct node_link *l = &n->link[i];
        if (l->state == NODE_LINK_CLOSING && clock_ns() >= l->close_end_ns) node_link_close(n, i);
        if (l->state != NODE_LINK_UP) continue;
        const uint64_t bytes = link_received_bytes(n->links, i);
        if (bytes == l->heard_bytes && !l->is_waiting) continue;
        l->heard_bytes = bytes;
        node_member_tell(n, (struct member_event){.kind = EVENT_HEARD, .channel = i});
    }
}

/* Tells for whom the step waits; and, on node 0, that no step is to be run, as while it saves,
 * evaluates or waits for data itself. */
static void progress_look(struct node *n)
{
    if (node_state(n) != STATE_RUNNING) return;
    const uint64_t waits = n->has_begun ? reduce_waits(n->reduce) : 0;
    uint64_t ranks = 0;
    for (uint32_t i = 0; i < n->count; i++)
        if (waits >> i & 1) ranks |= UINT64_C(1) << n->rank_of[i];
    atomic_store_explicit(&n->shared_waits, ranks, memory_order_relaxed); /* a figure */
    node_member_tell(n, (struct member_event){.kind = EVENT_WAITS, .mask = ranks});
    if (node_is_first(n) && (!n->has_begun || !reduce_runs(n->reduce) || reduce_stream_is_dry(n->reduce)))
        node_member_tell(n, (struct member_event){.kind = EVENT_REST});
}

static void time_look(struct node *n)
{
    const uint64_t now = clock_ns();
    if (now >= n->tick_ns) {
        n->tick_ns = now + TICK_NS;
        heard_look(n);
        progress_look(n);
    }
    if (now >= n->timer_ns) {
        n->timer_ns = UINT64_MAX;
        steps_tell(n);
        n->is_timer = true;
        node_member_tell(n, (struct member_event){.kind = EVENT_TIMER});
        n->is_timer = false;
    }
    if (node_state(n) == STATE_MEETING && now >= n->notice_ns) node_notice(n);
}

static status turn(struct node *n)
{
    uint32_t count;
    const uint64_t end_ns = n->timer_ns < n->tick_ns ? n->timer_ns : n->tick_ns;
    TRY(links_wait(n->links, n->events, EVENTS_MAX, end_ns, &count));
    memset(n->is_dead, 0, sizeof n->is_dead);
    for (uint32_t i = 0; i < count && node_state(n) != STATE_OVER; i++) event_take(n, &n->events[i]);
    /* Acquire pairs with finish(): what the main thread has said before its end
     * is sent before the end is told. */
    const uint32_t finish = atomic_exchange_explicit(&n->shared_finish, 0, memory_order_acquire);
    node_ask_look(n);
    if (n->listens && node_state(n) == STATE_RUNNING) {
        const status st = reduce_look(n->reduce);
        if (st != ST_OK) node_break(n, st);
    }
    finish_take(n, finish);
    if (node_state(n) == STATE_OVER) return ST_OK;
    waiting_look(n);
    time_look(n);
    return ST_OK;
}

static bool may_leave(void *context)
{
    /* Acquire pairs with thread_end(). */
    return atomic_load_explicit(&((struct node *)context)->shared_leave, memory_order_acquire);
}

void *node_main(void *argument)
{
    struct node *n = argument;
    trace_thread("nodes");
    n->timer_ns = UINT64_MAX;
    n->tick_ns = clock_ns() + TICK_NS;
    n->notice_ns = clock_ns() + NOTICE_NS;
    node_member_tell(n, (struct member_event){.kind = EVENT_START});
    while (node_state(n) != STATE_OVER) {
        const status st = turn(n);
        if (st == ST_OK) continue;
        node_fail(n, st);
        node_state_set(n, STATE_OVER);
    }
    for (uint32_t i = 0; i < n->link_count; i++) node_link_close(n, i);
    bell_await(&n->leave_bell, false, may_leave, n);
    links_close(n->links);
    return NULL;
}
