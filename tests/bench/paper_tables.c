/* The tables and figures of HeterPS, section 6, beside what we find, as Markdown.
 *
 *     paper_tables [--seconds S] [--brute S] [--seed N] [TABLE]...
 *
 * in the root of the source; without tables: all but `times`. --seconds: for every learned and sampled method
 * (3); --brute: seconds after which brute force is stopped and its time estimated (10).
 *
 *     times     each layer of each model on a core and on a V100
 *     table2    seconds of brute force, rl and exact, 8 to 20 layers
 *     table3    seconds of every method, four models
 *     figure4   cost of our provision and of static ratios
 *     figure5   cost of MATCHNET by method, 2 to 64 types   figure6   the same without CPU   figure7   their throughput
 *     figure8   cost of four models by method               figure9   the same without CPU   figure10  their throughput
 *
 * Models are the layer tables of cfg/, clusters its paper*.cfg. What the paper does not say is chosen by
 * rules that do not look at the outcome:
 *
 *     batch           2048 examples, the default of training
 *     least throughput   a tenth more than all CPU cores together reach on CTRDNN: one limit for everything
 *     prices of types    in the head of cfg/paper64.cfg
 *
 * Seconds are processor time, so other programs on the machine count little. Every method evaluates plans
 * with the exact provision. A cost is that of a pass over the examples of the cluster's goal, without
 * parameter servers except in figure 4. */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cfg/key.h"
#include "sched/estimate.h"
#include "sched/solution.h"

#define BATCH        2048.0
#define LIMIT_FACTOR 1.1
#define LAYERS_MAX   20u
#define PROBLEMS_MAX 64u

static double method_seconds = 3, brute_seconds = 10;
static uint64_t seed = 1;
static double throughput_limit;

static void must(status st)
{
    if (st == ST_OK) return;
    fprintf(stderr, "paper_tables: %s\n", status_message());
    exit(1);
}

static double processor_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* A text that lives until 64 others were made. */
static const char *text(const char *format, ...) PRINTF_LIKE(1, 2);
static const char *text(const char *format, ...)
{
    static char texts[64][128];
    static uint32_t next;
    char *to = texts[next++ % 64];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(to, sizeof texts[0], format, arguments);
    va_end(arguments);
    return to;
}

/* --- problems and what methods say of them ----------------------------------------------------- */

/* What a method found. */
struct answer {
    bool is_tried, is_known, is_feasible, is_proven;
    double cost, throughput;
    double seconds, best_seconds; /* of the whole search; until its best plan */
    uint64_t evaluations;
    type_index types[LAYERS_MAX];
};
/* A model on a cluster. */
struct problem {
    const char *model, *cluster_name;
    bool has_cpu;
    double limit;
    struct cluster cluster;
    struct layer_table table;
    struct instance instance;
    struct answer answers[METHOD_ID_COUNT];
};

static void without_cpu(struct cluster *cluster)
{
    uint32_t count = 0;
    for (uint32_t t = 0; t < cluster->type_count; t++)
        if (cluster->types[t].resource.device != RESOURCE_CPU) cluster->types[count++] = cluster->types[t];
    cluster->type_count = count;
}

static void problem_open(struct problem *p, const char *model, const char *cluster, bool has_cpu, double limit)
{
    *p = (struct problem){.model = model, .cluster_name = cluster, .has_cpu = has_cpu, .limit = limit};
    must(layer_table_read(&p->table, text("cfg/%s.layers.cfg", model)));
    must(cluster_read(&p->cluster, text("cfg/%s.cfg", cluster)));
    if (!has_cpu) without_cpu(&p->cluster);
    must(estimate(&p->instance, &p->table, &p->cluster, BATCH));
    if (p->instance.layer_count > LAYERS_MAX) {
        fprintf(stderr, "paper_tables: %s has %u layers; at most %u\n", model, p->instance.layer_count, LAYERS_MAX);
        exit(1);
    }
    p->instance.throughput_limit = limit;
}

