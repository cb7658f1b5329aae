/* Reads what was exported before and after, and the data; trains; compares. What the models
 * share of arithmetic is here too.
 *
 * Usage: reference MODEL DATA INITIAL_DIR TRAINED_DIR sgd|adagrad RATE ACCUMULATOR BATCH STEPS
 *
 * Prints TAP, one line a tensor or table: the norm-wise relative error |trained - reference| / |reference|
 * must not exceed 1e-5, of a table also that of each row, to its norm or the root mean square of the rows'
 * norms, whichever is greater, for a row of one number may come near 0; and all must have moved. Adagrad
 * from an accumulator of 0 makes a step of RATE of any gradient, so of one that is 0 up to rounding a step
 * up or down: then rows are not looked at one by one. A fault for the test of the test: with
 * REFERENCE_FAULT=1 the rate is one per cent greater. */
#include "reference.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

enum { TENSORS_MAX = 64, TABLES_MAX = 8 };
static const double error_max = 1e-5;
static const char *initial_folder, *trained_folder;
static struct tensor *tensors[TENSORS_MAX];
static struct table *tables[TABLES_MAX];
static int tensor_count, table_count;

void give_up(const char *what, const char *where)
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

/* Takes the numbers of an exported tensor: its own to train, and those before and after. */
static void tensor_read(struct tensor *tensor, const char *file_name, const char *tensor_name)
{
    const char *const folders[] = {initial_folder, initial_folder, trained_folder};
    double *values[3];
    for (int k = 0; k < 3; k++) {
        struct file file = file_read(folders[k], file_name);
        long shape[2];
        const unsigned char *data = tensor_find(&file, tensor_name, "F32", shape);
        if (k > 0 && (shape[0] != tensor->rows || shape[1] != tensor->cols)) give_up("two shapes", tensor_name);
        tensor->rows = shape[0], tensor->cols = shape[1];
        values[k] = take((size_t)(shape[0] * shape[1]), sizeof(double));
        for (long i = 0; i < shape[0] * shape[1]; i++) {
            float value;
            memcpy(&value, data + 4 * i, 4);
            values[k][i] = (double)value;
        }
        free(file.bytes), free(file.path);
    }
    tensor->value = values[0], tensor->initial = values[1], tensor->trained = values[2];
    tensor->gradient = take((size_t)(tensor->rows * tensor->cols), sizeof(double));
    tensor->squares = take((size_t)(tensor->rows * tensor->cols), sizeof(double));
}

struct tensor *tensor_of(const char *name)
{
    struct tensor *tensor = take(1, sizeof *tensor);
    snprintf(tensor->name, sizeof tensor->name, "%s", name);
    tensor_read(tensor, "dense.safetensors", name);
    if (tensor_count == TENSORS_MAX) give_up("too many tensors", name);
    return tensors[tensor_count++] = tensor;
}

struct table *table_of(const char *name)
{
    struct table *table = take(1, sizeof *table);
    char file_name[96];
    snprintf(file_name, sizeof file_name, "%s.safetensors", name);
    snprintf(table->vectors.name, sizeof table->vectors.name, "rows of %s", name);
    struct file initial = file_read(initial_folder, file_name), trained = file_read(trained_folder, file_name);
    long shape[2], after[2];
    const unsigned char *keys = tensor_find(&initial, "keys", "U64", shape),
                        *keys_after = tensor_find(&trained, "keys", "U64", after);
    if (after[0] != shape[0] || memcmp(keys, keys_after, (size_t)shape[0] * sizeof *table->key) != 0)
        give_up("other keys before and after", file_name);
    table->key = take((size_t)shape[0], sizeof *table->key);
    memcpy(table->key, keys, (size_t)shape[0] * sizeof *table->key);
    table->is_touched = take((size_t)shape[0], 1);
    table->is_met = take((size_t)shape[0], 1);
    tensor_read(&table->vectors, file_name, "vectors");
    if (table_count == TABLES_MAX) give_up("too many tables", name);
    return tables[table_count++] = table;
}

/* --- what models share ------------------------------------------------------------------------ */

