/* Bayesian optimisation: a Gaussian process (Rasmussen and Williams 2006, algorithm 2.1) predicts the
 * logarithm of a plan's score from the plans seen, and the plan of greatest expected improvement (Mockus
 * 1975; Jones, Schonlau, Welch 1998, formula 15) is evaluated next.
 *
 * Plans are compared layer by layer and boundary by boundary: k(x, y) = exp(-theta h - theta_b b), where h
 * layers have different types and b boundaries between stages are in one plan only. theta is chosen from a
 * grid by marginal likelihood, the scale of the process in closed form.
 *
 * Cost: the process sees a window of WINDOW plans: the best, and of the others the latest. A round takes
 * O(WINDOW^3) for the Cholesky factor and O(WINDOW^2) a candidate, about a millisecond; an evaluation takes a
 * microsecond. So at first a round evaluates the best candidate alone; after n evaluations it evaluates 1 + n
 * / EVALUATIONS_PER_ROUND, and N evaluations take O(EVALUATIONS_PER_ROUND log N) rounds. A ceiling of seconds
 * is reached long before the evaluations. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "engine/base/fmath.h"
#include "sched/draw.h"
#include "sched/method.h"

#define WINDOW                128u
#define WINDOW_BEST           96u /* best plans of the window */
#define FIRST                 32u /* random plans before the first round */
#define EVALUATIONS_PER_ROUND 2048u
#define CANDIDATES            128u /* in a round; more where more are evaluated */
#define CANDIDATES_PER_PICK   2u
#define CANDIDATES_MAX        4096u
#define NUGGET                1e-4
#define SCORE_LEAST           1e-300 /* scores enter by their logarithm, and free plans cost 0 */
#define ROUNDS_PER_FIT        32u    /* theta is chosen anew after these */
#define SEEN_BITS             ((uint64_t)1 << 22)
#define SEGMENTS_MAX          4u /* of a random plan that is not uniform */

struct candidate {
    double improvement; /* expected; of the standardised logarithm */
    uint32_t plan;      /* its index in `proposed` */
};

struct bo {
    struct search *search;
    struct draw draw;
    uint32_t L, T;
    /* the window: [0, best_count) by score, then [WINDOW_BEST, …) in a ring */
    type_index *plans;   /* [WINDOW, L] */
    uint8_t *boundaries; /* [WINDOW, L] */
    double score[WINDOW];
    uint32_t best_count, other_count, other_next;
    uint32_t order[WINDOW]; /* places of the window in use; [count] */
    uint32_t count;
    /* the process */
    double *upper;         /* [WINDOW, WINDOW]: Cholesky factor U of K = U^T U, rows */
    double weight[WINDOW]; /* K^-1 y */
    double scale;          /* variance */
    double target_best;
    double *by_layers, *by_boundaries; /* exp(-theta h) [L + 1] */
    uint32_t theta;                    /* of the grid */
    /* candidates */
    type_index *proposed; /* [CANDIDATES_MAX, L] */
    struct candidate *candidates;
    uint8_t *boundary; /* [L] scratch */
    uint8_t *seen;     /* bits by hash: a plan is evaluated once; few new plans share a bit */
};

/* --- plans seen -------------------------------------------------------------------------------- */

static type_index *plan_at(const struct bo *b, uint32_t place) { return b->plans + (size_t)place * b->L; }
static type_index *proposed_at(const struct bo *b, uint32_t plan) { return b->proposed + (size_t)plan * b->L; }

static void boundaries_of(uint8_t *boundary, const type_index *types, uint32_t L)
{
    boundary[0] = 0;
    for (uint32_t l = 1; l < L; l++) boundary[l] = types[l] != types[l - 1];
}

static uint64_t seen_bit(const struct bo *b, const type_index *types)
{
    return XXH3_64bits(types, b->L * sizeof *types) % SEEN_BITS;
}
static bool is_seen(const struct bo *b, const type_index *types)
{
    uint64_t bit = seen_bit(b, types);
    return b->seen[bit / 8] >> (bit % 8) & 1;
}

static void place(struct bo *b, uint32_t at, const type_index *types, double score)
{
    memcpy(plan_at(b, at), types, b->L * sizeof *types);
    boundaries_of(b->boundaries + (size_t)at * b->L, types, b->L);
    b->score[at] = score;
}

static void place_other(struct bo *b, const type_index *types, double score)
{
    place(b, WINDOW_BEST + b->other_next, types, score);
    b->other_next = (b->other_next + 1) % (WINDOW - WINDOW_BEST);
    if (b->other_count < WINDOW - WINDOW_BEST) b->other_count++;
}

