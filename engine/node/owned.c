/* Letters of two steps, and what becomes of them. Once a step and asker; the store finds rows, at
 * the cost that it has on one node. */
#include "engine/node/owned.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "io/store/store_life.h"
#include "io/store/store_rows.h"
#include "io/store/store_ticket.h"

/* An asker's letter, and the rows that it asks for, table by table. */
struct owned_letter {
    uint8_t *bytes; /* [asked_letter_bytes_max] */
    struct asked_letter letter;
    float **span;     /* [keys of all tables]: of the rows                 */
    uint64_t *shared; /* a bit a key: whether the step before has the row; NULL where rows come and go */
    bool is_here;
};

/* What there is of a step: once for even steps, once for odd ones. */
struct owned_step {
    struct owned_letter *letter; /* [node_count]  */
    struct step_rows *rows;      /* [table_count] */
    uint64_t *row_count;         /* [table_count] */
    uint32_t ticket;             /* of the store: the last of its letters */
};

struct owned {
    const struct graph *graph;
    struct model *model;
    uint32_t node_count, run_count;
    const struct asked_shape *shape;
    const struct fold_lanes *runs;
    struct arena arena;
    struct owned_step step[2];
    struct row_numbers *numbers[2]; /* of even and of odd steps: [table_count]; the same where rows come and go */
    struct ticket_table resolved;   /* what the store fills, a stretch of keys at a time */
    uint32_t resolved_max;
    uint32_t *step_row;  /* [resolved_max] */
    uint32_t *unique;    /* likewise       */
    float *unseen;       /* a row's first values */
    bool lives;          /* rows of some table come and go                                     */
    bool is_ahead;       /* the letter being settled: the step before is not updated for here */
    uint32_t *piece_row; /* [node_count, table_count]: lane row of the asker's first piece of the table */
    struct gradients gradients;
    uint32_t tickets;      /* of the letter being settled: tickets that are done */
    uint32_t done_ticket;  /* of the last step that this node has updated for */
    uint64_t settled_step; /* letters of earlier steps are settled, and `settled` askers' of this step */
    uint32_t settled;
    uint32_t first; /* who asks */
};

static struct owned_step *of_step(const struct owned *owned, uint64_t step)
{
    return (struct owned_step *)&owned->step[step % 2];
}

/* --- memory ----------------------------------------------------------------------------------- */

static size_t rows_max(const struct owned *owned, uint32_t asker, uint32_t table)
{
    return (size_t)owned->shape[asker].example_max * owned->graph->tables[table].key_count_max;
}

/* Lane rows of a table before an asker's; asker node_count: all. */
static size_t pieces_before(const struct owned *owned, uint32_t asker, uint32_t table)
{
    size_t rows = 0;
    for (uint32_t a = 0; a < asker; a++) rows += rows_max(owned, a, table) * owned->shape[a].run_count;
    return rows;
}

static void letter_layout(struct owned *owned, struct layout *l, uint32_t asker, struct owned_letter *letter)
{
    struct owned_letter taken = {0};
    const size_t keys = asked_keys_max(&owned->shape[asker]);
    LAYOUT_TAKE(l, taken.bytes, asked_letter_bytes_max(&owned->shape[asker]));
    LAYOUT_TAKE(l, taken.span, keys);
    if (!owned->lives) LAYOUT_TAKE(l, taken.shared, asked_bits_bytes(keys) / sizeof *taken.shared);
    if (l->arena) *letter = taken;
}

