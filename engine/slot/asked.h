/* Which rows of a step a node asks for, of other nodes and of itself: its distinct keys,
 * table by table, and who owns each.
 *
 *     asker    micro-batches ──▶ keys of the step, each once
 *                            ──close──▶ a letter for every owner: counts, keys, how often each occurs
 *              values [owner's keys, vector] ◀── the owner's rows
 *                                                span of row r of the step: where its value arrives
 *              pieces [owner's keys, run, dim] ──▶ sums of its gradients
 *                                                piece of row r: at its place in the letter
 *
 * Values and pieces travel without keys, in the order of the letter. Values come in two parts: at once those
 * of rows that the step before lacks, with a bit for each key; when they are updated those of the other rows.
 * A key's owner follows from its shard (io/store/shard.h). */
#ifndef HETERPS_ENGINE_SLOT_ASKED_H
#define HETERPS_ENGINE_SLOT_ASKED_H

#include "engine/slot/step_rows.h"
#include "graph/graph.h"
#include "io/store/distinct.h"
#include "io/store/shard.h"

#define ASKED_OWNERS_MAX 64u

/* Who asks, and who owns what: the same in every step. */
struct asked_shape {
    const struct graph *graph;
    uint32_t owner_count;
    const uint8_t *owner_of; /* [SHARD_COUNT]: the owner of a shard; kept; not read for an owner's own shape */
    uint32_t example_max;    /* of a step, of this asker                                      */
    uint32_t run_count;      /* of its lanes: pieces of a row's sums                          */
    bool is_whole;           /* values are whole spans, the optimizer's state, too: of workers */
    /* What owners must know of a table's keys: how often each occurs, and how often in clicked examples
     * (engine/base/row_life.h). */
    bool shows[GRAPH_TABLES_MAX], clicks[GRAPH_TABLES_MAX];
};

/* A letter, as it travels: u32 counts [table_count], padded to whole u64; u64 keys [count], table by table;
 * then u32 occurrences [count] of the tables that show them, and after these clicks [count] of the tables
 * that want them; padded to whole u64. */
struct asked_letter {
    const uint32_t *count;                         /* [table_count] */
    const uint64_t *key[GRAPH_TABLES_MAX];         /* [count]       */
    const uint32_t *occurrences[GRAPH_TABLES_MAX]; /* [count], or NULL */
    const uint32_t *clicks[GRAPH_TABLES_MAX];      /* likewise         */
};
/* Fills shows and clicks, as the graph's tables need them. */
void asked_shape_wants(struct asked_shape *shape);
/* Most bytes that an asker's letter has. */
size_t asked_letter_bytes_max(const struct asked_shape *shape);
/* Bytes of the keys of an owner's letter, and of their occurrences and clicks; `count` as a step has it. */
size_t asked_keys_bytes(const struct asked_shape *shape, const uint32_t *count, uint32_t owner);
/* Reads `bytes` of another node's letter, 8-byte aligned; they must stay as long as the letter. INVALID: no
 * such asker can have written it. */
MUST_USE status asked_letter_read(struct asked_letter *letter, const struct asked_shape *asker, const uint8_t *at,
                                  size_t bytes);

/* Bytes of bits for a letter's keys, table by table, in whole u64. */
static inline size_t asked_bits_bytes(size_t keys) { return (keys + 63) / 64 * sizeof(uint64_t); }
static inline bool asked_bit(const uint64_t *bits, size_t key) { return bits[key / 64] >> key % 64 & 1; }
/* Sum of `count` [table_count]. */
size_t asked_keys_count(const struct graph *g, const uint32_t *count);
/* Most keys of an asker's letter. */
size_t asked_keys_max(const struct asked_shape *shape);
/* Floats of the values of the keys whose bit is `bit`. */
size_t asked_part_floats(const struct graph *g, const uint32_t *count, const uint64_t *bits, bool bit);
/* Moves the values of these keys from `part`, where they lie one behind the other, to their places among the
 * values of all keys; `part` may be `values`. */
void asked_part_spread(const struct graph *g, const uint32_t *count, const uint64_t *bits, bool bit, const float *part,
                       float *values);

/* A step's letters, and where its rows' values and pieces are. */
struct asked_step {
    uint64_t step;
    struct step_rows *rows; /* [table_count]: the step's, as they are numbered by step_rows_add_keys   */
    uint8_t *letters;       /* one after another                                                        */
    size_t *letter_begin;   /* [owner_count + 1]                                                        */
    uint32_t *count;        /* [owner_count, table_count]: keys of each letter                          */
    size_t *float_begin;    /* [owner_count + 1]: of an owner's values, in floats, as its rows store them    */
    size_t *piece_begin;    /* [owner_count + 1]: of an owner's pieces, in floats of one run                 */
    /* of a worker's, else NULL (engine/sync/waves.h) */
    float *values;   /* [asked_floats_max]: as they have come                                 */
    float *live;     /* likewise, with what the worker itself has changed: the spans lie here */
    uint64_t *level; /* [owner_count]: rounds below it are in an owner's values               */
    uint64_t round;  /* rounds below it must be                                                */
};
void asked_step_layout(struct asked_step *step, struct layout *l, const struct asked_shape *shape);
/* Floats of a row's values. */
uint32_t asked_row_floats(const struct asked_shape *shape, uint32_t table);
/* Floats that the values of a step take at most. */
size_t asked_floats_max(const struct asked_shape *shape);
/* Floats that the pieces of one run take at most. */
size_t asked_piece_floats_max(const struct asked_shape *shape);
/* Numbers of a step's keys, for one table. */
struct key_numbers {
    struct distinct distinct, step; /* of a micro-batch, and of the step so far */
    struct key_fields fields;
};
void key_numbers_layout(struct key_numbers *numbers, struct layout *l, const struct asked_shape *shape, uint32_t table);
/* A step begins. */
void asked_step_begin(struct asked_step *step, const struct asked_shape *shape, struct key_numbers *numbers);
/* Numbers the keys of a micro-batch in every table: fills the ticket's tables except spans, and adds to the
 * step's rows. Lanes come in order. */
void asked_step_add(struct asked_step *step, const struct asked_shape *shape, struct key_numbers *numbers,
                    const struct micro_batch *m, uint32_t lane, struct ticket *ticket);
/* The step has all its keys: writes its letters, and sets the spans of its rows within
 * `values` [asked_floats_max]. */
void asked_step_close(struct asked_step *step, const struct asked_shape *shape, const struct key_numbers *numbers,
                      float *values);
/* Where a table's rows begin among each owner's values, and their pieces in floats
 * of one run: [owner_count]. */
void asked_table_begin(const struct asked_step *step, const struct asked_shape *shape, uint32_t table, size_t *value,
                       size_t *piece);
/* Sets the spans of a micro-batch's ticket, after asked_step_close. */
void asked_step_spans(const struct asked_step *step, uint32_t table_count, struct ticket *ticket);

#endif
