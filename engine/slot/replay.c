/* Reads micro-batches and gives them again. What is copied a step (numbers, labels) is a tenth of what is not
 * (keys and where they belong). */
#include "engine/slot/replay.h"

#include <inttypes.h>
#include <string.h>

#include "engine/base/paths.h"

static struct replay *replay_of(struct reader *reader) { return (struct replay *)reader; }

static status replay_start(struct reader *reader, struct reader_pass pass)
{
    (void)pass;
    replay_of(reader)->given = 0;
    return ST_OK;
}

static status replay_fill(struct reader *reader, struct micro_batch *m, uint32_t limit, bool *end)
{
    struct replay *r = replay_of(reader);
    const struct example_shape shape = reader->shape;
    const uint32_t micro_count = r->step_count * batch_micro_count(r->shape);
    const struct micro_batch *from = &r->micro[r->given / r->shape.micro % micro_count];
    size_t count = from->example_count;
    CHECK(m->example_count == 0 && limit == r->shape.micro && r->given % limit == 0);
    m->example_count = from->example_count;
    m->key_count = from->key_count;
    m->key = from->key;
    m->value = from->value;
    m->key_home = from->key_home;
    m->key_begin = from->key_begin;
    /* Copied, because the views of tensors point to these places. */
    memcpy(m->label, from->label, count * shape.label_count * sizeof *m->label);
    memcpy(m->dense, from->dense, count * shape.dense_stride * sizeof *m->dense);
    memcpy(m->is_bad, from->is_bad, count * sizeof *m->is_bad);
    if (m->weight) memcpy(m->weight, from->weight, count * sizeof *m->weight);
    if (m->group) memcpy(m->group, from->group, count * sizeof *m->group);
    r->given += count;
    *end = false;
    return ST_OK;
}

static status replay_skip(struct reader *reader, uint64_t count, uint64_t *passed, bool *end)
{
    replay_of(reader)->given += count;
    *passed = count;
    *end = false;
    return ST_OK;
}

static const struct reader_vt replay_vt = {.start = replay_start, .fill = replay_fill, .skip = replay_skip};

static void replay_layout(struct layout *l, struct replay *r, uint32_t micro_count)
{
    struct micro_batch *micro;
    LAYOUT_TAKE(l, micro, micro_count);
    l->bytes += micro_count * micro_batch_bytes(r->shape, r->reader.shape);
    if (!l->arena) return;
    r->micro = micro;
    for (uint32_t i = 0; i < micro_count; i++) micro_batch_place(&micro[i], l->arena, r->shape, r->reader.shape);
}

static status steps_read(struct replay *r, struct reader *reader, uint32_t step_count)
{
    uint32_t micros = batch_micro_count(r->shape);
    bool is_end = false;
    TRY(reader_start(reader, 0));
    for (uint32_t i = 0; i < step_count * micros; i++) {
        TRY(reader_fill(reader, &r->micro[i], r->shape.micro, &is_end));
        if (r->micro[i].example_count < r->shape.micro) break;
        r->step_count = (i + 1) / micros;
    }
    return ST_OK;
}

status replay_open(struct replay *r, const struct graph *graph, const struct reader_options *options,
                   uint32_t step_count)
{
    *r = (struct replay){.reader = {.vt = &replay_vt, .paths = "memory", .shape = graph_example(graph)},
                         .shape = graph_batch(graph)};
    uint32_t micro_count = step_count * batch_micro_count(r->shape);
    struct layout sum = {0};
    replay_layout(&sum, r, micro_count);
    TRY(arena_open(&r->arena, "replay", sum.bytes));
    struct layout place = {.arena = &r->arena};
    replay_layout(&place, r, micro_count);
    struct reader *reader;
    TRY(reader_open(&reader, options));
    status st = steps_read(r, reader, step_count);
    reader_close(reader);
    TRY(st);
    char shown[PATHS_SHOWN_BYTES];
    if (r->step_count == 0)
        FAIL(INVALID, "%s: a step has %u examples, found fewer; give more data or a smaller train.batch",
             paths_shown(shown, options->paths), r->shape.batch);
    return ST_OK;
}

void replay_close(struct replay *r)
{
    arena_close(&r->arena);
    *r = (struct replay){0};
}
