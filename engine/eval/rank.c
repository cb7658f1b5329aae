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
#include "graph/op_rules.h"

/* Queries that are scored at once: so many that panels are used often, and no more scores than fit. */
#define QUERIES_MAX  64u
#define SCORES_BYTES ((size_t)64 << 20)
#define WORD_NONE    UINT32_MAX

/* A query that waits to be scored. */
struct query {
    uint64_t group;
    uint32_t target;         /* without groups: its word, or WORD_NONE                          */
    uint32_t relevant_begin; /* with groups: from here on to the next query's, words of the group */
    bool is_bad;             /* a malformed line                                                */
};

struct pair {
    uint64_t group;
    uint32_t word;
};

/* Pairs in a block that doubles. */
struct pairs {
    struct pair *item;
    size_t count, max;
};

struct rank {
    /* set once */
    struct crew *crew;
    struct file_writer *predictions;
    uint32_t field, field_count, candidate_count; /* the candidates' field, of so many; words it holds in an example */
    uint32_t query_tensor, vectors_tensor;
    struct match_attr match;
    uint32_t dim, vector; /* numbers of a query; of a word in the match's input */
    const struct reader_vocabulary *words;
    bool has_groups;
    struct feed *feed; /* lists the words; NULL: to be opened */
    const struct cpu_kernels *kernels;
    struct arena arena;
    float *panels; /* [panel_count][dim + 1][panel_words] */
    uint32_t panel_count;
    uint32_t *slot_word; /* [slot_mask + 1]: 1 + word, by the hash of its key; 0: none */
    uint64_t *word_key;  /* [word_count] */
    uint64_t slot_mask;
    struct pairs excluded; /* by group and word */
    /* of the evaluation */
    uint64_t list_count; /* examples of the list that have come */
    uint32_t query_max, query_count;
    struct query *query;   /* [query_max + 1] */
    float *query_vector;   /* [query_max, dim] */
    float *scores;         /* [query_max, panel_count * panel_words] */
    struct pairs relevant; /* of the queries that wait; their groups are not used */
    uint32_t *top_word;    /* [top] */
    float *top_score;
    uint64_t count;
    double recall_sum, hit_sum, ndcg_sum, loss_sum, hit_1_sum, hit_10_sum;
};

static const char part[] = "ranking";

/* --- pairs ------------------------------------------------------------------------------------ */

static status pairs_add(struct pairs *p, uint64_t group, uint32_t word)
{
    if (p->count == p->max) {
        size_t max = p->max ? 2 * p->max : 4096;
        void *grown;
        TRY(memory_take(part, max * sizeof *p->item, &grown));
        if (p->count) memcpy(grown, p->item, p->count * sizeof *p->item);
        memory_give(part, p->item, p->max * sizeof *p->item);
        p->item = grown;
        p->max = max;
    }
    p->item[p->count++] = (struct pair){group, word};
    return ST_OK;
}

static int pair_order(const void *a_pointer, const void *b_pointer)
{
    const struct pair *a = a_pointer, *b = b_pointer;
    if (a->group != b->group) return a->group < b->group ? -1 : 1;
    return (a->word > b->word) - (a->word < b->word);
}

/* The first pair that is not before this one. */
static size_t pairs_find(const struct pairs *p, size_t begin, size_t end, struct pair pair)
{
    while (begin < end) {
        size_t middle = begin + (end - begin) / 2;
        if (pair_order(&p->item[middle], &pair) < 0)
            begin = middle + 1;
        else
            end = middle;
    }
    return begin;
}

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
    return WORD_NONE;
}

/* Of cosine: one over a vector's length, as the match has it. */
static float inverse_norm(const struct rank *r, const float *x)
{
    float sum = 0;
    if (r->match.similarity != MATCH_COSINE) return 1;
    for (uint32_t d = 0; d < r->dim; d++) sum += x[d] * x[d];
    return 1 / sqrtf(sum + r->match.eps);
}

/* Takes the vectors of listed words into their panels. */
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
    options.reader.words_field = r->field;
    TRY(feed_open(&r->feed, &options));
    feed_bell_set(r->feed, pipeline_feed_bell(r->crew->pipeline));
    return ST_OK;
}

