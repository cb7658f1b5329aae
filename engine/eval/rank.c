/* Ranking over a whole vocabulary. */
#include "engine/eval/rank.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/fmath.h"
#include "engine/base/log.h"
#include "engine/device/cpu/kernels.h"
#include "engine/eval/evaluate.h"
#include "engine/eval/rank_groups.h"
#include "graph/op_rules.h"

/* Queries scored at once: many, so a panel serves often, but no more than SCORES_BYTES of scores allow. */
#define QUERIES_MAX  64u
#define SCORES_BYTES ((size_t)64 << 20)
/* The maximum of eval.top, too. */
#define CUTOFF_MAX 1000
/* In place of an item (engine/eval/rank_groups.h): no target. */
#define ITEM_NONE UINT64_MAX

/* A query that waits to be scored. */
struct query {
    uint64_t example; /* since rank_begin */
    uint64_t group;
    uint32_t number; /* of the group                */
    uint64_t target; /* without groups              */
    uint32_t top;    /* words of its line           */
    bool is_bad;     /* a malformed line            */
};

struct rank {
    /* set once */
    struct crew *crew;
    bool has_lines;
    struct rank_lines lines;
    size_t line_bytes_max;
    char *line; /* [line_bytes_max] */
    struct rank_query_shape shape;
    uint32_t candidate_count; /* words of the field in an example */
    uint32_t vectors_tensor;
    struct match_attr match;
    uint32_t dim, vector; /* numbers of a query; in the match's input of a word */
    const struct reader_vocabulary *words;
    bool has_groups;
    struct feed *feed; /* lists the words; NULL: not open */
    const struct cpu_kernels *kernels;
    struct arena arena;
    float *panels; /* [panel_count][dim + 1][panel_words] */
    uint32_t panel_count;
    uint32_t *slot_word; /* [slot_mask + 1]: 1 + word, by the hash of its key; 0: none */
    uint64_t *word_key;  /* [word_count] */
    uint64_t slot_mask;
    uint32_t top;                                    /* words kept, or predicted, for a query */
    uint32_t cutoff[RANK_CUTOFFS_MAX], cutoff_count; /* eval.top, and eval.cutoffs */
    /* of the evaluation */
    uint64_t list_count; /* examples of the words' list that have come */
    uint64_t example_count;
    uint32_t query_max, query_count;
    struct query *query; /* [query_max] */
    float *query_vector; /* [query_max, dim] */
    uint64_t *known;     /* [query_max, known_words]: a bit for each word that the query's user knows */
    size_t known_words;  /* 0: lines leave none out */
    float *scores;       /* [query_max, panel_count * panel_words] */
    uint32_t *top_word;  /* [top] */
    float *top_score;
    struct rank_groups groups;
    /* without groups */
    uint64_t target_count, unknown_count;
    double loss_sum, hit_1_sum, hit_10_sum, hit_sum[RANK_CUTOFFS_MAX];
};

static const char part[] = "ranking";

/* --- words ------------------------------------------------------------------------------------ */

/* Keys are hashes already. */
static void words_index(struct rank *r, uint64_t seed)
{
    for (uint32_t w = 0; w < r->words->word_count; w++) {
        r->word_key[w] = reader_key(seed, r->words->text[w], strlen(r->words->text[w]));
        uint64_t at = r->word_key[w] & r->slot_mask;
        while (r->slot_word[at]) at = (at + 1) & r->slot_mask;
        r->slot_word[at] = w + 1;
    }
}

static uint32_t word_of(const struct rank *r, uint64_t key)
{
    uint64_t at = key & r->slot_mask;
    for (; r->slot_word[at]; at = (at + 1) & r->slot_mask)
        if (r->word_key[r->slot_word[at] - 1] == key) return r->slot_word[at] - 1;
    return RANK_WORD_NONE;
}

/* The item of the text with this key, which may have READER_UNKNOWN. */
static uint64_t item_of(const struct rank *r, uint64_t key)
{
    uint32_t word = word_of(r, key);
    if (word == RANK_WORD_NONE) word = r->words->unknown; /* its number, or RANK_WORD_NONE */
    return word == READER_NONE ? key | READER_UNKNOWN : word;
}

