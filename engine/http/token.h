/* Who may ask: whoever sends one of the tokens of a file, a line each. As `Authorization: Bearer TOKEN`, or, as
 * browsers can, as the password of `Authorization: Basic`. A comparison takes the same time whatever is sent. */
#ifndef HETERPS_ENGINE_HTTP_TOKEN_H
#define HETERPS_ENGINE_HTTP_TOKEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/status.h"

#define TOKEN_BYTES_MAX 256u
#define TOKENS_MAX      64u

struct tokens {
    uint32_t count;
    uint8_t text[TOKENS_MAX][TOKEN_BYTES_MAX]; /* zeros behind each */
    size_t bytes[TOKENS_MAX];
};

/* Reads them; empty lines, and those that begin with #, are none. INVALID: there is none, one is shorter than 16
 * bytes or too long, or there are too many; IO. */
MUST_USE status tokens_read(struct tokens *tokens, const char *path);
/* Whether the value of a header Authorization, or NULL, has one. */
bool tokens_match(const struct tokens *tokens, const char *authorization);

#endif
