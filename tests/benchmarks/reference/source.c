/* The program whose output is streamed, outside of a sandbox and in one.
 *
 *   source fill BYTES    writes that many bytes, as fast as its standard output takes them
 *   source stamp         writes the nanoseconds of the monotonic clock just before the write */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* What a pipe holds. */
static char buffer[65536];

static int fill(uint64_t left) {
    memset(buffer, 'x', sizeof buffer);
    while (left > 0) {
        ssize_t put = write(1, buffer, left < sizeof buffer ? left : sizeof buffer);
        if (put < 0) return 1;
        left -= (uint64_t)put;
    }
    return 0;
}

static int stamp(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    int length = snprintf(buffer, sizeof buffer, "%lld\n", (long long)now.tv_sec * 1000000000 + now.tv_nsec);
    return write(1, buffer, (size_t)length) != length;
}

int main(int argc, char **argv) {
    if (argc == 3 && !strcmp(argv[1], "fill")) return fill(strtoull(argv[2], NULL, 10));
    if (argc == 2 && !strcmp(argv[1], "stamp")) return stamp();
    return 2;
}
