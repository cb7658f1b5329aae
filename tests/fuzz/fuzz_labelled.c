/* Any bytes as lines that a client sends, and as labels that it sends later
 * (engine/serve/labelled.h): the first byte chooses the format, the first 0 behind it parts lines and
 * labels. What comes of them are whole lines. */
#define FUZZ_NAME "labelled"
#include "tests/fuzz/driver.h"

#include "cfg/settings.h"
#include "tests/engine/serve/labelled_test.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static const uint32_t formats[] = {DATA_CSV, DATA_CRITEO, DATA_LIBSVM, DATA_PAIRS};
    const uint8_t choice = bytes ? data[0] : 0;
    if (bytes) data++, bytes--;
    const struct setup setup = labelled_setup(choice & 4 ? DATA_TREES : formats[choice % 4], choice & 64 ? 2 : 1,
                                              choice & 128 ? "a, click, b, buy" : NULL);
    const uint8_t *stop = memchr(data, 0, bytes);
    const size_t text_bytes = stop ? (size_t)(stop - data) : bytes, label_bytes = stop ? bytes - text_bytes - 1 : 0;
    struct evbuffer *to = evbuffer_new();
    if (to == NULL) return 0;
    const status st =
        labelled_put(&setup, (const char *)data, text_bytes, stop ? (const char *)stop + 1 : "", label_bytes, to);
    const size_t put_bytes = evbuffer_get_length(to);
    if (st == ST_OK && put_bytes) {
        const char *put = (const char *)evbuffer_pullup(to, -1);
        CHECK(put != NULL && put[put_bytes - 1] == '\n');
    }
    evbuffer_free(to);
    return 0;
}
