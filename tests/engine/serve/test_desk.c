/* The desk: texts are read in the order in which they came, answers come back in theirs, and
 * micro-batches go when they should. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/thread.h"
#include "engine/serve/desk.h"

#define LINE   24u
#define MICRO  4u
#define MINUTE UINT64_C(60000000000)

static struct desk *desk_make(uint32_t ask_max, uint64_t wait_ns)
{
    struct desk *desk;
    const struct desk_options options = {
        .ask_max = ask_max, .example_max = 4096, .micro = MICRO, .line_bytes_max = LINE, .wait_ns = wait_ns};
    if (desk_open(&desk, &options) != ST_OK) fail_msg("%s", status_message());
    return desk;
}

static bool put(struct desk *desk, const char *text, void *owner)
{
    char *copy = calloc(1, strlen(text) + READER_SLACK_BYTES);
    assert_non_null(copy);
    memcpy(copy, text, strlen(text));
    if (desk_put(desk, copy, strlen(text), (struct ask_wants){0}, owner)) return true;
    free(copy);
    return false;
}

/* As the reader does: takes the next text, and gives `count` examples of it. */
static void read_next(struct desk *desk, const char *expected, uint32_t count)
{
    const struct reader_texts *t = desk_texts(desk);
    const char *text;
    size_t bytes;
    assert_true(t->next(t->context, &text, &bytes));
    assert_int_equal(bytes, strlen(expected));
    assert_memory_equal(text, expected, bytes);
    for (uint32_t i = 0; i < count; i++) t->example(t->context, i + 1 == count, false);
}

static bool is_dry(struct desk *desk)
{
    const struct reader_texts *t = desk_texts(desk);
    return t->is_dry(t->context);
}

/* As the answerer does: writes a line for each of `count` examples. */
static void answer(struct desk *desk, uint32_t count, const char *line)
{
    for (uint32_t i = 0; i < count; i++) {
        const struct desk_example example = desk_next(desk);
        strcpy(desk_room(desk), line);
        desk_wrote(desk, &example, example.is_extra ? 0 : strlen(line));
    }
}

/* Takes what is there, and appends each owner's text to it; returns how many asks are over. */
static uint32_t take(struct desk *desk)
{
    struct answers *a;
    uint32_t over = 0;
    desk_quiet(desk);
    while (desk_take(desk, &a)) {
        size_t begin = 0;
        for (uint32_t i = 0; i < a->count; begin = a->piece[i++].end) {
            char *to = a->piece[i].ask->owner;
            strncat(to, a->text + begin, a->piece[i].end - begin);
            over += a->piece[i].is_last;
        }
        desk_give_back(desk, a);
    }
    return over;
}

static void desk__texts__are_answered_each_by_its_own_lines(void **state)
{
    (void)state;
    char one[256] = "", two[256] = "", three[256] = "";
    struct desk *desk = desk_make(8, 0);
    assert_true(put(desk, "a\nb", one) && put(desk, "", two) && put(desk, "c", three));
    assert_int_equal(desk_ask_count(desk), 3);
    read_next(desk, "a\nb", 2);
    const struct reader_texts *t = desk_texts(desk);
    const char *text;
    size_t bytes;
    assert_true(t->next(t->context, &text, &bytes) && bytes == 0);
    t->example(t->context, true, true); /* it has none */
    read_next(desk, "c", 1);
    answer(desk, 1, "1\n");
    desk_flush(desk);
    assert_int_equal(take(desk), 0);
    assert_string_equal(one, "1\n");
    answer(desk, 3, "2\n");
    assert_int_equal(take(desk), 0); /* not before it is flushed */
    desk_flush(desk);
    assert_int_equal(take(desk), 3);
    assert_string_equal(one, "1\n2\n");
    assert_string_equal(two, "");
    assert_string_equal(three, "2\n");
    assert_int_equal(desk_ask_count(desk), 0);
    desk_close(desk);
}

static void desk__full__refuses_until_an_answer_is_taken(void **state)
{
    (void)state;
    char owner[64] = "";
    struct desk *desk = desk_make(2, 0);
    assert_true(put(desk, "a", owner) && put(desk, "b", owner));
    assert_false(put(desk, "c", owner));
    read_next(desk, "a", 1);
    answer(desk, 1, "1\n");
    desk_flush(desk);
    assert_false(put(desk, "c", owner));
    assert_int_equal(take(desk), 1);
    assert_true(put(desk, "c", owner));
    read_next(desk, "b", 1);
    read_next(desk, "c", 1);
    desk_close(desk); /* with two that nobody answers */
}

