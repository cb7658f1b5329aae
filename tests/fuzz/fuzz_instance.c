/* Any bytes as an instance: an error with its file, or an instance that is as the struct says, whose plans
 * can be provisioned, and that is written and read back as the same. */
#define FUZZ_NAME "instance"
#include "tests/fuzz/driver.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sched/provision.h"
#include "tests/sched/instance_equal.h"

static char path[64];

static void path_remove(void) { unlink(path); }

/* One file a process, so that two of them do not meet. */
static const char *written_path(void)
{
    if (path[0]) return path;
    strcpy(path, "/tmp/fuzz_instance_XXXXXX");
    int fd = mkstemp(path);
    CHECK(fd >= 0);
    close(fd);
    atexit(path_remove);
    return path;
}

static void check_costs(const struct instance *instance)
{
    struct cost_model model;
    CHECK(cost_model_open(&model, instance) == ST_OK);
    type_index *types = calloc(model.layer_count, sizeof *types);
    struct cost_stage *stages = calloc(model.layer_count, sizeof *stages);
    CHECK(types && stages && isfinite(model.penalty) && isfinite(model.usd_per_rate) && model.usd_per_rate > 0);
    for (size_t c = 0; c < (size_t)model.layer_count * model.type_count; c++) {
        double et = cost_et(&model.times[c], 1);
        CHECK(isfinite(et) && et > 0);
    }
    for (uint32_t l = 0; l < model.layer_count; l++) types[l] = (type_index)(l * l % model.type_count);
    CHECK(cost_stages(&model, types, stages) >= 1);
    cost_model_free(&model);
    free(types);
    free(stages);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct instance instance, read;
    if (instance_parse(&instance, "i.json", (const char *)data, bytes) != ST_OK) {
        CHECK(instance.memory == NULL && strncmp(status_message(), "i.json", 6) == 0);
        return 0;
    }
    CHECK(instance_check(&instance) == ST_OK);
    check_costs(&instance);
    static uint32_t accepted_count;
    /* A file for each instance is slow: the corpus, and a quarter of the others. */
    if (accepted_count++ % 64 < 16) {
        CHECK(instance_write(&instance, written_path()) == ST_OK);
        CHECK(instance_read(&read, written_path()) == ST_OK);
        CHECK(instance_equal(&instance, &read));
        instance_free(&read);
    }
    instance_free(&instance);
    return 0;
}
