/* Hosts that a launcher reaches by ssh, from a list or a file:
 *
 *     a,b,c      anna@node3    node3:2222    anna@[fd00::2]:2222    fd00::2
 *
 * separated by commas, spaces or lines; in a file a # begins a remark. ssh gets hosts behind --, and no host
 * here begins with -, so that none is ever taken for a flag of ssh. */
#ifndef HETERPS_ENGINE_NODE_HOSTS_H
#define HETERPS_ENGINE_NODE_HOSTS_H

#include <stddef.h>
#include <stdint.h>

#include "engine/base/status.h"
#include "engine/node/member.h"

#define HOST_BYTES 256u
struct host {
    char user[HOST_BYTES]; /* "": ssh's choice                 */
    char name[HOST_BYTES]; /* name or address, without [ and ] */
    uint16_t port;         /* 0: ssh's choice                  */
};
struct hosts {
    uint32_t count;
    struct host host[MEMBER_NODES_MAX]; /* in order of ranks; a host may be there several times */
};

/* Reads `bytes` of text, which errors call `name`. USAGE: no hosts, too many, or what is wrong with one. */
MUST_USE status hosts_parse(struct hosts *hosts, const char *name, const char *text, size_t bytes);
/* Reads the value of --hosts: a list, or @FILE. As hosts_parse; IO: the file. */
MUST_USE status hosts_read(struct hosts *hosts, const char *value);

#endif
