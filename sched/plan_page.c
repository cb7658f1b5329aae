/* The page's frame, headline and stages; tables are in page_table.c, drawings in page_plot.c. The page is
 * written into memory first, then to the file in one piece. The markup is also well-formed XML, so that a
 * parser can tell if it is whole. */
#include "sched/plan_page.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/file.h"
#include "sched/page_parts.h"

/* Whether a blank stands between a number and its unit, which must stay in one line. */
static bool is_before_unit(const char *text, const char *blank)
{
    size_t unit = strcspn(blank + 1, " ,;.");
    return blank > text && blank[-1] >= '0' && blank[-1] <= '9' && unit >= 1 && unit <= strlen("µs");
}

char *page_escape(char buffer[PAGE_NAME_BYTES], const char *name, uint32_t width)
{
    char cut[PAGE_NAME_BYTES];
    const char *at = words_name(cut, sizeof cut, name, width);
    size_t used = 0;
    for (; *at && used + 8 < PAGE_NAME_BYTES; at++) {
        const char *entity = *at == '&'    ? "&amp;"
                             : *at == '<'  ? "&lt;"
                             : *at == '>'  ? "&gt;"
                             : *at == '"'  ? "&quot;"
                             : *at == '\'' ? "&#39;"
                                           : NULL;
        if (*at == ' ' && is_before_unit(cut, at)) entity = "&#160;";
        if (entity == NULL) {
            buffer[used++] = *at;
        } else {
            memcpy(buffer + used, entity, strlen(entity));
            used += strlen(entity);
        }
    }
    /* Drops a character of several bytes that was cut. */
    while (used > 0 && *at && (buffer[used - 1] & 0x80)) used--;
    buffer[used] = 0;
    return buffer;
}

char *page_stage_name(const struct page *page, const struct cost_stage *stage, uint32_t width,
                      char buffer[PAGE_NAME_BYTES])
{
    char name[PAGE_NAME_BYTES / 2];
    return page_escape(buffer, explain_stage_name(page->instance, stage, width, name, sizeof name), 2 * width + 2);
}

/* --- headline --------------------------------------------------------------------------------- */

static double rate_of(const struct page *p)
{
    double rate = 0;
    for (uint32_t stage = 0; stage < p->chosen->stage_count; stage++)
        rate += p->model.price[p->chosen->stages[stage].type] * p->chosen->stages[stage].k;
    return rate;
}

/* The number of types that the chosen plan uses. */
static uint32_t used_types(const struct page *p)
{
    uint32_t count = 0;
    for (uint32_t stage = 0; stage < p->chosen->stage_count; stage++) {
        bool is_new = true;
        for (uint32_t other = 0; other < stage; other++)
            is_new = is_new && p->chosen->stages[other].type != p->chosen->stages[stage].type;
        count += is_new;
    }
    return count;
}

static void headline_cost(struct page *p)
{
    const struct solution *s = p->chosen;
    fprintf(p->out, "<div class=\"first\"><dt>Cost</dt><dd><strong>%s <small>USD</small></strong>",
            words_number(WORDS, s->result.cost, 4));
    if (!s->result.is_feasible)
        fprintf(p->out, "at the nearest throughput");
    else if (s->is_proven)
        fprintf(p->out, "proven: no plan costs less");
    else if (s->lower_bound > 0)
        fprintf(p->out, "not proven: no plan costs less than %s (%s)", words_usd(WORDS, s->lower_bound),
                words_change(WORDS, s->lower_bound / s->result.cost));
    else
        fprintf(p->out, "not proven to be the cheapest");
    if (s->server_cores > 0)
        fprintf(p->out, "; parameter servers %s besides (%s)", words_usd(WORDS, s->server_cost),
                words_plural(WORDS, s->server_cores, "core"));
    fprintf(p->out, "</dd></div>\n");
}

