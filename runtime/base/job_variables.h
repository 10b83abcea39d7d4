/* SPDX-License-Identifier: Apache-2.0 */
/* Variables by which nodes hear of the Python environment or the image that a job was submitted
 * with, and of the time for it. Those of its folder are in net/protocol.h.
 *
 * Where it sits
 *     http/submission.c (set), control/control_job_queue.c -> node/jobs/python.c, image.c,
 *     crt-unpack
 */
#ifndef CRTI_BASE_JOB_VARIABLES_H
#define CRTI_BASE_JOB_VARIABLES_H

/* Lines of requirements, from which pip or uv makes one on each node; the name of one that conda
 * has there; and where the one that was made lies on the driver's node. */
#define CRTI_JOB_PIP    "CRT_JOB_PIP"
#define CRTI_JOB_UV     "CRT_JOB_UV"
#define CRTI_JOB_CONDA  "CRT_JOB_CONDA"
#define CRTI_JOB_PYTHON "CRT_JOB_PYTHON"

/* Name of an image, whose files the job's processes see. */
#define CRTI_JOB_IMAGE     "CRT_JOB_IMAGE"
#define CRTI_JOB_IMAGE_MAX 256 /* bytes, with the final zero */

/* How long each of them, and the folder, may take: seconds, -1: without an end. */
#define CRTI_JOB_SETUP_SECONDS "CRT_JOB_SETUP_SECONDS"

#endif
