/* Model texts that have what the texts of single ops have not: vocabularies and candidates,
 * lives of rows, weights, groups, several labels, statistics, clipping, a schedule, shared
 * layers, lanes, formats of rows. */
#ifndef HETERPS_TESTS_GRAPH_WIDE_TEXTS_H
#define HETERPS_TESTS_GRAPH_WIDE_TEXTS_H

#include "tests/graph/tree_texts.h"

static const struct op_text wide_texts[] = {
    {"lives",
     "[model]\nname = lives\n[data]\nformat = csv\nlabel = click, amount\nweight = w\ngroup = q\ndense = x, y\n"
     "sparse = u, h\nids_max = 2\ntransform = none\n[column h]\nids_max = 3\nkeys_of = u\n"
     "[table a]\ndim = 4\nadmit = 3\nadmit_by = bloom\nadmit_keys = 5000\nttl = 4\ndelete_score = 0.5\ndecay = 0.9\n"
     "score_show = 0.2\nscore_click = 2\nrows = 900\nvector_score = 1.5\nl1 = 0.01\nl2 = 0.02\nclip_value = 3\n"
     "clip_norm = 4\noptimizer = ftrl 0.1\ninit = normal 0.2\n"
     "[table b]\ndim = 3\nstore = bf16\noptimizer = adam 0.01 beta1=0.8\nadmit = 2\nclick_label = amount\n"
     "[embedding e]\ntable = a\ninput = u, h\npool = mean\n[embedding f]\ntable = b\ninput = h\npool = none\n"
     "[concat x1]\ninput = e, f, dense\n[batch_norm n]\ninput = x1\nmomentum = 0.8\n[data_norm d]\ninput = dense\n"
     "[fc g]\ninput = n\nunits = 6\nactivation = relu\ninit = normal 0.3\n[fc k]\ninput = n\nunits = 6\nshare = g\n"
     "[concat j]\ninput = g, k, d\n[fc z]\ninput = j\nunits = 1\n[fc v]\ninput = j\nunits = 1\n"
     "[loss l]\ninput = z\nlabel = click\nweight = 0.5\n[loss m]\nkind = squared\ninput = v\nlabel = amount\n"
     "[train]\nbatch = 24\nmicro = 4\nlanes = 3\noptimizer = adamw 0.02\nschedule = cosine steps=100\nclip_norm = 5\n"
     "clip_value = 2\nl2 = 0.1\nseed = 9\n[store]\nperiod = 10\n"},
    {"candidates",
     "[model]\nname = words\n[data]\nformat = tokens\npath = p\nsparse = context\nlabel = next\nwindow = 2\n"
     "[vocabulary v]\ncolumn = next\nunknown = c\n[column context]\nvocabulary = v\n[column next]\nvocabulary = v\n"
     "[candidates c]\nof = next\nnegatives = 3\nsampler = empirical\npower = 0.5\n[table in]\ndim = 4\n"
     "[table out]\ndim = 5\n[embedding e]\ntable = in\ninput = context\npool = none\n[fc h]\ninput = e\nunits = 4\n"
     "[embedding r]\ntable = out\ninput = c\npool = none\n[match m]\ninput = h, r\nbias = yes\n"
     "[loss l]\nkind = nce\ninput = m, c.log_q\nlog_z = 2\n[train]\nbatch = 8\n"},
};
#define WIDE_TEXT_COUNT (sizeof wide_texts / sizeof wide_texts[0])
#define ALL_TEXT_COUNT  (OP_TEXT_COUNT + TREE_TEXT_COUNT + WIDE_TEXT_COUNT)

static inline const struct op_text *text_at(size_t i)
{
    if (i < OP_TEXT_COUNT) return &op_texts[i];
    i -= OP_TEXT_COUNT;
    return i < TREE_TEXT_COUNT ? &tree_texts[i] : &wide_texts[i - TREE_TEXT_COUNT];
}

static inline status wide_words(void *context, const struct vocabulary_settings *settings, const char *name,
                                uint64_t source,
                                status (*word)(void *to, const char *text, size_t bytes, uint64_t count), void *to)
{
    (void)context, (void)settings, (void)name, (void)source;
    for (size_t w = 0; w < 5; w++) TRY(word(to, &"abcde"[w], 1, 9 - w));
    return ST_OK;
}
static const struct graph_source wide_source = {.words = wide_words};

#endif