static void problem_close(struct problem *p)
{
    instance_free(&p->instance);
    layer_table_free(&p->table);
    cluster_free(&p->cluster);
}

/* The problem with these arguments, made once. */
static struct problem *problem_of(const char *model, const char *cluster, bool has_cpu, double limit)
{
    static struct problem problems[PROBLEMS_MAX];
    static uint32_t count;
    for (uint32_t i = 0; i < count; i++) {
        struct problem *p = &problems[i];
        if (p->has_cpu == has_cpu && p->limit == limit && strcmp(p->model, model) == 0 &&
            strcmp(p->cluster_name, cluster) == 0)
            return p;
    }
    CHECK(count < PROBLEMS_MAX);
    problem_open(&problems[count], model, cluster, has_cpu, limit);
    return &problems[count++];
}

/* Stops brute force and the sampled methods by processor time:
 * some would take far longer than other methods. */
static bool is_late(void *end, const struct search_standing *standing)
{
    (void)standing;
    return processor_seconds() >= *(double *)end;
}

static void answer_make(struct problem *p, uint32_t method, struct answer *a)
{
    bool is_brute = method == METHOD_ID_brute;
    struct solve_options options = {.method = method_table[method].name,
                                    .seed = seed,
                                    .seconds = is_brute ? 0 : method_seconds,
                                    .keeps_curve = true};
    struct solution solution;
    a->is_tried = true;
    fprintf(stderr, "%s on %s%s: %s\n", p->model, p->cluster_name, p->has_cpu ? "" : " without cpu", options.method);
    /* Without a CPU the first type would be taken for one. */
    if (!p->has_cpu && (method == METHOD_ID_cpu || method == METHOD_ID_heuristic || method == METHOD_ID_inverse))
        return;
    double begin = processor_seconds(), end = begin + (is_brute ? brute_seconds : method_seconds);
    if (is_brute || method_table[method].kind == METHOD_SAMPLED) {
        options.progress = is_late;
        options.context = &end;
    }
    status st = solve(&p->instance, &options, &solution);
    a->seconds = processor_seconds() - begin;
    /* A method that cannot work here has no answer. */
    if (st == ST_INVALID) return;
    must(st);
    a->is_known = true;
    a->is_feasible = solution.result.is_feasible;
    a->is_proven = solution.is_proven;
    a->cost = solution.result.cost;
    a->throughput = solution.result.throughput;
    a->evaluations = solution.evaluations;
    /* A curve's seconds are of the clock. */
    if (solution.curve_count > 0 && solution.seconds > 0)
        a->best_seconds = solution.curve[solution.curve_count - 1].seconds / solution.seconds * a->seconds;
    memcpy(a->types, solution.types, p->instance.layer_count * sizeof *a->types);
    solution_free(&solution);
}

static const struct answer *answer_of(struct problem *p, uint32_t method)
{
    struct answer *a = &p->answers[method];
    if (!a->is_tried) answer_make(p, method, a);
    return a;
}

/* All layers on one type, provisioned exactly. */
static struct cost_result one_type(const struct instance *instance, uint32_t type)
{
    struct cost_model model;
    struct cost_stage stages[LAYERS_MAX];
    type_index types[LAYERS_MAX];
    must(cost_model_open(&model, instance));
    for (uint32_t l = 0; l < model.layer_count; l++) types[l] = (type_index)type;
    struct cost_result result = provision_exact(&model, stages, cost_stages(&model, types, stages));
    cost_model_free(&model);
    return result;
}

/* --- cells -------------------------------------------------------------------------------------- */

/* How much more than `other` a cost is, the paper's "outperforms by": "+12.3 %". */
static const char *over(double cost, double other)
{
    double percent = (cost / other - 1) * 100;
    if (fabs(percent) < 5e-4) return "0 %";
    return fabs(percent) < 0.05 ? text("%+.3f %%", percent) : text("%+.1f %%", percent);
}

