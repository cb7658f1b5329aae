/* The summary's texts, byte by byte, for figures made by hand: what is said for which figures, that every
 * sentence is true of them, and that columns stay aligned. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <jansson.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine/base/log.h"
#include "engine/run/summary.h"

#define SECOND UINT64_C(1000000000)
/* A hundredth of the ten seconds that every run here takes. */
#define PERCENT (SECOND / 10)

static char captured[1 << 16];

/* What a function prints to `fd`. */
static const char *printed(int fd, void (*print)(const struct pipeline_figures *), const struct pipeline_figures *f)
{
    int saved = dup(fd), file = memfd_create("captured", MFD_CLOEXEC);
    assert_true(saved >= 0 && file >= 0 && dup2(file, fd) == fd);
    print(f);
    ssize_t bytes = pread(file, captured, sizeof captured - 1, 0);
    dup2(saved, fd);
    close(saved);
    close(file);
    assert_true(bytes >= 0);
    captured[bytes] = '\0';
    return captured;
}

static void assert_printed(const struct pipeline_figures *f, const char *expected)
{
    log_open(LOG_TEXT, 0);
    assert_string_equal(printed(2, summary_print, f), expected);
}

static void assert_bottleneck(const struct pipeline_figures *f, const char *expected)
{
    char text[1024];
    assert_ptr_equal(summary_bottleneck(f, text, sizeof text), text);
    assert_string_equal(text, expected);
}

static void assert_no_advice(const struct pipeline_figures *f)
{
    char text[1024];
    assert_null(strstr(summary_bottleneck(f, text, sizeof text), "--threads"));
}

/* Shares in percent of ten seconds of each of its workers. */
static struct stage_figures stage_of(const char *name, uint32_t workers, uint32_t cores, uint64_t forward,
                                     uint64_t backward, uint64_t update, uint64_t wait)
{
    struct stage_figures stage = {
        .kind = device_kind(RESOURCE_CPU),
        .worker_count = workers,
        .core_count = cores,
        .task_count = {100, 100, 10},
        .busy_ns = {forward * PERCENT * workers, backward * PERCENT * workers, update * PERCENT * workers},
        .wait_ns = wait * PERCENT * workers,
        .ring_cells = 4};
    strcpy(stage.name, name);
    return stage;
}

static struct pipeline_figures figures_of(const struct stage_figures *stage, uint32_t count)
{
    struct pipeline_figures f = {.wall_ns = 10 * SECOND,
                                 .stage_count = count,
                                 .stage = stage,
                                 .read_ns = 22 * PERCENT,
                                 .prepare_ns = 9 * PERCENT,
                                 .read_wait_ns = (69 + 200) * PERCENT}; /* 200: while training was paused */
    for (uint32_t s = 0; s < count; s++) f.worker_count += stage[s].worker_count;
    return f;
}

/* --- the table -------------------------------------------------------------------------------- */

static void summary_print__three_stages__table_reading_bottleneck(void **state)
{
    (void)state;
    struct stage_figures stage[] = {stage_of("e..x", 1, 1, 10, 25, 5, 60), stage_of("h1..h2", 1, 2, 40, 55, 2, 3),
                                    stage_of("y..bce", 2, 2, 3, 4, 0, 93)};
    stage[0].forward_pushes = 100, stage[0].forward_depth_sum = 120;
    stage[0].backward_pushes = 100, stage[0].backward_depth_sum = 30;
    stage[1].forward_pushes = 100, stage[1].forward_depth_sum = 349;
    stage[1].backward_pushes = 100;
    stage[2].forward_pushes = 3, stage[2].forward_depth_sum = 2;
    struct pipeline_figures f = figures_of(stage, 3);
    assert_printed(&f, "stage     cores   busy  forward  backward  update   wait  ring in (mean of cells)\n"
                       "e..x          1    40%      10%       25%      5%    60%  fwd 1.2 of 4, bwd 0.3 of 4\n"
                       "h1..h2        2    97%      40%       55%      2%     3%  fwd 3.5 of 4, bwd 0.0 of 4\n"
                       "y..bce        2     7%       3%        4%      0%    93%  fwd 0.7 of 4\n"
                       "reading   busy 31% (reading and parsing 22%, rows 9%), waiting for free slots 69%\n"
                       "slowest   stage h1..h2 is the bottleneck: busy 97% of the time; "
                       "give it more cores (k), or move a layer to y..bce, which waits 93%\n");
}

