/* The graph's file: a header, then the sections in the order of enum graph_section, one after another, each
 * on a multiple of 64 bytes; all integers little-endian. The layout has one possible form only, so two files
 * with the same bytes in their sections are the same file.
 *
 *   byte 0    magic "HPSGRAPH"           a file is valid if: magic and numbering are ours, version is read, it has
 *        8    version, header_bytes      file_bytes bytes, xxh3-64 over all of it, the checksum taken as 0, is the
 *       16    file_bytes                 checksum, the sections are where the layout says, and every record passes
 *                                        graph_check.c
 *       24    checksum
 *       32    the rest of struct graph_header
 *
 * A graph is small (records, no parameters), so it is read into memory of our own and not mapped: whatever
 * happens to the file afterwards, the program uses the bytes that it has validated. */
#include "graph/graph_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#define XXH_STATIC_LINKING_ONLY /* for a state on the stack */
#include <xxhash.h>

#include "engine/base/file.h"
#include "graph/op.h"
#include "graph/optimizer.h"
#include "graph/schedule.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "records are used in place");
_Static_assert(offsetof(struct graph_header, version) == 8 && offsetof(struct graph_header, file_bytes) == 16 &&
                   offsetof(struct graph_header, checksum) == 24 && offsetof(struct graph_header, model_hash) == 32,
               "the table above");

#define GRAPH_BYTES_MAX ((size_t)1 << 32)

/* --- header and sections ---------------------------------------------------------------------- */

/* count_max is what a model text can give (it has at most INI_SECTIONS_MAX sections), with room. It bounds
 * the time of graph_check.c, a part of which is a product of two counts. */
static const struct {
    const char *name;
    uint32_t bytes; /* of a record */
    uint32_t count_max;
} sections[SECTION_COUNT] = {
    [SECTION_TEXT] = {"text", 1, GRAPH_COUNT_MAX},
    [SECTION_STRINGS] = {"strings", 1, GRAPH_STRINGS_BYTES_MAX},
    [SECTION_TENSORS] = {"tensors", sizeof(struct graph_tensor), 1u << 20},
    [SECTION_ARGS] = {"args", sizeof(uint32_t), GRAPH_COUNT_MAX},
    [SECTION_NODES] = {"nodes", sizeof(struct graph_node), 1u << 16},
    [SECTION_LAYERS] = {"layers", sizeof(struct graph_layer), 1u << 16},
    [SECTION_FIELDS] = {"fields", sizeof(struct graph_field), 1u << 16},
    [SECTION_DENSES] = {"denses", sizeof(struct graph_field), 1u << 16},
    [SECTION_LABELS] = {"labels", sizeof(struct graph_field), 1u << 12},
    [SECTION_VOCABULARIES] = {"vocabularies", sizeof(struct graph_vocabulary), 1u << 12},
    [SECTION_WORDS] = {"words", sizeof(struct graph_word), GRAPH_COUNT_MAX},
    [SECTION_TABLES] = {"tables", sizeof(struct graph_table), GRAPH_TABLES_MAX},
    [SECTION_OPTIMIZERS] = {"optimizers", sizeof(struct graph_optimizer), 1u << 15},
    [SECTION_UPDATES] = {"updates", sizeof(struct graph_update), GRAPH_TABLES_MAX + PARAM_UPDATES_MAX},
};

static uint64_t checksum_of(const uint8_t *image, size_t bytes)
{
    static const uint64_t zero;
    const size_t at = offsetof(struct graph_header, checksum), behind = at + sizeof zero;
    XXH3_state_t state;
    bool is_done = XXH3_64bits_reset(&state) == XXH_OK && XXH3_64bits_update(&state, image, at) == XXH_OK &&
                   XXH3_64bits_update(&state, &zero, sizeof zero) == XXH_OK &&
                   XXH3_64bits_update(&state, image + behind, bytes - behind) == XXH_OK;
    CHECK(is_done);
    return XXH3_64bits_digest(&state);
}