static void step_layout(struct owned *owned, struct layout *l, struct owned_step *step)
{
    const struct graph *g = owned->graph;
    LAYOUT_TAKE(l, step->letter, owned->node_count);
    LAYOUT_TAKE(l, step->rows, g->table_count);
    LAYOUT_TAKE(l, step->row_count, g->table_count);
    for (uint32_t a = 0; a < owned->node_count; a++) letter_layout(owned, l, a, l->arena ? &step->letter[a] : NULL);
    for (uint32_t t = 0; t < g->table_count; t++) {
        size_t keys = 0;
        for (uint32_t a = 0; a < owned->node_count; a++) keys += rows_max(owned, a, t);
        struct step_rows taken = {0};
        const struct row_life *life = &g->tables[t].life;
        LAYOUT_TAKE(l, taken.span, keys);
        if (owned->shape->shows[t]) LAYOUT_TAKE(l, taken.occurrence_count, keys);
        if (owned->shape->clicks[t]) LAYOUT_TAKE(l, taken.click_count, keys);
        if (life->counts || g->tables[t].store == TABLE_BF16) LAYOUT_TAKE(l, taken.key, keys);
        if (row_life_is_on(life)) LAYOUT_TAKE(l, taken.nobody, g->tables[t].span_floats);
        if (owned->run_count > 1) { /* else a row's only piece is where its number is */
            LAYOUT_TAKE(l, taken.last_lane_row, keys);
            LAYOUT_TAKE(l, taken.lane_rows, pieces_before(owned, owned->node_count, t));
        }
        if (l->arena) step->rows[t] = taken;
    }
}

static void gradients_of_tables_layout(struct owned *owned, struct layout *l)
{
    const struct graph *g = owned->graph;
    struct gradients *s = &owned->gradients;
    LAYOUT_TAKE(l, s->of_table, g->table_count);
    LAYOUT_TAKE(l, s->of_table_begin, g->table_count);
    LAYOUT_TAKE(l, s->use_count, g->table_count);
    for (uint32_t t = 0; t < g->table_count; t++) {
        float *pieces;
        LAYOUT_TAKE(l, pieces, pieces_before(owned, owned->node_count, t) * g->tables[t].dim);
        if (!l->arena) continue;
        s->of_table[t] = pieces;
        s->of_table_begin[t] = t;
        s->use_count[t] = 1;
        for (uint32_t a = 0; a < owned->node_count; a++)
            owned->piece_row[a * g->table_count + t] = (uint32_t)pieces_before(owned, a, t);
    }
}

static void owned_layout(struct owned *owned, struct layout *l)
{
    const struct graph *g = owned->graph;
    struct ticket_table *resolved = &owned->resolved;
    uint32_t span_floats = 0;
    for (int i = 0; i < 2; i++) step_layout(owned, l, &owned->step[i]);
    const int numbers = owned->lives ? 1 : 2; /* then no step is looked at while another one is numbered */
    for (int i = 0; i < numbers; i++) LAYOUT_TAKE(l, owned->numbers[i], g->table_count);
    if (l->arena && owned->lives) owned->numbers[1] = owned->numbers[0];
    for (uint32_t t = 0; t < g->table_count; t++) {
        size_t keys = 0;
        for (uint32_t a = 0; a < owned->node_count; a++) keys += rows_max(owned, a, t);
        for (int i = 0; i < numbers; i++)
            row_numbers_layout(l->arena ? &owned->numbers[i][t] : NULL, l, (uint32_t)keys, 2);
    }
    LAYOUT_TAKE(l, resolved->row, owned->resolved_max);
    LAYOUT_TAKE(l, resolved->span, owned->resolved_max);
    LAYOUT_TAKE(l, resolved->occurrence_begin, owned->resolved_max + 1);
    LAYOUT_TAKE(l, owned->step_row, owned->resolved_max);
    LAYOUT_TAKE(l, owned->unique, owned->resolved_max);
    for (uint32_t t = 0; t < g->table_count; t++) /* for keys without a row; of one table after the other */
        if (g->tables[t].span_floats > span_floats) span_floats = g->tables[t].span_floats;
    LAYOUT_TAKE(l, resolved->scratch, (size_t)owned->resolved_max * span_floats);
    LAYOUT_TAKE(l, owned->unseen, span_floats);
    LAYOUT_TAKE(l, owned->piece_row, (size_t)owned->node_count * g->table_count);
    gradients_of_tables_layout(owned, l);
    resolved->step_row = owned->step_row;
}

bool owned_lives(const struct graph *graph)
{
    bool lives = false;
    for (uint32_t t = 0; t < graph->table_count; t++) lives |= row_life_is_on(&graph->tables[t].life);
    return lives;
}

