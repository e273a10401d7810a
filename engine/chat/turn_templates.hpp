// The chat templates that write each message by an expression of its own: Llama 2, Mistral, Gemma
// and Phi 3. A template is recognised by everything it writes: each expression must be one that is
// known. Pure; any thread.
#pragma once

#include <optional>
#include <string_view>

#include "engine/chat/template_facts.hpp"

namespace terrane::engine {

// Empty: none of these. `text` may be hostile; the time is linear in its length.
std::optional<template_facts> read_turn_template(std::string_view text);

}  // namespace terrane::engine
