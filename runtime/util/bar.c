/* SPDX-License-Identifier: Apache-2.0 */
/* Draws a progress. See bar.h. */
#include "runtime/util/bar.h"

#include <stdio.h>
#include <string.h>

#define BAR_LEAST 8
#define BAR_MOST  60

int crti_bar_percent(const crti_bar_t *bar)
{
    if (bar->total <= 0 || bar->done <= 0)
        return 0;
    if (bar->done >= bar->total)
        return 100;
    return (int)(100.0 * (double)bar->done / (double)bar->total);
}

/* "M:SS", or "H:MM:SS". */
static void add_time(char *text, size_t size, double seconds)
{
    size_t used = strlen(text);
    long s = seconds < 1e8 ? (long)(seconds + 0.5) : 99999999;

    if (s >= 3600)
        snprintf(text + used, size - used, " %ld:%02ld:%02ld", s / 3600, s / 60 % 60,
                 s % 60);
    else
        snprintf(text + used, size - used, " %ld:%02ld", s / 60, s % 60);
}

/* What stands behind the bar. The time is what is left, or what it took. */
static void make_figures(const crti_bar_t *bar, char *text, size_t size)
{
    double rate = bar->seconds > 0 ? (double)bar->done / bar->seconds : 0;

    if (bar->total > 0)
        snprintf(text, size, " %3d%% %lld/%lld", crti_bar_percent(bar),
                 (long long)bar->done, (long long)bar->total);
    else
        snprintf(text, size, " %lld", (long long)bar->done);
    /* In tenths, as the locale of the program has no say in it. */
    snprintf(text + strlen(text), size - strlen(text), " %lld.%d/s",
             (long long)(rate * 10 + 0.5) / 10, (int)((long long)(rate * 10 + 0.5) % 10));
    if (bar->total > bar->done && rate > 0)
        add_time(text, size, (double)(bar->total - bar->done) / rate);
    else
        add_time(text, size, bar->seconds);
}

const char *crti_bar_draw(const crti_bar_t *bar, size_t width, char *text, size_t size)
{
    char figures[128], drawn[BAR_MOST + 1];
    size_t room, length, full;

    make_figures(bar, figures, sizeof(figures));
    length = strlen(bar->label) + strlen(figures);
    if (width >= size)
        width = size - 1;
    room = width > length + 3 ? width - length - 3 : 0;
    room = room > BAR_MOST ? BAR_MOST : room;
    if (room < BAR_LEAST || bar->total <= 0) {
        snprintf(text, size, "%s%s", bar->label, figures);
        text[width] = '\0';
        return text;
    }
    full = room * (size_t)crti_bar_percent(bar) / 100;
    memset(drawn, '#', full);
    memset(drawn + full, ' ', room - full);
    drawn[room] = '\0';
    snprintf(text, size, "%s [%s]%s", bar->label, drawn, figures);
    return text;
}

const char *crti_bar_line(const crti_bar_t *bar, char *text, size_t size)
{
    if (bar->total > 0)
        snprintf(text, size, "%s: %lld of %lld (%d %%)", bar->label, (long long)bar->done,
                 (long long)bar->total, crti_bar_percent(bar));
    else
        snprintf(text, size, "%s: %lld", bar->label, (long long)bar->done);
    return text;
}
