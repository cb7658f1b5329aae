/* The small texts in which the kernel describes the machine (/proc, /sys): one parser for each of their shapes.
 * All are total: any text gives an answer, and what it does not say is absent. Read once a start. */
#ifndef HETERPS_BASE_KERNEL_TEXT_H
#define HETERPS_BASE_KERNEL_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The number behind `name` at the start of a line: "VmHWM: 1234 kB" gives 1234; `name` "": the first line's.
 * False if it is not there. */
bool kernel_number_find(const char *text, const char *name, uint64_t *value);
/* What stands behind "NAME :" at the start of a line, cut at bytes - 1: "model name       : Xeon" gives "Xeon".
 * False, and "", if it is not there. */
bool kernel_text_find(const char *text, const char *name, char *value, size_t bytes);
/* The choice that is made: "madvise" of "always [madvise] never"; false, and "", if none is. */
bool kernel_choice_find(const char *text, char *value, size_t bytes);

/* Numbers and ranges: "0-3,8,10-11". Puts the first `max` of them in order, of which each is greater than the
 * one before, and stops at what is none. Returns how many. */
uint32_t kernel_list_read(const char *text, uint32_t *numbers, uint32_t max);

/* A line of mountinfo: "36 35 8:1 /top /mount rw,nosuid shared:7 - ext4 /dev/sda1 rw,discard". Fields are cut
 * at their room. */
struct kernel_mount {
    uint64_t id;
    char top[256], mount[256];
    char file_system[32], source[256], options[512];
};
/* The line at *text, which moves behind it; those that are none are passed over. False: there is none any more. */
bool kernel_mount_next(const char **text, struct kernel_mount *mount);

#endif
