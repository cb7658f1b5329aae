/* Sections of the page about placements, in the order of reading. */
#include "sched/trees/page_trees.h"

#include <math.h>
#include <stdlib.h>

#include "engine/base/file.h"
#include "sched/page_parts.h"

#define TENSOR_BYTES (4e6) /* the paper's messages: 1000 by 1000 floats */

static void section_begin(FILE *out, const char *id, const char *title)
{
    fprintf(out, "<section id=\"%s\" aria-labelledby=\"%s-title\">\n<h2 id=\"%s-title\">%s</h2>\n", id, id, id, title);
}

/* --- headline ----------------------------------------------------------------------------------- */

/* Finds the grid's cell where ours gains most; false: there is no grid. */
static bool best_find(const struct trees_report *r, uint32_t *memory, uint32_t *batch)
{
    double best = 0;
    for (uint32_t a = 0; a < REPORT_MEMORIES && r->has_grid; a++)
        for (uint32_t b = 0; b < REPORT_BATCHES; b++) {
            if (report_gain(&r->grid[a][b]) <= best) continue;
            best = report_gain(&r->grid[a][b]);
            *memory = a, *batch = b;
        }
    return best > 0;
}

static void fact(FILE *out, const char *class, const char *name, const char *value, const char *text)
{
    fprintf(out, "<div%s><dt>%s</dt><dd><strong>%s</strong>%s</dd></div>\n", class, name, value, text);
}

static void headline(FILE *out, const struct trees_report *r)
{
    char value[64], text[256];
    uint32_t a = 0, b = 0;
    fprintf(out,
            "<header>\n"
            "<h1>Where the nodes of trees go: %s</h1>\n"
            "<p class=\"note\">On %s of type %s, one measured here, and a card of type %s, its rates declared in %s; "
            "forward passes of random binary trees of %u to %u words.</p>\n"
            "<dl class=\"facts\">\n",
            ESCAPED(r->graph, 80), words_plural(WORDS, r->cores, "core"), ESCAPED(r->host, 40), ESCAPED(r->card, 40),
            ESCAPED(r->cluster, 80), r->leaves_min, r->leaves_max);
    if (best_find(r, &a, &b)) {
        snprintf(value, sizeof value, "%.2f ×", report_gain(&r->grid[a][b]));
        snprintf(text, sizeof text, "as fast as the best single device: memory %u, %s", report_memories[a],
                 words_plural(WORDS, report_batches[b], "tree"));
        fact(out, " class=\"first\"", "Mixed placement, at best", value, text);
    }
    snprintf(value, sizeof value, "%.2f ×", report_gain(&r->batch));
    snprintf(text, sizeof text, "memory %u, %s at once", r->memory, words_plural(WORDS, r->trees, "tree"));
    fact(out, r->has_grid ? "" : " class=\"first\"", "Asked for", value, text);
    double learned = 0, climbed = 0;
    for (uint32_t memory = 0; memory < (r->has_grid ? REPORT_MEMORIES : 1); memory++) {
        learned = fmax(learned, r->small[memory].learned_ratio);
        climbed = fmax(climbed, r->small[memory].polished_ratio);
    }
    snprintf(value, sizeof value, "%.3f", climbed);
    snprintf(text, sizeof text, "of the optimum on trees of 2 to 5 words, at most; without climbing %.3f", learned);
    fact(out, "", "Ours over exact", value, text);
    fact(out, "", "Learned in", words_seconds(WORDS, r->batch.learn_seconds), "of one core");
    fprintf(out, "</dl>\n</header>\n");
}

/* --- policies ----------------------------------------------------------------------------------- */

static void policy_row(FILE *out, const struct study *s, uint32_t policy, double most)
{
    const struct study_figure *f = &s->figure[policy];
    const double mean = study_range_mean(&f->seconds);
    if (f->seconds.count == 0) return;
    fprintf(out, "<li><div><b>%s</b><small>%s</small></div>\n", study_names[policy].name, study_names[policy].meaning);
    fprintf(out,
            "<div><span class=\"bar%s\" role=\"img\" aria-label=\"%s\"><i style=\"width:%.2f%%\"></i></span></div>\n"
            "<div class=\"figures\">%s",
            policy >= STUDY_learned ? "" : " other", words_seconds(WORDS, mean), 100 * mean / most,
            words_seconds(WORDS, mean));
    if (f->seconds.count > 1)
        fprintf(out, "<br/>%s to %s", words_seconds(WORDS, f->seconds.least),
                words_seconds(WORDS, f->seconds.greatest));
    fprintf(out, "<br/>%.0f launches<br/>messages %.1f, %s<br/>decided in %s</div></li>\n", f->launches, f->transfers,
            words_bytes(WORDS, f->transfer_bytes), words_seconds(WORDS, f->placing_seconds));
}

