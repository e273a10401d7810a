// Turns errors of engine and policies into the named errors of the control protocol. Pure.
#pragma once

#include "ipc/control/errors.hpp"
#include "kernels/result.hpp"
#include "policies/diagnostic.hpp"

namespace terrane::daemon {

ipc::refusal refusal_of(const error& e);
ipc::diagnostic to_protocol(const policies::diagnostic& d);
std::vector<ipc::diagnostic> to_protocol(const std::vector<policies::diagnostic>& all);

}  // namespace terrane::daemon
