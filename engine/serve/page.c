/* Pages for people, without scripts: the model, a form of its columns, lines to try, and figures
 * in a frame that reloads itself. */
#include <event2/keyvalq_struct.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/memory.h"
#include "engine/base/words.h"
#include "engine/serve/server.h"
#include "io/store/store_rows.h"
#include "sched/page_parts.h"

/* The most inputs of a form; a model may have thousands of columns. */
#define INPUTS_MAX    400u
#define FORM_BYTES    ((size_t)256 << 10)
#define FIGURES_EVERY 2

static const char form_style[] =
    "form{margin:0}\n"
    ".inputs{display:grid;grid-template-columns:repeat(auto-fill,minmax(130px,1fr));gap:10px 16px;margin:0 0 16px}\n"
    ".inputs label,.lines label{display:block;color:var(--soft);font-size:13px}\n"
    "input[type=text],textarea{display:block;width:100%;margin-top:2px;padding:6px 8px;border:1px solid var(--fill);"
    "border-radius:3px;background:transparent;color:var(--ink);font:inherit}\n"
    "textarea{font-family:ui-monospace,monospace;font-size:13px;white-space:pre;overflow:auto}\n"
    "input[type=text]:focus,textarea:focus,button:focus-visible{outline:2px solid var(--accent);outline-offset:1px}\n"
    "button{margin-top:12px;padding:7px 16px;border:0;border-radius:3px;background:var(--accent);color:var(--on);"
    "font:inherit;cursor:pointer}\n"
    "iframe{width:100%;height:280px;border:0}\n"
    ".frame{max-width:none;padding:0}\n"
    ".frame .facts{margin:0;border:0;padding:8px 0}\n"
    "nav a{margin-right:14px}\n"
    "a{color:var(--accent)}\n"
    ".answer{font-family:ui-monospace,monospace;white-space:pre;overflow-x:auto;margin:0}\n";

/* What a client has sent with a form; all NULL: nothing. */
struct form {
    struct evkeyvalq fields;
};

static void form_free(void *detail)
{
    struct form *form = detail;
    evhttp_clear_headers(&form->fields);
    free(form);
}

/* --- pieces ----------------------------------------------------------------------------------- */

static void put(struct evbuffer *to, const char *text) { evbuffer_add(to, text, strlen(text)); }

/* Writes a text so that it can stand in a page or an attribute. */
static void put_escaped(struct evbuffer *to, const char *text)
{
    static const char special[] = "<>&\"'", *const written[] = {"&lt;", "&gt;", "&amp;", "&quot;", "&#039;"};
    for (;; text++) {
        const size_t plain = strcspn(text, special);
        evbuffer_add(to, text, plain);
        text += plain;
        if (*text == 0) return;
        put(to, written[strchr(special, *text) - special]);
    }
}

/* Begins a page. `kind`: the class of its body, or "". */
static void page_begin(struct evbuffer *to, const char *title, const char *kind, const char *more)
{
    put(to, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
            "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
            "<meta name=\"color-scheme\" content=\"light dark\">\n");
    put(to, more);
    put(to, "<title>");
    put_escaped(to, title);
    put(to, "</title>\n<style>\n");
    put(to, page_style);
    put(to, form_style);
    evbuffer_add_printf(to, "</style>\n</head>\n<body class=\"%s\">\n", kind);
}

static void page_send(struct server *s, struct evhttp_request *request, struct evbuffer *page)
{
    struct evkeyvalq *headers = evhttp_request_get_output_headers(request);
    evhttp_add_header(headers, "Content-Security-Policy",
                      "default-src 'none'; style-src 'unsafe-inline'; frame-src 'self'; form-action 'self'; "
                      "frame-ancestors 'self'; base-uri 'none'");
    evhttp_add_header(headers, "Cache-Control", "no-store");
    http_reply(s->http, request, 200, "text/html; charset=utf-8", page);
}

