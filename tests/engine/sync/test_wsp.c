/* Staleness under wsp and asp, measured in the weights themselves: a device that, instead of learning, adds
 * one to a weight of its own for each update of pipeline v. Whatever copy of the weights a minibatch reads
 * then says exactly how many updates of which pipeline are in it, through every message and stash that they
 * came by; and nothing may be lost or counted twice. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/engine/pipe/pipeline_fixture.h"

#include <inttypes.h>
#include <math.h>
#include <time.h>

#include "engine/sync/wsp.h"

/* Layers: 0 e, 1 x, 2 h1, 3 h2, 4 y, 5 bce. */
static const char model_text[] = "[model]\nname = small\n"
                                 "[data]\ndense = I1..I3\nsparse = C1..C3\n"
                                 "[table emb]\ndim = 2\ninit = uniform 0.1\noptimizer = sgd 0.1\n"
                                 "[embedding e]\ntable = emb\ninput = sparse\n"
                                 "[concat x]\ninput = e, dense\n"
                                 "[fc h1]\ninput = x\nunits = 8\nactivation = relu\n"
                                 "[fc h2]\ninput = h1\nunits = 8\nactivation = tanh\n"
                                 "[fc y]\ninput = h2\nunits = 1\n"
                                 "[loss bce]\ninput = y\n"
                                 "[train]\nbatch = 4\nsync = wsp\noptimizer = adagrad 0.02\n"
                                 "[store]\nram = 1MiB\n";

#define PIPELINES_MAX 3u
#define STAGES_MAX    3u
#define THREE_STAGES  "0-2:1:1 3-3:1:1 4-5:1:1"
#define DATA_ROWS     SCALED(1603u, 403u)
#define STEPS         ((DATA_ROWS + 3) / 4)

static char data_path[128], eval_path[128];

static int group_open(void **state)
{
    if (fixture_open(state) != 0) return -1;
    snprintf(data_path, sizeof data_path, "%s", fixture_path("data.tsv"));
    snprintf(eval_path, sizeof eval_path, "%s", fixture_path("eval.tsv"));
    fixture_data(data_path, 0, DATA_ROWS, NULL);
    fixture_data(eval_path, 10000, 200, NULL);
    return 0;
}

/* Up to 8 assignments, made of the arguments. */
struct assignments {
    char text[8][64];
    const char *set[9];
};
static void assign(struct assignments *a, const char *sync, uint32_t pipelines, uint32_t clock_distance)
{
    snprintf(a->text[0], sizeof a->text[0], "train.sync=%s", sync);
    snprintf(a->text[1], sizeof a->text[1], "train.pipelines=%u", pipelines);
    snprintf(a->text[2], sizeof a->text[2], "train.clock_distance=%u", clock_distance);
    for (int i = 0; i < 3; i++) a->set[i] = a->text[i];
    a->set[3] = NULL;
}

/* --- the counting device ---------------------------------------------------------------------- */

struct counting {
    const struct device_vt *inner;
    const struct pipeline *pipeline;
    uint32_t in_flight;
    uint64_t global_bound; /* UINT64_MAX: none */
    /* at the beginning of the job */
    uint64_t updates_before[PIPELINES_MAX];
    /* under the stage's turn */
    uint64_t forward_count[PIPELINES_MAX][STAGES_MAX], local_max[PIPELINES_MAX][STAGES_MAX],
        global_max[PIPELINES_MAX][STAGES_MAX];
    struct {
        int64_t clock[PIPELINES_MAX];
    } read[SCALED(1603, 403)][STAGES_MAX]; /* what the forward pass of a step has read                 */
    uint8_t is_updated[SCALED(1603, 403)][STAGES_MAX];
    _Atomic uint32_t shared_looking_up; /* tasks in stages that look up                                 */
    _Atomic bool shared_is_stalled;
    uint32_t stall_ns, stalled; /* one pipeline's tasks take so much longer                            */
    _Atomic uint32_t shared_broken_count;
    char broken[256];
};
static struct counting counting;

