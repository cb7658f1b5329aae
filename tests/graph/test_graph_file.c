/* The graph file: what is written is what is read, and no damaged file is taken for a graph. Where the
 * checksum does not protect, because it was computed after the damage, a graph that is accepted must still
 * keep its kernels within their memory (tests/graph/rig.h; run under AddressSanitizer). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <unistd.h>
#include <xxhash.h>

#include "tests/graph/rig.h"

static const char text[] =
    "[model]\nname = small\n[data]\ndense = I1..I2\nsparse = C1..C3\nids_max = 2\n"
    "[table emb]\ndim = 2\noptimizer = adam 0.1\n[embedding e]\ntable = emb\ninput = C1, C3\npool = max\n"
    "[embedding f]\ntable = emb\ninput = C2\npool = mean\n[concat x]\ninput = e, f, dense\n[dropout d]\ninput = x\n"
    "[fc h]\ninput = d\nunits = 3\nactivation = relu\n[fc k]\ninput = d\nunits = 3\nshare = h\n"
    "[concat j]\ninput = h, k\n"
    "[batch_norm n]\ninput = j\n[fc z]\ninput = n\nunits = 1\n"
    "[loss bce]\ninput = z\n[train]\nbatch = 8\nmicro = 2\nlanes = 2\noptimizer = sgd 0.1\n";

static void graph_of(struct graph *g)
{
    if (graph_compile(g, "test.cfg", text, strlen(text), NULL, 0, NULL) != ST_OK) fail_msg("%s", status_message());
}

/* A copy of the compiled image, 64-byte aligned; yours. */
static uint8_t *image_of(size_t *bytes)
{
    struct graph g;
    graph_of(&g);
    *bytes = g.bytes;
    uint8_t *image = aligned_alloc(64, (g.bytes + 63) & ~(size_t)63);
    assert_non_null(image);
    memcpy(image, g.header, g.bytes);
    graph_close(&g);
    return image;
}

static void checksum_renew(uint8_t *image, size_t bytes)
{
    const size_t at = offsetof(struct graph_header, checksum);
    memset(image + at, 0, 8);
    uint64_t checksum = XXH3_64bits(image, bytes);
    memcpy(image + at, &checksum, sizeof checksum);
}

static void path_make(char path[64], const char *name)
{
    snprintf(path, 64, "/tmp/test_graph_file_%ld_%s", (long)getpid(), name);
}

static void bytes_write(const char *path, const void *data, size_t bytes)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

static void graph_open__what_graph_write_wrote__is_the_same(void **state)
{
    (void)state;
    char path[64];
    path_make(path, "round.bin");
    struct graph g, opened;
    graph_of(&g);
    assert_int_equal(graph_write(&g, path), ST_OK);
    if (graph_open(&opened, path) != ST_OK) fail_msg("%s", status_message());
    assert_int_equal(opened.bytes, g.bytes);
    assert_memory_equal(opened.header, g.header, g.bytes);
    assert_int_equal(opened.forward_count, g.forward_count);
    assert_int_equal(opened.node_count, g.node_count);
    assert_string_equal(graph_string(&opened, opened.header->name), "small");
    /* What was read is ours: the file may go. */
    bytes_write(path, "", 0);
    assert_string_equal(graph_string(&opened, opened.header->name), "small");
    graph_close(&opened);
    graph_close(&g);
    unlink(path);
}

static void graph_open__no_file__reports_io(void **state)
{
    (void)state;
    struct graph g;
    assert_int_equal(graph_open(&g, "/tmp/no such graph.bin"), ST_IO);
    assert_non_null(strstr(status_message(), "/tmp/no such graph.bin"));
    assert_int_equal(graph_open(&g, "/tmp"), ST_IO);
    graph_close(&g);
}

