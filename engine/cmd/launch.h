/* Shared by the files of `launch`. verb_launch.c watches over the processes; launch_local.c and
 * launch_hosts.c are the two ways to start one; launch_carry.c brings the program to hosts;
 * launched.c is the far end on a host. */
#ifndef HETERPS_ENGINE_CMD_LAUNCH_H
#define HETERPS_ENGINE_CMD_LAUNCH_H

#include <stdbool.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "engine/base/cores.h"
#include "engine/cmd/command.h"
#include "engine/node/hosts.h"
#include "io/net/link_key.h"

#define LAUNCH_GRACE_NS      UINT64_C(2000000000)  /* for a process to end by itself */
#define LAUNCH_KILL_NS       UINT64_C(10000000000) /* for a process to end after SIGTERM; then SIGKILL */
#define LAUNCH_LOOK_MS       50                    /* between two looks at processes */
#define LAUNCH_LINE_BYTES    32768u
#define LAUNCH_NAME_BYTES    300u /* of a process's name, for people */
#define LAUNCH_HOW_BYTES     96u  /* of how a process has ended, for people */
#define LAUNCH_SIGNAL_STATUS 128  /* an exit status that tells a signal: this plus the signal */
#define LAUNCH_SSH_FAILED    255  /* ssh's exit status where not the command but the connection has failed */

/* One of a process's streams. */
struct launch_stream {
    int from, to;   /* from: a pipe, or -1: ended; to: where lines go */
    bool is_named;  /* lines begin with the rank, unless they are a program's results */
    char last[160]; /* the last line, cut */
    uint32_t used;
    char line[LAUNCH_LINE_BYTES];
};
void launch_stream_begin(struct launch_stream *stream, int from, int to, bool is_named);
/* Passes on what has come, line by line; closes the stream at its end. */
void launch_stream_read(struct launch_stream *stream, uint32_t rank);

struct launch_process {
    pid_t pid;     /* 0: not running */
    int listen_fd; /* local: the socket on which it listens; else -1 */
    int order_fd;  /* on a host: standard input of its ssh; else -1 */
    struct launch_stream out, error;
    uint64_t begin_ns, again_ns; /* its last start; when to start it again, 0: not */
    uint32_t misses;             /* starts in a row that have not reached its host */
    uint64_t done_ns;            /* when it ended well; 0: not since its last start */
};

/* How a process has ended. */
enum launch_end { LAUNCH_WELL, LAUNCH_AGAIN, LAUNCH_UNREACHED, LAUNCH_FAILED };

struct launch;
/* A way to start processes. */
struct launch_way {
    /* Before the first start: makes what all processes need. */
    status (*begin)(struct launch *launch);
    /* Before a start, in the launcher: sets `input`, the process's standard input. */
    status (*prepare)(struct launch *launch, uint32_t rank, bool is_again, int *input);
    /* In the child, whose streams and signals are set: becomes the process, or returns. */
    void (*become)(struct launch *launch, uint32_t rank, bool is_again);
    /* SIGTERM: finish the step, save, end; SIGKILL: end. */
    void (*tell)(struct launch *launch, uint32_t rank, int signal);
    /* How it has ended, by waitpid's status `how`; says it in words in `text` (LAUNCH_HOW_BYTES). */
    enum launch_end (*ended)(struct launch *launch, uint32_t rank, int how, char *text);
    void (*name)(const struct launch *launch, uint32_t rank, char *text); /* "node 2 on b": LAUNCH_NAME_BYTES */
};
extern const struct launch_way launch_way_local, launch_way_hosts;

