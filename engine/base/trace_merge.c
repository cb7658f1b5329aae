/* Joins the traces of a job's nodes to one file. Their times are node 0's already (trace_align), each
 * has a pid of its own, and an event is a line. So lines are copied as they are; viewers sort them. A
 * line of another form is refused. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "engine/base/heap.h"
#include "engine/base/log.h"
#include "engine/base/trace.h"

#define LINE_BYTES  4096u /* an event's line is shorter */
#define LOOK_MS     20
#define RANKS_MAX   64u
#define CLOCK_BEGIN "{\"name\":\"clock\",\"cat\":\"trace\",\"ph\":\"M\",\"pid\":"

/* A node's file. */
struct merge_part {
    FILE *in;
    char *path;
    uint64_t job, ranks;
};

/* Reads the next line without its end; *is_there: there was a whole one. INVALID: it is too long. */
static status line_read(const struct merge_part *p, char line[LINE_BYTES], bool *is_there)
{
    *is_there = fgets(line, LINE_BYTES, p->in) != NULL;
    if (!*is_there) {
        if (ferror(p->in)) FAIL(IO, "%s: %s", p->path, strerror(errno));
        return ST_OK;
    }
    const size_t bytes = strlen(line);
    *is_there = bytes > 0 && line[bytes - 1] == '\n';
    if (!*is_there && (bytes == LINE_BYTES - 1 || !feof(p->in)))
        FAIL(INVALID, "%s: expected a trace of --trace, found a line of %zu bytes and more", p->path, bytes);
    if (*is_there) line[bytes - 1] = 0;
    return ST_OK;
}

/* Opens a file and reads its head; job 0: it has none, or none yet. */
static status part_open(struct merge_part *p)
{
    char line[LINE_BYTES];
    bool is_there = true;
    p->job = p->ranks = 0;
    const int fd = open(p->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* does not wait for a pipe's other end */
    if (fd < 0 || (p->in = fdopen(fd, "r")) == NULL) {
        const int why = errno;
        if (fd >= 0) close(fd);
        FAIL(IO, "%s: %s", p->path, strerror(why));
    }
    struct stat about;
    if (fstat(fileno(p->in), &about) != 0 || !S_ISREG(about.st_mode))
        FAIL(INVALID, "%s: expected a trace of --trace, found %s", p->path, file_kind_name(about.st_mode));
    for (uint32_t i = 0; i < 3 && is_there; i++) {
        TRY(line_read(p, line, &is_there));
        if (is_there && strcmp(line, "[") != 0 && *line != '{')
            FAIL(INVALID, "%s: expected a trace of --trace, found \"%.40s\" at its beginning", p->path, line);
    }
    uint32_t pid;
    if (is_there && strncmp(line, CLOCK_BEGIN, strlen(CLOCK_BEGIN)) == 0)
        (void)!sscanf(line + strlen(CLOCK_BEGIN),
                      "%" SCNu32 ",\"args\":{\"job\":\"%16" SCNx64 "\",\"ranks\":\"%16" SCNx64 "\"", &pid, &p->job,
                      &p->ranks);
    rewind(p->in);
    return ST_OK;
}

static void part_close(struct merge_part *p)
{
    if (p->in) fclose(p->in);
    p->in = NULL;
}

/* Whether the array has its end. */
static bool is_complete(const struct merge_part *p)
{
    char end[3] = "";
    const bool is_read = fseek(p->in, -3, SEEK_END) == 0 && fread(end, 1, 3, p->in) == 3;
    rewind(p->in);
    return is_read && memcmp(end, "\n]\n", 3) == 0;
}

/* Waits until a node's file is complete, or until end_ns, and opens it. */
static status part_await(struct merge_part *p, uint64_t job, uint64_t end_ns)
{
    for (;;) {
        const status st = part_open(p);
        const bool is_of_job = st == ST_OK && p->job != 0 && (p->job == job || job == 0);
        if (st != ST_OK || (is_of_job && is_complete(p))) return st;
        if (clock_ns() >= end_ns && is_of_job) return ST_OK;
        if (clock_ns() >= end_ns)
            FAIL(MISMATCH, "%s: expected the trace of a node of this job, found one of another, or of none", p->path);
        part_close(p);
        nanosleep(&(struct timespec){.tv_nsec = LOOK_MS * 1000000}, NULL);
    }
}

/* Appends the file's events. */
static status part_copy(const struct merge_part *p, struct file_writer *out, bool *is_first)
{
    char line[LINE_BYTES];
    bool is_there;
    for (uint64_t number = 1;; number++) {
        TRY(line_read(p, line, &is_there));
        if (!is_there) return ST_OK;
        size_t bytes = strlen(line);
        if (strcmp(line, "[") == 0 || strcmp(line, "]") == 0) continue;
        if (bytes > 0 && line[bytes - 1] == ',') bytes--;
        if (bytes < 2 || *line != '{' || line[bytes - 1] != '}')
            FAIL(INVALID, "%s:%" PRIu64 ": expected an event of --trace, found \"%.40s\"", p->path, number, line);
        TRY(file_writer_put(out, *is_first ? "[\n" : ",\n", 2));
        TRY(file_writer_put(out, line, bytes));
        *is_first = false;
    }
}

/* Appends the files of all ranks that the first file names. */
static status parts_copy(const char *path, struct merge_part *first, struct file_writer *out, uint64_t end_ns,
                         bool is_lenient)
{
    bool is_first = true;
    uint32_t missing = 0;
    TRY(part_copy(first, out, &is_first));
    for (uint32_t r = 1; r < RANKS_MAX; r++) {
        struct merge_part p = {0};
        if (!(first->ranks >> r & 1)) continue;
        TRY(heap_text(&p.path, "%s.%u", path, r));
        status st = part_await(&p, first->job, end_ns);
        const bool is_begun = st == ST_OK;
        if (is_begun) st = part_copy(&p, out, &is_first);
        part_close(&p);
        free(p.path);
        if (st == ST_OK) continue;
        if (is_begun || !is_lenient) return st;
        log_warning("%s lacks node %u: %s", path, r, status_message());
        missing++;
    }
    if (missing)
        log_warning("when the traces of all nodes are in one directory, join them: heterps-run trace %s", path);
    return file_writer_put(out, is_first ? "[\n]\n" : "\n]\n", is_first ? 4 : 3);
}

status trace_merge(const char *path, uint64_t wait_ns, bool is_lenient)
{
    const uint64_t end_ns = clock_ns() + wait_ns;
    struct merge_part first = {0};
    struct file_writer out = {0};
    TRY(heap_text(&first.path, "%s.0", path));
    status st = part_open(&first);
    const bool is_joined = st == ST_OK && first.job != 0;
    if (st == ST_OK && !is_joined && !is_lenient)
        st =
            status_fail(ST_INVALID, __FILE__, __LINE__,
                        "%s: expected the trace of node 0 of a training whose nodes all had --trace, found another one",
                        first.path);
    if (is_joined) {
        st = file_writer_open(&out, path);
        if (st == ST_OK) st = parts_copy(path, &first, &out, end_ns, is_lenient);
        if (st == ST_OK) st = file_writer_commit(&out);
        file_writer_abort(&out);
    }
    part_close(&first);
    free(first.path);
    return st;
}
