/* From a compiled graph and a cluster to a scheduling problem (sched/instance.h) whose times are measured.
 *
 *   type of the cluster                  its times                                                         source
 *   device = cpu                         measured here, slowed where `slow` says so                        measured
 *   a card that is here                  measured here (engine/device/card/measure.h)                      measured
 *   profile = FILE, any device           those of the type of this name in the file, for layers of the     stored
 *                                        same names
 *   others                               by declared rates (sched/estimate.h)                              declared
 *
 * Stored times of a cpu type with `slow` are multiplied by the factor of the layer's kind, unless they
 * were measured slowed. Stored times of a sim type are not, because a sim device itself takes the factor
 * more time than its plan says.
 *
 * The numbers of a measured cpu type, for a layer and B_o examples on one core:
 *
 *   oct      c0 + c1 B_o + update B_o / train.batch. A layer's forward and backward passes are timed within passes
 *            of the whole graph (engine/profile/profile_run.h) over micro-batches of train.micro examples, a half,
 *            a quarter and an eighth of them; c0 + c1 B is fitted to these times. Where B_o is train.micro, its
 *            measured time is taken itself. The update of the layer's parameters and rows, the cost of synchronising
 *            them on one node, happens once for train.batch examples: B_o of them carry their share of it.
 *   fixed    c0
 *   alpha    fitted to oct on gangs of 1, 2, 4, … cores, up to all cores here, as t(k) = t(1) (1 - alpha + alpha /
 *            k), with a 95 % interval; a fit to two gangs has none. With fewer than two undisturbed gangs alpha is
 *            assumed: 0.95 for layers that calculate, 0.9 for others, which are bound by memory.
 *   odt      m0 for each direction that carries anything, and m1 for each byte that is live across the cut after
 *            the layer (graph/cut.h), for B_o examples there and back. m0 + m1 n is fitted to the time that a core
 *            takes to read n bytes that another core has just written, as stages on CPU cores do; with one core
 *            here, to the time to copy them.
 *   beta     assumed: the bytes divide among the cores of a gang, which each read their part; m0 does not divide.
 *
 * service_seconds is measured, too: reading, parsing and preparing the rows of an example. A goal of "max"
 * leaves throughput_limit 0: its value depends on the plan. */
#ifndef HETERPS_ENGINE_PROFILE_PROFILE_H
#define HETERPS_ENGINE_PROFILE_PROFILE_H

#include "sched/cluster.h"
#include "sched/instance.h"

#define PROFILE_SECONDS 5.0
#define PROFILE_SPREAD  0.15

struct profile_options {
    const struct graph *graph;
    const char *graph_path; /* its data.path is relative to it */
    const struct cluster *cluster;
    const char *data; /* files separated by commas; NULL: data.path of the graph, else generated rows */
    const char *isa;  /* as in cpu_device_open                                                        */
    /* bound of measuring, but at least one round is made. 0: PROFILE_SECONDS, and profile_cached may answer
     * from its file */
    double seconds;
    double batch;  /* B_o; 0: train.micro                                                          */
    uint64_t step; /* types that are slowed only from a later step on are measured without slowing */
    /* limits of cpu types, measured or stored, are lowered so that together they fit the cores here, less the
     * service cores */
    bool here;
    /* a machine is busy if the middle half of the rounds spreads over more than this share of
     * their median; 0: PROFILE_SPREAD */
    double spread_max;
};

/* Measures. INVALID: a type that is neither here nor stored nor declared, with file, line and what to do; a
 * stored profile without the type; with `here`, more cpu types than cores. MISMATCH: a stored profile of
 * other layers. STOPPED: by a signal, where stop_listen was called. Also fails as reading, estimating and
 * running fail. A warning says that the machine was busy. */
MUST_USE status profile_measure(struct instance *instance, const struct profile_options *options);

/* Makes the checks of profile_measure that need no measuring, and fails like it;
 * the times of measured types are 0. */
MUST_USE status profile_check(struct instance *instance, const struct profile_options *options);

/* As profile_measure, but answers from a file in $XDG_CACHE_HOME/heterps-run, else ~/.cache/heterps-run, if
 * there is one for this graph, these types, this data, this processor and this program. Else it measures, and
 * keeps the answer there, unless the machine was busy. A file that does not parse or does not match is
 * replaced. A remark says if the folder cannot be written. */
MUST_USE status profile_cached(struct instance *instance, const struct profile_options *options);

/* Tells an instance as a table: for each layer its times on each type, alpha, bytes of the cut
 * and the times' sources; then a line for reading; profile_event logs the event "profile".
 * Text goes to `say`, line by line. */
typedef void profile_say(void *context, const char *line);
MUST_USE status profile_tell(const struct instance *instance, profile_say *say, void *context);
void profile_event(const struct instance *instance);

#endif
