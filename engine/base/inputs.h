/* What this run reads, so that nothing that it writes takes the place of it. Files are compared by device and
 * inode: a link to a file is that file. Whoever opens files of the user's adds them; whoever makes files under
 * names of the user's (file_writer_open, traces, the data cache) asks first. Any thread; nothing is locked. */
#ifndef HETERPS_BASE_INPUTS_H
#define HETERPS_BASE_INPUTS_H

#include <sys/stat.h>

#include "engine/base/status.h"

/* Adds the file of this name, or those of a list ("a.tsv,b.tsv"), that are there; a directory, a pipe, a
 * device, and "-" are none. `what` says for messages where they are named ("--data"; borrowed for good), or is
 * NULL. MEMORY. */
MUST_USE status inputs_add(const char *what, const char *paths);
/* From now on nothing is added: of a process that goes on for long, opens files without end, and writes none under
 * names of the user's. */
void inputs_stop(void);
/* USAGE if what lies at `path`, or what `found` is of, is one of them: which, and what to do. Nothing there is
 * no input. */
MUST_USE status inputs_spare(const char *path);
MUST_USE status inputs_spare_found(const char *path, const struct stat *found);

#endif