static void desk__malformed_lines__are_told_of_their_text(void **state)
{
    (void)state;
    char one[64] = "", two[64] = "";
    struct desk *desk = desk_make(4, 0);
    struct answers *a;
    const struct reader_texts *t = desk_texts(desk);
    const char *text;
    size_t bytes;
    assert_true(put(desk, "x", one) && put(desk, "y", two));
    assert_true(t->next(t->context, &text, &bytes));
    t->bad(t->context, 3, "first", false);
    t->bad(t->context, 5, "second", false);
    t->example(t->context, true, false);
    assert_true(t->next(t->context, &text, &bytes));
    t->bad(t->context, 1, "no such column", true);
    t->example(t->context, true, true);
    answer(desk, 2, "nan\n");
    desk_flush(desk);
    assert_true(desk_take(desk, &a));
    assert_int_equal(a->count, 2);
    const struct ask *ask = a->piece[0].ask;
    assert_true(ask->bad_count == 2 && ask->bad_line == 3 && !ask->is_refused);
    assert_string_equal(ask->why, "first");
    assert_true(a->piece[1].ask->is_refused && a->piece[1].end == a->piece[0].end);
    desk_give_back(desk, a);
    desk_close(desk);
}

static void desk__batches__go_when_nobody_else_can_ask_or_time_is_over(void **state)
{
    (void)state;
    char owner[64] = "";
    struct desk *desk = desk_make(16, MINUTE);
    assert_true(put(desk, "a", owner) && put(desk, "b", owner));
    desk_others_set(desk, 3);
    read_next(desk, "a", 1);
    assert_false(is_dry(desk)); /* b is there */
    read_next(desk, "b", 1);
    desk_others_set(desk, 0);
    assert_true(is_dry(desk));
    desk_close(desk);

    const uint64_t wait_ns = 3000000;
    desk = desk_make(16, wait_ns);
    uint64_t begin_ns = clock_ns();
    assert_true(put(desk, "a", owner));
    read_next(desk, "a", 1);
    assert_true(is_dry(desk));
    assert_true(clock_ns() - begin_ns >= wait_ns);
    /* A full one is not asked for; the next waits from its own first text on. */
    assert_true(put(desk, "b", owner));
    read_next(desk, "b", MICRO);
    for (begin_ns = clock_ns(); clock_ns() - begin_ns < 2 * wait_ns;) continue;
    begin_ns = clock_ns();
    assert_true(put(desk, "c", owner));
    read_next(desk, "c", 1);
    assert_true(is_dry(desk));
    assert_true(clock_ns() - begin_ns >= wait_ns);
    desk_close(desk);
}

static void *later(void *context)
{
    static char owner[64];
    struct desk *desk = context;
    assert_true(put(desk, "later", owner));
    desk_ring(desk);
    return NULL;
}

static void desk__a_text_that_comes_later__joins_the_batch(void **state)
{
    (void)state;
    char owner[64] = "";
    for (uint32_t i = 0; i < 200; i++) {
        struct desk *desk = desk_make(4, MINUTE);
        pthread_t thread;
        assert_true(put(desk, "a", owner));
        read_next(desk, "a", 1);
        assert_int_equal(thread_start(&thread, later, desk), 0);
        assert_false(is_dry(desk));
        read_next(desk, "later", 1);
        pthread_join(thread, NULL);
        desk_close(desk);
    }
}

static void *end_later(void *context)
{
    desk_end(context);
    return NULL;
}

static void desk__end__comes_behind_what_was_put(void **state)
{
    (void)state;
    char owner[64] = "";
    const char *text;
    size_t bytes;
    struct desk *desk = desk_make(4, MINUTE);
    const struct reader_texts *t = desk_texts(desk);
    pthread_t thread;
    assert_true(put(desk, "a", owner));
    assert_int_equal(thread_start(&thread, end_later, desk), 0);
    read_next(desk, "a", 1);
    assert_true(is_dry(desk)); /* as soon as it ends */
    assert_false(t->next(t->context, &text, &bytes));
    pthread_join(thread, NULL);
    desk_close(desk);
}

/* Lines of a text, many enough that answers are handed over many times meanwhile. */
#define MANY 40000u

static void *answer_many(void *context)
{
    struct desk *desk = context;
    for (uint32_t i = 0; i < MANY; i++) {
        const struct desk_example example = desk_next(desk);
        const int bytes = snprintf(desk_room(desk), LINE, "%u\n", i);
        desk_wrote(desk, &example, (size_t)bytes);
    }
    desk_flush(desk);
    return NULL;
}

