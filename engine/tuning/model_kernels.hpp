// The kernels of a model whose layout may be chosen, as a step on a device would run them: what
// there is to tune. Needs neither weights nor room on the device. Any thread.
#pragma once

#include <vector>

#include "engine/model/model.hpp"
#include "engine/session/workspace.hpp"
#include "engine/tuning/tuner.hpp"

namespace terrane::engine {

// Of a step that decodes one token, and of one that reads as much of a prompt as fits, on a device
// that holds all parts.
std::vector<kernel_use> kernels_of(const model& of, device& on, const workspace_shape& shape);

}  // namespace terrane::engine
