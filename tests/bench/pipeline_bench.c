/* What the pipeline costs, and what it gains, as ratios between turns of one run.
 *
 *     pipeline_bench [--rounds N] [--shorter N] [--rest MS] [SECTION]...
 *
 * in the root of the source; without sections: all.
 *
 *     stages     stages of equal and of unequal cost on two cores, against one core on the same work
 *     overhead   samples/ctrdnn.cfg in one stage, against the bare list of ops in a loop
 *     tiny       samples/ctrdnn1.cfg with micro-batches of 8 examples and a stage for every layer: cost of tasks
 *     trace      samples/ctrdnn1.cfg with and without a trace
 *     plans      samples/ctrdnn.cfg with batches of 2048: one gang, two replicas, two stages
 *
 * Reading is in none of this: the feed (prepared_feed.h) plays micro-batches that were parsed and numbered
 * beforehand. The pipeline and what it is compared with use the same feed, the same slots in the same order,
 * the same parameters and rows.
 *
 *     bare       feed_try_next, forward list, backward list, feed_release for every micro-batch; at the step's end the
 *                updates. A thread of its own on the first core, with a device like the pipeline's. No loss is
 *                added up or read.
 *     pipeline   pipeline_train, from the call to its return
 *
 * All that is compared takes turns of a fraction of a second, in an order that is reversed with every round.
 * A ratio is taken between turns of one round. Printed are the median of all rounds, their middle half, and
 * the ratio of the best turns, which on a shared machine comes nearest to the ratio on a quiet one. `cpu`
 * compares the processor time of the whole process: other programs cost it caches but no time; where threads
 * wait for each other it counts their spinning.
 *
 * On a crowded machine nobody interrupts some of many short turns, each after a rest: --shorter 8
 * --rest 10 --rounds 100 makes turns an eighth as long, and sleeps 10 ms before each. A job's
 * beginning and end then weigh more. */
#include "engine/base/file.h"
#include "tests/bench/pipeline_turns.h"

static void machine_print(void)
{
    char line[256], name[256] = "an unknown processor";
    double load = 0;
    FILE *file = fopen("/proc/cpuinfo", "r");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "model name : %255[^\n]", name) == 1) break;
    if (file) fclose(file);
    if (getloadavg(&load, 1) != 1) load = -1;
    printf("machine    %u cores of %s, %s; load average %.1f; %u rounds\n", cores.count, name, isa_names[isa_best()],
           load, rounds);
}

static char *text_read(const char *path)
{
    struct file_map map;
    must(file_map_open(&map, path));
    char *text = strndup((const char *)map.data, map.bytes);
    CHECK(text != NULL);
    file_map_close(&map);
    return text;
}

/* --- stages ------------------------------------------------------------------------------------- */

/* A pass of a micro-batch of 8 through a stage of cost 1 takes about half a millisecond. */
#define COST_ROUNDS 20000u
#define MICRO       8u
#define MICROS      32u

static void busy_text(char *text, size_t bytes, const uint32_t *cost, uint32_t count)
{
    /* The gradient of `in` passes through all later layers: without it there would be no backward passes. */
    static const char head[] = "[model]\nname = busy\n[data]\ndense = I1..I4\n[fc in]\ninput = dense\nunits = 4\n";
    size_t at = (size_t)snprintf(text, bytes, "%s", head);
    for (uint32_t i = 0; i < count; i++) {
        at += (size_t)snprintf(text + at, bytes - at, "[busy b%u]\ninput = ", i + 1);
        at += (size_t)(i ? snprintf(text + at, bytes - at, "b%u", i) : snprintf(text + at, bytes - at, "in"));
        at += (size_t)snprintf(text + at, bytes - at, "\nrounds = %u\n", cost[i] * (COST_ROUNDS / shorter));
    }
    snprintf(text + at, bytes - at,
             "[fc y]\ninput = b%u\nunits = 1\n[loss bce]\ninput = y\nlabel = label\n[train]\noptimizer = sgd 0.01\n",
             count);
}

