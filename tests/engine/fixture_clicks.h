/* Click data of a test program's own. Include after cmocka.h. */
#ifndef HETERPS_TESTS_FIXTURE_CLICKS_H
#define HETERPS_TESTS_FIXTURE_CLICKS_H

#include "engine/data/gen_criteo.h"
#include "tests/engine/fixture_files.h"

/* Writes rows [first, first + count) of generated clicks, and after them `last` (NULL: nothing). */
FIXTURE static void fixture_data(const char *path, uint64_t first, uint64_t count, const char *last)
{
    struct gen_criteo *gen;
    char line[GEN_CRITEO_LINE_BYTES_MAX];
    struct gen_criteo_truth truth;
    assert_ok(gen_criteo_open(&gen, &(struct gen_criteo_options){.seed = 5, .vocab = 500, .zipf = 0.7}));
    FILE *file = fopen(path, "a");
    assert_non_null(file);
    for (uint64_t row = first; row < first + count; row++)
        fwrite(line, 1, gen_criteo_row(gen, row, line, &truth), file);
    if (last) fputs(last, file);
    assert_int_equal(fclose(file), 0);
    gen_criteo_close(gen);
}

#endif
