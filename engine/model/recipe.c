/* Compares the settings of a save's text with the graph's, key by key of cfg/keys.def; once a resumption. */
#include "engine/model/recipe.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cfg/settings.h"
#include "engine/base/log.h"
#include "graph/optimizer.h"

enum recipe_class { CLASS_RECIPE, CLASS_MODEL, CLASS_SEQUENCE, CLASS_LATER_SEQUENCE, CLASS_TOLD, CLASS_RUNNING };

/* A key that is not listed is of CLASS_RECIPE. A key of NULL is every key of the section. */
static const struct {
    const char *kind, *key;
    enum recipe_class class;
} classes[] = {
    {"model", "rules", CLASS_TOLD}, /* what they change of a recipe is compared by what `auto` stands for */
    {"model", NULL, CLASS_RUNNING},
    {"data", "format", CLASS_MODEL},
    {"data", "path", CLASS_RUNNING},
    {"data", "io", CLASS_RUNNING},
    {"data", "eval", CLASS_RUNNING},
    {"data", "dense", CLASS_MODEL},
    {"data", "sparse", CLASS_MODEL},
    {"data", "ids_max", CLASS_MODEL},
    {"data", "transform", CLASS_MODEL},
    {"data", "missing", CLASS_MODEL},
    {"data", "missing_value", CLASS_MODEL},
    /* data.bad_lines is not listed: a training that stopped at a bad line may skip it, and the
     * examples before it are the same. */
    {"data", "shuffle", CLASS_SEQUENCE},
    {"data", "label_map", CLASS_MODEL},
    {"data", "window", CLASS_MODEL},
    {"data", "kinds", CLASS_MODEL},
    {"data", "eval_fraction", CLASS_SEQUENCE},
    {"column", NULL, CLASS_MODEL},
    {"vocabulary", NULL, CLASS_MODEL},
    {"table", "dim", CLASS_MODEL},
    {"table", "init", CLASS_MODEL},
    {"table", "store", CLASS_MODEL},
    {"table", "unseen", CLASS_RUNNING},
    {"table", "ram", CLASS_RUNNING},
    {"table", "ssd", CLASS_RUNNING},
    {"train", "epochs", CLASS_TOLD},
    {"train", "steps_max", CLASS_TOLD},
    {"train", "stop", CLASS_TOLD},
    {"train", "patience", CLASS_TOLD},
    {"train", "seed", CLASS_MODEL},
    {"train", "in_flight", CLASS_RUNNING},
    {"train", "readers", CLASS_RUNNING},
    {"train", "progressive", CLASS_RUNNING},
    {"train", "pipelines", CLASS_RUNNING},
    {"train", "clock_distance", CLASS_RUNNING},
    {"train", "exact", CLASS_RUNNING},
    {"eval", NULL, CLASS_RUNNING},
    {"checkpoint", NULL, CLASS_RUNNING},
    {"store", "period", CLASS_MODEL},
    {"store", NULL, CLASS_RUNNING},
    {"cache", "shuffle", CLASS_LATER_SEQUENCE}, /* every value gives the first epoch the same order */
    {"cache", "window", CLASS_LATER_SEQUENCE},
    {"cache", NULL, CLASS_RUNNING},
    {"serve", NULL, CLASS_RUNNING},
    {"cluster", NULL, CLASS_RUNNING},
};

static enum recipe_class class_of(const char *kind, const char *key)
{
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
        if (strcmp(classes[i].kind, kind) == 0 && (classes[i].key == NULL || strcmp(classes[i].key, key) == 0))
            return classes[i].class;
    return CLASS_RECIPE;
}

/* Settings of named sections, one kind at a time. */
union named_settings {
    struct table_settings table;
    struct column_settings column;
    struct vocabulary_settings vocabulary;
    struct candidates_settings candidates;
};

static bool is_named(const char *kind)
{
    for (const char *const *k = settings_named_kinds; *k; k++)
        if (strcmp(*k, kind) == 0) return true;
    return false;
}

