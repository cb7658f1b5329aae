/* The page's drawings, in SVG. Places across are per cent of the width, so that a drawing is as wide as
 * its column and letters keep their size; places down are pixels. A curve is an SVG within the drawing,
 * 0 … 1000 both ways, stretched. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sched/page_parts.h"

#define HEIGHT       PAGE_PLOT_HEIGHT
#define NARROW_WIDTH 280.0 /* pixels of the narrowest drawing: labels that keep apart in it do so in all */

/* --- axes ------------------------------------------------------------------------------------- */

void page_range_add(struct page_range *range, double value)
{
    if (!isfinite(value)) return;
    if (!(range->most > 0)) range->least = value;
    range->least = fmin(range->least, value);
    range->most = fmax(range->most, value);
}
struct page_axis page_axis_of(const struct page_range *range, double wide)
{
    double least = range->least, most = range->most;
    if (!(most > least)) most = least > 0 ? least * 1.01 : 1;
    if (least > 0 && most > wide * least) {
        double air = pow(most / least, 0.05);
        return (struct page_axis){least / air, most * air, true};
    }
    double air = 0.06 * (most - least);
    return (struct page_axis){fmax(0, least - air), most + air, false};
}

/* 0 … 1 */
static double axis_at(const struct page_axis *a, double value)
{
    double at = a->is_log ? log(value / a->low) / log(a->high / a->low) : (value - a->low) / (a->high - a->low);
    return fmin(1, fmax(0, at));
}

#define TICKS_MAX 8
/* Finds round values within the axis, if possible 3 to `most`. */
static uint32_t axis_ticks(const struct page_axis *a, uint32_t most, double ticks[TICKS_MAX])
{
    uint32_t count = 0;
    if (a->is_log) {
        static const double sets[][8] = {{1, 1.5, 2, 3, 4, 5, 6, 8}, {1, 2, 3, 5}, {1, 2, 5}, {1, 3}, {1}};
        static const uint32_t set_counts[] = {8, 4, 3, 2, 1};
        int first = (int)floor(log10(a->low)), last = (int)ceil(log10(a->high));
        for (int step = 1; step <= 64; step++)
            for (size_t set = step == 1 ? 0 : 4; set < 5; set++) {
                count = 0;
                for (int e = first; e <= last; e += step)
                    for (uint32_t m = 0; m < set_counts[set]; m++) {
                        double value = sets[set][m] * pow(10, e);
                        if (value < a->low || value > a->high) continue;
                        if (count < most) ticks[count] = value;
                        count++;
                    }
                if (count <= most) return count;
            }
        return most;
    }
    double step = pow(10, floor(log10(a->high - a->low)));
    static const double factors[] = {0.1, 0.2, 0.5, 1, 2, 5};
    for (size_t f = 0; f < sizeof factors / sizeof *factors; f++) {
        double by = step * factors[f], from = ceil(a->low / by);
        count = (uint32_t)(floor(a->high / by) - from) + 1;
        if (count > most) continue;
        for (uint32_t i = 0; i < count; i++) ticks[i] = (from + i) * by;
        return count;
    }
    return 0;
}

double page_down(const struct page_axis *y, double value) { return HEIGHT * (1 - axis_at(y, value)); }
double page_across(const struct page_axis *x, double value) { return 100 * axis_at(x, value); }

void page_plot_begin(struct page *p, const char *label, const struct page_axis *x, const char *x_name,
                     const struct page_axis *y, const char *y_name)
{
    double ticks[TICKS_MAX];
    fprintf(p->out,
            "<div class=\"plot\"><svg role=\"img\" aria-label=\"%s\" height=\"%.0f\">\n"
            "<text x=\"0\" dx=\"-44\" y=\"-8\">%s</text>\n",
            label, HEIGHT, y_name);
    uint32_t count = axis_ticks(y, 6, ticks);
    for (uint32_t t = 0; t < count; t++)
        fprintf(p->out,
                "<line class=\"grid\" x1=\"0\" x2=\"100%%\" y1=\"%.1f\" y2=\"%.1f\"/>"
                "<text x=\"0\" dx=\"-8\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n",
                page_down(y, ticks[t]), page_down(y, ticks[t]), page_down(y, ticks[t]) + 4,
                words_short(WORDS, ticks[t]));
    count = axis_ticks(x, 5, ticks);
    for (uint32_t t = 0; t < count; t++)
        fprintf(p->out,
                "<line class=\"grid\" x1=\"%.2f%%\" x2=\"%.2f%%\" y1=\"%.1f\" y2=\"%.1f\"/>"
                "<text x=\"%.2f%%\" y=\"%.1f\" text-anchor=\"middle\">%s</text>\n",
                page_across(x, ticks[t]), page_across(x, ticks[t]), HEIGHT, HEIGHT + 5, page_across(x, ticks[t]),
                HEIGHT + 19, words_short(WORDS, ticks[t]));
    fprintf(p->out,
            "<line class=\"grid\" x1=\"0\" x2=\"100%%\" y1=\"%.1f\" y2=\"%.1f\"/>"
            "<text x=\"100%%\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n",
            HEIGHT, HEIGHT, HEIGHT + 36, x_name);
}

