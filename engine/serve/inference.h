/* The Open Inference Protocol's `infer`, version 2, without HTTP. Makes lines of the data's format
 * from a request's tensors, which are in the JSON or in binary behind it; and the tensors of an
 * answer from lines of predictions.
 *
 *     {"inputs": [{"name": "age", "datatype": "FP32", "shape": [2], "data": [39, 40]}, …]}
 *         ──inference_read──▶ 2 lines
 *     0.25⏎0.75⏎
 *         ──inference_answer──▶ {"outputs": [{"name": "bce", "datatype": "FP32", "shape": [2], "data": [0.25, 0.75]}]}
 *
 * An input is a column, of any datatype: a text is the column's text in a file, a number is written as in a
 * file. Its shape is [examples], or [examples, n] for a list of n keys, which the format's separator joins. A
 * column without an input is absent. */
#ifndef HETERPS_ENGINE_SERVE_INFERENCE_H
#define HETERPS_ENGINE_SERVE_INFERENCE_H

#include <jansson.h>

#include "engine/serve/line.h"

/* The largest JSON of a request; larger tensors go in binary. */
#define INFERENCE_JSON_BYTES ((size_t)512 << 10)
/* The most memory that reading the JSON may take. */
#define INFERENCE_MEMORY_BYTES ((size_t)48 << 20)

struct inference_output {
    const char *name;
    uint32_t width; /* numbers of an example */
    bool is_texts;  /* datatype BYTES: at most `width` texts of an example, separated by tabs; else FP32 */
    bool is_wanted, is_binary;
};

struct inference {
    json_t *json;
    const char *id; /* or NULL */
    uint32_t example_count;
    struct inference_output *outputs; /* [output_count] */
    uint32_t output_count;
};

/* Reads a body, whose first json_bytes are the JSON, and writes its lines to `to`. Notes in `outputs`
 * [output_count], which the caller has made and lends, which ones the request wants, and how.
 * INVALID: the request is wrong (the message says where), or has more lines than serve.body; FULL: more
 * values than serve.values; MEMORY. Call inference_free in any case. */
MUST_USE status inference_read(struct inference *in, const struct lines *lines, struct inference_output *outputs,
                               uint32_t output_count, const uint8_t *body, size_t bytes, size_t json_bytes,
                               struct evbuffer *to);
/* Writes the answer's JSON, and the binary tensors behind it. `text` [bytes], with a 0
 * behind, has example_count lines as prediction_write makes them: tabs between outputs,
 * spaces between an output's numbers. MEMORY. */
MUST_USE status inference_answer(const struct inference *in, const char *model, const char *version, const char *text,
                                 size_t bytes, struct evbuffer *json, struct evbuffer *binary);
void inference_free(struct inference *in);

/* Writes a text as JSON, in quotation marks; bytes that are not UTF-8 become question marks. */
void inference_text_put(struct evbuffer *to, const char *text, size_t bytes);

#endif
