/* The Open Inference Protocol's `infer`, version 2, without HTTP: a request of tensors, in JSON or behind it in
 * binary, into lines of the data's format; and lines of predictions into the tensors of an answer.
 *
 *     {"inputs": [{"name": "age", "datatype": "FP32", "shape": [2], "data": [39, 40]}, …]}
 *         ──inference_read──▶ 2 lines
 *     0.25⏎0.75⏎
 *         ──inference_answer──▶ {"outputs": [{"name": "bce", "datatype": "FP32", "shape": [2], "data": [0.25, 0.75]}]}
 *
 * An input is a column, of any datatype: texts are what the column's text would be in a file, numbers are written as
 * the file would have them. Its shape is [examples] or [examples, n], where n keys of a list are put together by the
 * format's separator of lists. Columns without an input are absent. */
#ifndef HETERPS_ENGINE_SERVE_INFERENCE_H
#define HETERPS_ENGINE_SERVE_INFERENCE_H

#include <jansson.h>

#include "engine/serve/line.h"

/* Of the JSON of a request; larger tensors go in binary. */
#define INFERENCE_JSON_BYTES ((size_t)512 << 10)
/* Of memory that reading it may take meanwhile. */
#define INFERENCE_MEMORY_BYTES ((size_t)48 << 20)

struct inference_output {
    const char *name;
    uint32_t width; /* numbers of an example                     */
    bool is_texts;  /* BYTES, at most `width` of an example, separated by tabs; else FP32 */
    bool is_wanted, is_binary;
};

struct inference {
    json_t *json;
    const char *id; /* or NULL */
    uint32_t example_count;
    struct inference_output *outputs; /* [output_count] */
    uint32_t output_count;
};

/* Reads a body whose JSON has the first json_bytes of it, and puts its lines. Of `outputs` [output_count], which the
 * caller made and lends, notes which are wanted and how. INVALID: what is wrong, or more lines than serve.body;
 * MEMORY. inference_free in any case. */
MUST_USE status inference_read(struct inference *in, const struct lines *lines, struct inference_output *outputs,
                               uint32_t output_count, const uint8_t *body, size_t bytes, size_t json_bytes,
                               struct evbuffer *to);
/* The answer's JSON, and the binary tensors that go behind it. `text` [bytes], with a 0 behind, is example_count
 * lines, each as prediction_write has them: output i between tabs, its numbers between spaces. MEMORY. */
MUST_USE status inference_answer(const struct inference *in, const char *model, const char *version, const char *text,
                                 size_t bytes, struct evbuffer *json, struct evbuffer *binary);
void inference_free(struct inference *in);

/* A text in quotation marks, as JSON has it; bytes that are not UTF-8 become question marks. */
void inference_text_put(struct evbuffer *to, const char *text, size_t bytes);

#endif