static void fact(struct evbuffer *to, const char *name, const char *value, const char *note)
{
    evbuffer_add_printf(to, "<div><dt>%s</dt><dd><strong>%s</strong>", name, value);
    put_escaped(to, note);
    put(to, "</dd></div>\n");
}

/* --- the model -------------------------------------------------------------------------------- */

static void header_put(const struct server *s, const struct served *m, struct evbuffer *to)
{
    const struct setup *setup = servant_setup(m->version->servant);
    const struct graph *g = &setup->graph;
    char text[64], count[WORDS_WHOLE_BYTES];
    uint64_t rows = 0, params = 0;
    put(to, "<header>\n<h1>");
    put_escaped(to, graph_string(g, g->header->name));
    put(to, "</h1>\n<p class=\"note\">");
    put_escaped(to, m->graph);
    put(to, ", model in ");
    put_escaped(to, m->model);
    put(to, "</p>\n");
    if (s->model_count > 1) {
        put(to, "<nav aria-label=\"Models\">");
        for (uint32_t i = 0; i < s->model_count; i++)
            evbuffer_add_printf(to, "<a href=\"/page/%s\"%s>%s</a>", s->models[i].name,
                                &s->models[i] == m ? " aria-current=\"page\"" : "", s->models[i].name);
        put(to, "</nav>\n");
    }
    put(to, "<dl class=\"facts\">\n");
    fact(to, "Version", m->version->name, "the step of training that it was saved at");
    snprintf(text, sizeof text, "%u", m->version->lines.count);
    fact(to, "Columns", text, cfg_data_formats[setup->settings.data_format]);
    for (uint32_t t = 0; t < g->table_count; t++) rows += store_row_count(setup->model.store, t);
    snprintf(text, sizeof text, "in %s", words_plural(WORDS, g->table_count, "table"));
    fact(to, "Rows", words_whole(count, rows), text);
    snprintf(text, sizeof text, "in %s", words_plural(WORDS, g->layer_count, "layer"));
    for (uint32_t i = 0; i < g->layer_count; i++) params += g->layers[i].param_count;
    fact(to, "Parameters", words_whole(count, params), text);
    put(to, "</dl>\n</header>\n");
}

/* --- the form --------------------------------------------------------------------------------- */

static const char *form_value(const struct form *form, const char *name)
{
    const char *value = form ? evhttp_find_header(&form->fields, name) : NULL;
    return value ? value : "";
}

static void inputs_put(const struct served *m, const struct form *form, struct evbuffer *to)
{
    evbuffer_add_printf(to,
                        "<section aria-labelledby=\"form\">\n"
                        "<h2 id=\"form\">Ask</h2>\n"
                        "<form method=\"post\" action=\"/page/%s\">\n"
                        "<div class=\"inputs\">\n",
                        m->name);
    for (uint32_t i = 0; i < m->version->lines.count && i < INPUTS_MAX; i++) {
        char name[16];
        snprintf(name, sizeof name, "c%u", i);
        put(to, "<label>");
        put_escaped(to, m->version->lines.column[i].name);
        evbuffer_add_printf(to, "<input type=\"text\" name=\"%s\"%s autocomplete=\"off\" value=\"", name,
                            m->version->lines.column[i].is_number ? " inputmode=\"decimal\"" : "");
        put_escaped(to, form_value(form, name));
        put(to, "\"></label>\n");
    }
    put(to, "</div>\n");
    if (m->version->lines.count > INPUTS_MAX)
        evbuffer_add_printf(to, "<p class=\"note\">%u further columns are absent here.</p>\n",
                            m->version->lines.count - INPUTS_MAX);
    put(to, "<button>Predict</button>\n</form>\n</section>\n");
    evbuffer_add_printf(to,
                        "<section class=\"lines\" aria-labelledby=\"lines\">\n<h2 id=\"lines\">Ask by lines</h2>\n"
                        "<p class=\"note\">As a file of the data has them; "
                        "<code>POST /predict/%s</code> takes the same.</p>\n"
                        "<form method=\"post\" action=\"/page/%s\">\n"
                        "<label>Lines<textarea name=\"lines\" rows=\"6\" spellcheck=\"false\">",
                        m->name, m->name);
    put_escaped(to, form_value(form, "lines"));
    put(to, "</textarea></label>\n<button>Predict</button>\n</form>\n</section>\n");
}