static void policies(FILE *out, const struct trees_report *r, const struct study *s, const char *id, const char *title,
                     double nodes)
{
    double most = 0;
    section_begin(out, id, title);
    for (uint32_t policy = 0; policy < STUDY_POLICY_COUNT; policy++)
        most = fmax(most, study_range_mean(&s->figure[policy].seconds));
    fprintf(out,
            "<p class=\"note\">Memory %u, %.0f nodes and as many outputs on average, on the processor and one card; "
            "time of all of them, mean of %u lists of trees that nothing has learned from, "
            "with least and greatest of %u seeds. No placement takes less than %s. Figures 10 to 12 of the paper.</p>\n"
            "<ol class=\"rows\">\n",
            r->memory, nodes,
            s == &r->one     ? 10
            : r->trees <= 16 ? 10
            : r->trees <= 64 ? 4
                             : 2,
            r->seeds, words_seconds(WORDS, s->bound_seconds));
    for (uint32_t policy = 0; policy < STUDY_POLICY_COUNT; policy++) policy_row(out, s, policy, most);
    fprintf(out, "</ol>\n</section>\n");
}

/* --- learning ----------------------------------------------------------------------------------- */

static void band_point(FILE *out, char command, uint32_t window, double ratio, const struct page_axis *x,
                       const struct page_axis *y)
{
    fprintf(out, "%c%.1f %.1f", command, 10 * page_across(x, 100. * (window + 1) / STUDY_WINDOWS),
            1000 * page_down(y, ratio) / PAGE_PLOT_HEIGHT);
}

/* Draws the band between the least and the greatest of the seeds. */
static void band_draw(FILE *out, const struct study_curve *c, const struct page_axis *x, const struct page_axis *y)
{
    fprintf(out,
            "<svg x=\"0\" y=\"0\" width=\"100%%\" height=\"%.0f\" viewBox=\"0 0 1000 1000\" "
            "preserveAspectRatio=\"none\" aria-hidden=\"true\"><path class=\"below\" d=\"",
            PAGE_PLOT_HEIGHT);
    for (uint32_t w = 0; w < STUDY_WINDOWS; w++) band_point(out, w ? 'L' : 'M', w, c->ratio[w].greatest, x, y);
    for (uint32_t w = STUDY_WINDOWS; w-- > 0;) band_point(out, 'L', w, c->ratio[w].least, x, y);
    fprintf(out, "\"/></svg>\n");
}

static void curve_draw(struct page *p, const struct study_curve *c, const struct page_axis *x,
                       const struct page_axis *y, bool is_first)
{
    const uint32_t last = STUDY_WINDOWS - 1;
    if (c->ratio[last].count == 0) return;
    band_draw(p->out, c, x, y);
    page_curve_begin(p, is_first ? "first" : "", is_first ? "" : "7 4");
    for (uint32_t w = 0; w <= last; w++)
        page_curve_point(p, w ? 'L' : 'M', x, y, 100. * (w + 1) / STUDY_WINDOWS, study_range_mean(&c->ratio[w]));
    page_curve_end(p);
}

static void curve_range(const struct study_curve *c, struct page_range *range)
{
    for (uint32_t w = 0; w < STUDY_WINDOWS; w++) {
        if (c->ratio[w].count == 0) continue;
        page_range_add(range, c->ratio[w].least);
        page_range_add(range, c->ratio[w].greatest);
    }
}

static void level_draw(struct page *p, const struct page_axis *y, double value, const char *name)
{
    if (value < y->low || value > y->high) return;
    fprintf(p->out,
            "<line class=\"limit\" x1=\"0\" x2=\"100%%\" y1=\"%.1f\" y2=\"%.1f\"/>"
            "<text class=\"halo\" x=\"100%%\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n",
            page_down(y, value), page_down(y, value), page_down(y, value) - 5, name);
}

