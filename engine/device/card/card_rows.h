/* Rows of tables for a stage that looks them up on a card.
 *
 *     store (host)                                    card
 *     every row          ── vectors of cold rows ──▶  a micro-batch's        forward
 *                        ◀── their sums ────────────  gradients of the step  update: the CPU changes cold rows, the
 *                        ── rows move in ──────────▶  resident rows          card resident ones, by the same
 *                        ◀── rows go home ──────────                         arithmetic
 *
 * Resident rows are the tier of a table on the card (store.gpu bytes, divided as store.ram is): vector,
 * optimizer's state and counters. Rows move only at the end of steps, and by counts, so neither results nor
 * copies depend on timing. A cold row moves in at the second step that has it: at the first, rows that occur
 * once would crowd out others. If there is no room, a hand goes round, as a clock's: the first resident row
 * that no step has had since the hand last passed goes home. At the end of a job changed rows go home and
 * stay resident too, so that saves and evaluations find the newest rows in the store.
 *
 * In a table with a disk below it, or with rows that come and go, all rows are cold. So are all rows where
 * several nodes share the stage: their owners update them, and the sums of lane rows go to the host as the
 * card has them. */
#ifndef HETERPS_ENGINE_DEVICE_CARD_CARD_ROWS_H
#define HETERPS_ENGINE_DEVICE_CARD_CARD_ROWS_H

#include "engine/base/memory.h"
#include "engine/model/model.h"
#include "gpu/ops.h"
#include "graph/device.h"

#define CARD_NONE UINT32_MAX

/* Parts of the card's memory and of pinned memory begin on a multiple of this (struct layout.align). */
#define CARD_ALIGN_BYTES ((size_t)256)

/* A table that the stage looks up. */
struct card_table {
    uint32_t table, dim;
    uint32_t vector;         /* floats of a row's vector, as its table stores it                  */
    uint32_t floats, stride; /* of a span; from a span to the next in the tier: 16-byte multiple */
    uint32_t use_count;
    uint32_t *lookups;      /* [use_count]: numbers of the table's look-ups                 */
    uint32_t uniques_max;   /* of a micro-batch                                             */
    uint32_t step_rows_max; /* of a step                                                    */
    uint32_t chunk;         /* rows that are moved at a time                                */
    /* on the card */
    float *tier;                /* [tier_rows, stride]                                          */
    float **grad;               /* host's list [use_count]: [step_rows_max, dim], by lane row   */
    float **grad_list;          /* the same list on the card                                    */
    float **span_list;          /* [step_rows_max], then [chunk]: where rows are                */
    uint32_t *counts;           /* [step_rows_max]: occurrences, or indices of cold rows        */
    uint64_t *key;              /* [step_rows_max]: of a table in bfloat16                      */
    float *packed;              /* [chunk, floats]                                               */
    uint32_t *last_lane_row;    /* [step_rows_max], with several lanes                           */
    struct lane_row *lane_rows; /* likewise                                                    */
    /* pinned memory of the host, the same shapes */
    float **span_list_host, **chunk_list_host;
    uint32_t *index_host;
    float *packed_host;
    /* the tier; [row] is the store's number */
    uint32_t tier_rows, resident_count, hand;
    uint32_t *slot_of;             /* [row]: place in the tier, or CARD_NONE */
    uint8_t *seen;                 /* [row]: whether a step has had the row while it was cold */
    uint32_t *row_of;              /* [tier_rows]                                             */
    float **home;                  /* [tier_rows]: its span in the store                       */
    uint8_t *is_used, *is_changed; /* [tier_rows]: since the hand last passed; since the row was last home */
    /* of the step */
    _Atomic uint32_t *shared_slot; /* [step_rows_max]: the row's place in the tier, or CARD_NONE */
    _Atomic uint32_t *shared_row;  /* [step_rows_max]: the store's number of a cold row */
    float **cold_span;             /* [chunk]: scratch of an update */
    uint32_t *cold_occurrences, *cold_clicks;
    uint64_t *cold_key;
    uint32_t *leaving;    /* [chunk]: places of rows that go home                          */
    uint32_t *coming;     /* [chunk]: places of rows that move in                          */
    uint32_t *coming_row; /* [chunk]: the step's numbers of these rows                  */
};

/* A stream's memory for the rows of its micro-batch. */
struct card_stream_rows {
    struct card_stream_table {
        float **span, **span_host; /* [uniques_max]      */
        float *cold, *cold_host;   /* [uniques_max, vector] */
    } * table;                     /* [table_count]       */
};

struct card_rows {
    const struct graph *graph;
    struct model *model;
    struct gpu *gpu;
    uint32_t lanes;
    bool training, is_shared;
    struct card_table *tables; /* [table_count] */
    uint32_t table_count;
    float **table_grad;  /* [lookup_count]: addresses on the card */
    struct device *host; /* updates cold rows                             */
    void *maps;          /* memory of the tier's lists                    */
    size_t maps_bytes;
    /* figures: rows of steps that were resident, or cold; rows that moved */
    uint64_t resident_rows, cold_rows, moved_in, moved_home;
};

/* For the tables that the forward nodes [node_begin, node_end) look up. */
struct card_rows_options {
    const struct graph *graph;
    struct model *model;
    uint32_t node_begin, node_end;
    uint32_t lanes;
    bool training;
    bool is_shared;      /* the host updates rows, which nodes own: all are cold */
    uint64_t tier_bytes; /* of all tiers together                       */
};
/* Keeps graph and model. INVALID: a table is looked up by other stages too; MEMORY; else
 * as cpu_device_open. */
MUST_USE status card_rows_open(struct card_rows *r, const struct card_rows_options *options);
void card_rows_close(struct card_rows *r);
/* Takes its parts of the card's memory and of pinned memory, or adds up their sizes (struct layout). */
void card_rows_layout(struct card_rows *r, struct layout *card, struct layout *pinned);
void card_stream_rows_layout(const struct card_rows *r, struct card_stream_rows *s, struct layout *card,
                             struct layout *pinned);
/* Once the memory is there, in training: copies lists to the card, and clears gradients. */
MUST_USE status card_rows_begin(struct card_rows *r, struct gpu *gpu, struct gpu_stream *stream,
                                struct gpu_event *event);

/* Before a forward pass: copies what the pass needs of the context's ticket into `to`, whose arrays are on
 * the card. Adds the bytes moved to *bytes. */
MUST_USE status card_rows_forward(struct card_rows *r, const struct gpu_work *w, struct card_stream_rows *s,
                                  const struct op_context *c, struct ticket *to, uint64_t *bytes);
/* device_vt.update_rows; waits for the card. */
MUST_USE status card_rows_update(struct card_rows *r, const struct gpu_work *w, struct gpu_event *event,
                                 const struct table_update *update);
/* device_vt.fetch_rows. */
MUST_USE status card_rows_fetch(struct card_rows *r, const struct gpu_work *w, struct gpu_event *event,
                                const struct table_fetch *fetch);
/* Copies the rows that have changed home; they stay resident. */
MUST_USE status card_rows_settle(struct card_rows *r, const struct gpu_work *w, struct gpu_event *event);

#endif
