/* Tables and figures of HetPipe, section 8, beside what we find, as Markdown, in simulation: virtual workers
 * on four nodes with four cards each.
 *
 *     paper_hetpipe [--waves N] [--seed N] [--jitter FILE] [--inside BYTES --between BYTES]
 *
 * --waves: of each run that measures waiting (1,000); --jitter: adds a row, whose times are drawn from FILE:
 * times of recorded waves, one a line; --inside, --between: takes these bandwidths, and fits none.
 *
 * Cards are those of cfg/hetpipe-vgg19.cfg and cfg/hetpipe-resnet152.cfg, whose heads give the sources of
 * their rates. Two numbers are fitted to the four figures of Table 4 that VGG-19 reaches under HetPipe: a
 * card's bandwidth within its node, and the bytes a second that a node receives from others. All else is
 * predicted. These are chosen by rules that do not look at the outcome:
 *
 *     in flight      as many as the paper prints (Table 4), and also as many as the planner chooses
 *     Horovod        each step: the slowest card's minibatch, then a ring over all cards; nothing is overlapped
 *     bytes          of a node, received and sent: with this count, Horovod's are the paper's
 *     a minibatch    32 images; the last layer tells 1,000 classes; all exchange each wave, a worker alone never
 *     jitter         each wave of a worker computes exp(s g - s^2 / 2) times as long, g normal; the paper tells no s */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cfg/key.h"
#include "sched/draw.h"
#include "sched/workers/propose.h"
#include "sched/workers/wave.h"

#define NETS    2u
#define SETS    4u /* 4, 8, 12 and 16 cards */
#define BATCH   32.
#define CLASSES 1000u
#define TYPES   4u
#define MIB     (1024. * 1024)

enum { VGG, RESNET };
enum { V, R, G, Q };
/* The sets' nodes: V, VR, VRQ, VRQG. */
static const uint32_t node_order[SETS] = {V, R, Q, G};
static const char *const set_names[SETS] = {"4[V]", "8[VR]", "12[VRQ]", "16[VRQG]"};
/* Table 4. */
static const double paper_hetpipe[NETS][SETS] = {{300, 530, 572, 606}, {256, 516, 538, 580}};
static const double paper_horovod[NETS][SETS] = {{164, 205, 265, 339}, {233, 353, 415, 0}};
/* a worker; all have four but the first */
static const uint32_t paper_in_flight[NETS][SETS] = {{5, 4, 5, 5}, {5, 5, 6, 7}};
/* Section 8.3, of Figure 4. */
static const double paper_bytes[NETS][2] = {{103, 515}, {298, 211}}; /* ED-local, Horovod; MiB */
static const double paper_over_horovod[NETS] = {1.8, 1.4};

struct subject {
    const char *name, *title, *cfg;
    struct net layers;
    struct cluster text;
    struct workers_cluster all;
    struct workers_model model;
};
static struct subject subjects[NETS] = {
    {.name = "vgg19", .title = "VGG-19", .cfg = "cfg/hetpipe-vgg19.cfg"},
    {.name = "resnet152", .title = "ResNet-152", .cfg = "cfg/hetpipe-resnet152.cfg"},
};
static double inside, between;
static uint64_t seed = 1, waiting_waves = 1000;
static const char *jitter_path;

static void must(status st)
{
    if (st == ST_OK) return;
    fprintf(stderr, "paper_hetpipe: %s\n", status_message());
    exit(1);
}

static _Noreturn void usage(const char *what)
{
    fprintf(stderr,
            "paper_hetpipe: %s\n"
            "usage: paper_hetpipe [--waves N] [--seed N] [--jitter FILE] [--inside BYTES --between BYTES]\n",
            what);
    exit(2);
}

static void heading(const char *title, const char *note) { printf("\n## %s\n\n%s\n\n", title, note); }

