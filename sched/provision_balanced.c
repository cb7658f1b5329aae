/* The provision of HeterPS, section 5.1, for comparison with the exact one: all stages are equally
 * fast, k is any real number, the cost as a function of one stage's k_1 is minimised by Newton's
 * method, and the result is rounded.
 *
 * Departs from the paper where the paper's way fails. k_1 is that of the stage that is slowest on one unit,
 * not of the first: with any other, the slowest stage might not keep up on any number of units. A stage that
 * is faster than the others on one unit keeps one.
 *
 * With tau = ET_1(k_1), formula 12 is k_i = shared_i / (tau - fixed_i), of computation or of communication,
 * whichever is more; the cost is proportional to tau * sum of price_i k_i. Each term, s tau / (tau - f) = s +
 * s f / (tau - f) or tau alone, is convex in tau, and tau falls with k_1. So the derivative over k_1 changes
 * its sign at most once, perhaps where two pieces meet. */
#include <math.h>

#include "sched/provision.h"

/* A number of units and its derivatives over tau. */
struct units {
    double k, d1, d2;
};

static struct units units_of(double fixed, double shared, double tau)
{
    if (fixed + shared <= tau) return (struct units){1, 0, 0};
    double over = tau - fixed;
    if (!(over > 0)) return (struct units){INFINITY, 0, 0};
    return (struct units){shared / over, -shared / (over * over), 2 * shared / (over * over * over)};
}

/* Formula 12. */
static struct units balanced(const struct cost_time *t, double tau)
{
    struct units compute = units_of(t->compute, t->compute_shared, tau), move = units_of(t->move, t->move_shared, tau);
    return compute.k >= move.k ? compute : move;
}

static uint32_t slowest_on_one(const struct cost_stage *stages, uint32_t count)
{
    uint32_t at = 0;
    for (uint32_t s = 1; s < count; s++)
        if (cost_et(&stages[s].time, 1) > cost_et(&stages[at].time, 1)) at = s;
    return at;
}

/* Whether formula 10 holds for all types if the stage has k_1 units. */
static bool is_within_limits(const struct cost_model *m, const struct cost_stage *stages, uint32_t count,
                             uint32_t stage, double k_1)
{
    double tau = cost_et(&stages[stage].time, k_1);
    for (uint32_t s = 0; s < count; s++) {
        double used = 0;
        for (uint32_t other = 0; other < count; other++) {
            if (stages[other].type != stages[s].type) continue;
            used += other == stage ? k_1 : balanced(&stages[other].time, tau).k;
        }
        if (!(used <= m->limit[stages[s].type])) return false;
    }
    return true;
}

double provision_balance_cost(const struct cost_model *m, const struct cost_stage *stages, uint32_t count,
                              uint32_t stage, double k_1)
{
    double tau = cost_et(&stages[stage].time, k_1), rate = cost_nodes_price(m, stages, count);
    for (uint32_t s = 0; s < count; s++)
        rate += m->price[stages[s].type] * (s == stage ? k_1 : balanced(&stages[s].time, tau).k);
    return m->usd_per_rate * tau * rate;
}

/* First and second derivative of the cost over k_1, by the chain rule through tau. */
static void derivatives(const struct cost_model *m, const struct cost_stage *stages, uint32_t count, uint32_t stage,
                        double k_1, double *first, double *second)
{
    const struct cost_time *t = &stages[stage].time;
    double compute = t->compute + t->compute_shared / k_1, move = t->move + t->move_shared / k_1;
    double shared = compute >= move ? t->compute_shared : t->move_shared;
    double tau = compute >= move ? compute : move;
    double dtau = -shared / (k_1 * k_1), d2tau = 2 * shared / (k_1 * k_1 * k_1);
    /* The rate, the sum of price k, and its derivatives over tau; rate_own: the stage's own over k_1. */
    double rate = m->price[stages[stage].type] * k_1 + cost_nodes_price(m, stages, count),
           rate_own = m->price[stages[stage].type], rate_d1 = 0, rate_d2 = 0;
    for (uint32_t s = 0; s < count; s++) {
        if (s == stage) continue;
        struct units units = balanced(&stages[s].time, tau);
        rate += m->price[stages[s].type] * units.k;
        rate_d1 += m->price[stages[s].type] * units.d1;
        rate_d2 += m->price[stages[s].type] * units.d2;
    }
    double drate = rate_own + rate_d1 * dtau, d2rate = rate_d2 * dtau * dtau + rate_d1 * d2tau;
    *first = dtau * rate + tau * drate;
    *second = d2tau * rate + 2 * dtau * drate + tau * d2rate;
}

