/* Tells what a doctor has found, as a page of sections or as events, and its verdict. */
#ifndef HETERPS_ENGINE_CMD_FINDINGS_H
#define HETERPS_ENGINE_CMD_FINDINGS_H

#include "engine/run/doctor_needs.h"

struct findings_words {
    const char *of, *good; /* of: what failing lines stand in the way of; good: the last line, if none fails */
    const char *header[DOCTOR_SECTION_COUNT]; /* the header of a section's column "found"; NULL: none */
};
/* Tells the lines, section by section, within a section in their order. INFEASIBLE: some fail. */
MUST_USE status findings_tell(const struct doctor_line *lines, uint32_t count, const struct findings_words *words);

#endif
