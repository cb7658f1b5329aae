/* Any bytes as a policy's file: an error that names it, or a policy that gives a plan for any instance. A
 * second time with the right checksum, so that what is behind it is reached as well. */
#define FUZZ_NAME "policy"
#include "tests/fuzz/driver.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "engine/base/status.h"
#include "sched/policy.h"

static void check_parse(const uint8_t *data, size_t bytes, const struct cost_model *model)
{
    struct policy *policy;
    type_index types[5];
    if (policy_parse(&policy, "p.policy", data, bytes) != ST_OK) {
        CHECK(policy == NULL && strncmp(status_message(), "p.policy: ", 10) == 0);
        return;
    }
    CHECK(policy_cell_of(policy) == POLICY_LSTM || policy_cell_of(policy) == POLICY_ELMAN);
    CHECK(policy_apply(policy, model, types) == ST_OK);
    for (uint32_t l = 0; l < 5; l++) CHECK(types[l] < 3);
    policy_free(policy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static struct instance instance;
    static struct cost_model model;
    if (instance.layer_count == 0)
        CHECK(instance_random(&instance, 1, 5, 3) == ST_OK && cost_model_open(&model, &instance) == ST_OK);
    check_parse(data, bytes, &model);
    if (bytes < sizeof(uint64_t)) return 0;
    uint8_t *signed_data = malloc(bytes);
    CHECK(signed_data != NULL);
    uint64_t checksum = XXH3_64bits(data, bytes - sizeof checksum);
    memcpy(signed_data, data, bytes - sizeof checksum);
    memcpy(signed_data + bytes - sizeof checksum, &checksum, sizeof checksum);
    check_parse(signed_data, bytes, &model);
    free(signed_data);
    return 0;
}