/* One side of the comparison. */
struct side {
    struct ini ini;
    struct settings settings;
    bool has_auto;                        /* train.optimizer is `auto` … */
    char optimizer[OPTIMIZER_AUTO_BYTES]; /* … which stands for this */
};

struct recipe {
    const char *path;
    const struct manifest *manifest;
    bool is_same_model, is_within_pass;
    struct side saved, present;
};

static status side_read(struct side *side, const char *path, const char *text, size_t text_bytes)
{
    union named_settings ignored;
    TRY(ini_parse(&side->ini, path, text, text_bytes));
    for (uint32_t i = 0; i < side->ini.section_count; i++)
        if (is_named(side->ini.sections[i].kind))
            TRY(settings_read_named(&side->ini, &side->ini.sections[i], side->ini.sections[i].kind, &ignored));
    TRY(settings_read(&side->ini, &side->settings));
    struct settings *s = &side->settings;
    if (strcmp(s->train_schedule, OPTIMIZER_AUTO) == 0) s->train_schedule = schedule_auto(&side->ini);
    side->has_auto = strcmp(s->train_optimizer, OPTIMIZER_AUTO) == 0;
    if (side->has_auto) {
        optimizer_auto(&side->ini, s->model_rules, s->train_batch, 0, side->optimizer, sizeof side->optimizer);
        s->train_optimizer = side->optimizer;
    }
    return ST_OK;
}

/* Reads a section of a kind with names. A table's optimizer becomes the text that it stands for: that of
 * `auto`, in `chosen`, or, where none is given, that of train.optimizer. */
static status named_read(const struct side *side, const struct ini_section *section, const char *kind,
                         union named_settings *named, char chosen[OPTIMIZER_AUTO_BYTES])
{
    const struct settings *s = &side->settings;
    const char **optimizer = &named->table.optimizer;
    TRY(settings_read_named(&side->ini, section, kind, named));
    if (strcmp(kind, "table") != 0) return ST_OK;
    if (strcmp(*optimizer, OPTIMIZER_AUTO) == 0 || (**optimizer == 0 && side->has_auto)) {
        optimizer_auto(&side->ini, s->model_rules, s->train_batch, named->table.dim, chosen, OPTIMIZER_AUTO_BYTES);
        *optimizer = chosen;
    } else if (**optimizer == 0) {
        *optimizer = s->train_optimizer;
    }
    return ST_OK;
}

/* Compares a key's fields in two structs that cfg_read has filled: 2k and 2000 are equal. */
static bool is_equal(const struct cfg_key *key, const void *a_struct, const void *b_struct)
{
    const char *one = (const char *)a_struct + key->offset, *other = (const char *)b_struct + key->offset;
    switch (key->type) {
    case CFG_U32:
    case CFG_CHOICE: return memcmp(one, other, sizeof(uint32_t)) == 0;
    case CFG_U64:
    case CFG_BYTES: return memcmp(one, other, sizeof(uint64_t)) == 0;
    case CFG_F32: return memcmp(one, other, sizeof(float)) == 0;
    case CFG_F64: return memcmp(one, other, sizeof(double)) == 0;
    case CFG_BOOL: return *(const bool *)one == *(const bool *)other;
    case CFG_TEXT: return strcmp(*(const char *const *)one, *(const char *const *)other) == 0;
    }
    return false;
}

/* A key's value as it was written, or its default; of a text, which `fields` has, what it stands for. */
static const char *value_text(const struct ini *ini, const struct ini_section *section, const struct cfg_key *key,
                              const void *fields)
{
    const struct ini_entry *entry = section ? ini_entry_find(section, key->name) : NULL;
    const char *text = entry ? entry->value : cfg_default(ini, key);
    if (key->type == CFG_TEXT) text = *(const char *const *)((const char *)fields + key->offset);
    return text && *text ? text : "(none)";
}

/* What a differing key does in a round. All refusals come in a round before anything is told. ROUND_NAME: the
 * first key that may make another model is a failure. */
enum round { ROUND_REFUSE, ROUND_TELL, ROUND_NAME };