/* For cosine 1 / a vector's length, as in the match; else 1. */
static float inverse_norm(const struct rank *r, const float *x)
{
    float sum = 0;
    if (r->match.similarity != MATCH_COSINE) return 1;
    for (uint32_t d = 0; d < r->dim; d++) sum += x[d] * x[d];
    return 1 / sqrtf(sum + r->match.eps);
}

/* Copies the vectors of listed words into their panels. */
static status words_sink(void *context, const struct slot *slot)
{
    struct rank *r = context;
    const uint32_t panel_words = r->kernels->panel_words;
    struct view vectors = slot->tensor[r->vectors_tensor];
    for (uint32_t e = 0; e < slot->input->batch.example_count; e++) {
        const float *vector = view_row(vectors, e);
        uint64_t first = r->list_count++ * r->candidate_count;
        for (uint32_t j = 0; j < r->candidate_count && first + j < r->words->word_count; j++, vector += r->vector) {
            uint64_t w = first + j;
            float *to = r->panels + w / panel_words * panel_words * (r->dim + 1) + w % panel_words;
            float scale = inverse_norm(r, vector);
            *to = r->match.has_bias ? vector[r->dim] : 0;
            for (uint32_t d = 0; d < r->dim; d++) *(to += panel_words) = scale * vector[d];
        }
    }
    return ST_OK;
}

static status list_feed_open(struct rank *r)
{
    struct feed_options options = crew_feed_options(r->crew, "the vocabulary");
    options.reader.lists_words = true;
    options.reader.words_field = r->shape.field;
    options.all_lanes = true;
    TRY(feed_open(&r->feed, &options));
    feed_bell_set(r->feed, pipeline_feed_bell(r->crew->pipeline));
    return ST_OK;
}

status rank_begin(struct rank *r)
{
    r->list_count = 0;
    r->example_count = 0;
    r->query_count = 0;
    r->target_count = r->unknown_count = 0;
    r->loss_sum = r->hit_1_sum = r->hit_10_sum = 0;
    memset(r->hit_sum, 0, sizeof r->hit_sum);
    rank_groups_begin(&r->groups);
    if (r->feed == NULL) TRY(list_feed_open(r));
    status st = evaluate_run(r->crew, r->feed, words_sink, r);
    feed_close(r->feed);
    r->feed = NULL;
    return st;
}

/* --- what is known already -------------------------------------------------------------------- */

static status excluded_fill(struct rank *r, struct reader *reader, struct example_shape shape)
{
    const struct batch_shape batch = {.batch = QUERIES_MAX, .micro = QUERIES_MAX, .lanes = 1};
    struct arena arena;
    TRY(arena_open(&arena, part, micro_batch_bytes(batch, shape)));
    struct micro_batch m;
    micro_batch_place(&m, &arena, batch, shape);
    status st = reader_start(reader, 0);
    for (bool end = false; st == ST_OK && !end;) {
        micro_batch_clear(&m);
        st = reader_fill(reader, &m, QUERIES_MAX, &end);
        for (uint32_t e = 0; e < m.example_count && st == ST_OK; e++) {
            if (m.key_begin[e + 1] == m.key_begin[e]) continue;
            st = rank_groups_exclude(&r->groups, m.group[e], item_of(r, m.key[m.key_begin[e]]));
        }
    }
    arena_close(&arena);
    return st;
}

/* Reads groups and words of eval.exclude. */
static status excluded_read(struct rank *r, const char *paths)
{
    const struct crew *c = r->crew;
    struct reader_column column = c->setup->schema.reader.field[r->shape.field];
    column.negative_count = 0;
    column.vocabulary = READER_NONE; /* a text that is no word can be excluded, too */
    column.ids_max = 1;
    struct reader_options options = {.format = (enum reader_format)c->setup->settings.data_format,
                                     .schema = c->setup->schema.reader,
                                     .bad_skip = c->setup->settings.data_bad_lines == BAD_LINES_SKIP,
                                     .part = part,
                                     .notices = &log_notices};
    options.schema.example = (struct example_shape){.field_count = 1, .key_count_max = 1, .has_group = true};
    options.schema.field = &column;
    options.schema.missing_is_key = false;
    char *beside;
    TRY(setup_paths(c->setup, "eval.exclude", paths, &beside));
    options.paths = beside;
    struct reader *reader = NULL;
    status st = reader_open(&reader, &options);
    if (st == ST_OK) st = excluded_fill(r, reader, options.schema.example);
    reader_close(reader);
    free(beside);
    rank_groups_excluded_end(&r->groups);
    return st;
}

