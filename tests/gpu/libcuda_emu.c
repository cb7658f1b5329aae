/* A stand-in for libcuda.so.1 whose cards are emulated (gpu/emu): the calls of gpu/cuda/calls.def, by
 * which the release binary runs end to end on a machine without a card. Stricter than a driver in
 * that a call without a current context fails, in what may be called while work is written down, and
 * in all that the emulation finds; what it finds it also prints. Kernels are found by name, and are
 * the ones linked in here. Preloaded
 * (LD_PRELOAD) it also ends a program that gives back memory which it has registered.
 *
 *     HETERPS_STANDIN   in cuInit: crash, hang, none (no device), old (a driver of CUDA 12.4); taken: other
 *                       processes hold all memory; uncaptured: no work can be written down
 *     HETERPS_EMU_CARDS, HETERPS_EMU_BYTES, HETERPS_EMU_SEED   cards, memory of each, draws of the order of work
 */
#pragma GCC visibility push(default)
#include <cuda.h>
#include <sys/mman.h>
#pragma GCC visibility pop

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "gpu/emu/gpu_emu.h"

#define CARDS_MAX    8
#define FATBIN_MAGIC 0xba55ed50u

struct taken {
    struct taken *next;
    void *memory;
    size_t bytes;
};
/* A context is its card: there is one each. */
struct CUctx_st {
    struct gpu *gpu;
    uint32_t uses;
    struct taken *taken;
    size_t taken_bytes;
};
static struct CUctx_st cards[CARDS_MAX];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static __thread struct CUctx_st *current;
static char initialised;
/* Memory of the host that stays in place. */
static struct host_range {
    struct host_range *next;
    uintptr_t begin, end;
    char is_registered; /* else it was taken here */
} * host_ranges;
/* What the thread is writing down, and whether it did something that cannot be:
 * until the end of the capture. */
static __thread CUstream captured;
static __thread char is_broken;

static uint64_t setting(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text && *text ? strtoull(text, NULL, 10) : otherwise;
}
static uint64_t card_bytes(void) { return setting("HETERPS_EMU_BYTES", (uint64_t)64 << 30); }

static CUresult result_of(status st)
{
    if (st == ST_OK) return CUDA_SUCCESS;
    fprintf(stderr, "emulated card: %s\n", status_message());
    return st == ST_MEMORY ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_LAUNCH_FAILED;
}
#define NEED_CONTEXT()                                                                                                 \
    do {                                                                                                               \
        if (current == NULL || current->gpu == NULL) return CUDA_ERROR_INVALID_CONTEXT;                                \
    } while (0)
/* For calls that cuda.h counts as unsafe in a thread that captures (cuThreadExchangeStreamCaptureMode). */
static CUresult unsafe_call(void)
{
    if (captured == NULL) return CUDA_SUCCESS;
    is_broken = 1;
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}
#define NEED_NO_CAPTURE()                                                                                              \
    do {                                                                                                               \
        NEED_CONTEXT();                                                                                                \
        if (unsafe_call() != CUDA_SUCCESS) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;                               \
    } while (0)

/* --- memory of the host ---------------------------------------------------------------------------- */

static void host_range_add(const void *memory, size_t bytes, char is_registered)
{
    struct host_range *r = malloc(sizeof *r);
    CHECK(r != NULL);
    const uintptr_t begin = (uintptr_t)memory;
    pthread_mutex_lock(&lock);
    *r = (struct host_range){host_ranges, begin, begin + bytes, is_registered};
    host_ranges = r;
    pthread_mutex_unlock(&lock);
}
static CUresult host_range_remove(const void *memory, char is_registered, CUresult otherwise)
{
    pthread_mutex_lock(&lock);
    struct host_range **r = &host_ranges;
    while (*r && ((*r)->begin != (uintptr_t)memory || (*r)->is_registered != is_registered)) r = &(*r)->next;
    struct host_range *gone = *r;
    if (gone) *r = gone->next;
    pthread_mutex_unlock(&lock);
    free(gone);
    return gone ? CUDA_SUCCESS : otherwise;
}
/* Some of [begin, end) is in place; all: is in one piece. */
static char is_in_place(uintptr_t begin, uintptr_t end, char registered_alone, char *all)
{
    char some = 0;
    *all = 0;
    pthread_mutex_lock(&lock);
    for (const struct host_range *r = host_ranges; r; r = r->next) {
        if (registered_alone && !r->is_registered) continue;
        some |= begin < r->end && r->begin < end;
        *all |= r->begin <= begin && end <= r->end;
    }
    pthread_mutex_unlock(&lock);
    return some;
}
static char is_of_card(uintptr_t address)
{
    char is = 0;
    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < CARDS_MAX; i++)
        for (const struct taken *t = cards[i].taken; t; t = t->next) is |= address - (uintptr_t)t->memory < t->bytes;
    pthread_mutex_unlock(&lock);
    return is;
}
/* One end of a copy. While work is written down memory must be in place, for it is read
 * whenever the work is done. */
