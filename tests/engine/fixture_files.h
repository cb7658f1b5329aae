/* What test programs share that have files: short checks of a status, and a directory of the program's own.
 * Include after cmocka.h. */
#ifndef HETERPS_TESTS_FIXTURE_FILES_H
#define HETERPS_TESTS_FIXTURE_FILES_H

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/status.h"
#include "tests/used_memory.h"

#define assert_ok(call)                                                                                                \
    do {                                                                                                               \
        if ((call) != ST_OK) fail_msg("%s: %s", #call, status_message());                                              \
    } while (0)
#define assert_message(part)                                                                                           \
    do {                                                                                                               \
        if (strstr(status_message(), part) == NULL) fail_msg("\"%s\" is not in: %s", part, status_message());          \
    } while (0)

/* No program needs all of them. */
#define FIXTURE __attribute__((unused))

static char fixture_directory[64]; /* of the test program; fixture_path names something in it */

/* One of four buffers, in turn. */
FIXTURE static const char *fixture_path(const char *name)
{
    static char paths[4][512];
    static int next;
    next = (next + 1) % 4;
    snprintf(paths[next], sizeof paths[next], "%s/%s", fixture_directory, name);
    return paths[next];
}

/* Makes the directory; 0, or -1. */
FIXTURE static int fixture_directory_make(const char *program)
{
    snprintf(fixture_directory, sizeof fixture_directory, "/tmp/%s_XXXXXX", program);
    return mkdtemp(fixture_directory) != NULL ? 0 : -1;
}

FIXTURE static int fixture_remove(const char *path, const struct stat *stat, int type, struct FTW *ftw)
{
    (void)stat, (void)type, (void)ftw;
    return remove(path);
}

/* With all that is in it; 0, or -1. */
FIXTURE static int fixture_directory_remove(void)
{
    return nftw(fixture_directory, fixture_remove, 16, FTW_DEPTH | FTW_PHYS);
}

#endif