status owned_open(struct owned **out, const struct owned_options *o)
{
    struct owned *owned = calloc(1, sizeof *owned);
    struct layout sum = {0}, taken = {0};
    *out = NULL;
    if (owned == NULL) FAIL(MEMORY, "no memory for the rows of nodes");
    owned->graph = o->graph;
    owned->model = o->model;
    owned->node_count = o->node_count;
    owned->shape = o->shape;
    owned->runs = o->runs;
    for (uint32_t a = 0; a < o->node_count; a++) owned->run_count += o->shape[a].run_count;
    while (owned->first + 1 < o->node_count && o->shape[owned->first].example_max == 0) owned->first++;
    owned->lives = owned_lives(o->graph);
    owned->resolved_max = graph_batch(o->graph).micro * graph_example(o->graph).key_count_max;
    owned_layout(owned, &sum);
    status st = arena_open(&owned->arena, "rows of nodes", sum.bytes);
    if (st != ST_OK) {
        free(owned);
        return st;
    }
    taken.arena = &owned->arena;
    owned_layout(owned, &taken);
    *out = owned;
    return ST_OK;
}

void owned_close(struct owned *owned)
{
    if (owned == NULL) return;
    arena_close(&owned->arena);
    free(owned);
}

void owned_start(struct owned *owned, uint64_t step)
{
    owned->settled_step = step;
    owned->settled = owned->first;
    owned->tickets = 0;
    for (int i = 0; i < 2; i++) {
        for (uint32_t a = 0; a < owned->node_count; a++) owned->step[i].letter[a].is_here = false;
        for (uint32_t t = 0; t < owned->graph->table_count; t++)
            step_rows_begin(&owned->numbers[i][t], &owned->step[i].rows[t]);
    }
}

/* --- letters ---------------------------------------------------------------------------------- */

uint8_t *owned_letter_place(struct owned *owned, uint32_t asker, uint64_t step)
{
    return of_step(owned, step)->letter[asker].bytes;
}

status owned_letter_arrived(struct owned *owned, uint32_t asker, uint64_t step, size_t bytes)
{
    struct owned_letter *letter = &of_step(owned, step)->letter[asker];
    if (letter->is_here || step < owned->settled_step || step > owned->settled_step + 1)
        FAIL(INVALID, "node %u asks for rows of step %" PRIu64 " while those of step %" PRIu64 " are asked for", asker,
             step, owned->settled_step);
    TRY(asked_letter_read(&letter->letter, &owned->shape[asker], letter->bytes, bytes));
    letter->is_here = true;
    return ST_OK;
}

bool owned_is_settled(const struct owned *owned, uint32_t asker, uint64_t step)
{
    return step < owned->settled_step || (step == owned->settled_step && asker < owned->settled);
}

bool owned_is_whole(const struct owned *owned, uint64_t step) { return step < owned->settled_step; }

/* --- rows ------------------------------------------------------------------------------------- */

/* Links the pieces of an asker's keys [first, first + count), which are the step's rows `step_row`,
 * behind the pieces of earlier lanes. */
static void pieces_link(struct owned *owned, struct step_rows *rows, uint32_t asker, uint32_t table, uint32_t first,
                        uint32_t count, uint32_t rows_before)
{
    const struct fold_lanes *runs = owned->runs;
    const uint32_t run_count = owned->shape[asker].run_count;
    for (uint32_t a = 0; a < asker; a++) runs += owned->shape[a].run_count;
    uint32_t lane_row = owned->piece_row[asker * owned->graph->table_count + table] + first * run_count;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t row = owned->step_row[i];
        uint32_t last = row < rows_before ? rows->last_lane_row[row] : ROW_NONE;
        for (uint32_t run = 0; run < run_count; run++) {
            rows->lane_rows[lane_row] = (struct lane_row){.before = last, .lane = runs[run].begin};
            last = lane_row++;
        }
        rows->last_lane_row[row] = last;
    }
}

/* Whether the asker's earlier stretches have a row of the stretch's; before pieces_link. Pieces lie in order
 * of askers: such a row's last piece is one of this asker's. */
static bool has_earlier(const struct owned *owned, const struct step_rows *rows, uint32_t asker, uint32_t table,
                        uint32_t count, uint32_t rows_before)
{
    const uint32_t first = owned->piece_row[asker * owned->graph->table_count + table];
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t row = owned->step_row[i];
        if (row < rows_before && (rows->lane_rows == NULL || rows->last_lane_row[row] >= first)) return true;
    }
    return false;
}