static CUresult copied_check(CUdeviceptr at, size_t bytes)
{
    char all;
    const char some = is_in_place((uintptr_t)at, (uintptr_t)at + bytes, 0, &all);
    if (all || is_of_card((uintptr_t)at)) return CUDA_SUCCESS;
    if (some) return CUDA_ERROR_INVALID_VALUE;
    return unsafe_call();
}
int munmap(void *memory, size_t bytes)
{
    char all;
    if (is_in_place((uintptr_t)memory, (uintptr_t)memory + bytes, 1, &all)) {
        fprintf(stderr, "emulated card: memory is given back that is registered\n");
        abort();
    }
    return (int)syscall(SYS_munmap, memory, bytes);
}

/* --- the driver and its cards ---------------------------------------------------------------------- */

CUresult cuGetErrorName(CUresult error, const char **text)
{
    switch (error) {
    case CUDA_SUCCESS: *text = "CUDA_SUCCESS"; break;
    case CUDA_ERROR_INVALID_VALUE: *text = "CUDA_ERROR_INVALID_VALUE"; break;
    case CUDA_ERROR_OUT_OF_MEMORY: *text = "CUDA_ERROR_OUT_OF_MEMORY"; break;
    case CUDA_ERROR_NO_DEVICE: *text = "CUDA_ERROR_NO_DEVICE"; break;
    case CUDA_ERROR_LAUNCH_FAILED: *text = "CUDA_ERROR_LAUNCH_FAILED"; break;
    case CUDA_ERROR_INVALID_CONTEXT: *text = "CUDA_ERROR_INVALID_CONTEXT"; break;
    case CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED: *text = "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED"; break;
    case CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED: *text = "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"; break;
    case CUDA_ERROR_STREAM_CAPTURE_INVALIDATED: *text = "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"; break;
    default: *text = NULL; return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}
CUresult cuGetErrorString(CUresult error, const char **text)
{
    *text = "as the stand-in says";
    return error == CUDA_ERROR_UNKNOWN ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
CUresult cuInit(unsigned flags)
{
    const char *how = getenv("HETERPS_STANDIN");
    if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
    if (how && strcmp(how, "crash") == 0) *(volatile int *)(uintptr_t)setting("HETERPS_STANDIN_NOWHERE", 0) = 1;
    while (how && strcmp(how, "hang") == 0) pause();
    if (how && strcmp(how, "none") == 0) return CUDA_ERROR_NO_DEVICE;
    initialised = 1;
    return CUDA_SUCCESS;
}
CUresult cuDriverGetVersion(int *version)
{
    const char *how = getenv("HETERPS_STANDIN");
    *version = how && strcmp(how, "old") == 0 ? 12040 : CUDA_VERSION;
    return CUDA_SUCCESS;
}
CUresult cuDeviceGetCount(int *count)
{
    const uint64_t asked = setting("HETERPS_EMU_CARDS", 1);
    *count = asked < CARDS_MAX ? (int)asked : CARDS_MAX;
    return initialised ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}
CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    int count;
    if (cuDeviceGetCount(&count) != CUDA_SUCCESS || ordinal < 0 || ordinal >= count) return CUDA_ERROR_INVALID_DEVICE;
    *device = ordinal;
    return CUDA_SUCCESS;
}
CUresult cuDeviceGetName(char *name, int bytes, CUdevice device)
{
    snprintf(name, (size_t)bytes, "emulated card %d", device);
    return CUDA_SUCCESS;
}
CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute which, CUdevice device)
{
    (void)device;
    switch (which) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *value = 9; break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: *value = 0; break;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: *value = 1; break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: *value = 227 << 10; break;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}