void page_plot_end(struct page *p) { fprintf(p->out, "</svg></div>\n"); }

void page_curve_begin(struct page *p, const char *class, const char *dashes)
{
    fprintf(
        p->out,
        "<svg x=\"0\" y=\"0\" width=\"100%%\" height=\"%.0f\" viewBox=\"0 0 1000 1000\" preserveAspectRatio=\"none\" "
        "aria-hidden=\"true\"><path class=\"curve %s\"%s%s%s d=\"",
        HEIGHT, class, dashes[0] ? " stroke-dasharray=\"" : "", dashes, dashes[0] ? "\"" : "");
}
void page_curve_point(struct page *p, char command, const struct page_axis *x, const struct page_axis *y,
                      double value_x, double value_y)
{
    fprintf(p->out, "%c%.1f %.1f", command, 1000 * axis_at(x, value_x), 1000 * (1 - axis_at(y, value_y)));
}
void page_curve_end(struct page *p) { fprintf(p->out, "\"/></svg>\n"); }

/* --- labels that keep apart ------------------------------------------------------------------- */

#define LABELS_MAX 64
/* Boxes of labels, in pixels of the narrowest drawing. */
struct labels {
    struct label_box {
        double left, top, right, bottom;
    } boxes[LABELS_MAX];
    uint32_t count;
};
static bool label_is_free(const struct labels *labels, const struct label_box *box)
{
    if (box->left < 0 || box->right > NARROW_WIDTH || box->top < -4 || box->bottom > HEIGHT) return false;
    for (uint32_t i = 0; i < labels->count; i++) {
        const struct label_box *o = &labels->boxes[i];
        if (box->left < o->right && o->left < box->right && box->top < o->bottom && o->top < box->bottom) return false;
    }
    return true;
}
static void label_take(struct labels *labels, const struct label_box *box)
{
    if (labels->count < LABELS_MAX) labels->boxes[labels->count++] = *box;
}

/* Writes a label beside a place, where it overlaps no other. */
static void label_write(struct page *p, struct labels *labels, double percent, double down, const char *text,
                        const char *class, bool is_above)
{
    static const struct {
        double dx, dy;
        const char *anchor;
    } places[] = {{11, 4, "start"},   {-11, 4, "end"},   {0, -11, "middle"}, {0, 20, "middle"},  {10, -9, "start"},
                  {10, 18, "start"},  {-10, -9, "end"},  {-10, 18, "end"},   {0, -26, "middle"}, {0, 36, "middle"},
                  {24, -22, "start"}, {-24, -22, "end"}, {24, 30, "start"},  {-24, 30, "end"}};
    enum { PLACE_ABOVE = 2 };
    const size_t place_count = sizeof places / sizeof *places;
    double width = 7.2 * words_width(text), across = percent / 100 * NARROW_WIDTH;
    size_t at = is_above ? PLACE_ABOVE : 0;
    struct label_box box = {0};
    for (; at < place_count; at++) {
        double left = across + places[at].dx;
        if (places[at].anchor[0] == 'm') left -= width / 2;
        if (places[at].anchor[0] == 'e') left -= width;
        box = (struct label_box){left, down + places[at].dy - 12, left + width, down + places[at].dy + 2};
        if (label_is_free(labels, &box)) break;
    }
    if (at == place_count) at = is_above ? PLACE_ABOVE : percent < 50 ? 0 : 1;
    label_take(labels, &box);
    fprintf(p->out, "<text class=\"halo %s\" x=\"%.2f%%\" dx=\"%.0f\" y=\"%.1f\" text-anchor=\"%s\">%s</text>\n", class,
            percent, places[at].dx, down + places[at].dy, places[at].anchor, text);
}

