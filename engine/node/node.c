/* Opens and closes a node, and asks it: the main thread's side, which sleeps at a bell until
 * the node's thread has answered. */
#include "engine/node/node_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "engine/base/thread.h"
#include "engine/base/words.h"
#include "engine/node/stream.h"

/* Part of the prologue: whoever means something else by links is refused at the greeting. */
#define PROLOGUE UINT64_C(0x31656c6e2d737068)
/* Most connections that have not greeted yet, beside those of nodes. */
#define HALF_OPEN 16u
/* Of these, most of one host. Nodes that share a host come at once, so there is
 * room for this many of them. */
#define SAME_HOST_OPEN 12u

/* --- memory ------------------------------------------------------------------------------------- */

/* Most messages to one node under way: a round's vectors, eight a message, and some. */
static uint32_t queued_max(const struct graph *g)
{
    if (g == NULL) return 64;
    const uint64_t vectors =
        (uint64_t)(g->node_count + g->table_count + 4) * 2 * 11; /* runs of a node's lanes: 2 log2 1024 and some */
    const uint64_t messages = vectors / REDUCE_PARTS_MAX + 64;
    return messages < 65536 ? (uint32_t)messages : 65536;
}

static struct links_options links_options_of(const struct node_options *o)
{
    const uint32_t count = o->place->count, links = 2 * count + HALF_OPEN + 8,
                   same_host = count < SAME_HOST_OPEN ? count : SAME_HOST_OPEN;
    return (struct links_options){.link_count = links < MEMBER_CHANNELS_MAX ? links : MEMBER_CHANNELS_MAX,
                                  .queued_max = queued_max(o->graph),
                                  .message_bytes_max = UINT32_MAX,
                                  .half_open_max = HALF_OPEN,
                                  .same_host_max = same_host > LINK_SAME_HOST_MAX ? same_host : 0,
                                  .prologue = PROLOGUE,
                                  .keys = o->key,
                                  .key_count = o->key != NULL};
}

static void node_layout(struct node *n, struct layout *l)
{
    LAYOUT_TAKE(l, n->member, 1);
    LAYOUT_TAKE(l, n->link, n->link_count);
    LAYOUT_TAKE(l, n->letters, LETTERS);
    if (n->o.place->rank == 0) LAYOUT_TAKE(l, n->facts_in, FACTS_BYTES_MAX);
}

/* Listens at the own address, whose port becomes the real one. */
static status listen_begin(struct node *n, struct address *here)
{
    const uint64_t end_ns = clock_ns() + n->o.listen_ns;
    const struct timespec pause = {.tv_nsec = 100000000};
    for (;;) {
        const status st = links_listen(n->links, here, here);
        if (st == ST_OK || errno != EADDRINUSE || clock_ns() >= end_ns) return st;
        (void)nanosleep(&pause, NULL);
    }
}

static status memory_open(struct node *n)
{
    const struct links_options options = links_options_of(&n->o);
    struct layout sum = {0}, taken = {.arena = &n->arena};
    const char *why;
    n->link_count = options.link_count;
    node_layout(n, &sum);
    TRY(arena_open(&n->arena, "links", sum.bytes + links_bytes(&options)));
    node_layout(n, &taken);
    TRY(links_open(&n->links, &n->arena, &options, &why));
    struct address *here = &n->address[n->o.place->rank];
    memcpy(n->address, n->o.place->address, sizeof n->address);
    if (n->o.place->listen_fd >= 0) return links_listen_at(n->links, n->o.place->listen_fd);
    return listen_begin(n, here);
}

/* --- opening ------------------------------------------------------------------------------------ */

static status member_begin(struct node *n)
{
    const struct node_place *p = n->o.place;
    struct member_options options = {.rank = p->rank,
                                     .nodes = p->count,
                                     .min = n->o.min       ? n->o.min
                                            : p->count > 1 ? p->count - 1
                                                           : 1,
                                     .facts = n->o.facts->hash,
                                     .says = n->o.says,
                                     .timeout_ns = n->o.timeout_ns,
                                     .connect_ns = n->o.connect_ns,
                                     .progress_ns = n->o.progress_ns,
                                     .is_partial = n->o.is_partial};
    struct timespec now;
    if (options.min > p->count)
        FAIL(INVALID, "cluster.min = %u nodes are more than the %u of this job", options.min, p->count);
    if (n->o.past) {
        options.nonce = n->o.past->nonce;
        options.roster = n->o.past->roster;
    } else if (getrandom(&options.nonce, sizeof options.nonce, 0) != sizeof options.nonce) {
        FAIL(SYSTEM, "no random number for this node: %s", strerror(errno));
    }
    /* Later starts have greater numbers. */
    clock_gettime(CLOCK_REALTIME, &now);
    options.incarnation_last = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    member_open(n->member, &options);
    return ST_OK;
}

