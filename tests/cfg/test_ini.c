/* The reader of INI text, --set, and the canonical text. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cfg/ini.h"

static struct ini ini;
static const char *const kinds[] = {"train", "store", NULL};

static status parse(const char *text) { return ini_parse(&ini, "m.cfg", text, strlen(text)); }

static int free_ini(void **state)
{
    (void)state;
    ini_free(&ini);
    return 0;
}

static void assert_value(const char *kind, const char *name, const char *key, const char *value, uint32_t line)
{
    const struct ini_section *section = ini_find(&ini, kind, name);
    assert_non_null(section);
    const struct ini_entry *entry = ini_entry_find(section, key);
    assert_non_null(entry);
    assert_string_equal(entry->value, value);
    assert_int_equal(entry->line, line);
}

static void ini_parse__sections_entries_comments__with_their_lines(void **state)
{
    (void)state;
    assert_int_equal(parse("; head\n"
                           "[train]\r\n"
                           "batch = 2048 ; of a step\n"
                           "\n"
                           "  optimizer=adagrad 0.01\t# slow\n"
                           "\t[ fc \t h1 ] ; first\n"
                           "a =\n"
                           "b = x#y;z = 1\n"
                           "c =;d\n"
                           "d-e_9 = \xc3\xa9"),
                     ST_OK);
    assert_int_equal(ini.section_count, 2);
    assert_string_equal(ini.path, "m.cfg");
    assert_int_equal(ini.sections[0].line, 2);
    assert_int_equal(ini.sections[1].line, 6);
    assert_int_equal(ini.sections[1].entry_count, 4);
    assert_value("train", "", "batch", "2048", 3);
    assert_value("train", "", "optimizer", "adagrad 0.01", 5);
    assert_value("fc", "h1", "a", "", 7);
    assert_value("fc", "h1", "b", "x#y;z = 1", 8);
    assert_value("fc", "h1", "c", ";d", 9);
    assert_value("fc", "h1", "d-e_9", "\xc3\xa9", 10);
    assert_null(ini_find(&ini, "fc", ""));
    assert_null(ini_find(&ini, "train", "h1"));
    assert_null(ini_entry_find(&ini.sections[0], "a"));
}

static void ini_parse__nothing_or_a_byte_order_mark__is_fine(void **state)
{
    (void)state;
    assert_int_equal(ini_parse(&ini, "m.cfg", NULL, 0), ST_OK);
    assert_int_equal(ini.section_count, 0);
    ini_free(&ini);
    assert_int_equal(parse("\xef\xbb\xbf[a]\n"), ST_OK);
    assert_int_equal(ini.section_count, 1);
}

static void ini_parse__same_key_in_other_section__is_fine(void **state)
{
    (void)state;
    assert_int_equal(parse("[fc a]\nx = 1\n[fc b]\nx = 2\n[fc]\nx = 3\n[a]\nx = 4\n"), ST_OK);
    assert_value("fc", "b", "x", "2", 4);
    assert_value("fc", "", "x", "3", 6);
}

static void ini_parse__malformed__line_expected_found(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
    } known[] = {
        {"[a]\nx\n", "m.cfg:2: expected key = value or [section], found \"x\""},
        {"x = 1\n", "m.cfg:1: expected a [section] before the first key, found \"x = 1\""},
        {"\n\n[a\n", "m.cfg:3: expected ']' after the section's name, found \"[a\""},
        {"[a] b\n", "m.cfg:1: expected the end of the line after ']', found \" b\""},
        {"[a]]\n", "m.cfg:1: expected the end of the line after ']', found \"]\""},
        {"[]\n", "m.cfg:1: expected [kind] or [kind name], found \"[]\""},
        {"[  ]\n", "m.cfg:1: expected [kind] or [kind name], found \"[]\""},
        {"[a b c]\n", "m.cfg:1: expected [kind] or [kind name], found \"[a b c]\""},
        {"[a [b]\n", "m.cfg:1: expected [kind] or [kind name], found \"[a [b]\""},
        {"[a]\n= 1\n", "m.cfg:2: expected a key of letters, digits, _ and - before '=', found \"\""},
        {"[a]\nx y = 1\n", "m.cfg:2: expected a key of letters, digits, _ and - before '=', found \"x y\""},
        {"[a]\nx = 1\ny = 2\nx = 3\n", "m.cfg:4: [a] x: is here a second time; the first is in line 2"},
        {"[a b]\n[a]\n\n[a b]\n", "m.cfg:4: [a b] is here a second time; the first is in line 1"},
        {"[a]\n[b]\n[a]\n", "m.cfg:3: [a] is here a second time; the first is in line 1"},
        {"[a]\nx = 1\r", "m.cfg:2: expected text, found byte 0x0d in column 6"},
        {"[a]\nx = \r1\n", "m.cfg:2: expected text, found byte 0x0d in column 5"},
        {"[a]\n;\x01\n", "m.cfg:2: expected text, found byte 0x01 in column 2"},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        assert_int_equal(parse(known[i].text), ST_INVALID);
        assert_string_equal(status_message(), known[i].message);
        assert_null(ini.memory);
        assert_int_equal(ini.section_count, 0);
    }
    assert_int_equal(ini_parse(&ini, "m.cfg", "[a]\nx = \0\n", 10), ST_INVALID);
    assert_string_equal(status_message(), "m.cfg:2: expected text, found byte 0x00 in column 5");
}

/* A text of `bytes` times a letter between a head and a tail. */
static status parse_long(const char *head, size_t bytes, const char *tail)
{
    char *text = malloc(strlen(head) + bytes + strlen(tail) + 1);
    assert_non_null(text);
    strcpy(text, head);
    memset(text + strlen(head), 'x', bytes);
    strcpy(text + strlen(head) + bytes, tail);
    status st = parse(text);
    free(text);
    return st;
}