static void subject_open(struct subject *s)
{
    double flops[TYPES];
    must(net_make(&s->layers, s->name, CLASSES));
    must(cluster_read(&s->text, s->cfg));
    must(workers_cluster_of(&s->all, &s->text));
    CHECK(s->text.type_count == TYPES && s->all.node_count == SETS);
    for (uint32_t t = 0; t < TYPES; t++) flops[t] = s->text.types[t].rates.flops;
    must(workers_model_of_net(&s->model, &s->layers, BATCH, flops, TYPES));
}

static struct workers_cluster set_of(const struct subject *s, uint32_t set)
{
    struct workers_cluster c = {.node_count = set + 1, .inside = inside, .between = between};
    for (uint32_t n = 0; n <= set; n++) c.nodes[n] = s->all.nodes[node_order[n]];
    return c;
}

static struct proposal proposed(const struct subject *s, uint32_t set, allocation_id allocation,
                                enum placement placement, uint32_t in_flight)
{
    const struct workers_cluster c = set_of(s, set);
    const struct propose_options options = {.allocation = allocation, .placement = placement, .in_flight = in_flight};
    struct proposal p;
    must(workers_propose(&p, &s->model, &c, &options));
    return p;
}

/* Table 4's workers: one of the four V, or four of a card of each node. in_flight 0: the planner chooses. */
static struct proposal hetpipe_of(uint32_t net, uint32_t set, uint32_t in_flight)
{
    return proposed(&subjects[net], set, set == 0 ? ALLOCATION_ID_np : ALLOCATION_ID_ed, PLACEMENT_LOCAL, in_flight);
}

static double horovod_of(uint32_t net, uint32_t set)
{
    const struct workers_cluster c = set_of(&subjects[net], set);
    uint32_t refused;
    return horovod_rate(&subjects[net].model, &c, &refused);
}

/* --- the fit ------------------------------------------------------------------------------------ */

/* Root of the mean square of the logarithms of ours over the paper's. */
static double hetpipe_rms(uint32_t net)
{
    double sum = 0;
    for (uint32_t set = 0; set < SETS; set++) {
        const double e = log(hetpipe_of(net, set, paper_in_flight[net][set]).result.rate / paper_hetpipe[net][set]);
        sum += e * e;
    }
    return sqrt(sum / SETS);
}

static bool fit_try(double x, double y, double *best, double *best_x, double *best_y)
{
    inside = x;
    between = y;
    const double rms = hetpipe_rms(VGG);
    if (rms >= *best) return false;
    *best = rms;
    *best_x = x;
    *best_y = y;
    return true;
}

/* A grid, then ever smaller steps from its best point: the error has steps, where a partition changes. */
static void fit(void)
{
    double best = INFINITY, x = 0, y = 0;
    for (uint32_t i = 0; i <= 20; i++)
        for (uint32_t j = 0; j <= 20; j++) (void)fit_try(0.5e9 * pow(1.12, i), 0.5e9 * pow(1.12, j), &best, &x, &y);
    for (double step = 1.06; step > 1.002;) {
        bool is_better = false;
        for (int i = -1; i <= 1; i++)
            for (int j = -1; j <= 1; j++)
                if ((i || j) && !is_better) is_better = fit_try(x * pow(step, i), y * pow(step, j), &best, &x, &y);
        if (!is_better) step = sqrt(step);
    }
    inside = x;
    between = y;
}

/* --- Table 4 ------------------------------------------------------------------------------------ */

static void hetpipe_row(uint32_t net, bool is_chosen)
{
    double sum = 0;
    printf("| %s | HetPipe%s |", subjects[net].title, is_chosen ? ", as chosen" : "");
    for (uint32_t set = 0; set < SETS; set++) {
        const struct proposal p = hetpipe_of(net, set, is_chosen ? 0 : paper_in_flight[net][set]);
        const double e = log(p.result.rate / paper_hetpipe[net][set]);
        printf(" %.0f (%.0f) [%u] |", p.result.rate, paper_hetpipe[net][set], p.options.in_flight);
        sum += e * e;
    }
    printf(" %.1f %% |\n", 100 * sqrt(sum / SETS));
}