status rank_begin(struct rank *r)
{
    r->list_count = 0;
    r->query_count = 0;
    r->relevant.count = 0;
    r->count = 0;
    r->recall_sum = r->hit_sum = r->ndcg_sum = r->loss_sum = r->hit_1_sum = r->hit_10_sum = 0;
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
            uint32_t word = m.key_begin[e + 1] > m.key_begin[e] ? word_of(r, m.key[m.key_begin[e]]) : WORD_NONE;
            if (word != WORD_NONE) st = pairs_add(&r->excluded, m.group[e], word);
        }
    }
    arena_close(&arena);
    return st;
}

/* Reads groups and words of eval.exclude. */
static status excluded_read(struct rank *r, const char *paths)
{
    const struct crew *c = r->crew;
    struct reader_column column = c->setup->schema.reader.field[r->field];
    column.negative_count = 0;
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
    TRY(setup_paths(c->setup, paths, &beside));
    options.paths = beside;
    struct reader *reader = NULL;
    status st = reader_open(&reader, &options);
    if (st == ST_OK) st = excluded_fill(r, reader, options.schema.example);
    reader_close(reader);
    free(beside);
    if (st == ST_OK && r->excluded.count)
        qsort(r->excluded.item, r->excluded.count, sizeof *r->excluded.item, pair_order);
    return st;
}

/* --- one row of scores ------------------------------------------------------------------------ */

/* The `top` best words of a row, the best first, of equal ones the first: fills top_word and top_score; returns how many. Words of score
 * -infinity are none. */
static uint32_t top_find(struct rank *r, const float *scores)
{
    const uint32_t top = r->crew->setup->settings.eval_top;
    const size_t word_count = r->words->word_count;
    uint32_t count = 0;
    float least = -INFINITY;
    for (size_t w = 0; (w = r->kernels->above_next(scores, w, word_count, least)) < word_count; w++) {
        uint32_t at = count < top ? count++ : top - 1;
        for (; at > 0 && r->top_score[at - 1] < scores[w]; at--) {
            r->top_score[at] = r->top_score[at - 1];
            r->top_word[at] = r->top_word[at - 1];
        }
        r->top_score[at] = scores[w];
        r->top_word[at] = (uint32_t)w;
        if (count == top) least = r->top_score[top - 1];
    }
    return count;
}

/* Leaves the group's excluded words out of the row, and out of its relevant ones, which are sorted and then each there once; returns how
 * many those are. */
static uint32_t excluded_apply(const struct rank *r, uint64_t group, float *scores, struct pair *relevant,
                               uint32_t count)
{
    size_t begin = pairs_find(&r->excluded, 0, r->excluded.count, (struct pair){group, 0}), end = begin;
    for (; end < r->excluded.count && r->excluded.item[end].group == group; end++)
        scores[r->excluded.item[end].word] = -INFINITY;
    if (count) qsort(relevant, count, sizeof *relevant, pair_order);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (kept && relevant[kept - 1].word == relevant[i].word) continue;
        size_t at = pairs_find(&r->excluded, begin, end, relevant[i]);
        if (at == end || r->excluded.item[at].word != relevant[i].word) relevant[kept++] = relevant[i];
    }
    return kept;
}

static double discount(uint32_t place) { return fmath_log(2) / fmath_log(2 + (double)place); }

static void group_measure(struct rank *r, const float *scores, const struct pair *relevant, uint32_t relevant_count)
{
    if (relevant_count == 0) return;
    uint32_t found = 0, top_count = top_find(r, scores);
    double gain = 0, gain_max = 0;
    for (uint32_t place = 0; place < top_count; place++) {
        const struct pair wanted = {relevant[0].group, r->top_word[place]};
        if (!bsearch(&wanted, relevant, relevant_count, sizeof *relevant, pair_order)) continue;
        gain += discount(place);
        found++;
    }
    for (uint32_t place = 0; place < relevant_count && place < r->crew->setup->settings.eval_top; place++)
        gain_max += discount(place);
    r->recall_sum += (double)found / relevant_count;
    r->hit_sum += found > 0;
    r->ndcg_sum += gain / gain_max;
    r->count++;
}

static void example_measure(struct rank *r, const float *scores, uint32_t target)
{
    if (target == WORD_NONE) return;
    const size_t word_count = r->words->word_count;
    uint64_t above, equal;
    float greatest = r->kernels->greatest(scores, word_count), score = scores[target];
    double sum = r->kernels->exp_sum(scores, word_count, greatest);
    r->kernels->above_count(scores, word_count, score, &above, &equal);
    /* A score that is not finite equals nothing, and shows in the loss. */
    double place = (double)above + (equal ? (double)(equal - 1) / 2 : 0);
    r->loss_sum += fmath_log(sum) + (double)greatest - (double)score;
    r->hit_1_sum += place < 1;
    r->hit_10_sum += place < 10;
    r->count++;
}

