/* A node's membership: frames to and from the machine of member.h, what the machine puts
 * out, and how a node ends. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "engine/base/stop.h"
#include "engine/node/node_internal.h"
#include "engine/node/stream.h"

#define CONNECT_NS      UINT64_C(5000000000)
#define CLOSING_NS      UINT64_C(1000000000)
#define NOTICE_AGAIN_NS UINT64_C(10000000000)
#define REFUSED_MAX     20u

static void follow(struct node *n, struct member_event event)
{
    CHECK(n->follow_count < FOLLOW_MAX);
    n->follow[n->follow_count++] = event;
}

/* --- words --------------------------------------------------------------------------------------- */

/* Ranks of a mask, " node 1 at …, node 3 at …". */
static void ranks_text(const struct node *n, uint64_t mask, char *text, size_t bytes)
{
    size_t used = 0;
    char place[PLACE_TEXT_BYTES];
    *text = 0;
    for (uint32_t r = 0; r < n->o.place->count && used < bytes; r++)
        if (mask >> r & 1)
            used += (size_t)snprintf(text + used, bytes - used, "%s%s", used ? ", " : "", node_place_text(n, r, place));
}

static uint64_t all_ranks(const struct node *n)
{
    return n->o.place->count == 64 ? UINT64_MAX : (UINT64_C(1) << n->o.place->count) - 1;
}

void node_notice(struct node *n)
{
    char text[512];
    const struct member *m = n->member;
    n->notice_ns = clock_ns() + NOTICE_AGAIN_NS;
    if (node_is_first(n)) {
        const struct link_counts *counts = links_counts(n->links);
        ranks_text(n, all_ranks(n) & ~m->present & ~UINT64_C(1), text, sizeof text);
        if (*text == 0) return;
        if (counts->garbage_count)
            log_warning("waits for %s; %" PRIu64 " connections were refused, the last one: %s", text,
                        counts->garbage_count, counts->garbage_why);
        else
            log_warning("waits for %s", text);
        return;
    }
    if (m->phase == MEMBER_WAITING) {
        log_warning("the job runs without this node, which takes part when another one is lost");
        n->notice_ns = UINT64_MAX;
        return;
    }
    uint64_t missing = m->to[0] == MEMBER_NONE ? 1 : 0;
    for (uint32_t r = 1; r < n->o.place->count && m->phase == MEMBER_MESHING; r++)
        if (r != n->o.place->rank && (m->roster.mask >> r & 1) && m->to[r] == MEMBER_NONE) missing |= UINT64_C(1) << r;
    ranks_text(n, missing, text, sizeof text);
    if (*text) log_warning("waits for %s%s%s", text, *n->connect_why ? ": " : "", n->connect_why);
}

/* The sentence of an end. */
static status exit_status_of(struct node *n, uint64_t code, enum member_reason reason)
{
    char text[512], place[PLACE_TEXT_BYTES];
    const double connect = (double)n->o.connect_ns * 1e-9;
    switch (reason) {
    case REASON_NONE:
    case REASON_FINISHED:
        if (code == 0) return ST_OK;
        if (code == MEMBER_EXIT_AGAIN) FAIL(AGAIN, "%s", *n->why ? n->why : "node 0 has stopped");
        if (code == 2) FAIL(USAGE, "%s", n->why);
        FAIL(SYSTEM, "%s", *n->why ? n->why : "another node has failed");
    case REASON_FACTS: FAIL(INVALID, "%s", *n->why ? n->why : "node 0 refuses this node: it belongs to another job");
    case REASON_TWICE:
        FAIL(INVALID, "rank %u is taken: another process of this job has it; --rank says which node this is",
             n->o.place->rank);
    case REASON_TOO_FEW:
        if (*n->lost) FAIL(PEER_LOST, "fewer than cluster.min = %u nodes are left: %s", n->member->o.min, n->lost);
        ranks_text(n, all_ranks(n) & ~(n->member->present | 1), text, sizeof text);
        FAIL(PEER_LOST, "fewer than cluster.min = %u nodes have come within %g s (cluster.connect): without %s",
             n->member->o.min, connect, text);
    case REASON_LOSSES:
        FAIL(PEER_LOST, "nodes were lost three times without a step between; the last one: %s", n->lost);
    case REASON_NO_FIRST:
        FAIL(PEER_LOST, "%s is not found within %g s%s%s", node_place_text(n, 0, place), connect,
             *n->connect_why ? ": " : "", n->connect_why);
    case REASON_NEWER: FAIL(PEER_LOST, "this job has been started again elsewhere");
    case REASON_FIRST_STUCK:
        FAIL(PEER_LOST, "node 0 itself has not done its part of a step for %g s (cluster.progress)",
             (double)n->o.progress_ns * 1e-9);
    }
    CHECK(false);
}

