/* Describes this machine, as the kernel tells it: processors and their caches, huge pages, network
 * interfaces, the disk of a directory. For `devices`, `doctor` and the first line of a benchmark; a call
 * reads a few files. A fact that the kernel does not tell is 0 or "". */
#ifndef HETERPS_BASE_MACHINE_H
#define HETERPS_BASE_MACHINE_H

#include "engine/base/cores.h"
#include "engine/base/status.h"

struct machine {
    char cpu[128]; /* "AMD EPYC 7742 64-Core Processor" */
    /* of the processors that are asked about */
    uint32_t core_count;                    /* cores that they are threads of      */
    uint32_t package_count;                 /* sockets                             */
    uint32_t node_count;                    /* NUMA nodes                          */
    uint64_t l1d_bytes, l2_bytes, l3_bytes; /* of one of each                      */
    uint64_t memory_bytes;
    char huge_pages[32]; /* transparent ones: "always", "madvise" (enough), "never"; "none": the kernel has none */
};
/* The machine, with the processors whose `count` numbers are given. `root`: the kernel's files are
 * below it (ends in '/'): how tests see other machines. */
void machine_read(struct machine *machine, const char *root, const int *processors, uint32_t count);

struct machine_disk {
    char file_system[32]; /* "ext4"                           */
    char source[256];     /* "/dev/sda1"                      */
    uint64_t total_bytes, free_bytes;
};
/* The disk that a directory is on. IO: path and reason. */
MUST_USE status machine_disk_read(struct machine_disk *disk, const char *path);

#define MACHINE_LINKS_MAX 64u
/* A network interface that tells its speed. */
struct machine_link {
    char name[32];
    uint64_t mbit; /* a second */
};
/* In the order of their names; returns how many there are, at most MACHINE_LINKS_MAX. */
uint32_t machine_links_list(const char *root, struct machine_link links[MACHINE_LINKS_MAX]);

#endif