static void desk__an_answer_longer_than_all_memory__comes_in_pieces(void **state)
{
    (void)state;
    struct desk *desk;
    const struct desk_options options = {
        .ask_max = 1, .example_max = MANY, .micro = 512, .line_bytes_max = LINE, .wait_ns = 0};
    assert_int_equal(desk_open(&desk, &options), ST_OK);
    char *whole = calloc(1, MANY * 8u), *at = whole;
    assert_non_null(whole);
    assert_true(put(desk, "many", whole));
    read_next(desk, "many", MANY);
    pthread_t thread;
    assert_int_equal(thread_start(&thread, answer_many, desk), 0);
    for (bool is_over = false; !is_over;) {
        struct pollfd wanted = {.fd = desk_fd(desk), .events = POLLIN};
        struct answers *a;
        assert_int_equal(poll(&wanted, 1, 60000), 1);
        desk_quiet(desk);
        while (desk_take(desk, &a)) {
            assert_int_equal(a->count, 1);
            memcpy(at, a->text, a->piece[0].end);
            at += a->piece[0].end;
            is_over = a->piece[0].is_last;
            desk_give_back(desk, a);
        }
    }
    pthread_join(thread, NULL);
    const char *read = whole;
    for (uint32_t i = 0; i < MANY; i++) {
        char *end;
        if (strtoul(read, &end, 10) != i || *end != '\n') fail_msg("line %u", i);
        read = end + 1;
    }
    assert_true(read == at);
    free(whole);
    desk_close(desk);
}

static uint32_t dropped;
static void drop(void *owner)
{
    *(char *)owner = 'd';
    dropped++;
}

/* Whatever has become of a text: read, or answered in part. */
static void desk_clear__texts_without_a_whole_answer__are_dropped_once(void **state)
{
    (void)state;
    char first[64] = "", second[64] = "", third[64] = "";
    struct desk *desk = desk_make(3, 0);
    dropped = 0;
    assert_true(put(desk, "one", first) && put(desk, "two", second) && put(desk, "three", third));
    read_next(desk, "one", 1);
    read_next(desk, "two", 2);
    answer(desk, 2, "x\n");
    desk_flush(desk);
    assert_int_equal(take(desk), 1);
    assert_int_equal(desk_ask_count(desk), 2);
    desk_clear(desk, drop);
    assert_int_equal(dropped, 2);
    assert_string_equal(first, "x\n");
    assert_string_equal(second, "d\n");
    assert_string_equal(third, "d");
    assert_int_equal(desk_ask_count(desk), 0);
    desk_close(desk);
}

static void desk__reader_stopped__gets_nothing_until_it_may_go_on(void **state)
{
    (void)state;
    char one[64] = "", two[64] = "";
    struct desk *desk = desk_make(8, 0);
    const struct reader_texts *t = desk_texts(desk);
    const char *text;
    size_t bytes;
    assert_true(put(desk, "a", one) && put(desk, "b", two));
    read_next(desk, "a", 1);
    assert_ptr_equal(desk_reading(desk)->owner, one);
    desk_reader_stop(desk, true);
    assert_false(t->next(t->context, &text, &bytes));
    assert_int_equal(desk_ask_count(desk), 2);
    desk_reader_stop(desk, false);
    read_next(desk, "b", 1);
    assert_ptr_equal(desk_reading(desk)->owner, two);
    answer(desk, 2, "1\n");
    desk_flush(desk);
    assert_int_equal(take(desk), 2);
    desk_close(desk);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(desk__texts__are_answered_each_by_its_own_lines),
        cmocka_unit_test(desk__full__refuses_until_an_answer_is_taken),
        cmocka_unit_test(desk__malformed_lines__are_told_of_their_text),
        cmocka_unit_test(desk__batches__go_when_nobody_else_can_ask_or_time_is_over),
        cmocka_unit_test(desk__a_text_that_comes_later__joins_the_batch),
        cmocka_unit_test(desk__end__comes_behind_what_was_put),
        cmocka_unit_test(desk_clear__texts_without_a_whole_answer__are_dropped_once),
        cmocka_unit_test(desk__reader_stopped__gets_nothing_until_it_may_go_on),
        cmocka_unit_test(desk__an_answer_longer_than_all_memory__comes_in_pieces),
    };
    alarm(300); /* what hangs ends the program, and so fails the test */
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
