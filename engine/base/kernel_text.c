/* Finds numbers and words in the kernel's texts. */
#include "engine/base/kernel_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE_BYTES 4096u /* a path's greatest length; a longer line of mountinfo is not a mount of ours */

static const char *line_next(const char *line)
{
    const char *end = strchr(line, '\n');
    return end ? end + 1 : line + strlen(line);
}

/* The text after `name` at the start of a line; NULL: no line begins so. */
static const char *name_find(const char *text, const char *name)
{
    const size_t name_bytes = strlen(name);
    for (const char *line = text; *line; line = line_next(line))
        if (strncmp(line, name, name_bytes) == 0) return line + name_bytes;
    return NULL;
}

bool kernel_number_find(const char *text, const char *name, uint64_t *value)
{
    const char *at = name_find(text, name);
    char *end;
    if (at == NULL) return false;
    *value = strtoull(at, &end, 10);
    return end != at;
}

static void copy_cut(char *value, size_t bytes, const char *from, size_t from_bytes)
{
    const size_t count = from_bytes < bytes - 1 ? from_bytes : bytes - 1;
    memcpy(value, from, count);
    value[count] = 0;
}

bool kernel_text_find(const char *text, const char *name, char *value, size_t bytes)
{
    const char *at = name_find(text, name);
    *value = 0;
    if (at == NULL) return false;
    at += strspn(at, " \t");
    if (*at != ':') return false;
    at += 1 + strspn(at + 1, " \t");
    copy_cut(value, bytes, at, strcspn(at, "\n"));
    return *value != 0;
}

bool kernel_choice_find(const char *text, char *value, size_t bytes)
{
    const char *begin = strchr(text, '['), *end = begin ? strchr(begin, ']') : NULL;
    *value = 0;
    if (end == NULL) return false;
    copy_cut(value, bytes, begin + 1, (size_t)(end - begin - 1));
    return *value != 0;
}

/* Reads a number of digits alone; false: there is none. */
static bool digits_read(const char **text, uint32_t *number)
{
    const size_t digit_count = strspn(*text, "0123456789");
    if (digit_count == 0 || digit_count > 9) return false;
    *number = (uint32_t)strtoul(*text, NULL, 10);
    *text += digit_count;
    return true;
}

uint32_t kernel_list_read(const char *text, uint32_t *numbers, uint32_t max)
{
    uint32_t count = 0, first, last;
    while (count < max && digits_read(&text, &first)) {
        last = first;
        if (*text == '-' && (text++, !digits_read(&text, &last))) return count;
        if (last < first || (count && first <= numbers[count - 1])) return count;
        for (uint32_t n = first; n <= last && count < max; n++) numbers[count++] = n;
        if (*text++ != ',') return count;
    }
    return count;
}

static bool mount_read(char *line, struct kernel_mount *m)
{
    *m = (struct kernel_mount){0};
    const char *kind = strstr(line, " - ");
    return kind && sscanf(line, "%" SCNu64 " %*s %*s %255s %255s", &m->id, m->top, m->mount) == 3 &&
           sscanf(kind, " - %31s %255s %511s", m->file_system, m->source, m->options) == 3;
}

bool kernel_mount_next(const char **text, struct kernel_mount *mount)
{
    char line[LINE_BYTES];
    while (**text) {
        const char *begin = *text;
        *text = line_next(begin);
        copy_cut(line, sizeof line, begin, strcspn(begin, "\n"));
        if (mount_read(line, mount)) return true;
    }
    return false;
}
