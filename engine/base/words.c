/* Writes numbers and names for people; an explanation or a page uses a few thousand of them. */
#include "engine/base/words.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REPLACEMENT 0xFFFDu

/* Groups the digits in front of the point by thousands. */
static void group(char buffer[WORDS_BYTES])
{
    size_t begin = buffer[0] == '-', digit_count = strspn(buffer + begin, "0123456789");
    for (size_t at = digit_count; at > 3;) {
        at -= 3;
        size_t length = strlen(buffer);
        if (length + 2 > WORDS_BYTES) return;
        memmove(buffer + begin + at + 1, buffer + begin + at, length + 1 - begin - at);
        buffer[begin + at] = ',';
    }
}

static char *infinite(char buffer[WORDS_BYTES], double value)
{
    snprintf(buffer, WORDS_BYTES, "%s", isnan(value) ? "?" : value > 0 ? "∞" : "-∞");
    return buffer;
}

char *words_number(char buffer[WORDS_BYTES], double value, int digits)
{
    if (!isfinite(value)) return infinite(buffer, value);
    /* The exponent after rounding: 9.9996 has one digit more than 9.9994. */
    snprintf(buffer, WORDS_BYTES, "%.*e", digits - 1, value);
    int exponent = value == 0 ? digits - 1 : atoi(strchr(buffer, 'e') + 1);
    if (exponent < -9 || exponent > 15) return buffer;
    snprintf(buffer, WORDS_BYTES, "%.*f", exponent >= digits ? 0 : digits - 1 - exponent, value);
    group(buffer);
    return buffer;
}

char *words_whole(char buffer[WORDS_WHOLE_BYTES], uint64_t value)
{
    char digits[21];
    int count = snprintf(digits, sizeof digits, "%" PRIu64, value), out = 0;
    for (int i = 0; i < count; i++) {
        if (i && (count - i) % 3 == 0) buffer[out++] = ',';
        buffer[out++] = digits[i];
    }
    buffer[out] = 0;
    return buffer;
}

char *words_count(char buffer[WORDS_BYTES], double value)
{
    return words_number(buffer, isfinite(value) ? round(value) : value, 1);
}

static char *with_unit(char buffer[WORDS_BYTES], double value, int digits, const char *unit)
{
    words_number(buffer, value, digits);
    size_t used = strlen(buffer);
    snprintf(buffer + used, WORDS_BYTES - used, " %s", unit);
    return buffer;
}

char *words_short(char buffer[WORDS_BYTES], double value)
{
    static const char *const units[] = {"", "k", "M", "G", "T", "P"};
    size_t unit = 0;
    while (fabs(value) >= 999.5 && unit + 1 < sizeof units / sizeof *units) {
        value /= 1000;
        unit++;
    }
    snprintf(buffer, WORDS_BYTES, "%.3g%s", value, units[unit]);
    return buffer;
}

char *words_price(char buffer[WORDS_BYTES], double value)
{
    words_number(buffer, value, 4);
    size_t length = strlen(buffer);
    if (strchr(buffer, '.') == NULL || strchr(buffer, 'e') != NULL) return buffer;
    while (buffer[length - 1] == '0') length--;
    if (buffer[length - 1] == '.') length--;
    buffer[length] = 0;
    return buffer;
}

char *words_usd(char buffer[WORDS_BYTES], double value) { return with_unit(buffer, value, 4, "USD"); }

char *words_seconds(char buffer[WORDS_BYTES], double seconds)
{
    static const struct {
        double below, unit;
        const char *name;
    } units[] = {{0.9995e-6, 1e-9, "ns"}, {0.9995e-3, 1e-6, "µs"}, {0.9995, 1e-3, "ms"},
                 {119.5, 1, "s"},         {119.5 * 60, 60, "min"}, {99.5 * 3600, 3600, "h"}};
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (seconds < units[i].below) return with_unit(buffer, seconds / units[i].unit, 3, units[i].name);
    return with_unit(buffer, seconds / 86400, 3, "days");
}

char *words_bytes(char buffer[WORDS_BYTES], double bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    size_t unit = 0;
    while (fabs(bytes) >= 1023.5 && unit + 1 < sizeof units / sizeof *units) {
        bytes /= 1024;
        unit++;
    }
    return unit == 0 ? with_unit(buffer, round(bytes), 1, "B") : with_unit(buffer, bytes, 3, units[unit]);
}

char *words_size(char buffer[WORDS_SIZE_BYTES], uint64_t bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    size_t unit = 0;
    uint64_t tenths = bytes < UINT64_MAX / 10 ? bytes * 10 : UINT64_MAX;
    /* Rounding to a tenth may reach the next unit: 1048575 bytes are 1 MiB, not 1024 KiB. */
    while (tenths >= 10240 && unit + 1 < sizeof units / sizeof *units) {
        unit++;
        uint64_t one = UINT64_C(1) << (10 * unit);
        tenths = (uint64_t)(((unsigned __int128)bytes * 10 + one / 2) / one);
    }
    const uint16_t whole = (uint16_t)(tenths / 10), tenth = tenths % 10; /* whole is below 1024 */
    if (tenth == 0)
        snprintf(buffer, WORDS_SIZE_BYTES, "%u %s", whole, units[unit]);
    else
        snprintf(buffer, WORDS_SIZE_BYTES, "%u.%u %s", whole, tenth, units[unit]);
    return buffer;
}