/* Evaluates a plan, and takes it into the window if it is new. */
static void observe(struct bo *b, const type_index *types)
{
    uint64_t bit = seen_bit(b, types);
    double score = search_evaluate(b->search, types);
    if (isinf(score) || is_seen(b, types)) return; /* infinite: the search is over */
    b->seen[bit / 8] |= (uint8_t)(1 << bit % 8);
    if (b->best_count < WINDOW_BEST) {
        place(b, b->best_count++, types, score);
        return;
    }
    uint32_t worst = 0;
    for (uint32_t n = 1; n < WINDOW_BEST; n++)
        if (b->score[n] > b->score[worst]) worst = n;
    if (score < b->score[worst]) {
        place_other(b, plan_at(b, worst), b->score[worst]);
        place(b, worst, types, score);
    } else
        place_other(b, types, score);
}

/* --- the process ------------------------------------------------------------------------------- */

/* theta times the number of layers; theta_b over theta. */
static const double theta_grid[] = {1, 2, 4, 8, 16}, boundary_grid[] = {0, 1};
#define GRID_THETAS (uint32_t)(sizeof theta_grid / sizeof *theta_grid)
#define GRID_COUNT  (GRID_THETAS * (uint32_t)(sizeof boundary_grid / sizeof *boundary_grid))

static void kernel_set(struct bo *b, uint32_t theta)
{
    double by_layer = theta_grid[theta % GRID_THETAS] / b->L,
           by_boundary = by_layer * boundary_grid[theta / GRID_THETAS];
    b->theta = theta;
    for (uint32_t distance = 0; distance <= b->L; distance++) {
        b->by_layers[distance] = fmath_exp(-by_layer * distance);
        b->by_boundaries[distance] = fmath_exp(-by_boundary * distance);
    }
}

static double kernel(const struct bo *b, const type_index *types, const uint8_t *boundary, uint32_t other_place)
{
    const type_index *others = plan_at(b, other_place);
    const uint8_t *other_boundary = b->boundaries + (size_t)other_place * b->L;
    uint32_t layers = 0, boundaries = 0;
    for (uint32_t l = 0; l < b->L; l++) layers += types[l] != others[l];
    for (uint32_t l = 0; l < b->L; l++) boundaries += boundary[l] ^ other_boundary[l];
    return b->by_layers[layers] * b->by_boundaries[boundaries];
}

/* v := U^-T v, column by column, so that the inner loop has no sum to carry. */
static void solve_forward(const struct bo *b, double *v)
{
    for (uint32_t at = 0; at < b->count; at++) {
        const double *row = b->upper + (size_t)at * WINDOW;
        double x = v[at] /= row[at];
        for (uint32_t j = at + 1; j < b->count; j++) v[j] -= x * row[j];
    }
}

/* Sets the factor of K, the weights and the scale for targets y; returns the logarithm of the
 * marginal likelihood, less a constant. */
static double factor(struct bo *b, const double *y)
{
    uint32_t n = b->count;
    for (uint32_t i = 0; i < n; i++) {
        const type_index *types = plan_at(b, b->order[i]);
        const uint8_t *boundary = b->boundaries + (size_t)b->order[i] * b->L;
        double *row = b->upper + (size_t)i * WINDOW;
        for (uint32_t j = i; j < n; j++) row[j] = kernel(b, types, boundary, b->order[j]);
        row[i] += NUGGET;
    }
    double log_determinant = 0;
    for (uint32_t at = 0; at < n; at++) {
        double *row = b->upper + (size_t)at * WINDOW;
        double pivot = sqrt(row[at]);
        log_determinant += fmath_log(pivot);
        for (uint32_t j = at; j < n; j++) row[j] /= pivot;
        for (uint32_t i = at + 1; i < n; i++) {
            double *below = b->upper + (size_t)i * WINDOW, x = row[i];
            for (uint32_t j = i; j < n; j++) below[j] -= x * row[j];
        }
    }
    memcpy(b->weight, y, n * sizeof *y);
    solve_forward(b, b->weight);
    double sum = 0;
    for (uint32_t i = 0; i < n; i++) sum += b->weight[i] * b->weight[i];
    b->scale = sum / n;
    for (uint32_t at = n; at-- > 0;) {
        const double *row = b->upper + (size_t)at * WINDOW;
        double x = b->weight[at];
        for (uint32_t j = at + 1; j < n; j++) x -= row[j] * b->weight[j];
        b->weight[at] = x / row[at];
    }
    return -0.5 * n * fmath_log(b->scale + 1e-300) - log_determinant;
}

