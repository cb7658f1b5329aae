/* Messages of steps, rows, looks, jobs, talk, data and stages that a node of a training gets from nodes that
 * hold the key and say anything. All nodes are there, and train as nodes do. An input chooses a setup. Then
 * its bytes say what happens: some true turns, a true message comes, whole or up to its place, it is spoilt
 * before, or another one stands before it. The node takes a message or refuses it by a status, and no message
 * shows its main thread or its workers what no node sends. */
#define FUZZ_NAME "reduce"
#include "tests/fuzz/driver.h"

#include "engine/device/cpu/cpu_device.h"
#include "engine/node/reduce_internal.h"
#include "engine/node/stream.h"
#include "engine/node/talk.h"
#include "engine/pipe/hops.h"
#include "engine/sync/exchange.h"
#include "graph/clip.h"
#include "graph/row_vector.h"

static const char model_text[] = "[data]\ndense = I1..I2\nsparse = C1..C3\n"
                                 "[table emb]\ndim = 2\ninit = uniform 0.1\noptimizer = adagrad 0.05\n"
                                 "[table side]\ndim = 3\noptimizer = sgd 0.05\n"
                                 "[embedding e]\ntable = emb\ninput = C1..C2\n"
                                 "[embedding w]\ntable = side\ninput = C3\nlayer = e\n"
                                 "[concat x]\ninput = e, w, dense\n"
                                 "[fc y]\ninput = x\nunits = 3\n"
                                 "[fc z]\ninput = y\nunits = 1\n"
                                 "[loss bce]\ninput = z\n"
                                 "[train]\nbatch = 8\nmicro = 1\nlanes = 4\noptimizer = sgd 0.05\n"
                                 "[store]\nram = 1MiB\n";
#define TABLES    2u
#define NODES_MAX 3u

static const struct setup {
    const char *set[4];
    uint32_t set_count, node_count, rank; /* the node that gets what the input says */
    uint32_t lane_begin[NODES_MAX + 1];
    uint64_t slices, rows, bucket_floats;
    bool is_bf16, has_stream, has_stages;
} setups[] = {
    /* Rows come early. */
    {.node_count = 2, .rank = 1, .lane_begin = {0, 2, 4}, .has_stream = true},
    {.node_count = 2, .rank = 0, .lane_begin = {0, 1, 4}, .bucket_floats = 1, .has_stream = true},
    /* Rows come and go. */
    {.set = {"emb.rows=6", "store.period=2", "emb.admit=2", "emb.admit_keys=64"},
     .set_count = 4,
     .node_count = 2,
     .rank = 0,
     .lane_begin = {0, 2, 4}},
    {.set = {"emb.rows=6", "side.rows=3", "store.period=2", "train.clip_norm=1"},
     .set_count = 4,
     .node_count = 3,
     .rank = 1,
     .lane_begin = {0, 1, 2, 4},
     .bucket_floats = 1,
     .is_bf16 = true},
    /* The last node reads no data. */
    {.set = {"train.clip_norm=1"}, .set_count = 1, .node_count = 3, .rank = 2, .lane_begin = {0, 2, 4, 4}, .rows = 5},
    {.set = {"emb.rows=6"}, .set_count = 1, .node_count = 2, .rank = 0, .lane_begin = {0, 4, 4}, .slices = 1},
    /* Nodes have stages. */
    {.set = {"train.clip_norm=1"}, .set_count = 1, .node_count = 2, .rank = 0, .has_stages = true},
    {.node_count = 2, .rank = 1, .has_stages = true},
};
#define SETUPS (sizeof setups / sizeof *setups)

/* Letters of a step or of a look, to all owners. */
struct letters {
    struct asked_step asked; /* of what follows */
    uint64_t words[64];
    size_t letter_begin[NODES_MAX + 1], float_begin[NODES_MAX + 1], piece_begin[NODES_MAX + 1];
    uint32_t count[NODES_MAX * TABLES];
};

#define SLOTS 4u
enum slot_state { SLOT_FREE, SLOT_OUT, SLOT_THERE };

