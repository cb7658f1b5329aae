/* The membership machine under a seeded simulator: processes, links, storage and a launcher in one thread and
 * virtual time. Faults are drawn by the seed: processes are killed, pause, are started twice; links are cut
 * one way or both ways, delay, and break; frames come twice.
 *
 *     test_member [SEEDS [FIRST [BUG]]]
 *
 * By default 500 seeds, then each planted bug until it is found, within 2,000 seeds, and then scenes without
 * chance. Even seeds: faults of all kinds anywhere, until they end. Odd ones: a core that includes rank 0 is
 * left alone in the end, and what troubles the others stays for ever. Either way the job must be done within
 * a bounded time after that, and always:
 *   - a generation (incarnation, number) has one roster, of one rank 0
 *   - steps begin at rank 0 only when all of the roster have said that they are linked in that
 *     generation, and elsewhere only after that
 *   - what rank 0 counts as done by all has been done by all in that generation
 *   - a process ends with 0 only when the job is done, else with 75 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum bug {
    PLANT_NONE,
    PLANT_OLD_FRAME,
    PLANT_CLAIM_EARLY,
    PLANT_MISSED_TIMER,
    PLANT_VOTE_KEPT,
    PLANT_TWO_FIRST,
    PLANT_COUNT
};
static const char *const bug_names[PLANT_COUNT] = {"none",
                                                   "a frame of an old generation is applied",
                                                   "the claim is used before it is durable",
                                                   "a timer is missed",
                                                   "a vote is kept after a restart",
                                                   "two rank 0 of one incarnation"};
static enum bug planted;
#define MEMBER_PLANTED(bug) (planted == (bug))
#include "engine/node/member.c"
#include "engine/node/member_first.c"
#include "engine/node/member_other.c"

#define MS            UINT64_C(1000000)
#define NODES_MAX     6u
#define PROCESSES_MAX 160u
#define LINKS_MAX     20000u
#define HISTORY_MAX   1024u
#define STEPS_WANTED  20u
#define SAVE_EVERY    4u
#define FAULTS_END_NS (8000 * MS)
#define LIMIT_NS      (120000 * MS)
/* What a rank says: bits of both halves. */
#define SAYS(rank) ((UINT64_C(7) + (rank)) << 32 | (100 + (rank)))

static uint64_t random_state;
static uint64_t draw(void)
{
    uint64_t z = random_state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}
static uint64_t below(uint64_t bound) { return draw() % bound; }

/* --- the world ---------------------------------------------------------------------------------- */

enum what { W_FRAME, W_DATA, W_UP, W_DOWN, W_FAILED, W_TIMER, W_CLAIMED, W_COMPUTED, W_ANEW, W_LAUNCH, W_FAULT };
struct item {
    uint64_t at_ns, order;
    enum what what;
    uint32_t process, life, link, channel, rank;
    uint64_t value, generation;
    struct member_frame *frame;
};
static struct item *heap;
static uint32_t heap_count, heap_room;
static uint64_t heap_order, now_ns;

struct process {
    bool is_alive;
    uint32_t rank, life; /* life: changes with every start, so that what was for an earlier one is dropped */
    uint64_t nonce, paused_end_ns, timer_ns;
    struct member *member;
    uint32_t link[MEMBER_CHANNELS_MAX]; /* LINKS_MAX: free */
    /* training */
    bool is_training, is_computed;
    struct member_roster roster;
    uint64_t base, step, got[2]; /* of the step, and of the next: whose data has come */
};
static struct process process[PROCESSES_MAX];
static uint32_t process_count;

struct link {
    uint32_t end[2], channel[2]; /* processes; MEMBER_NONE: that end is closed, or not there yet */
    uint64_t last_ns[2];         /* the latest delivery to end[i]: frames do not overtake each other */
};
static struct link links[LINKS_MAX];
static uint32_t link_count;

static uint32_t nodes, minimum;
static uint64_t cut_end_ns[NODES_MAX][NODES_MAX]; /* from, to; UINT64_MAX: for ever */
static uint64_t dead_ranks;                       /* are not started again */
static struct {
    uint64_t value;
    bool is_durable;
    uint32_t owner;
} claims[64];
static uint32_t claim_count;
static struct {
    uint64_t incarnation, generation, mask, ready, nonce, steps[NODES_MAX];
    bool has_begun;
} history[HISTORY_MAX];
static uint32_t history_count;
static uint64_t saved_steps, saved_incarnation, saved_generation;
static bool is_done;
static uint64_t done_ns;
/* Without drawn faults: what is wrong in a world that is calm otherwise. */
enum scene {
    SCENE_DRAWN,
    SCENE_CALM,
    SCENE_FACTS,
    SCENE_TWICE,
    SCENE_FAILURE,
    SCENE_STUCK,
    SCENE_ALONE,
    SCENE_LOSSES,
    SCENE_CUT,
    SCENE_PATH,
    SCENE_PARTIAL,
    SCENE_COUNT
};
static enum scene scene;
static struct {
    uint32_t rank;
    uint64_t code;
    enum member_reason reason;
} ended[PROCESSES_MAX];
static uint32_t ended_count;
static const char *finding;

