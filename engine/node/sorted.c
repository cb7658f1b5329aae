/* Rows of all nodes, merged. A few times a run; a row costs rank 0 a look at the next keys of all nodes. */
#include "engine/node/sorted.h"

#include <stdlib.h>
#include <string.h>

#include "engine/node/reduce_internal.h"
#include "engine/node/talk.h"

enum what { SORTED_OPEN, SORTED_KEYS, SORTED_VECTORS, SORTED_CLOSE, SORTED_END, SORTED_WHAT_COUNT };
/* What rank 0 wants. */
struct wish {
    uint32_t what, table, has_score;
    float score;
};
/* What a node says of a table that it has opened. */
struct opened {
    uint64_t row_count, left_out;
};

static status wish_say(struct sorted_nodes *s, const struct wish *wish)
{
    for (uint32_t n = 1; n < reduce_node_count(s->reduce); n++) TRY(reduce_say_all(s->reduce, n, wish, sizeof *wish));
    return ST_OK;
}

/* --- another node ----------------------------------------------------------------------------- */

/* Rows of any number of bytes, in blocks that are filled to their end. */
struct blocks {
    struct reduce *reduce;
    uint8_t *at;
    uint32_t used;
};

static void block_end(struct blocks *b)
{
    if (b->used > 0) reduce_say(b->reduce, 0, b->used);
    b->used = 0;
}

static status bytes_say(struct blocks *b, const void *data, size_t bytes)
{
    for (const uint8_t *from = data; bytes > 0;) {
        if (b->used == 0) TRY(reduce_say_place(b->reduce, 0, &b->at));
        const uint32_t room = TALK_BYTES - b->used, count = bytes < room ? (uint32_t)bytes : room;
        memcpy(b->at + b->used, from, count);
        b->used += count;
        from += count;
        bytes -= count;
        if (b->used == TALK_BYTES) block_end(b);
    }
    return ST_OK;
}

static status rows_say(struct reduce *r, struct model_sorted_own *own, const struct wish *wish)
{
    struct blocks blocks = {.reduce = r};
    const bool has_vectors = wish->what == SORTED_VECTORS;
    const size_t vector_bytes = own->model->graph->tables[wish->table].dim * sizeof(float);
    struct model_sorted *sorted = &own->sorted;
    TRY(sorted->vt->begin(sorted, wish->table, has_vectors));
    for (uint64_t i = 0; i < sorted->table[wish->table].row_count; i++) {
        uint64_t key;
        const float *vector;
        TRY(sorted->vt->next(sorted, &key, &vector));
        TRY(bytes_say(&blocks, &key, sizeof key));
        if (has_vectors) TRY(bytes_say(&blocks, vector, vector_bytes));
    }
    block_end(&blocks);
    return ST_OK;
}

static status wish_grant(struct reduce *r, struct model_sorted_own *own, const struct wish *wish)
{
    struct model_sorted *sorted = &own->sorted;
    const struct model_sorted_filter filter = {wish->has_score != 0, wish->score};
    if (wish->what == SORTED_KEYS || wish->what == SORTED_VECTORS) return rows_say(r, own, wish);
    if (wish->what == SORTED_CLOSE) sorted->vt->close(sorted, wish->table);
    if (wish->what != SORTED_OPEN) return ST_OK;
    TRY(sorted->vt->open(sorted, wish->table, &filter));
    const struct opened opened = {sorted->table[wish->table].row_count, sorted->table[wish->table].left_out};
    return reduce_say_all(r, 0, &opened, sizeof opened);
}

static status serve(struct reduce *r, struct model_sorted_own *own)
{
    struct wish wish = {0};
    while (wish.what != SORTED_END) {
        TRY(reduce_hear_all(r, 0, &wish, sizeof wish));
        if (wish.what >= SORTED_WHAT_COUNT || (wish.what != SORTED_END && wish.table >= r->graph->table_count))
            FAIL(INVALID, "node 0 asks for something unknown: it does not run the same program");
        TRY(wish_grant(r, own, &wish));
    }
    return ST_OK;
}

status sorted_serve(struct reduce *r, const struct model *model)
{
    struct model_sorted_own *own = malloc(sizeof *own);
    if (own == NULL) FAIL(MEMORY, "no memory to sort rows");
    status st = model_sorted_own_open(own, model);
    if (st == ST_OK) {
        st = store_hold(r);
        if (st == ST_OK) st = serve(r, own);
        store_let_go(r);
    }
    model_sorted_own_close(own);
    free(own);
    return st;
}

/* --- rank 0 ----------------------------------------------------------------------------------- */

static status bytes_hear(struct reduce *r, uint32_t node, struct sorted_from *from, void *to, size_t bytes)
{
    for (uint8_t *at = to; bytes > 0;) {
        if (from->left == 0) {
            if (from->is_held) reduce_heard(r, node);
            from->is_held = false;
            TRY(reduce_hear(r, node, &from->data, &from->left));
            from->is_held = true;
        }
        const uint32_t count = bytes < from->left ? (uint32_t)bytes : from->left;
        memcpy(at, from->data, count);
        from->data += count;
        from->left -= count;
        at += count;
        bytes -= count;
    }
    return ST_OK;
}

/* After a node's last row: its block is at its end. */
static status node_rest(struct sorted_nodes *s, uint32_t node)
{
    struct sorted_from *from = &s->from[node];
    if (!from->is_held) return ST_OK;
    if (from->left > 0)
        FAIL(INVALID, "node %u sends more rows than it has: it does not run the same program",
             reduce_name(s->reduce, node));
    reduce_heard(s->reduce, node);
    from->is_held = false;
    return ST_OK;
}

