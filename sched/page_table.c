/* The page's tables: layers on types, each layer on another type, methods, units. */
#include <math.h>
#include <string.h>

#include "sched/page_parts.h"

/* --- layers on types -------------------------------------------------------------------------- */

#define FOLDED_TYPES_MAX 12u    /* of the table that is always shown                              */
#define CELLS_MAX        16384u /* of the table of all types: with more, a page would be too heavy */
#define PER_MILLION      (1e6 / 3600)

/* Cells are coloured by their ratio to the row's least: up to these ratios, above them not at all. */
static const double level_ratio[] = {1.0000001, 1.5, 3, 10, 30};
#define LEVEL_COUNT (sizeof level_ratio / sizeof *level_ratio)

static uint32_t level_of(double value, double least)
{
    uint32_t level = 0;
    while (level < LEVEL_COUNT && !(value <= least * level_ratio[level])) level++;
    return level;
}

struct page_cell {
    double seconds, usd; /* an example; a million of them: on one unit */
};
static struct page_cell cell_of(const struct page *p, uint32_t layer, uint32_t type)
{
    const struct cost_time *time = &p->model.times[(size_t)layer * p->model.type_count + type];
    double seconds = time->compute + time->compute_shared;
    return (struct page_cell){seconds, seconds * p->model.price[type] * PER_MILLION};
}
static struct page_cell least_of(const struct page *p, uint32_t layer)
{
    struct page_cell least = {INFINITY, INFINITY};
    for (uint32_t t = 0; t < p->model.type_count; t++) {
        struct page_cell cell = cell_of(p, layer, t);
        least.seconds = fmin(least.seconds, cell.seconds);
        least.usd = fmin(least.usd, cell.usd);
    }
    return least;
}

static bool is_chosen(const struct page *p, uint32_t layer, uint32_t type)
{
    return p->chosen->stage_count > 0 && p->chosen->types[layer] == type;
}

static void layer_row(struct page *p, uint32_t layer, const uint32_t *types, uint32_t count)
{
    const struct instance_layer *of = &p->instance->layers[layer];
    struct page_cell least = least_of(p, layer);
    fprintf(p->out, "<tr><th scope=\"row\" title=\"%s\">%s<small>%s</small></th>", ESCAPED(of->name, 127),
            ESCAPED(of->name, 40), ESCAPED(of->kind, 40));
    for (uint32_t t = 0; t < count; t++) {
        struct page_cell cell = cell_of(p, layer, types[t]);
        bool is_on = is_chosen(p, layer, types[t]);
        fprintf(p->out, "<td class=\"s%u u%u%s\">%s<span class=\"s\">%s</span><span class=\"u\">%s</span></td>",
                level_of(cell.seconds, least.seconds), level_of(cell.usd, least.usd), is_on ? " on" : "",
                is_on ? "<span class=\"sr\">chosen: </span>" : "", words_seconds(WORDS, cell.seconds),
                words_number(WORDS, cell.usd, 3));
    }
    fprintf(p->out, "</tr>\n");
}

static void layer_table(struct page *p, const char *label, const uint32_t *types, uint32_t count)
{
    fprintf(p->out,
            "<div class=\"box\" role=\"region\" tabindex=\"0\" aria-label=\"%s\">\n"
            "<table class=\"heat\">\n"
            "<thead><tr><th scope=\"col\">layer</th>",
            label);
    for (uint32_t t = 0; t < count; t++)
        fprintf(p->out, "<th scope=\"col\" title=\"%s\">%s<small>%s USD/h</small></th>", TYPE_NAME(p, types[t], 127),
                TYPE_NAME(p, types[t], 40), words_price(WORDS, p->model.price[types[t]]));
    fprintf(p->out, "</tr></thead>\n<tbody>\n");
    for (uint32_t l = 0; l < p->model.layer_count; l++) layer_row(p, l, types, count);
    fprintf(p->out, "</tbody></table></div>\n");
}

/* Rank of a type in the table that is always shown: 2 a layer is on it, 1 it is the next
 * best of a layer, 0 neither. */
static int type_rank(const struct page *p, uint32_t type)
{
    int rank = 0;
    for (uint32_t l = 0; l < p->model.layer_count && rank < 2; l++) {
        if (is_chosen(p, l, type)) rank = 2;
        if (rank == 0 && p->chosen->stage_count > 0 && p->changes[l].type == type) rank = 1;
    }
    return rank;
}

/* Chooses the types to show, as many as fit, higher ranks first; lists them in their order. */
static uint32_t types_seen(const struct page *p, uint32_t seen[FOLDED_TYPES_MAX])
{
    uint32_t T = p->model.type_count, count = 0;
    if (T <= FOLDED_TYPES_MAX) {
        for (uint32_t t = 0; t < T; t++) seen[count++] = t;
        return count;
    }
    for (int rank = 2; rank >= 0; rank--)
        for (uint32_t t = 0; t < T && count < FOLDED_TYPES_MAX; t++) {
            if (type_rank(p, t) != rank || (rank == 0 && count >= 2)) continue;
            uint32_t at = count++;
            for (; at > 0 && seen[at - 1] > t; at--) seen[at] = seen[at - 1];
            seen[at] = t;
        }
    return count;
}

