/* Trained policies: kept between searches and in files, applied to an instance at once. */
#include "sched/policy.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "engine/base/file.h"
#include "sched/policy_inside.h"

/* The file, little-endian. Weights are finite 32-bit floats: the shared ones, then, if layer_count is
 * not 0, those of the last instance that the policy was trained on. The file is valid if the checksum
 * of all bytes before it agrees. */
#define MAGIC   "hetepols"
#define VERSION 1u
struct file_head {
    char magic[8];
    uint32_t version;
    uint32_t cell;         /* enum policy_cell                            */
    uint64_t weight_bytes; /* after this head; 8 bytes of checksum follow */
    uint64_t fingerprint;  /* of layers and types                          */
    uint32_t layer_count, type_count;
};
_Static_assert(sizeof(struct file_head) == 40, "the head of a policy file");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "weights are written as they lie in memory");

status policy_make(struct policy **out, enum policy_cell cell, uint64_t seed)
{
    *out = NULL;
    struct policy *policy = calloc(1, sizeof *policy);
    size_t count = net_layout(cell, 0, 0).shared_count;
    float *shared = calloc(count, sizeof *shared);
    if (policy == NULL || shared == NULL) {
        free(policy);
        free(shared);
        FAIL(MEMORY, "no memory for a policy of %zu weights", count);
    }
    *policy = (struct policy){.cell = cell, .shared = shared};
    net_draw_shared(shared, cell, random_stream(seed, RANDOM_SCHEDULE, POLICY_STREAM));
    *out = policy;
    return ST_OK;
}

void policy_free(struct policy *policy)
{
    if (policy == NULL) return;
    free(policy->shared);
    free(policy->own);
    free(policy);
}

enum policy_cell policy_cell_of(const struct policy *policy) { return policy->cell; }

/* The number of an instance's own parameters. */
static size_t own_count(enum policy_cell cell, uint32_t layer_count, uint32_t type_count)
{
    struct net_layout at = net_layout(cell, layer_count, net_width(type_count));
    return layer_count > 0 ? at.count - at.shared_count : 0;
}

static uint64_t hash_text(uint64_t hash, const char *text) { return XXH3_64bits_withSeed(text, strlen(text), hash); }

/* A hash of names, kinds and sizes of layers, and of names and prices of types, but not of times: an
 * instance measured again has the same. */
static uint64_t fingerprint_of(const struct instance *instance)
{
    uint64_t hash = instance->layer_count;
    for (uint32_t l = 0; l < instance->layer_count; l++) {
        const struct instance_layer *layer = &instance->layers[l];
        const double sizes[2] = {layer->in_bytes, layer->weight_bytes};
        hash = hash_text(hash_text(hash, layer->name), layer->kind);
        hash = XXH3_64bits_withSeed(sizes, sizeof sizes, hash);
    }
    for (uint32_t t = 0; t < instance->type_count; t++) {
        hash = hash_text(hash, instance->types[t].resource.name);
        hash = XXH3_64bits_withSeed(&instance->types[t].resource.price_per_hour, sizeof(double), hash);
    }
    return hash;
}

void policy_load(const struct policy *policy, const struct instance *instance, struct net *net)
{
    CHECK(policy->cell == net->cell);
    size_t shared = net->at.shared_count, own = net->at.count - shared;
    memcpy(net->parameters, policy->shared, shared * sizeof *policy->shared);
    memset(net->parameters + shared, 0, own * sizeof *net->parameters);
    if (policy->own != NULL && policy->layer_count == instance->layer_count &&
        policy->type_count == instance->type_count && policy->fingerprint == fingerprint_of(instance))
        memcpy(net->parameters + shared, policy->own, own * sizeof *policy->own);
}

