/* SPDX-License-Identifier: Apache-2.0 */
/* A library that needs another one: late_needed.c. */
int late_needed(void);
int late_wanted(void);

int late_wanted(void)
{
    return late_needed();
}
