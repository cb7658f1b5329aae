/* What the files of `launch` share. launch.c watches over the processes, launch_local.c and launch_hosts.c are the two
 * ways to start one, launch_carry.c brings the program to hosts, launched.c is the far end there. */
#ifndef HETERPS_ENGINE_CMD_LAUNCH_H
#define HETERPS_ENGINE_CMD_LAUNCH_H

#include <stdbool.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "engine/base/cores.h"
#include "engine/cmd/command.h"
#include "engine/node/hosts.h"
#include "io/net/link_key.h"

#define LAUNCH_GRACE_NS      UINT64_C(2000000000)  /* in which what should end ends by itself */
#define LAUNCH_KILL_NS       UINT64_C(10000000000) /* behind that: SIGKILL */
#define LAUNCH_LOOK_MS       50                    /* between two looks at processes */
#define LAUNCH_LINE_BYTES    32768u
#define LAUNCH_NAME_BYTES    300u /* of whoever is started, for people  */
#define LAUNCH_HOW_BYTES     96u  /* of how it has ended, for people    */
#define LAUNCH_SIGNAL_STATUS 128  /* an exit status that tells of a signal: it, and this */
#define LAUNCH_SSH_FAILED    255  /* ssh's exit status where the connection, and not the command, has failed */

/* What a process says on one of its streams. */
struct launch_stream {
    int from, to;   /* a pipe, or -1: it has ended; where lines go                        */
    bool is_named;  /* lines begin with the rank: not those of a program's results        */
    char last[160]; /* what it has said last, cut                                         */
    uint32_t used;
    char line[LAUNCH_LINE_BYTES];
};
void launch_stream_begin(struct launch_stream *stream, int from, int to, bool is_named);
/* Passes on what there is, line by line; at its end the stream is closed. */
void launch_stream_read(struct launch_stream *stream, uint32_t rank);

struct launch_process {
    pid_t pid;     /* 0: it does not run                                            */
    int listen_fd; /* of a process of this machine: where it listens; else -1       */
    int order_fd;  /* of one of another: standard input of its ssh; else -1         */
    struct launch_stream out, error;
    uint64_t begin_ns, again_ns; /* its last start; when the next one is to be, 0: no next one is waited for */
    uint32_t misses;             /* starts one behind the other that have not reached its host              */
    uint64_t done_ns;            /* when it has ended well; 0: it has not, since its last start             */
};

/* How a process has ended. */
enum launch_end { LAUNCH_WELL, LAUNCH_AGAIN, LAUNCH_UNREACHED, LAUNCH_FAILED };

struct launch;
/* A way to start processes. */
struct launch_way {
    /* Before the first start: whatever all of them need. */
    status (*begin)(struct launch *launch);
    /* Before a start, in the launcher: `input` is what the process is to have as its standard input. */
    status (*prepare)(struct launch *launch, uint32_t rank, bool is_again, int *input);
    /* In the child, whose streams and signals are set: becomes the process, or returns. */
    void (*become)(struct launch *launch, uint32_t rank, bool is_again);
    /* SIGTERM: finish the step, save, end; SIGKILL: end. */
    void (*tell)(struct launch *launch, uint32_t rank, int signal);
    /* From what waitpid says of it; `text` (LAUNCH_HOW_BYTES): how. */
    enum launch_end (*ended)(struct launch *launch, uint32_t rank, int how, char *text);
    void (*name)(const struct launch *launch, uint32_t rank, char *text); /* "node 2 on b": LAUNCH_NAME_BYTES */
};
extern const struct launch_way launch_way_local, launch_way_hosts;

struct launch {
    const struct launch_way *way;
    struct command_rest rest;
    uint32_t count;
    struct hosts hosts; /* of launch_way_hosts, and by which address each was reached, "": that is not known */
    char reached[MEMBER_NODES_MAX][64];
    const char *ssh_config; /* NULL: ssh's own     */
    char program[65];       /* SHA-256 of this program, in hexadecimal digits */
    struct cores cores;
    int key_fd;
    char *place[2]; /* --nodes=…, --coordinator=… or NULL */
    char *dir;      /* where saves go, or NULL */
    struct launch_process process[MEMBER_NODES_MAX];
    uint32_t restarts;       /* since the last new save */
    struct stat saved;       /* the newest save that has been seen */
    int failed, failed_rank; /* exit status of the first that has failed; 0: none has */
    bool is_stopping;        /* a signal has asked */
    bool is_complete;        /* node 0, which is the last, has ended well */
    uint64_t end_ns;         /* when those that are left are made to end; 0: not */
    bool is_told;            /* to end, by SIGTERM */
    uint64_t killed_ns;      /* when they were told so by SIGKILL; 0: they were not */
};
/* The signals that the launcher has got so far. */
int launch_signals_count(void);

/* The value of a flag among the words, or NULL. */
const char *launch_flag(const struct command_rest *rest, const char *flag);
/* The command line of a node, but for descriptors, with --log json where the launcher has it, and with room for two
 * words more; NULL: no memory. */
char **launch_words(const struct launch *launch, uint32_t rank, bool is_again, uint32_t *count);
/* The cores of process `index` of `count` on this machine: its share, or, if there are more processes than cores, one
 * in turn. */
void launch_cores_set(const struct cores *cores, uint32_t index, uint32_t count);
/* In a child between fork and exec: a process group of its own, signals as usual, SIGTERM when the parent ends, and
 * its streams; an input of -1 is /dev/null, an output of -1 stays what it is. Ends the child where the parent has
 * ended, or there is no such input. */
void launch_child_begin(pid_t parent, int input, int output, int error);
/* In a child: becomes the node of these words, which get the descriptors behind them; a listening socket, or -1:
 * none. */
_Noreturn void launch_node_become(char **words, uint32_t count, int key_fd, int listen_fd);

/* launch_hosts.c. In a child: becomes `ssh …` to the host of a rank, which runs the command (a shell's, without ')
 * there. */
_Noreturn void launch_ssh_become(const struct launch *launch, uint32_t rank, const char *command);
/* The ssh as somebody would type it to try, with `true` as the command. */
void launch_ssh_text(const struct launch *launch, uint32_t rank, char *text, size_t bytes);
/* launch_carry.c: after it the program is on every host, copied, or found there with the right hash, and `reached` is
 * known. SYSTEM: a host is not reached, or the program cannot be there; AGAIN: a signal. */
MUST_USE status launch_carry(struct launch *launch);

/* Where the program is on a host, in its shell's words. */
#define LAUNCH_FOLDER "${XDG_CACHE_HOME:-$HOME/.cache}/heterps"
/* The first word of the far end's command line. */
#define LAUNCHED_FLAG "--launched"

/* What the far end gets on its standard input, before bytes that each are a LAUNCHED_… : behind it `text_bytes` of
 * text, each ended by 0: the working directory, and the words of the node. Both ends are one program. */
struct launch_order {
    char magic[8];
    uint32_t word_count, text_bytes;
    uint32_t share, share_count; /* which share of that machine's cores it gets, of so many */
    char key[KEY_TEXT_BYTES];
};
#define LAUNCH_ORDER_MAGIC     "HPSORDER"
#define LAUNCH_ORDER_BYTES_MAX 60000u /* fits a pipe */
#define LAUNCHED_STOP          'T'
#define LAUNCHED_KILL          'K'
/* What --launched does: runs a node by the order on standard input until that has ended, or standard input has: then
 * the node is asked to stop, and a minute later made to. Its exit status: the node's, or 128 and the signal that has
 * ended it. */
int launched_run(void);

#endif
