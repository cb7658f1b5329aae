/* What stages do with pieces of sums between the rounds of an exchange, in a few passes
 * a step over the gradients. */
#include "engine/sync/exchange.h"

#include <string.h>

#include "engine/base/parts.h"
#include "graph/row_vector.h"
#include "io/store/store_save.h"

bool exchange_stages_are_alike(const struct exchange_stages *stages, uint32_t stage, uint32_t other)
{
    return memcmp(exchange_stage_begin(stages, stage), exchange_stage_begin(stages, other),
                  (stages->node_count + 1) * sizeof *stages->lane_begin) == 0;
}

uint32_t exchange_stages_sections(const struct exchange_stages *stages)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < stages->count; i++)
        count += !exchange_stage_is_whole(stages, i) && (i == 0 || !exchange_stages_are_alike(stages, i - 1, i));
    return count;
}

struct floats {
    uint64_t begin, end;
};

static struct floats both(struct floats a, struct floats b)
{
    struct floats both = {a.begin > b.begin ? a.begin : b.begin, a.end < b.end ? a.end : b.end};
    if (both.end < both.begin) both.end = both.begin;
    return both;
}

static struct floats of_part(const struct extent *e, uint32_t part, uint32_t run)
{
    struct floats floats;
    extent_part(e, part, run, &floats.begin, &floats.end);
    return floats;
}

/* A run of a bucket's slices. */
struct slice_run {
    uint32_t bucket, run;
};

/* The run of the update. */
static struct slice_run slice_run_of(const struct exchange *x, uint32_t bucket, uint32_t update)
{
    const struct extent *slices = &x->slices[bucket];
    uint32_t run = 0;
    while (slices->runs[run].update != update) CHECK(++run < slices->run_count);
    return (struct slice_run){bucket, run};
}

static struct floats own_slice(const struct exchange *x, struct slice_run at)
{
    return of_part(&x->slices[at.bucket], x->rank, at.run);
}

/* Where float 0 of the parameters would lie if the piece had all floats; it has those of the slice. */
static float *piece_base(const struct exchange *x, const struct exchange_piece *piece, struct slice_run at)
{
    if (piece->node == x->rank) return x->site.param_grad[piece->run.begin - x->own.begin];
    uint64_t before = 0;
    for (struct slice_run s = {0}; s.bucket <= at.bucket; s.bucket++)
        for (s.run = 0; s.run < (s.bucket < at.bucket ? x->slices[s.bucket].run_count : at.run); s.run++) {
            if (x->division_of[s.bucket] != x->division_of[at.bucket]) break;
            const struct floats floats = own_slice(x, s);
            before += floats.end - floats.begin;
        }
    /* As a number: the address itself may be outside of any object. */
    return (float *)((uintptr_t)piece->sums + (uintptr_t)((before - own_slice(x, at).begin) * 4));
}

/* A number that is rounded to bfloat16 is the upper half of a float. */
static void halves_take(uint16_t *to, const float *from, uint64_t count)
{
    uint32_t bits;
    for (uint64_t i = 0; i < count; i++) {
        memcpy(&bits, &from[i], sizeof bits);
        to[i] = (uint16_t)(bits >> 16);
    }
}
static void halves_put(float *to, const uint16_t *from, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        const uint32_t bits = (uint32_t)from[i] << 16;
        memcpy(&to[i], &bits, sizeof bits);
    }
}

/* Writes the own pieces of these floats, which lie in others' slices, as they travel. */
static void wire_write(const struct exchange *x, const struct exchange_division *d, struct floats floats)
{
    for (uint32_t i = 0; i < d->piece_count && floats.begin < floats.end; i++) {
        const struct exchange_piece *piece = &d->pieces[i];
        if (piece->node != x->rank) continue;
        halves_take(piece->wire + floats.begin, x->site.param_grad[piece->run.begin - x->own.begin] + floats.begin,
                    floats.end - floats.begin);
    }
}