status policy_store(struct policy *policy, enum policy_cell cell, const struct instance *instance,
                    const float *parameters)
{
    size_t shared = net_layout(cell, 0, 0).shared_count;
    size_t own = own_count(cell, instance->layer_count, instance->type_count);
    float *shared_copy = malloc(shared * sizeof *shared_copy), *own_copy = malloc(own * sizeof *own_copy);
    if (shared_copy == NULL || own_copy == NULL) {
        free(shared_copy);
        free(own_copy);
        FAIL(MEMORY, "no memory for a policy of %zu weights", shared + own);
    }
    memcpy(shared_copy, parameters, shared * sizeof *shared_copy);
    memcpy(own_copy, parameters + shared, own * sizeof *own_copy);
    free(policy->shared);
    free(policy->own);
    *policy = (struct policy){.cell = cell,
                              .shared = shared_copy,
                              .own = own_copy,
                              .layer_count = instance->layer_count,
                              .type_count = instance->type_count,
                              .fingerprint = fingerprint_of(instance)};
    return ST_OK;
}

status policy_apply(const struct policy *policy, const struct cost_model *model, type_index *types)
{
    struct net_view view;
    struct net net;
    TRY(net_view_open(&view, model));
    status st = net_open(&net, policy->cell, &view, 1);
    if (st == ST_OK) {
        policy_load(policy, model->instance, &net);
        net_prepare(&net);
        net_argmax(&net, types);
        net_close(&net);
    }
    net_view_close(&view);
    return st;
}

/* Draws the layers (4 to 20) and types (2 to 64) of an instance to train on,
 * small numbers as likely as large ones. */
static void pretrain_size(uint64_t seed, uint32_t number, uint32_t *layer_count, uint32_t *type_count)
{
    uint32_t bits[4];
    random_block(random_stream(seed, RANDOM_SCHEDULE, POLICY_STREAM + 1), number, 0, bits);
    *layer_count = 4 + bits[0] % 17;
    *type_count = 2u << bits[1] % 6;
}

status policy_pretrain(struct policy *policy, uint64_t seed, uint32_t count, uint64_t evaluations)
{
    for (uint32_t i = 0; i < count; i++) {
        struct instance instance;
        struct cost_model model;
        struct search search;
        uint32_t layer_count, type_count;
        pretrain_size(seed, i, &layer_count, &type_count);
        TRY(instance_random(&instance, seed + i, layer_count, type_count));
        status st = cost_model_open(&model, &instance);
        if (st == ST_OK) {
            const struct search_options options = {.seed = seed + i, .evaluations = evaluations};
            st = search_open(&search, &model, &options);
            if (st == ST_OK) st = rl_pretrain(&search, policy);
            search_close(&search);
        }
        cost_model_free(&model);
        instance_free(&instance);
        TRY(st);
    }
    return ST_OK;
}

status policy_write(const struct policy *policy, const char *path)
{
    size_t shared = net_layout(policy->cell, 0, 0).shared_count;
    size_t own = own_count(policy->cell, policy->layer_count, policy->type_count);
    struct file_head head = {.magic = MAGIC,
                             .version = VERSION,
                             .cell = policy->cell,
                             .weight_bytes = (shared + own) * sizeof(float),
                             .fingerprint = policy->fingerprint,
                             .layer_count = policy->layer_count,
                             .type_count = policy->type_count};
    struct file_writer writer = {0};
    status st;
    TRY_GOTO(file_writer_open(&writer, path), done);
    TRY_GOTO(file_writer_put(&writer, &head, sizeof head), done);
    TRY_GOTO(file_writer_put(&writer, policy->shared, shared * sizeof(float)), done);
    if (own > 0) TRY_GOTO(file_writer_put(&writer, policy->own, own * sizeof(float)), done);
    uint64_t checksum = file_writer_hash(&writer);
    TRY_GOTO(file_writer_put(&writer, &checksum, sizeof checksum), done);
    return file_writer_commit(&writer);
done:
    file_writer_abort(&writer);
    return st;
}

