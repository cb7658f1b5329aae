/* Sums over the examples of an evaluation, by a head's kind. The line of an op names the functions that
 * add an example and that finish. */
#include "engine/eval/heads.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/fmath.h"
#include "engine/eval/rank.h"

/* A slot as a head's node sees it. */
struct seen {
    const struct op_context *c;
    const struct graph_node *n;
    const struct micro_batch *batch;
};

static struct view input_of(const struct seen *s, uint32_t i) { return op_in(s->c, s->n, i); }
static float at(struct view v, uint32_t b, uint32_t col) { return v.data[(size_t)b * v.stride + col]; }

/* --- what a loss predicts ----------------------------------------------------------------------- */

uint32_t head_predict_count(const struct graph *g, const struct graph_node *loss)
{
    uint32_t cols = op_predict_cols(g, loss);
    return op_table[loss->op].predicts == OP_PREDICTS_CLASSES && cols > 2 ? cols : 1;
}

static void classes_predict(const float *logit, uint32_t count, double *values)
{
    double greatest = (double)logit[0], sum = 0;
    for (uint32_t j = 1; j < count; j++) greatest = (double)logit[j] > greatest ? (double)logit[j] : greatest;
    for (uint32_t j = 0; j < count; j++) sum += values[j] = fmath_exp((double)logit[j] - greatest);
    for (uint32_t j = 0; j < count; j++) values[j] /= sum;
}

/* shared_softmax: scale times the similarity with the target's vector, which is the first. */
static double target_logit(const struct op_context *c, const struct graph_node *loss, uint32_t b)
{
    const struct view q = op_in(c, loss, 0), vectors = op_in(c, loss, 1), norms = op_saved(c, loss, 1);
    double sum = 0;
    for (uint32_t d = 0; d < q.cols; d++) sum += (double)at(q, b, d) * (double)at(vectors, b, d);
    return (double)graph_match_attr(c->graph, (uint32_t)(loss - c->graph->nodes)).scale * sum *
           (double)at(norms, b, 0) * (double)at(norms, b, 1);
}

void head_predict(const struct op_context *c, const struct graph_node *loss, uint32_t b, double *values)
{
    head_predict_node(c, loss, b, 0, values);
}

void head_predict_node(const struct op_context *c, const struct graph_node *loss, uint32_t b, uint32_t place,
                       double *values)
{
    struct view in = op_in(c, loss, 0);
    const uint32_t cols = op_predict_cols(c->graph, loss);
    const float *row = in.data + (size_t)b * in.stride + (size_t)place * cols;
    enum op_predicts predicts = op_table[loss->op].predicts;
    if (predicts == OP_PREDICTS_PROBABILITY)
        values[0] = fmath_sigmoid((double)row[0]);
    else if (predicts == OP_PREDICTS_CLASSES && cols == 2)
        values[0] = fmath_sigmoid((double)row[1] - (double)row[0]);
    else if (predicts == OP_PREDICTS_CLASSES)
        classes_predict(row, cols, values);
    else if (loss->op == OP_ID_shared_softmax)
        values[0] = target_logit(c, loss, b);
    else
        values[0] = (double)row[0];
}

/* --- what a kind adds of an example: up to two sums, each times the example's weight ----------- */

static void squared_add(const struct seen *s, uint32_t b, double sums[2])
{
    double error = (double)at(input_of(s, 0), b, 0) - (double)at(input_of(s, 1), b, 0);
    sums[0] = error * error;
    sums[1] = fabs(error);
}

static void hinge_add(const struct seen *s, uint32_t b, double sums[2])
{
    struct loss_attr attr;
    memcpy(&attr, s->n->attr, sizeof attr);
    double positive = (double)at(input_of(s, 0), b, 0), negative = (double)at(input_of(s, 1), b, 0),
           loss = (double)attr.margin - positive + negative;
    sums[0] = loss < 0 ? 0 : loss;
    sums[1] = positive > negative ? 1 : positive == negative ? 0.5 : 0;
}

/* Accuracy as in the metric of that name: 1 if the label has the greatest logit, shared
 * among classes of equal logits. */
