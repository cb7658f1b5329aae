/* The figures of a model's heads, its losses and metrics, in an evaluation, by the head's kind:
 *
 *   bce, softmax of two classes   AUC, log loss, normalised entropy, calibration, PR AUC; where the data have groups,
 *                                 AUC within groups; and calibration by bins
 *   softmax                       log loss, perplexity, accuracy
 *   squared                       root of the mean squared error, mean absolute error
 *   hinge                         loss, accuracy: the share of pairs in the right order, ties half
 *   nce, sampled_softmax,         the loss over the drawn words; the first such head with a match is measured over all
 *   shared_softmax                words, too (engine/eval/rank.h): recall, hit rate and NDCG, or log loss, perplexity
 *                                 and hit rates. An example whose target is no word then counts in the ranking alone
 *   metrics                       the mean
 *
 * Losses are without the head's weight, so that they can be compared. Where the data have weights, means
 * count each example as often as its weight says: an example of weight 2 is two. */
#ifndef HETERPS_ENGINE_EVAL_HEADS_H
#define HETERPS_ENGINE_EVAL_HEADS_H

#include "engine/eval/metrics.h"
#include "engine/eval/rank.h"
#include "engine/pipe/pipeline.h"

/* A number that is measured. */
struct figure_kind {
    const char *key, *text; /* in events, in lines for people                      */
    int digits;             /* after the point                                     */
    int better;             /* 1: more is better, -1: less is, 0: neither          */
    bool is_loss;           /* not finite only if the model has diverged           */
    bool of_known;          /* over targets that are words only                    */
};
#define HEAD_FIGURES_MAX 7
struct head_kind;
struct head {
    /* set once */
    const struct graph_node *node;
    const struct head_kind *how;
    const char *name, *section, *kind;
    const struct figure_kind *figures; /* [figure_count] */
    uint32_t figure_count;
    /* of the running evaluation */
    uint64_t example_count;
    double weight_sum, sums[2];
    struct metrics metrics;
    /* of the last finished evaluation; NaN: undefined */
    double values[HEAD_FIGURES_MAX];
    struct metrics_bin bins[METRICS_BINS]; /* of a binary head (head_is_binary) */
    struct metrics_tenth tenths[METRICS_BINS];
};
bool head_is_binary(const struct head *head);

struct crew;
struct rank_result;
struct heads {
    const struct graph *graph;
    struct head *items;
    uint32_t count;
    struct head *ranked;           /* the head whose words are ranked, or NULL */
    struct rank_query_shape query; /* of the ranked head */
    struct rank *rank;             /* NULL: not yet */
    struct rank_result *ranking;   /* of the last finished evaluation; NULL: none */
};

/* How many numbers a loss predicts for an example: 1, or one for every class if there are more than two. */
uint32_t head_predict_count(const struct graph *g, const struct graph_node *loss);
/* Writes a loss's predictions for example b of a micro-batch whose forward pass is done (enum op_predicts):
 * values[0 .. head_predict_count). */
void head_predict(const struct op_context *c, const struct graph_node *loss, uint32_t b, double *values);
/* The same for a node of example b's tree, of a loss at all nodes (softmax_nodes):
 * place 0 is the root, the last node. */
void head_predict_node(const struct op_context *c, const struct graph_node *loss, uint32_t b, uint32_t place,
                       double *values);

/* Keeps the graph. MEMORY. */
MUST_USE status heads_open(struct heads *heads, const struct graph *graph);
/* Also for heads that are all zero. */
void heads_close(struct heads *heads);
/* Takes room for the examples, so that no later growth is needed; after heads_rank also room for ranking. */
MUST_USE status heads_reserve(struct heads *heads, uint64_t example_count);
/* Makes the heads ready for an evaluation: where words are ranked, opens the ranking unless it is open; the
 * crew's pipeline then serves it until heads_close. Fails as rank_open. */
MUST_USE status heads_rank(struct heads *heads, struct crew *crew);
/* Takes in a slot whose forward pass is done. INVALID: a label names no class. */
MUST_USE status heads_add(struct heads *heads, const struct slot *slot);
/* INVALID: a label names no class; `first` is the number of the slot's first example within
 * the evaluation, for the message. */
MUST_USE status heads_labels_check(const struct heads *heads, const struct slot *slot, uint64_t first);
/* Where several nodes evaluate: the bytes of the terms of examples, the numbers that
 * heads_add takes in; a multiple of 8. */
size_t heads_terms_bytes(const struct heads *heads, uint32_t example_count);
/* Writes the terms of examples [begin, end) of a slot whose forward pass is done,
 * and whose labels are right. */
void heads_terms_write(const struct heads *heads, const struct slot *slot, uint32_t begin, uint32_t end, void *to);
/* Takes in terms as heads_add does, to the last bit. `from` is 8-byte aligned. MEMORY. */
MUST_USE status heads_terms_add(struct heads *heads, const void *from, uint32_t example_count);
/* Whether some example that was taken in has a weight above 0, so that there are means. */
bool heads_have_weight(const struct heads *heads);
/* Ends an evaluation: sets the values, and empties the collection. */
MUST_USE status heads_finish(struct heads *heads);

/* The numbers of an example that a head's figures need: of a binary head logit
 * and label, else the terms of means. */
union head_sample {
    struct {
        float logit, label;
    };
    float sum[2];
};
/* Sets samples[0 .. example_count) for a micro-batch whose forward pass is done: the numbers of a loss's main
 * figure, which training has, too; the rest is NaN. */
void head_samples(const struct head *head, const struct op_context *c, union head_sample *samples);
/* Of terms of example_count examples: those of head `index`, head_term_bytes an example; whether example e
 * counts for no figure; the weights, or NULL where all are 1. */
const void *heads_terms_of(const struct heads *heads, const void *terms, uint32_t example_count, uint32_t index);
bool heads_terms_are_left_out(const struct heads *heads, const void *terms, uint32_t example_count, uint32_t e);
const float *heads_terms_weights(const struct heads *heads, const void *terms, uint32_t example_count);
/* Sets the values of a head that is in no evaluation; values that need more than samples are NaN: group_auc,
 * and the values of ranked words; all are where all weights are 0. `weight` is [count], or NULL: all are 1.
 * Takes no memory if heads_reserve has taken room for `count`. */
void head_samples_measure(struct head *head, const union head_sample *samples, const float *weight, uint64_t count);

/* The terms of one head, without rounding: of a binary head logit and label, else two doubles; a multiple of
 * 8 bytes an example. */
size_t head_term_bytes(const struct head *head);
/* Writes terms of examples [begin, end) of a micro-batch whose forward pass is done. */
void head_terms_write(const struct head *head, const struct op_context *c, uint32_t begin, uint32_t end, void *to);
/* head_samples_measure from `count` terms, aligned to 8 bytes. The figures are those of an evaluation. */
void head_terms_measure(struct head *head, const void *terms, const float *weight, uint64_t count);

/* The first loss, which stands for the model where one number has to. */
const struct head *heads_main(const struct heads *heads);
/* The figure that stands for a head: a loss's figure that is_loss, or a metric's only figure. */
uint32_t head_main_figure(const struct head *head);
/* Finds the figure called `name`: HEAD.FIGURE by its key, HEAD (head_main_figure), or FIGURE of the first
 * loss. False: there is no such figure, or its values are neither better nor worse. */
bool heads_figure_find(const struct heads *heads, const char *name, uint32_t *head, uint32_t *figure);
/* Writes the names that heads_figure_find knows, "auc, logloss, …", into buffer, which is returned. */
char *heads_figure_names(const struct heads *heads, char *buffer, size_t bytes);

#endif
