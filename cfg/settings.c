/* The tables of cfg/keys.def as arrays, and the sections of a run read by them. */
#include "cfg/settings.h"

#include <string.h>

#include "engine/base/row_life.h"

const char *const cfg_data_formats[] = {[DATA_CRITEO] = "criteo", [DATA_CSV] = "csv",     [DATA_LIBSVM] = "libsvm",
                                        [DATA_LIBFFM] = "libffm", [DATA_LIBFM] = "libfm", [DATA_PAIRS] = "pairs",
                                        [DATA_TOKENS] = "tokens", [DATA_TREES] = "trees", NULL};
const char *const cfg_ids_over[] = {[IDS_CUT] = "cut", [IDS_ERROR] = "error", [IDS_FEW] = "few", NULL};
const char *const cfg_transforms[] = {
    [TRANSFORM_NONE] = "none", [TRANSFORM_LOG1P] = "log1p", [TRANSFORM_STANDARD] = "standard", NULL};
const char *const cfg_missing[] = {[MISSING_NONE] = "none", [MISSING_KEY] = "key", NULL};
const char *const cfg_bad_lines[] = {[BAD_LINES_ERROR] = "error", [BAD_LINES_SKIP] = "skip", NULL};
const char *const cfg_ios[] = {[IO_URING] = "io_uring", [IO_THREADS] = "threads", NULL};
const char *const cfg_precisions[] = {
    [PRECISION_F32] = "f32", [PRECISION_BF16] = "bf16", [PRECISION_TF32] = "tf32", NULL};
const char *const cfg_row_stores[] = {[ROW_STORE_F32] = "f32", [ROW_STORE_BF16] = "bf16", NULL};
const char *const cfg_reduces[] = {[REDUCE_F32] = "f32", [REDUCE_BF16] = "bf16", NULL};
const char *const cfg_cache_shuffles[] = {[CACHE_PLAIN] = "none", [CACHE_BLOCKS] = "blocks", NULL};
const char *const cfg_placements[] = {
    [CLUSTER_SPREAD] = "spread", [CLUSTER_SERVERS] = "servers", [CLUSTER_LOCAL] = "local", NULL};
const char *const cfg_syncs[] = {[SYNC_BSP] = "bsp", [SYNC_WSP] = "wsp", [SYNC_ASP] = "asp", NULL};

const char *const cfg_admits[] = {[ADMIT_EXACT] = "exact", [ADMIT_BLOOM] = "bloom", NULL};
const char *const cfg_unseens[] = {[UNSEEN_ZEROS] = "zeros", [UNSEEN_INIT] = "init", NULL};
const char *const cfg_samplers[] = {"log_uniform", "empirical", "uniform", NULL};

const char *const settings_kinds[] = {"model", "data",  "train", "eval",    "checkpoint",
                                      "store", "cache", "serve", "cluster", NULL};

const char *const settings_named_kinds[] = {"table", "column", "vocabulary", "candidates", NULL};

/* A row of the tables below, from the columns of cfg/keys.def. */
#define ROW(NAME, TYPE, OFFSET, FALLBACK, MIN, MAX, UNIT, CHOICES, MEANING, ...)                                       \
    {.name = NAME,                                                                                                     \
     .type = TYPE,                                                                                                     \
     .fallback = FALLBACK,                                                                                             \
     .min = MIN,                                                                                                       \
     .max = MAX,                                                                                                       \
     .unit = UNIT,                                                                                                     \
     .meaning = MEANING,                                                                                               \
     .offset = OFFSET,                                                                                                 \
     .choices = CHOICES,                                                                                               \
     ##__VA_ARGS__},

/* The keys of all once-only sections, each section's together, and in section_kinds
 * the kind of each key's section. */
static const struct cfg_key section_keys[] = {
#define KEY(SECTION, NAME, TYPE, ...) ROW(#NAME, CFG_##TYPE, offsetof(struct settings, SECTION##_##NAME), __VA_ARGS__)
#include "cfg/keys.def"
};
static const char *const section_kinds[] = {
#define KEY(section, ...) #section,
#include "cfg/keys.def"
};
/* The keys of sections with names. */
#define NAMED(OF, NAME, TYPE, ...) ROW(#NAME, CFG_##TYPE, offsetof(struct OF, NAME), __VA_ARGS__)
static const struct cfg_key table_keys[] = {
#define TABLE_KEY(...) NAMED(table_settings, __VA_ARGS__)
#include "cfg/keys.def"
};
static const struct cfg_key column_keys[] = {
#define COLUMN_KEY(...) NAMED(column_settings, __VA_ARGS__)
#include "cfg/keys.def"
};
static const struct cfg_key vocabulary_keys[] = {
#define VOCABULARY_KEY(...) NAMED(vocabulary_settings, __VA_ARGS__)
#include "cfg/keys.def"
};
static const struct cfg_key candidates_keys[] = {
#define CANDIDATES_KEY(...) NAMED(candidates_settings, __VA_ARGS__)
#include "cfg/keys.def"
};

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

/* In the order of settings_named_kinds. */
static const struct {
    const struct cfg_key *keys;
    size_t count, bytes;
} named[] = {
    {table_keys, COUNT_OF(table_keys), sizeof(struct table_settings)},
    {column_keys, COUNT_OF(column_keys), sizeof(struct column_settings)},
    {vocabulary_keys, COUNT_OF(vocabulary_keys), sizeof(struct vocabulary_settings)},
    {candidates_keys, COUNT_OF(candidates_keys), sizeof(struct candidates_settings)},
};

const struct cfg_key *settings_keys(const char *kind, size_t *key_count)
{
    for (size_t i = 0; i < COUNT_OF(named); i++) {
        if (strcmp(kind, settings_named_kinds[i]) != 0) continue;
        *key_count = named[i].count;
        return named[i].keys;
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
    settings->model_rules = rules_of(ini); /* the table's default is for people who write new texts */
    return ST_OK;
}

status settings_read_named(const struct ini *ini, const struct ini_section *section, const char *kind, void *out)
{
    size_t i = 0;
    while (strcmp(settings_named_kinds[i], kind) != 0) CHECK(++i < COUNT_OF(named));
    memset(out, 0, named[i].bytes);
    return cfg_read(ini, section, named[i].keys, named[i].count, out);
}

status settings_disk_check(const struct settings *s)
{
    if (s->store_ssd && *s->store_path == 0)
        FAIL(USAGE, "store.ssd needs a directory on a disk for rows that RAM has no room for: --set store.path=DIR");
    if (s->store_ssd && s->train_sync != SYNC_BSP)
        FAIL(USAGE, "store.ssd needs train.sync = bsp, where the end of a step says which rows may leave RAM; "
                    "under wsp and asp steps overlap: give store.ram room for all rows, or --set train.sync=bsp");
    return ST_OK;
}