static void learning(struct page *p, const struct study *s, const char *id, const char *title, bool has_dqn)
{
    struct page_range range = {0};
    const double host = study_range_mean(&s->figure[STUDY_host].seconds);
    section_begin(p->out, id, title);
    fprintf(p->out,
            "<p class=\"note\">What is sampled while it is learned, over all on the processor: means, with least and "
            "greatest of the seeds shaded. Ours (line) in %u updates of 16 placements%s. Figure 12.</p>\n",
            s->learned.window_steps * STUDY_WINDOWS,
            has_dqn ? ", DQN (dashes) in its episodes, outputs not counted" : "");
    if (s->noisy.count > 0)
        fprintf(p->out,
                "<p class=\"note\">Learned from passes that take 1 + 3 e times as long, e exponential, "
                "as on a machine that others use (figure 13), it ends at %s, %s to %s; without, at %s.</p>\n",
                words_seconds(WORDS, study_range_mean(&s->noisy)), words_seconds(WORDS, s->noisy.least),
                words_seconds(WORDS, s->noisy.greatest),
                words_seconds(WORDS, study_range_mean(&s->figure[STUDY_learned].seconds)));
    curve_range(&s->learned, &range);
    if (has_dqn) curve_range(&s->dqn, &range);
    page_range_add(&range, study_range_mean(&s->figure[STUDY_card].seconds) / host);
    page_range_add(&range, 1);
    const struct page_axis x = {0, 100, false}, y = page_axis_of(&range, 4);
    page_plot_begin(p, "Time over all on the processor against the share of learning", &x, "% of learning", &y,
                    "of all on the processor");
    level_draw(p, &y, 1, "all on the processor");
    level_draw(p, &y, study_range_mean(&s->figure[STUDY_card].seconds) / host, "all on the card");
    if (has_dqn) curve_draw(p, &s->dqn, &x, &y, false);
    curve_draw(p, &s->learned, &x, &y, true);
    page_plot_end(p);
    fprintf(p->out, "</section>\n");
}

/* --- the grid ----------------------------------------------------------------------------------- */

static void grid_cell(FILE *out, const struct study *s)
{
    const double gain = report_gain(s), host = study_range_mean(&s->figure[STUDY_host].seconds),
                 card = study_range_mean(&s->figure[STUDY_card].seconds),
                 ours = fmin(study_range_mean(&s->figure[STUDY_learned].seconds),
                             study_range_mean(&s->figure[STUDY_polished].seconds));
    const double shade = fmin(0.6, fmax(0, 1.8 * (gain - 1)));
    fprintf(out,
            "<td style=\"background:rgba(var(--tint),%.2f)\"><b>%.2f</b><br/>"
            "<small>%s of ours<br/>%s: %s<br/>%.2f of the bound</small></td>",
            shade, gain, words_seconds(WORDS, ours), host < card ? "processor" : "card",
            words_seconds(WORDS, fmin(host, card)), ours / s->bound_seconds);
}

static void grid(FILE *out, const struct trees_report *r)
{
    if (!r->has_grid) return;
    section_begin(out, "grid", "Where mixed placement pays");
    fprintf(out, "<p class=\"note\">The best single device's time over ours, by memory and by trees at once: "
                 "1.00 is where one device alone is as good.</p>\n"
                 "<div class=\"box\" role=\"region\" tabindex=\"0\" aria-label=\"gains\">\n"
                 "<table class=\"heat\">\n"
                 "<thead><tr><th scope=\"col\">memory</th>");
    for (uint32_t b = 0; b < REPORT_BATCHES; b++)
        fprintf(out, "<th scope=\"col\">%s</th>", words_plural(WORDS, report_batches[b], "tree"));
    fprintf(out, "</tr></thead>\n<tbody>\n");
    for (uint32_t a = 0; a < REPORT_MEMORIES; a++) {
        fprintf(out, "<tr><th scope=\"row\">%u</th>", report_memories[a]);
        for (uint32_t b = 0; b < REPORT_BATCHES; b++) grid_cell(out, &r->grid[a][b]);
        fprintf(out, "</tr>\n");
    }
    fprintf(out, "</tbody></table></div>\n</section>\n");
}

