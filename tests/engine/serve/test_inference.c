/* The inference protocol: tensors into lines, in JSON and in binary, of all datatypes; lines into tensors;
 * and what is wrong with a request. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "tests/engine/serve/inference_test.h"

static struct lines lines;
static struct inference_output outputs[INFERENCE_OUTPUTS];
static struct evbuffer *to;

static status read_body(struct inference *in, const char *json, const void *binary, size_t binary_bytes)
{
    static uint8_t body[1 << 21];
    const size_t json_bytes = strlen(json);
    memcpy(body, json, json_bytes);
    if (binary_bytes) memcpy(body + json_bytes, binary, binary_bytes);
    evbuffer_drain(to, evbuffer_get_length(to));
    inference_outputs(outputs, false);
    return inference_read(in, &lines, outputs, 2, body, json_bytes + binary_bytes, json_bytes, to);
}

static void buffer_is(struct evbuffer *buffer, const char *expected)
{
    assert_int_equal(evbuffer_add(buffer, "", 1), 0);
    assert_string_equal((const char *)evbuffer_pullup(buffer, -1), expected);
}

static void reads(const char *json, const void *binary, size_t binary_bytes, const char *expected)
{
    struct inference in;
    if (read_body(&in, json, binary, binary_bytes) != ST_OK) fail_msg("%s: %s", json, status_message());
    buffer_is(to, expected);
    inference_free(&in);
}

static void fails(const char *json, const void *binary, size_t binary_bytes, const char *words)
{
    struct inference in;
    assert_int_equal(read_body(&in, json, binary, binary_bytes), ST_INVALID);
    if (!strstr(status_message(), words)) fail_msg("%s: \"%s\" lacks \"%s\"", json, status_message(), words);
    inference_free(&in);
}

#define INPUT(name, type, shape, rest) "{\"name\":\"" name "\",\"datatype\":\"" type "\",\"shape\":" shape "," rest "}"
#define REQUEST(...)                   "{\"inputs\":[" __VA_ARGS__ "]}"
#define BINARY(n)                      "\"parameters\":{\"binary_data_size\":" #n "}"

static void inference__json__becomes_lines(void **state)
{
    (void)state;
    reads(REQUEST(INPUT("age", "FP32", "[2]", "\"data\":[39,0.1]") "," INPUT("job", "BYTES", "[2,1]",
                                                                             "\"data\":[\"a, b\",\"\"]")),
          NULL, 0, "age,job\n39,\"a, b\"\n0.10000000000000001,\n");
    reads(REQUEST(INPUT("job", "BYTES", "[2,2]", "\"data\":[[\"a\",\"b\"],[7,null]]")), NULL, 0,
          "age,job\n,a|b\n,7|\n");
    reads(REQUEST(INPUT("job", "INT64", "[1,3]", "\"data\":[-9223372036854775808,0,9223372036854775807]")), NULL, 0,
          "age,job\n,-9223372036854775808|0|9223372036854775807\n");
    reads(REQUEST(INPUT("job", "BOOL", "[2]", "\"data\":[true,false]")), NULL, 0, "age,job\n,1\n,0\n");
    reads(REQUEST(INPUT("age", "FP64", "[0]", "\"data\":[]")), NULL, 0, "");
}

static void inference__binary__becomes_lines(void **state)
{
    (void)state;
    const float floats[] = {39, 0.1f};
    const char texts[] = "\4\0\0\0"
                         "cook"
                         "\0\0\0\0";
    char both[sizeof floats + sizeof texts];
    memcpy(both, floats, sizeof floats);
    memcpy(both + sizeof floats, texts, sizeof texts);
    reads(REQUEST(INPUT("age", "FP32", "[2]", BINARY(8)) "," INPUT("job", "BYTES", "[2]", BINARY(12))), both, 20,
          "age,job\n39,cook\n0.100000001,\n");
    const double doubles[] = {0.1};
    reads(REQUEST(INPUT("age", "FP64", "[1]", BINARY(8))), doubles, 8, "age,job\n0.10000000000000001,\n");
    const uint8_t ones[8] = {255, 255, 255, 255, 255, 255, 255, 255}, low[8] = {0, 0, 0, 128};
    static const struct {
        const char *type, *of_ones;
        uint32_t bytes;
    } integers[] = {
        {"INT8", "-1", 1},   {"INT16", "-1", 2},     {"INT32", "-1", 4},          {"INT64", "-1", 8},
        {"UINT8", "255", 1}, {"UINT16", "65535", 2}, {"UINT32", "4294967295", 4}, {"UINT64", "18446744073709551615", 8},
        {"BOOL", "255", 1}};
    for (size_t i = 0; i < sizeof integers / sizeof *integers; i++) {
        char json[256], expected[64];
        snprintf(
            json, sizeof json,
            REQUEST("{\"name\":\"job\",\"datatype\":\"%s\",\"shape\":[1],\"parameters\":{\"binary_data_size\":%u}}"),
            integers[i].type, integers[i].bytes);
        snprintf(expected, sizeof expected, "age,job\n,%s\n", integers[i].of_ones);
        reads(json, ones, integers[i].bytes, expected);
    }
    reads(REQUEST(INPUT("job", "INT32", "[1]", BINARY(4))), low, 4, "age,job\n,-2147483648\n");
}

static void inference__wrong_requests__are_told(void **state)
{
    (void)state;
    fails("", NULL, 0, "line 1, column 0: ");
    fails("{\"inputs\":", NULL, 0, "line 1, column ");
    fails("[]", NULL, 0, "expected inputs");
    fails("{}", NULL, 0, "expected inputs");
    fails(REQUEST("1"), NULL, 0, "each an object with a name");
    fails(REQUEST(INPUT("no", "FP32", "[1]", "\"data\":[1]")), NULL, 0,
          "input no: the model reads no column of that name");
    fails(REQUEST(INPUT("age", "FP16", "[1]", "\"data\":[1]")), NULL, 0, "found FP16");
    fails(REQUEST(INPUT("age", "FP32", "[1,1,1]", "\"data\":[1]")), NULL, 0, "expected a shape");
    fails(REQUEST(INPUT("age", "FP32", "[-1]", "\"data\":[1]")), NULL, 0, "expected a shape");
    fails(REQUEST(INPUT("age", "FP32", "[1.0]", "\"data\":[1]")), NULL, 0, "of whole numbers");
    fails(REQUEST(INPUT("age", "FP32", "[1,2]", "\"data\":[1,2]")), NULL, 0, "the column has one value, no list");
    fails(REQUEST(INPUT("job", "BYTES", "[1,2]", "\"data\":[\"a|b\",\"c\"]")), NULL, 0,
          "expected elements without '|', which is between keys");
    fails(REQUEST(INPUT("age", "FP32", "[1,0]", "\"data\":[]")), NULL, 0, "expected a shape");
    fails(REQUEST(INPUT("age", "FP32", "[2]", "\"data\":[1]")), NULL, 0, "expected data of 2 elements");
    fails(REQUEST(INPUT("age", "FP32", "[1]", "\"data\":7")), NULL, 0, "expected data of 1 elements");
    fails(REQUEST(INPUT("age", "FP32", "[1]", "\"data\":[{}]")), NULL, 0, "expected numbers or texts");
    fails(REQUEST(INPUT("job", "BYTES", "[2,2]", "\"data\":[[\"a\",\"b\"],[\"c\"]]")), NULL, 0,
          "expected 2 elements of each example");
    fails(REQUEST(INPUT("age", "FP32", "[1]", "\"data\":[1]") "," INPUT("job", "FP32", "[2]", "\"data\":[1,2]")), NULL,
          0, "input job: expected 1 examples");
    fails(REQUEST(INPUT("age", "FP32", "[1]", "\"data\":[1]") "," INPUT("age", "FP32", "[1]", "\"data\":[1]")), NULL, 0,
          "given twice");
    fails(REQUEST(INPUT("job", "BYTES", "[1]", "\"data\":[\"a\\nb\"]")), NULL, 0,
          "column job: expected a value without line ends");
    fails(REQUEST(INPUT("age", "FP32", "[2]", BINARY(8))), "1234", 4, "more than what follows the JSON");
    fails(REQUEST(INPUT("age", "FP32", "[2]", BINARY(4))), "1234", 4, "expected 8 bytes by its shape, found 4");
    fails(REQUEST(INPUT("age", "FP32", "[1]", BINARY(4))), "12345", 5, "more bytes follow");
    fails(REQUEST(INPUT("job", "BYTES", "[1]", BINARY(5))), "\2\0\0\0a", 5, "end in the middle of a text");
    fails(REQUEST(INPUT("job", "BYTES", "[2]", BINARY(5))), "\1\0\0\0a", 5, "end in the middle of a text");
    fails(REQUEST(INPUT("job", "BYTES", "[1]", BINARY(6))), "\1\0\0\0ab", 6, "go on behind its last text");
    fails(REQUEST(INPUT("job", "BYTES", "[340]", BINARY(0))), NULL, 0, "end in the middle of a text");
    fails("{\"outputs\":[{\"name\":\"x\"}],\"inputs\":[" INPUT("age", "FP32", "[1]", "\"data\":[1]") "]}", NULL, 0,
          "output x: the model predicts nothing");
    static char many[9000] =
        "{\"inputs\":[{\"name\":\"age\",\"datatype\":\"INT64\",\"shape\":[340],\"data\":[123456789012";
    for (size_t i = 1; i < 340; i++) strcat(many, ",123456789012");
    strcat(many, "]}]}");
    fails(many, NULL, 0, "more than serve.body = 4096 bytes");
    static char large[INFERENCE_JSON_BYTES + 2];
    memset(large, ' ', sizeof large - 1);
    fails(large, NULL, 0, "at most 524288 bytes");
}

/* The answer to `text` of two examples, wanted as `request` says; its JSON and what follows. */
static void answers(const char *request, bool texts, const char *text, const char *json, const void *binary,
                    size_t bytes)
{
    struct inference in;
    struct evbuffer *answer = evbuffer_new(), *behind = evbuffer_new();
    evbuffer_drain(to, evbuffer_get_length(to));
    inference_outputs(outputs, texts);
    const struct inference_output *first = texts ? outputs + 2 : outputs;
    assert_int_equal(inference_read(&in, &lines, outputs + (first - outputs), texts ? 1 : 2, (const uint8_t *)request,
                                    strlen(request), strlen(request), to),
                     ST_OK);
    assert_int_equal(inference_answer(&in, "m", "7", text, strlen(text), answer, behind), ST_OK);
    buffer_is(answer, json);
    assert_int_equal(evbuffer_get_length(behind), bytes);
    if (bytes) assert_memory_equal(evbuffer_pullup(behind, -1), binary, bytes);
    inference_free(&in);
    evbuffer_free(answer);
    evbuffer_free(behind);
}

