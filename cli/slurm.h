/* SPDX-License-Identifier: Apache-2.0 */
/* What crt slurm and its nodes say to each other: lines of the first node's standard output. */
#ifndef CRTI_CLI_SLURM_H
#define CRTI_CLI_SLURM_H

#define SLURM_MARK "\001crt-slurm-" /* wherever it stands; no program says it by chance */
#define SLURM_HEAD SLURM_MARK "head " /* ADDRESS, and the key in sealed form */
#define SLURM_DONE SLURM_MARK "done"  /* the program has ended: nodes may */

#endif