static void whole_put(struct server *s, const struct served *m, const struct form *form, struct evbuffer *answer,
                      struct evbuffer *to)
{
    page_begin(to, m->name, "", "");
    header_put(s, m, to);
    put(to, "<main>\n");
    if (answer) evbuffer_add_buffer(to, answer);
    inputs_put(m, form, to);
    evbuffer_add_printf(to,
                        "<section aria-labelledby=\"now\">\n<h2 id=\"now\">Now</h2>\n"
                        "<iframe src=\"/figures/%s\" title=\"Figures of the server\"></iframe>\n"
                        "<p class=\"note\"><a href=\"/metrics\">All figures</a>, as Prometheus reads them.</p>\n"
                        "</section>\n</main>\n<footer>heterps-run %s</footer>\n</body>\n</html>\n",
                        m->name, HETERPS_VERSION);
}

void page_get(struct server *s, struct served *m, struct evhttp_request *request)
{
    struct evbuffer *page = evbuffer_new();
    if (page) whole_put(s, m, NULL, NULL, page);
    if (page)
        page_send(s, request, page);
    else
        http_reply_text(s->http, request, 500, "no memory for a page");
    if (page) evbuffer_free(page);
}

/* --- answers ---------------------------------------------------------------------------------- */

/* Writes the names of the predictions, and the answer's lines. */
static void answer_put(const struct request *r, const struct ask *ask, struct evbuffer *to)
{
    const struct graph *g = &servant_setup(r->version->servant)->graph;
    const char *before = "";
    put(to, "<section aria-labelledby=\"answer\">\n<h2 id=\"answer\">Prediction</h2>\n<p class=\"note\">");
    for (uint32_t i = graph_loss_next(g, 0); i < g->forward_count; i = graph_loss_next(g, i + 1), before = ", ") {
        put(to, before);
        put_escaped(to, graph_string(g, g->nodes[i].name));
    }
    evbuffer_add_printf(to, "; version %s</p>\n", r->version->name);
    if (ask->bad_count) {
        evbuffer_add_printf(to, "<p class=\"alarm\">Line %" PRIu64 ": ", ask->bad_line);
        put_escaped(to, ask->why);
        put(to, "</p>\n");
    }
    put(to, "<p class=\"answer\">"); /* the text has numbers, tabs and line ends; words are escaped */
    const size_t bytes = evbuffer_get_length(r->lines);
    char *text = malloc(bytes + 1);
    if (text) {
        evbuffer_copyout(r->lines, text, bytes);
        text[bytes] = 0;
        put_escaped(to, text);
    }
    free(text);
    put(to, "</p>\n</section>\n");
}

static void page_finish(struct server *s, struct request *r, const struct ask *ask)
{
    struct evbuffer *page = evbuffer_new(), *answer = evbuffer_new();
    if (page && answer) {
        answer_put(r, ask, answer);
        whole_put(s, r->version->model, r->detail, answer, page);
        page_send(s, r->http, page);
    } else {
        http_reply_text(s->http, r->http, 500, "no memory for a page");
    }
    if (page) evbuffer_free(page);
    if (answer) evbuffer_free(answer);
}

/* Makes lines from the form's fields. */
static status form_lines(const struct served *m, const struct form *form, struct evbuffer *to)
{
    const char *lines = evhttp_find_header(&form->fields, "lines");
    if (lines) {
        if (evbuffer_add(to, lines, strlen(lines)) != 0) FAIL(MEMORY, "no memory for lines");
        return ST_OK;
    }
    struct line_value *values = calloc(m->version->lines.count + 1, sizeof *values);
    if (values == NULL) FAIL(MEMORY, "no memory for a line");
    for (uint32_t i = 0; i < m->version->lines.count && i < INPUTS_MAX; i++) {
        char name[16];
        snprintf(name, sizeof name, "c%u", i);
        const char *value = evhttp_find_header(&form->fields, name);
        if (value) values[i] = (struct line_value){value, strlen(value)};
    }
    status st = lines_names_put(&m->version->lines, to);
    if (st == ST_OK) st = lines_put(&m->version->lines, values, to);
    free(values);
    return st;
}

