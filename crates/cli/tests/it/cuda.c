/* A stand-in for libcuda.so.1 with one device, whose memory is the host's: enough for `gpu-tune bench` to run. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int cuInit(unsigned flags) { return flags ? 1 : 0; }
int cuDeviceGetCount(int *count) { *count = 1; return 0; }
int cuDeviceGet(int *device, int index) { *device = 40 + index; return index ? 101 : 0; }
int cuDeviceGetPCIBusId(char *text, int len, int device)
{
    const char *pci = getenv("FAKE_CUDA_PCI");
    return device == 40 && pci ? snprintf(text, len, "%s", pci) >= len : 101;
}
int cuDevicePrimaryCtxRetain(void **context, int device) { *context = &*context; return device != 40; }
int cuCtxSetCurrent(void *context) { return !context; }
int cuCtxSynchronize(void) { return 0; }
int cuMemHostAlloc(void **p, size_t n, unsigned flags) { *p = malloc(n); return flags || !*p ? 2 : 0; }
int cuMemFreeHost(void *p) { free(p); return 0; }
int cuMemAlloc_v2(unsigned long long *p, size_t n) { *p = (unsigned long long)malloc(n); return !*p; }
int cuMemFree_v2(unsigned long long p) { free((void *)p); return 0; }
int cuMemcpyHtoD_v2(unsigned long long to, const void *from, size_t n) { memcpy((void *)to, from, n); return 0; }
