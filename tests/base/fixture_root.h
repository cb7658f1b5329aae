/* What tests of the kernel's files share: a directory that stands for /,
 * and files in it. Include after cmocka.h. */
#ifndef HETERPS_TESTS_BASE_FIXTURE_ROOT_H
#define HETERPS_TESTS_BASE_FIXTURE_ROOT_H

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static char root[64]; /* the program makes it */

/* A file with this text, and the directories above it; `name` begins with '/' where
 * root does not end with it. */
static void file_put(const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s%s", root, name);
    for (char *at = path + strlen(root); (at = strchr(at, '/')) != NULL; at++) {
        *at = 0;
        mkdir(path, 0755);
        *at = '/';
    }
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

#endif
