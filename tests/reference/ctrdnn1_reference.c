/* Trains samples/ctrdnn1.cfg a few steps in double precision and compares the result with what heterps-run made of the same initial
 * values and the same data. It shares no code with the program: it reads text, keys and safetensors in its own way, and the mathematics
 * is written down from the model's definition.
 *
 * Usage: ctrdnn1_reference DATA.tsv INITIAL_DIR TRAINED_DIR sgd|adagrad DENSE_RATE TABLE_RATE BATCH STEPS
 *
 *   x  = [ rows of C1 … C26, 8 numbers each, an empty field 0 | sign(I) ln(1 + |I|) of I1 … I13, an empty one 0 ]       221 numbers
 *   h1 = max(x W1 + b1, 0)     64      h2 = max(h1 W2 + b2, 0)     32      y = h2 W3 + b3     1
 *   loss = mean over the batch of  ln(1 + e^y) - label y
 *   sgd:      w -= rate g                    adagrad:  s += g^2;  w -= rate g / (sqrt(s) + 1e-10)         g: gradient of the mean
 *   A row of the table is updated in the steps in which it occurs, once, by the sum of its gradients. Its key: xxh3-64 of the
 *   text with the field's number, from 0, as seed.
 *
 * Prints TAP, one line a tensor: the norm-wise relative error |trained - reference| / |reference| must not exceed 1e-5. Comments give the
 * same of the change since the initial values, which the initial values cannot hide.
 * A fault for the test of the test: with REFERENCE_FAULT=1 both rates are one per cent greater. */
#include <inttypes.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

enum { FIELDS = 26, DIM = 8, NUMBERS = 13, INPUTS = FIELDS * DIM + NUMBERS, H1 = 64, H2 = 32, LAYERS = 3 };
static const int layer_inputs[LAYERS] = {INPUTS, H1, H2}, layer_outputs[LAYERS] = {H1, H2, 1};
static const char *const layer_names[LAYERS] = {"h1", "h2", "y"};
static const double error_max = 1e-5;

static void give_up(const char *what, const char *where)
{
    printf("Bail out! %s: %s\n", where, what);
    exit(1);
}

static void *take(size_t count, size_t bytes)
{
    void *memory = calloc(count ? count : 1, bytes);
    if (!memory) give_up("no memory", "reference");
    return memory;
}

/* --- files ------------------------------------------------------------------------------------ */

struct file {
    char *path;
    unsigned char *bytes;
    size_t size;
};

static struct file file_read(const char *folder, const char *name)
{
    struct file file = {0};
    file.path = take(strlen(folder) + strlen(name) + 2, 1);
    sprintf(file.path, "%s/%s", folder, name);
    FILE *stream = fopen(file.path, "rb");
    if (!stream) give_up("cannot be opened", file.path);
    fseek(stream, 0, SEEK_END);
    file.size = (size_t)ftell(stream);
    rewind(stream);
    file.bytes = take(file.size + 1, 1);
    if (fread(file.bytes, 1, file.size, stream) != file.size) give_up("cannot be read", file.path);
    fclose(stream);
    return file;
}

/* Finds a tensor of a safetensors file: eight bytes of header length, a JSON header, the data. The header is
 * searched for the name in quotes and the two lists behind it, which is all of JSON that such files use. */
static const unsigned char *tensor_find(const struct file *file, const char *name, const char *type, long shape[2])
{
    uint64_t header_bytes;
    memcpy(&header_bytes, file->bytes, 8);
    if (file->size < 8 || header_bytes > file->size - 8) give_up("the header is longer than the file", file->path);
    char *header = take(header_bytes + 1, 1), quoted[128];
    memcpy(header, file->bytes + 8, header_bytes);
    snprintf(quoted, sizeof quoted, "\"%s\":", name);
    char *at = strstr(header, quoted);
    if (!at) give_up(name, file->path);
    char *end = strchr(at, '}'), *types = strstr(at, "\"dtype\":\""), *shapes = strstr(at, "\"shape\":["),
         *offsets = strstr(at, "\"data_offsets\":[");
    if (!end || !types || !shapes || !offsets || types > end || shapes > end || offsets > end)
        give_up("a tensor without type, shape or place", file->path);
    if (strncmp(types + 9, type, strlen(type)) != 0) give_up("a tensor of another type", file->path);
    char *next;
    shape[0] = strtol(shapes + 9, &next, 10);
    shape[1] = *next == ',' ? strtol(next + 1, NULL, 10) : 1;
    size_t begin = strtoul(offsets + 16, NULL, 10);
    free(header);
    if (begin > file->size - 8 - header_bytes) give_up("a tensor beyond the end", file->path);
    return file->bytes + 8 + header_bytes + begin;
}

