/* SPDX-License-Identifier: Apache-2.0 */
/* The program outside the tree that the install test builds: base of both headers, no cluster. */
#include <crt.h>

#include <stdio.h>

int main(void)
{
    float data[6] = {0};
    crt_tensor_t tensor = crt_tensor_floats(data, 6);

    if (crt_raise(CRT_ERR_INVALID, "asked for") != CRT_ERR_INVALID)
        return 1;
    printf("%zu bytes, %s: %s\n", crt_tensor_bytes(&tensor),
           crt_status_text(CRT_ERR_INVALID), crt_error_detail());
    return 0;
}