struct launch {
    const struct launch_way *way;
    struct command_rest rest;
    uint32_t count;
    struct hosts hosts; /* of launch_way_hosts; reached: the address by which each was reached, "": unknown */
    char reached[MEMBER_NODES_MAX][64];
    const char *ssh_config; /* NULL: ssh's default */
    char program[65];       /* SHA-256 of this program, in hexadecimal digits */
    struct cores cores;
    int key_fd;
    char *place[2]; /* --nodes=…, --coordinator=… or NULL */
    char *dir;      /* where saves go, or NULL */
    char *data;     /* what is read, as --data has it, or NULL: not known here */
    struct launch_process process[MEMBER_NODES_MAX];
    uint32_t restarts;       /* since the last new save */
    struct stat saved;       /* the newest save seen so far */
    int failed, failed_rank; /* exit status and rank of the first process that failed; failed 0: none has */
    bool is_stopping;        /* a signal has asked to stop */
    bool is_complete;        /* node 0, the last to end, has ended well */
    uint64_t end_ns;         /* when processes still running get SIGTERM; 0: not */
    bool is_told;            /* they have got it */
    uint64_t killed_ns;      /* when they got SIGKILL; 0: they have not */
};
/* How many signals the launcher has got so far. */
int launch_signals_count(void);

/* The flag's value in the words, or NULL. */
const char *launch_flag(const struct command_rest *rest, const char *flag);
/* A node's command line without descriptors, with --log json where the launcher has it, and with room for
 * two more words. NULL: no memory. */
char **launch_words(const struct launch *launch, uint32_t rank, bool is_again, uint32_t *count);
/* The cores of process `index` of `count` on this machine: its share, or, if there are more
 * processes than cores, one in turn. */
void launch_cores_set(const struct cores *cores, uint32_t index, uint32_t count);
/* In a child between fork and exec: sets a process group of its own, the default signals, SIGTERM when the
 * parent ends, and the streams. An input of -1 is /dev/null; an output of -1 stays. Ends the child if the
 * parent has ended, or the input cannot be opened. */
void launch_child_begin(pid_t parent, int input, int output, int error);
/* In a child: becomes the node of these words, with flags for the descriptors behind them. listen_fd: a
 * listening socket, or -1: none. */
_Noreturn void launch_node_become(char **words, uint32_t count, int key_fd, int listen_fd);

/* launch_hosts.c. In a child: becomes `ssh …` to the host of a rank, which runs the
 * command (for a shell, without '). */
_Noreturn void launch_ssh_become(const struct launch *launch, uint32_t rank, const char *command);
/* The ssh command line for people to try, with `true` as the command. */
void launch_ssh_text(const struct launch *launch, uint32_t rank, char *text, size_t bytes);
/* launch_carry.c. Copies the program to every host that does not have it with the right hash, and sets
 * `reached`. SYSTEM: a host cannot be reached, or the program cannot be put there; AGAIN: a signal. */
MUST_USE status launch_carry(struct launch *launch);

/* The program's folder on a host, in words of its shell. */
#define LAUNCH_FOLDER "${XDG_CACHE_HOME:-$HOME/.cache}/heterps"
/* The first word of the far end's command line. */
#define LAUNCHED_FLAG "--launched"

/* What the far end gets on its standard input: this order, then text_bytes of texts, each ended by 0
 * (the working directory, and the words of the node), then single bytes, LAUNCHED_STOP or LAUNCHED_KILL.
 * Both ends are the same program. */
struct launch_order {
    char magic[8];
    uint32_t word_count, text_bytes;
    uint32_t share, share_count; /* the node gets share `share` of share_count of the host's cores */
    char key[KEY_TEXT_BYTES];
};
#define LAUNCH_ORDER_MAGIC     "HPSORDER"
#define LAUNCH_ORDER_BYTES_MAX 60000u /* fits a pipe */
#define LAUNCHED_STOP          'T'
#define LAUNCHED_KILL          'K'
/* What --launched does: runs a node by the order on standard input until the node ends. If standard input
 * ends first, asks the node to stop, and a minute later kills it. Returns the exit status: the node's, or 128
 * plus the signal that has ended it. */
int launched_run(void);

#endif
