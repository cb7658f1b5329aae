/* Numbers and names for people: digits that mean something, units that fit, and no byte that is not text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "engine/base/words.h"

static void words_number__digits__are_rounded_and_grouped(void **state)
{
    (void)state;
    assert_string_equal(words_number(WORDS, 13.0623, 4), "13.06");
    assert_string_equal(words_number(WORDS, 173315.2, 4), "173,315");
    assert_string_equal(words_number(WORDS, 0.0209326, 4), "0.02093");
    assert_string_equal(words_number(WORDS, 9.99951, 4), "10.00");
    assert_string_equal(words_number(WORDS, 999.96, 4), "1,000");
    assert_string_equal(words_number(WORDS, -1234567, 4), "-1,234,567");
    assert_string_equal(words_number(WORDS, 0, 4), "0");
    assert_string_equal(words_number(WORDS, 1e-12, 3), "1.00e-12");
    assert_string_equal(words_number(WORDS, 1e300, 3), "1.00e+300");
    assert_string_equal(words_number(WORDS, INFINITY, 4), "∞");
    assert_string_equal(words_count(WORDS, 1e6), "1,000,000");
    assert_string_equal(words_count(WORDS, 7), "7");
}

static void words_price__zeros_at_the_end__are_left_out(void **state)
{
    (void)state;
    assert_string_equal(words_price(WORDS, 0.04), "0.04");
    assert_string_equal(words_price(WORDS, 17), "17");
    assert_string_equal(words_price(WORDS, 100), "100");
    assert_string_equal(words_price(WORDS, 12000), "12,000");
    assert_string_equal(words_price(WORDS, 0), "0");
}

static void words_units__sizes__get_the_unit_that_fits(void **state)
{
    (void)state;
    assert_string_equal(words_seconds(WORDS, 5.771e-6), "5.77 µs");
    assert_string_equal(words_seconds(WORDS, 0.99994e-6), "1.00 µs");
    assert_string_equal(words_seconds(WORDS, 103), "103 s");
    assert_string_equal(words_seconds(WORDS, 600), "10.0 min");
    assert_string_equal(words_seconds(WORDS, 8316), "2.31 h");
    assert_string_equal(words_seconds(WORDS, 86400 * 30), "30.0 days");
    assert_string_equal(words_bytes(WORDS, 512), "512 B");
    assert_string_equal(words_bytes(WORDS, 88474), "86.4 KiB");
    assert_string_equal(words_bytes(WORDS, 1e30), "888,178,419,700,125 PiB");
    assert_string_equal(words_short(WORDS, 396015), "396k");
    assert_string_equal(words_short(WORDS, 1.2e6), "1.2M");
    assert_string_equal(words_short(WORDS, 0.05), "0.05");
    assert_string_equal(words_usd(WORDS, 0.0209326), "0.02093 USD");
    assert_string_equal(words_plural(WORDS, 1, "stage"), "1 stage");
    assert_string_equal(words_plural(WORDS, 2000, "stage"), "2,000 stages");
}

static void words_size__sizes__one_digit_behind_the_point(void **state)
{
    (void)state;
    static const struct {
        uint64_t bytes;
        const char *text;
    } known[] = {
        {0, "0 B"},
        {12, "12 B"},
        {1023, "1023 B"},
        {1024, "1 KiB"},
        {1536, "1.5 KiB"},
        {851968, "832 KiB"},
        {1048575, "1 MiB"},
        {UINT64_C(1610612736), "1.5 GiB"},
        {UINT64_C(1) << 40, "1 TiB"},
        {UINT64_C(1) << 50, "1 PiB"},
        {UINT64_MAX, "16 EiB"},
        {1047527, "1023 KiB"},
        {1047500, "1022.9 KiB"},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        char buffer[WORDS_SIZE_BYTES];
        assert_ptr_equal(words_size(buffer, known[i].bytes), buffer);
        assert_string_equal(buffer, known[i].text);
    }
}

static void words_volume__sizes__two_digits_or_more(void **state)
{
    (void)state;
    assert_string_equal(words_volume(WORDS, 0), "0 B");
    assert_string_equal(words_volume(WORDS, 1023), "1023 B");
    assert_string_equal(words_volume(WORDS, 1024), "1.0 KiB");
    assert_string_equal(words_volume(WORDS, 1536), "1.5 KiB");
    assert_string_equal(words_volume(WORDS, 10239), "10.0 KiB");
    assert_string_equal(words_volume(WORDS, 10240), "10 KiB");
    assert_string_equal(words_volume(WORDS, UINT64_C(1) << 50), "1024 TiB");
}

static void words_s__counts__only_one_is_without(void **state)
{
    (void)state;
    assert_string_equal(words_s(0), "s");
    assert_string_equal(words_s(1), "");
    assert_string_equal(words_s(2), "s");
}

static void words_share__near_all__is_not_all(void **state)
{
    (void)state;
    assert_string_equal(words_share(WORDS, 1), "100 %");
    assert_string_equal(words_share(WORDS, 0.99999), "99.9 %");
    assert_string_equal(words_share(WORDS, 1.00001), "100.1 %");
    assert_string_equal(words_share(WORDS, 1.0017), "100.2 %");
    assert_string_equal(words_share(WORDS, 0.9932), "99.3 %");
    assert_string_equal(words_share(WORDS, 0.932), "93 %");
    assert_string_equal(words_share(WORDS, 0.0996), "10 %");
    assert_string_equal(words_share(WORDS, 1.2), "120 %");
    assert_string_equal(words_share(WORDS, 0.0431), "4.3 %");
    assert_string_equal(words_share(WORDS, 0), "0 %");
}

static void words_change__ratios__are_per_cent_or_times(void **state)
{
    (void)state;
    assert_string_equal(words_change(WORDS, 1.066), "+6.6 %");
    assert_string_equal(words_change(WORDS, 0.9969), "-0.31 %");
    assert_string_equal(words_change(WORDS, 4.81), "+381 %");
    assert_string_equal(words_change(WORDS, 52.1), "52.1 times");
    assert_string_equal(words_change(WORDS, 1), "0 %");
    assert_string_equal(words_change(WORDS, NAN), "0 %");
    assert_string_equal(words_change(WORDS, INFINITY), "∞");
}

static void words_name__hostile__has_only_printable_characters(void **state)
{
    (void)state;
    char name[64];
    assert_string_equal(words_name(name, sizeof name, "a\x1b[31m\n", 20), "a\xEF\xBF\xBD[31m\xEF\xBF\xBD");
    /* Not UTF-8: a lone continuation, an overlong slash, a surrogate, a sequence that ends early. */
    assert_string_equal(words_name(name, sizeof name, "\x80", 20), "\xEF\xBF\xBD");
    assert_string_equal(words_name(name, sizeof name, "\xC0\xAF", 20), "\xEF\xBF\xBD\xEF\xBF\xBD");
    assert_string_equal(words_name(name, sizeof name, "\xED\xA0\x80", 20), "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
    assert_string_equal(words_name(name, sizeof name, "\xE2\x80", 20), "\xEF\xBF\xBD\xEF\xBF\xBD");
    /* What turns the direction of writing. */
    assert_string_equal(words_name(name, sizeof name, "a\xE2\x80\xAE", 20), "a\xEF\xBF\xBD");
    assert_string_equal(words_name(name, sizeof name, "Größe 日本 🙂", 20), "Größe 日本 🙂");
}