/* --- the pipeline over time ------------------------------------------------------------------- */

#define BATCH_COUNT      8u
#define BATCH_FOLLOWED   3u /* the batch in the accent colour */
#define PIPELINE_ROWS    40u
#define PIPELINE_ROW     46.0
#define PIPELINE_AXIS    22.0
#define PIPELINE_NUMBERS 3.6 /* per cent of the width: the least for a number */

struct pipeline_block {
    double compute, computed, move, moved; /* seconds: begins and ends */
};

/* A stage computes a batch once the batch has come and the one before is computed, and moves it on once it is
 * computed and the one before has moved: in the long run a stage takes the longer of both for a batch. */
static double pipeline_run(const struct page *p, struct pipeline_block *blocks)
{
    uint32_t S = p->chosen->stage_count;
    for (uint32_t stage = 0; stage < S; stage++) {
        const struct cost_time *time = &p->chosen->stages[stage].time;
        double k = p->chosen->stages[stage].k, batch = p->instance->batch;
        double compute = (time->compute + time->compute_shared / k) * batch,
               move = (time->move + time->move_shared / k) * batch;
        for (uint32_t b = 0; b < BATCH_COUNT; b++) {
            struct pipeline_block *block = &blocks[stage * BATCH_COUNT + b], *before = b > 0 ? block - 1 : NULL;
            block->compute = stage > 0 ? blocks[(stage - 1) * BATCH_COUNT + b].moved : 0;
            if (before) block->compute = fmax(block->compute, before->computed);
            block->computed = block->compute + compute;
            block->move = fmax(block->computed, before ? before->moved : 0);
            block->moved = block->move + move;
        }
    }
    return blocks[S * BATCH_COUNT - 1].moved;
}

static void pipeline_block_write(struct page *p, const struct pipeline_block *block, uint32_t batch, double end,
                                 double top, const char *stage)
{
    const char *class = batch + 1 == BATCH_FOLLOWED ? " first" : "";
    double left = 100 * block->compute / end, width = 100 * (block->computed - block->compute) / end;
    fprintf(p->out,
            "<rect class=\"block%s\" x=\"%.3f%%\" y=\"%.1f\" width=\"%.3f%%\" height=\"16\">"
            "<title>batch %u in %s: computes from %s to %s</title></rect>",
            class, left, top, width, batch + 1, stage, words_seconds(WORDS, block->compute),
            words_seconds(WORDS, block->computed));
    if (width >= PIPELINE_NUMBERS)
        fprintf(p->out, "<text class=\"%s\" x=\"%.3f%%\" y=\"%.1f\" text-anchor=\"middle\">%u</text>",
                class[0] ? "on" : "strong", left + width / 2, top + 12.5, batch + 1);
    fprintf(p->out,
            "<rect class=\"block%s\" x=\"%.3f%%\" y=\"%.1f\" width=\"%.3f%%\" height=\"5\">"
            "<title>batch %u in %s: moves on from %s to %s</title></rect>\n",
            class, 100 * block->move / end, top + 17, 100 * (block->moved - block->move) / end, batch + 1, stage,
            words_seconds(WORDS, block->move), words_seconds(WORDS, block->moved));
}

/* "2 ms" where words_seconds says "2.00 ms". */
static char *tick_seconds(char buffer[WORDS_BYTES], double seconds)
{
    words_seconds(buffer, seconds);
    char *unit = strchr(buffer, ' '), *end = unit;
    if (strchr(buffer, '.') == NULL || unit == NULL) return buffer;
    while (end[-1] == '0') end--;
    if (end[-1] == '.') end--;
    memmove(end, unit, strlen(unit) + 1);
    return buffer;
}

