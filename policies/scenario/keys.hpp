// The keys that a test of policies is written with: where each may stand, what it holds, and a
// phrase that says it. The reader of this folder asks for keys by these rows, and the JSON Schema
// and the reference page are made from them (policies/reference/). A new key is a value of
// `test_key`, a row in keys.cpp, and what it does in script.cpp. What may be set of a device, a
// session, parts or the host are the settings of settings.hpp. Constant data; any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "policies/vocabulary/table.hpp"

namespace terrane::policies::scenario {

enum class test_place {
  file,
  machine,
  device,
  layers,
  part,
  session,
  step,
  counts,
  swing,
  request
};
// The name is for programs; what it says, for people.
std::span<const word<test_place>> test_places();

enum class test_value : std::uint8_t {
  text,
  texts,     // a text, or a list of them
  duration,  // a time with its unit
  bytes,
  tokens,
  whole_number,  // from `least` to `most`
  machine,
  devices,  // a device, or a list of them; so are the next three
  layers,
  parts,
  sessions,
  host,           // settings of the host
  steps,          // a list of steps
  changes,        // settings by the name of whose they are
  swings,         // lists of settings that take turns, by the name of whose they are
  moves,          // moves as texts, or how many
  texts_by_name,  // a text, or a list of them, for each part or session
  request,
};

enum class test_key : std::uint8_t {
  scenario,
  policies,
  yaml,
  lua,
  machine,
  trace,
  devices,
  layers,
  parts,
  sessions,
  pinned,
  broken,
  context_tokens,
  moves_take,
  host,
  device_name,
  device_total,
  layer_count,
  layer_attn,
  layer_ffn,
  layer_kv,
  layer_on,
  part_name,
  part_bytes,
  part_on,
  session_id,
  session_kv,
  session_on,
  at,
  open,
  close,
  set,
  swing,
  stop,
  resume,
  lose,
  find,
  expect,
  shadow,
  says,
  why,
  placed,
  refused,
  admitted,
  request,
  at_least,
  at_most,
  swing_every,
  request_kv,
  request_on,
};

struct test_key_entry {
  test_key id;
  test_place in;
  std::string_view name;
  test_value holds;
  bool needed;
  std::string_view says;
  std::int64_t least = 0;  // of a whole number
  std::int64_t most = 0;
};

std::span<const test_key_entry> test_keys();
const test_key_entry& row_of(test_key id);
std::vector<const test_key_entry*> keys_of(test_place in);

}  // namespace terrane::policies::scenario
