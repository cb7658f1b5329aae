/* Learned methods: a policy (sched/policy_net.h) is trained on nothing but the costs of complete plans that
 * it has drawn (HeterPS, Algorithm 1); the best plan is the answer. rl has an LSTM, rl-rnn an Elman cell;
 * rl+polish climbs from the best plans of every restart.
 *
 * Departures from Algorithm 1, each of which pays (plain REINFORCE comes within 5 % of the optimum on
 * two thirds of hard instances):
 *   - Only the best plans of a batch, and of the restart so far, push: the risk-seeking gradient of
 *     Petersen et al., "Deep Symbolic Regression", ICLR 2021, section 3.3, and the queue of Abolafia et al.,
 *     "Neural Program Synthesis with Priority Queue Training", 2018. The best plan counts, not the mean.
 *   - After some rounds without a better plan, it starts again from other random weights.
 *   - A small share of the types is drawn uniformly, so that no type is ever lost.
 * rl-joint draws numbers of units, too: a column of the network is a type with a number of units
 * (sched/joint.h). search_options.plain_reinforce is Algorithm 1 as it stands: one run, every plan of a batch
 * pushes by its reward less a moving average. The reward is -log cost, so that a saving of one per cent
 * counts alike on every instance. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/fmath.h"
#include "sched/climb.h"
#include "sched/joint.h"
#include "sched/method.h"
#include "sched/policy_inside.h"

/* The settings of a run, found on random instances (tests/bench/schedule_bench.c). */
struct settings {
    uint32_t batch;              /* N: plans a round                                                     */
    uint32_t elites;             /* best of these, which push                                            */
    uint32_t remembered;         /* best plans of the restart, which push, too                           */
    uint32_t patience;           /* rounds without a better plan until it starts again                   */
    float uniform;               /* share of types drawn from all alike                                  */
    float rate_shared, rate_own; /* of Adam: weights of every instance, of this one              */
    float noise, embedding;      /* standard deviations of first weights: of bias and table, of embeddings */
    float stay;                  /* first logit of the type before                               */
    float baseline_rate;         /* gamma of Algorithm 1                                         */
};
static const struct settings risk_seeking = {.batch = 128,
                                             .elites = 6,
                                             .remembered = 16,
                                             .patience = 15,
                                             .uniform = 0.01f,
                                             .rate_shared = 0.03f,
                                             .rate_own = 0.05f,
                                             .noise = 0.5f,
                                             .embedding = 0.3f,
                                             .stay = 1};
static const struct settings plain = {
    .batch = 128, .rate_shared = 0.01f, .rate_own = 0.03f, .noise = 0.1f, .embedding = 0.3f, .baseline_rate = 0.1f};

struct ranked {
    double score;
    uint32_t plan;
};

struct learner {
    struct search *search;
    const struct settings *set;
    struct joint joint; /* of rl-joint; column_count 0: a column is a type */
    struct net_view view;
    struct net net;
    uint64_t item;        /* plans drawn: each draws numbers of its own */
    type_index *plans;    /* [batch, L] */
    struct ranked *order; /* [batch]    */
    type_index *begin;    /* [L]: the best plan of the restart's first round */
    double begin_score;
    type_index *kept;   /* [remembered + 1, L]: best plans of the restart */
    double *kept_score; /* [remembered + 1]                               */
    uint32_t kept_count;
    double restart_best;
    double baseline;
    bool has_baseline;
    float *trained; /* [parameters]: of the restart whose most probable plan has the least score */
    double trained_score;
    void *memory;
};

