/* The Open Inference Protocol as a client sees it: who is there, what a model takes
 * and gives, tensors for tensors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/engine/serve/served_test.h"

#define INFER "POST /v2/models/line/infer"
/* Two examples, 1 + 4 - 3 and -3. */
#define INPUTS                                                                                                         \
    "\"inputs\":[{\"name\":\"a\",\"datatype\":\"FP32\",\"shape\":[2],\"data\":[1,0]},"                                 \
    "{\"name\":\"b\",\"datatype\":\"FP32\",\"shape\":[2],\"data\":[2,0]}]"

static void infer__what_there_is__is_told(void **state)
{
    (void)state;
    static const char model[] =
        "{\"name\":\"line\",\"versions\":[\"20\"],\"platform\":\"heterps\",\"inputs\":["
        "{\"name\":\"a\",\"datatype\":\"FP32\",\"shape\":[-1]},{\"name\":\"b\",\"datatype\":\"FP32\",\"shape\":[-1]},"
        "{\"name\":\"job\",\"datatype\":\"BYTES\",\"shape\":[-1]}],"
        "\"outputs\":[{\"name\":\"bce\",\"datatype\":\"FP32\",\"shape\":[-1]}]}\n";
    served_has(served_ask(&server, "GET /v2", "", ""), "{\"name\":\"heterps-run\",\"version\":\"");
    served_check(served_ask(&server, "GET /v2/models/line", "", ""), 200, "Content-Type: application/json\r\n", model);
    served_check(served_ask(&server, "GET /v2/models/line/versions/20", "", ""), 200, NULL, model);
    static const char *const empty[] = {"GET /v2/health/live", "GET /v2/health/ready", "GET /v2/models/line/ready",
                                        "GET /v2/models/line/versions/20/ready"};
    for (size_t i = 0; i < sizeof empty / sizeof *empty; i++)
        served_check(served_ask(&server, empty[i], "", ""), 200, NULL, "");
}

static void infer__nothing_there__is_an_error_of_the_protocol(void **state)
{
    (void)state;
    static const struct {
        const char *what, *error;
    } cases[] = {
        {"POST /v2", "there is nothing here"},
        {"POST /v2/health/live", "there is nothing here"},
        {"POST /v2/health/ready", "there is nothing here"},
        {"GET /v2/models/", "there is no model of this name"},
        {"GET /v2/models/none", "there is no model of this name"},
        {"GET /v2/models/line/versions/10", "this version is not served; it is 20"},
        {"GET /v2/models/line/versions/", "this version is not served; it is 20"},
        {"GET /v2/models/line/infer", "there is nothing here; GET a model, GET its ready, POST its infer or top"},
        {"POST /v2/models/line", "there is nothing here; GET a model, GET its ready, POST its infer or top"},
        {"POST /v2/models/line/ready", "there is nothing here; GET a model, GET its ready, POST its infer or top"},
        {"GET /v2/models/line/top", "there is nothing here; GET a model, GET its ready, POST its infer or top"},
        {"POST /v2/models/line/top", "this model predicts no words of a vocabulary"},
    };
    char expected[256];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(expected, sizeof expected, "{\"error\":\"%s\"}\n", cases[i].error);
        served_check(served_ask(&server, cases[i].what, "", ""), 404, "Content-Type: application/json\r\n", expected);
    }
}

static void infer__numbers__are_answered_by_numbers(void **state)
{
    (void)state;
    const char *answer = served_ask(&server, INFER, "", "{\"id\":\"i7\"," INPUTS "}");
    served_check(answer, 200, "Heterps-Version: 20\r\n",
                 "{\"model_name\":\"line\",\"model_version\":\"20\",\"id\":\"i7\",\"outputs\":[{\"name\":\"bce\","
                 "\"datatype\":\"FP32\",\"shape\":[2],\"data\":[0.880797078,0.0474258732]}]}");
    if (strstr(answer, "Inference-Header-Content-Length")) fail_msg("nothing is binary in: %s", answer);
}

