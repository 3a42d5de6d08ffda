/* Reference of the no-op call: a Unix socket server that answers with what it was sent.
 *
 * usage: echo PATH     ends when its standard input does */
#define _GNU_SOURCE
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { LISTENER, LIFELINE, FIRST_CLIENT, MAX_POLLED = 18 };

static int listen_at(const char *path) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    strncpy(address.sun_path, path, sizeof address.sun_path - 1);
    if (listener < 0 || bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 16)) return -1;
    return listener;
}

/* Echoes once; 0 when the client is gone. */
static int serve(int client) {
    static char buffer[65536];
    ssize_t got = read(client, buffer, sizeof buffer);
    return got > 0 && write(client, buffer, (size_t)got) == got;
}

int main(int argc, char **argv) {
    struct pollfd polled[MAX_POLLED];
    nfds_t count = FIRST_CLIENT;
    if (argc != 2 || (polled[LISTENER].fd = listen_at(argv[1])) < 0) {
        perror("echo");
        return 1;
    }
    polled[LISTENER].events = POLLIN;
    polled[LIFELINE] = (struct pollfd){.fd = 0, .events = POLLIN};
    puts("ready");
    fflush(stdout);
    while (poll(polled, count, -1) > 0 && !polled[LIFELINE].revents) {
        for (nfds_t i = count; i-- > FIRST_CLIENT;) {
            if (!polled[i].revents || serve(polled[i].fd)) continue;
            close(polled[i].fd);
            polled[i] = polled[--count];
        }
        if (polled[LISTENER].revents && count < MAX_POLLED)
            polled[count++] = (struct pollfd){.fd = accept4(polled[LISTENER].fd, NULL, NULL, SOCK_CLOEXEC), .events = POLLIN};
    }
    unlink(argv[1]);
    return 0;
}