static status learner_open(struct learner *r, struct search *s, enum policy_cell cell, const struct settings *set,
                           bool is_joint)
{
    size_t L = s->model->layer_count;
    *r = (struct learner){.search = s, .set = set, .trained_score = INFINITY};
    if (is_joint) TRY(joint_open(&r->joint, s->model));
    TRY(net_view_open(&r->view, is_joint ? &r->joint.model : s->model));
    TRY(net_open(&r->net, cell, &r->view, set->batch));
    size_t kept = set->remembered + 1;
    size_t doubles_bytes = kept * sizeof *r->kept_score + set->batch * sizeof *r->order,
           floats_bytes = r->net.at.count * sizeof *r->trained;
    char *memory = calloc(1, doubles_bytes + floats_bytes + (set->batch + kept + 1) * L * sizeof *r->plans);
    if (memory == NULL) FAIL(MEMORY, "no memory for %u plans of %zu layers", set->batch, L);
    r->memory = memory;
    r->kept_score = (double *)memory;
    r->order = (struct ranked *)(r->kept_score + kept);
    r->trained = (float *)(memory + doubles_bytes);
    r->plans = (type_index *)(r->trained + r->net.at.count);
    r->kept = r->plans + set->batch * L;
    r->begin = r->kept + kept * L;
    return ST_OK;
}

static void learner_close(struct learner *r)
{
    free(r->memory);
    net_close(&r->net);
    net_view_close(&r->view);
    joint_close(&r->joint);
}

/* The score of a plan of columns. */
static double plan_score(struct learner *r, type_index *plan)
{
    if (r->joint.column_count == 0) return search_evaluate(r->search, plan);
    joint_decode(&r->joint, plan);
    return search_evaluate_units(r->search, r->joint.types, r->joint.units);
}

/* Sets the first weights: shared ones from the policy that the search begins with, or drawn; own ones from
 * the policy for the first restart only, else drawn, so that every restart begins with other preferences. */
static void restart_begin(struct learner *r, uint64_t restart)
{
    const struct settings *set = r->set;
    const struct policy *from = r->search->options.policy_from;
    struct net *n = &r->net;
    struct random_stream stream =
        random_stream(r->search->options.seed, RANDOM_SCHEDULE, POLICY_STREAM + 2 + 2 * restart);
    float *p = n->parameters;
    size_t shared = n->at.shared_count;
    r->kept_count = 0;
    r->restart_best = INFINITY;
    r->has_baseline = false;
    if (r->joint.column_count > 0 && restart > 0) {
        joint_near(&r->joint, r->search->best, r->search->best_units);
        net_view_set(&r->view, &r->joint.model);
    }
    memset(p, 0, n->at.count * sizeof *p);
    net_reset(n);
    if (from != NULL)
        policy_load(from, r->search->model->instance, n);
    else
        net_draw_shared(p, n->cell, stream);
    if (restart > 0 || from == NULL) {
        memset(p + shared, 0, (n->at.count - shared) * sizeof *p);
        random_fill(p + n->at.embedding, n->at.bias - n->at.embedding, INIT_NORMAL, set->embedding, stream, 2);
        random_fill(p + n->at.bias, n->at.stay - n->at.bias, INIT_NORMAL, set->noise, stream, 3);
        random_fill(p + n->at.table, n->at.count - n->at.table, INIT_NORMAL, set->noise / 2, stream, 4);
        for (uint32_t l = 0; l < r->view.layer_count; l++) p[n->at.stay + l] = set->stay;
    }
    net_prepare(n);
}

static int by_score(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    if (x->score != y->score) return x->score < y->score ? -1 : 1;
    return x->plan < y->plan ? -1 : x->plan > y->plan;
}

/* Scales all units of every fourth plan of columns in a batch: stages that keep pace with one another do so
 * at any pace, and units drawn one by one would hardly ever change it together. */
static void plan_scale(struct learner *r, struct random_stream stream, uint32_t i)
{
    static const double factors[] = {0.25, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.05, 1.1, 1.25, 1.4, 1.7, 2, 2.5, 4};
    uint32_t bits[4];
    if (i % 4 != 3) return;
    random_block(stream, r->item + i, UINT32_MAX, bits);
    joint_scale(&r->joint, r->plans + (size_t)i * r->view.layer_count, factors[bits[0] % 16]);
}

