/* Which edges of the core an input reaches, and how much memory it takes, for fuzz/run.py.
 *
 * gcc -fsanitize-coverage=trace-pc has every basic block call __sanitizer_cov_trace_pc. Pairs of successive blocks are
 * counted; counts fall into eight classes (1, 2, 3, 4-7, ... 128 and more), and an input is worth keeping when it
 * reaches a class of a pair that none did before. Built and preloaded by fuzz/sanitized.sh.
 *
 * Memory is what AddressSanitizer's allocator gives out; with PYTHONMALLOC=malloc that is Python's objects too.
 *
 * The stacks of Python's frames are no objects: the interpreter asks mmap for them. LeakSanitizer does not look there, and
 * takes a float for lost that only a local variable holds. So arenas come from malloc as well. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define SIZE (1 << 17)

static uint8_t counts[SIZE], seen[SIZE];
static uintptr_t previous;
static int64_t blocks;
static _Atomic int64_t held, most;

extern int __sanitizer_install_malloc_and_free_hooks(void (*on_malloc)(const volatile void *, size_t),
                                                     void (*on_free)(const volatile void *));
extern size_t __sanitizer_get_allocated_size(const volatile void *p);

/* PyObjectArenaAllocator (Python's C API, "Customize pymalloc Arena Allocator"). */
struct arenas {
    void *context;
    void *(*take)(void *, size_t);
    void (*give)(void *, void *, size_t);
};

static void *take_arena(void *context, size_t size)
{
    (void)context;
    return calloc(1, size);
}

static void give_arena(void *context, void *arena, size_t size)
{
    (void)context, (void)size;
    free(arena);
}

__attribute__((constructor)) static void arenas_from_malloc(void)
{
    struct arenas ours = {NULL, take_arena, give_arena};
    void (*set)(struct arenas *) = (void (*)(struct arenas *))dlsym(RTLD_DEFAULT, "PyObject_SetArenaAllocator");
    if (set != NULL)                            /* a process of Python */
        set(&ours);
}

/* A compiled module. Blocks are known by module and place in it: the address would differ in every process, and with it
 * which inputs are kept. */
struct module {
    uintptr_t low, high, name;
};

static struct module modules[64];
static int found, current;

static int look_at(struct dl_phdr_info *info, size_t size, void *wanted)
{
    (void)size;
    uintptr_t here = *(uintptr_t *)wanted, low = UINTPTR_MAX, high = 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type != PT_LOAD)
            continue;
        uintptr_t at = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
        low = at < low ? at : low;
        high = at + info->dlpi_phdr[i].p_memsz > high ? at + info->dlpi_phdr[i].p_memsz : high;
    }
    if (here < low || here >= high || found == (int)(sizeof modules / sizeof *modules))
        return 0;
    struct module *m = &modules[current = found++];
    *m = (struct module){low, high, 0};
    const char *slash = strrchr(info->dlpi_name, '/'), *folder = slash;
    while (folder && folder > info->dlpi_name && folder[-1] != '/')
        folder--;                               /* the package's name: all its modules are called _codec */
    for (const char *p = folder ? folder : info->dlpi_name; *p; p++)
        m->name = m->name * 31 + (unsigned char)*p;
    return 1;
}

static struct module *module_of(uintptr_t here)
{
    for (current = 0; current < found; current++)
        if (here >= modules[current].low && here < modules[current].high)
            return &modules[current];
    current = 0;
    dl_iterate_phdr(look_at, &here);
    return &modules[current];
}

void __sanitizer_cov_trace_pc(void)
{
    blocks++;
    uintptr_t here = (uintptr_t)__builtin_return_address(0);
    struct module *m = &modules[current];
    if (here < m->low || here >= m->high)
        m = module_of(here);
    here = ((here - m->low + m->name) >> 2) * 0x9E3779B1u;
    uint8_t *count = &counts[(here ^ previous >> 1) & (SIZE - 1)];
    if (*count < 255)
        ++*count;
    previous = here;
}

static void on_malloc(const volatile void *p, size_t size)
{
    int64_t now = held += (int64_t)size;
    if (now > most)
        most = now;
}

static void on_free(const volatile void *p)
{
    if (p)
        held -= (int64_t)__sanitizer_get_allocated_size(p);
}

/* Count memory from now on. Returns 0 where it cannot be. */
int coverage_count_memory(void)
{
    return __sanitizer_install_malloc_and_free_hooks(on_malloc, on_free);
}

/* Forget the input before. */
void coverage_begin(void)
{
    memset(counts, 0, SIZE);
    previous = 0;
    most = held;
}

/* Octets that are given out and not yet freed, of those counted. */
int64_t coverage_held(void)
{
    return held;
}

/* ... at most since coverage_begin. */
int64_t coverage_most(void)
{
    return most;
}

/* Blocks that were run, since the process began: a measure of work that is the same on every machine. */
int64_t coverage_blocks(void)
{
    return blocks;
}

/* Forget what all inputs have reached: another target begins. */
void coverage_forget(void)
{
    memset(seen, 0, SIZE);
}

/* How many pairs the input has reached more often, by class, than all before it. */
int coverage_end(void)
{
    int fresh = 0;
    for (int i = 0; i < SIZE; i++) {
        if (!counts[i])
            continue;
        int n = counts[i];
        uint8_t class = (uint8_t)(n < 4 ? 1 << (n - 1) : n < 8 ? 8 : n < 16 ? 16 : n < 32 ? 32 : n < 128 ? 64 : 128);
        if (class & ~seen[i]) {
            seen[i] |= class;
            fresh++;
        }
    }
    return fresh;
}

/* How many pairs have been reached at all. */
int coverage_total(void)
{
    int total = 0;
    for (int i = 0; i < SIZE; i++)
        total += seen[i] != 0;
    return total;
}