/* Turns others' pieces of these floats of the run, as they have come, into floats. */
static void wire_read(const struct exchange *x, struct slice_run at, struct floats floats)
{
    const struct exchange_division *d = x->division_of[at.bucket];
    for (uint32_t i = 0; i < d->piece_count; i++) {
        const struct exchange_piece *piece = &d->pieces[i];
        if (piece->node == x->rank) continue;
        float *sums = piece_base(x, piece, at) + floats.begin;
        halves_put(sums, piece->wire + (sums - piece->sums), floats.end - floats.begin);
    }
}

/* Rows whose sums are asked for at once. */
#define SUM_ROWS 2048u

/* Where the pieces of rows [begin, begin + count) of the step go. */
static void pieces_find(const struct exchange_rows *rows, uint32_t rank, uint64_t step, uint32_t table, uint32_t begin,
                        uint32_t count, float **to)
{
    const struct asked_step *asked = rows->asked;
    const struct graph_table *of = &rows->shape.graph->tables[table];
    const float *values = rows->values[step % 2];
    const uint32_t floats = row_vector_floats(of);
    size_t value[ASKED_OWNERS_MAX], piece[ASKED_OWNERS_MAX];
    asked_table_begin(asked, &rows->shape, table, value, piece);
    for (uint32_t r = 0; r < count; r++) {
        const size_t at = (size_t)(asked->rows[table].span[begin + r] - values);
        /* The last owner whose values begin no later; an owner without values
         * begins where the next one does. */
        uint32_t owner = 0;
        for (uint32_t end = rows->shape.owner_count; end - owner > 1;) {
            const uint32_t middle = owner + (end - owner) / 2;
            if (value[middle] <= at)
                owner = middle;
            else
                end = middle;
        }
        const size_t place = (at - value[owner]) / floats * of->dim;
        to[r] = owner == rank ? rows->own_pieces[table] + place * rows->shape.run_count
                              : rows->pieces + (piece[owner] + place) * rows->shape.run_count;
    }
}

/* Sums of a table's rows that are away come to the host. The stage has one part then: rows that are looked up
 * on cards are on one of them. */
static status rows_fetch(const struct exchange *x, const struct updater *w, uint32_t table)
{
    const struct gradients *gradients = w->gradients;
    const struct table_fetch fetch = {.table = table,
                                      .use_count = gradients->use_count[table],
                                      .lane_row_count = x->rows.asked->rows[table].lane_row_count,
                                      .row_count = x->rows.asked->rows[table].row_count,
                                      .to = gradients->of_table + gradients->of_table_begin[table]};
    return w->away ? device_fetch_rows(w->away, &fetch) : ST_OK;
}

/* Adds up the sums of the part's rows of a table, run by run of the own lanes. */
static status rows_sum(const struct exchange *x, const struct updater *w, const struct update *u, uint32_t table,
                       uint32_t begin, uint32_t end)
{
    const struct exchange_division *d = x->division_of[0];
    const struct step_rows *rows = &x->rows.asked->rows[table];
    const struct gradients *gradients = w->gradients;
    float *to[SUM_ROWS];
    uint32_t run_begin[FOLD_RUNS_MAX + 1];
    for (uint32_t i = 0; i < d->run_count; i++) run_begin[i] = d->runs[i].begin;
    run_begin[d->run_count] = d->own.begin + d->own.count;
    for (uint32_t count; begin < end; begin += count) {
        count = end - begin < SUM_ROWS ? end - begin : SUM_ROWS;
        pieces_find(&x->rows, x->rank, u->t - 1, table, begin, count, to);
        const struct table_sums sums = {.dim = w->graph->tables[table].dim,
                                        .row_count = count,
                                        .use_count = gradients->use_count[table],
                                        .grad = gradients->of_table + gradients->of_table_begin[table],
                                        .last_lane_row = rows->last_lane_row + begin,
                                        .lane_rows = rows->lane_rows,
                                        .run_begin = run_begin,
                                        .run_count = d->run_count,
                                        .to = to,
                                        .t = u->t};
        TRY(device_sum_rows(w->device, &sums));
    }
    return ST_OK;
}

