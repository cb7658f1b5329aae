/* What the nodes of a training have in common, as a text: a line a fact, "WHAT\tVALUE", the same facts
 * in the same order on every node. Nodes compare hashes; where these differ they compare the texts, to
 * say what differs. Once a start. */
#ifndef HETERPS_ENGINE_NODE_FACTS_H
#define HETERPS_ENGINE_NODE_FACTS_H

#include "engine/base/status.h"
#include "graph/graph.h"

/* Most bytes of another node's text, and of ours. */
#define FACTS_BYTES_MAX (1u << 20)

struct facts {
    char *text;
    size_t bytes;
    uint64_t hash;
};
struct facts_options {
    const struct graph *graph; /* NULL: of a job that has none */
    const char *isa;           /* name of the instruction set */
    uint32_t node_count;
    const char *slices, *rows; /* who has them, in the settings' words: with the graph */
    uint64_t bucket_bytes;     /* cluster.bucket: with the graph                       */
    bool saves;                /* there is an --out                                    */
    const char *stages;        /* where they lie (stages_text); NULL: nodes have lanes */
    uint32_t in_flight;        /* train.in_flight: with stages                         */
    const char *cards;         /* the layers that the plan gives to cards, or "none"; NULL: not known */
    uint32_t progressive;      /* train.progressive: with the graph                    */
    const char *verb;          /* what the nodes do                                    */
};
/* MEMORY; INVALID: the graph has too many settings. The text is the facts' until facts_free. */
MUST_USE status facts_make(struct facts *facts, const struct facts_options *options);
void facts_free(struct facts *facts);

/* Says how another node's facts differ from ours, for both: "train.batch is 64 there, and 128 here". False:
 * they do not, as far as the text tells. */
#define FACTS_WORDS_BYTES ((size_t)400)
struct facts_difference {
    char ours[FACTS_WORDS_BYTES], theirs[FACTS_WORDS_BYTES]; /* as this node and as the other one should say it */
};
bool facts_differ(const struct facts *ours, const char *theirs, size_t bytes, struct facts_difference *difference);

#endif
