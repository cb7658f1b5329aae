/* Which scope each thread works for. */
#include <stdlib.h>

#include "engine/base/scope_internal.h"

static struct scope first;
static _Thread_local struct scope *now = &first;

struct scope *scope_now(void) { return now; }

struct scope *scope_enter(struct scope *scope)
{
    struct scope *before = now;
    now = scope;
    return before;
}

status scope_open(struct scope **scope)
{
    *scope = calloc(1, sizeof **scope);
    if (*scope == NULL) FAIL(MEMORY, "no memory for a scope, %zu bytes", sizeof **scope);
    return ST_OK;
}

void scope_close(struct scope *scope)
{
    CHECK(scope != &first && scope != now);
    scope_stop_close(&scope->stop);
    scope_memory_close(&scope->memory);
    free(scope);
}
