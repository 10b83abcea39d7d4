/* SPDX-License-Identifier: Apache-2.0 */
/* Programs and libraries as they are handed to another host. See elf_file.h. */
#include "cli/elf_file.h"

#include <elf.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GLIBC "GLIBC_2."

/* What is read lies within the file, at any alignment. */
typedef struct image {
    unsigned char *bytes;
    size_t size;
    Elf64_Ehdr head;
    size_t dynamic, dynamic_size; /* 0: there is none */
    size_t texts, texts_size;     /* of the dynamic section */
} image_t;

static bool get(const image_t *e, uint64_t at, void *to, size_t size)
{
    if (at > e->size || size > e->size - at)
        return false;
    memcpy(to, e->bytes + at, size);
    return true;
}

static bool get_segment(const image_t *e, size_t index, Elf64_Phdr *segment)
{
    return index < e->head.e_phnum &&
           get(e, e->head.e_phoff + index * sizeof(*segment), segment, sizeof(*segment));
}

/* Where in the file an address is; SIZE_MAX: nowhere. */
static size_t place_of(const image_t *e, uint64_t address)
{
    Elf64_Phdr s;

    for (size_t i = 0; get_segment(e, i, &s); i++)
        if (s.p_type == PT_LOAD && address >= s.p_vaddr &&
            address - s.p_vaddr < s.p_filesz)
            return s.p_offset + (address - s.p_vaddr);
    return SIZE_MAX;
}

static bool get_entry(const image_t *e, size_t index, Elf64_Dyn *entry)
{
    return (index + 1) * sizeof(*entry) <= e->dynamic_size &&
           get(e, e->dynamic + index * sizeof(*entry), entry, sizeof(*entry)) &&
           entry->d_tag != DT_NULL;
}

/* A text of the dynamic section, NULL: none that ends within it. */
static const char *text_at(const image_t *e, uint64_t offset)
{
    if (offset >= e->texts_size ||
        !memchr(e->bytes + e->texts + offset, '\0', e->texts_size - offset))
        return NULL;
    return (const char *)e->bytes + e->texts + offset;
}

static bool open_image(image_t *e, unsigned char *bytes, size_t size)
{
    *e = (image_t){.bytes = bytes, .size = size};
    return get(e, 0, &e->head, sizeof(e->head)) &&
           memcmp(e->head.e_ident, ELFMAG, SELFMAG) == 0 &&
           e->head.e_ident[EI_CLASS] == ELFCLASS64 &&
           e->head.e_ident[EI_DATA] ==
               (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? ELFDATA2LSB : ELFDATA2MSB) &&
           e->head.e_phentsize == sizeof(Elf64_Phdr);
}

static bool find_dynamic(image_t *e)
{
    uint64_t texts = 0;
    Elf64_Phdr s;
    Elf64_Dyn d;

    for (size_t i = 0; get_segment(e, i, &s); i++)
        if (s.p_type == PT_DYNAMIC) {
            e->dynamic = s.p_offset;
            e->dynamic_size = s.p_filesz;
        }
    for (size_t i = 0; get_entry(e, i, &d); i++) {
        if (d.d_tag == DT_STRTAB)
            texts = d.d_un.d_ptr;
        if (d.d_tag == DT_STRSZ)
            e->texts_size = d.d_un.d_val;
    }
    e->texts = place_of(e, texts);
    return e->texts <= e->size && e->texts_size <= e->size - e->texts;
}

/* ---------------------------------------------------------------- what is asked */

static void take_version(const image_t *e, uint64_t name, unsigned *newest)
{
    const char *text = text_at(e, name);
    unsigned number;

    if (!text || strncmp(text, GLIBC, strlen(GLIBC)) != 0)
        return;
    number = (unsigned)strtoul(text + strlen(GLIBC), NULL, 10);
    if (number > *newest)
        *newest = number;
}

