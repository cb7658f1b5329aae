/* Any bytes as an address, and as what a server answers of places: a line each, the address, a Location, a
 * Content-Range or a date, the JSON of GETFILESTATUS. What is taken is a target that a request can have. */
#define FUZZ_NAME "web_address"
#include "tests/fuzz/driver.h"

#include "io/net/webhdfs.h"

static void address_check(const struct web_address *a)
{
    char shown[WEB_SHOWN_BYTES];
    CHECK(*a->host && strlen(a->host) < WEB_HOST_BYTES && *a->target == '/' && strlen(a->target) < WEB_TARGET_BYTES);
    for (const char *c = a->host; *c; c++) CHECK((unsigned char)*c > ' ' && *c != '/' && *c != '@');
    for (const char *c = a->target; *c; c++) CHECK((unsigned char)*c > ' ' && *c != '#');
    CHECK(strchr(web_address_shown(shown, a), '?') == NULL || strchr(a->host, '?'));
    /* What is shown without its query is an address again. */
    struct web_address again;
    CHECK(web_address_parse(&again, shown) == ST_OK && strcmp(again.host, a->host) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    char *text = malloc(bytes + 1), *line[4];
    CHECK(text != NULL);
    memcpy(text, data, bytes);
    text[bytes] = 0;
    char *rest = text;
    for (int i = 0; i < 4; i++) {
        char *found = strsep(&rest, "\n");
        line[i] = found ? found : text + bytes;
    }
    struct web_address a, to;
    if (web_address_parse(&a, line[0]) == ST_OK) {
        address_check(&a);
        if (web_address_follow(&to, &a, line[1]) == ST_OK) address_check(&to);
        if (webhdfs_is(&a)) {
            if (webhdfs_part(&to, &a, UINT64_MAX, UINT64_MAX) == ST_OK) address_check(&to);
            if (webhdfs_status(&to, &a) == ST_OK) address_check(&to);
        }
    }
    struct web_range range;
    if (web_range_parse(&range, line[2]))
        CHECK(range.is_none || (range.first <= range.last && range.last < range.total));
    int64_t seconds;
    if (web_date_parse(&seconds, line[2])) CHECK(seconds > -(INT64_C(1) << 40) && seconds < INT64_C(1) << 40);
    uint64_t size, modified;
    (void)web_length_parse(&size, line[2]);
    if (webhdfs_status_read(line[3], strlen(line[3]), &size, &modified) == ST_OK)
        CHECK(size <= INT64_MAX && modified <= INT64_MAX);
    free(text);
    return 0;
}
