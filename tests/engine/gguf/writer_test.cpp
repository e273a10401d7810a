#include "engine/gguf/writer.hpp"

#include <array>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/gguf/file.hpp"
#include "tests/engine/gguf/raw_gguf.hpp"
#include "tests/engine/gguf/temporary_folder.hpp"

namespace terrane::engine::gguf {
namespace {

using test::raw;
using test::raw_text;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class gguf_writer : public ::testing::Test {
 protected:
  std::filesystem::path path() const { return folder_.at("m.gguf"); }
  test::temporary_folder folder_;
};

constexpr std::array<std::uint64_t, 1> eight{8};

std::vector<std::byte> bytes_of(std::size_t count, int value) {
  return std::vector<std::byte>(count, static_cast<std::byte>(value));
}

TEST_F(gguf_writer, writes_what_the_format_says) {
  auto out = writer::create(path());
  ASSERT_TRUE(out);
  out->put("name", "x");
  out->put("count", std::uint32_t{7});
  out->add_tensor("a", ggml_type::f32, eight);
  out->add_tensor("b", ggml_type::f32, eight);
  ASSERT_TRUE(out->begin_data());
  std::vector<std::byte> data(64);
  for (std::size_t i = 0; i < data.size(); ++i) {
    data[i] = static_cast<std::byte>(i);
  }
  ASSERT_TRUE(out->write(1, 0, std::span(data).last(32)));
  ASSERT_TRUE(out->write(0, 0, std::span(data).first(32)));
  ASSERT_TRUE(out->finish());

  test::raw_gguf expected;
  expected.entry("name", 8, raw_text("x")).entry("count", 4, raw(7U));
  expected.tensor("a", {8}, 0, 0).tensor("b", {8}, 0, 32).data(64);
  EXPECT_EQ(test::read_bytes(path()), expected.bytes());
}

TEST_F(gguf_writer, gives_back_all_that_was_put) {
  auto out = writer::create(path(), 64);
  ASSERT_TRUE(out);
  out->put("u8", std::uint8_t{1});
  out->put("i8", std::int8_t{-1});
  out->put("u16", std::uint16_t{2});
  out->put("i16", std::int16_t{-2});
  out->put("u32", std::uint32_t{3});
  out->put("i32", std::int32_t{-3});
  out->put("u64", std::uint64_t{4});
  out->put("i64", std::int64_t{-4});
  out->put("f32", 0.5F);
  out->put("f64", 0.25);
  out->put("yes", true);
  out->put("text", "t");
  const std::vector<std::string> texts{"a", "", "c"};
  out->put_array("texts", std::span<const std::string>(texts));
  const std::vector<float> reals{1.0F, 2.0F};
  out->put_array("reals", std::span<const float>(reals));
  const std::array<std::uint64_t, 3> shape{256, 3, 2};
  out->add_tensor("k", ggml_type::q4_k, shape);
  ASSERT_TRUE(out->begin_data());
  ASSERT_TRUE(out->write(0, 0, bytes_of(6 * 144, 9)));
  ASSERT_TRUE(out->finish());

  const auto f = file::open(path());
  ASSERT_TRUE(f) << to_string(f.error());
  const metadata& meta = f->meta();
  EXPECT_EQ(meta.integer<std::uint32_t>("u8"), 1U);
  EXPECT_EQ(meta.integer<std::int32_t>("i8"), -1);
  EXPECT_EQ(meta.integer<std::uint32_t>("u16"), 2U);
  EXPECT_EQ(meta.integer<std::int32_t>("i16"), -2);
  EXPECT_EQ(meta.integer<std::uint32_t>("u32"), 3U);
  EXPECT_EQ(meta.integer<std::int32_t>("i32"), -3);
  EXPECT_EQ(meta.integer<std::uint64_t>("u64"), 4U);
  EXPECT_EQ(meta.integer<std::int64_t>("i64"), -4);
  EXPECT_EQ(meta.real("f32"), 0.5F);
  EXPECT_EQ(meta.real("f64"), 0.25F);
  EXPECT_EQ(meta.boolean("yes"), true);
  EXPECT_EQ(meta.text("text"), "t");
  EXPECT_THAT(meta.texts("texts").value(), ElementsAre("a", "", "c"));
  EXPECT_THAT(meta.numbers<float>("reals").value(), ElementsAre(1.0F, 2.0F));
  EXPECT_EQ(meta.integer<std::uint32_t>("general.alignment"), 64U);
  const tensor& k = *f->find("k");
  EXPECT_THAT(k.shape, ElementsAre(256, 3, 2, 1));
  EXPECT_EQ(k.dimensions, 3U);
  EXPECT_EQ(k.offset % 64, 0U);
  std::vector<std::byte> back(k.bytes);
  ASSERT_TRUE(f->read(k, back));
  EXPECT_EQ(back, bytes_of(6 * 144, 9));
}

TEST_F(gguf_writer, takes_data_from_many_threads) {
  constexpr std::size_t threads = 8;
  constexpr std::size_t chunk = 4096;
  auto out = writer::create(path());
  const std::array<std::uint64_t, 2> shape{chunk / 4, threads};
  out->add_tensor("w", ggml_type::f32, shape);
  ASSERT_TRUE(out->begin_data());
  {
    std::vector<std::jthread> writers;
    for (std::size_t i = 0; i < threads; ++i) {
      writers.emplace_back(
          [&, i] { EXPECT_TRUE(out->write(0, i * chunk, bytes_of(chunk, static_cast<int>(i)))); });
    }
  }
  ASSERT_TRUE(out->finish());
  const auto f = file::open(path());
  ASSERT_TRUE(f);
  for (std::size_t i = 0; i < threads; ++i) {
    std::vector<std::byte> row(chunk);
    ASSERT_TRUE(f->read_rows(*f->find("w"), i, 1, row));
    EXPECT_EQ(row, bytes_of(chunk, static_cast<int>(i)));
  }
}

TEST_F(gguf_writer, leaves_nothing_when_it_is_dropped) {
  folder_.write("m.gguf", "what was there");
  {
    auto out = writer::create(path());
    ASSERT_TRUE(out);
    ASSERT_TRUE(out->begin_data());
  }
  EXPECT_EQ(test::read_bytes(path()), "what was there");
  EXPECT_FALSE(std::filesystem::exists(path().string() + ".partial"));
}

TEST_F(gguf_writer, does_not_finish_with_data_missing) {
  auto out = writer::create(path());
  out->add_tensor("w", ggml_type::f32, eight);
  ASSERT_TRUE(out->begin_data());
  ASSERT_TRUE(out->write(0, 0, bytes_of(31, 0)));
  const auto finished = out->finish();
  ASSERT_FALSE(finished);
  EXPECT_THAT(finished.error().message, HasSubstr("31 bytes of tensor data were written, 32"));
  EXPECT_FALSE(std::filesystem::exists(path()));
}

TEST_F(gguf_writer, refuses_bytes_outside_a_tensor) {
  auto out = writer::create(path());
  out->add_tensor("w", ggml_type::f32, eight);
  ASSERT_TRUE(out->begin_data());
  EXPECT_FALSE(out->write(0, 1, bytes_of(32, 0)));
  EXPECT_FALSE(out->write(0, ~std::uint64_t{0}, bytes_of(32, 0)));
}

// What begin_data() says after `prepare`.
template <class Prepare>
std::string refusal(const std::filesystem::path& path, Prepare prepare) {
  auto out = writer::create(path);
  prepare(*out);
  const auto begun = out->begin_data();
  EXPECT_FALSE(begun);
  return begun ? "" : begun.error().message;
}

TEST_F(gguf_writer, refuses_what_a_reader_would_refuse) {
  EXPECT_THAT(refusal(path(), [](writer& w) { w.put("", true); }), HasSubstr("key ''"));
  EXPECT_THAT(refusal(path(),
                      [](writer& w) {
                        w.put("k", true);
                        w.put("k", false);
                      }),
              HasSubstr("'k' is empty or was put twice"));
  EXPECT_THAT(refusal(path(),
                      [](writer& w) {
                        w.add_tensor("t", ggml_type::f32, eight);
                        w.add_tensor("t", ggml_type::f32, eight);
                      }),
              HasSubstr("added twice"));
  EXPECT_THAT(refusal(path(), [](writer& w) { w.add_tensor("t", ggml_type::q8_0, eight); }),
              HasSubstr("a multiple of 32"));
  EXPECT_THAT(refusal(path(), [](writer& w) { w.add_tensor("t", ggml_type::f32, {}); }),
              HasSubstr("1 to 4 dimensions"));
}

TEST_F(gguf_writer, refuses_a_bad_alignment_and_a_bad_place) {
  EXPECT_FALSE(writer::create(path(), 48));
  EXPECT_FALSE(writer::create(path(), 0));
  const auto nowhere = writer::create(folder_.at("missing") / "m.gguf");
  ASSERT_FALSE(nowhere);
  EXPECT_EQ(nowhere.error().code, error_code::io);
}

}  // namespace
}  // namespace terrane::engine::gguf
