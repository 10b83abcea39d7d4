/* SPDX-License-Identifier: Apache-2.0 */
/* See warm.h.
 *
 * A fork copies the page table of a mapping of a file only if the process has a page of its own in
 * it, else the child meets every page anew: of 78 faults that a worker took until its first answer, 26
 * were in the code of libc and libcrt. One byte of either is therefore written over with itself, the
 * way a debugger does it: no mapping becomes writable for that.
 */
#include "runtime/core/warm.h"

#include <fcntl.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "runtime/base/cleanup.h"
#include "runtime/net/net.h"

/* Of one program header, whether it has `address`, as code. */
static bool has_code(const struct dl_phdr_info *object, const ElfW(Phdr) * segment,
                     uintptr_t address)
{
    uintptr_t start = object->dlpi_addr + segment->p_vaddr;

    return segment->p_type == PT_LOAD && (segment->p_flags & (PF_X | PF_W)) == PF_X &&
           address >= start && address < start + segment->p_memsz;
}

static void own_a_page(int memory, uintptr_t start, size_t size)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), first = start / page * page;

    (void)madvise((void *)first, start + size - first, MADV_POPULATE_READ);
    (void)!pwrite(memory, (const void *)start, 1, (off_t)start);
}

static int look_at(struct dl_phdr_info *object, size_t size, void *user)
{
    const uintptr_t users[] = {(uintptr_t)crti_warm_up, (uintptr_t)pwrite};
    const int *memory = user;

    for (int i = 0; i < object->dlpi_phnum; i++)
        for (unsigned k = 0; k < sizeof(users) / sizeof(users[0]); k++)
            if (has_code(object, &object->dlpi_phdr[i], users[k]))
                own_a_page(*memory, object->dlpi_addr + object->dlpi_phdr[i].p_vaddr,
                           object->dlpi_phdr[i].p_memsz);
    return 0;
}

void crti_warm_up(void)
{
    CRTI_AUTO(crti_close) int memory = open("/proc/self/mem", O_RDWR | O_CLOEXEC);

    if (memory >= 0)
        dl_iterate_phdr(look_at, &memory);
    crti_net_prepare();
}
