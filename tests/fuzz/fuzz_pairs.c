/* Any bytes as a file of pairs. */
#define FUZZ_NAME "pairs"
#include "tests/fuzz/text_reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static const char *const names[] = {"user", "item"};
    fuzz_text(data, bytes, (struct reader_options){.format = READER_PAIRS, .schema.example.has_group = true}, names,
              false);
    return 0;
}
