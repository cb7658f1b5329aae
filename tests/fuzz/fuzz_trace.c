/* Any bytes as the traces of two nodes, cut where the first byte says: an error that names the
 * file, or an array of their lines. */
#define FUZZ_NAME "trace"
#include "tests/fuzz/driver.h"

#include "engine/base/trace.h"

static char folder[] = "/tmp/fuzz-trace-XXXXXX", path[64], part[2][80];

static void folder_remove(void)
{
    for (int i = 0; i < 2; i++) unlink(part[i]);
    unlink(path);
    rmdir(folder);
}

static void part_write(int i, const uint8_t *data, size_t bytes)
{
    FILE *out = fopen(part[i], "w");
    CHECK(out != NULL && fwrite(data, 1, bytes, out) == bytes && fclose(out) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static char line[8192];
    if (*path == 0) {
        CHECK(mkdtemp(folder) != NULL);
        snprintf(path, sizeof path, "%s/t", folder);
        for (int i = 0; i < 2; i++) snprintf(part[i], sizeof part[i], "%s.%d", path, i);
        atexit(folder_remove);
    }
    if (bytes == 0) return 0;
    const size_t cut = 1 + (bytes - 1) * *data / 255;
    part_write(0, data + 1, cut - 1);
    part_write(1, data + cut, bytes - cut);
    if (trace_merge(path, 0, false) != ST_OK) {
        CHECK(strncmp(status_message(), path, strlen(path)) == 0);
        return 0;
    }
    FILE *in = fopen(path, "r");
    CHECK(in != NULL && fgets(line, sizeof line, in) != NULL && strcmp(line, "[\n") == 0);
    while (fgets(line, sizeof line, in) != NULL && strcmp(line, "]\n") != 0)
        CHECK(*line == '{' && (strstr(line, "},\n") != NULL || strstr(line, "}\n") != NULL));
    CHECK(fgets(line, sizeof line, in) == NULL);
    fclose(in);
    return 0;
}