static void found(const char *words)
{
    if (finding == NULL) finding = words;
}

static struct item *add(uint64_t at_ns, enum what what)
{
    if (heap_count == heap_room) {
        heap_room = heap_room ? 2 * heap_room : 4096;
        heap = realloc(heap, heap_room * sizeof *heap);
        CHECK(heap != NULL);
    }
    /* Filled in by the caller, so it stays at the end until the next call. */
    heap[heap_count] = (struct item){.at_ns = at_ns, .order = heap_order++, .what = what};
    return &heap[heap_count++];
}

/* A plain scan: some hundred items are waiting. */
static struct item take(void)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < heap_count; i++)
        if (heap[i].at_ns < heap[best].at_ns || (heap[i].at_ns == heap[best].at_ns && heap[i].order < heap[best].order))
            best = i;
    struct item item = heap[best];
    heap[best] = heap[--heap_count];
    return item;
}

static void feed(uint32_t p, const struct member_event *event);

/* When something sent now is there; UINT64_MAX: never. */
static uint64_t way_ns(uint32_t from, uint32_t to, uint64_t last_ns)
{
    uint64_t at_ns = now_ns + MS / 20 + below(3 * MS) + (below(50) == 0 ? below(120 * MS) : 0);
    const uint64_t cut = cut_end_ns[process[from].rank][process[to].rank];
    if (cut == UINT64_MAX) return UINT64_MAX;
    if (cut > at_ns) at_ns = cut + below(5 * MS);
    return at_ns > last_ns ? at_ns : last_ns + 1;
}

static void link_end_close(uint32_t p, uint32_t channel)
{
    struct link *l = &links[process[p].link[channel]];
    const int mine = l->end[0] == p ? 0 : 1;
    const uint32_t other = l->end[!mine];
    process[p].link[channel] = LINKS_MAX;
    l->end[mine] = MEMBER_NONE;
    if (other == MEMBER_NONE || !process[other].is_alive || l->channel[!mine] == MEMBER_NONE) return;
    const uint64_t at_ns = way_ns(p, other, l->last_ns[!mine]);
    if (at_ns == UINT64_MAX) return;
    struct item *item = add(at_ns, W_DOWN);
    item->process = other, item->life = process[other].life, item->link = (uint32_t)(l - links);
    item->channel = l->channel[!mine];
}

static void data_send(uint32_t p)
{
    struct process *me = &process[p];
    for (uint32_t r = 0; r < nodes; r++) {
        const uint32_t c = me->member->to[r];
        if (r == me->rank || !is_in(me->roster.mask, r) || c == MEMBER_NONE || me->link[c] == LINKS_MAX) continue;
        struct link *l = &links[me->link[c]];
        const int mine = l->end[0] == p ? 0 : 1;
        if (l->end[!mine] == MEMBER_NONE) continue;
        const uint64_t at_ns = way_ns(p, l->end[!mine], l->last_ns[!mine]);
        if (at_ns == UINT64_MAX) continue;
        l->last_ns[!mine] = at_ns;
        struct item *item = add(at_ns, W_DATA);
        item->process = l->end[!mine], item->life = process[l->end[!mine]].life, item->rank = me->rank;
        item->link = (uint32_t)(l - links), item->value = me->step, item->generation = me->roster.generation;
    }
}

static void compute(uint32_t p)
{
    process[p].is_computed = false;
    struct item *item = add(now_ns + 5 * MS + below(20 * MS), W_COMPUTED);
    item->process = p, item->life = process[p].life, item->generation = process[p].roster.generation;
}

static uint32_t history_of(const struct member_roster *roster)
{
    for (uint32_t i = 0; i < history_count; i++)
        if (history[i].incarnation == roster->incarnation && history[i].generation == roster->generation) return i;
    CHECK(history_count < HISTORY_MAX);
    memset(&history[history_count], 0, sizeof history[0]);
    history[history_count].incarnation = roster->incarnation;
    history[history_count].generation = roster->generation;
    return history_count++;
}

static void training_look(uint32_t p)
{
    struct process *me = &process[p];
    if (!me->is_training) return;
    uint64_t missing = me->roster.mask & ~bit(me->rank) & ~me->got[0];
    for (uint32_t r = 0; r < nodes && scene == SCENE_PARTIAL; r++)
        if (me->member->to[r] == MEMBER_NONE) missing &= ~bit(r);
    if (!me->is_computed || missing) {
        if (me->is_computed) feed(p, &(struct member_event){.kind = EVENT_WAITS, .mask = missing});
        return;
    }
    me->got[0] = me->got[1];
    me->got[1] = 0;
    me->step++;
    history[history_of(&me->roster)].steps[me->rank] = me->step;
    compute(p);
    const uint32_t life = me->life;
    feed(p, &(struct member_event){.kind = EVENT_WAITS, .mask = 0});
    if (process[p].life == life) feed(p, &(struct member_event){.kind = EVENT_STEP, .value = me->step});
}