char *words_volume(char buffer[WORDS_BYTES], uint64_t bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes;
    uint32_t unit = 0;
    for (; value >= 1024 && unit < 4; unit++) value /= 1024;
    snprintf(buffer, WORDS_BYTES, "%.*f %s", value < 10 && unit > 0 ? 1 : 0, value, units[unit]);
    return buffer;
}

char *words_share(char buffer[WORDS_BYTES], double share)
{
    double percent = 100 * share, off = fabs(percent - 100);
    /* A share just below or above 100 % must not look like 100 %. */
    bool is_near = off < 1 && off > 1e-7;
    if (is_near && off < 0.05) {
        snprintf(buffer, WORDS_BYTES, percent < 100 ? "99.9 %%" : "100.1 %%");
        return buffer;
    }
    return with_unit(buffer, percent >= 9.95 && !is_near ? round(percent) : percent,
                     is_near           ? (percent < 99.95 ? 3 : 4)
                     : percent >= 9.95 ? 1
                                       : 2,
                     "%");
}

char *words_change(char buffer[WORDS_BYTES], double ratio)
{
    double percent = 100 * (ratio - 1), size = fabs(percent);
    if (isinf(ratio)) return infinite(buffer, ratio);
    if (isnan(ratio)) size = percent = 0;
    if (size >= 999.5) return with_unit(buffer, ratio, 3, "times");
    snprintf(buffer, WORDS_BYTES, size < 0.005 ? "0 %%" : "%+.*f %%", size < 0.995 ? 2 : size < 9.95 ? 1 : 0, percent);
    return buffer;
}

char *words_plural(char buffer[WORDS_BYTES], uint64_t count, const char *noun)
{
    words_count(buffer, (double)count);
    size_t used = strlen(buffer);
    snprintf(buffer + used, WORDS_BYTES - used, " %s%s", noun, words_s(count));
    return buffer;
}

/* Bytes of the UTF-8 sequence at `s`, its character in *character; 0 if it is none. */
static size_t sequence(const unsigned char *s, uint32_t *character)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t length = s[0] < 0x80 ? 1 : s[0] >> 5 == 6 ? 2 : s[0] >> 4 == 14 ? 3 : s[0] >> 3 == 30 ? 4 : 0;
    if (length == 0) return 0;
    uint32_t c = length == 1 ? s[0] : s[0] & (0x7Fu >> length);
    for (size_t i = 1; i < length; i++) {
        if (s[i] >> 6 != 2) return 0;
        c = c << 6 | (s[i] & 0x3Fu);
    }
    if (c < least[length] || c > 0x10FFFF || (c >= 0xD800 && c < 0xE000)) return 0;
    *character = c;
    return length;
}

/* Whether a character can be printed: it moves no cursor, does not turn the direction of writing, and is a
 * character. */
static bool is_printable(uint32_t c)
{
    if (c < 0x20 || (c >= 0x7F && c < 0xA0)) return false;
    if ((c >= 0x200B && c <= 0x200F) || (c >= 0x2028 && c <= 0x202E) || (c >= 0x2060 && c <= 0x206F)) return false;
    return c != 0xFEFF && (c & 0xFFFE) != 0xFFFE && !(c >= 0xFDD0 && c <= 0xFDEF);
}

/* The next character of a text; moves *text behind it. 0: the end. Control characters and bytes
 * that are not UTF-8 give U+FFFD. */
static uint32_t words_next(const char **text)
{
    uint32_t character = 0;
    if (**text == 0) return 0;
    size_t length = sequence((const unsigned char *)*text, &character);
    *text += length > 0 ? length : 1;
    return length > 0 && is_printable(character) ? character : REPLACEMENT;
}

size_t words_put(char *at, uint32_t c)
{
    if (c < 0x80) {
        at[0] = (char)c;
        return 1;
    }
    size_t length = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = length - 1; i > 0; i--, c >>= 6) at[i] = (char)(0x80 | (c & 0x3F));
    at[0] = (char)((0xF00 >> length & 0xFF) | c);
    return length;
}

char *words_name(char *buffer, size_t bytes, const char *name, uint32_t width)
{
    size_t used = 0, before_last = 0;
    uint32_t count = 0, character;
    while ((character = words_next(&name)) != 0 && used + 8 < bytes) {
        if (count++ == width) {
            used = before_last;
            used += words_put(buffer + used, 0x2026);
            break;
        }
        before_last = used;
        used += words_put(buffer + used, character);
    }
    buffer[used] = 0;
    return buffer;
}

uint32_t words_width(const char *text)
{
    uint32_t width = 0;
    while (words_next(&text) != 0) width++;
    return width;
}