/* The numbering with the first `op_count` ops and `schedule_count` schedules. */
static uint64_t numbering_of(uint32_t op_count, uint32_t schedule_count)
{
    XXH3_state_t state;
    XXH3_64bits_reset(&state);
#define NAME(text) XXH3_64bits_update(&state, text, strlen(text) + 1)
    for (uint32_t i = 0; i < op_count; i++) NAME(op_table[i].name);
    for (uint32_t i = 0; i < OPTIMIZER_ID_COUNT; i++) NAME(optimizer_table[i].name);
    for (uint32_t i = 0; i < schedule_count; i++) NAME(schedule_table[i].name);
#undef NAME
    return XXH3_64bits_digest(&state);
}

uint64_t graph_numbering(void) { return numbering_of(OP_ID_COUNT, SCHEDULE_ID_COUNT); }

/* Whether the numbering is ours, or that of an older graph, made when the last ops
 * or schedules did not exist. */
static bool numbering_is_known(uint64_t numbering)
{
    /* From the first op and the first schedule on that the oldest graphs do not have. */
    for (uint32_t op_count = OP_ID_tree; op_count <= OP_ID_COUNT; op_count++)
        for (uint32_t schedule_count = SCHEDULE_ID_passes; schedule_count <= SCHEDULE_ID_COUNT; schedule_count++)
            if (numbering == numbering_of(op_count, schedule_count)) return true;
    return false;
}

static status header_check(const char *path, const uint8_t *image, size_t bytes)
{
    const struct graph_header *h = (const void *)image;
    size_t magic_bytes = bytes < sizeof h->magic ? bytes : sizeof h->magic;
    if (bytes == 0) FAIL(INVALID, "%s: byte 0: expected a graph, found an empty file", path);
    if (memcmp(image, GRAPH_MAGIC, magic_bytes) != 0)
        FAIL(INVALID,
             "%s: byte 0: expected %s, found something else: "
             "this is not a graph (heterps-run compile makes one from model text)",
             path, GRAPH_MAGIC);
    if (bytes < 16)
        FAIL(CORRUPT, "%s: byte %zu: expected a header of %zu bytes, found the end of the file", path, bytes,
             sizeof *h);
    if (h->version < GRAPH_VERSION_OLDEST || h->version > GRAPH_VERSION)
        FAIL(INVALID,
             "%s: byte 8: expected version %u to %u, found %u: the graph was made by %s heterps-run; "
             "compile its model text again",
             path, GRAPH_VERSION_OLDEST, GRAPH_VERSION, h->version,
             h->version > GRAPH_VERSION ? "a newer" : "an older");
    if (h->header_bytes != sizeof *h)
        FAIL(INVALID, "%s: byte 12: expected a header of %zu bytes, found %u", path, sizeof *h, h->header_bytes);
    if (bytes < sizeof *h)
        FAIL(CORRUPT, "%s: byte %zu: expected a header of %zu bytes, found the end of the file", path, bytes,
             sizeof *h);
    if (h->file_bytes != bytes)
        FAIL(CORRUPT, "%s: byte 16: expected a file of %" PRIu64 " bytes, found %zu", path, h->file_bytes, bytes);
    uint64_t checksum = checksum_of(image, bytes);
    if (h->checksum != checksum)
        FAIL(CORRUPT, "%s: byte 24: expected checksum %016" PRIx64 ", found %016" PRIx64 ": the file is damaged", path,
             h->checksum, checksum);
    if (!numbering_is_known(h->numbering))
        FAIL(INVALID,
             "%s: byte %zu: expected ops, optimizers and schedules to be numbered as here, found another numbering: "
             "the graph was made by another heterps-run; compile its model text again",
             path, offsetof(struct graph_header, numbering));
    return ST_OK;
}

/* Checks that the bytes between two sections are zero. */
static status padding_check(const char *path, const struct graph_header *h, uint64_t begin, uint64_t end)
{
    const uint8_t *image = (const uint8_t *)h;
    for (uint64_t i = begin; i < end; i++)
        if (image[i] != 0)
            FAIL(INVALID, "%s: byte %" PRIu64 ": expected a zero between sections, found 0x%02x", path, i, image[i]);
    return ST_OK;
}

