/* Any bytes as a libsvm, libfm or libffm file: the first two choose the format and the
 * options, the rest is the file. */
#define FUZZ_NAME "libsvm"
#include "tests/fuzz/driver.h"

#include "tests/fuzz/format.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static const struct reader_column
        all[] = {{.name = "features", .seed = 1, .ids_max = 5, .vocabulary = READER_NONE}},
        places[] = {{.name = "F2", .seed = 1, .ids_max = 1, .vocabulary = READER_NONE},
                    {.name = "features", .seed = 1, .ids_max = 3, .vocabulary = READER_NONE},
                    {.name = "F1", .seed = 2, .ids_max = 2, .vocabulary = READER_NONE}},
        numbers[] = {{.name = "F17", .seed = 1, .ids_max = 2, .vocabulary = READER_NONE},
                     {.name = "F0", .seed = 1, .ids_max = 1, .vocabulary = READER_NONE},
                     {.name = "F1", .seed = 1, .ids_max = 1, .vocabulary = READER_NONE}},
        label[] = {{.name = "label", .vocabulary = READER_NONE}};
    static const enum reader_format formats[] = {READER_LIBSVM, READER_LIBFM, READER_LIBFFM};
    static const struct reader_column *const fields[] = {all, places, numbers};
    uint8_t flags = bytes ? data[0] : 0, more = bytes > 1 ? data[1] : 0;
    data += bytes < 2 ? bytes : 2;
    bytes -= bytes < 2 ? bytes : 2;
    uint32_t dialect = more % 3, field_count = dialect == 0 ? 1 : 3;
    struct reader_options options = {.format = formats[dialect], .paths = format_file(data, bytes), .part = "fuzz"};
    struct reader_schema *s = &options.schema;
    s->field = fields[dialect];
    s->label = label;
    s->example = (struct example_shape){.field_count = field_count, .label_count = 1, .has_value = !(more & 4)};
    for (uint32_t f = 0; f < field_count; f++) s->example.key_count_max += s->field[f].ids_max;
    s->example.has_group = dialect == 0 && (more & 8);
    s->group = "qid";
    s->label_map = more & 16 ? "1=1, *=0" : "";
    s->missing_is_key = flags & 2;
    s->ids_over_is_error = flags & 4;
    options.label_optional = flags & 8;
    options.bad_skip = flags & 16;
    options.bad_keep = (flags & 16) && (flags & 32);
    options.shuffle = flags & 64 ? 5 : 0;
    options.lines = flags & 128 ? READER_HELD_OUT : READER_ALL;
    options.held_out = 0.5f;
    format_check(&options);
    return 0;
}
