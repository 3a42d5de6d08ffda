/* Reference of every exec benchmark: what Linux itself takes to run a program.
 *
 *   plain <argv...>   vfork, exec, wait                       -> <ns> <wait status> 0
 *   piped <argv...>   the same with stdout and stderr read    -> <ns> <wait status> <bytes> */
#define _GNU_SOURCE
#include "requests.h"
#include "spawned.h"

int main(void) {
    char *words[MAX_WORDS];
    open_requests();
    while (next_request(words) >= 2) {
        size_t bytes = 0;
        uint64_t start = now_ns();
        int status = words[0][1] == 'i' ? run_piped(words + 1, &bytes) : run_plain(words + 1);
        uint64_t elapsed = now_ns() - start;
        answer("%llu %d %zu\n", (unsigned long long)elapsed, status, bytes);
    }
    return 0;
}
