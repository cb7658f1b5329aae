/* What this run reads, so that the run never writes over it. Files are compared by device and inode: a link
 * to a file is that file. Whoever opens files of the user's adds them. Whoever makes files under names of the
 * user's (file_writer_open, traces, the data cache) asks first. Any thread; nothing is locked. */
#ifndef HETERPS_BASE_INPUTS_H
#define HETERPS_BASE_INPUTS_H

#include <sys/stat.h>

#include "engine/base/status.h"

/* Adds the file of this name, or the files of a list ("a.tsv,b.tsv"), as far as they exist;
 * directories, pipes, devices and "-" are not added. `what` names them in messages ("--data"; borrowed
 * for good), or is NULL. MEMORY. */
MUST_USE status inputs_add(const char *what, const char *paths);
/* From now on nothing is added: for a process that runs for long, opens files without end, and writes
 * none under names of the user's. */
void inputs_stop(void);
/* USAGE: the file at `path`, or the file that `found` describes, is an input; says which, and what to do. A
 * path without a file is no input. */
MUST_USE status inputs_spare(const char *path);
MUST_USE status inputs_spare_found(const char *path, const struct stat *found);

#endif