#define MUST(condition, ...)                                                                                           \
    do {                                                                                                               \
        if (!(condition) && atomic_fetch_add(&counting.shared_broken_count, 1) == 0)                                   \
            snprintf(counting.broken, sizeof counting.broken, __VA_ARGS__);                                            \
    } while (0)

/* The first of the weights that a stage updates. */
static uint64_t stage_offset(uint32_t stage) { return counting.pipeline->stages[stage]->extent.runs[0].offset; }

/* Of which pipeline a slot is: by where its gradients go. Its copy of the stage's weights. */
static const float *slot_weights(const struct op_context *c, uint32_t stage, uint32_t *pipeline)
{
    const float *weights = NULL;
    for (uint32_t index = 0; index < c->graph->tensor_count; index++) {
        const struct graph_tensor *tensor = &c->graph->tensors[index];
        if (tensor->offset != stage_offset(stage)) continue;
        if (tensor->kind == TENSOR_PARAM) weights = c->tensor[index].data;
        for (uint32_t v = 0; tensor->kind == TENSOR_PARAM_GRAD && v < counting.pipeline->pipeline_count; v++)
            if (c->tensor[index].data == counting.pipeline->sync->gradients.param[v] + tensor->offset) *pipeline = v;
    }
    return weights;
}

static void stall(uint32_t pipeline)
{
    if (counting.stall_ns == 0 || pipeline != counting.stalled) return;
    nanosleep(&(struct timespec){.tv_nsec = counting.stall_ns}, NULL);
}

static void forward_count(const struct op_context *c, uint32_t stage, uint32_t v, const float *weights)
{
    uint64_t number = counting.forward_count[v][stage]++, step = c->batch->step;
    for (uint32_t u = 0; u < counting.pipeline->pipeline_count; u++) {
        int64_t clock = lroundf(weights[u]);
        int64_t missing = (int64_t)(number + counting.updates_before[u]) - clock;
        counting.read[step][stage].clock[u] = clock;
        if (u == v) {
            MUST(missing >= 0 && missing < (int64_t)counting.in_flight,
                 "step %d misses %d updates of its own pipeline at stage %u", (int)step, (int)missing, stage);
            if (missing > (int64_t)counting.local_max[v][stage]) counting.local_max[v][stage] = (uint64_t)missing;
        } else if (missing > 0) {
            MUST((uint64_t)missing <= counting.global_bound, "step %d misses %d updates of pipeline %u at stage %u",
                 (int)step, (int)missing, u, stage);
            if (missing > (int64_t)counting.global_max[v][stage]) counting.global_max[v][stage] = (uint64_t)missing;
        }
    }
}

static status counting_submit(struct device *d, const struct op_context *c, const struct graph_node *nodes,
                              uint32_t count)
{
    const struct pipeline *p = counting.pipeline;
    if (!c->training || count == 0) return counting.inner->submit(d, c, nodes, count);
    bool is_forward = nodes->pass == PASS_FORWARD;
    uint32_t stage = 0, v = UINT32_MAX, at = (uint32_t)(nodes - c->graph->nodes);
    while (at != (is_forward ? p->stages[stage]->extent.forward_begin : p->stages[stage]->extent.backward_begin))
        stage++;
    bool looks_up = p->stages[stage]->extent.looks_up;
    if (looks_up)
        MUST(atomic_fetch_add(&counting.shared_looking_up, 1) == 0, "two tasks at once at the stage that looks up");
    const float *weights = slot_weights(c, stage, &v);
    CHECK(weights && v < p->pipeline_count && c->batch->step < sizeof counting.read / sizeof *counting.read);
    if (is_forward) forward_count(c, stage, v, weights);
    stall(v);
    status st = counting.inner->submit(d, c, nodes, count);
    for (uint32_t u = 0; u < p->pipeline_count; u++)
        MUST(lroundf(weights[u]) == counting.read[c->batch->step][stage].clock[u],
             "step %d: forward and backward at stage %u read different weights", (int)c->batch->step, stage);
    if (looks_up) atomic_fetch_sub(&counting.shared_looking_up, 1);
    return st;
}

