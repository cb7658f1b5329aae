/* Graph files: a compiled graph with some of its words replaced and its checksum made right again is either
 * refused or runs within its memory. The input is a list of replacements, so that the fuzzer spends its time
 * behind the checksum:
 *
 *   byte 0         which of the models below
 *   then, 7 bytes each: kind, word (2 bytes), value (4 bytes)
 *       kind even: the word becomes the value;  odd: it becomes the graph's word number `value`
 *
 * An input that begins like a graph is taken as the graph itself. */
#define FUZZ_NAME "graph"
#include "tests/fuzz/driver.h"

#include <xxhash.h>

#include "tests/graph/rig.h"

#define REPLACEMENT_BYTES 7
#define DATA                                                                                                           \
    "[data]\ndense = I1..I2\nsparse = C1..C3\nids_max = 2\n"                                                           \
    "[train]\nbatch = 8\nmicro = 2\nlanes = 2\noptimizer = adam 0.1\n"

static const char *const models[] = {
    DATA "[fc z]\ninput = dense\nunits = 1\n[loss bce]\ninput = z\n",
    DATA "[table emb]\ndim = 2\n[embedding e]\ntable = emb\ninput = C1, C3\npool = max\n"
         "[embedding f]\ntable = emb\ninput = C2\npool = mean\n"
         "[concat x]\ninput = e, f, dense\n[dropout d]\ninput = x\n[fc h]\ninput = d\nunits = 3\nactivation = relu\n"
         "[fc z]\ninput = h\nunits = 1\n[loss bce]\ninput = z\n",
    DATA "[table a]\ndim = 3\n[table b]\ndim = 1\n[embedding e]\ntable = a\ninput = sparse\n"
         "[embedding f]\ntable = b\ninput = C2\npool = max\n"
         "[tanh t]\ninput = e\n[sigmoid s]\ninput = e\n[leaky_relu l]\ninput = t\n[concat x]\ninput = t, s, l, f, t\n"
         "[relu r]\ninput = x\n"
         "[fc h]\ninput = r\nunits = 2\nactivation = leaky_relu\n[fc y]\ninput = h\nunits = 2\nactivation = sigmoid\n"
         "[fc z]\ninput = y\nunits = 1\nbias = no\n"
         "[loss bce]\ninput = z\n",
    DATA
    "[table a]\ndim = 2\n[embedding e]\ntable = a\ninput = C1, C2\n[batch_norm n]\ninput = e\n"
    "[embedding f]\ntable = a\ninput = C3\n[concat x]\ninput = n, f, dense\n[batch_norm m]\ninput = x\nmomentum = 0.5\n"
    "[busy b]\ninput = m\nrounds = 2\n"
    "[fc h]\ninput = b\nunits = 3\n[batch_norm o]\ninput = h\n[relu r]\ninput = o\n[fc z]\ninput = r\nunits = 1\n"
    "[loss bce]\ninput = z\n",
    DATA "[table a]\ndim = 2\n[data_norm n]\ninput = dense\n[embedding e]\ntable = a\ninput = sparse\npool = none\n"
         "[sum_pool p]\ninput = e\ndim = 2\nrows = 6\n[cross c]\ninput = n, n, p\n[softmax s]\ninput = e\ngroups = 3\n"
         "[reshape r]\ninput = s\nrows = 6\ntranspose = yes\n[slice k]\ninput = r\nbegin = 4\nend = 6\n"
         "[mul m]\ninput = c, k\n[slice o]\ninput = e\nend = 1\n[softsign t]\ninput = o\n[add h]\ninput = m, t, k, k\n"
         "[fc z]\ninput = h\nunits = 1\n[loss bce]\ninput = z\n",
    DATA
    "[fc a]\ninput = dense\nunits = 2\nactivation = tanh\n[fc b]\ninput = a\nunits = 2\nshare = a\n[batch_norm n]\n"
    "input = b\n[fc c]\ninput = n\nunits = 2\nshare = b\n[fc z]\ninput = c\nunits = 1\n[loss bce]\ninput = z\n",
    DATA
    "[table a]\ndim = 2\n[embedding q]\ntable = a\ninput = C1\n[embedding h]\ntable = a\ninput = C2\npool = none\n"
    "[attention_pairs p]\ninput = q, h\n[fc s]\ninput = p\ngroups = 2\nunits = 1\n"
    "[attention_pool o]\ninput = s, h, C2\nnormalise = softmax\n[match m]\ninput = o, h\nsimilarity = cosine\n"
    "[match k]\ninput = dense, h\n[fm f]\ninput = h\ndim = 2\n[interact i]\ninput = q, h, dense\ndim = 2\nself = yes\n"
    "[concat x]\ninput = m, k, f, i\n[fc z]\ninput = x\nunits = 1\n[loss bce]\ninput = z\n",
    DATA "[table a]\ndim = 2\n[embedding q]\ntable = a\ninput = C1\n[embedding w]\ntable = a\ninput = C2\npool = none\n"
         "[loss s]\nkind = shared_softmax\ninput = q, w, C2\n",
    /* A loss in front of other ops, metrics at the end; log_q of a column. */
    DATA "[fc s]\ninput = dense\nunits = 2\nactivation = tanh\n[loss a]\nkind = softmax\ninput = s\n"
         "[loss b]\nkind = nce\ninput = s, dense\n[loss c]\nkind = sampled_softmax\ninput = s, dense\nweight = 0.5\n"
         "[fc p]\ninput = s\nunits = 1\n[fc q]\ninput = dense\nunits = 1\n[loss d]\nkind = squared\ninput = p\n"
         "[loss e]\nkind = hinge\ninput = p, q\n[loss f]\ninput = q\n[metric m]\ninput = s\nlabel = label\n[metric n]\n"
         "kind = hit_rate\ninput = s\nk = 1\n[metric o]\nkind = ndcg\ninput = s, dense\n[metric r]\ninput = p, q\n",
    DATA "[fc g]\ninput = dense\nunits = 3\n[experts m]\ninput = dense, g\nunits = 2\nhidden = 2\n"
         "[experts n]\ninput = m, g\nunits = 1\ntop = 1\nactivation = none\n[loss bce]\ninput = n\n",
};
#define MODEL_COUNT (sizeof models / sizeof *models)