status page_pipeline(struct page *p)
{
    uint32_t S = p->chosen->stage_count, rows = S < PIPELINE_ROWS ? S : PIPELINE_ROWS;
    struct pipeline_block *blocks = calloc((size_t)S * BATCH_COUNT, sizeof *blocks);
    if (blocks == NULL) FAIL(MEMORY, "no memory to draw %u stages", S);
    double end = pipeline_run(p, blocks), height = rows * PIPELINE_ROW + 4;
    struct page_axis time = {0, end, false};
    double ticks[TICKS_MAX];
    fprintf(p->out,
            "<section id=\"pipeline\" aria-labelledby=\"pipeline-title\">\n"
            "<h2 id=\"pipeline-title\">The pipeline over time</h2>\n"
            "<p class=\"note\">The first %u batches of %s examples on their way through the stages, "
            "by the predicted times, forward and backward together. Tall: computing; thin: moving on. "
            "Batch %u is the one to follow. In the long run a batch is done every %s.</p>\n"
            "<div class=\"plot flat\"><svg role=\"img\" aria-label=\"Batches in %s over time\" height=\"%.0f\">\n",
            BATCH_COUNT, words_count(WORDS, p->instance->batch), BATCH_FOLLOWED,
            words_seconds(WORDS, p->instance->batch / p->chosen->result.throughput), words_plural(WORDS, S, "stage"),
            height + PIPELINE_AXIS);
    uint32_t count = axis_ticks(&time, 5, ticks);
    for (uint32_t t = 0; t < count; t++) {
        double across = page_across(&time, ticks[t]);
        fprintf(p->out,
                "<line class=\"grid\" x1=\"%.2f%%\" x2=\"%.2f%%\" y1=\"0\" y2=\"%.1f\"/>"
                "<text x=\"%.2f%%\" y=\"%.1f\" text-anchor=\"%s\">%s</text>\n",
                across, across, height, across, height + 16,
                across < 4    ? "start"
                : across > 92 ? "end"
                              : "middle",
                ticks[t] == 0 ? "0" : tick_seconds(WORDS, ticks[t]));
    }
    for (uint32_t row = 0; row < rows; row++) {
        const struct cost_stage *stage = &p->chosen->stages[row];
        double top = row * PIPELINE_ROW;
        const char *name = STAGE_NAME(p, stage, 14);
        fprintf(p->out, "<text class=\"halo\" x=\"0\" y=\"%.1f\">%u. %s on %s</text>\n", top + 13, row + 1, name,
                TYPE_NAME(p, stage->type, 12));
        for (uint32_t b = 0; b < BATCH_COUNT; b++)
            pipeline_block_write(p, &blocks[row * BATCH_COUNT + b], b, end, top + 19, name);
    }
    fprintf(p->out, "</svg></div>\n");
    if (rows < S)
        fprintf(p->out, "<p class=\"key\">%s more are left out.</p>\n", words_plural(WORDS, S - rows, "stage"));
    fprintf(p->out, "</section>\n");
    free(blocks);
    return ST_OK;
}

/* --- cost against throughput ------------------------------------------------------------------ */

#define SWEEP_ROOM 400u
#define NEAR_X     2.5 /* per cent; points nearer than this … */
#define NEAR_Y     9.0 /* … and this, in pixels, share a label */

/* The plan's provisions from a third of its throughput on, or of the asked one if that is less. */
static uint32_t sweep(struct page *p, struct explain_point points[SWEEP_ROOM])
{
    double from = p->chosen->result.throughput;
    if (page_has_limit(p)) from = fmin(from, p->instance->throughput_limit);
    return explain_provisions(&p->model, p->chosen, from / 3, p->stages, points, SWEEP_ROOM);
}

static bool is_near(const struct page_mark *one, const struct page_mark *other)
{
    return one->is_there && other->is_there && fabs(one->across - other->across) <= NEAR_X &&
           fabs(one->down - other->down) <= NEAR_Y;
}

/* "1–5 7": numbers of the methods whose marks are near that of `at`; "" if an earlier near mark has them. */
static char *near_numbers(const struct page *p, uint32_t at, char *buffer, size_t bytes)
{
    size_t used = 0;
    buffer[0] = 0;
    for (uint32_t i = 0; i < at; i++)
        if (is_near(&p->marks[i], &p->marks[at])) return buffer;
    for (uint32_t i = at; i < p->count; i++) {
        uint32_t first = i;
        if (!is_near(&p->marks[i], &p->marks[at]) || used + 24 > bytes) continue;
        while (i + 1 < p->count && is_near(&p->marks[i + 1], &p->marks[at])) i++;
        used += (size_t)snprintf(buffer + used, bytes - used, "%s%u", used ? " " : "", first + 1);
        if (i > first)
            used += (size_t)snprintf(buffer + used, bytes - used, "%s%u", i > first + 1 ? "\u2013" : " ", i + 1);
    }
    return buffer;
}