static void ini_parse__limits__exact(void **state)
{
    (void)state;
    static const struct {
        const char *head, *tail;
        size_t bytes_max;
    } known[] = {
        {"[", "]\n", INI_NAME_BYTES_MAX},         {"[a ", "]\n", INI_NAME_BYTES_MAX},
        {"[a]\n", "=1\n", INI_NAME_BYTES_MAX},    {"[a]\nb=", "\n", INI_VALUE_BYTES_MAX},
        {"[a]\n;", "\n", INI_TEXT_BYTES_MAX - 6},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        assert_int_equal(parse_long(known[i].head, known[i].bytes_max, known[i].tail), ST_OK);
        ini_free(&ini);
        assert_int_equal(parse_long(known[i].head, known[i].bytes_max + 1, known[i].tail), ST_INVALID);
    }
}

static void ini_parse__too_many_sections__invalid(void **state)
{
    (void)state;
    static char text[INI_SECTIONS_MAX * 16];
    size_t bytes = 0;
    for (uint32_t i = 0; i < INI_SECTIONS_MAX; i++) bytes += (size_t)sprintf(text + bytes, "[a %u]\n", i);
    assert_int_equal(parse(text), ST_OK);
    assert_int_equal(ini.section_count, INI_SECTIONS_MAX);
    ini_free(&ini);
    sprintf(text + bytes, "[b]\n");
    assert_int_equal(parse(text), ST_INVALID);
    assert_non_null(strstr(status_message(), "m.cfg:10001: expected at most 10000 sections"));
}

/* Of a user's text 60 bytes are told, and dots only if that is not all. */
static void ini_parse__long_text__is_told_in_part(void **state)
{
    (void)state;
    char text[64], expected[96];
    for (int bytes = 59; bytes <= 61; bytes++) {
        memset(text, 'x', sizeof text);
        text[bytes] = 0;
        assert_int_equal(parse(text), ST_INVALID);
        snprintf(expected, sizeof expected, "found \"%.60s%s\"", text, bytes > 60 ? "..." : "");
        assert_non_null(strstr(status_message(), expected));
    }
}

/* A million bytes of distinct keys: with a search through all before, this would take minutes. */
static void ini_parse__very_many_keys__linear_time(void **state)
{
    (void)state;
    static char text[INI_TEXT_BYTES_MAX];
    size_t bytes = (size_t)sprintf(text, "[a]\n");
    uint32_t count = 0;
    for (; bytes < 700000; count++) bytes += (size_t)sprintf(text + bytes, "%x=\n", count);
    assert_int_equal(parse(text), ST_OK);
    assert_int_equal(ini.sections[0].entry_count, count);
}

/* "a=" grows by the spaces of the canonical text; what could not be read again is refused at once. */
static void ini_parse__canonical_text_too_long__invalid(void **state)
{
    (void)state;
    static char text[INI_TEXT_BYTES_MAX];
    size_t bytes = (size_t)sprintf(text, "[a]\n");
    for (uint32_t i = 0; bytes < 1000000; i++) bytes += (size_t)sprintf(text + bytes, "%x=1\n", i);
    assert_int_equal(parse(text), ST_INVALID);
    assert_non_null(strstr(status_message(), "1048576 bytes"));
}

