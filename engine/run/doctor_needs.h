/* Compares what an opened training needs with what this node has: memory by parts, rows, disk, descriptors,
 * cores, the data's first lines, room for saves. The figures are those of the opened training itself. */
#ifndef HETERPS_ENGINE_RUN_DOCTOR_NEEDS_H
#define HETERPS_ENGINE_RUN_DOCTOR_NEEDS_H

#include "engine/run/train.h"

/* The sections, in the order in which they are told; X(name, heading). The last two are doctor --cluster's
 * (doctor_links.h). */
#define DOCTOR_SECTIONS(X)                                                                                             \
    X(model, "model")                                                                                                  \
    X(data, "data")                                                                                                    \
    X(memory, "memory")                                                                                                \
    X(rows, "rows")                                                                                                    \
    X(disk, "disk")                                                                                                    \
    X(save, "save directory")                                                                                          \
    X(plan, "plan")                                                                                                    \
    X(cards, "cards")                                                                                                  \
    X(nodes, "nodes")                                                                                                  \
    X(links, "links")
enum doctor_section {
#define SECTION(name, heading) DOCTOR_##name,
    DOCTOR_SECTIONS(SECTION)
#undef SECTION
        DOCTOR_SECTION_COUNT
};
#define DOCTOR_EVALUATION  "evaluation" /* what lines about its data are called; the set's name follows */
#define DOCTOR_ROWS        "rows"       /* what the line about their room on a disk is called             */
#define DOCTOR_CARD_STAGES "stages on cards"
enum doctor_state { DOCTOR_OK, DOCTOR_WARN, DOCTOR_FAIL };

struct doctor_line {
    enum doctor_section section;
    enum doctor_state state;
    char what[80];
    char needed[96], found[512]; /* "": no such figure */
    char todo[2048];             /* what to change, or what is wrong; "" */
};
typedef void doctor_say(void *context, const struct doctor_line *line);

/* Formats a line and says it; todo NULL: "". */
void doctor_tell(doctor_say *say, void *context, enum doctor_section section, enum doctor_state state, const char *what,
                 const char *needed, const char *found, const char *todo);

/* The plan's memory, and this machine's: for a caller that looks for settings that fit. */
struct doctor_memory {
    uint64_t planned_bytes, room_bytes, store_ram;
    uint64_t disk_free_bytes; /* where rows on disk are to lie, if it is less than they may take; else 0 */
};

/* Says all lines about an opened training (train_options.look). Reads the first lines of
 * the data, but not of a stream. */
void doctor_look(struct session *session, const struct train_options *options, const struct eval_sets *eval,
                 struct doctor_memory *memory, doctor_say *say, void *context);

#endif
