/* The compiler without memory: whichever allocation fails, compiling fails as MEMORY, says so, and gives back
 * what it took. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "graph/graph.h"
#include "tests/fault_alloc.h"

static const char text[] =
    "[data]\ndense = I1..I3\nsparse = C1..C4\n[table emb]\ndim = 4\n[embedding e]\ntable = emb\ninput = sparse\n"
    "[concat x]\ninput = e, dense\n[fc k]\ninput = x\nunits = 8\n[fc h]\ninput = x\nunits = 8\nshare = k\n"
    "[concat j]\ninput = k, h\n[fc y]\ninput = j\nunits = 1\n[loss bce]\ninput = y\n[train]\nbatch = 8\n";

static void compile__any_allocation_fails__memory(void **state)
{
    (void)state;
    FAULT_ALLOC_SKIP();
    struct graph g;
    int64_t n = 0;
    for (bool fell = true; fell; n++) {
        fault_alloc_set(n);
        const status st = graph_compile(&g, "m.cfg", text, sizeof text - 1, NULL, 0, NULL);
        fell = fault_alloc_end();
        if (fell && (st != ST_MEMORY || strstr(status_message(), "memory") == NULL))
            fail_msg("allocation %lld: status %d: %s", (long long)n, st, status_message());
        if (!fell) assert_int_equal(st, ST_OK);
    }
    graph_close(&g);
    print_message("    %lld allocations, each failed once\n", (long long)n - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(compile__any_allocation_fails__memory)};
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