static void ini_text__odd_spacing__canonical_and_stable(void **state)
{
    (void)state;
    assert_int_equal(parse("[ b  c ]\nx=1 ;no\n y =\n[a]\nz=;v\n"), ST_OK);
    size_t bytes, again_bytes;
    char *text = ini_text(&ini, &bytes);
    assert_string_equal(text, "[b c]\nx = 1\ny =\n\n[a]\nz =;v\n");
    assert_int_equal(bytes, strlen(text));
    ini_free(&ini);
    assert_int_equal(parse(text), ST_OK);
    char *again = ini_text(&ini, &again_bytes);
    assert_string_equal(again, text);
    free(text);
    free(again);
}

static void ini_set__existing_new_and_absent__replaced_added_made(void **state)
{
    (void)state;
    assert_int_equal(parse("[train]\nbatch = 1\nseed = 2\n[fc h1]\nunits = 3\n[fc h.2]\nunits = 4\n[loss bce]\n"),
                     ST_OK);
    assert_int_equal(ini_set(&ini, "train.batch=512", kinds), ST_OK);
    assert_int_equal(ini_set(&ini, "h1.units = 256 ", kinds), ST_OK);
    assert_int_equal(ini_set(&ini, "h.2.bias=no", kinds), ST_OK);
    assert_int_equal(ini_set(&ini, "loss.label=a=b", kinds), ST_OK);
    assert_int_equal(ini_set(&ini, "store.ram=1GiB", kinds), ST_OK);
    assert_int_equal(ini_set(&ini, "store.x=", kinds), ST_OK);
    assert_value("train", "", "batch", "512", 0);
    assert_value("train", "", "seed", "2", 3);
    assert_value("fc", "h1", "units", "256", 0);
    assert_value("fc", "h.2", "units", "4", 7);
    assert_value("fc", "h.2", "bias", "no", 0);
    assert_value("loss", "bce", "label", "a=b", 0);
    assert_value("store", "", "ram", "1GiB", 0);
    assert_value("store", "", "x", "", 0);
    assert_int_equal(ini.section_count, 5);
}

static void ini_set__many__all_are_kept(void **state)
{
    (void)state;
    assert_int_equal(parse("[a]\n"), ST_OK);
    for (int i = 0; i < 1000; i++) {
        char assignment[64];
        snprintf(assignment, sizeof assignment, "a.k%d=v%d", i, i);
        assert_int_equal(ini_set(&ini, assignment, kinds), ST_OK);
    }
    assert_int_equal(ini.sections[0].entry_count, 1000);
    assert_value("a", "", "k0", "v0", 0);
    assert_value("a", "", "k999", "v999", 0);
}

static void ini_set__malformed_unknown_ambiguous__usage_and_unchanged(void **state)
{
    (void)state;
    static const struct {
        const char *assignment, *message;
    } known[] = {
        {"train", "--set train: expected section.key=value, found no '='"},
        {"train=1.5", "--set train=1.5: expected section.key=value, found no '.' before the '='"},
        {".batch=1", "--set .batch=1: expected a section of 1 to 128 bytes, found 0"},
        {"train.=1", "--set train.=1: expected a key of at most 128 letters, digits, _ and -, found \"\""},
        {"trian.batch=1", "--set trian.batch=1: no section of m.cfg is called \"trian\"; did you mean \"train\"?"},
        {"stoer.ram=1", "--set stoer.ram=1: no section of m.cfg is called \"stoer\"; did you mean \"store\"?"},
        {"h3.units=1", "--set h3.units=1: no section of m.cfg is called \"h3\""},
        {"fc.units=1", "--set fc.units=1: there are 2 sections [fc ...]; name one, as in h2.key=value"},
        {"e.dim=1", "--set e.dim=1: \"e\" may be [table e] in line 4 or [embedding e] in line 5"},
        {"train.x=1 ;2", "--set train.x=1 ;2: a value cannot hold ';' after white space"},
        {"train.x=1\n2", "--set train.x: expected text, found byte 0x0a"},
    };
    assert_int_equal(parse("[train]\n[fc first]\n[fc h2]\n[table e]\n[embedding e]\n"), ST_OK);
    size_t bytes;
    char *before = ini_text(&ini, &bytes);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        assert_int_equal(ini_set(&ini, known[i].assignment, kinds), ST_USAGE);
        assert_string_equal(status_message(), known[i].message);
    }
    char *after = ini_text(&ini, &bytes);
    assert_string_equal(after, before);
    free(before);
    free(after);
}

static void ini_set__name_of_a_section_that_could_be_made__usage(void **state)
{
    (void)state;
    assert_int_equal(parse("[table store]\n"), ST_OK);
    assert_int_equal(ini_set(&ini, "store.ram=1", kinds), ST_USAGE);
    assert_non_null(strstr(status_message(), "may be [table store]"));
}

