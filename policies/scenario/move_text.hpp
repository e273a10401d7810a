// Moves as a test writes them, "move layer.7.ffn from gpu to cpu", and what can be wrong with one
// that is written by hand. Pure; any thread.
#pragma once

#include <string>
#include <string_view>

#include "policies/scenario/names.hpp"
#include "policies/vocabulary/plan.hpp"

namespace terrane::policies::scenario {

std::string move_text(const planned_move& m);

// Why no move of that machine is ever called so, as a sentence without its full stop; empty where
// one may be.
std::string why_no_move(std::string_view text, const machine_names& known);

}  // namespace terrane::policies::scenario