/* A node: its exchange, and what its main thread and its workers have done. */
struct side {
    struct post post; /* first */
    uint32_t rank;
    bool is_dead, is_held;
    struct model model;
    struct reduce *reduce;
    /* what updates work on */
    struct arena arena;
    struct gradients gradients;
    struct updater updater;
    struct extent extents[EXCHANGE_BUCKETS_MAX];
    struct param_block *blocks;
    uint32_t block_count;
    struct exchange_site site;
    /* steps */
    struct letters letters[2];
    uint64_t asked_until, news_until, step;
    bool is_working, squares_told, step_told;
    uint32_t sums_told, sums_done;
    /* looks, data, stages */
    struct letters look_letters;
    struct exchange_look look;
    float look_values[64];
    bool has_looked, has_failed;
    uint64_t given, put, done; /* of data: blocks given here; come; taken */
    uint64_t had[NODES_MAX];
    struct exchange_stages stages;
    uint32_t first_layer[2];
    uint8_t node_of_table[TABLES];
    struct plan_stage plan_stages[2];
    struct plan plan;
    struct hops *hops;
    enum slot_state slots[SLOTS];
};

/* Messages on their way from a node to another one. */
#define QUEUE 64u
struct parcel {
    uint16_t kind;
    uint64_t step, bytes;
    uint8_t *at;
};
struct way {
    struct parcel parcel[QUEUE];
    uint64_t begin, end;
    uint64_t unsent; /* messages whose sender does not know yet that they are sent */
    bool is_placed;  /* the oldest one */
    struct iovec part[REDUCE_PARTS_MAX];
    uint32_t part_count;
};

static const struct setup *setup;
static struct graph *graph;
static struct device *device;
static struct side sides[NODES_MAX];
static struct way ways[NODES_MAX][NODES_MAX]; /* from, to */

/* --- the post ----------------------------------------------------------------------------------- */

static status post_send(struct post *post, uint32_t to, const struct reduce_message *m)
{
    const uint32_t from = ((struct side *)post)->rank;
    struct way *way = &ways[from][to];
    uint64_t at = 0;
    way->unsent += !reduce_is_stream(m->kind);
    if (sides[to].is_dead) return ST_OK;
    if (way->end - way->begin == QUEUE) FAIL(FULL, "too many messages to node %u are under way", to);
    struct parcel *p = &way->parcel[way->end++ % QUEUE];
    *p = (struct parcel){.kind = m->kind, .step = m->step, .bytes = m->bytes, .at = malloc(m->bytes + 1)};
    CHECK(p->at);
    for (uint32_t i = 0; i < m->part_count; at += m->part[i++].iov_len)
        memcpy(p->at + at, m->part[i].iov_base, m->part[i].iov_len);
    CHECK(at == m->bytes);
    return ST_OK;
}
static void post_wake(struct post *post) { (void)post; }
static const struct post_vt post_vt = {.send = post_send, .wake = post_wake};

/* The node hears that all messages that it has given are sent. */
static status sent_tell(struct side *s)
{
    for (uint32_t n = 0; n < setup->node_count; n++)
        for (; ways[s->rank][n].unsent > 0; ways[s->rank][n].unsent--) TRY(reduce_sent(s->reduce, n));
    return ST_OK;
}

/* The oldest message comes: its place, and unless only_place, its bytes. */
static status way_step(uint32_t from, uint32_t to, bool only_place)
{
    struct way *way = &ways[from][to];
    struct side *s = &sides[to];
    if (way->begin == way->end) return ST_OK;
    const struct parcel p = way->parcel[way->begin % QUEUE];
    uint64_t all = 0, at = 0;
    if (!way->is_placed) TRY(reduce_place(s->reduce, from, p.kind, p.step, p.bytes, way->part, &way->part_count));
    way->is_placed = true;
    for (uint32_t i = 0; i < way->part_count; i++) all += way->part[i].iov_len;
    CHECK(all == p.bytes);
    if (only_place) return ST_OK;
    for (uint32_t i = 0; i < way->part_count; at += way->part[i++].iov_len)
        memcpy(way->part[i].iov_base, p.at + at, way->part[i].iov_len);
    free(p.at);
    way->begin++;
    way->is_placed = false;
    const status st = reduce_arrived(s->reduce, from);
    if (st == ST_OK && p.kind == KIND_DATA) s->put++;
    if (st == ST_OK && p.kind == KIND_HAD) s->had[from]++;
    return st;
}

