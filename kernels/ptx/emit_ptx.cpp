#include "kernels/ptx/emit_ptx.hpp"

#include <algorithm>
#include <array>

#include "kernels/lang/without_look_ups.hpp"
#include "kernels/llvm/pipeline.hpp"
#include "kernels/llvm/target.hpp"
#include "kernels/ptx/early_loads.hpp"
#include "kernels/ptx/lowering.hpp"

namespace terrane::kernels {

namespace {

constexpr std::array known_sms = {75u, 80u, 86u, 89u, 90u};

// Short loops are unrolled as the lowering marked them; the rest is tidying.
constexpr const char* passes =
    "function(early-cse<memssa>,instcombine<no-verify-fixpoint>,simplifycfg,"
    "loop-mssa(licm),loop(loop-unroll-full),early-cse<memssa>,instcombine<no-verify-fixpoint>,"
    "simplifycfg,adce)";

}  // namespace

result<std::string> emit_ptx(const program& p, const ptx_options& options) {
  if (result<void> ok = verify(p); !ok) return tl::unexpected(ok.error());
  if (std::ranges::find(known_sms, options.sm) == known_sms.end())
    return fail(error_code::unsupported,
                "no code is generated for compute capability sm_" + std::to_string(options.sm));
  // Asking for memory in bulk is younger than what LLVM writes for such devices by itself.
  const char* features = options.sm >= 90 ? "+ptx80" : "";
  auto machine = make_target_machine(
      {"nvptx64-nvidia-cuda", "sm_" + std::to_string(options.sm), {}, features});
  if (!machine) return tl::unexpected(machine.error());
  llvm::LLVMContext context;
  llvm::Module module(p.name, context);
  module.setTargetTriple((*machine)->getTargetTriple().str());
  module.setDataLayout((*machine)->createDataLayout());
  llvm::Function* function = ptx::lowering(without_look_ups(p), module, options).run(ptx_entry);
  if (result<void> ok = optimise(module, **machine, passes); !ok) return tl::unexpected(ok.error());
  ptx::load_early(*function, !has_barrier(p.body));
  auto text = write_code(module, **machine, llvm::CodeGenFileType::AssemblyFile);
  if (!text) return tl::unexpected(text.error());
  return std::string(text->begin(), text->end());
}

std::uint32_t ptx_shared_bytes(const program& p, const ptx_options& options) {
  if (!ptx::takes_fragments(p, options)) return 4 * p.shared_words;
  auto warps = static_cast<std::uint32_t>(p.warps);
  return 4 * (ptx::fragment_scratch_start(p) + warps * ptx::fragment_scratch_words);
}

}  // namespace terrane::kernels
