/* What a training takes of the budgets of data caches, for itself and for each set that it evaluates.
 * The sets' shares are made up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/engine/run/session_fixture.h"

#include "engine/eval/evaluate.h"
#include "engine/run/train_internal.h"

/* In place of the sizes of files. */
static double fake_share[3];
static void fake_shares(uint32_t count, double *share) { memcpy(share, fake_share, count * sizeof *share); }
#define evaluate_shares(setup, options, count, data, share) fake_shares(count, share)
#define evaluate_lines(setup, paths, data, lines)           (*(lines) = READER_ALL, ST_OK)
#include "engine/run/train_open.c"

static struct session session;
static struct train_options options;
static struct trainer t;
static struct settings *settings = &session.setup.settings;
static struct head head;

/* Three passes, evaluated on two sets now and then, with 1,000 bytes of RAM and 4,000 on a disk. */
static void begin(void)
{
    memset(&session, 0, sizeof session);
    options = (struct train_options){.data = "data.tsv"};
    t = (struct trainer){.session = &session, .options = &options};
    t.eval.sets.count = 2;
    t.eval.options[0].paths = t.eval.sets.item[0].paths = "a.tsv";
    t.eval.options[1].paths = t.eval.sets.item[1].paths = "b.tsv";
    fake_share[0] = 0.125;
    fake_share[1] = 0.25;
    settings->train_epochs = 3;
    settings->eval_every = 10;
    settings->cache_ram = 1000;
    settings->cache_ssd = 4000;
    settings->cache_path = "/c";
    settings->cache_window = 77;
    settings->cache_shuffle = CACHE_BLOCKS;
}

/* [0]: training; [1], [2]: the sets. */
static void assert_shared(const uint64_t *ram, const uint64_t *ssd)
{
    struct data_cache_budget train;
    caches_share(&t, &train);
    assert_int_equal(train.ram_bytes, ram[0]);
    assert_int_equal(train.ssd_bytes, ssd[0]);
    assert_string_equal(train.path, "/c");
    for (uint32_t i = 0; i < t.eval.sets.count; i++) {
        assert_int_equal(t.eval.options[i].cache.ram_bytes, ram[i + 1]);
        assert_int_equal(t.eval.options[i].cache.ssd_bytes, ssd[i + 1]);
        assert_string_equal(t.eval.options[i].cache.path, "/c");
    }
}

/* All parts come to the budget. */
static void caches_share__several_passes_and_evaluations__each_has_its_part(void **state)
{
    (void)state;
    begin();
    assert_shared((const uint64_t[]){625, 125, 250}, (const uint64_t[]){2500, 500, 1000});
    begin();
    t.eval.sets.count = 0;
    assert_shared((const uint64_t[]){1000, 0, 0}, (const uint64_t[]){4000, 0, 0});
}

/* Memory serves whoever reads again in this run; a file serves the next run, too. */
static void caches_share__read_once__needs_no_memory(void **state)
{
    (void)state;
    begin();
    settings->eval_every = 0;
    assert_shared((const uint64_t[]){1000, 0, 0}, (const uint64_t[]){2500, 500, 1000});
    t.stop.head = &head; /* each pass is evaluated */
    assert_shared((const uint64_t[]){625, 125, 250}, (const uint64_t[]){2500, 500, 1000});
    begin();
    settings->train_epochs = 1; /* evaluations have all of it, by their shares */
    assert_shared((const uint64_t[]){0, 333, 666}, (const uint64_t[]){2500, 500, 1000});
    settings->eval_every = 0;
    assert_shared((const uint64_t[]){0, 0, 0}, (const uint64_t[]){2500, 500, 1000});
}

static void caches_share__order_of_blocks_and_bounds__as_passes_need_it(void **state)
{
    (void)state;
    static const struct {
        uint32_t epochs, shuffle, steps_max, window;
        bool is_bounded;
    } cases[] = {{3, CACHE_BLOCKS, 0, 77, false},
                 {1, CACHE_BLOCKS, 0, 0, false},
                 {2, CACHE_BLOCKS, 1, 77, true},
                 {3, !CACHE_BLOCKS, 5, 0, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct data_cache_budget train;
        begin();
        settings->train_epochs = cases[i].epochs;
        settings->cache_shuffle = cases[i].shuffle;
        settings->train_steps_max = cases[i].steps_max;
        caches_share(&t, &train);
        assert_int_equal(train.window, cases[i].window);
        assert_int_equal(train.is_bounded, cases[i].is_bounded);
    }
}

/* Without a cache there are no blocks: epochs would come in the order of the files. On several nodes
 * perhaps those of one node alone would, and nobody would know. */
static void caches_share__order_of_blocks_without_a_cache__is_refused(void **state)
{
    (void)state;
    struct data_cache_budget train;
    begin();
    settings->cache_ram = settings->cache_ssd = 0;
    assert_int_equal(caches_share(&t, &train), ST_INVALID);
    assert_non_null(
        strstr(status_message(), "blocks needs all of the data in the cache for passes 2 to 3, found cache.ram = 0"));
    settings->train_epochs = 1;
    assert_int_equal(caches_share(&t, &train), ST_OK);
}

/* Which lines a set reads: those held out where it is the training data themselves. */
static void caches_share__held_out_lines__are_those_of_the_set(void **state)
{
    (void)state;
    struct data_cache_budget train;
    begin();
    caches_share(&t, &train);
    assert_true(t.eval.options[0].lines == READER_ALL && t.eval.options[1].lines == READER_ALL);
    t.eval.sets.count = 1;
    t.eval.sets.item[0].paths = options.data;
    caches_share(&t, &train);
    assert_int_equal(t.eval.options[0].lines, READER_HELD_OUT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(caches_share__several_passes_and_evaluations__each_has_its_part),
        cmocka_unit_test(caches_share__read_once__needs_no_memory),
        cmocka_unit_test(caches_share__order_of_blocks_and_bounds__as_passes_need_it),
        cmocka_unit_test(caches_share__order_of_blocks_without_a_cache__is_refused),
        cmocka_unit_test(caches_share__held_out_lines__are_those_of_the_set),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