static void graph_open__other_files__say_what_they_are(void **state)
{
    (void)state;
    char path[64];
    path_make(path, "other.bin");
    struct graph g;
    bytes_write(path, "", 0);
    assert_int_equal(graph_open(&g, path), ST_INVALID);
    assert_non_null(strstr(status_message(), "empty"));
    bytes_write(path, "[data]\n", 7);
    assert_int_equal(graph_open(&g, path), ST_INVALID);
    assert_non_null(strstr(status_message(), "compile makes one"));
    size_t bytes;
    uint8_t *image = image_of(&bytes);
    image[8] = GRAPH_VERSION + 1;
    bytes_write(path, image, bytes);
    assert_int_equal(graph_open(&g, path), ST_INVALID);
    assert_non_null(strstr(status_message(), "a newer heterps-run"));
    image[8] = 0;
    bytes_write(path, image, bytes);
    assert_int_equal(graph_open(&g, path), ST_INVALID);
    assert_non_null(strstr(status_message(), "an older heterps-run"));
    assert_null(g.header);
    free(image);
    image = image_of(&bytes);
    image[offsetof(struct graph_header, numbering)] ^= 1;
    memset(image + offsetof(struct graph_header, checksum), 0, 8);
    uint64_t checksum = XXH3_64bits(image, bytes);
    memcpy(image + offsetof(struct graph_header, checksum), &checksum, sizeof checksum);
    bytes_write(path, image, bytes);
    assert_int_equal(graph_open(&g, path), ST_INVALID);
    assert_non_null(strstr(status_message(), "compile its model text again"));
    free(image);
    unlink(path);
}

static void graph_open_memory__any_byte_flipped__is_refused(void **state)
{
    (void)state;
    size_t bytes;
    uint8_t *image = image_of(&bytes);
    struct graph g;
    assert_int_equal(graph_open_memory(&g, "memory", image, bytes), ST_OK);
    graph_close(&g);
    for (size_t i = 0; i < bytes; i++) {
        for (uint32_t bit = 0; bit < 8; bit++) {
            image[i] ^= (uint8_t)(1u << bit);
            status st = graph_open_memory(&g, "memory", image, bytes);
            if (st != ST_INVALID && st != ST_CORRUPT) fail_msg("byte %zu, bit %u: status %d", i, bit, st);
            if (strncmp(status_message(), "memory: byte ", 13) != 0 || strstr(status_message(), "expected") == NULL)
                fail_msg("%s", status_message());
            assert_null(g.header);
            image[i] ^= (uint8_t)(1u << bit);
        }
    }
    free(image);
}

static void graph_open_memory__truncated_anywhere__is_refused(void **state)
{
    (void)state;
    size_t bytes;
    uint8_t *image = image_of(&bytes);
    struct graph g;
    for (size_t kept = 0; kept < bytes; kept++) {
        /* A block of its own size, so that a read beyond it shows. */
        uint8_t *part = rig_take(kept);
        memcpy(part, image, kept);
        status st = graph_open_memory(&g, "memory", part, kept);
        if (st != ST_INVALID && st != ST_CORRUPT) fail_msg("%zu bytes: status %d", kept, st);
        free(part);
    }
    uint8_t *longer = rig_take(bytes + 64);
    memcpy(longer, image, bytes);
    assert_int_equal(graph_open_memory(&g, "memory", longer, bytes + 64), ST_CORRUPT);
    free(longer);
    free(image);
}

/* Opens a damaged image with a right checksum; runs what is accepted. */
static bool damaged_run(uint8_t *image, size_t bytes)
{
    struct graph g;
    checksum_renew(image, bytes);
    status st = graph_open_memory(&g, "memory", image, bytes);
    if (st != ST_OK) {
        if (st != ST_INVALID && st != ST_CORRUPT) fail_msg("status %d: %s", st, status_message());
        return false;
    }
    uint32_t examples = g.header->micro < 3 ? g.header->micro : 3;
    if (rig_fits(&g, examples)) {
        struct rig r;
        rig_open(&r, &g, 1, examples);
        rig_forward(&r);
        rig_backward(&r);
        rig_close(&r);
    }
    graph_close(&g);
    return true;
}

/* Every byte, some of its possible values: sign, least bits, all, none, one less, one more. */
static void graph_open_memory__damage_with_a_right_checksum__stays_in_bounds(void **state)
{
    (void)state;
    size_t bytes, accepted_count = 0, tried_count = 0;
    uint8_t *image = image_of(&bytes);
    for (size_t i = 0; i < bytes; i++) {
        uint8_t kept = image[i];
        const uint8_t values[] = {
            kept ^ 0x80, kept ^ 1, kept ^ 2, 0xff, 0, (uint8_t)(kept - 1), (uint8_t)(kept + 1), (uint8_t)(kept + 64)};
        for (size_t k = 0; k < sizeof values; k++) {
            if (values[k] == kept) continue;
            image[i] = values[k];
            tried_count++;
            accepted_count += damaged_run(image, bytes);
        }
        image[i] = kept;
    }
    assert_true(damaged_run(image, bytes));
    printf("# %zu of %zu damaged graphs were refused; the others ran within their memory\n",
           tried_count - accepted_count, tried_count);
    free(image);
}

