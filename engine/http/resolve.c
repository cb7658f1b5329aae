/* Names of hosts, services and protocols, which libevent could ask the C library for, and does not here. In a
 * static program the C library's functions load shared libraries of the system. build.sh links libevent's
 * calls to the functions below (--wrap). */
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
