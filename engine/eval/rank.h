/* Ranking over a whole vocabulary, for models that were trained against a few drawn candidates (losses nce and sampled_softmax behind a
 * [match]): the score of every word with every query, as the match would give it.
 *
 *     all words ──forward pass──▶ match's second input: a vector a word ──▶ panels ─┐
 *                                                                                   ├─ products ─▶ scores [queries, words]
 *     data ──forward pass──▶ match's first input: a query an example, or a user ────┘
 *
 * What is measured, if examples belong to groups (users), each group's queries and words in one run of the data:
 *   recall@k    found / relevant, where the relevant words are those of the group's examples, and found those among its k best
 *   hit rate@k  share of groups with one found
 *   NDCG@k      sum over found of 1 / log2(2 + place), over its greatest value (Jarvelin, Kekalainen, TOIS 2002)
 * as means over groups with a relevant word; words that eval.exclude holds for the group are not ranked, and not relevant. Else, over examples:
 *   log loss    -log softmax(scores)[target], perplexity its exp, hit rate@1 and @10 with ties as half
 *
 * Memory is taken at open: words x (dimension + 1) floats, SCORES_BYTES of scores, 16 bytes an excluded pair. Cost: two
 * operations a word, query and dimension, by the thread that gives the slots. */
#ifndef HETERPS_ENGINE_EVAL_RANK_H
#define HETERPS_ENGINE_EVAL_RANK_H

#include "engine/base/file.h"
#include "engine/crew/crew.h"

struct rank;

/* The first loss over candidates behind a match: a forward node, or GRAPH_NONE. */
uint32_t rank_head(const struct graph *graph);
/* Opens the ranking by that loss; *rank is NULL if there is none. Keeps the crew. With
 * `predictions` nothing is measured, but a line is written for every example, or group: its eval.top best words, the best first,
 * separated by tabs; "nan" for a bad line. Reads the files of eval.exclude: what reader_fill and reader_open say of them. */
MUST_USE status rank_open(struct rank **rank, struct crew *crew, struct file_writer *predictions);
void rank_close(struct rank *rank);

/* Computes the vectors of all words with the model as it is, on the idle pipeline, and begins anew. STOPPED. */
MUST_USE status rank_begin(struct rank *rank);
/* A forward_sink's work: slots in the order of the data. */
MUST_USE status rank_add(struct rank *rank, const struct slot *slot);
/* What has been added since rank_begin. INVALID: nothing that could be measured. */
struct rank_result {
    uint64_t count; /* groups, or examples */
    bool has_groups;
    double recall, hit_rate, ndcg;                       /* with groups; at top */
    double logloss, perplexity, hit_rate_1, hit_rate_10; /* without             */
};
MUST_USE status rank_end(struct rank *rank, struct rank_result *result);

#endif
