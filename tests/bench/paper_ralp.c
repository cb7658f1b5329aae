/* The experiments of RALP (sched/ralp.h) beside what we find, as Markdown: its Tables 1 and 2 from
 * the profiler; its Tables 3 and 4, and what its text says of figures 2, 3, 7, 8 and 9, by
 * simulation (sched/nets/data_parallel.h).
 *
 *     paper_ralp [--steps N]       steps that every figure is taken over (12)
 *
 * Given, and fixed before anything is simulated:
 *
 *     cluster    8 machines of 4 cards (section 6.1); a job's cards are on as many machines as can be, workers first
 *     batches    tf_cnn_benchmarks', with its 1,001 classes, or the 21,841 of section 6.3
 *     cards      images a second of a TITAN Xp alone, from figures that others have published (rates_set)
 *     links      56 Gb/s a machine each way (section 6.1)
 *     processes  one rate for all: what TensorFlow and copies leave of a link. With this rate four VGG11 jobs beside
 *                four of ResNet-50, each of three workers and a server, reach Table 3's 120.6 images/s: the one fit
 *
 * All else is a prediction: the other cells of Table 3 and everything below them. The text is the only
 * source for the figures, and does not give their bars. How a step goes (struct rule) is no prediction: it
 * was chosen among the six rules at the end of the page, for the order of figure 7's bars and one fit,
 * with all predictions in sight. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cfg/key.h"
#include "sched/nets/data_parallel.h"
#include "sched/nets/net_plan.h"

#define GIB          1073741824.0
#define CLASSES      1001u
#define CLASSES_22K  21841u
#define MACHINES     8u
#define CARDS        32u
#define FITTED_SPEED 120.6
#define MODELS       8u

#define LINK_RATE    7e9 /* 56 Gb/s */
#define UNLIMITED    1e15

static uint32_t steps = 12;

/* How a step goes, and which rate is fitted to Table 3. */
enum fitted { PROCESS, LINK, PROCESS_AND_LINK, LINK_AFTER_PROCESS };
static const struct rule {
    const char *name;
    bool overlaps;
    enum fitted fitted;
} rules[] = {
    {"one after another; processes fitted, links of 7 GB/s", false, PROCESS},
    {"the same, overlapped", true, PROCESS},
    {"one after another; links fitted, processes not limited", false, LINK},
    {"the same, overlapped", true, LINK},
    {"one after another; processes fitted, links of four times their rate", false, PROCESS_AND_LINK},
    {"one after another; processes fitted to figure 2's 53 %, then links", false, LINK_AFTER_PROCESS},
};
static struct parallel_machines machines = {.count = MACHINES};

static void must(status st)
{
    if (st == ST_OK) return;
    fprintf(stderr, "paper_ralp: %s\n", status_message());
    exit(1);
}

/* --- models ------------------------------------------------------------------------------------ */

/* The paper's models, in its order. */
enum { ALEXNET, GOOGLENET, INCEPTION3, LENET, OVERFEAT, RESNET50, VGG11, VGG19 };
static const struct {
    const char *name, *title;
    double skewness;  /* Table 1 */
    bool is_friendly; /* "significant" improvements: those with a skewness below -1.5 */
} papers[MODELS] = {
    {"alexnet", "AlexNet", -2.27, true},
    {"googlenet", "GoogLeNet", -0.74, false},
    {"inception3", "Inception-v3", -0.96, false},
    {"lenet", "LeNet", -1.16, false},
    {"overfeat", "Overfeat", -2.11, true},
    {"resnet50", "ResNet-50", -1.26, false},
    {"vgg11", "VGG11", -3.62, true},
    {"vgg19", "VGG19", -3.02, true},
};

struct model {
    struct net net, net_22k;
    struct ralp ralp, ralp_22k;
    double rate, flop_seconds;
};
static struct model models[MODELS];

/* Operations of the net's forward pass. */
static double operations(const char *name)
{
    struct net net;
    must(net_make(&net, name, CLASSES));
    const double flops = net_flops(&net, 0, net.layer_count);
    net_free(&net);
    return flops;
}

