/* How a doctor tells what it has found: a page of sections, or events; and its verdict. */
#ifndef HETERPS_ENGINE_CMD_FINDINGS_H
#define HETERPS_ENGINE_CMD_FINDINGS_H

#include "engine/run/doctor_needs.h"

struct findings_words {
    const char *of, *good;                    /* in the way of whom something is; the last line, if nothing is */
    const char *header[DOCTOR_SECTION_COUNT]; /* of a section's column "found"; NULL: none                     */
};
/* In order of sections, and within one in that of the lines. INFEASIBLE: some fail. */
MUST_USE status findings_tell(const struct doctor_line *lines, uint32_t count, const struct findings_words *words);

#endif