/* --- what is put out ------------------------------------------------------------------------------ */

/* Where the data are a stream, which nobody can read again, a loss is a failure. */
static status stream_lost(const struct node *n, status st)
{
    char why[WHY_BYTES];
    if (st != ST_PEER_LOST || !n->listens || reduce_stream(n->reduce) == NULL) return st;
    snprintf(why, sizeof why, "%.*s", (int)sizeof why - 1, status_message());
    FAIL(SYSTEM,
         "%s; the data are a stream, of which a part has been read, and cannot be read again: "
         "start all nodes again with the stream from its beginning, and, where there is a save, with --resume",
         why);
}

static void over(struct node *n, status st)
{
    st = stream_lost(n, st);
    if (st != ST_OK) node_fail(n, st);
    node_state_set(n, STATE_OVER);
    /* A main thread that still hears, or computes, has nothing to wait for. */
    if (n->listens && st == ST_OK) reduce_fail(n->reduce, node_job_ended());
}

/* Sends where the nodes listen that have told node 0 alone. */
#define THERE_MAX (LETTER_BYTES / sizeof(struct node_there))
static void places_send(struct node *n, uint32_t link)
{
    struct node_there there[THERE_MAX];
    uint32_t count = 0;
    for (uint32_t r = 1; r < n->o.place->count; r++) {
        if (n->o.place->address[r].any.sa_family != AF_UNSPEC || n->address[r].any.sa_family == AF_UNSPEC) continue;
        memset(&there[count], 0, sizeof there[count]);
        there[count].rank = r;
        there[count++].address = n->address[r];
        if (count < THERE_MAX) continue;
        node_letter_send(n, link, KIND_PLACES, 0, there, sizeof there);
        count = 0;
    }
    if (count) node_letter_send(n, link, KIND_PLACES, 0, there, count * sizeof *there);
}

void node_places_take(struct node *n, uint32_t link, uint32_t bytes)
{
    if (n->member->channel[link].rank != 0) return;
    for (uint32_t at = 0; at + sizeof(struct node_there) <= bytes; at += sizeof(struct node_there)) {
        struct node_there there;
        memcpy(&there, n->link[link].in + at, sizeof there);
        const int family = there.address.any.sa_family;
        if (there.rank == 0 || there.rank >= n->o.place->count || there.rank == n->o.place->rank) continue;
        if (n->o.place->address[there.rank].any.sa_family != AF_UNSPEC || (family != AF_INET && family != AF_INET6))
            continue;
        n->address[there.rank] = there.address;
    }
}

static void frame_send(struct node *n, uint32_t link, const struct member_frame *frame)
{
    uint8_t bytes[MEMBER_FRAME_BYTES_MAX];
    struct node_link *l = &n->link[link];
    char words[WHY_BYTES], place[PLACE_TEXT_BYTES];
    *words = 0;
    if (frame->kind == FRAME_HELLO) {
        const struct link_message facts = {
            .kind = KIND_FACTS, .part = {{n->o.facts->text, n->o.facts->bytes}}, .part_count = 1};
        node_letter_send(n, link, KIND_HERE, address_port(&n->address[n->o.place->rank]), "", 0);
        (void)link_send(n->links, link, &facts, COOKIE_FACTS);
    }
    if (frame->kind == FRAME_ROSTER && node_is_first(n)) places_send(n, link);
    if (frame->kind == FRAME_REFUSE && *l->refusal)
        snprintf(words, sizeof words, "%s refuses this node: %s", node_place_text(n, 0, place), l->refusal);
    if (frame->kind == FRAME_STOP && frame->value) snprintf(words, sizeof words, "%s", *n->why ? n->why : n->lost);
    if (frame->kind == FRAME_ROSTER && *n->lost) snprintf(words, sizeof words, "%s", n->lost);
    if (*words) node_letter_send(n, link, KIND_WHY, 0, words, strlen(words));
    node_letter_send(n, link, KIND_FRAME, 0, bytes, member_frame_put(bytes, frame, n->o.place->count));
}