static status name_difference(const char *section, const char *key, const char *saved, const char *present)
{
    FAIL(MISMATCH, "%s.%s was %.200s when it was saved and is %.200s now", section, key, saved, present);
}

/* Whether a key is of CLASS_RECIPE in a training, and in the model's hash all the same. */
static bool makes_hash(const char *key)
{
    static const char *const keys[] = {"optimizer", "label", "rows", "ttl", "delete_score", "vector_score"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strcmp(key, keys[i]) == 0) return true;
    return false;
}

static status difference(const struct recipe *r, enum round round, enum recipe_class class, const char *section,
                         const char *key, const char *saved, const char *present)
{
    if (round == ROUND_NAME)
        return class == CLASS_MODEL || makes_hash(key) ? name_difference(section, key, saved, present) : ST_OK;
    const struct progress *p = &r->manifest->progress;
    if (class == CLASS_LATER_SEQUENCE) class = p->epoch > p->first_epoch ? CLASS_SEQUENCE : CLASS_RECIPE;
    bool is_refused = (class == CLASS_MODEL && !r->is_same_model) || (class == CLASS_SEQUENCE && r->is_within_pass);
    if (round == ROUND_REFUSE && !is_refused) return ST_OK;
    if (round == ROUND_REFUSE && class == CLASS_MODEL)
        FAIL(INVALID,
             "%s: %s.%s was %.200s when it was saved and is %.200s now, which gives its values another meaning; "
             "go on with the saved value, or start anew from its tensors and rows with --init",
             r->path, section, key, saved, present);
    if (round == ROUND_REFUSE)
        FAIL(INVALID,
             "%s: %s.%s was %.200s when it was saved and is %.200s now, but %" PRIu64
             " examples of a pass are done, and the rest of it would come in another order; finish the pass first "
             "(--set %s.%s=%.200s --set train.epochs=%" PRIu64 "), or start anew from its tensors and rows with --init",
             r->path, section, key, saved, present, r->manifest->progress.epoch_examples, section, key, saved,
             r->manifest->progress.epoch + 1 - r->manifest->progress.first_epoch);
    if (class == CLASS_TOLD)
        log_info("resume   %s.%s: %s when it was saved, %s now", section, key, saved, present);
    else if (class == CLASS_RECIPE || class == CLASS_SEQUENCE)
        log_warning("%s.%s: %s when it was saved, %s now: training goes on by another recipe", section, key, saved,
                    present);
    return ST_OK;
}

/* Compares the keys of a section, read into two structs of its kind. `name`: --set's name of the section. */
static status keys_compare(const struct recipe *r, enum round round, const char *kind, const char *name,
                           const struct ini_section *saved_section, const void *saved,
                           const struct ini_section *present_section, const void *present)
{
    size_t key_count;
    const struct cfg_key *keys = settings_keys(kind, &key_count);
    for (size_t i = 0; i < key_count; i++)
        if (!is_equal(&keys[i], saved, present))
            TRY(difference(r, round, class_of(kind, keys[i].name), name, keys[i].name,
                           value_text(&r->saved.ini, saved_section, &keys[i], saved),
                           value_text(&r->present.ini, present_section, &keys[i], present)));
    return ST_OK;
}

static status named_compare(const struct recipe *r, enum round round, const struct ini_section *present)
{
    union named_settings saved_settings, present_settings;
    const struct ini_section *saved = ini_find(&r->saved.ini, present->kind, present->name);
    if (saved == NULL) return ST_OK; /* loading compares tables with the manifest's list, columns by the model's hash */
    char chosen[2][OPTIMIZER_AUTO_BYTES];
    TRY(named_read(&r->saved, saved, present->kind, &saved_settings, chosen[0]));
    TRY(named_read(&r->present, present, present->kind, &present_settings, chosen[1]));
    return keys_compare(r, round, present->kind, present->name, saved, &saved_settings, present, &present_settings);
}