/* Images a second of a TITAN Xp in float32.
 *   Lambda Labs, "RTX 2080 Ti Deep Learning Benchmarks with TensorFlow" (2019; TensorFlow 1.12,
 *       tf_cnn_benchmarks): TITAN Xp: ResNet-50 236, ResNet-152 90, Inception-v3 151, Inception-v4
 *       63; GTX 1080 Ti: 209, 81, 136, 58, and VGG-16 125, which the TITAN Xp is taken to raise as
 *       it does these four in the mean
 *   tensorflow.org, "Benchmarks" (2017; Tesla P100, tf_cnn_benchmarks): AlexNet 2987, VGG-16 154
 *   S. Chintala, convnet-benchmarks (2016; TITAN X, TensorFlow): ms for 128 images, AlexNet 81, Overfeat 279,
 *       GoogLeNet 445
 *   github.com/tensorflow/benchmarks, issue 88 (2017; TITAN X of Pascal): a small AlexNet on images of 32
 *       x 32: 7,000, taken for LeNet, of which nobody has published a figure */
static void rates_set(void)
{
    const double vgg16 = 125 * (236. / 209 + 90. / 81 + 151. / 136 + 63. / 58) / 4, alexnet = vgg16 * 2987 / 154;
    models[ALEXNET].rate = alexnet;
    models[GOOGLENET].rate = alexnet * 81 / 445;
    models[INCEPTION3].rate = 151;
    models[LENET].rate = 7000;
    models[OVERFEAT].rate = alexnet * 81 / 279;
    models[RESNET50].rate = 236;
    models[VGG11].rate = vgg16 * operations("vgg16") / operations("vgg11");
    models[VGG19].rate = vgg16 * operations("vgg16") / operations("vgg19");
}

static void models_make(void)
{
    rates_set();
    for (uint32_t m = 0; m < MODELS; m++) {
        struct model *model = &models[m];
        must(net_make(&model->net, papers[m].name, CLASSES));
        must(net_make(&model->net_22k, papers[m].name, CLASSES_22K));
        must(net_ralp(&model->ralp, &model->net, model->net.batch, RALP_THRESHOLD));
        must(net_ralp(&model->ralp_22k, &model->net_22k, model->net.batch, RALP_THRESHOLD));
        model->flop_seconds = 1 / (model->rate * net_flops(&model->net, 0, model->net.layer_count));
    }
}

/* --- Tables 1 and 2 ---------------------------------------------------------------------------- */

static void table_1(void)
{
    uint32_t exact = 0, strict = 0;
    printf("\n## Table 1: skewness of parameters\n\n"
           "| model | paper | ours | split behind | K = -1.5 |\n"
           "|---|---|---|---|---|\n");
    for (uint32_t m = 0; m < MODELS; m++) {
        const struct model *model = &models[m];
        const bool is_strict = model->ralp.skewness < -1.5;
        exact += round(model->ralp.skewness * 100) == round(papers[m].skewness * 100);
        strict += is_strict == papers[m].is_friendly;
        printf("| %s | %.2f | %.2f | %s | %s |\n", papers[m].title, papers[m].skewness, model->ralp.skewness,
               model->net.layers[model->ralp.last].name, is_strict ? "split" : "not split");
    }
    struct net net;
    struct ralp ralp;
    char text[512];
    must(net_make(&net, "resnet152", CLASSES));
    must(net_ralp(&ralp, &net, net.batch, RALP_THRESHOLD));
    printf("\n%u of %u to two decimals; K = -1.5 decides %u of %u as the paper. %s.\n", exact, MODELS, strict, MODELS,
           ralp_text(&ralp, "ResNet-152", net.layers[ralp.last].name, text, sizeof text));
    net_free(&net);
}

