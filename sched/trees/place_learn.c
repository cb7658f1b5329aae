/* The walk of the learned policy over batches, and how it learns. */
#include "sched/trees/place_learn.h"

#include <math.h>
#include <string.h>

#define RATE         0.1 /* Adam's */
#define ADAM_BETA1   0.9
#define ADAM_BETA2   0.999
#define ADAM_TINY    1e-8
#define TRIED_EVERY  10u /* updates between two trials on all lists by most probable devices */
#define FEATURE_MOST 8.0

const struct place_policy place_policy_first = {{[PLACE_SEES_END] = -4, [PLACE_SEES_BESIDE] = 1}};

/* --- the walk --------------------------------------------------------------------------------- */

struct walk {
    const struct place_units *u;
    const struct place_machine *m;
    struct place_clock *clock;
    /* of a batch */
    uint32_t batch, width;
    double scale;                      /* the batch's least seconds on a device */
    uint32_t count[PLACE_DEVICES_MAX]; /* units placed there so far     */
    double coming[PLACE_DEVICES_MAX];  /* seconds of travel to a device */
    double ready[PLACE_DEVICES_MAX];   /* when inputs are there         */
    double above[PLACE_DEVICES_MAX];   /* seconds of later batches      */
};

/* The features of a piece. */
struct sight {
    double feature[PLACE_DEVICES_MAX][PLACE_FEATURES];
    double coming[PLACE_DEVICES_MAX], ready[PLACE_DEVICES_MAX];
};

static void batch_begin(struct walk *w, uint32_t batch)
{
    w->batch = batch;
    w->width = w->u->it.batch_begin[batch + 1] - w->u->it.batch_begin[batch];
    w->scale = INFINITY;
    for (uint32_t d = 0; d < w->m->device_count; d++) {
        const double seconds = place_seconds(w->m, d, w->u->it.batch_kind[batch], w->width);
        w->scale = fmin(w->scale, seconds);
        w->above[d] = fmax(0, w->above[d] - seconds);
        w->coming[d] = w->ready[d] = 0;
        w->count[d] = 0;
    }
}

/* Finds the times that a piece's inputs take to each device. Returns the number of its children. */
static uint32_t inputs_see(const struct walk *w, uint32_t begin, uint32_t end, struct sight *sight,
                           uint32_t beside[PLACE_DEVICES_MAX])
{
    const struct place_units *u = w->u;
    const struct place_machine *m = w->m;
    uint32_t children = 0;
    bool has_message[PLACE_DEVICES_MAX][PLACE_DEVICES_MAX] = {0};
    for (uint32_t i = begin; i < end; i++) {
        const uint32_t unit = u->it.order[i];
        const double input = m->input_bytes[u->kind[unit]];
        for (uint32_t d = 1; d < m->device_count && input > 0; d++) {
            sight->coming[d] += input * m->link[0][d].a_byte;
            has_message[0][d] = true;
        }
        for (uint32_t e = u->child_begin[unit]; e < u->child_begin[unit + 1]; e++) {
            const uint32_t child = u->child[e], from = w->clock->device[child];
            const double *there = w->clock->there[child];
            children++;
            beside[from]++;
            for (uint32_t d = 0; d < m->device_count; d++) {
                const bool is_there = there[d] >= 0;
                sight->ready[d] = fmax(sight->ready[d], is_there ? there[d] : there[from]);
                if (is_there) continue;
                sight->coming[d] += m->bytes[u->kind[child]] * m->link[from][d].a_byte;
                has_message[from][d] = true;
            }
        }
    }
    for (uint32_t d = 0; d < m->device_count; d++)
        for (uint32_t from = 0; from < m->device_count && w->coming[d] == 0; from++)
            if (has_message[from][d]) sight->coming[d] += m->link[from][d].latency;
    return children;
}