static status compare(const struct recipe *r, enum round round)
{
    for (const char *const *kind = settings_kinds; *kind; kind++)
        TRY(keys_compare(r, round, *kind, *kind, ini_find(&r->saved.ini, *kind, ""), &r->saved.settings,
                         ini_find(&r->present.ini, *kind, ""), &r->present.settings));
    for (uint32_t i = 0; i < r->present.ini.section_count; i++)
        if (is_named(r->present.ini.sections[i].kind)) TRY(named_compare(r, round, &r->present.ini.sections[i]));
    return ST_OK;
}

static bool is_settings(const char *kind)
{
    for (const char *const *k = settings_kinds; *k; k++)
        if (strcmp(*k, kind) == 0) return true;
    return is_named(kind);
}

/* Compares each key of section `a`, of an op, with section `b`; `b` NULL: there is no such section. */
static status op_section_compare(const struct ini_section *a, const struct ini_section *b, bool a_is_saved)
{
    if (b == NULL)
        FAIL(MISMATCH, "[%s%s%s] %s", a->kind, *a->name ? " " : "", a->name,
             a_is_saved ? "was there when it was saved and is not now" : "is new: it was not there when it was saved");
    for (uint32_t i = 0; i < a->entry_count && !is_settings(a->kind); i++) {
        const struct ini_entry *entry = ini_entry_find(b, a->entries[i].key);
        const char *mine = a->entries[i].value, *other = entry ? entry->value : "its default";
        if (entry == NULL || strcmp(mine, other) != 0)
            return name_difference(a->name, a->entries[i].key, a_is_saved ? mine : other, a_is_saved ? other : mine);
    }
    return ST_OK;
}

/* Finds sections that only `ini` has, and differences between sections of ops,
 * whose keys all make the model. */
static status ops_compare(const struct ini *ini, const struct ini *other, bool is_saved)
{
    for (uint32_t i = 0; i < ini->section_count; i++) {
        const struct ini_section *section = &ini->sections[i];
        if (*section->name == 0) continue;
        TRY(op_section_compare(section, ini_find(other, section->kind, section->name), is_saved));
    }
    return ST_OK;
}

bool recipe_differs(const char *path, const struct manifest *m, const struct graph *graph, char what[RECIPE_WHAT_BYTES])
{
    struct recipe r = {.path = path, .manifest = m};
    if (m->text == NULL) return false;
    status st = side_read(&r.saved, path, m->text, m->text_bytes);
    if (st == ST_OK) st = side_read(&r.present, path, graph->text, graph->text_bytes);
    if (st == ST_OK) st = ops_compare(&r.saved.ini, &r.present.ini, true);
    if (st == ST_OK) st = ops_compare(&r.present.ini, &r.saved.ini, false);
    if (st == ST_OK) st = compare(&r, ROUND_NAME);
    if (st == ST_MISMATCH) snprintf(what, RECIPE_WHAT_BYTES, "%s", status_message());
    ini_free(&r.saved.ini);
    ini_free(&r.present.ini);
    return st == ST_MISMATCH;
}

static status check(const char *path, const struct manifest *m, const struct graph *graph, bool is_new_pass,
                    bool to_tell)
{
    const struct progress *p = &m->progress;
    struct recipe r = {.path = path,
                       .manifest = m,
                       .is_same_model = m->model_hash == graph->header->model_hash,
                       .is_within_pass =
                           !is_new_pass && p->epoch_examples != 0 && p->epoch_examples != p->pass_examples};
    status st = side_read(&r.saved, path, m->text, m->text_bytes);
    if (st != ST_OK) {
        /* Another version's text may have keys that this program does not know; the
         * save's values are good all the same. */
        if (to_tell) log_warning("the recipe that the model was saved by cannot be compared: %s", status_message());
        st = ST_OK;
    } else {
        st = side_read(&r.present, path, graph->text, graph->text_bytes);
        if (st == ST_OK) st = compare(&r, ROUND_REFUSE);
        if (st == ST_OK && to_tell) st = compare(&r, ROUND_TELL);
    }
    ini_free(&r.saved.ini);
    ini_free(&r.present.ini);
    return st;
}

