/* Names from name servers, of which one runs here: what they know, what they do not, and no server at all. */
#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "tests/io/io_test.h"

#include "io/net/dns.h"

static struct server {
    int fd;
    uint16_t port;
    pthread_t thread;
    _Atomic bool shared_is_over;
    _Atomic uint32_t asked;
} server;

/* "four.cluster.local" has an IPv4 address, "six.cluster.local" an IPv6 one; of others there is none. */
static size_t answer_write(uint8_t *packet)
{
    static const char four[] = "\4four\7cluster\5local", six[] = "\3six\7cluster\5local";
    const char *name = (const char *)packet + 12; /* a question, whose letters a resolver may write large or small */
    const size_t bytes = 12 + strlen(name) + 1 + 4;
    const uint32_t type = (uint32_t)(packet[bytes - 4] << 8 | packet[bytes - 3]);
    const bool is_four = strcasecmp(name, four) == 0, is_six = strcasecmp(name, six) == 0;
    const bool has = (is_four && type == 1) || (is_six && type == 28);
    packet[2] = 0x81;                            /* an answer */
    packet[3] = is_four || is_six ? 0x80 : 0x83; /* or no such name */
    packet[7] = has;                             /* one record */
    packet[9] = packet[11] = 0;                  /* and nothing else */
    if (!has) return bytes;
    const uint8_t record[] = {0xc0, 12, 0, (uint8_t)type, 0, 1, 0, 0, 0, 60, 0, is_four ? 4 : 16};
    uint8_t *at = mempcpy(packet + bytes, record, sizeof record);
    inet_pton(is_four ? AF_INET : AF_INET6, is_four ? "10.4.4.4" : "fd00::66", at);
    return (size_t)(at - packet) + record[11];
}

static void *server_main(void *argument)
{
    (void)argument;
    while (!atomic_load(&server.shared_is_over)) {
        uint8_t packet[512] = {0};
        struct sockaddr_in from;
        socklen_t from_bytes = sizeof from;
        if (poll(&(struct pollfd){.fd = server.fd, .events = POLLIN}, 1, 20) != 1) continue;
        const ssize_t got = recvfrom(server.fd, packet, 256, 0, (struct sockaddr *)&from, &from_bytes);
        if (got < 17) continue;
        atomic_fetch_add(&server.asked, 1);
        const size_t bytes = answer_write(packet);
        (void)!sendto(server.fd, packet, bytes, 0, (struct sockaddr *)&from, from_bytes);
    }
    return NULL;
}

static int server_open(void **state)
{
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof here;
    server.fd = socket(AF_INET, SOCK_DGRAM, 0);
    if (bind(server.fd, (struct sockaddr *)&here, sizeof here) != 0) return -1;
    if (getsockname(server.fd, (struct sockaddr *)&here, &bytes) != 0) return -1;
    server.port = ntohs(here.sin_port);
    if (pthread_create(&server.thread, NULL, server_main, NULL) != 0) return -1;
    return test_directory_make(state);
}

static int server_close(void **state)
{
    atomic_store(&server.shared_is_over, true);
    pthread_join(server.thread, NULL);
    close(server.fd);
    return test_directory_remove(state);
}

static const char *resolv_conf(void)
{
    char text[100];
    snprintf(text, sizeof text, "search nowhere.local cluster.local\nnameserver 127.0.0.1:%u\noptions ndots:5\n",
             server.port);
    return test_text("resolv.conf", text);
}

static void dns_find__names__their_first_address(void **state)
{
    (void)state;
    const char *conf = resolv_conf();
    struct address a;
    char text[ADDRESS_TEXT_BYTES];
    assert_true(dns_find(conf, &a, "four.cluster.local"));
    assert_string_equal(address_text(text, &a), "10.4.4.4:0");
    assert_true(dns_find(conf, &a, "six")); /* in a search domain */
    assert_string_equal(address_text(text, &a), "[fd00::66]:0");
    assert_ok(address_parse_at("/nowhere", conf, &a, "four:5000", 77));
    assert_string_equal(address_text(text, &a), "10.4.4.4:5000");
    const uint32_t asked = atomic_load(&server.asked);
    assert_true(asked > 0);
    assert_ok(address_parse_at(test_text("hosts", "10.1.1.1 four\n"), conf, &a, "four", 77)); /* which comes first */
    assert_string_equal(address_text(text, &a), "10.1.1.1:77");
    assert_int_equal(atomic_load(&server.asked), asked);
}

static void dns_find__nobody_knows__false(void **state)
{
    (void)state;
    const char *conf = resolv_conf();
    struct address a;
    assert_false(dns_find(conf, &a, "five.cluster.local"));
    assert_fails(INVALID, "unknown to the name servers of", address_parse_at("/nowhere", conf, &a, "five", 77));
    assert_false(dns_find("/nowhere/resolv.conf", &a, "four"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dns_find__names__their_first_address),
        cmocka_unit_test(dns_find__nobody_knows__false),
    };
    return cmocka_run_group_tests(tests, server_open, server_close);
}
