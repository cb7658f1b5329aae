/* Keeps terms of examples with their values, and measures them value by value. */
#include "engine/eval/by_value.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/heap.h"
#include "engine/base/log.h"
#include "engine/base/words.h"
#include "engine/eval/evaluate.h"

/* A value of the column. */
struct value {
    uint64_t hash;
    size_t begin, bytes; /* in `texts` */
    uint64_t example_count;
    uint32_t group; /* index of its figures; value_max: among the others */
};

struct by_value {
    /* set at open */
    struct columns *columns;
    struct column_text *next; /* [columns_count] */
    uint32_t value_max;
    struct heads heads;
    bool has_weight;
    /* values, by number in the order in which they come */
    struct value *value;
    size_t value_count, value_room;
    char *texts;
    size_t texts_bytes, texts_room;
    uint32_t *index; /* [index_room], a power of two, at least 2 value_room: 1 + number; 0: none */
    size_t index_room;
    /* examples */
    size_t count, room;
    uint32_t *value_of; /* [room]                          */
    uint8_t **terms;    /* [heads.count][room], head_term_bytes each */
    float *weight;      /* [room]; NULL: all are 1         */
    uint64_t *batch;    /* [micro, 2]: terms of a head in the slot being added */
};

/* Room for `need` items, at least twice what there was. MEMORY. */
static status grow(void *pointer_of, size_t *room, size_t need, size_t item_bytes)
{
    if (need <= *room) return ST_OK;
    const size_t more = 2 * *room > need ? 2 * *room : need;
    TRY(heap_room(pointer_of, more, item_bytes, "examples, or texts, of figures by value"));
    *room = more;
    return ST_OK;
}

/* --- values ------------------------------------------------------------------------------------- */

static size_t index_home(const struct by_value *by, uint64_t hash, struct column_text text)
{
    size_t at = hash & (by->index_room - 1);
    for (; by->index[at]; at = (at + 1) & (by->index_room - 1)) {
        const struct value *v = &by->value[by->index[at] - 1];
        if (v->hash == hash && v->bytes == text.bytes && memcmp(by->texts + v->begin, text.text, text.bytes) == 0)
            break;
    }
    return at;
}

static status index_grow(struct by_value *by)
{
    size_t room = by->index_room ? 2 * by->index_room : 1024;
    free(by->index);
    by->index = calloc(room, sizeof *by->index);
    by->index_room = by->index ? room : 0;
    if (by->index == NULL) FAIL(MEMORY, "no memory for %zu values of a column", room / 2);
    for (size_t i = 0; i < by->value_count; i++) {
        const struct value *v = &by->value[i];
        by->index[index_home(by, v->hash, (struct column_text){by->texts + v->begin, v->bytes})] = (uint32_t)i + 1;
    }
    return ST_OK;
}

static status value_number(struct by_value *by, struct column_text text, uint32_t *number)
{
    const uint64_t hash = reader_key(0, text.text, text.bytes);
    if (2 * (by->value_count + 1) > by->index_room) TRY(index_grow(by));
    size_t home = index_home(by, hash, text);
    if (by->index[home] == 0) {
        TRY(grow(&by->value, &by->value_room, by->value_count + 1, sizeof *by->value));
        TRY(grow(&by->texts, &by->texts_room, by->texts_bytes + text.bytes + 1, 1));
        memcpy(by->texts + by->texts_bytes, text.text, text.bytes);
        by->value[by->value_count] = (struct value){.hash = hash, .begin = by->texts_bytes, .bytes = text.bytes};
        by->texts_bytes += text.bytes;
        by->texts[by->texts_bytes++] = 0;
        by->index[home] = (uint32_t)++by->value_count;
    }
    *number = by->index[home] - 1;
    by->value[*number].example_count++;
    return ST_OK;
}

/* --- examples ----------------------------------------------------------------------------------- */

static status examples_grow(struct by_value *by, size_t need)
{
    size_t room = by->room;
    for (uint32_t h = 0; h < by->heads.count; h++) {
        room = by->room;
        TRY(grow(&by->terms[h], &room, need, head_term_bytes(&by->heads.items[h])));
    }
    room = by->room;
    if (by->has_weight) TRY(grow(&by->weight, &room, need, sizeof *by->weight));
    return grow(&by->value_of, &by->room, need, sizeof *by->value_of);
}

/* Takes the next example's value, and, unless it is left out, counts it with its weight;
 * its terms are in place. */