/* A copy of model i's image; yours. */
static uint8_t *model_image(size_t i, size_t *bytes)
{
    static uint8_t *images[MODEL_COUNT];
    static size_t images_bytes[MODEL_COUNT];
    if (images[i] == NULL) {
        struct graph g;
        if (graph_compile(&g, "fuzz.cfg", models[i], strlen(models[i]), NULL, 0, NULL) != ST_OK) {
            printf("not ok 1 - fuzz_graph: %s\n", status_message());
            exit(1);
        }
        images[i] = rig_take(g.bytes);
        images_bytes[i] = g.bytes;
        memcpy(images[i], g.header, g.bytes);
        graph_close(&g);
    }
    uint8_t *image = rig_take(images_bytes[i]);
    memcpy(image, images[i], images_bytes[i]);
    *bytes = images_bytes[i];
    return image;
}

static void replace(uint8_t *image, size_t image_bytes, const uint8_t *data)
{
    size_t word_count = image_bytes / 4;
    uint32_t value;
    memcpy(&value, data + 3, sizeof value);
    if (data[0] & 1) memcpy(&value, image + value % word_count * 4, sizeof value);
    memcpy(image + (data[1] | (size_t)data[2] << 8) % word_count * 4, &value, sizeof value);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (bytes == 0) return 0;
    uint8_t *image;
    size_t image_bytes;
    if (bytes >= sizeof(struct graph_header) && memcmp(data, GRAPH_MAGIC, 8) == 0) {
        image = rig_take(image_bytes = bytes);
        memcpy(image, data, bytes);
    } else {
        image = model_image(data[0] % MODEL_COUNT, &image_bytes);
        for (size_t at = 1; at + REPLACEMENT_BYTES <= bytes; at += REPLACEMENT_BYTES)
            replace(image, image_bytes, data + at);
    }
    const size_t checksum_at = offsetof(struct graph_header, checksum);
    memset(image + checksum_at, 0, 8);
    uint64_t checksum = XXH3_64bits(image, image_bytes);
    memcpy(image + checksum_at, &checksum, sizeof checksum);

    struct graph g;
    if (graph_open_memory(&g, "fuzz.bin", image, image_bytes) == ST_OK) {
        uint32_t examples = g.header->micro < 3 ? g.header->micro : 3;
        if (rig_fits(&g, examples)) {
            struct rig r;
            rig_open(&r, &g, 1, examples);
            rig_forward(&r);
            rig_backward(&r);
            rig_close(&r);
        }
        graph_close(&g);
    }
    free(image);
    return 0;
}
