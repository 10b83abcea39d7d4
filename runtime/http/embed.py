#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""embed.py OUTPUT.c FILE...: the files as a C table for runtime/http/page.h."""
import os
import sys

TYPES = {
    '.html': 'text/html; charset=utf-8',
    '.css': 'text/css; charset=utf-8',
    '.js': 'text/javascript; charset=utf-8',
    '.svg': 'image/svg+xml',
}


def main(output, paths):
    lines = ['/* Made by runtime/http/embed.py. */', '#include "runtime/http/page.h"', '',
             '#include <string.h>', '']
    rows = []
    for number, path in enumerate(paths):
        name = os.path.basename(path)
        with open(path, 'rb') as source:
            data = source.read()
        lines.append(f'static const unsigned char file_{number}[] = {{')
        for at in range(0, len(data), 20):
            lines.append('    ' + ', '.join(map(str, data[at:at + 20])) + ',')
        lines.append('};')
        shown = '' if name == 'index.html' else name
        media = TYPES[os.path.splitext(name)[1]]
        rows.append(f'    {{"{shown}", "{media}", {{file_{number}, sizeof(file_{number})}}}},')
    lines += ['', 'static const crti_page_file_t files[] = {', *rows, '};', '',
              'const crti_page_file_t *crti_page_find(const char *name)', '{',
              '    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)',
              '        if (strcmp(files[i].name, name) == 0)',
              '            return &files[i];', '    return NULL;', '}', '']
    with open(output, 'w', encoding='ascii') as target:
        target.write('\n'.join(lines))


main(sys.argv[1], sys.argv[2:])