static status example_put(struct by_value *by, bool is_left_out, float weight)
{
    TRY(columns_next(by->columns, by->next));
    if (is_left_out) return ST_OK;
    columns_marks_remove(by->columns, &by->next[0]);
    if (by->has_weight) by->weight[by->count] = weight;
    TRY(value_number(by, by->next[0], &by->value_of[by->count]));
    by->count++;
    return ST_OK;
}

/* Copies the term at index e of `from` to example `to`. */
static void term_copy(const struct by_value *by, uint32_t h, size_t to, const void *from, uint32_t e)
{
    const size_t bytes = head_term_bytes(&by->heads.items[h]);
    memcpy(by->terms[h] + to * bytes, (const uint8_t *)from + e * bytes, bytes);
}

status by_value_add(struct by_value *by, const struct slot *slot, const struct rank *rank)
{
    const struct micro_batch *m = &slot->input->batch;
    const struct op_context c = {.graph = by->heads.graph, .tensor = slot->tensor, .batch = m};
    const size_t begin = by->count;
    TRY(examples_grow(by, begin + m->example_count));
    for (uint32_t h = 0; h < by->heads.count; h++) {
        head_terms_write(&by->heads.items[h], &c, 0, m->example_count, by->batch);
        size_t to = begin;
        for (uint32_t e = 0; e < m->example_count; e++)
            if (rank == NULL || !rank_target_is_unknown(rank, m, e)) term_copy(by, h, to++, by->batch, e);
    }
    for (uint32_t e = 0; e < m->example_count; e++)
        TRY(example_put(by, rank && rank_target_is_unknown(rank, m, e), by->has_weight ? batch_weight(m, e) : 1));
    return ST_OK;
}

status by_value_terms_add(struct by_value *by, const struct heads *heads, const void *terms, uint32_t count)
{
    const size_t begin = by->count;
    TRY(examples_grow(by, begin + count));
    for (uint32_t h = 0; h < by->heads.count; h++) {
        const void *of_head = heads_terms_of(heads, terms, count, h);
        size_t to = begin;
        for (uint32_t e = 0; e < count; e++)
            if (!heads_terms_are_left_out(heads, terms, count, e)) term_copy(by, h, to++, of_head, e);
    }
    const float *weight = heads_terms_weights(heads, terms, count);
    for (uint32_t e = 0; e < count; e++)
        TRY(example_put(by, heads_terms_are_left_out(heads, terms, count, e), weight ? weight[e] : 1));
    return ST_OK;
}

/* --- figures ------------------------------------------------------------------------------------ */

static int value_order(const void *a_pointer, const void *b_pointer)
{
    const struct value *a = *(const struct value *const *)a_pointer, *b = *(const struct value *const *)b_pointer;
    if (a->example_count != b->example_count) return a->example_count > b->example_count ? -1 : 1;
    return (a > b) - (a < b);
}

/* Examples that are measured together. */
struct group {
    const struct value *value; /* NULL: the others */
    uint64_t example_count;
    size_t end;         /* in the order of examples by group */
    bool is_weightless; /* all weights are 0: there are no means */
};

static void group_tell(const struct by_value *by, const char *set, const struct group *g, uint64_t other_count)
{
    char count[27], others[27], text[512], name[512];
    const char *column = columns_name(by->columns, 0), *value = g->value ? by->texts + g->value->begin : "";
    if (g->value)
        snprintf(name, sizeof name, "%s = %.300s", column, *value ? value : "(nothing)");
    else
        snprintf(name, sizeof name, "%s: %s other values", column, words_whole(others, other_count));
    for (uint32_t h = 0; h < by->heads.count; h++)
        log_result("by       %s%s%s%s%s: %s (%s examples)", set ? set : "", set ? " " : "", name,
                   by->heads.count > 1 ? ", " : "", by->heads.count > 1 ? by->heads.items[h].name : "",
                   g->is_weightless ? "no means, for all weights are 0"
                                    : evaluate_figures_text(&by->heads.items[h], false, text, sizeof text),
                   words_whole(count, g->example_count));
    log_event_begin("eval_by");
    if (set) log_event_text("set", set);
    log_event_text("column", column);
    if (g->value)
        log_event_text("value", value);
    else
        log_event_u64("other_values", other_count);
    log_event_u64("samples", g->example_count);
    evaluate_figures_event(heads_main(&by->heads));
    log_event_open_array("heads");
    for (uint32_t h = 0; h < by->heads.count; h++) {
        log_event_open(NULL);
        log_event_text("name", by->heads.items[h].name);
        evaluate_figures_event(&by->heads.items[h]);
        log_event_close();
    }
    log_event_close_array();
    log_event_end();
}