static void infer__wrong_requests__say_what_is_wrong(void **state)
{
    (void)state;
    served_check(served_ask(&server, INFER, "", ""), 400, "Content-Type: application/json\r\n", NULL);
    served_check(served_ask(&server, INFER, "", "{}"), 400, NULL, NULL);
    /* The second example: the line of names is none of the client's. */
    served_check(
        served_ask(&server, INFER, "",
                   "{\"inputs\":[{\"name\":\"b\",\"datatype\":\"BYTES\",\"shape\":[2],\"data\":[\"1\",\"z\"]}]}"),
        400, NULL, "{\"error\":\"example 2: column 2 (b): expected a number, found \\\"z\\\"\"}\n");
    served_check(served_ask(&server, INFER, "Inference-Header-Content-Length: x\r\n", "{" INPUTS "}"), 400, NULL,
                 "{\"error\":\"Inference-Header-Content-Length: expected a number\"}\n");
    served_check(served_ask(&server, INFER, "Inference-Header-Content-Length: 9999\r\n", "{" INPUTS "}"), 400, NULL,
                 NULL);
}

/* Three columns and an output: ten examples have 40 values, as many as serve.values lets a request have. */
static void infer__more_values_than_a_request_may_have__is_refused(void **state)
{
    (void)state;
    served_check(served_ask(&server, INFER, "",
                            "{\"inputs\":[{\"name\":\"a\",\"datatype\":\"INT8\",\"shape\":[10],"
                            "\"data\":[0,0,0,0,0,0,0,0,0,0]}]}"),
                 200, NULL, NULL);
    served_check(served_ask(&server, INFER, "",
                            "{\"inputs\":[{\"name\":\"a\",\"datatype\":\"INT8\",\"shape\":[11],"
                            "\"data\":[0,0,0,0,0,0,0,0,0,0,0]}]}"),
                 413, "Content-Type: application/json\r\n",
                 "{\"error\":\"a request has at most serve.values = 40 values, this one 44: 11 examples of 4, "
                 "those of all columns and outputs; send fewer examples at once\"}\n");
}

/* The request's JSON ends where its header says; the answer's likewise, and floats are behind it. */
static void infer__binary_tensors__are_behind_the_json(void **state)
{
    (void)state;
    static const char json[] = "{\"inputs\":[{\"name\":\"a\",\"datatype\":\"FP32\",\"shape\":[2],\"parameters\":"
                               "{\"binary_data_size\":8}}],\"outputs\":[{\"name\":\"bce\",\"parameters\":"
                               "{\"binary_data\":true}}]}";
    const float a[2] = {3, 5};
    char request[1024];
    int bytes = snprintf(request, sizeof request,
                         INFER " HTTP/1.1\r\nHost: here\r\nInference-Header-Content-Length: %zu\r\nContent-Length: %zu"
                               "\r\n\r\n%s",
                         strlen(json), strlen(json) + sizeof a, json);
    memcpy(request + bytes, a, sizeof a);
    int fd = served_connect(&server);
    served_send(fd, request, (size_t)bytes + sizeof a);
    const char *answer = served_receive(fd), *length = strstr(answer, "Inference-Header-Content-Length: "),
               *body = strstr(answer, "\r\n\r\n");
    close(fd);
    if (length == NULL || body == NULL || length > body) fail_msg("no length in: %s", answer);
    served_check(answer, 200, "Content-Type: application/octet-stream\r\n", NULL);
    const size_t json_bytes = (size_t)atoi(strchr(length, ':') + 1);
    float found[2];
    memcpy(found, body + 4 + json_bytes, sizeof found);
    assert_true(body[4 + json_bytes - 1] == '\n' || body[4 + json_bytes - 1] == '}');
    assert_true(found[0] == 0.5f); /* of 3 - 3, and of 5 - 3 */
    assert_true(found[1] > 0.8807970f && found[1] < 0.8807972f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(infer__what_there_is__is_told),
        cmocka_unit_test(infer__nothing_there__is_an_error_of_the_protocol),
        cmocka_unit_test(infer__numbers__are_answered_by_numbers),
        cmocka_unit_test(infer__wrong_requests__say_what_is_wrong),
        cmocka_unit_test(infer__more_values_than_a_request_may_have__is_refused),
        cmocka_unit_test(infer__binary_tensors__are_behind_the_json),
    };
    return cmocka_run_group_tests(tests, server_open, server_close) ? 1 : 0;
}
