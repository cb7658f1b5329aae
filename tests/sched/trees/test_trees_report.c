/* The report of plan --trees, from figures that are made up: every one of them stands in its place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "sched/trees/trees_report.h"

static struct study_range range(double sum, uint32_t count, double least, double greatest)
{
    return (struct study_range){.sum = sum, .count = count, .least = least, .greatest = greatest};
}

/* The host takes 4 ms, the card 2 ms, and what is learned, climbed from there, 1 ms; others are left out. */
static struct study sample(void)
{
    struct study s = {.bound_seconds = 0.0005, .learn_seconds = 7, .noisy = range(0.006, 2, 0.0025, 0.0035)};
    s.figure[STUDY_host] =
        (struct study_figure){.seconds = range(0.008, 2, 0.003, 0.005), .launches = 11, .host_share = 1};
    s.figure[STUDY_card] = (struct study_figure){
        .seconds = range(0.004, 2, 0.0015, 0.0025), .launches = 12.5, .transfers = 3.5, .transfer_bytes = 2048};
    s.figure[STUDY_polished] = (struct study_figure){.seconds = range(0.002, 2, 0.0009, 0.0011),
                                                     .launches = 13,
                                                     .transfers = 4,
                                                     .transfer_bytes = 512,
                                                     .host_share = 0.25,
                                                     .placing_seconds = 0.00002};
    return s;
}

static char *written(const struct trees_report *r)
{
    char *text;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    assert_non_null(out);
    report_write(out, r);
    assert_int_equal(fclose(out), 0);
    return text;
}

static struct trees_report report;
static void report_make(bool has_grid)
{
    memset(&report, 0, sizeof report);
    report.graph = "g.bin", report.cluster = "c.cfg", report.host = "near", report.card = "far";
    report.cores = 8, report.memory = 150, report.trees = 16, report.leaves_min = 2, report.leaves_max = 40;
    report.seeds = 3, report.nodes_one = 31, report.nodes_batch = 500, report.has_grid = has_grid;
    report.one = report.batch = sample();
    report.one.bound_seconds = 0.001;
    for (uint32_t a = 0; a < REPORT_MEMORIES; a++) {
        report.small[a] = (struct study_small){.exact_seconds = 0.003,
                                               .one_ratio = 1.5,
                                               .climbed_ratio = 1.25,
                                               .learned_ratio = 1.125,
                                               .learned_worst = 1.375,
                                               .polished_ratio = 1.07,
                                               .polished_worst = 1.19,
                                               .bound_ratio = 0.875,
                                               .mixed = a + 1,
                                               .lists = 20};
        for (uint32_t b = 0; b < REPORT_BATCHES; b++) {
            report.grid[a][b] = sample();
            report.grid[a][b].bound_seconds = 0.001 * (a + 1) + 0.01 * (b + 1);
        }
    }
}

/* The text has this piece. */
static void assert_has(const char *text, const char *piece)
{
    if (strstr(text, piece) == NULL) fail_msg("\"%s\" is not in: %s", piece, text);
}

static const char head[] = "| policy | time | least to greatest | best single device over it | launches | messages | "
                           "bytes moved | on the host | to decide |\n|---|---|---|---|---|---|---|---|---|\n"
                           "| processor | 4.00 ms | 3.00 ms to 5.00 ms | 0.50 | 11.0 | 0.0 | 0 B | 100 % | 0 ns |\n"
                           "| card | 2.00 ms | 1.50 ms to 2.50 ms | 1.00 | 12.5 | 3.5 | 2.00 KiB | 0 % | 0 ns |\n"
                           "| learned, climbed | 1.00 ms | 900 µs to 1.10 ms | 2.00 | 13.0 | 4.0 | 512 B | 25 % | "
                           "20.0 µs |\n| no placement takes less | ";

static void report_write__without_grid__all_figures_in_their_places(void **state)
{
    (void)state;
    char wanted[3000];
    report_make(false);
    char *text = written(&report);
    snprintf(wanted, sizeof wanted,
             "# Where the nodes of trees go: g.bin on c.cfg\n\n"
             "The host is 8 cores of type near, one measured here; the card is of type far, its rates declared. "
             "Random binary trees of 2 to 40 words, forward; 3 seeds. A time is of a batch of trees.\n\n"
             "One tree at a time, memory 150, 31 nodes:\n\n%s1.00 ms | | 2.00 | | | | | |\n\n"
             "16 trees at once, 500 nodes; ours is learned in 7.00 s of a core:\n\n%s500 µs | | 4.00 | | | | | |\n\n"
             "Learned from passes that take 1 + 3 e times as long, e exponential: 3.00 ms (2.50 ms to 3.50 ms).\n\n"
             "Trees of 2 to 5 words, over the exact optimum (in brackets the worst):\n\n"
             "| memory | exact | best single device | climbed | learned | learned, climbed | bound | exact is mixed |\n"
             "|---|---|---|---|---|---|---|---|\n"
             "| 150 | 3.00 ms | 1.500 | 1.250 | 1.125 (1.375) | 1.070 (1.190) | 0.875 | 1 of 20 |\n\n",
             head, head);
    assert_string_equal(text, wanted);
    free(text);
}

static void report_write__grid__a_line_for_each_memory_and_batch(void **state)
{
    (void)state;
    report_make(true);
    report.grid[1][2].figure[STUDY_learned].seconds = range(0.001, 2, 0.0005, 0.0005);
    char *text = written(&report);
    assert_has(text, "| 150 | 3.00 ms | 1.500 | 1.250 | 1.125 (1.375) | 1.070 (1.190) | 0.875 | 1 of 20 |\n");
    assert_has(text,
               "| 2048 | 3.00 ms | 1.500 | 1.250 | 1.125 (1.375) | 1.070 (1.190) | 0.875 | 5 of 20 |\n\n"
               "Memories and batches; gain: the best single device over ours:\n\n"
               "| memory | trees | processor | card | left-right | state-output | random | DQN | climbed | "
               "learned | learned, climbed | bound | gain |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|\n"
               "| 150 | 1 | 4.00 ms | 2.00 ms |  |  |  |  |  |  | 1.00 ms | 11.0 ms | 2.00 |\n"
               "| 150 | 4 | 4.00 ms | 2.00 ms |  |  |  |  |  |  | 1.00 ms | 21.0 ms | 2.00 |\n");
    /* Ours is the better of both. */
    assert_has(text, "| 300 | 16 | 4.00 ms | 2.00 ms |  |  |  |  |  | 500 µs | 1.00 ms | 32.0 ms | 4.00 |\n");
    assert_has(text, "| 2048 | 256 | 4.00 ms | 2.00 ms |  |  |  |  |  |  | 1.00 ms | 55.0 ms | 2.00 |\n\n");
    uint32_t lines = 0;
    for (const char *at = strstr(text, "| 150 | 1 |"); *at; at++) lines += *at == '\n';
    assert_int_equal(lines, REPORT_MEMORIES * REPORT_BATCHES + 1);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(report_write__without_grid__all_figures_in_their_places),
        cmocka_unit_test(report_write__grid__a_line_for_each_memory_and_batch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
