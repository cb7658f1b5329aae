/* Devices and slowings as texts. */
#include "sched/resource.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cfg/key.h"
#include "graph/op.h"

static const char *const device_names[RESOURCE_DEVICE_COUNT] = {
    [RESOURCE_CPU] = "cpu", [RESOURCE_CUDA] = "cuda",   [RESOURCE_EMU] = "emu",
    [RESOURCE_SIM] = "sim", [RESOURCE_PACED] = "paced",
};

#define FACTOR_MAX 1000.0

char *resource_device_text(const struct resource_type *type, char *buffer, size_t bytes)
{
    if (type->device == RESOURCE_CUDA)
        snprintf(buffer, bytes, "%s:%u", device_names[RESOURCE_CUDA], type->device_index);
    else
        snprintf(buffer, bytes, "%s", device_names[type->device]);
    return buffer;
}

bool resource_device_parse(const char *text, struct resource_type *type)
{
    type->device_index = 0;
    for (int d = 0; d < RESOURCE_DEVICE_COUNT; d++)
        if (d != RESOURCE_CUDA && strcmp(text, device_names[d]) == 0) {
            type->device = (enum resource_device)d;
            return true;
        }
    size_t prefix = strlen("cuda:");
    if (strncmp(text, "cuda:", prefix) != 0) return false;
    const char *digits = text + prefix;
    size_t digit_count = strspn(digits, "0123456789");
    if (digit_count < 1 || digit_count > 3 || digits[digit_count] != 0 || (digit_count > 1 && digits[0] == '0'))
        return false;
    type->device = RESOURCE_CUDA;
    type->device_index = (uint32_t)strtoul(digits, NULL, 10);
    return true;
}

/* Slows the ops of a section, or all ops; false: there is no such section. */
static bool slow_set(struct resource_slow *slow, const char *section, float factor)
{
    bool is_found = false;
    for (uint32_t i = 0; i < OP_ID_COUNT; i++) {
        bool is_meant = strcmp(section, "all") == 0 || strcmp(section, op_table[i].section) == 0;
        if (is_meant || slow->op[i] == 0) slow->op[i] = is_meant ? factor : 1;
        is_found = is_found || is_meant;
    }
    return is_found;
}

status resource_slow_parse(const char *text, struct resource_slow *slow)
{
    memset(slow->op, 0, sizeof slow->op);
    while (*(text += strspn(text, " ,"))) {
        char name[64], number[32];
        int used = 0;
        double factor;
        if (sscanf(text, "%63[a-z_0-9] %31[0-9.]%n", name, number, &used) != 2 || (text[used] && text[used] != ',') ||
            !cfg_parse_f64(number, &factor) || !(factor >= 1 && factor <= FACTOR_MAX))
            FAIL(INVALID,
                 "expected ops and factors from 1 to %g, as in \"fc 4, embedding 2.5\" or \"all 3\", found \"%.60s\"",
                 FACTOR_MAX, text);
        if (!slow_set(slow, name, (float)factor))
            FAIL(INVALID, "expected a section of the model text, or all, found \"%s\"", name);
        text += used;
    }
    bool is_slowed = false;
    for (uint32_t i = 0; i < OP_ID_COUNT; i++) is_slowed = is_slowed || slow->op[i] > 1;
    if (!is_slowed) memset(slow->op, 0, sizeof slow->op);
    return ST_OK;
}

status resource_slow_turns_check(struct resource_slow *slow)
{
    if (!resource_is_slowed(slow)) slow->from_step = slow->for_steps = slow->every_steps = 0;
    if (slow->every_steps == 0 || (slow->for_steps > 0 && slow->for_steps < slow->every_steps)) return ST_OK;
    FAIL(INVALID,
         "expected slow_for from 1 to less than slow_every, %" PRIu64 " steps, found %" PRIu64
         "; slow_every = 0 is once, and slow_for = 0 for good",
         slow->every_steps, slow->for_steps);
}

char *resource_slow_text(const struct resource_slow *slow, char *buffer, size_t bytes)
{
    size_t used = 0;
    if (bytes > 0) buffer[0] = 0;
    for (uint32_t i = 0; i < OP_ID_COUNT && resource_is_slowed(slow); i++) {
        bool is_told = op_section_first(i) != i; /* the ops of one section are slowed alike */
        if (slow->op[i] > 1 && used < bytes && !is_told)
            used += (size_t)snprintf(buffer + used, bytes - used, "%s%s %.9g", used ? ", " : "", op_table[i].section,
                                     (double)slow->op[i]);
    }
    return buffer;
}