static status sections_check(const char *path, const struct graph_header *h)
{
    uint64_t offset = arena_bytes(sizeof *h);
    if (offset <= h->file_bytes) TRY(padding_check(path, h, sizeof *h, offset));
    for (uint32_t i = 0; i < SECTION_COUNT; i++) {
        size_t at = offsetof(struct graph_header, section) + i * sizeof h->section[0];
        if (h->section[i].offset != offset)
            FAIL(INVALID, "%s: byte %zu: expected the %s at byte %" PRIu64 ", found %" PRIu64, path, at,
                 sections[i].name, offset, h->section[i].offset);
        if (h->section[i].count > sections[i].count_max)
            FAIL(INVALID, "%s: byte %zu: expected at most %u %s, found %" PRIu64, path, at + 8, sections[i].count_max,
                 sections[i].name, h->section[i].count);
        uint64_t end = offset + h->section[i].count * sections[i].bytes;
        offset = arena_bytes(end);
        if (offset > h->file_bytes)
            FAIL(INVALID,
                 "%s: byte %zu: expected %s up to byte %" PRIu64 " at most, found %" PRIu64 " of them, which is more",
                 path, at + 8, sections[i].name, h->file_bytes, h->section[i].count);
        TRY(padding_check(path, h, end, offset));
    }
    if (offset != h->file_bytes)
        FAIL(INVALID, "%s: byte %" PRIu64 ": expected the end of the file, found %" PRIu64 " bytes more", path, offset,
             h->file_bytes - offset);
    return ST_OK;
}

static void sections_bind(struct graph *g, const uint8_t *image)
{
    const struct graph_header *h = g->header = (const void *)image;
    const void *at[SECTION_COUNT];
    uint32_t count[SECTION_COUNT];
    for (uint32_t i = 0; i < SECTION_COUNT; i++) {
        at[i] = image + h->section[i].offset;
        count[i] = (uint32_t)h->section[i].count;
    }
    g->text = at[SECTION_TEXT];
    g->strings = at[SECTION_STRINGS];
    g->tensors = at[SECTION_TENSORS];
    g->args = at[SECTION_ARGS];
    g->nodes = at[SECTION_NODES];
    g->layers = at[SECTION_LAYERS];
    g->fields = at[SECTION_FIELDS];
    g->denses = at[SECTION_DENSES];
    g->labels = at[SECTION_LABELS];
    g->vocabularies = at[SECTION_VOCABULARIES];
    g->words = at[SECTION_WORDS];
    g->label_count = count[SECTION_LABELS];
    g->vocabulary_count = count[SECTION_VOCABULARIES];
    g->word_count = count[SECTION_WORDS];
    g->tables = at[SECTION_TABLES];
    g->optimizers = at[SECTION_OPTIMIZERS];
    g->updates = at[SECTION_UPDATES];
    g->text_bytes = count[SECTION_TEXT];
    g->tensor_count = count[SECTION_TENSORS];
    g->arg_count = count[SECTION_ARGS];
    g->node_count = count[SECTION_NODES];
    g->layer_count = count[SECTION_LAYERS];
    g->field_count = count[SECTION_FIELDS];
    g->table_count = count[SECTION_TABLES];
    g->optimizer_count = count[SECTION_OPTIMIZERS];
    g->update_count = count[SECTION_UPDATES];
    for (; g->forward_count < g->node_count; g->forward_count++) {
        const struct graph_node *n = &g->nodes[g->forward_count];
        if (n->pass != PASS_FORWARD) break;
        g->lookup_count += n->op < OP_ID_COUNT && op_table[n->op].traits & OP_LOOKS_UP ? 1 : 0;
    }
}

status graph_bind(struct graph *graph, const char *path, const uint8_t *image, size_t bytes)
{
    memset(graph, 0, sizeof *graph);
    TRY(header_check(path, image, bytes));
    const struct graph_header *h = (const void *)image;
    TRY(sections_check(path, h));
    struct graph g = {.bytes = bytes};
    sections_bind(&g, image);
    TRY(graph_check(&g, path, image));
    *graph = g;
    return ST_OK;
}

