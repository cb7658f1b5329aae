/* Trains a model a few steps in double precision and compares the result with what heterps-run made of the
 * same initial values and the same data. It shares no code with the program: it reads text, keys and
 * safetensors in its own way (reference.c), and each model's file writes its mathematics down from its
 * definition, example by example, with the derivatives by hand.
 *
 *   sgd       w -= rate g
 *   adagrad   s += g^2;  w -= rate g / (sqrt(s) + 1e-10)      s from an accumulator on   g: of the batch's mean loss
 *
 * A row of a table is updated in the steps in which it occurs, once, by the sum of its gradients. Its key:
 * xxh3-64 of the text with the column's seed. */
#ifndef HETERPS_TESTS_REFERENCE_H
#define HETERPS_TESTS_REFERENCE_H

#include <stdint.h>

/* Parameters, or a table's rows: [rows, cols]. */
struct tensor {
    char name[64];
    long rows, cols;
    double *value, *gradient, *squares; /* gradient: sum over the examples of the step so far */
    const double *initial, *trained;    /* as exported                                        */
};
struct table {
    struct tensor vectors;
    uint64_t *key;                /* [rows], ascending                         */
    uint8_t *is_touched, *is_met; /* [rows]: in this step; at all              */
};

struct example {
    double label;
    double *number; /* sign(x) ln(1 + |x|), an empty column 0 */
    struct {
        long count;
        uint64_t *key;
    } * field;
};

struct model {
    const char *name;
    /* A line of data: the label if there is one, then the numbers, then the fields; a field's keys are
     * separated as said. */
    char separator, list_separator;
    int header_lines, has_label, number_count, field_count;
    const char *const *
        /* [field_count]: the seed of a field's keys is this text's xxh3-64; NULL: its name in Criteo, C1 … */
        key_space;
    /* Finds the model's tensors: called once. */
    void (*open)(void);
    /* Adds the gradient of one example's loss to the tensors', and returns the loss. */
    double (*learn)(const struct example *example);
};
extern const struct model ctrdnn1, deepfm, dcnv2, din, matchnet;

/* Ends the program: what is wrong, and where. */
_Noreturn void give_up(const char *what, const char *where);
/* An exported tensor, or table, by its name. */
struct tensor *tensor_of(const char *name);
struct table *table_of(const char *name);
/* `count` zeros, until the example ends. */
double *scratch(long count);

/* The vector of a key, and its gradient, which marks the row as touched. */
const double *row_of(const struct table *table, uint64_t key);
double *row_gradient(struct table *table, uint64_t key);
/* Adds the rows of a field's keys to y, and dy to the gradient of each. */
void field_sum(const struct table *table, const struct example *example, int field, double *y);
void field_learn(struct table *table, const struct example *example, int field, const double *dy);

/* y = act(x W + b), W [K,N] */
enum act { NONE, RELU, SIGMOID };
struct layer {
    struct tensor *weight, *bias; /* bias NULL: without */
    enum act act;
    long inputs, outputs;
};
/* The tensors NAME.weight and, if there is one, NAME.bias. */
struct layer layer_of(const char *name, enum act act);
/* Returns y [N], a scratch. */
double *layer_forward(const struct layer *layer, const double *x);
/* Adds to the gradients of weight and bias, and to dx [K]; dx NULL: nobody wants it. */
void layer_backward(const struct layer *layer, const double *x, const double *y, const double *dy, double *dx);
/* Several, each from what the one before gives: y[0] is x, y[count] the result; all of them scratch. */
void layers_forward(const struct layer *layers, int count, double **y);
/* dy: of the result. Adds to dx. */
void layers_backward(const struct layer *layers, int count, double *const *y, const double *dy, double *dx);

/* ln(1 + e^y) - label y, and its slope in y. */
double logistic_loss(double y, double label, double *dy);

#endif
