#include "tests/engine/cuda/fake_driver.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>

#include <sys/mman.h>
#include <unistd.h>

namespace terrane::engine::cuda {

namespace {

struct fake_module {
  std::string name;
};
struct fake_stream {
  int card = 0;
  std::vector<fake_launch>* captured = nullptr;
};
struct fake_graph {
  std::vector<fake_launch> launches;
};
struct fake_memory {
  int card = 0;
  std::size_t bytes = 0, exportable_bytes = 0;
};
struct fake_link {
  char* log = nullptr;
  std::string code;
};

thread_local int current_card = -1;

// What cannot be seen from outside.
struct hidden_state {
  std::map<std::uint64_t, std::unique_ptr<fake_memory>> memory;           // handles of cuMemCreate
  std::map<std::uint64_t, std::pair<std::uint64_t, std::size_t>> mapped;  // address -> handle, size
  std::map<std::uint64_t, fake_memory> plain;                             // of cuMemAlloc
  std::set<std::uint64_t> imported;  // addresses of what other drivers exported
};
hidden_state& hidden() {
  static hidden_state h;
  return h;
}

fake_driver& fake() { return fake_driver::get(); }

// Notes a call; not CUDA_SUCCESS where the test wants it to fail.
CUresult called(const std::string& name) {
  fake_driver& f = fake();
  f.calls.push_back(name);
  if (auto once = f.fail_once.find(name); once != f.fail_once.end()) {
    const CUresult r = once->second;
    f.fail_once.erase(once);
    return r;
  }
  auto always = f.fail_always.find(name);
  return always == f.fail_always.end() ? CUDA_SUCCESS : always->second;
}

#define FAKE_CALL(name) \
  if (CUresult injected = called(name); injected != CUDA_SUCCESS) return injected

// The same of a call that needs a current context.
#define FAKE_CALL_ON_CARD(name) \
  FAKE_CALL(name);              \
  if (current_card < 0) return CUDA_ERROR_INVALID_CONTEXT

template <class Handle>
Handle make_handle(void* p) {
  fake().things++;
  return reinterpret_cast<Handle>(p);
}

int card_of(CUcontext c) { return static_cast<int>(reinterpret_cast<std::uintptr_t>(c)) - 1; }

CUresult attribute(int* value, CUdevice_attribute which, CUdevice d) {
  FAKE_CALL("cuDeviceGetAttribute");
  const fake_card& c = fake().cards[static_cast<std::size_t>(d)];
  switch (which) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      return *value = c.capability / 10, CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
      return *value = c.capability % 10, CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_MODE:
      return *value = c.compute_mode, CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_INTEGRATED:
      return *value = 0, CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      return *value = 1024, CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X:
      return *value = 0x7fffffff, CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y:
      return *value = 65535, CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
      return *value = 200 << 10, CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
      return *value = c.memory_mapping, CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED:
      return *value = c.exports, CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

// Where a copy's end lies: the memory of this process behind a card's address.
CUresult copy(void* to, const void* from, std::size_t bytes) {
  std::memcpy(to, from, bytes);
  fake().copies.push_back(bytes);
  return CUDA_SUCCESS;
}
void* here(CUdeviceptr address) { return reinterpret_cast<void*>(address); }

CUdeviceptr aligned_bytes(std::size_t alignment, std::size_t bytes) {
  return reinterpret_cast<CUdeviceptr>(
      std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment));
}

bool fits(int card, std::size_t bytes) {
  return fake().held_bytes(card) + bytes <= fake().cards[static_cast<std::size_t>(card)].bytes;
}

void fill_discovery(driver_functions& cu) {
  cu.cuInit = [](unsigned) -> CUresult {
    FAKE_CALL("cuInit");
    return fake().cards.empty() ? CUDA_ERROR_NO_DEVICE : CUDA_SUCCESS;
  };
  cu.cuDriverGetVersion = [](int* v) -> CUresult { return *v = fake().version, CUDA_SUCCESS; };
  cu.cuGetErrorName = [](CUresult r, const char** name) -> CUresult {
    static const std::map<CUresult, const char*> names = {
        {CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY"},
        {CUDA_ERROR_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS"},
        {CUDA_ERROR_INVALID_PTX, "CUDA_ERROR_INVALID_PTX"},
        {CUDA_ERROR_INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE"},
        {CUDA_ERROR_ECC_UNCORRECTABLE, "CUDA_ERROR_ECC_UNCORRECTABLE"},
    };
    auto found = names.find(r);
    if (found == names.end()) return CUDA_ERROR_INVALID_VALUE;
    return *name = found->second, CUDA_SUCCESS;
  };
  cu.cuDeviceGetCount = [](int* n) -> CUresult {
    return *n = static_cast<int>(fake().cards.size()), CUDA_SUCCESS;
  };
  cu.cuDeviceGet = [](CUdevice* d, int k) -> CUresult { return *d = k, CUDA_SUCCESS; };
  cu.cuDeviceGetName = [](char* name, int room, CUdevice d) -> CUresult {
    std::strncpy(name, fake().cards[static_cast<std::size_t>(d)].name.c_str(),
                 static_cast<std::size_t>(room) - 1);
    return CUDA_SUCCESS;
  };
  cu.cuDeviceGetUuid = [](CUuuid* u, CUdevice d) -> CUresult {
    FAKE_CALL("cuDeviceGetUuid");
    std::memset(u, 0, sizeof *u);
    u->bytes[0] = static_cast<char>(fake().cards[static_cast<std::size_t>(d)].uuid);
    return CUDA_SUCCESS;
  };
  cu.cuDeviceTotalMem = [](std::size_t* n, CUdevice d) -> CUresult {
    return *n = fake().cards[static_cast<std::size_t>(d)].bytes, CUDA_SUCCESS;
  };
  cu.cuDeviceGetAttribute = attribute;
  cu.cuDeviceCanAccessPeer = [](int* can, CUdevice a, CUdevice b) -> CUresult {
    *can = fake().cards[static_cast<std::size_t>(a)].peers &&
           fake().cards[static_cast<std::size_t>(b)].peers;
    return CUDA_SUCCESS;
  };
}

void fill_context(driver_functions& cu) {
  cu.cuDevicePrimaryCtxSetFlags = [](CUdevice, unsigned) -> CUresult { return CUDA_SUCCESS; };
  cu.cuDevicePrimaryCtxRetain = [](CUcontext* c, CUdevice d) -> CUresult {
    FAKE_CALL("cuDevicePrimaryCtxRetain");
    fake().things++;
    *c = reinterpret_cast<CUcontext>(static_cast<std::uintptr_t>(d) + 1);
    return CUDA_SUCCESS;
  };
  cu.cuDevicePrimaryCtxRelease = [](CUdevice) -> CUresult { return fake().things--, CUDA_SUCCESS; };
  cu.cuCtxSetCurrent = [](CUcontext c) -> CUresult {
    return current_card = card_of(c), CUDA_SUCCESS;
  };
  cu.cuStreamCreateWithPriority = [](CUstream* s, unsigned, int) -> CUresult {
    FAKE_CALL_ON_CARD("cuStreamCreateWithPriority");
    *s = make_handle<CUstream>(new fake_stream{current_card, nullptr});
    return CUDA_SUCCESS;
  };
  cu.cuStreamDestroy = [](CUstream s) -> CUresult {
    delete reinterpret_cast<fake_stream*>(s);
    return fake().things--, CUDA_SUCCESS;
  };
  cu.cuStreamSynchronize = [](CUstream) -> CUresult {
    FAKE_CALL_ON_CARD("cuStreamSynchronize");
    return CUDA_SUCCESS;
  };
  cu.cuEventCreate = [](CUevent* e, unsigned) -> CUresult {
    FAKE_CALL_ON_CARD("cuEventCreate");
    *e = make_handle<CUevent>(new int(0));
    return CUDA_SUCCESS;
  };
  cu.cuEventDestroy = [](CUevent e) -> CUresult {
    delete reinterpret_cast<int*>(e);
    return fake().things--, CUDA_SUCCESS;
  };
  cu.cuEventRecord = [](CUevent, CUstream) -> CUresult {
    FAKE_CALL_ON_CARD("cuEventRecord");
    return CUDA_SUCCESS;
  };
  cu.cuEventQuery = [](CUevent) -> CUresult {
    FAKE_CALL_ON_CARD("cuEventQuery");
    return CUDA_SUCCESS;
  };
  cu.cuEventSynchronize = [](CUevent) -> CUresult {
    FAKE_CALL_ON_CARD("cuEventSynchronize");
    return CUDA_SUCCESS;
  };
}

void fill_mapped_memory(driver_functions& cu) {
  cu.cuMemGetAllocationGranularity = [](std::size_t* n, const CUmemAllocationProp*,
                                        CUmemAllocationGranularity_flags) -> CUresult {
    return *n = std::size_t{2} << 20, CUDA_SUCCESS;
  };
  cu.cuMemCreate = [](CUmemGenericAllocationHandle* h, std::size_t bytes,
                      const CUmemAllocationProp* kind, unsigned long long) -> CUresult {
    FAKE_CALL("cuMemCreate");
    if (!fits(kind->location.id, bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
    static std::uint64_t number = 100;
    *h = ++number;
    const std::size_t exportable = kind->requestedHandleTypes != 0 ? bytes : 0;
    hidden().memory[*h] =
        std::make_unique<fake_memory>(fake_memory{kind->location.id, bytes, exportable});
    fake().exportable_bytes += exportable;
    return fake().things++, CUDA_SUCCESS;
  };
  cu.cuMemRelease = [](CUmemGenericAllocationHandle h) -> CUresult {
    fake().calls.emplace_back("cuMemRelease");
    auto found = hidden().memory.find(h);
    if (found == hidden().memory.end()) return CUDA_ERROR_INVALID_VALUE;
    fake().exportable_bytes -= found->second->exportable_bytes;
    hidden().memory.erase(found);
    return fake().things--, CUDA_SUCCESS;
  };
  cu.cuMemAddressReserve = [](CUdeviceptr* at, std::size_t bytes, std::size_t alignment,
                              CUdeviceptr, unsigned long long) -> CUresult {
    FAKE_CALL("cuMemAddressReserve");
    *at = aligned_bytes(alignment, bytes);
    return fake().things++, CUDA_SUCCESS;
  };
  cu.cuMemAddressFree = [](CUdeviceptr at, std::size_t) -> CUresult {
    fake().calls.emplace_back("cuMemAddressFree");
    std::free(here(at));
    return fake().things--, CUDA_SUCCESS;
  };
  cu.cuMemMap = [](CUdeviceptr at, std::size_t bytes, std::size_t, CUmemGenericAllocationHandle h,
                   unsigned long long) -> CUresult {
    FAKE_CALL("cuMemMap");
    hidden().mapped[at] = {h, bytes};
    return fake().things++, CUDA_SUCCESS;
  };
  cu.cuMemUnmap = [](CUdeviceptr at, std::size_t bytes) -> CUresult {
    fake().calls.emplace_back("cuMemUnmap");
    auto found = hidden().mapped.find(at);
    if (found == hidden().mapped.end() || found->second.second != bytes)
      return CUDA_ERROR_INVALID_VALUE;
    hidden().mapped.erase(found);
    std::erase_if(fake().seen, [&](const auto& s) { return s.second == at; });
    return fake().things--, CUDA_SUCCESS;
  };
  cu.cuMemSetAccess = [](CUdeviceptr at, std::size_t, const CUmemAccessDesc* who,
                         std::size_t count) -> CUresult {
    FAKE_CALL("cuMemSetAccess");
    for (std::size_t k = 0; k < count; k++) fake().seen.insert({who[k].location.id, at});
    return CUDA_SUCCESS;
  };
}

void fill_memory(driver_functions& cu) {
  cu.cuMemGetInfo = [](std::size_t* free, std::size_t* total) -> CUresult {
    FAKE_CALL_ON_CARD("cuMemGetInfo");
    *total = fake().cards[static_cast<std::size_t>(current_card)].bytes;
    *free = *total - fake().held_bytes(current_card);
    return CUDA_SUCCESS;
  };
  cu.cuMemAlloc = [](CUdeviceptr* at, std::size_t bytes) -> CUresult {
    FAKE_CALL_ON_CARD("cuMemAlloc");
    if (!fits(current_card, bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
    *at = aligned_bytes(256, bytes);
    hidden().plain[*at] = {current_card, bytes, 0};
    return fake().things++, CUDA_SUCCESS;
  };
  cu.cuMemFree = [](CUdeviceptr at) -> CUresult {
    if (hidden().imported.erase(at) != 0) return fake().things--, CUDA_SUCCESS;
    if (hidden().plain.erase(at) == 0) return CUDA_ERROR_INVALID_VALUE;
    std::free(here(at));
    return fake().things--, CUDA_SUCCESS;
  };
  cu.cuMemHostAlloc = [](void** at, std::size_t bytes, unsigned) -> CUresult {
    FAKE_CALL_ON_CARD("cuMemHostAlloc");
    *at = std::malloc(bytes);
    fake().pinned_bytes += bytes;
    return fake().things++, CUDA_SUCCESS;
  };
  cu.cuMemFreeHost = [](void* at) -> CUresult {
    std::free(at);
    return fake().things--, CUDA_SUCCESS;
  };
  cu.cuMemcpyHtoDAsync = [](CUdeviceptr to, const void* from, std::size_t n, CUstream) -> CUresult {
    FAKE_CALL_ON_CARD("cuMemcpyHtoDAsync");
    return copy(here(to), from, n);
  };
  cu.cuMemcpyDtoHAsync = [](void* to, CUdeviceptr from, std::size_t n, CUstream) -> CUresult {
    FAKE_CALL_ON_CARD("cuMemcpyDtoHAsync");
    return copy(to, here(from), n);
  };
  cu.cuMemcpyPeerAsync = [](CUdeviceptr to, CUcontext, CUdeviceptr from, CUcontext, std::size_t n,
                            CUstream) -> CUresult {
    FAKE_CALL_ON_CARD("cuMemcpyPeerAsync");
    copy(here(to), here(from), n);
    if (fake().peer_damages) *static_cast<unsigned char*>(here(to)) ^= 1;
    return CUDA_SUCCESS;
  };
}

// What another driver exported is a file that can be mapped.
struct fake_import {
  void* at = nullptr;
  std::size_t bytes = 0;
};

void fill_imports(driver_functions& cu) {
  cu.cuImportExternalMemory = [](CUexternalMemory* m,
                                 const CUDA_EXTERNAL_MEMORY_HANDLE_DESC* what) -> CUresult {
    FAKE_CALL_ON_CARD("cuImportExternalMemory");
    void* at = ::mmap(nullptr, what->size, PROT_READ | PROT_WRITE, MAP_SHARED, what->handle.fd, 0);
    if (at == MAP_FAILED) return CUDA_ERROR_OPERATING_SYSTEM;
    ::close(what->handle.fd);
    *m = make_handle<CUexternalMemory>(new fake_import{at, what->size});
    return CUDA_SUCCESS;
  };
  cu.cuExternalMemoryGetMappedBuffer = [](CUdeviceptr* at, CUexternalMemory m,
                                          const CUDA_EXTERNAL_MEMORY_BUFFER_DESC* d) -> CUresult {
    FAKE_CALL_ON_CARD("cuExternalMemoryGetMappedBuffer");
    const auto* import = reinterpret_cast<fake_import*>(m);
    if (d->offset + d->size > import->bytes) return CUDA_ERROR_INVALID_VALUE;
    *at = reinterpret_cast<CUdeviceptr>(import->at);
    hidden().imported.insert(*at);
    return fake().things++, CUDA_SUCCESS;
  };
  cu.cuDestroyExternalMemory = [](CUexternalMemory m) -> CUresult {
    auto* import = reinterpret_cast<fake_import*>(m);
    ::munmap(import->at, import->bytes);
    delete import;
    return fake().things--, CUDA_SUCCESS;
  };
}

void fill_code(driver_functions& cu) {
  cu.cuLinkCreate = [](unsigned n, CUjit_option* options, void** values,
                       CUlinkState* s) -> CUresult {
    FAKE_CALL_ON_CARD("cuLinkCreate");
    auto* link = new fake_link;
    for (unsigned k = 0; k < n; k++)
      if (options[k] == CU_JIT_ERROR_LOG_BUFFER) link->log = static_cast<char*>(values[k]);
    return *s = make_handle<CUlinkState>(link), CUDA_SUCCESS;
  };
  // The "machine code" is the kernel's name after a mark.
  cu.cuLinkAddData = [](CUlinkState s, CUjitInputType, void* text, std::size_t, const char* name,
                        unsigned, CUjit_option*, void**) -> CUresult {
    auto* link = reinterpret_cast<fake_link*>(s);
    fake().linked = static_cast<const char*>(text);
    if (CUresult injected = called("cuLinkAddData"); injected != CUDA_SUCCESS) {
      if (link->log != nullptr) std::strcpy(link->log, fake().compiler_says.c_str());
      return injected;
    }
    link->code = std::string("code:") + name;
    return CUDA_SUCCESS;
  };
  cu.cuLinkComplete = [](CUlinkState s, void** code, std::size_t* bytes) -> CUresult {
    FAKE_CALL("cuLinkComplete");
    auto* link = reinterpret_cast<fake_link*>(s);
    *code = link->code.data();
    return *bytes = link->code.size() + 1, CUDA_SUCCESS;
  };
  cu.cuLinkDestroy = [](CUlinkState s) -> CUresult {
    delete reinterpret_cast<fake_link*>(s);
    return fake().things--, CUDA_SUCCESS;
  };
  cu.cuModuleLoadData = [](CUmodule* m, const void* code) -> CUresult {
    FAKE_CALL_ON_CARD("cuModuleLoadData");
    if (std::memcmp(code, "code:", 5) != 0) return CUDA_ERROR_INVALID_IMAGE;
    auto* made = new fake_module{static_cast<const char*>(code) + 5};
    return *m = make_handle<CUmodule>(made), CUDA_SUCCESS;
  };
  cu.cuModuleUnload = [](CUmodule m) -> CUresult {
    delete reinterpret_cast<fake_module*>(m);
    return fake().things--, CUDA_SUCCESS;
  };
  cu.cuModuleGetFunction = [](CUfunction* f, CUmodule m, const char*) -> CUresult {
    FAKE_CALL("cuModuleGetFunction");
    return *f = reinterpret_cast<CUfunction>(m), CUDA_SUCCESS;
  };
  cu.cuFuncGetAttribute = [](int* n, CUfunction_attribute, CUfunction) -> CUresult {
    FAKE_CALL("cuFuncGetAttribute");
    return *n = fake().most_threads, CUDA_SUCCESS;
  };
  cu.cuFuncSetAttribute = [](CUfunction, CUfunction_attribute, int n) -> CUresult {
    FAKE_CALL("cuFuncSetAttribute");
    fake().calls.back() += " " + std::to_string(n);
    return CUDA_SUCCESS;
  };
}

void fill_graphs(driver_functions& cu) {
  cu.cuStreamBeginCapture = [](CUstream s, CUstreamCaptureMode) -> CUresult {
    FAKE_CALL_ON_CARD("cuStreamBeginCapture");
    auto* stream = reinterpret_cast<fake_stream*>(s);
    if (stream->captured != nullptr) return CUDA_ERROR_ILLEGAL_STATE;
    return stream->captured = new std::vector<fake_launch>, CUDA_SUCCESS;
  };
  cu.cuStreamEndCapture = [](CUstream s, CUgraph* g) -> CUresult {
    auto* stream = reinterpret_cast<fake_stream*>(s);
    auto* made = new fake_graph{std::move(*stream->captured)};
    delete stream->captured;
    stream->captured = nullptr;
    *g = make_handle<CUgraph>(made);
    FAKE_CALL_ON_CARD("cuStreamEndCapture");
    return CUDA_SUCCESS;
  };
  cu.cuLaunchKernelEx = [](const CUlaunchConfig* c, CUfunction f, void** parameters,
                           void**) -> CUresult {
    FAKE_CALL_ON_CARD("cuLaunchKernelEx");
    auto* stream = reinterpret_cast<fake_stream*>(c->hStream);
    if (stream->captured == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
    fake_launch launch;
    launch.kernel = reinterpret_cast<fake_module*>(f)->name;
    launch.groups_x = c->gridDimX;
    launch.groups_y = c->gridDimY;
    launch.threads = c->blockDimX;
    launch.shared_bytes = c->sharedMemBytes;
    const auto* words = static_cast<const std::uint64_t*>(parameters[0]);
    launch.arguments.assign(words, words + 16);
    return stream->captured->push_back(std::move(launch)), CUDA_SUCCESS;
  };
  cu.cuGraphInstantiateWithFlags = [](CUgraphExec* e, CUgraph g, unsigned long long) -> CUresult {
    FAKE_CALL_ON_CARD("cuGraphInstantiateWithFlags");
    *e = make_handle<CUgraphExec>(new fake_graph(*reinterpret_cast<fake_graph*>(g)));
    return CUDA_SUCCESS;
  };
  cu.cuGraphUpload = [](CUgraphExec, CUstream) -> CUresult {
    FAKE_CALL_ON_CARD("cuGraphUpload");
    return CUDA_SUCCESS;
  };
  cu.cuGraphLaunch = [](CUgraphExec e, CUstream) -> CUresult {
    FAKE_CALL_ON_CARD("cuGraphLaunch");
    for (const fake_launch& l : reinterpret_cast<fake_graph*>(e)->launches) fake().run.push_back(l);
    return CUDA_SUCCESS;
  };
  cu.cuGraphDestroy = [](CUgraph g) -> CUresult {
    delete reinterpret_cast<fake_graph*>(g);
    return fake().things--, CUDA_SUCCESS;
  };
  cu.cuGraphExecDestroy = [](CUgraphExec e) -> CUresult {
    delete reinterpret_cast<fake_graph*>(e);
    return fake().things--, CUDA_SUCCESS;
  };
}

}  // namespace

fake_driver& fake_driver::get() {
  static fake_driver one;
  return one;
}

void fake_driver::reset() { *this = fake_driver(); }

driver fake_driver::table() const {
  driver d;
  fill_discovery(d.functions);
  fill_context(d.functions);
  fill_mapped_memory(d.functions);
  fill_memory(d.functions);
  fill_imports(d.functions);
  fill_code(d.functions);
  fill_graphs(d.functions);
  d.version = version;
  d.release = "999.1";
  return d;
}

std::size_t fake_driver::held_bytes(int card) const {
  std::size_t sum = 0;
  for (const auto& [handle, m] : hidden().memory) sum += m->card == card ? m->bytes : 0;
  for (const auto& [address, m] : hidden().plain) sum += m.card == card ? m.bytes : 0;
  return sum;
}

std::size_t fake_driver::count(const std::string& call) const {
  return static_cast<std::size_t>(std::count(calls.begin(), calls.end(), call));
}

std::vector<std::string> fake_driver::calls_since(std::size_t start) const {
  return {calls.begin() + static_cast<std::ptrdiff_t>(start), calls.end()};
}

}  // namespace terrane::engine::cuda
