/* The cluster's key in a file: 64 hexadecimal digits and a line's end. Whoever has it is trusted, so a file that
 * others could read or put in place is refused. It is never on a command line and never in the environment: /proc
 * shows both. */
#ifndef HETERPS_IO_NET_LINK_KEY_H
#define HETERPS_IO_NET_LINK_KEY_H

#include "engine/base/status.h"
#include "io/net/secure.h"

#define KEY_TEXT_BYTES 65u

/* IO: path, reason. INVALID: others may read or write it, it is neither ours nor root's, is no regular file, or holds
 * no key. The key's memory is kept out of swap where the system lets us, and no core is dumped from then on. */
MUST_USE status key_read(struct secure_key *key, const char *path);
/* Of a descriptor that was inherited: a file under the same conditions, or a pipe, whose other end is a parent's.
 * Reads to its end, and closes it. */
MUST_USE status key_read_fd(struct secure_key *key, int fd);
/* Makes a key: a file that was not there, for its owner alone; "-" is standard output. IO; USAGE: there is a file of
 * that name. */
MUST_USE status key_make(const char *path);

/* Makes one in a sealed file in memory, for processes that inherit it: each opens it anew (/proc/self/fd), and gives
 * that to key_read_fd. SYSTEM. */
MUST_USE status key_make_memory(int *fd);
/* The same of a key's text that came from elsewhere; key_read_fd is who looks whether it is one. */
MUST_USE status key_keep_memory(int *fd, const char text[KEY_TEXT_BYTES]);

#endif