static const char *seconds_text(double seconds) { return text(seconds < 10 ? "%.2g" : "%.0f", seconds); }

static const char *usd(double cost) { return text(cost < 100 ? "%.4f" : "%.1f", cost); }

static const char *paper(double figure) { return figure > 0 ? text("%g %%", figure) : ""; }

/* A method's cost over rl's; of a plan below the least throughput, the share that it reaches. */
static const char *cost_cell(struct problem *p, uint32_t method)
{
    const struct answer *a = answer_of(p, method), *rl = answer_of(p, METHOD_ID_rl);
    if (!a->is_known) return "–";
    if (!a->is_feasible) return text("misses: %.2f", a->throughput / p->limit);
    return rl->is_feasible ? over(a->cost, rl->cost) : usd(a->cost);
}

static const char *throughput_cell(struct problem *p, uint32_t method)
{
    const struct answer *a = answer_of(p, method);
    return a->is_known ? text("%.2f", a->throughput / p->limit) : "–";
}

/* The methods of the paper's figures, and ours. */
struct row {
    uint32_t method;
    double until16, types32, types64; /* figures 5 and 6: percent over RL */
    double models;                    /* figures 8 and 9 */
};
static const struct row rows[] = {
    {METHOD_ID_rl_rnn, 321.1, 0, 0, 37.3},
    {METHOD_ID_bo, 27.9, 47.3, 1811.6, 38.1},
    {METHOD_ID_genetic, 289.3, 1058.0, 1091.2, 6.2},
    {METHOD_ID_greedy, 291.4, 1058.0, 1091.2, 29.3},
    {METHOD_ID_gpu, 304.2, 1757.5, 1819.4, 229.0},
    {METHOD_ID_cpu, 4137.3, 19370.1, 20019.1, 0},
    {METHOD_ID_heuristic, 312.3, 1794.7, 2998.5, 57.4},
    {METHOD_ID_inverse, 0, 0, 0, 0},
    {METHOD_ID_climb, 0, 0, 0, 0},
    {METHOD_ID_rl_polish, 0, 0, 0, 0},
};
#define ROW_COUNT (sizeof rows / sizeof rows[0])

static void heading(const char *title, const char *sentence) { printf("\n## %s\n\n%s\n\n", title, sentence); }

static void rule(uint32_t columns)
{
    for (uint32_t c = 0; c < columns; c++) printf("|---");
    printf("|\n");
}

/* --- times -------------------------------------------------------------------------------------- */

static const char *const models[] = {"ctrdnn7",  "ctrdnn8",  "ctrdnn12", "ctrdnn16",
                                     "ctrdnn20", "matchnet", "2emb",     "nce"};

static void times_table(void)
{
    heading("Layers on a core and on a V100",
            "Microseconds an example, one unit, by the declared rates of cfg/paper2.cfg; "
            "USD: price times computation.");
    printf("| model | layer | kind | core | V100 | core / V100 | USD core / V100 | cut, core | cut, V100 |\n");
    rule(9);
    for (uint32_t m = 0; m < sizeof models / sizeof models[0]; m++) {
        struct problem *p = problem_of(models[m], "paper2", true, throughput_limit);
        const struct instance *instance = &p->instance;
        for (uint32_t l = 0; l < instance->layer_count; l++) {
            const struct instance_time *core = instance_time(instance, l, 0), *v100 = instance_time(instance, l, 1);
            printf("| %s | %s | %s | %.3g | %.3g | %.0f | %.2f | %.3g | %.3g |\n", models[m], instance->layers[l].name,
                   instance->layers[l].kind, core->oct / instance->batch * 1e6, v100->oct / instance->batch * 1e6,
                   core->oct / v100->oct,
                   core->oct / v100->oct * instance->types[0].resource.price_per_hour /
                       instance->types[1].resource.price_per_hour,
                   core->odt / instance->batch * 1e6, v100->odt / instance->batch * 1e6);
        }
    }
}