/* Another message stands before the oldest one, which has no place yet. */
static void way_forge(struct way *way, struct parcel p)
{
    if (way->is_placed || way->end - way->begin == QUEUE) {
        free(p.at);
        return;
    }
    way->begin += QUEUE - 1; /* 1 less, and no number below 0 */
    way->end += QUEUE;
    way->parcel[way->begin % QUEUE] = p;
}

/* --- what main threads and workers do ----------------------------------------------------------- */

static void over(void *context, enum exchange_round round, uint32_t bucket, status st)
{
    struct side *s = context;
    if (st != ST_OK) return;
    if (round == EXCHANGE_SUMS) s->sums_told |= UINT32_C(1) << bucket;
    if (round == EXCHANGE_SQUARES) s->squares_told = true;
    if (round == EXCHANGE_STEP) s->step_told = true;
}

/* Writes letters of a few keys, which are others in each step. */
static void letters_fill(struct letters *to, const struct asked_shape *shape, uint32_t rank, uint64_t step)
{
    uint64_t key[NODES_MAX][TABLES][4];
    memset(to->count, 0, sizeof to->count);
    for (uint32_t t = 0; t < TABLES; t++) {
        const uint32_t most = shape->example_max * graph->tables[t].key_count_max, keys = most < 4 ? most : 4;
        for (uint32_t k = 0; k < keys; k++) {
            const uint64_t drawn = 1 + (step * 3 + rank * 2 + k * (1 + t)) % 16;
            const uint32_t owner = shape->owner_of[shard_of(drawn)];
            key[owner][t][to->count[owner * TABLES + t]++] = drawn;
        }
    }
    memset(to->words, 0, sizeof to->words);
    uint64_t *word = to->words;
    for (uint32_t o = 0; o < shape->owner_count; o++) {
        const uint32_t *count = &to->count[o * TABLES];
        to->letter_begin[o] = (size_t)(word - to->words) * sizeof *word;
        memcpy(word++, count, TABLES * sizeof *count);
        to->float_begin[o + 1] = to->float_begin[o];
        to->piece_begin[o + 1] = to->piece_begin[o];
        uint32_t shown = 0, clicked = 0;
        for (uint32_t t = 0; t < TABLES; word += count[t++]) {
            memcpy(word, key[o][t], count[t] * sizeof *word);
            to->float_begin[o + 1] += (size_t)count[t] * row_vector_floats(&graph->tables[t]);
            to->piece_begin[o + 1] += (size_t)count[t] * graph->tables[t].dim;
            shown += shape->shows[t] ? count[t] : 0;
            clicked += shape->clicks[t] ? count[t] : 0;
        }
        for (uint32_t i = 0; i < shown; i++) ((uint32_t *)word)[i] = 1;
        word += (shown + clicked + 1) / 2;
    }
    to->letter_begin[shape->owner_count] = (size_t)(word - to->words) * sizeof *word;
    CHECK(word <= to->words + sizeof to->words / sizeof *to->words);
    to->asked = (struct asked_step){.step = step,
                                    .letters = (uint8_t *)to->words,
                                    .letter_begin = to->letter_begin,
                                    .count = to->count,
                                    .float_begin = to->float_begin,
                                    .piece_begin = to->piece_begin};
}

/* Reading goes a step ahead. */
static void steps_ask(struct side *s)
{
    struct exchange *x = reduce_exchange(s->reduce);
    if (setup->has_stages) return;
    for (; s->rank == 0 && s->news_until < s->step + 2; s->news_until++)
        x->vt->tell(x, s->news_until, (struct exchange_news){.example_count = graph->header->batch});
    for (; x->own.count > 0 && s->asked_until < s->step + 2; s->asked_until++) {
        struct letters *letters = &s->letters[s->asked_until % 2];
        letters_fill(letters, &x->rows.shape, s->rank, s->asked_until);
        x->vt->ask(x, &letters->asked);
    }
}