/* What rank 0 believes to be done by all is saved now and then. */
static void save_look(uint32_t p)
{
    struct process *me = &process[p];
    if (!me->is_alive || me->rank != 0 || !me->is_training || me->member->phase != MEMBER_RUNNING) return;
    const uint64_t done = me->base + me->member->step_least / SAVE_EVERY * SAVE_EVERY;
    const uint32_t h = history_of(&me->roster);
    for (uint32_t r = 0; r < nodes; r++)
        if (is_in(me->roster.mask, r) && history[h].steps[r] < me->member->step_least)
            found("rank 0 counts steps that have not been done");
    const bool is_newer = me->roster.incarnation > saved_incarnation ||
                          (me->roster.incarnation == saved_incarnation && me->roster.generation >= saved_generation);
    if (!is_newer) feed(p, &(struct member_event){.kind = EVENT_CLAIMED, .value = false});
    if (!is_newer || done <= saved_steps) return;
    saved_steps = done, saved_incarnation = me->roster.incarnation, saved_generation = me->roster.generation;
    if (saved_steps >= STEPS_WANTED) feed(p, &(struct member_event){.kind = EVENT_FINISH, .value = 0});
}

/* --- processes ---------------------------------------------------------------------------------- */

static void process_start(uint32_t p, const struct member_roster *roster)
{
    struct process *me = &process[p];
    struct member_options o = {.rank = me->rank,
                               .nodes = nodes,
                               .min = minimum,
                               .nonce = me->nonce,
                               .facts = scene == SCENE_FACTS && me->rank == 2 ? 6 : 5,
                               .says = SAYS(me->rank),
                               .timeout_ns = 400 * MS,
                               .connect_ns = 3000 * MS,
                               .progress_ns = 2000 * MS,
                               .roster = *roster,
                               .is_partial = scene == SCENE_PARTIAL};
    for (uint32_t i = 0; i < claim_count; i++)
        if (claims[i].is_durable && claims[i].value > o.incarnation_last) o.incarnation_last = claims[i].value;
    me->is_alive = true;
    me->life++;
    me->is_training = false;
    me->timer_ns = UINT64_MAX;
    for (uint32_t c = 0; c < MEMBER_CHANNELS_MAX; c++) me->link[c] = LINKS_MAX;
    member_open(me->member, &o);
    feed(p, &(struct member_event){.kind = EVENT_START});
}

static void launch(uint32_t rank)
{
    static const struct member_roster none;
    if (process_count == PROCESSES_MAX) {
        found("more processes than a job should need");
        return;
    }
    const uint32_t p = process_count++;
    struct member *kept = process[p].member;
    memset(&process[p], 0, sizeof process[p]);
    process[p].member = kept ? kept : malloc(sizeof(struct member));
    CHECK(process[p].member != NULL);
    process[p].rank = rank;
    process[p].nonce = 1000 + p;
    process_start(p, &none);
}

/* A process's links end, and the launcher hears of its end. */
static void process_end(uint32_t p, bool is_final)
{
    struct process *me = &process[p];
    me->is_training = false;
    for (uint32_t c = 0; c < MEMBER_CHANNELS_MAX; c++)
        if (me->link[c] != LINKS_MAX) link_end_close(p, c);
    me->is_alive = false;
    me->life++;
    if (me->rank == 0)
        for (uint32_t i = 0; i < claim_count; i++) /* what was not durable may never have been */
            if (!claims[i].is_durable && claims[i].owner == p) claims[i].value = 0;
    if (is_final) return;
    add(now_ns + 50 * MS + below(300 * MS), W_LAUNCH)->rank = me->rank;
}

static uint32_t process_of(uint32_t rank)
{
    for (uint32_t p = process_count; p-- > 0;)
        if (process[p].is_alive && process[p].rank == rank) return p;
    return MEMBER_NONE;
}

static uint32_t channel_free(uint32_t p)
{
    for (uint32_t c = 0; c < MEMBER_CHANNELS_MAX; c++)
        if (process[p].link[c] == LINKS_MAX) return c;
    CHECK(false);
}

static void connect_to(uint32_t p, uint32_t rank)
{
    const uint32_t other = process_of(rank), mine = process[p].rank;
    const bool is_cut = cut_end_ns[mine][rank] > now_ns || cut_end_ns[rank][mine] > now_ns;
    if (other == MEMBER_NONE || is_cut || below(40) == 0) {
        struct item *item = add(now_ns + (is_cut ? 200 * MS : MS), W_FAILED);
        item->process = p, item->life = process[p].life, item->rank = rank;
        return;
    }
    if (link_count == LINKS_MAX) {
        found("more links than a job should need");
        return;
    }
    const uint32_t i = link_count++; /* never used again: what is on the way keeps its number */
    links[i] = (struct link){.end = {p, other}, .channel = {channel_free(p), MEMBER_NONE}};
    process[p].link[links[i].channel[0]] = i;
    struct item *item = add(now_ns + MS, W_UP);
    item->process = other, item->life = process[other].life, item->link = i, item->rank = rank;
    item->value = process[p].life;
}