static void summary_print__long_names__columns_stay_aligned(void **state)
{
    (void)state;
    struct stage_figures stage[] = {
        stage_of("exactly_twenty_four_wide", 1, 1, 100, 0, 0, 0),
        stage_of("one_more_than_twenty_four", 1, 1000, 10, 20, 30, 40),
        stage_of("pr\xc3\xa9nom_\xc3\xa0_l\xe2\x80\x99\xc3\xa9t\xc3\xa9_tr\xc3\xa8s_allong\xc3\xa9_bien", 1, 1, 1, 2, 3,
                 94),
        stage_of("\xc3\xa9", 1, 1, 1, 2, 3, 94)};
    struct pipeline_figures f = figures_of(stage, 4);
    assert_printed(
        &f,
        "stage                     cores   busy  forward  backward  update   wait  ring in (mean of cells)\n"
        "exactly_twenty_four_wide      1   100%     100%        0%      0%     0%\n"
        "one_more_than_twenty_fo\xe2\x80\xa6   1000    60%      10%       20%     30%    40%\n"
        "pr\xc3\xa9nom_\xc3\xa0_l\xe2\x80\x99\xc3\xa9t\xc3\xa9_tr\xc3\xa8s_all\xe2\x80\xa6      1     6%       "
        "1%        2%      3%    94%\n"
        "\xc3\xa9                             1     6%       1%        2%      3%    94%\n"
        "reading   busy 31% (reading and parsing 22%, rows 9%), waiting for free slots 69%\n"
        "slowest   stage exactly_twenty_four_wide is the bottleneck: busy 100% of the time; give it more cores (k)\n");
}

static void summary_print__shared_pool__shares_of_all_workers(void **state)
{
    (void)state;
    /* A pool's stages are served by all of its workers, so their shares add up to the pool's. */
    struct stage_figures stage[] = {stage_of("e..x", 4, 4, 10, 15, 5, 0), stage_of("h1..bce", 4, 4, 20, 38, 2, 0)};
    stage[0].forward_pushes = 10, stage[0].forward_depth_sum = 5;
    struct pipeline_figures f = figures_of(stage, 2);
    f.is_shared = true;
    f.worker_count = 4;
    f.pool_wait_ns = 10 * PERCENT * 4;
    assert_printed(&f, "stage     cores   busy  forward  backward  update   wait  ring in (mean of cells)\n"
                       "e..x               30%      10%       15%      5%         fwd 0.5 of 4\n"
                       "h1..bce            60%      20%       38%      2%\n"
                       "shared        4    90%      30%       53%      7%    10%\n"
                       "reading   busy 31% (reading and parsing 22%, rows 9%), waiting for free slots 69%\n"
                       "slowest   computation is the bottleneck: the shared cores are busy 90% of the time, "
                       "most of all with stage h1..bce (60%); more cores would help\n");
}

static void summary_print__one_stage__one_line(void **state)
{
    (void)state;
    struct stage_figures stage = stage_of("e..bce", 1, 8, 40, 50, 8, 2);
    struct pipeline_figures f = figures_of(&stage, 1);
    assert_printed(&f, "time      forward 40%, backward 50%, update 8%, reading 31%: computation is the bottleneck: "
                       "the one stage is busy 98% of the time; more cores would help\n");
}