/* Versions that the file needs of other files: a list of lists. */
static unsigned newest_glibc(const image_t *e)
{
    unsigned newest = 0;
    size_t at = SIZE_MAX;
    Elf64_Dyn d;

    for (size_t i = 0; get_entry(e, i, &d); i++)
        if (d.d_tag == DT_VERNEED)
            at = place_of(e, d.d_un.d_ptr);
    for (size_t files = 0; at != SIZE_MAX && files < 4096; files++) {
        Elf64_Verneed file;
        Elf64_Vernaux version;
        size_t next;

        if (!get(e, at, &file, sizeof(file)))
            break;
        next = at + file.vn_aux;
        for (size_t i = 0; i < file.vn_cnt; i++) {
            if (!get(e, next, &version, sizeof(version)))
                break;
            take_version(e, version.vna_name, &newest);
            next += version.vna_next;
        }
        if (!file.vn_next)
            break;
        at += file.vn_next;
    }
    return newest;
}

/* What does not begin where the file itself lies is a place of the host where it was built: it
 * becomes "/", where no library is. The length stays, texts may share their ends. */
static void cut_places(char *path)
{
    static const char origin[] = "$ORIGIN";

    while (*path) {
        size_t length = strcspn(path, ":");

        if (strncmp(path, origin, strlen(origin)) != 0)
            memset(path, '/', length);
        path += length + (path[length] == ':');
    }
}

static const char *make_path_wide(image_t *e)
{
    const char *path = NULL;
    Elf64_Dyn d;

    for (size_t i = 0; get_entry(e, i, &d); i++) {
        if (d.d_tag != DT_RUNPATH && d.d_tag != DT_RPATH)
            continue;
        path = text_at(e, d.d_un.d_val);
        if (path)
            cut_places((char *)(uintptr_t)path);
        d.d_tag = DT_RPATH;
        memcpy(e->bytes + e->dynamic + i * sizeof(d), &d, sizeof(d));
    }
    return path;
}

/* Symbols and texts for debuggers lie behind all that is loaded; so do the headers of sections. */
static size_t cut_sections(image_t *e)
{
    size_t end = e->head.e_phoff + (size_t)e->head.e_phnum * sizeof(Elf64_Phdr);
    Elf64_Phdr s;

    for (size_t i = 0; get_segment(e, i, &s); i++)
        if (s.p_offset <= e->size && s.p_filesz <= e->size - s.p_offset &&
            s.p_offset + s.p_filesz > end)
            end = s.p_offset + s.p_filesz;
    e->head.e_shoff = 0;
    e->head.e_shnum = e->head.e_shstrndx = 0;
    memcpy(e->bytes, &e->head, sizeof(e->head));
    return end < e->size ? end : e->size;
}

crt_status_t crti_elf_make_portable(unsigned char *bytes, size_t size,
                                    elf_facts_t *facts_out)
{
    image_t e;

    *facts_out = (elf_facts_t){0};
    if (!open_image(&e, bytes, size) || !find_dynamic(&e))
        return crt_raise(CRT_ERR_INVALID,
                         "no 64-bit ELF file that is dynamically linked");
    facts_out->glibc = newest_glibc(&e);
    facts_out->path = make_path_wide(&e);
    facts_out->size = cut_sections(&e);
    return CRT_OK;
}

const char *crti_elf_loader(const unsigned char *bytes, size_t size)
{
    image_t e;
    Elf64_Phdr s;

    if (!open_image(&e, (unsigned char *)(uintptr_t)bytes, size))
        return NULL;
    for (size_t i = 0; get_segment(&e, i, &s); i++)
        if (s.p_type == PT_INTERP && s.p_offset < size &&
            s.p_filesz <= size - s.p_offset && s.p_filesz > 0 &&
            bytes[s.p_offset + s.p_filesz - 1] == '\0')
            return (const char *)bytes + s.p_offset;
    return NULL;
}
