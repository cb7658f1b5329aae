/* What `./build.sh install` installs beside the program: a manual page and completion for bash, made from the
 * tables of its verbs, and the licences of what is linked in.
 *
 *     verbs (verb_help.c), their flags (command.h) ──▶ `help man`, `help bash`
 *     /usr/share/doc/PACKAGE/copyright ──▶ build/licences (build.sh) ──▶ `help notices` */
#ifndef HETERPS_ENGINE_CMD_MANUAL_H
#define HETERPS_ENGINE_CMD_MANUAL_H

#include <stdio.h>

/* A page of section 1 for man(1), in the macros of man(7). */
void manual_print(FILE *out);
/* A shell function that completes verbs, flags, values of flags that take a few
 * words, and else names of files. */
void completion_print(FILE *out);
/* The licences of the libraries that the program is linked with, as their packages state them. */
void notices_print(FILE *out);

#endif