/* One shape of pipeline, under bsp with MICROS micro-batches a step and under wsp without steps to drain. */
static void stages_measure(const char *shape, const uint32_t *cost, uint32_t count, const char *cuts)
{
    uint32_t total = 0, slowest = 0, before = 0, longest = 0, micro_rounds;
    for (uint32_t i = 0; i < count; i++) {
        /* A stage begins when the stages in front of it have passed the first
         * micro-batch, and they end after it. */
        if (MICROS * cost[i] + before > longest) longest = MICROS * cost[i] + before;
        if (cost[i] > slowest) slowest = cost[i];
        before += cost[i];
        total += cost[i];
    }
    micro_rounds = 2 * MICRO * total * (COST_ROUNDS / shorter); /* forward and backward */
    char text[2048];
    busy_text(text, sizeof text, cost, count);
    static const char *const bsp_set[] = {"train.batch=256", "train.micro=8"};
    static const char *const wsp_set[] = {"train.batch=8", "train.micro=8", "train.sync=wsp"};
    static struct data bsp, wsp;
    static struct variant v[VARIANTS_MAX];
    data_open(&bsp, "busy.cfg", text, bsp_set, 2, 4);
    data_open(&wsp, "busy.cfg", text, wsp_set, 3, 64);
    struct stages chain = {cuts, 1, 1}, whole = {NULL, 1, 1};
    uint32_t two = cores.count < 2 ? cores.count : 2, n = 0;
    threads_variant(&v[n++], "a thread", 1, MICROS * micro_rounds);
    threads_variant(&v[n++], "two threads, twice the work", 2, MICROS * micro_rounds);
    pipeline_variant(&v[n++], "one core", &bsp, 1, whole, 1, SYNC_BSP);
    pipeline_variant(&v[n++], "two cores, bsp", &bsp, 1, chain, two, SYNC_BSP);
    pipeline_variant(&v[n++], "one core, wsp", &wsp, MICROS * shorter, whole, 1, SYNC_WSP);
    pipeline_variant(&v[n++], "two cores, wsp", &wsp, MICROS * shorter, chain, two, SYNC_WSP);
    bool has_dedicated = count > 2 && cores.count >= count;
    if (has_dedicated) {
        pipeline_variant(&v[n++], "a core a stage, bsp", &bsp, 1, chain, count, SYNC_BSP);
        pipeline_variant(&v[n++], "a core a stage, wsp", &wsp, MICROS * shorter, chain, count, SYNC_WSP);
    }
    turns_take(v, n);
    /* With fewer cores than stages, the cores bound the gain too. */
    double cores_allow = (double)total / two, allowed = total / (slowest > cores_allow ? slowest : cores_allow);
    double drained = (double)total * MICROS / longest;
    printf("stages     cost %s, %u micro-batches a step, %s\n", shape, MICROS,
           count > two ? "a pool of two cores" : "a core each");
    time_print(&v[0]);
    time_print(&v[2]);
    struct spread scaling = ratio_of(v[0].wall_ns, v[1].wall_ns);
    printf("           %-34s %6.2f x the work of one in the same time (middle half %.2f to %.2f, best turns %.2f)\n",
           "the machine: two threads do", 2 * scaling.median, 2 * scaling.low, 2 * scaling.high, 2 * scaling.least);
    gain_print(&v[3], &v[2], allowed, "what the slowest stage allows");
    if (count <= two) gain_print(&v[3], &v[2], drained, "that with the drain of the step");
    gain_print(&v[5], &v[4], allowed, "what the slowest stage allows");
    if (has_dedicated) {
        gain_print(&v[6], &v[2], (double)total / slowest, "what the slowest stage allows");
        gain_print(&v[6], &v[2], drained, "that with the drain of the step");
        gain_print(&v[7], &v[4], (double)total / slowest, "what the slowest stage allows");
    }
    for (uint32_t i = 0; i < n; i++) variant_close(&v[i]);
    data_close(&bsp);
    data_close(&wsp);
}

/* One stage as two replicas of a core, each with a lane of its own. Steps of few micro-batches
 * show how both lanes end together. */
static void replicas_measure(void)
{
    char text[2048];
    busy_text(text, sizeof text, (const uint32_t[]){4}, 1);
    static const char *const set[] = {"train.batch=64", "train.micro=8", "train.lanes=2"};
    static struct data d;
    static struct variant v[2];
    if (cores.count < 2) return;
    data_open(&d, "busy.cfg", text, set, 3, 16);
    pipeline_variant(&v[0], "one core", &d, 4, (struct stages){NULL, 1, 1}, 1, SYNC_BSP);
    pipeline_variant(&v[1], "two replicas, bsp", &d, 4, (struct stages){NULL, 2, 2}, 2, SYNC_BSP);
    turns_take(v, 2);
    printf("stages     one stage, two replicas of a core, %u micro-batches a step in 2 lanes\n", d.micro_count);
    gain_print(&v[1], &v[0], 2, "what two cores allow");
    variant_close(&v[0]);
    variant_close(&v[1]);
    data_close(&d);
}

