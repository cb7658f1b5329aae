/* The program: finds the verb and runs it. Without a verb, the first argument is a graph to train. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "engine/base/log.h"
#include "engine/cmd/command.h"
#include "engine/cmd/launch.h"
#include "engine/http/blocks.h"
#include "engine/image/image.h"

/* The exit status after only printing. */
static int told(status st)
{
    if (st == ST_OK) st = log_results_check();
    if (st != ST_OK && st != ST_UNREAD) log_error("%s", status_message());
    return status_exit(st);
}

/* Opens /dev/null for a standard stream that was closed: else the next file opened would take its number, and
 * be written to. Read-only, so that results for a closed standard output fail instead of vanishing. */
static void streams_open(void)
{
    int fd = open("/dev/null", O_RDONLY);
    while (fd >= 0 && fd <= STDERR_FILENO) fd = dup(fd);
    if (fd > STDERR_FILENO) close(fd);
}

/* Raises the limit of open files as far as allowed: rows on a disk and saves of them need many. */
static void files_allow(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
}

/* Whether this is `doctor --cluster` without a file, which looks at nodes, not at a training. */
static bool is_of_cluster(const struct command *command, int argument_count, char **arguments)
{
    bool is_given = false;
    for (int i = 2; i < argument_count && command == &command_doctor; i++)
        is_given |= strcmp(arguments[i], "--cluster") == 0 && (i + 1 == argument_count || *arguments[i + 1] == '-');
    return is_given;
}

int main(int argument_count, char **arguments)
{
    streams_open();
    files_allow();
    /* A closed pipe, or a file-size limit, is an error of the write that meets it,
     * not the end of the program. */
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    log_open(LOG_TEXT, 0);
    blocks_for_libevent();
    if (argument_count < 2) {
        log_error("expected a verb or a graph; see `heterps-run --help`");
        return 2;
    }
    const char *first = arguments[1];
    const bool is_help = strcmp(first, "--help") == 0 || strcmp(first, "-h") == 0 || strcmp(first, "help") == 0;
    if (is_help) return told(help(argument_count > 2 ? arguments[2] : ""));
    if (strcmp(first, "--version") == 0 && argument_count == 2) {
        printf("heterps-run %s\n", HETERPS_VERSION);
        return told(ST_OK);
    }
    if (strcmp(first, IMAGE_PROBE_FLAG) == 0 && argument_count == 2) return image_probe();
    if (strcmp(first, LAUNCHED_FLAG) == 0 && argument_count == 2) return launched_run();
    const struct command *command = command_find(first);
    if (is_of_cluster(command, argument_count, arguments)) command = &command_doctor_cluster;
    if (command) return command_run(command, 2, argument_count, arguments);
    /* A word that is neither a verb nor looks like a path is more likely a mistyped verb than a graph. */
    if (first[0] != '-' && strpbrk(first, "./") == NULL) {
        const char *near = command_nearest(first);
        if (access(first, F_OK) != 0) { /* does not wait, as opening a pipe would */
            if (near)
                log_error("unknown verb \"%s\"; did you mean \"%s\"?", first, near);
            else
                log_error("\"%s\" is neither a verb nor a file; see `heterps-run --help`", first);
            return 2;
        }
    }
    return command_run(&command_train, 1, argument_count, arguments);
}