static double *tensor_read(const struct file *file, const char *name, long count)
{
    long shape[2];
    const unsigned char *data = tensor_find(file, name, "F32", shape);
    if (shape[0] * shape[1] != count) give_up("a tensor of another size", name);
    double *values = take((size_t)count, sizeof *values);
    for (long i = 0; i < count; i++) {
        float value;
        memcpy(&value, data + 4 * i, 4);
        values[i] = (double)value;
    }
    return values;
}

/* --- the model -------------------------------------------------------------------------------- */

struct model {
    double *weight[LAYERS], *bias[LAYERS];
    uint64_t *key; /* [row_count], ascending */
    double *row;   /* [row_count, DIM]       */
    long row_count;
};

static struct model model_read(const char *folder)
{
    struct model model;
    struct file dense = file_read(folder, "dense.safetensors"), table = file_read(folder, "emb.safetensors");
    for (int l = 0; l < LAYERS; l++) {
        char name[32];
        snprintf(name, sizeof name, "%s.weight", layer_names[l]);
        model.weight[l] = tensor_read(&dense, name, (long)layer_inputs[l] * layer_outputs[l]);
        snprintf(name, sizeof name, "%s.bias", layer_names[l]);
        model.bias[l] = tensor_read(&dense, name, layer_outputs[l]);
    }
    long shape[2];
    const unsigned char *keys = tensor_find(&table, "keys", "U64", shape);
    model.row_count = shape[0];
    model.key = take((size_t)shape[0], sizeof *model.key);
    memcpy(model.key, keys, (size_t)shape[0] * sizeof *model.key);
    model.row = tensor_read(&table, "vectors", model.row_count * DIM);
    return model;
}

static long row_find(const struct model *model, uint64_t key)
{
    long low = 0, high = model->row_count;
    while (low < high) {
        long middle = low + (high - low) / 2;
        if (model->key[middle] < key)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == model->row_count || model->key[low] != key)
        give_up("a value of the data has no exported row", "emb.safetensors");
    return low;
}

/* --- the data --------------------------------------------------------------------------------- */

struct example {
    double label, number[NUMBERS];
    long row[FIELDS]; /* -1: the field is empty */
};

static void example_read(struct example *example, char *line, const struct model *model, uint8_t *is_used)
{
    char *at = line;
    for (int column = 0; column < 1 + NUMBERS + FIELDS; column++) {
        size_t bytes = strcspn(at, "\t\n");
        int field = column - 1 - NUMBERS;
        if (column == 0) {
            example->label = atof(at);
        } else if (field < 0) {
            double x = bytes ? atof(at) : 0;
            example->number[column - 1] = x < 0 ? -log(1 - x) : log(1 + x);
        } else {
            example->row[field] = bytes ? row_find(model, XXH3_64bits_withSeed(at, bytes, (XXH64_hash_t)field)) : -1;
            if (bytes) is_used[example->row[field]] = 1;
        }
        at += bytes + (at[bytes] != '\0');
    }
}

static struct example *data_read(const char *path, long count, const struct model *model, uint8_t *is_used)
{
    FILE *stream = fopen(path, "r");
    if (!stream) give_up("cannot be opened", path);
    struct example *examples = take((size_t)count, sizeof *examples);
    char *line = NULL;
    size_t room = 0;
    for (long i = 0; i < count; i++) {
        if (getline(&line, &room, stream) < 0) give_up("too few lines", path);
        example_read(&examples[i], line, model, is_used);
    }
    free(line);
    fclose(stream);
    return examples;
}

