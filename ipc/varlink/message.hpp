// The JSON of Varlink's messages (varlink.org, "Method Call" and "Reply"): text to values and back.
// Pure functions; any thread.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include <boost/json/object.hpp>

#include "ipc/result.hpp"
#include "ipc/varlink/reply.hpp"

namespace terrane::ipc::varlink {

struct call {
  std::string method;  // "INTERFACE.Member"
  boost::json::object parameters;
  bool more = false;     // the caller wants a stream of replies
  bool oneway = false;   // the caller wants no reply
  bool upgrade = false;  // the caller wants another protocol after this call
};

// Errors: invalid_text, with what is wrong and at which byte. `nesting` bounds objects and arrays
// inside each other.
result<call> parse_call(std::string_view text, std::size_t nesting);

struct response {
  boost::json::object parameters;  // of the reply or of the error
  std::optional<std::string> error;
  bool continues = false;
};

result<response> parse_response(std::string_view text, std::size_t nesting);

// Each ends with the NUL.
std::string write_call(const call& what);
std::string write_reply(const boost::json::object& parameters, bool continues);
std::string write_error(const named_error& error);

// "INTERFACE.Member" in two; without a dot, the interface is empty.
struct member_name {
  std::string_view interface;
  std::string_view member;
};
member_name split_member(std::string_view name);

}  // namespace terrane::ipc::varlink