static void softmax_add(const struct seen *s, uint32_t b, double sums[2])
{
    const uint32_t cols = op_predict_cols(s->c->graph, s->n);
    struct view in = input_of(s, 0);
    const float *row = in.data + (size_t)b * in.stride,
                target = row[(uint32_t)at(input_of(s, op_label_input(s->n)), b, 0)];
    uint32_t above = 0, equal = 0;
    for (uint32_t j = 0; j < cols; j++) {
        above += !(row[j] <= target);
        equal += row[j] == target;
    }
    sums[0] = (double)at(op_saved(s->c, s->n, 0), b, LOSS_SAVED_LOSS);
    sums[1] = above == 0 ? 1.0 / equal : 0;
}

static void saved_loss_add(const struct seen *s, uint32_t b, double sums[2])
{
    sums[0] = (double)at(op_saved(s->c, s->n, 0), b, LOSS_SAVED_LOSS);
}

static void metric_add(const struct seen *s, uint32_t b, double sums[2])
{
    sums[0] = (double)at(op_out(s->c, s->n), b, 0);
}

/* --- figures computed from means ------------------------------------------------------------- */

static void means_finish(const double means[2], double *values)
{
    values[0] = means[0];
    values[1] = means[1];
}
static void squared_finish(const double means[2], double *values)
{
    values[0] = sqrt(means[0]);
    values[1] = means[1];
}
static void softmax_finish(const double means[2], double *values)
{
    values[0] = means[0];
    values[1] = fmath_exp(means[0]);
    values[2] = means[1];
}

/* --- kinds ------------------------------------------------------------------------------------ */

struct head_kind {
    /* NULL: into the metrics of a binary classifier */
    void (*add)(const struct seen *, uint32_t b, double sums[2]);
    /* likewise, for the main figure, the first: cheap */
    void (*sample)(const struct seen *, uint32_t b, double sums[2]);
    void (*finish)(const double means[2], double *values);
    uint32_t figure_count;
    struct figure_kind figures[HEAD_FIGURES_MAX];
};

#define FIGURE(key, text, digits, better)                                                                              \
    {                                                                                                                  \
        key, text, digits, better, false, false                                                                        \
    }
#define LOSS(key, text)                                                                                                \
    {                                                                                                                  \
        key, text, 5, -1, true, false                                                                                  \
    }
#define KNOWN(key, text)                                                                                               \
    {                                                                                                                  \
        "known_" key, text, 5, 1, false, true                                                                          \
    }

static const struct head_kind binary = {NULL,
                                        NULL,
                                        NULL,
                                        6,
                                        {FIGURE("auc", "AUC", 5, 1), LOSS("logloss", "log loss"),
                                         FIGURE("ne", "normalised entropy", 4, -1),
                                         FIGURE("calibration", "calibration", 4, 0), FIGURE("pr_auc", "PR AUC", 5, 1),
                                         FIGURE("group_auc", "group AUC", 5, 1)}};
static const struct head_kind kinds[OP_ID_COUNT] = {
    [OP_ID_softmax_loss] = {softmax_add,
                            saved_loss_add,
                            softmax_finish,
                            3,
                            {LOSS("logloss", "log loss"), FIGURE("perplexity", "perplexity", 2, -1),
                             FIGURE("accuracy", "accuracy", 5, 1)}},
    [OP_ID_squared] =
        {squared_add, squared_add, squared_finish, 2, {LOSS("rmse", "RMSE"), FIGURE("mae", "MAE", 5, -1)}},
    [OP_ID_hinge] =
        {hinge_add, hinge_add, means_finish, 2, {LOSS("loss", "loss"), FIGURE("accuracy", "accuracy of pairs", 5, 1)}},
    [OP_ID_nce] = {saved_loss_add, saved_loss_add, means_finish, 1, {LOSS("loss", "loss of the drawn")}},
    [OP_ID_sampled_softmax] = {saved_loss_add, saved_loss_add, means_finish, 1, {LOSS("loss", "loss of the drawn")}},
    [OP_ID_shared_softmax] = {saved_loss_add, saved_loss_add, means_finish, 1, {LOSS("loss", "loss of the drawn")}},
    [OP_ID_softmax_nodes] = {softmax_add,
                             saved_loss_add,
                             means_finish,
                             2,
                             {LOSS("loss", "loss of all nodes"), FIGURE("accuracy", "accuracy of roots", 5, 1)}},
    [OP_ID_accuracy] = {metric_add, metric_add, means_finish, 1, {FIGURE("accuracy", "accuracy", 5, 1)}},
    [OP_ID_hit_rate] = {metric_add, metric_add, means_finish, 1, {FIGURE("hit_rate", "hit rate", 5, 1)}},
    [OP_ID_ndcg] = {metric_add, metric_add, means_finish, 1, {FIGURE("ndcg", "NDCG", 5, 1)}},
};