static status line_write(struct rank *r, const float *scores)
{
    uint32_t count = top_find(r, scores);
    for (uint32_t i = 0; i < count; i++) {
        const char *text = r->words->text[r->top_word[i]];
        if (i) TRY(file_writer_put(r->predictions, "\t", 1));
        TRY(file_writer_put(r->predictions, text, strlen(text)));
    }
    return file_writer_put(r->predictions, "\n", 1);
}

/* --- queries ---------------------------------------------------------------------------------- */

static status query_finish(struct rank *r, uint32_t index)
{
    const struct query *q = &r->query[index];
    float *scores = r->scores + (size_t)index * r->panel_count * r->kernels->panel_words;
    if (q->is_bad) return r->predictions ? file_writer_put(r->predictions, "nan\n", 4) : ST_OK;
    struct pair *relevant = r->relevant.item + q->relevant_begin;
    uint32_t relevant_count = q[1].relevant_begin - q->relevant_begin;
    if (r->has_groups) relevant_count = excluded_apply(r, q->group, scores, relevant, relevant_count);
    if (r->predictions) return line_write(r, scores);
    if (r->has_groups)
        group_measure(r, scores, relevant, relevant_count);
    else
        example_measure(r, scores, q->target);
    return ST_OK;
}

/* Scores the queries that wait. */
static status queries_finish(struct rank *r)
{
    if (r->query_count == 0) return ST_OK;
    const struct cpu_kernels *k = r->kernels;
    r->query[r->query_count].relevant_begin = (uint32_t)r->relevant.count;
    k->score(r->scores, (size_t)r->panel_count * k->panel_words, r->query_vector, r->dim, r->query_count, r->panels,
             r->panel_count, r->dim);
    for (uint32_t i = 0; i < r->query_count; i++) TRY(query_finish(r, i));
    r->query_count = 0;
    r->relevant.count = 0;
    return ST_OK;
}

static status query_begin(struct rank *r, const float *vector, uint64_t group, uint32_t target, bool is_bad)
{
    if (r->query_count == r->query_max) TRY(queries_finish(r));
    uint32_t index = r->query_count++;
    float *to = r->query_vector + (size_t)index * r->dim, scale = r->match.scale * inverse_norm(r, vector);
    for (uint32_t d = 0; d < r->dim; d++) to[d] = scale * vector[d];
    r->query[index] = (struct query){
        .group = group, .target = target, .relevant_begin = (uint32_t)r->relevant.count, .is_bad = is_bad};
    return ST_OK;
}

status rank_add(struct rank *r, const struct slot *slot)
{
    const struct micro_batch *m = &slot->input->batch;
    struct view queries = slot->tensor[r->query_tensor];
    for (uint32_t e = 0; e < m->example_count; e++) {
        uint32_t home = e * r->field_count + r->field, key = m->key_begin[home];
        uint32_t target = m->key_begin[home + 1] > key ? word_of(r, m->key[key]) : WORD_NONE;
        uint64_t group = r->has_groups ? m->group[e] : 0;
        bool goes_on = r->has_groups && r->query_count && !m->is_bad[e] && !r->query[r->query_count - 1].is_bad &&
                       r->query[r->query_count - 1].group == group;
        if (!goes_on) TRY(query_begin(r, view_row(queries, e), group, target, m->is_bad[e]));
        if (r->has_groups && target != WORD_NONE) TRY(pairs_add(&r->relevant, group, target));
    }
    return ST_OK;
}

status rank_end(struct rank *r, struct rank_result *result)
{
    TRY(queries_finish(r));
    *result = (struct rank_result){.count = r->count, .has_groups = r->has_groups};
    if (r->predictions) return ST_OK;
    if (r->count == 0)
        FAIL(INVALID, "no %s to rank words for",
             r->has_groups ? "group with a word that is not excluded" : "example with a word");
    double count = (double)r->count;
    result->recall = r->recall_sum / count;
    result->hit_rate = r->hit_sum / count;
    result->ndcg = r->ndcg_sum / count;
    result->logloss = r->loss_sum / count;
    result->perplexity = fmath_exp(result->logloss);
    result->hit_rate_1 = r->hit_1_sum / count;
    result->hit_rate_10 = r->hit_10_sum / count;
    return ST_OK;
}

