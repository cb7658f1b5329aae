/* The saves in a model's directory: listed before a new save is written, thinned out once it is complete. */
#ifndef HETERPS_ENGINE_MODEL_MODEL_SAVES_H
#define HETERPS_ENGINE_MODEL_MODEL_SAVES_H

#include "engine/model/manifest.h"

struct older_save {
    char *name; /* manifest.TAG.json; the newest save gets this name only when another becomes manifest.json */
    struct manifest manifest;
    bool is_read;   /* else age and files are not known                                                */
    bool is_newest; /* it is manifest.json                                                             */
};
struct older_saves {
    struct older_save *items;
    uint32_t count;
};

/* Lists the saves of a directory, the one written last first, the newest under its future second
 * name. Older saves that cannot be read are kept as they are. Fails as manifest_read of
 * manifest.json; IO. Freed in any case. */
MUST_USE status older_saves_list(struct older_saves *older, const char *path);
/* Keeps `keep` saves, `newest` among them; removes older ones, and files that no save names. A file that
 * cannot be removed stays: it does no harm, and the save has succeeded. */
void older_saves_thin(const char *path, struct older_saves *older, const struct manifest *newest, uint32_t keep);
void older_saves_free(struct older_saves *older);
/* Warns if the next save in the directory, of which `keep` are kept, removes more than the oldest: after a
 * run that kept more. A directory that cannot be listed is not looked at. */
void older_saves_warn(const char *path, uint32_t keep);

#endif