void page_layers(struct page *p)
{
    static const char *const legend[LEVEL_COUNT + 1] = {"least",       "to 1.5 times", "to 3 times",
                                                        "to 10 times", "to 30 times",  "more"};
    static const char *const tints[LEVEL_COUNT + 1] = {".38", ".27", ".17", ".09", ".04", "0"};
    uint32_t seen[FOLDED_TYPES_MAX], count = types_seen(p, seen), T = p->model.type_count;
    fprintf(p->out,
            "<section id=\"layers\" aria-labelledby=\"layers-title\">\n<h2 id=\"layers-title\">Layers on types</h2>\n"
            "<p class=\"note\">What computing a layer takes on one unit of a type. "
            "A frame and a dot mark the type that the plan has chosen; it need not be a layer's cheapest, "
            "because data that crosses to another type must be moved, and units are whole and limited.</p>\n"
            "<input class=\"choice\" type=\"radio\" name=\"by\" id=\"by-seconds\" checked=\"checked\"/>"
            "<label for=\"by-seconds\">seconds an example</label>\n"
            "<input class=\"choice\" type=\"radio\" name=\"by\" id=\"by-usd\"/>"
            "<label for=\"by-usd\">USD a million examples</label>\n");
    layer_table(
        p, T > count ? "Layers on the types that matter, scrolls sideways" : "Layers on all types, scrolls sideways",
        seen, count);
    fprintf(p->out, "<p class=\"key\">Times the least of the row: ");
    for (uint32_t l = 0; l <= LEVEL_COUNT; l++)
        fprintf(p->out, "<span><i class=\"swatch\" style=\"background:rgba(var(--tint),%s)\"></i>%s</span>", tints[l],
                legend[l]);
    fprintf(p->out, "</p>\n");
    if (T > count && (size_t)T * p->model.layer_count <= CELLS_MAX) {
        uint32_t all[CELLS_MAX];
        for (uint32_t t = 0; t < T; t++) all[t] = t;
        fprintf(p->out, "<details><summary>All %s</summary>\n", words_plural(WORDS, T, "type"));
        layer_table(p, "Layers on all types, scrolls sideways", all, T);
        fprintf(p->out, "</details>\n");
    } else if (T > count) {
        fprintf(p->out, "<p class=\"note\">The other %s are left out.</p>\n", words_plural(WORDS, T - count, "type"));
    }
    fprintf(p->out, "</section>\n");
}

/* --- what else each layer could do ------------------------------------------------------------ */

void page_reasons(struct page *p)
{
    const struct solution *s = p->chosen;
    fprintf(p->out, "<section id=\"reasons\" aria-labelledby=\"reasons-title\">\n"
                    "<h2 id=\"reasons-title\">Each layer elsewhere</h2>\n"
                    "<p class=\"note\">The best plan with this one layer on another type: "
                    "the other layers keep their types, all units are chosen anew. "
                    "Its cost against this plan's, and what would be otherwise.</p>\n");
    for (uint32_t l = 0; l < p->model.layer_count; l++) {
        const struct explain_change *change = &p->changes[l];
        char text[WORDS_BYTES] = "infeasible";
        if (change->type == GRAPH_NONE)
            text[0] = 0;
        else if (change->result.is_feasible && s->result.is_feasible)
            words_change(text, change->result.cost / s->result.cost);
        else if (change->result.is_feasible)
            snprintf(text, sizeof text, "feasible");
        const char *reason = p->reasons[l] + explain_prefix(p->reasons[l]);
        fprintf(p->out, "<div class=\"why\"><b>%s</b><span>%s", ESCAPED(p->instance->layers[l].name, 48),
                TYPE_NAME(p, s->types[l], 32));
        if (change->type != GRAPH_NONE) fprintf(p->out, " \u2192 %s", TYPE_NAME(p, change->type, 32));
        fprintf(p->out, "</span><span>%s</span><span class=\"figures\">%s</span></div>\n", text, ESCAPED(reason, 900));
    }
    fprintf(p->out, "</section>\n");
}

/* --- methods ---------------------------------------------------------------------------------- */

/* Whether costs differ by more than a bar can show: bars are logarithmic then,
 * from a tenth below the least. */
static bool costs_are_wide(const struct page *p, double *least, double *most)
{
    *least = INFINITY;
    *most = 0;
    for (uint32_t i = 0; i < p->count; i++) {
        const struct cost_result *r = &p->solutions[i].result;
        if (!r->is_feasible) continue;
        *least = fmin(*least, r->cost);
        *most = fmax(*most, r->cost);
    }
    return *least > 0 && *most > 8 * *least;
}