/* --- tables ------------------------------------------------------------------------------------- */

static void table_begin(FILE *out, const char *label, const char *const *columns)
{
    fprintf(out, "<div class=\"box\" role=\"region\" tabindex=\"0\" aria-label=\"%s\">\n<table><thead><tr>", label);
    for (size_t i = 0; columns[i]; i++)
        fprintf(out, "<th scope=\"col\"%s>%s</th>", i == 0 ? " class=\"left\"" : "", columns[i]);
    fprintf(out, "</tr></thead>\n<tbody>\n");
}
static void table_end(FILE *out) { fprintf(out, "</tbody></table></div>\n</section>\n"); }

static void transfers(FILE *out, const struct trees_report *r)
{
    static const char *const columns[] = {"from", "to", "a message of a node", "4 MB", "rate of 4 MB", NULL};
    const struct place_machine *m = &r->machine;
    const struct place_link up = m->link[0][1], back = m->link[1][0],
                            over = {up.latency + back.latency, up.a_byte + back.a_byte};
    const struct {
        const char *from, *to;
        struct place_link link;
    } rows[] = {{"processor", "card", up}, {"card", "processor", back}, {"card", "another card", over}};
    section_begin(out, "transfers", "Transfers");
    fprintf(out,
            "<p class=\"note\">Declared: %s a message beside its bytes. "
            "4 MB are a tensor of 1000 by 1000, as in figure 7.</p>\n",
            words_seconds(WORDS, up.latency));
    table_begin(out, "transfers", columns);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct place_link *l = &rows[i].link;
        const double seconds = l->latency + TENSOR_BYTES * l->a_byte;
        fprintf(out, "<tr><th scope=\"row\">%s</th><td>%s</td><td>%s</td><td>%s</td><td>%s/s</td></tr>\n", rows[i].from,
                rows[i].to, words_seconds(WORDS, l->latency + m->bytes[0] * l->a_byte), words_seconds(WORDS, seconds),
                words_bytes(WORDS, TENSOR_BYTES / seconds));
    }
    table_end(out);
}

static void synchronous(FILE *out, const struct trees_report *r)
{
    static const char *const columns[] = {"policy",       "one tree, one after the other",
                                          "side by side", "a batch, one after the other",
                                          "side by side", NULL};
    section_begin(out, "synchronous", "One after the other, or side by side");
    fprintf(out, "<p class=\"note\">Devices and links that wait for each other, as a single thread has them, "
                 "against such that work side by side (figure 8); learned policies are learned for each.</p>\n");
    table_begin(out, "synchronous and asynchronous", columns);
    for (uint32_t policy = 0; policy < STUDY_POLICY_COUNT; policy++) {
        if (policy == STUDY_dqn || r->batch.figure[policy].seconds.count == 0) continue;
        const struct study *const of[] = {&r->one_synchronous, &r->one, &r->batch_synchronous, &r->batch};
        fprintf(out, "<tr><th scope=\"row\">%s</th>", study_names[policy].name);
        for (int i = 0; i < 4; i++)
            fprintf(out, "<td>%s</td>", words_seconds(WORDS, study_range_mean(&of[i]->figure[policy].seconds)));
        fprintf(out, "</tr>\n");
    }
    table_end(out);
}

static void cards(FILE *out, const struct trees_report *r)
{
    static const char *const columns[] = {"cards",    "random", "climbed", "learned", "learned, climbed",
                                          "messages", NULL};
    static const enum study_policy shown[] = {STUDY_random, STUDY_climbed, STUDY_learned, STUDY_polished};
    section_begin(out, "cards", "Number of cards");
    fprintf(out,
            "<p class=\"note\">Time of %s beside the processor (figure 9): more devices make a random placement "
            "slower, for values travel; a policy leaves cards out that do not help.</p>\n",
            words_plural(WORDS, r->trees, "tree"));
    table_begin(out, "cards", columns);
    for (uint32_t count = 0; count <= r->card_max; count++) {
        fprintf(out, "<tr><th scope=\"row\">%u</th>", count);
        for (size_t i = 0; i < sizeof shown / sizeof *shown; i++)
            fprintf(out, "<td>%s</td>",
                    words_seconds(WORDS, study_range_mean(&r->cards[count].figure[shown[i]].seconds)));
        fprintf(out, "<td>%.1f</td></tr>\n", r->cards[count].figure[STUDY_polished].transfers);
    }
    table_end(out);
}

