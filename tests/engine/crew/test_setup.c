/* A graph carries its text, and the checksum says only that both are what was written: whoever makes a graph
 * can write another text. Such a graph is refused, or is used as it is; it never ends the program. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "engine/base/log.h"
#include "engine/crew/setup.h"
#include "tests/engine/fixture_clicks.h"

static const char text[] = "[model]\nname = small\n"
                           "[data]\ndense = I1..I3\nsparse = C1..C4\n"
                           "[table emb]\ndim = 4\noptimizer = adagrad 0.05\n"
                           "[embedding e]\ntable = emb\ninput = C1..C4\npool = sum\n"
                           "[concat x]\ninput = e, dense\n"
                           "[fc y]\ninput = x\nunits = 1\n"
                           "[loss bce]\ninput = y\nlabel = label\n"
                           "[train]\nbatch = 32\noptimizer = adam 0.01\n"
                           "[store]\nram = 1MiB\n";

static struct graph graph;
static uint8_t *image; /* [graph.bytes]: a copy of the graph, whose text is at text_of_image */
static char *text_of_image;

static int graph_make(void **state)
{
    (void)state;
    if (fixture_directory_make("test_setup") != 0) return -1;
    log_open(LOG_TEXT, -1);
    assert_ok(graph_compile(&graph, "small.cfg", text, sizeof text - 1, NULL, 0, NULL));
    image = malloc(graph.bytes);
    assert_non_null(image);
    memcpy(image, graph.header, graph.bytes);
    text_of_image = (char *)image + (graph.text - (const char *)graph.header);
    return 0;
}

static int graph_remove(void **state)
{
    (void)state;
    free(image);
    graph_close(&graph);
    return fixture_directory_remove();
}

/* Opens the changed image, under a checksum that holds, for training. */
static status image_open(void)
{
    const size_t at = offsetof(struct graph_header, checksum);
    char path[256];
    struct setup setup;
    snprintf(path, sizeof path, "%s", fixture_path("changed.bin"));
    memset(image + at, 0, 8);
    uint64_t checksum = XXH3_64bits(image, graph.bytes);
    memcpy(image + at, &checksum, sizeof checksum);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(image, 1, graph.bytes, file), graph.bytes);
    assert_int_equal(fclose(file), 0);
    status st = setup_open(&setup, &(struct setup_options){.graph_path = path, .training = true});
    if (st == ST_OK) setup_close(&setup);
    return st;
}

static void setup_open__table_is_no_section_of_the_text__invalid(void **state)
{
    (void)state;
    char *table = strstr(text_of_image, "[table emb]");
    assert_non_null(table);
    assert_ok(image_open());
    memcpy(table, "[table hmb]", 11);
    assert_int_equal(image_open(), ST_INVALID);
    assert_non_null(strstr(status_message(),
                           "changed.bin: the graph has a table emb, of which the text that it carries has no section; "
                           "compile the model text again"));
    struct graph changed = graph;
    changed.text = text_of_image;
    assert_int_equal(setup_text_check(&changed, "changed.bin"), ST_INVALID);
    assert_non_null(strstr(status_message(), "changed.bin: the graph has a table emb, of which the text"));
    memcpy(table, "[table emb]", 11);
    assert_ok(setup_text_check(&changed, "changed.bin"));
}

static void setup_open__any_byte_of_the_text_changed__a_sentence_or_a_setup(void **state)
{
    (void)state;
    uint32_t refused_count = 0;
    for (size_t i = 0; i < graph.text_bytes; i++)
        for (int way = 0; way < 2; way++) {
            const char was = text_of_image[i];
            text_of_image[i] = way ? '\n' : 'z';
            const status st = image_open();
            if (st != ST_OK) refused_count += strlen(status_message()) > 0;
            assert_true(st == ST_OK || st == ST_INVALID || st == ST_USAGE || st == ST_FULL || st == ST_MEMORY);
            text_of_image[i] = was;
        }
    assert_true(refused_count > 100);
    assert_ok(image_open());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(setup_open__table_is_no_section_of_the_text__invalid),
        cmocka_unit_test(setup_open__any_byte_of_the_text_changed__a_sentence_or_a_setup),
    };
    return cmocka_run_group_tests_name("setup", tests, graph_make, graph_remove);
}
