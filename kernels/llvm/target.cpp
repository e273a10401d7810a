#include "kernels/llvm/target.hpp"

#include <algorithm>
#include <mutex>
#include <vector>

#if defined(__x86_64__) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <llvm/ADT/StringMap.h>
#include <llvm/MC/MCSubtargetInfo.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/TargetParser/Host.h>

namespace terrane::kernels {

namespace {

void initialise_processors() {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    LLVMInitializeAArch64TargetInfo();
    LLVMInitializeAArch64Target();
    LLVMInitializeAArch64TargetMC();
    LLVMInitializeAArch64AsmPrinter();
  });
}

void initialise_nvptx() {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
  });
}

// Linux gives a process the tiles' registers when it asks; all of its threads have them then.
bool may_use_amx() {
#if defined(__x86_64__) && defined(__linux__)
  constexpr int request_permission = 0x1023,
                tile_data = 18;  // asm/prctl.h, Intel's state component
  static const bool granted = ::syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
  return granted;
#else
  return false;
#endif
}

}  // namespace

code_target host_target(const std::string& processor) {
  code_target t;
  t.triple = llvm::sys::getProcessTriple();
  if (!processor.empty()) {
    t.cpu = t.tune_cpu = processor;
    return t;
  }
  t.tune_cpu = llvm::sys::getHostCPUName().str();
  t.cpu = llvm::StringRef(t.triple).starts_with("x86_64") ? "x86-64" : "generic";
  llvm::StringMap<bool> features = llvm::sys::getHostCPUFeatures();
  if (features.lookup("amx-tile") && !may_use_amx()) {
    for (const char* f : {"amx-tile", "amx-int8", "amx-bf16", "amx-fp16", "amx-complex"})
      if (features.count(f) != 0) features[f] = false;
  }
  std::vector<std::string> names;
  for (const auto& f : features) names.push_back((f.getValue() ? "+" : "-") + f.getKey().str());
  std::sort(names.begin(), names.end(),
            [](const std::string& a, const std::string& b) { return a.substr(1) < b.substr(1); });
  for (const std::string& n : names) t.features += (t.features.empty() ? "" : ",") + n;
  return t;
}

result<std::unique_ptr<llvm::TargetMachine>> make_target_machine(const code_target& target) {
  if (llvm::StringRef(target.triple).starts_with("nvptx")) {
    initialise_nvptx();
  } else {
    initialise_processors();
  }
  std::string why;
  const llvm::Target* t = llvm::TargetRegistry::lookupTarget(target.triple, why);
  if (t == nullptr) {
    return fail(error_code::unsupported, "LLVM cannot generate code: " + why, target.triple);
  }
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;  // the numeric contract
  options.UnsafeFPMath = false;
  std::unique_ptr<llvm::TargetMachine> machine(
      t->createTargetMachine(target.triple, target.cpu, target.features, options, llvm::Reloc::PIC_,
                             std::nullopt, llvm::CodeGenOptLevel::Default));
  if (machine == nullptr) {
    return fail(error_code::unsupported, "LLVM has no code generator for it", target.triple);
  }
  return machine;
}

target_features features_of(const llvm::TargetMachine& machine) {
  const llvm::MCSubtargetInfo& info = *machine.getMCSubtargetInfo();
  auto has = [&](const char* feature) { return info.checkFeatures(std::string("+") + feature); };
  target_features f;
  if (machine.getTargetTriple().getArch() == llvm::Triple::x86_64) {
    f.arch = target_features::architecture::x86;
    f.ssse3 = has("ssse3");
    f.avx2 = has("avx2");
    f.avx512 = f.avx2 && has("avx512f") && has("avx512bw") && has("avx512dq") && has("avx512vl");
    f.vnni_512 = f.avx512 && has("avx512vnni");
    f.vnni_256 = f.vnni_512 || (f.avx2 && has("avxvnni"));
    f.amx_int8 = f.avx512 && has("amx-tile") && has("amx-int8");
    f.half_conversion = has("f16c");
    f.fma = has("fma");
  } else if (machine.getTargetTriple().getArch() == llvm::Triple::aarch64) {
    f.arch = target_features::architecture::aarch64;
    f.half_conversion = true;
    f.fma = true;
    f.dot_signed = has("dotprod");
    f.dot_mixed = has("i8mm");
  }
  return f;
}

}  // namespace terrane::kernels
