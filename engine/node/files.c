/* Files as blocks: a few a save, and a few when a training is resumed. */
#include "engine/node/files.h"

#include <string.h>

enum what { FILES_NAME, FILES_DATA, FILES_CLOSE, FILES_END, FILES_CUT };
struct word {
    uint32_t what, bytes; /* that follow, in the same block */
};
struct title {
    char name[FILES_NAME_BYTES];
    uint64_t bytes;
};
#define DATA_BYTES (TALK_BYTES - (uint32_t)sizeof(struct word))

/* --- out --------------------------------------------------------------------------------------- */

static status block_say(struct files_out *out, enum what what, const void *data, uint32_t bytes)
{
    uint8_t *at;
    const struct word word = {what, bytes};
    TRY(reduce_say_place(out->reduce, out->to, &at));
    memcpy(at, &word, sizeof word);
    if (bytes) memcpy(at + sizeof word, data, bytes);
    reduce_say(out->reduce, out->to, (uint32_t)sizeof word + bytes);
    return ST_OK;
}

static status title_say(struct files_out *out, const char *name, uint64_t bytes)
{
    struct title title = {.bytes = bytes};
    CHECK(strlen(name) < sizeof title.name); /* the name is a file's */
    memcpy(title.name, name, strlen(name));
    return block_say(out, FILES_NAME, &title, sizeof title);
}

static status out_open(struct file_sink *sink, const char *name)
{
    return title_say((struct files_out *)sink, name, 0);
}

static status out_put(struct file_sink *sink, const void *data, size_t bytes)
{
    const uint8_t *at = data;
    for (size_t count; bytes > 0; at += count, bytes -= count) {
        count = bytes < DATA_BYTES ? bytes : DATA_BYTES;
        TRY(block_say((struct files_out *)sink, FILES_DATA, at, (uint32_t)count));
    }
    return ST_OK;
}

static status out_close(struct file_sink *sink) { return block_say((struct files_out *)sink, FILES_CLOSE, NULL, 0); }

void files_out_begin(struct files_out *out, struct reduce *r, uint32_t to)
{
    *out = (struct files_out){.sink = {out_open, out_put, out_close}, .reduce = r, .to = to};
}

status files_out_put(struct files_out *out, const char *name, const void *data, size_t bytes)
{
    TRY(title_say(out, name, bytes));
    TRY(out_put(&out->sink, data, bytes));
    return out_close(&out->sink);
}

status files_out_end(struct files_out *out, status st)
{
    struct failure failure;
    failure_keep(&failure, st);
    TRY(block_say(out, st == ST_OK ? FILES_END : FILES_CUT, NULL, 0));
    return failure_adopt(&failure);
}

/* --- in ---------------------------------------------------------------------------------------- */

void files_in_begin(struct files_in *f, struct reduce *r, uint32_t from)
{
    *f = (struct files_in){.reduce = r, .from = from};
}

/* What comes is no file, and nothing more is heard. */
static status not_understood(struct files_in *f, const char *what)
{
    f->is_open = false;
    f->is_over = true;
    FAIL(INVALID, "node %u sends a file %s: it does not run the same program", reduce_name(f->reduce, f->from), what);
}

/* Hears the next block, and holds it. */
static status block_hear(struct files_in *f, struct word *word, const uint8_t **data)
{
    const uint8_t *at;
    uint32_t bytes;
    if (f->is_held) reduce_heard(f->reduce, f->from);
    f->is_held = false;
    TRY(reduce_hear(f->reduce, f->from, &at, &bytes));
    f->is_held = true;
    if (bytes >= sizeof *word) memcpy(word, at, sizeof *word);
    /* Within a file come data, or the file's end; outside of a file a name, or the end of all. */
    const bool is_in_place = bytes >= sizeof *word && word->bytes == bytes - sizeof *word &&
                             (f->is_open ? (word->what == FILES_DATA && word->bytes > 0) || word->what == FILES_CLOSE
                                         : word->what == FILES_NAME || word->what == FILES_END);
    if (bytes < sizeof *word || (!is_in_place && word->what != FILES_CUT))
        return not_understood(f, "that cannot be understood");
    *data = at + sizeof *word;
    if (word->what == FILES_CLOSE) f->is_open = false;
    if (word->what == FILES_END || word->what == FILES_CUT) f->is_open = false, f->is_over = true;
    return ST_OK;
}

status files_in_data(struct files_in *f, const uint8_t **data, size_t *bytes)
{
    struct word word;
    *bytes = 0;
    if (!f->is_open) return ST_OK;
    TRY(block_hear(f, &word, data));
    if (word.what == FILES_CUT)
        FAIL(PEER_LOST, "node %u has not sent %s to its end", reduce_name(f->reduce, f->from), f->name);
    if (word.what == FILES_DATA) *bytes = word.bytes;
    return ST_OK;
}

static status title_take(struct files_in *f, const uint8_t *data, uint32_t bytes)
{
    struct title title = {0};
    if (bytes == sizeof title) memcpy(&title, data, sizeof title);
    memcpy(f->name, title.name, sizeof f->name);
    f->bytes = title.bytes;
    if (memchr(f->name, 0, sizeof f->name) && f->name[0] && f->name[0] != '.' && !strchr(f->name, '/')) return ST_OK;
    return not_understood(f, "without a name");
}

status files_in_next(struct files_in *f, bool *is_one)
{
    const uint8_t *data = NULL;
    struct word word = {0};
    *is_one = false;
    while (f->is_open) TRY(block_hear(f, &word, &data));
    if (f->is_over) return ST_OK;
    TRY(block_hear(f, &word, &data));
    if (word.what != FILES_NAME) return ST_OK;
    TRY(title_take(f, data, word.bytes));
    f->is_open = *is_one = true;
    return ST_OK;
}

status files_in_end(struct files_in *f, status st)
{
    struct failure failure;
    bool is_one = true;
    failure_keep(&failure, st);
    while (is_one) {
        const status heard = files_in_next(f, &is_one);
        if (heard == ST_OK) continue;
        if (!failure_is(&failure)) failure_keep(&failure, heard);
        break;
    }
    if (f->is_held) reduce_heard(f->reduce, f->from);
    f->is_held = false;
    return failure_adopt(&failure);
}
