#include "engine/gguf/metadata.hpp"

#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/gguf/file.hpp"
#include "engine/gguf/file_type.hpp"
#include "engine/gguf/text.hpp"
#include "tests/engine/gguf/raw_gguf.hpp"
#include "tests/engine/gguf/temporary_folder.hpp"

namespace terrane::engine::gguf {
namespace {

using test::raw;
using test::raw_text;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// One key of every kind.
test::raw_gguf all_kinds() {
  test::raw_gguf out;
  out.entry("u8", 0, raw(std::uint8_t{200}));
  out.entry("i8", 1, raw(std::int8_t{-5}));
  out.entry("u16", 2, raw(std::uint16_t{60000}));
  out.entry("i16", 3, raw(std::int16_t{-300}));
  out.entry("u32", 4, raw(std::uint32_t{4000000000}));
  out.entry("i32", 5, raw(std::int32_t{-70000}));
  out.entry("f32", 6, raw(0.25F));
  out.entry("true", 7, raw(std::uint8_t{1}));
  out.entry("false", 7, raw(std::uint8_t{0}));
  out.entry("text", 8, raw_text("h\xC3\xA9llo"));
  out.entry("empty text", 8, raw_text(""));
  out.entry("latin-1", 8, raw_text("h\xE9llo"));
  out.entry("u64", 10, raw(std::uint64_t{1} << 63));
  out.entry("i64", 11, raw(std::int64_t{-1} << 40));
  out.entry("f64", 12, raw(-0.5));
  out.array("texts", 8, 3, raw_text("one") + raw_text("") + raw_text("\xFF"));
  out.array("no texts", 8, 0, "");
  out.array("i32s", 5, 3, raw(std::int32_t{1}) + raw(std::int32_t{-2}) + raw(std::int32_t{3}));
  out.array("f32s", 6, 2, raw(1.5F) + raw(-2.0F));
  out.array("u8s", 0, 2, raw(std::uint8_t{7}) + raw(std::uint8_t{255}));
  out.array("bools", 7, 2, raw(std::uint8_t{1}) + raw(std::uint8_t{0}));
  return out;
}

class gguf_metadata : public ::testing::Test {
 protected:
  gguf_metadata() : path_(folder_.write("kinds.gguf", all_kinds().bytes()).string()) {
    auto opened = file::open(path_);
    EXPECT_TRUE(opened) << to_string(opened.error());
    meta_ = std::make_unique<file>(std::move(*opened));
  }
  const metadata& meta() const { return meta_->meta(); }

  // The message names file and key in any case.
  template <class T>
  std::string message(const result<T>& failed, const std::string& key) {
    EXPECT_FALSE(failed);
    if (failed) {
      return "";
    }
    EXPECT_EQ(failed.error().code, error_code::invalid_input);
    EXPECT_EQ(failed.error().where, path_);
    EXPECT_THAT(failed.error().message, HasSubstr(shown(key)));
    return failed.error().message;
  }

