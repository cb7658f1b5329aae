/* Ranking over a whole vocabulary, for models that were trained against a few drawn candidates (losses nce and
 * sampled_softmax behind a [match], and shared_softmax, which matches by itself): the score of every word with every
 * query, as the match would give it.
 *
 *     all words ──forward pass──▶ match's second input: a vector a word ──▶ panels ─┐
 *                                                                                   ├─▶ scores [queries, words]
 *     data ──forward pass──▶ match's first input: a query an example, or a user ────┘
 *
 * What is measured, if examples belong to groups (users): recall, hit rate and NDCG (engine/eval/rank_groups.h)
 * of the words that are best for the group's first example, whatever the order of the examples; words that
 * eval.exclude holds for the group are not ranked, and not relevant; nor are, in lines, those of the query's
 * history (format pairs), if it has the keys of items. Else, over examples:
 *   log loss    -log softmax(scores)[target], perplexity its exp
 *   hit rate@k  share of examples whose target is among the k best, as one of equals in the middle of them; k = 1, 10
 *
 * Figures over groups are of as many best words as eval.top and eval.cutoffs say. A target that is no word of the
 * vocabulary is one that was not found; it has no log loss. Beside the figures over all targets are those over words
 * alone.
 *
 * Memory: words x (dimension + 1) floats and SCORES_BYTES of scores, taken at open, and what groups take. Cost: two
 * operations a word, query and dimension, by the thread that gives the slots. */
#ifndef HETERPS_ENGINE_EVAL_RANK_H
#define HETERPS_ENGINE_EVAL_RANK_H

#include "engine/crew/crew.h"
#include "engine/eval/rank_groups.h"

struct rank;

/* The first loss over candidates that has a match: a forward node, or GRAPH_NONE. */
uint32_t rank_head(const struct graph *graph);
/* The field of its candidates. */
uint32_t rank_field(const struct graph *graph, uint32_t head);
/* Who takes what is predicted: the best words of a query, the best first, tabs between them, and a line end; "nan"
 * for a malformed line. In the order of the queries. */
struct rank_lines {
    void *context;
    status (*take)(void *context, const char *line, size_t bytes);
    uint32_t top_max; /* words of a line */
};
/* Where several nodes evaluate, rank 0 ranks: of the others' examples it gets the queries as bytes. */
struct rank_query_shape {
    uint32_t field, field_count; /* the candidates' field, of so many */
    uint32_t tensor, dim;        /* that is the query; its numbers    */
    bool has_group;
    uint32_t history, history_max; /* where lines are given: the field that tells what a user knows already, or NONE;
                                    * its ids_max */
};
struct rank_query_shape rank_query_shape(const struct graph *graph, uint32_t head);
/* The same of queries that lines are wanted for. */
struct rank_query_shape rank_query_shape_lines(const struct crew *crew, uint32_t head);
/* Of an example's query: a whole number of u64s. */
size_t rank_query_bytes(const struct rank_query_shape *shape);
/* Of example e of a slot whose forward pass is done. */
void rank_query_write(const struct rank_query_shape *shape, const struct slot *slot, uint32_t e, void *to);

/* Opens the ranking by that loss; *rank is NULL if there is none. Keeps the crew. With `lines`, which are copied,
 * nothing is measured, but a line is given for every example, or where a group's first one is. Reads the files of
 * eval.exclude: what reader_fill and reader_open say of them. */
MUST_USE status rank_open(struct rank **rank, struct crew *crew, const struct rank_lines *lines);
/* Of the longest line that can be given; where the ranking is opened for lines. */
size_t rank_line_bytes_max(const struct rank *rank);
void rank_close(struct rank *rank);

/* Computes the vectors of all words with the model as it is, on the idle pipeline, and begins anew. STOPPED. */
MUST_USE status rank_begin(struct rank *rank);
/* A forward_sink's work: slots in the order of the data. With lines, these are of eval.top words, or of top_max if
 * that is fewer. */
MUST_USE status rank_add(struct rank *rank, const struct slot *slot);
/* One example of a slot, with lines: of `top` words, at most top_max. *has_line: one will be given for it. */
MUST_USE status rank_add_example(struct rank *rank, const struct slot *slot, uint32_t e, uint32_t top, bool *has_line);
/* Gives the lines of all examples that have come. */
MUST_USE status rank_flush(struct rank *rank);
/* Examples that come are of other data: their groups have not come before. With lines. */
void rank_groups_anew(struct rank *rank);
/* Whether example e's target is no word. */
bool rank_target_is_unknown(const struct rank *rank, const struct micro_batch *m, uint32_t e);
/* The same of queries that have come as bytes, 8-byte aligned; rank_query_add is rank_add of one. INVALID: it is no
 * query. */
bool rank_query_is_unknown(const struct rank *rank, const void *query);
MUST_USE status rank_query_add(struct rank *rank, const void *query);
/* Whether it has seen an example since rank_begin. NULL: no. */
bool rank_is_begun(const struct rank *rank);
/* Room for so many examples. MEMORY. */
MUST_USE status rank_reserve(struct rank *rank, uint64_t example_count);
/* What has been added since rank_begin. INVALID: nothing that could be measured. */
struct rank_result {
    bool has_groups;
    uint32_t cutoff_count, cutoff[RANK_CUTOFFS_MAX]; /* of eval.cutoffs */
    struct rank_figures at[RANK_CUTOFFS_MAX];        /* [cutoff_count]; without groups the hit rate, else NaN */
    uint64_t query_count;                            /* groups, or examples, with a target              */
    uint64_t target_count, unknown_count;            /* their targets; of these no words                */
    struct rank_figures of_groups, known;            /* with groups, at eval.top; of words alone        */
    double logloss, perplexity;                      /* without; NaN: no target is a word               */
    double hit_rate_1, hit_rate_10;                  /* likewise */
    double known_hit_rate_1, known_hit_rate_10;
};
MUST_USE status rank_end(struct rank *rank, struct rank_result *result);

#endif
