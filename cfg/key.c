/* Reads sections by tables of keys, and prints the tables. It is called some thirty times at start. */
#include "cfg/key.h"

#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/words.h"

static const char *const type_names[] = {
    [CFG_U32] = "u32",   [CFG_U64] = "u64",   [CFG_F32] = "f32",       [CFG_F64] = "f64",
    [CFG_BOOL] = "bool", [CFG_TEXT] = "text", [CFG_CHOICE] = "choice", [CFG_BYTES] = "bytes",
};

static bool is_digit(char character) { return character >= '0' && character <= '9'; }

/* Reads digits from *text on into *value, and moves *text behind the digits.
 * False if there are none or too many. */
static bool digits_read(const char **text, uint64_t *value)
{
    const char *at = *text;
    uint64_t sum = 0;
    for (; is_digit(*at); at++)
        if (__builtin_mul_overflow(sum, 10, &sum) || __builtin_add_overflow(sum, (uint64_t)(*at - '0'), &sum))
            return false;
    if (at == *text) return false;
    *text = at;
    *value = sum;
    return true;
}

bool cfg_parse_u64(const char *text, uint64_t *value)
{
    uint64_t number, unit = 1;
    if (!digits_read(&text, &number)) return false;
    if (*text == 'k') unit = 1000;
    if (*text == 'M') unit = 1000000;
    if (*text == 'G') unit = 1000000000;
    if (unit > 1) text++;
    if (*text || __builtin_mul_overflow(number, unit, &number)) return false;
    *value = number;
    return true;
}

/* The locale whose numbers have a point, whatever the process is set to. */
static locale_t point_locale;
static void point_locale_make(void)
{
    point_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    CHECK(point_locale != (locale_t)0);
}

/* [+-] digits [. digits] [e [+-] digits], with a digit before or after the point;
 * no other text that strtod takes. */
static bool is_decimal(const char *text)
{
    size_t digit_count = 0;
    if (*text == '+' || *text == '-') text++;
    for (; is_digit(*text); text++) digit_count++;
    if (*text == '.')
        for (text++; is_digit(*text); text++) digit_count++;
    if (digit_count == 0) return false;
    if (*text == 'e' || *text == 'E') {
        text++;
        if (*text == '+' || *text == '-') text++;
        if (!is_digit(*text)) return false;
        while (is_digit(*text)) text++;
    }
    return *text == '\0';
}

bool cfg_parse_f64(const char *text, double *value)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (!is_decimal(text)) return false;
    CHECK(pthread_once(&once, point_locale_make) == 0);
    double number = strtod_l(text, NULL, point_locale);
    if (!isfinite(number)) return false;
    *value = number;
    return true;
}

bool cfg_parse_bytes(const char *text, uint64_t *value)
{
    static const struct {
        const char *name;
        uint64_t bytes;
    } units[] = {
        {"", 1},
        {"B", 1},
        {"kB", UINT64_C(1000)},
        {"KB", UINT64_C(1000)},
        {"MB", UINT64_C(1000000)},
        {"GB", UINT64_C(1000000000)},
        {"TB", UINT64_C(1000000000000)},
        {"KiB", UINT64_C(1) << 10},
        {"MiB", UINT64_C(1) << 20},
        {"GiB", UINT64_C(1) << 30},
        {"TiB", UINT64_C(1) << 40},
        {"PB", UINT64_C(1000000000000000)},
        {"PiB", UINT64_C(1) << 50},
        {"EB", UINT64_C(1000000000000000000)},
        {"EiB", UINT64_C(1) << 60},
    };
    uint64_t whole, fraction = 0, fraction_unit = 1;
    if (!digits_read(&text, &whole)) return false;
    if (*text == '.') {
        const char *begin = ++text;
        if (!digits_read(&text, &fraction)) return false;
        /* Up to 18 digits: times the greatest unit, 2^60, they stay below 2^120. */
        if (text - begin > 18) return false;
        for (const char *at = begin; at < text; at++) fraction_unit *= 10;
    }
    while (*text == ' ') text++;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (strcmp(text, units[i].name) != 0) continue;
        if (units[i].bytes == 1 && fraction_unit != 1) return false; /* no half bytes */
        unsigned __int128 bytes =
            (unsigned __int128)whole * units[i].bytes + (unsigned __int128)fraction * units[i].bytes / fraction_unit;
        if (bytes > UINT64_MAX) return false;
        *value = (uint64_t)bytes;
        return true;
    }
    return false;
}