/* Every 32-bit word of the records set to another word of the file, or to an awkward number. */
static void graph_open_memory__words_replaced__stays_in_bounds(void **state)
{
    (void)state;
    size_t bytes;
    uint8_t *image = image_of(&bytes);
    static const uint32_t awkward[] = {0,          1,          2,          3,          7,        16,
                                       0x7fffffff, 0x80000000, 0xffffffff, 0xfffffffe, 1u << 24, 0x00010001};
    for (size_t i = 32; i + 4 <= bytes; i += 4) {
        uint32_t kept;
        memcpy(&kept, image + i, 4);
        for (size_t k = 0; k < sizeof awkward / sizeof *awkward; k++) {
            memcpy(image + i, &awkward[k], 4);
            damaged_run(image, bytes);
        }
        memcpy(image + i, &kept, 4);
    }
    free(image);
}

/* What a wrong record is called. */
static void graph_open_memory__wrong_records__are_named(void **state)
{
    (void)state;
    size_t bytes;
    uint8_t *image = image_of(&bytes);
    struct graph_header *h = (void *)image;
    struct graph_tensor *tensors = (void *)(image + h->section[SECTION_TENSORS].offset);
    struct graph_node *nodes = (void *)(image + h->section[SECTION_NODES].offset);
    uint32_t *args = (void *)(image + h->section[SECTION_ARGS].offset);
    struct graph_table *tables = (void *)(image + h->section[SECTION_TABLES].offset);
    uint32_t last = (uint32_t)h->section[SECTION_NODES].count - 1;
    const struct graph_node *fc = nodes, *concat = nodes;
    struct graph_node *loss = nodes;
    while (loss->op != OP_ID_bce_logits) loss++;
    uint32_t logit = args[loss->arg_begin];
    while (fc->op != OP_ID_fc) fc++;
    while (concat->op != OP_ID_concat) concat++;
    struct graph_node *norm = nodes;
    while (norm->op != OP_ID_batch_norm) norm++;
    struct graph_tensor *weight = &tensors[args[fc->arg_begin + 1]], *bias = &tensors[args[fc->arg_begin + 2]],
                        *alias = &tensors[args[fc[1].arg_begin + 1]], *alias_bias = &tensors[args[fc[1].arg_begin + 2]],
                        *joined = &tensors[args[concat->arg_begin + concat->input_count]],
                        *mean = &tensors[args[norm->arg_begin + 1 + BATCH_NORM_MEAN]],
                        *variance = &tensors[args[norm->arg_begin + 1 + BATCH_NORM_VARIANCE]],
                        *saved_mean = &tensors[args[norm->arg_begin + norm->input_count + norm->param_count + 1]];
    const struct graph_node *last_fc = norm;
    while (last_fc->op != OP_ID_fc) last_fc++;
    const struct graph_tensor *z_weight = &tensors[args[last_fc->arg_begin + 1]];
    struct graph_optimizer *optimizers = (void *)(image + h->section[SECTION_OPTIMIZERS].offset);
    struct graph_update *updates = (void *)(image + h->section[SECTION_UPDATES].offset);
    uint32_t *lookup_of_f = (void *)(nodes[1].attr + offsetof(struct embed_bag_attr, lookup));
    uint32_t average = updates[mean->update].optimizer, ones_hundredth, tenth;
    const uint32_t first_end = (uint32_t)h->section[SECTION_ARGS].count - nodes[0].input_count - nodes[0].param_count -
                               nodes[0].output_count - nodes[0].saved_count; /* where its arguments would be the last */
    memcpy(&ones_hundredth, &(float){0.01f}, 4);
    memcpy(&tenth, &(float){0.1f}, 4);
    /* A statistic is 6 floats, so this swaps the two. */
    assert_int_equal(variance->offset, mean->offset + 16);
    assert_int_equal(nodes[1].op, OP_ID_embed_bag);
    const struct {
        uint32_t *word, value;
        const char *says;
        uint32_t *also; /* gets the same value, or NULL */
    } cases[] = {
        {&joined->cols, 7, "gradient of the tensor's kind and shape", NULL},
        {&joined->cols, 7, "expected a result of 8 columns", &tensors[joined->grad].cols},
        {&weight->rows, 7, "gradient of the tensor's kind and shape", NULL},
        {&weight->rows, 7, "expected a parameter of 8 by 3", &tensors[weight->grad].rows},
        {&weight->rows, 1u << 23, "of its update", NULL},
        {&weight->update, 1, "of its update", &tensors[weight->grad].update},
        {&weight->update, 2, "update of parameters, found update 2 of a table", NULL},
        {&weight->update, 3, "an update below 3", NULL},
        {&weight->update, 1, "of its update", NULL},
        {&joined->update, 1, "an update of what is no parameter", NULL},
        {&args[fc->arg_begin + 2], args[fc->arg_begin + 1], "a parameter of 1 by 3", NULL},
        {(uint32_t *)&bias->offset, (uint32_t)weight->offset, "gradient of the tensor's kind", NULL},
        {(uint32_t *)&bias->offset, (uint32_t)weight->offset, "in the order of their nodes",
         (uint32_t *)&tensors[bias->grad].offset},
        {(uint32_t *)&mean->offset, (uint32_t)variance->offset, "in the order of their nodes",
         (uint32_t *)&tensors[mean->grad].offset},
        {&args[norm->arg_begin + 1 + BATCH_NORM_VARIANCE], args[norm->arg_begin + 1 + BATCH_NORM_MEAN],
         "in the order of their nodes", NULL},
        {&updates[1].optimizer, 0, "expected a rule of statistics behind the first update, found", NULL},
        {&updates[0].optimizer, average, "an optimizer that trains for this parameter, found moving_average", NULL},
        {(uint32_t *)&optimizers[average].param[0], tenth, "the op's momentum of 0.9", NULL},
        {(uint32_t *)(void *)(norm->attr + offsetof(struct batch_norm_attr, momentum)), tenth, "momentum of 0.1", NULL},
        {(uint32_t *)&optimizers[average].learning_rate, ones_hundredth, "without learning rate", NULL},
        {&tables[0].optimizer, average, "an optimizer that trains", NULL},
        {(uint32_t *)&alias->offset, (uint32_t)bias->offset, "alias of a trained parameter of an earlier node, 8 by 3",
         NULL},
        {(uint32_t *)&alias->offset, (uint32_t)z_weight->offset, "alias of a trained parameter of an earlier node",
         NULL},
        {(uint32_t *)&alias->offset, (uint32_t)h->param_floats - 16, "of its update", NULL},
        {&args[fc[1].arg_begin + 1], args[fc->arg_begin + 1], "in the order of their nodes", NULL},
        {&args[fc->arg_begin + 1], args[fc[1].arg_begin + 1], "alias of a trained parameter of an earlier node", NULL},
        {&args[fc[1].arg_begin + 2], args[fc[1].arg_begin + 1], "a parameter of 1 by 3", NULL},
        {(uint32_t *)&tensors[alias->grad].offset, (uint32_t)weight->offset, "expected the gradient of an alias from",
         NULL},
        {(uint32_t *)&tensors[alias_bias->grad].offset, (uint32_t)tensors[alias->grad].offset,
         "expected the gradient of an alias from", NULL},
        {(uint32_t *)&h->grad_floats, (uint32_t)h->grad_floats + 16, "floats of gradients, found", NULL},
        {(uint32_t *)&h->grad_floats, (uint32_t)h->param_floats, "an offset of at most", NULL},
        {lookup_of_f, 0, "expected lookup 1, found 0", NULL},
        {lookup_of_f, 2, "expected lookup 1, found 2", NULL},
        {&saved_mean->rows, 0, "in 1 rows", NULL},
        {&saved_mean->rows, 2, "rows of 0 to 1", NULL},
        {&joined->rows, 1, "gradient of the tensor's kind and shape", NULL},
        {&joined->rows, 1, "in 0 rows", &tensors[joined->grad].rows},
        {&h->micro, 3, "divisor of the batch", NULL},
        {&h->lanes, 3, "divisor of the 4 micro-batches", NULL},
        {&h->name, 1u << 20, "a name below", NULL},
        {&args[loss->arg_begin + 1], logit, "an input of bce_logits bce", NULL},
        {&args[loss->arg_begin + 2], logit, "expected a tensor that no other node writes", NULL},
        {(uint32_t *)(void *)loss->attr, 0xff800000, "expected a weight of 0 to 1e6, found -inf", NULL},
        {&tensors[0].cols, 3, "a field below 3", NULL},
        {&tensors[logit].cols, 2, "a stride of 2", NULL},
        {&tensors[logit].grad, logit, "gradient of the tensor's kind", NULL},
        {&nodes[0].op, OP_ID_COUNT, "an op below", NULL},
        {&nodes[0].layer, 1000, "a layer below", NULL},
        {&nodes[last].other, 1, "backward node of node 0", NULL},
        {&nodes[0].other, 1, "backward node of node", NULL},
        {&args[nodes[0].arg_begin], logit, "input of embed_bag e", NULL},
        {&args[nodes[last].arg_begin], 1, "not written yet", NULL},
        {&nodes[0].arg_begin, first_end + 1, "expected arguments below", NULL}, /* one too many */
        {&nodes[1].program_count, 1, "a program within 0 words", NULL},
        {&tables[0].span_floats, 6, "rows of 7 floats", NULL},
        {&tables[0].dim, 3, "rows of 10 floats", NULL},
        {&tables[0].key_count_max, 1, "3 fields and 6 keys", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint32_t kept = *cases[i].word, also_kept = cases[i].also ? *cases[i].also : 0;
        *cases[i].word = cases[i].value;
        if (cases[i].also) *cases[i].also = cases[i].value;
        checksum_renew(image, bytes);
        struct graph g;
        if (graph_open_memory(&g, "memory", image, bytes) != ST_INVALID) fail_msg("case %zu is accepted", i);
        if (strstr(status_message(), cases[i].says) == NULL)
            fail_msg("case %zu: expected \"%s\" in \"%s\"", i, cases[i].says, status_message());
        *cases[i].word = kept;
        if (cases[i].also) *cases[i].also = also_kept;
    }
    free(image);
}

/* Whether a is the first input of the concat that gives b, or its gradient, and may lie where b begins. */
static bool is_first_part(const struct graph *g, uint32_t a, uint32_t b)
{
    for (uint32_t i = 0; i < g->forward_count; i++) {
        const uint32_t *args = &g->args[g->nodes[i].arg_begin];
        if (g->nodes[i].op != OP_ID_concat) continue;
        uint32_t out = args[g->nodes[i].input_count];
        if ((a == args[0] && b == out) || (a == g->tensors[args[0]].grad && b == g->tensors[out].grad)) return true;
    }
    return false;
}

/* Every pair of activations that are in use at the same time, laid on one place: refused, but for the first
 * part of a concat. Which are is counted here apart from graph/life.c, from the arguments of nodes and the
 * rule that a backward node reads what its op's traits say. */
static void graph_open_memory__overlapping_tensors__are_refused(void **state)
{
    (void)state;
    size_t bytes;
    uint8_t *image = image_of(&bytes);
    struct graph g;
    assert_int_equal(graph_open_memory(&g, "memory", image, bytes), ST_OK);
    const struct graph_header *h = g.header;
    struct graph_tensor *tensors = (void *)(image + h->section[SECTION_TENSORS].offset);
    bool(*is_used)[128] = rig_take(g.tensor_count * sizeof *is_used); /* [tensor][time] */
    assert_true(g.node_count <= 128);
    for (uint32_t i = 0; i < g.forward_count; i++) {
        const struct graph_node *n = &g.nodes[i];
        uint32_t count = n->input_count + n->param_count + 1 + n->saved_count, traits = op_table[n->op].traits;
        for (uint32_t k = 0; k < count; k++) {
            uint32_t t = g.args[n->arg_begin + k], grad = g.tensors[t].grad;
            bool is_input = k < n->input_count, is_output = k == n->input_count + n->param_count;
            is_used[t][i] = true;
            if (n->other == GRAPH_NONE) continue;
            if (is_input ? (traits & OP_READS_IN) != 0 : is_output ? (traits & OP_READS_OUT) != 0 : true)
                is_used[t][n->other] = true;
            if (grad != GRAPH_NONE) is_used[grad][n->other] = true;
        }
    }
    /* What the loss reads and writes is read when the forward pass is done. */
    const struct graph_node *loss = &g.nodes[g.forward_count - 1];
    assert_int_equal(loss->op, OP_ID_bce_logits);
    for (uint32_t k = 0; k < 3; k++) is_used[g.args[loss->arg_begin + k]][g.forward_count - 1] = true;
    uint32_t refused = 0, accepted = 0;
    for (uint32_t a = 0; a < g.tensor_count; a++)
        for (uint32_t b = 0; b < g.tensor_count; b++) {
            if (a == b || tensors[a].kind != TENSOR_ACTIVATION || tensors[b].kind != TENSOR_ACTIVATION) continue;
            if (is_first_part(&g, a, b) || is_first_part(&g, b, a)) continue;
            uint32_t begin[2] = {128, 128}, end[2] = {0, 0};
            for (uint32_t time = 0; time < 128; time++)
                for (int k = 0; k < 2; k++)
                    if (is_used[k ? b : a][time]) {
                        if (begin[k] == 128) begin[k] = time;
                        end[k] = time;
                    }
            bool meets = begin[0] < 128 && begin[1] < 128 && begin[0] <= end[1] && begin[1] <= end[0];
            uint64_t kept = tensors[a].offset;
            tensors[a].offset = tensors[b].offset;
            checksum_renew(image, bytes);
            struct graph damaged;
            status st = graph_open_memory(&damaged, "memory", image, bytes);
            if (meets && st != ST_INVALID)
                fail_msg("%s and %s share a place in nodes %u..%u and %u..%u", graph_string(&g, tensors[a].name),
                         graph_string(&g, tensors[b].name), begin[0], end[0], begin[1], end[1]);
            if (meets && !strstr(status_message(), "in use") && !strstr(status_message(), "bytes of a slot"))
                fail_msg("%s", status_message());
            refused += meets;
            accepted += st == ST_OK;
            tensors[a].offset = kept;
        }
    assert_true(refused > 100);
    printf("# %u pairs of tensors that are in use together are refused at one place; %u others are not\n", refused,
           accepted);
    assert_true(accepted > 0);
    free(is_used);
    free(image);
}

static void graph_table_serves__two_embeddings__are_joined(void **state)
{
    (void)state;
    struct graph g;
    uint8_t serves[3] = {9, 9, 9};
    static const char two[] =
        "[data]\nsparse = C1..C3\n[table a]\ndim = 1\n[table b]\ndim = 1\n[embedding e]\ntable = a\ninput = C1\n"
        "[embedding f]\ntable = b\ninput = C1, C2\n[embedding g]\ntable = a\ninput = C3\n[concat x]\ninput = e, f, g\n"
        "[fc z]\ninput = x\nunits = 1\n[loss bce]\ninput = z\n";
    if (graph_compile(&g, "test.cfg", two, strlen(two), NULL, 0, NULL) != ST_OK) fail_msg("%s", status_message());
    graph_table_serves(&g, 0, serves);
    assert_memory_equal(serves, ((uint8_t[]){1, 0, 1}), 3);
    graph_table_serves(&g, 1, serves);
    assert_memory_equal(serves, ((uint8_t[]){1, 1, 0}), 3);
    uint32_t lookups[3] = {9, 9, 9};
    assert_int_equal(g.lookup_count, 3);
    assert_int_equal(graph_table_lookups(&g, 0, NULL), 2);
    assert_int_equal(graph_table_lookups(&g, 0, lookups), 2);
    assert_memory_equal(lookups, ((uint32_t[]){0, 2, 9}), sizeof lookups);
    assert_int_equal(graph_table_lookups(&g, 1, lookups), 1);
    assert_int_equal(lookups[0], 1);
    assert_int_equal(graph_table_first_node(&g, 0), 0);
    assert_int_equal(graph_table_first_node(&g, 1), 1);
    struct example_shape example = graph_example(&g);
    assert_int_equal(example.field_count, 3);
    assert_int_equal(example.key_count_max, 3);
    assert_int_equal(example.dense_count, 0);
    graph_close(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(graph_open__what_graph_write_wrote__is_the_same),
        cmocka_unit_test(graph_open__no_file__reports_io),
        cmocka_unit_test(graph_open__other_files__say_what_they_are),
        cmocka_unit_test(graph_open_memory__any_byte_flipped__is_refused),
        cmocka_unit_test(graph_open_memory__truncated_anywhere__is_refused),
        cmocka_unit_test(graph_open_memory__damage_with_a_right_checksum__stays_in_bounds),
        cmocka_unit_test(graph_open_memory__words_replaced__stays_in_bounds),
        cmocka_unit_test(graph_open_memory__wrong_records__are_named),
        cmocka_unit_test(graph_open_memory__overlapping_tensors__are_refused),
        cmocka_unit_test(graph_table_serves__two_embeddings__are_joined),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