static void summary_print__staleness__a_line_with_its_bounds(void **state)
{
    (void)state;
    struct stage_figures stage = stage_of("e..bce", 2, 2, 40, 50, 8, 2);
    struct pipeline_figures f = figures_of(&stage, 1);
    f.staleness.has_staleness = true;
    f.staleness.local_mean = 1.84, f.staleness.local_max = 3, f.staleness.local_bound = 3;
    f.staleness.global_mean = 2.06, f.staleness.global_max = 6, f.staleness.global_bound = 10;
    const char *line = "\nstale     own updates missing: mean 1.8, most 3 (bound 3); "
                       "of other pipelines: mean 2.1, most 6 (bound 10)\n";
    log_open(LOG_TEXT, 0);
    assert_non_null(strstr(printed(2, summary_print, &f), line));
    f.staleness.global_bound = UINT64_MAX;
    assert_non_null(strstr(printed(2, summary_print, &f), "mean 2.1, most 6 (no bound)\n"));
    f.staleness.global_mean = 0, f.staleness.global_max = 0;
    line = "\nstale     own updates missing: mean 1.8, most 3 (bound 3)\n";
    const char *text = printed(2, summary_print, &f);
    assert_string_equal(text + strlen(text) - strlen(line), line);
}

static void summary_print__nothing_trained__nothing(void **state)
{
    (void)state;
    struct stage_figures stage[] = {{.name = "e..x", .kind = device_kind(RESOURCE_CPU)},
                                    {.name = "h1", .kind = device_kind(RESOURCE_CPU)}};
    struct pipeline_figures f = {.stage_count = 2, .stage = stage};
    assert_printed(&f, "");
    assert_bottleneck(&f, "nothing was trained");
    assert_bottleneck(&(struct pipeline_figures){.wall_ns = 1}, "nothing was trained");
    /* Time has passed, but of nobody: no share is more than none. */
    f.wall_ns = SECOND;
    assert_printed(&f, "stage     cores   busy  forward  backward  update   wait  ring in (mean of cells)\n"
                       "e..x          0     0%       0%        0%      0%     0%\n"
                       "h1            0     0%       0%        0%      0%     0%\n"
                       "reading   busy 0% (reading and parsing 0%, rows 0%), waiting for free slots 0%\n"
                       "slowest   no stage is busy more than 0% of the time: every step fills and drains the pipeline; "
                       "more micro-batches a step (train.batch / train.micro) or slots (train.in_flight) may help\n");
}

/* Clocks of different threads may give a part that is longer than the whole. */
static void summary_print__more_than_all__is_all(void **state)
{
    (void)state;
    struct stage_figures stage = stage_of("e..bce", 1, 1, 150, 101, 0, 0);
    struct pipeline_figures f = figures_of(&stage, 1);
    f.read_ns = UINT64_MAX;
    assert_printed(&f, "time      forward 100%, backward 100%, update 0%, reading 100%: computation is the bottleneck: "
                       "the one stage is busy 100% of the time; more cores would help\n");
}

/* --- the sentence ----------------------------------------------------------------------------- */

/* More cores make small ops no faster: the cores meet after each op. */
static void summary_bottleneck__small_ops__no_more_cores(void **state)
{
    (void)state;
    struct stage_figures stage = stage_of("e..bce", 1, 1, 30, 60, 5, 5);
    struct pipeline_figures f = figures_of(&stage, 1);
    stage.task_count[WORK_FORWARD] = 100000;
    stage.op_count = 12; /* 9 s over 1.2 million ops */
    assert_bottleneck(&f, "computation is the bottleneck: the one stage is busy 95% of the time; "
                          "an op takes 7.5 us, too little to be cut among more cores");
    stage.core_count = 2;
    assert_bottleneck(&f, "computation is the bottleneck: the one stage is busy 95% of the time; "
                          "an op takes 7.5 us, too little to be cut among cores: --threads 1 may be faster");
    stage.task_count[WORK_FORWARD] = 30000; /* 25 us */
    assert_bottleneck(&f,
                      "computation is the bottleneck: the one stage is busy 95% of the time; more cores would help");
}