/* --- tables 2 and 3 ----------------------------------------------------------------------------- */

static const char *brute_text(struct problem *p)
{
    const struct answer *a = answer_of(p, METHOD_ID_brute);
    double plans = pow(p->instance.type_count, p->instance.layer_count);
    if (a->is_proven) return seconds_text(a->seconds);
    return a->evaluations > 0 ? text("%.0f (E)", a->seconds / (double)a->evaluations * plans) : "–";
}

static const char *rl_gap(struct problem *p)
{
    const struct answer *rl = answer_of(p, METHOD_ID_rl), *best = answer_of(p, METHOD_ID_exact);
    return best->is_proven && rl->is_feasible ? over(rl->cost, best->cost) : "–";
}

static void table2(void)
{
    static const struct {
        const char *model;
        uint32_t layers;
        const char *brute2, *brute4, *rl;
    } lines[] = {{"ctrdnn8", 8, "0.068", "11.37", "15.91"},
                 {"ctrdnn12", 12, "0.71", "3776.82", "16.83"},
                 {"ctrdnn16", 16, "11.74", "1254017.23 (E)", "17.16"},
                 {"ctrdnn20", 20, "217.26", "/", "19.13"}};
    heading("Table 2: seconds of brute force and RL, CTRDNN",
            "(2), (4): types. /: too long. E: estimated, the seconds of a plan times the plans; as brute force begins "
            "with plans of few stages, rather too low. RL: mean of 2 and 4 types; in brackets the seconds until the "
            "plan it ends with. Last columns: RL's cost over the proven optimum (the paper: none).");
    printf(
        "| layers | BF(2) | paper | BF(4) | paper | RL | paper | exact(2) | exact(4) | RL over optimum (2) | (4) |\n");
    rule(11);
    for (uint32_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        struct problem *two = problem_of(lines[i].model, "paper2", true, throughput_limit);
        struct problem *four = problem_of(lines[i].model, "paper4", true, throughput_limit);
        const struct answer *a = answer_of(two, METHOD_ID_rl), *b = answer_of(four, METHOD_ID_rl);
        printf("| %u | %s | %s | %s | %s | %s (%s) | %s | %s | %s | %s | %s |\n", lines[i].layers, brute_text(two),
               lines[i].brute2, lines[i].layers < 20 ? brute_text(four) : "/", lines[i].brute4,
               seconds_text((a->seconds + b->seconds) / 2), seconds_text((a->best_seconds + b->best_seconds) / 2),
               lines[i].rl, seconds_text(answer_of(two, METHOD_ID_exact)->seconds),
               seconds_text(answer_of(four, METHOD_ID_exact)->seconds), rl_gap(two), rl_gap(four));
    }
}