/* --- one row of scores ------------------------------------------------------------------------ */

/* Finds the `top` best words of a row, the best first, of equal scores the lower number; fills `word` and
 * top_score; returns their count. Words of score -infinity are left out. */
static uint32_t top_find(struct rank *r, const float *scores, uint32_t top, uint32_t *word)
{
    const size_t word_count = r->words->word_count;
    uint32_t count = 0;
    float least = -INFINITY;
    for (size_t w = 0; (w = r->kernels->above_next(scores, w, word_count, least)) < word_count; w++) {
        uint32_t at = count < top ? count++ : top - 1;
        for (; at > 0 && r->top_score[at - 1] < scores[w]; at--) {
            r->top_score[at] = r->top_score[at - 1];
            word[at] = word[at - 1];
        }
        r->top_score[at] = scores[w];
        word[at] = (uint32_t)w;
        if (count == top) least = r->top_score[top - 1];
    }
    return count;
}

/* Leaves the group's excluded words out of the row. */
static void excluded_apply(const struct rank *r, uint64_t group, float *scores)
{
    size_t count;
    const struct rank_pair *excluded = rank_groups_excluded(&r->groups, group, &count);
    for (size_t i = 0; i < count; i++)
        if (!(excluded[i].item & READER_UNKNOWN)) scores[excluded[i].item] = -INFINITY;
}

static void best_keep(struct rank *r, const float *scores, uint32_t number)
{
    uint32_t *best = rank_groups_best(&r->groups, number);
    for (uint32_t count = top_find(r, scores, r->top, best); count < r->top; count++) best[count] = RANK_WORD_NONE;
}

static void example_measure(struct rank *r, const float *scores, uint64_t target)
{
    if (target == ITEM_NONE) return;
    r->target_count++;
    r->unknown_count += (target & READER_UNKNOWN) != 0;
    if (target & READER_UNKNOWN) return;
    const size_t word_count = r->words->word_count;
    uint64_t above, equal;
    float greatest = r->kernels->greatest(scores, word_count), score = scores[target];
    double sum = r->kernels->exp_sum(scores, word_count, greatest);
    r->kernels->above_count(scores, word_count, score, &above, &equal);
    /* A target's score that is not a number equals none, and is behind all words. */
    double place = equal ? (double)above + (double)(equal - 1) / 2 : (double)INFINITY;
    r->loss_sum += fmath_log(sum) + (double)greatest - (double)score;
    r->hit_1_sum += place < 1;
    r->hit_10_sum += place < 10;
    for (uint32_t k = 0; k < r->cutoff_count; k++) r->hit_sum[k] += place < r->cutoff[k];
}

/* Leaves the words that the query's user knows out of the row. */
static void known_apply(const struct rank *r, uint32_t index, float *scores)
{
    const uint64_t *known = r->known + index * r->known_words;
    for (size_t i = 0; i < r->known_words; i++)
        for (uint64_t bits = known[i]; bits; bits &= bits - 1)
            scores[64 * i + (size_t)__builtin_ctzll(bits)] = -INFINITY;
}

static status line_give(struct rank *r, const float *scores, const struct query *q)
{
    uint32_t count = top_find(r, scores, q->top, r->top_word);
    char *at = r->line;
    for (uint32_t i = 0; i < count; i++) {
        const char *text = r->words->text[r->top_word[i]];
        if (i) *at++ = '\t';
        at = mempcpy(at, text, strlen(text));
    }
    *at++ = '\n';
    return r->lines.take(r->lines.context, q->example, r->line, (size_t)(at - r->line));
}

/* --- queries ---------------------------------------------------------------------------------- */

static status query_finish(struct rank *r, uint32_t index)
{
    const struct query *q = &r->query[index];
    float *scores = r->scores + (size_t)index * r->panel_count * r->kernels->panel_words;
    if (q->is_bad) return r->has_lines ? r->lines.take(r->lines.context, q->example, "nan\n", 4) : ST_OK;
    if (r->has_groups) excluded_apply(r, q->group, scores);
    known_apply(r, index, scores);
    if (r->has_lines) return line_give(r, scores, q);
    if (r->has_groups)
        best_keep(r, scores, q->number);
    else
        example_measure(r, scores, q->target);
    return ST_OK;
}

