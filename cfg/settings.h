/* The settings of a model and its run as checked structs, a member a line of cfg/keys.def. */
#ifndef HETERPS_CFG_SETTINGS_H
#define HETERPS_CFG_SETTINGS_H

#include "cfg/key.h"

/* The choices, in the order of their names in settings.c. */
enum {
    DATA_CRITEO,
    DATA_CSV,
    DATA_LIBSVM,
    DATA_LIBFFM,
    DATA_LIBFM,
    DATA_PAIRS,
    DATA_TOKENS,
    DATA_TREES,
    DATA_FORMAT_COUNT
};
enum { UNSEEN_ZEROS, UNSEEN_INIT };
enum { ROW_STORE_F32, ROW_STORE_BF16 };
enum { IDS_CUT, IDS_ERROR, IDS_FEW };
enum { TRANSFORM_NONE, TRANSFORM_LOG1P, TRANSFORM_STANDARD };
enum { MISSING_NONE, MISSING_KEY };
enum { BAD_LINES_ERROR, BAD_LINES_SKIP };
enum { IO_URING, IO_THREADS };
enum { PRECISION_F32, PRECISION_BF16, PRECISION_TF32, PRECISION_COUNT };
#define PRECISION_CPU_COUNT 2 /* the first of them, which differ on processors */
enum { REDUCE_F32, REDUCE_BF16 };
enum { CACHE_PLAIN, CACHE_BLOCKS };
enum cluster_placement { CLUSTER_SPREAD, CLUSTER_SERVERS, CLUSTER_LOCAL };
enum { SYNC_BSP, SYNC_WSP, SYNC_ASP };
/* Names of choices; each list ends in NULL. cfg_samplers: in the order of enum sampler (graph/graph.h);
 * cfg_admits: of enum admit_by (engine/base/row_life.h). */
extern const char *const cfg_data_formats[];
extern const char *const cfg_ids_over[];
extern const char *const cfg_transforms[];
extern const char *const cfg_missing[];
extern const char *const cfg_bad_lines[];
extern const char *const cfg_precisions[];
extern const char *const cfg_reduces[];
extern const char *const cfg_row_stores[];
extern const char *const cfg_cache_shuffles[];
extern const char *const cfg_placements[];
extern const char *const cfg_syncs[];
extern const char *const cfg_samplers[];
extern const char *const cfg_ios[];
extern const char *const cfg_admits[];
extern const char *const cfg_unseens[];

#define CFG_CTYPE_U32    uint32_t
#define CFG_CTYPE_U64    uint64_t
#define CFG_CTYPE_F32    float
#define CFG_CTYPE_F64    double
#define CFG_CTYPE_BOOL   bool
#define CFG_CTYPE_TEXT   const char *
#define CFG_CTYPE_CHOICE uint32_t
#define CFG_CTYPE_BYTES  uint64_t

/* data_format, data_path, …, train_batch, …, store_ram:
 * meanings and units in keys.def. Texts belong to the ini. */
#define SETTINGS_MEMBER(key, type, ...) CFG_CTYPE_##type key;
struct settings {
#define KEY(section, key, type, ...) CFG_CTYPE_##type section##_##key;
#include "cfg/keys.def"
};

/* One [table NAME]. */
struct table_settings {
#define TABLE_KEY SETTINGS_MEMBER
#include "cfg/keys.def"
};

/* One [column NAME]. */
struct column_settings {
#define COLUMN_KEY SETTINGS_MEMBER
#include "cfg/keys.def"
};

/* One [vocabulary NAME]. */
struct vocabulary_settings {
#define VOCABULARY_KEY SETTINGS_MEMBER
#include "cfg/keys.def"
};

/* One [candidates NAME]. */
struct candidates_settings {
#define CANDIDATES_KEY SETTINGS_MEMBER
#include "cfg/keys.def"
};

/* The kinds of the once-only sections: "model", "data", "train", …, NULL. */
extern const char *const settings_kinds[];
/* The kinds of sections with names, besides ops: "table", "column", "vocabulary", "candidates", NULL. */
extern const char *const settings_named_kinds[];

/* The keys of a section of either kind, or NULL. Offsets are into the structs above. */
const struct cfg_key *settings_keys(const char *kind, size_t *key_count);

/* Reads every once-only section of the ini (absent ones give defaults). Ignores sections of other kinds. */
MUST_USE status settings_read(const struct ini *ini, struct settings *settings);
/* Reads a section of a named kind into the struct of its kind; section NULL: the defaults of `kind`. */
MUST_USE status settings_read_named(const struct ini *ini, const struct ini_section *section, const char *kind,
                                    void *out);

/* USAGE: these settings do not allow rows on disk. */
MUST_USE status settings_disk_check(const struct settings *settings);

#endif