/* Learns from the window as it is. */
static void learn(struct bo *b, bool fits)
{
    double y[WINDOW], mean = 0, variance = 0;
    b->count = 0;
    for (uint32_t n = 0; n < b->best_count; n++) b->order[b->count++] = n;
    for (uint32_t n = 0; n < b->other_count; n++) b->order[b->count++] = WINDOW_BEST + n;
    for (uint32_t i = 0; i < b->count; i++) mean += y[i] = fmath_log(fmax(b->score[b->order[i]], SCORE_LEAST));
    mean /= b->count;
    for (uint32_t i = 0; i < b->count; i++) variance += (y[i] - mean) * (y[i] - mean);
    double deviation = sqrt(variance / b->count) + 1e-12;
    b->target_best = INFINITY;
    for (uint32_t i = 0; i < b->count; i++) {
        y[i] = (y[i] - mean) / deviation;
        if (y[i] < b->target_best) b->target_best = y[i];
    }
    if (fits) {
        double best = -INFINITY;
        uint32_t chosen = 0;
        for (uint32_t theta = 0; theta < GRID_COUNT; theta++) {
            kernel_set(b, theta);
            double likelihood = factor(b, y);
            if (likelihood > best) {
                best = likelihood;
                chosen = theta;
            }
        }
        kernel_set(b, chosen);
    }
    factor(b, y);
}

/* --- expected improvement ----------------------------------------------------------------------- */

#define SQRT_2PI 2.5066282746310002

/* phi(z) + z Phi(z) for the standard normal: the mean improvement on a minimum, in deviations. */
static double improvement_standard(double z)
{
    double x = fabs(z), density = fmath_exp(-0.5 * x * x) / SQRT_2PI, below;
    if (x < 1) {
        /* Abramowitz and Stegun 1964, 26.2.17: the tail to 7.5e-8. */
        double t = 1 / (1 + 0.2316419 * x);
        double tail =
            density * t * (0.319381530 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429))));
        below = density - x * tail;
    } else {
        /* Tail over density is 1 / (x + rest), with Laplace's continued fraction rest = 1 / (x +
         * 2 / (x + …)): nothing cancels. */
        double rest = 0;
        for (int n = 40; n >= 1; n--) rest = n / (x + rest);
        below = density * rest / (x + rest);
    }
    return z > 0 ? z + below : below;
}

static double improvement(const struct bo *b, const type_index *types)
{
    double k[WINDOW], mean = 0, explained = 0;
    boundaries_of(b->boundary, types, b->L);
    for (uint32_t i = 0; i < b->count; i++) k[i] = kernel(b, types, b->boundary, b->order[i]);
    for (uint32_t i = 0; i < b->count; i++) mean += k[i] * b->weight[i];
    solve_forward(b, k);
    for (uint32_t i = 0; i < b->count; i++) explained += k[i] * k[i];
    double variance = b->scale * (1 + NUGGET - explained);
    if (!(variance > 0)) return mean < b->target_best ? b->target_best - mean : 0;
    double deviation = sqrt(variance);
    return deviation * improvement_standard((b->target_best - mean) / deviation);
}

/* --- candidates --------------------------------------------------------------------------------- */

static void propose_random(struct bo *b, type_index *types)
{
    if (draw_below(&b->draw, 2))
        draw_plan_uniform(&b->draw, types, b->L, b->T);
    else
        draw_plan_segments(&b->draw, types, b->L, b->T, 1 + draw_below(&b->draw, SEGMENTS_MAX));
}

/* One to three runs of layers, mostly short ones, get the type of some layer of the plan, or any type. */
static void propose_near(struct bo *b, type_index *types)
{
    struct draw *d = &b->draw;
    for (uint32_t n = 1 + draw_below(d, 3); n > 0; n--) {
        uint32_t begin = draw_below(d, b->L), end = begin + 1 + draw_below(d, 1 + draw_below(d, b->L - begin));
        type_index type = draw_below(d, 2) ? types[draw_below(d, b->L)] : (type_index)draw_below(d, b->T);
        for (uint32_t l = begin; l < end; l++) types[l] = type;
    }
}

static int by_improvement(const void *left, const void *right)
{
    const struct candidate *one = left, *other = right;
    if (one->improvement != other->improvement) return one->improvement > other->improvement ? -1 : 1;
    return one->plan < other->plan ? -1 : one->plan > other->plan;
}