/* Scores and finishes the waiting queries. */
static status queries_finish(struct rank *r)
{
    if (r->query_count == 0) return ST_OK;
    const struct cpu_kernels *kernels = r->kernels;
    kernels->score(r->scores, (size_t)r->panel_count * kernels->panel_words, r->query_vector, r->dim, r->query_count,
                   r->panels, r->panel_count, r->dim);
    for (uint32_t i = 0; i < r->query_count; i++) TRY(query_finish(r, i));
    r->query_count = 0;
    return ST_OK;
}

static status query_begin(struct rank *r, const float *vector, const struct query *query)
{
    if (r->query_count == r->query_max) TRY(queries_finish(r));
    uint32_t index = r->query_count++;
    float *to = r->query_vector + (size_t)index * r->dim, scale = r->match.scale * inverse_norm(r, vector);
    for (uint32_t d = 0; d < r->dim; d++) to[d] = scale * vector[d];
    r->query[index] = *query;
    if (r->known_words) memset(r->known + index * r->known_words, 0, r->known_words * sizeof *r->known);
    return ST_OK;
}

/* Notes a word that the user of the query added last knows. */
static void known_put(struct rank *r, uint64_t word)
{
    r->known[(r->query_count - 1) * r->known_words + word / 64] |= UINT64_C(1) << word % 64;
}

/* The target's key; NULL: there is none. */
static const uint64_t *target_key(const struct rank_query_shape *s, const struct micro_batch *m, uint32_t e)
{
    const uint32_t home = e * s->field_count + s->field, key = m->key_begin[home];
    return m->key_begin[home + 1] > key ? &m->key[key] : NULL;
}

static uint64_t target_of(const struct rank *r, const struct micro_batch *m, uint32_t e)
{
    const uint64_t *key = target_key(&r->shape, m, e);
    return key ? item_of(r, *key) : ITEM_NONE;
}

bool rank_target_is_unknown(const struct rank *r, const struct micro_batch *m, uint32_t e)
{
    uint64_t target = target_of(r, m, e);
    return target != ITEM_NONE && target & READER_UNKNOWN;
}

/* Takes in an example, and sets its group's number; *is_new: the example gives a query. The targets of its
 * group that follow are known, too: all of a user's line, however few words a history holds. */
static status query_add(struct rank *r, const float *vector, struct query query, bool *is_new)
{
    *is_new = true;
    query.example = r->example_count++;
    if (r->has_groups && !query.is_bad) {
        TRY(rank_groups_number(&r->groups, query.group, &query.number, is_new));
        if (query.target != ITEM_NONE && !r->has_lines)
            TRY(rank_groups_target_add(&r->groups, query.group, query.target));
    }
    if (*is_new) TRY(query_begin(r, vector, &query));
    const bool is_last = r->query_count && r->query[r->query_count - 1].group == query.group; /* it still waits */
    if (r->known_words && is_last && !query.is_bad && query.target != ITEM_NONE && !(query.target & READER_UNKNOWN))
        known_put(r, query.target);
    return ST_OK;
}

/* Takes the history of the query added last. */
static void known_take(struct rank *r, const uint64_t *key, uint32_t count)
{
    for (uint32_t k = 0; k < count; k++) {
        const uint32_t word = word_of(r, key[k]);
        if (word != RANK_WORD_NONE) known_put(r, word);
    }
}

/* The example's history; *count is 0 where it is not needed. */
static const uint64_t *history_of(const struct rank_query_shape *s, const struct micro_batch *m, uint32_t e,
                                  uint32_t *count)
{
    *count = 0;
    if (s->history == GRAPH_NONE) return NULL;
    const uint32_t home = e * s->field_count + s->history;
    *count = m->key_begin[home + 1] - m->key_begin[home];
    return &m->key[m->key_begin[home]];
}

static status example_add(struct rank *r, const struct slot *slot, uint32_t e, uint32_t top, bool *is_new)
{
    const struct micro_batch *m = &slot->input->batch;
    const struct query query = {
        .target = target_of(r, m, e), .group = r->has_groups ? m->group[e] : 0, .is_bad = m->is_bad[e], .top = top};
    TRY(query_add(r, view_row(slot->tensor[r->shape.tensor], e), query, is_new));
    uint32_t known_count;
    const uint64_t *known = history_of(&r->shape, m, e, &known_count);
    if (*is_new) known_take(r, known, known_count);
    return ST_OK;
}

