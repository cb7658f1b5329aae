/* The settings of a model and its run as checked structs, a member a line of cfg/keys.def. */
#ifndef HETERPS_CFG_SETTINGS_H
#define HETERPS_CFG_SETTINGS_H

#include "cfg/key.h"

/* The choices, in the order of their names in settings.c. */
enum { DATA_CRITEO };
enum { IDS_CUT, IDS_ERROR };
enum { TRANSFORM_NONE, TRANSFORM_LOG1P };
enum { MISSING_NONE, MISSING_KEY };
enum { BAD_LINES_ERROR, BAD_LINES_SKIP };
enum { PRECISION_F32 };
enum { SYNC_BSP, SYNC_WSP, SYNC_ASP };
extern const char *const cfg_data_formats[],
    *const cfg_ids_over[], *const cfg_transforms[], *const cfg_missing[],
                                                        *const cfg_bad_lines[],
                                                            *const cfg_precisions[],
                                                                *const cfg_syncs[]; /* each ends in NULL */

#define CFG_CTYPE_U32    uint32_t
#define CFG_CTYPE_U64    uint64_t
#define CFG_CTYPE_F32    float
#define CFG_CTYPE_F64    double
#define CFG_CTYPE_BOOL   bool
#define CFG_CTYPE_TEXT   const char *
#define CFG_CTYPE_CHOICE uint32_t
#define CFG_CTYPE_BYTES  uint64_t

/* data_format, data_path, …, train_batch, …, store_ram: meanings and units in keys.def. Texts belong to the ini. */
struct settings {
#define KEY(section, key, type, fallback, min, max, unit, choices, meaning) CFG_CTYPE_##type section##_##key;
#define TABLE_KEY(key, type, fallback, min, max, unit, choices, meaning)
#include "cfg/keys.def"
#undef KEY
#undef TABLE_KEY
};

/* One [table NAME]. */
struct table_settings {
#define KEY(section, key, type, fallback, min, max, unit, choices, meaning)
#define TABLE_KEY(key, type, fallback, min, max, unit, choices, meaning) CFG_CTYPE_##type key;
#include "cfg/keys.def"
#undef KEY
#undef TABLE_KEY
};

/* The kinds of the once-only sections: "model", "data", "train", "eval", "checkpoint", "store", NULL. */
extern const char *const settings_kinds[];

/* The keys of a once-only section, or of "table"; NULL if the kind is neither. Offsets are into the structs above. */
const struct cfg_key *settings_keys(const char *kind, size_t *key_count);

/* Reads every once-only section of the ini (absent ones give defaults). Sections of other kinds are not looked at. */
MUST_USE status settings_read(const struct ini *ini, struct settings *settings);
MUST_USE status settings_read_table(const struct ini *ini, const struct ini_section *section,
                                    struct table_settings *table);

#endif
