/* From a compiled graph and a cluster to a scheduling problem (sched/instance.h) whose times are measured.
 *
 *   type of the cluster                  its times                                                         source
 *   device = cpu                         measured here, slowed where `slow` says so                        measured
 *   profile = FILE, of whatever device   those of the type of this name in the file, for layers of the     stored
 *                                        same names
 *   others                               by declared rates (sched/estimate.h)                              declared
 *
 * Stored times of a cpu type with `slow` are multiplied by the factor of the layer's kind, if they were not
 * measured slowed already; those of a sim type are not, for sim takes so many times as long as its plan says.
 *
 * What the numbers of a measured type are, for a layer and B_o examples on one core:
 *
 *   oct      c0 + c1 B_o + update B_o / train.batch. A layer's forward and backward passes are timed within passes
 *            of the whole graph (engine/profile/profile_run.h) over micro-batches of train.micro examples, a half,
 *            a quarter and an eighth of them; c0 + c1 B is fitted to these. Where B_o is train.micro, the time of
 *            that is taken itself. The update of its parameters and rows, which is what synchronising them costs on
 *            one node, happens once for train.batch examples: B_o of them carry that share of it.
 *   fixed    c0
 *   alpha    fitted to oct on gangs of 1, 2, 4, … cores, up to what is here, as t(k) = t(1) (1 - alpha + alpha /
 *            k), with a 95 % interval; from one and two cores it has none. Where there is one core it cannot be
 *            measured, and is assumed: 0.95 for layers that calculate, 0.9 for others, which are bound by memory.
 *   odt      m0 for each direction that carries anything, and m1 for each byte, of what is live across the cut
 *            behind the layer (graph/cut.h), B_o examples there and back. m0 + m1 n is fitted to what it costs a
 *            core to read n bytes that another has just written, as stages on CPU cores do; with one core here, to
 *            what it costs to copy them.
 *   beta     assumed: the bytes divide among the cores of a gang, which each read their part; m0 does not.
 *
 * service_seconds is measured as well: reading, parsing and preparing the rows of an example. A goal of "max"
 * leaves throughput_limit 0: what it means depends on the plan. */
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
    const char *data; /* files separated by commas; NULL: data.path of the graph, else generated rows           */
    const char *isa;  /* as cpu_device_open's                                                                   */
    double seconds;   /* bound of measuring; at least one round of all is made whatever it is. 0: PROFILE_SECONDS,
                         and profile_cached may answer with what it has measured before                         */
    double batch;     /* B_o; 0: train.micro                                                                    */
    uint64_t step;    /* types that are slowed only from a later step on are measured as they are before        */
    bool here; /* limits of cpu types, measured or stored, are lowered so that all of them together fit the cores that
                         are here, less the service cores */
    /* rounds whose middle half spreads over more of their median tell of a busy machine; 0: PROFILE_SPREAD */
    double spread_max;
};

/* Measures. INVALID: a type that is neither here nor stored nor declared, with file, line and what to do;
 * MISMATCH: a stored profile of other layers, INVALID: without the type, both with the file's name; INVALID:
 * with `here`, more cpu types than cores; STOPPED: by a signal, where stop_listen was called; else as reading,
 * estimating and running fail. A warning says that the machine was busy. */
MUST_USE status profile_measure(struct instance *instance, const struct profile_options *options);

/* Fails as profile_measure does with what can be wrong before anything is measured; the times of measured types
 * are 0. */
MUST_USE status profile_check(struct instance *instance, const struct profile_options *options);

/* As profile_measure, from a file in $XDG_CACHE_HOME/heterps-run, else ~/.cache/heterps-run, where one is there
 * for this graph, these types, this data, this processor and this program, and profile_measure with what is
 * measured kept there for the next time. A file that does not parse or does not match is measured anew. What
 * was measured on a busy machine is not kept. Where no such folder can be written, a remark says so. */
MUST_USE status profile_cached(struct instance *instance, const struct profile_options *options);

/* Tells an instance as a table: of each layer its times on each type, alpha, bytes of the cut and where the
 * times come from; a line for reading; and the event "profile". Text goes to `say`, line by line. */
typedef void profile_say(void *context, const char *line);
MUST_USE status profile_tell(const struct instance *instance, profile_say *say, void *context);
void profile_event(const struct instance *instance);

#endif
