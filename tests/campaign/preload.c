/* Faults of a disk and of the clock, for one process tree: a library that is loaded before libc.

   The campaign changes the control file, which is mapped here, while the process runs. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

struct control {
    volatile int64_t clock_offset_seconds;
    volatile int64_t sync_delay_ms; /* before each fsync of a file whose path contains the text below */
    volatile int64_t hangs;         /* such an fsync does not return until this is 0 */
    char path[256];
};

static struct control *control;

__attribute__((constructor)) static void map_control(void) {
    const char *name = getenv("MEMSVC_CAMPAIGN_CONTROL");
    int file = name == NULL ? -1 : open(name, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return;
    void *mapped = mmap(NULL, sizeof(struct control), PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (mapped != MAP_FAILED)
        control = mapped;
}

static void rest(int64_t milliseconds) {
    struct timespec left = {milliseconds / 1000, (milliseconds % 1000) * 1000000};
    while (nanosleep(&left, &left) != 0)
        continue;
}

static void before_sync(int file) {
    char link[64], path[4096];
    if (control == NULL || (control->sync_delay_ms == 0 && control->hangs == 0))
        return;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0)
        return;
    path[length] = 0;
    if (strstr(path, control->path) == NULL)
        return;
    rest(control->sync_delay_ms);
    while (control->hangs)
        rest(10);
}

int fsync(int file) {
    static int (*next)(int);
    if (next == NULL)
        next = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
    before_sync(file);
    return next(file);
}

int fdatasync(int file) {
    static int (*next)(int);
    if (next == NULL)
        next = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
    before_sync(file);
    return next(file);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    static int (*next)(clockid_t, struct timespec *);
    if (next == NULL)
        next = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int result = next(clock, now);
    if (clock == CLOCK_REALTIME && result == 0 && control != NULL)
        now->tv_sec += control->clock_offset_seconds;
    return result;
}

time_t time(time_t *where) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (where != NULL)
        *where = now.tv_sec;
    return now.tv_sec;
}