/* A number as people write it: 16777216, 0.5, 1e18. */
static char *number_text(char buffer[32], double value)
{
    snprintf(buffer, 32, "%.15g", value);
    char *plus = strchr(buffer, '+');
    if (plus) memmove(plus, plus + 1, strlen(plus));
    return buffer;
}

static bool is_number(enum cfg_type type)
{
    return type == CFG_U32 || type == CFG_U64 || type == CFG_F32 || type == CFG_F64 || type == CFG_BYTES;
}

/* "1..65536", "cut, error", "yes, no" or "". */
static char *range_text(char *buffer, size_t buffer_bytes, const struct cfg_key *key)
{
    char least[32], most[32];
    buffer[0] = '\0';
    if (key->type == CFG_BYTES) {
        snprintf(buffer, buffer_bytes, "%s..%s", words_size(least, (uint64_t)key->min),
                 words_size(most, (uint64_t)key->max));
    } else if (is_number(key->type)) {
        snprintf(buffer, buffer_bytes, "%s..%s", number_text(least, key->min), number_text(most, key->max));
    } else if (key->type == CFG_BOOL) {
        snprintf(buffer, buffer_bytes, "yes, no");
    } else if (key->type == CFG_CHOICE) {
        size_t used = 0;
        for (const char *const *choice = key->choices; *choice && used < buffer_bytes; choice++)
            used += (size_t)snprintf(buffer + used, buffer_bytes - used, "%s%s", used > 0 ? ", " : "", *choice);
    }
    return buffer;
}

/* The form of this key's values, for messages: "a whole number from 1 to 4096 (requests)". */
static char *expected_text(char *buffer, size_t buffer_bytes, const struct cfg_key *key)
{
    static const char *const nouns[] = {
        [CFG_U32] = "a whole number",
        [CFG_U64] = "a whole number",
        [CFG_F32] = "a number",
        [CFG_F64] = "a number",
        [CFG_BYTES] = "a size like 4096, 64KiB, 1.5GiB or 2GB",
    };
    char range[512], least[32], most[32];
    switch (key->type) {
    case CFG_TEXT: snprintf(buffer, buffer_bytes, "text"); break;
    case CFG_BOOL: snprintf(buffer, buffer_bytes, "yes or no"); break;
    case CFG_CHOICE: {
        bool is_only = key->choices[0] && !key->choices[1];
        snprintf(buffer, buffer_bytes, "%s%s", is_only ? "" : "one of ", range_text(range, sizeof range, key));
        break;
    }
    default: {
        bool is_bytes = key->type == CFG_BYTES, has_unit = key->unit[0] && !is_bytes;
        const char *from = is_bytes ? words_size(least, (uint64_t)key->min) : number_text(least, key->min);
        const char *to = is_bytes ? words_size(most, (uint64_t)key->max) : number_text(most, key->max);
        snprintf(buffer, buffer_bytes, "%s from %s to %s%s%s%s", nouns[key->type], from, to, has_unit ? " (" : "",
                 has_unit ? key->unit : "", has_unit ? ")" : "");
    }
    }
    return buffer;
}