status rank_add(struct rank *r, const struct slot *slot)
{
    bool is_new;
    for (uint32_t e = 0; e < slot->input->batch.example_count; e++) TRY(example_add(r, slot, e, r->top, &is_new));
    return ST_OK;
}

status rank_add_example(struct rank *r, const struct slot *slot, uint32_t e, uint32_t top, bool *has_line)
{
    CHECK(r->has_lines && top <= r->lines.top_max);
    return example_add(r, slot, e, top, has_line);
}

/* --- queries of other nodes ------------------------------------------------------------------- */

/* The header of a query's bytes; its numbers follow, then its history, with room for history_max keys. */
struct query_word {
    uint64_t group, target_key;
    uint16_t has_target, is_bad;
    uint32_t known_count;
};

struct rank_query_shape rank_query_shape(const struct graph *g, uint32_t head)
{
    const uint32_t tensor = g->args[g->nodes[graph_match_of(g, head)].arg_begin];
    return (struct rank_query_shape){.field = rank_field(g, head),
                                     .field_count = g->field_count,
                                     .tensor = tensor,
                                     .dim = g->tensors[tensor].cols,
                                     .has_group = graph_example(g).has_group,
                                     .history = GRAPH_NONE};
}

struct rank_query_shape rank_query_shape_lines(const struct crew *crew, uint32_t head)
{
    const struct graph *g = &crew->setup->graph;
    struct rank_query_shape s = rank_query_shape(g, head);
    const uint32_t history = crew_history(crew);
    if (history == GRAPH_NONE || g->fields[history].seed != g->fields[s.field].seed) return s;
    s.history = history;
    s.history_max = g->fields[history].ids_max;
    return s;
}

static size_t numbers_bytes(const struct rank_query_shape *s) { return (s->dim + 1u) / 2 * sizeof(uint64_t); }

size_t rank_query_bytes(const struct rank_query_shape *s)
{
    return sizeof(struct query_word) + numbers_bytes(s) + s->history_max * sizeof(uint64_t);
}

void rank_query_write(const struct rank_query_shape *s, const struct slot *slot, uint32_t e, void *to)
{
    const struct micro_batch *m = &slot->input->batch;
    const uint64_t *key = target_key(s, m, e);
    struct query_word word = {.group = s->has_group ? m->group[e] : 0,
                              .target_key = key ? *key : 0,
                              .has_target = key != NULL,
                              .is_bad = m->is_bad[e]};
    uint8_t *numbers = (uint8_t *)to + sizeof word;
    const uint64_t *known = history_of(s, m, e, &word.known_count);
    memset(to, 0, rank_query_bytes(s));
    memcpy(to, &word, sizeof word);
    memcpy(numbers, view_row(slot->tensor[s->tensor], e), s->dim * sizeof(float));
    if (known) memcpy(numbers + numbers_bytes(s), known, word.known_count * sizeof *known);
}

static uint64_t query_target(const struct rank *r, const struct query_word *word)
{
    return word->has_target ? item_of(r, word->target_key) : ITEM_NONE;
}

bool rank_query_is_unknown(const struct rank *r, const void *query)
{
    const uint64_t target = query_target(r, query);
    return target != ITEM_NONE && target & READER_UNKNOWN;
}

status rank_query_add(struct rank *r, const void *query)
{
    const struct query_word *word = query;
    const uint8_t *numbers = (const uint8_t *)(word + 1);
    const struct query taken = {
        .target = query_target(r, word), .group = word->group, .is_bad = word->is_bad != 0, .top = r->top};
    bool is_new;
    if (word->known_count > r->shape.history_max)
        FAIL(INVALID, "a query of %u known words has come; expected at most %u", word->known_count,
             r->shape.history_max);
    TRY(query_add(r, (const float *)(const void *)numbers, taken, &is_new));
    if (is_new) known_take(r, (const uint64_t *)(const void *)(numbers + numbers_bytes(&r->shape)), word->known_count);
    return ST_OK;
}

status rank_flush(struct rank *r) { return queries_finish(r); }

void rank_groups_anew(struct rank *r) { rank_groups_begin(&r->groups); }

size_t rank_line_bytes_max(const struct rank *r) { return r->line_bytes_max; }

