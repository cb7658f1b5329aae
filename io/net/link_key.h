/* The cluster's key in a file: 64 hexadecimal digits and a line's end. Whoever has the key is trusted, so a
 * file that others could read or put in place is refused. The key is never on a command line and never in the
 * environment: /proc shows both. */
#ifndef HETERPS_IO_NET_LINK_KEY_H
#define HETERPS_IO_NET_LINK_KEY_H

#include "engine/base/status.h"
#include "io/net/secure.h"

#define KEY_TEXT_BYTES 65u

/* IO: path, reason. INVALID: others may read or write the file, it is neither ours nor root's, is no
 * regular file, or holds no key. The key's memory is kept out of swap where the system allows it, and
 * from then on no core is dumped. */
MUST_USE status key_read(struct secure_key *key, const char *path);
/* From a descriptor that was inherited: a file under the same conditions, or a pipe, whose other end is a
 * parent's. Reads to its end, and closes it. */
MUST_USE status key_read_fd(struct secure_key *key, int fd);
/* Makes a key in a new file, for its owner alone; "-" is standard output.
 * IO; USAGE: the file exists already. */
MUST_USE status key_make(const char *path);

/* Makes a key in a sealed file in memory, for processes that inherit it: each opens it anew (/proc/self/fd),
 * and gives this descriptor to key_read_fd. SYSTEM. */
MUST_USE status key_make_memory(int *fd);
/* The same for the text of a key from elsewhere; key_read_fd checks the text. */
MUST_USE status key_keep_memory(int *fd, const char text[KEY_TEXT_BYTES]);

#endif
