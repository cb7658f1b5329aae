/* Messages of waves of a node that holds the key and says anything: each is a byte that chooses who sends
 * which kind (the first message's, whether the training is exact, too), one for its step, two for how long it
 * is, and its bytes. The node gives it a place of that length or refuses it, takes it or refuses it, and is
 * then as well as before. */
#define FUZZ_NAME "waves"
#include "tests/fuzz/driver.h"

#include "cfg/settings.h"
#include "engine/node/reduce_internal.h"
#include "engine/pipe/pipeline.h"
#include "engine/sync/waves.h"

static const char model_text[] = "[data]\ndense = I1..I2\nsparse = C1..C2\n"
                                 "[table emb]\ndim = 2\noptimizer = sgd 0.05\n"
                                 "[table side]\ndim = 3\noptimizer = sgd 0.05\n"
                                 "[embedding e]\ntable = emb\ninput = C1\n"
                                 "[embedding w]\ntable = side\ninput = C2\n"
                                 "[concat x]\ninput = e, w, dense\n"
                                 "[fc y]\ninput = x\nunits = 2\n"
                                 "[fc z]\ninput = y\nunits = 1\n"
                                 "[loss bce]\ninput = z\n"
                                 "[train]\nbatch = 2\nsync = wsp\noptimizer = sgd 0.05\n[store]\nram = 1MiB\n";
#define NODES 3u

/* What the node sends is on its way, and at once sent. */
static uint64_t given[NODES];
static status post_send(struct post *post, uint32_t to, const struct reduce_message *message)
{
    (void)post;
    for (uint64_t at = 0, i = 0; i < message->part_count; at += message->part[i++].iov_len)
        CHECK(at + message->part[i].iov_len <= message->bytes);
    given[to]++;
    return ST_OK;
}
static void post_wake(struct post *post) { (void)post; }
static const struct post_vt post_vt = {.send = post_send, .wake = post_wake};

static status message_take(struct reduce *r, const uint8_t *data, size_t bytes, size_t *at)
{
    static const uint16_t kind_of[] = {KIND_WAVE, KIND_WAVE, KIND_ROUND, KIND_ADDED,
                                       KIND_WAVE, KIND_ASK,  KIND_ASK,   KIND_ANSWER};
    struct iovec part[REDUCE_PARTS_MAX];
    uint32_t part_count;
    const uint8_t *head = data + *at;
    const uint32_t from = 1 + (head[0] & 1);
    const uint16_t kind = head[0] & 128 ? (uint16_t)(head[0] >> 1 & 63) : kind_of[head[0] >> 1 & 7];
    const uint64_t length = (uint64_t)head[2] | (uint64_t)head[3] << 8;
    uint64_t all = 0;
    *at += 4;
    if (!reduce_has_kind(kind)) return ST_OK;
    TRY(reduce_place(r, from, kind, head[1], length, part, &part_count));
    for (uint32_t i = 0; i < part_count; all += part[i++].iov_len) {
        const size_t left = bytes - *at, some = left < part[i].iov_len ? left : part[i].iov_len;
        memset(part[i].iov_base, 0, part[i].iov_len);
        memcpy(part[i].iov_base, data + *at, some);
        *at += some;
    }
    CHECK(all == length);
    TRY(reduce_arrived(r, from));
    for (uint32_t n = 1; n < NODES; n++)
        for (; given[n] > 0; given[n]--) TRY(reduce_sent(r, n));
    return ST_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static struct graph graph;
    static struct plan plan;
    static struct cores cores;
    struct post post = {.vt = &post_vt};
    struct model model;
    struct reduce *r;
    struct pipeline *pipeline;
    if (graph.header == NULL) {
        CHECK(graph_compile(&graph, "model.cfg", model_text, sizeof model_text - 1, NULL, 0, NULL) == ST_OK);
        CHECK(plan_single(&plan, &graph, 1) == ST_OK);
        cores_allowed(&cores);
    }
    memset(given, 0, sizeof given);
    CHECK(model_open(&model, &graph, &(struct model_budget){.ram_bytes = 1 << 18}) == ST_OK);
    const struct reduce_options options = {
        .node_count = NODES, .has_waves = true, .post = &post, .graph = &graph, .model = &model};
    CHECK(reduce_open(&r, &options) == ST_OK);
    CHECK(pipeline_open(&pipeline, &(struct pipeline_options){.graph = &graph,
                                                              .model = &model,
                                                              .plan = &plan,
                                                              .cores = &cores,
                                                              .core_count = 1,
                                                              .training = true,
                                                              .sync = SYNC_WSP,
                                                              .in_flight = 2,
                                                              .pipeline_count = 1,
                                                              .clock_distance = 1,
                                                              .is_exact = bytes > 0 && data[0] & 16,
                                                              .exchange = reduce_exchange(r)}) == ST_OK);
    model_init(&model);
    reduce_start(r, 0);
    for (size_t at = 0; at + 4 <= bytes;) {
        const status st = message_take(r, data, bytes, &at);
        if (st == ST_OK) continue;
        CHECK(st == ST_INVALID);
        break;
    }
    pipeline_close(pipeline);
    reduce_close(r);
    model_close(&model);
    return 0;
}
