/* Types and numbers of units as one choice, for a policy that draws both (HeterPS, section 7: "combine the scheduling
 * process and the provisioning process"). A column is a type with so many units: all numbers up to a few, then such
 * that grow by a constant factor up to the type's limit. A plan of columns gives one to each layer; layers that
 * follow one another on one type are a stage, whatever their columns say of units, and its first one's counts. */
#ifndef HETERPS_SCHED_JOINT_H
#define HETERPS_SCHED_JOINT_H

#include "sched/cost.h"

#define JOINT_COLUMNS_MAX 1024u /* of all types, where there are fewer types than that */
#define JOINT_LEVELS_MAX  40u   /* numbers of units of a type                          */

struct joint {
    const struct cost_model *of;
    uint32_t column_count;
    type_index *type;        /* [columns]                                                    */
    uint32_t *unit_count;    /* [columns]                                                    */
    uint32_t *first;         /* [types + 1]: columns of a type                               */
    struct cost_model model; /* columns as types: what a policy looks at (net_view_open)     */
    type_index *types;       /* [L]: of the plan that was decoded last                       */
    uint32_t *units;         /* [L]: likewise                                                */
    void *memory;
};
/* Borrows the model and its instance until joint_close. MEMORY. */
MUST_USE status joint_open(struct joint *joint, const struct cost_model *model);
void joint_close(struct joint *joint);
/* Puts half of a type's numbers, where it has more of them than columns, next to those that a plan has. */
void joint_near(struct joint *joint, const type_index *types, const uint32_t *units);
/* The columns[L] of a plan, its units as near as they allow; of one that joint_near was given, exactly its units. */
void joint_encode(const struct joint *joint, const type_index *types, const uint32_t *units, type_index *columns);
/* Multiplies the units of all columns[L] by a factor, as near as the columns of their types allow. */
void joint_scale(const struct joint *joint, type_index *columns, double factor);
/* Sets types and units; and in columns[L], for each layer of a stage, that of its first one: what is learned of a
 * plan is what it came to. */
void joint_decode(struct joint *joint, type_index *columns);

#endif