static void words_name__too_long__is_cut_with_an_ellipsis(void **state)
{
    (void)state;
    char name[64], small[16];
    assert_string_equal(words_name(name, sizeof name, "embedding", 9), "embedding");
    assert_string_equal(words_name(name, sizeof name, "embedding", 8), "embeddi…");
    assert_string_equal(words_name(name, sizeof name, "ééé", 2), "é…");
    assert_int_equal(words_width("é…"), 2);
    /* A buffer that is too small cuts, too, and never within a character. */
    words_name(small, sizeof small, "日本日本日本日本", 100);
    assert_true(strlen(small) < sizeof small);
    assert_int_equal(strlen(small) % 3, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_number__digits__are_rounded_and_grouped),
        cmocka_unit_test(words_price__zeros_at_the_end__are_left_out),
        cmocka_unit_test(words_units__sizes__get_the_unit_that_fits),
        cmocka_unit_test(words_size__sizes__one_digit_behind_the_point),
        cmocka_unit_test(words_volume__sizes__two_digits_or_more),
        cmocka_unit_test(words_s__counts__only_one_is_without),
        cmocka_unit_test(words_share__near_all__is_not_all),
        cmocka_unit_test(words_change__ratios__are_per_cent_or_times),
        cmocka_unit_test(words_name__hostile__has_only_printable_characters),
        cmocka_unit_test(words_name__too_long__is_cut_with_an_ellipsis),
    };
    int failure_count = cmocka_run_group_tests(tests, NULL, NULL);
    return failure_count ? 1 : 0;
}
