/* Bytes a second that a source reads from an address, beside one plain connection that receives the same
 * bytes and drops them: the plain connection tells what the way to the server carries.
 *
 *     web_bench URL [TURNS]
 *
 * Both go in turn, TURNS (5) times each; prints a line a turn, and last the medians:
 *
 *     MB a second: plain, source; the source over the plain connection */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/bench/watch.h"
#include "io/net/address.h"
#include "io/net/web_address.h"
#include "io/read/source.h"

#define BUFFER ((size_t)256 << 10)

static char buffer[BUFFER];

static void must(status st)
{
    if (st == ST_OK) return;
    fprintf(stderr, "web_bench: %s\n", status_message());
    exit(1);
}

/* Seconds, and bytes of the body. */
static double plain_read(const char *url, uint64_t *bytes)
{
    struct web_address to;
    struct address a;
    char request[WEB_TARGET_BYTES + 400];
    must(web_address_parse(&to, url));
    must(address_parse(&a, to.host, 80));
    const uint64_t begin = clock_ns();
    const int fd = socket(a.any.sa_family, SOCK_STREAM, 0);
    const int length = snprintf(request, sizeof request, "GET %s HTTP/1.0\r\nHost: %s\r\n\r\n", to.target, to.host);
    if (fd < 0 || connect(fd, &a.any, address_bytes(&a)) != 0 || send(fd, request, (size_t)length, 0) != length) {
        perror("web_bench: plain connection");
        exit(1);
    }
    uint64_t all = 0, head = 0;
    for (ssize_t got; (got = recv(fd, buffer, sizeof buffer, 0)) > 0; all += (uint64_t)got)
        if (all == 0) {
            const char *end = memmem(buffer, (size_t)got, "\r\n\r\n", 4);
            head = end ? (uint64_t)(end - buffer) + 4 : 0;
        }
    close(fd);
    *bytes = all - head;
    return (double)(clock_ns() - begin) * 1e-9;
}

static double source_read_all(const char *url, uint64_t *bytes)
{
    struct arena arena;
    struct source source;
    const uint64_t begin = clock_ns();
    must(arena_open(&arena, "reader", source_bytes(url, NULL)));
    must(source_open(&source, &arena, url, &(struct source_options){0}));
    *bytes = 0;
    for (size_t got = 1; got; *bytes += got) must(source_read(&source, buffer, sizeof buffer, &got));
    const double seconds = (double)(clock_ns() - begin) * 1e-9;
    source_close(&source);
    arena_close(&arena);
    return seconds;
}

static double median(const struct series *s) { return series_spread(s).median; }

int main(int argc, char **argv)
{
    const int turns = argc > 2 ? atoi(argv[2]) : 5;
    struct series plain = {0}, source = {0}, ratio = {0};
    if (argc < 2 || turns < 1 || turns > (int)SERIES_MAX) {
        fprintf(stderr, "usage: web_bench URL [TURNS]\n");
        return 2;
    }
    for (int i = 0; i < turns; i++) {
        uint64_t plain_bytes, source_bytes_got;
        const double plain_s = plain_read(argv[1], &plain_bytes),
                     source_s = source_read_all(argv[1], &source_bytes_got);
        if (plain_bytes != source_bytes_got) {
            fprintf(stderr, "web_bench: %" PRIu64 " bytes by a plain connection, %" PRIu64 " by a source\n",
                    plain_bytes, source_bytes_got);
            return 1;
        }
        const double mb = (double)plain_bytes / 1e6;
        series_add(&plain, mb / plain_s);
        series_add(&source, mb / source_s);
        series_add(&ratio, plain_s / source_s);
        printf("%.1f %.1f %.3f\n", mb / plain_s, mb / source_s, plain_s / source_s);
    }
    printf("median %.1f %.1f %.3f\n", median(&plain), median(&source), median(&ratio));
    return 0;
}