static void inputs(FILE *out, const struct trees_report *r)
{
    static const char *const columns[] = {"nodes", "processor", "card", NULL};
    section_begin(out, "inputs", "Inputs");
    fprintf(out, "<p class=\"note\">Three trees: times differ by the input, "
                 "which is why rewards are relative to all on the processor (figure 14).</p>\n");
    table_begin(out, "inputs", columns);
    for (uint32_t i = 0; i < REPORT_INPUTS; i++)
        fprintf(out, "<tr><th scope=\"row\">%u</th><td>%s</td><td>%s</td></tr>\n", r->input[i].nodes,
                words_seconds(WORDS, r->input[i].host_seconds), words_seconds(WORDS, r->input[i].card_seconds));
    table_end(out);
}

static void exact(FILE *out, const struct trees_report *r)
{
    static const char *const columns[] = {
        "memory",           "exact", "best single", "climbed",        "learned", "worst",
        "learned, climbed", "worst", "bound",       "exact is mixed", NULL};
    section_begin(out, "exact", "Against the optimum");
    fprintf(out,
            "<p class=\"note\">Single trees of 2 to 5 words, at most %u units with their outputs, "
            "where the optimum is found: times over its time.</p>\n",
            PLACE_EXACT_MAX);
    table_begin(out, "exact", columns);
    for (uint32_t a = 0; a < (r->has_grid ? REPORT_MEMORIES : 1); a++) {
        const struct study_small *small = &r->small[a];
        fprintf(out,
                "<tr><th scope=\"row\">%u</th><td>%s</td><td>%.3f</td><td>%.3f</td><td>%.3f</td><td>%.3f</td>"
                "<td>%.3f</td><td>%.3f</td><td>%.3f</td><td>%u of %u</td></tr>\n",
                r->has_grid ? report_memories[a] : r->memory, words_seconds(WORDS, small->exact_seconds),
                small->one_ratio, small->climbed_ratio, small->learned_ratio, small->learned_worst,
                small->polished_ratio, small->polished_worst, small->bound_ratio, small->mixed, small->lists);
    }
    table_end(out);
}

/* --- the whole ---------------------------------------------------------------------------------- */

static void whole(FILE *out, const struct trees_report *r)
{
    struct page page = {.out = out};
    char title[PAGE_NAME_BYTES + 8], batch[64];
    snprintf(title, sizeof title, "Trees: %s", ESCAPED(r->graph, 80));
    snprintf(batch, sizeof batch, "%s at once", words_plural(WORDS, r->trees, "tree"));
    page_head(out, title);
    headline(out, r);
    fprintf(out, "<main>\n");
    grid(out, r);
    policies(out, r, &r->batch, "batch", batch, r->nodes_batch);
    learning(&page, &r->batch, "batch-learning", "Learning to place them", false);
    policies(out, r, &r->one, "one", "One tree at a time", r->nodes_one);
    learning(&page, &r->one, "one-learning", "Learning to place one tree", r->one.dqn.ratio->count > 0);
    exact(out, r);
    transfers(out, r);
    synchronous(out, r);
    cards(out, r);
    inputs(out, r);
    fprintf(out, "</main>\n<footer>%s in %s. heterps-run %s.</footer>\n</body>\n</html>\n",
            words_plural(WORDS, r->seeds, "seed"), words_seconds(WORDS, r->seconds), HETERPS_VERSION);
}

status page_trees_write(const char *path, const struct trees_report *report)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    if (out == NULL) FAIL(MEMORY, "no memory for a page");
    whole(out, report);
    const bool is_whole = !ferror(out);
    status st =
        fclose(out) == 0 && is_whole ? ST_OK : status_fail(ST_MEMORY, __FILE__, __LINE__, "no memory for a page");
    if (st == ST_OK) st = file_write(path, text, bytes);
    free(text);
    return st;
}
