/* Reference of execs under load: what Linux takes to run programs, several at once.
 *
 *   command <argv...>          adds a program to the mix                          -> <number of programs>
 *   plain <count> <workers>    that many runs, the mix over and over, by worker
 *                              processes that vfork, exec and wait                -> <ns> <failed> 0 <ns of each>
 *   piped <count> <workers>    the same with stdout and stderr read               -> <ns> <failed> <bytes> <ns of each> */
#define _GNU_SOURCE
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "requests.h"
#include "spawned.h"

enum { MAX_PROGRAMS = 32, MAX_RUNS = 65536 };

/* What the workers share. */
struct pass {
    atomic_int next;
    atomic_int failed;
    atomic_size_t bytes;
    uint64_t elapsed[MAX_RUNS];
};

static char *programs[MAX_PROGRAMS][MAX_WORDS];
static int program_count;

static void add_program(char **words) {
    int word = 0;
    if (program_count == MAX_PROGRAMS) exit(2);
    for (; words[word]; word++)
        if (!(programs[program_count][word] = strdup(words[word]))) fail("strdup");
    programs[program_count++][word] = NULL;
}

/* Runs whatever is next until there is no more. */
static void work(struct pass *pass, int count, bool piped) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (int run; (run = atomic_fetch_add(&pass->next, 1)) < count;) {
        char *const *argv = programs[run % program_count];
        size_t bytes = 0;
        uint64_t start = now_ns();
        int status = piped ? run_piped(argv, &bytes) : run_plain(argv);
        pass->elapsed[run] = now_ns() - start;
        atomic_fetch_add(&pass->bytes, bytes);
        if (status) atomic_fetch_add(&pass->failed, 1);
    }
    _exit(0);
}

static void run_pass(int count, int workers, bool piped) {
    struct pass *pass = mmap(NULL, sizeof *pass, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (pass == MAP_FAILED) fail("mmap");
    uint64_t start = now_ns();
    for (int i = 0; i < workers; i++) {
        pid_t worker = fork();
        if (worker < 0) fail("fork");
        if (worker == 0) work(pass, count, piped);
    }
    while (wait(NULL) > 0) continue;
    fprintf(answers, "%llu %d %zu", (unsigned long long)(now_ns() - start), pass->failed, pass->bytes);
    for (int run = 0; run < count; run++) fprintf(answers, " %llu", (unsigned long long)pass->elapsed[run]);
    answer("\n");
    munmap(pass, sizeof *pass);
}

int main(void) {
    char *words[MAX_WORDS];
    open_requests();
    for (int count; (count = next_request(words)) > 0;) {
        bool piped = !strcmp(words[0], "piped");
        if (!strcmp(words[0], "command") && count > 1) {
            add_program(words + 1);
            answer("%d\n", program_count);
            continue;
        }
        int runs = count == 3 ? atoi(words[1]) : 0;
        if ((!piped && strcmp(words[0], "plain")) || runs < 1 || runs > MAX_RUNS || !program_count) {
            fprintf(stderr, "load: unknown request %s\n", words[0]);
            return 2;
        }
        run_pass(runs, atoi(words[2]), piped);
    }
    return 0;
}