#define HALVINGS_MAX 200 /* more than the bits of a double: the loops end before */
#define EPSILON      1e-13

/* The greatest k_1 that the limits allow; k_least is within them. */
static double limit_of(const struct cost_model *m, const struct cost_stage *stages, uint32_t count, uint32_t stage,
                       double k_least)
{
    double within = k_least, beyond = m->limit[stages[stage].type];
    if (is_within_limits(m, stages, count, stage, beyond)) return beyond;
    for (int n = 0; n < HALVINGS_MAX && beyond - within > EPSILON * within; n++) {
        double middle = within + (beyond - within) / 2;
        if (is_within_limits(m, stages, count, stage, middle))
            within = middle;
        else
            beyond = middle;
    }
    return within;
}

bool provision_balance(const struct cost_model *m, const struct cost_stage *stages, uint32_t count,
                       struct provision_balance *b)
{
    b->stage = slowest_on_one(stages, count);
    /* Formula 13, corrected. */
    b->k_least = balanced(&stages[b->stage].time, m->tau_max).k;
    if (!is_within_limits(m, stages, count, b->stage, b->k_least)) return false;
    b->k_max = limit_of(m, stages, count, b->stage, b->k_least);

    double low = b->k_least, high = b->k_max, k = low, first, second;
    for (int n = 0; n < HALVINGS_MAX && high - low > EPSILON * high; n++) {
        derivatives(m, stages, count, b->stage, k, &first, &second);
        if (first >= 0)
            high = k;
        else
            low = k;
        double next = k - first / second;
        /* Every third step halves, as the derivative jumps where pieces meet. */
        if (!(second > 0) || !(next > low && next < high) || n % 3 == 2) {
            next = low + (high - low) / 2;
        } else if (fabs(next - k) <= EPSILON * k) {
            k = next;
            break;
        }
        k = next;
    }
    b->k = k;
    return true;
}

/* Takes units back from a type with too many, first where rounding has given most, but not those
 * that the throughput limit needs. */
static void keep_to_limit(const struct cost_model *m, struct cost_stage *stages, uint32_t count, uint32_t type,
                          double tau)
{
    for (;;) {
        uint64_t used = 0;
        uint32_t most = UINT32_MAX;
        double most_given = -INFINITY;
        for (uint32_t s = 0; s < count; s++) {
            if (stages[s].type != type) continue;
            used += stages[s].k;
            double given = stages[s].k - balanced(&stages[s].time, tau).k;
            uint32_t least = cost_units_least(&stages[s].time, m->tau_max, m->limit[type]);
            if (stages[s].k > least && given > most_given) {
                most = s;
                most_given = given;
            }
        }
        if (used <= m->limit[type] || most == UINT32_MAX) return;
        stages[most].k--;
    }
}

struct cost_result provision_balanced(const struct cost_model *m, struct cost_stage *stages, uint32_t count)
{
    struct provision_balance balance;
    if (!provision_balance(m, stages, count, &balance)) return provision_exact(m, stages, count);
    double tau = cost_et(&stages[balance.stage].time, balance.k);
    for (uint32_t s = 0; s < count; s++) {
        double k = s == balance.stage ? balance.k : balanced(&stages[s].time, tau).k;
        uint32_t least = cost_units_least(&stages[s].time, m->tau_max, m->limit[stages[s].type]);
        if (least == 0) return provision_exact(m, stages, count);
        stages[s].k = (uint32_t)(k + 0.5);
        if (stages[s].k < least) stages[s].k = least;
    }
    for (uint32_t s = 0; s < count; s++) keep_to_limit(m, stages, count, stages[s].type, tau);
    struct cost_result result = cost_of(m, stages, count);
    if (!result.is_feasible) return provision_exact(m, stages, count);
    for (uint32_t s = 0; s < count; s++) stages[s].et = cost_et(&stages[s].time, stages[s].k);
    return result;
}
