/* Any bytes as running text. */
#define FUZZ_NAME "tokens"
#include "tests/fuzz/text_reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static const char *const names[] = {"context", "next"};
    fuzz_text(data, bytes, (struct reader_options){.format = READER_TOKENS}, names, true);
    return 0;
}