CUresult cuDeviceTotalMem(size_t *bytes, CUdevice device)
{
    (void)device;
    *bytes = card_bytes();
    return CUDA_SUCCESS;
}
CUresult cuDeviceGetPCIBusId(char *id, int bytes, CUdevice device)
{
    snprintf(id, (size_t)bytes, "FFFF:%02X:00.0", device);
    return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    const char *how = getenv("HETERPS_STANDIN");
    status st = ST_OK;
    if (how && strcmp(how, "taken") == 0) return CUDA_ERROR_OUT_OF_MEMORY; /* by other processes */
    pthread_mutex_lock(&lock);
    if (cards[device].uses == 0) st = gpu_emu_open(&cards[device].gpu, card_bytes(), setting("HETERPS_EMU_SEED", 0));
    if (st == ST_OK) {
        cards[device].uses++;
        *context = &cards[device];
    }
    pthread_mutex_unlock(&lock);
    return result_of(st);
}
CUresult cuDevicePrimaryCtxRelease(CUdevice device)
{
    pthread_mutex_lock(&lock);
    CHECK(cards[device].uses > 0);
    if (--cards[device].uses == 0) {
        gpu_close(cards[device].gpu);
        cards[device].gpu = NULL;
    }
    pthread_mutex_unlock(&lock);
    return CUDA_SUCCESS;
}
CUresult cuCtxSetCurrent(CUcontext context)
{
    current = context;
    return CUDA_SUCCESS;
}

/* --- kernels --------------------------------------------------------------------------------------- */

CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
    uint32_t magic;
    NEED_CONTEXT();
    memcpy(&magic, image, sizeof magic);
    if (magic != FATBIN_MAGIC) return CUDA_ERROR_INVALID_IMAGE;
    *module = (CUmodule)(uintptr_t)image;
    return CUDA_SUCCESS;
}
CUresult cuModuleUnload(CUmodule module)
{
    (void)module;
    return CUDA_SUCCESS;
}
CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
    NEED_CONTEXT();
    if (module == NULL) return CUDA_ERROR_INVALID_HANDLE;
    for (uintptr_t k = 0; k < GPU_KERNEL_COUNT; k++)
        if (strcmp(gpu_kernel_names[k], name) == 0) {
            *function = (CUfunction)(k + 1);
            return CUDA_SUCCESS;
        }
    return CUDA_ERROR_NOT_FOUND;
}
CUresult cuFuncLoad(CUfunction function)
{
    NEED_NO_CAPTURE();
    return function ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute which, int value)
{
    return which == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES &&
                   (uint32_t)value == gpu_kernel_large_bytes[(uintptr_t)function - 1]
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                        unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream stream, void **parameters,
                        void **extra)
{
    const void *args = NULL;
    size_t args_bytes = 0;
    NEED_CONTEXT();
    if (shared_bytes != gpu_kernel_large_bytes[(uintptr_t)function - 1] || parameters != NULL || extra == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
        if (extra[0] == CU_LAUNCH_PARAM_BUFFER_POINTER) args = extra[1];
        if (extra[0] == CU_LAUNCH_PARAM_BUFFER_SIZE) args_bytes = *(const size_t *)extra[1];
    }
    return result_of(gpu_launch(current->gpu, (struct gpu_stream *)stream, (enum gpu_kernel)((uintptr_t)function - 1),
                                (struct gpu_dim){grid_x, grid_y, grid_z}, (struct gpu_dim){block_x, block_y, block_z},
                                args, (uint32_t)args_bytes));
}

/* --- memory ---------------------------------------------------------------------------------------- */

