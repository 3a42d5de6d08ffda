/* Reference of streams: what Linux itself takes to get the output of a program.
 *
 *   splice <argv...>   moves its output from the pipe to /dev/null   -> <ns> <wait status> <bytes>
 *   first <argv...>    reads its output; ns until the first byte     -> <ns> <wait status> <bytes>
 *
 * Both begin before the program is started. */
#define _GNU_SOURCE
#include "requests.h"

#include <sys/wait.h>

extern char **environ;

enum { STEP = 1 << 20 };

static pid_t start(char *const argv[], int *out) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC)) fail("pipe2");
    pid_t child = vfork();
    if (child == 0) {
        dup2(ends[1], 1);
        execvpe(argv[0], argv, environ);
        _exit(127);
    }
    if (child < 0) fail("vfork");
    close(ends[1]);
    *out = ends[0];
    return child;
}

/* Moves everything to /dev/null without a copy. */
static size_t throw_away(int out, int null) {
    size_t total = 0;
    ssize_t moved;
    while ((moved = splice(out, NULL, null, NULL, STEP, SPLICE_F_MOVE)) > 0) total += (size_t)moved;
    if (moved < 0) fail("splice");
    return total;
}

/* Reads everything; notes when the first bytes were there. */
static size_t read_all(int out, uint64_t *first) {
    static char buffer[65536];
    size_t total = 0;
    ssize_t got;
    while ((got = read(out, buffer, sizeof buffer)) > 0) {
        if (total == 0) *first = now_ns();
        total += (size_t)got;
    }
    if (got < 0) fail("read");
    return total;
}

int main(void) {
    char *words[MAX_WORDS];
    open_requests();
    int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (null < 0) fail("/dev/null");
    while (next_request(words) >= 2) {
        int out, status, spliced = words[0][0] == 's';
        uint64_t begin = now_ns(), end = begin;
        pid_t child = start(words + 1, &out);
        size_t bytes = spliced ? throw_away(out, null) : read_all(out, &end);
        if (waitpid(child, &status, 0) != child) fail("waitpid");
        if (spliced) end = now_ns();
        close(out);
        answer("%llu %d %zu\n", (unsigned long long)(end - begin), status, bytes);
    }
    return 0;
}