static void summary_bottleneck__a_stage__says_which_and_who_has_time(void **state)
{
    (void)state;
    struct stage_figures stage[] = {stage_of("e..x", 1, 1, 20, 20, 0, 60), stage_of("h1..h2", 1, 1, 40, 50, 0, 10),
                                    stage_of("y..bce", 1, 1, 20, 10, 0, 55)};
    struct pipeline_figures f = figures_of(stage, 3);
    assert_bottleneck(
        &f, "stage h1..h2 is the bottleneck: busy 90% of the time; give it more cores (k), or move a layer to e..x, "
            "which waits 60%");
    /* A stage of one layer has none to give. */
    strcpy(stage[1].name, "h1");
    assert_bottleneck(&f, "stage h1 is the bottleneck: busy 90% of the time; give it more cores (k)");
    /* Layers are consecutive: only a neighbour can take one. */
    struct stage_figures far[] = {stage[0], stage_of("h1", 1, 1, 40, 39, 0, 21),
                                  stage_of("h2..bce", 1, 1, 40, 50, 0, 10)};
    f.stage = far;
    assert_bottleneck(&f, "stage h2..bce is the bottleneck: busy 90% of the time; give it more cores (k)");
    struct stage_figures first[] = {far[2], far[1], stage[0]};
    f.stage = first;
    assert_bottleneck(&f, "stage h2..bce is the bottleneck: busy 90% of the time; give it more cores (k)");
}

/* More cores are no help to a card. */
static void summary_bottleneck__a_card__what_helps_it(void **state)
{
    (void)state;
    struct stage_figures stage[] = {stage_of("e..x", 1, 1, 1, 1, 0, 98), stage_of("h1..bce", 3, 3, 40, 50, 0, 10)};
    struct pipeline_figures f = figures_of(stage, 2);
    stage[1].kind = device_kind(RESOURCE_EMU);
    assert_bottleneck(&f, "stage h1..bce is the bottleneck: a stream of its card is busy 90% of the time; "
                          "move a layer to e..x, which waits 98%");
    f = figures_of(stage + 1, 1);
    assert_bottleneck(&f, "computation is the bottleneck: the one stage is busy 90% of the time; "
                          "layers on cores, or on another card, would help");
}

/* Filling and draining costs no more than the others' work, which is little here. */
static void summary_bottleneck__others_do_next_to_nothing__the_stage(void **state)
{
    (void)state;
    struct stage_figures stage[] = {stage_of("e..x", 1, 1, 1, 1, 1, 97), stage_of("h1..bce", 1, 1, 20, 30, 10, 40)};
    struct pipeline_figures f = figures_of(stage, 2);
    assert_bottleneck(&f, "stage h1..bce is the bottleneck: busy 60% of the time; "
                          "give it more cores (k), or move a layer to e..x, which waits 97%");
    stage[0] = stage_of("e..x", 7, 7, 1, 1, 1, 97);
    assert_bottleneck(&f, "no stage is busy more than 60% of the time: every step fills and drains the pipeline; "
                          "more micro-batches a step (train.batch / train.micro) or slots (train.in_flight) may help");
    stage[0] = stage_of("e..x", 1, 1, 0, 0, 0, 100);
    stage[1] = stage_of("h1..bce", 1, 1, 20, 10, 10, 60);
    assert_bottleneck(&f, "no stage is busy more than 40% of the time: every step fills and drains the pipeline; "
                          "more micro-batches a step (train.batch / train.micro) or slots (train.in_flight) may help");
}

static void summary_bottleneck__replicas__share_of_all_their_time(void **state)
{
    (void)state;
    struct stage_figures stage[] = {stage_of("e..x", 1, 1, 20, 20, 0, 60), stage_of("h1", 4, 8, 50, 45, 0, 5)};
    struct pipeline_figures f = figures_of(stage, 2);
    assert_bottleneck(&f, "stage h1 is the bottleneck: busy 95% of the time; give it more cores (k)");
}

static void summary_bottleneck__equal_stages__all_of_them(void **state)
{
    (void)state;
    struct stage_figures stage[] = {stage_of("e..x", 1, 1, 40, 48, 0, 12), stage_of("h1..h2", 1, 1, 47, 50, 0, 3)};
    struct pipeline_figures f = figures_of(stage, 2);
    assert_bottleneck(
        &f, "computation is the bottleneck: all stages are busy 88% to 97% of the time; more cores (k) would help");
}