static double *scratch_block;
static long scratch_room, scratch_used;

double *scratch(long count)
{
    if (count > scratch_room - scratch_used) give_up("an example needs more room", "scratch");
    double *zeros = scratch_block + scratch_used;
    scratch_used += count;
    memset(zeros, 0, (size_t)count * sizeof *zeros);
    return zeros;
}

static long row_find(const struct table *table, uint64_t key)
{
    long low = 0, high = table->vectors.rows;
    while (low < high) {
        long middle = low + (high - low) / 2;
        if (table->key[middle] < key)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == table->vectors.rows || table->key[low] != key)
        give_up("a value of the data has no exported row", table->vectors.name);
    return low;
}

const double *row_of(const struct table *table, uint64_t key)
{
    return table->vectors.value + row_find(table, key) * table->vectors.cols;
}

double *row_gradient(struct table *table, uint64_t key)
{
    long row = row_find(table, key);
    table->is_touched[row] = table->is_met[row] = 1;
    return table->vectors.gradient + row * table->vectors.cols;
}

void field_sum(const struct table *table, const struct example *example, int field, double *y)
{
    for (long k = 0; k < example->field[field].count; k++) {
        const double *row = row_of(table, example->field[field].key[k]);
        for (long d = 0; d < table->vectors.cols; d++) y[d] += row[d];
    }
}

void field_learn(struct table *table, const struct example *example, int field, const double *dy)
{
    for (long k = 0; k < example->field[field].count; k++) {
        double *gradient = row_gradient(table, example->field[field].key[k]);
        for (long d = 0; d < table->vectors.cols; d++) gradient[d] += dy[d];
    }
}

struct layer layer_of(const char *name, enum act act)
{
    char part[64];
    struct file file = file_read(initial_folder, "dense.safetensors");
    snprintf(part, sizeof part, "%s.weight", name);
    struct layer layer = {.weight = tensor_of(part), .act = act};
    layer.inputs = layer.weight->rows, layer.outputs = layer.weight->cols;
    snprintf(part, sizeof part, "\"%s.bias\":", name);
    if (memmem(file.bytes, file.size, part, strlen(part))) {
        snprintf(part, sizeof part, "%s.bias", name);
        layer.bias = tensor_of(part);
    }
    free(file.bytes), free(file.path);
    return layer;
}

double *layer_forward(const struct layer *layer, const double *x)
{
    double *y = scratch(layer->outputs);
    for (long j = 0; j < layer->outputs; j++) {
        double sum = layer->bias ? layer->bias->value[j] : 0;
        for (long i = 0; i < layer->inputs; i++) sum += x[i] * layer->weight->value[i * layer->outputs + j];
        if (layer->act == RELU && sum < 0) sum = 0;
        y[j] = layer->act == SIGMOID ? 1 / (1 + exp(-sum)) : sum;
    }
    return y;
}

void layer_backward(const struct layer *layer, const double *x, const double *y, const double *dy, double *dx)
{
    for (long j = 0; j < layer->outputs; j++) {
        double dz = dy[j];
        if (layer->act == RELU && y[j] <= 0) continue; /* the flat side of max(…, 0) */
        if (layer->act == SIGMOID) dz *= y[j] * (1 - y[j]);
        if (layer->bias) layer->bias->gradient[j] += dz;
        for (long i = 0; i < layer->inputs; i++) {
            layer->weight->gradient[i * layer->outputs + j] += dz * x[i];
            if (dx) dx[i] += dz * layer->weight->value[i * layer->outputs + j];
        }
    }
}

void layers_forward(const struct layer *layers, int count, double **y)
{
    for (int l = 0; l < count; l++) y[l + 1] = layer_forward(&layers[l], y[l]);
}

void layers_backward(const struct layer *layers, int count, double *const *y, const double *dy, double *dx)
{
    for (int l = count; l-- > 0;) {
        double *below = l > 0 ? scratch(layers[l].inputs) : dx;
        layer_backward(&layers[l], y[l], y[l + 1], dy, below);
        dy = below;
    }
}