static void table_2(void)
{
    static const struct {
        uint32_t model;
        double size, all_reduce, split;
    } rows[] = {{ALEXNET, 0.23, 3.23, 0.47}, {INCEPTION3, 0.09, 1.24, 1.30}, {VGG11, 0.50, 6.93, 0.64}};
    printf("\n## Table 2: GiB of a step (W = 8)\n\n"
           "| model | size: paper | ours | Horovod: paper | ours | ratio | RALP: paper | ours | ratio |\n"
           "|---|---|---|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct ralp *r = &models[rows[i].model].ralp;
        const double all_reduce = ralp_all_reduce_bytes(r, MACHINES) / GIB, split = ralp_step_bytes(r, MACHINES) / GIB;
        printf("| %s | %.2f | %.3f | %.2f | %.3f | %.3f | %.2f | %.3f | %.3f |\n", papers[rows[i].model].title,
               rows[i].size, r->param_bytes / GIB, rows[i].all_reduce, all_reduce, all_reduce / rows[i].all_reduce,
               rows[i].split, split, split / rows[i].split);
    }
}

/* --- jobs -------------------------------------------------------------------------------------- */

/* Cards in turn over the machines, from machine `shift` on. */
static const uint32_t *spread(uint32_t shift)
{
    static uint32_t machine[MACHINES][CARDS];
    for (uint32_t i = 0; i < CARDS; i++) machine[shift % MACHINES][i] = (shift + i) % MACHINES;
    return machine[shift % MACHINES];
}

static struct parallel_job job_of(uint32_t m, bool is_22k, enum parallel_way way, uint32_t workers, uint32_t servers)
{
    const struct model *model = &models[m];
    return (struct parallel_job){.net = is_22k ? &model->net_22k : &model->net,
                                 .way = way,
                                 .flop_seconds = model->flop_seconds,
                                 .batch = model->net.batch,
                                 .worker_count = workers,
                                 .server_count = servers,
                                 .machine = spread(0),
                                 .front_last = is_22k ? model->ralp_22k.last : model->ralp.last};
}

static void run(struct parallel_job *jobs, uint32_t count) { must(parallel_run(&machines, jobs, count, steps)); }

static double speed_alone(struct parallel_job job)
{
    run(&job, 1);
    return job.images_per_second;
}

/* The four ways with N cards. */
enum { BASELINE, ALL_REDUCE, RALP_H, RALP_N, WAYS };
static double speed_of(uint32_t m, bool is_22k, uint32_t way, uint32_t n)
{
    switch (way) {
    case BASELINE: return speed_alone(job_of(m, is_22k, PARALLEL_SERVERS, n / 2, n / 2));
    case ALL_REDUCE: return speed_alone(job_of(m, is_22k, PARALLEL_ALL_REDUCE, n, 0));
    case RALP_H: return speed_alone(job_of(m, is_22k, PARALLEL_RALP, n / 2, 1));
    default: return speed_alone(job_of(m, is_22k, PARALLEL_RALP, n - 1, 1));
    }
}

/* --- Tables 3 and 4 ---------------------------------------------------------------------------- */

/* Eight jobs of three workers and a server on all 32 cards, of two models in turn; each kind's mean speed. */
struct two {
    double first, second;
};
static struct two consolidated(uint32_t first, enum parallel_way first_way, uint32_t second,
                               enum parallel_way second_way)
{
    struct parallel_job jobs[MACHINES];
    for (uint32_t j = 0; j < MACHINES; j++) {
        jobs[j] = j % 2 == 0 ? job_of(first, false, first_way, 3, 1) : job_of(second, false, second_way, 3, 1);
        jobs[j].machine = spread(j);
    }
    run(jobs, MACHINES);
    struct two speed = {0};
    for (uint32_t j = 0; j < MACHINES; j++)
        *(j % 2 == 0 ? &speed.first : &speed.second) += jobs[j].images_per_second / (MACHINES / 2);
    return speed;
}

/* The share of a step that communication takes with (n, n). */
static double communication(uint32_t m, uint32_t n)
{
    struct parallel_job job = job_of(m, false, PARALLEL_SERVERS, n, n);
    run(&job, 1);
    return 1 - job.compute_seconds / job.step_seconds;
}

