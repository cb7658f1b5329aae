/* The rows that a node owns, as the nodes of a training ask for them. Letters come, rows are found or made,
 * and their values go out. For the step's update each row has its pieces of gradients in order of lanes.
 *
 *     letters (engine/slot/asked.h) ──in order of step, then of asker──▶ rows of the store ──▶ values, a copy an asker
 *                                                       └──▶ the step's rows, each once, and their lane rows
 *                                                                                             ◀── pieces of sums
 *
 * Rows are made in this one order, whenever letters come, so rows have the same numbers in every run.
 * A letter of the next step may come while a step is under way: there is memory for two of everything
 * but pieces. By the node's thread. */
#ifndef HETERPS_ENGINE_NODE_OWNED_H
#define HETERPS_ENGINE_NODE_OWNED_H

#include "engine/model/model.h"
#include "engine/slot/asked.h"
#include "engine/slot/fold.h"
#include "engine/slot/step_update.h"

struct owned_options {
    const struct graph *graph;
    struct model *model;
    uint32_t node_count;
    const struct asked_shape *shape; /* [node_count]: of each node as an asker; without examples it asks nothing */
    const struct fold_lanes *runs;   /* of all nodes' lanes, node after node                                     */
};

struct owned;
/* Whether rows of some table come and go: then rows of all tables are found after
 * the update for the step before. */
bool owned_lives(const struct graph *graph);
/* MEMORY. */
MUST_USE status owned_open(struct owned **owned, const struct owned_options *options);
void owned_close(struct owned *owned);
/* `step` is the first whose letters come. */
void owned_start(struct owned *owned, uint64_t step);

/* Where a node's next letter, of `step`, belongs; room for asked_letter_bytes_max. */
uint8_t *owned_letter_place(struct owned *owned, uint32_t asker, uint64_t step);
/* The letter is there. INVALID: it is no such letter. */
MUST_USE status owned_letter_arrived(struct owned *owned, uint32_t asker, uint64_t step, size_t bytes);
/* Finds and makes the rows of letters whose turn it is. This node has updated for all steps before `updated`;
 * where rows come and go (owned_lives), a step's letters wait until the step before has ended. FULL, as
 * store_prepare. INVALID: a letter has a key twice, or one of another owner. */
MUST_USE status owned_settle(struct owned *owned, uint64_t updated);
/* This node has updated for the step: counts keys without a row, and removes dead rows. FULL likewise. */
MUST_USE status owned_step_end(struct owned *owned, uint64_t step);
/* The store's last ticket as of the last update: with a disk, a save has what there was then. */
uint32_t owned_done_ticket(const struct owned *owned);
/* Whether the rows of an asker's letter of the step are found. */
bool owned_is_settled(const struct owned *owned, uint32_t asker, uint64_t step);
/* Whether the rows of all askers' letters are found. */
bool owned_is_whole(const struct owned *owned, uint64_t step);
/* How many floats the asker's letter of the step asks for. */
size_t owned_floats(const struct owned *owned, uint32_t asker, uint64_t step);
/* A bit for each key of a letter whose rows are found, table by table: whether the step before has the row,
 * too. The value of such a row is final when this node has updated for the step before; the values of other
 * rows are final. Only of a letter whose rows were found before this update: after the update all values are
 * final, and nobody looks for bits. *bytes: of the bits. */
const uint64_t *owned_shared(const struct owned *owned, uint32_t asker, uint64_t step, size_t *bytes);
/* Which rows of a letter; early rows are those whose bit is 0. */
enum owned_part { OWNED_ALL, OWNED_EARLY, OWNED_SHARED };
size_t owned_part_floats(const struct owned *owned, uint32_t asker, uint64_t step, enum owned_part part);
/* Copies the values of these rows to `to`, one behind the other; or, if is_placed, each to its
 * place among the values of all rows. */
void owned_values(const struct owned *owned, uint32_t asker, uint64_t step, enum owned_part part, bool is_placed,
                  float *to);

/* Copies the rows of a letter's keys to `to`, table by table. It sees the first `row_count` [table_count]
 * rows of the tables; other keys have their initial values. Each table has at most a micro-batch's keys. */
MUST_USE status owned_look(struct owned *owned, const struct asked_letter *letter, const uint64_t *row_count,
                           float *to);

/* Of a step whose rows are all found: the rows [table_count], as an update takes them, … */
const struct step_rows *owned_rows(const struct owned *owned, uint64_t step);
/* … their gradients, and how many rows the tables have [table_count]. */
const struct gradients *owned_gradients(const struct owned *owned);
const uint64_t *owned_row_count(const struct owned *owned, uint64_t step);
/* Where an asker's pieces of a table belong, [key, run, dim]. */
float *owned_pieces(const struct owned *owned, uint32_t asker, uint32_t table);
/* Keys of the table in the asker's letter of the step. */
uint32_t owned_key_count(const struct owned *owned, uint32_t asker, uint32_t table, uint64_t step);

#endif