/* --- training --------------------------------------------------------------------------------- */

struct recipe {
    int is_adagrad;
    double dense_rate, table_rate;
};

/* Sums of gradients and, for adagrad, of their squares. */
struct training {
    struct model gradient, squares;
    uint8_t *is_touched; /* [row_count]: occurs in the step */
};

static void training_make(struct training *training, long row_count)
{
    for (int l = 0; l < LAYERS; l++) {
        size_t weights = (size_t)layer_inputs[l] * (size_t)layer_outputs[l], biases = (size_t)layer_outputs[l];
        training->gradient.weight[l] = take(weights, sizeof(double));
        training->squares.weight[l] = take(weights, sizeof(double));
        training->gradient.bias[l] = take(biases, sizeof(double));
        training->squares.bias[l] = take(biases, sizeof(double));
    }
    training->gradient.row = take((size_t)row_count * DIM, sizeof(double));
    training->squares.row = take((size_t)row_count * DIM, sizeof(double));
    training->is_touched = take((size_t)row_count, 1);
}

/* Adds the gradient of one example's loss, and returns the loss. */
static double example_learn(const struct example *example, const struct model *model, struct training *training)
{
    double value[LAYERS + 1][INPUTS] = {{0}}, slope[LAYERS + 1][INPUTS] = {{0}};
    for (int f = 0; f < FIELDS; f++)
        for (int d = 0; d < DIM && example->row[f] >= 0; d++)
            value[0][f * DIM + d] = model->row[example->row[f] * DIM + d];
    for (int n = 0; n < NUMBERS; n++) value[0][FIELDS * DIM + n] = example->number[n];
    for (int l = 0; l < LAYERS; l++)
        for (int j = 0; j < layer_outputs[l]; j++) {
            double sum = model->bias[l][j];
            for (int i = 0; i < layer_inputs[l]; i++) sum += value[l][i] * model->weight[l][i * layer_outputs[l] + j];
            value[l + 1][j] = l < LAYERS - 1 && sum < 0 ? 0 : sum;
        }
    double y = value[LAYERS][0];
    slope[LAYERS][0] = 1 / (1 + exp(-y)) - example->label;
    for (int l = LAYERS - 1; l >= 0; l--)
        for (int j = 0; j < layer_outputs[l]; j++) {
            if (l < LAYERS - 1 && value[l + 1][j] <= 0) continue; /* the flat side of max(…, 0) */
            double s = slope[l + 1][j];
            training->gradient.bias[l][j] += s;
            for (int i = 0; i < layer_inputs[l]; i++) {
                training->gradient.weight[l][i * layer_outputs[l] + j] += s * value[l][i];
                slope[l][i] += s * model->weight[l][i * layer_outputs[l] + j];
            }
        }
    for (int f = 0; f < FIELDS; f++) {
        if (example->row[f] < 0) continue;
        training->is_touched[example->row[f]] = 1;
        for (int d = 0; d < DIM; d++) training->gradient.row[example->row[f] * DIM + d] += slope[0][f * DIM + d];
    }
    return (y > 0 ? y : 0) + log(1 + exp(-fabs(y))) - example->label * y;
}

static void numbers_update(double *value, double *gradient, double *squares, long count, double rate, int is_adagrad,
                           long batch)
{
    for (long i = 0; i < count; i++) {
        double g = gradient[i] / (double)batch;
        gradient[i] = 0;
        if (is_adagrad) {
            squares[i] += g * g;
            value[i] -= rate * g / (sqrt(squares[i]) + 1e-10);
        } else {
            value[i] -= rate * g;
        }
    }
}

