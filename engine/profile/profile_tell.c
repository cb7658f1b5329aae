/* A profile as a table for people, and as an event for programs. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/log.h"
#include "engine/base/words.h"
#include "engine/profile/profile.h"

enum column { LAYER, KIND, CUT, TYPE, MS, FIXED, ALPHA, MOVE, SOURCE, COLUMNS };
static const char *const titles[COLUMNS] = {"layer", "op",    "cut bytes", "type",  "ms",
                                            "fixed", "alpha", "move ms",   "source"};
static const bool is_right[COLUMNS] = {[CUT] = true, [MS] = true, [FIXED] = true, [MOVE] = true};
#define CELL_BYTES 48
typedef char row_cells[COLUMNS][CELL_BYTES];

/* Writes milliseconds with three digits. */
static void ms_text(char *cell, double seconds)
{
    double ms = seconds * 1e3;
    if (seconds >= INSTANCE_CANNOT) {
        snprintf(cell, CELL_BYTES, "cannot");
        return;
    }
    int decimals = ms >= 99.95 ? 0 : ms >= 9.995 ? 1 : ms >= 0.9995 ? 2 : 4;
    snprintf(cell, CELL_BYTES, "%.*f", decimals, ms);
}

static void row_fill(row_cells row, const struct instance *i, uint32_t l, uint32_t t)
{
    const struct instance_layer *layer = &i->layers[l];
    const struct instance_time *time = instance_time(i, l, t);
    char count[27];
    if (t == 0) { /* figures common to all types stand once */
        snprintf(row[LAYER], CELL_BYTES, "%s", layer->name);
        snprintf(row[KIND], CELL_BYTES, "%s", layer->kind);
        snprintf(row[CUT], CELL_BYTES, "%s", words_whole(count, (uint64_t)(layer->cut_bytes + 0.5)));
    }
    snprintf(row[TYPE], CELL_BYTES, "%s", i->types[t].resource.name);
    ms_text(row[MS], time->oct);
    ms_text(row[FIXED], time->fixed);
    bool has_interval = time->alpha_low != 0 || time->alpha_high != 0;
    int used = snprintf(row[ALPHA], CELL_BYTES, "%.3f", time->alpha);
    if (has_interval)
        snprintf(row[ALPHA] + used, CELL_BYTES - (size_t)used, " (%.3f to %.3f)", time->alpha_low, time->alpha_high);
    ms_text(row[MOVE], time->odt);
    snprintf(row[SOURCE], CELL_BYTES, "%s", instance_source_names[i->types[t].source]);
}

/* Columns of UTF-8 text on a terminal: bytes that are no continuation. */
static int text_width(const char *text)
{
    int width = 0;
    for (; *text; text++) width += ((unsigned char)*text & 0xc0) != 0x80;
    return width;
}

static void row_say(row_cells row, const int *widths, profile_say *say, void *context)
{
    char line[COLUMNS * (CELL_BYTES + 2) + 1];
    int used = 0;
    for (int c = 0; c < COLUMNS; c++) {
        int gap = widths[c] - text_width(row[c]);
        used += sprintf(line + used, "%s%*s%s%*s", c ? "  " : "", is_right[c] ? gap : 0, "", row[c],
                        is_right[c] ? 0 : gap, "");
    }
    while (used > 0 && line[used - 1] == ' ') line[--used] = 0;
    say(context, line);
}

static void reading_say(const struct instance *i, profile_say *say, void *context)
{
    char line[160], rate[27];
    if (!(i->service_seconds > 0)) return;
    uint32_t cores = i->service_cores ? i->service_cores : 1;
    snprintf(line, sizeof line, "reading: %.2f us an example on one core; %u service core%s read%s %s examples/s",
             i->service_seconds * 1e6, cores, words_s(cores), cores == 1 ? "s" : "",
             words_whole(rate, (uint64_t)(cores / i->service_seconds)));
    say(context, line);
}

status profile_tell(const struct instance *i, profile_say *say, void *context)
{
    char line[RESOURCE_NAME_BYTES + 128];
    uint32_t row_count = 1 + i->layer_count * i->type_count;
    int widths[COLUMNS] = {0};
    row_cells *rows = calloc(row_count, sizeof *rows);
    if (rows == NULL) FAIL(MEMORY, "no memory for a table of %u rows", row_count);
    for (int c = 0; c < COLUMNS; c++) snprintf(rows[0][c], CELL_BYTES, "%s", titles[c]);
    for (uint32_t l = 0; l < i->layer_count; l++)
        for (uint32_t t = 0; t < i->type_count; t++) row_fill(rows[1 + l * i->type_count + t], i, l, t);
    for (uint32_t r = 0; r < row_count; r++)
        for (int c = 0; c < COLUMNS; c++)
            if (text_width(rows[r][c]) > widths[c]) widths[c] = text_width(rows[r][c]);
    snprintf(line, sizeof line, "%s: ms of %g examples on one unit, cut bytes of one", i->name, i->batch);
    say(context, line);
    for (uint32_t r = 0; r < row_count; r++) row_say(rows[r], widths, say, context);
    reading_say(i, say, context);
    free(rows);
    return ST_OK;
}

void profile_event(const struct instance *i)
{
    log_event_begin("profile");
    log_event_text("name", i->name);
    log_event_f64("batch", i->batch);
    log_event_f64("service_seconds", i->service_seconds);
    log_event_open_array("types");
    for (uint32_t t = 0; t < i->type_count; t++) {
        log_event_open(NULL);
        log_event_text("name", i->types[t].resource.name);
        log_event_text("source", instance_source_names[i->types[t].source]);
        log_event_u64("limit", i->types[t].resource.limit);
        log_event_close();
    }
    log_event_close_array();
    log_event_open_array("layers");
    for (uint32_t l = 0; l < i->layer_count; l++) {
        log_event_open(NULL);
        log_event_text("name", i->layers[l].name);
        log_event_text("type", i->layers[l].kind);
        log_event_f64("cut_bytes", i->layers[l].cut_bytes);
        log_event_open_array("times");
        for (uint32_t t = 0; t < i->type_count; t++) {
            const struct instance_time *time = instance_time(i, l, t);
            log_event_open(NULL);
            log_event_f64("oct", time->oct);
            log_event_f64("fixed", time->fixed);
            log_event_f64("alpha", time->alpha);
            log_event_f64("alpha_low", time->alpha_low);
            log_event_f64("alpha_high", time->alpha_high);
            log_event_f64("odt", time->odt);
            log_event_f64("beta", time->beta);
            log_event_close();
        }
        log_event_close_array();
        log_event_close();
    }
    log_event_close_array();
    log_event_end();
}