status exchange_lanes_run(const struct exchange *x, const struct updater *w, uint32_t bucket, const struct extent *e,
                          const struct update *u, uint32_t part)
{
    const struct exchange_division *d = x->division_of[bucket];
    uint64_t begin, end;
    if (d->run_count == 0) return ST_OK;
    for (uint32_t i = 0; i < e->table_count; i++) {
        CHECK(w->away == NULL || e->part_count == 1);
        TRY(rows_fetch(x, w, e->tables[i]));
        part_of(x->rows.asked->rows[e->tables[i]].row_count, part, e->part_count, 1, &begin, &end);
        TRY(rows_sum(x, w, u, e->tables[i], (uint32_t)begin, (uint32_t)end));
    }
    struct fold_lanes runs[FOLD_RUNS_MAX];
    for (uint32_t i = 0; i < d->run_count; i++)
        runs[i] = (struct fold_lanes){d->runs[i].begin - x->own.begin, d->runs[i].count};
    for (uint32_t r = 0; r < e->run_count; r++) {
        const struct floats floats = of_part(e, part, r),
                            own = own_slice(x, slice_run_of(x, bucket, e->runs[r].update));
        const bool is_bf16 = update_is_bf16(u, w->graph, e->runs[r].update);
        TRY(update_lanes(w, u, runs, d->run_count, floats.begin, floats.end, is_bf16));
        if (is_bf16) wire_write(x, d, both(floats, (struct floats){0, own.begin}));
        if (is_bf16) wire_write(x, d, both(floats, (struct floats){own.end, UINT64_MAX}));
    }
    return ST_OK;
}

/* The part's bounded blocks, as indices of the graph's. */
static struct floats blocks_of(const struct extent *e, uint32_t part)
{
    return (struct floats){e->block_begin + e->cut_block[part], e->block_begin + e->cut_block[part + 1]};
}

/* Squares the part's bounded blocks of the own slice. */
static status blocks_square(const struct exchange *x, const struct updater *w, uint32_t bucket, const struct extent *e,
                            const struct update *u, const struct param_block *blocks, double *squares, uint32_t part)
{
    const struct floats own = both(blocks_of(e, part), blocks_of(&x->slices[bucket], x->rank));
    return update_sum(w, u, blocks + own.begin, (uint32_t)(own.end - own.begin), squares + own.begin);
}

status exchange_sum_run(const struct exchange *x, const struct updater *w, uint32_t bucket, const struct extent *e,
                        const struct update *u, const struct param_block *blocks, double *squares, uint32_t part)
{
    const struct exchange_division *d = x->division_of[bucket];
    for (uint32_t r = 0; r < e->run_count; r++) {
        const struct slice_run run = slice_run_of(x, bucket, e->runs[r].update);
        const struct floats floats = both(of_part(e, part, r), own_slice(x, run));
        const bool is_bf16 = update_is_bf16(u, w->graph, e->runs[r].update);
        if (floats.begin == floats.end) continue;
        if (is_bf16) wire_read(x, run, floats);
        for (uint32_t i = 0; i + 1 < d->piece_count; i++) {
            const struct fold_join *join = &d->joins[i];
            TRY(update_join(w, piece_base(x, &d->pieces[join->left], run), piece_base(x, &d->pieces[join->right], run),
                            floats.begin, floats.end, u->t, is_bf16));
        }
        if (squares == NULL || e->runs[r].update != 0) continue;
        float *root = piece_base(x, d->pieces, run);
        struct update joined = *u;
        joined.param_grad = &root;
        joined.lanes = 1;
        TRY(blocks_square(x, w, bucket, e, &joined, blocks, squares, part));
    }
    return ST_OK;
}

/* Clears the sums that others have got: the first lane of every own run; the other lanes are clear. */
static void sent_clear(const struct exchange *x, const struct exchange_division *d, struct floats floats)
{
    for (uint32_t i = 0; i < d->run_count && floats.begin < floats.end; i++)
        memset(x->site.param_grad[d->runs[i].begin - x->own.begin] + floats.begin, 0,
               (floats.end - floats.begin) * sizeof(float));
}

