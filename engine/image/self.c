/* The program that is the image. */
#include "engine/image/image.h"

const struct image image = {IMAGE_SELF, NULL, NULL};
