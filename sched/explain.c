/* Plans as text for people: --explain and --compare. */
#include "sched/explain.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/words.h"
#include "sched/nodes.h"

#define LINE_WIDTH 120
#define LABEL      12 /* width of the label in front of a line */
#define NAME_BYTES 128
#define UNIT_BYTES 4 /* "µs;" */

/* Writes a text in a column of `width` characters, to the left; a negative width: to the right. */
static void cell(FILE *out, const char *text, int width)
{
    int pad = abs(width) - (int)words_width(text);
    if (pad < 0) pad = 0;
    if (width < 0)
        fprintf(out, "%*s%s", pad, "", text);
    else
        fprintf(out, "%s%*s", text, pad, "");
}

/* Writes a label, and a text broken at blanks; further lines begin under the text. */
static void paragraph(FILE *out, const char *label, uint32_t indent, const char *text)
{
    uint32_t at = indent;
    cell(out, label, (int)indent);
    for (bool is_first = true; *text; is_first = false) {
        size_t length = strcspn(text, " ");
        /* A number stays with its unit. */
        if (length > 0 && text[length - 1] >= '0' && text[length - 1] <= '9' && text[length] != 0) {
            size_t unit = strcspn(text + length + 1, " ");
            if (unit <= UNIT_BYTES) length += 1 + unit;
        }
        char word[512];
        snprintf(word, sizeof word, "%.*s", (int)(length < sizeof word ? length : sizeof word - 1), text);
        uint32_t width = words_width(word);
        if (!is_first && at + 1 + width > LINE_WIDTH) {
            fprintf(out, "\n%*s", (int)indent, "");
            at = indent;
        } else if (!is_first) {
            fputc(' ', out);
            at++;
        }
        fputs(word, out);
        at += width;
        text += length;
        text += strspn(text, " ");
    }
    fputc('\n', out);
}

static double rate_of(const struct cost_model *m, const struct solution *s)
{
    double rate = cost_nodes_price(m, s->stages, s->stage_count);
    for (uint32_t at = 0; at < s->stage_count; at++) rate += m->price[s->stages[at].type] * s->stages[at].k;
    return rate;
}

/* --- totals ----------------------------------------------------------------------------------- */

static void proof_text(const struct solution *s, char *buffer, size_t bytes)
{
    if (s->is_proven && s->result.is_feasible)
        snprintf(buffer, bytes, "proven: no plan costs less");
    else if (s->lower_bound > 0)
        snprintf(buffer, bytes, "not proven; no plan costs less than %s, so it is at most %s above the best",
                 words_usd(WORDS, s->lower_bound), words_change(WORDS, s->result.cost / s->lower_bound));
    else
        snprintf(buffer, bytes, "not proven to be the cheapest");
}