static void headline(struct page *p)
{
    const struct solution *s = p->chosen;
    const struct instance *i = p->instance;
    double throughput = s->result.throughput, limit = i->throughput_limit, units = 0;
    for (uint32_t n = 0; n < s->stage_count; n++) units += s->stages[n].k;
    fprintf(p->out, "<header>\n<h1>%s</h1>\n<p class=\"note\">A plan for %s on %s of resources, by method %s.</p>\n",
            ESCAPED(i->name, 100), words_plural(WORDS, i->layer_count, "layer"),
            words_plural(WORDS, i->type_count, "type"), ESCAPED(s->method, 40));
    if (!s->result.is_feasible) {
        char why[1024];
        fprintf(p->out, "<p class=\"alarm\" role=\"alert\">Infeasible: %s.</p>\n",
                ESCAPED(explain_infeasible_text(&p->model, s, why, sizeof why), 900));
    }
    if (throughput > 0) {
        fprintf(p->out, "<dl class=\"facts\">\n");
        headline_cost(p);
        fprintf(p->out, "<div><dt>Throughput</dt><dd><strong>%s <small>examples/s</small></strong>",
                words_number(WORDS, throughput, 4));
        if (page_has_limit(p) && s->expected == 0)
            fprintf(p->out, "%s of the %s asked", words_share(WORDS, throughput / limit),
                    words_number(WORDS, limit, 4));
        if (s->expected > 0) {
            fprintf(p->out, "%s in a run", words_number(WORDS, s->expected, 4));
            if (page_has_limit(p)) fprintf(p->out, ", of the %s asked", words_number(WORDS, limit, 4));
        }
        fprintf(p->out, "</dd></div>\n<div><dt>Run</dt><dd><strong>%s</strong>%s examples",
                words_seconds(WORDS, i->examples * i->epochs / throughput), words_count(WORDS, i->examples));
        if (i->epochs != 1) fprintf(p->out, ", %s epochs", words_number(WORDS, i->epochs, 3));
        fprintf(p->out, "</dd></div>\n<div><dt>Units</dt><dd><strong>%s</strong>of %s, %s an hour</dd></div>\n</dl>\n",
                words_count(WORDS, units), words_plural(WORDS, used_types(p), "type"), words_usd(WORDS, rate_of(p)));
    }
    fprintf(p->out, "</header>\n");
}

/* --- stages ----------------------------------------------------------------------------------- */

static void stage_row(struct page *p, uint32_t at)
{
    const struct cost_stage *stage = &p->chosen->stages[at];
    double tau = 1 / p->chosen->result.throughput, k = stage->k;
    double compute = stage->time.compute + stage->time.compute_shared / k;
    double move = stage->time.move + stage->time.move_shared / k;
    fprintf(p->out, "<li><div><b>%u. %s</b><small>%s %s, %s USD/h</small></div>\n", at + 1, STAGE_NAME(p, stage, 24),
            words_count(WORDS, k), TYPE_NAME(p, stage->type, 32), words_price(WORDS, p->model.price[stage->type] * k));
    fprintf(p->out,
            "<div aria-hidden=\"true\"><span class=\"bar\"><i style=\"width:%.2f%%\"></i></span>"
            "<span class=\"bar moves\"><i style=\"width:%.2f%%\"></i></span></div>\n",
            fmin(100, 100 * compute / tau), fmin(100, 100 * move / tau));
    fprintf(p->out, "<div class=\"figures\">computes %s%s<br/>moves %s%s</div></li>\n", words_seconds(WORDS, compute),
            compute >= move && stage->et >= tau * (1 - 1e-9) ? ", slowest" : "", words_seconds(WORDS, move),
            compute < move && stage->et >= tau * (1 - 1e-9) ? ", slowest" : "");
}

static void stages(struct page *p)
{
    double tau = 1 / p->chosen->result.throughput;
    fprintf(p->out,
            "<section id=\"stages\" aria-labelledby=\"stages-title\">\n<h2 id=\"stages-title\">Stages</h2>\n"
            "<p class=\"note\">Consecutive layers on one type form a stage. Seconds an example, on all its units: "
            "computing (solid) and moving data to the next stage and back (hatched) happen at the same time, "
            "and the longer one binds. A full bar is the slowest stage's %s, which sets the throughput of all.</p>\n"
            "<ol class=\"rows\">\n",
            words_seconds(WORDS, tau));
    for (uint32_t stage = 0; stage < p->chosen->stage_count; stage++) stage_row(p, stage);
    fprintf(p->out, "</ol>\n</section>\n");
}

