/* What readers know of a graph (engine/data/schema.h), for tests that open feeds by themselves. */
#ifndef HETERPS_TESTS_ENGINE_PIPE_SCHEMA_FIXTURE_H
#define HETERPS_TESTS_ENGINE_PIPE_SCHEMA_FIXTURE_H

#include "engine/data/schema.h"

struct test_schema {
    struct ini ini;
    struct settings settings;
    struct schema schema;
};

static inline status test_schema_open(struct test_schema *s, const struct graph *graph)
{
    TRY(ini_parse(&s->ini, "test.cfg", graph->text, graph->text_bytes));
    TRY(settings_read(&s->ini, &s->settings));
    return schema_open(&s->schema, graph, &s->settings);
}

static inline void test_schema_close(struct test_schema *s)
{
    schema_close(&s->schema);
    ini_free(&s->ini);
}

#endif
