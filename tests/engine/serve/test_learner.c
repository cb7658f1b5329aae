/* A learner beside no server: what it answers, what it says of itself, what lasts,
 * and what it fails with. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <poll.h>

#include "engine/base/clock.h"
#include "engine/model/model_saved.h"
#include "engine/run/train.h"
#include "engine/serve/learner.h"
#include "tests/engine/run/session_fixture.h"

#define BATCH   32u
#define TRAINED (2 * BATCH)
#define TEXTS   3u

static char graph_path[256], model_path[256];
static const char *const set[] = {"serve.publish=1", "data.bad_lines=skip"};

/* A model that has learned from two batches of a file. */
static int group_open(void **state)
{
    static char data_path[256], eval_path[256];
    struct opened o;
    if (session_fixture_open_data(state, TRAINED, data_path, eval_path) != 0) return -1;
    snprintf(graph_path, sizeof graph_path, "%s", fixture_path("small.bin"));
    snprintf(model_path, sizeof model_path, "%s", fixture_path("model"));
    opened_begin(&o, NULL, LOG_JSON);
    assert_ok(model_dir_check(&o.session.setup.graph, model_path));
    assert_ok(train_run(&o.session, &(struct train_options){.data = data_path, .out = model_path}));
    opened_end(&o);
    opened_close(&o);
    return 0;
}

static status opened_learner(struct learner **learner, const char *model)
{
    log_open(LOG_TEXT, -1);
    return learner_open(
        learner,
        &(struct learner_options){
            .graph = graph_path, .model = model, .set = set, .set_count = sizeof set / sizeof *set, .threads = 1});
}

/* Rows [first, first + count) of generated clicks as a text of its own, behind `head`. */
static char *text_of(const char *head, uint64_t first, uint64_t count, size_t *bytes)
{
    char path[256], *text = calloc(1, 1 << 16);
    assert_non_null(text);
    snprintf(path, sizeof path, "%s", fixture_path("text.tsv"));
    unlink(path);
    fixture_data(path, first, count, NULL);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    *bytes = strlen(strcpy(text, head));
    *bytes += fread(text + *bytes, 1, (1 << 16) - READER_SLACK_BYTES - *bytes, file);
    fclose(file);
    return text;
}

/* What has been answered to a text, and what its ask said in the end. */
struct answered {
    char text[4096], why[DESK_WHY_BYTES];
    uint64_t bad_count, bad_line;
    bool is_misplaced, is_over, has_end;
};

static void sent(struct learner *l, struct answered *a, char *text, size_t bytes, struct ask_wants wants)
{
    memset(a, 0, sizeof *a);
    assert_true(desk_put(learner_desk(l), text, bytes, wants, a));
    desk_ring(learner_desk(l));
}

static void answers_take(struct learner *l)
{
    struct answers *answers;
    desk_quiet(learner_desk(l));
    while (desk_take(learner_desk(l), &answers)) {
        for (size_t i = 0, begin = 0; i < answers->count; begin = answers->piece[i++].end) {
            const struct answer_piece *piece = &answers->piece[i];
            struct answered *a = piece->ask->owner;
            strncat(a->text, answers->text + begin, piece->end - begin);
            if (!piece->is_last) continue;
            a->has_end = true;
            a->bad_count = piece->ask->bad_count;
            a->bad_line = piece->ask->bad_line;
            a->is_misplaced = piece->ask->is_misplaced;
            a->is_over = piece->ask->is_over;
            memcpy(a->why, piece->ask->why, sizeof a->why);
        }
        desk_give_back(learner_desk(l), answers);
    }
}

static void answer_await(struct learner *l, const struct answered *a)
{
    while (!a->has_end) {
        struct pollfd wanted = {.fd = desk_fd(learner_desk(l)), .events = POLLIN};
        assert_true(poll(&wanted, 1, 60000) == 1);
        answers_take(l);
    }
}

static void saved_await(struct learner *l, uint64_t example)
{
    struct learner_state state;
    const uint64_t begin_ns = clock_ns();
    do {
        learner_look(l, &state);
        if (clock_ns() - begin_ns > UINT64_C(60000000000)) fail_msg("no save of example %u", (unsigned)example);
        (void)poll(NULL, 0, 1);
    } while (state.saved < example || state.learned < example);
}

static void state_check(struct learner *l, uint64_t read, uint64_t learned, uint64_t step, uint64_t bad_lines)
{
    struct learner_state state;
    learner_look(l, &state);
    assert_true(state.is_learning);
    assert_int_equal(state.read, read);
    assert_int_equal(state.learned, learned);
    assert_int_equal(state.saved, learned);
    assert_int_equal(state.step, step);
    assert_int_equal(state.bad_lines, bad_lines);
}