status recipe_check(const char *path, const struct manifest *m, const struct graph *graph, bool is_new_pass)
{
    if (m->text != NULL) return check(path, m, graph, is_new_pass, true);
    log_info("resume   %s does not say by which recipe it was trained: not compared", path);
    return ST_OK;
}

status recipe_refuse(const char *path, const struct manifest *m, const struct graph *graph, bool is_new_pass)
{
    return m->text != NULL ? check(path, m, graph, is_new_pass, false) : ST_OK;
}

/* --- all of it, for nodes ----------------------------------------------------------------------- */

struct teller {
    void (*tell)(void *context, const char *what, const char *value);
    void *context;
};

static bool is_shared(const char *kind, const char *key)
{
    static const char *const also[][2] = {
        {"checkpoint", "every"}, {"checkpoint", "seconds"}, {"checkpoint", "keep"}, {"eval", "every"}};
    for (size_t i = 0; i < sizeof also / sizeof *also; i++)
        if (strcmp(kind, also[i][0]) == 0 && strcmp(key, also[i][1]) == 0) return true;
    return class_of(kind, key) != CLASS_RUNNING;
}

/* A key's value in the form that counts; `text` is the form that was written. */
static const char *value_counts(const struct cfg_key *key, const void *of, const char *text, char *buffer, size_t bytes)
{
    const char *at = (const char *)of + key->offset;
    switch (key->type) {
    case CFG_U32: snprintf(buffer, bytes, "%" PRIu32, *(const uint32_t *)(const void *)at); return buffer;
    case CFG_U64:
    case CFG_BYTES: snprintf(buffer, bytes, "%" PRIu64, *(const uint64_t *)(const void *)at); return buffer;
    case CFG_F32: snprintf(buffer, bytes, "%.9g", (double)*(const float *)(const void *)at); return buffer;
    case CFG_F64: snprintf(buffer, bytes, "%.17g", *(const double *)(const void *)at); return buffer;
    case CFG_BOOL: return *(const bool *)(const void *)at ? "yes" : "no";
    case CFG_CHOICE:
    case CFG_TEXT: return text;
    }
    return text;
}

static void keys_tell(const struct teller *t, const char *kind, const char *name, const struct ini *ini,
                      const struct ini_section *section, const void *settings)
{
    size_t key_count;
    const struct cfg_key *keys = settings_keys(kind, &key_count);
    for (size_t i = 0; i < key_count; i++) {
        char what[256], buffer[64];
        if (!is_shared(kind, keys[i].name)) continue;
        snprintf(what, sizeof what, "%s.%s", name, keys[i].name);
        t->tell(t->context, what,
                value_counts(&keys[i], settings, value_text(ini, section, &keys[i], settings), buffer, sizeof buffer));
    }
}

static status sections_tell(const struct teller *t, const struct side *side)
{
    const struct ini *ini = &side->ini;
    for (const char *const *kind = settings_kinds; *kind; kind++)
        keys_tell(t, *kind, *kind, ini, ini_find(ini, *kind, ""), &side->settings);
    for (uint32_t i = 0; i < ini->section_count; i++) {
        const struct ini_section *section = &ini->sections[i];
        union named_settings named;
        char what[256];
        if (is_named(section->kind)) {
            TRY(settings_read_named(ini, section, section->kind, &named));
            keys_tell(t, section->kind, section->name, ini, section, &named);
        }
        if (is_settings(section->kind)) continue;
        snprintf(what, sizeof what, "[%s %s]", section->kind, section->name);
        t->tell(t->context, what, "there");
        for (uint32_t e = 0; e < section->entry_count; e++) {
            snprintf(what, sizeof what, "%s.%s", section->name, section->entries[e].key);
            t->tell(t->context, what, section->entries[e].value);
        }
    }
    return ST_OK;
}

status recipe_tell(const struct graph *graph, void (*tell)(void *context, const char *what, const char *value),
                   void *context)
{
    const struct teller teller = {tell, context};
    struct side side = {0};
    status st = side_read(&side, "the graph's text", graph->text, graph->text_bytes);
    if (st == ST_OK) st = sections_tell(&teller, &side);
    ini_free(&side.ini);
    return st;
}
