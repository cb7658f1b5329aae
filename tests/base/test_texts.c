/* Small helpers that others lean on: words that were meant, texts and lists of the heap, JSON as
 * text, numbers rounded to bfloat16. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/bf16.h"
#include "engine/base/heap.h"
#include "engine/base/json_text.h"
#include "engine/base/nearest.h"
#include "engine/base/words.h"

/* The distance at which `name` is near `word`; -1: it is not. */
static int distance(const char *word, const char *name)
{
    const char *nearest = NULL;
    uint32_t found = 77;
    nearest_offer(&nearest, &found, word, name);
    if (nearest) assert_ptr_equal(nearest, name);
    return nearest ? (int)found : -1;
}

static void nearest_offer__words__by_letters_that_differ(void **state)
{
    (void)state;
    static const struct {
        const char *word, *name;
        int distance;
    } cases[] = {{"threads", "threads", 0},
                 {"thraeds", "threads", 1},
                 {"htreads", "threads", 1},
                 {"thread", "threads", 1},
                 {"threadss", "threads", 1},
                 {"treads", "threads", 1},
                 {"thieads", "threads", 1},
                 {"readths", "threads", -1},
                 {"abc", "abd", 1},
                 {"ab", "ac", -1},
                 {"ab", "abc", 1},
                 {"abc", "ab", 1},
                 {"abcdef", "abcdxy", 2},
                 {"abcdef", "abcxyz", -1},
                 {"abcdefghi", "abcdefxyz", 3},
                 {"ca", "abc", -1},
                 {"", "", 0},
                 {"", "a", -1},
                 {"abcd", "badc", -1},
                 {"abcdef", "badcef", 2},
                 {"abcdef", "abdecf", 2},
                 {"abcdefghijkl", "abcdefg", -1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (distance(cases[i].word, cases[i].name) != cases[i].distance)
            fail_msg("%s, %s: %d", cases[i].word, cases[i].name, distance(cases[i].word, cases[i].name));
        assert_int_equal(distance(cases[i].name, cases[i].word), cases[i].distance);
    }
}

static void nearest_offer__several_names__the_first_of_the_nearest(void **state)
{
    (void)state;
    static const char *const names[] = {"batches", "batch", "batcs", "bats", "match"};
    const char *nearest = NULL;
    uint32_t found = 0;
    for (size_t i = 0; i < 5; i++) nearest_offer(&nearest, &found, "batc", names[i]);
    assert_string_equal(nearest, "batch");
    assert_int_equal(found, 1);
}

static void nearest_offer__long_words__are_near_up_to_128_bytes(void **state)
{
    (void)state;
    char word[131], name[131];
    memset(word, 'x', sizeof word);
    memset(name, 'x', sizeof name);
    word[128] = name[128] = 0;
    word[127] = 'y';
    assert_int_equal(distance(word, name), 1);
    word[128] = 'x', word[129] = 0;
    assert_int_equal(distance(word, name), -1);
    assert_int_equal(distance(name, word), -1);
}

static void heap_text__formats__text_of_its_own(void **state)
{
    (void)state;
    char *text;
    assert_int_equal(heap_text(&text, "%s %d", "seven", 7), ST_OK);
    assert_string_equal(text, "seven 7");
    free(text);
    assert_int_equal(heap_text(&text, "%s", ""), ST_OK);
    assert_string_equal(text, "");
    free(text);
}

static void heap_room__counts__grow_and_keep(void **state)
{
    (void)state;
    uint32_t *list = NULL;
    assert_int_equal(heap_room(&list, 3, sizeof *list, "numbers"), ST_OK);
    for (uint32_t i = 0; i < 3; i++) list[i] = i + 1;
    assert_int_equal(heap_room(&list, 1000, sizeof *list, "numbers"), ST_OK);
    for (uint32_t i = 0; i < 3; i++) assert_int_equal(list[i], i + 1);
    list[999] = 1;
    uint32_t *before = list;
    /* more bytes than can be counted */
    assert_int_equal(heap_room(&list, SIZE_MAX / 2, sizeof *list, "numbers"), ST_MEMORY);
    assert_non_null(strstr(status_message(), "no memory for 9223372036854775807 numbers of 4 bytes each"));
#if !defined __SANITIZE_ADDRESS__ && !defined __SANITIZE_THREAD__ /* which end the program that asks for so much */
    assert_int_equal(heap_room(&list, SIZE_MAX / 8, sizeof *list, "numbers"), ST_MEMORY);
#endif
    assert_ptr_equal(list, before);
    assert_int_equal(list[2], 3);
    free(list);
}

static void json_text__values__are_their_text(void **state)
{
    (void)state;
    json_t *json = json_pack("{s:i, s:[s, b]}", "n", 12, "list", "a\"b", 1);
    char *text = json_text(json, JSON_COMPACT);
    assert_string_equal(text, "{\"n\":12,\"list\":[\"a\\\"b\",true]}");
    free(text);
    text = json_text(json, JSON_SORT_KEYS);
    assert_string_equal(text, "{\"list\": [\"a\\\"b\", true], \"n\": 12}");
    free(text);
    json_decref(json);
    assert_null(json_text(NULL, 0));
}

static float float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static void bf16_round__halves_and_ends__nearest_even(void **state)
{
    (void)state;
    static const struct {
        uint32_t from, to;
    } cases[] = {
        {0x3f800000, 0x3f800000}, {0x3f807fff, 0x3f800000}, {0x3f808000, 0x3f800000}, {0x3f808001, 0x3f810000},
        {0x3f817fff, 0x3f810000}, {0x3f818000, 0x3f820000}, {0xbf818000, 0xbf820000}, {0xbf808000, 0xbf800000},
        {0x00000000, 0x00000000}, {0x80000000, 0x80000000}, {0x00000001, 0x00000000}, {0x007fffff, 0x00000000},
        {0x807fffff, 0x80000000}, {0x00800000, 0x00800000}, {0x7f7f7fff, 0x7f7f0000}, {0x7f7f8000, 0x7f800000},
        {0x7f7fffff, 0x7f800000}, {0xff7fffff, 0xff800000}, {0x7f800000, 0x7f800000}, {0xff800000, 0xff800000},
        {0x7f800001, 0x7fc00000}, {0xff800001, 0xffc00000}, {0x7fc00000, 0x7fc00000}, {0x7fffffff, 0x7fff0000}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (bits_of(bf16_round(float_of(cases[i].from))) != cases[i].to)
            fail_msg("%08x becomes %08x, expected %08x", cases[i].from, bits_of(bf16_round(float_of(cases[i].from))),
                     cases[i].to);
}

static void words_whole__numbers__in_threes(void **state)
{
    (void)state;
    static const struct {
        uint64_t value;
        const char *text;
    } cases[] = {{0, "0"},
                 {7, "7"},
                 {999, "999"},
                 {1000, "1,000"},
                 {12345, "12,345"},
                 {123456, "123,456"},
                 {1234567, "1,234,567"},
                 {UINT64_MAX, "18,446,744,073,709,551,615"}};
    char buffer[WORDS_WHOLE_BYTES];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_string_equal(words_whole(buffer, cases[i].value), cases[i].text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nearest_offer__words__by_letters_that_differ),
        cmocka_unit_test(nearest_offer__several_names__the_first_of_the_nearest),
        cmocka_unit_test(nearest_offer__long_words__are_near_up_to_128_bytes),
        cmocka_unit_test(heap_text__formats__text_of_its_own),
        cmocka_unit_test(heap_room__counts__grow_and_keep),
        cmocka_unit_test(json_text__values__are_their_text),
        cmocka_unit_test(bf16_round__halves_and_ends__nearest_even),
        cmocka_unit_test(words_whole__numbers__in_threes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
