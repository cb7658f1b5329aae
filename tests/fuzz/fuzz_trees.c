/* Any bytes as bracketed trees: the first chooses the options, the rest is the file. What is read are keys of whole trees. */
#define FUZZ_NAME "trees"
#include "tests/fuzz/driver.h"

#include "engine/base/tree.h"
#include "tests/fuzz/format.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static const struct reader_kind kinds[] = {
        {"leaf", 0, 1, false, false}, {"inner", 1, TREE_CHILDREN_MAX, false, false}, {"const", 0, 0, false, true}};
    static const struct reader_column fields[] = {{.name = "word", .seed = 1, .ids_max = 5, .vocabulary = READER_NONE},
                                                  {.name = "tree", .seed = 1, .ids_max = 9, .vocabulary = READER_NONE}},
                                      label[] = {{.name = "label", .vocabulary = READER_NONE}};
    uint8_t flags = bytes ? data[0] : 0;
    data += bytes > 0;
    bytes -= bytes > 0;
    struct reader_options options = {.format = READER_TREES, .paths = format_file(data, bytes), .part = "fuzz"};
    struct reader_schema *s = &options.schema;
    s->field = flags & 1 ? fields + 1 : fields;
    s->label = label;
    s->example =
        (struct example_shape){.field_count = flags & 1 ? 1 : 2, .key_count_max = 14, .label_count = flags & 2 ? 1 : 0};
    s->kind = kinds;
    s->kind_count = flags & 4 ? 3 : 2;
    options.label_optional = flags & 8;
    options.bad_skip = flags & 16;
    options.bad_keep = (flags & 16) && (flags & 32);
    options.shuffle = flags & 64 ? 5 : 0;
    options.lines = flags & 128 ? READER_HELD_OUT : READER_ALL;
    options.held_out = 0.5f;
    format_check(&options);
    return 0;
}
