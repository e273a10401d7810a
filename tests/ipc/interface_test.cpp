#include "ipc/varlink/interface.hpp"

#include <boost/json/parse.hpp>
#include <gtest/gtest.h>

namespace terrane::ipc::varlink {
namespace {

constexpr const char* example = R"(# An example.
interface org.example.shapes

type Colour (red, green, blue)
type Node (name: string, next: ?Node, tags: [string]string, marks: [string]())
type Mixed (
  a: bool, b: int, c: float,   # three
  d: object, e: []?int, f: (x: int, y: ?int), g: ?[]Colour
)

method Take(mixed: Mixed, node: ?Node) -> (colour: Colour)
method Nothing() -> ()
error Bad (reason: string)
)";

std::optional<misfit> check_take(const std::string& parameters) {
  const auto parsed = parse_interface(example);
  EXPECT_TRUE(parsed) << parsed.error().message;
  const auto value = boost::json::parse(parameters);
  return check(*parsed, parsed->methods.at("Take").inputs, value.as_object());
}

constexpr const char* good_mixed =
    R"("mixed":{"a":true,"b":-1,"c":1,"d":{},"e":[1,null],"f":{"x":1},"g":["red"]})";

TEST(interface, its_members_are_found) {
  const auto parsed = parse_interface(example);
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(parsed->name, "org.example.shapes");
  EXPECT_EQ(parsed->text, example);
  EXPECT_EQ(parsed->types.size(), 3U);
  EXPECT_EQ(parsed->types.at("Colour").names, (std::vector<std::string>{"red", "green", "blue"}));
  EXPECT_EQ(parsed->methods.size(), 2U);
  EXPECT_EQ(parsed->errors.at("Bad").size(), 1U);
}

TEST(interface, faults_are_told_with_their_place) {
  const auto fault = [](const std::string& text) {
    const auto parsed = parse_interface(text);
    return parsed ? std::string("parsed") : parsed.error().message;
  };
  const std::string head = "interface a.b\n";
  EXPECT_EQ(fault(""), "line 1, column 1: expected 'interface'");
  EXPECT_EQ(fault("interface noDot\n"),
            "line 1, column 11: expected the name of the interface, such as org.example.name");
  EXPECT_EQ(fault(head + "method f() -> ()"),
            "line 2, column 8: expected a name that begins with a capital letter");
  EXPECT_EQ(fault(head + "method F(x: Missing) -> ()"),
            "line 2, column 13: there is no type Missing");
  EXPECT_EQ(fault(head + "method F(x) -> ()"), "line 2, column 9: expected fields with types");
  EXPECT_EQ(fault(head + "method F(x: int, x: int) -> ()"), "line 2, column 10: x appears twice");
  EXPECT_EQ(fault(head + "type F (a, b)\nerror F ()"), "line 3, column 1: F is defined twice");
  EXPECT_EQ(fault(head + "method F(x: ??int) -> ()"),
            "line 2, column 15: expected a type after '?'");
  EXPECT_EQ(fault(head + "method F(x: int"), "line 2, column 16: expected ')'");
  EXPECT_EQ(fault(head + "method F(x_: int) -> ()"),
            "line 2, column 10: expected the name of a field");
}

TEST(interface, nesting_of_types_is_bounded) {
  std::string deep = "interface a.b\nmethod F(x: ";
  for (int i = 0; i < 100000; ++i) {
    deep += "[]";
  }
  EXPECT_FALSE(parse_interface(deep + "int) -> ()"));
  std::string structs = "interface a.b\nmethod F";
  for (int i = 0; i < 100000; ++i) {
    structs += "(x: ";
  }
  EXPECT_FALSE(parse_interface(structs));
}

TEST(interface, parameters_that_fit_pass) {
  EXPECT_FALSE(check_take("{" + std::string(good_mixed) + "}"));
  EXPECT_FALSE(check_take("{" + std::string(good_mixed) + R"(,"node":null})"));
  EXPECT_FALSE(check_take(
      "{" + std::string(good_mixed) +
      R"(,"node":{"name":"a","tags":{"k":"v"},"marks":{"m":{}},"next":{"name":"b","tags":{},"marks":{}}}})"));
}

TEST(interface, parameters_that_do_not_fit_are_named) {
  const auto where = [](const std::string& parameters) {
    const auto wrong = check_take(parameters);
    return wrong ? wrong->where : std::string("fits");
  };
  const auto mixed = [](const char* fields) {
    return R"({"mixed":{)" + std::string(fields) + "}}";
  };
  EXPECT_EQ(where("{}"), "mixed");
  EXPECT_EQ(where(R"({"mixed":1})"), "mixed");
  EXPECT_EQ(where("{" + std::string(good_mixed) + R"(,"other":1})"), "other");
  EXPECT_EQ(where(mixed(R"("a":1)")), "mixed.a");
  EXPECT_EQ(where(mixed(R"("a":true,"b":1.5)")), "mixed.b");
  EXPECT_EQ(where(mixed(R"("a":true,"b":9223372036854775808)")), "mixed.b");
  EXPECT_EQ(where(mixed(R"("a":true,"b":1,"c":"x")")), "mixed.c");
  EXPECT_EQ(where(mixed(R"("a":true,"b":1,"c":1e999)")), "mixed.c");
  EXPECT_EQ(where(mixed(R"("a":true,"b":1,"c":1,"d":[])")), "mixed.d");
  EXPECT_EQ(where(mixed(R"("a":true,"b":1,"c":1,"d":{},"e":[1,"x"])")), "mixed.e[1]");
  EXPECT_EQ(where(mixed(R"("a":true,"b":1,"c":1,"d":{},"e":[],"f":{"x":1,"z":1})")), "mixed.f.z");
  EXPECT_EQ(where(mixed(R"("a":true,"b":1,"c":1,"d":{},"e":[],"f":{"x":1},"g":["pink"])")),
            "mixed.g[0]");
  EXPECT_EQ(where("{" + std::string(good_mixed) + R"(,"node":{"name":"a","tags":{"k":1}}})"),
            "node.tags[k]");
}

}  // namespace
}  // namespace terrane::ipc::varlink