/* The node's next row, if there is one. */
static status node_next(struct sorted_nodes *s, uint32_t node)
{
    struct sorted_from *from = &s->from[node];
    const uint32_t dim = s->reduce->graph->tables[s->at_table].dim;
    const uint64_t before = from->key;
    const bool is_first = from->rows_left == s->row_count[s->at_table][node];
    from->is_there = from->rows_left > 0;
    if (!from->is_there) return node_rest(s, node);
    from->rows_left--;
    if (node == 0) {
        const float *vector = NULL;
        TRY(s->own.sorted.vt->next(&s->own.sorted, &from->key, &vector));
        if (s->has_vectors) memcpy(from->vector, vector, dim * sizeof *vector);
        return ST_OK;
    }
    TRY(bytes_hear(s->reduce, node, from, &from->key, sizeof from->key));
    if (!is_first && from->key <= before)
        FAIL(INVALID, "node %u sends rows that are not in order: it does not run the same program",
             reduce_name(s->reduce, node));
    return s->has_vectors ? bytes_hear(s->reduce, node, from, from->vector, dim * sizeof *from->vector) : ST_OK;
}

static status nodes_open(struct model_sorted *sorted, uint32_t table, const struct model_sorted_filter *filter)
{
    struct sorted_nodes *s = (struct sorted_nodes *)sorted;
    struct model_sorted *own = &s->own.sorted;
    TRY(wish_say(s, &(struct wish){SORTED_OPEN, table, filter->has_score, filter->score}));
    TRY(own->vt->open(own, table, filter));
    sorted->table[table].row_count = s->row_count[table][0] = own->table[table].row_count;
    sorted->table[table].left_out = own->table[table].left_out;
    for (uint32_t n = 1; n < reduce_node_count(s->reduce); n++) {
        struct opened opened;
        TRY(reduce_hear_all(s->reduce, n, &opened, sizeof opened));
        s->row_count[table][n] = opened.row_count;
        sorted->table[table].row_count += opened.row_count;
        sorted->table[table].left_out += opened.left_out;
    }
    return ST_OK;
}

static status nodes_begin(struct model_sorted *sorted, uint32_t table, bool has_vectors)
{
    struct sorted_nodes *s = (struct sorted_nodes *)sorted;
    s->at_table = table;
    s->has_vectors = has_vectors;
    s->last = REDUCE_NODES_MAX;
    s->is_under_way = true;
    TRY(wish_say(s, &(struct wish){.what = has_vectors ? SORTED_VECTORS : SORTED_KEYS, .table = table}));
    TRY(s->own.sorted.vt->begin(&s->own.sorted, table, has_vectors));
    for (uint32_t n = 0; n < reduce_node_count(s->reduce); n++) {
        s->from[n].rows_left = s->row_count[table][n];
        TRY(node_next(s, n));
    }
    s->is_under_way = s->sorted.table[table].row_count > 0;
    return ST_OK;
}

static status nodes_next(struct model_sorted *sorted, uint64_t *key, const float **vector)
{
    struct sorted_nodes *s = (struct sorted_nodes *)sorted;
    uint32_t least = REDUCE_NODES_MAX;
    if (s->last < REDUCE_NODES_MAX) TRY(node_next(s, s->last));
    for (uint32_t n = 0; n < reduce_node_count(s->reduce); n++)
        if (s->from[n].is_there && (least == REDUCE_NODES_MAX || s->from[n].key < s->from[least].key)) least = n;
    CHECK(least < REDUCE_NODES_MAX); /* it is called as often as there are rows */
    s->last = least;
    *key = s->from[least].key;
    if (s->has_vectors) *vector = s->from[least].vector;
    bool is_end = true;
    for (uint32_t n = 0; n < reduce_node_count(s->reduce); n++)
        is_end = is_end && s->from[n].rows_left == 0 && (n == least || !s->from[n].is_there);
    s->is_under_way = !is_end;
    return is_end ? node_rest(s, least) : ST_OK;
}

static void nodes_close(struct model_sorted *sorted, uint32_t table)
{
    struct sorted_nodes *s = (struct sorted_nodes *)sorted;
    s->own.sorted.vt->close(&s->own.sorted, table);
    if (s->is_under_way) return; /* what was written has failed, and the others do not listen */
    /* If this fails, the next call fails, too. */
    const status st = wish_say(s, &(struct wish){.what = SORTED_CLOSE, .table = table});
    (void)st;
}

status sorted_nodes_open(struct sorted_nodes *s, struct reduce *r, const struct model *model)
{
    static const struct model_sorted_vt vt = {nodes_open, nodes_begin, nodes_next, nodes_close};
    uint32_t dim = 1;
    *s = (struct sorted_nodes){.sorted = {.vt = &vt}, .reduce = r};
    for (uint32_t t = 0; t < model->graph->table_count; t++)
        if (model->graph->tables[t].dim > dim) dim = model->graph->tables[t].dim;
    TRY(model_sorted_own_open(&s->own, model));
    s->vectors = malloc((size_t)dim * REDUCE_NODES_MAX * sizeof *s->vectors);
    if (s->vectors == NULL) FAIL(MEMORY, "no memory to merge rows of %u floats", dim);
    for (uint32_t n = 0; n < REDUCE_NODES_MAX; n++) s->from[n].vector = s->vectors + (size_t)n * dim;
    return store_hold(r);
}

status sorted_nodes_end(struct sorted_nodes *s) { return wish_say(s, &(struct wish){.what = SORTED_END}); }

void sorted_nodes_close(struct sorted_nodes *s)
{
    if (s->vectors) store_let_go(s->reduce);
    model_sorted_own_close(&s->own);
    free(s->vectors);
}