static status twice_fail(const struct owned *owned, uint32_t table)
{
    FAIL(INVALID, "a request for rows of table \"%s\" has a key twice; expected each once",
         graph_string(owned->graph, owned->graph->tables[table].name));
}

/* Counts the clicks of the keys, which are the step's rows `step_row`. */
static void clicks_add(const struct owned *owned, struct step_rows *rows, const struct asked_keys *asked,
                       const uint32_t *clicks, uint32_t rows_before)
{
    for (uint32_t i = 0; i < asked->count; i++) {
        const uint32_t row = owned->step_row[i];
        rows->click_count[row] = (row < rows_before ? rows->click_count[row] : 0) + clicks[i];
    }
}

/* No asker may make a row at the wrong owner. */
static status keys_check(const struct owned *owned, uint32_t asker, uint32_t table, const struct asked_keys *asked)
{
    const struct model_share *share = &owned->model->share;
    for (uint32_t i = 0; i < asked->count; i++)
        if (!model_share_has(share, table, asked->key[i]))
            FAIL(INVALID,
                 "node %u asks for a row of table \"%s\" whose owner is node %u; "
                 "expected rows of this node, which is node %u: they do not share rows in the same way",
                 asker, graph_string(owned->graph, owned->graph->tables[table].name),
                 model_share_owner(share, table, asked->key[i]), share->owner);
    return ST_OK;
}

/* Finds the rows of a stretch of an asker's keys, the letter's from `key` on,
 * and numbers them among the step's. */
static status stretch_resolve(struct owned *owned, struct owned_step *step, uint32_t asker, uint32_t table,
                              uint32_t first, uint32_t count, size_t key)
{
    const struct asked_letter *letter = &step->letter[asker].letter;
    float **span = step->letter[asker].span + key;
    const uint64_t number = owned->settled_step;
    struct ticket_table *resolved = &owned->resolved;
    struct step_rows *rows = &step->rows[table];
    const struct asked_keys asked = {.key = letter->key[table] + first, .count = count, .unique = owned->unique};
    TRY(keys_check(owned, asker, table, &asked));
    TRY(store_resolve(owned->model->store, table, STORE_CREATE, &asked, resolved));
    if (resolved->unique_count != count) return twice_fail(owned, table);
    resolved->occurrence_begin[0] = 0;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t occurrences = letter->occurrences[table] ? letter->occurrences[table][first + i] : 0;
        const bool has_row = resolved->row[i] != ROW_NONE;
        span[i] = has_row ? resolved->span[i] : NULL;
        resolved->occurrence_begin[i + 1] = resolved->occurrence_begin[i] + occurrences;
        if (!has_row) store_unadmitted_add(owned->model->store, table, asked.key[i], occurrences);
    }
    const uint32_t rows_before = rows->row_count;
    struct step_rows numbered = *rows; /* without the rows of lanes, which are pieces here */
    numbered.lane_rows = NULL;
    step_rows_add(&owned->numbers[number % 2][table], &numbered, resolved, 0);
    rows->row_count = numbered.row_count;
    if (first > 0 && has_earlier(owned, rows, asker, table, count, rows_before)) return twice_fail(owned, table);
    if (owned->is_ahead)
        row_numbers_find(&owned->numbers[(number + 1) % 2][table], resolved->row, count, step->letter[asker].shared,
                         key);
    for (uint32_t i = 0; i < count && rows->key; i++) rows->key[owned->step_row[i]] = asked.key[i];
    if (rows->click_count) clicks_add(owned, rows, &asked, letter->clicks[table] + first, rows_before);
    if (rows->lane_rows) pieces_link(owned, rows, asker, table, first, count, rows_before);
    return ST_OK;
}

/* Most keys of a table in a ticket: a micro-batch's, for which the store can make room. */
static uint32_t stretch_max(const struct owned *owned, uint32_t table)
{
    return graph_batch(owned->graph).micro * owned->graph->tables[table].key_count_max;
}