static double communication_mean(uint32_t n)
{
    double sum = 0;
    for (uint32_t m = 0; m < MODELS; m++) sum += communication(m, n);
    return sum / MODELS;
}

static void rate_set(enum fitted fitted, double rate)
{
    if (fitted != LINK_AFTER_PROCESS) machines.process_rate = fitted == LINK ? UNLIMITED : rate;
    machines.link_rate = fitted == PROCESS ? LINK_RATE : fitted == PROCESS_AND_LINK ? 4 * rate : rate;
}

/* Fits the rate: at a greater rate jobs are faster, and communication is less of a step.
 * Returns the speed reached. */
static double rates_fit(const struct rule *rule)
{
    machines.overlaps = rule->overlaps;
    machines.link_rate = UNLIMITED;
    for (double low = 1e8, high = 1e11; rule->fitted == LINK_AFTER_PROCESS && high / low > 1 + 1e-6;) {
        machines.process_rate = sqrt(low * high);
        *(communication_mean(1) > 0.53 ? &low : &high) = machines.process_rate;
    }
    double speed = 0;
    for (double low = 1e8, high = 1e11; high / low > 1 + 1e-6;) {
        const double rate = sqrt(low * high);
        rate_set(rule->fitted, rate);
        speed = consolidated(VGG11, PARALLEL_SERVERS, RESNET50, PARALLEL_SERVERS).first;
        *(speed < FITTED_SPEED ? &low : &high) = rate;
    }
    return speed;
}

enum { TABLE_3 = 8, TABLE_4 = 4, FITTED = 2 };
static const struct cell {
    const char *name;
    double paper;
} cells[TABLE_3 + TABLE_4] = {
    {"8 VGG11, TensorFlow", 91.3},
    {"8 VGG11, RALP", 651.8},
    {"4 VGG11 beside 4 ResNet-50, TensorFlow (fitted)", FITTED_SPEED},
    {"4 VGG11 beside 4 ResNet-50, RALP", 592.2},
    {"4 ResNet-50 beside 4 VGG11, TensorFlow", 351.9},
    {"4 ResNet-50 beside 4 VGG11, RALP", 386.9},
    {"8 ResNet-50, TensorFlow", 400.5},
    {"8 ResNet-50, RALP", 409.8},
    {"4 VGG11, RALP, beside 4 ResNet-50, TensorFlow", 605.2},
    {"those 4 ResNet-50", 384.3},
    {"4 VGG11, TensorFlow, beside 4 ResNet-50, RALP", 122.9},
    {"those 4 ResNet-50", 352.1},
};

static void cells_find(double ours[TABLE_3 + TABLE_4])
{
    const enum parallel_way TF = PARALLEL_SERVERS, RALP = PARALLEL_RALP;
    const struct two vgg = consolidated(VGG11, TF, VGG11, TF), vgg_ralp = consolidated(VGG11, RALP, VGG11, RALP);
    const struct two both = consolidated(VGG11, TF, RESNET50, TF);
    const struct two both_ralp = consolidated(VGG11, RALP, RESNET50, RALP);
    const struct two res = consolidated(RESNET50, TF, RESNET50, TF);
    const struct two res_ralp = consolidated(RESNET50, RALP, RESNET50, RALP);
    const struct two vgg_only = consolidated(VGG11, RALP, RESNET50, TF);
    const struct two res_only = consolidated(VGG11, TF, RESNET50, RALP);
    const double found[TABLE_3 + TABLE_4] = {(vgg.first + vgg.second) / 2,
                                             (vgg_ralp.first + vgg_ralp.second) / 2,
                                             both.first,
                                             both_ralp.first,
                                             both.second,
                                             both_ralp.second,
                                             (res.first + res.second) / 2,
                                             (res_ralp.first + res_ralp.second) / 2,
                                             vgg_only.first,
                                             vgg_only.second,
                                             res_only.first,
                                             res_only.second};
    memcpy(ours, found, sizeof found);
}

