/* What the tests of model directories share: saves of the fixture's model, and what such a save must hold. */
#ifndef HETERPS_TESTS_ENGINE_MODEL_MODEL_DIR_TEST_H
#define HETERPS_TESTS_ENGINE_MODEL_MODEL_DIR_TEST_H

#include "tests/engine/model/model_fixture.h"

static inline void save_new(const char *path, uint64_t seed, uint64_t row_count)
{
    struct model model;
    fixture_model(&model, seed, row_count);
    assert_ok(fixture_save(&model, path));
    model_close(&model);
}

/* Loads into a model of the fixture's graph, which the caller compares or just closes. */
static inline status load(struct model *model, const char *path)
{
    fixture_model(model, 0, 0);
    return model_load(model, path);
}

static inline void assert_holds(const char *path, uint64_t seed, uint64_t row_count)
{
    struct model expected, loaded;
    fixture_model(&expected, seed, row_count);
    assert_ok(load(&loaded, path));
    fixture_assert_equal(&expected, &loaded, NULL);
    model_close(&expected);
    model_close(&loaded);
}

/* Saves the fixture's model of that seed, which has done 10 * seed steps. */
static inline void save_kept(const char *path, uint64_t seed, uint32_t keep)
{
    struct model model;
    fixture_model(&model, seed, 4 + seed);
    assert_ok(model_save(&model, &(struct model_save_options){.path = path, .keep = keep}, NULL));
    model_close(&model);
}

static inline void assert_kept(const char *path, const char *manifest, uint64_t seed)
{
    char manifest_path[FILE_PATH_BYTES];
    assert_holds(file_path_join(manifest_path, path, manifest), seed, 4 + seed);
}

/* How many manifests lie there. Every one names files that are there and verify. */
static inline int assert_all_whole(const char *path)
{
    struct dirent **entries;
    int count = scandir(path, &entries, NULL, alphasort), manifest_count = 0;
    assert_true(count > 0);
    for (int i = 0; i < count; i++) {
        const char *name = entries[i]->d_name, *end = strrchr(name, '.');
        if (strncmp(name, "manifest.", 9) == 0 && strcmp(end, ".json") == 0) {
            struct model loaded;
            char manifest_path[FILE_PATH_BYTES];
            if (load(&loaded, file_path_join(manifest_path, path, name)) != ST_OK)
                fail_msg("%s: %s", name, status_message());
            model_close(&loaded);
            manifest_count++;
        }
        free(entries[i]);
    }
    free(entries);
    return manifest_count;
}

#endif