/* A step begins when it is granted, its rows are here, and it is known that there is one. */
static bool may_begin(const struct side *s)
{
    const struct exchange *x = reduce_exchange(s->reduce);
    enum exchange_word word;
    if (s->step >= exchange_granted(x, &word) || !exchange_has_rows(x, s->step)) return false;
    if (x->own.count > 0) return true;
    const struct exchange_news *news = &x->news[s->step % EXCHANGE_NEWS];
    if (atomic_load(&x->shared_news) <= s->step || news->is_failed) return false;
    CHECK(news->example_count <= graph->header->batch); /* a step has so many losses */
    return news->example_count > 0;
}

static struct update update_of(const struct side *s)
{
    return (struct update){.param = s->model.param,
                           .state = s->model.state,
                           .param_grad = s->gradients.param,
                           .lanes = s->gradients.set_count,
                           .example_count = graph->header->batch,
                           .t = s->step + 1,
                           .clip_scale = 1,
                           .is_joined = true,
                           .is_bf16 = setup->is_bf16};
}

/* The bucket is updated: its values go. */
static void bucket_update(struct side *s, uint32_t bucket)
{
    struct exchange *x = reduce_exchange(s->reduce);
    const struct update u = update_of(s);
    if (!setup->has_stages)
        CHECK(exchange_update_run(x, &s->updater, bucket, &s->extents[bucket], &u, s->model.store, 0) == ST_OK);
    x->vt->begin(x, EXCHANGE_VALUES, bucket);
}

static void sums_work(struct side *s)
{
    struct exchange *x = reduce_exchange(s->reduce);
    const struct update u = update_of(s);
    for (uint32_t b = x->bucket_count; b-- > 0;) {
        if (!((s->sums_told & ~s->sums_done) >> b & 1)) continue;
        s->sums_done |= UINT32_C(1) << b;
        CHECK(exchange_sum_run(x, &s->updater, b, &s->extents[b], &u, s->blocks, s->site.squares, 0) == ST_OK);
        if (s->site.squares == NULL) bucket_update(s, b);
    }
}

static void slots_work(struct side *s)
{
    static struct input input; /* of lane 0 */
    for (uint32_t i = 0; i < SLOTS; i++) {
        const struct slot slot = {.index = i, .input = &input};
        if (s->slots[i] == SLOT_FREE) {
            s->slots[i] = SLOT_OUT;
            hops_admit(s->hops, &slot);
            if (s->rank == 0) hops_send(s->hops, hops_pack(s->hops, 0, HOPS_FORWARD, &slot, true));
            return;
        }
        if (s->slots[i] != SLOT_THERE) continue;
        s->slots[i] = SLOT_FREE;
        hops_send(s->hops, hops_pack(s->hops, 1, HOPS_BACK, &slot, true));
    }
}

/* A slot comes to where the node has sent it from, or has admitted it. */
static void slot_given(void *context, uint32_t stage, enum hops_way way, uint32_t slot)
{
    struct side *s = context;
    CHECK(slot < SLOTS && s->slots[slot] == SLOT_OUT);
    CHECK(stage == s->rank && (way == HOPS_BACK) == (s->rank == 0));
    s->slots[slot] = s->rank == 0 ? SLOT_FREE : SLOT_THERE;
}