/* A loss whose words are ranked, with groups and without. */
static const struct head_kind ranked_groups = {
    saved_loss_add,
    saved_loss_add,
    means_finish,
    7,
    {LOSS("loss", "loss of the drawn"), FIGURE("recall", "recall", 5, 1), FIGURE("hit_rate", "hit rate", 5, 1),
     FIGURE("ndcg", "NDCG", 5, 1), KNOWN("recall", "recall"), KNOWN("hit_rate", "hit rate"), KNOWN("ndcg", "NDCG")}};
static const struct head_kind ranked_examples = {
    saved_loss_add,
    saved_loss_add,
    means_finish,
    7,
    {LOSS("loss", "loss of the drawn"), LOSS("logloss", "log loss"), FIGURE("perplexity", "perplexity", 2, -1),
     FIGURE("hit_rate_1", "hit rate@1", 5, 1), FIGURE("hit_rate_10", "@10", 5, 1), KNOWN("hit_rate_1", "hit rate@1"),
     KNOWN("hit_rate_10", "@10")}};

static const struct head_kind *kind_of(const struct graph *g, const struct graph_node *n)
{
    uint32_t cols = g->tensors[g->args[n->arg_begin]].cols, ranked = rank_head(g);
    if (ranked != GRAPH_NONE && n == &g->nodes[ranked])
        return graph_example(g).has_group ? &ranked_groups : &ranked_examples;
    enum op_predicts predicts = op_table[n->op].predicts;
    bool is_binary = predicts == OP_PREDICTS_PROBABILITY || (n->op == OP_ID_softmax_loss && cols == 2);
    return is_binary ? &binary : &kinds[n->op];
}

bool head_is_binary(const struct head *head) { return head->how == &binary; }

status heads_open(struct heads *heads, const struct graph *g)
{
    *heads = (struct heads){.graph = g};
    for (uint32_t i = graph_head_next(g, 0); i < g->forward_count; i = graph_head_next(g, i + 1)) heads->count++;
    heads->items = calloc(heads->count + 1, sizeof *heads->items);
    if (heads->items == NULL) FAIL(MEMORY, "no memory for the %u heads of the model", heads->count);
    struct example_shape example = graph_example(g);
    struct head *head = heads->items;
    for (uint32_t i = graph_head_next(g, 0); i < g->forward_count; i = graph_head_next(g, i + 1), head++) {
        const struct graph_node *n = &g->nodes[i];
        const struct head_kind *kind = kind_of(g, n);
        *head = (struct head){.node = n,
                              .how = kind,
                              .name = graph_string(g, n->name),
                              .section = op_table[n->op].section,
                              .kind = op_table[n->op].kind,
                              .figures = kind->figures,
                              .figure_count = kind->figure_count,
                              .metrics = {.has_weight = example.has_weight, .has_group = example.has_group}};
        if (kind == &binary && !example.has_group) head->figure_count--; /* the last is group_auc */
        CHECK(head->figure_count > 0);                                   /* every head has its line above */
        if (i != rank_head(g)) continue;
        heads->ranked = head;
        heads->query = rank_query_shape(g, i);
    }
    return ST_OK;
}

void heads_close(struct heads *heads)
{
    for (uint32_t i = 0; i < heads->count && heads->items; i++) metrics_free(&heads->items[i].metrics);
    free(heads->items);
    free(heads->ranking);
    rank_close(heads->rank);
    *heads = (struct heads){0};
}

