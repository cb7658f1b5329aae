/* A card by CUDA's driver: every entry of struct gpu_vt is a call or two. Steps' work comes as lists that are
 * replayed, so these calls are few a micro-batch; each makes the card the calling thread's first, which costs
 * some tens of nanoseconds. */
#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/cuda/driver.h"

struct gpu_event {
    CUevent event;
    const char *behind; /* what its stream had been given last */
};
struct gpu_list {
    CUgraphExec exec;
};

static struct cuda_card *card_of(struct gpu *gpu) { return (struct cuda_card *)gpu; }
static CUdeviceptr address_of(const void *memory) { return (CUdeviceptr)(uintptr_t)memory; }

/* --- memory ---------------------------------------------------------------------------------------- */

static status cuda_take(struct gpu *gpu, size_t bytes, const char *what, void **memory)
{
    const struct cuda_card *c = card_of(gpu);
    CUdeviceptr address = 0;
    size_t free_bytes = 0, whole_bytes = 0;
    *memory = NULL;
    TRY(cuda_enter(c));
    const CUresult result = cuda_calls.cuMemAlloc(&address, bytes ? bytes : 1);
    if (result == CUDA_ERROR_OUT_OF_MEMORY && cuda_calls.cuMemGetInfo(&free_bytes, &whole_bytes) == CUDA_SUCCESS)
        return cuda_fail(c, "cuMemAlloc", result, "%zu bytes for %s: of its %zu bytes %zu are free", bytes, what,
                         whole_bytes, free_bytes);
    if (result != CUDA_SUCCESS) return cuda_fail(c, "cuMemAlloc", result, "%zu bytes for %s", bytes, what);
    *memory = (void *)(uintptr_t)address;
    return ST_OK;
}
static void cuda_give(struct gpu *gpu, void *memory)
{
    if (memory && cuda_enter(card_of(gpu)) == ST_OK) cuda_calls.cuMemFree(address_of(memory));
}
static status cuda_host_take(struct gpu *gpu, size_t bytes, const char *what, void **memory)
{
    const struct cuda_card *c = card_of(gpu);
    *memory = NULL;
    TRY(cuda_enter(c));
    CUDA_TRY(c, cuMemHostAlloc, (memory, bytes ? bytes : 1, CU_MEMHOSTALLOC_PORTABLE),
             "%zu bytes of the host's memory for %s", bytes, what);
    return ST_OK;
}
static void cuda_host_give(struct gpu *gpu, void *memory)
{
    if (memory && cuda_enter(card_of(gpu)) == ST_OK) cuda_calls.cuMemFreeHost(memory);
}
/* Memory that is pinned is so for all cards, once; who shares it (stages of one feed's slots) is counted. The
 * driver refuses what overlaps memory that it has already, and copies of memory that it has in part. */
#define PINS_MAX 64u
static struct pin {
    void *memory; /* NULL: free */
    size_t bytes;
    uint32_t uses;
} pins[PINS_MAX];
static atomic_flag pins_lock = ATOMIC_FLAG_INIT; /* held for a look at the list, and while a job begins or ends */
static void pins_enter(void)
{
    /* Acquire and release, as any lock. */
    while (atomic_flag_test_and_set_explicit(&pins_lock, memory_order_acquire)) continue;
}
static void pins_leave(void) { atomic_flag_clear_explicit(&pins_lock, memory_order_release); }
/* The pin of `memory`; for memory NULL a free pin. NULL: there is none. */
static struct pin *pin_find(const void *memory)
{
    for (uint32_t i = 0; i < PINS_MAX; i++)
        if (pins[i].memory == memory) return &pins[i];
    return NULL;
}
static status pin_make(const struct cuda_card *c, void *memory, size_t bytes)
{
    struct pin *pin = pin_find(memory);
    if (pin != NULL && pin->bytes == bytes) {
        pin->uses++;
        return ST_OK;
    }
    if ((pin = pin_find(NULL)) == NULL) FAIL(SYSTEM, "more than %u pieces of the host's memory to keep", PINS_MAX);
    CUDA_TRY(c, cuMemHostRegister, (memory, bytes, CU_MEMHOSTREGISTER_PORTABLE),
             "keeping %zu bytes of the host's memory where they are", bytes);
    *pin = (struct pin){memory, bytes, 1};
    return ST_OK;
}
static status cuda_host_pin(struct gpu *gpu, void *memory, size_t bytes)
{
    const struct cuda_card *c = card_of(gpu);
    TRY(cuda_enter(c));
    pins_enter();
    const status st = pin_make(c, memory, bytes);
    pins_leave();
    return st;
}
static void cuda_host_unpin(struct gpu *gpu, void *memory)
{
    if (memory == NULL || cuda_enter(card_of(gpu)) != ST_OK) return;
    pins_enter();
    struct pin *pin = pin_find(memory);
    if (pin != NULL && --pin->uses == 0) {
        cuda_calls.cuMemHostUnregister(memory);
        pin->memory = NULL;
    }
    pins_leave();
}