static void frame_send(uint32_t p, const struct member_output *out)
{
    struct process *me = &process[p];
    if (me->link[out->channel] == LINKS_MAX) return;
    struct link *l = &links[me->link[out->channel]];
    const int mine = l->end[0] == p ? 0 : 1;
    const struct member_frame *f = &out->frame;
    if (f->kind == FRAME_ROSTER) {
        const uint32_t h = history_of(&f->roster);
        if (history[h].nonce == 0) history[h].nonce = me->nonce, history[h].mask = f->roster.mask;
        if (history[h].nonce != me->nonce || history[h].mask != f->roster.mask) found("a generation has two rosters");
    }
    if (f->kind == FRAME_READY) {
        const struct member_roster roster = {.incarnation = f->incarnation, .generation = f->generation};
        history[history_of(&roster)].ready |= bit(me->rank);
    }
    if (l->end[!mine] == MEMBER_NONE) return;
    for (uint32_t copy = 0; copy < (below(200) ? 1u : 2u); copy++) {
        const uint64_t at_ns = way_ns(p, l->end[!mine], l->last_ns[!mine]);
        if (at_ns == UINT64_MAX) return;
        l->last_ns[!mine] = at_ns;
        struct item *item = add(at_ns, W_FRAME);
        item->process = l->end[!mine], item->life = process[l->end[!mine]].life, item->link = (uint32_t)(l - links);
        item->frame = malloc(sizeof *f);
        CHECK(item->frame != NULL);
        *item->frame = *f;
    }
}

static void begin(uint32_t p, const struct member_roster *roster)
{
    struct process *me = &process[p];
    const uint32_t h = history_of(roster);
    for (uint32_t k = 0; k < nodes; k++)
        if (is_in(roster->mask, k) && roster->says[k] != SAYS(k))
            found("a roster has other words than its nodes have said");
    if (me->rank == 0) {
        if (roster->mask & ~(history[h].ready | 1)) found("steps begin before all are ready in that generation");
        history[h].has_begun = true;
    } else if (!history[h].has_begun) {
        found("steps begin at a node before they do at rank 0");
    }
    me->is_training = true;
    me->roster = *roster;
    me->base = saved_steps;
    me->step = me->got[0] = me->got[1] = 0;
    data_send(p);
    compute(p);
}

static void claim(uint32_t p, uint64_t value)
{
    CHECK(claim_count < 64);
    uint32_t i = claim_count++;
    claims[i].value = value, claims[i].is_durable = false, claims[i].owner = p;
    struct item *item = add(now_ns + MS + below(300 * MS), W_CLAIMED);
    item->process = p, item->life = process[p].life, item->value = i;
}

static void feed(uint32_t p, const struct member_event *event)
{
    struct process *me = &process[p];
    const uint32_t life = me->life;
    member_step(me->member, event, now_ns);
    const uint32_t count = me->member->output_count;
    for (uint32_t i = 0; i < count && me->life == life; i++) {
        const struct member_output *out = &me->member->output[i];
        switch (out->kind) {
        case OUTPUT_CONNECT: connect_to(p, out->rank); break;
        case OUTPUT_CLOSE:
            if (me->link[out->channel] != LINKS_MAX) link_end_close(p, out->channel);
            break;
        case OUTPUT_SEND: frame_send(p, out); break;
        case OUTPUT_TIMER: {
            me->timer_ns = out->at_ns;
            if (out->at_ns == UINT64_MAX) break;
            struct item *item = add(out->at_ns > now_ns ? out->at_ns : now_ns + MS, W_TIMER);
            me->timer_ns = item->at_ns;
            item->process = p, item->life = me->life, item->value = item->at_ns;
            break;
        }
        case OUTPUT_CLAIM: claim(p, out->value); break;
        case OUTPUT_BEGIN: begin(p, &out->frame.roster); break;
        case OUTPUT_ANEW: {
            const struct member_roster roster = out->frame.roster;
            struct item *item = add(now_ns + 5 * MS + below(60 * MS), W_ANEW);
            process_end(p, true);
            me->is_alive = true; /* exec: not to be launched again, and without ends until then */
            item->process = p, item->life = me->life;
            item->frame = malloc(sizeof *item->frame);
            CHECK(item->frame != NULL);
            item->frame->roster = roster;
            return;
        }
        case OUTPUT_EXIT:
            if (out->value == 0 && !is_done) done_ns = now_ns;
            is_done |= out->value == 0;
            if (out->value == 0 && saved_steps < STEPS_WANTED) found("a process ends with 0, and the job is not done");
            if (scene == SCENE_DRAWN && out->value != 0 && out->value != MEMBER_EXIT_AGAIN)
                found("a process ends with neither 0 nor 75");
            if (ended_count < PROCESSES_MAX) {
                ended[ended_count].rank = me->rank, ended[ended_count].code = out->value;
                ended[ended_count++].reason = out->reason;
            }
            process_end(p, out->value != MEMBER_EXIT_AGAIN || scene != SCENE_DRAWN);
            return;
        }
    }
}

