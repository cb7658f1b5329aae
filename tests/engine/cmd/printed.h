/* What a verb's functions print on standard output, kept by a test. Include after cmocka.h. */
#ifndef HETERPS_TESTS_ENGINE_CMD_PRINTED_H
#define HETERPS_TESTS_ENGINE_CMD_PRINTED_H

#include <jansson.h>
#include <sys/mman.h>

#include "engine/base/log.h"
#include "engine/base/scope.h"
#include "tests/engine/fixture_files.h"

static char printed[1 << 16]; /* once it is ended */
static struct {
    struct scope *scope, *before;
    int saved, out;
} printing;

/* From here on, in a scope of its own. */
FIXTURE static void print_begin(enum log_format format)
{
    assert_ok(scope_open(&printing.scope));
    printing.before = scope_enter(printing.scope);
    log_open(format, 0);
    fflush(stdout);
    printing.saved = dup(STDOUT_FILENO);
    printing.out = memfd_create("out", MFD_CLOEXEC);
    assert_true(printing.saved >= 0 && printing.out >= 0 && dup2(printing.out, STDOUT_FILENO) >= 0);
}
FIXTURE static void print_end(void)
{
    fflush(stdout);
    dup2(printing.saved, STDOUT_FILENO);
    close(printing.saved);
    const ssize_t bytes = pread(printing.out, printed, sizeof printed - 1, 0);
    close(printing.out);
    scope_enter(printing.before);
    scope_close(printing.scope);
    assert_true(bytes >= 0);
    printed[bytes] = 0;
}

/* The one event that is printed is of this name and these fields, in JSON; numbers as they are written. */
FIXTURE static void assert_event(const char *text, const char *wanted)
{
    json_error_t error;
    json_t *found = json_loads(text, 0, &error), *expected = json_loads(wanted, 0, &error);
    if (expected == NULL) fail_msg("%s: %s", error.text, wanted);
    if (!json_equal(found, expected)) fail_msg("expected %s\nfound    %s", wanted, text);
    json_decref(found);
    json_decref(expected);
}

#endif