static void summary_bottleneck__no_input__reading(void **state)
{
    (void)state;
    struct stage_figures stage[] = {stage_of("e..x", 2, 2, 20, 20, 0, 60), stage_of("h1", 1, 1, 30, 30, 0, 40)};
    struct pipeline_figures f = figures_of(stage, 2);
    f.starved_ns = 40 * PERCENT * 2;
    f.read_ns = 77 * PERCENT, f.prepare_ns = 22 * PERCENT, f.read_wait_ns = PERCENT;
    assert_bottleneck(
        &f,
        "reading is the bottleneck: the first stage waits 40% of the time for input while reading is busy 99% (reading "
        "and parsing 77%, rows 22%); a faster source or cores of its own (service_cores of a plan) may help");
    f.read_ns = 40 * PERCENT, f.prepare_ns = 59 * PERCENT;
    assert_bottleneck(
        &f, "reading is the bottleneck: the first stage waits 40% of the time for input while reading is busy 99% "
            "(reading and parsing 40%, rows 59%); "
            "fewer keys an example or cores of its own (service_cores of a plan) may help");
    /* Busy reading alone limits nobody who has enough to do … */
    f.starved_ns = PERCENT;
    assert_bottleneck(&f, "no stage is busy more than 60% of the time: every step fills and drains the pipeline; "
                          "more micro-batches a step (train.batch / train.micro) or slots (train.in_flight) may help");
    /* … and a stage that is busier than reading is what limits. */
    struct stage_figures busy[] = {stage[0], stage_of("h1", 1, 1, 50, 50, 0, 0)};
    f.stage = busy;
    f.starved_ns = 40 * PERCENT * 2;
    assert_bottleneck(&f, "stage h1 is the bottleneck: busy 100% of the time; give it more cores (k)");
    struct stage_figures one = stage_of("e..bce", 1, 2, 30, 30, 0, 40);
    f = figures_of(&one, 1);
    f.starved_ns = 40 * PERCENT;
    f.read_ns = 99 * PERCENT, f.prepare_ns = 0;
    assert_bottleneck(
        &f, "reading is the bottleneck: computation waits 40% of the time for input while reading is busy 99% (reading "
            "and parsing 99%, rows 0%); a faster source or cores of its own (service_cores of a plan) may help");
    /* Where all cores together are busy for 39%, one is busy for at most 78%; for 40%, for at most 80%. */
    one = stage_of("e..bce", 1, 2, 20, 19, 0, 61);
    assert_bottleneck(
        &f, "reading is the bottleneck: computation waits 40% of the time for input while reading is busy 99% (reading "
            "and parsing 99%, rows 0%); a faster source or cores of its own (service_cores of a plan) may help; for "
            "computation one thread would do (--threads 1)");
    one = stage_of("e..bce", 1, 2, 20, 20, 0, 60);
    assert_no_advice(&f);
    one = stage_of("e..bce", 1, 1, 20, 19, 0, 61);
    assert_no_advice(&f);
    struct stage_figures pool[] = {stage_of("e..x", 2, 2, 10, 10, 0, 0), stage_of("h1", 2, 2, 20, 10, 0, 0)};
    f = figures_of(pool, 2);
    f.is_shared = true;
    f.worker_count = 2;
    f.starved_ns = 45 * PERCENT * 2;
    f.read_ns = 90 * PERCENT, f.prepare_ns = 0;
    assert_bottleneck(
        &f,
        "reading is the bottleneck: the shared pool waits 45% of the time for input while reading is busy 90% (reading "
        "and parsing 90%, rows 0%); a faster source or cores of its own (service_cores of a plan) may help");
}

