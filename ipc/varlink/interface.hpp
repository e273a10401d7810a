// A Varlink interface description (varlink.org, "Interface Definition"): its text parsed into
// types, methods and errors, and the check of values against them. Pure functions; any thread.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/json/object.hpp>

#include "ipc/result.hpp"

namespace terrane::ipc::varlink {

struct field;

// A type in a description. Which members matter depends on `kind`.
struct type {
  enum class kinds {
    boolean,
    integer,   // 64-bit signed
    floating,  // finite; an integer is accepted
    string,
    object,       // any JSON object
    any,          // any JSON value
    enumeration,  // one of `names`
    structure,    // `fields`
    array,        // of `element`
    map,          // string to `element`
    optional,     // `element`, null, or left out
    named,        // the type called `name` of the same interface
  };

  kinds kind = kinds::object;
  std::string name;
  std::vector<std::string> names;
  std::vector<field> fields;
  std::vector<type> element;  // one, or none
};

struct field {
  std::string name;
  varlink::type type;
};

struct method {
  std::vector<field> inputs;
  std::vector<field> outputs;
};

struct interface_description {
  std::string name;
  std::string text;
  std::map<std::string, type, std::less<>> types;
  std::map<std::string, method, std::less<>> methods;
  std::map<std::string, std::vector<field>, std::less<>> errors;
};

// Errors: invalid_text, "line L, column C: what was expected". Every named type is known then.
result<interface_description> parse_interface(std::string_view text);

// A value that does not fit: where ("sampling.top_k", "parts[2]") and what would fit.
struct misfit {
  std::string where;
  std::string expected;
};

// Checks an object against the fields of a method or an error: every field that is not optional
// must be there, and there may be no others.
std::optional<misfit> check(const interface_description& interface,
                            const std::vector<field>& fields, const boost::json::object& value);

}  // namespace terrane::ipc::varlink