static void table4(void)
{
    double sum = 0;
    uint32_t count = 0;
    char last[32] = "";
    heading("Table 4: images/s, ours (the paper's)",
            "HetPipe is ED-local, D = 0; in brackets how many minibatches are in flight in a worker: "
            "the paper's, then as chosen. VGG-19's HetPipe is fitted. Horovod's error is of both nets together.");
    printf("| net | method |");
    for (uint32_t set = 0; set < SETS; set++) printf(" %s |", set_names[set]);
    printf(" RMS of logarithms |\n|---|---|---|---|---|---|---|\n");
    for (uint32_t net = 0; net < NETS; net++) {
        printf("| %s | Horovod |", subjects[net].title);
        for (uint32_t set = 0; set < SETS; set++) {
            const double ours = horovod_of(net, set), its = paper_horovod[net][set];
            if (ours > 0 && its > 0) {
                printf(" %.0f (%.0f) |", ours, its);
                sum += log(ours / its) * log(ours / its);
                count++;
            } else {
                printf(" %s (%s) |", ours > 0 ? "fits" : "does not fit", its > 0 ? "fits" : "X");
            }
        }
        if (net + 1 == NETS) snprintf(last, sizeof last, "%.1f %%", 100 * sqrt(sum / count));
        printf(" %s |\n", last);
        hetpipe_row(net, false);
        hetpipe_row(net, true);
    }
}

/* Whether ResNet-152 fits one RTX 2060. */
static void refusal(void)
{
    const struct subject *s = &subjects[RESNET];
    const struct worker_cards one = {.of_node = {[G] = 1}};
    struct partition partition;
    char text[1024];
    bool is_found;
    must(partition_find(&partition, &s->model, &s->all, &one, 1, 1, &is_found));
    printf("\nResNet-152 on one RTX 2060: %s.\n",
           is_found ? "fits" : workers_misfit_text(&s->model, &s->all, &one, 1, text, sizeof text));
}

static void partitions(void)
{
    heading("Partitions of Table 4's workers, 16 cards",
            "With the paper's numbers in flight. Seconds of a minibatch: computing, receiving; memory as planned.");
    printf("| net | stage | card | layers | computing | receiving | in flight | memory | of |\n"
           "|---|---|---|---|---|---|---|---|---|\n");
    for (uint32_t net = 0; net < NETS; net++) {
        const struct subject *s = &subjects[net];
        const struct workers_cluster c = set_of(s, SETS - 1);
        const struct proposal p = hetpipe_of(net, SETS - 1, paper_in_flight[net][SETS - 1]);
        for (uint32_t q = 0; q < p.workers[0].stage_count; q++) {
            const struct partition_stage *stage = &p.workers[0].stages[q];
            const struct workers_memory m = workers_memory_of(&s->model, stage->first, stage->end, stage->held);
            printf("| %s | %u | %s | %s … %s | %.3f | %.3f | %u | %.1f GiB | %.0f GiB |\n", s->title, q,
                   c.nodes[stage->node].name, s->model.names[stage->first], s->model.names[stage->end - 1],
                   stage->compute, stage->receive_forward + stage->receive_backward, stage->held,
                   workers_memory_sum(&m) / MIB / 1024, c.nodes[stage->node].memory_bytes / MIB / 1024);
        }
    }
}

/* --- Figures 4 and 3 ---------------------------------------------------------------------------- */

/* All nodes, with at most this many in flight. */
static struct proposal proposed_at_most(const struct subject *s, allocation_id allocation, enum placement placement,
                                        uint32_t first_server, uint32_t in_flight)
{
    const struct workers_cluster c = set_of(s, SETS - 1);
    struct proposal p;
    for (;; in_flight--) {
        const struct propose_options o = {
            .allocation = allocation, .placement = placement, .in_flight = in_flight, .first_server = first_server};
        const status st = workers_propose(&p, &s->model, &c, &o);
        if (st == ST_OK) return p;
        if (in_flight == 1 || st != ST_INFEASIBLE) must(st);
    }
}