/* Reads a request's form; NULL: there is none. */
static struct form *form_read(struct evhttp_request *request)
{
    struct evbuffer *body = evhttp_request_get_input_buffer(request);
    struct form *form = evbuffer_get_length(body) <= FORM_BYTES ? calloc(1, sizeof *form) : NULL;
    if (form == NULL) return NULL;
    const char *text = evbuffer_add(body, "", 1) == 0 ? (const char *)evbuffer_pullup(body, -1) : NULL;
    if (text && evhttp_parse_query_str(text, &form->fields) == 0) return form;
    form_free(form);
    return NULL;
}

void page_post(struct server *s, struct served *m, struct evhttp_request *request)
{
    struct form *form = form_read(request);
    struct evbuffer *lines = evbuffer_new();
    status st = form && lines ? form_lines(m, form, lines) : ST_INVALID;
    if (st == ST_OK) {
        request_put(s, m, request, lines,
                    (struct request_end){.finish = page_finish, .detail = form, .detail_free = form_free});
    } else {
        http_reply_text(s->http, request, 400, "%s",
                        form ? status_message() : "expected the fields of this page's form");
        if (form) form_free(form);
    }
    if (lines) evbuffer_free(lines);
}

/* --- figures ---------------------------------------------------------------------------------- */

static const char *quantile_text(char text[WORDS_BYTES], const struct figures *f, double share)
{
    const double seconds = figures_quantile(f, share);
    if (isnan(seconds)) return "none yet";
    if (isinf(seconds)) return "more than 5 s";
    char value[WORDS_BYTES];
    snprintf(text, WORDS_BYTES, "≤ %s", words_seconds(value, seconds));
    return text;
}

void page_figures(struct server *s, struct served *m, struct evhttp_request *request)
{
    struct evbuffer *to = evbuffer_new();
    char text[64], note[96], refresh[64], count[WORDS_WHOLE_BYTES];
    const struct servant_counts counts = versions_counts(m);
    if (to == NULL) {
        http_reply_text(s->http, request, 500, "no memory for a page");
        return;
    }
    snprintf(refresh, sizeof refresh, "<meta http-equiv=\"refresh\" content=\"%d\">\n", FIGURES_EVERY);
    page_begin(to, "Figures", "frame", refresh);
    put(to, "<main>\n<dl class=\"facts\">\n");
    snprintf(note, sizeof note, "%u wait", versions_waiting(m));
    fact(to, "Requests answered", words_whole(count, m->figures.requests), note);
    snprintf(note, sizeof note, "in %s micro-batch%s; %s", words_whole(count, counts.batches),
             counts.batches == 1 ? "" : "es",
             words_plural((char[WORDS_BYTES]){0}, m->figures.bad_lines, "malformed line"));
    fact(to, "Examples computed", words_whole(count, counts.examples), note);
    fact(to, "Half are answered", quantile_text(text, &m->figures, 0.5), "after the last byte of the request");
    fact(to, "99 of 100", quantile_text(text, &m->figures, 0.99), "");
    snprintf(note, sizeof note, "of %u", http_connection_max(s->http));
    fact(to, "Connections", words_whole(count, http_connection_count(s->http)), note);
    snprintf(note, sizeof note, "%s of requests and answers",
             words_size((char[WORDS_SIZE_BYTES]){0}, http_held_bytes(s->http)));
    fact(to, "Memory", words_size((char[WORDS_SIZE_BYTES]){0}, memory_resident_bytes()), note);
    put(to, "</dl>\n</main>\n</body>\n</html>\n");
    page_send(s, request, to);
    evbuffer_free(to);
}
