/* SPDX-License-Identifier: Apache-2.0 */
/* crt microbenchmark. */
#ifndef CRT_CLI_MICROBENCHMARK_H
#define CRT_CLI_MICROBENCHMARK_H

/* The command; argv[0] is its name, argv[-1] is "crt". A worker of the benchmark comes through
 * here, too, and does not come back. */
int crt_microbenchmark_main(int argc, char **argv);

#endif
