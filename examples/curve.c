/* SPDX-License-Identifier: Apache-2.0 */
#include "curve.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define WIDTH  720
#define HEIGHT 360
#define LEFT   60
#define BOTTOM 320
#define TOP    40
#define RIGHT  700
#define TICKS  5

bool curve_add(curve_t *c, double x, double y)
{
    if (c->count == c->room) {
        size_t room = c->room ? 2 * c->room : 256;
        double *more_x = realloc(c->x, room * sizeof(double));
        double *more_y;

        if (more_x)
            c->x = more_x;
        more_y = realloc(c->y, room * sizeof(double));
        if (more_y)
            c->y = more_y;
        if (!more_x || !more_y)
            return false;
        c->room = room;
    }
    c->x[c->count] = x;
    c->y[c->count++] = y;
    return true;
}

void curve_free(curve_t *c)
{
    free(c->x);
    free(c->y);
    *c = (curve_t){.title = c->title};
}

/* Where numbers lie in the picture. */
typedef struct frame {
    double x_low, x_high, y_low, y_high;
} frame_t;

static double across(const frame_t *f, double x)
{
    return LEFT + (RIGHT - LEFT) * (x - f->x_low) / (f->x_high - f->x_low);
}

static double down(const frame_t *f, double y)
{
    return BOTTOM - (BOTTOM - TOP) * (y - f->y_low) / (f->y_high - f->y_low);
}

static frame_t frame_of(const curve_t *c)
{
    frame_t f = {c->x[0], c->x[c->count - 1], INFINITY, -INFINITY};

    for (size_t i = 0; i < c->count; i++) {
        f.y_low = fmin(f.y_low, c->y[i]);
        f.y_high = fmax(f.y_high, c->y[i]);
    }
    f.x_high = f.x_high > f.x_low ? f.x_high : f.x_low + 1;
    f.y_high = f.y_high > f.y_low ? f.y_high : f.y_low + 1;
    return f;
}

/* Each point is the mean of those around it, `reach` on each side. */
static void draw_line(FILE *file, const curve_t *c, const frame_t *f, size_t reach,
                      const char *style)
{
    fprintf(file, "<polyline fill=\"none\" %s points=\"", style);
    for (size_t i = 0; i < c->count; i++) {
        size_t first = i > reach ? i - reach : 0;
        size_t end = i + reach + 1 < c->count ? i + reach + 1 : c->count;
        double sum = 0;

        for (size_t k = first; k < end; k++)
            sum += c->y[k];
        fprintf(file, "%.1f,%.1f ", across(f, c->x[i]),
                down(f, sum / (double)(end - first)));
    }
    fprintf(file, "\"/>\n");
}

static void draw_axes(FILE *file, const curve_t *c, const frame_t *f)
{
    fprintf(file, "<text x=\"%d\" y=\"24\" font-size=\"16\">%s</text>\n", LEFT, c->title);
    for (int i = 0; i <= TICKS; i++) {
        double share = (double)i / TICKS;
        double x = f->x_low + share * (f->x_high - f->x_low);
        double y = f->y_low + share * (f->y_high - f->y_low);

        fprintf(file,
                "<line x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#ddd\"/>\n",
                LEFT, RIGHT, down(f, y), down(f, y));
        fprintf(file, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.4g</text>\n",
                LEFT - 6, down(f, y) + 4, y);
        fprintf(file, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%.6g</text>\n",
                across(f, x), BOTTOM + 18, x);
    }
}

bool curve_can_write(const char *path)
{
    const char *slash = strrchr(path, '/');
    char folder[PATH_MAX];
    struct stat info;

    if (stat(path, &info) == 0) {
        errno = EISDIR;
        return !S_ISDIR(info.st_mode) && access(path, W_OK) == 0;
    }
    snprintf(folder, sizeof(folder), "%.*s", slash ? (int)(slash - path) + 1 : 1,
             slash ? path : ".");
    return access(folder, W_OK | X_OK) == 0;
}

bool curve_write(const curve_t *c, const char *path)
{
    FILE *file = fopen(path, "we");
    bool failed;
    frame_t f;

    if (!file)
        return false;
    fprintf(file,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" "
            "font-family=\"sans-serif\" font-size=\"12\">\n"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
            WIDTH, HEIGHT);
    if (c->count > 0) {
        f = frame_of(c);
        draw_axes(file, c, &f);
        draw_line(file, c, &f, 0, "stroke=\"#9cc4ee\" stroke-width=\"0.6\"");
        draw_line(file, c, &f, c->count / 100, "stroke=\"#1a5fb4\" stroke-width=\"2\"");
    }
    fprintf(file, "</svg>\n");
    failed = ferror(file) != 0;
    return fclose(file) == 0 && !failed;
}
