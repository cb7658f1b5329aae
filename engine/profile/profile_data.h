/* What measuring a profile and keeping it have in common: the settings of its graph's text, which files it
 * reads, and what of the cluster's text is no measurement: goals, prices and limits. */
#ifndef HETERPS_ENGINE_PROFILE_PROFILE_DATA_H
#define HETERPS_ENGINE_PROFILE_PROFILE_DATA_H

#include "cfg/settings.h"
#include "engine/base/file.h"
#include "engine/profile/profile.h"

struct profile_data {
    struct ini ini; /* owns the settings' texts */
    struct settings settings;
    char *paths; /* NULL: rows are to be generated */
};
/* Standard input and pipes are left alone, for the training that follows will want them: rows are generated instead. */
MUST_USE status profile_data_open(struct profile_data *data, const struct profile_options *options);
void profile_data_close(struct profile_data *data);

/* The path of a type's stored profile, relative to the cluster's text; returns `path`. */
const char *profile_stored_path(char path[FILE_PATH_BYTES], const struct cluster *cluster,
                                const struct cluster_type *type);

/* Examples of a pass over the data, where it does not tell them. */
#define PROFILE_EXAMPLES_UNKNOWN RESOURCE_FIGURE_MIN

/* Measures as profile_measure does, but sets no goal: limits are the cluster's, examples those that the data has, or
 * PROFILE_EXAMPLES_UNKNOWN. is_busy: its rounds spread too far. On failure *instance is empty. */
MUST_USE status profile_take(struct instance *instance, const struct profile_options *options, bool *is_busy);

/* Takes devices, prices, limits and goals from the cluster, and from the data what the cluster leaves to it. On
 * failure, which is that of profile_limits, *instance is empty. */
MUST_USE status profile_goal_set(struct instance *instance, const struct profile_options *options);

/* limits [type_count]: those of the cluster; where those of its cpu types come to more than the cores, less the
 * service cores, these are divided among them in proportion to their limits, at least one each. INVALID: there
 * are more of these types than cores. */
MUST_USE status profile_limits(const struct cluster *cluster, uint32_t core_count, uint32_t *limits);
/* The limits that these options ask for. */
MUST_USE status profile_limits_wanted(const struct profile_options *options, uint32_t *limits);

#endif