/* --- work ------------------------------------------------------------------------------------------ */

static status cuda_stream_open(struct gpu *gpu, struct gpu_stream **stream)
{
    const struct cuda_card *c = card_of(gpu);
    CUstream made;
    *stream = NULL;
    TRY(cuda_enter(c));
    CUDA_TRY(c, cuStreamCreate, (&made, CU_STREAM_NON_BLOCKING), "making a stream");
    *stream = malloc(sizeof **stream);
    if (*stream == NULL) {
        cuda_calls.cuStreamDestroy(made);
        FAIL(MEMORY, "no memory to describe a stream, %zu bytes", sizeof **stream);
    }
    **stream = (struct gpu_stream){made, "nothing"};
    return ST_OK;
}
static void cuda_stream_close(struct gpu *gpu, struct gpu_stream *s)
{
    if (s == NULL) return;
    if (cuda_enter(card_of(gpu)) == ST_OK) {
        cuda_calls.cuStreamSynchronize(s->stream);
        cuda_calls.cuStreamDestroy(s->stream);
    }
    free(s);
}

static status cuda_copy(struct gpu *gpu, struct gpu_stream *s, void *to, const void *from, size_t bytes)
{
    const struct cuda_card *c = card_of(gpu);
    if (bytes == 0) return ST_OK;
    TRY(cuda_enter(c));
    CUDA_TRY(c, cuMemcpyAsync, (address_of(to), address_of(from), bytes, s->stream), "copying %zu bytes after %s",
             bytes, s->last);
    s->last = "a copy";
    return ST_OK;
}
static status cuda_copy_rows(struct gpu *gpu, struct gpu_stream *s, void *to, size_t to_stride, const void *from,
                             size_t from_stride, size_t row_bytes, size_t rows)
{
    const struct cuda_card *c = card_of(gpu);
    const CUDA_MEMCPY2D copy = {.srcMemoryType = CU_MEMORYTYPE_UNIFIED, /* addresses say where they are */
                                .srcDevice = address_of(from),
                                .srcPitch = from_stride,
                                .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
                                .dstDevice = address_of(to),
                                .dstPitch = to_stride,
                                .WidthInBytes = row_bytes,
                                .Height = rows};
    if (row_bytes == 0 || rows == 0) return ST_OK;
    TRY(cuda_enter(c));
    CUDA_TRY(c, cuMemcpy2DAsync, (&copy, s->stream), "copying %zu rows of %zu bytes, %zu and %zu apart, after %s", rows,
             row_bytes, from_stride, to_stride, s->last);
    s->last = "a copy of rows";
    return ST_OK;
}
static status cuda_clear(struct gpu *gpu, struct gpu_stream *s, void *memory, size_t bytes)
{
    const struct cuda_card *c = card_of(gpu);
    if (bytes == 0) return ST_OK;
    TRY(cuda_enter(c));
    CUDA_TRY(c, cuMemsetD8Async, (address_of(memory), 0, bytes, s->stream), "clearing %zu bytes after %s", bytes,
             s->last);
    s->last = "a clear";
    return ST_OK;
}
static status cuda_launch(struct gpu *gpu, struct gpu_stream *s, enum gpu_kernel kernel, struct gpu_dim grid,
                          struct gpu_dim block, const void *args, uint32_t args_bytes)
{
    const struct cuda_card *c = card_of(gpu);
    size_t bytes = args_bytes;
    /* The struct as the bytes that its one parameter has: with their number, which the driver compares. */
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, (void *)(uintptr_t)args, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                     CU_LAUNCH_PARAM_END};
    TRY(cuda_enter(c));
    CUDA_TRY(c, cuLaunchKernel,
             (c->kernel[kernel], grid.x, grid.y, grid.z, block.x, block.y, block.z, gpu_kernel_large_bytes[kernel],
              s->stream, NULL, extra),
             "launching %s on %u x %u x %u blocks of %u x %u x %u threads with %zu bytes of arguments, after %s",
             gpu_kernel_names[kernel], grid.x, grid.y, grid.z, block.x, block.y, block.z, bytes, s->last);
    s->last = gpu_kernel_names[kernel];
    return ST_OK;
}

/* --- events ---------------------------------------------------------------------------------------- */