static void summary_bottleneck__both_ends_wait__slots(void **state)
{
    (void)state;
    struct stage_figures stage[] = {stage_of("e..x", 1, 1, 20, 20, 0, 60), stage_of("h1", 1, 1, 30, 30, 0, 40)};
    struct pipeline_figures f = figures_of(stage, 2);
    f.starved_ns = 30 * PERCENT;
    assert_bottleneck(
        &f,
        "no stage is busy more than 60% of the time; now input is missing (30%), now reading lacks a free slot (69%): "
        "more slots (train.in_flight) may help");
    f.rows_come_and_go = true;
    assert_bottleneck(&f, "no stage is busy more than 60% of the time; reading and computing wait for each other "
                          "(30%), because rows come and go at the end of each step: "
                          "fewer, larger steps (train.batch) would wait less");
    f.read_wait_ns = 0;
    char text[1024];
    assert_null(strstr(summary_bottleneck(&f, text, sizeof text), "now"));
}

static void summary_bottleneck__nobody_busy__by_synchronisation(void **state)
{
    (void)state;
    struct stage_figures stage[] = {stage_of("e..x", 1, 1, 20, 20, 0, 60), stage_of("h1", 1, 1, 30, 30, 0, 40)};
    struct pipeline_figures f = figures_of(stage, 2);
    /* Sixty and a bit is more than sixty. */
    stage[1].busy_ns[WORK_UPDATE] += PERCENT / 10;
    assert_bottleneck(&f, "no stage is busy more than 61% of the time: every step fills and drains the pipeline; "
                          "more micro-batches a step (train.batch / train.micro) or slots (train.in_flight) may help");
    f.staleness.has_staleness = true;
    f.staleness.local_bound = 3, f.staleness.global_bound = 10;
    assert_bottleneck(
        &f, "no stage is busy more than 61% of the time; more minibatches under way (train.in_flight) may help");
    f.staleness.global_max = 2;
    assert_bottleneck(&f, "no stage is busy more than 61% of the time; "
                          "more minibatches under way (train.in_flight) or a greater train.clock_distance may help");
    f.staleness.global_bound = UINT64_MAX;
    assert_bottleneck(
        &f, "no stage is busy more than 61% of the time; more minibatches under way (train.in_flight) may help");
}

static void summary_bottleneck__nobody_busy__by_kind_of_pipeline(void **state)
{
    (void)state;
    struct stage_figures one = stage_of("e..bce", 1, 2, 30, 30, 0, 40);
    struct pipeline_figures f = figures_of(&one, 1);
    assert_bottleneck(
        &f, "the one stage is busy no more than 60% of the time and reading 31%: neither is the bottleneck by itself");
    one = stage_of("e..bce", 2, 2, 30, 30, 0, 40);
    assert_bottleneck(&f,
                      "the one stage is busy no more than 60% of the time: every step fills and drains the pipeline; "
                      "more micro-batches a step (train.batch / train.micro) or slots (train.in_flight) may help");
    struct stage_figures stage[] = {stage_of("e..x", 2, 2, 10, 10, 0, 0), stage_of("h1", 2, 2, 20, 10, 0, 0)};
    f = figures_of(stage, 2);
    f.is_shared = true;
    f.worker_count = 2;
    f.pool_wait_ns = 50 * PERCENT * 2;
    assert_bottleneck(
        &f, "the shared cores are busy no more than 50% of the time: every step fills and drains the pipeline; "
            "more micro-batches a step (train.batch / train.micro) or slots (train.in_flight) may help");
}

static void summary_bottleneck__any_size_of_buffer__whole_characters(void **state)
{
    (void)state;
    struct stage_figures stage[] = {stage_of("\xc3\xa9\xe2\x82\xac\xc3\xa9", 1, 1, 50, 50, 0, 0),
                                    stage_of("h1", 1, 1, 0, 0, 0, 100)};
    struct pipeline_figures f = figures_of(stage, 2);
    char whole[1024], text[1024];
    summary_bottleneck(&f, whole, sizeof whole);
    size_t length = strlen(whole);
    for (size_t bytes = 1; bytes <= length + 2; bytes++) {
        memset(text, 'x', sizeof text);
        summary_bottleneck(&f, text, bytes);
        assert_true(strlen(text) < bytes && text[bytes] == 'x');
        if (bytes > length) {
            assert_string_equal(text, whole);
            continue;
        }
        if (bytes < 4) {
            assert_string_equal(text, bytes == 1 ? "" : bytes == 2 ? "s" : "st");
            continue;
        }
        size_t kept = strlen(text) - 3;
        assert_string_equal(text + kept, "\xe2\x80\xa6");
        assert_memory_equal(text, whole, kept);
        assert_true(((uint8_t)whole[kept] & 0xC0) != 0x80);
        assert_true(bytes - 4 - kept <= 2);
    }
}

