// From LLVM IR to code: verification, a pass pipeline as `opt` writes it, and what the target's
// code generator gives. Used by one thread per module. Internal to the lowerings that use LLVM.
#pragma once

#include <llvm/ADT/SmallVector.h>
#include <llvm/IR/Module.h>
#include <llvm/Target/TargetMachine.h>

#include "kernels/result.hpp"

namespace terrane::kernels {

// Checks a module that has the machine's triple and layout, and optimises it. The module's name is
// the program's, for messages.
result<void> optimise(llvm::Module& module, llvm::TargetMachine& machine, const char* passes);

result<llvm::SmallVector<char, 0>> write_code(llvm::Module& module, llvm::TargetMachine& machine,
                                              llvm::CodeGenFileType as);

}  // namespace terrane::kernels
