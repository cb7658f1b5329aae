/* Data for a graph, in the graph's format, from a planted model, so that a model can be tried, profiled
 * and tested before there is data for it. As in gen_criteo.h, row i is a function of (seed, vocab,
 * zipf, the graph's columns, i) alone, and the best figures that a model can reach are known. Use
 * gen_criteo.h for the criteo format.
 *
 *   value of a field     k in 1 .. V, P(k) ~ k^-A by inversion of the continuous law; written as the word of that
 *                        rank where the column has a vocabulary, else as a text of its key space (columns that
 *                        share keys share texts)
 *   keys of a field      1 .. ids_max, uniform
 *   numeric column       floor(exp(1 + 0.8 ln(u / (1 - u)))): skewed counts; one in ten is absent
 *   label                1 with probability 1 / (1 + exp(-z)):
 *       z = -1 + 0.3 s sum over fields of the mean of its keys' effects
 *              + 0.1 sum over numeric columns of +- log(1 + x) + 2 m
 *       effect of a value: +-(1/2 .. 3/2) 100 / (99 + k);  s = sqrt(26 / fields), so that many fields do not drown
 *       in their sum
 *       m: where several fields share keys (a target and a history), values fall into 8 classes; in a row
 *       nine in ten values of the first field are of one class, and nine in ten of the second field are of
 *       the same class (m = 1/2) or, with even chance, of another (m = -1/2)
 *   no label             of fields that share keys the second has the first field's class, further fields have other
 *                        classes: a matching model has to tell them apart
 *   columns              labels, weight, group, numeric columns, fields, in this order, or in that of data.columns,
 *                        where columns that the graph does not use are empty; in quotation marks if need be. In libfm
 *                        fields are places in the line
 *   trees                1 to 30 leaves, each with a word, or a number of -1 to 1 where the kinds need numbers; a node
 *                        over n leaves has 1 with probability 1 / (1 + exp(-2 sum / sqrt(n))), with the sum of its
 *                        words' effects and its leaves' numbers; its kind is drawn from the kinds that take its
 *                        children, with even chance
 *   a label that is a word, pairs, tokens: a user's items, and a word's successor,
 *   share a class nine times in ten */
#ifndef HETERPS_ENGINE_DATA_GEN_GRAPH_H
#define HETERPS_ENGINE_DATA_GEN_GRAPH_H

#include "engine/data/gen_criteo.h"
#include "engine/data/schema.h"

struct gen_graph;

struct gen_graph_options {
    const struct reader_schema *schema; /* kept until close; of any format but criteo               */
    enum reader_format format;
    uint64_t seed;
    uint32_t vocab; /* values of a key space without vocabulary, 1 .. GEN_CRITEO_VOCAB_MAX          */
    double zipf;    /* exponent, 0 .. 10                                                            */
};

/* *gen is yours: gen_graph_close. MEMORY; INVALID: a row would be longer than a reader takes; or such kinds
 * of trees, or such labels, cannot be made. */
MUST_USE status gen_graph_open(struct gen_graph **gen, const struct gen_graph_options *options);
void gen_graph_close(struct gen_graph *gen);
/* Bytes of room for a row, or the header. */
size_t gen_graph_line_bytes_max(const struct gen_graph *gen);
/* Writes the first line of a file, if the format has one; returns its bytes. */
size_t gen_graph_header(const struct gen_graph *gen, char *line);
/* Writes row `row` with its newline and returns its bytes.
 * truth->label is NAN where no label is drawn from z. */
size_t gen_graph_row(struct gen_graph *gen, uint64_t row, char *line, struct gen_criteo_truth *truth);

#endif