static status cuda_event_open(struct gpu *gpu, struct gpu_event **event)
{
    const struct cuda_card *c = card_of(gpu);
    CUevent made;
    *event = NULL;
    TRY(cuda_enter(c));
    /* Who waits sleeps: the cores have stages of their own to compute. */
    CUDA_TRY(c, cuEventCreate, (&made, CU_EVENT_DISABLE_TIMING | CU_EVENT_BLOCKING_SYNC), "making an event");
    *event = malloc(sizeof **event);
    if (*event == NULL) {
        cuda_calls.cuEventDestroy(made);
        FAIL(MEMORY, "no memory to describe an event, %zu bytes", sizeof **event);
    }
    **event = (struct gpu_event){made, "nothing"};
    return ST_OK;
}
static void cuda_event_close(struct gpu *gpu, struct gpu_event *event)
{
    if (event == NULL) return;
    if (cuda_enter(card_of(gpu)) == ST_OK) cuda_calls.cuEventDestroy(event->event);
    free(event);
}
static status cuda_record(struct gpu *gpu, struct gpu_stream *s, struct gpu_event *event)
{
    const struct cuda_card *c = card_of(gpu);
    TRY(cuda_enter(c));
    CUDA_TRY(c, cuEventRecord, (event->event, s->stream), "recording an event after %s", s->last);
    event->behind = s->last;
    return ST_OK;
}
static status cuda_follow(struct gpu *gpu, struct gpu_stream *s, struct gpu_event *event)
{
    const struct cuda_card *c = card_of(gpu);
    TRY(cuda_enter(c));
    CUDA_TRY(c, cuStreamWaitEvent, (s->stream, event->event, 0), "following an event after %s", event->behind);
    return ST_OK;
}
static status cuda_wait(struct gpu *gpu, struct gpu_event *event)
{
    const struct cuda_card *c = card_of(gpu);
    TRY(cuda_enter(c));
    CUDA_TRY(c, cuEventSynchronize, (event->event), "waiting for an event after %s", event->behind);
    return ST_OK;
}
static status cuda_is_done(struct gpu *gpu, struct gpu_event *event, bool *is_done)
{
    const struct cuda_card *c = card_of(gpu);
    TRY(cuda_enter(c));
    const CUresult result = cuda_calls.cuEventQuery(event->event);
    *is_done = result == CUDA_SUCCESS;
    if (result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_READY)
        return cuda_fail(c, "cuEventQuery", result, "asking for an event after %s", event->behind);
    return ST_OK;
}

/* --- lists ----------------------------------------------------------------------------------------- */

static status cuda_capture(struct gpu *gpu, struct gpu_stream *s)
{
    const struct cuda_card *c = card_of(gpu);
    TRY(cuda_enter(c));
    CUDA_TRY(c, cuStreamBeginCapture, (s->stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), "beginning to write down work");
    return ST_OK;
}
static status cuda_captured(struct gpu *gpu, struct gpu_stream *s, struct gpu_list **list)
{
    const struct cuda_card *c = card_of(gpu);
    CUgraph graph = NULL;
    CUgraphExec exec = NULL;
    *list = NULL;
    TRY(cuda_enter(c));
    CUDA_TRY(c, cuStreamEndCapture, (s->stream, &graph), "ending to write down work, %s last", s->last);
    const CUresult result = cuda_calls.cuGraphInstantiateWithFlags(&exec, graph, 0);
    cuda_calls.cuGraphDestroy(graph);
    if (result != CUDA_SUCCESS)
        return cuda_fail(c, "cuGraphInstantiateWithFlags", result, "making a list of work, %s last", s->last);
    *list = malloc(sizeof **list);
    if (*list == NULL) {
        cuda_calls.cuGraphExecDestroy(exec);
        FAIL(MEMORY, "no memory to describe a list of work, %zu bytes", sizeof **list);
    }
    (*list)->exec = exec;
    return ST_OK;
}
static status cuda_replay(struct gpu *gpu, struct gpu_stream *s, struct gpu_list *list)
{
    const struct cuda_card *c = card_of(gpu);
    TRY(cuda_enter(c));
    CUDA_TRY(c, cuGraphLaunch, (list->exec, s->stream), "replaying a list of work after %s", s->last);
    s->last = "a list of work";
    return ST_OK;
}
static void cuda_list_close(struct gpu *gpu, struct gpu_list *list)
{
    if (cuda_enter(card_of(gpu)) == ST_OK) cuda_calls.cuGraphExecDestroy(list->exec);
    free(list);
}

/* --- opening --------------------------------------------------------------------------------------- */

static void cuda_close(struct gpu *gpu)
{
    struct cuda_card *c = card_of(gpu);
    if (c->context && cuda_enter(c) == ST_OK)
        for (uint32_t i = 0; i < cuda_fatbin_count; i++)
            if (c->module[i]) cuda_calls.cuModuleUnload(c->module[i]);
    if (c->context) cuda_calls.cuDevicePrimaryCtxRelease(c->device);
    free(c);
}

