/* Tokens of a file, one a line. A client sends one as `Authorization: Bearer TOKEN`, or, as a browser can, as
 * the password of `Authorization: Basic`. A comparison takes the same time whatever the client sends. */
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
    uint8_t text[TOKENS_MAX][TOKEN_BYTES_MAX]; /* zeros behind a token */
    size_t bytes[TOKENS_MAX];
};

/* Reads the tokens; a line that is empty or begins with # is none. INVALID: the file has none or more than
 * TOKENS_MAX, or a token has fewer than 16 or more than TOKEN_BYTES_MAX bytes; IO. */
MUST_USE status tokens_read(struct tokens *tokens, const char *path);
/* Whether `authorization`, a header's value or NULL, has one of the tokens. */
bool tokens_match(const struct tokens *tokens, const char *authorization);

#endif
