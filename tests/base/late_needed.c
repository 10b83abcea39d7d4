/* SPDX-License-Identifier: Apache-2.0 */
/* See late_wanted.c. */
int late_needed(void);

int late_needed(void)
{
    return 42;
}