/* Checks that the head's values are possible, and agree with the length. */
static status head_check(const struct file_head *head, const char *path, size_t count)
{
    if (memcmp(head->magic, MAGIC, sizeof head->magic) != 0)
        FAIL(INVALID, "%s: byte 0: expected a policy (\"" MAGIC "\"), found something else", path);
    if (head->version != VERSION)
        FAIL(INVALID, "%s: byte 8: expected version %u, found %u: written by a newer heterps-run, or damaged", path,
             VERSION, head->version);
    if (head->cell != POLICY_LSTM && head->cell != POLICY_ELMAN)
        FAIL(INVALID, "%s: byte 12: expected cell %d (LSTM) or %d (Elman), found %u", path, POLICY_LSTM, POLICY_ELMAN,
             head->cell);
    if (head->layer_count > INSTANCE_LAYERS_MAX)
        FAIL(INVALID, "%s: byte 32: expected at most %u layers, found %u", path, INSTANCE_LAYERS_MAX,
             head->layer_count);
    if (head->type_count > RESOURCE_TYPES_MAX || (head->type_count > 0) != (head->layer_count > 0) ||
        (size_t)head->layer_count * head->type_count > INSTANCE_CELLS_MAX)
        FAIL(INVALID, "%s: byte 36: expected types for %u layers, found %u", path, head->layer_count, head->type_count);
    size_t shared = net_layout((enum policy_cell)head->cell, 0, 0).shared_count;
    size_t bytes =
        (shared + own_count((enum policy_cell)head->cell, head->layer_count, head->type_count)) * sizeof(float);
    if (head->weight_bytes != bytes)
        FAIL(INVALID, "%s: byte 16: expected %zu bytes of weights, found %llu", path, bytes,
             (unsigned long long)head->weight_bytes);
    if (count != sizeof *head + bytes + sizeof(uint64_t))
        FAIL(CORRUPT, "%s: expected %zu bytes, found %zu", path, sizeof *head + bytes + sizeof(uint64_t), count);
    return ST_OK;
}

status policy_parse(struct policy **out, const char *path, const uint8_t *bytes, size_t count)
{
    struct file_head head;
    *out = NULL;
    if (count < sizeof head)
        FAIL(CORRUPT, "%s: expected a policy of at least %zu bytes, found %zu", path, sizeof head, count);
    memcpy(&head, bytes, sizeof head);
    TRY(head_check(&head, path, count));
    uint64_t checksum;
    memcpy(&checksum, bytes + count - sizeof checksum, sizeof checksum);
    if (checksum != XXH3_64bits(bytes, count - sizeof checksum))
        FAIL(CORRUPT, "%s: byte %zu: the checksum does not agree with what is before it", path,
             count - sizeof checksum);
    for (size_t at = sizeof head; at < count - sizeof checksum; at += sizeof(float)) {
        float weight;
        memcpy(&weight, bytes + at, sizeof weight);
        if (!isfinite(weight))
            FAIL(INVALID, "%s: byte %zu: expected a finite weight, found %g", path, at, (double)weight);
    }
    struct policy *policy;
    TRY(policy_make(&policy, (enum policy_cell)head.cell, 0));
    size_t shared = net_layout(policy->cell, 0, 0).shared_count;
    size_t own = own_count(policy->cell, head.layer_count, head.type_count);
    memcpy(policy->shared, bytes + sizeof head, shared * sizeof(float));
    if (own > 0) {
        policy->own = malloc(own * sizeof(float));
        if (policy->own == NULL) {
            policy_free(policy);
            FAIL(MEMORY, "no memory for a policy of %zu weights", shared + own);
        }
        memcpy(policy->own, bytes + sizeof head + shared * sizeof(float), own * sizeof(float));
    }
    policy->fingerprint = head.fingerprint;
    policy->layer_count = head.layer_count;
    policy->type_count = head.type_count;
    *out = policy;
    return ST_OK;
}

status policy_read(struct policy **policy, const char *path)
{
    struct file_map map;
    *policy = NULL;
    TRY(file_map_read(&map, path));
    status st = policy_parse(policy, path, map.data, map.bytes);
    file_map_close(&map);
    return st;
}
