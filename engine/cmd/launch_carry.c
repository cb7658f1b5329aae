/* Brings this program to all hosts of `launch --hosts` at once. A shell there looks whether the file
 * has the right SHA-256 already. If not, it writes the bytes of its standard input to a temporary
 * file, and renames the file if its hash is right. The shell's answers are lines that begin with MARK;
 * a login may print other lines.
 *
 *     ASKED ──here──▶ READY
 *       └───need──▶ SENDING ──here──▶ READY
 *
 * If an ssh ends in another state, or says "wrong", its host fails, and with it the job. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "engine/base/log.h"
#include "engine/cmd/launch.h"

#define MARK        "heterps-launch "
#define SELF        "/proc/self/exe"
#define SAID_BYTES  512u /* of a line from the shell */
#define HASH_DIGITS 64u  /* of a SHA-256 */
#define HASHES_MAX  4u   /* places for the hash in the script */

/* %1$s is the hash. The script has no ', and nothing that shells understand differently. */
static const char script[] =
    "umask 077; d=\"" LAUNCH_FOLDER "\"; f=\"$d/run-%1$s\"; t=; "
    "sum() { sha256sum \"$1\" | cut -c 1-64; }; "
    "gone() { [ -z \"$t\" ] || rm -f \"$t\"; }; trap gone EXIT; "
    "if [ -x \"$f\" ] && [ \"$(sum \"$f\")\" = %1$s ]; then echo " MARK "here $SSH_CONNECTION; exit 0; fi; "
    "mkdir -p \"$d\" && chmod 700 \"$d\" && t=$(mktemp \"$d/new.XXXXXX\") || exit 1; "
    "echo " MARK "need; cat >\"$t\" || exit 1; got=$(sum \"$t\"); "
    "if [ \"$got\" != %1$s ]; then echo " MARK "wrong $got; exit 1; fi; "
    "chmod 700 \"$t\" && mv -f \"$t\" \"$f\" || exit 1; t=; "
    "echo " MARK "here $SSH_CONNECTION";

enum carry_state { CARRY_ASKED, CARRY_SENDING, CARRY_READY };
struct carry {
    pid_t pid;    /* 0: it has ended, or none was needed */
    int to, from; /* -1: closed                          */
    enum carry_state state;
    size_t sent_bytes;
    struct launch_stream error;
    uint32_t used;
    char said[SAID_BYTES]; /* the line that is being read                   */
    char wrong[80];        /* the copy's hash, if it is wrong */
    bool has_failed;
};

static void end_close(int *fd)
{
    if (*fd >= 0) close(*fd);
    *fd = -1;
}

static status carry_start(struct launch *l, struct carry *c, uint32_t rank)
{
    int in[2] = {-1, -1}, out[2] = {-1, -1}, error[2] = {-1, -1};
    char command[sizeof script + HASHES_MAX * HASH_DIGITS];
    const pid_t self = getpid();
    snprintf(command, sizeof command, script, l->program);
    if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0 || pipe2(error, O_CLOEXEC) != 0)
        FAIL(SYSTEM, "a pipe to ssh: %s", strerror(errno)); /* the program ends, and closes them */
    c->pid = fork();
    if (c->pid == 0) {
        launch_child_begin(self, in[0], out[1], error[1]);
        launch_ssh_become(l, rank, command);
    }
    const int why = errno;
    close(in[0]);
    close(out[1]);
    close(error[1]);
    c->to = in[1];
    c->from = out[0];
    (void)fcntl(c->to, F_SETFL, O_NONBLOCK);
    (void)fcntl(c->from, F_SETFL, O_NONBLOCK);
    launch_stream_begin(&c->error, error[0], STDERR_FILENO, true);
    if (c->pid > 0) return ST_OK;
    c->pid = 0;
    FAIL(SYSTEM, "cannot start ssh: fork: %s", strerror(why));
}

/* Takes a line from the shell on the host. */
static void line_take(struct launch *l, struct carry *c, uint32_t rank)
{
    const char *word = c->said + strlen(MARK);
    if (strncmp(c->said, MARK, strlen(MARK)) != 0) return;
    if (strcmp(word, "need") == 0 && c->state == CARRY_ASKED) {
        log_detail("launch   copies the program to %s", l->hosts.host[rank].name);
        c->state = CARRY_SENDING;
    } else if (strncmp(word, "here", 4) == 0) {
        /* $SSH_CONNECTION: address and port there, and here */
        char address[64] = "";
        if (sscanf(word, "here %*s %*s %63s", address) == 1 && strcmp(address, "UNKNOWN") != 0)
            snprintf(l->reached[rank], sizeof l->reached[rank], "%s", address);
        c->state = CARRY_READY;
        end_close(&c->to);
    } else if (strncmp(word, "wrong ", 6) == 0) {
        snprintf(c->wrong, sizeof c->wrong, "%.64s", word + 6);
    }
}

static void said_read(struct launch *l, struct carry *c, uint32_t rank)
{
    char byte[256];
    ssize_t got;
    while ((got = read(c->from, byte, sizeof byte)) > 0)
        for (ssize_t i = 0; i < got; i++) {
            if (byte[i] != '\n') {
                if (c->used < SAID_BYTES - 1) c->said[c->used++] = byte[i];
                continue;
            }
            c->said[c->used] = 0;
            line_take(l, c, rank);
            c->used = 0;
        }
    if (got == 0 || errno != EAGAIN) end_close(&c->from);
}