/* --- the event -------------------------------------------------------------------------------- */

static void event_write(const struct pipeline_figures *f)
{
    log_open(LOG_JSON, 0);
    log_event_begin("done");
    summary_event(f);
    log_event_end();
    log_open(LOG_TEXT, 0);
}

static json_t *event_of(const struct pipeline_figures *f)
{
    json_error_t error;
    json_t *event = json_loads(printed(1, event_write, f), 0, &error);
    if (!event) fail_msg("column %d: %s in %s", error.column, error.text, captured);
    return event;
}

static double number_of(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    assert_true(json_is_number(value));
    return json_number_value(value);
}
#define ASSERT_NEAR(object, key, expected)                                                                             \
    assert_true(number_of(object, key) > (expected)-1e-9 && number_of(object, key) < (expected) + 1e-9)

static void summary_event__stages__arrays_of_shares(void **state)
{
    (void)state;
    struct stage_figures stage[] = {stage_of("e..x", 1, 1, 10, 25, 5, 60), stage_of("h1", 2, 4, 40, 55, 2, 3)};
    stage[1].forward_pushes = 4, stage[1].forward_depth_sum = 5;
    struct pipeline_figures f = figures_of(stage, 2);
    f.starved_ns = 7 * PERCENT;
    f.allocations = 1, f.locks = 2;
    json_t *event = event_of(&f), *stages = json_object_get(event, "stages");
    assert_int_equal(json_array_size(stages), 2);
    const json_t *first = json_array_get(stages, 0), *second = json_array_get(stages, 1);
    assert_string_equal(json_string_value(json_object_get(first, "name")), "e..x");
    assert_string_equal(json_string_value(json_object_get(second, "name")), "h1");
    ASSERT_NEAR(first, "cores", 1);
    ASSERT_NEAR(second, "cores", 4);
    ASSERT_NEAR(second, "workers", 2);
    ASSERT_NEAR(first, "busy", 0.4);
    ASSERT_NEAR(first, "wait", 0.6);
    ASSERT_NEAR(second, "busy", 0.97);
    ASSERT_NEAR(second, "forward", 0.4);
    ASSERT_NEAR(second, "backward", 0.55);
    ASSERT_NEAR(second, "update", 0.02);
    ASSERT_NEAR(second, "ring_cells", 4);
    ASSERT_NEAR(second, "forward_ring_depth", 1.25);
    assert_null(json_object_get(second, "backward_ring_depth"));
    const json_t *reading = json_object_get(event, "reading");
    ASSERT_NEAR(reading, "busy", 0.31);
    ASSERT_NEAR(reading, "parsing", 0.22);
    ASSERT_NEAR(reading, "rows", 0.09);
    ASSERT_NEAR(reading, "wait", 0.69);
    ASSERT_NEAR(reading, "starved", 0.07);
    assert_null(json_object_get(event, "staleness"));
    assert_null(json_object_get(event, "shared"));
    ASSERT_NEAR(event, "allocations", 1);
    ASSERT_NEAR(event, "locks", 2);
    assert_string_equal(json_string_value(json_object_get(event, "bottleneck")),
                        "stage h1 is the bottleneck: busy 97% of the time; give it more cores (k)");
    json_decref(event);
}

static void summary_event__a_card__has_no_cores(void **state)
{
    (void)state;
    struct stage_figures stage = stage_of("e..bce", 3, 3, 40, 50, 0, 10);
    struct pipeline_figures f = figures_of(&stage, 1);
    stage.kind = device_kind(RESOURCE_EMU);
    json_t *event = event_of(&f), *card = json_array_get(json_object_get(event, "stages"), 0);
    ASSERT_NEAR(card, "cores", 0);
    ASSERT_NEAR(card, "workers", 3);
    json_decref(event);
}

