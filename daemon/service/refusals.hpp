// Turns errors of the engine into the named errors of the control protocol. Pure; any thread.
#pragma once

#include "ipc/control/errors.hpp"
#include "kernels/result.hpp"

namespace terrane::daemon {

ipc::refusal refusal_of(const error& e);

}  // namespace terrane::daemon