static void totals_write(FILE *out, const struct cost_model *m, const struct solution *s)
{
    const struct instance *i = m->instance;
    char text[1024], name[NAME_BYTES], proof[256];
    double limit = i->throughput_limit, throughput = s->result.throughput;
    snprintf(text, sizeof text, "%s: %s on %s, in %s", words_name(name, sizeof name, i->name, 40),
             words_plural(WORDS, i->layer_count, "layer"), words_plural(WORDS, i->type_count, "type"),
             words_plural(WORDS, s->stage_count, "stage"));
    paragraph(out, "plan", LABEL, text);
    if (!s->result.is_feasible) {
        explain_infeasible_text(m, s, text, sizeof text - 32);
        if (s->is_proven) strcat(text, "; no plan does better");
        paragraph(out, "infeasible", LABEL, text);
    }
    if (throughput > 0) {
        proof_text(s, proof, sizeof proof);
        snprintf(text, sizeof text, "%s for %s examples%s%s, which take %s at %s an hour%s%s",
                 words_usd(WORDS, s->result.cost), words_count(WORDS, i->examples),
                 i->epochs != 1 ? " an epoch, epochs: " : "", i->epochs != 1 ? words_number(WORDS, i->epochs, 3) : "",
                 words_seconds(WORDS, i->examples * i->epochs / throughput), words_usd(WORDS, rate_of(m, s)),
                 s->result.is_feasible ? "; " : "", s->result.is_feasible ? proof : "");
        paragraph(out, "cost", LABEL, text);
        snprintf(text, sizeof text, "%s examples/s", words_number(WORDS, throughput, 4));
        size_t used = strlen(text);
        if (limit > 0 && isfinite(limit) && s->expected == 0)
            snprintf(text + used, sizeof text - used, ", %s of the %s asked", words_share(WORDS, throughput / limit),
                     words_number(WORDS, limit, 4));
        paragraph(out, "throughput", LABEL, text);
        if (s->expected > 0) paragraph(out, "expected", LABEL, solution_expected_text(s, text, sizeof text));
    }
    if (s->server_cores > 0) {
        snprintf(text, sizeof text, "%s for parameter servers, %s besides",
                 words_plural(WORDS, s->server_cores, "core"), words_usd(WORDS, s->server_cost));
        paragraph(out, "servers", LABEL, text);
    }
    snprintf(text, sizeof text, "%s, seed %" PRIu64 ": %s in %s, ended by %s", s->method, s->seed,
             words_plural(WORDS, s->evaluations, "evaluation"), words_seconds(WORDS, s->seconds), compare_end_text(s));
    paragraph(out, "method", LABEL, text);
    if (s->rl_cost > 0) {
        snprintf(text, sizeof text, "reinforcement learning alone found %s (%s) in %s", words_usd(WORDS, s->rl_cost),
                 words_change(WORDS, s->rl_cost / s->result.cost), words_seconds(WORDS, s->rl_seconds));
        paragraph(out, "", LABEL, text);
    }
}

/* --- stages ----------------------------------------------------------------------------------- */

static void stage_write(FILE *out, const struct cost_model *m, const struct solution *s, uint32_t at, uint32_t slowest)
{
    const struct instance *i = m->instance;
    const struct cost_stage *stage = &s->stages[at];
    char name[NAME_BYTES], units[NAME_BYTES], type[NAME_BYTES], number[16];
    double k = stage->k, compute = stage->time.compute + stage->time.compute_shared / k;
    double move = stage->time.move + stage->time.move_shared / k;
    const double link = stage->time.move - cost_segment(m, stage->first, stage->last, stage->type).move;
    snprintf(number, sizeof number, "%u", at + 1);
    cell(out, number, -3);
    fputs("  ", out);
    cell(out, explain_stage_name(i, stage, 14, name, sizeof name), 31);
    snprintf(units, sizeof units, "%s %s", words_count(WORDS, k),
             words_name(type, sizeof type, i->types[stage->type].resource.name, 14));
    cell(out, units, 21);
    cell(out, words_number(WORDS, m->price[stage->type] * k, 3), -7);
    cell(out, words_seconds(WORDS, compute), -10);
    cell(out, words_seconds(WORDS, move), -9);
    cell(out, words_share(WORDS, stage->et * s->result.throughput), -7);
    fprintf(out, "  %s%s\n",
            compute >= move      ? "computation"
            : link > move - link ? "its link"
                                 : "communication",
            at == slowest  ? ", slowest"
            : stage->k > 1 ? ""
                           : ", one is enough");
}

static uint32_t slowest_of(const struct solution *s)
{
    uint32_t at = 0;
    for (uint32_t stage = 1; stage < s->stage_count; stage++)
        if (s->stages[stage].et > s->stages[at].et) at = stage;
    return at;
}

/* Writes the links that the cuts cross. */
static void links_write(FILE *out, const struct cost_model *m, const struct solution *s)
{
    struct nodes_cut cuts[NODES_CUTS_MAX];
    char text[1024];
    if (m->instance->nodes == NULL) return;
    const uint32_t count = nodes_cuts(m, s->stages, s->stage_count, cuts);
    if (count == 0)
        paragraph(out, "links", LABEL,
                  nodes_of_plan(m->instance, s->stages, s->stage_count, s->stages[0].type)
                      ? "No cut crosses a link, and the nodes that share stages have nothing to exchange."
                      : "All stages are on one node: no cut crosses a link.");
    for (uint32_t c = 0; c < count; c++)
        paragraph(out, c == 0 ? "links" : "", LABEL,
                  nodes_cut_text(m->instance, s->stages, &cuts[c], text, sizeof text));
}

