/*
 * A second witness for the tests: says what the kernel holds for this process, without any code of ours.
 *
 *   probe [MIB]      touches MIB MiB of fresh memory (default 16) and prints one line of key=value:
 *
 *   host task local_rank       from the environment, `-` when unset
 *   visible profile            CUDA_VISIBLE_DEVICES, GPU_TUNE_PROFILE
 *   devices                    N of each /dev/nvidiaN that may be opened: a device cgroup answers EPERM (PROBE_DEVICES: other prefix)
 *   cpus mems                  Cpus_allowed_list, Mems_allowed_list of /proc/self/status
 *   policy nodes               get_mempolicy: default, preferred, bind, interleave, local, preferred-many; nodes `-` when none
 *   pages                      pages of the touched memory per NUMA node (/proc/self/numa_maps), `0:4000,1:96`
 *   memlock                    soft/hard limit of locked memory, KiB or `unlimited`
 *   locked                     whether mlock of the touched memory worked: yes, or errno
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MOST_NODES = 1024, BITS = 8 * sizeof(unsigned long) };

static const char *variable(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : "-";
}

/* The rest of the line of /proc/self/status that begins with `key`. */
static void print_status(const char *label, const char *key)
{
    char line[4096];
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, key, strlen(key)) == 0)
            printf(" %s=%s", label, strtok(line + strlen(key), ": \t\n"));
    if (file)
        fclose(file);
}

static void print_policy(void)
{
    static const char *const names[] = { "default", "preferred", "bind", "interleave", "local", "preferred-many" };
    unsigned long mask[MOST_NODES / BITS] = { 0 };
    int mode = 0;
    if (syscall(SYS_get_mempolicy, &mode, mask, (unsigned long)MOST_NODES, NULL, 0UL) != 0) {
        printf(" policy=error-%d nodes=-", errno);
        return;
    }
    mode &= 0xff; /* without the flags MPOL_F_STATIC_NODES and MPOL_F_RELATIVE_NODES */
    printf(" policy=%s nodes=", mode < 6 ? names[mode] : "unknown");
    const char *separator = "";
    for (int node = 0; node < MOST_NODES; node++)
        if (mask[node / BITS] >> (node % BITS) & 1) {
            printf("%s%d", separator, node);
            separator = ",";
        }
    if (!*separator)
        printf("-");
}

/* Fresh memory between two guard pages, so that the kernel keeps it apart in numa_maps. */
static char *touch(size_t bytes, size_t page)
{
    char *area = mmap(NULL, bytes + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (area == MAP_FAILED || mprotect(area + page, bytes, PROT_READ | PROT_WRITE) != 0) {
        perror("probe: mmap");
        exit(1);
    }
    area += page;
    for (size_t offset = 0; offset < bytes; offset += page)
        area[offset] = 1;
    return area;
}

/* `N0=4000 N1=96` of the line of numa_maps that begins with the address, as `0:4000,1:96`. */
static void print_pages(const char *area)
{
    char line[8192], start[32];
    const char *separator = "";
    snprintf(start, sizeof start, "%lx ", (unsigned long)area);
    printf(" pages=");
    FILE *file = fopen("/proc/self/numa_maps", "r");
    while (file && fgets(line, sizeof line, file)) {
        if (strncmp(line, start, strlen(start)) != 0)
            continue;
        for (char *word = strtok(line, " \n"); word; word = strtok(NULL, " \n")) {
            int node;
            unsigned long count;
            if (sscanf(word, "N%d=%lu", &node, &count) == 2) {
                printf("%s%d:%lu", separator, node, count);
                separator = ",";
            }
        }
    }
    if (file)
        fclose(file);
    if (!*separator)
        printf("-");
}

static void print_devices(void)
{
    const char *prefix = getenv("PROBE_DEVICES") ? getenv("PROBE_DEVICES") : "/dev/nvidia";
    const char *separator = "";
    printf(" devices=");
    for (int number = 0; number < 64; number++) {
        char path[512];
        snprintf(path, sizeof path, "%s%d", prefix, number);
        int file = open(path, O_RDONLY | O_CLOEXEC);
        /* Without a driver the node answers ENXIO: the cgroup let it through. */
        if (file >= 0 || errno == ENXIO || errno == ENODEV) {
            printf("%s%d", separator, number);
            separator = ",";
        }
        if (file >= 0)
            close(file);
    }
    if (!*separator)
        printf("-");
}

static void print_limit(rlim_t limit)
{
    if (limit == RLIM_INFINITY)
        printf("unlimited");
    else
        printf("%lu", (unsigned long)limit / 1024);
}

int main(int argc, char **argv)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t bytes = (argc > 1 ? strtoul(argv[1], NULL, 10) : 16) << 20;
    struct rlimit memlock;

    /* One write at the end: the lines of several ranks must not mix. */
    setvbuf(stdout, NULL, _IOFBF, 1 << 16);
    char *area = touch(bytes, page);
    printf("host=%s task=%s local_rank=%s", variable("SLURMD_NODENAME"), variable("SLURM_PROCID"), variable("LOCAL_RANK"));
    printf(" visible=%s profile=%s", variable("CUDA_VISIBLE_DEVICES"), variable("GPU_TUNE_PROFILE"));
    print_devices();
    print_status("cpus", "Cpus_allowed_list");
    print_status("mems", "Mems_allowed_list");
    print_policy();
    print_pages(area);
    getrlimit(RLIMIT_MEMLOCK, &memlock);
    printf(" memlock=");
    print_limit(memlock.rlim_cur);
    printf("/");
    print_limit(memlock.rlim_max);
    if (mlock(area, bytes) == 0)
        printf(" locked=yes\n");
    else
        printf(" locked=errno-%d\n", errno);
    return 0;
}
