/* One isolated box, made with nothing but the system calls that it takes.
 *
 * The same namespaces and mounts as a sandbox: user (65,536 ids as root, one id otherwise), pid,
 * mount, ipc, uts and net with loopback up; a tmpfs, an overlay of a skeleton and one of /usr on
 * it, device binds, devpts, proc, pivot_root. No cgroup, no seccomp filter, no id-mapped layers:
 * what the product adds beyond the namespaces is the product's cost. */
#ifndef BOX_H
#define BOX_H

#include <stdbool.h>
#include <sys/types.h>

struct box {
    pid_t init;  /* PID 1 of the box, seen from outside */
    int control; /* requests to init; its end is the end of the box */
};

struct box_plan {
    const char *skeleton;    /* lower layer of the root: readable by everyone */
    const char *mount_point; /* an empty folder; what is mounted there is seen in the box only */
    bool network;            /* a network namespace of its own */
};

/* Starts making a box. Requests may be sent at once: they wait in the socket. */
struct box box_create(const struct box_plan *plan);

/* Runs /bin/true in the box; 0 when it succeeded. */
int box_run_true(const struct box *box);

/* Returns once the box is made; 0 when it is. */
int box_wait_ready(const struct box *box);

/* Ends the box and everything in it, and collects init. */
void box_destroy(const struct box *box);

#endif
