/* What measuring a profile and keeping it have in common: the settings of its graph's text, which files it reads, and what of the cluster's
 * text is no measurement. */
#ifndef HETERPS_ENGINE_PROFILE_DATA_H
#define HETERPS_ENGINE_PROFILE_DATA_H

#include "cfg/settings.h"
#include "engine/profile.h"

struct profile_data {
    struct ini ini; /* owns the settings' texts */
    struct settings settings;
    char *paths; /* NULL: rows are to be generated */
};
/* Standard input and pipes are left alone, for the training that follows will want them: rows are generated instead. */
MUST_USE status profile_data_open(struct profile_data *data, const struct profile_options *options);
void profile_data_close(struct profile_data *data);

/* The path of a type's stored profile, relative to the cluster's text. malloc'd: the caller's. */
char *profile_stored_path(const struct cluster *cluster, const struct cluster_type *type);

/* Takes devices, prices, limits and goals from the cluster; names and sources of the types are set. */
void profile_goal_set(struct instance *instance, const struct profile_options *options);

#endif
