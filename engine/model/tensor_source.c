/* Lists named tensors from files of any origin (the kinds are in the header). Opened once a start; all files
 * of a directory, a few hundred, are mapped at the same time. */
#include "engine/model/tensor_source.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/base/bf16.h"
#include "engine/base/heap.h"
#include "engine/base/inputs.h"
#include "engine/model/lean.h"
#include "engine/model/manifest.h"

#define SAFETENSORS_END ".safetensors"
#define NPY_END         ".npy"
#define WORDS_END       ".words.txt"
/* Names come from files: a message shows this many bytes of a name. */
#define NAME_SHOWN ".120s"

struct source_file {
    char *path, *stem; /* stem: the file name's, decoded */
    struct file_map map;
    struct safetensors safetensors;
    bool is_wrapped; /* the caller owns map and tensors */
    char **names;    /* made for its tensors, [name_count] */
    uint32_t name_count;
};

/* --- names ------------------------------------------------------------------------------------ */

static bool ends_in(const char *name, const char *end)
{
    size_t bytes = strlen(name), end_bytes = strlen(end);
    return bytes > end_bytes && strcmp(name + bytes - end_bytes, end) == 0;
}

static int hex_digit(char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1; }

/* The inverse of model_file_stem; text that model_file_stem would not write is taken as it is. malloc'd. */
static status stem_decode(char **stem, const char *name, size_t bytes)
{
    TRY(heap_text(stem, "%.*s", (int)bytes, name));
    char *out = *stem;
    for (const char *in = *stem; *in; in++) {
        int high = *in == '%' ? hex_digit(in[1]) : -1, low = high < 0 ? -1 : hex_digit(in[2]);
        bool is_code = low >= 0 && (high | low) != 0;
        *out++ = is_code ? (char)(16 * high + low) : *in;
        if (is_code) in += 2;
    }
    *out = 0;
    return ST_OK;
}

static status stem_of(char **stem, const char *path)
{
    static const char *const ends[] = {SAFETENSORS_END, NPY_END, WORDS_END};
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    size_t bytes = strlen(name);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (ends_in(name, ends[i])) return stem_decode(stem, name, bytes - strlen(ends[i]));
    return stem_decode(stem, name, bytes);
}

/* --- files ------------------------------------------------------------------------------------ */

static status file_add(struct tensor_source *s, const char *path, struct source_file **file)
{
    TRY(heap_room(&s->files, (size_t)s->file_count + 1, sizeof *s->files, "files of tensors"));
    *file = &s->files[s->file_count++];
    **file = (struct source_file){0};
    TRY(heap_text(&(*file)->path, "%s", path));
    return stem_of(&(*file)->stem, path);
}

static status tensors_reserve(struct tensor_source *s, uint32_t count)
{
    return heap_room(&s->tensors, (size_t)s->tensor_count + count + 1, sizeof *s->tensors, "tensors");
}

static struct source_tensor *tensor_add(struct tensor_source *s, const char *name)
{
    struct source_tensor *t = &s->tensors[s->tensor_count++];
    *t = (struct source_tensor){.name = name, .theirs = name, .file = s->file_count - 1};
    return t;
}

static status safetensors_add(struct tensor_source *s, struct source_file *file)
{
    const struct safetensors *safetensors = &file->safetensors;
    TRY(tensors_reserve(s, safetensors->tensor_count));
    file->names = calloc(2, sizeof *file->names); /* keys, vectors */
    if (file->names == NULL) FAIL(MEMORY, "%s: no memory to list its tensors", file->path);
    for (uint32_t i = 0; i < safetensors->tensor_count; i++) {
        const char *name = safetensors->tensors[i].name;
        if (strcmp(name, "keys") == 0 || strcmp(name, "vectors") == 0) {
            char **made = &file->names[file->name_count];
            TRY(heap_text(made, "%s.%s", file->stem, name));
            file->name_count++;
            name = *made;
        }
        tensor_add(s, name)->npy.array = safetensors->tensors[i];
    }
    return ST_OK;
}

static status words_add(struct tensor_source *s, struct source_file *file)
{
    TRY(tensors_reserve(s, 1));
    file->names = calloc(1, sizeof *file->names);
    if (file->names == NULL) FAIL(MEMORY, "%s: no memory to list it", file->path);
    TRY(heap_text(&file->names[0], "%s.words", file->stem));
    file->name_count = 1;
    struct source_tensor *t = tensor_add(s, file->names[0]);
    const char *text = (const char *)file->map.data;
    size_t bytes = file->map.bytes;
    file_mark_skip(&text, &bytes);
    t->is_words = true;
    t->npy.array = (struct safetensors_tensor){.rank = 1, .data = (const uint8_t *)text, .bytes = bytes};
    const char *end = text + bytes;
    uint64_t lines = bytes > 0 && end[-1] != '\n';
    for (const char *at = text; at < end && (at = memchr(at, '\n', (size_t)(end - at))) != NULL; at++) lines++;
    t->npy.array.shape[0] = lines;
    return ST_OK;
}