static void connect_to(struct node *n, uint32_t rank)
{
    uint32_t link;
    if (n->address[rank].any.sa_family == AF_UNSPEC)
        return; /* node 0 has not said it yet, and the machine asks again */
    for (uint32_t i = 0; i < n->link_count; i++)
        if (n->link[i].state == NODE_LINK_ASKED && n->link[i].rank == rank) return; /* it is under way */
    if (link_connect(n->links, &n->address[rank], clock_ns() + CONNECT_NS, &link) != ST_OK) {
        snprintf(n->connect_why, sizeof n->connect_why, "%.*s", (int)sizeof n->connect_why - 1, status_message());
        node_probe_why(n, rank, n->connect_why);
        follow(n, (struct member_event){.kind = EVENT_DOWN, .channel = MEMBER_NONE, .rank = rank});
        return;
    }
    n->link[link] = (struct node_link){.state = NODE_LINK_ASKED, .rank = rank, .index = INDEX_NONE};
}

bool node_loss_is_news(const struct node *n)
{
    return !n->is_stuck_noted && (*n->lost == 0 || node_state(n) < STATE_RUNNING);
}

/* Nothing more is heard, but what is on its way is sent. */
static void channel_close(struct node *n, uint32_t link)
{
    struct node_link *l = &n->link[link];
    char place[PLACE_TEXT_BYTES];
    if (l->state != NODE_LINK_UP) return;
    const uint32_t rank = n->member->channel[link].rank;
    if (n->is_timer && rank != MEMBER_NONE && n->member->stuck == 0 && node_loss_is_news(n))
        snprintf(n->lost, sizeof n->lost, "%s is lost: it has said nothing for %g s", node_place_text(n, rank, place),
                 (double)n->o.timeout_ns * 1e-9);
    if (l->letters == 0) {
        node_link_close(n, link);
        return;
    }
    l->state = NODE_LINK_CLOSING;
    l->close_end_ns = clock_ns() + CLOSING_NS;
    for (uint32_t i = 0; i < n->count; i++)
        if (n->link_of[i] == link) n->link_of[i] = MEMBER_NONE;
}

/* All have met: each node that is in gets its index. */
static void generation_begin(struct node *n, const struct member_roster *roster)
{
    char missing[512];
    for (uint32_t r = 0; r < n->o.place->count; r++) {
        if (!(roster->mask >> r & 1)) continue;
        const uint32_t i = n->count++, link = r == n->o.place->rank ? MEMBER_NONE : n->member->to[r];
        if (r == n->o.place->rank) n->index = i;
        n->rank_of[i] = r;
        n->says[i] = roster->says[r];
        n->link_of[i] = link;
        if (link != MEMBER_NONE) n->link[link].index = i;
    }
    *n->lost = *n->why = 0; /* of nodes that had come, and have gone, before */
    node_probe_paths(n);
    ranks_text(n, all_ranks(n) & ~roster->mask, missing, sizeof missing);
    if (*missing && node_is_first(n)) log_warning("begins without %s", missing);
    node_state_set(n, STATE_RUNNING);
}

/* Another generation, or a search for one, is a fresh process, unless the user has asked to stop. */
static void start_anew(struct node *n, const struct member_roster *roster)
{
    /* First the words of node 0, which has decided: nodes that have heard of it before
     * this one have closed links, too. */
    const char *why = *n->why ? n->why : *n->lost ? n->lost : "the members of the job have changed";
    const struct node_past past = {.roster = *roster, .nonce = n->member->o.nonce};
    const bool has_stream = n->listens && reduce_stream(n->reduce);
    if (n->o.anew && !has_stream && !stop_requested() &&
        node_state(n) < STATE_FAILED) { /* a failed node says its own failure */
        log_warning("%s; this node starts anew", why);
        if (n->o.anew(n->o.anew_context, &past) != ST_OK) log_warning("%s", status_message());
    }
    over(n, status_fail(ST_PEER_LOST, __FILE__, __LINE__, "%s", why));
}

