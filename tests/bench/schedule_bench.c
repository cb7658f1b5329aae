/* How near to the proven optimum the sampled and learned methods come, and how soon: the shares of
 * runs within 5 %, 1 % and 1e-6 of the optimum after each of SECONDS, and the seconds of one core
 * that a run takes. A second of SECONDS is the number of evaluations that `heterps-run plan
 * --seconds 1` gets (sched/solution.h).
 *
 *     schedule_bench [RANDOM [RUNS [FOLDER [SECONDS ...]]]]
 *         RANDOM   random instances of 8 to 20 layers and 2 to 64 types (16)
 *         RUNS     runs an instance and method, with seeds from 1 (2)
 *         FOLDER   its *.inst.json are asked as well (../shared/instances; - or an absent folder: none)
 *         SECONDS  increasing, at most 4 (1 3)
 *
 * Runs go one after the other on one core. Time is the thread's, so other programs on the machine do not
 * count. */
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sched/method.h"
#include "sched/solution.h"

#define EXACT_SECONDS 20.0
#define SECONDS_MAX   4
#define RANDOM_SEED   20000u /* of the first random instance */

struct bench {
    uint32_t run_count, seconds_count;
    double seconds[SECONDS_MAX];
};

/* One run of a method on an instance whose optimum is known. */
struct result {
    double gap[SECONDS_MAX]; /* cost / optimum - 1 after seconds[i]; infinite: nothing feasible */
    double thread_seconds;   /* of the whole                                                    */
    double evaluations;      /* until its best plan                                             */
};

static const method_id methods[] = {METHOD_ID_rl, METHOD_ID_rl_rnn, METHOD_ID_rl_polish, METHOD_ID_climb};
#define METHOD_COUNT (sizeof methods / sizeof *methods)

struct results {
    struct result *items;
    size_t count, room;
};

static double thread_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void stop(void)
{
    fprintf(stderr, "schedule_bench: %s\n", status_message());
    exit(1);
}

static struct result run(const struct bench *b, const struct cost_model *model, method_id method, uint64_t seed,
                         double optimum)
{
    struct search search;
    struct result r = {0};
    const struct search_options options = {
        .seed = seed, .evaluations = solve_evaluations(b->seconds[b->seconds_count - 1]), .keeps_curve = true};
    if (search_open(&search, model, &options) != ST_OK) stop();
    double begin = thread_seconds();
    if (method_table[method].run(&search) != ST_OK) stop();
    r.thread_seconds = thread_seconds() - begin;
    for (uint32_t i = 0; i < b->seconds_count; i++) {
        r.gap[i] = INFINITY;
        for (uint32_t p = 0; p < search.curve_count; p++)
            if (search.curve[p].evaluations <= solve_evaluations(b->seconds[i]))
                r.gap[i] = search.curve[p].cost / optimum - 1;
    }
    if (search.curve_count > 0) r.evaluations = (double)search.curve[search.curve_count - 1].evaluations;
    search_close(&search);
    return r;
}