double logistic_loss(double y, double label, double *dy)
{
    *dy = 1 / (1 + exp(-y)) - label;
    return (y > 0 ? y : 0) + log(1 + exp(-fabs(y))) - label * y;
}

/* --- the data --------------------------------------------------------------------------------- */

/* The text up to the next separator or the line's end; moves on behind it. */
static char *part_next(char **at, char separator, size_t *bytes)
{
    const char ends[] = {separator, '\n', '\0'};
    char *part = *at;
    *bytes = strcspn(part, ends);
    *at += *bytes + (part[*bytes] != '\0' && part[*bytes] == separator);
    return part;
}

static void field_read(struct example *example, const struct model *model, int field, char *text, size_t bytes)
{
    char criteo[16];
    snprintf(criteo, sizeof criteo, "C%d", field + 1);
    const char *space = model->key_space ? model->key_space[field] : criteo;
    XXH64_hash_t seed = XXH3_64bits(space, strlen(space));
    char kept = text[bytes], *at = text;
    text[bytes] = '\0';
    for (long k = 0; *at; k++) {
        size_t part_bytes;
        char *part = part_next(&at, model->list_separator, &part_bytes);
        uint64_t *keys = realloc(example->field[field].key, (size_t)(k + 1) * sizeof *keys);
        if (!keys) give_up("no memory", "data");
        keys[k] = XXH3_64bits_withSeed(part, part_bytes, seed);
        example->field[field].key = keys;
        example->field[field].count = k + 1;
    }
    text[bytes] = kept;
}

static void example_read(struct example *example, const struct model *model, char *line)
{
    example->number = take((size_t)model->number_count, sizeof *example->number);
    example->field = take((size_t)model->field_count, sizeof *example->field);
    size_t bytes;
    char *at = line;
    if (model->has_label) example->label = atof(part_next(&at, model->separator, &bytes));
    for (int n = 0; n < model->number_count; n++) {
        const char *text = part_next(&at, model->separator, &bytes);
        double x = bytes ? atof(text) : 0;
        example->number[n] = x < 0 ? -log(1 - x) : log(1 + x);
    }
    for (int f = 0; f < model->field_count; f++) {
        char *text = part_next(&at, model->separator, &bytes);
        field_read(example, model, f, text, bytes);
    }
}

static struct example *data_read(const char *path, long count, const struct model *model)
{
    FILE *stream = fopen(path, "r");
    if (!stream) give_up("cannot be opened", path);
    struct example *examples = take((size_t)count, sizeof *examples);
    char *line = NULL;
    size_t room = 0;
    for (long i = -model->header_lines; i < count; i++) {
        if (getline(&line, &room, stream) < 0) give_up("too few lines", path);
        if (i >= 0) example_read(&examples[i], model, line);
    }
    free(line);
    fclose(stream);
    return examples;
}

/* --- training --------------------------------------------------------------------------------- */

struct recipe {
    int is_adagrad;
    double rate, accumulator; /* the sums of squares at first */
    long batch;
};

/* Numbers [begin, begin + count) of a tensor. */
static void numbers_update(struct tensor *t, long begin, long count, const struct recipe *recipe)
{
    for (long i = begin; i < begin + count; i++) {
        double g = t->gradient[i] / (double)recipe->batch;
        t->gradient[i] = 0;
        if (recipe->is_adagrad) {
            t->squares[i] += g * g;
            t->value[i] -= recipe->rate * g / (sqrt(recipe->accumulator + t->squares[i]) + 1e-10);
        } else {
            t->value[i] -= recipe->rate * g;
        }
    }
}

static void all_update(const struct recipe *recipe)
{
    for (int i = 0; i < tensor_count; i++) numbers_update(tensors[i], 0, tensors[i]->rows * tensors[i]->cols, recipe);
    for (int i = 0; i < table_count; i++) {
        struct table *table = tables[i];
        for (long r = 0; r < table->vectors.rows; r++) {
            if (!table->is_touched[r]) continue;
            table->is_touched[r] = 0;
            numbers_update(&table->vectors, r * table->vectors.cols, table->vectors.cols, recipe);
        }
    }
}