static void output_do(struct node *n, const struct member_output *out)
{
    switch (out->kind) {
    case OUTPUT_CONNECT: connect_to(n, out->rank); break;
    case OUTPUT_CLOSE: channel_close(n, out->channel); break;
    case OUTPUT_SEND: frame_send(n, out->channel, &out->frame); break;
    case OUTPUT_TIMER: n->timer_ns = out->at_ns; break;
    case OUTPUT_CLAIM: follow(n, (struct member_event){.kind = EVENT_CLAIMED, .value = 1}); break;
    case OUTPUT_BEGIN: generation_begin(n, &out->frame.roster); break;
    case OUTPUT_ANEW: start_anew(n, &out->frame.roster); break;
    case OUTPUT_EXIT: over(n, exit_status_of(n, out->value, out->reason)); break;
    }
}

/* Notes the words of a loss that node 0 has decided on, before others lose their links for it. */
static void stuck_note(struct node *n)
{
    char text[512];
    if (n->member->stuck == 0 || n->is_stuck_noted) return;
    n->is_stuck_noted = true;
    ranks_text(n, n->member->stuck, text, sizeof text);
    snprintf(n->lost, sizeof n->lost, "%s is lost: others have waited %g s for its part of a step (cluster.progress)",
             text, (double)n->o.progress_ns * 1e-9);
}

void node_member_tell(struct node *n, struct member_event event)
{
    if (node_state(n) == STATE_OVER) return;
    follow(n, event);
    if (n->follow_count > 1) return; /* the call around this one takes it */
    for (uint32_t at = 0; at < n->follow_count && node_state(n) != STATE_OVER; at++) {
        const struct member_event next = n->follow[at];
        member_step(n->member, &next, clock_ns());
        stuck_note(n);
        for (uint32_t i = 0; i < n->member->output_count && node_state(n) != STATE_OVER; i++)
            output_do(n, &n->member->output[i]);
    }
    n->follow_count = 0;
    if (n->refused >= REFUSED_MAX && node_state(n) == STATE_MEETING)
        over(n, status_fail(ST_INVALID, __FILE__, __LINE__, "%s", n->connect_why));
}

/* --- what comes --------------------------------------------------------------------------------- */

void node_frame_take(struct node *n, uint32_t link, uint32_t bytes)
{
    struct member_frame frame;
    if (member_frame_get(&frame, n->link[link].in, bytes, n->o.place->count) != ST_OK) {
        snprintf(n->connect_why, sizeof n->connect_why, "%.*s", (int)sizeof n->connect_why - 1, status_message());
        node_link_close(n, link);
        node_member_tell(n, (struct member_event){.kind = EVENT_DOWN, .channel = link, .rank = MEMBER_NONE});
        return;
    }
    if (frame.kind == FRAME_HELLO && node_is_first(n) && frame.rank > 0 && *n->link[link].refusal == 0 &&
        n->o.place->address[frame.rank].any.sa_family == AF_UNSPEC) {
        n->address[frame.rank] = *link_peer(n->links, link);
        address_port_set(&n->address[frame.rank], n->link[link].port);
    }
    if (frame.kind == FRAME_HELLO && node_is_first(n) && *n->link[link].refusal) {
        char place[PLACE_TEXT_BYTES];
        log_warning("%s is refused: %s", node_place_text(n, frame.rank, place), n->link[link].warning);
        if (frame.rank < n->o.place->count) node_probe_why(n, frame.rank, n->link[link].warning);
    }
    node_member_tell(n,
                     (struct member_event){.kind = EVENT_FRAME, .channel = link, .rank = MEMBER_NONE, .frame = &frame});
}

void node_facts_take(struct node *n, uint32_t link, uint32_t bytes)
{
    struct facts_difference difference;
    struct node_link *l = &n->link[link];
    *l->refusal = 0;
    if (facts_differ(n->o.facts, n->facts_in, bytes, &difference)) {
        memcpy(l->refusal, difference.theirs, sizeof l->refusal);
        memcpy(l->warning, difference.ours, sizeof l->warning);
    }
    n->facts_link = MEMBER_NONE;
}

void node_why_take(struct node *n, uint32_t link, uint32_t bytes)
{
    const size_t most = sizeof n->why - 1, count = bytes < most ? bytes : most;
    memcpy(n->why, n->link[link].in, count);
    n->why[count] = 0;
    for (char *p = n->why; *p; p++) /* for a terminal */
        if ((unsigned char)*p < ' ' || *p == 0x7f) *p = '?';
}
