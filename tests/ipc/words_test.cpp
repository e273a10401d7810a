// How terranectl names parts and devices, and writes numbers, texts and tables.
#include "ipc/terranectl/words.hpp"

#include <cmath>
#include <limits>
#include <sstream>

#include <gtest/gtest.h>

#include "ipc/control/part_pattern.hpp"
#include "ipc/terranectl/table.hpp"

namespace terrane::ipc::ctl {
namespace {

TEST(part_pattern, names_ranges_and_stars) {
  EXPECT_TRUE(part_matches("all", "head"));
  EXPECT_TRUE(part_matches("layer.3", "layer.3.attn"));
  EXPECT_TRUE(part_matches("layer.2-11", "layer.11.ffn"));
  EXPECT_TRUE(part_matches("layer.*.attn", "layer.7.attn"));
  EXPECT_TRUE(part_matches("layer", "layer.7.attn"));
  EXPECT_FALSE(part_matches("layer.2-11", "layer.12.ffn"));
  EXPECT_FALSE(part_matches("layer.3", "layer.30.attn"));
  EXPECT_FALSE(part_matches("layer.11-2", "layer.3.attn"));
  EXPECT_FALSE(part_matches("layer.-2", "layer.2.attn"));
  EXPECT_FALSE(part_matches("layer.0-99999999999999999999", "layer.2.attn"));
  EXPECT_FALSE(part_matches("layer.3.attn.x", "layer.3.attn"));
  EXPECT_FALSE(part_matches("*.x", "head"));

  const std::vector<std::string> parts{"embedding", "layer.0.attn", "layer.1.attn", "head"};
  EXPECT_EQ(expand_parts({"head", "layer.1", "layer.*"}, parts).value(),
            (std::vector<std::string>{"layer.0.attn", "layer.1.attn", "head"}));
  EXPECT_EQ(expand_parts({"head", "tail"}, parts).error(), "tail");
  EXPECT_EQ(expand_parts({""}, parts).error(), "");
  EXPECT_EQ(expand_parts({"layer.0-1"}, parts).value().size(), 2U);
  EXPECT_EQ(expand_parts({"layer.0-2"}, parts).error(), "layer.0-2");
  EXPECT_EQ(expand_parts({"layer.1-0.attn"}, parts).error(), "layer.1-0.attn");
}

TEST(words, places_without_a_line) {
  EXPECT_EQ(place_text("a.yaml", 3, 7), "a.yaml:3:7");
  EXPECT_EQ(place_text("a.lua", 3, 0), "a.lua:3");
  EXPECT_EQ(place_text("folder", 0, 0), "folder");
}

TEST(words, sizes_and_times) {
  EXPECT_EQ(bytes_text(0), "0 B");
  EXPECT_EQ(bytes_text(1536), "1.5 KiB");
  EXPECT_EQ(bytes_text(1024 * 1024 - 1), "1.0 MiB");
  EXPECT_EQ(bytes_text(std::int64_t{8} << 30), "8.0 GiB");
  EXPECT_EQ(duration_text(3.5), "3.5 s");
  EXPECT_EQ(duration_text(65), "1m 05s");
  EXPECT_EQ(duration_text(7500), "2h 05m");
  EXPECT_EQ(duration_text(-5), "0.0 s");
  EXPECT_EQ(duration_text(std::nan("")), "0.0 s");
  EXPECT_EQ(duration_text(HUGE_VAL), "11574074 days");
  EXPECT_EQ(ms_text(1.25), "1.25 ms");
  EXPECT_EQ(ms_text(12'000), "12.0 s");
}

// A server may say what it likes.
TEST(words, times_that_no_clock_shows) {
  using limits = std::numeric_limits<std::int64_t>;
  EXPECT_EQ(clock_text(-5).substr(19), ".995");
  EXPECT_NE(clock_text(limits::min()), "");
  EXPECT_NE(clock_text(limits::max()), "");
  EXPECT_TRUE(yield_text({"gpu", "x", limits::min()}, 1000).find("(another 0.0 s)") !=
              std::string::npos);
  EXPECT_TRUE(yield_text({"gpu", "x", limits::max()}, -1000).find("days)") != std::string::npos);
}

TEST(words, texts_are_cut_between_characters) {
  EXPECT_EQ(cut("äöü", 3), "äöü");
  EXPECT_EQ(cut("äöüß", 3), "äö…");
  EXPECT_EQ(width_of("äö…"), 3U);
  EXPECT_EQ(printable("a\033b\177c\xC2\x9B"
                      "d\n"),
            "a\uFFFDb\uFFFDc\uFFFDd\n");
  EXPECT_EQ(printable("ä€"), "ä€");
}

TEST(words, a_device_may_be_named_by_its_beginning) {
  const std::vector<std::string> known{"cpu", "vulkan:aaaa", "vulkan:bbbb"};
  EXPECT_EQ(resolve_device("cpu", known), "cpu");
  EXPECT_EQ(resolve_device("vulkan:b", known), "vulkan:bbbb");
  EXPECT_EQ(resolve_device("vulkan", known), "vulkan");
  EXPECT_EQ(resolve_device("gpu", known), "gpu");
}

TEST(words, brief_device_names_stay_distinct) {
  const std::string one = "vulkan:0d1e2f30-0000-0000-0000-000000000001";
  const std::string like_it = "vulkan:0d1e2f30-0000-0000-0000-000000000002";
  EXPECT_EQ(device_names({"cpu", one}).brief(one), "vulkan:0d1e2f30");
  EXPECT_EQ(device_names({one, like_it}).brief(one), one);
}

TEST(table, one_column_gives_way_and_empty_ones_go) {
  table rows({{"A"}, {"N", align::right}, {"EMPTY"}, {"TEXT", align::left, true}});
  rows.add({"x", "5", "", "a long text that does not fit"});
  rows.add({"yy", "10", "", "short\nlines"});
  std::ostringstream out;
  rows.print(out, 24, "", "");
  EXPECT_EQ(out.str(),
            "A    N  TEXT\n"
            "x    5  a long text tha…\n"
            "yy  10  short lines\n");
}

}  // namespace
}  // namespace terrane::ipc::ctl