/* --- comparison ------------------------------------------------------------------------------- */

static int test_count, failure_count;

static int verdict(int is_good)
{
    test_count++;
    failure_count += !is_good;
    printf("%s %d - ", is_good ? "ok" : "not ok", test_count);
    return is_good;
}

/* The error, norm and change of rows [begin, end). */
struct distance {
    double error, norm, change;
};
static struct distance distance_of(const struct tensor *t, long begin, long end)
{
    struct distance squares = {0, 0, 0};
    for (long i = begin * t->cols; i < end * t->cols; i++) {
        squares.error += (t->trained[i] - t->value[i]) * (t->trained[i] - t->value[i]);
        squares.norm += t->value[i] * t->value[i];
        squares.change += (t->value[i] - t->initial[i]) * (t->value[i] - t->initial[i]);
    }
    return (struct distance){sqrt(squares.error), sqrt(squares.norm), sqrt(squares.change)};
}

/* by_row: each row for itself, too. */
static void tensor_compare(const struct tensor *t, int by_row)
{
    struct distance all = distance_of(t, 0, t->rows);
    double usual = all.norm / sqrt((double)t->rows), worst = 0;
    for (long r = 0; r < t->rows && by_row; r++) {
        struct distance row = distance_of(t, r, r + 1);
        double error = row.error / (row.norm > usual ? row.norm : usual);
        if (!(error <= worst)) worst = error;
    }
    /* A tensor that did not move would agree whatever the optimizer does. */
    int is_good = verdict(all.error <= error_max * all.norm && worst <= error_max && all.change > 0);
    printf("%s: relative error %.2g", t->name, all.error / all.norm);
    if (by_row) printf(", of one of %ld rows at most %.2g", t->rows, worst);
    printf("\n");
    if (!is_good) printf("# %s: norm %.3g, change %.3g\n", t->name, all.norm, all.change);
}

int main(int argument_count, char **arguments)
{
    static const struct model *const models[] = {&ctrdnn1, &deepfm, &dcnv2, &din, &matchnet};
    const struct model *model = NULL;
    for (size_t m = 0; m < sizeof models / sizeof *models && argument_count == 10; m++)
        if (strcmp(models[m]->name, arguments[1]) == 0) model = models[m];
    if (!model) {
        fprintf(stderr,
                "usage: reference MODEL DATA INITIAL_DIR TRAINED_DIR sgd|adagrad RATE ACCUMULATOR BATCH STEPS\n");
        return 2;
    }
    double fault = getenv("REFERENCE_FAULT") ? 1.01 : 1;
    struct recipe recipe = {strcmp(arguments[5], "adagrad") == 0, atof(arguments[6]) * fault, atof(arguments[7]),
                            atol(arguments[8])};
    long steps = atol(arguments[9]);
    initial_folder = arguments[3];
    trained_folder = arguments[4];
    scratch_room = 1 << 20;
    scratch_block = take((size_t)scratch_room, sizeof *scratch_block);
    struct example *examples = data_read(arguments[2], recipe.batch * steps, model);
    model->open();
    double loss = 0;
    for (long step = 0; step < steps; step++) {
        loss = 0;
        for (long i = 0; i < recipe.batch; i++, scratch_used = 0)
            loss += model->learn(&examples[step * recipe.batch + i]);
        all_update(&recipe);
    }
    for (int i = 0; i < table_count; i++) {
        long met = 0;
        for (long r = 0; r < tables[i]->vectors.rows; r++) met += tables[i]->is_met[r];
        verdict(met == tables[i]->vectors.rows);
        printf("%s are those of the %ld values of the data\n", tables[i]->vectors.name, met);
    }
    for (int i = 0; i < tensor_count; i++) tensor_compare(tensors[i], 0);
    for (int i = 0; i < table_count; i++)
        tensor_compare(&tables[i]->vectors, !recipe.is_adagrad || recipe.accumulator > 0);
    printf("# loss of the last step %.6f\n", loss / (double)recipe.batch);
    return failure_count ? 1 : 0;
}