static void work(struct side *s)
{
    struct exchange *x = reduce_exchange(s->reduce);
    if (s->is_held) return; /* it saves */
    steps_ask(s);
    if (s->hops) slots_work(s);
    if (s->step_told) {
        s->step++;
        s->step_told = s->is_working = false;
        s->sums_told = s->sums_done = 0;
    }
    if (!s->is_working && may_begin(s)) {
        s->is_working = true;
        for (uint32_t b = x->bucket_count; b-- > 0 && !setup->has_stages;) x->vt->begin(x, EXCHANGE_SUMS, b);
        if (setup->has_stages && s->site.squares) x->vt->begin(x, EXCHANGE_SQUARES, 0);
        if (setup->has_stages && !s->site.squares) x->vt->begin(x, EXCHANGE_VALUES, 0);
    }
    const uint32_t all = (UINT32_C(1) << x->bucket_count) - 1, done = s->sums_done;
    sums_work(s);
    if (s->site.squares && done != all && s->sums_done == all) x->vt->begin(x, EXCHANGE_SQUARES, 0);
    for (uint32_t b = x->bucket_count; b-- > 0 && s->squares_told;) bucket_update(s, b);
    s->squares_told = false;
}

static void look_begin(struct side *s)
{
    struct exchange *x = reduce_exchange(s->reduce);
    if (s->reduce->owned == NULL || (s->has_looked && !exchange_look_is_done(&s->look))) return;
    letters_fill(&s->look_letters, &x->look_shape, s->rank, s->step + 1);
    s->look.asked = s->look_letters.asked;
    s->look.values = s->look_values;
    s->has_looked = true;
    x->vt->look(x, &s->look);
}

static void talk(struct side *s, uint32_t to, bool says)
{
    struct talk_way *way = &s->reduce->peers[to].talk;
    uint8_t *place;
    const uint8_t *block;
    uint32_t bytes;
    if (way->out[0] == NULL) return;
    if (says && atomic_load(&way->shared_given) - atomic_load(&way->shared_taken) < TALK_PLACES) {
        CHECK(reduce_say_place(s->reduce, to, &place) == ST_OK);
        memset(place, 1, 40);
        reduce_say(s->reduce, to, 40);
    }
    if (says || atomic_load(&way->shared_come) == atomic_load(&way->shared_heard)) return;
    CHECK(reduce_hear(s->reduce, to, &block, &bytes) == ST_OK);
    CHECK(bytes > 0 && bytes <= TALK_BYTES);
    reduce_heard(s->reduce, to);
}

static void data_give(struct side *s, bool is_end)
{
    struct source_share *share = reduce_stream(s->reduce);
    uint64_t taken = UINT64_MAX;
    for (uint32_t n = 1; n < setup->node_count; n++) taken = s->had[n] < taken ? s->had[n] : taken;
    if (s->rank == 0 && s->given - taken < 4) {
        s->given++;
        CHECK(share->vt->give(share, "1\t2\n", is_end ? 0 : 4) == ST_OK);
    }
    static uint8_t block[(size_t)512 << 10];
    size_t count;
    if (s->rank == 0 || s->put == s->done || s->has_failed) return;
    s->has_failed = share->vt->take(share, block, sizeof block, &count) != ST_OK;
    s->done += !s->has_failed;
}

/* What has come has a place each, and nothing is taken that was not given. */
static void places_check(struct side *s)
{
    for (uint32_t n = 0; n < setup->node_count; n++) {
        const struct peer *peer = &s->reduce->peers[n];
        const struct talk_way *way = &peer->talk;
        CHECK(atomic_load(&way->shared_given) - atomic_load(&way->shared_taken) <= TALK_PLACES);
        CHECK(atomic_load(&way->shared_come) - atomic_load(&way->shared_heard) <= TALK_PLACES);
        CHECK(s->had[n] <= s->given);
        CHECK(s->reduce->owned == NULL || peer->next_letter <= s->reduce->updated_until + 2);
        CHECK(peer->next_bins <= s->reduce->evicting.round + 2);
    }
    CHECK(s->put - s->done <= 4);
}

/* Between jobs: the main thread wants the store, or lets go. */
static void hold(struct side *s)
{
    if (s->is_working || s->reduce->owned == NULL) return;
    s->is_held = !s->is_held;
    atomic_fetch_add(&s->reduce->shared_hold, 1);
}

