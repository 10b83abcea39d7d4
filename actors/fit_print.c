/* SPDX-License-Identifier: Apache-2.0 */
/* Fit, reports as text. */
#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include <crt_fit.h>

/* How long, as 1:02:03 or 2:03. */
static void print_time(double seconds)
{
    long s = (long)(seconds + 0.5);

    if (s >= 3600)
        printf("%ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60);
    else
        printf("%ld:%02ld", s / 60, s % 60);
}

static void print_training(const crt_fit_progress_t *p)
{
    bool is_terminal = isatty(STDOUT_FILENO);

    if (is_terminal)
        printf("\r");
    printf("epoch %.2f", p->epoch);
    if (p->epochs > 0)
        printf(" of %g", p->epochs);
    printf("  step %llu", (unsigned long long)p->step);
    if (p->steps > 0)
        printf(" of %llu", (unsigned long long)p->steps);
    printf("  loss %.4f  %.0f images/s  %d %s  ", p->loss, p->samples_per_s, p->devices,
           p->devices == 1 ? "device" : "devices");
    print_time(p->seconds);
    if (isfinite(p->seconds_left)) {
        printf(", ");
        print_time(p->seconds_left);
        printf(" left");
    }
    printf(is_terminal ? "\x1b[K" : "\n");
}

void crt_fit_print(void *context, const crt_fit_progress_t *p)
{
    (void)context;
    if (p->phase == CRT_FIT_TRAIN) {
        print_training(p);
    } else {
        if (isatty(STDOUT_FILENO))
            printf("\r\x1b[K"); /* instead of the line of training */
        if (p->phase == CRT_FIT_EVENT)
            printf("%s\n", p->text);
        else
            printf("%s  epoch %.2f  loss %.4f  %.2f %% right\n",
                   p->phase == CRT_FIT_VALIDATE ? "validation" : "test", p->epoch,
                   p->loss, 100 * p->accuracy);
    }
    fflush(stdout);
}
