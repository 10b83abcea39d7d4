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

/* With a decimal point, whatever locale the program has set. */
static void print_number(const char *before, double number, int decimals)
{
    double scaled = fabs(number) * pow(10, decimals);
    long long whole, unit = llround(pow(10, decimals));

    fputs(before, stdout);
    if (!(scaled < 1e18)) { /* also no number */
        fputs(isnan(number) ? "nan" : "inf", stdout);
        return;
    }
    whole = llround(scaled);
    printf("%s%lld", signbit(number) && whole ? "-" : "", whole / unit);
    if (decimals)
        printf(".%0*lld", decimals, whole % unit);
}

static void print_training(const crt_fit_progress_t *p)
{
    bool is_terminal = isatty(STDOUT_FILENO);

    if (is_terminal)
        printf("\r");
    print_number("epoch ", p->epoch, 2);
    if (p->epochs > 0)
        print_number(" of ", p->epochs, p->epochs == floor(p->epochs) ? 0 : 2);
    printf("  step %llu", (unsigned long long)p->step);
    if (p->steps > 0)
        printf(" of %llu", (unsigned long long)p->steps);
    print_number("  loss ", p->loss, 4);
    print_number("  ", p->samples_per_s, 0);
    printf(" images/s  %d %s  ", p->devices, p->devices == 1 ? "device" : "devices");
    print_time(p->seconds);
    if (isfinite(p->seconds_left)) {
        printf(", ");
        print_time(p->seconds_left);
        printf(" left");
    }
    printf(is_terminal ? "\x1b[K" : "\n");
}

static void print_figures(const char *phase, const crt_fit_progress_t *p)
{
    fputs(phase, stdout);
    print_number("  epoch ", p->epoch, 2);
    print_number("  loss ", p->loss, 4);
    print_number("  ", 100 * p->accuracy, 2);
    puts(" % right");
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
            print_figures(p->phase == CRT_FIT_VALIDATE ? "validation" : "test", p);
    }
    fflush(stdout);
}