/* Returns the ratio to the paper's that is farthest from 1, among `count` cells from `first` on without the
 * fitted one; *within: how many are within 20 %. */
static double cells_judge(const double ours[TABLE_3 + TABLE_4], uint32_t first, uint32_t count, uint32_t *within)
{
    double worst = 1;
    *within = 0;
    for (uint32_t i = first; i < first + count; i++) {
        const double ratio = ours[i] / cells[i].paper;
        if (i == FITTED) continue;
        *within += ratio >= 0.8 && ratio <= 1.2;
        if (fabs(log(ratio)) > fabs(log(worst))) worst = ratio;
    }
    return worst;
}

static void cells_tell(const double ours[TABLE_3 + TABLE_4], uint32_t first, uint32_t count)
{
    uint32_t within;
    const double worst = cells_judge(ours, first, count, &within);
    printf("| images/s of a job | paper | ours | ratio |\n|---|---|---|---|\n");
    for (uint32_t i = first; i < first + count; i++)
        printf("| %s | %.1f | %.1f | %.2f |\n", cells[i].name, cells[i].paper, ours[i], ours[i] / cells[i].paper);
    printf("\n%u of %u predictions are within 20 %%; the worst is %.2f of the paper's.", within,
           first == 0 ? count - 1 : count, worst);
}

static void tables_3_and_4(void)
{
    double ours[TABLE_3 + TABLE_4];
    cells_find(ours);
    printf("\n## Table 3: eight jobs at once\n\n");
    cells_tell(ours, 0, TABLE_3);
    printf(" RALP over TensorFlow: the paper's 7.14, 4.91, 1.10 and 1.02; ours %.2f, %.2f, %.2f and %.2f.\n",
           ours[1] / ours[0], ours[3] / ours[2], ours[5] / ours[4], ours[7] / ours[6]);
    printf("\n## Table 4: some of the eight with RALP\n\n");
    cells_tell(ours, TABLE_3, TABLE_4);
    printf("\n");
}

/* --- figures ----------------------------------------------------------------------------------- */

static void figure_2(void)
{
    printf("\n## Figure 2: what communication takes of a step, TensorFlow\n\n"
           "| model | (1,1) | (2,2) | (4,4) |\n|---|---|---|---|\n");
    for (uint32_t m = 0; m < MODELS; m++)
        printf("| %s | %.0f %% | %.0f %% | %.0f %% |\n", papers[m].title, 100 * communication(m, 1),
               100 * communication(m, 2), 100 * communication(m, 4));
    printf("| mean (the paper's: 53 %%, not told, 58 %%) | %.0f %% | %.0f %% | %.0f %% |\n",
           100 * communication_mean(1), 100 * communication_mean(2), 100 * communication_mean(4));
}

static void figure_3(void)
{
    struct parallel_job jobs[MODELS], alone[MODELS];
    for (uint32_t m = 0; m < MODELS; m++) {
        alone[m] = jobs[m] = job_of(m, false, PARALLEL_SERVERS, 3, 1);
        jobs[m].machine = spread(m);
        run(&alone[m], 1);
    }
    run(jobs, MODELS);
    printf(
        "\n## Figure 3: a step beside seven other models over one alone, TensorFlow, three workers and a server\n\n");
    for (uint32_t m = 0; m < MODELS; m++)
        printf("%s%s %.2f", m ? ", " : "", papers[m].title, jobs[m].step_seconds / alone[m].step_seconds);
    printf(". The paper: over 7 for LeNet, the most.\n");
}

/* Counts for what the text of section 6 says of figures 7 and 9. */
struct claims {
    uint32_t cells, over_baseline, friendly_cells, friendly_over, other_cells, other_within, half_over, ordered;
    double greatest, least_friendly, most_friendly;
    double least_far, most_far; /* of Overfeat and VGG11, over TensorFlow, both RALPs */
};

