/* Reads KEY=VALUE words; once an optimizer or schedule of a model text. */
#include "graph/keyed.h"

#include <math.h>
#include <stdio.h>

#include "cfg/key.h"
#include "graph/word_next.h"

#define LIST_BYTES 512

static void list_text(char list[LIST_BYTES], const char *const *names, const char *between)
{
    size_t used = 0;
    list[0] = 0;
    for (uint32_t i = 0; names[i] && used < LIST_BYTES; i++)
        used += (size_t)snprintf(list + used, LIST_BYTES - used, "%s%s", i ? between : "", names[i]);
}

status keyed_unknown(const char *what, const char *word, const char *const *names)
{
    char list[LIST_BYTES];
    const char *near = ini_nearest(word, names);
    list_text(list, names, " ");
    if (near) FAIL(INVALID, "expected %s, found \"%s\"; did you mean %s?", what, word, near);
    FAIL(INVALID, "expected one of %s, found \"%s\"", list, word);
}

static status key_unknown(const char *of, const char *after, const struct keyed_param *params, const char *key)
{
    const char *names[KEYED_PARAM_MAX + 1];
    uint32_t count = 0;
    for (const struct keyed_param *p = params; p->name; p++) names[count++] = p->name;
    names[count] = NULL;
    if (count == 0) FAIL(INVALID, "expected nothing after %s, found \"%s\"", after, key);
    const char *near = ini_nearest(key, names);
    if (near) FAIL(INVALID, "expected a key of %s, found \"%s\"; did you mean %s?", of, key, near);
    char list[LIST_BYTES];
    list_text(list, names, ", ");
    FAIL(INVALID, "expected a key of %s (%s), found \"%s\"", of, list, key);
}

static bool fits(const struct keyed_param *p, double value)
{
    return value >= p->min && value <= p->max && (!p->is_whole || value == floor(value));
}

status keyed_validate(const struct keyed_param *p, double value)
{
    if (fits(p, value)) return ST_OK;
    FAIL(INVALID, "expected %s%s of %.15g to %.15g, found %.15g", p->name, p->is_whole ? ", a whole number" : "",
         p->min, p->max, value);
}

status keyed_read(const char *text, const char *of, const char *after, const struct keyed_param *params, uint32_t rules,
                  double value[KEYED_PARAM_MAX])
{
    char word[WORD_BYTES_MAX];
    uint32_t seen = 0;
    for (uint32_t i = 0; params[i].name; i++)
        value[i] = rules <= params[i].until ? params[i].before : params[i].fallback;
    while (word_next(&text, word)) {
        char *value_text = strchr(word, '=');
        if (value_text == NULL) FAIL(INVALID, "expected KEY=VALUE after %s, found \"%s\"", after, word);
        *value_text++ = 0;
        uint32_t i = 0;
        while (params[i].name && strcmp(params[i].name, word) != 0) i++;
        const struct keyed_param *p = &params[i];
        if (p->name == NULL) return key_unknown(of, after, params, word);
        if (seen & 1u << i) FAIL(INVALID, "expected %s once, found it twice", word);
        seen |= 1u << i;
        if (!cfg_parse_f64(value_text, &value[i]) || !fits(p, value[i]))
            FAIL(INVALID, "expected %s%s of %.15g to %.15g, found \"%s\"", word, p->is_whole ? ", a whole number" : "",
                 p->min, p->max, value_text);
    }
    return ST_OK;
}
