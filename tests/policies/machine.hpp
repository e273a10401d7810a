// The simulated machine of policies/scenario/, by the name under which these tests use it.
#pragma once

#include "policies/scenario/machine.hpp"

namespace terrane::policies::tests {

using scenario::gib;
using scenario::machine;
using scenario::machine_device;
using scenario::mib;

}  // namespace terrane::policies::tests
