/* Reads how initial values are drawn. */
#include "graph/init.h"

#include "cfg/key.h"
#include "graph/word_next.h"

status init_parse(const char *text, enum random_init *init, float *scale)
{
    static const char expected[] = "zeros, uniform HALF_WIDTH or normal DEVIATION";
    const char *rest = text;
    char name[WORD_BYTES_MAX], number[WORD_BYTES_MAX], more[WORD_BYTES_MAX];
    if (!word_next(&rest, name)) FAIL(INVALID, "expected %s, found nothing", expected);
    for (int i = 0; i < INIT_COUNT; i++) {
        if (strcmp(name, random_init_names[i]) != 0) continue;
        double value = 0;
        if (i != INIT_ZEROS) {
            if (!word_next(&rest, number)) FAIL(INVALID, "expected a number after \"%s\", found nothing", name);
            if (!cfg_parse_f64(number, &value) || !(value >= 0 && value <= (double)INIT_SCALE_MAX))
                FAIL(INVALID, "expected a number of 0 to %g after \"%s\", found \"%s\"", (double)INIT_SCALE_MAX, name,
                     number);
        }
        if (word_next(&rest, more))
            FAIL(INVALID, "expected nothing after \"%s\", found \"%s\"", i == INIT_ZEROS ? name : number, more);
        *init = (enum random_init)i;
        *scale = (float)value;
        return ST_OK;
    }
    const char *near = ini_nearest(name, random_init_names);
    if (near != NULL) FAIL(INVALID, "expected %s, found \"%s\"; did you mean %s?", expected, name, near);
    FAIL(INVALID, "expected %s, found \"%s\"", expected, name);
}
