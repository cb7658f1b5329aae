/* The names in a model's directory. Data: STEM.STEP[-GENERATION].END (the stem of a segment is TABLE.NUMBER).
 * Manifests: manifest.json and manifest.STEP[-GENERATION].json. STEP[-GENERATION] is a save's tag. */
#ifndef HETERPS_ENGINE_MODEL_MODEL_NAMES_H
#define HETERPS_ENGINE_MODEL_MODEL_NAMES_H

#include "engine/model/manifest.h"

#define MODEL_LOCK_NAME "lock"
#define MANIFEST_STEM   "manifest"
#define MANIFEST_END    ".json"
#define DENSE_NAME      "dense"
#define DENSE_END       ".safetensors"
#define ADMISSION_END   ".admission"
#define ROWS_END        ".rows"
#define SEGMENT_END     ".segment"

/* What kind of file a name in the directory tells. */
enum model_name_kind {
    MODEL_NAME_OTHER,    /* not ours, or manifest.json, or the lock         */
    MODEL_NAME_DATA,     /* NAME.STEP[-GENERATION].END                      */
    MODEL_NAME_MANIFEST, /* manifest.STEP[-GENERATION].json: an older save's */
    MODEL_NAME_TEMPORARY /* of a file that is being written                 */
};
enum model_name_kind model_name_kind(const char *name);

/* STEM.STEP.END, or STEM.STEP-GENERATION.END. malloc'd: yours, NULL after a failure (MEMORY). */
MUST_USE status model_data_name(char **name, const char *stem, uint64_t step, uint32_t generation, const char *end);
/* Whether the manifest names the file. */
bool manifest_names(const struct manifest *manifest, const char *name);
/* The second name of a manifest: manifest.TAG.json, with the tag of its dense file. malloc'd: yours,
 * NULL after a failure (MEMORY). */
MUST_USE status manifest_older_name(char **name, const struct manifest *manifest);
/* Whether the data file `name` has the tag in an older manifest's name. */
bool model_name_has_tag_of(const char *manifest, const char *name);

#endif