static void figure4(void)
{
    static const struct {
        const char *title;
        allocation_id allocation;
        enum placement placement;
    } rows[] = {{"NP", ALLOCATION_ID_np, PLACEMENT_DEFAULT},
                {"ED", ALLOCATION_ID_ed, PLACEMENT_DEFAULT},
                {"HD", ALLOCATION_ID_hd, PLACEMENT_DEFAULT},
                {"ED-local", ALLOCATION_ID_ed, PLACEMENT_LOCAL}};
    heading("Figure 4: allocations, 16 cards, D = 0",
            "In brackets: minibatches in flight. The figure's own are lost in print: taken are those of Table 4's "
            "ED-local, or as many as fit; then as chosen, the first layer served by the first node. "
            "Images/s and MiB across nodes are means over which node serves the first layer, with the least and the "
            "greatest, for much hangs on who serves VGG-19's fc6. The paper, in words: for VGG-19 Horovod is above NP, "
            "ED and HD; for ResNet-152 ED and HD are like Horovod, of 12 cards; NP is low for both.");
    printf("| net | allocation | images/s | over Horovod | the paper's | as chosen | MiB | the paper's |\n"
           "|---|---|---|---|---|---|---|---|\n");
    for (uint32_t net = 0; net < NETS; net++) {
        const uint32_t set = net == VGG ? SETS - 1 : SETS - 2;
        const struct workers_cluster c = set_of(&subjects[net], set);
        const double horovod = horovod_of(net, set);
        printf("| %s | Horovod, %u cards | %.0f | 1 | 1 | – | %.0f | %.0f |\n", subjects[net].title, 4 * (set + 1),
               horovod, horovod_node_bytes(&subjects[net].model, &c) / MIB, paper_bytes[net][1]);
        for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
            const struct proposal chosen = proposed(&subjects[net], SETS - 1, rows[i].allocation, rows[i].placement, 0);
            const bool is_local = rows[i].placement == PLACEMENT_LOCAL;
            char its[2][16] = {"–", "–"};
            double rate = 0, bytes = 0, least = INFINITY, most = 0;
            uint32_t in_flight = 0;
            for (uint32_t server = 0; server < SETS; server++) {
                const struct proposal p = proposed_at_most(&subjects[net], rows[i].allocation, rows[i].placement,
                                                           server, paper_in_flight[net][SETS - 1]);
                rate += p.result.rate / SETS;
                bytes += p.result.node_bytes / SETS;
                least = fmin(least, p.result.rate);
                most = fmax(most, p.result.rate);
                in_flight = p.options.in_flight;
            }
            if (is_local) snprintf(its[0], sizeof its[0], "%.1f", paper_over_horovod[net]);
            if (is_local) snprintf(its[1], sizeof its[1], "%.0f", paper_bytes[net][0]);
            printf("| %s | %s | %.0f (%.0f to %.0f) [%u] | %.2f | %s | %.0f [%u] | %.0f | %s |\n", subjects[net].title,
                   rows[i].title, rate, least, most, in_flight, rate / horovod, its[0], chosen.result.rate,
                   chosen.options.in_flight, bytes / MIB, its[1]);
        }
    }
}