static bool has_met(void *context) { return node_state(context) != STATE_MEETING; }

static status parts_open(struct node *n)
{
    TRY(memory_open(n));
    TRY(member_begin(n));
    memory_note("threads", THREAD_STACK_BYTES);
    const int error = thread_start(&n->thread, node_main, n);
    if (error) FAIL(SYSTEM, "cannot start the thread of links: %s", strerror(error));
    n->is_started = true;
    bell_await(&n->bell, false, has_met, n);
    return node_state(n) == STATE_RUNNING ? ST_OK : failure_adopt(&n->result);
}

static void post_wake(struct post *post) { links_wake(((struct node *)post)->links); }

/* By the node's thread. The link of a lost node is MEMBER_NONE: the round is never over, but the job is. */
static status post_send(struct post *post, uint32_t to, const struct reduce_message *message)
{
    struct node *n = (struct node *)post;
    struct link_message m = {.kind = message->kind, .tag = message->step, .part_count = message->part_count};
    char name[NODE_NAME_BYTES];
    memcpy(m.part, message->part, message->part_count * sizeof *m.part);
    if (n->link_of[to] == MEMBER_NONE) return ST_OK;
    const enum node_cookie cookie = reduce_is_stream(message->kind) ? COOKIE_STREAM : COOKIE_REDUCE;
    if (!link_send(n->links, n->link_of[to], &m, cookie))
        FAIL(FULL, "too many messages to %s are under way", node_name(n, to, name));
    return ST_OK;
}

static const struct post_vt post_vt = {.send = post_send, .wake = post_wake};
_Static_assert(REDUCE_PARTS_MAX <= LINK_PARTS_MAX, "a message of reduce is one of a link");

status node_open(struct node **out, const struct node_options *options)
{
    struct node *n = aligned_alloc(CACHE_LINE_BYTES, arena_bytes(sizeof *n));
    *out = NULL;
    if (n == NULL) FAIL(MEMORY, "no memory for a node");
    memset(n, 0, sizeof *n);
    n->post.vt = &post_vt;
    n->o = *options;
    n->facts_link = MEMBER_NONE;
    const status st = parts_open(n);
    if (st == ST_OK) *out = n;
    if (st == ST_OK) return st;
    struct failure failure;
    failure_keep(&failure, st);
    node_close(n);
    return failure_adopt(&failure);
}

static void thread_end(struct node *n)
{
    if (!n->is_started) return;
    links_wake(n->links);
    /* Release pairs with may_leave(). */
    atomic_store_explicit(&n->shared_leave, true, memory_order_release);
    bell_ring(&n->leave_bell);
    pthread_join(n->thread, NULL);
    memory_note("threads", -THREAD_STACK_BYTES); /* taken back, modulo 2^64 */
    n->is_started = false;
    n->links = NULL; /* the thread, which alone may, has closed them */
}

void node_close(struct node *n)
{
    if (n == NULL) return;
    /* The node leaves as if it were done, even if others do not hear of it. */
    atomic_store_explicit(&n->shared_finish, UINT32_MAX, memory_order_release);
    thread_end(n);
    links_close(n->links);
    reduce_close(n->reduce);
    stages_free(&n->stages);
    arena_close(&n->arena);
    free(n);
}

uint32_t node_index(const struct node *n) { return n->index; }
uint32_t node_count(const struct node *n) { return n->count; }

const char *node_name(const struct node *n, uint32_t index, char name[NODE_NAME_BYTES])
{
    snprintf(name, NODE_NAME_BYTES, "node %u", n->rank_of[index]);
    return name;
}

const char *node_place_text(const struct node *n, uint32_t rank, char text[PLACE_TEXT_BYTES])
{
    char address[ADDRESS_TEXT_BYTES];
    if (n->address[rank].any.sa_family == AF_UNSPEC)
        snprintf(text, PLACE_TEXT_BYTES, "node %u", rank);
    else
        snprintf(text, PLACE_TEXT_BYTES, "node %u at %s", rank, address_text(address, &n->address[rank]));
    return text;
}