static void claims_count(struct claims *c, uint32_t m, const double speed[WAYS])
{
    const double over_all_reduce = speed[RALP_N] / speed[ALL_REDUCE];
    c->cells++;
    c->over_baseline += speed[RALP_H] >= speed[BASELINE] && speed[RALP_N] >= speed[BASELINE];
    c->half_over += speed[RALP_H] > speed[ALL_REDUCE];
    c->greatest = fmax(c->greatest, speed[RALP_N] / speed[BASELINE]);
    c->ordered += speed[RALP_N] >= speed[RALP_H] && speed[RALP_H] >= speed[BASELINE] &&
                  (!papers[m].is_friendly || speed[RALP_N] >= speed[ALL_REDUCE]);
    if (m == OVERFEAT || m == VGG11) {
        c->least_far = fmin(c->least_far, fmin(speed[RALP_H], speed[RALP_N]) / speed[BASELINE]);
        c->most_far = fmax(c->most_far, fmax(speed[RALP_H], speed[RALP_N]) / speed[BASELINE]);
    }
    if (papers[m].is_friendly) {
        c->friendly_cells++;
        c->friendly_over += over_all_reduce >= 1.2;
        c->least_friendly = fmin(c->least_friendly, over_all_reduce);
        c->most_friendly = fmax(c->most_friendly, over_all_reduce);
    } else {
        c->other_cells++;
        c->other_within += over_all_reduce >= 0.85 && over_all_reduce <= 1.3;
    }
}

/* Prints the figure if `tells`. */
static struct claims figure_7_or_9(bool is_22k, bool tells)
{
    struct claims c = {.least_friendly = INFINITY, .least_far = INFINITY};
    for (uint32_t m = 0; m < MODELS; m++)
        for (uint32_t n = 4; n <= 16; n *= 2) {
            double speed[WAYS];
            for (uint32_t way = 0; way < WAYS; way++) speed[way] = speed_of(m, is_22k, way, n);
            claims_count(&c, m, speed);
            if (tells)
                printf("| %s | %u | %.0f | %.2f | %.2f | %.2f | %.2f |\n", papers[m].title, n, speed[BASELINE],
                       speed[ALL_REDUCE] / speed[BASELINE], speed[RALP_H] / speed[BASELINE],
                       speed[RALP_N] / speed[BASELINE], speed[RALP_N] / speed[ALL_REDUCE]);
        }
    return c;
}

static void figure_tell(bool is_22k)
{
    printf("\n## Figure %s: speed over TensorFlow's, %s classes\n\n"
           "| model | N | TensorFlow, images/s | Horovod | RALP-H | RALP-N | RALP-N over Horovod |\n"
           "|---|---|---|---|---|---|---|\n",
           is_22k ? "9" : "7", is_22k ? "21,841" : "1,001");
    const struct claims c = figure_7_or_9(is_22k, true);
    printf("\n| the text says | ours |\n|---|---|\n"
           "| RALP-H and RALP-N are over TensorFlow in all cases | %u of %u |\n"
           "| Overfeat and VGG11 are 5 to 10 times over TensorFlow, the most is 13 | %.1f to %.1f, the most %.1f |\n"
           "| RALP-N is over Horovod on AlexNet, Overfeat, VGG11, VGG19: 1.2 times or more | %u of %u: %.2f to %.2f |\n"
           "| on the others it is much the same: 0.85 to 1.3 | %u of %u |\n"
           "| the bars' order: RALP-N, RALP-H, TensorFlow, and on those four RALP-N over Horovod | %u of %u |\n"
           "| RALP-H is over Horovod (said of 21,841 classes) | %u of %u |\n",
           c.over_baseline, c.cells, c.least_far, c.most_far, c.greatest, c.friendly_over, c.friendly_cells,
           c.least_friendly, c.most_friendly, c.other_within, c.other_cells, c.ordered, c.cells, c.half_over, c.cells);
}

/* "6.93 GB of data transferred at each step, which roughly translates to 8.97 GB/s":
 * VGG11 with Horovod on 32 cards. */
static double all_reduce_speed(void) { return CARDS * models[VGG11].net.batch * 8.97 / 6.93; }