/* Something that a main thread does now and then. */
static void main_do(struct side *s, uint32_t what)
{
    struct exchange *x = reduce_exchange(s->reduce);
    const uint32_t other = s->rank ? 0 : 1;
    if (s->is_dead) return;
    switch (what) {
    case 0: look_begin(s); break;
    case 1: talk(s, other, true); break;
    case 2: talk(s, other, false); break;
    case 3: x->vt->job_stop(x); break;
    case 4:
        if (s->rank == 0) reduce_job_cut(s->reduce);
        break;
    case 5:
        if (s->rank == 0) reduce_mark(s->reduce);
        break;
    case 6:
        for (uint32_t n = 0; n < setup->node_count; n++) {
            struct exchange *of = reduce_exchange(sides[n].reduce);
            of->vt->job_end(of);
            of->vt->job_begin(of, sides[n].step, UINT64_MAX);
        }
        break;
    case 7: hold(s); break;
    default:
        if (setup->has_stream) data_give(s, what == 9);
        break;
    }
}

/* --- opening and closing ------------------------------------------------------------------------ */

/* What updates of the node work on. */
static void parts_layout(struct side *s, struct layout *l)
{
    const struct exchange *x = reduce_exchange(s->reduce);
    const uint32_t lanes = x->own.count ? x->own.count : 1;
    struct extent all = {0};
    extent_nodes_find(&all, graph, 0, graph->layer_count - 1);
    extent_layout(&all, l, graph, &s->model, 1);
    gradients_layout(&s->gradients, l, graph, lanes, graph->header->batch);
    LAYOUT_TAKE(l, s->updater.scratch, gradients_scratch(graph, lanes));
    for (uint32_t b = 0; b < x->bucket_count && !setup->has_stages; b++) {
        struct extent e = x->slices[b];
        extent_layout(&e, l, graph, &s->model, 1);
        e.tables = all.tables;
        e.table_count = b ? 0 : all.table_count;
        if (l->arena) s->extents[b] = e;
    }
    s->site.loss_count = batch_micro_count(graph_batch(graph)) * graph_joined(graph);
    LAYOUT_TAKE(l, s->site.loss, 2 * s->site.loss_count);
    if (clip_optimizer(graph) == NULL) return;
    const uint32_t blocks = clip_blocks_list(graph, 0, graph->forward_count, NULL);
    LAYOUT_TAKE(l, s->blocks, blocks);
    LAYOUT_TAKE(l, s->site.squares, blocks);
    if (l->arena) (void)clip_blocks_list(graph, 0, graph->forward_count, s->blocks);
}

/* Two stages, each on a node of its own. */
static void stages_fill(struct side *s)
{
    static uint32_t lane_begin[2][3];
    const uint32_t first[] = {0, 2, graph->layer_count}, lanes = graph->header->lanes;
    for (uint32_t i = 0; i < 2; i++) {
        lane_begin[i][1] = i == 0 ? lanes : 0;
        lane_begin[i][2] = lanes;
        s->first_layer[i] = first[i];
        s->plan_stages[i] = (struct plan_stage){.first_layer = first[i], .last_layer = first[i + 1] - 1, .k = 1};
    }
    memset(s->node_of_table, 0, sizeof s->node_of_table);
    s->plan = (struct plan){.stages = s->plan_stages, .stage_count = 2, .node_count = 2};
    s->stages = (struct exchange_stages){.count = 2,
                                         .node_count = 2,
                                         .lane_begin = lane_begin[0],
                                         .first_layer = s->first_layer,
                                         .node_of_table = s->node_of_table};
}

