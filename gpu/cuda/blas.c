/* Products by cuBLASLt, whose matrices are column-major: a row-major product is its transpose, result^T =
 * right^T left^T, so our right factor is its A, our left one its B, and a bias for our columns one for its
 * rows.
 *
 * A shape is looked up in a list; the first time it is met, the library's heuristic names the way that it
 * expects to be the fastest, and that stays. One lock serves all, because calls are few: a micro-batch's
 * launches are written down once and replayed. */
#include "gpu/blas.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/log.h"
#include "gpu/cuda/blaslt.h"
#include "gpu/cuda/driver.h"

static struct {
#define BLAS_CALL(type, name, arguments) type(*name) arguments;
#include "gpu/cuda/blas.def"
#undef BLAS_CALL
} calls;

/* --- the library ------------------------------------------------------------------------------------ */

static char library_name[256], why_none[512];
static bool is_there;

/* Where the loader does not look by itself: CUDA's own packages, and distributions'. */
static const char *const places[] = {"/usr/local/cuda/lib64", "/usr/local/cuda/lib",
                                     "/usr/local/cuda/targets/x86_64-linux/lib", "/opt/cuda/lib64",
                                     "/run/opengl-driver/lib"};

static void *library_try(const char *directory)
{
    for (int version = 13; version >= 11; version--) {
        char path[160];
        snprintf(path, sizeof path, "%s%slibcublasLt.so.%d", directory, *directory ? "/" : "", version);
        void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (library == NULL) continue;
        snprintf(library_name, sizeof library_name, "%s", path);
        return library;
    }
    return NULL;
}

static void library_open(void)
{
    static const struct {
        const char *name;
        void *place;
    } names[] = {
#define BLAS_CALL(type, name, arguments) {#name, &calls.name},
#include "gpu/cuda/blas.def"
#undef BLAS_CALL
    };
    void *library = library_try("");
    for (size_t i = 0; library == NULL && i < sizeof places / sizeof *places; i++) library = library_try(places[i]);
    if (library == NULL) {
        snprintf(why_none, sizeof why_none,
                 "no libcublasLt.so.13, .12 or .11 where the loader and CUDA have libraries");
        return;
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        void *address = dlsym(library, names[i].name);
        if (address == NULL) {
            snprintf(why_none, sizeof why_none, "%s lacks %s", library_name, names[i].name);
            return;
        }
        memcpy(names[i].place, &address, sizeof address);
    }
    const size_t length = strlen(library_name), version = calls.cublasLtGetVersion();
    snprintf(library_name + length, sizeof library_name - length, ", version %zu.%zu.%zu", version / 10000,
             version / 100 % 100, version % 100);
    is_there = true;
}

const char *gpu_blas_library(const char **why)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, library_open);
    *why = why_none;
    return is_there ? library_name : NULL;
}

/* --- ways ------------------------------------------------------------------------------------------- */

/* What a way depends on; compared as bytes. */
struct shape {
    uint32_t rows, cols, terms, left_stride, right_stride, result_stride;
    uint32_t left_is_transposed, right_is_transposed, has_bias, is_relu, adds, result_alignment;
    uint64_t is_tf32, workspace_bytes; /* as wide as leaves no gap between members */
};
struct known {
    struct known *next;
    struct shape shape;
    lt_desc desc; /* NULL: the library has no way */
    lt_layout a, b, d;
    lt_way way;
};
struct cuda_blas {
    struct gpu_blas blas; /* first: a struct gpu_blas * is a struct cuda_blas * */
    const struct cuda_card *card;
    lt_handle handle;
    pthread_mutex_t lock;
    struct known *known;
};

/* Of a result, in bytes. No more than all of a graph's tensors have, so that a lane's gradients, wherever
 * they begin, come the same way. */
#define ALIGNMENT_MOST 64u
static uint32_t alignment_of(const void *at)
{
    const uintptr_t low = (uintptr_t)at & -(uintptr_t)at;
    return low == 0 || low > ALIGNMENT_MOST ? ALIGNMENT_MOST : (uint32_t)low;
}
static struct shape shape_of(const struct gpu_blas_product *p)
{
    return (struct shape){.rows = p->rows,
                          .cols = p->cols,
                          .terms = p->terms,
                          .left_stride = p->left_stride,
                          .right_stride = p->right_stride,
                          .result_stride = p->result_stride,
                          .left_is_transposed = p->left_is_transposed,
                          .right_is_transposed = p->right_is_transposed,
                          .has_bias = p->bias != NULL,
                          .is_relu = p->is_relu,
                          .adds = p->adds,
                          .result_alignment = alignment_of(p->result),
                          .is_tf32 = p->is_tf32,
                          .workspace_bytes = p->workspace_bytes};
}