#define TWO INPUT("age", "FP32", "[2]", "\"data\":[1,2]")

static void inference__lines__become_tensors(void **state)
{
    (void)state;
    static const char text[] = "0.25\t1 2 3\n0.5\t4 5e-10 nan\n";
    answers(REQUEST(TWO), false, text,
            "{\"model_name\":\"m\",\"model_version\":\"7\",\"outputs\":["
            "{\"name\":\"bce\",\"datatype\":\"FP32\",\"shape\":[2],\"data\":[0.25,0.5]},"
            "{\"name\":\"classes\",\"datatype\":\"FP32\",\"shape\":[2,3],\"data\":[1,2,3,4,5e-10,null]}]}",
            NULL, 0);
    const float classes[] = {1, 2, 3, 4, 5e-10f};
    answers("{\"id\":\"a\\\"\\u00e9\\u0001\",\"parameters\":{\"binary_data_output\":true},\"outputs\":[{\"name\":"
            "\"classes\"}],"
            "\"inputs\":[" TWO "]}",
            false, "0.25\t1 2 3\n0.5\t4 5e-10 5e-10\n",
            "{\"model_name\":\"m\",\"model_version\":\"7\",\"id\":\"a\\\"\xc3\xa9\\u0001\",\"outputs\":["
            "{\"name\":\"classes\",\"datatype\":\"FP32\",\"shape\":[2,3],\"parameters\":{\"binary_data_size\":24}}]}",
            (const float[]){classes[0], classes[1], classes[2], classes[3], classes[4], classes[4]}, 24);
    answers("{\"parameters\":{\"binary_data_output\":true},\"outputs\":[{\"name\":\"bce\",\"parameters\":{\"binary_"
            "data\":false}}],"
            "\"inputs\":[" TWO "]}",
            false, text,
            "{\"model_name\":\"m\",\"model_version\":\"7\",\"outputs\":["
            "{\"name\":\"bce\",\"datatype\":\"FP32\",\"shape\":[2],\"data\":[0.25,0.5]}]}",
            NULL, 0);
    answers(
        REQUEST(TWO), true, "the cat\t\xff\"\ndog\n",
        "{\"model_name\":\"m\",\"model_version\":\"7\",\"outputs\":["
        "{\"name\":\"words\",\"datatype\":\"BYTES\",\"shape\":[2,2],\"data\":[\"the cat\",\"?\\\"\",\"dog\",\"\"]}]}",
        NULL, 0);
    answers("{\"parameters\":{\"binary_data_output\":true},\"inputs\":[" TWO "]}", true, "ab\tc\nd\te\n",
            "{\"model_name\":\"m\",\"model_version\":\"7\",\"outputs\":["
            "{\"name\":\"words\",\"datatype\":\"BYTES\",\"shape\":[2,2],\"parameters\":{\"binary_data_size\":21}}]}",
            "\2\0\0\0"
            "ab"
            "\1\0\0\0"
            "c"
            "\1\0\0\0"
            "d"
            "\1\0\0\0"
            "e",
            21);
}

