// A CUDA driver and NVRTC in one library, without a GPU: memory is the host's, and kernels compute nothing. After
// MCVI_FAKE_LAUNCHES launches whatever waits for the GPU or uses its memory fails, as it does where one has fallen off its
// bus; MCVI_FAKE_MEMORY is how many bytes it gives away, all in all.
#include <stdlib.h>
#include <string.h>

typedef int Result;
typedef unsigned long long Address;
enum { OK = 0, OUT_OF_MEMORY = 2, LOST = 719 };

static long most(const char *name) {
    const char *value = getenv(name);
    return value ? atol(value) : 1L << 40;
}

static long launches, taken;
static Result state(void) {
    return __atomic_load_n(&launches, __ATOMIC_SEQ_CST) > most("MCVI_FAKE_LAUNCHES") ? LOST : OK;
}

Result cuInit(unsigned flags) { return OK; }
Result cuDriverGetVersion(int *version) { *version = 13000; return OK; }
Result cuDeviceGetCount(int *count) { *count = 1; return OK; }
Result cuDeviceGet(int *device, int ordinal) { *device = ordinal; return OK; }
Result cuDeviceGetAttribute(int *value, int attribute, int device) {
    // Multiprocessors, the compute capability, and shared memory of a block.
    *value = attribute == 16 ? 4 : attribute == 75 ? 9 : attribute == 97 ? 227 << 10 : 0;
    return OK;
}
Result cuDevicePrimaryCtxRetain(void **context, int device) { *context = (void *)1; return OK; }
Result cuDevicePrimaryCtxRelease_v2(int device) { return OK; }
Result cuCtxSetCurrent(void *context) { return OK; }
Result cuCtxGetCurrent(void **context) { *context = (void *)1; return OK; }
Result cuStreamCreate(void **stream, unsigned flags) { *stream = (void *)1; return state(); }
Result cuStreamDestroy_v2(void *stream) { return state(); }
Result cuStreamSynchronize(void *stream) { return state(); }
Result cuCtxSynchronize(void) { return state(); }
Result cuEventCreate(void **event, unsigned flags) { *event = (void *)1; return state(); }
Result cuEventDestroy_v2(void *event) { return state(); }
Result cuEventRecord(void *event, void *stream) { return state(); }
Result cuStreamWaitEvent(void *stream, void *event, unsigned flags) { return state(); }
Result cuMemAlloc_v2(Address *address, size_t bytes) {
    if (__atomic_add_fetch(&taken, bytes, __ATOMIC_SEQ_CST) > most("MCVI_FAKE_MEMORY")) return OUT_OF_MEMORY;
    *address = (Address)malloc(bytes);
    return state();
}
Result cuMemFree_v2(Address address) { free((void *)address); return state(); }
Result cuMemGetInfo_v2(size_t *left, size_t *total) { *total = most("MCVI_FAKE_MEMORY"); *left = 0; return state(); }
Result cuMemcpyHtoDAsync_v2(Address to, const void *from, size_t n, void *stream) { memcpy((void *)to, from, n); return state(); }
Result cuMemcpyDtoHAsync_v2(void *to, Address from, size_t n, void *stream) { memcpy(to, (void *)from, n); return state(); }
Result cuMemcpyDtoDAsync_v2(Address to, Address from, size_t n, void *stream) { memcpy((void *)to, (void *)from, n); return state(); }
Result cuMemsetD8Async(Address at, unsigned char value, size_t n, void *stream) { memset((void *)at, value, n); return state(); }
Result cuModuleLoadData(void **module, const void *image) { *module = (void *)1; return state(); }
Result cuModuleUnload(void *module) { return state(); }
Result cuModuleGetFunction(void **function, void *module, const char *name) { *function = (void *)1; return state(); }
Result cuFuncSetAttribute(void *function, int attribute, int value) { return state(); }
Result cuLaunchCooperativeKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                                 unsigned shared, void *stream, void **arguments) {
    __atomic_add_fetch(&launches, 1, __ATOMIC_SEQ_CST);
    return OK;
}
Result cuGetErrorString(Result error, const char **text) {
    *text = error == LOST ? "unspecified launch failure" : "out of memory";
    return OK;
}

Result nvrtcVersion(int *major, int *minor) { *major = 13; *minor = 0; return OK; }
Result nvrtcCreateProgram(void **program, const char *source, const char *name, int headers, const char *const *texts,
                          const char *const *names) {
    *program = (void *)1;
    return OK;
}
Result nvrtcCompileProgram(void *program, int count, const char *const *options) { return OK; }
Result nvrtcGetProgramLogSize(void *program, size_t *size) { *size = 1; return OK; }
Result nvrtcGetProgramLog(void *program, char *log) { *log = 0; return OK; }
Result nvrtcGetCUBINSize(void *program, size_t *size) { *size = 4; return OK; }
Result nvrtcGetCUBIN(void *program, char *code) { memcpy(code, "none", 4); return OK; }
Result nvrtcDestroyProgram(void **program) { return OK; }
