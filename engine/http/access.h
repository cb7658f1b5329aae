/* Who may ask a server of this program. With a file of tokens: a client that sends one of them. Without a
 * file: everybody, and the user has to say so (--insecure) where the address can be reached from other
 * machines. Never a foreign page in a browser. */
#ifndef HETERPS_ENGINE_HTTP_ACCESS_H
#define HETERPS_ENGINE_HTTP_ACCESS_H

#include "engine/http/http.h"
#include "engine/http/token.h"

struct access_options {
    const char *flag, *listen; /* as struct http_options has them */
    const char *token_file;    /* NULL: everybody who reaches the address may ask */
    bool insecure;             /* the user allows everybody beyond this machine   */
};
/* *tokens is malloc'd and the caller's; NULL: everybody may ask. USAGE: listen is no address, or other
 * machines reach it and there is neither a file nor `insecure`. Also fails as tokens_read does; MEMORY. */
MUST_USE status access_open(struct tokens **tokens, const struct access_options *options);
/* Whether the request may be answered. A request without a right token has been answered, by 401. */
bool access_allows(struct http *http, const struct tokens *tokens, struct evhttp_request *request);
/* Whether a foreign page makes a browser send this POST: the request's Origin is not its Host. Such a
 * request has been answered, by 403. */
bool access_is_foreign(struct http *http, struct evhttp_request *request);

#endif