static void table3(void)
{
    enum { METHOD_COUNT = 8 };
    static const uint32_t methods[METHOD_COUNT] = {METHOD_ID_rl,      METHOD_ID_rl_rnn,   METHOD_ID_bo,
                                                   METHOD_ID_genetic, METHOD_ID_greedy,   METHOD_ID_gpu,
                                                   METHOD_ID_cpu,     METHOD_ID_heuristic};
    static const struct {
        const char *name, *model, *cluster;
        double paper[METHOD_COUNT];
    } lines[] = {{"MATCHNET", "matchnet", "paper2", {89, 168, 1042, 51, 0.02, 0.0003, 0.0004, 0.002}},
                 {"MATCHNET (32)", "matchnet", "paper32", {62, 172, 807, 68, 0.27, 0.0004, 0.0002, 0.0004}},
                 {"MATCHNET (64)", "matchnet", "paper64", {55, 164, 906, 74, 0.57, 0.0004, 0.0003, 0.0005}},
                 {"CTRDNN", "ctrdnn16", "paper2", {58, 182, 602, 43, 0.02, 0.0004, 0.0002, 0.0004}},
                 {"2EMB", "2emb", "paper2", {18, 64, 693, 35, 0.009, 0.0004, 0.0002, 0.0004}},
                 {"NCE", "nce", "paper2", {12, 126, 464, 23, 0.004, 0.0003, 0.0002, 0.0004}}};
    heading("Table 3: seconds of every method", "Ours (until the plan that it ends with) / the paper's. "
                                                "Where the paper does not say how many types there are, we take 2.");
    printf("| model |");
    for (uint32_t m = 0; m < METHOD_COUNT; m++) printf(" %s |", method_table[methods[m]].name);
    printf(" climb | exact |\n");
    rule(METHOD_COUNT + 3);
    for (uint32_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        struct problem *p = problem_of(lines[i].model, lines[i].cluster, true, throughput_limit);
        printf("| %s |", lines[i].name);
        for (uint32_t m = 0; m < METHOD_COUNT; m++) {
            const struct answer *a = answer_of(p, methods[m]);
            if (method_table[methods[m]].kind == METHOD_FIXED)
                printf(" %s / %g |", seconds_text(a->seconds), lines[i].paper[m]);
            else
                printf(" %s (%s) / %g |", seconds_text(a->seconds), seconds_text(a->best_seconds), lines[i].paper[m]);
        }
        const struct answer *climb = answer_of(p, METHOD_ID_climb), *exact = answer_of(p, METHOD_ID_exact);
        printf(" %s (%s) | %s |\n", seconds_text(climb->seconds), seconds_text(climb->best_seconds),
               seconds_text(exact->seconds));
    }
}

/* --- figure 4 ----------------------------------------------------------------------------------- */

/* Adds the cost of parameter servers: a core of one reads and writes the rows that an
 * example pushes and pulls. */
static void servers_add(struct problem *p)
{
    const struct cluster_type *core = &p->cluster.types[0];
    double touched = 0;
    for (uint32_t l = 0; l < p->table.layer_count; l++) touched += p->table.layers[l].touched_bytes;
    p->instance.server_seconds = touched / core->rates.memory_bandwidth;
    p->instance.server_price = core->resource.price_per_hour;
}

/* How much more than ours a provision costs, and in brackets the share of its cost that ours saves. */
static const char *provision_cell(const struct cost_result *result, double ours)
{
    if (!result->is_feasible) return "–";
    return text("%s (%.1f %%)", over(result->cost, ours), (1 - ours / result->cost) * 100);
}

static void figure4(void)
{
    static const double factors[] = {0.05, 0.25, 0.5, 1, 2, 4};
    enum { EXACT, BALANCED, RATIO, RATIO_SERVERS, PROVISION_COUNT };
    heading("Figure 4: cost of CTRDNN by provision and least throughput",
            "RL's schedule for the limit, provisioned four ways; USD, with the cores of parameter servers, "
            "that read and write an example's rows once. What the others cost more than exact, "
            "in brackets what exact saves of that. The paper: ours is better than StaRatio by up to 57.9 %, "
            "than StaPSRatio by up to 48.3 %; StaPSRatio than StaRatio by up to 55.8 %.");
    printf("| least throughput | schedule | exact | balanced | StaRatio | StaPSRatio | balanced over exact | "
           "StaRatio over exact | StaPSRatio over exact | StaRatio over StaPSRatio |\n");
    rule(10);
    for (uint32_t f = 0; f < sizeof factors / sizeof factors[0]; f++) {
        struct problem *p = problem_of("ctrdnn16", "paper2", true, throughput_limit * factors[f]);
        const struct answer *rl = answer_of(p, METHOD_ID_rl);
        struct cost_model model;
        struct cost_stage stages[LAYERS_MAX];
        servers_add(p);
        must(cost_model_open(&model, &p->instance));
        uint32_t count = cost_stages(&model, rl->types, stages);
        printf("| %.0f |", p->limit);
        for (uint32_t s = 0; s < count; s++)
            printf(" %s…%s on %s%s", p->instance.layers[stages[s].first].name, p->instance.layers[stages[s].last].name,
                   p->instance.types[stages[s].type].resource.name, s + 1 < count ? "," : " |");
        struct cost_result results[PROVISION_COUNT] = {
            provision_exact(&model, stages, count), provision_balanced(&model, stages, count),
            provision_static(&model, stages, count, false), provision_static(&model, stages, count, true)};
        for (uint32_t r = 0; r <= BALANCED; r++)
            results[r].cost += provision_server_cost(&p->instance, results[r].throughput);
        for (uint32_t r = 0; r < PROVISION_COUNT; r++)
            printf(" %s |", results[r].is_feasible ? usd(results[r].cost) : "misses");
        for (uint32_t r = BALANCED; r < PROVISION_COUNT; r++)
            printf(" %s |", provision_cell(&results[r], results[EXACT].cost));
        bool has_both = results[RATIO].is_feasible && results[RATIO_SERVERS].is_feasible;
        printf(" %s |\n", has_both ? over(results[RATIO].cost, results[RATIO_SERVERS].cost) : "–");
        cost_model_free(&model);
    }
}

