#include "engine/model/architecture.hpp"

#include <array>

namespace terrane::engine {

namespace {

// Every architecture that runs.
constexpr std::array<const architecture*, 2> architectures = {&llama, &gemma3};

}  // namespace

const architecture* find_architecture(std::string_view name) {
  for (const architecture* a : architectures)
    if (a->name == name) return a;
  return nullptr;
}

std::string architecture_names() {
  std::string names;
  for (const architecture* a : architectures)
    names += (names.empty() ? "" : ", ") + std::string(a->name);
  return names;
}

}  // namespace terrane::engine