/* Writes the marks and their numbers, from the last on, so that the chosen one lies on top. */
static void marks_write(struct page *p, bool is_above)
{
    struct labels labels = {0};
    for (uint32_t i = p->count; i-- > 0;) {
        const struct solution *s = &p->solutions[i];
        const struct cost_result *r = &s->result;
        double across = p->marks[i].across, down = p->marks[i].down, narrow_x = across / 100 * NARROW_WIDTH;
        if (!p->marks[i].is_there) continue;
        label_take(&labels, &(struct label_box){narrow_x - 5, down - 5, narrow_x + 5, down + 5});
        fprintf(p->out,
                "<circle class=\"mark%s\" cx=\"%.2f%%\" cy=\"%.1f\" r=\"%s\"%s>"
                "<title>%s: %s, %s examples/s%s</title></circle>\n",
                i == 0 ? " first" : "", across, down, i > 0 ? "4" : "6",
                r->is_feasible ? "" : " stroke-dasharray=\"2 2\"", ESCAPED(s->method, 40), words_usd(WORDS, r->cost),
                words_number(WORDS, r->throughput, 4), r->is_feasible ? "" : ", infeasible");
    }
    for (uint32_t i = 0; i < p->count; i++) {
        char text[256];
        if (!p->marks[i].is_there || !near_numbers(p, i, text, sizeof text)[0]) continue;
        label_write(p, &labels, p->marks[i].across, p->marks[i].down, text, i == 0 ? "strong" : "", is_above);
    }
}

/* Writes "1 exact (this plan)  2 rl …" for the marks. */
static void marks_key(struct page *p)
{
    fprintf(p->out, "<p class=\"key\">");
    for (uint32_t i = 0; i < p->count; i++)
        if (p->marks[i].is_there)
            fprintf(p->out, "<span><b>%u</b> %s%s</span>", i + 1, ESCAPED(p->solutions[i].method, 40),
                    i == 0 ? " (this plan)" : "");
    fprintf(p->out, "</p>\n");
}

status page_throughput(struct page *p)
{
    struct explain_point *points = calloc(SWEEP_ROOM, sizeof *points);
    if (points == NULL) FAIL(MEMORY, "no memory to draw %u points", SWEEP_ROOM);
    uint32_t count = sweep(p, points);
    struct page_range xs = {0}, ys = {0};
    for (uint32_t i = 0; i < count; i++) {
        page_range_add(&xs, points[i].throughput);
        page_range_add(&ys, points[i].cost);
    }
    for (uint32_t i = 0; i < p->count; i++) {
        const struct cost_result *r = &p->solutions[i].result;
        if (!(r->throughput > 0)) continue;
        page_range_add(&xs, r->throughput);
        page_range_add(&ys, r->cost);
    }
    if (page_has_limit(p)) page_range_add(&xs, p->instance->throughput_limit);
    struct page_axis x = page_axis_of(&xs, 4), y = page_axis_of(&ys, 4);
    fprintf(p->out,
            "<section id=\"throughput\" aria-labelledby=\"throughput-title\">\n"
            "<h2 id=\"throughput-title\">Cost against throughput</h2>\n"
            "<p class=\"note\">The line is this plan with the fewest units for each throughput, "
            "to the greatest that the limits allow; points are the methods' plans, dashed ones infeasible.%s</p>\n",
            page_has_limit(p) ? " Left of the dashed line is less than what is asked." : "");
    page_plot_begin(p, "Cost in USD against throughput in examples a second", &x, "examples/s", &y, "USD");
    if (page_has_limit(p)) {
        double at = page_across(&x, p->instance->throughput_limit);
        fprintf(p->out,
                "<rect class=\"below\" x=\"0\" y=\"0\" width=\"%.2f%%\" height=\"%.0f\"/>"
                "<line class=\"limit\" x1=\"%.2f%%\" x2=\"%.2f%%\" y1=\"0\" y2=\"%.0f\"/>"
                "<text x=\"%.2f%%\" dx=\"%d\" y=\"-8\" text-anchor=\"%s\">asked: %s</text>\n",
                at, HEIGHT, at, at, HEIGHT, at, at > 70 ? 4 : 0,
                at > 70   ? "end"
                : at < 30 ? "start"
                          : "middle",
                words_short(WORDS, p->instance->throughput_limit));
    }
    if (count > 0) {
        page_curve_begin(p, "first", "");
        for (uint32_t i = 0; i < count; i++)
            page_curve_point(p, i ? 'L' : 'M', &x, &y, points[i].throughput, points[i].cost);
        page_curve_end(p);
    }
    for (uint32_t i = 0; i < p->count; i++) {
        const struct cost_result *r = &p->solutions[i].result;
        p->marks[i] = (struct page_mark){r->throughput > 0, page_across(&x, r->throughput), page_down(&y, r->cost)};
    }
    marks_write(p, false);
    page_plot_end(p);
    marks_key(p);
    fprintf(p->out, "</section>\n");
    free(points);
    return ST_OK;
}

