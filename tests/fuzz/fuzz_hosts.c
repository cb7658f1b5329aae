/* Any bytes as a list of hosts: a sentence that names where they come from, or hosts of which ssh and a
 * shell take every byte as it is. */
#define FUZZ_NAME "hosts"
#include "tests/fuzz/driver.h"

#include <string.h>

#include "engine/node/hosts.h"

#define PLAIN "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static struct hosts hosts;
    if (hosts_parse(&hosts, "h.txt", (const char *)data, bytes) != ST_OK) {
        CHECK(strncmp(status_message(), "h.txt: ", 7) == 0);
        return 0;
    }
    CHECK(hosts.count >= 1 && hosts.count <= MEMBER_NODES_MAX);
    for (uint32_t i = 0; i < hosts.count; i++) {
        const struct host *h = &hosts.host[i];
        CHECK(memchr(h->user, 0, HOST_BYTES) && memchr(h->name, 0, HOST_BYTES));
        CHECK(h->user[0] != '-' && h->user[strspn(h->user, PLAIN)] == 0);
        CHECK(h->name[0] != 0 && h->name[0] != '-' && h->name[strspn(h->name, PLAIN ":%")] == 0);
    }
    return 0;
}
