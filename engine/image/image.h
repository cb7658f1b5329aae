/* One file for machines with and without a card. CUDA's driver can only be loaded dynamically. So the static
 * program carries a second link of itself, the image, which is dynamic against glibc alone and has the CUDA
 * side. Where there is a card, the image takes the program's place:
 *
 *     command line ──▶ a driver here? ──▶ image into a memfd ──▶ as a child: --gpu-probe ──▶ exit 0
 *                           │                   │                        │                 └─▶ fexecve: same arguments,
 *                           │                   │                        │                     environment
 *                           └─ no ───────────── no ───────────────────── no ──▶ goes on as the CPU program; -v says why
 *
 * A driver that crashes, hangs or is too old, a host whose glibc is older than the image's, or a host without
 * a dynamic loader thus ends a child, not a training. Verbs that may use cards do this once, before they open
 * anything; a machine without a driver pays some look-ups of files. */
#ifndef HETERPS_ENGINE_IMAGE_H
#define HETERPS_ENGINE_IMAGE_H

#include <stddef.h>
#include <stdint.h>

#include "engine/base/status.h"

/* What this program is, decided by the file that it is linked with: carried.c, self.c, or
 * else image_none.c of the library. */
enum image_kind {
    IMAGE_NONE,    /* neither carries an image nor is one */
    IMAGE_CARRIED, /* static, and carries the image         */
    IMAGE_SELF,    /* is the image                          */
};
struct image {
    enum image_kind kind;
    const uint8_t *begin, *end; /* IMAGE_CARRIED: an executable */
};
extern const struct image image;

#define IMAGE_PROBE_FLAG     "--gpu-probe"
#define IMAGE_CHOICE_DEFAULT "HETERPS_GPU" /* environment */

/* Decides between cards and no cards. `choice` is off, auto or on; NULL: what HETERPS_GPU says,
 * else auto. Does not return where the image takes over, with `arguments` (argv); otherwise
 * gpu_count() and its reason are final. USAGE: another word, or `on` in a program built without
 * cards; SYSTEM: `on`, and there is no card. */
MUST_USE status image_start(const char *choice, char **arguments);

/* What --gpu-probe does. Returns 0 if there is a card; else 1, and a line on standard
 * output says why there is none. */
int image_probe(void);

#endif
