/* Shared by measuring a profile and keeping it: the settings in the graph's text, the files of data, and the
 * parts of the cluster's text that are no measurements: goals, prices and limits. */
#ifndef HETERPS_ENGINE_PROFILE_PROFILE_DATA_H
#define HETERPS_ENGINE_PROFILE_PROFILE_DATA_H

#include "cfg/settings.h"
#include "engine/base/file.h"
#include "engine/profile/profile.h"

struct profile_data {
    struct ini ini; /* owns the settings' texts */
    struct settings settings;
    char *paths; /* NULL: rows are generated */
};
/* Standard input and pipes are left to the training that follows: rows are generated instead. */
MUST_USE status profile_data_open(struct profile_data *data, const struct profile_options *options);
void profile_data_close(struct profile_data *data);

/* The path of a type's stored profile, relative to the cluster's text; returns `path`. */
const char *profile_stored_path(char path[FILE_PATH_BYTES], const struct cluster *cluster,
                                const struct cluster_type *type);

/* Examples of a pass, where the data do not tell them. */
#define PROFILE_EXAMPLES_UNKNOWN RESOURCE_FIGURE_MIN

/* Measures as profile_measure does, but sets no goal: limits are the cluster's, examples the data's, or
 * PROFILE_EXAMPLES_UNKNOWN. is_busy: the rounds spread too far. On failure *instance is empty. */
MUST_USE status profile_take(struct instance *instance, const struct profile_options *options, bool *is_busy);

/* Takes devices, prices, limits and goals from the cluster; examples that the cluster does not give stay the
 * data's. Fails as profile_limits; *instance is then empty. */
MUST_USE status profile_goal_set(struct instance *instance, const struct profile_options *options);

/* limits [type_count]: the cluster's. If the limits of cpu types sum to more than the cores, less the service
 * cores, these cores are divided among the types in proportion to their limits, at least one each. INVALID:
 * there are more cpu types than cores. */
MUST_USE status profile_limits(const struct cluster *cluster, uint32_t core_count, uint32_t *limits);
/* The limits for these options: lowered with `here`, and for cards to the cards here. */
MUST_USE status profile_limits_wanted(const struct profile_options *options, uint32_t *limits);

#endif