static void stages(void)
{
    stages_measure("1:1", (const uint32_t[]){2, 2}, 2, "b1");
    stages_measure("1:2:1", (const uint32_t[]){1, 2, 1}, 3, "b1 b2");
    replicas_measure();
}

/* --- overhead ----------------------------------------------------------------------------------- */

static void overhead_measure(const char *text, uint32_t threads, const char *batch, uint32_t step_count, uint32_t steps)
{
    static struct data d;
    static struct variant v[2];
    data_open(&d, "samples/ctrdnn.cfg", text, &batch, 1, step_count);
    pipeline_variant(&v[1], "pipeline", &d, steps, (struct stages){NULL, threads, 1}, threads, SYNC_BSP);
    bare_variant(&v[0], "bare list of ops", &d, steps, v[1].feed, threads);
    turns_take(v, 2);
    printf("overhead   samples/ctrdnn.cfg, %s in micro-batches of %u, %u thread%s\n", batch, d.graph.header->micro,
           threads, threads > 1 ? "s" : "");
    time_print(&v[0]);
    time_print(&v[1]);
    cost_print(&v[1], &v[0], 0);
    variant_close(&v[0]);
    variant_close(&v[1]);
    data_close(&d);
}

static void overhead(void)
{
    char *text = text_read("samples/ctrdnn.cfg");
    for (uint32_t threads = 1; threads <= cores.count && threads <= 2; threads++) {
        overhead_measure(text, threads, "train.batch=128", 128, 20);
        overhead_measure(text, threads, "train.batch=2048", 8, 3);
    }
    free(text);
}

/* --- tiny --------------------------------------------------------------------------------------- */

static void tiny(void)
{
    static const char *const set[] = {"train.batch=128", "train.micro=8"};
    static struct data d;
    static struct variant v[4];
    char *text = text_read("samples/ctrdnn1.cfg");
    data_open(&d, "samples/ctrdnn1.cfg", text, set, 2, 64);
    struct stages all = {"e x h1 h2 y", 1, 1}, whole = {NULL, 1, 1};
    uint32_t two = cores.count < 2 ? cores.count : 2;
    pipeline_variant(&v[1], "one stage, one core", &d, 200, whole, 1, SYNC_BSP);
    pipeline_variant(&v[2], "6 stages, one core", &d, 200, all, 1, SYNC_BSP);
    pipeline_variant(&v[3], "6 stages, two cores", &d, 200, all, two, SYNC_BSP);
    bare_variant(&v[0], "bare list of ops", &d, 200, v[1].feed, 1);
    turns_take(v, 4);
    printf("tiny       samples/ctrdnn1.cfg, 16 micro-batches of 8\n");
    for (int i = 0; i < 4; i++) time_print(&v[i]);
    cost_print(&v[1], &v[0], 16 * 2 + 1);
    cost_print(&v[2], &v[0], 6 * (16 * 2 + 1));
    cost_print(&v[3], &v[0], 6 * (16 * 2 + 2));
    for (int i = 0; i < 4; i++) variant_close(&v[i]);
    data_close(&d);
    free(text);
}

/* --- trace -------------------------------------------------------------------------------------- */

static void trace_measure(const char *text, uint32_t threads)
{
    static struct data d;
    static struct variant v[2];
    char path[4096 + 8];
    data_open(&d, "samples/ctrdnn1.cfg", text, NULL, 0, 128);
    struct stages whole = {NULL, threads, 1};
    pipeline_variant(&v[0], "without a trace", &d, 1, whole, threads, SYNC_BSP);
    snprintf(path, sizeof path, "%s.json", clicks_path());
    must(trace_open(path, 8));
    /* Threads that start now get their rings. */
    pipeline_variant(&v[1], "with a trace", &d, 1, whole, threads, SYNC_BSP);
    /* Some tenths of a second, however short other turns are: the rings are drained ten times a second. */
    v[0].steps = v[1].steps = 1000 * threads;
    v[1].is_traced = true;
    turns_take(v, 2);
    printf("trace      samples/ctrdnn1.cfg, %u thread%s\n", threads, threads > 1 ? "s" : "");
    time_print(&v[0]);
    time_print(&v[1]);
    cost_print(&v[1], &v[0], 0);
    must(trace_drain()); /* while the stage is there whose name the rings hold */
    variant_close(&v[0]);
    variant_close(&v[1]);
    must(trace_close());
    unlink(path);
    data_close(&d);
}

