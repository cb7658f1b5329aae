/* A program that neither carries an image nor is one. */
#include "engine/image/image.h"

const struct image image = {IMAGE_NONE, NULL, NULL};