static void side_open(struct side *s, uint32_t rank)
{
    memset(s, 0, sizeof *s);
    s->post.vt = &post_vt;
    s->rank = rank;
    if (setup->has_stages) stages_fill(s);
    CHECK(model_open(&s->model, graph, &(struct model_budget){.ram_bytes = 1 << 18, .lives = true}) == ST_OK);
    const struct reduce_options options = {.graph = graph,
                                           .model = &s->model,
                                           .rank = rank,
                                           .node_count = setup->node_count,
                                           .lane_begin = setup->lane_begin,
                                           .slices = setup->slices,
                                           .rows = setup->rows,
                                           .stages = setup->has_stages ? &s->stages : NULL,
                                           .bucket_floats = setup->bucket_floats,
                                           .is_bf16 = setup->is_bf16,
                                           .post = &s->post};
    CHECK(reduce_open(&s->reduce, &options) == ST_OK);
    struct exchange *x = reduce_exchange(s->reduce);
    struct layout sum = {0}, taken = {.arena = &s->arena};
    parts_layout(s, &sum);
    CHECK(arena_open(&s->arena, "updates", sum.bytes) == ST_OK);
    parts_layout(s, &taken);
    s->updater.graph = graph;
    s->updater.gradients = &s->gradients;
    s->updater.device = device;
    s->site.param = s->model.param;
    s->site.param_grad = s->gradients.param;
    s->site.over = over;
    s->site.context = s;
    x->site = s->site;
    const struct hops_options hops = {.graph = graph,
                                      .plan = &s->plan,
                                      .exchange = x,
                                      .slot_counts = (const uint32_t[]){SLOTS, SLOTS},
                                      .micro_count = batch_micro_count(graph_batch(graph)),
                                      .give = slot_given,
                                      .context = s};
    if (setup->has_stages) CHECK(hops_open(&s->hops, &hops) == ST_OK);
    if (setup->has_stream) CHECK(reduce_stream_open(s->reduce) == ST_OK);
    model_init(&s->model);
    reduce_start(s->reduce, 0);
    x->vt->job_begin(x, 0, UINT64_MAX);
}

static void side_close(struct side *s)
{
    hops_close(s->hops);
    reduce_close(s->reduce);
    arena_close(&s->arena);
    model_close(&s->model);
    for (uint32_t n = 0; n < setup->node_count; n++) {
        struct way *way = &ways[s->rank][n];
        for (; way->begin < way->end; way->begin++) free(way->parcel[way->begin % QUEUE].at);
        *way = (struct way){0};
    }
}

/* --- inputs ------------------------------------------------------------------------------------- */

struct said {
    const uint8_t *data;
    size_t bytes, at;
};
/* The next number, of so many bytes; behind the end there are zeros. */
static uint64_t input_number(struct said *in, uint32_t bytes)
{
    uint64_t number = 0;
    for (uint32_t i = 0; i < bytes && in->at < in->bytes; i++) number |= (uint64_t)in->data[in->at++] << 8 * i;
    return number;
}

static bool st_is_refusal(status st) { return st == ST_INVALID || st == ST_CORRUPT || st == ST_FULL; }

static status side_turn(struct side *s)
{
    work(s);
    TRY(reduce_look(s->reduce));
    return sent_tell(s);
}

/* Each node does what there is to do, and gets the oldest message of each other node. What the setup's node
 * fails with is returned; another one that fails is gone. */
static status all_turn(bool but_own)
{
    for (uint32_t n = 0; n < setup->node_count; n++) {
        struct side *s = &sides[n];
        if (s->is_dead || (but_own && n == setup->rank)) continue;
        status st = side_turn(s);
        for (uint32_t from = 0; from < setup->node_count && st == ST_OK; from++)
            if (from != n) st = way_step(from, n, false);
        if (st != ST_OK && n == setup->rank) return st;
        if (st == ST_OK) continue;
        CHECK(st_is_refusal(st));
        reduce_fail(s->reduce, st);
        s->is_dead = true;
    }
    return ST_OK;
}

/* A byte of the oldest message is another one, or its step, size or kind. */
static void spoil(struct way *way, struct said *in, uint32_t what)
{
    struct parcel *p = &way->parcel[way->begin % QUEUE];
    if (way->begin == way->end || (way->is_placed && what != 0)) return;
    if (what == 0) {
        const uint64_t at = input_number(in, 2);
        const uint8_t by = (uint8_t)input_number(in, 1);
        if (p->bytes > 0) p->at[at % p->bytes] ^= by;
    } else if (what == 1) {
        p->step += (uint64_t)(int64_t)(int8_t)input_number(in, 1);
    } else if (what == 2) {
        const uint64_t bytes = input_number(in, 2);
        p->at = realloc(p->at, bytes + 1);
        CHECK(p->at);
        if (bytes > p->bytes) memset(p->at + p->bytes, 0, bytes - p->bytes);
        p->bytes = bytes;
    } else {
        p->kind = (uint16_t)(input_number(in, 1) % KIND_COUNT);
    }
}