/* --- the whole -------------------------------------------------------------------------------- */

void page_head(FILE *out, const char *title)
{
    fprintf(out,
            "<!DOCTYPE html>\n"
            "<html lang=\"en\" xmlns=\"http://www.w3.org/1999/xhtml\">\n"
            "<head>\n"
            "<meta charset=\"utf-8\"/>\n"
            "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
            "<meta name=\"color-scheme\" content=\"light dark\"/>\n"
            "<title>%s</title>\n"
            "<style>\n"
            "%s</style>\n"
            "</head>\n"
            "<body>\n",
            title, page_style);
}

static status whole(struct page *p)
{
    char text[2048], title[PAGE_NAME_BYTES + 8];
    const struct solution *s = p->chosen;
    snprintf(title, sizeof title, "Plan: %s", ESCAPED(p->instance->name, 100));
    page_head(p->out, title);
    headline(p);
    fprintf(p->out, "<main>\n");
    if (s->result.throughput > 0) stages(p);
    if (s->result.throughput > 0) TRY(page_pipeline(p));
    page_layers(p);
    if (s->stage_count > 0) page_reasons(p);
    if (s->result.throughput > 0) TRY(page_throughput(p));
    page_methods(p);
    page_learning(p);
    if (s->result.throughput > 0) page_units(p);
    fprintf(p->out, "</main>\n<footer>%s", ESCAPED(explain_sources_text(p->instance, text, sizeof text), 900));
    fprintf(p->out, " Method %s, seed %" PRIu64 ", %s in %s. heterps-run %s.</footer>\n</body>\n</html>\n",
            ESCAPED(s->method, 40), s->seed, words_plural(WORDS, s->evaluations, "evaluation"),
            words_seconds(WORDS, s->seconds), HETERPS_VERSION);
    return ST_OK;
}

static status scratch_take(struct page *p)
{
    size_t L = p->instance->layer_count;
    p->marks = calloc(p->count, sizeof *p->marks);
    p->types = malloc(L * sizeof *p->types);
    p->stages = malloc(L * sizeof *p->stages);
    p->changes = calloc(L, sizeof *p->changes);
    p->reasons = calloc(L, sizeof *p->reasons);
    if (!p->marks || !p->types || !p->stages || !p->changes || !p->reasons)
        FAIL(MEMORY, "no memory for a page about %zu layers", L);
    for (uint32_t l = 0; l < L && p->chosen->stage_count > 0; l++) {
        p->changes[l] = explain_layer(&p->model, p->chosen, l, p->types, p->stages);
        explain_change_text(&p->model, p->chosen, &p->changes[l], p->stages, p->reasons[l], sizeof *p->reasons);
    }
    return ST_OK;
}

/* The page's bytes, malloc'd. */
static status compose(struct page *p, char **text, size_t *bytes)
{
    *text = NULL;
    p->out = open_memstream(text, bytes);
    if (p->out == NULL) FAIL(MEMORY, "no memory for a page");
    status st = scratch_take(p);
    if (st == ST_OK) st = whole(p);
    bool is_whole = !ferror(p->out);
    if ((fclose(p->out) != 0 || !is_whole) && st == ST_OK)
        st = status_fail(ST_MEMORY, __FILE__, __LINE__, "no memory for a page");
    return st;
}

status page_write(const char *path, const struct solution *solutions, uint32_t count)
{
    CHECK(count > 0);
    char *text = NULL;
    size_t bytes = 0;
    struct page page = {.solutions = solutions, .chosen = solutions, .count = count, .instance = solutions->instance};
    page.reference = compare_reference(solutions, count, &page.is_proven);
    TRY(cost_model_open(&page.model, page.instance));
    status st = compose(&page, &text, &bytes);
    if (st == ST_OK) st = file_write(path, text, bytes);
    free(text);
    free(page.marks);
    free(page.types);
    free(page.stages);
    free(page.changes);
    free(page.reasons);
    cost_model_free(&page.model);
    return st;
}