static void piece_see(const struct walk *w, uint32_t begin, uint32_t end, struct sight *sight)
{
    const uint32_t D = w->m->device_count, kind = w->u->it.batch_kind[w->batch], size = end - begin,
                   slack = w->u->piece[w->u->it.order[begin]] / PLACE_STRETCHES;
    double done[PLACE_DEVICES_MAX], done_least = INFINITY, busy_least = INFINITY, above_least = INFINITY;
    uint32_t beside[PLACE_DEVICES_MAX] = {0};
    memset(sight, 0, sizeof *sight);
    const uint32_t children = inputs_see(w, begin, end, sight, beside);
    for (uint32_t d = 0; d < D; d++) {
        const double busy = w->clock->busy_until[d];
        const double at = fmax(busy, fmax(w->ready[d], sight->ready[d]) + w->coming[d] + sight->coming[d]);
        done[d] = at + place_seconds(w->m, d, kind, w->count[d] + size);
        done_least = fmin(done_least, done[d]);
        busy_least = fmin(busy_least, busy);
        above_least = fmin(above_least, w->above[d]);
    }
    for (uint32_t d = 0; d < D; d++) {
        double *feature = sight->feature[d];
        const double added =
            place_seconds(w->m, d, kind, w->count[d] + size) - place_seconds(w->m, d, kind, w->count[d]);
        feature[PLACE_SEES_END] = (done[d] - done_least) / w->scale;
        feature[PLACE_SEES_ADDED] = added / w->scale;
        feature[PLACE_SEES_MOVED] = sight->coming[d] / w->scale;
        feature[PLACE_SEES_BESIDE] = children ? (double)beside[d] / children : 0;
        feature[PLACE_SEES_SHARED] = w->count[d] > 0;
        feature[PLACE_SEES_ABOVE] = above_least > 0 ? w->above[d] / above_least - 1 : 0;
        feature[PLACE_SEES_BUSY] = (w->clock->busy_until[d] - busy_least) / w->scale;
        feature[PLACE_SEES_HOST] = d == 0;
        feature[PLACE_SEES_WIDTH] = d == 0 ? log2(w->width) / 8 : 0;
        feature[PLACE_SEES_SLACK] = d == 0 ? (double)slack / (PLACE_SLACKS - 1) : 0;
        for (uint32_t i = 0; i < PLACE_FEATURES; i++) feature[i] = fmin(feature[i], FEATURE_MOST);
    }
}

/* Draws a device, or takes the most probable one, of equals the first. */
static uint32_t device_choose(const struct place_policy *policy, const struct sight *sight, uint32_t D,
                              struct draw *draw, double *gradient)
{
    double p[PLACE_DEVICES_MAX], most = -INFINITY, sum = 0;
    uint32_t chosen = 0;
    for (uint32_t d = 0; d < D; d++) {
        p[d] = 0;
        for (uint32_t f = 0; f < PLACE_FEATURES; f++) p[d] += (double)policy->weight[f] * sight->feature[d][f];
        if (p[d] > most) most = p[d], chosen = d;
    }
    if (draw == NULL) return chosen;
    for (uint32_t d = 0; d < D; d++) sum += p[d] = exp(p[d] - most);
    double at = draw_unit(draw) * sum;
    for (chosen = 0; chosen + 1 < D && at >= p[chosen]; chosen++) at -= p[chosen];
    for (uint32_t f = 0; f < PLACE_FEATURES; f++) {
        gradient[f] += sight->feature[chosen][f];
        for (uint32_t d = 0; d < D; d++) gradient[f] -= p[d] / sum * sight->feature[d][f];
    }
    return chosen;
}

static void batch_walk(struct walk *w, uint8_t *device, const struct place_policy *policy, struct draw *draw,
                       double *gradient)
{
    const struct itinerary *it = &w->u->it;
    const uint32_t last = it->batch_begin[w->batch + 1];
    for (uint32_t begin = it->batch_begin[w->batch], end; begin < last; begin = end) {
        const uint32_t piece = w->u->piece[it->order[begin]];
        struct sight sight;
        for (end = begin + 1; end < last && w->u->piece[it->order[end]] == piece;) end++;
        piece_see(w, begin, end, &sight);
        const uint32_t d = device_choose(policy, &sight, w->m->device_count, draw, gradient);
        for (uint32_t i = begin; i < end; i++) device[it->order[i]] = (uint8_t)d;
        w->count[d] += end - begin;
        w->coming[d] += sight.coming[d];
        w->ready[d] = fmax(w->ready[d], sight.ready[d]);
    }
    place_clock_add_batch(w->clock, w->u, w->m, w->batch, device);
}

double place_walk(uint8_t *device, const struct place_policy *policy, const struct place_units *u,
                  const struct place_machine *m, struct place_clock *clock, struct draw *draw, double *gradient)
{
    struct walk w = {.u = u, .m = m, .clock = clock};
    CHECK(m->is_together && u->it.batch_count > 0);
    for (uint32_t b = 0; b < u->it.batch_count; b++)
        for (uint32_t d = 0; d < m->device_count; d++)
            w.above[d] += place_seconds(m, d, u->it.batch_kind[b], u->it.batch_begin[b + 1] - u->it.batch_begin[b]);
    place_clock_begin(clock);
    for (uint32_t b = 0; b < u->it.batch_count; b++) {
        batch_begin(&w, b);
        batch_walk(&w, device, policy, draw, gradient);
    }
    place_clock_end(clock, u, m);
    return clock->result.seconds;
}

