/* What stages do with pieces of sums between the rounds of an exchange: a few visits a step of the parameters' gradients. */
#include "engine/sync/exchange.h"

#include <string.h>

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

/* The own slice's run of the update. */
static uint32_t slice_run(const struct exchange *x, uint32_t update)
{
    uint32_t run = 0;
    while (x->slices.runs[run].update != update) CHECK(++run < x->slices.run_count);
    return run;
}

/* Where float 0 of the parameters would lie, if the piece had all of them: it has those of the slice. */
static float *piece_base(const struct exchange *x, const struct exchange_piece *piece, uint32_t run)
{
    if (piece->node == x->rank) return x->site.param_grad[piece->run.begin - x->own.begin];
    uint64_t before = 0;
    for (uint32_t r = 0; r < run; r++) {
        const struct floats floats = of_part(&x->slices, x->rank, r);
        before += floats.end - floats.begin;
    }
    /* As a number: the address itself may be outside of any object. */
    return (float *)((uintptr_t)piece->sums + (uintptr_t)((before - of_part(&x->slices, x->rank, run).begin) * 4));
}

status exchange_lanes_run(const struct exchange *x, const struct updater *w, const struct extent *e,
                          const struct update *u, uint32_t part)
{
    struct fold_lanes runs[FOLD_RUNS_MAX];
    for (uint32_t i = 0; i < x->run_count; i++)
        runs[i] = (struct fold_lanes){x->runs[i].begin - x->own.begin, x->runs[i].count};
    for (uint32_t r = 0; r < e->run_count; r++) {
        const struct floats floats = of_part(e, part, r);
        TRY(update_lanes(w, u, runs, x->run_count, floats.begin, floats.end));
    }
    return ST_OK;
}

/* The stage's part of the bounded blocks of the own slice. */
static status blocks_square(const struct exchange *x, const struct updater *w, const struct extent *e,
                            const struct update *u, const struct param_block *blocks, double *squares, uint32_t part)
{
    const struct floats of_stage = {e->block_begin + e->cut_block[part], e->block_begin + e->cut_block[part + 1]},
                        of_slice = {x->slices.cut_block[x->rank], x->slices.cut_block[x->rank + 1]},
                        own = both(of_stage, of_slice);
    return update_sum(w, u, blocks + own.begin, (uint32_t)(own.end - own.begin), squares + own.begin);
}

status exchange_sum_run(const struct exchange *x, const struct updater *w, const struct extent *e,
                        const struct update *u, const struct param_block *blocks, double *squares, uint32_t part)
{
    for (uint32_t r = 0; r < e->run_count; r++) {
        const uint32_t run = slice_run(x, e->runs[r].update);
        const struct floats floats = both(of_part(e, part, r), of_part(&x->slices, x->rank, run));
        if (floats.begin == floats.end) continue;
        for (uint32_t i = 0; i + 1 < x->piece_count; i++) {
            const struct fold_join *join = &x->joins[i];
            TRY(update_join(w, piece_base(x, &x->pieces[join->left], run), piece_base(x, &x->pieces[join->right], run),
                            floats.begin, floats.end, u->t));
        }
        if (squares == NULL || e->runs[r].update != 0) continue;
        float *root = piece_base(x, x->pieces, run);
        struct update joined = *u;
        joined.param_grad = &root;
        joined.lanes = 1;
        TRY(blocks_square(x, w, e, &joined, blocks, squares, part));
    }
    return ST_OK;
}

/* Clears the sums that others have got: the first lane of every own run; the others are clear. */
static void sent_clear(const struct exchange *x, struct floats floats)
{
    for (uint32_t i = 0; i < x->run_count && floats.begin < floats.end; i++)
        memset(x->site.param_grad[x->runs[i].begin - x->own.begin] + floats.begin, 0,
               (floats.end - floats.begin) * sizeof(float));
}

status exchange_update_run(const struct exchange *x, const struct updater *w, const struct extent *e,
                           const struct update *u, uint32_t part)
{
    for (uint32_t r = 0; r < e->run_count; r++) {
        const uint32_t run = slice_run(x, e->runs[r].update);
        const struct floats of_stage = of_part(e, part, r), of_slice = of_part(&x->slices, x->rank, run);
        const struct floats own = both(of_stage, of_slice);
        float *root = piece_base(x, x->pieces, run);
        struct update joined = *u;
        joined.param_grad = &root;
        joined.lanes = 1;
        TRY(update_params(w, &joined, &e->runs[r], own.begin, own.end));
        sent_clear(x, both(of_stage, (struct floats){0, of_slice.begin}));
        sent_clear(x, both(of_stage, (struct floats){of_slice.end, UINT64_MAX}));
    }
    return ST_OK;
}
