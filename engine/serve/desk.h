/* Where requests meet the model's threads. The asker puts texts down in the order of their
 * arrival, and picks up their answers in pieces, as micro-batches are done. No thread waits for a
 * lock, and no answer mixes with another.
 *
 *     asker (one thread)       reader (the feed's thread)        answerer (a worker at a time)
 *     desk_put ──waiting──▶ struct reader_texts ──given──▶ desk_next … desk_wrote ──done, and an fd──▶ desk_take
 *        ▲                  batches by deadline                                                       (the asker)
 *        └─── the table of asks ◀──────────────────────────────────────── desk_give_back ◀───────────────┘
 *
 * A micro-batch goes when it is full, when its oldest text has waited for wait_ns, or when no client is left
 * to send another text: every open connection has a request that waits (desk_others_set).
 *
 * desk_open takes all memory but the texts. Workload: a second has 100,000 texts of
 * one line, or 100 of a thousand. */
#ifndef HETERPS_ENGINE_SERVE_DESK_H
#define HETERPS_ENGINE_SERVE_DESK_H

#include "io/read/reader.h"

#define DESK_WHY_BYTES 400

/* What a request wants beside its text. */
struct ask_wants {
    uint32_t top; /* words a line; 0: eval.top              */
    bool each;    /* an answer for every example, not for a group's first alone */
    /* to learn: `after` is the sequence number that the first line has to follow */
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
    /* the reader's; the asker may look when it has the last piece of the answer */
    uint64_t bad_count, bad_line; /* malformed lines; the number of the first one, and why */
    bool is_refused;              /* the first line does not name the columns (why, bad_line): no answer */
    bool is_misplaced;            /* it does not follow wants.after (why): no answer                     */
    bool is_over;                 /* the reader has given up: why                                        */
    char why[DESK_WHY_BYTES];
};

/* Pieces of answers, one behind the other in `text`: piece i begins where piece i - 1
 * ends, and ends at its `end`. */
struct answers {
    uint32_t index, count;
    struct answer_piece {
        struct ask *ask;
        size_t end;
        bool is_last; /* piece of the ask's answer */
    } * piece;        /* [count] */
    char *text;
};

struct desk_options {
    uint32_t ask_max;      /* texts on the desk at once          */
    uint32_t example_max;  /* examples between reader and answerer */
    uint32_t micro;        /* examples of a micro-batch          */
    size_t line_bytes_max; /* bytes of a line of an answer       */
    uint64_t wait_ns;      /* the longest that a text waits for others */
};

struct desk;
/* MEMORY, SYSTEM. */
MUST_USE status desk_open(struct desk **desk, const struct desk_options *options);
/* Call it when reader and answerer have ended. Frees texts that are still on the desk. NULL is ignored. */
void desk_close(struct desk *desk);

/* --- the asker's ------------------------------------------------------------------------------ */

/* Puts a text on the desk, which takes its memory: malloc'd, with READER_SLACK_BYTES behind the text. False:
 * the table is full, and the text stays the caller's. */
bool desk_put(struct desk *desk, char *text, size_t bytes, struct ask_wants wants, void *owner);
/* After one or several puts: wakes the reader. */
void desk_ring(struct desk *desk);
/* How many clients could still send a text before one is answered; at first without limit. */
void desk_others_set(struct desk *desk, uint32_t count);
/* No text will follow: when the reader has read the texts on the desk, its data end. */
void desk_end(struct desk *desk);
/* A descriptor that is readable when there are answers to take. Call desk_quiet before desk_take: it makes
 * the descriptor unreadable until more comes. */
int desk_fd(const struct desk *desk);
void desk_quiet(struct desk *desk);
/* Takes answers; false: there are none now. Answers may be given back in any order; an ask whose last piece
 * is among them then leaves the desk. */
bool desk_take(struct desk *desk, struct answers **answers);
void desk_give_back(struct desk *desk, struct answers *answers);
/* Texts on the desk. */
uint32_t desk_ask_count(const struct desk *desk);
/* When reader and answerer have ended: takes all texts from the desk; nobody will answer them. */
void desk_clear(struct desk *desk, void (*drop)(void *owner));

/* --- the reader's ----------------------------------------------------------------------------- */

/* For reader_options.texts. */
const struct reader_texts *desk_texts(struct desk *desk);
/* The text that is being read; for the reader's thread. */
const struct ask *desk_reading(const struct desk *desk);
/* The text that is being read does not follow wants.after. */
void desk_misplace(struct desk *desk, const char *why);
/* The reader gives up, and tells every ask why. */
void desk_give_up(struct desk *desk, const char *why);
/* Stops the reader, or lets it go on: a stopped one finds its data at an end. From any thread. */
void desk_reader_stop(struct desk *desk, bool is_stopped);

/* --- the answerer's --------------------------------------------------------------------------- */

struct desk_example {
    struct ask *ask;
    bool is_last, is_extra; /* as in reader_texts.example */
};
/* The next example that the reader has given, in the reader's order; each once. */
struct desk_example desk_next(struct desk *desk);
/* Room for a line of an answer; waits until answers are given back where there is none. */
char *desk_room(struct desk *desk);
/* The first `bytes` of the room answer the example (0 for an extra one). */
void desk_wrote(struct desk *desk, const struct desk_example *example, size_t bytes);
/* Hands all answers so far to the asker. */
void desk_flush(struct desk *desk);
/* Makes the descriptor readable without answers to take. */
void desk_tell(struct desk *desk);

#endif
