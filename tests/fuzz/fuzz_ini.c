/* Any bytes are INI text or an error with a place; text is stable under reading
 * and writing; --set keeps it so. */
#define FUZZ_NAME "ini"
#include "tests/fuzz/driver.h"

#include <stdlib.h>
#include <string.h>

#include "cfg/ini.h"
#include "cfg/settings.h"

/* The canonical text parses, to the same canonical text. */
static void round_trip(const struct ini *ini)
{
    size_t bytes, again_bytes;
    char *text = ini_text(ini, &bytes);
    struct ini again;
    CHECK(ini_parse(&again, "again", text, bytes) == ST_OK);
    CHECK(again.section_count == ini->section_count);
    for (uint32_t i = 0; i < ini->section_count; i++) {
        const struct ini_section *a = &ini->sections[i], *b = &again.sections[i];
        CHECK(strcmp(a->kind, b->kind) == 0 && strcmp(a->name, b->name) == 0 && a->entry_count == b->entry_count);
        for (uint32_t j = 0; j < a->entry_count; j++)
            CHECK(strcmp(a->entries[j].key, b->entries[j].key) == 0 &&
                  strcmp(a->entries[j].value, b->entries[j].value) == 0);
    }
    char *again_text = ini_text(&again, &again_bytes);
    CHECK(again_bytes == bytes && memcmp(text, again_text, bytes) == 0);
    ini_free(&again);
    free(again_text);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct ini ini;
    status st = ini_parse(&ini, "fuzz", (const char *)data, bytes);
    if (st != ST_OK) {
        CHECK(st == ST_INVALID && ini.section_count == 0 && strncmp(status_message(), "fuzz:", 5) == 0);
        ini = (struct ini){.path = "none"};
    } else {
        round_trip(&ini);
    }
    /* The settings read what they know, or say why not. */
    struct settings settings;
    struct table_settings table;
    st = settings_read(&ini, &settings);
    CHECK(st == ST_OK || st == ST_INVALID);
    for (uint32_t i = 0; i < ini.section_count && i < 4; i++) {
        st = settings_read_named(&ini, &ini.sections[i], "table", &table);
        CHECK(st == ST_OK || st == ST_INVALID);
    }
    /* If the last line is a comment from ';' on, what it says is an assignment. */
    size_t begin = bytes;
    while (begin > 0 && data[begin - 1] != '\n') begin--;
    char assignment[512];
    if (ini.memory && begin < bytes && data[begin] == ';' && bytes - begin <= sizeof assignment) {
        memcpy(assignment, data + begin + 1, bytes - begin - 1);
        assignment[bytes - begin - 1] = '\0';
        st = ini_set(&ini, assignment, settings_kinds);
        CHECK(st == ST_OK || st == ST_USAGE);
        round_trip(&ini);
    }
    ini_free(&ini);
    return 0;
}
