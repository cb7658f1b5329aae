/* A model's files without memory: whichever allocation fails, the call fails or does all that it is to do,
 * what it took comes back, and whole saves stay in the directory, and only such. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "engine/base/log.h"
#include "engine/model/saver.h"
#include "engine/model/warm_start.h"
#include "tests/engine/model/model_dir_test.h"
#include "tests/fault_alloc.h"

#define ROWS 7u

/* Calls `act` with the n-th allocation failing, for the first n and then some of all that it has
 * (FAULT_ALL=1: all, which takes minutes); each time after `before`. It may fail as whatever the
 * library or the kernel makes of it, but only when an allocation has failed. Returns how many
 * failures had MEMORY as their code. */
static int64_t each_fails(const char *what, void (*before)(void *), status (*act)(void *),
                          void (*after)(void *, status), void *context)
{
    const int64_t stride = getenv("FAULT_ALL") ? 1 : 17;
    int64_t n = 0, memory_count = 0;
    for (bool fell = true; fell; n += n < 30 ? 1 : stride) {
        before(context);
        fault_alloc_set(n);
        const status st = act(context);
        fell = fault_alloc_end();
        if (st != ST_OK && (!fell || *status_message() == 0)) fail_msg("%s: %s", what, status_message());
        memory_count += st == ST_MEMORY;
        after(context, st);
    }
    print_message("    %s: about %lld allocations, of those tried %lld ended it as MEMORY\n", what, (long long)n,
                  (long long)memory_count);
    return memory_count;
}

/* --- saving ----------------------------------------------------------------------------------- */

struct saving {
    char path[512];
    struct model model;
    struct saver *saver;
    bool is_beside;
};

/* A directory with the model of seed 1, and the model of seed 2 to be saved. */
static void saving_begin(void *context)
{
    struct saving *s = context;
    (void)nftw(s->path, fixture_remove, 16, FTW_DEPTH | FTW_PHYS);
    save_kept(s->path, 1, 3);
    fixture_model(&s->model, 0, 0);
    s->saver = NULL;
}

static status saving_do(void *context)
{
    struct saving *s = context;
    const struct model_save_options options = {.path = s->path, .keep = 3};
    if (!s->is_beside) return model_save(&s->model, &options, NULL);
    const uint64_t row_count[] = {ROWS, ROWS};
    struct saver_done done;
    TRY(saver_begin(s->saver, row_count, 0));
    saver_wait(s->saver);
    return saver_take(s->saver, &done);
}

static void saving_filled_begin(void *context)
{
    struct saving *s = context;
    saving_begin(s);
    if (s->is_beside)
        assert_ok(saver_open(&s->saver, &(struct saver_options){&s->model, s->path, 3, (uint64_t)1 << 20}));
    fixture_fill(&s->model, 2, ROWS);
}

/* Whatever is there is whole, and the newest save is the new one if that was said to be
 * done, else one of the two. */
static void saving_end(void *context, status st)
{
    struct saving *s = context;
    struct model loaded;
    saver_close(s->saver);
    assert_all_whole(s->path);
    assert_ok(load(&loaded, s->path));
    assert_true(loaded.progress.step == 20 || (st != ST_OK && loaded.progress.step == 10));
    model_close(&loaded);
    model_close(&s->model);
    if (st == ST_OK) assert_holds(s->path, 2, ROWS);
}

static void model_save__any_allocation_fails__whole_saves_stay(void **state)
{
    (void)state;
    FAULT_ALLOC_SKIP();
    struct saving s = {0};
    snprintf(s.path, sizeof s.path, "%s", fixture_path("save"));
    assert_true(each_fails("saving", saving_filled_begin, saving_do, saving_end, &s) > 10);
}

static void saver__any_allocation_fails__whole_saves_stay(void **state)
{
    (void)state;
    FAULT_ALLOC_SKIP();
    struct saving s = {.is_beside = true};
    snprintf(s.path, sizeof s.path, "%s", fixture_path("saver"));
    assert_true(each_fails("saving beside", saving_filled_begin, saving_do, saving_end, &s) > 10);
}

/* --- loading ---------------------------------------------------------------------------------- */

static void reading_begin(void *context)
{
    struct saving *s = context;
    fixture_model(&s->model, 0, 0);
}
static status load_do(void *context)
{
    struct saving *s = context;
    return model_load(&s->model, s->path);
}
static status warm_start_do(void *context)
{
    struct saving *s = context;
    return warm_start(&s->model, &(struct warm_start_options){.path = s->path});
}
static status export_do(void *context)
{
    struct saving *s = context;
    return model_export(&s->model, s->path, MODEL_EXPORT_NPY, NULL);
}
static void reading_end(void *context, status st)
{
    struct saving *s = context;
    if (st == ST_OK && store_row_count(s->model.store, 0)) assert_int_equal(store_row_count(s->model.store, 0), ROWS);
    model_close(&s->model);
}

static void model_load__any_allocation_fails__fails(void **state)
{
    (void)state;
    FAULT_ALLOC_SKIP();
    struct saving s = {0};
    snprintf(s.path, sizeof s.path, "%s", fixture_path("load"));
    save_new(s.path, 3, ROWS);
    assert_true(each_fails("loading", reading_begin, load_do, reading_end, &s) > 0);
    assert_true(each_fails("starting from a save", reading_begin, warm_start_do, reading_end, &s) > 0);
}

static void model_export__any_allocation_fails__fails(void **state)
{
    (void)state;
    FAULT_ALLOC_SKIP();
    struct saving s = {0};
    snprintf(s.path, sizeof s.path, "%s", fixture_path("export"));
    assert_true(each_fails("exporting", reading_begin, export_do, reading_end, &s) > 0);
    assert_true(each_fails("starting from tensors", reading_begin, warm_start_do, reading_end, &s) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(model_save__any_allocation_fails__whole_saves_stay),
        cmocka_unit_test(saver__any_allocation_fails__whole_saves_stay),
        cmocka_unit_test(model_load__any_allocation_fails__fails),
        cmocka_unit_test(model_export__any_allocation_fails__fails),
    };
    log_open(LOG_TEXT, -1);
    return cmocka_run_group_tests(tests, fixture_open, fixture_close) ? 1 : 0;
}
