/* What libevent could ask the C library for, and this program never lets it: names of hosts, services and protocols.
 * In a static program these functions load shared libraries of the system, if it has them. The program is linked so
 * that calls end here (build.sh, --wrap). */
#include <netdb.h>
#include <stddef.h>

int __wrap_getaddrinfo(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **found);
struct servent *__wrap_getservbyname(const char *name, const char *protocol);
struct protoent *__wrap_getprotobynumber(int number);

int __wrap_getaddrinfo(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **found)
{
    (void)node, (void)service, (void)hints;
    *found = NULL;
    return EAI_NONAME;
}

struct servent *__wrap_getservbyname(const char *name, const char *protocol)
{
    (void)name, (void)protocol;
    return NULL;
}

struct protoent *__wrap_getprotobynumber(int number)
{
    (void)number;
    return NULL;
}
