/* Any bytes as a request of the inference protocol (engine/serve/inference.h): the first two
 * say how many of them are JSON. A request that is read gives as many lines as it has
 * examples, and an answer that is JSON. */
#define FUZZ_NAME "inference"
#include "tests/fuzz/driver.h"

#include "tests/engine/serve/inference_test.h"

static void must(bool condition)
{
    if (!condition) abort();
}

static void answer_check(const struct inference *in, struct evbuffer *json, struct evbuffer *binary)
{
    static const char line[] = "0.25\t1 2 3\n";
    struct evbuffer *text = evbuffer_new();
    must(text != NULL);
    for (uint32_t e = 0; e < in->example_count; e++) must(evbuffer_add(text, line, sizeof line - 1) == 0);
    const size_t bytes = evbuffer_get_length(text);
    must(evbuffer_add(text, "", 1) == 0);
    must(inference_answer(in, "m", "7", (const char *)evbuffer_pullup(text, -1), bytes, json, binary) == ST_OK);
    json_error_t error;
    json_t *read = json_loadb((const char *)evbuffer_pullup(json, -1), evbuffer_get_length(json), 0, &error);
    must(json_is_object(read) && json_is_array(json_object_get(read, "outputs")));
    json_decref(read);
    evbuffer_free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct lines lines;
    struct inference in;
    struct inference_output outputs[INFERENCE_OUTPUTS];
    struct evbuffer *to = evbuffer_new(), *json = evbuffer_new(), *binary = evbuffer_new();
    size_t json_bytes = bytes >= 2 ? data[0] | (size_t)data[1] << 8 : 0;
    const size_t skip = bytes < 2 ? bytes : 2;
    data += skip;
    bytes -= skip;
    if (json_bytes == 0xffff) json_bytes = bytes;
    must(to && json && binary && lines_open(&lines, &inference_setup) == ST_OK);
    inference_outputs(outputs, false);
    status st = inference_read(&in, &lines, outputs, 2, data, bytes, json_bytes, to);
    must(st == ST_OK || st == ST_INVALID);
    if (st == ST_OK) {
        size_t count = 0;
        const size_t length = evbuffer_get_length(to);
        const uint8_t *text = evbuffer_pullup(to, -1);
        for (size_t i = 0; i < length; i++) count += text[i] == '\n';
        must(count == (in.example_count ? in.example_count + 1u : 0)); /* names first */
        answer_check(&in, json, binary);
    }
    inference_free(&in);
    lines_close(&lines);
    evbuffer_free(to);
    evbuffer_free(json);
    evbuffer_free(binary);
    return 0;
}