static void trace(void)
{
    char *text = text_read("samples/ctrdnn1.cfg");
    for (uint32_t threads = 1; threads <= cores.count && threads <= 2; threads++) trace_measure(text, threads);
    free(text);
}

/* --- plans -------------------------------------------------------------------------------------- */

static void plans(void)
{
    static const char *const set[] = {"train.batch=2048", "train.lanes=2"};
    static struct data one, two;
    static struct variant v[7];
    if (cores.count < 2) {
        printf("plans      skipped: needs two cores\n");
        return;
    }
    char *text = text_read("samples/ctrdnn.cfg");
    data_open(&one, "samples/ctrdnn.cfg", text, set, 1, 8);
    data_open(&two, "samples/ctrdnn.cfg", text, set, 2, 8);
    pipeline_variant(&v[0], "one gang of two cores", &one, 3, (struct stages){NULL, 2, 1}, 2, SYNC_BSP);
    pipeline_variant(&v[1], "one core", &one, 3, (struct stages){NULL, 1, 1}, 1, SYNC_BSP);
    pipeline_variant(&v[2], "stages e..x | h1..bce", &one, 3, (struct stages){"x", 1, 1}, 2, SYNC_BSP);
    pipeline_variant(&v[3], "stages e..h1 | h2..bce", &one, 3, (struct stages){"h1", 1, 1}, 2, SYNC_BSP);
    pipeline_variant(&v[4], "pool, e..x | h1 | h2..bce", &one, 3, (struct stages){"x h1", 1, 1}, 2, SYNC_BSP);
    pipeline_variant(&v[5], "lanes = 2, one gang", &two, 3, (struct stages){NULL, 2, 1}, 2, SYNC_BSP);
    pipeline_variant(&v[6], "lanes = 2, two replicas", &two, 3, (struct stages){NULL, 2, 2}, 2, SYNC_BSP);
    turns_take(v, 7);
    printf("plans      samples/ctrdnn.cfg, train.batch=2048 in micro-batches of %u\n", one.graph.header->micro);
    for (int i = 0; i < 7; i++) time_print(&v[i]);
    for (int i = 1; i < 7; i++) gain_print(&v[i], &v[0], 0, "");
    gain_print(&v[6], &v[5], 0, "");
    for (int i = 0; i < 7; i++) variant_close(&v[i]);
    data_close(&one);
    data_close(&two);
    free(text);
}

/* ------------------------------------------------------------------------------------------------ */

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } sections[] = {{"stages", stages}, {"overhead", overhead}, {"tiny", tiny}, {"trace", trace}, {"plans", plans}};
    enum { SECTION_COUNT_ = sizeof sections / sizeof sections[0] };
    bool is_wanted[SECTION_COUNT_] = {0}, has_wish = false;
    for (int i = 1; i < argc; i++) {
        bool is_known = false;
        for (int s = 0; s < SECTION_COUNT_; s++)
            if (strcmp(argv[i], sections[s].name) == 0) is_known = is_wanted[s] = has_wish = true;
        if (strcmp(argv[i], "--rounds") == 0 && i + 1 < argc) {
            rounds = (uint32_t)strtoul(argv[++i], NULL, 10);
            is_known = rounds >= 1 && rounds <= ROUNDS_MAX;
        }
        if (strcmp(argv[i], "--rest") == 0 && i + 1 < argc)
            rest_ms = (uint32_t)strtoul(argv[++i], NULL, 10), is_known = true;
        if (strcmp(argv[i], "--shorter") == 0 && i + 1 < argc) {
            shorter = (uint32_t)strtoul(argv[++i], NULL, 10);
            is_known = shorter >= 1 && shorter <= 100;
        }
        if (is_known) continue;
        fprintf(stderr,
                "usage: pipeline_bench [--rounds 1..%d] [--shorter 1..100] [--rest MS] [stages] [overhead] [tiny] "
                "[trace] [plans]\n",
                ROUNDS_MAX);
        return 2;
    }
    cores_allowed(&cores);
    machine_print();
    for (int s = 0; s < SECTION_COUNT_; s++)
        if (is_wanted[s] || !has_wish) sections[s].run();
    unlink(clicks_path());
    return 0;
}
