/* Files of a model's directory, for those that save there (engine/model/model.h has what others need of it). */
#ifndef HETERPS_ENGINE_MODEL_MODEL_DIR_H
#define HETERPS_ENGINE_MODEL_MODEL_DIR_H

#include "engine/model/manifest.h"

/* Whether there is anything of that name. */
bool model_file_is_there(const char *directory, const char *name);
/* Whether there was such a file, and now is none. */
bool model_file_remove(const char *directory, const char *name);
/* fsync of the directory itself. A file system that cannot says EINVAL, which passes. */
MUST_USE status model_dir_sync(const char *path);
/* As manifest_read, of a file of the directory; IO. */
MUST_USE status manifest_load(struct manifest *manifest, const char *directory, const char *name);

#endif
