/* Reference of everything that makes sandboxes: what the isolation itself costs.
 *
 * usage: probe SKELETON MOUNT_POINT
 *   first                      one box and its first exec, then its end  -> <ns until answered> <status>
 *   hold <count> <network>     idle boxes (network: 1 with, 0 without)   -> <made> <pid of the first init>
 *   drop                       the end of the held boxes                 -> 0
 *   burst <count> <workers>    boxes with their first exec, all alive
 *                              until the last one answered               -> <ns> <succeeded> */
#define _GNU_SOURCE
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "box.h"
#include "requests.h"

enum { MAX_BOXES = 4096 };

static struct box boxes[MAX_BOXES];
static int held;

static void first(const struct box_plan *plan) {
    uint64_t start = now_ns();
    struct box box = box_create(plan);
    int status = box_run_true(&box);
    uint64_t elapsed = now_ns() - start;
    box_destroy(&box);
    answer("%llu %d\n", (unsigned long long)elapsed, status);
}

static int hold(const struct box_plan *plan, int count) {
    int made = 0;
    while (made < count && held < MAX_BOXES) {
        boxes[held] = box_create(plan);
        if (box_wait_ready(&boxes[held++])) break;
        made++;
    }
    return made;
}

static void drop(void) {
    while (held > 0) box_destroy(&boxes[--held]);
}

/* Makes its part of a burst, says how many succeeded, and keeps them until told to end. */
static void burst_worker(const struct box_plan *plan, int count, int done, int end) {
    int succeeded = 0;
    char byte;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (held = 0; held < count && held < MAX_BOXES; held++) {
        boxes[held] = box_create(plan);
        if (box_run_true(&boxes[held]) == 0) succeeded++;
    }
    if (write(done, &succeeded, sizeof succeeded) != sizeof succeeded) _exit(1);
    if (read(end, &byte, 1) < 0) _exit(1);
    drop();
    _exit(0);
}

static void burst(const struct box_plan *plan, int count, int workers) {
    int done[2], end[2], succeeded = 0;
    if (pipe2(done, O_CLOEXEC) || pipe2(end, O_CLOEXEC)) fail("pipe2");
    uint64_t start = now_ns();
    for (int i = 0; i < workers; i++) {
        int part = count / workers + (i < count % workers);
        pid_t worker = fork();
        if (worker < 0) fail("fork");
        if (worker == 0) {
            close(end[1]);
            burst_worker(plan, part, done[1], end[0]);
        }
    }
    for (int i = 0, part; i < workers; i++)
        if (read(done[0], &part, sizeof part) == sizeof part) succeeded += part;
    uint64_t elapsed = now_ns() - start;
    for (int i = 0; i < 2; i++) close(done[i]), close(end[i]);
    while (wait(NULL) > 0) continue;
    answer("%llu %d\n", (unsigned long long)elapsed, succeeded);
}

int main(int argc, char **argv) {
    char *words[MAX_WORDS];
    if (argc != 3) {
        fprintf(stderr, "usage: probe SKELETON MOUNT_POINT\n");
        return 2;
    }
    struct box_plan plan = {.skeleton = argv[1], .mount_point = argv[2], .network = true};
    open_requests();
    for (int count; (count = next_request(words)) > 0;) {
        if (!strcmp(words[0], "first")) {
            first(&plan);
        } else if (!strcmp(words[0], "hold") && count == 3) {
            plan.network = atoi(words[2]) != 0;
            int made = hold(&plan, atoi(words[1]));
            plan.network = true;
            answer("%d %d\n", made, held ? boxes[0].init : 0);
        } else if (!strcmp(words[0], "drop")) {
            drop();
            answer("0\n");
        } else if (!strcmp(words[0], "burst") && count == 3) {
            burst(&plan, atoi(words[1]), atoi(words[2]));
        } else {
            fprintf(stderr, "probe: unknown request %s\n", words[0]);
            return 2;
        }
    }
    drop();
    return 0;
}
