// What is particular to Gemma 3: kinds of layers, what is refused, and pages before the window.
#include <array>
#include <filesystem>
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/bench/exact.hpp"
#include "tests/bench/synth_plan.hpp"
#include "tests/engine/live/tiny_model.hpp"

namespace terrane::test {
namespace {

using testing::HasSubstr;

// A file of the tiny shape with weights of zero and what `put` adds to its keys; opened, then gone.
result<std::unique_ptr<const engine::model>> model_with(
    std::uint32_t window, const std::function<void(engine::gguf::writer&)>& put) {
  bench::model_shape shape = bench::shape_named("tiny-gemma3").value();
  shape.window = window;
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("terrane-gemma3-" + std::to_string(getpid()));
  auto out = engine::gguf::writer::create(path);
  EXPECT_TRUE(out.has_value());
  bench::put_metadata(*out, shape, "F32", 1);
  put(*out);
  const std::vector<bench::planned_tensor> plan = bench::plan_tensors(shape, "F32").value();
  for (const bench::planned_tensor& t : plan)
    out->add_tensor(t.name, t.type, std::span(t.shape).first(t.shape[1] == 1 ? 1 : 2));
  EXPECT_TRUE(out->begin_data().has_value());
  for (std::size_t t = 0; t < out->tensors().size(); t++) {
    const std::vector<std::byte> zeros(out->tensors()[t].bytes);
    EXPECT_TRUE(out->write(t, 0, zeros).has_value());
  }
  EXPECT_TRUE(out->finish().has_value());
  auto opened = engine::model::open(path);
  std::filesystem::remove(path);
  return opened;
}

std::vector<std::uint32_t> windows(const engine::model& m) {
  std::vector<std::uint32_t> out;
  for (const engine::layer_settings& l : m.config().by_layer) out.push_back(l.window);
  return out;
}

TEST(gemma3, layers_are_local_or_global_as_the_file_says) {
  auto m = engine::model::open(tiny_model("tiny-gemma3", "F32"));
  ASSERT_TRUE(m.has_value()) << to_string(m.error());
  const engine::model_config& c = (*m)->config();
  EXPECT_THAT(windows(**m), testing::ElementsAre(100, 0, 100));
  EXPECT_EQ(c.rope_of(0).theta, 10000.0F);
  EXPECT_EQ(c.rope_of(1).theta, 1000000.0F);
  EXPECT_EQ(c.embedding_scale, 16.0F);  // of 256
}

TEST(gemma3, a_list_of_layers_and_the_base_of_local_ones_are_read) {
  auto m = model_with(0, [](engine::gguf::writer& to) {
    const std::array<bool, 3> local = {false, true, true};
    to.put("gemma3.attention.sliding_window", std::uint32_t{70});
    to.put_array("gemma3.attention.sliding_window_pattern", std::span<const bool>(local));
    to.put("gemma3.rope.freq_base_swa", 20000.0F);
    to.put("gemma3.rope.scaling.type", "linear");
    to.put("gemma3.rope.scaling.factor", 8.0F);
  });
  ASSERT_TRUE(m.has_value()) << to_string(m.error());
  EXPECT_THAT(windows(**m), testing::ElementsAre(0, 70, 70));
  const engine::model_config& c = (*m)->config();
  EXPECT_EQ(c.rope_of(1).theta, 20000.0F);
  EXPECT_EQ(c.rope_of(0).linear_factor, 8.0F);
  EXPECT_EQ(c.rope_of(1).linear_factor, 1.0F);
}

TEST(gemma3, soft_caps_are_refused_by_name) {
  for (const char* cap : {"attn_logit_softcapping", "final_logit_softcapping"}) {
    auto m = model_with(
        100, [&](engine::gguf::writer& to) { to.put(std::string("gemma3.") + cap, 30.0F); });
    ASSERT_FALSE(m.has_value());
    EXPECT_EQ(m.error().code, error_code::unsupported);
    EXPECT_THAT(to_string(m.error()), HasSubstr(cap));
  }
}

TEST(gemma3, a_move_does_not_bring_pages_before_the_window) {
  auto e = tiny_engine("tiny-gemma3", "Q8_0");
  auto reply = std::make_shared<bench::recorder>();
  ASSERT_TRUE(e->generate(request(*e, 400, 100), reply).has_value());
  reply->wait_for(5);
  const engine::move_status s = bench::move_and_wait(*e, bench::everything_to(*e, 1));
  ASSERT_EQ(s.state, engine::move_state::committed);
  reply->wait();
  // Of 8 pages a layer, the two local layers need the last four at most.
  const engine::model& m = e->loaded_model();
  const std::uint64_t page = kernels::page_bytes(m.config().attention);
  EXPECT_LE(s.bytes_total, m.weight_bytes() + (8 + 4 + 4) * page);
  EXPECT_GT(s.bytes_total, m.weight_bytes() + 8 * page);
}

// Moves there and back while pages leave the windows: a reply that grows from 460 tokens to 560,
// and one whose prompt of 560, which comes in pieces, is past them already.
TEST(gemma3, moves_past_512_tokens_change_nothing) {
  struct run {
    std::uint32_t prompt, tokens, moves, chunk;
  };
  for (const run& r : {run{460, 100, 8, 0}, run{560, 40, 4, 48}}) {
    bench::exact_options o;
    o.model.path = tiny_model("tiny-gemma3", "Q4_K_M");
    o.model.devices = two_devices();
    o.model.context_tokens = 768;
    o.random_prompt = r.prompt;
    o.tokens = r.tokens;
    o.moves = r.moves;
    o.prompt_chunk = r.chunk;
    result<boost::json::object> done = bench::run_exact(o);
    ASSERT_TRUE(done.has_value()) << to_string(done.error());
    EXPECT_TRUE(done->at("equal").as_bool()) << boost::json::serialize(*done);
    EXPECT_TRUE(done->at("all_devices_used").as_bool()) << boost::json::serialize(*done);
    EXPECT_EQ(done->at("moves").to_number<std::uint32_t>(), o.moves)
        << boost::json::serialize(*done);
  }
}

}  // namespace
}  // namespace terrane::test
