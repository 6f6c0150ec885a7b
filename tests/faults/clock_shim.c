/*
 * Gives one process a wrong wall clock: load it with LD_PRELOAD, and name in CLOCK_OFFSET_FILE a file that holds a
 * number of seconds. It is read at each call, so the clock can be stepped. The monotonic clock is untouched.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

static long offset(void) {
    const char *path = getenv("CLOCK_OFFSET_FILE");
    FILE *file = path ? fopen(path, "r") : NULL;
    long seconds = 0;
    if (file) {
        if (fscanf(file, "%ld", &seconds) != 1) seconds = 0;
        fclose(file);
    }
    return seconds;
}

int clock_gettime(clockid_t clock, struct timespec *moment) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int failed = real(clock, moment);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) moment->tv_sec += offset();
    return failed;
}

int gettimeofday(struct timeval *moment, void *zone) {
    struct timespec precise;
    (void)zone;
    int failed = clock_gettime(CLOCK_REALTIME, &precise);
    if (!failed && moment) {
        moment->tv_sec = precise.tv_sec;
        moment->tv_usec = precise.tv_nsec / 1000;
    }
    return failed;
}

time_t time(time_t *moment) {
    struct timespec precise;
    clock_gettime(CLOCK_REALTIME, &precise);
    if (moment) *moment = precise.tv_sec;
    return precise.tv_sec;
}