static void figure_8(void)
{
    printf("\n## Figure 8: RALP-N and Horovod up to 32 cards, images/s, and RALP with two nodes of the back\n\n"
           "| model | N | Horovod | RALP-N | over Horovod | N - 2 workers, two nodes | over RALP-N |\n"
           "|---|---|---|---|---|---|---|\n");
    for (uint32_t m = 0; m < MODELS; m++)
        for (uint32_t n = 4; n <= CARDS; n *= 2) {
            const double ring = speed_of(m, false, ALL_REDUCE, n), one = speed_of(m, false, RALP_N, n);
            const double two = speed_alone(job_of(m, false, PARALLEL_RALP, n - 2, 2));
            printf("| %s | %u | %.0f | %.0f | %.2f | %.0f | %.2f |\n", papers[m].title, n, ring, one, one / ring, two,
                   two / one);
        }
    printf("\nVGG11 with Horovod on 32 cards: by the text's 8.97 GB/s %.0f images/s, of which ours are %.2f.\n",
           all_reduce_speed(), speed_of(VGG11, false, ALL_REDUCE, CARDS) / all_reduce_speed());
}

static const char *rate_text(double rate, char text[16])
{
    text[0] = 0;
    if (rate < UNLIMITED) snprintf(text, 16, "%.2f", rate / 1e9);
    return text;
}

/* Every rule, each with its own fit. */
static void rules_tell(void)
{
    printf("\n## What other rules of a step come to\n\n"
           "| rule | process, GB/s | link, GB/s | Table 3 within 20 %% | worst | Table 4 | worst | "
           "Figure 2, (1,1), (4,4) | Figure 7: both RALPs over TensorFlow | four: 1.2 x Horovod | others: "
           "0.85 to 1.3 | VGG11, Horovod, 32 |\n"
           "|---|---|---|---|---|---|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        double ours[TABLE_3 + TABLE_4];
        char process[16], link[16];
        uint32_t within_3, within_4;
        rates_fit(&rules[i]);
        cells_find(ours);
        const double worst_3 = cells_judge(ours, 0, TABLE_3, &within_3);
        const double worst_4 = cells_judge(ours, TABLE_3, TABLE_4, &within_4);
        const struct claims c = figure_7_or_9(false, false);
        printf("| %s | %s | %s | %u of %u | %.2f | %u of %u | %.2f | %.0f %%, %.0f %% | %u of %u | %u of %u | "
               "%u of %u | %.2f |\n",
               rules[i].name, rate_text(machines.process_rate, process), rate_text(machines.link_rate, link), within_3,
               TABLE_3 - 1, worst_3, within_4, TABLE_4, worst_4, 100 * communication_mean(1),
               100 * communication_mean(4), c.over_baseline, c.cells, c.friendly_over, c.friendly_cells, c.other_within,
               c.other_cells, speed_of(VGG11, false, ALL_REDUCE, CARDS) / all_reduce_speed());
    }
}

int main(int argc, char **argv)
{
    uint64_t value = steps;
    if (argc != 1 && (argc != 3 || strcmp(argv[1], "--steps") != 0 || !cfg_parse_u64(argv[2], &value) || value < 2 ||
                      value > 1000)) {
        fprintf(stderr, "paper_ralp: expected no arguments, or --steps and a number from 2 to 1000\n"
                        "usage: paper_ralp [--steps N]\n");
        return 2;
    }
    steps = (uint32_t)value;
    printf("# RALP: the paper's figures and ours\n");
    models_make();
    table_1();
    table_2();
    const double speed = rates_fit(&rules[0]);
    printf(
        "\nA process sends and receives %.2f GB/s each way (fitted: %.1f images/s). Images a second of a card alone:",
        machines.process_rate / 1e9, speed);
    for (uint32_t m = 0; m < MODELS; m++) printf("%s %s %.0f", m ? "," : "", papers[m].title, models[m].rate);
    printf(".\n");
    tables_3_and_4();
    figure_2();
    figure_3();
    figure_tell(false);
    figure_8();
    figure_tell(true);
    rules_tell();
    return 0;
}
