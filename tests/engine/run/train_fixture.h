/* What the tests of a training's loop share: data, of which ten steps of 32 examples are a pass, trainings
 * of the session's model on them, and what is in their saves. Include after cmocka.h. */
#ifndef HETERPS_TESTS_ENGINE_RUN_TRAIN_FIXTURE_H
#define HETERPS_TESTS_ENGINE_RUN_TRAIN_FIXTURE_H

#include "engine/model/model_saved.h"
#include "engine/run/train.h"
#include "tests/engine/run/session_fixture.h"

#define BATCH 32u
#define STEPS 10u

static char data_path[256], eval_path[256];

FIXTURE static int group_open(void **state)
{
    return session_fixture_open_data(state, STEPS * BATCH, data_path, eval_path);
}

/* Trains as options say on the data; the answer's message is kept. */
FIXTURE static status trained(struct opened *o, const struct train_options *options, const char *const *set)
{
    static struct failure failure;
    struct train_options all = *options;
    if (all.data == NULL) all.data = data_path;
    opened_begin(o, set, LOG_JSON);
    status st = all.out ? model_dir_check(&o->session.setup.graph, all.out) : ST_OK;
    if (st == ST_OK) st = train_run(&o->session, &all);
    failure_keep(&failure, st);
    opened_end(o);
    return failure_adopt(&failure);
}

/* Step and examples of a directory's newest save. */
FIXTURE static struct progress saved_progress(const char *path)
{
    struct model_saved saved;
    assert_ok(model_saved_open(&saved, path));
    struct progress progress = saved.manifest.progress;
    model_saved_close(&saved);
    return progress;
}

#endif
