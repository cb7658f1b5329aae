/* One file for machines with and without a card. CUDA's driver can only be loaded dynamically, so the static
 * program carries a second link of itself, dynamic against glibc alone and with the CUDA side, and lets that
 * take its place where there is a card:
 *
 *     command line ──▶ a driver here? ──▶ image into a memfd ──▶ as a child: --gpu-probe ──▶ exit 0
 *                           │                   │                        │                 └─▶ fexecve: same arguments,
 *                           │                   │                        │                     environment
 *                           └─ no ───────────── no ───────────────────── no ──▶ goes on as the CPU program; -v says why
 *
 * So a driver that crashes, hangs or is too old, a host whose glibc is older than the image's, or one without a
 * dynamic loader end a child, and not a training. Done once, by the verbs that run models, before anything has
 * been opened; a machine without a driver pays some look-ups of files. */
#ifndef HETERPS_ENGINE_IMAGE_H
#define HETERPS_ENGINE_IMAGE_H

#include <stddef.h>
#include <stdint.h>

#include "engine/base/status.h"

/* What this program is, by what it is linked with: engine/image/image_none.c (in the library), carried.c or self.c
 * before it. */
enum image_kind {
    IMAGE_NONE,    /* has what it has                       */
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

/* Cards or not: `choice` is off, auto or on, or NULL: what HETERPS_GPU says, or auto. Where the image takes
 * over with `arguments` (argv), this does not return. Else gpu_count() and its reason are final. USAGE: another
 * word, or `on` and the program is built without cards; SYSTEM: `on`, and there are none. */
MUST_USE status image_start(const char *choice, char **arguments);

/* What --gpu-probe does: 0 if there is a card, else 1 and a line on standard output that says why not. */
int image_probe(void);

#endif
