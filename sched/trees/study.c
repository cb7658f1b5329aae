/* Runs the policies of a study. */
#include "sched/trees/study.h"

#include <math.h>
#include <string.h>

#include "engine/base/clock.h"
#include "sched/trees/dqn.h"

const struct study_name study_names[STUDY_POLICY_COUNT] = {
#define STUDY(id, name, meaning) [STUDY_##id] = {name, meaning},
    STUDY_POLICIES(STUDY)
#undef STUDY
};

/* --- placing the other half -------------------------------------------------------------------- */

/* Sets device[count] for one list. */
typedef status list_place(const struct study_options *o, uint32_t list, void *context, uint8_t *device);

static void result_add(struct study_figure *figure, const struct study_options *o, uint32_t list, const uint8_t *device,
                       double *seconds)
{
    const struct place_units *u = o->forests->units[list];
    const double share = 2. / o->forests->count;
    const struct place_result r = place_time(&o->forests->clock, u, o->machine, device);
    uint32_t on_host = 0;
    for (uint32_t i = 0; i < u->count; i++) on_host += device[i] == 0;
    figure->transfers += r.transfers * share;
    figure->transfer_bytes += r.transfer_bytes * share;
    figure->launches += r.launches * share;
    figure->host_share += (double)on_host / u->count * share;
    *seconds += r.seconds * share;
}

static status figure_add(struct study_figure *figure, const struct study_options *o, list_place *place, void *context)
{
    double seconds = 0;
    figure->transfers = figure->transfer_bytes = figure->launches = figure->host_share = figure->placing_seconds = 0;
    for (uint32_t i = o->forests->count / 2; i < o->forests->count; i++) {
        const uint64_t begin_ns = clock_thread_ns();
        TRY(place(o, i, context, o->forests->device));
        figure->placing_seconds += (double)(clock_thread_ns() - begin_ns) * 1e-9 * 2 / o->forests->count;
        result_add(figure, o, i, o->forests->device, &seconds);
    }
    study_range_add(&figure->seconds, seconds);
    return ST_OK;
}

struct maker {
    place_id id;
    struct place_options options;
};

static status list_make(const struct study_options *o, uint32_t list, void *context, uint8_t *device)
{
    struct maker *maker = context;
    const struct forests *f = o->forests;
    maker->options.scratch = f->other;
    maker->options.seed++;
    return place_make(device, maker->id, f->units[list], o->machine, &maker->options, &o->forests->clock);
}

static status maker_add(struct study_figure *figure, const struct study_options *o, place_id id,
                        struct place_options options)
{
    return figure_add(figure, o, list_make, &(struct maker){id, options});
}

static status list_dqn(const struct study_options *o, uint32_t list, void *context, uint8_t *device)
{
    const struct forests *f = o->forests;
    const uint32_t stride = f->node[list].count < f->unit[list].count ? 2 : 1;
    uint8_t node[DQN_NODES_MAX];
    dqn_place(context, f->nodes[list], 0, node);
    for (uint32_t i = 0; i < f->unit[list].count; i++) device[i] = node[i / stride];
    return ST_OK;
}

/* --- learning ---------------------------------------------------------------------------------- */

static void curve_add(struct study_curve *curve, double *window, uint32_t step, double ratio)
{
    if (step % curve->window_steps == 0) *window = 0;
    *window += ratio / curve->window_steps;
    const uint32_t at = step / curve->window_steps;
    if ((step + 1) % curve->window_steps == 0 && at < STUDY_WINDOWS) study_range_add(&curve->ratio[at], *window);
}

struct curve_context {
    struct study_curve *curve;
    double window;
};
static void learned_told(void *context, uint32_t update, double ratio)
{
    struct curve_context *c = context;
    curve_add(c->curve, &c->window, update, ratio);
}
static void dqn_told(void *context, uint32_t episode, double seconds, double seconds_first)
{
    struct curve_context *c = context;
    curve_add(c->curve, &c->window, episode, seconds / seconds_first);
}

static status learned_run(struct study *s, const struct study_options *o, uint64_t seed)
{
    struct curve_context told = {.curve = &s->learned};
    const uint64_t begin_ns = clock_thread_ns();
    s->policy = place_policy_first;
    s->learned.window_steps = o->updates / STUDY_WINDOWS ? o->updates / STUDY_WINDOWS : 1;
    place_learn(&s->policy, &(struct place_learn_options){.lists = o->forests->units,
                                                          .list_count = o->forests->count / 2,
                                                          .machine = o->machine,
                                                          .seed = seed,
                                                          .updates = o->updates,
                                                          .samples = o->samples,
                                                          .clock = &o->forests->clock,
                                                          .device = o->forests->device,
                                                          .told = learned_told,
                                                          .context = &told});
    s->learn_seconds = (double)(clock_thread_ns() - begin_ns) * 1e-9;
    const struct place_options options = {.policy = &s->policy};
    TRY(maker_add(&s->figure[STUDY_learned], o, PLACE_ID_learned, options));
    return maker_add(&s->figure[STUDY_polished], o, PLACE_ID_learned,
                     (struct place_options){.policy = &s->policy, .trials = o->trials});
}

/* A policy learned from disturbed passes (DynPartition, section 9.2). */
static status noisy_run(struct study *s, const struct study_options *o, uint64_t seed)
{
    struct place_policy policy = place_policy_first;
    struct study_figure figure = {0};
    place_learn(&policy, &(struct place_learn_options){.lists = o->forests->units,
                                                       .list_count = o->forests->count / 2,
                                                       .machine = o->machine,
                                                       .seed = seed,
                                                       .updates = o->updates,
                                                       .samples = o->samples,
                                                       .noise = o->noise,
                                                       .clock = &o->forests->clock,
                                                       .device = o->forests->device});
    TRY(maker_add(&figure, o, PLACE_ID_learned, (struct place_options){.policy = &policy}));
    study_range_add(&s->noisy, figure.seconds.sum);
    return ST_OK;
}