/* Says why there are this many units, and not more or fewer. */
static void pace_write(FILE *out, const struct cost_model *m, const struct solution *s, uint32_t slowest,
                       struct cost_stage *stages)
{
    const struct instance *i = m->instance;
    char text[1024], name[NAME_BYTES], type[NAME_BYTES];
    struct explain_point fewest, more;
    const struct cost_stage *stage = &s->stages[slowest];
    int used = snprintf(text, sizeof text, "%s on %s is the slowest and sets the pace.",
                        explain_stage_name(i, stage, 24, name, sizeof name),
                        words_name(type, sizeof type, i->types[stage->type].resource.name, 24));
    size_t at = (size_t)used;
    double faster = s->result.throughput * (1 + 1e-9);
    if (s->adapted_from)
        at += (size_t)snprintf(text + at, sizeof text - at, " The units are those that are best in a run.");
    else if (explain_provisions(m, s, faster, stages, &more, 1) == 0)
        at += (size_t)snprintf(text + at, sizeof text - at, " More units would not make it faster, or there are none.");
    else
        at += (size_t)snprintf(text + at, sizeof text - at, " A step faster, %s examples/s, would cost %s (%s).",
                               words_number(WORDS, more.throughput, 4), words_usd(WORDS, more.cost),
                               words_change(WORDS, more.cost / s->result.cost));
    double limit = i->throughput_limit;
    if (limit > 0 && s->adapted_from == NULL && explain_provisions(m, s, limit, stages, &fewest, 1) > 0) {
        if (fewest.throughput < s->result.throughput * (1 - 1e-9))
            snprintf(text + at, sizeof text - at,
                     " The fewest units that reach what is asked, for %s examples/s, would cost %s (%s): "
                     "they would wait for one another longer.",
                     words_number(WORDS, fewest.throughput, 4), words_usd(WORDS, fewest.cost),
                     words_change(WORDS, fewest.cost / s->result.cost));
        else
            snprintf(text + at, sizeof text - at, " With fewer units what is asked would not be reached.");
    }
    paragraph(out, "pace", LABEL, text);
}

static void stages_write(FILE *out, const struct cost_model *m, const struct solution *s, struct cost_stage *stages)
{
    uint32_t slowest = slowest_of(s);
    fputc('\n', out);
    paragraph(out, "stages", LABEL,
              "Consecutive layers on one type. A stage computes and moves data at the same time; "
              "the longer of the two binds it, and the slowest stage sets the throughput of all. "
              "Seconds are an example's, on all units of the stage.");
    fprintf(out, "  #  %-31s%-21s%7s%10s%9s%7s  %s\n", "layers", "units", "USD/h", "computes", "moves", "busy",
            "bound by");
    for (uint32_t at = 0; at < s->stage_count; at++) stage_write(out, m, s, at, slowest);
    links_write(out, m, s);
    pace_write(out, m, s, slowest, stages);
}

/* --- layers ----------------------------------------------------------------------------------- */

