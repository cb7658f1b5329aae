/* A set-up of a csv format with two columns, by hand: for test_inference and fuzz_inference. */
#ifndef HETERPS_TESTS_INFERENCE_TEST_H
#define HETERPS_TESTS_INFERENCE_TEST_H

#include "engine/serve/inference.h"

static const struct reader_column inference_dense[] = {{.name = "age"}},
                                  inference_field[] = {{.name = "job", .ids_max = 3}};
static const struct setup inference_setup = {
    .settings = {.data_format = DATA_CSV, .serve_body = 4096, .serve_values = 2048},
    .schema.reader = {.example = {.dense_count = 1, .field_count = 1},
                      .dense = inference_dense,
                      .field = inference_field,
                      .separator = ',',
                      .list_separator = '|',
                      .has_header = true,
                      .has_quotes = true,
                      .columns = ""}};

#define INFERENCE_OUTPUTS 3u
/* A number, three numbers, and up to two texts. */
static inline void inference_outputs(struct inference_output *outputs, bool texts)
{
    outputs[0] = (struct inference_output){.name = "bce", .width = 1};
    outputs[1] = (struct inference_output){.name = "classes", .width = 3};
    outputs[2] = (struct inference_output){.name = "words", .width = 2, .is_texts = texts};
}

#endif
