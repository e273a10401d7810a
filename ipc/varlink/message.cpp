#include "ipc/varlink/message.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>

#include <boost/json/parse_options.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/stream_parser.hpp>

namespace terrane::ipc::varlink {
namespace {

namespace json = boost::json;

result<json::object> parse_object(std::string_view text, std::size_t nesting) {
  json::parse_options options;
  options.max_depth = nesting;
  json::stream_parser parser({}, options);
  json::error_code wrong;
  const std::size_t read = parser.write(text.data(), text.size(), wrong);
  if (!wrong) {
    parser.finish(wrong);
  }
  if (wrong) {
    return fail(error_code::invalid_text,
                "not valid JSON at byte " + std::to_string(read) + ": " + wrong.message());
  }
  json::value value = parser.release();
  if (!value.is_object()) {
    return fail(error_code::invalid_text, "a message must be a JSON object");
  }
  return std::move(value.get_object());
}

// A field that is left out or null leaves `into` as it is.
template <class Into, class Read>
bool read_field(json::object& from, std::string_view name, Into& into, Read read) {
  json::value* value = from.if_contains(name);
  if (value == nullptr || value->is_null()) {
    return true;
  }
  auto* typed = read(*value);
  if (typed == nullptr) {
    return false;
  }
  into = std::move(*typed);
  return true;
}

constexpr auto as_object = [](json::value& value) { return value.if_object(); };
constexpr auto as_bool = [](json::value& value) { return value.if_bool(); };

// Bytes of the UTF-8 character that `text` begins with; 0 when it is malformed.
std::size_t character_bytes(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  const std::uint8_t lead = byte(0);
  if (lead < 0x80) {
    return 1;
  }
  const std::size_t bytes = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < bytes) {
    return 0;
  }
  // Neither overlong forms, nor surrogates, nor anything above U+10FFFF.
  const std::uint8_t least = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const std::uint8_t most = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  bool well_formed = byte(1) >= least && byte(1) <= most;
  for (std::size_t i = 2; i < bytes; i++) {
    well_formed = well_formed && (byte(i) & 0xC0) == 0x80;
  }
  return well_formed ? bytes : 0;
}

// What the daemon tells may quote the name of a file or a text that a policy made, and is UTF-8 all
// the same: each byte that is of no character becomes U+FFFD. What a client asks is sent as it is,
// to be refused by name.
std::string with_replacements(std::string_view text) {
  std::string whole;
  while (!text.empty()) {
    const std::size_t bytes = character_bytes(text);
    whole += bytes == 0 ? std::string_view("\xEF\xBF\xBD") : text.substr(0, bytes);
    text.remove_prefix(std::max<std::size_t>(bytes, 1));
  }
  return whole;
}

std::string write(const json::object& message) {
  std::string text = json::serialize(message);
  text.push_back('\0');
  return text;
}

}  // namespace

result<call> parse_call(std::string_view text, std::size_t nesting) {
  auto message = parse_object(text, nesting);
  if (!message) {
    return tl::unexpected(message.error());
  }
  call parsed;
  const json::value* method = message->if_contains("method");
  if (method == nullptr || !method->is_string()) {
    return fail(error_code::invalid_text, "\"method\" must be a string");
  }
  parsed.method.assign(method->get_string().begin(), method->get_string().end());
  if (!read_field(*message, "parameters", parsed.parameters, as_object)) {
    return fail(error_code::invalid_text, "\"parameters\" must be an object");
  }
  for (auto [name, flag] : {std::pair{"more", &parsed.more}, std::pair{"oneway", &parsed.oneway},
                            std::pair{"upgrade", &parsed.upgrade}}) {
    if (!read_field(*message, name, *flag, as_bool)) {
      return fail(error_code::invalid_text, "\"" + std::string(name) + "\" must be true or false");
    }
  }
  if (parsed.more && parsed.oneway) {
    return fail(error_code::invalid_text, "\"more\" and \"oneway\" exclude each other");
  }
  return parsed;
}

result<response> parse_response(std::string_view text, std::size_t nesting) {
  auto message = parse_object(text, nesting);
  if (!message) {
    return tl::unexpected(message.error());
  }
  response parsed;
  if (!read_field(*message, "parameters", parsed.parameters, as_object) ||
      !read_field(*message, "continues", parsed.continues, as_bool)) {
    return fail(error_code::invalid_text, "the reply is not a Varlink reply");
  }
  if (const json::value* name = message->if_contains("error"); name && !name->is_null()) {
    if (!name->is_string()) {
      return fail(error_code::invalid_text, "\"error\" must be a string");
    }
    parsed.error.emplace(name->get_string().begin(), name->get_string().end());
  }
  return parsed;
}

std::string write_call(const call& what) {
  json::object message{{"method", what.method}, {"parameters", what.parameters}};
  if (what.more) {
    message["more"] = true;
  }
  if (what.oneway) {
    message["oneway"] = true;
  }
  return write(message);
}

std::string write_reply(const json::object& parameters, bool continues) {
  json::object message{{"parameters", parameters}};
  if (continues) {
    message["continues"] = true;
  }
  return with_replacements(write(message));
}

std::string write_error(const named_error& error) {
  return with_replacements(write({{"error", error.name}, {"parameters", error.parameters}}));
}

member_name split_member(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  if (dot == std::string_view::npos) {
    return {{}, name};
  }
  return {name.substr(0, dot), name.substr(dot + 1)};
}

}  // namespace terrane::ipc::varlink
