// The CUDA driver library, opened at run time, and the entry points used here.
//
// Entry points are members with CUDA's own names, so a call reads `cu.cuMemCreate(...)`. cuda.h
// renames some of them by version (cuMemAlloc is cuMemAlloc_v2): member and symbol follow it, so
// structures always have the layout that this build knows. A table is a plain value; tests fill one
// of their own. The library stays open for the life of the process. Any thread.
#pragma once

#include <string>

#include <cuda.h>

#include "kernels/result.hpp"

namespace terrane::engine::cuda {

#define TERRANE_CUDA_FUNCTIONS(X)    \
  X(cuInit)                          \
  X(cuDriverGetVersion)              \
  X(cuGetErrorName)                  \
  X(cuDeviceGetCount)                \
  X(cuDeviceGet)                     \
  X(cuDeviceGetName)                 \
  X(cuDeviceGetUuid)                 \
  X(cuDeviceTotalMem)                \
  X(cuDeviceGetAttribute)            \
  X(cuDeviceCanAccessPeer)           \
  X(cuDevicePrimaryCtxRetain)        \
  X(cuDevicePrimaryCtxRelease)       \
  X(cuDevicePrimaryCtxSetFlags)      \
  X(cuCtxSetCurrent)                 \
  X(cuStreamCreateWithPriority)      \
  X(cuStreamDestroy)                 \
  X(cuStreamSynchronize)             \
  X(cuStreamBeginCapture)            \
  X(cuStreamEndCapture)              \
  X(cuEventCreate)                   \
  X(cuEventDestroy)                  \
  X(cuEventRecord)                   \
  X(cuEventQuery)                    \
  X(cuEventSynchronize)              \
  X(cuMemGetInfo)                    \
  X(cuMemAlloc)                      \
  X(cuMemFree)                       \
  X(cuMemHostAlloc)                  \
  X(cuMemFreeHost)                   \
  X(cuMemGetAllocationGranularity)   \
  X(cuMemCreate)                     \
  X(cuMemRelease)                    \
  X(cuMemAddressReserve)             \
  X(cuMemAddressFree)                \
  X(cuMemMap)                        \
  X(cuMemUnmap)                      \
  X(cuMemSetAccess)                  \
  X(cuMemcpyHtoDAsync)               \
  X(cuMemcpyDtoHAsync)               \
  X(cuMemcpyPeerAsync)               \
  X(cuImportExternalMemory)          \
  X(cuExternalMemoryGetMappedBuffer) \
  X(cuDestroyExternalMemory)         \
  X(cuLinkCreate)                    \
  X(cuLinkAddData)                   \
  X(cuLinkComplete)                  \
  X(cuLinkDestroy)                   \
  X(cuModuleLoadData)                \
  X(cuModuleUnload)                  \
  X(cuModuleGetFunction)             \
  X(cuFuncGetAttribute)              \
  X(cuFuncSetAttribute)              \
  X(cuLaunchKernelEx)                \
  X(cuGraphInstantiateWithFlags)     \
  X(cuGraphUpload)                   \
  X(cuGraphLaunch)                   \
  X(cuGraphDestroy)                  \
  X(cuGraphExecDestroy)

#define TERRANE_CUDA_MEMBER(name) decltype(&::name) name = nullptr;
struct driver_functions {
  TERRANE_CUDA_FUNCTIONS(TERRANE_CUDA_MEMBER)
};
#undef TERRANE_CUDA_MEMBER

struct driver {
  driver_functions functions;
  int version = 0;      // 12040: CUDA 12.4
  std::string release;  // "580.82.07", or empty where the kernel module does not say
};

// The machine's driver, started once. Fails with `unsupported` where there is none, it finds no
// GPU, or it is older than oldest_driver.
result<const driver*> open_driver();

// Looks at what cuInit and cuDriverGetVersion say of a table and fills in the version.
result<void> start(driver& d);

inline constexpr int oldest_driver = 12000;

// "CUDA_ERROR_ILLEGAL_ADDRESS" and so on; the number where the driver does not know the name.
std::string name_of(const driver_functions& cu, CUresult r);
// "12.4" of 12040.
std::string version_text(int version);

}  // namespace terrane::engine::cuda
