/* SPDX-License-Identifier: Apache-2.0 */
/* A run of a sweep, for test_sweep.py: sweep_program --lr X --model NAME [--steps N] [--ms N] [--fail]. Reports loss and step;
 * the loss falls towards a value that follows from the arguments. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <crt.h>

static const char *option(int argc, char **argv, const char *name, const char *fallback)
{
    for (int i = 1; i + 1 < argc; i++)
        if (strcmp(argv[i], name) == 0)
            return argv[i + 1];
    return fallback;
}

static int driver(int argc, char **argv)
{
    double lr = atof(option(argc, argv, "--lr", "0.1"));
    double worst = strcmp(option(argc, argv, "--model", "mlp"), "cnn") == 0 ? 1 : 2;
    long steps = atol(option(argc, argv, "--steps", "3"));
    long ms = atol(option(argc, argv, "--ms", "0"));
    crt_gauge_t *loss, *step;

    CRT_CHECK(crt_gauge("loss", "What is minimised.", NULL, &loss));
    CRT_CHECK(crt_gauge("step", "Steps that were done.", NULL, &step));
    for (long i = 1; i <= steps; i++) {
        crt_gauge_set(loss, worst + lr + 1.0 / (double)i);
        crt_gauge_set(step, (double)i);
        nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
    }
    printf("lr %g model %s\n", lr, option(argc, argv, "--model", "mlp"));
    return strcmp(argv[argc - 1], "--fail") == 0;
}

int main(int argc, char **argv)
{
    return crt_main(argc, argv, CRT_OPTIONS(), driver);
}