/* --- the exchange ------------------------------------------------------------------------------- */

status node_divide(struct node *n)
{
    n->has_bandwidth = division_bandwidths(n->says, n->count, n->bandwidth);
    if (n->has_bandwidth && n->o.has_waves && node_is_first(n))
        log_warning("cluster.bandwidth is not used under train.sync = wsp, where nodes share slices and rows evenly");
    const struct stages_options stages = {.graph = n->o.graph,
                                          .plan = n->o.plan,
                                          .node_count = n->count,
                                          .job_nodes = n->o.place->count,
                                          .rank_of = n->rank_of,
                                          .index = n->index,
                                          .has_waves = n->o.has_waves};
    if (n->o.plan && !stages_are_even(&stages)) return stages_place(&n->stages, &stages);
    if (n->o.has_waves) return ST_OK; /* each has minibatches of its own */
    return division_make(&n->division, &(struct division_options){.lanes = n->o.graph->header->lanes,
                                                                  .node_count = n->count,
                                                                  .job_nodes = n->o.place->count,
                                                                  .says = n->says,
                                                                  .rank_of = n->rank_of,
                                                                  .slices = n->o.slices,
                                                                  .rows = n->o.rows});
}

/* Before the number `index` of `count` in a list of words. */
static const char *comma(uint32_t index, uint32_t count)
{
    return index == 0 ? "" : index + 1 < count ? ", " : " and ";
}

const char *node_speeds_text(const struct node *n, char *text, size_t bytes)
{
    char one[27];
    size_t used = 0;
    bool is_any = false;
    for (uint32_t i = 0; i < n->count && used < bytes; i++) {
        const uint32_t of_lanes = division_of_lanes(n->says[i]);
        const bool has_speed = of_lanes & DIVISION_SPEED;
        is_any |= has_speed;
        used += (size_t)snprintf(text + used, bytes - used, "%s%s", comma(i, n->count),
                                 has_speed ? words_whole(one, of_lanes & DIVISION_SPEED_MAX) : "?");
    }
    if (!is_any) *text = 0;
    return text;
}

const char *node_lanes_text(const struct node *n, char *text, size_t bytes)
{
    const uint32_t *begin = n->division.lane_begin;
    size_t used = 0;
    for (uint32_t i = 0; i < n->count && used < bytes; i++)
        used += (size_t)snprintf(text + used, bytes - used, "%s%u", comma(i, n->count), begin[i + 1] - begin[i]);
    return text;
}

const char *node_shares_text(const struct node *n, char text[NODE_SHARES_BYTES])
{
    static const char *const names[] = {[SHARE_SLICES] = "slices", [SHARE_ROWS] = "rows"};
    size_t used = 0;
    *text = 0;
    for (uint32_t what = SHARE_SLICES; what <= SHARE_ROWS; what++) {
        const uint16_t *parts = reduce_parts(n->reduce, (enum share_what)what);
        if (parts == NULL) continue;
        used += (size_t)snprintf(text + used, NODE_SHARES_BYTES - used, "%s%s are %s", used ? ", " : "", names[what],
                                 n->stages.count ? "uneven" : "");
        for (uint32_t i = 0; i < n->count && n->stages.count == 0 && used < NODE_SHARES_BYTES; i++)
            used += (size_t)snprintf(text + used, NODE_SHARES_BYTES - used, "%s%.3g%%", comma(i, n->count),
                                     100.0 * parts[i] / SHARE_PARTS);
        CHECK(used < NODE_SHARES_BYTES);
    }
    return text;
}

bool node_computes(const struct node *n)
{
    return n == NULL || n->stages.count || n->o.has_waves ||
           n->division.lane_begin[n->index] < n->division.lane_begin[n->index + 1];
}

const struct exchange_stages *node_stages(const struct node *n) { return n && n->stages.count ? &n->stages : NULL; }

status node_join(struct node *n, struct model *model)
{
    const struct reduce_options options = {.graph = n->o.graph,
                                           .model = model,
                                           .rank = n->index,
                                           .node_count = n->count,
                                           .lane_begin = n->division.lane_begin,
                                           .slices = n->division.slices,
                                           .rows = n->division.rows,
                                           .bandwidth = n->has_bandwidth ? n->bandwidth : NULL,
                                           .stages = n->stages.count ? &n->stages : NULL,
                                           .has_waves = n->o.has_waves,
                                           .bucket_floats = n->o.bucket_floats,
                                           .is_bf16 = n->o.is_bf16,
                                           .post = &n->post,
                                           .rank_of = n->rank_of};
    return reduce_open(&n->reduce, &options);
}

