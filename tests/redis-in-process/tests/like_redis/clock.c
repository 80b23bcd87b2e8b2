/* Time of day as a file says it: eight bytes, in microseconds. Every other clock is the system's. To be preloaded. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static int64_t now(void) {
    static volatile int64_t *clock = NULL;
    if (clock == NULL) {
        int file = open(getenv("SET_CLOCK"), O_RDONLY | O_CLOEXEC);
        void *page = mmap(NULL, sizeof *clock, PROT_READ, MAP_SHARED, file, 0);
        if (file < 0 || page == MAP_FAILED)
            abort();
        close(file);
        clock = page;
    }
    return *clock;
}

int gettimeofday(struct timeval *restrict tv, void *restrict tz) {
    int64_t us = now();
    (void)tz;
    tv->tv_sec = us / 1000000;
    tv->tv_usec = us % 1000000;
    return 0;
}

time_t time(time_t *t) {
    time_t seconds = now() / 1000000;
    if (t != NULL)
        *t = seconds;
    return seconds;
}

int clock_gettime(clockid_t id, struct timespec *ts) {
    if (id != CLOCK_REALTIME && id != CLOCK_REALTIME_COARSE)
        return (int)syscall(SYS_clock_gettime, id, ts);
    int64_t us = now();
    ts->tv_sec = us / 1000000;
    ts->tv_nsec = us % 1000000 * 1000;
    return 0;
}
