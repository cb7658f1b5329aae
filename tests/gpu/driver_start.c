/* Prints the seconds that CUDA's driver takes to start, which no program can do without: of cuInit, and then
 * of a context on card 0. Exit status 77 if there is no driver. */
#include <dlfcn.h>
#include <stdio.h>

#include "engine/base/clock.h"

int main(void)
{
    const uint64_t begin_ns = clock_ns();
    void *driver = dlopen("libcuda.so.1", RTLD_NOW), *context = NULL;
    if (driver == NULL) return 77;
    int (*init)(unsigned) = (int (*)(unsigned))dlsym(driver, "cuInit");
    int (*retain)(void **, int) = (int (*)(void **, int))dlsym(driver, "cuDevicePrimaryCtxRetain");
    if (init == NULL || retain == NULL || init(0) != 0) return 77;
    const uint64_t init_ns = clock_ns();
    if (retain(&context, 0) != 0) return 77;
    printf("%.4f %.4f\n", (double)(init_ns - begin_ns) * 1e-9, (double)(clock_ns() - init_ns) * 1e-9);
    return 0;
}
