#include "kernels/llvm/pipeline.hpp"

#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/raw_ostream.h>

namespace terrane::kernels {

result<void> optimise(llvm::Module& module, llvm::TargetMachine& machine, const char* passes) {
  std::string fault;
  llvm::raw_string_ostream fault_stream(fault);
  if (llvm::verifyModule(module, &fault_stream)) {
    return fail(error_code::unsupported, "kernel program '" + module.getName().str() +
                                             "' became invalid LLVM code: " + fault);
  }
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager calls;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(&machine);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(calls);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, calls, modules);
  llvm::ModulePassManager pipeline;
  llvm::cantFail(builder.parsePassPipeline(pipeline, passes));
  pipeline.run(module, modules);
  return {};
}

result<llvm::SmallVector<char, 0>> write_code(llvm::Module& module, llvm::TargetMachine& machine,
                                              llvm::CodeGenFileType as) {
  llvm::SmallVector<char, 0> out;
  llvm::raw_svector_ostream stream(out);
  llvm::legacy::PassManager codegen;
  if (machine.addPassesToEmitFile(codegen, stream, nullptr, as)) {
    return fail(error_code::unsupported, "LLVM cannot write code for it",
                machine.getTargetTriple().str());
  }
  codegen.run(module);
  return out;
}

}  // namespace terrane::kernels
