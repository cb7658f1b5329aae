/* Judges the head of an answer, before its body comes. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <event2/keyvalq_struct.h>
#include <xxhash.h>

#include "io/net/web_internal.h"

/* The least age of a Last-Modified by which a later change is known: RFC 9110,
 * section 8.8.2.2, asks for one second. */
#define STRONG_SECONDS 2

/* An answer, and the facts in its head. */
struct answer {
    struct lane *lane;
    struct web *web;
    struct evhttp_request *request;
    struct evkeyvalq *head;
    int code;
    char shown[WEB_SHOWN_BYTES]; /* the address that the user gave */
    struct web_facts facts;
};

static enum web_verdict fail(struct answer *a, status st)
{
    web_fail(a->web, st);
    return WEB_FAIL;
}
#define ANSWER_FAIL(a, code, ...) return fail((a), status_fail(ST_##code, __FILE__, __LINE__, __VA_ARGS__))

static void version_take(struct answer *a)
{
    const char *etag = evhttp_find_header(a->head, "ETag"), *modified = evhttp_find_header(a->head, "Last-Modified"),
               *version = etag ? etag : modified;
    int64_t then, now;
    if (version == NULL) return;
    a->facts.version = XXH3_64bits(version, strlen(version)) | 1;
    snprintf(a->facts.version_text, sizeof a->facts.version_text, "%s", version);
    const bool is_before = web_date_parse(&then, modified) &&
                           web_date_parse(&now, evhttp_find_header(a->head, "Date")) && now - then >= STRONG_SECONDS;
    a->facts.version_is_strong = (modified == NULL || is_before) && strncmp(version, "W/", 2) != 0;
}

static enum web_verdict facts_hold(struct answer *a)
{
    const struct web_facts *is = &a->facts, *was = &a->web->facts;
    if (!a->web->is_known) {
        web_facts_take(a->web, is);
        return WEB_TAKE;
    }
    if (was->has_size && !is->has_size && (is->version == 0 || is->version != was->version))
        ANSWER_FAIL(a, MISMATCH, "%s: %s does not tell its size any more, and did before; start anew", a->shown,
                    a->lane->to.host);
    if (is->has_size && was->has_size && is->size_bytes != was->size_bytes)
        ANSWER_FAIL(a, MISMATCH,
                    "%s has changed while it was read: it had %" PRIu64 " bytes, and has %" PRIu64 "; start anew",
                    a->shown, was->size_bytes, is->size_bytes);
    if (is->version && was->version && is->version != was->version)
        ANSWER_FAIL(a, MISMATCH,
                    "%s has changed while it was read: %s tells the version %s, and told %s before; start anew",
                    a->shown, a->lane->to.host, is->version_text, was->version_text);
    return WEB_TAKE;
}

bool web_facts_hold(struct lane *lane, const struct web_facts *facts)
{
    struct answer a = {.lane = lane, .web = lane->web, .facts = *facts};
    web_address_shown(a.shown, &lane->web->ask.address);
    return facts_hold(&a) == WEB_TAKE;
}

/* 206: a range. */
static enum web_verdict part_judge(struct answer *a)
{
    const char *text = evhttp_find_header(a->head, "Content-Range");
    struct web_range range;
    if (!web_range_parse(&range, text) || range.is_none)
        ANSWER_FAIL(a, INVALID, "%s: %s answers 206 with the Content-Range \"%.60s\"; expected \"bytes A-B/SIZE\"",
                    a->shown, a->lane->to.host, text ? text : "");
    if (range.first != a->lane->asked)
        ANSWER_FAIL(a, INVALID, "%s: %s was asked for byte %" PRIu64 " on, and answers \"%.60s\"", a->shown,
                    a->lane->to.host, a->lane->asked, text);
    a->facts.has_size = a->facts.has_ranges = true;
    a->facts.size_bytes = range.total;
    return facts_hold(a);
}