CUresult cuMemGetInfo(size_t *free_bytes, size_t *bytes)
{
    NEED_CONTEXT();
    pthread_mutex_lock(&lock);
    *bytes = card_bytes();
    *free_bytes = *bytes - current->taken_bytes;
    pthread_mutex_unlock(&lock);
    return CUDA_SUCCESS;
}
CUresult cuMemAlloc(CUdeviceptr *address, size_t bytes)
{
    void *memory;
    NEED_NO_CAPTURE();
    if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
    if (gpu_take(current->gpu, bytes, "the stand-in", &memory) != ST_OK) return CUDA_ERROR_OUT_OF_MEMORY;
    struct taken *t = malloc(sizeof *t);
    CHECK(t != NULL);
    pthread_mutex_lock(&lock);
    *t = (struct taken){current->taken, memory, bytes};
    current->taken = t;
    current->taken_bytes += bytes;
    pthread_mutex_unlock(&lock);
    *address = (CUdeviceptr)(uintptr_t)memory;
    return CUDA_SUCCESS;
}
CUresult cuMemFree(CUdeviceptr address)
{
    NEED_NO_CAPTURE();
    pthread_mutex_lock(&lock);
    struct taken **t = &current->taken;
    while (*t && (*t)->memory != (void *)(uintptr_t)address) t = &(*t)->next;
    struct taken *gone = *t;
    if (gone) {
        current->taken_bytes -= gone->bytes;
        *t = gone->next;
    }
    pthread_mutex_unlock(&lock);
    if (gone == NULL) return CUDA_ERROR_INVALID_VALUE;
    gpu_give(current->gpu, gone->memory);
    free(gone);
    return CUDA_SUCCESS;
}
CUresult cuMemHostAlloc(void **memory, size_t bytes, unsigned flags)
{
    NEED_NO_CAPTURE();
    if (bytes == 0 || flags != CU_MEMHOSTALLOC_PORTABLE) return CUDA_ERROR_INVALID_VALUE;
    const CUresult result = result_of(gpu_host_take(current->gpu, bytes, "the stand-in", memory));
    if (result == CUDA_SUCCESS) host_range_add(*memory, bytes, 0);
    return result;
}
CUresult cuMemFreeHost(void *memory)
{
    NEED_NO_CAPTURE();
    if (host_range_remove(memory, 0, CUDA_ERROR_INVALID_VALUE) != CUDA_SUCCESS) return CUDA_ERROR_INVALID_VALUE;
    gpu_host_give(current->gpu, memory);
    return CUDA_SUCCESS;
}
CUresult cuMemHostRegister(void *memory, size_t bytes, unsigned flags)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), begin = (uintptr_t)memory / page * page;
    char all;
    NEED_NO_CAPTURE();
    if (bytes == 0 || flags != CU_MEMHOSTREGISTER_PORTABLE || is_of_card((uintptr_t)memory))
        return CUDA_ERROR_INVALID_VALUE;
    if (is_in_place(begin, ((uintptr_t)memory + bytes + page - 1) / page * page, 1, &all))
        return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    host_range_add(memory, bytes, 1);
    return result_of(gpu_host_pin(current->gpu, memory, bytes));
}
CUresult cuMemHostUnregister(void *memory)
{
    NEED_NO_CAPTURE();
    gpu_host_unpin(current->gpu, memory);
    return host_range_remove(memory, 1, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
}
#define NEED_PLACES(from, from_bytes, to, to_bytes)                                                                    \
    do {                                                                                                               \
        CUresult copied_ = copied_check(from, from_bytes);                                                             \
        if (copied_ == CUDA_SUCCESS) copied_ = copied_check(to, to_bytes);                                             \
        if (copied_ != CUDA_SUCCESS) return copied_;                                                                   \
    } while (0)
CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    NEED_CONTEXT();
    NEED_PLACES(from, bytes, to, bytes);
    return result_of(gpu_copy(current->gpu, (struct gpu_stream *)stream, (void *)(uintptr_t)to,
                              (const void *)(uintptr_t)from, bytes));
}
CUresult cuMemcpy2DAsync(const CUDA_MEMCPY2D *copy, CUstream stream)
{
    NEED_CONTEXT();
    if (copy->srcMemoryType != CU_MEMORYTYPE_UNIFIED || copy->dstMemoryType != CU_MEMORYTYPE_UNIFIED ||
        copy->srcPitch < copy->WidthInBytes || copy->dstPitch < copy->WidthInBytes)
        return CUDA_ERROR_INVALID_VALUE;
    NEED_PLACES(copy->srcDevice, (copy->Height - 1) * copy->srcPitch + copy->WidthInBytes, copy->dstDevice,
                (copy->Height - 1) * copy->dstPitch + copy->WidthInBytes);
    return result_of(gpu_copy_rows(current->gpu, (struct gpu_stream *)stream, (void *)(uintptr_t)copy->dstDevice,
                                   copy->dstPitch, (const void *)(uintptr_t)copy->srcDevice, copy->srcPitch,
                                   copy->WidthInBytes, copy->Height));
}
CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t bytes, CUstream stream)
{
    NEED_CONTEXT();
    if (value != 0) return CUDA_ERROR_INVALID_VALUE;
    return result_of(gpu_clear(current->gpu, (struct gpu_stream *)stream, (void *)(uintptr_t)to, bytes));
}