static bool bool_read(const char *text, bool *value)
{
    static const char *const words[][2] = {{"no", "yes"}, {"false", "true"}, {"off", "on"}, {"0", "1"}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        for (int is_true = 0; is_true < 2; is_true++)
            if (strcmp(text, words[i][is_true]) == 0) {
                *value = is_true;
                return true;
            }
    return false;
}

/* Reads text into the key's field of *out; false if it is not of the type or out of range. */
static bool value_read(const struct cfg_key *key, const char *text, void *out)
{
    unsigned char *field = (unsigned char *)out + key->offset;
    uint64_t whole = 0;
    double number = 0;
    switch (key->type) {
    case CFG_U32:
    case CFG_U64:
    case CFG_BYTES: {
        bool is_whole = key->type == CFG_BYTES ? cfg_parse_bytes(text, &whole) : cfg_parse_u64(text, &whole);
        if (!is_whole || (double)whole < key->min || (double)whole > key->max) return false;
        if (key->type == CFG_U32) {
            if (whole > UINT32_MAX) return false;
            memcpy(field, &(uint32_t){(uint32_t)whole}, sizeof(uint32_t));
        } else {
            memcpy(field, &whole, sizeof whole);
        }
        return true;
    }
    case CFG_F32:
        if (!cfg_parse_f64(text, &number) || number < key->min || number > key->max || !isfinite((float)number))
            return false;
        memcpy(field, &(float){(float)number}, sizeof(float));
        return true;
    case CFG_F64:
        if (!cfg_parse_f64(text, &number) || number < key->min || number > key->max) return false;
        memcpy(field, &number, sizeof number);
        return true;
    case CFG_BOOL: {
        bool value;
        if (!bool_read(text, &value)) return false;
        memcpy(field, &value, sizeof value);
        return true;
    }
    case CFG_TEXT: memcpy(field, &text, sizeof text); return true;
    case CFG_CHOICE:
        for (uint32_t i = 0; key->choices[i]; i++)
            if (strcmp(text, key->choices[i]) == 0) {
                memcpy(field, &i, sizeof i);
                return true;
            }
        return false;
    }
    return false;
}

static const struct cfg_key *key_find(const struct cfg_key *keys, size_t key_count, const char *name)
{
    for (size_t i = 0; i < key_count; i++)
        if (strcmp(keys[i].name, name) == 0) return &keys[i];
    return NULL;
}

static status fail_unknown(const struct ini *ini, const struct ini_section *section, const struct ini_entry *entry,
                           const struct cfg_key *keys, size_t key_count)
{
    const char **names = calloc(key_count + 1, sizeof *names);
    if (!names) return ini_fail(ini, section, entry, "no such key");
    for (size_t i = 0; i < key_count; i++) names[i] = keys[i].name;
    const char *nearest = ini_nearest(entry->key, names);
    char list[1024] = "";
    size_t used = 0;
    for (size_t i = 0; i < key_count && used < sizeof list; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i > 0 ? ", " : "", keys[i].name);
    free(names);
    if (nearest) return ini_fail(ini, section, entry, "no such key; did you mean \"%s\"?", nearest);
    if (key_count == 0) return ini_fail(ini, section, entry, "no such key; expected none");
    return ini_fail(ini, section, entry, "no such key; expected one of %s", list);
}

static status fail_value(const struct ini *ini, const struct ini_section *section, const struct ini_entry *entry,
                         const struct cfg_key *key)
{
    char expected[1024];
    expected_text(expected, sizeof expected, key);
    const char *dots = strlen(entry->value) > 60 ? "..." : "";
    const char *nearest = key->type == CFG_CHOICE ? ini_nearest(entry->value, key->choices) : NULL;
    if (nearest)
        return ini_fail(ini, section, entry, "expected %s, found \"%.60s%s\"; did you mean \"%s\"?", expected,
                        entry->value, dots, nearest);
    return ini_fail(ini, section, entry, "expected %s, found \"%.60s%s\"", expected, entry->value, dots);
}

const char *cfg_default(const struct ini *ini, const struct cfg_key *key)
{
    uint32_t rules = rules_of(ini);
    return rules <= key->older ? key->oldest : rules <= key->until ? key->before : key->fallback;
}

status cfg_read(const struct ini *ini, const struct ini_section *section, const struct cfg_key *keys, size_t key_count,
                void *out)
{
    for (uint32_t i = 0; section && i < section->entry_count; i++)
        if (!key_find(keys, key_count, section->entries[i].key))
            return fail_unknown(ini, section, &section->entries[i], keys, key_count);
    for (size_t i = 0; i < key_count; i++) {
        const struct cfg_key *key = &keys[i];
        const struct ini_entry *entry = section ? ini_entry_find(section, key->name) : NULL;
        if (entry) {
            if (!value_read(key, entry->value, out)) return fail_value(ini, section, entry, key);
        } else if (key->fallback) {
            CHECK(value_read(key, cfg_default(ini, key), out));
        } else {
            char expected[1024];
            return ini_fail(ini, section, NULL, "expected a key \"%s\" (%s: %s), found none", key->name, key->meaning,
                            expected_text(expected, sizeof expected, key));
        }
    }
    return ST_OK;
}

/* The columns before the meaning, as text. */
enum { COLUMN_NAME, COLUMN_TYPE, COLUMN_DEFAULT, COLUMN_RANGE, COLUMN_UNIT, COLUMN_COUNT };
struct key_row {
    const char *column[COLUMN_COUNT];
    char range[512];
};

static void key_row_make(struct key_row *row, const struct cfg_key *key)
{
    *row = (struct key_row){.column = {
                                [COLUMN_NAME] = key->name,
                                [COLUMN_TYPE] = type_names[key->type],
                                [COLUMN_DEFAULT] = key->fallback ? key->fallback : "required",
                                [COLUMN_RANGE] = row->range,
                                [COLUMN_UNIT] = key->unit,
                            }};
    range_text(row->range, sizeof row->range, key);
}

/* The defaults by older rules, the oldest first, each between `quote`s. */
static void before_put(FILE *out, const struct cfg_key *key, const char *quote)
{
    if (!key->until) return;
    fprintf(out, "; by rules up to ");
    if (key->older) fprintf(out, "%u the default is %s%s%s, up to ", key->older, quote, key->oldest, quote);
    fprintf(out, key->older ? "%u %s%s%s" : "%u the default is %s%s%s", key->until, quote, key->before, quote);
}

void cfg_print(FILE *out, const struct cfg_key *keys, size_t key_count)
{
    struct key_row row;
    int width[COLUMN_COUNT] = {0};
    for (size_t i = 0; i < key_count; i++) {
        key_row_make(&row, &keys[i]);
        for (int c = 0; c < COLUMN_COUNT; c++)
            if ((int)strlen(row.column[c]) > width[c]) width[c] = (int)strlen(row.column[c]);
    }
    for (size_t i = 0; i < key_count; i++) {
        key_row_make(&row, &keys[i]);
        for (int c = 0; c < COLUMN_COUNT; c++)
            if (width[c] > 0) fprintf(out, "  %-*s", width[c], row.column[c]);
        fprintf(out, "  %s", keys[i].meaning);
        before_put(out, &keys[i], "");
        fputc('\n', out);
    }
}

/* Writes the text of a cell; a '|' would end the cell. */
static void markdown_put(FILE *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '|') fputc('\\', out);
        fputc(*text, out);
    }
}

void cfg_print_markdown(FILE *out, const char *section, const struct cfg_key *keys, size_t key_count)
{
    fprintf(out, "### [%s]\n\n| key | type | default | range | unit | meaning |\n|---|---|---|---|---|---|\n", section);
    for (size_t i = 0; i < key_count; i++) {
        struct key_row row;
        key_row_make(&row, &keys[i]);
        for (int c = 0; c < COLUMN_COUNT; c++) {
            bool is_code = c == COLUMN_NAME || (c == COLUMN_DEFAULT && keys[i].fallback && keys[i].fallback[0]);
            fputs(is_code ? "| `" : "| ", out);
            markdown_put(out, row.column[c]);
            fputs(is_code ? "` " : " ", out);
        }
        fputs("| ", out);
        markdown_put(out, keys[i].meaning);
        before_put(out, &keys[i], "`");
        fputs(" |\n", out);
    }
    fputc('\n', out);
}
