/* Rows of tables for a stage that looks them up on a card.
 *
 *     store (host)                                    card
 *     every row          ── vectors of cold rows ──▶  a micro-batch's        forward
 *                        ◀── their sums ────────────  gradients of the step  update: the CPU changes cold rows, the
 *                        ── rows move in ──────────▶  resident rows          card resident ones, by the same
 *                        ◀── rows go home ──────────                         arithmetic
 *
 * Resident rows are the tier of a table on the card (store.gpu bytes, divided as store.ram is): vector,
 * optimizer's state and counters. Which rows these are changes only at the end of steps, and by counts: a cold
 * row moves in when a second step has it (and its first does not, or rows that occur once would crowd out
 * others); where there is no room a hand goes round, as a clock's, and the first resident row that no step has
 * had since the hand came by last goes home. So neither bytes nor what is copied depends on timing. At the end
 * of a job rows that have changed go home and stay resident too, so that saves and evaluations find the newest
 * in the store.
 *
 * Rows of a table with a disk below it, or that come and go, are all cold. */
#ifndef HETERPS_ENGINE_DEVICE_CARD_CARD_ROWS_H
#define HETERPS_ENGINE_DEVICE_CARD_CARD_ROWS_H

#include "engine/base/memory.h"
#include "engine/model/model.h"
#include "gpu/ops.h"
#include "graph/device.h"

#define CARD_NONE UINT32_MAX

/* What parts of the card's memory and of pinned memory begin on a multiple of (struct layout.align). */
#define CARD_ALIGN_BYTES ((size_t)256)

/* A table's. */
struct card_table {
    uint32_t table, dim;
    uint32_t vector;         /* floats of a row's vector, as its table stores it                  */
    uint32_t floats, stride; /* of a span; from one to the next in the tier: on 16 bytes        */
    uint32_t use_count;
    uint32_t *lookups;      /* [use_count]: numbers of its look-ups                         */
    uint32_t uniques_max;   /* of a micro-batch                                             */
    uint32_t step_rows_max; /* of a step                                                    */
    uint32_t chunk;         /* rows that are moved at a time                                */
    /* of the card */
    float *tier;                /* [tier_rows, stride]                                          */
    float **grad;               /* host's list [use_count]: [step_rows_max, dim], by lane row   */
    float **grad_list;          /* the same list on the card                                    */
    float **span_list;          /* [step_rows_max], then [chunk]: where rows are                */
    uint32_t *counts;           /* [step_rows_max]: occurrences, or indices of cold rows        */
    uint64_t *key;              /* [step_rows_max]: of a table in bfloat16                      */
    float *packed;              /* [chunk, floats]                                               */
    uint32_t *last_lane_row;    /* [step_rows_max], of several lanes, as is …                    */
    struct lane_row *lane_rows; /* [step_rows_max]                                             */
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
    uint8_t *is_used, *is_changed; /* [tier_rows]: since the hand came by; since it was home last */
    /* the step's */
    _Atomic uint32_t *shared_slot; /* [step_rows_max]: of its rows, or CARD_NONE */
    _Atomic uint32_t *shared_row;  /* [step_rows_max]: the store's number, of cold rows */
    float **cold_span;             /* [chunk]: scratch of an update */
    uint32_t *cold_occurrences, *cold_clicks;
    uint64_t *cold_key;
    uint32_t *leaving;    /* [chunk]: places of rows that go home                          */
    uint32_t *coming;     /* [chunk]: those of rows that move in … */
    uint32_t *coming_row; /* … which are these of the step                              */
};

/* What a stream needs for its micro-batch. */
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
    bool training;
    struct card_table *tables; /* [table_count] */
    uint32_t table_count;
    float **table_grad;  /* [lookup_count]: addresses of the card */
    struct device *host; /* updates cold rows                             */
    void *maps;          /* memory of the tier's lists                    */
    size_t maps_bytes;
    /* figures: rows of steps that were resident, and cold; that moved */
    uint64_t resident_rows, cold_rows, moved_in, moved_home;
};

/* Of the forward nodes [node_begin, node_end). tier_bytes: of all tables. INVALID: a table is looked up by
 * other stages too. */
MUST_USE status card_rows_open(struct card_rows *r, const struct graph *g, struct model *model, uint32_t node_begin,
                               uint32_t node_end, uint32_t lanes, bool training, uint64_t tier_bytes);
void card_rows_close(struct card_rows *r);
/* Its parts of the card's memory and of pinned memory, of both the same list of takes. */
void card_rows_layout(struct card_rows *r, struct layout *card, struct layout *pinned);
void card_stream_rows_layout(const struct card_rows *r, struct card_stream_rows *s, struct layout *card,
                             struct layout *pinned);
/* Once the memory is there: lists and zeros. */
MUST_USE status card_rows_begin(struct card_rows *r, struct gpu *gpu, struct gpu_stream *stream,
                                struct gpu_event *event);

/* Before a forward pass: gives the stream what it needs of the ticket, into `to`, whose arrays are the card's.
 * *bytes grows by what is moved. */
MUST_USE status card_rows_forward(struct card_rows *r, const struct gpu_work *w, struct card_stream_rows *s,
                                  const struct op_context *c, struct ticket *to, uint64_t *bytes);
/* device_vt.update_rows; waits for the card. */
MUST_USE status card_rows_update(struct card_rows *r, const struct gpu_work *w, struct gpu_event *event,
                                 const struct table_update *update);
/* Rows that have changed go home. */
MUST_USE status card_rows_settle(struct card_rows *r, const struct gpu_work *w, struct gpu_event *event);

#endif