#define FIGURE3_IN_FLIGHT 7u
static void figure3(void)
{
    static const struct {
        const char *title;
        struct worker_cards cards;
    } workers[] = {{"VVVV", {{[V] = 4}}},
                   {"RRRR", {{[R] = 4}}},
                   {"GGGG", {{[G] = 4}}},
                   {"QQQQ", {{[Q] = 4}}},
                   {"VRGQ", {{[V] = 1, [R] = 1, [G] = 1, [Q] = 1}}},
                   {"VVQQ", {{[V] = 2, [Q] = 2}}},
                   {"RRGG", {{[R] = 2, [G] = 2}}}};
    heading("Figure 3: one virtual worker, alone", "Images/s with one minibatch in flight; then throughput over that, "
                                                   "and the greatest utilisation of its stages, "
                                                   "a column for each number in flight. –: does not fit.");
    printf("| net | worker | images/s |");
    for (uint32_t n = 1; n <= FIGURE3_IN_FLIGHT; n++) printf(" %u |", n);
    printf("\n|---|---|---|");
    for (uint32_t n = 1; n <= FIGURE3_IN_FLIGHT; n++) printf("---|");
    printf("\n");
    for (uint32_t net = 0; net < NETS; net++)
        for (size_t w = 0; w < sizeof workers / sizeof workers[0]; w++) {
            const struct subject *s = &subjects[net];
            struct workers_cluster c = s->all;
            double first = 0;
            c.inside = inside;
            c.between = between;
            for (uint32_t n = 1; n <= FIGURE3_IN_FLIGHT; n++) {
                struct partition partition;
                struct wave_result r;
                bool is_found;
                must(partition_find(&partition, &s->model, &c, &workers[w].cards, n, 1, &is_found));
                if (!is_found) {
                    printf("%s – |", n == 1 ? "| - | - | - |" : "");
                    continue;
                }
                must(wave_run(&r, &(struct wave_run){.model = &s->model,
                                                     .cluster = &c,
                                                     .workers = &partition,
                                                     .worker_count = 1,
                                                     .sharers = 1,
                                                     .in_flight = n,
                                                     .waves = 64}));
                double most = 0;
                for (uint32_t q = 0; q < partition.stage_count; q++) most = fmax(most, r.utilisation[0][q]);
                if (n == 1) printf("| %s | %s | %.0f |", s->title, workers[w].title, first = r.rate);
                printf(" %.2f, %.0f %% |", r.rate / first, 100 * most);
            }
            printf("\n");
        }
}

/* --- waiting ------------------------------------------------------------------------------------ */

static const uint32_t distances[] = {0, 1, 2, 4, 8, 32};
#define DISTANCES    (sizeof distances / sizeof distances[0])
#define WORKERS      4u
#define RECORDED_MAX 65536u

/* Draws at random from the times in a file, each over their mean. */
static void jitter_read(const char *path, double *slow)
{
    static double times[RECORDED_MAX];
    uint32_t count = 0;
    double sum = 0;
    FILE *in = fopen(path, "r");
    if (in == NULL) usage(path);
    while (count < RECORDED_MAX && fscanf(in, "%lf", &times[count]) == 1 && times[count] > 0) sum += times[count++];
    if (count == 0 || !feof(in)) usage("--jitter: expected up to 65536 times above 0, one a line");
    fclose(in);
    struct draw d = draw_make(seed, DRAW_JITTER);
    for (size_t k = 0; k < WORKERS * waiting_waves; k++) slow[k] = times[draw_below(&d, count)] * count / sum;
}

/* VGG-19, ED-local, 16 cards, five in flight: the setting of the paper's Figure 6. */
static struct wave_result waited(uint32_t distance, const double *slow)
{
    const struct subject *s = &subjects[VGG];
    const struct workers_cluster c = set_of(s, SETS - 1);
    const uint32_t in_flight = paper_in_flight[VGG][SETS - 1];
    const struct proposal p = hetpipe_of(VGG, SETS - 1, in_flight);
    struct wave_result r;
    must(wave_run(&r, &(struct wave_run){.model = &s->model,
                                         .cluster = &c,
                                         .workers = p.workers,
                                         .worker_count = p.allocation.worker_count,
                                         .in_flight = in_flight,
                                         .sharers = p.sharers,
                                         .distance = distance,
                                         .waves = (uint32_t)waiting_waves,
                                         .placement = PLACEMENT_LOCAL,
                                         .slow = slow}));
    return r;
}

