/* The small texts in which the kernel describes the machine (/proc, /sys): one parser for each of their
 * shapes. Any text gives an answer; what the text does not say is absent. Read once a start. */
#ifndef HETERPS_BASE_KERNEL_TEXT_H
#define HETERPS_BASE_KERNEL_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The number after `name` at the start of a line: "VmHWM: 1234 kB" gives 1234; `name` "": the first line's
 * number. False if it is not there. */
bool kernel_number_find(const char *text, const char *name, uint64_t *value);
/* The text after "NAME :" at the start of a line, cut at bytes - 1: "model name       : Xeon" gives "Xeon".
 * False, and "", if it is not there. */
bool kernel_text_find(const char *text, const char *name, char *value, size_t bytes);
/* The choice in brackets: "madvise" of "always [madvise] never"; false, and "", if there is none. */
bool kernel_choice_find(const char *text, char *value, size_t bytes);

/* Numbers and ranges: "0-3,8,10-11". Fills in the first `max` numbers, each greater than the one before;
 * stops at the first text that is no such number. Returns how many. */
uint32_t kernel_list_read(const char *text, uint32_t *numbers, uint32_t max);

/* A line of mountinfo: "36 35 8:1 /top /mount rw,nosuid shared:7 - ext4 /dev/sda1
 * rw,discard". Fields are cut to their room. */
struct kernel_mount {
    uint64_t id;
    char top[256], mount[256];
    char file_system[32], source[256], options[512];
};
/* The next mount from *text on; moves *text past it, and past lines that are
 * no mounts. False: there is none. */
bool kernel_mount_next(const char **text, struct kernel_mount *mount);

#endif
