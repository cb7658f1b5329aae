/* Targets and answers of WebHDFS. */
#include "io/net/webhdfs.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#define FOLDER "/webhdfs/v1/"

/* Finds the value of a word of the query, up to '&' or the end; NULL: the query lacks the word. */
static const char *word_find(const char *target, const char *name)
{
    const size_t bytes = strlen(name);
    for (const char *at = strchr(target, '?'); at; at = strchr(at, '&')) {
        at++;
        if (strncasecmp(at, name, bytes) == 0 && at[bytes] == '=') return at + bytes + 1;
    }
    return NULL;
}

bool webhdfs_is(const struct web_address *a)
{
    const char *op = word_find(a->target, "op");
    return strncmp(a->target, FOLDER, strlen(FOLDER)) == 0 && op && strcspn(op, "&") == 4 &&
           strncasecmp(op, "OPEN", 4) == 0 && !word_find(a->target, "offset") && !word_find(a->target, "length");
}

static status made_check(int bytes, const char *host)
{
    if (bytes < 0 || (size_t)bytes >= WEB_TARGET_BYTES)
        FAIL(INVALID, "http://%s" FOLDER "…: expected a path and query of at most %u bytes with offset and length",
             host, WEB_TARGET_BYTES - 1);
    return ST_OK;
}

status webhdfs_part(struct web_address *part, const struct web_address *a, uint64_t at, uint64_t bytes)
{
    *part = *a;
    return made_check(
        snprintf(part->target, sizeof part->target, "%s&offset=%" PRIu64 "&length=%" PRIu64, a->target, at, bytes),
        a->host);
}

status webhdfs_status(struct web_address *ask, const struct web_address *a)
{
    const char *op = word_find(a->target, "op");
    CHECK(op != NULL);
    *ask = *a;
    return made_check(snprintf(ask->target, sizeof ask->target, "%.*sGETFILESTATUS%s", (int)(op - a->target), a->target,
                               op + strcspn(op, "&")),
                      a->host);
}

status webhdfs_status_read(const char *text, size_t bytes, uint64_t *size, uint64_t *modified)
{
    json_error_t error;
    const char *type;
    json_int_t length = -1, time = -1;
    json_t *root = json_loadb(text, bytes, 0, &error);
    if (root == NULL) FAIL(INVALID, "its GETFILESTATUS is no JSON: %s", error.text);
    const int found = json_unpack(root, "{s:{s:s, s:I, s:I}}", "FileStatus", "type", &type, "length", &length,
                                  "modificationTime", &time);
    const bool is_file = found == 0 && strcmp(type, "FILE") == 0 && length >= 0 && time >= 0;
    json_decref(root);
    if (!is_file)
        FAIL(INVALID, "its GETFILESTATUS is not that of a file: expected type FILE, length, modificationTime");
    *size = (uint64_t)length;
    *modified = (uint64_t)time;
    return ST_OK;
}