/* Means over examples whose target is a word, and over all examples, where a target
 * that is no word is a miss. */
static void examples_result(const struct rank *r, struct rank_result *result)
{
    double all = (double)r->target_count, known = (double)(r->target_count - r->unknown_count);
    result->target_count = result->query_count = r->target_count;
    result->unknown_count = r->unknown_count;
    result->logloss = r->loss_sum / known;
    result->perplexity = fmath_exp(result->logloss);
    result->hit_rate_1 = r->hit_1_sum / all;
    result->hit_rate_10 = r->hit_10_sum / all;
    result->known_hit_rate_1 = r->hit_1_sum / known;
    result->known_hit_rate_10 = r->hit_10_sum / known;
    for (uint32_t k = 1; k < r->cutoff_count; k++)
        result->at[k - 1] = (struct rank_figures){.recall = NAN, .hit_rate = r->hit_sum[k] / all, .ndcg = NAN};
}

status rank_end(struct rank *r, struct rank_result *result)
{
    TRY(queries_finish(r));
    *result = (struct rank_result){.has_groups = r->has_groups, .cutoff_count = r->cutoff_count - 1};
    memcpy(result->cutoff, r->cutoff + 1, result->cutoff_count * sizeof *r->cutoff);
    if (r->has_lines) return ST_OK;
    if (r->has_groups) {
        struct rank_groups_result groups;
        rank_groups_measure(&r->groups, r->cutoff, r->cutoff_count, &groups);
        result->query_count = groups.group_count;
        result->target_count = groups.target_count;
        result->unknown_count = groups.unknown_count;
        result->of_groups = groups.at[0];
        memcpy(result->at, groups.at + 1, result->cutoff_count * sizeof *result->at);
        result->known = groups.known;
    } else {
        examples_result(r, result);
    }
    if (result->query_count == 0)
        FAIL(INVALID, "no %s to rank words for",
             r->has_groups ? "group with a word that is not excluded" : "example with a word");
    return ST_OK;
}

bool rank_is_begun(const struct rank *r) { return r && (r->query_count || r->target_count || r->groups.count); }

status rank_reserve(struct rank *r, uint64_t example_count)
{
    return r->has_groups ? rank_groups_reserve(&r->groups, example_count) : ST_OK;
}

/* --- opening ---------------------------------------------------------------------------------- */

uint32_t rank_head(const struct graph *g)
{
    for (uint32_t i = graph_loss_next(g, 0); i < g->forward_count; i = graph_loss_next(g, i + 1))
        if (graph_candidates_of(g, i) != GRAPH_NONE) return i;
    return GRAPH_NONE;
}

uint32_t rank_field(const struct graph *g, uint32_t head) { return graph_candidates_of(g, head); }

/* Takes the loss's and its match's properties. */
static void model_take(struct rank *r, uint32_t head)
{
    const struct graph *g = &r->crew->setup->graph;
    const uint32_t match = graph_match_of(g, head);
    r->shape = rank_query_shape(g, head);
    r->candidate_count = 1 + g->fields[r->shape.field].negative_count;
    r->vectors_tensor = g->args[g->nodes[match].arg_begin + 1];
    r->match = graph_match_attr(g, match);
    r->dim = r->shape.dim;
    r->vector = r->dim + r->match.has_bias;
    r->words = &r->crew->setup->schema.vocabularies[g->fields[r->shape.field].vocabulary];
    r->has_groups = r->shape.has_group;
}

static void layout_make(struct layout *l, struct rank *r)
{
    size_t scores_stride = (size_t)r->panel_count * r->kernels->panel_words;
    LAYOUT_TAKE(l, r->panels, scores_stride * (r->dim + 1));
    LAYOUT_TAKE(l, r->slot_word, r->slot_mask + 1);
    LAYOUT_TAKE(l, r->word_key, r->words->word_count);
    LAYOUT_TAKE(l, r->query, r->query_max);
    LAYOUT_TAKE(l, r->query_vector, (size_t)r->query_max * r->dim);
    LAYOUT_TAKE(l, r->known, r->query_max * r->known_words);
    LAYOUT_TAKE(l, r->scores, r->query_max * scores_stride);
    const uint32_t top_max = r->top > r->lines.top_max ? r->top : r->lines.top_max;
    LAYOUT_TAKE(l, r->top_word, top_max);
    LAYOUT_TAKE(l, r->top_score, top_max);
    LAYOUT_TAKE(l, r->line, r->line_bytes_max);
}