/* --- looks ------------------------------------------------------------------------------------ */

void exchange_look_layout(struct exchange_look *look, struct layout *l, const struct exchange *x)
{
    const struct asked_shape *shape = &x->look_shape;
    const struct graph *g = shape->graph;
    struct exchange_look taken = {0};
    asked_step_layout(&taken.asked, l, shape);
    LAYOUT_TAKE(l, taken.asked.rows, g->table_count);
    LAYOUT_TAKE(l, taken.values, asked_floats_max(shape));
    for (uint32_t t = 0; t < g->table_count; t++) {
        const uint32_t rows_max = shape->example_max * g->tables[t].key_count_max;
        step_rows_layout(l->arena ? &taken.asked.rows[t] : NULL, l, rows_max, (struct step_rows_wants){0});
    }
    if (l->arena) *look = taken;
}

void exchange_look_numbers_layout(struct key_numbers *numbers, struct layout *l, const struct exchange *x)
{
    const struct asked_shape *shape = &x->look_shape;
    for (uint32_t t = 0; t < shape->graph->table_count; t++)
        key_numbers_layout(l->arena ? &numbers[t] : NULL, l, shape, t);
}

void exchange_look_make(struct exchange *x, struct exchange_look *look, struct key_numbers *numbers,
                        const struct micro_batch *m, struct ticket *ticket)
{
    const struct asked_shape *shape = &x->look_shape;
    asked_step_begin(&look->asked, shape, numbers);
    asked_step_add(&look->asked, shape, numbers, m, 0, ticket);
    asked_step_close(&look->asked, shape, numbers, look->values);
    asked_step_spans(&look->asked, shape->graph->table_count, ticket);
    x->vt->look(x, look);
}

/* --- updates ---------------------------------------------------------------------------------- */

/* Updates the part's rows, of the rows that this node owns of the stage's tables. */
static status rows_update(const struct exchange *x, const struct updater *w, const struct extent *e,
                          const struct update *u, struct store *store, uint32_t part)
{
    struct updater owner = *w;
    struct update owned = *u;
    uint64_t begin, end;
    if (e->table_count == 0) return ST_OK; /* rows may still be under way */
    owner.gradients = x->rows.of_owned;
    owned.rows = x->rows.owned;
    owned.lanes = x->division_of[0]->piece_count;
    for (uint32_t i = 0; i < e->table_count; i++) {
        const uint32_t t = e->tables[i];
        part_of(owned.rows[t].row_count, part, e->part_count, 1, &begin, &end);
        if (begin == end) continue;
        store_rows_change(store, t, owned.rows[t].span + begin, (uint32_t)(end - begin));
        TRY(update_rows(&owner, &owned, t, (uint32_t)begin, (uint32_t)end));
    }
    return ST_OK;
}

status exchange_update_run(const struct exchange *x, const struct updater *w, uint32_t bucket, const struct extent *e,
                           const struct update *u, struct store *store, uint32_t part)
{
    const struct exchange_division *d = x->division_of[bucket];
    TRY(rows_update(x, w, e, u, store, part));
    for (uint32_t r = 0; r < e->run_count; r++) {
        const struct slice_run run = slice_run_of(x, bucket, e->runs[r].update);
        const struct floats of_stage = of_part(e, part, r), of_slice = own_slice(x, run);
        const struct floats own = both(of_stage, of_slice);
        float *root = piece_base(x, d->pieces, run);
        struct update joined = *u;
        joined.param_grad = &root;
        joined.lanes = 1;
        TRY(update_params(w, &joined, &e->runs[r], own.begin, own.end));
        sent_clear(x, d, both(of_stage, (struct floats){0, of_slice.begin}));
        sent_clear(x, d, both(of_stage, (struct floats){of_slice.end, UINT64_MAX}));
    }
    return ST_OK;
}

status exchange_values_copy(const struct updater *w, const struct extent *e)
{
    for (uint32_t r = 0; r < e->run_count; r++)
        TRY(device_put_params(w->away, e->runs[r].offset, e->runs[r].offset + e->runs[r].count));
    return ST_OK;
}