/* The next ticket of an asker's letter: a stretch of every table. *is_end: it is the last. */
static status ticket_resolve(struct owned *owned, struct owned_step *step, uint32_t asker, bool *is_end)
{
    struct store *store = owned->model->store;
    struct owned_letter *letter = &step->letter[asker];
    struct ticket ticket = {0};
    size_t key = 0;
    *is_end = true;
    TRY(store_resolve_begin(store));
    for (uint32_t t = 0; t < owned->graph->table_count; key += letter->letter.count[t++]) {
        const uint32_t most = stretch_max(owned, t), first = owned->tickets * most, count = letter->letter.count[t];
        if (first >= count) continue;
        const uint32_t stretch = count - first < most ? count - first : most;
        TRY(stretch_resolve(owned, step, asker, t, first, stretch, key + first));
        *is_end &= first + stretch == count;
    }
    TRY(store_resolve_end(store, STORE_CREATE, false, &ticket));
    step->ticket = ticket.number;
    owned->tickets++;
    return ST_OK;
}

/* Clears the bits; before the letter's first ticket. */
static void shared_clear(const struct owned *owned, struct owned_letter *letter)
{
    const size_t keys = asked_keys_count(owned->graph, letter->letter.count);
    memset(letter->shared, 0, asked_bits_bytes(keys));
}

/* Makes room in RAM for one more ticket; false: not before a step has ended. */
static status room_make(const struct owned *owned, uint64_t updated, bool *has_room)
{
    TRY(store_make_room(owned->model->store, has_room));
    if (!*has_room && owned->settled_step <= updated)
        FAIL(FULL,
             "step %" PRIu64 " asks for more rows of this node than RAM has room for at once, though the disk has; "
             "raise store.ram, or lower train.batch",
             owned->settled_step);
    return ST_OK;
}

/* Goes on with an asker's letter; *is_over: all its rows are found, and in RAM. */
static status letter_resolve(struct owned *owned, struct owned_step *step, uint32_t asker, uint64_t updated,
                             bool *is_over)
{
    *is_over = false;
    for (bool is_end = false, has_room; !is_end;) {
        TRY(room_make(owned, updated, &has_room));
        if (!has_room) return ST_OK;
        TRY(ticket_resolve(owned, step, asker, &is_end));
    }
    owned->tickets = 0;
    *is_over = true;
    return store_settle(owned->model->store);
}

status owned_settle(struct owned *owned, uint64_t updated)
{
    for (bool is_over;;) {
        struct owned_step *step = of_step(owned, owned->settled_step);
        owned->is_ahead = owned->settled_step > updated;
        if (owned->lives && owned->is_ahead) return ST_OK;
        if (!step->letter[owned->settled].is_here) return ST_OK;
        for (uint32_t t = 0; t < owned->graph->table_count && owned->settled == owned->first && !owned->tickets; t++)
            step_rows_begin(&owned->numbers[owned->settled_step % 2][t], &step->rows[t]);
        if (owned->is_ahead && owned->tickets == 0) shared_clear(owned, &step->letter[owned->settled]);
        TRY(letter_resolve(owned, step, owned->settled, updated, &is_over));
        if (!is_over) return ST_OK;
        step->letter[owned->settled].is_here = false;
        while (++owned->settled < owned->node_count && owned->shape[owned->settled].example_max == 0) continue;
        if (owned->settled < owned->node_count) continue;
        for (uint32_t t = 0; t < owned->graph->table_count; t++)
            step->row_count[t] = store_row_count(owned->model->store, t);
        owned->settled_step++;
        owned->settled = owned->first;
    }
}

status owned_step_end(struct owned *owned, uint64_t step)
{
    const struct graph *g = owned->graph;
    struct store *store = owned->model->store;
    CHECK(owned->settled_step > step);
    owned->done_ticket = of_step(owned, step)->ticket;
    store_release(store, owned->done_ticket);
    if (!owned->lives) return ST_OK;
    CHECK(owned->settled_step == step + 1 && owned->settled == owned->first && owned->tickets == 0);
    TRY(store_unadmitted_end(store));
    if (model_period(g, step + 1) > model_period(g, step)) store_sweep_dead(store, model_period(g, step + 1));
    for (uint32_t t = 0; t < g->table_count; t++) of_step(owned, step)->row_count[t] = store_row_count(store, t);
    return ST_OK;
}

uint32_t owned_done_ticket(const struct owned *owned) { return owned->done_ticket; }