/* A message that no node has made: how its step is given, its kind, step, size, and bytes; zeros follow. */
static struct parcel forge(struct said *in, uint32_t how)
{
    const uint16_t kind = (uint16_t)(input_number(in, 1) % (KIND_COUNT + 4));
    struct parcel p = {.kind = kind < KIND_COUNT ? kind : (uint16_t)(KIND_VALUES + kind - KIND_COUNT)};
    const uint64_t step = input_number(in, how == 2 ? 8 : 1);
    p.step = how == 0 ? sides[setup->rank].reduce->step + (uint64_t)(int64_t)(int8_t)step : step;
    p.bytes = input_number(in, 2);
    p.at = calloc(1, p.bytes + 1);
    CHECK(p.at);
    const size_t left = in->bytes - in->at, some = left < p.bytes ? left : p.bytes;
    if (some > 0) memcpy(p.at, in->data + in->at, some);
    in->at += some;
    return p;
}

enum { OP_RUN, OP_COME, OP_SPOIL, OP_FORGE, OP_WORK, OP_MAIN, OP_OTHERS, OP_SENT };

static status op_do(struct said *in, uint32_t *turns)
{
    const uint32_t byte = (uint32_t)input_number(in, 1), argument = byte >> 3;
    const uint32_t from = (setup->rank + 1 + (argument & 1)) % setup->node_count,
                   other = from == setup->rank ? (from + 1) % setup->node_count : from;
    struct way *way = &ways[other][setup->rank];
    struct side *own = &sides[setup->rank];
    switch (byte & 7) {
    case OP_RUN:
        for (uint32_t i = 0; i <= argument && *turns > 0; i++, --*turns) TRY(all_turn(false));
        break;
    case OP_COME: return way_step(other, setup->rank, argument & 2);
    case OP_SPOIL: spoil(way, in, argument >> 1 & 3); break;
    case OP_FORGE: way_forge(way, forge(in, argument >> 2 & 3)); return way_step(other, setup->rank, argument & 2);
    case OP_WORK:
        if (!(argument & 2)) work(own);
        if (argument & 1) (void)reduce_waits(own->reduce);
        return reduce_look(own->reduce);
    case OP_MAIN: main_do(argument & 16 ? &sides[other] : own, argument & 15); break;
    case OP_OTHERS:
        for (uint32_t i = 0; i <= argument && *turns > 0; i++, --*turns) TRY(all_turn(true));
        break;
    case OP_SENT: return sent_tell(own);
    }
    return ST_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static struct graph graphs[SETUPS];
    static struct device *devices[SETUPS];
    struct said in = {.data = data, .bytes = bytes};
    const size_t index = input_number(&in, 1) % SETUPS;
    uint32_t turns = 200, ops = 500;
    status st = ST_OK;
    setup = &setups[index];
    graph = &graphs[index];
    if (graph->header == NULL) {
        CHECK(graph_compile(graph, "model.cfg", model_text, sizeof model_text - 1, setup->set, setup->set_count,
                            NULL) == ST_OK);
        CHECK(cpu_device_open(&devices[index], graph, 1, NULL, "base") == ST_OK);
    }
    device = devices[index];
    for (uint32_t n = 0; n < setup->node_count; n++) side_open(&sides[n], n);
    while (in.at < bytes && ops-- > 0 && st == ST_OK) {
        st = op_do(&in, &turns);
        places_check(&sides[setup->rank]);
    }
    CHECK(st == ST_OK || st_is_refusal(st));
    if (st != ST_OK) reduce_fail(sides[setup->rank].reduce, st);
    for (uint32_t n = 0; n < setup->node_count; n++) side_close(&sides[n]);
    return 0;
}