/* A weight and a state of pipeline v's own. */
static status counting_update_params(struct device *d, const struct param_update *update)
{
    (void)d;
    const struct pipeline *p = counting.pipeline;
    for (uint32_t v = 0; v < p->pipeline_count; v++)
        for (uint32_t stage = 0; stage < p->stage_count; stage++) {
            if (update->grad[0] != p->sync->gradients.param[v] + stage_offset(stage)) continue;
            memset(update->grad[0], 0, update->count * sizeof(float));
            update->weight[v] += 1;
            update->state[v] += 2;
            MUST(update->t <= STEPS && !counting.is_updated[update->t - 1][stage], "update %" PRIu64 " twice",
                 update->t);
            counting.is_updated[update->t - 1][stage] = 1;
            return ST_OK;
        }
    MUST(false, "an update of nobody's gradients");
    return ST_OK;
}
/* Rows stay as they are. */
static status counting_update_rows(struct device *d, const struct table_update *update)
{
    (void)d;
    MUST(atomic_load(&counting.shared_looking_up) == 0, "rows change while they are looked up");
    for (uint32_t i = 0; i < update->use_count; i++)
        memset(update->grad[i], 0, (size_t)update->row_count * update->table->dim * sizeof(float));
    return ST_OK;
}
static void counting_close(struct device *d) { counting.inner->close(d); }
static const struct device_vt counting_vt = {.name = "counting",
                                             .submit = counting_submit,
                                             .update_rows = counting_update_rows,
                                             .update_params = counting_update_params,
                                             .close = counting_close};

static void counting_install(struct training *t)
{
    struct pipeline *p = t->pipeline;
    memset(&counting, 0, sizeof counting);
    counting.inner = pipeline_device(p)->vt;
    counting.pipeline = p;
    counting.in_flight = p->in_flight;
    counting.global_bound = p->sync->site.kind == SYNC_WSP
                                ? (uint64_t)(p->sync->site.clock_distance + 1) * p->in_flight + p->in_flight -
                                      2 /* (D + 1)(s + 1) + s - 1, s = Nm - 1 */
                                : UINT64_MAX;
    for (uint32_t i = 0; i < p->worker_count; i++) p->workers[i].device->vt = &counting_vt;
    for (uint32_t s = 0; s < p->stage_count; s++) {
        assert_int_equal(p->stages[s]->extent.run_count, 1);
        assert_true(p->stages[s]->extent.runs[0].count >= PIPELINES_MAX);
    }
}

/* All of a job's updates, and nothing else, are in the model at every stage. */
static void counting_check(struct training *t)
{
    if (atomic_load(&counting.shared_broken_count))
        fail_msg("%s (and %u more)", counting.broken, atomic_load(&counting.shared_broken_count) - 1);
    const struct pipeline *p = t->pipeline;
    for (uint32_t s = 0; s < p->stage_count; s++) {
        uint64_t sum = 0;
        for (uint32_t v = 0; v < p->pipeline_count; v++) {
            const struct graph_update *update = &t->graph.updates[p->stages[s]->extent.runs[0].update];
            float weight = t->model.param[stage_offset(s) + v];
            float state = t->model.state[t->model.state_offset[p->stages[s]->extent.runs[0].update] + stage_offset(s) -
                                         update->param_offset + v];
            uint64_t updates = (uint64_t)lroundf(weight);
            sum += updates;
            assert_int_equal(lroundf(state), 2 * updates);
            if (s == 0) counting.updates_before[v] = updates;
            assert_int_equal(updates, counting.updates_before[v]);
        }
        assert_int_equal(sum, t->model.progress.step);
        for (uint64_t step = 0; step < t->model.progress.step; step++)
            if (!counting.is_updated[step][s]) fail_msg("step %d has not updated stage %u", (int)step, s);
    }
    for (uint32_t v = 0; v < p->pipeline_count; v++)
        memset(counting.forward_count[v], 0, sizeof *counting.forward_count);
}