status heads_reserve(struct heads *heads, uint64_t example_count)
{
    for (uint32_t i = 0; i < heads->count; i++)
        if (heads->items[i].how == &binary) TRY(metrics_reserve(&heads->items[i].metrics, example_count));
    return heads->rank ? rank_reserve(heads->rank, example_count) : ST_OK;
}

/* Takes in the examples [begin, end) of the batch. */
static status head_add(struct head *head, const struct op_context *c, uint32_t begin, uint32_t end)
{
    const struct head_kind *kind = head->how;
    const struct seen seen = {c, head->node, c->batch};
    head->example_count += end - begin;
    if (kind == &binary) {
        struct view x = op_in(c, head->node, 0), label = op_in(c, head->node, 1);
        const float *logit = x.data + (size_t)begin * x.stride;
        const float *weight = c->batch->weight;
        const uint64_t *group = c->batch->group;
        return metrics_add(&head->metrics,
                           &(struct metrics_examples){.logit = logit + (x.cols - 1),
                                                      .minus = x.cols == 2 ? logit : NULL,
                                                      .logit_stride = x.stride,
                                                      .label = label.data + (size_t)begin * label.stride,
                                                      .label_stride = label.stride,
                                                      .weight = weight ? weight + begin : NULL,
                                                      .group = group ? group + begin : NULL,
                                                      .count = end - begin});
    }
    for (uint32_t b = begin; b < end; b++) {
        double weight = (double)batch_weight(c->batch, b), sums[2] = {0};
        kind->add(&seen, b, sums);
        head->weight_sum += weight;
        head->sums[0] += weight * sums[0];
        head->sums[1] += weight * sums[1];
    }
    return ST_OK;
}

status heads_rank(struct heads *heads, struct crew *crew)
{
    if (heads->ranked == NULL || heads->rank) return ST_OK;
    if (heads->ranking == NULL) heads->ranking = calloc(1, sizeof *heads->ranking);
    if (heads->ranking == NULL) FAIL(MEMORY, "no memory for a ranking");
    return rank_open(&heads->rank, crew, NULL);
}

status heads_add(struct heads *heads, const struct slot *slot)
{
    const struct op_context c = {.graph = heads->graph, .tensor = slot->tensor, .batch = &slot->input->batch};
    const uint32_t count = c.batch->example_count;
    TRY(heads_labels_check(heads, slot, heads->items[0].example_count));
    for (uint32_t i = 0; i < heads->count; i++) {
        struct head *head = &heads->items[i];
        /* In runs between examples that only the ranking counts. */
        for (uint32_t begin = 0, end; begin < count; begin = end + 1) {
            for (end = begin; end < count && !(heads->rank && rank_target_is_unknown(heads->rank, c.batch, end));)
                end++;
            TRY(head_add(head, &c, begin, end));
        }
    }
    return heads->rank ? rank_add(heads->rank, slot) : ST_OK;
}

/* --- terms ------------------------------------------------------------------------------------ */

/* The places of examples' terms: all weights, then all groups, then of each head two numbers an example, of
 * a binary head logit and label. */
struct terms {
    float *weight;
    uint64_t *group;
    uint8_t *head;
};
static struct terms terms_at(const struct heads *heads, uint32_t count, void *at)
{
    const struct example_shape example = graph_example(heads->graph);
    struct terms terms = {.head = at};
    if (example.has_weight) terms.weight = (float *)(void *)terms.head;
    if (example.has_weight) terms.head += (count + 1u) / 2 * sizeof(uint64_t);
    if (example.has_group) terms.group = (uint64_t *)(void *)terms.head;
    if (example.has_group) terms.head += count * sizeof(uint64_t);
    return terms;
}

size_t head_term_bytes(const struct head *head)
{
    return head->how == &binary ? 2 * sizeof(float) : 2 * sizeof(double);
}

size_t heads_terms_bytes(const struct heads *heads, uint32_t count)
{
    size_t bytes = (uintptr_t)terms_at(heads, count, NULL).head;
    for (uint32_t i = 0; i < heads->count; i++) bytes += count * head_term_bytes(&heads->items[i]);
    return bytes + (heads->ranked ? count * rank_query_bytes(&heads->query) : 0);
}