struct reduce *node_reduce(struct node *n) { return n->reduce; }

static bool is_answered(void *context)
{
    struct node *n = context;
    /* Acquire pairs with node_ask_done(). */
    return atomic_load_explicit(&n->shared_ask, memory_order_acquire) == ASK_NONE || node_state(n) >= STATE_FAILED;
}

status node_asked(struct node *n, enum node_ask what)
{
    /* Release pairs with node_ask_look(). */
    atomic_store_explicit(&n->shared_ask, what, memory_order_release);
    links_wake(n->links);
    bell_await(&n->bell, false, is_answered, n);
    if (atomic_load_explicit(&n->shared_ask, memory_order_acquire) == ASK_NONE) return ST_OK;
    /* Node 0 ends a job when it has all that it waits for: this may be known before the
     * kernel has said that all is sent. */
    if (what == ASK_GIVE && !failure_is(&n->result)) return ST_OK;
    return failure_is(&n->result) ? failure_adopt(&n->result) : node_job_ended();
}

status node_listen(struct node *n) { return node_asked(n, ASK_LISTEN); }

status node_begin(struct node *n, uint64_t step)
{
    n->begin_step = step; /* published by the ask */
    return node_asked(n, ASK_BEGIN);
}

/* A message of a link has less than 4 GiB. */
#define GIVE_BYTES (UINT64_C(1) << 30)

status node_give(struct node *n, uint32_t to, const void *data, uint64_t bytes)
{
    for (uint64_t at = 0; at < bytes; at += n->ask.bytes) {
        n->ask.index = to;
        n->ask.from = (const uint8_t *)data + at;
        n->ask.bytes = bytes - at < GIVE_BYTES ? bytes - at : GIVE_BYTES;
        TRY(node_asked(n, ASK_GIVE));
    }
    return ST_OK;
}

status node_take(struct node *n, uint32_t from, void *data, uint64_t bytes)
{
    for (uint64_t at = 0; at < bytes; at += n->ask.bytes) {
        n->ask.index = from;
        n->ask.to = (uint8_t *)data + at;
        n->ask.bytes = bytes - at < GIVE_BYTES ? bytes - at : GIVE_BYTES;
        TRY(node_asked(n, ASK_TAKE));
    }
    return ST_OK;
}

status node_tell(struct node *n, void *data, uint64_t bytes)
{
    if (n->index > 0) return node_take(n, 0, data, bytes);
    for (uint32_t i = 1; i < n->count; i++) TRY(node_give(n, i, data, bytes));
    return ST_OK;
}

/* --- the end ------------------------------------------------------------------------------------ */

static bool has_ended(void *context) { return node_state(context) >= STATE_FAILED; }

bool node_ends_soon(struct node *n)
{
    return bell_await_until(&n->bell, false, clock_ns() + n->o.timeout_ns, has_ended, n);
}

static bool is_over(void *context) { return node_state(context) == STATE_OVER; }

static void finish(struct node *n, int exit_status)
{
    /* Release pairs with the exchange in turn(). */
    atomic_store_explicit(&n->shared_finish, (uint32_t)exit_status + 1, memory_order_release);
    links_wake(n->links);
}

uint64_t node_waits(const struct node *n) { return atomic_load_explicit(&n->shared_waits, memory_order_relaxed); }

status node_end(struct node *n, status st)
{
    struct failure failure;
    if (!n->is_started) return st;
    failure_keep(&failure, st);
    const bool is_ours = st != ST_OK && st != ST_AGAIN && node_state(n) < STATE_FAILED;
    if (is_ours)
        snprintf(n->finish_why, sizeof n->finish_why, "node %u: %.*s", n->o.place->rank, (int)sizeof n->finish_why - 32,
                 failure.message);
    else if (st != ST_OK)
        snprintf(n->finish_why, sizeof n->finish_why, "%.*s", (int)sizeof n->finish_why - 32, failure.message);
    if (is_ours || node_is_first(n)) finish(n, st == ST_OK ? 0 : status_exit(st));
    bell_await(&n->bell, false, is_over, n);
    thread_end(n);
    return st != ST_OK ? failure_adopt(&failure) : failure_adopt(&n->result);
}