/* Draws a batch, asks for its costs, and sorts it by cost; false if the budget ends before. */
static bool round_draw(struct learner *r, struct random_stream stream)
{
    uint32_t batch = r->set->batch, L = r->view.layer_count;
    net_sample(&r->net, stream, r->item, batch, r->set->uniform, r->plans);
    r->item += batch;
    for (uint32_t i = 0; i < batch; i++) {
        if (r->joint.column_count > 0) plan_scale(r, stream, i);
        double score = plan_score(r, r->plans + (size_t)i * L);
        if (search_is_over(r->search) && isinf(score)) return false;
        r->order[i] = (struct ranked){score, i};
    }
    qsort(r->order, batch, sizeof *r->order, by_score);
    return true;
}

/* Remembers a plan, in order of cost, if it is not remembered yet and there is room
 * or it is better than another. */
static void remember(struct learner *r, const type_index *plan, double score)
{
    uint32_t L = r->view.layer_count, at = r->kept_count;
    for (uint32_t k = 0; k < r->kept_count; k++)
        if (memcmp(r->kept + (size_t)k * L, plan, L * sizeof *plan) == 0) return;
    while (at > 0 && r->kept_score[at - 1] > score) at--;
    if (at >= r->set->remembered) return;
    size_t behind = r->kept_count - at;
    memmove(r->kept + (size_t)(at + 1) * L, r->kept + (size_t)at * L, behind * L * sizeof *plan);
    memmove(r->kept_score + at + 1, r->kept_score + at, behind * sizeof *r->kept_score);
    memcpy(r->kept + (size_t)at * L, plan, L * sizeof *plan);
    r->kept_score[at] = score;
    if (r->kept_count < r->set->remembered) r->kept_count++;
}

static void learn_from_best(struct learner *r)
{
    uint32_t L = r->view.layer_count;
    for (uint32_t i = 0; i < r->set->elites; i++)
        remember(r, r->plans + (size_t)r->order[i].plan * L, r->order[i].score);
    float weight = 1.0f / (float)(r->set->elites + r->kept_count);
    for (uint32_t i = 0; i < r->set->elites; i++) net_learn(&r->net, r->plans + (size_t)r->order[i].plan * L, weight);
    for (uint32_t k = 0; k < r->kept_count; k++) net_learn(&r->net, r->kept + (size_t)k * L, weight);
    net_update(&r->net, r->set->rate_shared, r->set->rate_own);
}

/* Free plans, on types without a price, get the greatest reward. */
static double reward(double score) { return -fmath_log(score > 1e-300 ? score : 1e-300); }

/* Algorithm 1, lines 4 to 8. */
static void learn_from_all(struct learner *r)
{
    uint32_t batch = r->set->batch, L = r->view.layer_count;
    double mean = 0;
    for (uint32_t i = 0; i < batch; i++) mean += reward(r->order[i].score);
    mean /= batch;
    if (!r->has_baseline) r->baseline = mean;
    r->has_baseline = true;
    for (uint32_t i = 0; i < batch; i++) {
        double advantage = reward(r->order[i].score) - r->baseline;
        net_learn(&r->net, r->plans + (size_t)r->order[i].plan * L, (float)(advantage / batch));
    }
    r->baseline += (double)r->set->baseline_rate * (mean - r->baseline);
    net_update(&r->net, r->set->rate_shared, r->set->rate_own);
}

/* Every second restart of rl-joint remembers the best plan so far, near whose units columns are finer now. */
static void restart_joint(struct learner *r, uint64_t restart)
{
    struct search *s = r->search;
    if (r->joint.column_count == 0 || restart % 2 == 0) return;
    joint_encode(&r->joint, s->best, s->best_units, r->plans);
    remember(r, r->plans, s->best_score);
}

