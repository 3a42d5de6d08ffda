/* Requests of the harness: lines of words separated by tabs, each answered by one line.
 *
 * The harness interleaves product and reference, so a reference must wait, ready, between its
 * samples. Its protocol descriptors are moved out of the way of the programs it starts. */
#ifndef REQUESTS_H
#define REQUESTS_H

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MAX_WORDS = 128, MAX_LINE = 16384 };

static FILE *requests;
static FILE *answers;

static inline void fail(const char *what) {
    perror(what);
    exit(1);
}

static inline uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Takes stdin and stdout for the protocol and leaves /dev/null in their place. */
static inline void open_requests(void) {
    int in = fcntl(0, F_DUPFD_CLOEXEC, 3);
    int out = fcntl(1, F_DUPFD_CLOEXEC, 3);
    int null = open("/dev/null", O_RDWR);
    if (in < 0 || out < 0 || null < 0) fail("standard streams");
    dup2(null, 0);
    dup2(null, 1);
    if (null > 2) close(null);
    requests = fdopen(in, "r");
    answers = fdopen(out, "w");
    if (!requests || !answers) fail("fdopen");
}

/* The words of the next request, NULL-terminated; 0 at the end of requests. */
static inline int next_request(char **words) {
    static char line[MAX_LINE];
    int count = 0;
    if (!fgets(line, sizeof line, requests)) return 0;
    line[strcspn(line, "\n")] = 0;
    for (char *word = strtok(line, "\t"); word && count < MAX_WORDS - 1; word = strtok(NULL, "\t")) words[count++] = word;
    words[count] = NULL;
    return count;
}

#define answer(...) (fprintf(answers, __VA_ARGS__), fflush(answers))

#endif
