/* Opens libcuda.so.1 once and looks up every call. By the driver's own interface and not by the CUDA runtime:
 * that would be a second way of loading kernels, would have its own idea of which context is current, and
 * wants its version of the driver before main has said anything. */
#include "gpu/cuda/driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct cuda_calls cuda_calls;

/* Set once. */
static uint32_t count;
static char why_none[GPU_WHY_BYTES];

static const struct {
    const char *name;
    size_t offset;
} names[] = {
#define TEXT_OF(name)   #name
#define CUDA_CALL(name) {TEXT_OF(name), offsetof(struct cuda_calls, name)},
#include "gpu/cuda/calls.def"
#undef CUDA_CALL
};

/* Where the loader does not look by itself. */
static const char *const places[] = {
#define GPU_PLACE(directory) directory "/libcuda.so.1",
#include "gpu/places.def"
#undef GPU_PLACE
};

/* "CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected" */
static void result_text(char *text, size_t text_bytes, CUresult result)
{
    const char *name = NULL, *words = NULL;
    if (cuda_calls.cuGetErrorName(result, &name) != CUDA_SUCCESS || name == NULL) name = "an unknown error";
    if (cuda_calls.cuGetErrorString(result, &words) != CUDA_SUCCESS || words == NULL) words = "no text";
    snprintf(text, text_bytes, "%s (%d): %s", name, (int)result, words);
}

static void *library_open(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library) return library;
    snprintf(why_none, sizeof why_none, "no driver library: %s", dlerror());
    for (size_t i = 0; library == NULL && i < sizeof places / sizeof *places; i++)
        library = dlopen(places[i], RTLD_NOW | RTLD_LOCAL);
    return library;
}

static void ready_once(void)
{
    void *library = library_open();
    if (library == NULL) return;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        void *address = dlsym(library, names[i].name);
        if (address == NULL) {
            snprintf(why_none, sizeof why_none,
                     "the driver library lacks %s, so it is older than the CUDA %d.%d that this program is built with: "
                     "install a newer driver",
                     names[i].name, CUDA_VERSION / 1000, CUDA_VERSION % 1000 / 10);
            return;
        }
        memcpy((char *)&cuda_calls + names[i].offset, &address, sizeof address);
    }
    char text[256];
    int version = 0, found = 0;
    CUresult result = cuda_calls.cuInit(0);
    if (result != CUDA_SUCCESS) {
        result_text(text, sizeof text, result);
        snprintf(why_none, sizeof why_none, "the driver does not start: cuInit: %s", text);
        return;
    }
    if ((result = cuda_calls.cuDriverGetVersion(&version)) == CUDA_SUCCESS)
        result = cuda_calls.cuDeviceGetCount(&found);
    if (result != CUDA_SUCCESS) {
        result_text(text, sizeof text, result);
        snprintf(why_none, sizeof why_none, "the driver does not tell its cards: %s", text);
    } else if (version / 1000 < CUDA_VERSION / 1000) { /* within a major version kernels run on older drivers */
        snprintf(why_none, sizeof why_none,
                 "the driver is made for CUDA %d.%d, and this program's kernels need %d.0: install a newer driver",
                 version / 1000, version % 1000 / 10, CUDA_VERSION / 1000);
    } else if (found <= 0) {
        snprintf(why_none, sizeof why_none, "the driver has no cards (CUDA_VISIBLE_DEVICES may hide them)");
    } else {
        count = (uint32_t)found;
    }
}

uint32_t cuda_ready(const char **why)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (gpu_denied()) {
        *why = gpu_denied();
        return 0;
    }
    pthread_once(&once, ready_once);
    *why = why_none;
    return count;
}

status cuda_fail(const struct cuda_card *c, const char *call, CUresult result, const char *format, ...)
{
    char text[256], about[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(about, sizeof about, format, arguments);
    va_end(arguments);
    result_text(text, sizeof text, result);
    return status_fail(result == CUDA_ERROR_OUT_OF_MEMORY ? ST_MEMORY : ST_SYSTEM, __FILE__, __LINE__,
                       "card %u (%s): %s: %s: %s", c->index, c->name, about, call, text);
}

status cuda_retain(struct cuda_card *c, const char *about)
{
    const CUresult result = cuda_calls.cuDevicePrimaryCtxRetain(&c->context, c->device);
    if (result == CUDA_ERROR_OUT_OF_MEMORY) {
        size_t bytes = 0;
        (void)cuda_calls.cuDeviceTotalMem(&bytes, c->device);
        FAIL(MEMORY,
             "card %u (%s): %s: nothing is left of its %.1f GiB: other processes hold them, and nvidia-smi says which; "
             "end these, take another card, or give --gpu off",
             c->index, c->name, about, (double)bytes / (1 << 30));
    }
    if (result != CUDA_SUCCESS) return cuda_fail(c, "cuDevicePrimaryCtxRetain", result, "%s", about);
    return ST_OK;
}

status cuda_enter(const struct cuda_card *c)
{
    CUDA_TRY(c, cuCtxSetCurrent, (c->context), "making it this thread's");
    return ST_OK;
}

status cuda_attribute(const struct cuda_card *c, CUdevice_attribute which, uint32_t *value)
{
    int number = 0;
    CUDA_TRY(c, cuDeviceGetAttribute, (&number, which, c->device), "asking for its attribute %d", (int)which);
    *value = (uint32_t)number;
    return ST_OK;
}
