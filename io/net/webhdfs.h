/* How to ask WebHDFS for parts of a file, by words of the query and not by a header; and for the file's size.
 *
 *     http://NAMENODE:9870/webhdfs/v1/data/day1.tsv?op=OPEN     the address, as a user gives it
 *       …?op=GETFILESTATUS                                      its size, and when it was written
 *       …?op=OPEN&offset=4194304&length=4194304                 answered by 307: the same of a data node */
#ifndef HETERPS_IO_NET_WEBHDFS_H
#define HETERPS_IO_NET_WEBHDFS_H

#include "io/net/web_address.h"

/* Whether the target is a file of WebHDFS without a part in its query. */
bool webhdfs_is(const struct web_address *address);
/* Makes the target for `bytes` from byte `at` on. INVALID: it would be too long. */
MUST_USE status webhdfs_part(struct web_address *part, const struct web_address *address, uint64_t at, uint64_t bytes);
/* Makes the target for GETFILESTATUS. INVALID likewise. */
MUST_USE status webhdfs_status(struct web_address *ask, const struct web_address *address);
/* Size, and time of writing in milliseconds since 1970, from the answer to GETFILESTATUS. INVALID: it is no
 * such answer, or a directory's. */
MUST_USE status webhdfs_status_read(const char *json, size_t bytes, uint64_t *size, uint64_t *modified);

#endif