/* --- streams, events, lists ------------------------------------------------------------------------ */

CUresult cuStreamCreate(CUstream *stream, unsigned flags)
{
    NEED_CONTEXT();
    if (flags != CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
    return result_of(gpu_stream_open(current->gpu, (struct gpu_stream **)stream));
}
CUresult cuStreamDestroy(CUstream stream)
{
    NEED_CONTEXT();
    gpu_stream_close(current->gpu, (struct gpu_stream *)stream);
    return CUDA_SUCCESS;
}
CUresult cuStreamSynchronize(CUstream stream)
{
    struct gpu_event *event;
    NEED_NO_CAPTURE();
    status st = gpu_event_open(current->gpu, &event);
    if (st == ST_OK) {
        st = gpu_record(current->gpu, (struct gpu_stream *)stream, event);
        if (st == ST_OK) st = gpu_wait(current->gpu, event);
        gpu_event_close(current->gpu, event);
    }
    return result_of(st);
}
CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags)
{
    NEED_CONTEXT();
    if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
    return result_of(gpu_follow(current->gpu, (struct gpu_stream *)stream, (struct gpu_event *)event));
}
CUresult cuEventCreate(CUevent *event, unsigned flags)
{
    NEED_CONTEXT();
    (void)flags;
    return result_of(gpu_event_open(current->gpu, (struct gpu_event **)event));
}
CUresult cuEventDestroy(CUevent event)
{
    NEED_CONTEXT();
    gpu_event_close(current->gpu, (struct gpu_event *)event);
    return CUDA_SUCCESS;
}
CUresult cuEventRecord(CUevent event, CUstream stream)
{
    NEED_CONTEXT();
    return result_of(gpu_record(current->gpu, (struct gpu_stream *)stream, (struct gpu_event *)event));
}
CUresult cuEventQuery(CUevent event)
{
    bool is_done;
    NEED_NO_CAPTURE();
    const CUresult result = result_of(gpu_is_done(current->gpu, (struct gpu_event *)event, &is_done));
    return result == CUDA_SUCCESS && !is_done ? CUDA_ERROR_NOT_READY : result;
}
CUresult cuEventSynchronize(CUevent event)
{
    NEED_NO_CAPTURE();
    return result_of(gpu_wait(current->gpu, (struct gpu_event *)event));
}
CUresult cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode mode)
{
    const char *how = getenv("HETERPS_STANDIN");
    NEED_NO_CAPTURE();
    if (mode != CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) return CUDA_ERROR_INVALID_VALUE;
    captured = stream;
    is_broken = how && strcmp(how, "uncaptured") == 0;
    return result_of(gpu_capture(current->gpu, (struct gpu_stream *)stream));
}
/* A graph is its list, and so is what is made of it. */
CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph)
{
    NEED_CONTEXT();
    if (stream != captured) return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    captured = NULL;
    CUresult result = result_of(gpu_captured(current->gpu, (struct gpu_stream *)stream, (struct gpu_list **)graph));
    if (result != CUDA_SUCCESS || !is_broken) return result;
    gpu_list_close(current->gpu, (struct gpu_list *)*graph);
    *graph = NULL;
    return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
}
CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags)
{
    (void)flags;
    *exec = (CUgraphExec)graph;
    return CUDA_SUCCESS;
}
CUresult cuGraphDestroy(CUgraph graph)
{
    (void)graph;
    return CUDA_SUCCESS;
}
CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream)
{
    NEED_NO_CAPTURE();
    return result_of(gpu_replay(current->gpu, (struct gpu_stream *)stream, (struct gpu_list *)exec));
}
CUresult cuGraphExecDestroy(CUgraphExec exec)
{
    NEED_CONTEXT();
    gpu_list_close(current->gpu, (struct gpu_list *)exec);
    return CUDA_SUCCESS;
}
