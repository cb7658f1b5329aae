/* Addresses, tokens and origins. */
#include "engine/http/access.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "engine/base/log.h"

status access_open(struct tokens **tokens, const struct access_options *o)
{
    bool is_loopback;
    *tokens = NULL;
    TRY(http_is_loopback(o->flag, o->listen, &is_loopback));
    if (o->token_file) {
        *tokens = malloc(sizeof **tokens);
        if (*tokens == NULL) FAIL(MEMORY, "no memory for tokens");
        return tokens_read(*tokens, o->token_file);
    }
    if (is_loopback) return ST_OK;
    if (!o->insecure)
        FAIL(USAGE,
             "%s %s can be reached from other machines: give --token-file FILE, or --insecure to let everybody ask",
             o->flag, o->listen);
    log_warning("--insecure: whoever reaches %s may ask", o->listen);
    return ST_OK;
}

bool access_allows(struct http *http, const struct tokens *tokens, struct evhttp_request *request)
{
    const char *authorization = evhttp_find_header(evhttp_request_get_input_headers(request), "Authorization");
    if (tokens == NULL || tokens_match(tokens, authorization)) return true;
    evhttp_add_header(evhttp_request_get_output_headers(request), "WWW-Authenticate", "Basic realm=\"heterps\"");
    http_reply_text(http, request, 401, "a token is needed: Authorization: Bearer TOKEN");
    return false;
}

bool access_is_foreign(struct http *http, struct evhttp_request *request)
{
    const struct evkeyvalq *headers = evhttp_request_get_input_headers(request);
    const char *origin = evhttp_find_header(headers, "Origin"), *host = evhttp_find_header(headers, "Host");
    if (origin == NULL || evhttp_request_get_command(request) != EVHTTP_REQ_POST) return false;
    const char *of = strstr(origin, "://");
    if (of != NULL && host != NULL && strcasecmp(of + 3, host) == 0) return false;
    http_reply_text(http, request, 403, "refused: a page of another origin asks, for Origin is not the Host");
    return true;
}