/* The greatest of what the device has counted is what the pipeline says of itself. */
static struct pipeline_figures counting_figures(const struct training *t)
{
    struct pipeline_figures f;
    uint64_t local = 0, global = 0;
    pipeline_figures(t->pipeline, &f);
    for (uint32_t v = 0; v < PIPELINES_MAX; v++)
        for (uint32_t s = 0; s < STAGES_MAX; s++) {
            if (counting.local_max[v][s] > local) local = counting.local_max[v][s];
            if (counting.global_max[v][s] > global) global = counting.global_max[v][s];
        }
    assert_true(f.staleness.has_staleness);
    assert_int_equal(f.staleness.local_max, local);
    assert_int_equal(f.staleness.global_max, global);
    assert_int_equal(f.staleness.local_bound, counting.in_flight - 1);
    assert_true(f.staleness.global_bound == (t->pipeline->pipeline_count > 1 ? counting.global_bound : 0));
    return f;
}

/* Weights and state begin at zero. */
static const char *const zeros[] = {"h1.init=zeros", "h2.init=zeros", "y.init=zeros"};

/* Trains in jobs of these lengths (0: to the end). */
static struct pipeline_figures run_counting(const char *sync, uint32_t pipelines, uint32_t clock_distance,
                                            const struct setup *setup, uint32_t stall_ns, uint64_t job_steps)
{
    struct training t;
    struct assignments a;
    assign(&a, sync, pipelines, clock_distance);
    memcpy(a.set + 3, zeros, sizeof zeros);
    a.set[6] = NULL;
    assert_ok(training_open(&t, model_text, a.set, data_path, setup));
    counting_install(&t);
    training_start(&t, NULL);
    for (uint32_t job = 0; !t.is_end; job++) {
        counting.stall_ns = stall_ns;
        counting.stalled = job % pipelines;
        assert_ok(training_until(&t, job_steps ? t.model.progress.step + job_steps : UINT64_MAX));
        counting_check(&t);
    }
    assert_int_equal(t.model.progress.step, STEPS);
    struct pipeline_figures f = counting_figures(&t);
    training_close(&t);
    return f;
}

static void wsp__any_timing__staleness_stays_within_its_bounds(void **state)
{
    (void)state;
    uint64_t random = 1;
    uint32_t combinations = 0, local_reached = 0, global_reached = 0, global_count = 0;
    for (uint32_t in_flight = 1; in_flight <= 4; in_flight++)
        for (uint32_t distance = 0; distance <= 3; distance++)
            for (uint32_t pipelines = 1; pipelines <= PIPELINES_MAX; pipelines++)
                for (int is_pool = 0; is_pool <= 1; is_pool++) {
                    struct setup setup = {.plan = THREE_STAGES,
                                          .threads = is_pool ? 2 : 3 * pipelines,
                                          .share = is_pool,
                                          .in_flight = in_flight,
                                          .delay_seed = draw(&random, 1000),
                                          .delay_ns_max = 20000};
                    struct pipeline_figures f =
                        run_counting("wsp", pipelines, distance, &setup, 0, 1 + draw(&random, STEPS));
                    combinations++;
                    local_reached += f.staleness.local_max == f.staleness.local_bound;
                    if (pipelines == 1) assert_int_equal(f.staleness.global_max, 0);
                    if (pipelines == 1) continue;
                    global_count++;
                    global_reached += f.staleness.global_max == f.staleness.global_bound;
                }
    printf("# %u combinations of in flight, distance, pipelines and placement: s_local reached in %u; "
           "s_global in %u of %u\n",
           combinations, local_reached, global_reached, global_count);
    /* With one worker a stage, Nm minibatches are in flight together sooner or later. */
    assert_true(local_reached >= combinations / 2);
}

/* One pipeline stands nearly still: the others run ahead of it as far as the clock
 * lets them, and no further. */
static void wsp__one_pipeline_stalls__others_reach_the_bound_and_no_more(void **state)
{
    (void)state;
    uint32_t combinations = 0, reached = 0;
    for (uint32_t in_flight = 1; in_flight <= 4; in_flight++)
        for (uint32_t distance = 0; distance <= 3; distance++)
            for (uint32_t pipelines = 2; pipelines <= PIPELINES_MAX; pipelines++) {
                struct setup setup = {.plan = THREE_STAGES, .threads = 3 * pipelines, .in_flight = in_flight};
                struct pipeline_figures f =
                    run_counting("wsp", pipelines, distance, &setup, SCALED(300000, 2000000), STEPS / 2 + 1);
                combinations++;
                reached += f.staleness.global_max == f.staleness.global_bound;
                if (f.staleness.global_max != f.staleness.global_bound)
                    printf("# in flight %u, distance %u, pipelines %u: at most %" PRIu64 " of %" PRIu64 "\n", in_flight,
                           distance, pipelines, f.staleness.global_max, f.staleness.global_bound);
            }
    printf("# s_global reached in %u of %u combinations\n", reached, combinations);
    assert_true(reached >= combinations * 3 / 4);
}