static void method_row(struct page *p, uint32_t at, bool is_wide, double least, double most)
{
    const struct solution *s = &p->solutions[at];
    const struct cost_result *r = &s->result;
    fprintf(p->out, "<tr%s><td>%u</td><th scope=\"row\">%s</th>", at == 0 ? " class=\"on\"" : "", at + 1,
            ESCAPED(s->method, 40));
    if (r->is_feasible) {
        double low = least * 0.9;
        double width = most > 0 ? is_wide ? log(r->cost / low) / log(most / low) : r->cost / most : 0;
        fprintf(p->out,
                "<td>%s</td><td>%s</td><td class=\"wide\" aria-hidden=\"true\"><span class=\"bar%s\">"
                "<i style=\"width:%.2f%%\"></i></span></td>",
                words_number(WORDS, r->cost, 4), words_change(WORDS, r->cost / p->reference), at == 0 ? "" : " other",
                100 * width);
    } else {
        fprintf(p->out, "<td>\u2013</td><td>infeasible</td><td class=\"wide left\">");
        fprintf(p->out, r->throughput > 0 ? "too slow" : "too few units");
        fprintf(p->out, "</td>");
    }
    fprintf(p->out, "<td>%s</td>", words_number(WORDS, r->throughput, 4));
    if (page_has_limit(p))
        fprintf(p->out, "<td>%s</td>", words_share(WORDS, r->throughput / p->instance->throughput_limit));
    fprintf(p->out, "<td>%u</td><td>%s</td><td>%s</td><td class=\"left\">%s</td></tr>\n", s->stage_count,
            words_count(WORDS, (double)s->evaluations), words_seconds(WORDS, s->seconds), compare_end_text(s));
}

void page_methods(struct page *p)
{
    double least, most;
    bool is_wide = costs_are_wide(p, &least, &most);
    fprintf(p->out,
            "<section id=\"methods\" aria-labelledby=\"methods-title\">\n"
            "<h2 id=\"methods-title\">Methods side by side</h2>\n"
            "<p class=\"note\">Cost of each method's plan, "
            "and how far it is over %s.%s The first is the plan of this page.</p>\n"
            "<div class=\"box\" role=\"region\" tabindex=\"0\" aria-label=\"Methods, scrolls sideways\">\n"
            "<table class=\"methods\">\n"
            "<thead><tr><th scope=\"col\">#</th><th scope=\"col\" class=\"left\">method</th>"
            "<th scope=\"col\">cost USD</th><th scope=\"col\">over %s</th><th scope=\"col\" class=\"wide\">"
            "<span class=\"sr\">bar</span></th><th scope=\"col\">examples/s</th>",
            p->is_proven ? "the proven least" : "the least found", is_wide ? " Bars are on a logarithmic scale." : "",
            p->is_proven ? "proven" : "least");
    if (page_has_limit(p)) fprintf(p->out, "<th scope=\"col\">of asked</th>");
    fprintf(p->out, "<th scope=\"col\">stages</th><th scope=\"col\">evaluations</th><th scope=\"col\">time</th>"
                    "<th scope=\"col\" class=\"left\">ended by</th></tr></thead>\n"
                    "<tbody>\n");
    for (uint32_t i = 0; i < p->count; i++) method_row(p, i, is_wide, least, most);
    fprintf(p->out, "</tbody></table></div>\n");
    const struct solution *s = p->chosen;
    if (s->rl_cost > 0)
        fprintf(p->out, "<p class=\"key\">Reinforcement learning alone found %s (%s) in %s.</p>\n",
                words_usd(WORDS, s->rl_cost), words_change(WORDS, s->rl_cost / s->result.cost),
                words_seconds(WORDS, s->rl_seconds));
    fprintf(p->out, "</section>\n");
}

/* --- units ------------------------------------------------------------------------------------ */

void page_units(struct page *p)
{
    const struct solution *s = p->chosen;
    uint32_t used_count = 0;
    fprintf(p->out, "<section id=\"units\" aria-labelledby=\"units-title\">\n"
                    "<h2 id=\"units-title\">Units</h2>\n"
                    "<p class=\"note\">How many units of a type all its stages have, of how many there are.</p>\n"
                    "<ol class=\"rows\">\n");
    for (uint32_t t = 0; t < p->model.type_count; t++) {
        uint64_t units = 0;
        for (uint32_t i = 0; i < s->stage_count; i++) units += s->stages[i].type == t ? s->stages[i].k : 0;
        if (units == 0) continue;
        used_count++;
        double limit = p->model.limit[t], used = (double)units;
        fprintf(p->out,
                "<li><div><b>%s</b><small>%s USD/h a unit</small></div><div aria-hidden=\"true\"><span class=\"bar\">"
                "<i style=\"width:%.2f%%\"></i></span></div><div class=\"figures\">%s of %s, %s USD/h</div></li>\n",
                TYPE_NAME(p, t, 40), words_price(WORDS, p->model.price[t]), fmin(100, 100 * used / limit),
                words_count(WORDS, used), words_count(WORDS, limit), words_price(WORDS, used * p->model.price[t]));
    }
    fprintf(p->out, "</ol>\n");
    if (used_count < p->model.type_count)
        fprintf(p->out, "<p class=\"key\">Not used: %s.</p>\n",
                words_plural(WORDS, p->model.type_count - used_count, "further type"));
    fprintf(p->out, "</section>\n");
}
