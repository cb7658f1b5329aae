/* The saves that a model's directory holds. Listed once a save, before it is written; thinned out once it is
 * complete. */
#ifndef HETERPS_ENGINE_MODEL_MODEL_SAVES_H
#define HETERPS_ENGINE_MODEL_MODEL_SAVES_H

#include "engine/model/manifest.h"

struct older_save {
    char *name; /* manifest.TAG.json, which the newest of them gets only when another becomes manifest.json */
    struct manifest manifest;
    bool is_read;   /* else its age and its files are not known                                        */
    bool is_newest; /* is manifest.json                                                                */
};
struct older_saves {
    struct older_save *items;
    uint32_t count;
};

/* Lists the saves of a directory, the one written last first, the newest under the name that it is going to
 * have. What cannot be read of older ones is kept as it is, since nobody knows what it was worth. What
 * manifest.json says is wrong; IO. Freed in any case. */
MUST_USE status older_saves_list(struct older_saves *older, const char *path);
/* Removes the saves that are too old beside `newest`, and what no save names. What cannot be removed stays: it
 * harms nobody, and the save has succeeded. */
void older_saves_thin(const char *path, struct older_saves *older, const struct manifest *newest, uint32_t keep);
void older_saves_free(struct older_saves *older);

#endif