static void program_send(struct carry *c, const struct file_map *program)
{
    while (c->to >= 0 && c->sent_bytes < program->bytes) {
        const ssize_t got = write(c->to, program->data + c->sent_bytes, program->bytes - c->sent_bytes);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0 && errno == EAGAIN) return;
        if (got < 0) break; /* ssh has ended, and says why */
        c->sent_bytes += (size_t)got;
    }
    end_close(&c->to);
}

static void all_await(struct launch *l, struct carry *carry, const struct file_map *program)
{
    struct pollfd fds[3 * MEMBER_NODES_MAX];
    for (uint32_t r = 0; r < l->count; r++) {
        struct carry *c = &carry[r];
        fds[3 * r] = (struct pollfd){c->state == CARRY_SENDING ? c->to : -1, POLLOUT, 0};
        fds[3 * r + 1] = (struct pollfd){c->from, POLLIN, 0};
        fds[3 * r + 2] = (struct pollfd){c->error.from, POLLIN, 0};
    }
    if (poll(fds, 3 * l->count, LAUNCH_LOOK_MS) <= 0) return;
    for (uint32_t r = 0; r < l->count; r++) {
        if (fds[3 * r].revents) program_send(&carry[r], program);
        if (fds[3 * r + 1].revents) said_read(l, &carry[r], r);
        if (fds[3 * r + 2].revents) launch_stream_read(&carry[r].error, r);
    }
}

/* Returns the failure of an ssh that has ended, if it has failed. */
static status carry_ended(struct launch *l, struct carry *c, uint32_t rank, int how)
{
    const char *name = l->hosts.host[rank].name;
    char again[1024];
    if (c->from >= 0) said_read(l, c, rank);
    launch_stream_read(&c->error, rank);
    if (c->state == CARRY_READY) return ST_OK;
    c->has_failed = true;
    launch_ssh_text(l, rank, again, sizeof again);
    if (*c->wrong)
        FAIL(CORRUPT, "host %s: the copy of the program has SHA-256 %.64s there, and %s here", name, c->wrong,
             l->program);
    if (WIFEXITED(how) && WEXITSTATUS(how) == LAUNCH_SSH_FAILED)
        FAIL(SYSTEM, "host %s is not reached: %s; this command has to succeed without a question: %s", name,
             *c->error.last ? c->error.last : "ssh does not say why", again);
    FAIL(SYSTEM, "host %s: the program cannot be put into ~/.cache/heterps: %s", name,
         *c->error.last ? c->error.last : "its shell does not say why");
}

/* Notes ssh processes that have ended. Keeps the first failure for the end, and tells the others at once. */
static void ends_look(struct launch *l, struct carry *carry, uint32_t *running, struct failure *first)
{
    *running = 0;
    for (uint32_t r = 0; r < l->count; r++) {
        struct carry *c = &carry[r];
        int how;
        if (c->pid > 0 && waitpid(c->pid, &how, WNOHANG) == c->pid) {
            c->pid = 0;
            const status st = carry_ended(l, c, r, how);
            if (st != ST_OK && failure_is(first))
                log_warning("%s", status_message());
            else if (st != ST_OK)
                failure_keep(first, st);
        }
        *running += c->pid > 0;
    }
}

static status all_carry(struct launch *l, struct carry *carry, const struct file_map *program)
{
    struct failure first;
    uint32_t running = l->count;
    failure_keep(&first, ST_OK);
    /* A host that is listed twice is asked twice, and takes the program twice if it has none:
     * each copy is renamed at its end. */
    for (uint32_t r = 0; r < l->count; r++) TRY(carry_start(l, &carry[r], r));
    while (running > 0) {
        if (launch_signals_count() > 0) FAIL(AGAIN, "stopped by a signal before any node was started");
        all_await(l, carry, program);
        ends_look(l, carry, &running, &first);
    }
    return failure_adopt(&first);
}

status launch_carry(struct launch *l)
{
    struct file_map program;
    uint8_t hash[crypto_hash_sha256_BYTES];
    TRY(file_map_read(&program, SELF));
    struct carry *carry = calloc(l->count, sizeof *carry);
    status st = carry ? ST_OK : status_fail(ST_MEMORY, __FILE__, __LINE__, "no memory for %u hosts", l->count);
    for (uint32_t r = 0; st == ST_OK && r < l->count; r++) carry[r].to = carry[r].from = carry[r].error.from = -1;
    (void)crypto_hash_sha256(hash, program.data, program.bytes);
    sodium_bin2hex(l->program, sizeof l->program, hash, sizeof hash);
    if (st == ST_OK) st = all_carry(l, carry, &program);
    for (uint32_t r = 0; carry && r < l->count; r++) {
        if (carry[r].pid > 0 && kill(carry[r].pid, SIGKILL) == 0) (void)waitpid(carry[r].pid, NULL, 0);
        end_close(&carry[r].to);
        end_close(&carry[r].from);
        end_close(&carry[r].error.from);
    }
    free(carry);
    file_map_close(&program);
    return st;
}
