/* Tokens: reading a file of them, comparing what a client sends. */
#include "engine/http/token.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "engine/base/file.h"

#define TOKEN_BYTES_MIN 16u

static status line_take(struct tokens *t, const char *path, uint32_t number, const char *line, size_t bytes)
{
    while (bytes && (line[bytes - 1] == '\r' || line[bytes - 1] == ' ' || line[bytes - 1] == '\t')) bytes--;
    if (bytes == 0 || *line == '#') return ST_OK;
    if (bytes < TOKEN_BYTES_MIN || bytes > TOKEN_BYTES_MAX)
        FAIL(INVALID, "%s:%u: expected a token of %u to %u bytes, found %zu", path, number, TOKEN_BYTES_MIN,
             TOKEN_BYTES_MAX, bytes);
    if (t->count == TOKENS_MAX) FAIL(INVALID, "%s:%u: more than %u tokens", path, number, TOKENS_MAX);
    memcpy(t->text[t->count], line, bytes);
    t->bytes[t->count++] = bytes;
    return ST_OK;
}

status tokens_read(struct tokens *t, const char *path)
{
    struct file_map map;
    memset(t, 0, sizeof *t);
    TRY(file_map_read(&map, path));
    const char *at = (const char *)map.data, *end = at + map.bytes;
    size_t left = map.bytes;
    file_mark_skip(&at, &left);
    status st = ST_OK;
    for (uint32_t number = 1; at < end && st == ST_OK; number++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        if (stop == NULL) stop = end;
        st = line_take(t, path, number, at, (size_t)(stop - at));
        at = stop + (stop < end);
    }
    file_map_close(&map);
    if (st == ST_OK && t->count == 0)
        FAIL(INVALID, "%s: expected a token of 16 bytes or more on each line, found none", path);
    return st;
}

/* Whether the text is one of the tokens; looks at every byte of each. */
static bool token_is(const struct tokens *t, const char *text, size_t bytes)
{
    uint8_t given[TOKEN_BYTES_MAX] = {0};
    uint32_t found = 0;
    memcpy(given, text, bytes < sizeof given ? bytes : sizeof given);
    for (uint32_t i = 0; i < t->count; i++) {
        uint32_t differs = t->bytes[i] != bytes;
        for (uint32_t k = 0; k < TOKEN_BYTES_MAX; k++) differs |= (uint32_t)(given[k] ^ t->text[i][k]);
        /* No branch by which a right token could end sooner. */
        found |= ((differs - 1) >> 31) & 1;
    }
    return found != 0;
}

/* The value of a base64 digit; -1: it is none. */
static int digit(char c)
{
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* Decodes base64 into at most as many bytes as there is room for; returns how many. */
static size_t base64_read(const char *text, uint8_t *to, size_t room)
{
    size_t count = 0;
    uint32_t bits = 0, held = 0;
    for (; digit(*text) >= 0; text++) {
        held = held << 6 | (uint32_t)digit(*text);
        bits += 6;
        if (bits < 8) continue;
        bits -= 8;
        if (count < room) to[count] = (uint8_t)(held >> bits);
        count++;
    }
    return count;
}

bool tokens_match(const struct tokens *t, const char *authorization)
{
    if (authorization == NULL) return false;
    if (strncasecmp(authorization, "bearer ", 7) == 0) {
        const char *token = authorization + 7 + strspn(authorization + 7, " ");
        return token_is(t, token, strlen(token));
    }
    if (strncasecmp(authorization, "basic ", 6) != 0) return false;
    uint8_t pair[2 * TOKEN_BYTES_MAX];
    const size_t bytes = base64_read(authorization + 6 + strspn(authorization + 6, " "), pair, sizeof pair);
    const uint8_t *colon = bytes <= sizeof pair ? memchr(pair, ':', bytes) : NULL;
    return colon && token_is(t, (const char *)colon + 1, (size_t)(pair + bytes - colon - 1));
}