static status blas_fail(const struct cuda_blas *b, const struct shape *s, const char *call, int result)
{
    const char *name = calls.cublasLtGetStatusName(result);
    FAIL(SYSTEM, "card %u (%s): multiplying %u x %u by %u x %u: %s: %s (%d)", b->card->index, b->card->name, s->rows,
         s->terms, s->terms, s->cols, call, name ? name : "an unknown error", result);
}
#define BLAS_TRY(b, s, call, arguments)                                                                                \
    do {                                                                                                               \
        const int result_ = calls.call arguments;                                                                      \
        if (result_ != LT_OK) return blas_fail(b, s, #call, result_);                                                  \
    } while (0)
#define SET(set, of, which, value) BLAS_TRY(b, s, set, (of, which, &(value), sizeof(value)))

static status way_ask(const struct cuda_blas *b, struct known *k, lt_preference preference)
{
    const struct shape *s = &k->shape;
    const uint32_t reductions = LT_REDUCTION_NONE, prepared = 256;
    int found = 0;
    SET(cublasLtMatmulPreferenceSetAttribute, preference, LT_WANT_WORKSPACE_BYTES, s->workspace_bytes);
    SET(cublasLtMatmulPreferenceSetAttribute, preference, LT_WANT_REDUCTIONS, reductions);
    SET(cublasLtMatmulPreferenceSetAttribute, preference, LT_WANT_A_ALIGNMENT, prepared);
    SET(cublasLtMatmulPreferenceSetAttribute, preference, LT_WANT_A_ALIGNMENT + 1, prepared);
    SET(cublasLtMatmulPreferenceSetAttribute, preference, LT_WANT_A_ALIGNMENT + 2, s->result_alignment);
    SET(cublasLtMatmulPreferenceSetAttribute, preference, LT_WANT_A_ALIGNMENT + 3, s->result_alignment);
    const lt_status result = calls.cublasLtMatmulAlgoGetHeuristic(b->handle, k->desc, k->a, k->b, k->d, k->d,
                                                                  preference, 1, &k->way, &found);
    if (result != LT_OK || found == 0 || k->way.state != LT_OK) { /* none, or not supported: ours serve */
        calls.cublasLtMatmulDescDestroy(k->desc);
        k->desc = NULL;
    }
    return ST_OK;
}

static status way_find(const struct cuda_blas *b, struct known *k, const void *bias)
{
    const struct shape *s = &k->shape;
    const int transposed = LT_OPERATION_TRANSPOSED, type = s->is_tf32 ? LT_TYPE_F32 : LT_TYPE_BF16,
              compute_type = s->is_tf32 ? LT_COMPUTE_F32_FAST_TF32 : LT_COMPUTE_F32,
              epilogue = (s->has_bias ? LT_EPILOGUE_BIAS : 0) | (s->is_relu ? LT_EPILOGUE_RELU : 0),
              epilogue_or_none = epilogue ? epilogue : LT_EPILOGUE_NONE;
    lt_preference preference = NULL;
    BLAS_TRY(b, s, cublasLtMatmulDescCreate, (&k->desc, compute_type, LT_TYPE_F32));
    if (s->right_is_transposed) SET(cublasLtMatmulDescSetAttribute, k->desc, LT_DESC_A_OPERATION, transposed);
    if (s->left_is_transposed) SET(cublasLtMatmulDescSetAttribute, k->desc, LT_DESC_B_OPERATION, transposed);
    SET(cublasLtMatmulDescSetAttribute, k->desc, LT_DESC_EPILOGUE, epilogue_or_none);
    if (s->has_bias) SET(cublasLtMatmulDescSetAttribute, k->desc, LT_DESC_BIAS, bias);
    BLAS_TRY(b, s, cublasLtMatrixLayoutCreate,
             (&k->a, type, s->right_is_transposed ? s->terms : s->cols, s->right_is_transposed ? s->cols : s->terms,
              s->right_stride));
    BLAS_TRY(b, s, cublasLtMatrixLayoutCreate,
             (&k->b, type, s->left_is_transposed ? s->rows : s->terms, s->left_is_transposed ? s->terms : s->rows,
              s->left_stride));
    BLAS_TRY(b, s, cublasLtMatrixLayoutCreate, (&k->d, LT_TYPE_F32, s->cols, s->rows, s->result_stride));
    BLAS_TRY(b, s, cublasLtMatmulPreferenceCreate, (&preference));
    const status st = way_ask(b, k, preference);
    calls.cublasLtMatmulPreferenceDestroy(preference);
    return st;
}

static void known_free(struct known *k)
{
    if (k->desc) calls.cublasLtMatmulDescDestroy(k->desc);
    if (k->a) calls.cublasLtMatrixLayoutDestroy(k->a);
    if (k->b) calls.cublasLtMatrixLayoutDestroy(k->b);
    if (k->d) calls.cublasLtMatrixLayoutDestroy(k->d);
    free(k);
}

static status way_of(struct cuda_blas *b, const struct gpu_blas_product *p, struct known **known)
{
    const struct shape s = shape_of(p);
    for (*known = b->known; *known != NULL; *known = (*known)->next)
        if (memcmp(&(*known)->shape, &s, sizeof s) == 0) return ST_OK;
    struct known *k = calloc(1, sizeof *k);
    if (k == NULL) FAIL(MEMORY, "no memory to describe a product of %zu bytes", sizeof *k);
    k->shape = s;
    const status st = way_find(b, k, p->bias);
    if (st != ST_OK) {
        known_free(k);
        return st;
    }
    k->next = b->known;
    b->known = *known = k;
    return ST_OK;
}

/* The heuristic has named a way that does not do after all: nothing was given to the
 * card, and ours serve from now on. */
static void way_refused(const struct cuda_blas *b, struct known *k, lt_status result)
{
    if (blas_fail(b, &k->shape, "cublasLtMatmul", result) != ST_OK)
        log_detail("%s; the kernels here do it", status_message());
    calls.cublasLtMatmulDescDestroy(k->desc);
    k->desc = NULL;
}

/* The library's preferences know of no alignment of a bias, and some of its kernels read it by 16 bytes. */
#define BIAS_ALIGNMENT 16u

static status multiply(struct cuda_blas *b, struct gpu_stream *stream, const struct gpu_blas_product *p, bool *is_taken)
{
    const float one = 1, beta = p->adds ? 1 : 0;
    struct known *k;
    if ((uintptr_t)p->bias % BIAS_ALIGNMENT != 0) return ST_OK;
    TRY(cuda_enter(b->card));
    TRY(way_of(b, p, &k));
    if (k->desc == NULL) return ST_OK;
    const struct shape *s = &k->shape;
    if (s->has_bias) SET(cublasLtMatmulDescSetAttribute, k->desc, LT_DESC_BIAS, p->bias);
    const lt_status result =
        calls.cublasLtMatmul(b->handle, k->desc, &one, p->right, k->a, p->left, k->b, &beta, p->result, k->d, p->result,
                             k->d, &k->way.algorithm, p->workspace, p->workspace_bytes, stream->stream);
    if (result == LT_NOT_SUPPORTED || result == LT_INVALID_VALUE || result == LT_ARCH_MISMATCH) {
        way_refused(b, k, result);
        return ST_OK;
    }
    if (result != LT_OK) return blas_fail(b, s, "cublasLtMatmul", result);
    stream->last = "a product of cuBLASLt";
    *is_taken = true;
    return ST_OK;
}

/* --- the table -------------------------------------------------------------------------------------- */

static status blas_multiply(struct gpu_blas *blas, struct gpu_stream *stream, const struct gpu_blas_product *p,
                            bool *is_taken)
{
    struct cuda_blas *b = (struct cuda_blas *)blas;
    *is_taken = false;
    pthread_mutex_lock(&b->lock);
    const status st = multiply(b, stream, p, is_taken);
    pthread_mutex_unlock(&b->lock);
    return st;
}
static void blas_close(struct gpu_blas *blas)
{
    struct cuda_blas *b = (struct cuda_blas *)blas;
    while (b->known != NULL) {
        struct known *next = b->known->next;
        known_free(b->known);
        b->known = next;
    }
    if (b->handle && cuda_enter(b->card) == ST_OK) calls.cublasLtDestroy(b->handle);
    pthread_mutex_destroy(&b->lock);
    free(b);
}
static const struct gpu_blas_vt vt = {blas_multiply, blas_close};

status gpu_blas_open(struct gpu *gpu, struct gpu_blas **blas, const char **why)
{
    const struct cuda_card *card = (const struct cuda_card *)gpu;
    static __thread char text[512];
    lt_handle handle = NULL;
    *blas = NULL;
    *why = "not asked for";
    if (gpu_blas_is_denied() || gpu_blas_library(why) == NULL) return ST_OK;
    TRY(cuda_enter(card));
    const lt_status result = calls.cublasLtCreate(&handle);
    if (result != LT_OK) {
        const char *name = calls.cublasLtGetStatusName(result);
        snprintf(text, sizeof text, "%s: cublasLtCreate: %s (%d)", library_name, name ? name : "an unknown error",
                 result);
        *why = text;
        return ST_OK;
    }
    struct cuda_blas *b = calloc(1, sizeof *b);
    if (b == NULL) {
        calls.cublasLtDestroy(handle);
        FAIL(MEMORY, "no memory to describe %s", library_name);
    }
    CHECK(pthread_mutex_init(&b->lock, NULL) == 0);
    b->blas.vt = &vt;
    b->card = card;
    b->handle = handle;
    *blas = &b->blas;
    return ST_OK;
}