/* The answer has the numbers [first, first + count), one a line, but for line `bad` from 1 on. */
static void numbers_check(const struct answered *a, uint64_t first, uint32_t count, uint32_t bad)
{
    char expected[4096];
    size_t end = 0;
    for (uint32_t line = 1; line <= count + (bad != 0); line++)
        end += line == bad
                   ? (size_t)snprintf(expected + end, sizeof expected - end, "nan\n")
                   : (size_t)snprintf(expected + end, sizeof expected - end, "%llu\n", (unsigned long long)first++);
    assert_string_equal(a->text, expected);
    assert_int_equal(a->bad_count, bad != 0);
    assert_int_equal(a->bad_line, bad);
    assert_false(a->is_misplaced || a->is_over);
}

static uint32_t dropped;
static void on_drop(void *owner)
{
    (void)owner;
    dropped++;
}

static void learner__texts__are_numbered_learned_from_and_saved(void **state)
{
    (void)state;
    static struct answered answered[TEXTS];
    struct learner *l;
    size_t bytes;
    assert_ok(opened_learner(&l, model_path));
    state_check(l, TRAINED, TRAINED, 2, 0);
    assert_true(learner_is_idle(l));

    /* A batch without its last line waits; malformed lines are in no batch. */
    char *text = text_of("no line\n", 200, BATCH - 1, &bytes);
    sent(l, &answered[0], text, bytes, (struct ask_wants){0});
    answer_await(l, &answered[0]);
    numbers_check(&answered[0], TRAINED + 1, BATCH - 1, 1);
    state_check(l, TRAINED + BATCH - 1, TRAINED, 2, 1);
    assert_true(learner_is_idle(l));

    /* What does not follow the last line is refused as a whole, and learned from in part by nobody. */
    text = text_of("", 300, 3, &bytes);
    sent(l, &answered[1], text, bytes, (struct ask_wants){.has_after = true, .after = TRAINED});
    answer_await(l, &answered[1]);
    assert_string_equal(answered[1].text, "");
    assert_true(answered[1].is_misplaced);
    assert_string_equal(answered[1].why, "expected to follow sequence number 64, found 95 as the last one");

    /* What follows ends the batch, and a save has it. */
    text = text_of("", 300, 3, &bytes);
    sent(l, &answered[2], text, bytes, (struct ask_wants){.has_after = true, .after = TRAINED + BATCH - 1});
    answer_await(l, &answered[2]);
    numbers_check(&answered[2], TRAINED + BATCH, 3, 0);
    saved_await(l, TRAINED + BATCH);
    struct learner_state now;
    learner_look(l, &now);
    assert_int_equal(now.read, TRAINED + BATCH + 2);
    assert_int_equal(now.learned, TRAINED + BATCH);
    assert_int_equal(now.saved, TRAINED + BATCH);
    assert_int_equal(now.step, 3);
    assert_int_equal(now.bad_lines, 1);
    assert_true(learner_is_idle(l));
    dropped = 0;
    assert_ok(learner_close(l, on_drop));
    assert_int_equal(dropped, 0);

    /* Lines of a step that waited are in no save; the next run goes on behind the save. */
    struct model_saved saved;
    assert_ok(model_saved_open(&saved, model_path));
    assert_int_equal(saved.manifest.progress.examples, TRAINED + BATCH);
    assert_int_equal(saved.manifest.progress.step, 3);
    model_saved_close(&saved);
    assert_ok(opened_learner(&l, model_path));
    state_check(l, TRAINED + BATCH, TRAINED + BATCH, 3, 0);
    assert_ok(learner_close(l, NULL));
}

static void learner_open__no_save__fails_as_the_training(void **state)
{
    (void)state;
    struct learner *l = (void *)1;
    char nowhere[256];
    snprintf(nowhere, sizeof nowhere, "%s", fixture_path("nowhere"));
    const status st = opened_learner(&l, nowhere);
    assert_int_not_equal(st, ST_OK);
    assert_null(l);
    assert_non_null(strstr(status_message(), "nowhere"));
    assert_ok(learner_close(NULL, on_drop));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(learner__texts__are_numbered_learned_from_and_saved),
        cmocka_unit_test(learner_open__no_save__fails_as_the_training),
    };
    return cmocka_run_group_tests(tests, group_open, session_fixture_close);
}
