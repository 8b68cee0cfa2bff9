/* A libnvidia-ml.so.1 for tests: the public ABI over the state file of pipeline/rehearsal/sim_gpus.py, read anew on each call.
 *
 * Beyond that file's records:
 *   fail FUNCTION CODE [GPU]   the call returns CODE (for that GPU only); FUNCTION may be "*" for every call on a device
 *   hang FUNCTION              the call does not return while the line is there
 *   rows GPU PID BYTES         an extra row in the compute list, whatever it says (for lists that make no sense)
 *   minor GPU N                its device file is /dev/nvidiaN; without: the one of its index
 *   bytes GPU N                so many bytes more are used
 *   omit PID                   the lists leave this process out, as drivers do with those of other pid namespaces
 *
 * A process that is stopped counts as its last record says; the stand-in in Python shows it idle.
 *
 * Build: gcc -shared -fPIC -Wl,-soname,libnvidia-ml.so.1 -o libnvidia-ml.so.1 fake_nvml.c
 *   -DNO_V2   leave out what older drivers lack: memory v2, the v3 lists (v2 is there instead), event reasons, versioned temperature
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

typedef unsigned long long u64;
typedef struct { int index; } device;
typedef struct { u64 total, free, used; } memory_v1;
typedef struct { unsigned version; u64 total, reserved, free, used; } memory_v2;
typedef struct { unsigned gpu, memory; } utilization;
typedef struct { unsigned pid; u64 bytes; unsigned gpu_instance, compute_instance; } process_row;
typedef struct { unsigned version, sensor; int celsius; } temperature_v1;

enum { SUCCESS = 0, UNINITIALIZED = 1, INVALID = 2, NOT_SUPPORTED = 3, INSUFFICIENT_SIZE = 7, DRIVER_NOT_LOADED = 9, VERSION_MISMATCH = 25 };
enum { MAX_GPUS = 16, MAX_HOLDS = 256, MAX_GONE = 512, MAX_ROWS = 64 };

typedef struct { int pid, gpu, util, watts; u64 ticks, mib; } hold;
typedef struct {
    char driver[80], name[96], uuid[MAX_GPUS][96];
    int count, holds, gones, linger_ms, util[MAX_GPUS], watts[MAX_GPUS], nrows[MAX_GPUS], minor[MAX_GPUS], omitted[MAX_ROWS], nomitted;
    u64 total[MAX_GPUS], reserved[MAX_GPUS], used[MAX_GPUS], bytes[MAX_GPUS];
    hold hold[MAX_HOLDS];
    struct { int pid; u64 ticks, at_ms; } gone[MAX_GONE];
    process_row rows[MAX_GPUS][MAX_ROWS];
} state;

static int ready;
static device devices[MAX_GPUS];

static const char *path(void) {
    const char *name = getenv("EAGLEWATCH_SIM_GPUS");
    return name ? name : "";
}

static u64 boot_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (u64)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int alive(int pid, u64 ticks) {
    char name[64], text[1024];
    snprintf(name, sizeof name, "/proc/%d/stat", pid);
    FILE *file = fopen(name, "r");
    if (!file) return 0;
    size_t size = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[size] = 0;
    char *rest = strrchr(text, ')'), status;
    u64 started;
    if (!rest || sscanf(rest + 1, " %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu", &status, &started) != 2)
        return 0;
    return started == ticks && status != 'Z' && status != 'X';
}

static u64 gone_at(state *s, hold *h, int append) {
    for (int i = 0; i < s->gones; i++)
        if (s->gone[i].pid == h->pid && s->gone[i].ticks == h->ticks) return s->gone[i].at_ms;
    if (!append) return 0;
    u64 now = boot_ms();
    char line[96], lock[4096];
    int size = snprintf(line, sizeof line, "gone %d %llu %llu\n", h->pid, h->ticks, now);
    snprintf(lock, sizeof lock, "%s.lock", path());
    int guard = open(lock, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    flock(guard, LOCK_EX);
    int fd = open(path(), O_WRONLY | O_APPEND | O_CLOEXEC);
    if (fd >= 0) {
        if (write(fd, line, size) != size) now = 0;
        close(fd);
    }
    close(guard);
    if (s->gones < MAX_GONE) {
        s->gone[s->gones].pid = h->pid, s->gone[s->gones].ticks = h->ticks, s->gone[s->gones].at_ms = now;
        s->gones++;
    }
    return now;
}

static void add_row(state *s, int gpu, unsigned pid, u64 bytes) {
    for (int i = 0; i < s->nomitted; i++)
        if (s->omitted[i] == (int)pid) return;
    if (s->nrows[gpu] < MAX_ROWS) s->rows[gpu][s->nrows[gpu]++] = (process_row){pid, bytes, 0xFFFFFFFF, 0xFFFFFFFF};
}

static int parse(state *s) {
    char line[512], word[96];
    memset(s, 0, sizeof *s);
    FILE *file = fopen(path(), "r");
    if (!file) return -1;
    for (int i = 0; i < MAX_GPUS; i++) s->minor[i] = i;
    while (fgets(line, sizeof line, file)) {
        u64 a, b, c, at;
        int gpu, pid;
        hold h;
        if (!strchr(line, '\n')) break;
        line[strcspn(line, "\n")] = 0;
        if (!strncmp(line, "driver ", 7)) snprintf(s->driver, sizeof s->driver, "%.79s", line + 7);
        else if (!strncmp(line, "name ", 5)) snprintf(s->name, sizeof s->name, "%.95s", line + 5);
        else if (sscanf(line, "linger_ms %d", &gpu) == 1) s->linger_ms = gpu;
        else if (sscanf(line, "gpu %d %95s %llu %llu %llu", &gpu, word, &a, &b, &c) == 5 && gpu >= 0 && gpu < MAX_GPUS) {
            snprintf(s->uuid[gpu], 96, "%s", word);
            s->total[gpu] = a, s->reserved[gpu] = b, s->used[gpu] = c, s->watts[gpu] = 30;
            if (gpu >= s->count) s->count = gpu + 1;
        } else if (sscanf(line, "rows %d %llu %llu", &gpu, &a, &b) == 3 && gpu >= 0 && gpu < MAX_GPUS) add_row(s, gpu, (unsigned)a, b);
        else if (sscanf(line, "minor %d %d", &gpu, &pid) == 2 && gpu >= 0 && gpu < MAX_GPUS) s->minor[gpu] = pid;
        else if (sscanf(line, "bytes %d %llu", &gpu, &a) == 2 && gpu >= 0 && gpu < MAX_GPUS) s->bytes[gpu] = a;
        else if (sscanf(line, "omit %d", &pid) == 1 && s->nomitted < MAX_ROWS) s->omitted[s->nomitted++] = pid;
        else if (sscanf(line, "gone %d %llu %llu", &pid, &a, &at) == 3 && s->gones < MAX_GONE) {
            s->gone[s->gones].pid = pid, s->gone[s->gones].ticks = a, s->gone[s->gones].at_ms = at;
            s->gones++;
        } else if (sscanf(line, "hold %d %llu %d %llu %d %d", &h.pid, &h.ticks, &h.gpu, &h.mib, &h.util, &h.watts) == 6 && h.gpu >= 0 &&
                   h.gpu < MAX_GPUS) {
            int i = 0;
            while (i < s->holds && !(s->hold[i].pid == h.pid && s->hold[i].ticks == h.ticks && s->hold[i].gpu == h.gpu)) i++;
            if (i < MAX_HOLDS) s->hold[i] = h;
            if (i == s->holds && i < MAX_HOLDS) s->holds++;
        }
    }
    fclose(file);
    for (int i = 0; i < s->holds; i++) {
        hold *h = &s->hold[i];
        if (!gone_at(s, h, 0) && alive(h->pid, h->ticks)) {
            s->used[h->gpu] += h->mib, s->util[h->gpu] += h->util, s->watts[h->gpu] += h->watts;
            if (h->mib) add_row(s, h->gpu, h->pid, h->mib << 20);
        } else if (boot_ms() - gone_at(s, h, 1) < (u64)s->linger_ms) s->used[h->gpu] += h->mib;
    }
    for (int i = 0; i < s->count; i++) {
        if (s->used[i] > s->total[i] - s->reserved[i]) s->used[i] = s->total[i] - s->reserved[i];
        if (s->util[i] > 100) s->util[i] = 100;
    }
    return 0;
}

/* What the file orders for one call: 0, or the code to return; does not come back while "hang" is there. */
static int ordered(const char *function, int gpu) {
    for (;;) {
        char line[512], name[128];
        int code, only, hang = 0, result = 0;
        FILE *file = fopen(path(), "r");
        if (!file) return 0;
        while (fgets(line, sizeof line, file)) {
            if (sscanf(line, "hang %127s", name) == 1 && !strcmp(name, function)) hang = 1;
            int words = sscanf(line, "fail %127s %d %d", name, &code, &only);
            if (words >= 2 && (!strcmp(name, function) || (gpu >= 0 && !strcmp(name, "*"))) && (words == 2 || only == gpu)) result = code;
        }
        fclose(file);
        if (!hang) return result;
        usleep(20000);
    }
}