uint32_t owned_key_count(const struct owned *owned, uint32_t asker, uint32_t table, uint64_t step)
{
    return of_step(owned, step)->letter[asker].letter.count[table];
}

size_t owned_floats(const struct owned *owned, uint32_t asker, uint64_t step)
{
    size_t floats = 0;
    for (uint32_t t = 0; t < owned->graph->table_count; t++)
        floats += (size_t)owned_key_count(owned, asker, t, step) * row_vector_floats(&owned->graph->tables[t]);
    return floats;
}

const uint64_t *owned_shared(const struct owned *owned, uint32_t asker, uint64_t step, size_t *bytes)
{
    const struct owned_letter *letter = &of_step(owned, step)->letter[asker];
    *bytes = asked_bits_bytes(asked_keys_count(owned->graph, letter->letter.count));
    return letter->shared;
}

size_t owned_part_floats(const struct owned *owned, uint32_t asker, uint64_t step, enum owned_part part)
{
    const struct owned_letter *letter = &of_step(owned, step)->letter[asker];
    if (part == OWNED_ALL) return owned_floats(owned, asker, step);
    return asked_part_floats(owned->graph, letter->letter.count, letter->shared, part == OWNED_SHARED);
}

void owned_values(const struct owned *owned, uint32_t asker, uint64_t step, enum owned_part part, bool is_placed,
                  float *to)
{
    const struct owned_letter *letter = &of_step(owned, step)->letter[asker];
    size_t key = 0;
    for (uint32_t t = 0; t < owned->graph->table_count; t++) {
        const uint32_t floats = row_vector_floats(&owned->graph->tables[t]), count = letter->letter.count[t];
        for (uint32_t i = 0; i < count; i++, key++) {
            const float *from = letter->span[key];
            if (part != OWNED_ALL && asked_bit(letter->shared, key) != (part == OWNED_SHARED)) {
                to += is_placed ? floats : 0;
                continue;
            }
            if (from == NULL) { /* read as it would be made */
                memset(owned->unseen, 0, owned->graph->tables[t].span_floats * sizeof *owned->unseen);
                model_row_init(owned->model, t, letter->letter.key[t][i], owned->unseen);
                from = owned->unseen;
            }
            memcpy(to, from, floats * sizeof *to);
            to += floats;
        }
    }
}

/* Finds the rows of a table's keys, which are in RAM when the store has settled. */
static status table_look(struct owned *owned, uint32_t table, const struct asked_keys *asked)
{
    struct store *store = owned->model->store;
    struct ticket ticket = {0};
    CHECK(asked->count <= owned->resolved_max);
    TRY(store_resolve_begin(store));
    TRY(store_resolve(store, table, STORE_LOOKUP, asked, &owned->resolved));
    TRY(store_resolve_end(store, STORE_LOOKUP, false, &ticket));
    return store_settle(store);
}

status owned_look(struct owned *owned, const struct asked_letter *letter, const uint64_t *row_count, float *to)
{
    struct store *store = owned->model->store;
    status st = store_sees_until(store, row_count, owned->done_ticket);
    for (uint32_t t = 0; t < owned->graph->table_count && st == ST_OK; t++) {
        const uint32_t floats = row_vector_floats(&owned->graph->tables[t]);
        const struct asked_keys asked = {.key = letter->key[t], .count = letter->count[t]};
        st = table_look(owned, t, &asked);
        for (uint32_t u = 0; u < asked.count && st == ST_OK; u++, to += floats)
            memcpy(to, owned->resolved.span[u], floats * sizeof *to);
    }
    store_sees_all(store);
    return st;
}

/* --- an update's ------------------------------------------------------------------------------ */

const struct step_rows *owned_rows(const struct owned *owned, uint64_t step) { return of_step(owned, step)->rows; }

const uint64_t *owned_row_count(const struct owned *owned, uint64_t step) { return of_step(owned, step)->row_count; }

const struct gradients *owned_gradients(const struct owned *owned) { return &owned->gradients; }

float *owned_pieces(const struct owned *owned, uint32_t asker, uint32_t table)
{
    return owned->gradients.of_table[table] +
           (size_t)owned->piece_row[asker * owned->graph->table_count + table] * owned->graph->tables[table].dim;
}
