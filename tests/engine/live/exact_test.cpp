// The promise: moves, batches, prompt chunks and cached sessions change no bit of a reply.
#include "tests/bench/exact.hpp"

#include <thread>

#include <gtest/gtest.h>

#include "tests/engine/live/tiny_model.hpp"

namespace terrane::test {
namespace {

bench::exact_options tiny_run(const std::string& shape, const std::string& quant) {
  bench::exact_options o;
  o.model.path = tiny_model(shape, quant);
  o.model.devices = two_devices();
  o.model.context_tokens = 512;
  o.moves = 12;
  o.tokens = 120;
  return o;
}

void expect_equal(const bench::exact_options& o) {
  result<boost::json::object> r = bench::run_exact(o);
  ASSERT_TRUE(r.has_value()) << to_string(r.error());
  EXPECT_TRUE(r->at("equal").as_bool()) << boost::json::serialize(*r);
  EXPECT_EQ(r->at("moves").to_number<std::uint32_t>(), o.moves) << boost::json::serialize(*r);
  EXPECT_TRUE(o.moves == 0 || r->at("all_devices_used").as_bool()) << boost::json::serialize(*r);
}

struct format {
  const char *shape, *quant;
};
class every_format : public testing::TestWithParam<format> {};

TEST_P(every_format, replies_with_moves_equal_replies_without) {
  expect_equal(tiny_run(GetParam().shape, GetParam().quant));
}

INSTANTIATE_TEST_SUITE_P(
    , every_format,
    testing::Values(format{"tiny", "F32"}, format{"tiny", "F16"}, format{"tiny", "BF16"},
                    format{"tiny", "Q4_0"}, format{"tiny", "Q4_1"}, format{"tiny", "Q5_0"},
                    format{"tiny", "Q5_1"}, format{"tiny", "Q8_0"}, format{"tiny", "IQ4_NL"},
                    format{"tiny", "MXFP4"}, format{"tiny-k", "Q2_K"}, format{"tiny-k", "Q3_K"},
                    format{"tiny-k", "Q4_K"}, format{"tiny-k", "Q5_K"}, format{"tiny-k", "Q6_K"},
                    format{"tiny-k", "IQ4_XS"}, format{"tiny-k", "Q4_K_M"},
                    format{"tiny-gemma3", "Q4_K_M"}),
    [](const auto& i) {
      std::string name = std::string(i.param.shape) + "_" + i.param.quant;
      std::replace(name.begin(), name.end(), '-', '_');
      return name;
    });

class prompt_chunks : public testing::TestWithParam<std::uint32_t> {};

TEST_P(prompt_chunks, do_not_matter) {
  bench::exact_options o = tiny_run("tiny", "Q4_1");
  o.prompt_chunk = GetParam();
  o.moves = 4;
  o.tokens = 40;
  if (GetParam() > 64) o.model.rows = 512;
  expect_equal(o);
}

INSTANTIATE_TEST_SUITE_P(, prompt_chunks, testing::Values(1, 7, 64, 512));

// Rows that are attended one after another, with pages here and away, as against all together.
TEST(exact, attention_in_passes_changes_nothing) {
  std::string hashes[2];
  for (std::uint64_t bytes : {std::uint64_t{1}, std::uint64_t{64} << 20}) {
    bench::exact_options o = tiny_run("tiny", "Q4_1");
    o.model.attention_bytes = bytes;
    result<boost::json::object> r = bench::run_exact(o);
    ASSERT_TRUE(r.has_value()) << to_string(r.error());
    EXPECT_TRUE(r->at("equal").as_bool()) << boost::json::serialize(*r);
    hashes[bytes == 1] = std::string(r->at("replies").as_array()[0].at("logits_hash").as_string());
  }
  EXPECT_EQ(hashes[0], hashes[1]);
}

TEST(exact, notices_one_flipped_bit) {
  bench::exact_options o = tiny_run("tiny", "Q4_1");
  o.corrupt = true;
  result<boost::json::object> r = bench::run_exact(o);
  ASSERT_TRUE(r.has_value()) << to_string(r.error());
  EXPECT_FALSE(r->at("equal").as_bool());
  EXPECT_TRUE(r->at("flipped").as_bool());
  EXPECT_NE(r->at("not_shown").as_string().find("differ, as they should"), std::string::npos);
}

// A run that could not show what it was asked for says so, whatever was equal.
TEST(exact, tells_what_a_run_has_not_shown) {
  bench::exact_options o = tiny_run("tiny", "Q4_1");
  o.tokens = 2;
  o.random_prompt = 10;
  result<boost::json::object> r = bench::run_exact(o);
  ASSERT_TRUE(r.has_value()) << to_string(r.error());
  EXPECT_TRUE(r->at("equal").as_bool());
  EXPECT_NE(r->at("not_shown").as_string().find("of the 12 moves fell into replies"),
            std::string::npos);
  o.corrupt = true;
  r = bench::run_exact(o);
  ASSERT_TRUE(r.has_value()) << to_string(r.error());
  EXPECT_FALSE(r->at("flipped").as_bool());
  EXPECT_NE(r->at("not_shown").as_string().find("no bit was flipped"), std::string::npos);
  o = tiny_run("tiny", "Q4_1");
  o.moves = 0;
  o.tokens = 2;
  r = bench::run_exact(o);
  ASSERT_TRUE(r.has_value()) << to_string(r.error());
  EXPECT_FALSE(r->contains("not_shown"));
}

// One kernel set, three executions: the interpreter defines what is right.
TEST(exact, the_interpreter_agrees_on_a_whole_model) {
  for (const auto& [shape, quant] :
       {format{"tiny", "Q4_1"}, format{"tiny", "Q8_0"}, format{"tiny-gemma3", "Q4_K_M"}}) {
    std::string hashes[2];
    const std::string devices[2] = {"interpreter", "cpu"};
    for (int i = 0; i < 2; i++) {
      bench::exact_options o = tiny_run(shape, quant);
      o.model.devices = {devices[i]};
      o.moves = 0;
      o.tokens = 2;
      result<boost::json::object> r = bench::run_exact(o);
      ASSERT_TRUE(r.has_value()) << to_string(r.error());
      hashes[i] = std::string(r->at("replies").as_array()[0].at("logits_hash").as_string());
    }
    EXPECT_EQ(hashes[0], hashes[1]) << shape << " " << quant;
  }
}

std::shared_ptr<bench::recorder> ask(engine::inference_engine& e,
                                     std::vector<engine::token_id> prompt, std::uint32_t tokens,
                                     engine::session_id session = 0, bool keep = false,
                                     engine::session_id* got = nullptr) {
  engine::generate_request r;
  r.prompt = std::move(prompt);
  r.max_tokens = tokens;
  r.hash_logits = true;
  r.session = session;
  r.keep = keep;
  auto reply = std::make_shared<bench::recorder>();
  result<engine::session_id> id = e.generate(std::move(r), reply);
  EXPECT_TRUE(id.has_value()) << to_string(id.error());
  if (got != nullptr && id) *got = *id;
  return reply;
}

TEST(exact, replies_side_by_side_equal_replies_alone) {
  auto e = tiny_engine();
  const auto a = bench::random_tokens(*e, 70, 1), b = bench::random_tokens(*e, 5, 2);
  auto alone_a = ask(*e, a, 40), alone_b = (alone_a->wait(), ask(*e, b, 60));
  alone_b->wait();
  auto both_b = ask(*e, b, 60), both_a = ask(*e, a, 40);
  both_a->wait();
  both_b->wait();
  EXPECT_EQ(alone_a->hashes, both_a->hashes);
  EXPECT_EQ(alone_b->hashes, both_b->hashes);
}

TEST(exact, a_kept_session_goes_on_as_if_it_had_read_everything_at_once) {
  auto e = tiny_engine();
  const auto first = bench::random_tokens(*e, 30, 3), second = bench::random_tokens(*e, 20, 4);
  engine::session_id session = 0;
  auto one = ask(*e, first, 10, 0, true, &session);
  one->wait();
  auto two = ask(*e, second, 10, session);
  EXPECT_GT(two->wait().cached_tokens, 30U);
  std::vector<engine::token_id> all = first;
  all.insert(all.end(), one->ids.begin(), one->ids.end());
  all.insert(all.end(), second.begin(), second.end());
  auto at_once = ask(*e, all, 10);
  at_once->wait();
  EXPECT_EQ(two->hashes, at_once->hashes);
}

// What a device without parts kept for steps is given back in the middle of a reply, and made anew.
TEST(exact, scratch_that_was_given_back_changes_nothing) {
  auto e = engine_on_two_cpus([](std::unique_ptr<engine::device> cpu) { return cpu; });
  const auto prompt = bench::random_tokens(*e, 70, 5);
  auto alone = ask(*e, prompt, 120);
  alone->wait();
  const auto given_back = [&](std::uint32_t device) {
    e->give_back_scratch(device);
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (e->devices()[device]->used_bytes(engine::memory_use::scratch) > 0 &&
           std::chrono::steady_clock::now() < until)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return e->devices()[device]->used_bytes(engine::memory_use::scratch) == 0;
  };
  auto reply = ask(*e, prompt, 120);
  for (std::uint32_t there : {1U, 0U, 1U}) {
    reply->wait_for(4);
    e->give_back_scratch(1 - there);  // parts are there: nothing happens
    ASSERT_EQ(bench::move_and_wait(*e, bench::everything_to(*e, there)).state,
              engine::move_state::committed);
    EXPECT_GT(e->devices()[there]->used_bytes(engine::memory_use::scratch), 0U);
    EXPECT_TRUE(given_back(1 - there));
  }
  reply->wait();
  EXPECT_EQ(alone->hashes, reply->hashes);
}

}  // namespace
}  // namespace terrane::test