/* --- figures 5 to 10 ---------------------------------------------------------------------------- */

/* Costs in USD of rl and of the optimum, and the gap between them. */
static void print_optimum(struct problem *const *problems, uint32_t count)
{
    printf("| **rl**, USD |");
    for (uint32_t c = 0; c < count; c++) {
        const struct answer *rl = problems[c] ? answer_of(problems[c], METHOD_ID_rl) : NULL;
        printf(" %s |", rl == NULL ? "" : rl->is_feasible ? usd(rl->cost) : "misses");
    }
    printf("\n| optimum, USD |");
    for (uint32_t c = 0; c < count; c++) {
        if (!problems[c]) {
            printf(" |");
            continue;
        }
        const struct answer *best = answer_of(problems[c], METHOD_ID_exact);
        printf(" %s%s |", usd(best->cost), best->is_proven ? "" : " (not proven)");
    }
    printf("\n| rl over the optimum |");
    for (uint32_t c = 0; c < count; c++) printf(" %s |", problems[c] ? rl_gap(problems[c]) : "");
    printf("\n");
}

/* Every layer on the first accelerator type, which has the paper's price. */
static const char *first_gpu_cell(struct problem *p)
{
    uint32_t type = 0;
    while (p->cluster.types[type].resource.device == RESOURCE_CPU) type++;
    struct cost_result result = one_type(&p->instance, type);
    const struct answer *rl = answer_of(p, METHOD_ID_rl);
    if (!result.is_feasible) return text("misses: %.2f", result.throughput / p->limit);
    return rl->is_feasible ? over(result.cost, rl->cost) : usd(result.cost);
}

/* A column of figures 5 to 7: a cluster, or the paper's figures for the clusters on its left. */
struct column {
    const char *cluster; /* NULL: the paper's */
    const char *title;
    size_t figure; /* offset in struct row */
};
static const struct column columns[] = {{"paper2", "", 0},
                                        {"paper4", "", 0},
                                        {"paper8", "", 0},
                                        {"paper16", "", 0},
                                        {NULL, "paper, up to 16", offsetof(struct row, until16)},
                                        {"paper32", "", 0},
                                        {NULL, "paper, 32", offsetof(struct row, types32)},
                                        {"paper64", "", 0},
                                        {NULL, "paper, 64", offsetof(struct row, types64)},
                                        {"paper64-speeds", ", speeds differ", 0}};
#define COLUMN_COUNT (sizeof columns / sizeof columns[0])

/* Opens the problem of every column, NULL for the paper's, and prints the table's heading. Returns the first
 * column: without CPU, one type alone leaves nothing to decide. */
