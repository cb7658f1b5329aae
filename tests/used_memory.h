/* A test program whose heap is as after long use: memory that it takes or gives back is not zero.
 * Who forgets to clear it fails. Sanitizers fill it themselves. */
#ifndef HETERPS_TESTS_USED_MEMORY_H
#define HETERPS_TESTS_USED_MEMORY_H

#include <malloc.h>

__attribute__((constructor)) static void used_memory_begin(void) { (void)mallopt(M_PERTURB, 0x5A); }

#endif