/* Runs every method on an instance, if its optimum is known; returns whether it is. */
static bool instance_ask(const struct bench *b, const struct instance *instance, struct results *results)
{
    struct cost_model model;
    struct search search;
    const struct search_options options = {.seconds = EXACT_SECONDS};
    if (cost_model_open(&model, instance) != ST_OK || search_open(&search, &model, &options) != ST_OK ||
        method_exact(&search) != ST_OK)
        stop();
    bool is_known = search.is_proven && search.is_feasible;
    double optimum = search.best_score;
    search_close(&search);
    for (size_t m = 0; is_known && m < METHOD_COUNT; m++)
        for (uint32_t seed = 1; seed <= b->run_count; seed++) {
            struct results *of = &results[m];
            if (of->count == of->room) {
                of->room = of->room ? 2 * of->room : 64;
                of->items = realloc(of->items, of->room * sizeof *of->items);
                if (of->items == NULL) abort();
            }
            of->items[of->count++] = run(b, &model, methods[m], seed, optimum);
        }
    cost_model_free(&model);
    return is_known;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* The median of the results' number at `offset`. */
static double median(const struct results *results, size_t offset)
{
    double *values = malloc(results->count * sizeof *values), middle;
    if (values == NULL) abort();
    for (size_t i = 0; i < results->count; i++)
        memcpy(&values[i], (const char *)&results->items[i] + offset, sizeof middle);
    qsort(values, results->count, sizeof *values, by_value);
    middle = results->count % 2 ? values[results->count / 2]
                                : (values[results->count / 2 - 1] + values[results->count / 2]) / 2;
    free(values);
    return middle;
}

static double share(const struct results *results, uint32_t seconds_index, double limit)
{
    size_t within = 0;
    for (size_t i = 0; i < results->count; i++) within += results->items[i].gap[seconds_index] <= limit;
    return 100.0 * (double)within / (double)results->count;
}

static void table_print(const struct bench *b, const struct results *results)
{
    printf("%-10s %7s %11s %8s %8s %8s %10s %12s %14s\n", "method", "seconds", "evaluations", "in 5 %", "in 1 %",
           "optimal", "worst gap", "core seconds", "evaluations to");
    for (size_t m = 0; m < METHOD_COUNT; m++)
        for (uint32_t i = 0; i < b->seconds_count && results[m].count > 0; i++) {
            double worst = 0;
            for (size_t item = 0; item < results[m].count; item++) worst = fmax(worst, results[m].items[item].gap[i]);
            printf("%-10s %7g %11llu %7.1f%% %7.1f%% %7.1f%% %9.3f%%", method_table[methods[m]].name, b->seconds[i],
                   (unsigned long long)solve_evaluations(b->seconds[i]), share(&results[m], i, 0.05),
                   share(&results[m], i, 0.01), share(&results[m], i, 1e-6), 100 * worst);
            if (i + 1 == b->seconds_count)
                printf(" %12.2f %14.0f", median(&results[m], offsetof(struct result, thread_seconds)),
                       median(&results[m], offsetof(struct result, evaluations)));
            printf("\n");
        }
}

/* Instances of a folder, in the order of their names. */
static void folder_ask(const struct bench *b, const char *folder, struct results *results, uint32_t *asked,
                       uint32_t *unknown)
{
    struct dirent **entries;
    int count = scandir(folder, &entries, NULL, alphasort);
    for (int i = 0; i < count; i++) {
        const char *dot = strstr(entries[i]->d_name, ".inst.json");
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name);
        free(entries[i]);
        struct instance instance;
        if (dot == NULL) continue;
        if (instance_read(&instance, path) != ST_OK) stop();
        if (instance_ask(b, &instance, results))
            ++*asked;
        else
            ++*unknown;
        instance_free(&instance);
    }
    if (count >= 0) free(entries);
}

static void section(const struct bench *b, const char *title, struct results *results, uint32_t asked, uint32_t unknown)
{
    if (asked + unknown == 0) return;
    printf("\n%s: %u instances of %u runs each", title, asked, b->run_count);
    if (unknown > 0) printf("; %u more are without a proven feasible optimum", unknown);
    printf("\n");
    table_print(b, results);
    for (size_t m = 0; m < METHOD_COUNT; m++) free(results[m].items);
    memset(results, 0, METHOD_COUNT * sizeof *results);
}

int main(int argc, char **argv)
{
    static const uint32_t layers[] = {8, 12, 16, 20, 20, 20, 20, 20}, types[] = {4, 16, 64, 2, 8, 16, 32, 64};
    struct bench b = {.run_count = argc > 2 ? (uint32_t)atoi(argv[2]) : 2, .seconds_count = 2, .seconds = {1, 3}};
    uint32_t random_count = argc > 1 ? (uint32_t)atoi(argv[1]) : 16, asked = 0, unknown = 0;
    const char *folder = argc > 3 ? argv[3] : "../shared/instances";
    struct results results[METHOD_COUNT] = {0};
    for (int i = 4; i < argc && i < 4 + SECONDS_MAX; i++) {
        b.seconds[i - 4] = atof(argv[i]);
        b.seconds_count = (uint32_t)(i - 3);
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    folder_ask(&b, folder, results, &asked, &unknown);
    section(&b, folder, results, asked, unknown);
    asked = unknown = 0;
    for (uint32_t i = 0; i < random_count; i++) {
        struct instance instance;
        if (instance_random(&instance, RANDOM_SEED + i, layers[i % 8], types[i % 8]) != ST_OK) stop();
        if (instance_ask(&b, &instance, results))
            asked++;
        else
            unknown++;
        instance_free(&instance);
    }
    section(&b, "random", results, asked, unknown);
    return 0;
}