/* 200: the whole data. */
static enum web_verdict whole_judge(struct answer *a)
{
    const char *coding = evhttp_find_header(a->head, "Transfer-Encoding"),
               *length = evhttp_find_header(a->head, "Content-Length");
    const bool is_chunked = coding && strcasecmp(coding, "chunked") == 0;
    a->facts.has_size = !is_chunked && web_length_parse(&a->facts.size_bytes, length);
    if (!a->facts.has_size && !is_chunked)
        ANSWER_FAIL(a, INVALID,
                    "%s: %s answers with neither a Content-Length nor chunks, "
                    "so that nobody can tell the end of the data from a cut",
                    a->shown, a->lane->to.host);
    if (a->web->is_hdfs) { /* the body is the part that was asked for */
        const struct lane *lane = a->lane;
        const uint64_t wanted = web_piece_bytes(a->web, lane->piece) - lane->got;
        if (a->facts.has_size && a->facts.size_bytes > wanted)
            ANSWER_FAIL(a, INVALID, "%s: %s was asked for %" PRIu64 " bytes, and answers with %" PRIu64, a->shown,
                        lane->to.host, wanted, a->facts.size_bytes);
        return WEB_TAKE;
    }
    a->lane->skip = a->lane->asked;
    return facts_hold(a);
}

/* 416: there is no such byte. Once the data is known, nobody asks for bytes that it does not have. */
static enum web_verdict none_judge(struct answer *a)
{
    struct web_range range;
    const bool is_first = !a->web->is_known;
    const char *text = evhttp_find_header(a->head, "Content-Range");
    if (!web_range_parse(&range, text) || !range.is_none) {
        if (!a->lane->asks_whole) return WEB_WHOLE;
    } else if (!is_first || a->lane->asked >= range.total) {
        a->facts.has_size = a->facts.has_ranges = true;
        a->facts.size_bytes = range.total;
        const enum web_verdict verdict = facts_hold(a);
        if (verdict != WEB_TAKE) return verdict;
        if (is_first) return WEB_EMPTY;
    }
    ANSWER_FAIL(a, INVALID, "%s: %s answers 416 to byte %" PRIu64 " (Content-Range \"%.60s\")", a->shown,
                a->lane->to.host, a->lane->asked, text ? text : "");
}

static enum web_verdict moved_judge(struct answer *a)
{
    const char *location = evhttp_find_header(a->head, "Location");
    if (location == NULL)
        ANSWER_FAIL(a, INVALID, "%s: %s answers %d, that it is elsewhere, and not where", a->shown, a->lane->to.host,
                    a->code);
    const status st = web_address_follow(&a->lane->to, &a->lane->to, location);
    if (st != ST_OK)
        ANSWER_FAIL(a, INVALID, "%s: %s answers %d, that it is elsewhere: %s", a->shown, a->lane->to.host, a->code,
                    status_message());
    return WEB_MOVED;
}

/* How to get past a refusal. */
static const char *advice(int code)
{
    switch (code) {
    case 400: return "the address may be garbled: a comma in it is written as %2C";
    case 401: return "it asks for a name and a password, which are not sent; give an address that needs none";
    case 403: return "nobody may read it by this address; one that was signed for a time may be over: make a new one";
    case 404:
    case 410: return "look whether the address is right, and the data there";
    default: return "expected 200 or 206";
    }
}

static enum web_verdict refused_judge(struct answer *a)
{
    const char *line = evhttp_request_get_response_code_line(a->request);
    const bool is_never = a->code == 501 || a->code == 505; /* the server cannot, and will not be able to */
    const bool is_busy = a->code == 408 || a->code == 425 || a->code == 429 || (a->code >= 500 && !is_never);
    if (!is_busy)
        ANSWER_FAIL(a, IO, "%s: %s answers %d %.100s; %s", a->shown, a->lane->to.host, a->code, line ? line : "",
                    advice(a->code));
    snprintf(a->lane->why, sizeof a->lane->why, "it answers %d %.100s", a->code, line ? line : "");
    return WEB_LATER;
}

enum web_verdict web_answer_judge(struct lane *lane, struct evhttp_request *request)
{
    struct answer a = {.lane = lane,
                       .web = lane->web,
                       .request = request,
                       .head = evhttp_request_get_input_headers(request),
                       .code = evhttp_request_get_response_code(request)};
    web_address_shown(a.shown, &lane->web->ask.address);
    version_take(&a);
    switch (a.code) {
    case 200: return lane->is_status ? WEB_STATUS : whole_judge(&a);
    case 206: return part_judge(&a);
    case 301:
    case 302:
    case 303:
    case 307:
    case 308: return moved_judge(&a);
    case 416: return none_judge(&a);
    default: return refused_judge(&a);
    }
}