 private:
  test::temporary_folder folder_;
  std::string path_;
  std::unique_ptr<file> meta_;
};

TEST_F(gguf_metadata, arrays_of_booleans) {
  EXPECT_EQ(meta().booleans("bools").value(), (std::vector<bool>{true, false}));
  EXPECT_FALSE(meta().booleans("u8s"));
  EXPECT_FALSE(meta().booleans("true"));
}

TEST_F(gguf_metadata, finds_each_kind) {
  EXPECT_EQ(meta().integer<std::uint32_t>("u8"), 200U);
  EXPECT_EQ(meta().integer<std::int32_t>("i8"), -5);
  EXPECT_EQ(meta().integer<std::uint32_t>("u16"), 60000U);
  EXPECT_EQ(meta().integer<std::int64_t>("i16"), -300);
  EXPECT_EQ(meta().integer<std::uint32_t>("u32"), 4000000000U);
  EXPECT_EQ(meta().integer<std::int32_t>("i32"), -70000);
  EXPECT_EQ(meta().integer<std::uint64_t>("u64"), std::uint64_t{1} << 63);
  EXPECT_EQ(meta().integer<std::int64_t>("i64"), -(std::int64_t{1} << 40));
  EXPECT_EQ(meta().real("f32"), 0.25F);
  EXPECT_EQ(meta().real("f64"), -0.5F);
  EXPECT_EQ(meta().boolean("true"), true);
  EXPECT_EQ(meta().boolean("false"), false);
  EXPECT_EQ(meta().text("text"), "h\xC3\xA9llo");
  EXPECT_EQ(meta().text("empty text"), "");
}

TEST_F(gguf_metadata, finds_arrays) {
  EXPECT_THAT(meta().texts("texts").value(), ElementsAre("one", "", "\xFF"));
  EXPECT_TRUE(meta().texts("no texts").value().empty());
  EXPECT_THAT(meta().numbers<std::int32_t>("i32s").value(), ElementsAre(1, -2, 3));
  EXPECT_THAT(meta().numbers<float>("f32s").value(), ElementsAre(1.5F, -2.0F));
  EXPECT_THAT(meta().numbers<std::uint32_t>("u8s").value(), ElementsAre(7, 255));
  EXPECT_TRUE(meta().is_array("bools"));
  EXPECT_FALSE(meta().is_array("u8"));
  EXPECT_FALSE(meta().is_array("none"));
}

TEST_F(gguf_metadata, lists_entries_in_order) {
  ASSERT_EQ(meta().entries().size(), 21U);
  EXPECT_EQ(meta().entries()[0].key, "u8");
  EXPECT_EQ(meta().entries()[15].key, "texts");
  EXPECT_EQ(describe(meta().entries()[15]), "an array of 3 string");
  EXPECT_EQ(describe(meta().entries()[6]), "f32");
}

TEST_F(gguf_metadata, a_missing_key_is_an_error_or_the_fallback) {
  EXPECT_THAT(message(meta().text("absent"), "absent"), HasSubstr("missing; expected a string"));
  EXPECT_THAT(message(meta().integer<std::uint32_t>("absent"), "absent"),
              HasSubstr("an integer from 0 to 4294967295"));
  message(meta().texts("absent"), "absent");
  message(meta().real("absent"), "absent");
  message(meta().boolean("absent"), "absent");
  message(meta().numbers<float>("absent"), "absent");
  EXPECT_EQ(meta().integer_or<std::uint32_t>("absent", 7), 7U);
  EXPECT_EQ(meta().real_or("absent", 1.5F), 1.5F);
  EXPECT_EQ(meta().boolean_or("absent", true), true);
  EXPECT_EQ(meta().text_or("absent", "x"), "x");
}

TEST_F(gguf_metadata, a_wrong_type_is_named_with_the_expected_one) {
  EXPECT_THAT(message(meta().integer<std::uint32_t>("text"), "text"),
              HasSubstr("is string; expected an integer"));
  EXPECT_THAT(message(meta().text("u8"), "u8"), HasSubstr("is u8; expected a string"));
  EXPECT_THAT(message(meta().real("u8"), "u8"), HasSubstr("is u8; expected a float"));
  EXPECT_THAT(message(meta().boolean("u8"), "u8"), HasSubstr("is u8; expected a bool"));
  EXPECT_THAT(message(meta().texts("i32s"), "i32s"), HasSubstr("is an array of 3 i32"));
  EXPECT_THAT(message(meta().numbers<std::int32_t>("f32s"), "f32s"), HasSubstr("2 f32"));
  EXPECT_THAT(message(meta().numbers<float>("i32s"), "i32s"), HasSubstr("each element a float"));
  message(meta().numbers<std::int32_t>("bools"), "bools");
  message(meta().numbers<std::int32_t>("u32"), "u32");
  message(meta().integer<std::uint32_t>("true"), "true");
  message(meta().integer<std::uint32_t>("f32"), "f32");
  message(meta().integer<std::uint32_t>("i32s"), "i32s");
  // The fallback is for a missing key alone.
  message(meta().integer_or<std::uint32_t>("text", 7), "text");
  message(meta().real_or("text", 7), "text");
}

TEST_F(gguf_metadata, an_integer_out_of_range_is_an_error_with_its_value) {
  EXPECT_THAT(message(meta().integer<std::int32_t>("u32"), "u32"), HasSubstr("4000000000"));
  EXPECT_THAT(message(meta().integer<std::uint32_t>("i8"), "i8"), HasSubstr("-5"));
  EXPECT_THAT(message(meta().integer<std::int64_t>("u64"), "u64"),
              HasSubstr("9223372036854775808"));
  EXPECT_THAT(message(meta().numbers<std::uint32_t>("i32s"), "i32s"), HasSubstr("holds -2"));
}

TEST_F(gguf_metadata, text_that_is_not_utf8_is_refused) {
  EXPECT_THAT(message(meta().text("latin-1"), "latin-1"), HasSubstr("'h\\xe9llo'"));
}

TEST_F(gguf_metadata, a_file_names_its_mixture_of_formats) {
  EXPECT_EQ(file_type_name(meta()), "");
  for (const auto& [number, name] :
       {std::pair(15U, "Q4_K_M"), std::pair(2U, "Q4_0"), std::pair(999U, "")}) {
    test::raw_gguf typed;
    typed.entry("general.file_type", 4, raw(std::uint32_t{number}));
    const test::temporary_folder folder;
    const auto opened = file::open(folder.write("typed.gguf", typed.bytes()).string());
    ASSERT_TRUE(opened) << to_string(opened.error());
    EXPECT_EQ(file_type_name(opened->meta()), name);
  }
}

}  // namespace
}  // namespace terrane::engine::gguf