static int open_lines(void **state)
{
    (void)state;
    to = evbuffer_new();
    return to && lines_open(&lines, &inference_setup) == ST_OK ? 0 : -1;
}

static int close_lines(void **state)
{
    (void)state;
    lines_close(&lines);
    evbuffer_free(to);
    return 0;
}

/* A list of three keys, an absent number, and two outputs of four numbers together: 8 values an example, of
 * which 256 have 2048. Only shapes are looked at. */
static void inference__more_values_than_the_bound__is_full(void **state)
{
    (void)state;
    static const uint8_t ones[3 * 512] = {1};
    struct inference in;
    for (uint32_t examples = 255; examples <= 257; examples++)
        for (int all = 0; all < 2; all++) {
            char json[512];
            snprintf(json, sizeof json,
                     "{\"inputs\":[{\"name\":\"job\",\"datatype\":\"INT8\",\"shape\":[%u,3],\"parameters\":"
                     "{\"binary_data_size\":%u}}]%s}",
                     examples, 3 * examples, all ? "" : ",\"outputs\":[{\"name\":\"bce\"}]");
            const status st = read_body(&in, json, ones, 3 * examples);
            if (st != (all && examples == 257 ? ST_FULL : ST_OK)) fail_msg("%u: %s", examples, status_message());
            if (st == ST_FULL)
                assert_non_null(strstr(status_message(), "at most serve.values = 2048 values, this one 2056: "
                                                         "257 examples of 8"));
            if (st == ST_FULL) assert_int_equal(evbuffer_get_length(to), 0);
            inference_free(&in);
        }
    static const char most[] = REQUEST(INPUT("job", "BYTES", "[2147483647,65536]", BINARY(0)));
    assert_int_equal(read_body(&in, most, NULL, 0), ST_FULL);
    inference_free(&in);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(inference__json__becomes_lines),
        cmocka_unit_test(inference__binary__becomes_lines),
        cmocka_unit_test(inference__wrong_requests__are_told),
        cmocka_unit_test(inference__lines__become_tensors),
        cmocka_unit_test(inference__more_values_than_the_bound__is_full),
    };
    return cmocka_run_group_tests(tests, open_lines, close_lines) ? 1 : 0;
}