static uint32_t types_open(struct problem **problems, bool has_cpu)
{
    uint32_t first = has_cpu ? 0 : 1;
    printf("| method \\ types |");
    for (uint32_t c = first; c < COLUMN_COUNT; c++) {
        problems[c] = columns[c].cluster ? problem_of("matchnet", columns[c].cluster, has_cpu, throughput_limit) : NULL;
        if (problems[c])
            printf(" %u%s |", problems[c]->cluster.type_count, columns[c].title);
        else
            printf(" %s |", columns[c].title);
    }
    printf("\n");
    rule((uint32_t)COLUMN_COUNT - first + 1);
    return first;
}

static void figure_types(const char *title, const char *sentence, bool has_cpu)
{
    struct problem *p[COLUMN_COUNT];
    heading(title, sentence);
    uint32_t first = types_open(p, has_cpu);
    print_optimum(p + first, (uint32_t)COLUMN_COUNT - first);
    for (uint32_t r = 0; r < ROW_COUNT; r++) {
        printf("| %s |", method_table[rows[r].method].name);
        for (uint32_t c = first; c < COLUMN_COUNT; c++)
            printf(" %s |", p[c] ? cost_cell(p[c], rows[r].method)
                                 : paper(*(const double *)((const char *)&rows[r] + columns[c].figure)));
        printf("\n");
    }
    printf("| first gpu type |");
    for (uint32_t c = first; c < COLUMN_COUNT; c++) printf(" %s |", p[c] ? first_gpu_cell(p[c]) : "");
    printf("\n");
}

static void figure5(void)
{
    figure_types("Figure 5: cost of MATCHNET, with CPU",
                 "Over rl's cost; \"misses\": the part of the least throughput that the plan reaches. "
                 "The paper's percentages are its greatest, over figures 5 and 6 together, "
                 "from a profile that, it says, misses the CPU's cost by up to 17.4 times. "
                 "Our gpu takes the cheapest accelerator type; the first of them, at 2.42 USD, is shown too.",
                 true);
}

static void figure6(void) { figure_types("Figure 6: cost of MATCHNET, without CPU", "As figure 5.", false); }

static const char *const four_names[] = {"MATCHNET", "CTRDNN", "2EMB", "NCE"};
static const char *const four_models[] = {"matchnet", "ctrdnn16", "2emb", "nce"};

static void figure_models(const char *title, const char *sentence, const char *cluster, bool has_cpu)
{
    struct problem *p[4];
    heading(title, sentence);
    printf("| method |");
    for (uint32_t m = 0; m < 4; m++) {
        p[m] = problem_of(four_models[m], cluster, has_cpu, throughput_limit);
        printf(" %s |", four_names[m]);
    }
    printf(" paper, up to |\n");
    rule(6);
    struct problem *const all[] = {p[0], p[1], p[2], p[3], NULL};
    print_optimum(all, 5);
    for (uint32_t r = 0; r < ROW_COUNT; r++) {
        printf("| %s |", method_table[rows[r].method].name);
        for (uint32_t m = 0; m < 4; m++) printf(" %s |", cost_cell(p[m], rows[r].method));
        printf(" %s |\n", paper(rows[r].models));
    }
    printf("| first gpu type |");
    for (uint32_t m = 0; m < 4; m++) printf(" %s |", first_gpu_cell(p[m]));
    printf(" |\n");
}

static void figure8(void)
{
    figure_models(
        "Figure 8: cost of four models",
        "CPU cores and V100, over rl's cost. The paper's percentages are its greatest, over figures 8 and 9 together.",
        "paper2", true);
}

static void figure9(void)
{
    figure_models("Figure 9: cost of four models, without CPU",
                  "The GPU types of cfg/paper64-speeds.cfg. The paper says neither how many nor which; "
                  "among types of one speed the cheapest is best for every layer (figure 6).",
                  "paper64-speeds", false);
}

static void print_throughputs(struct problem *const *p, uint32_t count)
{
    static const uint32_t first[] = {METHOD_ID_rl, METHOD_ID_exact};
    for (uint32_t r = 0; r < 2 + ROW_COUNT; r++) {
        uint32_t method = r < 2 ? first[r] : rows[r - 2].method;
        printf("| %s |", method_table[method].name);
        for (uint32_t c = 0; c < count; c++) printf(" %s |", throughput_cell(p[c], method));
        printf("\n");
    }
}

