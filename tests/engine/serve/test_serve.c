/* The server as a whole: what it does not start with, and how it ends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/engine/serve/served_test.h"

static void serve_run__who_may_ask_is_not_said__does_not_start(void **state)
{
    (void)state;
    struct serve_options o = served_options();
    o.listen = "0.0.0.0:0";
    assert_int_equal(serve_run(&o), ST_USAGE);
    assert_message("--listen 0.0.0.0:0 can be reached from other machines: give --token-file FILE, or --insecure");
    o.listen = "127.0.0.1";
    assert_int_equal(serve_run(&o), ST_USAGE);
    assert_message("--listen: expected ADDR:PORT");
    o.listen = "127.0.0.1:0";
    o.token_file = fixture_path("absent");
    assert_int_equal(serve_run(&o), ST_IO);
    o.insecure = true;
    assert_int_equal(serve_run(&o), ST_USAGE);
    assert_message("--token-file and --insecure exclude each other");
}

static void serve_run__insecure__lets_everybody_ask(void **state)
{
    (void)state;
    struct serve_options o = served_options();
    o.insecure = true;
    struct running r = served_start(&o);
    served_check(served_ask(&r, "GET /metrics", "", ""), 200, NULL, NULL);
    assert_int_equal(served_end(&r), 0);
}

/* A request that waits for others, who could still ask, is answered at once when it ends. */
static void serve_run__a_signal__what_was_asked_is_answered(void **state)
{
    (void)state;
    static const char *const set[] = {"serve.wait=60000"};
    struct serve_options o = served_options();
    o.set = set;
    o.set_count = 1;
    struct running r = served_start(&o);
    int fd = served_connect(&r), idle = served_connect(&r);
    static const char request[] = "POST /predict HTTP/1.1\r\nHost: h\r\nContent-Length: 14\r\n\r\na,b,job\n1,2,x\n";
    served_check(served_ask_on(idle, "GET /readyz", "", ""), 200, NULL, "ok\n");
    served_send(fd, request, strlen(request));
    while (strstr(served_ask_on(idle, "GET /metrics", "", ""), "\nheterps_requests_waiting{model=\"line\"} 1\n") ==
           NULL)
        usleep(1000);
    assert_int_equal(kill(r.pid, SIGTERM), 0);
    served_check(served_receive(fd), 200, "Connection: close\r\n", "0.880797078\n");
    close(fd);
    close(idle);
    int how;
    assert_int_equal(waitpid(r.pid, &how, 0), r.pid);
    assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 0);
    fclose(r.events);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(serve_run__who_may_ask_is_not_said__does_not_start),
        cmocka_unit_test(serve_run__insecure__lets_everybody_ask),
        cmocka_unit_test(serve_run__a_signal__what_was_asked_is_answered),
    };
    return cmocka_run_group_tests(tests, served_open, served_close) ? 1 : 0;
}