/* --- faults -------------------------------------------------------------------------------------- */

static void fault(void)
{
    const uint32_t rank = (uint32_t)below(nodes), other = (rank + 1 + (uint32_t)below(nodes - 1)) % nodes;
    const uint32_t p = process_of(rank);
    const uint64_t end_ns = now_ns + 20 * MS + below(1500 * MS);
    switch (below(7)) {
    case 0:
        if (p != MEMBER_NONE) process_end(p, false);
        break;
    case 1:
        if (p != MEMBER_NONE) process[p].paused_end_ns = end_ns;
        break;
    case 2: cut_end_ns[rank][other] = end_ns; break;
    case 3: cut_end_ns[rank][other] = cut_end_ns[other][rank] = end_ns; break;
    case 4:
        for (uint32_t r = 0; r < nodes; r++) cut_end_ns[rank][r] = cut_end_ns[r][rank] = end_ns;
        break;
    case 5: /* a link breaks */
        if (p == MEMBER_NONE) break;
        for (uint32_t c = 0; c < MEMBER_CHANNELS_MAX; c++)
            if (process[p].link[c] != LINKS_MAX && below(2)) {
                struct item *item = add(now_ns + MS, W_DOWN);
                item->process = p, item->life = process[p].life, item->link = process[p].link[c], item->channel = c;
            }
        break;
    default: /* somebody believes that the process is gone */
        if (p != MEMBER_NONE && below(2)) {
            process[p].paused_end_ns = end_ns;
            launch(rank);
        }
    }
    if (now_ns < FAULTS_END_NS) add(now_ns + below(900 * MS), W_FAULT);
}

/* What was drawn ends; odd seeds: what is outside of the core never recovers. */
static void faults_end(bool has_core)
{
    memset(cut_end_ns, 0, sizeof cut_end_ns);
    if (!has_core) return;
    uint64_t core = 1;
    while (count_of(core) < minimum) core |= bit((uint32_t)below(nodes));
    for (uint32_t r = 1; r < nodes; r++) {
        if (is_in(core, r)) continue;
        const uint64_t how = below(4);
        if (how == 0) {
            const uint32_t p = process_of(r);
            dead_ranks |= bit(r);
            if (p != MEMBER_NONE) process_end(p, true);
        }
        for (uint32_t k = 0; how > 0 && k < nodes; k++) {
            if (k == r || below(2)) continue;
            if (how != 1) cut_end_ns[r][k] = UINT64_MAX;
            if (how != 2) cut_end_ns[k][r] = UINT64_MAX;
        }
    }
}

/* --- the run ------------------------------------------------------------------------------------- */