static void figure7(void)
{
    struct problem *p[COLUMN_COUNT];
    heading("Figure 7: throughput of MATCHNET over its limit, with CPU", "The paper: at least 1 for every method.");
    printf("| method \\ types |");
    uint32_t count = 0;
    for (uint32_t c = 0; c < COLUMN_COUNT; c++) {
        if (columns[c].cluster == NULL) continue;
        p[count] = problem_of("matchnet", columns[c].cluster, true, throughput_limit);
        printf(" %u%s |", p[count++]->cluster.type_count, columns[c].title);
    }
    printf("\n");
    rule(count + 1);
    print_throughputs(p, count);
}

static void figure10(void)
{
    struct problem *p[4];
    heading("Figure 10: throughput of four models over the limit", "The paper: at least 1 except all-CPU on CTRDNN.");
    printf("| method |");
    for (uint32_t m = 0; m < 4; m++) {
        p[m] = problem_of(four_models[m], "paper2", true, throughput_limit);
        printf(" %s |", four_names[m]);
    }
    printf("\n");
    rule(5);
    print_throughputs(p, 4);
}

/* --- the program -------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    void (*print)(void);
    bool is_default;
} tables[] = {{"times", times_table, false}, {"table2", table2, true},   {"table3", table3, true},
              {"figure4", figure4, true},    {"figure5", figure5, true}, {"figure6", figure6, true},
              {"figure7", figure7, true},    {"figure8", figure8, true}, {"figure9", figure9, true},
              {"figure10", figure10, true}};
#define TABLE_COUNT (sizeof tables / sizeof tables[0])

static _Noreturn void usage(const char *what)
{
    fprintf(stderr, "paper_tables: %s\nusage: paper_tables [--seconds S] [--brute S] [--seed N] [TABLE]...\n", what);
    exit(2);
}

int main(int argc, char **argv)
{
    bool is_chosen[TABLE_COUNT] = {0}, is_any = false;
    for (int i = 1; i < argc; i++) {
        bool has_value = i + 1 < argc, is_good = false;
        if (strcmp(argv[i], "--seconds") == 0)
            is_good = has_value && cfg_parse_f64(argv[++i], &method_seconds) && method_seconds > 0;
        else if (strcmp(argv[i], "--brute") == 0)
            is_good = has_value && cfg_parse_f64(argv[++i], &brute_seconds) && brute_seconds > 0;
        else if (strcmp(argv[i], "--seed") == 0)
            is_good = has_value && cfg_parse_u64(argv[++i], &seed);
        else
            for (uint32_t t = 0; t < TABLE_COUNT; t++)
                if (strcmp(argv[i], tables[t].name) == 0) is_good = is_any = is_chosen[t] = true;
        if (!is_good) usage(text("'%s' is not a table, nor an option with its value", argv[i]));
    }
    /* No plan reaches 1e30 examples a second, so the greatest throughput is found. */
    struct problem all_cpu;
    problem_open(&all_cpu, "ctrdnn16", "paper2", true, 1e30);
    double greatest = one_type(&all_cpu.instance, 0).throughput;
    throughput_limit = greatest * LIMIT_FACTOR;
    printf("# HeterPS, section 6: the paper's figures and ours\n\n"
           "Least throughput: %.0f examples/s, %.1f times the %.0f that %u CPU cores reach on CTRDNN. Seed %" PRIu64
           "; %g s a learned or sampled method.\n",
           throughput_limit, LIMIT_FACTOR, greatest, all_cpu.cluster.types[0].resource.limit, seed, method_seconds);
    problem_close(&all_cpu);
    for (uint32_t t = 0; t < TABLE_COUNT; t++) {
        if (is_any ? is_chosen[t] : tables[t].is_default) tables[t].print();
        fflush(stdout);
    }
    return 0;
}