static const struct gpu_vt cuda_vt = {
    .name = "cuda",
    .take = cuda_take,
    .give = cuda_give,
    .host_take = cuda_host_take,
    .host_give = cuda_host_give,
    .host_pin = cuda_host_pin,
    .host_unpin = cuda_host_unpin,
    .stream_open = cuda_stream_open,
    .stream_close = cuda_stream_close,
    .copy = cuda_copy,
    .copy_rows = cuda_copy_rows,
    .clear = cuda_clear,
    .launch = cuda_launch,
    .event_open = cuda_event_open,
    .event_close = cuda_event_close,
    .record = cuda_record,
    .follow = cuda_follow,
    .wait = cuda_wait,
    .is_done = cuda_is_done,
    .capture = cuda_capture,
    .captured = cuda_captured,
    .replay = cuda_replay,
    .list_close = cuda_list_close,
    .close = cuda_close,
};

/* A kernel lies in one of the modules. It is loaded here, not at its first launch, which may be one that is
 * written down (gpu_capture); and one by one, not by CUDA_MODULE_LOADING=EAGER, with which cuBLASLt would
 * load all of its hundreds of megabytes. */
static status kernel_find(struct cuda_card *c, enum gpu_kernel kernel, uint32_t shared_bytes)
{
    CUresult result = CUDA_ERROR_NOT_FOUND;
    for (uint32_t i = 0; result == CUDA_ERROR_NOT_FOUND && i < cuda_fatbin_count; i++)
        result = cuda_calls.cuModuleGetFunction(&c->kernel[kernel], c->module[i], gpu_kernel_names[kernel]);
    if (result != CUDA_SUCCESS)
        return cuda_fail(c, "cuModuleGetFunction", result, "looking for kernel %s", gpu_kernel_names[kernel]);
#if CUDA_VERSION >= 12040
    CUDA_TRY(c, cuFuncLoad, (c->kernel[kernel]), "loading kernel %s", gpu_kernel_names[kernel]);
#endif
    if (gpu_kernel_large_bytes[kernel] && gpu_kernel_large_bytes[kernel] <= shared_bytes)
        CUDA_TRY(
            c, cuFuncSetAttribute,
            (c->kernel[kernel], CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)gpu_kernel_large_bytes[kernel]),
            "giving kernel %s its %u bytes of shared memory", gpu_kernel_names[kernel], gpu_kernel_large_bytes[kernel]);
    return ST_OK;
}

static status card_open(struct cuda_card *c)
{
    uint32_t major, minor, shared_bytes;
    CUDA_TRY(c, cuDeviceGet, (&c->device, (int)c->index), "looking for it");
    CUDA_TRY(c, cuDeviceGetName, (c->name, sizeof c->name, c->device), "asking for its name");
    TRY(cuda_attribute(c, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &major));
    TRY(cuda_attribute(c, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &minor));
    TRY(cuda_attribute(c, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &c->gpu.core_count));
    TRY(cuda_attribute(c, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, &shared_bytes));
    c->gpu.capability = 10 * major + minor;
    /* Compiled from PTX, the kernels have no instructions that cards of one compute capability alone have. */
    if (c->gpu.capability == 90 && strstr(cuda_archs, "sm_90a") == NULL) c->gpu.capability = 89;
    TRY(cuda_retain(c, "opening it"));
    TRY(cuda_enter(c));
    for (uint32_t i = 0; i < cuda_fatbin_count; i++)
        CUDA_TRY(c, cuModuleLoadData, (&c->module[i], cuda_fatbins[i].image),
                 "loading the kernels of %s, which are there for %s", cuda_fatbins[i].file, cuda_archs);
    for (uint32_t k = 0; k < GPU_KERNEL_COUNT; k++) TRY(kernel_find(c, k, shared_bytes));
    return ST_OK;
}

status gpu_open(uint32_t index, struct gpu **gpu)
{
    const char *why;
    const uint32_t count = cuda_ready(&why);
    *gpu = NULL;
    if (count == 0) FAIL(USAGE, "no card %u: %s", index, why);
    if (index >= count) FAIL(USAGE, "no card %u: there are %u, numbered from 0", index, count);
    struct cuda_card *c = calloc(1, sizeof *c);
    if (c == NULL) FAIL(MEMORY, "no memory to describe card %u", index);
    c->gpu.vt = &cuda_vt;
    c->index = index;
    memcpy(c->name, "not yet opened", sizeof "not yet opened");
    const status st = card_open(c);
    if (st == ST_OK)
        *gpu = &c->gpu;
    else
        cuda_close(&c->gpu);
    return st;
}
