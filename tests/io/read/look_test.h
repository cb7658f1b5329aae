/* A look at lists of data, for tests: opened once, then looked at again. */
#ifndef HETERPS_TESTS_IO_READ_LOOK_TEST_H
#define HETERPS_TESTS_IO_READ_LOOK_TEST_H

#include "tests/io/io_test.h"

#include "io/read/data_sources.h"

struct look {
    struct arena arena;
    struct data_sources sources;
};

/* Before any look. */
static void look_place(struct look *l, const char *path)
{
    struct layout sum = {0};
    struct data_sources none;
    data_sources_layout(&none, &sum, path, false);
    assert_ok(arena_open(&l->arena, "test", sum.bytes));
    data_sources_layout(&l->sources, &(struct layout){.arena = &l->arena}, path, false);
}

static void look_open(struct look *l, const char *path)
{
    look_place(l, path);
    assert_ok(data_sources_look(&l->sources, l->sources.source));
}

static void look_close(struct look *l)
{
    data_sources_close(&l->sources);
    arena_close(&l->arena);
}

#endif