/* --- files ------------------------------------------------------------------------------------ */

/* The bytes of the graph in a file: those before a model, if one follows it, else all. */
static uint64_t graph_bytes_of(int fd, uint64_t file_bytes)
{
    struct graph_header header;
    char magic[sizeof header.magic];
    const bool is_graph = pread(fd, &header, sizeof header, 0) == (ssize_t)sizeof header &&
                          memcmp(header.magic, GRAPH_MAGIC, sizeof header.magic) == 0;
    if (!is_graph || header.file_bytes >= file_bytes) return file_bytes;
    const bool has_model = pread(fd, magic, sizeof magic, (off_t)header.file_bytes) == (ssize_t)sizeof magic &&
                           memcmp(magic, GRAPH_MODEL_MAGIC, sizeof magic) == 0;
    return has_model ? header.file_bytes : file_bytes;
}

/* Reads an open file, without a model in it. Returns *image, malloc'd. */
static status file_read(int fd, const char *path, uint8_t **image, size_t *bytes)
{
    struct stat file;
    if (fstat(fd, &file) != 0) FAIL(IO, "%s: %s", path, strerror(errno));
    if (!S_ISREG(file.st_mode)) FAIL(IO, "%s: expected a graph file, found %s", path, file_kind_name(file.st_mode));
    const uint64_t graph_bytes = graph_bytes_of(fd, (uint64_t)file.st_size);
    if (graph_bytes > GRAPH_BYTES_MAX)
        FAIL(INVALID, "%s: expected a graph of at most %zu bytes, found %" PRIu64, path, GRAPH_BYTES_MAX, graph_bytes);
    size_t expected = (size_t)graph_bytes, done = 0;
    uint8_t *block = aligned_alloc(CACHE_LINE_BYTES, arena_bytes(expected + 1));
    if (block == NULL) FAIL(MEMORY, "%s: no memory for %zu bytes", path, expected);
    while (done < expected) {
        ssize_t got = read(fd, block + done, expected - done);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) {
            status st = status_fail(ST_IO, __FILE__, __LINE__, "%s: byte %zu: expected %zu bytes, found %s", path, done,
                                    expected, got < 0 ? strerror(errno) : "the end of the file");
            free(block);
            return st;
        }
        done += (size_t)got;
    }
    *image = block;
    *bytes = expected;
    return ST_OK;
}

status graph_open(struct graph *graph, const char *path)
{
    memset(graph, 0, sizeof *graph);
    /* Non-blocking: a pipe is refused, not waited for. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) FAIL(IO, "%s: %s", path, strerror(errno));
    uint8_t *image = NULL;
    size_t bytes = 0;
    status st = file_read(fd, path, &image, &bytes);
    close(fd);
    if (st == ST_OK) st = graph_bind(graph, path, image, bytes);
    if (st == ST_OK)
        graph->owned = image;
    else
        free(image);
    return st;
}

status graph_open_memory(struct graph *graph, const char *path, const uint8_t *image, size_t bytes)
{
    CHECK((uintptr_t)image % _Alignof(struct graph_header) == 0);
    TRY(graph_bind(graph, path, image, bytes));
    return ST_OK;
}

void graph_close(struct graph *graph)
{
    free(graph->joined_records);
    free(graph->owned);
    memset(graph, 0, sizeof *graph);
}

status graph_write(const struct graph *graph, const char *path)
{
    struct file_writer writer = {0};
    status st = file_writer_open(&writer, path);
    const void *image = graph->owned ? graph->owned : (const void *)graph->header;
    if (st == ST_OK) st = file_writer_put(&writer, image, graph->bytes);
    if (st == ST_OK) st = file_writer_commit(&writer);
    if (st != ST_OK) file_writer_abort(&writer);
    return st;
}

/* --- questions -------------------------------------------------------------------------------- */
