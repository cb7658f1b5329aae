/* Ranking over a whole vocabulary, for models that were trained against a few drawn candidates (losses nce
 * and sampled_softmax on a [match], and shared_softmax, which matches by itself): scores every word with
 * every query, as the match does.
 *
 *     all words ──forward pass──▶ match's second input: a vector a word ──▶ panels ─┐
 *                                                                                   ├─▶ scores [queries, words]
 *     data ──forward pass──▶ match's first input: a query an example, or a user ────┘
 *
 * If examples belong to groups (users), the figures are recall, hit rate and NDCG
 * (engine/eval/rank_groups.h) of the words that are best for the group's first example, whatever the order
 * of the examples. Words that eval.exclude lists for the group are not ranked, and not relevant. Lines
 * also leave out words of the query's history (format pairs), if the history has keys of items, and the
 * targets of its group that come before the next query, or rank_flush. Without groups, figures are over
 * examples:
 *   log loss    -log softmax(scores)[target], perplexity its exp
 *   hit rate@k  share of examples whose target is among the k best, equal scores at their middle place; k = 1, 10
 *
 * Figures over groups are of the eval.top best words, and of as many as each number of eval.cutoffs. A target
 * that is no word of the vocabulary counts as not found, and has no log loss. Figures are over all targets,
 * and once more over words alone.
 *
 * Memory: words x (dimension + 1) floats and at most SCORES_BYTES of scores, taken at open, and that of
 * groups. Cost: two operations a word, query and dimension, on the thread that gives the slots. */
#ifndef HETERPS_ENGINE_EVAL_RANK_H
#define HETERPS_ENGINE_EVAL_RANK_H

#include "engine/crew/crew.h"
#include "engine/eval/rank_groups.h"

struct rank;

/* The first loss over candidates with a match: a forward node, or GRAPH_NONE. */
uint32_t rank_head(const struct graph *graph);
/* The field of that loss's candidates. */
uint32_t rank_field(const struct graph *graph, uint32_t head);
/* Takes predictions, in the order of the queries: a query's best words, the best first, tabs between them,
 * and a line end; "nan" for a malformed line. `example` is the query's, counted since rank_begin. */
struct rank_lines {
    void *context;
    status (*take)(void *context, uint64_t example, const char *line, size_t bytes);
    uint32_t top_max; /* most words of a line */
};
/* Where several nodes evaluate, rank 0 ranks: it gets the queries of other nodes' examples as bytes. */
struct rank_query_shape {
    uint32_t field, field_count; /* the candidates' field; all fields */
    uint32_t tensor, dim;        /* the query's; its numbers          */
    bool has_group;
    /* where lines are given: the field of words that a user knows already, or NONE; its ids_max */
    uint32_t history, history_max;
};
struct rank_query_shape rank_query_shape(const struct graph *graph, uint32_t head);
/* The same for queries that get lines. */
struct rank_query_shape rank_query_shape_lines(const struct crew *crew, uint32_t head);
/* The bytes of an example's query: a multiple of 8. */
size_t rank_query_bytes(const struct rank_query_shape *shape);
/* Writes the query of example e of a slot whose forward pass is done. */
void rank_query_write(const struct rank_query_shape *shape, const struct slot *slot, uint32_t e, void *to);

/* Opens the ranking by the loss of rank_head; *rank is NULL if there is none. Keeps the crew. With `lines`,
 * which are copied, nothing is measured: every example, or with groups a group's first, gives a line. Reads
 * the files of eval.exclude, and fails as reader_open and reader_fill. */
MUST_USE status rank_open(struct rank **rank, struct crew *crew, const struct rank_lines *lines);
/* Bytes of the longest possible line, of a ranking opened for lines. */
size_t rank_line_bytes_max(const struct rank *rank);
void rank_close(struct rank *rank);

/* Computes the vectors of all words with the model as it is, on the idle pipeline,
 * and begins anew. STOPPED. */
MUST_USE status rank_begin(struct rank *rank);
/* A forward_sink's work: takes slots in the order of the data. Lines have eval.top
 * words, or top_max if that is fewer. */
MUST_USE status rank_add(struct rank *rank, const struct slot *slot);
/* Takes one example of a slot, for a line of `top` words, at most top_max. *has_line:
 * the example gives a line. */
MUST_USE status rank_add_example(struct rank *rank, const struct slot *slot, uint32_t e, uint32_t top, bool *has_line);
/* Gives the lines of all examples so far. */
MUST_USE status rank_flush(struct rank *rank);
/* Later examples are of other data: their groups are new. With lines. */
void rank_groups_anew(struct rank *rank);
/* Whether example e's target is no word. */
bool rank_target_is_unknown(const struct rank *rank, const struct micro_batch *m, uint32_t e);
/* The same for queries that come as bytes, 8-byte aligned; rank_query_add is rank_add of one query.
 * INVALID: the bytes are no query. */
bool rank_query_is_unknown(const struct rank *rank, const void *query);
MUST_USE status rank_query_add(struct rank *rank, const void *query);
/* Whether an example has come since rank_begin. NULL: no. */
bool rank_is_begun(const struct rank *rank);
/* Takes room for the examples. MEMORY. */
MUST_USE status rank_reserve(struct rank *rank, uint64_t example_count);
/* The result over the examples since rank_begin. INVALID: none of them can be measured. */
struct rank_result {
    bool has_groups;
    uint32_t cutoff_count, cutoff[RANK_CUTOFFS_MAX]; /* of eval.cutoffs */
    struct rank_figures at[RANK_CUTOFFS_MAX];        /* [cutoff_count]; without groups hit_rate alone, else NaN */
    uint64_t query_count;                            /* groups, or examples, with a target              */
    uint64_t target_count, unknown_count;            /* all targets; targets that are no words          */
    struct rank_figures of_groups, known;            /* with groups, at eval.top; over words alone      */
    double logloss, perplexity;                      /* without groups; NaN: no target is a word        */
    double hit_rate_1, hit_rate_10;                  /* likewise */
    double known_hit_rate_1, known_hit_rate_10;
};
MUST_USE status rank_end(struct rank *rank, struct rank_result *result);

#endif