static status file_open(struct tensor_source *s, const char *path)
{
    struct source_file *file;
    TRY(file_add(s, path, &file));
    TRY(file_map_open(&file->map, path));
    TRY(inputs_add(NULL, path));
    if (ends_in(path, WORDS_END)) return words_add(s, file);
    if (ends_in(path, NPY_END)) {
        struct npy npy;
        TRY(npy_open(&npy, path, file->map.data, file->map.bytes));
        TRY(tensors_reserve(s, 1));
        tensor_add(s, file->stem)->npy = npy;
        return ST_OK;
    }
    if (lean_is(path))
        FAIL(INVALID,
             "%s: expected tensors, found a graph with a model behind it; give the saved model that it was exported "
             "from, or its values: heterps-run export %s --model %s -o DIR",
             path, path, path);
    TRY(safetensors_open(&file->safetensors, path, file->map.data, file->map.bytes));
    return safetensors_add(s, file);
}

static int is_tensors_file(const struct dirent *entry)
{
    return ends_in(entry->d_name, SAFETENSORS_END) || ends_in(entry->d_name, NPY_END) ||
           ends_in(entry->d_name, WORDS_END);
}

static status directory_open(struct tensor_source *s, const char *path)
{
    struct dirent **entries;
    int count = scandir(path, &entries, is_tensors_file, alphasort);
    if (count < 0) FAIL(IO, "%s: %s", path, strerror(errno));
    status st = ST_OK;
    for (int i = 0; i < count; i++) {
        char file_path[FILE_PATH_BYTES];
        if (st == ST_OK) st = file_open(s, file_path_join(file_path, path, entries[i]->d_name));
        free(entries[i]);
    }
    free(entries);
    if (count == 0)
        FAIL(INVALID,
             "%s: holds neither a saved model (" MANIFEST_NAME ") nor tensors (*" SAFETENSORS_END ", *" NPY_END ")",
             path);
    return st;
}

/* --- the list --------------------------------------------------------------------------------- */

static int name_compare(const void *a, const void *b)
{
    return strcmp(((const struct source_tensor *)a)->name, ((const struct source_tensor *)b)->name);
}

static status names_sort(struct tensor_source *s)
{
    if (s->tensor_count > 0) qsort(s->tensors, s->tensor_count, sizeof *s->tensors, name_compare);
    for (uint32_t i = 1; i < s->tensor_count; i++) {
        const struct source_tensor *t = &s->tensors[i - 1], *u = &s->tensors[i];
        if (strcmp(t->name, u->name) == 0)
            FAIL(INVALID,
                 "two tensors are %" NAME_SHOWN ": \"%" NAME_SHOWN "\" of %s and \"%" NAME_SHOWN
                 "\" of %s; expected one",
                 t->name, t->theirs, source_tensor_path(s, t), u->theirs, source_tensor_path(s, u));
    }
    return ST_OK;
}

status tensor_source_check(const struct tensor_source *s, status st)
{
    for (uint32_t i = 0; i < s->file_count; i++) TRY(file_map_check(&s->files[i].map, s->files[i].path));
    return st;
}

status tensor_source_open(struct tensor_source *s, const char *path)
{
    struct stat stat_of_path;
    *s = (struct tensor_source){0};
    bool is_directory = stat(path, &stat_of_path) == 0 && S_ISDIR(stat_of_path.st_mode);
    status st = is_directory ? directory_open(s, path) : file_open(s, path);
    if (st == ST_OK) st = names_sort(s);
    st = tensor_source_check(s, st);
    if (st != ST_OK) tensor_source_close(s);
    return st;
}

status tensor_source_wrap(struct tensor_source *s, const char *path, const struct file_map *map,
                          const struct safetensors *safetensors)
{
    struct source_file *file;
    *s = (struct tensor_source){0};
    status st = file_add(s, path, &file);
    if (st == ST_OK) {
        file->map = *map;
        file->safetensors = *safetensors;
        file->is_wrapped = true;
        st = safetensors_add(s, file);
    }
    if (st == ST_OK) st = names_sort(s);
    if (st != ST_OK) tensor_source_close(s);
    return st;
}

status tensor_source_rename(struct tensor_source *s, const char *map_path, const struct name_map *map)
{
    /* Checks the map's pairs before renaming, while the list is sorted by theirs. */
    for (uint32_t i = 0; i < map->count; i++) {
        const struct name_pair *p = &map->pairs[i];
        if (tensor_source_find(s, p->theirs) == NULL)
            FAIL(INVALID, "%s:%u: there is no tensor \"%" NAME_SHOWN "\" to be renamed", map_path, p->line, p->theirs);
    }
    for (uint32_t i = 0; i < s->tensor_count; i++) {
        const struct name_pair *pair = name_map_find(map, s->tensors[i].theirs);
        if (pair != NULL) s->tensors[i].name = pair->ours;
    }
    return names_sort(s);
}

