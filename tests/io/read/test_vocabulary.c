/* The index of words: every word is found, and nothing else. */
#include "tests/io/io_test.h"

#include "io/read/vocabulary.h"

static void words_open(struct vocabulary *v, struct arena *arena, const char *const *text, uint32_t count,
                       uint32_t unknown)
{
    struct reader_vocabulary words = {.word_count = count, .unknown = unknown, .text = text};
    assert_ok(arena_open(arena, "test", vocabulary_bytes(&words)));
    vocabulary_place(v, arena, &words);
    assert_int_equal(arena->used_bytes, arena->size_bytes);
}

static uint32_t find(const struct vocabulary *v, const char *text) { return vocabulary_find(v, text, strlen(text)); }

static void vocabulary_find__words__have_their_numbers(void **state)
{
    (void)state;
    static const char *const text[] = {
        "the", "of", "<unk>", "", "of", "th", "the long word that goes beyond any block of sixteen"};
    struct vocabulary v;
    struct arena arena;
    words_open(&v, &arena, text, 7, 2);
    for (uint32_t i = 0; i < 7; i++) assert_int_equal(find(&v, text[i]), i == 4 ? 1 : i);
    assert_int_equal(find(&v, "t"), 2);
    assert_int_equal(find(&v, "then"), 2);
    assert_int_equal(find(&v, "The"), 2);
    assert_int_equal(vocabulary_find(&v, "the\0", 4), 2);
    assert_int_equal(vocabulary_find(&v, "the\0of", 6), 2);
    assert_int_equal(vocabulary_find(&v, "theory", 3), 0);
    arena_close(&arena);
}

static void vocabulary_find__no_unknown_word__is_none(void **state)
{
    (void)state;
    static const char *const text[] = {"a", "b", "c"};
    struct vocabulary v;
    struct arena arena;
    for (uint32_t count = 0; count <= 3; count++) {
        words_open(&v, &arena, text, count, READER_NONE);
        for (uint32_t i = 0; i < 3; i++) assert_int_equal(find(&v, text[i]), i < count ? i : READER_NONE);
        assert_int_equal(find(&v, ""), READER_NONE);
        arena_close(&arena);
    }
}

/* A hundred thousand words, and as many texts that differ from them by a letter. */
static void vocabulary_find__many_words__are_told_apart(void **state)
{
    (void)state;
    enum { COUNT = 100000 };
    static char texts[COUNT][12];
    static const char *text[COUNT];
    for (uint32_t i = 0; i < COUNT; i++) {
        snprintf(texts[i], sizeof texts[i], "w%x", i * 2654435761u);
        text[i] = texts[i];
    }
    struct vocabulary v;
    struct arena arena;
    words_open(&v, &arena, text, COUNT, READER_NONE);
    for (uint32_t i = 0; i < COUNT; i++) {
        char other[16];
        snprintf(other, sizeof other, "v%s", text[i] + 1);
        assert_int_equal(find(&v, text[i]), i);
        assert_int_equal(find(&v, other), READER_NONE);
    }
    arena_close(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vocabulary_find__words__have_their_numbers),
        cmocka_unit_test(vocabulary_find__no_unknown_word__is_none),
        cmocka_unit_test(vocabulary_find__many_words__are_told_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
