/* The cheapest way to run a program to its end: vfork, exec, wait. */
#ifndef SPAWNED_H
#define SPAWNED_H

#include <stddef.h>

/* Runs argv with the standard streams of this process; returns the wait status. */
int run_plain(char *const argv[]);

/* Runs argv with stdout and stderr as pipes, reads both to their end and adds up the bytes. */
int run_piped(char *const argv[], size_t *bytes);

#endif
