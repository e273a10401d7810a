#include "engine/device/cuda/kernel_store.hpp"

#include <array>

#include "kernels/ptx/emit_ptx.hpp"

namespace terrane::engine::cuda {

namespace {

// What a workgroup may have without being asked for; more is allowed by an attribute.
constexpr std::uint32_t usual_shared_bytes = 48u << 10;

// The newest text that the card takes.
kernels::ptx_options text_for(const physical_device& p) {
  constexpr std::array<int, 5> known = {90, 89, 86, 80, oldest_capability};
  for (int sm : known)
    if (sm <= p.capability) return {.sm = static_cast<unsigned>(sm)};
  return {.sm = oldest_capability};
}

kernels::code_key key_of(const physical_device& p, std::uint64_t fingerprint) {
  return {"cuda " + p.info.driver, kernels::ptx_lowering_version, fingerprint};
}

// The driver's linker, which gives machine code that can be kept, and its words about errors.
class linker {
 public:
  explicit linker(const context& card) : card_(card) {}
  ~linker() {
    if (state_ != nullptr) (void)card_.functions().cuLinkDestroy(state_);
  }
  linker(const linker&) = delete;
  linker& operator=(const linker&) = delete;

  result<std::vector<std::byte>> link(std::string& ptx, const std::string& name) {
    const driver_functions& cu = card_.functions();
    std::array<CUjit_option, 2> options = {CU_JIT_ERROR_LOG_BUFFER,
                                           CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    std::array<void*, 2> values = {log_.data(), reinterpret_cast<void*>(log_.size())};
    result<void> ok = card_.check(cu.cuLinkCreate(static_cast<unsigned>(options.size()),
                                                  options.data(), values.data(), &state_),
                                  "cuLinkCreate");
    if (ok) {
      ok = said(
          card_.check_refusal(cu.cuLinkAddData(state_, CU_JIT_INPUT_PTX, ptx.data(), ptx.size() + 1,
                                               name.c_str(), 0, nullptr, nullptr),
                              "compiling kernel '" + name + "': cuLinkAddData"));
    }
    void* code = nullptr;
    std::size_t bytes = 0;
    if (ok)
      ok = said(card_.check_refusal(cu.cuLinkComplete(state_, &code, &bytes),
                                    "compiling kernel '" + name + "': cuLinkComplete"));
    if (!ok) return tl::unexpected<error>(ok.error());
    const auto* first = static_cast<const std::byte*>(code);
    return std::vector<std::byte>(first, first + bytes);
  }

 private:
  // Adds the first lines of the compiler's own message.
  result<void> said(result<void> outcome) const {
    if (outcome || log_[0] == '\0') return outcome;
    error e = outcome.error();
    e.message += ": " + std::string(log_.data()).substr(0, 400);
    return tl::unexpected<error>(e);
  }

  const context& card_;
  CUlinkState state_ = nullptr;
  std::array<char, 4096> log_{};
};

}  // namespace

kernel::~kernel() {
  (void)card_.functions().cuCtxSetCurrent(card_.handle());
  (void)card_.functions().cuModuleUnload(module_);
}

kernel_store::kernel_store(const context& card, const std::filesystem::path& folder)
    : card_(card), disk_(folder.string()) {}

result<const kernel*> kernel_store::get(const kernels::program& p) {
  if (result<void> ready = card_.enter(); !ready) return tl::unexpected<error>(ready.error());
  const std::uint64_t fingerprint = kernels::fingerprint(p);
  {
    std::lock_guard lock(access_);
    if (auto found = kernels_.find(fingerprint); found != kernels_.end())
      return found->second.get();
  }
  if (result<void> fits = check_limits(p); !fits) return tl::unexpected<error>(fits.error());
  result<std::unique_ptr<kernel>> made = make(p, fingerprint);
  if (!made) return tl::unexpected<error>(made.error());
  // Another thread may have been quicker; then this one's work goes.
  std::lock_guard lock(access_);
  return kernels_.try_emplace(fingerprint, std::move(*made)).first->second.get();
}

result<void> kernel_store::check_limits(const kernels::program& p) const {
  const physical_device& d = card_.physical();
  auto refuse = [&](const char* what, std::uint32_t wanted, std::uint32_t offered) {
    return fail(error_code::unsupported,
                "kernel '" + p.name + "' wants " + std::to_string(wanted) + " " + what +
                    "; the device offers " + std::to_string(offered),
                d.info.name);
  };
  const std::uint32_t shared = kernels::ptx_shared_bytes(p, text_for(d));
  if (shared > d.most_shared_bytes)
    return refuse("bytes of shared memory", shared, d.most_shared_bytes);
  const auto threads = static_cast<std::uint32_t>(kernels::warp_lanes * p.warps);
  if (threads > d.most_threads) return refuse("threads in a workgroup", threads, d.most_threads);
  return {};
}

result<std::unique_ptr<kernel>> kernel_store::make(const kernels::program& p,
                                                   std::uint64_t fingerprint) const {
  const kernels::code_key key = key_of(card_.physical(), fingerprint);
  if (std::optional<std::vector<std::byte>> kept = disk_.get(key)) {
    result<std::unique_ptr<kernel>> loaded = load(p, *kept);
    if (loaded || loaded.error().code != error_code::unsupported) return loaded;
  }
  result<std::vector<std::byte>> code = compile(p);
  if (!code) return tl::unexpected<error>(code.error());
  result<std::unique_ptr<kernel>> loaded = load(p, *code);
  if (loaded) disk_.put(key, *code);
  return loaded;
}

result<std::vector<std::byte>> kernel_store::compile(const kernels::program& p) const {
  result<std::string> ptx = kernels::emit_ptx(p, text_for(card_.physical()));
  if (!ptx) return tl::unexpected<error>(ptx.error());
  return linker(card_).link(*ptx, p.name);
}

result<std::unique_ptr<kernel>> kernel_store::load(const kernels::program& p,
                                                   const std::vector<std::byte>& code) const {
  const driver_functions& cu = card_.functions();
  const std::string of = "loading kernel '" + p.name + "': ";
  CUmodule module = nullptr;
  result<void> ok =
      card_.check_refusal(cu.cuModuleLoadData(&module, code.data()), of + "cuModuleLoadData");
  if (!ok) return tl::unexpected<error>(ok.error());
  auto made = std::make_unique<kernel>(card_, module);
  made->threads = static_cast<std::uint32_t>(kernels::warp_lanes * p.warps);
  made->shared_bytes = kernels::ptx_shared_bytes(p, text_for(card_.physical()));
  ok = card_.check_refusal(cu.cuModuleGetFunction(&made->function, module, kernels::ptx_entry),
                           of + "cuModuleGetFunction");
  // Asking loads it, where a driver would wait with that for the first launch.
  int most_threads = 0;
  if (ok) {
    ok = card_.check_refusal(
        cu.cuFuncGetAttribute(&most_threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK,
                              made->function),
        of + "cuFuncGetAttribute");
  }
  if (ok && most_threads < static_cast<int>(made->threads)) {
    ok = fail(error_code::unsupported,
              of + "it has " + std::to_string(made->threads) +
                  " threads in a workgroup, and with the registers it needs " +
                  std::to_string(most_threads) + " are possible",
              card_.physical().info.name);
  }
  if (ok && made->shared_bytes > usual_shared_bytes) {
    ok = card_.check_refusal(
        cu.cuFuncSetAttribute(made->function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                              static_cast<int>(made->shared_bytes)),
        of + "cuFuncSetAttribute");
  }
  if (!ok) return tl::unexpected<error>(ok.error());
  return made;
}

}  // namespace terrane::engine::cuda