/* --- learning --------------------------------------------------------------------------------- */

#define SAMPLES_MAX 64u

struct learner {
    const struct place_learn_options *o;
    struct draw draw;
    double gradient[SAMPLES_MAX][PLACE_FEATURES], ratio[SAMPLES_MAX];
    double mean[PLACE_FEATURES], square[PLACE_FEATURES];
    uint32_t steps;
};

static double host_seconds(const struct place_learn_options *o, const struct place_units *u)
{
    memset(o->device, 0, u->count);
    return place_time(o->clock, u, o->machine, o->device).seconds;
}

static double noisy(struct learner *l, double seconds)
{
    return l->o->noise > 0 ? seconds * (1 - l->o->noise * log(draw_unit(&l->draw))) : seconds;
}

/* The mean ratio over all lists, by most probable devices. */
static double ratio_of(struct learner *l, const struct place_policy *policy)
{
    const struct place_learn_options *o = l->o;
    double ratio = 0;
    for (uint32_t i = 0; i < o->list_count; i++) {
        const double host = host_seconds(o, o->lists[i]);
        const double own = place_walk(o->device, policy, o->lists[i], o->machine, o->clock, NULL, NULL);
        ratio += noisy(l, own) / host / o->list_count;
    }
    return ratio;
}

/* Kingma and Ba 2015, Algorithm 1, uphill. */
static void weights_step(struct learner *l, struct place_policy *policy, const double *gradient)
{
    l->steps++;
    const double mean_scale = 1 / (1 - pow(ADAM_BETA1, l->steps)), square_scale = 1 / (1 - pow(ADAM_BETA2, l->steps));
    for (uint32_t f = 0; f < PLACE_FEATURES; f++) {
        l->mean[f] = ADAM_BETA1 * l->mean[f] + (1 - ADAM_BETA1) * gradient[f];
        l->square[f] = ADAM_BETA2 * l->square[f] + (1 - ADAM_BETA2) * gradient[f] * gradient[f];
        policy->weight[f] += (float)(RATE * l->mean[f] * mean_scale / (sqrt(l->square[f] * square_scale) + ADAM_TINY));
    }
}

/* Learns from samples of one list. Returns their mean ratio. */
static double update_run(struct learner *l, struct place_policy *policy)
{
    const struct place_learn_options *o = l->o;
    const struct place_units *u = o->lists[draw_below(&l->draw, o->list_count)];
    const double host = host_seconds(o, u);
    double mean = 0, square = 0, step[PLACE_FEATURES] = {0};
    memset(l->gradient, 0, sizeof l->gradient);
    for (uint32_t s = 0; s < o->samples; s++) {
        const double own = place_walk(o->device, policy, u, o->machine, o->clock, &l->draw, l->gradient[s]);
        l->ratio[s] = noisy(l, own) / host;
        mean += l->ratio[s] / o->samples;
    }
    for (uint32_t s = 0; s < o->samples; s++) square += (l->ratio[s] - mean) * (l->ratio[s] - mean) / o->samples;
    if (square <= 0) return mean; /* all took the same time: there is nothing to learn */
    for (uint32_t s = 0; s < o->samples; s++)
        for (uint32_t f = 0; f < PLACE_FEATURES; f++)
            step[f] += (mean - l->ratio[s]) / sqrt(square) * l->gradient[s][f] / o->samples;
    weights_step(l, policy, step);
    return mean;
}

double place_learn(struct place_policy *policy, const struct place_learn_options *o)
{
    struct learner l = {.o = o, .draw = draw_make(o->seed, DRAW_PLACE_LEARN)};
    struct place_policy now = *policy;
    double best = ratio_of(&l, policy);
    CHECK(o->samples >= 2 && o->samples <= SAMPLES_MAX);
    for (uint32_t i = 1; i <= o->updates; i++) {
        const double ratio = update_run(&l, &now);
        if (o->told) o->told(o->context, i - 1, ratio);
        if (i % TRIED_EVERY != 0 && i != o->updates) continue;
        const double tried = ratio_of(&l, &now);
        if (tried >= best) continue;
        best = tried;
        *policy = now;
    }
    return best;
}
