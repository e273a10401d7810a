// The values of the control protocol: one struct for each type and for the parameters of each
// method of io.terrane.Control.varlink, whose comments say what the fields mean. The members have
// the names of the interface; tests/ipc checks that both agree. Sizes are bytes, counts tokens.
// Plain values; any thread.
#pragma once

#include "ipc/control/types/decisions.hpp"
#include "ipc/control/types/events.hpp"
#include "ipc/control/types/moves.hpp"
#include "ipc/control/types/policies.hpp"
#include "ipc/control/types/sessions.hpp"
#include "ipc/control/types/status.hpp"
#include "ipc/control/types/tuning.hpp"
#include "ipc/control/types/yields.hpp"