static void waiting_row(const char *title, const double *slow)
{
    double first = 0;
    for (size_t i = 0; i < DISTANCES; i++) {
        const struct wave_result r = waited(distances[i], slow);
        const uint32_t in_flight = paper_in_flight[VGG][SETS - 1];
        if (i == 0) first = r.waiting;
        printf("| %s | %u | %.0f | %.0f | %.2f | %.0f %% | %" PRIu64 " of %" PRIu64 ", %" PRIu64 " of %" PRIu64 " |\n",
               title, distances[i], r.rate, 1e3 * r.waiting, r.waiting / first, 100 * r.idle / r.waiting, r.local_max,
               wsp_local_bound(in_flight), r.global_max, wsp_global_bound(in_flight, distances[i]));
    }
}

static void waiting(void)
{
    static const double sigmas[] = {0.05, 0.1, 0.2, 0.4};
    double *slow = malloc(WORKERS * waiting_waves * sizeof *slow);
    CHECK(slow);
    heading("Waiting: VGG-19, ED-local, 16 cards", "The paper: at D = 4 a worker waits 0.62 of what it does at D = 0, "
                                                   "and is idle for 18 % of that. Milliseconds a wave; updates missing "
                                                   "at most, of what the bounds allow, s_local and s_global.");
    printf("| four workers | D | images/s | waits, ms | over D = 0 | of it idle | missing |\n"
           "|---|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < sizeof sigmas / sizeof sigmas[0]; i++) {
        char title[64];
        struct draw d = draw_make(seed, DRAW_JITTER);
        for (size_t k = 0; k < WORKERS * waiting_waves; k++) {
            const double g = sqrt(-2 * log(draw_unit(&d))) * cos(2 * M_PI * draw_unit(&d));
            slow[k] = exp(sigmas[i] * g - sigmas[i] * sigmas[i] / 2);
        }
        snprintf(title, sizeof title, "jitter %.2f", sigmas[i]);
        waiting_row(title, slow);
    }
    if (jitter_path) {
        jitter_read(jitter_path, slow);
        waiting_row("recorded", slow);
    }
    for (size_t k = 0; k < WORKERS * waiting_waves; k++) slow[k] = k < waiting_waves ? 1.5 : 1;
    waiting_row("one always 1.5 times as long", slow);
    free(slow);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        const bool has_value = i + 1 < argc;
        bool is_good = false;
        if (strcmp(argv[i], "--waves") == 0)
            is_good =
                has_value && cfg_parse_u64(argv[++i], &waiting_waves) && waiting_waves >= 40 && waiting_waves <= 100000;
        else if (strcmp(argv[i], "--seed") == 0)
            is_good = has_value && cfg_parse_u64(argv[++i], &seed);
        else if (strcmp(argv[i], "--jitter") == 0)
            is_good = has_value && access(jitter_path = argv[++i], R_OK) == 0;
        else if (strcmp(argv[i], "--inside") == 0)
            is_good = has_value && cfg_parse_f64(argv[++i], &inside) && inside >= 1;
        else if (strcmp(argv[i], "--between") == 0)
            is_good = has_value && cfg_parse_f64(argv[++i], &between) && between >= 1;
        if (!is_good) usage(argv[i]);
    }
    if ((inside > 0) != (between > 0)) usage("--inside and --between go together");
    for (uint32_t net = 0; net < NETS; net++) subject_open(&subjects[net]);
    const bool is_fitted = inside == 0;
    if (is_fitted) fit();
    printf("# HetPipe, section 8, in simulation\n\n"
           "%s: %.3g GB/s of a card within its node, %.3g GB/s that a node receives from others.\n",
           is_fitted ? "Fitted" : "Given", inside / 1e9, between / 1e9);
    table4();
    refusal();
    partitions();
    figure4();
    figure3();
    waiting();
    return 0;
}
