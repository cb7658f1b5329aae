/* Prints findings, or writes their events. */
#include "engine/cmd/findings.h"

#include <stdio.h>

#include "engine/base/log.h"
#include "engine/base/words.h"

static const char *const state_names[] = {[DOCTOR_OK] = "ok", [DOCTOR_WARN] = "warn", [DOCTOR_FAIL] = "fail"};
static const char *const section_names[] = {
#define SECTION(name, heading) [DOCTOR_##name] = heading,
    DOCTOR_SECTIONS(SECTION)
#undef SECTION
};

static void line_print(const struct doctor_line *l)
{
    const char *state = state_names[l->state];
    /* A refusal or a warning is one whole sentence. */
    if (*l->what == 0) {
        printf("  %-4s  %s\n", state, l->todo);
        return;
    }
    printf("  %-4s  %-20s  %s%s%s%s\n", state, l->what, *l->needed ? "needs " : "", l->needed,
           *l->needed && *l->found ? ", has " : "", l->found);
    if (*l->todo) printf("  %-4s  %-20s  %s\n", "", "", l->todo);
}

static void line_event(const struct doctor_line *l)
{
    log_event_begin("doctor");
    log_event_text("section", section_names[l->section]);
    log_event_text("state", state_names[l->state]);
    log_event_text("what", l->what);
    log_event_text("needed", l->needed);
    log_event_text("found", l->found);
    log_event_text("todo", l->todo);
    log_event_end();
}

static void heading_print(int section, const struct findings_words *words)
{
    const char *header = words->header[section];
    printf("%s\n", section_names[section]);
    if (header) printf("  %-4s  %-20s  %s\n", "", "", header);
}

status findings_tell(const struct doctor_line *lines, uint32_t count, const struct findings_words *words)
{
    uint32_t counts[3] = {0};
    const bool is_text = log_format() == LOG_TEXT;
    for (int section = 0; section < DOCTOR_SECTION_COUNT; section++) {
        bool has_heading = false;
        for (uint32_t i = 0; i < count; i++) {
            const struct doctor_line *l = &lines[i];
            if ((int)l->section != section) continue;
            counts[l->state]++;
            if (is_text && !has_heading) heading_print(section, words);
            has_heading = true;
            if (is_text) line_print(l);
            line_event(l);
        }
    }
    log_event_begin("verdict");
    log_event_u64("fails", counts[DOCTOR_FAIL]);
    log_event_u64("warnings", counts[DOCTOR_WARN]);
    log_event_end();
    (void)fflush(stdout); /* before the error's line, if both go to the same place */
    if (counts[DOCTOR_FAIL])
        FAIL(INFEASIBLE, "%u thing%s in the way of %s; see \"fail\" above", counts[DOCTOR_FAIL],
             counts[DOCTOR_FAIL] == 1 ? " is" : "s are", words->of);
    if (is_text) printf("%s\n", words->good);
    return ST_OK;
}