#define ENTER(condition)                                \
    state s;                                            \
    int code = ordered(__func__, -1);                   \
    if (code) return code;                              \
    if (parse(&s)) return DRIVER_NOT_LOADED;            \
    if (!ready) return UNINITIALIZED;                   \
    if (!(condition)) return INVALID;
#define ENTER_DEVICE(d)                                                     \
    state s;                                                                \
    int i = (d) ? (int)((d) - devices) : -1, code;                          \
    if (!ready) return UNINITIALIZED;                                       \
    if (i < 0 || i >= MAX_GPUS) return INVALID;                             \
    code = ordered(__func__, i);                                            \
    if (code) return code;                                                  \
    if (parse(&s)) return DRIVER_NOT_LOADED;                                \
    if (i >= s.count) return INVALID;

static int text(const char *value, char *buffer, unsigned size) {
    if (strlen(value) >= size) return INSUFFICIENT_SIZE;
    strcpy(buffer, value);
    return SUCCESS;
}

static int list(process_row *from, int n, unsigned *count, process_row *rows) {
    unsigned room = *count;
    *count = n;
    if ((unsigned)n > room) return INSUFFICIENT_SIZE;
    if (n) memcpy(rows, from, n * sizeof *rows);
    return SUCCESS;
}

int nvmlInitWithFlags(unsigned flags) {
    state s;
    int code = ordered(__func__, -1);
    (void)flags;
    if (code) return code;
    if (parse(&s)) return DRIVER_NOT_LOADED;
    ready = 1;
    return SUCCESS;
}
int nvmlShutdown(void) { ready = 0; return SUCCESS; }
const char *nvmlErrorString(int code) { (void)code; return "error of the fake library"; }
int nvmlSystemGetDriverVersion(char *buffer, unsigned size) { ENTER(1) return text(s.driver, buffer, size); }
int nvmlDeviceGetCount_v2(unsigned *count) { ENTER(1) *count = s.count; return SUCCESS; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, device **handle) {
    ENTER(index < (unsigned)s.count)
    code = ordered(__func__, (int)index);
    *handle = &devices[index];
    return code;
}
int nvmlDeviceGetName(device *d, char *buffer, unsigned size) { ENTER_DEVICE(d) return text(s.name, buffer, size); }
int nvmlDeviceGetUUID(device *d, char *buffer, unsigned size) { ENTER_DEVICE(d) return text(s.uuid[i], buffer, size); }
int nvmlDeviceGetMinorNumber(device *d, unsigned *minor) { ENTER_DEVICE(d) *minor = s.minor[i]; return SUCCESS; }
int nvmlDeviceGetMemoryInfo(device *d, memory_v1 *m) {
    ENTER_DEVICE(d)
    m->total = s.total[i] << 20, m->used = ((s.reserved[i] + s.used[i]) << 20) + s.bytes[i], m->free = m->total - m->used;
    return SUCCESS;
}
int nvmlDeviceGetUtilizationRates(device *d, utilization *u) {
    ENTER_DEVICE(d)
    u->gpu = s.util[i], u->memory = s.util[i] / 2;
    return SUCCESS;
}
int nvmlDeviceGetPowerUsage(device *d, unsigned *milliwatts) { ENTER_DEVICE(d) *milliwatts = s.watts[i] * 1000; return SUCCESS; }
int nvmlDeviceGetTemperature(device *d, unsigned sensor, unsigned *celsius) {
    ENTER_DEVICE(d)
    if (sensor) return INVALID;
    *celsius = 30 + (s.watts[i] - 30) / 12;
    return SUCCESS;
}
int nvmlDeviceGetClockInfo(device *d, unsigned domain, unsigned *mhz) {
    ENTER_DEVICE(d)
    if (domain != 1) return NOT_SUPPORTED;
    *mhz = s.util[i] ? 2400 : 210;
    return SUCCESS;
}
#ifdef NO_V2
int nvmlDeviceGetCurrentClocksThrottleReasons(device *d, u64 *reasons) { ENTER_DEVICE(d) *reasons = s.util[i] ? 0 : 1; return SUCCESS; }
int nvmlDeviceGetComputeRunningProcesses_v2(device *d, unsigned *n, process_row *rows) {
    ENTER_DEVICE(d) return list(s.rows[i], s.nrows[i], n, rows);
}
int nvmlDeviceGetGraphicsRunningProcesses_v2(device *d, unsigned *n, process_row *rows) { ENTER_DEVICE(d) return list(0, 0, n, rows); }
#else
int nvmlDeviceGetMemoryInfo_v2(device *d, memory_v2 *m) {
    ENTER_DEVICE(d)
    if (m->version != 0x02000028) return VERSION_MISMATCH;
    m->total = s.total[i] << 20, m->reserved = s.reserved[i] << 20, m->used = (s.used[i] << 20) + s.bytes[i];
    m->free = m->total - m->reserved - m->used;
    return SUCCESS;
}
int nvmlDeviceGetTemperatureV(device *d, temperature_v1 *t) {
    ENTER_DEVICE(d)
    if (t->version != 0x100000C) return VERSION_MISMATCH;
    if (t->sensor) return INVALID;
    t->celsius = 30 + (s.watts[i] - 30) / 12;
    return SUCCESS;
}
int nvmlDeviceGetCurrentClocksEventReasons(device *d, u64 *reasons) { ENTER_DEVICE(d) *reasons = s.util[i] ? 0 : 1; return SUCCESS; }
int nvmlDeviceGetComputeRunningProcesses_v3(device *d, unsigned *n, process_row *rows) {
    ENTER_DEVICE(d) return list(s.rows[i], s.nrows[i], n, rows);
}
int nvmlDeviceGetGraphicsRunningProcesses_v3(device *d, unsigned *n, process_row *rows) { ENTER_DEVICE(d) return list(0, 0, n, rows); }
int nvmlDeviceGetMPSComputeRunningProcesses_v3(device *d, unsigned *n, process_row *rows) { ENTER_DEVICE(d) return list(0, 0, n, rows); }
#endif