static void item_run(const struct item *item)
{
    if (item->what == W_FAULT) {
        fault();
        return;
    }
    if (item->what == W_LAUNCH) {
        if (process_of(item->rank) == MEMBER_NONE && !is_in(dead_ranks, item->rank)) launch(item->rank);
        return;
    }
    struct process *me = &process[item->process];
    struct link *l = &links[item->link];
    const int end = l->end[0] == item->process ? 0 : 1;
    const bool is_here = me->is_alive && me->life == item->life;
    if (item->what == W_UP) {
        const uint32_t from = l->end[0];
        if (!is_here || from == MEMBER_NONE) {
            l->end[1] = MEMBER_NONE;
            if (from == MEMBER_NONE) return;
            struct item *gone = add(now_ns + MS, W_DOWN); /* refused */
            gone->process = from, gone->life = process[from].life, gone->link = item->link;
            gone->channel = l->channel[0];
            return;
        }
        l->channel[1] = channel_free(item->process);
        me->link[l->channel[1]] = item->link;
        feed(item->process, &(struct member_event){.kind = EVENT_UP, .channel = l->channel[1], .rank = MEMBER_NONE});
        if (l->end[0] == from && process[from].is_alive)
            feed(from, &(struct member_event){.kind = EVENT_UP, .channel = l->channel[0], .rank = item->rank});
        return;
    }
    if (!is_here) return;
    const uint32_t p = item->process;
    switch (item->what) {
    case W_FRAME:
        if (l->end[end] != p) break;
        feed(p, &(struct member_event){.kind = EVENT_FRAME, .channel = l->channel[end], .frame = item->frame});
        break;
    case W_DATA:
        if (l->end[end] == p && me->member->phase == MEMBER_READY &&
            item->generation == me->member->roster.generation) {
            struct item *again = add(now_ns + MS, W_DATA); /* data are not read before steps begin */
            const uint64_t at_ns = again->at_ns, order = again->order;
            *again = *item;
            again->at_ns = at_ns, again->order = order;
            break;
        }
        if (l->end[end] != p || !me->is_training || item->generation != me->roster.generation) break;
        if (item->value == me->step) me->got[0] |= bit(item->rank);
        if (item->value == me->step + 1) me->got[1] |= bit(item->rank);
        training_look(p);
        break;
    case W_DOWN:
        if (me->link[item->channel] != item->link) break;
        link_end_close(p, item->channel);
        feed(p, &(struct member_event){.kind = EVENT_DOWN, .channel = item->channel});
        break;
    case W_FAILED:
        feed(p, &(struct member_event){.kind = EVENT_DOWN, .channel = MEMBER_NONE, .rank = item->rank});
        break;
    case W_TIMER:
        if (me->timer_ns == item->value) feed(p, &(struct member_event){.kind = EVENT_TIMER});
        break;
    case W_CLAIMED: {
        bool is_taken = false;
        for (uint32_t i = 0; i < claim_count; i++)
            is_taken |= i != item->value && claims[i].is_durable && claims[i].value == claims[item->value].value;
        if (!is_taken) claims[item->value].is_durable = true;
        feed(p, &(struct member_event){.kind = EVENT_CLAIMED, .value = !is_taken});
        break;
    }
    case W_COMPUTED:
        if (!me->is_training || me->roster.generation != item->generation) break;
        if (scene == SCENE_STUCK && me->rank == 2 && me->step == 3 && item->generation == 1) break;
        if (scene == SCENE_FAILURE && me->rank == 2 && me->step == 3) {
            feed(p, &(struct member_event){.kind = EVENT_FINISH, .value = 1});
            break;
        }
        if (scene == SCENE_LOSSES && me->step == 0 &&
            me->rank == 1 + item->generation % 3) { /* each generation loses one */
            for (uint32_t c = 0; c < MEMBER_CHANNELS_MAX; c++)
                if (me->link[c] != LINKS_MAX && me->is_alive) {
                    link_end_close(p, c);
                    feed(p, &(struct member_event){.kind = EVENT_DOWN, .channel = c});
                }
            break;
        }
        me->is_computed = true;
        if (me->step > 0) data_send(p);
        training_look(p);
        break;
    case W_ANEW: process_start(p, &item->frame->roster); break;
    default: break;
    }
    save_look(p);
}

static void world_clear(uint64_t seed)
{
    random_state = seed * UINT64_C(0x2545f4914f6cdd1d);
    heap_count = process_count = link_count = history_count = claim_count = 0;
    now_ns = dead_ranks = saved_steps = saved_incarnation = saved_generation = 0;
    is_done = false, finding = NULL, ended_count = 0;
    memset(cut_end_ns, 0, sizeof cut_end_ns);
}

static void item_run_or_wait(const struct item *item);

/* What is found with the seed; NULL: nothing. */
static const char *seed_run(uint64_t seed)
{
    world_clear(seed);
    scene = SCENE_DRAWN;
    nodes = 3 + (uint32_t)below(NODES_MAX - 2);
    minimum = 2 + (uint32_t)below(nodes - 2);
    for (uint32_t r = 0; r < nodes; r++) add(below(50 * MS), W_LAUNCH)->rank = r;
    add(below(900 * MS), W_FAULT);
    bool has_ended = false;
    while (!is_done && finding == NULL && heap_count) {
        struct item item = take();
        now_ns = item.at_ns;
        if (!has_ended && now_ns >= FAULTS_END_NS) faults_end(seed % 2), has_ended = true;
        if (now_ns > LIMIT_NS) found("the job does not get done");
        item_run_or_wait(&item);
    }
    if (!is_done && finding == NULL) found("nothing is under way any more");
    for (uint32_t i = 0; i < heap_count; i++) free(heap[i].frame);
    return finding;
}

static void item_run_or_wait(const struct item *item)
{
    const uint64_t paused = item->what < W_LAUNCH ? process[item->process].paused_end_ns : 0;
    if (paused > now_ns) { /* later, in order */
        struct item *again = add(paused, item->what);
        *again = *item;
        again->at_ns = paused;
        return;
    }
    item_run(item);
    free(item->frame);
}

static uint32_t count_ended(uint32_t rank, uint64_t code, enum member_reason reason)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < ended_count; i++)
        count += (rank == MEMBER_NONE || ended[i].rank == rank) && ended[i].code == code && ended[i].reason == reason;
    return count;
}

