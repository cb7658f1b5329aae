/* Who may ask a server of this program: whoever sends a token of the file that is given; without a file everybody,
 * which of an address that other machines reach has to be said. And no page of somebody else's in a browser. */
#ifndef HETERPS_ENGINE_HTTP_ACCESS_H
#define HETERPS_ENGINE_HTTP_ACCESS_H

#include "engine/http/http.h"
#include "engine/http/token.h"

struct access_options {
    const char *flag, *listen; /* as struct http_options has them */
    const char *token_file;    /* NULL: everybody who reaches it may ask …              */
    bool insecure;             /* … which where other machines do so has to be said     */
};
/* tokens is malloc'd, the caller's, or NULL: everybody may ask. USAGE: the address is none, or it is reached from
 * other machines, and there is neither a file nor `insecure`; what tokens_read fails with; MEMORY. */
MUST_USE status access_open(struct tokens **tokens, const struct access_options *options);
/* Whether the request may be answered; one that has no token is, by 401. */
bool access_allows(struct http *http, const struct tokens *tokens, struct evhttp_request *request);
/* Whether a page of somebody else's that a browser shows makes it ask, by POST: its Origin is not the Host that it
 * asks. Then it is answered, by 403. */
bool access_is_foreign(struct http *http, struct evhttp_request *request);

#endif
