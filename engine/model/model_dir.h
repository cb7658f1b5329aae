/* Files of a model's directory, for code that saves there (other code finds its functions
 * in engine/model/model.h). */
#ifndef HETERPS_ENGINE_MODEL_MODEL_DIR_H
#define HETERPS_ENGINE_MODEL_MODEL_DIR_H

#include "engine/model/manifest.h"

/* Whether the directory has anything of that name. */
bool model_file_is_there(const char *directory, const char *name);
/* Removes the file; returns whether it was there and now is gone. */
bool model_file_remove(const char *directory, const char *name);
/* fsync of the directory itself. EINVAL passes: a file system without fsync of directories says so. */
MUST_USE status model_dir_sync(const char *path);
/* As manifest_read, from a file of the directory; IO. */
MUST_USE status manifest_load(struct manifest *manifest, const char *directory, const char *name);

#endif