static void model_update(struct model *model, struct training *t, const struct recipe *recipe, long batch)
{
    for (int l = 0; l < LAYERS; l++) {
        numbers_update(model->weight[l], t->gradient.weight[l], t->squares.weight[l],
                       (long)layer_inputs[l] * layer_outputs[l], recipe->dense_rate, recipe->is_adagrad, batch);
        numbers_update(model->bias[l], t->gradient.bias[l], t->squares.bias[l], layer_outputs[l], recipe->dense_rate,
                       recipe->is_adagrad, batch);
    }
    for (long r = 0; r < model->row_count; r++) {
        if (!t->is_touched[r]) continue;
        t->is_touched[r] = 0;
        numbers_update(model->row + r * DIM, t->gradient.row + r * DIM, t->squares.row + r * DIM, DIM,
                       recipe->table_rate, recipe->is_adagrad, batch);
    }
}

/* --- comparison ------------------------------------------------------------------------------- */

static int test_count, failure_count;

static void compare(const char *name, const double *reference, const double *trained, const double *initial, long count)
{
    double error = 0, norm = 0, change = 0;
    for (long i = 0; i < count; i++) {
        error += (trained[i] - reference[i]) * (trained[i] - reference[i]);
        norm += reference[i] * reference[i];
        change += (reference[i] - initial[i]) * (reference[i] - initial[i]);
    }
    error = sqrt(error);
    /* A tensor that did not move would agree whatever the optimizer does. */
    int is_good = error <= error_max * sqrt(norm) && change > 0;
    test_count++;
    failure_count += !is_good;
    printf("%s %d - %s: relative error %.2g\n", is_good ? "ok" : "not ok", test_count, name, error / sqrt(norm));
    if (!is_good)
        printf("# %s: error %.3g, norm %.3g, change %.3g, error of the change %.2g\n", name, error, sqrt(norm),
               sqrt(change), error / sqrt(change));
}

int main(int argument_count, char **arguments)
{
    if (argument_count != 9) {
        fprintf(stderr, "usage: ctrdnn1_reference DATA.tsv INITIAL_DIR TRAINED_DIR sgd|adagrad DENSE_RATE TABLE_RATE "
                        "BATCH STEPS\n");
        return 2;
    }
    double fault = getenv("REFERENCE_FAULT") ? 1.01 : 1;
    struct recipe recipe = {strcmp(arguments[4], "adagrad") == 0, atof(arguments[5]) * fault,
                            atof(arguments[6]) * fault};
    long batch = atol(arguments[7]), steps = atol(arguments[8]);
    struct model model = model_read(arguments[2]), initial = model_read(arguments[2]),
                 trained = model_read(arguments[3]);
    struct training training;
    training_make(&training, model.row_count);
    uint8_t *is_used = take((size_t)model.row_count, 1);
    struct example *examples = data_read(arguments[1], batch * steps, &model, is_used);

    /* Both exports hold exactly the rows of the values that occur. */
    int same_rows = model.row_count == trained.row_count &&
                    memcmp(model.key, trained.key, (size_t)model.row_count * sizeof *model.key) == 0;
    for (long r = 0; r < model.row_count; r++) same_rows &= is_used[r];
    printf("%s %d - the table holds the %ld values of the data\n", same_rows ? "ok" : "not ok", ++test_count,
           model.row_count);
    if (!same_rows) return 1;

    double loss = 0;
    for (long step = 0; step < steps; step++) {
        loss = 0;
        for (long i = 0; i < batch; i++) loss += example_learn(&examples[step * batch + i], &model, &training);
        model_update(&model, &training, &recipe, batch);
    }
    for (int l = 0; l < LAYERS; l++) {
        char name[32];
        snprintf(name, sizeof name, "%s.weight", layer_names[l]);
        compare(name, model.weight[l], trained.weight[l], initial.weight[l], (long)layer_inputs[l] * layer_outputs[l]);
        snprintf(name, sizeof name, "%s.bias", layer_names[l]);
        compare(name, model.bias[l], trained.bias[l], initial.bias[l], layer_outputs[l]);
    }
    compare("rows of emb", model.row, trained.row, initial.row, model.row_count * DIM);
    printf("# loss of the last step %.6f\n", loss / (double)batch);
    return failure_count ? 1 : 0;
}