void tensor_source_close(struct tensor_source *s)
{
    for (uint32_t i = 0; i < s->file_count; i++) {
        struct source_file *f = &s->files[i];
        for (uint32_t k = 0; k < f->name_count; k++) free(f->names[k]);
        free(f->names);
        if (!f->is_wrapped) {
            safetensors_close(&f->safetensors);
            file_map_close(&f->map);
        }
        free(f->path);
        free(f->stem);
    }
    free(s->files);
    free(s->tensors);
    *s = (struct tensor_source){0};
}

struct source_tensor *tensor_source_find(const struct tensor_source *s, const char *name)
{
    const struct source_tensor key = {.name = name};
    return s->tensor_count ? bsearch(&key, s->tensors, s->tensor_count, sizeof key, name_compare) : NULL;
}

const char *source_tensor_path(const struct tensor_source *s, const struct source_tensor *t)
{
    return s->files[t->file].path;
}

void source_tensor_forget(const struct tensor_source *s, const struct source_tensor *t)
{
    file_map_forget(&s->files[t->file].map);
}

/* --- elements --------------------------------------------------------------------------------- */

bool source_tensor_is_float(const struct source_tensor *t)
{
    const enum safetensors_type type = t->npy.array.type;
    return !t->is_words &&
           (type == SAFETENSORS_F16 || type == SAFETENSORS_BF16 || type == SAFETENSORS_F32 || type == SAFETENSORS_F64);
}

static float float_of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* IEEE 754 binary16: a sign, 5 bits of exponent (bias 15), 10 of fraction.
 * Every value is a binary32 exactly. */
static float float_of_f16(uint16_t half)
{
    const uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = half >> 10 & 31, fraction = half & 1023;
    if (exponent == 31) return float_of_bits(sign | 0x7f800000u | fraction << 13);
    if (exponent != 0) return float_of_bits(sign | (exponent + 127 - 15) << 23 | fraction << 13);
    const float value = (float)fraction * 0x1p-24f; /* subnormal, or zero */
    return sign ? -value : value;
}

float source_tensor_float(const struct source_tensor *t, uint64_t index)
{
    const struct safetensors_tensor *a = &t->npy.array;
    uint16_t two;
    float four;
    double eight;
    switch (a->type) {
    case SAFETENSORS_F16: memcpy(&two, a->data + index * 2, 2); return float_of_f16(two);
    case SAFETENSORS_BF16: memcpy(&two, a->data + index * 2, 2); return float_of_bits((uint32_t)two << 16);
    case SAFETENSORS_F32: memcpy(&four, a->data + index * 4, 4); return four;
    case SAFETENSORS_F64: memcpy(&eight, a->data + index * 8, 8); return (float)eight;
    default: CHECK(false);
    }
}

/* An element's indices: "[3, 17]". */
static void index_text(char *text, size_t bytes, const struct source_tensor *t, uint64_t index)
{
    const struct safetensors_tensor *a = &t->npy.array;
    uint64_t at[SAFETENSORS_RANK_MAX];
    for (uint32_t i = 0; i < a->rank; i++) {
        const uint32_t axis = t->npy.is_fortran ? i : a->rank - 1 - i; /* the fastest axis first */
        at[axis] = index % a->shape[axis];
        index /= a->shape[axis];
    }
    size_t end = 0;
    text[0] = 0;
    for (uint32_t i = 0; i < a->rank; i++)
        end += (size_t)snprintf(text + end, bytes - end, "%s%" PRIu64 "%s", i ? ", " : "[", at[i],
                                i + 1 < a->rank ? "" : "]");
}

status source_tensor_finite(const struct tensor_source *s, const struct source_tensor *t, bool is_bf16)
{
    const struct safetensors_tensor *a = &t->npy.array;
    uint64_t count = 1;
    for (uint32_t i = 0; i < a->rank; i++) count *= a->shape[i];
    for (uint64_t i = 0; i < count; i++) {
        const float narrow = source_tensor_float(t, i);
        if (isfinite(is_bf16 ? bf16_round(narrow) : narrow)) continue;
        char text[SHAPE_TEXT_BYTES];
        double value = narrow;
        if (a->type == SAFETENSORS_F64) memcpy(&value, a->data + i * 8, 8);
        index_text(text, sizeof text, t, i);
        FAIL(INVALID, "%s: %" NAME_SHOWN "%s: expected a number that a %s can be, found %g", source_tensor_path(s, t),
             t->theirs, text, is_bf16 ? "bfloat16" : "float32", value);
    }
    return ST_OK;
}

char *source_tensor_shape(const struct source_tensor *t, char text[SHAPE_TEXT_BYTES])
{
    const struct safetensors_tensor *a = &t->npy.array;
    size_t end = (size_t)snprintf(text, SHAPE_TEXT_BYTES, "%s", a->rank == 0 ? "a number" : "");
    for (uint32_t i = 0; i < a->rank; i++)
        end += (size_t)snprintf(text + end, SHAPE_TEXT_BYTES - end, "%s%" PRIu64, i ? "x" : "", a->shape[i]);
    return text;
}
