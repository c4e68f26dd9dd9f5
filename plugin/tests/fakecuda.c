/* SPDX-License-Identifier: Apache-2.0
 * A stand-in for the driver's library (libcuda.so.1), which the plugins ask whose memory an address is.
 * What is device memory, its user says. */
#include <stddef.h>
#include <stdint.h>

enum { SUCCESS = 0, INVALID_VALUE = 1, DEVICE_ORDINAL = 9, RANGES = 16 };

static struct {
    uint64_t start, bytes;
} ranges[RANGES];
static int count;

/* Questions so far. */
int fake_cuda_questions;

void fake_cuda_own(uint64_t start, uint64_t bytes)
{
    ranges[count].start = start;
    ranges[count].bytes = bytes;
    count++;
}

int cuPointerGetAttribute(void *data, int attribute, uint64_t pointer)
{
    fake_cuda_questions++;
    if (attribute != DEVICE_ORDINAL)
        return INVALID_VALUE;
    for (int i = 0; i < count; i++)
        if (pointer - ranges[i].start < ranges[i].bytes) {
            *(int *)data = i;
            return SUCCESS;
        }
    return INVALID_VALUE;
}
