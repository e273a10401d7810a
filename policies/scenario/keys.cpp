#include "policies/scenario/keys.hpp"

namespace terrane::policies::scenario {
namespace {

constexpr word<test_place> place_table[] = {
    {test_place::file, "file", "a test"},
    {test_place::machine, "machine", "the machine as the trace finds it"},
    {test_place::device, "device", "a device of the machine, with its settings"},
    {test_place::layers, "layers", "layers that are alike"},
    {test_place::part, "part", "a part that is no layer's, or unlike the others"},
    {test_place::session, "session", "a session, with its settings"},
    {test_place::step, "step", "what happens at a time, and what must have come of it"},
    {test_place::counts, "counts", "how many moves"},
    {test_place::swing, "swing", "values that take turns from a step on"},
    {test_place::request, "request", "what each request that a step asks about would reserve"},
};

constexpr std::int64_t many = 1'000'000;

constexpr test_key_entry key_table[] = {
    {test_key::scenario, test_place::file, "scenario", test_value::text, true,
     "one sentence that says what it shows"},
    {test_key::policies, test_place::file, "policies", test_value::texts, false,
     "policy files, by their paths from this one; default: the one beside it of the same name"},
    {test_key::yaml, test_place::file, "yaml", test_value::text, false, "policies as a YAML text"},
    {test_key::lua, test_place::file, "lua", test_value::text, false, "policies as a Lua text"},
    {test_key::machine, test_place::file, "machine", test_value::machine, true,
     "its devices, layers and sessions"},
    {test_key::trace, test_place::file, "trace", test_value::steps, true, "a list of steps"},

    {test_key::devices, test_place::machine, "devices", test_value::devices, true,
     "a list of devices"},
    {test_key::layers, test_place::machine, "layers", test_value::layers, false,
     "layers of the model"},
    {test_key::parts, test_place::machine, "parts", test_value::parts, false,
     "other parts of the model"},
    {test_key::sessions, test_place::machine, "sessions", test_value::sessions, false,
     "sessions that are there from the start"},
    {test_key::pinned, test_place::machine, "pinned", test_value::texts, false,
     "parts, or patterns, that the administrator wants to stay"},
    {test_key::broken, test_place::machine, "broken", test_value::texts, false,
     "devices to which every move fails"},
    {test_key::context_tokens, test_place::machine, "context_tokens", test_value::tokens, false,
     "the most that one session may hold"},
    {test_key::moves_take, test_place::machine, "moves_take", test_value::duration, false,
     "how long each move takes"},
    {test_key::host, test_place::machine, "host", test_value::host, false, "readings of the host"},

    {test_key::device_name, test_place::device, "name", test_value::text, true,
     "such as cpu, gpu:fast or vulkan:a"},
    {test_key::device_total, test_place::device, "total", test_value::bytes, true,
     "how much memory it has, such as 8GiB"},

    {test_key::layer_count, test_place::layers, "count", test_value::whole_number, false,
     "how many; default: 1", 1, 1000},
    {test_key::layer_attn, test_place::layers, "attn", test_value::bytes, false,
     "the weights of each attention part"},
    {test_key::layer_ffn, test_place::layers, "ffn", test_value::bytes, false,
     "the weights of each feed-forward part"},
    {test_key::layer_kv, test_place::layers, "kv", test_value::bytes, false,
     "the KV cache beside each attention part"},
    {test_key::layer_on, test_place::layers, "on", test_value::text, true,
     "the device that it is on"},

    {test_key::part_name, test_place::part, "name", test_value::text, true,
     "such as head or layer.3.expert.7"},
    {test_key::part_bytes, test_place::part, "bytes", test_value::bytes, true,
     "how large it is, such as 500MiB"},
    {test_key::part_on, test_place::part, "on", test_value::text, true, "the device that it is on"},

    {test_key::session_id, test_place::session, "id", test_value::text, true,
     "how the trace calls it"},
    {test_key::session_kv, test_place::session, "kv", test_value::bytes, false, "its KV cache"},
    {test_key::session_on, test_place::session, "on", test_value::text, true,
     "the device that it is on"},

    {test_key::at, test_place::step, "at", test_value::duration, true, "a time such as 5s"},
    {test_key::open, test_place::step, "open", test_value::sessions, false, "sessions that begin"},
    {test_key::close, test_place::step, "close", test_value::texts, false, "sessions that end"},
    {test_key::set, test_place::step, "set", test_value::changes, false,
     "settings that change, such as {gpu: {others: 2GiB}}"},
    {test_key::swing, test_place::step, "swing", test_value::swings, false,
     "settings that take turns, such as {every: 2s, gpu: {others: [0GiB, 2GiB]}}"},
    {test_key::stop, test_place::step, "stop", test_value::texts, false,
     "sensors that give no sample any more, such as gpu.temp"},
    {test_key::resume, test_place::step, "resume", test_value::texts, false,
     "sensors that give samples again"},
    {test_key::lose, test_place::step, "lose", test_value::texts, false,
     "devices that fall off their bus"},
    {test_key::find, test_place::step, "find", test_value::texts, false, "devices that are back"},
    {test_key::expect, test_place::step, "expect", test_value::moves, false,
     "every move since the step before; default: none"},
    {test_key::shadow, test_place::step, "shadow", test_value::moves, false,
     "every move since the step before that policies in shadow mode would have made"},
    {test_key::says, test_place::step, "says", test_value::texts, false,
     "what an explanation since the step before must hold"},
    {test_key::why, test_place::step, "why", test_value::texts_by_name, false,
     "parts or sessions and what `why` says of them"},
    {test_key::placed, test_place::step, "placed", test_value::texts_by_name, false,
     "parts, or patterns, and the devices they must be on once the moves planned by then have "
     "ended"},
    {test_key::refused, test_place::step, "refused", test_value::texts_by_name, false,
     "users whose requests a quota refuses now, and a piece of what they are told"},
    {test_key::admitted, test_place::step, "admitted", test_value::texts, false,
     "users whose requests no quota refuses now"},
    {test_key::request, test_place::step, "request", test_value::request, false,
     "what each of these requests would reserve; default: nothing"},

    {test_key::at_least, test_place::counts, "at_least", test_value::whole_number, false,
     "no fewer", 0, many},
    {test_key::at_most, test_place::counts, "at_most", test_value::whole_number, false, "no more",
     0, many},

    {test_key::swing_every, test_place::swing, "every", test_value::duration, true,
     "how long each value stays, such as 1s"},

    {test_key::request_kv, test_place::request, "kv", test_value::bytes, true,
     "KV for its prompt and the longest reply it asks for, such as 500MiB"},
    {test_key::request_on, test_place::request, "on", test_value::text, true,
     "the device that it would take this from"},
};

}  // namespace

std::span<const word<test_place>> test_places() { return place_table; }
std::span<const test_key_entry> test_keys() { return key_table; }

// The table is in the order of the ids; tests/policies/keys_test.cpp checks it.
const test_key_entry& row_of(test_key id) { return key_table[static_cast<std::size_t>(id)]; }

std::vector<const test_key_entry*> keys_of(test_place in) {
  std::vector<const test_key_entry*> found;
  for (const test_key_entry& entry : key_table) {
    if (entry.in == in) found.push_back(&entry);
  }
  return found;
}

}  // namespace terrane::policies::scenario
