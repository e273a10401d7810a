#include "kernels/llvm/compile.hpp"

#include <llvm/ADT/StringExtras.h>
#include <llvm/Config/llvm-config.h>
#include <llvm/Support/xxhash.h>

#include "kernels/lang/without_look_ups.hpp"
#include "kernels/llvm/cpu_lowering.hpp"
#include "kernels/llvm/pipeline.hpp"
#include "kernels/llvm/target.hpp"

namespace terrane::kernels {

namespace {

// A light pipeline: the lowering leaves little to find, and kernels are compiled while a user
// waits.
constexpr const char* passes =
    "function(sroa,early-cse<memssa>,instcombine<no-verify-fixpoint>,simplifycfg,"
    "loop-mssa(licm),loop(loop-unroll-full),early-cse<memssa>,instcombine<no-verify-fixpoint>,"
    "simplifycfg,adce)";

void set_target_attributes(llvm::Function& f, const code_target& target,
                           const target_features& features) {
  f.addFnAttr("target-cpu", target.cpu);
  f.addFnAttr("target-features", target.features);
  if (!target.tune_cpu.empty()) f.addFnAttr("tune-cpu", target.tune_cpu);
  if (features.avx512) f.addFnAttr("prefer-vector-width", "512");
}

result<llvm::SmallVector<char, 0>> generate(const program& p, const std::string& symbol,
                                            const code_target& target, llvm::CodeGenFileType as) {
  if (result<void> ok = verify(p); !ok) return tl::unexpected(ok.error());
  auto machine = make_target_machine(target);
  if (!machine) return tl::unexpected(machine.error());
  target_features features = features_of(**machine);
  llvm::LLVMContext context;
  llvm::Module module(p.name, context);
  module.setTargetTriple(target.triple);
  module.setDataLayout((*machine)->createDataLayout());
  const program written = features.byte_look_up() ? p : without_look_ups(p);
  llvm::Function* f = cpu_lowering(written, module, features).run(symbol);
  set_target_attributes(*f, target, features);
  if (result<void> ok = optimise(module, **machine, passes); !ok) return tl::unexpected(ok.error());
  return write_code(module, **machine, as);
}

}  // namespace

result<std::string> assembly(const program& p, const std::string& triple, const std::string& cpu,
                             const std::string& features) {
  auto text =
      generate(p, "kernel", {triple, cpu, {}, features}, llvm::CodeGenFileType::AssemblyFile);
  if (!text) return tl::unexpected(text.error());
  return std::string(text->begin(), text->end());
}

std::string host_identity(const std::string& processor) {
  code_target t = host_target(processor);
  std::string features = llvm::utohexstr(llvm::xxh3_64bits(llvm::StringRef(t.features)), true);
  return "LLVM " LLVM_VERSION_STRING ", " + t.triple + ", " + t.tune_cpu + ", features " + features;
}

result<std::vector<std::byte>> host_object(const program& p, const std::string& symbol,
                                           const std::string& processor) {
  auto code = generate(p, symbol, host_target(processor), llvm::CodeGenFileType::ObjectFile);
  if (!code) return tl::unexpected(code.error());
  auto bytes = std::as_bytes(std::span(code->data(), code->size()));
  return std::vector<std::byte>(bytes.begin(), bytes.end());
}

}  // namespace terrane::kernels
