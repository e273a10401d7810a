#include "kernels/llvm/host_compiler.hpp"

#include <cstdio>
#include <map>
#include <mutex>

#include <llvm/ExecutionEngine/Orc/LLJIT.h>
#include <llvm/Support/MemoryBuffer.h>

#include "kernels/llvm/compile.hpp"
#include "kernels/llvm/target.hpp"

namespace terrane::kernels {

namespace {

tl::unexpected<error> fault(const std::string& what, llvm::Error e) {
  return fail(error_code::unsupported, what + ": " + llvm::toString(std::move(e)));
}

}  // namespace

class host_compiler::state {
 public:
  state(std::unique_ptr<llvm::orc::LLJIT> jit, const code_cache* cache, std::string processor,
        const target_features& features)
      : jit_(std::move(jit)),
        cache_(cache),
        processor_(std::move(processor)),
        identity_(host_identity(processor_)),
        has_tiles_(features.amx_int8) {}

  result<group_function> compile(const program& p);
  const std::string& identity() const { return identity_; }
  bool has_tiles() const { return has_tiles_; }

 private:
  result<std::vector<std::byte>> object(const program& p, const std::string& symbol);
  result<group_function> link(const std::vector<std::byte>& object, const std::string& name,
                              const std::string& symbol);

  std::unique_ptr<llvm::orc::LLJIT> jit_;
  const code_cache* cache_;
  std::string processor_;
  std::string identity_;
  bool has_tiles_;
  std::mutex mutex_;                             // of what follows
  std::map<std::string, group_function> known_;  // by the program's text
  unsigned linked_ = 0;
};

result<group_function> host_compiler::state::compile(const program& p) {
  std::string text = to_text(p);
  {
    std::lock_guard lock(mutex_);
    if (auto found = known_.find(text); found != known_.end()) return found->second;
  }
  constexpr const char* symbol = "terrane_kernel";
  auto code = object(p, symbol);
  if (!code) return tl::unexpected(code.error());
  std::lock_guard lock(mutex_);
  if (auto found = known_.find(text); found != known_.end()) return found->second;
  auto function = link(*code, p.name, symbol);
  if (function) known_.emplace(std::move(text), *function);
  return function;
}

result<std::vector<std::byte>> host_compiler::state::object(const program& p,
                                                            const std::string& symbol) {
  code_key key{identity_, llvm_lowering_version, fingerprint(p)};
  if (cache_ != nullptr) {
    if (auto found = cache_->get(key)) return std::move(*found);
  }
  auto made = host_object(p, symbol, processor_);
  if (made && cache_ != nullptr) cache_->put(key, *made);
  return made;
}

// Each object is a library of its own, so that all may use the same symbol.
result<group_function> host_compiler::state::link(const std::vector<std::byte>& object,
                                                  const std::string& name,
                                                  const std::string& symbol) {
  auto library = jit_->createJITDylib(name + "." + std::to_string(linked_++));
  if (!library) return fault("kernel program '" + name + "'", library.takeError());
  library->addToLinkOrder(*jit_->getProcessSymbolsJITDylib());
  auto buffer = llvm::MemoryBuffer::getMemBufferCopy(
      llvm::StringRef(reinterpret_cast<const char*>(object.data()), object.size()), name);
  if (llvm::Error e = jit_->addObjectFile(*library, std::move(buffer))) {
    return fault("the code of kernel program '" + name + "' cannot be loaded", std::move(e));
  }
  auto address = jit_->lookup(*library, symbol);
  if (!address) {
    return fault("the code of kernel program '" + name + "' cannot be linked", address.takeError());
  }
  return address->toPtr<group_function>();
}

result<std::unique_ptr<host_compiler>> host_compiler::make(const code_cache* cache,
                                                           const std::string& processor) {
  // Registers LLVM's targets and tells early whether there is one for this host.
  auto machine = make_target_machine(host_target(processor));
  if (!machine) return tl::unexpected(machine.error());
  auto jit = llvm::orc::LLJITBuilder().create();
  if (!jit) return fault("LLVM cannot run code on this host", jit.takeError());
  return std::unique_ptr<host_compiler>(new host_compiler(
      std::make_unique<state>(std::move(*jit), cache, processor, features_of(**machine))));
}

host_compiler::host_compiler(std::unique_ptr<state> s) : state_(std::move(s)) {}
host_compiler::~host_compiler() = default;

result<group_function> host_compiler::compile(const program& p) { return state_->compile(p); }
const std::string& host_compiler::identity() const { return state_->identity(); }
// Measured on a Sapphire Rapids, Q4_1: 8 columns by vpdpbusd 134 GMAC/s a core, 16 by AMX 160, two
// blocks at a time 175.
unsigned host_compiler::product_columns() const { return state_->has_tiles() ? 16 : 8; }
int host_compiler::product_blocks() const { return state_->has_tiles() ? 2 : 1; }

}  // namespace terrane::kernels