/* Nobody waits: what a pipeline misses grows, buffers run out, and yet no change is lost. */
static void asp__one_pipeline_stalls__nothing_is_lost(void **state)
{
    (void)state;
    for (uint32_t pipelines = 1; pipelines <= PIPELINES_MAX; pipelines++)
        for (uint32_t in_flight = 1; in_flight <= 3; in_flight += 2) {
            struct setup setup = {.plan = THREE_STAGES, .threads = 3 * pipelines, .in_flight = in_flight};
            struct pipeline_figures f = run_counting("asp", pipelines, 0, &setup, SCALED(300000, 2000000), STEPS / 3);
            printf("# asp, %u pipelines, %u in flight: misses at most %" PRIu64 " of its own, %" PRIu64 " of another\n",
                   pipelines, in_flight, f.staleness.local_max, f.staleness.global_max);
            /* Farther than a clock of wsp would let a pipeline. */
            if (pipelines > 1) assert_true(f.staleness.global_max > wsp_global_bound(in_flight, SCALED(3, 0)));
        }
}

/* --- equal to bsp where nothing is in flight ------------------------------------------------------ */

static uint64_t run_hash(const char *const *set, const struct setup *setup, uint64_t *told)
{
    struct training t;
    assert_ok(training_open(&t, model_text, set, data_path, setup));
    training_start(&t, NULL);
    assert_ok(training_until(&t, UINT64_MAX));
    assert_true(t.is_end);
    uint64_t hash = training_hash(&t);
    *told = XXH3_64bits_digest(t.told);
    training_close(&t);
    return hash;
}

static void wsp__one_in_flight__equals_bsp_to_the_bit(void **state)
{
    (void)state;
    static const char *const optimizers[] = {"train.optimizer=adagrad 0.02", "train.optimizer=adam 0.01",
                                             "train.optimizer=sgd 0.1 power=0.5"};
    static const struct setup of[] = {{.threads = 1, .in_flight = 1},
                                      {.threads = 2, .in_flight = 1},
                                      {.plan = THREE_STAGES, .threads = 3, .in_flight = 1},
                                      {.plan = THREE_STAGES, .threads = 2, .share = true, .in_flight = 1}};
    for (size_t i = 0; i < 3; i++) {
        const char *as_bsp[] = {optimizers[i], "train.sync=bsp", "train.micro=4", "data.shuffle=50", NULL};
        const char *as_wsp[] = {optimizers[i], "data.shuffle=50", NULL};
        const char *as_asp[] = {optimizers[i], "data.shuffle=50", "train.sync=asp", NULL};
        uint64_t told, told_wsp;
        uint64_t expected = run_hash(as_bsp, &(struct setup){.threads = 1}, &told);
        for (size_t k = 0; k < sizeof of / sizeof *of; k++) {
            assert_int_equal(run_hash(as_wsp, &of[k], &told_wsp), expected);
            assert_int_equal(told_wsp, told);
            assert_int_equal(run_hash(as_asp, &of[k], &told_wsp), expected);
            assert_int_equal(told_wsp, told);
        }
        /* With more in flight it is another computation. */
        struct setup three = of[2];
        three.in_flight = 3;
        assert_true(run_hash(as_wsp, &three, &told_wsp) != expected);
    }
}

/* --- real training ---------------------------------------------------------------------------- */

static double loss_mean(const struct training *t, uint64_t begin, uint64_t end)
{
    double sum = 0;
    uint64_t examples = 0;
    for (uint64_t step = begin; step < end; step++) {
        sum += t->loss[step];
        examples += t->example_count[step];
    }
    return sum / (double)examples;
}

