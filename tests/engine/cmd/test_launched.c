/* The far end of launch on a host: what orders come to, and with which status it ends. The node is this
 * program's own child. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/fault_alloc.h"

#include <stdio.h>
#include <sys/wait.h>

#include "engine/base/log.h"
#include "engine/cmd/launch.h"

/* In place of becoming a node: ends as its second word says. */
static _Noreturn void node_become(char **words, uint32_t count)
{
    if (count != 2 || words[2] != NULL || access("here", F_OK) != 0) _exit(99);
    const int how = atoi(words[1]);
    if (how >= 1000) raise(how - 1000);
    _exit(how);
}
#define launch_node_become(words, count, key_fd, listen_fd) ((void)(key_fd), node_become(words, count))
#include "engine/cmd/launched.c"

static char folder[256];

/* Runs the far end on an order of these words; `skips`: words that the order has too few. */
static int ended(const char *how, uint32_t skips, int64_t fails_at)
{
    struct launch_order order = {.word_count = 2 - skips, .share_count = 1, .key = "a key"};
    char text[512];
    int ends[2];
    const int before = dup(STDIN_FILENO);
    assert_true(before >= 0 && pipe(ends) == 0);
    memcpy(order.magic, LAUNCH_ORDER_MAGIC, sizeof order.magic);
    order.text_bytes = (uint32_t)snprintf(text, sizeof text, "%s%cnode%c%s", folder, 0, 0, how) + 1;
    assert_int_equal(write(ends[1], &order, sizeof order), sizeof order);
    assert_int_equal(write(ends[1], text, order.text_bytes), order.text_bytes);
    assert_int_equal(dup2(ends[0], STDIN_FILENO), STDIN_FILENO);
    fault_alloc_set(fails_at);
    const int answer = launched_run();
    const bool has_failed = fault_alloc_end();
    assert_true(has_failed || fails_at < 0);
    assert_int_equal(dup2(before, STDIN_FILENO), STDIN_FILENO);
    close(before);
    close(ends[0]);
    close(ends[1]);
    return answer;
}

static void launched_run__node_ends__with_its_status_or_its_signal(void **state)
{
    (void)state;
    char text[16];
    assert_int_equal(ended("0", 0, -1), 0);
    assert_int_equal(ended("7", 0, -1), 7);
    snprintf(text, sizeof text, "%d", 1000 + SIGKILL);
    assert_int_equal(ended(text, 0, -1), 137);
    snprintf(text, sizeof text, "%d", 1000 + SIGTERM);
    assert_int_equal(ended(text, 0, -1), 143);
}

static void launched_run__another_number_of_words__refused(void **state)
{
    (void)state;
    assert_int_equal(ended("0", 1, -1), status_exit(ST_INVALID));
}

/* Of the order's text, and of the node's words. */
static void launched_run__no_memory__fails(void **state)
{
    (void)state;
    FAULT_ALLOC_SKIP();
    assert_int_equal(ended("0", 0, 0), status_exit(ST_PEER_LOST));
    assert_int_equal(ended("0", 0, 1), status_exit(ST_MEMORY));
}

static int folder_make(void **state)
{
    (void)state;
    char here[300];
    const char *parent = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/launched.XXXXXX", parent && *parent ? parent : "/tmp");
    if (mkdtemp(folder) == NULL) return -1;
    snprintf(here, sizeof here, "%s/here", folder);
    FILE *file = fopen(here, "w");
    if (file == NULL) return -1;
    log_open(LOG_TEXT, -1);
    alarm(60);
    return fclose(file);
}

static int folder_remove(void **state)
{
    (void)state;
    char here[300];
    snprintf(here, sizeof here, "%s/here", folder);
    unlink(here);
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(launched_run__node_ends__with_its_status_or_its_signal),
        cmocka_unit_test(launched_run__another_number_of_words__refused),
        cmocka_unit_test(launched_run__no_memory__fails),
    };
    return cmocka_run_group_tests(tests, folder_make, folder_remove) ? 1 : 0;
}