/* One of the best plans of the window, the better the likelier. */
static uint32_t parent(struct bo *b)
{
    uint32_t best = draw_below(&b->draw, b->best_count);
    for (int n = 0; n < 3; n++) {
        uint32_t other = draw_below(&b->draw, b->best_count);
        if (b->score[other] < b->score[best]) best = other;
    }
    return best;
}

/* Candidates by expected improvement, best first: a quarter random, a quarter near the best plans, and then,
 * in two goes, near the best candidates so far. Returns how many. */
static uint32_t propose(struct bo *b, uint32_t wanted)
{
    uint32_t count = 0;
    for (uint32_t n = 0; n < wanted; n++) {
        type_index *types = proposed_at(b, count);
        size_t bytes = b->L * sizeof *types;
        if (n == wanted / 2 || n == wanted / 4 * 3) qsort(b->candidates, count, sizeof *b->candidates, by_improvement);
        if (n < wanted / 4 || count == 0)
            propose_random(b, types);
        else {
            uint32_t best = draw_below(&b->draw, 1 + count / 16);
            memcpy(types, n < wanted / 2 ? plan_at(b, parent(b)) : proposed_at(b, b->candidates[best].plan), bytes);
            propose_near(b, types);
        }
        if (is_seen(b, types)) continue;
        b->candidates[count] = (struct candidate){improvement(b, types), count};
        count++;
    }
    qsort(b->candidates, count, sizeof *b->candidates, by_improvement);
    return count;
}

/* Learns, and evaluates the best candidates. */
static void round_run(struct bo *b, bool fits)
{
    struct search *s = b->search;
    uint32_t picks = CANDIDATES_MAX / CANDIDATES_PER_PICK;
    if (s->evaluations / EVALUATIONS_PER_ROUND < picks) picks = 1 + (uint32_t)(s->evaluations / EVALUATIONS_PER_ROUND);
    learn(b, fits);
    uint32_t count = propose(b, CANDIDATES > picks * CANDIDATES_PER_PICK ? CANDIDATES : picks * CANDIDATES_PER_PICK);
    for (uint32_t n = 0; n < count && picks > 0; n++) {
        const type_index *types = proposed_at(b, b->candidates[n].plan);
        /* The same plan may be proposed twice in a round. */
        if (is_seen(b, types)) continue;
        observe(b, types);
        picks--;
    }
    /* In a small problem all candidates may have been seen: other plans are drawn at random. */
    for (uint32_t n = 0; count == 0 && n < CANDIDATES_MAX; n++) {
        propose_random(b, b->proposed);
        observe(b, b->proposed);
    }
}

static void bo_free(struct bo *b)
{
    free(b->plans);
    free(b->boundaries);
    free(b->upper);
    free(b->by_layers);
    free(b->by_boundaries);
    free(b->proposed);
    free(b->candidates);
    free(b->boundary);
    free(b->seen);
}

status method_bo(struct search *s)
{
    uint32_t L = s->model->layer_count;
    struct bo b = {.search = s, .L = L, .T = s->model->type_count, .draw = draw_make(s->options.seed, DRAW_BO)};
    b.plans = calloc((size_t)WINDOW * L, sizeof *b.plans);
    b.boundaries = calloc((size_t)WINDOW * L, sizeof *b.boundaries);
    b.upper = calloc((size_t)WINDOW * WINDOW, sizeof *b.upper);
    b.by_layers = calloc(L + 1, sizeof *b.by_layers);
    b.by_boundaries = calloc(L + 1, sizeof *b.by_boundaries);
    b.proposed = calloc((size_t)CANDIDATES_MAX * L, sizeof *b.proposed);
    b.candidates = calloc(CANDIDATES_MAX, sizeof *b.candidates);
    b.boundary = calloc(L, sizeof *b.boundary);
    b.seen = calloc(SEEN_BITS / 8, 1);
    if (!b.plans || !b.boundaries || !b.upper || !b.by_layers || !b.by_boundaries || !b.proposed || !b.candidates ||
        !b.boundary || !b.seen) {
        bo_free(&b);
        FAIL(MEMORY, "no memory for Bayesian optimisation over %u layers", L);
    }
    for (uint32_t n = 0; n < FIRST; n++) {
        propose_random(&b, b.proposed);
        observe(&b, b.proposed);
    }
    for (uint32_t round = 0; b.best_count > 0; round++) {
        /* A round takes milliseconds: the clock is read before each. */
        s->next_look = 0;
        if (search_is_over(s)) break;
        round_run(&b, round % ROUNDS_PER_FIT == 0);
    }
    bo_free(&b);
    return ST_OK;
}
