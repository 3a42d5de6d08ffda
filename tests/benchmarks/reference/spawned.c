#define _GNU_SOURCE
#include "spawned.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static int status_of(pid_t child) {
    int status;
    if (waitpid(child, &status, 0) != child) {
        perror("waitpid");
        exit(1);
    }
    return status;
}

int run_plain(char *const argv[]) {
    pid_t child = vfork();
    if (child == 0) {
        execvpe(argv[0], argv, environ);
        _exit(127);
    }
    return status_of(child);
}

/* Reads both streams as they come: a program that fills one pipe must not wait for ever. */
static size_t drain(int out, int err) {
    static char buffer[65536];
    struct pollfd streams[2] = {{out, POLLIN, 0}, {err, POLLIN, 0}};
    size_t total = 0;
    while (streams[0].fd >= 0 || streams[1].fd >= 0) {
        poll(streams, 2, -1);
        for (int i = 0; i < 2; i++) {
            if (streams[i].fd < 0 || !streams[i].revents) continue;
            ssize_t got = read(streams[i].fd, buffer, sizeof buffer);
            if (got > 0) {
                total += (size_t)got;
            } else {
                close(streams[i].fd);
                streams[i].fd = -1;
            }
        }
    }
    return total;
}

int run_piped(char *const argv[], size_t *bytes) {
    int out[2], err[2];
    if (pipe2(out, O_CLOEXEC) || pipe2(err, O_CLOEXEC)) {
        perror("pipe2");
        exit(1);
    }
    pid_t child = vfork();
    if (child == 0) {
        dup2(out[1], 1);
        dup2(err[1], 2);
        execvpe(argv[0], argv, environ);
        _exit(127);
    }
    close(out[1]);
    close(err[1]);
    *bytes = drain(out[0], err[0]);
    return status_of(child);
}
