/* The life of a table's rows: what a row counts, what its score is, and whether it still lives. The rules
 * depend on a row's counters and the number of a period alone (a period is a run of `store.period` steps). So
 * the answer is the same for a row in RAM or on disk, asked early or late.
 *
 *   a step    show += occurrences of the key in it; click += those in examples whose label is above 0.5; seen = the
 *             period
 *   score     score_show (show - click) + score_click click
 *   the end of period q, after its last step: show and click become decay times what they are; then
 *             the row dies if its score is below delete_score, or if q - seen > ttl
 *
 * The end of a period changes no counters. They stay as the last step has left them; whoever needs
 * them later multiplies once for each end of a period since then, in a loop, which gives the same bits
 * as doing so at every end. Source: the accessor of click-through rows in PaddlePaddle's parameter
 * server, with steps in place of days. */
#ifndef HETERPS_BASE_ROW_LIFE_H
#define HETERPS_BASE_ROW_LIFE_H

#include <stdbool.h>
#include <stdint.h>

#define ADMIT_MAX      256u
#define LIFE_KEYS_MAX  UINT64_C(1000000000000)
#define LIFE_SCORE_MAX 1e30f
/* What admission counts. bloom by shards: one filter for each shard of the keys; occurrences of a step
 * count in ascending order of key, so the filter is the same wherever the shard lies. bloom: one
 * filter, in the order of the data. */
enum admit_by { ADMIT_EXACT, ADMIT_BLOOM, ADMIT_BLOOM_SHARDS };

/* What a table asks for; all zero but `admit`, which is 1: rows live for ever. Part of the graph's file. */
struct row_life {
    uint64_t row_max;     /* rows that may live at the end of a step; 0: any number                              */
    uint64_t admit_keys;  /* keys whose occurrences the admission counts                                         */
    uint32_t admit;       /* occurrence of a key from which on it has a row                                      */
    uint32_t admit_by;    /* enum admit_by                                                                       */
    uint32_t counts;      /* 1: rows have counters, at the end of their span                                     */
    uint32_t ttl;         /* periods; 0: rows do not age                                                         */
    uint32_t click_label; /* number of the label, or UINT32_MAX: nothing is a click                              */
    float decay;          /* 0 < decay <= 1                                                                      */
    float score_show, score_click;
    float delete_score; /* 0: none is too low                                                                  */
    float vector_score; /* 0: rows have all columns from the beginning                                         */
};

/* Whether training has rules of life to keep. */
static inline bool row_life_is_on(const struct row_life *life) { return life->counts || life->admit > 1; }

/* A row's counters, in the last ROW_COUNTER_FLOATS floats of its span. */
#define ROW_COUNTER_FLOATS 3u
struct row_counters {
    float show, click;
    uint32_t seen; /* the last period in which a step had the key                                      */
    bool has_vector;
};
struct row_counters row_counters_get(const float *at);
/* Writes the counters of a row that nobody has counted yet; `has_vector`: all its columns have values. */
void row_counters_begin(float *at, bool has_vector);

/* Counts a step of `period` that had the key `shows` times, `clicks` of them clicked. Returns whether the row
 * has no vector yet and its score has reached vector_score. The caller then fills the vector; the counters
 * already say that the row has one. */
bool row_life_step(const struct row_life *life, float *at, uint64_t period, uint32_t shows, uint32_t clicks);

/* The score in `period`, after the ends of all periods before it. Not negative. */
float row_life_score(const struct row_life *life, const float *at, uint64_t period);

enum row_fate { ROW_LIVES, ROW_DEAD_SCORE, ROW_DEAD_AGE, ROW_FATE_COUNT };
/* What has become of the row at the ends of all periods before `period`. */
enum row_fate row_life_fate(const struct row_life *life, const float *at, uint64_t period);

#endif
