#define _GNU_SOURCE
#include "box.h"

#include <fcntl.h>
#include <grp.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "spawned.h"

/* First id outside of a box made by root; the range is not used by anything else on the host. */
enum { FIRST_ID = 1 << 24, IDS = 65536 };

/* Requests of the outside to init. */
enum request { SET_UP = 's', RUN_TRUE = 'x', PING = 'p' };

static void must(int result, const char *step) {
    if (result < 0) {
        perror(step);
        exit(1);
    }
}

static void write_proc(pid_t process, const char *name, const char *text) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", process, name);
    int file = open(path, O_WRONLY | O_CLOEXEC);
    must(file, path);
    must((int)write(file, text, strlen(text)), path);
    close(file);
}

static void map_ids(pid_t init) {
    char map[64];
    bool root = geteuid() == 0;
    if (!root) write_proc(init, "setgroups", "deny");
    snprintf(map, sizeof map, "0 %u %u", root ? FIRST_ID : geteuid(), root ? IDS : 1);
    write_proc(init, "uid_map", map);
    snprintf(map, sizeof map, "0 %u %u", root ? FIRST_ID : getegid(), root ? IDS : 1);
    write_proc(init, "gid_map", map);
}

static void bring_loopback_up(void) {
    struct ifreq interface = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
    int inet = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    must(inet, "socket");
    must(ioctl(inet, SIOCSIFFLAGS, &interface), "loopback");
    close(inet);
}

static void mount_root(const struct box_plan *plan) {
    static const char *const folders[] = {"up", "work", "up-usr", "work-usr", "shm", "root"};
    char options[512];
    must(mount("tmpfs", plan->mount_point, "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755,size=1g"), "tmpfs");
    must(chdir(plan->mount_point), "chdir");
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) must(mkdir(folders[i], 0755), "mkdir");
    snprintf(options, sizeof options, "lowerdir=%s,upperdir=up,workdir=work,userxattr,volatile", plan->skeleton);
    must(mount("overlay", "root", "overlay", MS_NOSUID | MS_NODEV, options), "overlay of the skeleton");
    strcpy(options, "lowerdir=/usr,upperdir=up-usr,workdir=work-usr,userxattr,volatile");
    must(mount("overlay", "root/usr", "overlay", MS_NODEV, options), "overlay of /usr");
}

static void mount_devices(void) {
    static const char *const devices[] = {"null", "zero", "full", "random", "urandom", "tty"};
    char from[32], to[32];
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
        snprintf(from, sizeof from, "/dev/%s", devices[i]);
        snprintf(to, sizeof to, "root/dev/%s", devices[i]);
        must(mount(from, to, NULL, MS_BIND, NULL), to);
    }
    must(mount("devpts", "root/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC, "newinstance,ptmxmode=0666"), "devpts");
    must(mount("shm", "root/dev/shm", NULL, MS_BIND, NULL), "shm");
}

static void enter_root(void) {
    must(mount("proc", "root/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL), "proc");
    must(chdir("root"), "chdir");
    must((int)syscall(SYS_pivot_root, ".", "."), "pivot_root");
    must(umount2(".", MNT_DETACH), "umount of the old root");
    must(chdir("/"), "chdir");
    must(sethostname("sandbox", 7), "sethostname");
}

static void set_up(const struct box_plan *plan) {
    if (geteuid() != 0) must(setgroups(0, NULL), "setgroups");
    must(setresgid(0, 0, 0), "setresgid");
    must(setresuid(0, 0, 0), "setresuid");
    if (plan->network) bring_loopback_up();
    mount_root(plan);
    mount_devices();
    enter_root();
}

/* PID 1 of the box: answers requests until the outside is gone. */
static void serve(const struct box_plan *plan, int control) {
    static char *const argv[] = {"/bin/true", NULL};
    char request, status = 0;
    while (read(control, &request, 1) == 1) {
        if (request == SET_UP) {
            set_up(plan);
            continue;
        }
        if (request == RUN_TRUE) status = run_plain(argv) ? 1 : 0;
        if (write(control, &status, 1) != 1) break;
    }
    _exit(0);
}

static void send_request(const struct box *box, enum request request) {
    char byte = (char)request;
    must((int)send(box->control, &byte, 1, MSG_NOSIGNAL), "request to init");
}

static int ask(const struct box *box, enum request request) {
    char status = 1;
    send_request(box, request);
    return read(box->control, &status, 1) == 1 ? status : 1;
}

struct box box_create(const struct box_plan *plan) {
    struct box box;
    int pair[2];
    unsigned long namespaces = CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS;
    if (plan->network) namespaces |= CLONE_NEWNET;
    must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), "socketpair");
    box.init = (pid_t)syscall(SYS_clone, namespaces | SIGCHLD, 0, 0, 0, 0);
    must(box.init, "clone");
    if (box.init == 0) {
        /* Other boxes must not keep this one's ends open, nor it theirs. */
        close_range(3, (unsigned)pair[1] - 1, 0);
        close_range((unsigned)pair[1] + 1, ~0u, 0);
        serve(plan, pair[1]);
    }
    close(pair[1]);
    box.control = pair[0];
    map_ids(box.init);
    send_request(&box, SET_UP);
    return box;
}

int box_run_true(const struct box *box) { return ask(box, RUN_TRUE); }

int box_wait_ready(const struct box *box) { return ask(box, PING); }

void box_destroy(const struct box *box) {
    kill(box->init, SIGKILL);
    waitpid(box->init, NULL, 0);
    close(box->control);
}
