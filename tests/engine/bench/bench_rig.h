/* Runs benchmarks under the clock of fixture_clock.h, and has what they print: a table's text, or figures as
 * events. Include after cmocka.h, in one file of a program. */
#ifndef HETERPS_TESTS_BENCH_RIG_H
#define HETERPS_TESTS_BENCH_RIG_H

#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "engine/base/isa.h"
#include "engine/base/log.h"
#include "engine/base/machine.h"
#include "engine/bench/bench.h"
#include "tests/engine/fixture_clock.h"
#include "tests/engine/fixture_files.h"

#define STEP_NS 1000000u

/* What takes seconds, and many more under a sanitizer, which the same code is looked at by elsewhere. */
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
#define LONG_SKIP() skip()
#else
#define LONG_SKIP() ((void)0)
#endif

static char text[1 << 20];

/* What a benchmark prints. */
FIXTURE static const char *ran(enum log_format format, const struct bench_options *o)
{
    fflush(NULL);
    int saved = dup(STDOUT_FILENO), file = memfd_create("out", MFD_CLOEXEC);
    assert_true(saved >= 0 && file >= 0 && dup2(file, STDOUT_FILENO) == STDOUT_FILENO);
    log_open(format, 0);
    status st = bench_run(o);
    fflush(NULL);
    ssize_t bytes = pread(file, text, sizeof text - 1, 0);
    dup2(saved, STDOUT_FILENO);
    close(saved);
    close(file);
    log_open(LOG_TEXT, 0);
    if (st != ST_OK) fail_msg("bench %s: %s", o->subject, status_message());
    assert_true(bytes >= 0);
    text[bytes] = 0;
    return text;
}

/* Behind the three lines about the machine, which end with "… median". */
FIXTURE static const char *table(const struct bench_options *o)
{
    const char *end = strstr(ran(LOG_TEXT, o), "of that limit, median\n");
    assert_non_null(end);
    return end + strlen("of that limit, median\n");
}

/* A table's heading of columns. */
#define COLUMNS                                                                                                        \
    "                                         threads   median    least - greatest unit          limit  share\n"

FIXTURE static struct bench_options quick_of(const char *subject)
{
    fixture_clock_set(STEP_NS, false);
    return (struct bench_options){.subject = subject, .isa = "base", .repeats = 1, .quick = true};
}

FIXTURE static void machine_check(const json_t *event, const char *isa)
{
    struct machine m;
    struct cores cores;
    cores_allowed(&cores);
    machine_read(&m, "/", cores.processor, cores.mask_count);
    const struct {
        const char *key, *text;
        uint64_t number;
    } expected[] = {{"version", HETERPS_VERSION, 0},
                    {"cpu", *m.cpu ? m.cpu : "unknown processor", 0},
                    {"isa", isa ? isa : isa_names[isa_best()], 0},
                    {"huge_pages", m.huge_pages, 0},
                    {"cores", NULL, cores.count},
                    {"l1d_bytes", NULL, m.l1d_bytes},
                    {"l2_bytes", NULL, m.l2_bytes},
                    {"l3_bytes", NULL, m.l3_bytes},
                    {"memory_bytes", NULL, m.memory_bytes}};
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        const json_t *value = json_object_get(event, expected[i].key);
        if (expected[i].text)
            assert_string_equal(json_string_value(value), expected[i].text);
        else
            assert_int_equal(json_integer_value(value), expected[i].number);
    }
    const json_t *left = json_object_get(event, "memory_free_bytes");
    assert_true(json_integer_value(left) > 0 && (uint64_t)json_integer_value(left) <= m.memory_bytes);
}

/* The figures that a benchmark tells as events, each of o->repeats repeats, behind an event that says which
 * machine this is. */
FIXTURE static json_t *figures(const struct bench_options *o)
{
    json_t *list = json_array();
    char *at, *line = strtok_r((char *)(uintptr_t)ran(LOG_JSON, o), "\n", &at);
    for (; line != NULL; line = strtok_r(NULL, "\n", &at)) {
        json_t *event = json_loads(line, 0, NULL);
        assert_non_null(event);
        const char *name = json_string_value(json_object_get(event, "event"));
        if (strcmp(name, "machine") == 0) {
            assert_int_equal(json_array_size(list), 0);
            machine_check(event, o->isa);
        }
        if (strcmp(name, "bench") == 0) {
            assert_int_equal(json_integer_value(json_object_get(event, "repeats")), o->repeats);
            assert_string_equal(json_string_value(json_object_get(event, "subject")), o->subject);
            json_array_append(list, event);
        }
        json_decref(event);
    }
    return list;
}

FIXTURE static double number(const json_t *list, size_t i, const char *key)
{
    const json_t *value = json_object_get(json_array_get(list, i), key);
    if (!json_is_number(value)) fail_msg("figure %zu has no number \"%s\"", i, key);
    return json_number_value(value);
}
FIXTURE static void number_check(const json_t *list, size_t i, const char *key, double expected)
{
    const double found = number(list, i, key);
    if (!(fabs(found - expected) <= 1e-9 * fabs(expected)))
        fail_msg("figure %zu: \"%s\" is %.12g, expected %.12g", i, key, found, expected);
}
FIXTURE static const char *word(const json_t *list, size_t i, const char *key)
{
    return json_string_value(json_object_get(json_array_get(list, i), key));
}

#endif