static void summary_event__shared_and_stale__fields_of_their_own(void **state)
{
    (void)state;
    struct stage_figures stage[] = {stage_of("e..x", 4, 4, 10, 15, 5, 0), stage_of("h1", 4, 4, 20, 38, 2, 0)};
    struct pipeline_figures f = figures_of(stage, 2);
    f.is_shared = true;
    f.worker_count = 4;
    f.pool_wait_ns = 10 * PERCENT * 4;
    f.staleness.has_staleness = true;
    f.staleness.local_mean = 1.5, f.staleness.local_max = 3, f.staleness.local_bound = 3;
    f.staleness.global_mean = 2.25, f.staleness.global_max = 6, f.staleness.global_bound = UINT64_MAX;
    json_t *event = event_of(&f);
    assert_null(json_object_get(json_array_get(json_object_get(event, "stages"), 0), "wait"));
    const json_t *shared = json_object_get(event, "shared"), *stale = json_object_get(event, "staleness");
    ASSERT_NEAR(shared, "workers", 4);
    ASSERT_NEAR(shared, "busy", 0.9);
    ASSERT_NEAR(shared, "wait", 0.1);
    ASSERT_NEAR(stale, "local_mean", 1.5);
    ASSERT_NEAR(stale, "local_max", 3);
    ASSERT_NEAR(stale, "local_bound", 3);
    ASSERT_NEAR(stale, "global_mean", 2.25);
    ASSERT_NEAR(stale, "global_max", 6);
    assert_true(json_is_null(json_object_get(stale, "global_bound")));
    json_decref(event);
}

static void summary_event__nothing_trained__zeros(void **state)
{
    (void)state;
    json_t *event = event_of(&(struct pipeline_figures){.read_ns = 1, .prepare_ns = 1});
    assert_int_equal(json_array_size(json_object_get(event, "stages")), 0);
    ASSERT_NEAR(json_object_get(event, "reading"), "busy", 0);
    assert_string_equal(json_string_value(json_object_get(event, "bottleneck")), "nothing was trained");
    json_decref(event);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(summary_print__three_stages__table_reading_bottleneck),
        cmocka_unit_test(summary_print__long_names__columns_stay_aligned),
        cmocka_unit_test(summary_print__shared_pool__shares_of_all_workers),
        cmocka_unit_test(summary_print__one_stage__one_line),
        cmocka_unit_test(summary_print__staleness__a_line_with_its_bounds),
        cmocka_unit_test(summary_print__nothing_trained__nothing),
        cmocka_unit_test(summary_print__more_than_all__is_all),
        cmocka_unit_test(summary_bottleneck__small_ops__no_more_cores),
        cmocka_unit_test(summary_bottleneck__a_stage__says_which_and_who_has_time),
        cmocka_unit_test(summary_bottleneck__others_do_next_to_nothing__the_stage),
        cmocka_unit_test(summary_bottleneck__replicas__share_of_all_their_time),
        cmocka_unit_test(summary_bottleneck__equal_stages__all_of_them),
        cmocka_unit_test(summary_bottleneck__no_input__reading),
        cmocka_unit_test(summary_bottleneck__both_ends_wait__slots),
        cmocka_unit_test(summary_bottleneck__nobody_busy__by_synchronisation),
        cmocka_unit_test(summary_bottleneck__a_card__what_helps_it),
        cmocka_unit_test(summary_bottleneck__nobody_busy__by_kind_of_pipeline),
        cmocka_unit_test(summary_bottleneck__any_size_of_buffer__whole_characters),
        cmocka_unit_test(summary_event__stages__arrays_of_shares),
        cmocka_unit_test(summary_event__a_card__has_no_cores),
        cmocka_unit_test(summary_event__shared_and_stale__fields_of_their_own),
        cmocka_unit_test(summary_event__nothing_trained__zeros),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
