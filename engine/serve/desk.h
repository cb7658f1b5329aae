/* Where requests meet the model's threads: texts are put down in the order in which they came, and their answers are
 * picked up in pieces, as micro-batches are done. Nobody waits for a lock, and no answer mixes with another.
 *
 *     asker (one thread)       reader (the feed's thread)        answerer (a worker at a time)
 *     desk_put ──waiting──▶ struct reader_texts ──given──▶ desk_next … desk_wrote ──done, and an fd──▶ desk_take
 *        ▲                  batches by deadline                                                       (the asker)
 *        └─── the table of asks ◀──────────────────────────────────────── desk_give_back ◀───────────────┘
 *
 * A micro-batch goes when it is full, when its oldest text has waited for so long, or when nobody is left who could
 * send another: every open connection has a request that waits (others_set).
 *
 * All memory but the texts is taken at open. Workload: 100,000 texts a second of one line, or 100 of a thousand. */
#ifndef HETERPS_ENGINE_SERVE_DESK_H
#define HETERPS_ENGINE_SERVE_DESK_H

#include "io/read/reader.h"

#define DESK_WHY_BYTES 400

/* What is wanted of a text where words are predicted. */
struct ask_wants {
    uint32_t top; /* words a line; 0: eval.top              */
    bool each;    /* of every example, not of a group's first */
    /* of one who teaches: the sequence number that its first line is to come behind */
    bool has_after;
    uint64_t after;
};
/* A text that waits for its answer. */
struct ask {
    /* the asker's */
    void *owner;
    char *text; /* [bytes + READER_SLACK_BYTES], malloc'd */
    size_t bytes;
    uint64_t arrival_ns;
    struct ask_wants wants;
    /* the reader's, for the asker to read with the last piece of the answer */
    uint64_t bad_count, bad_line; /* malformed lines; the first of them, and why */
    bool is_refused;              /* its first line does not name the columns: bad_line's, and there is no answer */
    bool is_over;                 /* nobody reads any more: why                                                    */
    char why[DESK_WHY_BYTES];
};

/* Pieces of answers, one behind the other in `text`: piece i ends at end[i] and begins where the one before it ends. */
struct answers {
    uint32_t index, count;
    struct answer_piece {
        struct ask *ask;
        size_t end;
        bool is_last; /* of the ask's */
    } * piece;        /* [count] */
    char *text;
};

struct desk_options {
    uint32_t ask_max;      /* texts that are down at once             */
    uint32_t example_max;  /* that can be between reader and answerer */
    uint32_t micro;        /* examples of a micro-batch               */
    size_t line_bytes_max; /* of an answer's                         */
    uint64_t wait_ns;
};

struct desk;
/* MEMORY, SYSTEM. */
MUST_USE status desk_open(struct desk **desk, const struct desk_options *options);
/* When its threads have ended; texts that are still down are freed. NULL is ignored. */
void desk_close(struct desk *desk);

/* --- the asker's ------------------------------------------------------------------------------ */

/* Takes the text, which is malloc'd with READER_SLACK_BYTES behind it, unless the table is full: then false, and it
 * stays yours. */
bool desk_put(struct desk *desk, char *text, size_t bytes, struct ask_wants wants, void *owner);
/* After one or several puts: wakes the reader. */
void desk_ring(struct desk *desk);
/* How many others could still send a text before any is answered; at first as many as there can be. */
void desk_others_set(struct desk *desk, uint32_t count);
/* No text will come any more: when those that are down are read, the reader is at its end. */
void desk_end(struct desk *desk);
/* Readable when there is something to take; desk_quiet before looking makes it unreadable until there is more. */
int desk_fd(const struct desk *desk);
void desk_quiet(struct desk *desk);
/* False: there is none now. Given back in any order; asks whose last piece it has are then off the desk. */
bool desk_take(struct desk *desk, struct answers **answers);
void desk_give_back(struct desk *desk, struct answers *answers);
/* Texts that are down. */
uint32_t desk_ask_count(const struct desk *desk);

/* --- the reader's ----------------------------------------------------------------------------- */

/* For reader_options.texts. */
const struct reader_texts *desk_texts(struct desk *desk);
/* What is being read; of the thread that reads. */
const struct ask *desk_reading(const struct desk *desk);
/* Nobody goes on with it, because of this. */
void desk_give_up(struct desk *desk, const char *why);
/* From now on the reader gets no text, as if there would be none any more, until it may go on. Any thread. */
void desk_reader_stop(struct desk *desk, bool is_stopped);

/* --- the answerer's --------------------------------------------------------------------------- */

struct desk_example {
    struct ask *ask;
    bool is_last, is_extra; /* as reader_texts.example has them */
};
/* The example that the reader has given behind the one before: once for each example, in their order. */
struct desk_example desk_next(struct desk *desk);
/* Room for a line; waits until answers are given back if need be. */
char *desk_room(struct desk *desk);
/* So many bytes of it (0 of an extra example) answer the example. */
void desk_wrote(struct desk *desk, const struct desk_example *example, size_t bytes);
/* Lets the asker have what is there. */
void desk_flush(struct desk *desk);
/* Makes the fd readable, with nothing to take. */
void desk_tell(struct desk *desk);

#endif
