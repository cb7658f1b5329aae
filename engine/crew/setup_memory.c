/* Prints the plan of memory and the memory in use, and checks that this process can have the plan. */
#include <stdio.h>
#include <string.h>

#include "engine/base/log.h"
#include "engine/base/memory.h"
#include "engine/base/words.h"
#include "engine/crew/setup.h"
#include "io/store/store_figures.h"
#include "io/store/store_rows.h"
#include "io/uring.h"

#define TEXT_COLUMNS 110

/* Writes "NAME PLANNED", or, for memory in use, "NAME USED of PLANNED". */
static void part_text(char *text, size_t bytes, const char *name, bool in_use, size_t used, size_t planned)
{
    char used_text[16], planned_text[16];
    words_size(used_text, used);
    words_size(planned_text, planned);
    snprintf(text, bytes, "%s %s%s%s", name, in_use ? used_text : planned_text, in_use ? " of " : "",
             in_use ? planned_text : "");
}

/* Items in lines of at most TEXT_COLUMNS. */
struct lines {
    char line[2 * TEXT_COLUMNS];
    const char *separator;
};

static void lines_add(struct lines *l, const char *item)
{
    if (strlen(l->line) + strlen(l->separator) + strlen(item) > TEXT_COLUMNS) {
        log_result("%s,", l->line);
        snprintf(l->line, sizeof l->line, "        ");
        l->separator = " ";
    }
    size_t end = strlen(l->line);
    snprintf(l->line + end, sizeof l->line - end, "%s%s", l->separator, item);
    l->separator = ", ";
}

/* Logs the parts after a heading; without `all` and -v, parts of less than a fiftieth of the whole as one. */
static void parts_log(const char *heading, bool in_use, bool all)
{
    struct lines lines = {.separator = " "};
    char item[128];
    struct memory_part part;
    size_t other_count = 0, other_used = 0, other_planned = 0, least = memory_planned_bytes() / 50;
    if (all || log_verbosity() > 0) least = 0;
    snprintf(lines.line, sizeof lines.line, "%s", heading);
    for (size_t i = 0; memory_part_get(i, &part); i++) {
        size_t used = memory_part_resident_bytes(part.name);
        if (part.planned_bytes == 0 || (in_use && used == 0)) continue;
        if (part.planned_bytes < least) {
            other_count++;
            other_used += used;
            other_planned += part.planned_bytes;
            continue;
        }
        part_text(item, sizeof item, part.name, in_use, used, part.planned_bytes);
        lines_add(&lines, item);
    }
    if (other_count) {
        char name[48];
        snprintf(name, sizeof name, "%s", words_plural(WORDS, other_count, "other part"));
        part_text(item, sizeof item, name, in_use, other_used, other_planned);
        lines_add(&lines, item);
    }
    log_result("%s", lines.line);
}

void setup_memory_report(void)
{
    char heading[80], resident[16], planned[16];
    snprintf(heading, sizeof heading,
             "memory   at most %s of %s planned:", words_size(resident, memory_resident_bytes_max()),
             words_size(planned, memory_planned_bytes()));
    parts_log(heading, true, false);
}

void setup_memory_fields(void)
{
    struct memory_part part;
    log_event_u64("memory_bytes", memory_planned_bytes());
    log_event_open("memory");
    for (size_t i = 0; memory_part_get(i, &part); i++) log_event_u64(part.name, part.planned_bytes);
    log_event_close();
}

static uint64_t disk_rows_of(const struct setup *s, uint32_t table)
{
    return store_has_home(s->model.store) ? store_counts(s->model.store, table).disk.row_max : 0;
}

static void plan_event(const struct setup *s)
{
    log_event_begin("plan_memory");
    log_event_text("graph", s->graph_path);
    setup_memory_fields();
    log_event_open_array("tables");
    for (uint32_t t = 0; t < s->graph.table_count; t++) {
        const uint64_t disk_rows = disk_rows_of(s, t);
        log_event_open(NULL);
        log_event_text("name", graph_string(&s->graph, s->graph.tables[t].name));
        log_event_u64("ram_rows", store_row_max(s->model.store, t) - disk_rows);
        log_event_u64("disk_rows", disk_rows);
        log_event_u64("row_bytes", s->graph.tables[t].span_floats * sizeof(float));
        log_event_close();
    }
    log_event_close_array();
    log_event_end();
}

void setup_memory_plan(const struct setup *s, bool all)
{
    char heading[80], text[16], count[27], offers[256];
    snprintf(heading, sizeof heading, "memory   %s planned:", words_size(text, memory_planned_bytes()));
    parts_log(heading, false, all);
    if (store_has_home(s->model.store))
        log_detail("disk     %s: by %s; %s", s->settings.store_path, store_disk_name(s->model.store),
                   uring_offers(offers, sizeof offers));
    words_size(text, s->settings.store_ram);
    for (uint32_t t = 0; t < s->graph.table_count; t++) {
        char on_disk[80] = "", disk_text[16], budget[40] = "";
        const uint64_t rows = store_row_max(s->model.store, t), disk_rows = disk_rows_of(s, t);
        if (disk_rows) {
            snprintf(on_disk, sizeof on_disk, " in RAM and %s on disk", words_whole(count, disk_rows));
            snprintf(budget, sizeof budget, ", store.ssd = %s", words_size(disk_text, s->settings.store_ssd));
        }
        log_result("table    %s: room for %s rows of %u B%s (store.ram = %s%s)",
                   graph_string(&s->graph, s->graph.tables[t].name), words_whole(count, rows - disk_rows),
                   s->graph.tables[t].span_floats * 4, on_disk, text, budget);
    }
    if (all) plan_event(s);
}

status setup_memory_check(const struct setup *s)
{
    size_t planned = memory_planned_bytes();
    struct memory_limit limit = memory_limit();
    if (planned <= limit.room_bytes) return ST_OK;
    char plan[16], have[16], room[16], budget[16];
    FAIL(MEMORY,
         "the plan needs %s of memory, but %s of %s has room for %s; %s, or lower store.ram (%s of the plan), "
         "train.batch or --threads",
         words_size(plan, planned), limit.name, words_size(have, limit.limit_bytes), words_size(room, limit.room_bytes),
         limit.remedy, words_size(budget, s->settings.store_ram));
}
