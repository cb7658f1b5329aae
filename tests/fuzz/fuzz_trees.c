/* Any bytes as bracketed trees: the first two choose the options, the rest is the file. What is read are keys
 * of whole trees, whose nodes have what their kinds say. */
#define FUZZ_NAME "trees"
#include "tests/fuzz/driver.h"

#include "engine/base/tree.h"
#include "tests/fuzz/format.h"

#define WORDS 5u
#define NODES 9u

/* The nodes of an example that was read, whose field tree is the last one. */
static void nodes_check(const struct reader_schema *s, const struct micro_batch *m, uint32_t example)
{
    uint8_t kind[NODES];
    float number[NODES];
    uint32_t word[NODES], begin[NODES + 1] = {0}, child[NODES], stack[NODES];
    struct tree_nodes nodes = {.kind = kind, .number = number, .word = word, .child_begin = begin, .child = child};
    const uint32_t fields = s->example.field_count, home = example * fields + fields - 1;
    const uint32_t first = m->key_begin[home], count = m->key_begin[home + 1] - first;
    const uint32_t words = fields > 1 ? first - m->key_begin[home - 1] : 0;
    uint32_t word_count = 0;
    must(count > 0 && tree_nodes_add(&nodes, m->key + first, count, words, s->kind_count, stack) == NULL);
    for (uint32_t i = 0; i < nodes.count; i++) {
        const struct reader_kind *k = &s->kind[kind[i]];
        const uint32_t children = begin[i + 1] - begin[i];
        must(children >= k->children_min && children <= k->children_max && !isinf(number[i]));
        must(!k->needs_number || isfinite(number[i]));
        must(!k->needs_word || fields == 1 || word[i] != TREE_NONE);
        word_count += word[i] != TREE_NONE;
    }
    must(word_count == words);
}

static void trees_check(const struct reader_options *o)
{
    const struct batch_shape batch = {.batch = FORMAT_MICRO, .micro = FORMAT_MICRO, .lanes = 1};
    struct arena arena;
    struct micro_batch m;
    struct reader *reader;
    if (reader_open(&reader, o) != ST_OK) return;
    must(arena_open(&arena, "fuzz", micro_batch_bytes(batch, o->schema.example)) == ST_OK);
    micro_batch_place(&m, &arena, batch, o->schema.example);
    status st = reader_start(reader, 0);
    for (bool end = st != ST_OK; !end;) {
        micro_batch_clear(&m);
        st = reader_fill(reader, &m, FORMAT_MICRO, &end);
        if (fuzz_is_unpackable(st)) break;
        for (uint32_t e = 0; e < m.example_count; e++)
            if (!m.is_bad[e]) nodes_check(&o->schema, &m, e);
    }
    reader_close(reader);
    arena_close(&arena);
}

static status word_check(void *to, const char *text, size_t bytes, uint64_t count)
{
    (void)to;
    must(bytes > 0 && count > 0 && !memchr(text, ' ', bytes) && !memchr(text, '(', bytes) && !memchr(text, ')', bytes));
    return ST_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static const struct reader_kind kinds[] = {{"leaf", 0, 1, false, false},
                                               {"inner", 1, TREE_CHILDREN_MAX, false, false},
                                               {"const", 0, 0, false, true},
                                               {"name", 0, 2, true, false}};
    static const struct reader_column fields[] =
        {{.name = "word", .seed = 1, .ids_max = WORDS, .vocabulary = READER_NONE},
         {.name = "tree", .seed = 1, .ids_max = NODES, .vocabulary = READER_NONE}},
                                      label[] = {{.name = "label", .vocabulary = READER_NONE}};
    uint8_t flags = bytes ? data[0] : 0, more = bytes > 1 ? data[1] : 0;
    data += bytes < 2 ? bytes : 2;
    bytes -= bytes < 2 ? bytes : 2;
    struct reader_options options = {.format = READER_TREES, .paths = format_file(data, bytes), .part = "fuzz"};
    struct reader_schema *s = &options.schema;
    s->field = flags & 1 ? fields + 1 : fields;
    s->label = label;
    s->example = (struct example_shape){
        .field_count = flags & 1 ? 1 : 2, .key_count_max = WORDS + NODES, .label_count = flags & 2 ? 1 : 0};
    s->kind = kinds;
    s->kind_count = flags & 4 ? 4 : more & 1 ? 1 : 2;
    s->label_map = more & 2 ? "1=0, 2=1, *=2" : "";
    options.label_optional = flags & 8;
    options.bad_skip = flags & 16;
    options.bad_keep = (flags & 16) && (flags & 32);
    options.shuffle = flags & 64 ? 5 : 0;
    options.lines = flags & 128 ? READER_HELD_OUT : READER_ALL;
    options.held_out = 0.5f;
    format_check(&options);
    trees_check(&options);
    const status st = reader_words_count(&options, "word", WORDS, word_check, NULL);
    must(st == ST_OK || st == ST_INVALID || fuzz_is_unpackable(st));
    return 0;
}