/* Breaks the link of ranks 1 and 3 when the one is ready and the others are not yet. */
static bool ready_break(void)
{
    const uint32_t p = process_of(1);
    if (p == MEMBER_NONE || process[p].member->phase != MEMBER_READY) return false;
    const uint32_t c = process[p].member->to[3];
    CHECK(c != MEMBER_NONE);
    link_end_close(p, c);
    feed(p, &(struct member_event){.kind = EVENT_DOWN, .channel = c});
    return true;
}

/* Four nodes, three at least, until nothing lives any more; what each scene must come to. */
static bool scene_run(enum scene which)
{
    world_clear(1);
    scene = which;
    nodes = scene == SCENE_PATH ? 6 : 4, minimum = scene == SCENE_LOSSES ? 2 : nodes - 1 - (scene == SCENE_PATH);
    static const uint32_t path[] = {5, 1, 4, 3, 2}; /* each node reaches all but its neighbours */
    for (uint32_t i = 0; scene == SCENE_PATH && i < 4; i++)
        cut_end_ns[path[i]][path[i + 1]] = cut_end_ns[path[i + 1]][path[i]] = UINT64_MAX;
    for (uint32_t r = 0; r < nodes; r++)
        if (scene != SCENE_ALONE || r < 2) add(MS * r, W_LAUNCH)->rank = r;
    if (scene == SCENE_PARTIAL) cut_end_ns[1][2] = cut_end_ns[2][1] = cut_end_ns[2][3] = cut_end_ns[3][2] = UINT64_MAX;
    bool has_second = scene != SCENE_TWICE, has_broken = false;
    while (finding == NULL && heap_count && now_ns < LIMIT_NS) {
        struct item item = take();
        now_ns = item.at_ns;
        if (!has_second && now_ns > 300 * MS) {
            has_second = true;
            launch(1);
        }
        if (scene == SCENE_CUT && now_ns > 300 * MS) cut_end_ns[1][2] = cut_end_ns[2][1] = UINT64_MAX;
        item_run_or_wait(&item);
        if (scene == SCENE_PARTIAL && !has_broken) has_broken = ready_break();
    }
    for (uint32_t i = 0; i < heap_count; i++) free(heap[i].frame);
    if (finding) printf("# %s\n", finding);
    if (finding || now_ns >= LIMIT_NS) return false;
    switch (which) {
    case SCENE_CALM:
        return is_done && history_count == 1 && ended_count == 4 && count_ended(MEMBER_NONE, 0, REASON_FINISHED) == 4;
    case SCENE_FACTS: /* is refused, and the others go on without it */
        return is_done && count_ended(2, 1, REASON_FACTS) == 1 && count_ended(MEMBER_NONE, 0, REASON_FINISHED) == 3;
    case SCENE_TWICE: /* the second one of rank 1 does not disturb the first */
        return is_done && history_count == 1 && count_ended(1, 0, REASON_FINISHED) == 2;
    case SCENE_FAILURE: /* ends all, with its exit status */
        return !is_done && ended_count == 4 && count_ended(MEMBER_NONE, 1, REASON_FINISHED) == 4;
    case SCENE_STUCK: /* who beats and does nothing is left out, and the steps are done without it */
        return is_done && history_count >= 2 && count_ended(0, 0, REASON_FINISHED) == 1;
    case SCENE_ALONE:
        return !is_done && count_ended(0, MEMBER_EXIT_AGAIN, REASON_TOO_FEW) == 1 &&
               count_ended(1, MEMBER_EXIT_AGAIN, REASON_FINISHED) == 1;
    case SCENE_LOSSES: return !is_done && count_ended(0, MEMBER_EXIT_AGAIN, REASON_LOSSES) == 1;
    case SCENE_CUT: return is_done && history_count == 2 && history[1].mask == 0xb && done_ns < 2000 * MS;
    case SCENE_PATH: return is_done && history_count == 2 && history[1].mask == 0x35;
    case SCENE_PARTIAL:
        return has_broken && is_done && history_count == 1 && history[0].mask == 0xf && ended_count == 4 &&
               count_ended(MEMBER_NONE, 0, REASON_FINISHED) == 4;
    default: return false;
    }
}

/* Rank 0 hears from the steps themselves that a node has done some, of which its beats do not tell yet: whom
 * they say that it waits for counts all the same. */
static bool beat_is_heard(void)
{
    world_clear(1);
    scene = SCENE_CALM;
    nodes = minimum = 3;
    for (uint32_t r = 0; r < nodes; r++) add(MS * r, W_LAUNCH)->rank = r;
    while (heap_count && (process_count == 0 || process[0].member->phase != MEMBER_RUNNING)) {
        struct item item = take();
        now_ns = item.at_ns;
        item_run_or_wait(&item);
    }
    struct member *m = process[0].member;
    struct member_frame beat = {.kind = FRAME_BEAT,
                                .rank = 2,
                                .incarnation = m->roster.incarnation,
                                .generation = m->roster.generation,
                                .value = 6,
                                .mask = bit(0) | bit(1)};
    const struct member_event step = {.kind = EVENT_STEP, .value = 7, .mask = UINT64_MAX},
                              heard = {.kind = EVENT_FRAME, .channel = m->to[2], .frame = &beat};
    member_step(m, &step, now_ns);
    member_step(m, &heard, now_ns);
    const bool has_waits = m->waits_of[2] == (bit(0) | bit(1)), has_steps = m->steps[2] == 7;
    beat.mask = 0;
    member_step(m, &heard, now_ns);
    for (uint32_t i = 0; i < heap_count; i++) free(heap[i].frame);
    return process[0].rank == 0 && has_waits && has_steps && m->waits_of[2] == 0 && m->steps[2] == 7;
}

