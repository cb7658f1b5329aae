/* Any bytes as a text that a client sends (io/read/reader_texts.h): the first byte chooses the format, the
 * rest is the text, which has to give what a file of the same bytes gives. */
#define FUZZ_NAME "texts"
#include "tests/fuzz/driver.h"

#include "tests/fuzz/format.h"
#include "tests/io/read/texts_test.h"

static const struct reader_column dense[] = {{.name = "I1", .scale = 1}, {.name = "I2", .scale = 1}},
                                  field[] = {{.name = "C1", .seed = 7, .ids_max = 1, .vocabulary = READER_NONE},
                                             {.name = "C2", .seed = 8, .ids_max = 3, .vocabulary = READER_NONE}},
                                  bag[] = {{.name = "features", .seed = 9, .ids_max = 4, .vocabulary = READER_NONE}},
                                  pair[] = {{.name = "user", .seed = 3, .ids_max = 1, .vocabulary = READER_NONE},
                                            {.name = "item", .seed = 4, .ids_max = 1, .vocabulary = READER_NONE}},
                                  words[] = {{.name = "context", .seed = 5, .ids_max = 3, .vocabulary = READER_NONE}},
                                  label[] = {{.name = "label", .vocabulary = READER_NONE}};

static struct reader_schema schema_of(enum reader_format format, bool has_header)
{
    struct reader_schema s = {
        .dense = dense,
        .field = field,
        .label = label,
        .example = {.dense_count = 2, .dense_stride = 2, .field_count = 2, .key_count_max = 4, .label_count = 1},
        .has_header = has_header,
        .has_quotes = true,
        .columns = has_header ? "" : "label,I1,I2,C1,C2",
        .separator = ',',
        .list_separator = '|',
        .window = 3};
    if (format == READER_LIBSVM) {
        s.field = bag;
        s.example = (struct example_shape){.field_count = 1, .key_count_max = 4, .label_count = 1, .has_value = true};
    } else if (format == READER_PAIRS) {
        s.field = pair;
        s.example = (struct example_shape){.field_count = 2, .key_count_max = 2, .has_group = true};
    } else if (format == READER_TOKENS) {
        s.field = words;
        s.example = (struct example_shape){.field_count = 1, .key_count_max = 3};
    }
    return s;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static const enum reader_format formats[] = {READER_CRITEO, READER_CSV, READER_LIBSVM, READER_PAIRS, READER_TOKENS};
    const uint8_t choice = bytes ? data[0] : 0;
    data += bytes > 0;
    bytes -= bytes > 0;
    /* A file that is packed is unpacked; a text is not. */
    if (bytes > 1 && (data[0] == 0x1f || data[0] == 0x28 || (data[0] & 0xf0) == 0x50)) return 0;
    const enum reader_format format = formats[choice % 5];
    const struct reader_options options = {
        .format = format, .paths = format_file(data, bytes), .schema = schema_of(format, choice & 128), .part = "fuzz"};
    const char *differs = texts_as_file(options, (const char *)data, bytes);
    if (differs) fprintf(stderr, "%s\n", differs);
    must(differs == NULL);
    return 0;
}