/* --- learning curves -------------------------------------------------------------------------- */

/* The first point of a curve with a feasible plan; curve_count if there is none,
 * or if the method does not search. */
static uint32_t curve_begins(const struct solution *s)
{
    uint32_t at = 0, method = method_find(s->method);
    if (method < METHOD_ID_COUNT && method_table[method].kind == METHOD_FIXED) return s->curve_count;
    while (at < s->curve_count && !isfinite(s->curve[at].cost)) at++;
    return at;
}

static double evaluations_at(const struct search_point *point) { return fmax(1, (double)point->evaluations); }

static void learning_curve(struct page *p, uint32_t at, const char *dashes, const struct page_axis *x,
                           const struct page_axis *y)
{
    const struct solution *s = &p->solutions[at];
    uint32_t from = curve_begins(s);
    const struct search_point *first = &s->curve[from], *last = &s->curve[s->curve_count - 1];
    p->marks[at] = (struct page_mark){true, page_across(x, evaluations_at(first)), page_down(y, first->cost)};
    page_curve_begin(p, at == 0 ? "first" : "", dashes);
    page_curve_point(p, 'M', x, y, evaluations_at(first), first->cost);
    for (const struct search_point *point = first + 1; point <= last; point++) {
        page_curve_point(p, 'L', x, y, evaluations_at(point), point[-1].cost);
        page_curve_point(p, 'L', x, y, evaluations_at(point), point->cost);
    }
    page_curve_point(p, 'L', x, y, fmax(evaluations_at(last), (double)s->evaluations), last->cost);
    page_curve_end(p);
}

void page_learning(struct page *p)
{
    static const char *const dashes[] = {"", "7 4", "2 3", "10 3 2 3", "4 2", "1 4", "12 5"};
    struct page_range xs = {0}, ys = {0};
    uint32_t curve_count = 0;
    for (uint32_t i = 0; i < p->count; i++) {
        const struct solution *s = &p->solutions[i];
        uint32_t from = curve_begins(s);
        p->marks[i].is_there = false;
        if (from == s->curve_count) continue;
        curve_count++;
        page_range_add(&xs, evaluations_at(&s->curve[from]));
        page_range_add(&xs, fmax(evaluations_at(&s->curve[s->curve_count - 1]), (double)s->evaluations));
        page_range_add(&ys, s->curve[from].cost);
        page_range_add(&ys, s->curve[s->curve_count - 1].cost);
    }
    if (curve_count == 0) return;
    struct page_axis x = page_axis_of(&xs, 10), y = page_axis_of(&ys, 4);
    fprintf(p->out,
            "<section id=\"learning\" aria-labelledby=\"learning-title\">\n<h2 id=\"learning-title\">Learning</h2>\n"
            "<p class=\"note\">Cost of the best plan so far against the number of plans evaluated, "
            "of the methods that search.</p>\n");
    page_plot_begin(p, "Cost of the best plan so far against evaluations", &x, "evaluations", &y, "USD");
    for (uint32_t i = 0, drawn = 0; i < p->count; i++)
        if (curve_begins(&p->solutions[i]) < p->solutions[i].curve_count)
            learning_curve(p, i, dashes[drawn++ % (sizeof dashes / sizeof *dashes)], &x, &y);
    marks_write(p, true);
    page_plot_end(p);
    marks_key(p);
    fprintf(p->out, "</section>\n");
}