/* Chooses the values with the most examples, and after them a group of all others. */
static uint32_t groups_choose(struct by_value *by, const struct value **best, struct group *group)
{
    const uint32_t max = by->value_max, chosen = by->value_count < max ? (uint32_t)by->value_count : max;
    for (size_t i = 0; i < by->value_count; i++) {
        by->value[i].group = chosen;
        best[i] = &by->value[i];
    }
    if (by->value_count) qsort(best, by->value_count, sizeof *best, value_order);
    group[chosen] = (struct group){.example_count = by->count};
    for (uint32_t i = 0; i < chosen; i++) {
        by->value[best[i] - by->value].group = i;
        group[i] = (struct group){.value = best[i], .example_count = best[i]->example_count};
        group[chosen].example_count -= group[i].example_count;
    }
    size_t end = 0;
    for (uint32_t i = 0; i <= chosen; i++) {
        group[i].end = end; /* its begin, until examples are put into the order */
        end += group[i].example_count;
    }
    return chosen;
}

/* Orders examples by group, within a group by the order of the data, and measures each group. */
static status groups_measure(struct by_value *by, const char *set, struct group *group, uint32_t chosen,
                             uint64_t *order, uint64_t *terms, float *weight)
{
    for (size_t i = 0; i < by->count; i++) order[group[by->value[by->value_of[i]].group].end++] = i;
    for (uint32_t k = 0; k <= chosen; k++) {
        struct group *g = &group[k];
        const uint64_t *at = order + g->end - g->example_count;
        if (g->example_count == 0) continue;
        TRY(heads_reserve(&by->heads, g->example_count));
        g->is_weightless = by->has_weight;
        for (uint64_t i = 0; i < g->example_count && by->has_weight; i++) {
            weight[i] = by->weight[at[i]];
            g->is_weightless = g->is_weightless && weight[i] == 0;
        }
        for (uint32_t h = 0; h < by->heads.count; h++) {
            const size_t bytes = head_term_bytes(&by->heads.items[h]);
            for (uint64_t i = 0; i < g->example_count; i++)
                memcpy((uint8_t *)terms + i * bytes, by->terms[h] + at[i] * bytes, bytes);
            head_terms_measure(&by->heads.items[h], terms, by->has_weight ? weight : NULL, g->example_count);
        }
        group_tell(by, set, g, by->value_count - chosen);
    }
    return ST_OK;
}

status by_value_tell(struct by_value *by, const char *set)
{
    const struct value **best = calloc(by->value_count + 1, sizeof *best);
    struct group *group = calloc((size_t)by->value_max + 1, sizeof *group);
    uint64_t *order = calloc(by->count + 1, sizeof *order);
    uint64_t *terms = calloc(by->count + 1, 2 * sizeof *terms);
    float *weight = calloc(by->count + 1, sizeof *weight);
    status st = ST_OK;
    if (best && group && order && terms && weight)
        st = groups_measure(by, set, group, groups_choose(by, best, group), order, terms, weight);
    else
        st =
            status_fail(ST_MEMORY, __FILE__, __LINE__, "no memory for the figures of %zu examples by value", by->count);
    free(best);
    free(group);
    free(order);
    free(terms);
    free(weight);
    return st;
}

/* --- opening ---------------------------------------------------------------------------------- */

status by_value_open(struct by_value **out, const struct graph *graph, struct columns *columns, uint32_t value_max)
{
    *out = NULL;
    struct by_value *by = calloc(1, sizeof *by);
    if (by == NULL) FAIL(MEMORY, "no memory for figures by value");
    by->columns = columns;
    by->value_max = value_max;
    by->has_weight = graph_example(graph).has_weight;
    status st;
    TRY_GOTO(heads_open(&by->heads, graph), failed);
    for (uint32_t i = 0; i < by->heads.count; i++) by->heads.items[i].metrics.has_group = false;
    by->next = calloc(columns_count(columns), sizeof *by->next);
    by->terms = calloc(by->heads.count, sizeof *by->terms);
    by->batch = calloc(graph_batch(graph).micro, 2 * sizeof *by->batch);
    *out = by;
    if (by->next && by->terms && by->batch) return ST_OK;
    st = status_fail(ST_MEMORY, __FILE__, __LINE__, "no memory for figures by value");
failed:
    by_value_close(by);
    *out = NULL;
    return st;
}

void by_value_close(struct by_value *by)
{
    if (by == NULL) return;
    for (uint32_t h = 0; h < by->heads.count && by->terms; h++) free(by->terms[h]);
    heads_close(&by->heads);
    free(by->next);
    free(by->value);
    free(by->texts);
    free(by->index);
    free(by->value_of);
    free(by->terms);
    free(by->weight);
    free(by->batch);
    free(by);
}