static status memory_open(struct rank *r)
{
    const uint32_t panel_words = r->kernels->panel_words, word_count = r->words->word_count;
    r->panel_count = (word_count + panel_words - 1) / panel_words;
    size_t fits = SCORES_BYTES / sizeof(float) / ((size_t)r->panel_count * panel_words);
    r->query_max = fits > QUERIES_MAX ? QUERIES_MAX : fits > 1 ? (uint32_t)fits : 1;
    r->known_words = r->shape.history == GRAPH_NONE ? 0 : (word_count + 63u) / 64;
    for (r->slot_mask = 15; r->slot_mask < 2 * (uint64_t)word_count;) r->slot_mask = 2 * r->slot_mask + 1;
    struct layout sum = {0}, place = {.arena = &r->arena};
    layout_make(&sum, r);
    TRY(arena_open(&r->arena, part, sum.bytes));
    layout_make(&place, r);
    return ST_OK;
}

/* Reads eval.top and eval.cutoffs; `top` becomes the greatest. */
static status cutoffs_read(struct rank *r, const struct settings *settings)
{
    const char *at = settings->eval_cutoffs;
    r->cutoff[0] = r->top = settings->eval_top;
    r->cutoff_count = 1;
    while (*(at += strspn(at, " ")) != 0) {
        char *end;
        unsigned long k = strtoul(at, &end, 10);
        bool is_number = *at >= '0' && *at <= '9' && k >= 1 && k <= CUTOFF_MAX;
        at = end + strspn(end, " ");
        if (!is_number || (*at && *at != ',') || r->cutoff_count == RANK_CUTOFFS_MAX)
            FAIL(INVALID,
                 "eval.cutoffs: expected at most %d numbers from 1 to %d, with commas between them, found \"%s\"",
                 RANK_CUTOFFS_MAX - 1, CUTOFF_MAX, settings->eval_cutoffs);
        at += *at == ',';
        r->cutoff[r->cutoff_count++] = (uint32_t)k;
        if (k > r->top) r->top = (uint32_t)k;
    }
    return ST_OK;
}

/* Makes the ranking give lines. */
static void lines_take(struct rank *r, const struct rank_lines *lines)
{
    size_t longest = 1;
    const uint32_t top = r->crew->setup->settings.eval_top;
    r->has_lines = true;
    r->lines = *lines;
    r->top = top < lines->top_max ? top : lines->top_max;
    for (uint32_t w = 0; w < r->words->word_count; w++) {
        const size_t bytes = strlen(r->words->text[w]);
        if (bytes > longest) longest = bytes;
    }
    r->line_bytes_max = lines->top_max * (longest + 1) + sizeof "nan\n";
    /* Words of a query's history are not new to its user. */
    r->shape = rank_query_shape_lines(r->crew, rank_head(&r->crew->setup->graph));
}

status rank_open(struct rank **out, struct crew *c, const struct rank_lines *lines)
{
    uint32_t head = rank_head(&c->setup->graph);
    *out = NULL;
    if (head == GRAPH_NONE) return ST_OK;
    struct rank *r = calloc(1, sizeof *r);
    if (r == NULL) FAIL(MEMORY, "no memory for a ranking");
    status st;
    r->crew = c;
    st = cutoffs_read(r, &c->setup->settings);
    model_take(r, head);
    if (lines) lines_take(r, lines);
    rank_groups_open(&r->groups, c->setup, lines ? 0 : r->top);
    r->kernels = cpu_kernels_of(pipeline_device(c->pipeline));
    if (st != ST_OK) goto failed;
    TRY_GOTO(memory_open(r), failed);
    words_index(r, c->setup->graph.fields[r->shape.field].seed);
    TRY_GOTO(list_feed_open(r), failed);
    if (r->has_groups && *c->setup->settings.eval_exclude)
        TRY_GOTO(excluded_read(r, c->setup->settings.eval_exclude), failed);
    *out = r;
    return ST_OK;
failed:
    rank_close(r);
    return st;
}

void rank_close(struct rank *r)
{
    if (r == NULL) return;
    feed_close(r->feed);
    rank_groups_close(&r->groups);
    arena_close(&r->arena);
    free(r);
}
