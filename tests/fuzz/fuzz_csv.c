/* Any bytes as a csv file: the first two choose the options, then comes a label map up to a line end (it is
 * used where it is one), the rest is the file. */
#define FUZZ_NAME "csv"
#include "tests/fuzz/driver.h"

#include "tests/fuzz/format.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static const char *const text[] = {"a", "<unk>", ""};
    static const struct reader_vocabulary words[] = {{.word_count = 1, .unknown = READER_NONE, .text = text},
                                                     {.word_count = 3, .unknown = 1, .text = text}};
    static const struct reader_column dense[] = {{.name = "x", .scale = 1}, {.name = "y", .mean = 1, .scale = 2}},
                                      plain[] = {{.name = "f", .seed = 1, .ids_max = 1, .vocabulary = READER_NONE},
                                                 {.name = "g", .seed = 2, .ids_max = 3, .vocabulary = READER_NONE}},
                                      worded[] = {{.name = "f", .seed = 1, .ids_max = 1, .vocabulary = 0},
                                                  {.name = "g", .seed = 2, .ids_max = 3, .vocabulary = 1}},
                                      label[] = {{.name = "l", .vocabulary = READER_NONE},
                                                 {.name = "m", .vocabulary = READER_NONE}},
                                      word_label[] = {{.name = "l", .vocabulary = READER_NONE},
                                                      {.name = "m", .vocabulary = 1}};
    uint8_t flags = bytes ? data[0] : 0, more = bytes > 1 ? data[1] : 0;
    data += bytes < 2 ? bytes : 2;
    bytes -= bytes < 2 ? bytes : 2;
    const uint8_t *map_end = bytes ? memchr(data, '\n', bytes) : NULL;
    char map[256] = "";
    if (map_end) {
        size_t map_bytes = (size_t)(map_end - data);
        if (map_bytes < sizeof map) memcpy(map, data, map_bytes);
        bytes -= map_bytes + 1;
        data = map_end + 1;
    }
    struct reader_options options = {.format = READER_CSV, .paths = format_file(data, bytes), .part = "fuzz"};
    struct reader_schema *s = &options.schema;
    s->example = (struct example_shape){
        .dense_count = 2, .dense_stride = 3, .field_count = 2, .key_count_max = 4, .label_count = 2};
    s->example.has_weight = more & 1;
    s->example.has_group = more & 2;
    s->dense = dense;
    s->field = more & 4 ? worded : plain;
    s->label = more & 4 ? word_label : label;
    s->vocabulary = words;
    s->vocabulary_count = 2;
    s->weight = "x";
    s->group = "f";
    s->label_map = more & 8 ? map : "";
    s->has_header = !(more & 16);
    s->columns = more & 16 ? "l,m,f,g,x,y,z1..z3" : "";
    s->has_quotes = !(more & 32);
    s->separator = more & 64 ? ' ' : ',';
    s->list_separator = '|';
    s->missing_text = more & 128 ? "?" : "";
    s->log1p = flags & 1;
    s->missing_is_key = flags & 2;
    s->ids_over_is_error = flags & 4;
    options.label_optional = flags & 8;
    options.bad_skip = flags & 16;
    options.bad_keep = (flags & 16) && (flags & 32);
    options.shuffle = flags & 64 ? 5 : 0;
    options.lines = flags & 128 ? READER_TRAIN : READER_ALL;
    options.held_out = 0.5f;
    format_check(&options);
    return 0;
}
