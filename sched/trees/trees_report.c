/* The report as tables. */
#include <math.h>
#include <stdio.h>

#include "engine/base/words.h"
#include "sched/trees/trees_report.h"

double report_gain(const struct study *s) { return fmax(study_gain(s, STUDY_learned), study_gain(s, STUDY_polished)); }

static void policies_write(FILE *out, const struct study *s)
{
    fprintf(out,
            "| policy | time | least to greatest | best single device over it | launches | messages | bytes moved | "
            "on the host | to decide |\n"
            "|---|---|---|---|---|---|---|---|---|\n");
    for (uint32_t p = 0; p < STUDY_POLICY_COUNT; p++) {
        const struct study_figure *f = &s->figure[p];
        if (f->seconds.count == 0) continue;
        fprintf(out, "| %s | %s | %s to %s | %.2f | %.1f | %.1f | %s | %s | %s |\n", study_names[p].name,
                words_seconds(WORDS, study_range_mean(&f->seconds)), words_seconds(WORDS, f->seconds.least),
                words_seconds(WORDS, f->seconds.greatest), study_gain(s, (enum study_policy)p), f->launches,
                f->transfers, words_bytes(WORDS, f->transfer_bytes), words_share(WORDS, f->host_share),
                words_seconds(WORDS, f->placing_seconds));
    }
    fprintf(out, "| no placement takes less | %s | | %.2f | | | | | |\n\n", words_seconds(WORDS, s->bound_seconds),
            study_range_mean(&s->figure[STUDY_polished].seconds) / s->bound_seconds * study_gain(s, STUDY_polished));
}

static void small_write(FILE *out, const struct study_small *small, uint32_t memory)
{
    fprintf(out, "| %u | %s | %.3f | %.3f | %.3f (%.3f) | %.3f (%.3f) | %.3f | %u of %u |\n", memory,
            words_seconds(WORDS, small->exact_seconds), small->one_ratio, small->climbed_ratio, small->learned_ratio,
            small->learned_worst, small->polished_ratio, small->polished_worst, small->bound_ratio, small->mixed,
            small->lists);
}

static void grid_write(FILE *out, const struct trees_report *r)
{
    fprintf(out, "| memory | trees |");
    for (uint32_t p = 0; p < STUDY_POLICY_COUNT; p++) fprintf(out, " %s |", study_names[p].name);
    fprintf(out, " bound | gain |\n|---|---|");
    for (uint32_t p = 0; p < STUDY_POLICY_COUNT + 2; p++) fprintf(out, "---|");
    fprintf(out, "\n");
    for (uint32_t a = 0; a < REPORT_MEMORIES; a++)
        for (uint32_t b = 0; b < REPORT_BATCHES; b++) {
            const struct study *s = &r->grid[a][b];
            fprintf(out, "| %u | %u |", report_memories[a], report_batches[b]);
            for (uint32_t p = 0; p < STUDY_POLICY_COUNT; p++) {
                const struct study_range *range = &s->figure[p].seconds;
                fprintf(out, " %s |", range->count ? words_seconds(WORDS, study_range_mean(range)) : "");
            }
            fprintf(out, " %s | %.2f |\n", words_seconds(WORDS, s->bound_seconds), report_gain(s));
        }
    fprintf(out, "\n");
}

void report_write(FILE *out, const struct trees_report *r)
{
    fprintf(out,
            "# Where the nodes of trees go: %s on %s\n\n"
            "The host is %s of type %s, one measured here; the card is of type %s, its rates declared. "
            "Random binary trees of %u to %u words, forward; %u seeds. A time is of a batch of trees.\n\n"
            "One tree at a time, memory %u, %.0f nodes:\n\n",
            r->graph, r->cluster, words_plural(WORDS, r->cores, "core"), r->host, r->card, r->leaves_min, r->leaves_max,
            r->seeds, r->memory, r->nodes_one);
    policies_write(out, &r->one);
    fprintf(out, "%u trees at once, %.0f nodes; ours is learned in %s of a core:\n\n", r->trees, r->nodes_batch,
            words_seconds(WORDS, r->batch.learn_seconds));
    policies_write(out, &r->batch);
    fprintf(out, "Learned from passes that take 1 + 3 e times as long, e exponential: %s (%s to %s).\n\n",
            words_seconds(WORDS, study_range_mean(&r->batch.noisy)), words_seconds(WORDS, r->batch.noisy.least),
            words_seconds(WORDS, r->batch.noisy.greatest));
    fprintf(out,
            "Trees of 2 to 5 words, over the exact optimum (in brackets the worst):\n\n"
            "| memory | exact | best single device | climbed | learned | learned, climbed | bound | exact is mixed |\n"
            "|---|---|---|---|---|---|---|---|\n");
    for (uint32_t a = 0; a < (r->has_grid ? REPORT_MEMORIES : 1); a++)
        small_write(out, &r->small[a], r->has_grid ? report_memories[a] : r->memory);
    fprintf(out, "\n");
    if (!r->has_grid) return;
    fprintf(out, "Memories and batches; gain: the best single device over ours:\n\n");
    grid_write(out, r);
}