void head_terms_write(const struct head *head, const struct op_context *c, uint32_t begin, uint32_t end, void *to)
{
    const struct seen seen = {c, head->node, c->batch};
    float(*pair)[2] = to;
    double(*sums)[2] = to;
    for (uint32_t b = begin; b < end; b++) {
        if (head->how == &binary) {
            const struct view x = input_of(&seen, 0);
            pair[b - begin][0] = at(x, b, x.cols - 1);
            if (x.cols == 2) pair[b - begin][0] -= at(x, b, 0);
            pair[b - begin][1] = at(input_of(&seen, 1), b, 0);
        } else {
            sums[b - begin][0] = sums[b - begin][1] = 0;
            head->how->add(&seen, b, sums[b - begin]);
        }
    }
}

status heads_labels_check(const struct heads *heads, const struct slot *slot, uint64_t first)
{
    const struct op_context c = {.graph = heads->graph, .tensor = slot->tensor, .batch = &slot->input->batch};
    for (uint32_t i = 0; i < heads->count; i++)
        TRY(op_labels_check(&c, heads->items[i].node, "evaluation, example", first));
    return ST_OK;
}

void heads_terms_write(const struct heads *heads, const struct slot *slot, uint32_t begin, uint32_t end, void *to)
{
    const struct op_context c = {.graph = heads->graph, .tensor = slot->tensor, .batch = &slot->input->batch};
    struct terms terms = terms_at(heads, end - begin, to);
    if (terms.weight) memcpy(terms.weight, c.batch->weight + begin, (end - begin) * sizeof *terms.weight);
    if (terms.group) memcpy(terms.group, c.batch->group + begin, (end - begin) * sizeof *terms.group);
    for (uint32_t i = 0; i < heads->count; i++) {
        head_terms_write(&heads->items[i], &c, begin, end, terms.head);
        terms.head += (end - begin) * head_term_bytes(&heads->items[i]);
    }
    for (uint32_t e = begin; heads->ranked && e < end; e++, terms.head += rank_query_bytes(&heads->query))
        rank_query_write(&heads->query, slot, e, terms.head);
}

/* Takes in the terms of examples [begin, end). */
static status head_terms_add(struct head *head, const struct terms *terms, uint32_t begin, uint32_t end)
{
    const float(*pair)[2] = (const void *)terms->head;
    const double(*sums)[2] = (const void *)terms->head;
    head->example_count += end - begin;
    if (head->how == &binary)
        return metrics_add(&head->metrics,
                           &(struct metrics_examples){.logit = &pair[begin][0],
                                                      .logit_stride = 2,
                                                      .label = &pair[begin][1],
                                                      .label_stride = 2,
                                                      .weight = terms->weight ? terms->weight + begin : NULL,
                                                      .group = terms->group ? terms->group + begin : NULL,
                                                      .count = end - begin});
    for (uint32_t b = begin; b < end; b++) {
        const double weight = terms->weight ? (double)terms->weight[b] : 1;
        head->weight_sum += weight;
        head->sums[0] += weight * sums[b][0];
        head->sums[1] += weight * sums[b][1];
    }
    return ST_OK;
}

bool heads_terms_are_left_out(const struct heads *heads, const void *from, uint32_t count, uint32_t e)
{
    if (heads->rank == NULL) return false;
    const size_t query_bytes = rank_query_bytes(&heads->query);
    const uint8_t *end = (const uint8_t *)from + heads_terms_bytes(heads, count);
    return rank_query_is_unknown(heads->rank, end - (count - e) * query_bytes);
}

const float *heads_terms_weights(const struct heads *heads, const void *from, uint32_t count)
{
    return terms_at(heads, count, (void *)(uintptr_t)from).weight;
}

const void *heads_terms_of(const struct heads *heads, const void *from, uint32_t count, uint32_t index)
{
    const uint8_t *at = terms_at(heads, count, (void *)(uintptr_t)from).head; /* which are only read */
    for (uint32_t i = 0; i < index; i++) at += count * head_term_bytes(&heads->items[i]);
    return at;
}