/* --- opening ---------------------------------------------------------------------------------- */

/* The field whose log_q the loss reads; GRAPH_NONE: those are other columns. */
static uint32_t candidates_of(const struct graph *g, const struct graph_node *loss)
{
    const struct graph_tensor *log_q = &g->tensors[g->args[loss->arg_begin + 1]];
    for (uint32_t f = 0; f < g->field_count; f++) {
        const struct graph_field *field = &g->fields[f];
        if (field->negative_count && field->vocabulary != GRAPH_NONE && log_q->kind == TENSOR_DENSE &&
            log_q->offset == field->log_q && log_q->cols == 1 + field->negative_count)
            return f;
    }
    return GRAPH_NONE;
}

uint32_t rank_head(const struct graph *g)
{
    for (uint32_t i = graph_loss_next(g, 0); i < g->forward_count; i = graph_loss_next(g, i + 1))
        if (graph_match_of(g, i) != GRAPH_NONE && candidates_of(g, &g->nodes[i]) != GRAPH_NONE) return i;
    return GRAPH_NONE;
}

/* What the ranking needs of that loss and its match. */
static void model_take(struct rank *r, uint32_t head)
{
    const struct graph *g = &r->crew->setup->graph;
    const struct graph_node *match = &g->nodes[graph_match_of(g, head)];
    r->field = candidates_of(g, &g->nodes[head]);
    r->field_count = g->field_count;
    r->candidate_count = 1 + g->fields[r->field].negative_count;
    r->query_tensor = g->args[match->arg_begin];
    r->vectors_tensor = g->args[match->arg_begin + 1];
    memcpy(&r->match, match->attr, sizeof r->match);
    r->dim = g->tensors[r->query_tensor].cols;
    r->vector = r->dim + r->match.has_bias;
    r->words = &r->crew->setup->schema.vocabularies[g->fields[r->field].vocabulary];
    r->has_groups = graph_example(g).has_group;
}

static void layout_make(struct layout *l, struct rank *r)
{
    size_t scores_stride = (size_t)r->panel_count * r->kernels->panel_words, top = r->crew->setup->settings.eval_top;
    LAYOUT_TAKE(l, r->panels, scores_stride * (r->dim + 1));
    LAYOUT_TAKE(l, r->slot_word, r->slot_mask + 1);
    LAYOUT_TAKE(l, r->word_key, r->words->word_count);
    LAYOUT_TAKE(l, r->query, r->query_max + 1);
    LAYOUT_TAKE(l, r->query_vector, (size_t)r->query_max * r->dim);
    LAYOUT_TAKE(l, r->scores, r->query_max * scores_stride);
    LAYOUT_TAKE(l, r->top_word, top);
    LAYOUT_TAKE(l, r->top_score, top);
}

static status memory_open(struct rank *r)
{
    const uint32_t panel_words = r->kernels->panel_words, word_count = r->words->word_count;
    r->panel_count = (word_count + panel_words - 1) / panel_words;
    size_t fits = SCORES_BYTES / sizeof(float) / ((size_t)r->panel_count * panel_words);
    r->query_max = fits > QUERIES_MAX ? QUERIES_MAX : fits > 1 ? (uint32_t)fits : 1;
    for (r->slot_mask = 15; r->slot_mask < 2 * (uint64_t)word_count;) r->slot_mask = 2 * r->slot_mask + 1;
    struct layout sum = {0}, place = {.arena = &r->arena};
    layout_make(&sum, r);
    TRY(arena_open(&r->arena, part, sum.bytes));
    layout_make(&place, r);
    return ST_OK;
}

status rank_open(struct rank **out, struct crew *c, struct file_writer *predictions)
{
    uint32_t head = rank_head(&c->setup->graph);
    *out = NULL;
    if (head == GRAPH_NONE) return ST_OK;
    struct rank *r = calloc(1, sizeof *r);
    if (r == NULL) FAIL(MEMORY, "no memory for a ranking");
    r->crew = c;
    r->predictions = predictions;
    model_take(r, head);
    r->kernels = cpu_kernels_of(pipeline_device(c->pipeline));
    status st;
    TRY_GOTO(memory_open(r), failed);
    words_index(r, c->setup->graph.fields[r->field].seed);
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
    memory_give(part, r->excluded.item, r->excluded.max * sizeof *r->excluded.item);
    memory_give(part, r->relevant.item, r->relevant.max * sizeof *r->relevant.item);
    arena_close(&r->arena);
    free(r);
}