/* Saved and resumed in the middle of waves, evaluated, and gone on with: every step is told once, the model
 * stays a model and gets better. */
static void wsp__checkpoints_and_resumes_within_waves__goes_on(void **state)
{
    (void)state;
    uint64_t random = 4;
    const char *saved = fixture_path("saved");
    for (uint32_t pipelines = 1; pipelines <= PIPELINES_MAX; pipelines++) {
        struct assignments a;
        struct training t;
        double first = 0, last = 0;
        uint32_t resumes = 0;
        assign(&a, "wsp", pipelines, 1);
        a.set[3] = "train.epochs=4";
        a.set[4] = NULL;
        for (bool is_end = false; !is_end; resumes++) {
            bool is_pool = draw(&random, 2);
            struct setup setup = {.plan = is_pool ? THREE_STAGES : "0-5:1:1",
                                  .threads = is_pool ? 2 : pipelines,
                                  .share = true,
                                  .in_flight = 1 + (uint32_t)draw(&random, 4),
                                  .delay_seed = draw(&random, 1000),
                                  .delay_ns_max = 20000};
            assert_ok(training_open(&t, model_text, a.set, data_path, &setup));
            training_losses_keep(&t, 4 * STEPS);
            training_start(&t, resumes ? saved : NULL);
            uint64_t begin = t.model.progress.step;
            for (int job = 0; job < 3 && !t.is_end; job++) {
                uint64_t step = t.model.progress.step, until = step + 1 + draw(&random, STEPS / 2);
                assert_ok(training_until(&t, until));
                assert_int_equal(t.model.progress.step, until < 4 * STEPS ? until : 4 * STEPS);
                (void)training_predict(&t, eval_path);
                for (uint64_t i = 0; i < t.graph.header->param_floats; i++) assert_true(isfinite(t.model.param[i]));
            }
            if (begin == 0) first = loss_mean(&t, 0, STEPS / 5);
            is_end = t.is_end;
            if (is_end) last = loss_mean(&t, begin, t.model.progress.step);
            training_save(&t, saved);
            training_close(&t);
        }
        printf("# %u pipelines, resumed %u times: loss %.4f at first, %.4f at last\n", pipelines, resumes - 1, first,
               last);
        assert_true(last < first - SCALED(0.005, -0.05));
    }
}

/* --- what is refused -------------------------------------------------------------------------- */