status heads_terms_add(struct heads *heads, const void *from, uint32_t count)
{
    struct terms terms = terms_at(heads, count, (void *)(uintptr_t)from); /* which are only read */
    const size_t query_bytes = heads->rank ? rank_query_bytes(&heads->query) : 0;
    const uint8_t *queries = (const uint8_t *)from + heads_terms_bytes(heads, count) - count * query_bytes;
    for (uint32_t i = 0; i < heads->count; i++) {
        /* In runs, as in heads_add. */
        for (uint32_t begin = 0, end; begin < count; begin = end + 1) {
            for (end = begin; end < count && !heads_terms_are_left_out(heads, from, count, end);) end++;
            TRY(head_terms_add(&heads->items[i], &terms, begin, end));
        }
        terms.head += count * head_term_bytes(&heads->items[i]);
    }
    for (uint32_t e = 0; heads->rank && e < count; e++) TRY(rank_query_add(heads->rank, queries + e * query_bytes));
    return ST_OK;
}

static status ranked_finish(struct heads *heads)
{
    struct rank_result r;
    TRY(rank_end(heads->rank, &r));
    const double of_groups[] = {r.of_groups.recall, r.of_groups.hit_rate, r.of_groups.ndcg,
                                r.known.recall,     r.known.hit_rate,     r.known.ndcg},
                 of_examples[] = {r.logloss,     r.perplexity,       r.hit_rate_1,
                                  r.hit_rate_10, r.known_hit_rate_1, r.known_hit_rate_10};
    *heads->ranking = r;
    if (r.has_groups)
        memcpy(heads->ranked->values + 1, of_groups, sizeof of_groups);
    else
        memcpy(heads->ranked->values + 1, of_examples, sizeof of_examples);
    return ST_OK;
}

static status binary_finish(struct head *head)
{
    struct metrics_result found;
    TRY(metrics_finish(&head->metrics, &found));
    const double values[] = {found.auc, found.logloss, found.ne, found.calibration, found.pr_auc, found.group_auc};
    memcpy(head->values, values, sizeof values);
    memcpy(head->bins, found.bins, sizeof found.bins);
    memcpy(head->tenths, found.tenths, sizeof found.tenths);
    return ST_OK;
}

bool heads_have_weight(const struct heads *heads)
{
    const struct head *head = &heads->items[0];
    return (head->how == &binary ? head->metrics.weight_sum : head->weight_sum) > 0;
}

status heads_finish(struct heads *heads)
{
    for (uint32_t i = 0; i < heads->count; i++) {
        struct head *head = &heads->items[i];
        if (head->how == &binary) {
            TRY(binary_finish(head));
        } else {
            head->how->finish((const double[]){head->sums[0] / head->weight_sum, head->sums[1] / head->weight_sum},
                              head->values);
        }
        head->example_count = 0;
        head->weight_sum = head->sums[0] = head->sums[1] = 0;
    }
    if (heads->rank) TRY(ranked_finish(heads));
    return ST_OK;
}

/* --- samples ---------------------------------------------------------------------------------- */

void head_samples(const struct head *head, const struct op_context *c, union head_sample *samples)
{
    const struct seen seen = {c, head->node, c->batch};
    const struct view x = input_of(&seen, 0);
    const uint32_t count = c->batch->example_count;
    if (head->how == &binary) {
        const struct view label = input_of(&seen, 1);
        for (uint32_t b = 0; b < count; b++) {
            float logit = at(x, b, x.cols - 1);
            if (x.cols == 2) logit -= at(x, b, 0);
            samples[b] = (union head_sample){.logit = logit, .label = at(label, b, 0)};
        }
        return;
    }
    for (uint32_t b = 0; b < count; b++) {
        double sums[2] = {0, (double)NAN};
        head->how->sample(&seen, b, sums);
        samples[b] = (union head_sample){.sum = {(float)sums[0], (float)sums[1]}};
    }
}