static void layer_write(FILE *out, const struct cost_model *m, const struct solution *s, uint32_t layer,
                        type_index *types, struct cost_stage *stages)
{
    const struct instance *i = m->instance;
    struct explain_change change = explain_layer(m, s, layer, types, stages);
    char name[NAME_BYTES], here[768], text[768], both[1600];
    struct cost_time time = m->times[(size_t)layer * m->type_count + s->types[layer]];
    fputs("  ", out);
    cell(out, words_name(name, sizeof name, i->layers[layer].name, 26), 28);
    cell(out, words_name(name, sizeof name, i->layers[layer].kind, 14), 16);
    cell(out, words_name(name, sizeof name, i->types[s->types[layer]].resource.name, 20), 22);
    cell(out, words_seconds(WORDS, time.compute + time.compute_shared), -10);
    if (change.type != GRAPH_NONE) {
        fputs("   ", out);
        cell(out, words_name(name, sizeof name, i->types[change.type].resource.name, 20), 22);
        cell(out,
             !change.result.is_feasible ? "infeasible"
             : s->result.is_feasible    ? words_change(WORDS, change.result.cost / s->result.cost)
                                        : "feasible",
             -11);
    }
    fputc('\n', out);
    explain_change_text(m, s, &change, stages, text, sizeof text);
    explain_layer_text(m, s, layer, types, stages, here, sizeof here);
    char other[NAME_BYTES] = "";
    if (change.type != GRAPH_NONE) words_name(other, sizeof other, i->types[change.type].resource.name, 20);
    snprintf(both, sizeof both, "%s%s%s%s%s", here, here[0] ? ". " : "", other[0] ? "On " : "", other,
             other[0] ? ": " : "");
    strncat(both, text + explain_prefix(text), sizeof both - strlen(both) - 1);
    paragraph(out, "", 6, both);
}

static void layers_write(FILE *out, const struct cost_model *m, const struct solution *s, type_index *types,
                         struct cost_stage *stages)
{
    fputc('\n', out);
    paragraph(out, "layers", LABEL,
              "Where each is, and the best plan with this one layer on another type: "
              "the other layers keep their types, all units are chosen anew. Seconds are an example's, on one unit.");
    fprintf(out, "  %-28s%-16s%-22s%10s   %-22s%11s\n", "layer", "kind", "on", "computes", "next best", "cost");
    for (uint32_t l = 0; l < m->layer_count; l++) layer_write(out, m, s, l, types, stages);
}

status explain_write(FILE *out, const struct solution *s)
{
    const struct instance *i = s->instance;
    struct cost_model model;
    TRY(cost_model_open(&model, i));
    struct cost_stage *stages = malloc(i->layer_count * sizeof *stages);
    type_index *types = malloc(i->layer_count * sizeof *types);
    status st = ST_OK;
    if (stages == NULL || types == NULL)
        st = status_fail(ST_MEMORY, __FILE__, __LINE__, "no memory for explaining %u layers", i->layer_count);
    if (st == ST_OK) {
        char text[2048];
        totals_write(out, &model, s);
        if (s->result.throughput > 0) stages_write(out, &model, s, stages);
        if (s->stage_count > 0) layers_write(out, &model, s, types, stages);
        fputc('\n', out);
        paragraph(out, "figures", LABEL, explain_sources_text(i, text, sizeof text));
    }
    free(stages);
    free(types);
    cost_model_free(&model);
    return st;
}

/* --- methods side by side --------------------------------------------------------------------- */

const char *compare_end_text(const struct solution *s)
{
    if (s->is_proven) return "proof";
    switch (s->ended_by) {
    case SEARCH_EVALUATIONS: return "evaluations";
    case SEARCH_SECONDS: return "seconds";
    case SEARCH_STOPPED: return "user";
    case SEARCH_FINISHED: break;
    }
    return "itself";
}

double compare_reference(const struct solution *solutions, uint32_t count, bool *is_proven)
{
    double least = 0;
    *is_proven = false;
    for (uint32_t at = 0; at < count; at++) {
        if (!solutions[at].result.is_feasible) continue;
        if (least == 0 || solutions[at].result.cost < least) least = solutions[at].result.cost;
        *is_proven = *is_proven || solutions[at].is_proven;
    }
    return least;
}