static void wsp__what_cannot_be_right__is_refused(void **state)
{
    (void)state;
    struct training t;
    struct assignments a;
    static const struct setup stages = {.plan = THREE_STAGES, .threads = 6};
    assign(&a, "wsp", 2, 0);
    a.set[3] = "train.optimizer=adam 0.01";
    a.set[4] = NULL;
    assert_int_equal(training_open(&t, model_text, a.set, data_path, &stages), ST_INVALID);
    assert_message("train.pipelines = 2 under wsp");
    assert_message("the state of adam");
    assert_message("sgd or adagrad");
    a.set[1] = "train.pipelines=1";
    assert_ok(training_open(&t, model_text, a.set, data_path, &stages));
    training_close(&t);
    /* Rows are everybody's: their rule may count. */
    assign(&a, "wsp", 2, 0);
    a.set[3] = "emb.optimizer=adam 0.01";
    a.set[4] = NULL;
    assert_ok(training_open(&t, model_text, a.set, data_path, &stages));
    training_close(&t);

    static const char twice[] = "[data]\ndense = I1\nsparse = C1, C2\n[table emb]\ndim = 2\n"
                                "[embedding e]\ntable = emb\ninput = C1\n[fc h]\ninput = e\nunits = 2\n"
                                "[embedding f]\ntable = emb\ninput = C2\n[concat x]\ninput = h, f\n"
                                "[fc y]\ninput = x\nunits = 1\n[loss bce]\ninput = y\n[train]\nbatch = 4\n";
    assign(&a, "asp", 1, 0);
    static const struct setup apart = {.plan = "0-1:1:1 2-5:1:1", .threads = 2},
                              together = {.plan = "0-2:1:1 3-5:1:1", .threads = 2};
    assert_int_equal(training_open(&t, twice, a.set, data_path, &apart), ST_INVALID);
    assert_message("table emb is looked up by stages 0 and 1");
    assert_message("under asp");
    assert_ok(training_open(&t, twice, a.set, data_path, &together));
    training_close(&t);
    assign(&a, "bsp", 1, 0);
    assert_ok(training_open(&t, twice, a.set, data_path, &apart));
    training_close(&t);

    static const char shared[] =
        "[data]\ndense = I1..I3\n[fc h]\ninput = dense\nunits = 3\n[fc i]\ninput = h\nunits = 3\n"
        "share = h\n[fc y]\ninput = i\nunits = 1\n[loss bce]\ninput = y\n[train]\nbatch = 4\n";
    static const struct setup cut = {.plan = "0-0:1:1 1-3:1:1", .threads = 2},
                              whole = {.plan = "0-1:1:1 2-3:1:1", .threads = 2};
    assign(&a, "wsp", 1, 0);
    assert_int_equal(training_open(&t, shared, a.set, data_path, &cut), ST_INVALID);
    assert_message("i of stage 1 of the plan uses the parameters of h of stage 0; under wsp");
    assert_ok(training_open(&t, shared, a.set, data_path, &whole));
    training_close(&t);
    assign(&a, "bsp", 1, 0);
    assert_ok(training_open(&t, shared, a.set, data_path, &cut));
    training_close(&t);

    assign(&a, "bsp", 2, 0);
    assert_int_equal(training_open(&t, model_text, a.set, data_path, &stages), ST_INVALID);
    assert_message("train.pipelines = 2 needs train.sync = wsp or asp");
    static const char *const lanes[] = {"train.lanes=2", NULL};
    assert_int_equal(training_open(&t, model_text, lanes, data_path, &stages), ST_USAGE);
    assert_message("lanes = 1 under sync = wsp");
}

static void wsp_waves_needed__by_hand__is_as_the_paper_says_golden(void **state)
{
    (void)state;
    /* HetPipe, figure 3 and section 5: Nm = 4, D = 0. Minibatch 8 (from 1) is the last of wave 1 and waits
     * for wave 0; before it minibatches 5 to 7 have started without. */
    for (uint64_t minibatch = 0; minibatch <= 6; minibatch++) assert_int_equal(wsp_waves_needed(minibatch, 4, 0), 0);
    assert_int_equal(wsp_waves_needed(7, 4, 0), 1);
    assert_int_equal(wsp_waves_needed(10, 4, 0), 1);
    assert_int_equal(wsp_waves_needed(11, 4, 0), 2);
    /* D = 1 gives one wave more. */
    assert_int_equal(wsp_waves_needed(10, 4, 1), 0);
    assert_int_equal(wsp_waves_needed(11, 4, 1), 1);
    /* Without pipelining, Nm = 1: the stale synchronous parallel, minibatch p after
     * minibatch p - D - 1 of all. */
    for (uint64_t minibatch = 0; minibatch < 9; minibatch++)
        for (uint32_t distance = 0; distance < 4; distance++)
            assert_int_equal(wsp_waves_needed(minibatch, 1, distance), minibatch > distance ? minibatch - distance : 0);
    assert_int_equal(wsp_local_bound(4), 3);
    assert_int_equal(wsp_global_bound(4, 0), 6); /* s_global of the paper's figure 3: minibatches 5 to 10 of 11 */
    assert_int_equal(wsp_global_bound(4, 1), 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wsp__any_timing__staleness_stays_within_its_bounds),
        cmocka_unit_test(wsp__one_pipeline_stalls__others_reach_the_bound_and_no_more),
        cmocka_unit_test(asp__one_pipeline_stalls__nothing_is_lost),
        cmocka_unit_test(wsp__one_in_flight__equals_bsp_to_the_bit),
        cmocka_unit_test(wsp__checkpoints_and_resumes_within_waves__goes_on),
        cmocka_unit_test(wsp__what_cannot_be_right__is_refused),
        cmocka_unit_test(wsp_waves_needed__by_hand__is_as_the_paper_says_golden),
    };
    return cmocka_run_group_tests(tests, group_open, fixture_close) ? 1 : 0;
}