/* From pairs of logit and label, `stride` floats apart. */
static status binary_measure(struct head *head, const float *pair, size_t stride, const float *weight, uint64_t count)
{
    const struct metrics_examples examples = {.logit = pair,
                                              .logit_stride = stride,
                                              .label = pair + 1,
                                              .label_stride = stride,
                                              .weight = weight,
                                              .count = (uint32_t)count};
    TRY(metrics_add(&head->metrics, &examples));
    return binary_finish(head);
}

/* Measures samples, or, where these are NULL, terms. */
static void measure(struct head *head, const union head_sample *samples, const void *terms, const float *weight,
                    uint64_t count)
{
    const double(*term)[2] = terms;
    for (uint32_t k = 0; k < HEAD_FIGURES_MAX; k++) head->values[k] = (double)NAN;
    if (head->how == &binary) {
        const float *pair = samples ? &samples->logit : terms;
        const size_t stride = (samples ? sizeof *samples : head_term_bytes(head)) / sizeof *pair;
        CHECK(count <= head->metrics.example_max && binary_measure(head, pair, stride, weight, count) == ST_OK);
        return;
    }
    double sums[2] = {0}, weight_sum = 0;
    for (uint64_t i = 0; i < count; i++) {
        const double w = weight ? (double)weight[i] : 1;
        sums[0] += w * (samples ? (double)samples[i].sum[0] : term[i][0]);
        sums[1] += w * (samples ? (double)samples[i].sum[1] : term[i][1]);
        weight_sum += w;
    }
    if (weight_sum == 0) return;
    head->how->finish((const double[]){sums[0] / weight_sum, sums[1] / weight_sum}, head->values);
}

void head_samples_measure(struct head *head, const union head_sample *samples, const float *weight, uint64_t count)
{
    measure(head, samples, NULL, weight, count);
}

void head_terms_measure(struct head *head, const void *terms, const float *weight, uint64_t count)
{
    measure(head, NULL, terms, weight, count);
}

/* --- figures by name -------------------------------------------------------------------------- */

const struct head *heads_main(const struct heads *heads)
{
    const struct head *head = heads->items;
    while (!(op_table[head->node->op].traits & OP_IS_LOSS)) head++; /* every graph has a loss */
    return head;
}

uint32_t head_main_figure(const struct head *head)
{
    for (uint32_t i = 0; i < head->figure_count; i++)
        if (head->figures[i].is_loss) return i;
    return 0;
}

static bool figure_of(const struct head *head, const char *key, uint32_t *figure)
{
    for (*figure = 0; *figure < head->figure_count; ++*figure)
        if (strcmp(head->figures[*figure].key, key) == 0) return head->figures[*figure].better != 0;
    return false;
}

bool heads_figure_find(const struct heads *heads, const char *name, uint32_t *head, uint32_t *figure)
{
    for (*head = 0; *head < heads->count; ++*head) {
        const struct head *h = &heads->items[*head];
        size_t bytes = strlen(h->name);
        if (strncmp(name, h->name, bytes) != 0) continue;
        if (name[bytes] == 0) {
            *figure = head_main_figure(h);
            return true;
        }
        if (name[bytes] == '.' && figure_of(h, name + bytes + 1, figure)) return true;
    }
    *head = (uint32_t)(heads_main(heads) - heads->items);
    return figure_of(&heads->items[*head], name, figure);
}

char *heads_figure_names(const struct heads *heads, char *buffer, size_t bytes)
{
    const struct head *first = heads_main(heads);
    size_t end = 0;
    buffer[0] = 0;
    for (uint32_t i = 0; i < heads->count; i++)
        for (uint32_t k = 0; k < heads->items[i].figure_count && end < bytes; k++) {
            const struct head *head = &heads->items[i];
            if (head->figures[k].better == 0) continue;
            bool is_first = head == first, is_metric = (op_table[head->node->op].traits & OP_IS_METRIC) != 0;
            end += (size_t)snprintf(buffer + end, bytes - end, "%s%s%s%s", end ? ", " : "", is_first ? "" : head->name,
                                    is_first || is_metric ? "" : ".", is_metric ? "" : head->figures[k].key);
        }
    return buffer;
}