void compare_write(FILE *out, const struct solution *solutions, uint32_t count)
{
    bool is_proven;
    double reference = compare_reference(solutions, count, &is_proven);
    fprintf(out, "%-11s%14s%14s%12s%9s%8s%14s%11s  %s\n", "method", "cost USD", is_proven ? "over proven" : "over best",
            "examples/s", "of asked", "stages", "evaluations", "time", "ended by");
    for (uint32_t at = 0; at < count; at++) {
        const struct solution *s = &solutions[at];
        double limit = s->instance->throughput_limit;
        char gap[WORDS_BYTES] = "infeasible", stages[16];
        if (s->result.is_feasible) words_change(gap, s->result.cost / reference);
        snprintf(stages, sizeof stages, "%u", s->stage_count);
        cell(out, s->method, 11);
        cell(out, s->result.is_feasible ? words_number(WORDS, s->result.cost, 4) : "-", -14);
        cell(out, gap, -14);
        cell(out, words_number(WORDS, s->result.throughput, 4), -12);
        cell(out, limit > 0 && isfinite(limit) ? words_share(WORDS, s->result.throughput / limit) : "-", -9);
        cell(out, stages, -8);
        cell(out, words_count(WORDS, (double)s->evaluations), -14);
        cell(out, words_seconds(WORDS, s->seconds), -11);
        fprintf(out, "  %s\n", compare_end_text(s));
    }
}

/* "rl          h to fc0: a..b 75.0 µs, shared | …". */
static void cuts_write(FILE *out, const struct cost_model *m, const struct solution *s, struct nodes_cut *cuts)
{
    const struct instance *i = m->instance;
    const uint32_t count = nodes_cuts(m, s->stages, s->stage_count, cuts);
    cell(out, s->method, 11);
    if (count == 0) fprintf(out, "  none");
    for (uint32_t c = 0; c < count; c++) {
        const struct cost_stage *stage = &s->stages[cuts[c].stage];
        fprintf(out, "%s%s %s %s: %s..%s %s%s", c == 0 ? "  " : " | ",
                i->layers[cuts[c].is_exchange ? stage->first : stage->last].name, cuts[c].is_exchange ? "with" : "to",
                i->layers[cuts[c].is_exchange ? stage->last : stage->last + 1].name, i->nodes->node[cuts[c].from].name,
                i->nodes->node[cuts[c].to].name, words_seconds(WORDS, cuts[c].seconds),
                cuts[c].cut_count > 1 ? ", shared" : "");
    }
    fprintf(out, "\n");
}

status compare_links_write(FILE *out, const struct solution *solutions, uint32_t count)
{
    struct cost_model model;
    if (count == 0 || solutions[0].instance->nodes == NULL || solutions[0].instance->nodes->count == 1) return ST_OK;
    struct nodes_cut *cuts = malloc(NODES_CUTS_MAX * sizeof *cuts);
    status st = cuts ? cost_model_open(&model, solutions[0].instance)
                     : status_fail(ST_MEMORY, __FILE__, __LINE__, "no memory for the cuts of a plan");
    if (st == ST_OK) {
        fprintf(out, "%-11s  cuts that cross links, and the time of an example there\n", "method");
        for (uint32_t at = 0; at < count; at++) cuts_write(out, &model, &solutions[at], cuts);
        cost_model_free(&model);
    }
    free(cuts);
    return st;
}

void trials_write(FILE *out, const struct solution *solutions, uint32_t count)
{
    fprintf(out, "%-11s%14s%14s%10s%8s%15s  %s\n", "tried", "predicted", "measured", "of it", "waited", "of it without",
            "stages");
    for (uint32_t at = 0; at < count; at++) {
        const struct solution *s = &solutions[at];
        if (!(s->measured > 0)) continue;
        cell(out, s->method, 11);
        cell(out, words_number(WORDS, solution_predicted(s), 4), -14);
        cell(out, words_number(WORDS, s->measured, 4), -14);
        cell(out, words_share(WORDS, s->measured / solution_predicted(s)), -10);
        cell(out, words_share(WORDS, s->waited), -8);
        cell(out, words_share(WORDS, solution_rate(s) / solution_predicted(s)), -15);
        for (uint32_t stage_index = 0; stage_index < s->stage_count; stage_index++) {
            const struct cost_stage *stage = &s->stages[stage_index];
            const struct instance *instance = s->instance;
            fprintf(out, "%s%s", stage_index == 0 ? "  " : " | ", instance->layers[stage->first].name);
            if (stage->last > stage->first) fprintf(out, "..%s", instance->layers[stage->last].name);
            fprintf(out, " on %u %s", stage->k, instance->types[stage->type].resource.name);
        }
        fprintf(out, "\n");
    }
}
