/* SPDX-License-Identifier: Apache-2.0 */
/* Programs in PATH. See path_search.h. */
#include "runtime/base/path_search.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

bool crti_path_search(const char *search, const char *name, char *found, size_t size)
{
    while (search && *search) {
        int length = (int)strcspn(search, ":");

        if (length &&
            snprintf(found, size, "%.*s/%s", length, search, name) < (int)size &&
            access(found, X_OK) == 0)
            return true;
        search += length + (search[length] == ':');
    }
    return false;
}
