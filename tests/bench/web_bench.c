/* Bytes a second that a source gives of an address, beside one plain connection that receives the same bytes and does
 * nothing with them: what the way to the server carries.
 *
 *     web_bench URL [TURNS]
 *
 * Both in turn, TURNS (5) times each; prints a line a turn, and last the medians:
 *
 *     MB a second: plain, source; the source over the plain connection */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "io/net/address.h"
#include "io/net/web_address.h"
#include "io/read/source.h"

#define TURNS_MAX 99
#define BUFFER    ((size_t)256 << 10)

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

static double source_seconds(const char *url, uint64_t *bytes)
{
    struct arena arena;
    struct source source;
    const uint64_t begin = clock_ns();
    must(arena_open(&arena, "reader", source_bytes(url)));
    must(source_open(&source, &arena, url, &(struct source_options){0}));
    *bytes = 0;
    for (size_t got = 1; got; *bytes += got) must(source_read(&source, buffer, sizeof buffer, &got));
    const double seconds = (double)(clock_ns() - begin) * 1e-9;
    source_close(&source);
    arena_close(&arena);
    return seconds;
}

static int order(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *of, int count)
{
    qsort(of, (size_t)count, sizeof *of, order);
    return of[count / 2];
}

int main(int argc, char **argv)
{
    const int turns = argc > 2 ? atoi(argv[2]) : 5;
    double plain[TURNS_MAX], source[TURNS_MAX], ratio[TURNS_MAX];
    if (argc < 2 || turns < 1 || turns > TURNS_MAX) {
        fprintf(stderr, "usage: web_bench URL [TURNS]\n");
        return 2;
    }
    for (int i = 0; i < turns; i++) {
        uint64_t plain_bytes, source_got;
        plain[i] = plain_read(argv[1], &plain_bytes);
        source[i] = source_seconds(argv[1], &source_got);
        if (plain_bytes != source_got) {
            fprintf(stderr, "web_bench: %llu bytes by a plain connection, %llu by a source\n",
                    (unsigned long long)plain_bytes, (unsigned long long)source_got);
            return 1;
        }
        ratio[i] = plain[i] / source[i];
        plain[i] = (double)plain_bytes / plain[i] / 1e6;
        source[i] = (double)plain_bytes / source[i] / 1e6;
        printf("%.1f %.1f %.3f\n", plain[i], source[i], ratio[i]);
    }
    printf("median %.1f %.1f %.3f\n", median(plain, turns), median(source, turns), median(ratio, turns));
    return 0;
}