static void ini_set__text_full__usage(void **state)
{
    (void)state;
    static char text[INI_TEXT_BYTES_MAX], assignment[INI_VALUE_BYTES_MAX + 16];
    size_t bytes = (size_t)sprintf(text, "[a]\n");
    for (int i = 0; i < 63; i++) {
        bytes += (size_t)sprintf(text + bytes, "k%d = ", i);
        memset(text + bytes, 'x', INI_VALUE_BYTES_MAX);
        bytes += INI_VALUE_BYTES_MAX;
        text[bytes++] = '\n';
    }
    assert_int_equal(parse(text), ST_OK);
    strcpy(assignment, "a.z=");
    memset(assignment + 4, 'y', INI_VALUE_BYTES_MAX);
    assert_int_equal(ini_set(&ini, assignment, kinds), ST_USAGE);
    assignment[4 + 1000] = '\0';
    assert_int_equal(ini_set(&ini, assignment, kinds), ST_OK);
    char *canonical = ini_text(&ini, &bytes);
    ini_free(&ini);
    assert_int_equal(ini_parse(&ini, "m.cfg", canonical, bytes), ST_OK);
    free(canonical);
}

static void ini_fail__file_section_command_line__says_where(void **state)
{
    (void)state;
    assert_int_equal(parse("[fc h1]\nunits = 3\n[train]\n"), ST_OK);
    const struct ini_section *h1 = &ini.sections[0];
    assert_int_equal(ini_fail(&ini, h1, &h1->entries[0], "expected %d", 4), ST_INVALID);
    assert_string_equal(status_message(), "m.cfg:2: [fc h1] units: expected 4");
    assert_int_equal(ini_fail(&ini, h1, NULL, "no"), ST_INVALID);
    assert_string_equal(status_message(), "m.cfg:1: [fc h1]: no");
    assert_int_equal(ini_fail(&ini, NULL, NULL, "no"), ST_INVALID);
    assert_string_equal(status_message(), "m.cfg: no");
    assert_int_equal(ini_set(&ini, "h1.units=9", kinds), ST_OK);
    assert_int_equal(ini_fail(&ini, h1, &h1->entries[0], "no"), ST_USAGE);
    assert_string_equal(status_message(), "--set h1.units: no");
    assert_int_equal(ini_set(&ini, "store.ram=9", kinds), ST_OK);
    const struct ini_section *store = ini_find(&ini, "store", "");
    assert_int_equal(ini_fail(&ini, store, &store->entries[0], "no"), ST_USAGE);
    assert_string_equal(status_message(), "--set store.ram: no");
    assert_int_equal(ini_fail(&ini, store, NULL, "no"), ST_USAGE);
    assert_string_equal(status_message(), "--set store: no");
}

static void ini_nearest__typing_errors__the_word_that_was_meant(void **state)
{
    (void)state;
    static const char *const names[] = {"batch", "micro", "lanes", "epochs", "dim", NULL};
    static const char *const known[][2] = {
        {"batch", "batch"}, {"bacth", "batch"}, {"batches", "batch"}, {"btch", "batch"},
        {"micor", "micro"}, {"dm", "dim"},      {"epoch", "epochs"},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        assert_string_equal(ini_nearest(known[i][0], names), known[i][1]);
    assert_null(ini_nearest("units", names));
    assert_null(ini_nearest("", names));
    assert_null(ini_nearest("xyz", names));
    static char lengthy[1000];
    memset(lengthy, 'b', sizeof lengthy - 1);
    assert_null(ini_nearest(lengthy, names));
}

#define TEST(name) cmocka_unit_test_teardown(name, free_ini)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(ini_parse__sections_entries_comments__with_their_lines),
        TEST(ini_parse__nothing_or_a_byte_order_mark__is_fine),
        TEST(ini_parse__same_key_in_other_section__is_fine),
        TEST(ini_parse__malformed__line_expected_found),
        TEST(ini_parse__limits__exact),
        TEST(ini_parse__too_many_sections__invalid),
        TEST(ini_parse__very_many_keys__linear_time),
        TEST(ini_parse__canonical_text_too_long__invalid),
        TEST(ini_text__odd_spacing__canonical_and_stable),
        TEST(ini_set__existing_new_and_absent__replaced_added_made),
        TEST(ini_set__many__all_are_kept),
        TEST(ini_set__malformed_unknown_ambiguous__usage_and_unchanged),
        TEST(ini_set__name_of_a_section_that_could_be_made__usage),
        TEST(ini_set__text_full__usage),
        TEST(ini_parse__long_text__is_told_in_part),
        TEST(ini_fail__file_section_command_line__says_where),
        TEST(ini_nearest__typing_errors__the_word_that_was_meant),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