static status dqn_run(struct study *s, const struct study_options *o, uint64_t seed)
{
    struct curve_context told = {.curve = &s->dqn};
    struct dqn *agent;
    for (uint32_t i = 0; i < o->forests->count; i++)
        if (o->forests->nodes[i]->count > DQN_NODES_MAX) return ST_OK;
    s->dqn.window_steps = o->dqn_episodes / STUDY_WINDOWS ? o->dqn_episodes / STUDY_WINDOWS : 1;
    TRY(dqn_open(&agent, o->machine->device_count, DQN_AVERAGED, seed));
    dqn_train(agent, &(struct dqn_training){.trees = o->forests->nodes,
                                            .tree_count = o->forests->count / 2,
                                            .machine = o->machine,
                                            .seed = seed,
                                            .episodes = o->dqn_episodes,
                                            .reward = DQN_MILLISECONDS,
                                            .passes = 1,
                                            .clock = &o->forests->clock,
                                            .told = dqn_told,
                                            .context = &told});
    const status st = figure_add(&s->figure[STUDY_dqn], o, list_dqn, agent);
    dqn_close(agent);
    return st;
}

/* --- the whole ---------------------------------------------------------------------------------- */

static status fixed_run(struct study *s, const struct study_options *o)
{
    const bool has_card = o->machine->device_count > 1, has_outputs = o->forests->unit->count > o->forests->node->count;
    struct study_figure other = {0};
    TRY(maker_add(&s->figure[STUDY_host], o, PLACE_ID_left_right, (struct place_options){0}));
    if (has_card)
        TRY(maker_add(&s->figure[STUDY_card], o, PLACE_ID_left_right, (struct place_options){.first = 1, .second = 1}));
    if (has_card)
        TRY(maker_add(&s->figure[STUDY_left_right], o, PLACE_ID_left_right, (struct place_options){.second = 1}));
    if (has_card && has_outputs) {
        TRY(maker_add(&s->figure[STUDY_state_output], o, PLACE_ID_state_output, (struct place_options){.second = 1}));
        TRY(maker_add(&other, o, PLACE_ID_state_output, (struct place_options){.first = 1}));
        if (other.seconds.sum < s->figure[STUDY_state_output].seconds.sum) s->figure[STUDY_state_output] = other;
    }
    return maker_add(&s->figure[STUDY_climbed], o, PLACE_ID_climbed, (struct place_options){.trials = o->trials});
}

status study_run(struct study *s, const struct study_options *o)
{
    *s = (struct study){0};
    const struct forests *f = o->forests;
    CHECK(f->count % 2 == 0);
    TRY(fixed_run(s, o));
    for (uint64_t seed = o->seed; seed < o->seed + o->seeds; seed++) {
        TRY(maker_add(&s->figure[STUDY_random], o, PLACE_ID_random, (struct place_options){.seed = seed * f->count}));
        TRY(learned_run(s, o, seed));
        if (o->noise > 0) TRY(noisy_run(s, o, seed));
        if (o->dqn_episodes > 0) TRY(dqn_run(s, o, seed));
    }
    for (uint32_t i = f->count / 2; i < f->count; i++)
        s->bound_seconds += place_bound(f->units[i], o->machine, f->scratch) * 2 / f->count;
    return ST_OK;
}

/* --- small trees -------------------------------------------------------------------------------- */

static status seconds_of(const struct study_options *o, uint32_t list, place_id id, struct place_options options,
                         double *seconds)
{
    TRY(list_make(o, list, &(struct maker){id, options}, o->forests->device));
    *seconds = place_time(&o->forests->clock, o->forests->units[list], o->machine, o->forests->device).seconds;
    return ST_OK;
}

status study_small_run(struct study_small *small, const struct study_options *o)
{
    struct study learning = {0};
    const struct forests *f = o->forests;
    const double share = 2. / f->count;
    *small = (struct study_small){.lists = f->count / 2};
    TRY(learned_run(&learning, o, o->seed));
    const struct place_options learned = {.policy = &learning.policy},
                               polished = {.policy = &learning.policy, .trials = o->trials};
    for (uint32_t i = f->count / 2; i < f->count; i++) {
        double exact, seconds;
        TRY(seconds_of(o, i, PLACE_ID_exact, (struct place_options){0}, &exact));
        bool is_mixed = false;
        for (uint32_t k = 1; k < f->unit[i].count; k++) is_mixed = is_mixed || f->device[k] != f->device[0];
        small->mixed += is_mixed;
        small->exact_seconds += exact * share;
        small->bound_ratio += place_bound(f->units[i], o->machine, f->scratch) / exact * share;
        TRY(seconds_of(o, i, PLACE_ID_learned, learned, &seconds));
        small->learned_ratio += seconds / exact * share;
        small->learned_worst = fmax(small->learned_worst, seconds / exact);
        TRY(seconds_of(o, i, PLACE_ID_learned, polished, &seconds));
        small->polished_ratio += seconds / exact * share;
        small->polished_worst = fmax(small->polished_worst, seconds / exact);
        TRY(seconds_of(o, i, PLACE_ID_climbed, polished, &seconds));
        small->climbed_ratio += seconds / exact * share;
        TRY(seconds_of(o, i, PLACE_ID_one, learned, &seconds));
        small->one_ratio += seconds / exact * share;
    }
    return ST_OK;
}
