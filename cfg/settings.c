/* The tables of cfg/keys.def as arrays, and the sections of a run read by them. */
#include "cfg/settings.h"

#include <string.h>

const char *const cfg_data_formats[] = {[DATA_CRITEO] = "criteo", NULL};
const char *const cfg_ids_over[] = {[IDS_CUT] = "cut", [IDS_ERROR] = "error", NULL};
const char *const cfg_transforms[] = {[TRANSFORM_NONE] = "none", [TRANSFORM_LOG1P] = "log1p", NULL};
const char *const cfg_missing[] = {[MISSING_NONE] = "none", [MISSING_KEY] = "key", NULL};
const char *const cfg_bad_lines[] = {[BAD_LINES_ERROR] = "error", [BAD_LINES_SKIP] = "skip", NULL};
const char *const cfg_precisions[] = {[PRECISION_F32] = "f32", NULL};
const char *const cfg_syncs[] = {[SYNC_BSP] = "bsp", [SYNC_WSP] = "wsp", [SYNC_ASP] = "asp", NULL};

const char *const settings_kinds[] = {"model", "data", "train", "eval", "checkpoint", "store", NULL};

/* The keys of all once-only sections, a section's together, and beside them the kind of each one's section. */
static const struct cfg_key section_keys[] = {
#define KEY(section, key, type, fallback, min, max, unit, choices, meaning)                                            \
    {#key, CFG_##type, fallback, min, max, unit, meaning, offsetof(struct settings, section##_##key), choices},
#define TABLE_KEY(key, type, fallback, min, max, unit, choices, meaning)
#include "cfg/keys.def"
#undef KEY
#undef TABLE_KEY
};
static const char *const section_kinds[] = {
#define KEY(section, key, type, fallback, min, max, unit, choices, meaning) #section,
#define TABLE_KEY(key, type, fallback, min, max, unit, choices, meaning)
#include "cfg/keys.def"
#undef KEY
#undef TABLE_KEY
};
static const struct cfg_key table_keys[] = {
#define KEY(section, key, type, fallback, min, max, unit, choices, meaning)
#define TABLE_KEY(key, type, fallback, min, max, unit, choices, meaning)                                               \
    {#key, CFG_##type, fallback, min, max, unit, meaning, offsetof(struct table_settings, key), choices},
#include "cfg/keys.def"
#undef KEY
#undef TABLE_KEY
};

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

const struct cfg_key *settings_keys(const char *kind, size_t *key_count)
{
    if (strcmp(kind, "table") == 0) {
        *key_count = COUNT_OF(table_keys);
        return table_keys;
    }
    size_t begin = 0;
    while (begin < COUNT_OF(section_kinds) && strcmp(section_kinds[begin], kind) != 0) begin++;
    size_t end = begin;
    while (end < COUNT_OF(section_kinds) && strcmp(section_kinds[end], kind) == 0) end++;
    *key_count = end - begin;
    return end > begin ? &section_keys[begin] : NULL;
}

status settings_read(const struct ini *ini, struct settings *settings)
{
    *settings = (struct settings){0};
    for (const char *const *kind = settings_kinds; *kind; kind++) {
        /* A name would make it another section, and its keys would go unread. */
        for (uint32_t i = 0; i < ini->section_count; i++)
            if (strcmp(ini->sections[i].kind, *kind) == 0 && ini->sections[i].name[0])
                return ini_fail(ini, &ini->sections[i], NULL, "expected [%s] without a name", *kind);
        size_t key_count;
        const struct cfg_key *keys = settings_keys(*kind, &key_count);
        TRY(cfg_read(ini, ini_find(ini, *kind, ""), keys, key_count, settings));
    }
    return ST_OK;
}

status settings_read_table(const struct ini *ini, const struct ini_section *section, struct table_settings *table)
{
    *table = (struct table_settings){0};
    return cfg_read(ini, section, table_keys, COUNT_OF(table_keys), table);
}