/* Runs rounds until no better plan comes, or the budget is spent. */
static void restart_run(struct learner *r, uint64_t restart)
{
    restart_joint(r, restart);
    struct random_stream stream =
        random_stream(r->search->options.seed, RANDOM_SCHEDULE, POLICY_STREAM + 3 + 2 * restart);
    for (uint32_t stale = 0; r->set->patience == 0 || stale < r->set->patience; stale++) {
        if (!round_draw(r, stream)) return;
        if (isinf(r->restart_best)) {
            r->begin_score = r->order[0].score;
            memcpy(r->begin, r->plans + (size_t)r->order[0].plan * r->view.layer_count,
                   r->view.layer_count * sizeof *r->begin);
        }
        if (r->order[0].score < r->restart_best) {
            r->restart_best = r->order[0].score;
            stale = 0;
        }
        if (r->set->elites > 0)
            learn_from_best(r);
        else
            learn_from_all(r);
    }
}

/* Evaluates the most probable plan; keeps the policy if the plan is the best of this kind. */
static void restart_end(struct learner *r)
{
    net_argmax(&r->net, r->plans);
    double score = plan_score(r, r->plans);
    if (score < r->trained_score) {
        r->trained_score = score;
        memcpy(r->trained, r->net.parameters, r->net.at.count * sizeof *r->trained);
    }
}

static status rl_run(struct search *s, enum policy_cell cell, bool polishes, bool is_joint)
{
    const struct policy *from = s->options.policy_from;
    if (from != NULL && from->cell != cell)
        FAIL(MISMATCH, "this method trains an %s cell, and the policy to begin with has an %s one",
             cell == POLICY_LSTM ? "LSTM" : "Elman", cell == POLICY_LSTM ? "Elman" : "LSTM");
    struct learner r;
    struct draw draw = {.stream = random_stream(s->options.seed, RANDOM_SCHEDULE, POLICY_STREAM + 1)};
    status st = learner_open(&r, s, cell, s->options.plain_reinforce ? &plain : &risk_seeking, is_joint);
    for (uint64_t restart = 0; st == ST_OK && !search_is_over(s); restart++) {
        restart_begin(&r, restart);
        if (restart == 0) restart_end(&r);
        restart_run(&r, restart);
        if (polishes && r.kept_count > 0) {
            climb(s, &draw, r.kept, r.kept_score[0]);
            if (!search_is_over(s)) climb(s, &draw, r.begin, r.begin_score);
        }
        restart_end(&r);
    }
    if (st == ST_OK && s->options.policy_to != NULL)
        st = policy_store(s->options.policy_to, cell, s->model->instance,
                          isinf(r.trained_score) ? r.net.parameters : r.trained);
    learner_close(&r);
    return st;
}

status rl_pretrain(struct search *s, struct policy *policy)
{
    struct settings set = risk_seeking;
    struct learner r;
    set.rate_own = set.noise = set.embedding = set.stay = 0;
    set.patience = 0;
    s->options.policy_from = policy;
    status st = learner_open(&r, s, policy->cell, &set, false);
    if (st == ST_OK) {
        restart_begin(&r, 0);
        restart_run(&r, 0);
        memcpy(policy->shared, r.net.parameters, r.net.at.shared_count * sizeof *policy->shared);
    }
    learner_close(&r);
    return st;
}

status method_rl(struct search *search) { return rl_run(search, POLICY_LSTM, false, false); }
status method_rl_plain(struct search *search)
{
    search->options.plain_reinforce = true;
    return rl_run(search, POLICY_LSTM, false, false);
}
status method_rl_rnn(struct search *search) { return rl_run(search, POLICY_ELMAN, false, false); }
status method_rl_polish(struct search *search) { return rl_run(search, POLICY_LSTM, true, false); }
/* Weights for columns are no policy for types: the search neither begins with a policy nor leaves one. */
status method_rl_joint(struct search *search)
{
    search->options.policy_from = NULL;
    search->options.policy_to = NULL;
    return rl_run(search, POLICY_LSTM, false, true);
}
