/* Reads and writes [model] rules. */
#include "cfg/rules.h"

#include <stdio.h>

#include "cfg/key.h"

static const struct ini_entry *entry_of(const struct ini *ini)
{
    const struct ini_section *section = ini_find(ini, "model", "");
    return section ? ini_entry_find(section, "rules") : NULL;
}

uint32_t rules_of(const struct ini *ini)
{
    const struct ini_entry *entry = entry_of(ini);
    uint64_t rules;
    return entry && cfg_parse_u64(entry->value, &rules) && rules <= RULES_NEWEST ? (uint32_t)rules : RULES_OLDEST;
}

status rules_settle(struct ini *ini)
{
    if (entry_of(ini) != NULL) return ST_OK;
    char text[12];
    snprintf(text, sizeof text, "%d", RULES_NEWEST);
    return ini_put(ini, "model", "rules", text);
}