/* Nodes of one host come at once, and some are sent away: a node asks again soon, not when it would ask again
 * anyway. */
static bool sent_away_asks_again(void)
{
    world_clear(1);
    scene = SCENE_CALM;
    nodes = minimum = 3;
    for (uint32_t r = 0; r < nodes; r++) add(MS * r, W_LAUNCH)->rank = r;
    while (heap_count && (process_count < 3 || process[2].member->phase != MEMBER_MESHING)) {
        struct item item = take();
        now_ns = item.at_ns;
        item_run_or_wait(&item);
    }
    struct member *m = process[2].member;
    const struct member_event down = {.kind = EVENT_DOWN, .channel = MEMBER_NONE, .rank = 1};
    bool is_soon = process[2].rank == 2 && m->phase == MEMBER_MESHING;
    member_step(m, &down, now_ns);
    is_soon &= m->connect_again_ns <= now_ns + m->o.timeout_ns / 64;
    for (uint32_t i = 0; i < heap_count; i++) free(heap[i].frame);
    return is_soon;
}

static const char *const scene_names[SCENE_COUNT] = {
    "",
    "nothing happens: one generation, and all end with 0",
    "a node with other facts is refused, and the others go on",
    "a second process of a rank waits, and disturbs nobody",
    "a failure ends all with its exit status",
    "a node that makes no progress is left out",
    "fewer than the least: exit 75",
    "three losses without a step: exit 75",
    "two nodes that are cut off from each other: one leaves at once, and does not come back",
    "four cuts that two nodes are enough for: these two leave",
    "the same in a job that looks at links: all are in"};

int main(int count, char **arguments)
{
    const uint64_t seeds = count > 1 ? strtoull(arguments[1], NULL, 10) : 500;
    const uint64_t first = count > 2 ? strtoull(arguments[2], NULL, 10) : 1;
    planted = count > 3 ? (enum bug)strtoul(arguments[3], NULL, 10) : PLANT_NONE;
    uint64_t failures = 0;
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (uint64_t seed = first; seed < first + seeds; seed++) {
        const char *words = seed_run(seed);
        if (words == NULL) continue;
        printf("# seed %" PRIu64 ": %u nodes, at least %u, at %.3f s: %s\n", seed, nodes, minimum,
               (double)now_ns * 1e-9, words);
        if (++failures == 10 || planted) break;
    }
    printf("%s 1 - %" PRIu64 " seeds from %" PRIu64 " on\n", failures ? "not ok" : "ok", seeds, first);
    for (planted = PLANT_NONE + 1; count == 1 && planted < PLANT_COUNT; planted++) {
        uint64_t seed = 1;
        const char *words = NULL;
        while (seed <= 2000 && (words = seed_run(seed)) == NULL) seed++;
        printf("%s %d - %s: %s, seed %" PRIu64 "\n", words ? "ok" : "not ok", 1 + (int)planted, bug_names[planted],
               words ? words : "is not found", seed);
        failures += words == NULL;
    }
    planted = PLANT_NONE;
    for (enum scene which = SCENE_CALM; count == 1 && which < SCENE_COUNT; which++) {
        const bool is_right = scene_run(which);
        printf("%s %d - %s\n", is_right ? "ok" : "not ok", PLANT_COUNT + (int)which, scene_names[which]);
        for (uint32_t i = 0; !is_right && i < ended_count; i++)
            printf("# rank %u ends with %" PRIu64 ", reason %u\n", ended[i].rank, ended[i].code,
                   (unsigned)ended[i].reason);
        failures += !is_right;
    }
    if (count == 1) {
        const bool is_right = beat_is_heard();
        printf("%s %d - a beat of fewer steps than are known says for whom it waits\n", is_right ? "ok" : "not ok",
               PLANT_COUNT + (int)SCENE_COUNT);
        failures += !is_right;
        const bool is_soon = sent_away_asks_again();
        printf("%s %d - a node that is sent away while nodes meet asks again soon\n", is_soon ? "ok" : "not ok",
               PLANT_COUNT + (int)SCENE_COUNT + 1);
        failures += !is_soon;
    }
    for (uint32_t p = 0; p < PROCESSES_MAX; p++) free(process[p].member);
    free(heap);
    return failures != 0;
}
