// Whole models on devices that were tuned: no layout changes a bit of a reply, and no reply waits
// for the tuner.
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/tuning/model_kernels.hpp"
#include "tests/engine/live/tiny_model.hpp"

namespace terrane::test {
namespace {

using engine::kernel_layout;
using engine::linear_layout;
using kernels::attention_tuning;

std::shared_ptr<bench::recorder> ask(engine::inference_engine& e, std::uint32_t prompt_tokens,
                                     std::uint32_t tokens) {
  auto reply = std::make_shared<bench::recorder>();
  result<engine::session_id> id = e.generate(request(e, prompt_tokens, tokens), reply);
  EXPECT_TRUE(id.has_value()) << to_string(id.error());
  return reply;
}

// As far from the defaults as a layout of the kernel can be, in two ways.
kernel_layout odd_layout(const engine::kernel_shape& shape, const kernel_layout& usual, int way) {
  using enum engine::group_order;
  if (std::holds_alternative<kernels::linear_spec>(shape.what)) {
    if (way == 0) return linear_layout{16, 4, 1, 0, y_first};
    return linear_layout{8, 1, shape.rows == 1 ? 2 : 3, 8192, shape.rows == 1 ? x_first : y_first};
  }
  if (std::holds_alternative<kernels::attention_shape>(shape.what)) {
    if (way == 0) return attention_tuning{kernels::lane_keys::neighbours, 16, 8, 1};
    return attention_tuning{kernels::lane_keys::halves, 2, 1, 1};
  }
  auto layout = std::get<engine::activation_layout>(usual);
  layout.warps = way == 0 ? 8 : 2;
  layout.parts = way == 0 ? 1 : 2;
  return layout;
}

std::shared_ptr<const engine::device_tuning> odd_tuning(engine::device& on, const engine::model& of,
                                                        int way) {
  auto tuning = std::make_shared<engine::device_tuning>(on.info());
  for (const engine::kernel_use& use : engine::kernels_of(of, on, {64, 2, 512})) {
    engine::tuned_kernel odd;
    odd.by_default = tuning->default_layout(use.shape);
    odd.chosen = odd_layout(use.shape, odd.by_default, way);
    tuning->set(use.shape, odd);
  }
  return tuning;
}

class tuned_model : public testing::TestWithParam<std::pair<const char*, const char*>> {
 protected:
  bench::model_choice choice(std::vector<std::string> devices) const {
    bench::model_choice c;
    c.path = tiny_model(GetParam().first, GetParam().second);
    c.devices = std::move(devices);
    c.context_tokens = 512;
    return c;
  }
};

INSTANTIATE_TEST_SUITE_P(, tuned_model,
                         testing::Values(std::pair("tiny", "Q4_1"), std::pair("tiny", "F16"),
                                         std::pair("tiny-k", "Q4_K_M"),
                                         std::pair("tiny-gemma3", "Q4_K_M")),
                         [](const auto& i) { return "model_" + std::to_string(i.index); });

TEST_P(tuned_model, replies_that_cross_differently_tuned_devices_are_the_same) {
  auto plain = bench::open_model(choice({"cpu"}));
  ASSERT_TRUE(plain.has_value()) << to_string(plain.error());
  auto expected = ask(**plain, 90, 40);
  expected->wait();

  int way = 0;
  const auto wrap = [&](std::unique_ptr<engine::device> d, const engine::model& of) {
    d->use_tuning(odd_tuning(*d, of, way++));
    return d;
  };
  auto odd = bench::open_model(choice({"cpu", "cpu"}), wrap);
  ASSERT_TRUE(odd.has_value()) << to_string(odd.error());
  engine::inference_engine& e = **odd;
  EXPECT_EQ(e.devices()[0]->tuning()->found().size(), e.devices()[1]->tuning()->found().size());
  EXPECT_GE(e.devices()[0]->tuning()->found().size(), 8U);
  // Once unmoved on each of them, once with parts on both that change places meanwhile.
  const auto parts = static_cast<engine::part_index>(e.loaded_model().parts().size());
  const auto place = [&](auto device_of) {
    engine::move_request r;
    for (engine::part_index p = 0; p < parts; p++) r.parts.push_back({p, device_of(p)});
    const engine::move_status s = bench::move_and_wait(e, std::move(r));
    EXPECT_EQ(s.state, engine::move_state::committed);
  };
  for (std::uint32_t device : {0U, 1U}) {
    place([&](auto) { return device; });
    auto reply = ask(e, 90, 40);
    reply->wait();
    EXPECT_EQ(reply->hashes, expected->hashes) << "device " << device;
  }
  auto reply = ask(e, 90, 40);
  for (std::uint32_t turn = 0; turn < 4; turn++) place([&](auto p) { return (p / 2 + turn) % 2; });
  reply->wait();
  EXPECT_EQ(reply->hashes, expected->hashes);
}

TEST_P(tuned_model, what_the_tuner_chooses_changes_no_bit) {
  auto opened = bench::open_model(choice({"cpu"}));
  ASSERT_TRUE(opened.has_value()) << to_string(opened.error());
  engine::inference_engine& e = **opened;
  auto before = ask(e, 90, 20);
  before->wait();
  const auto report = e.tune(0, std::chrono::milliseconds(300), {});
  ASSERT_TRUE(report.has_value()) << to_string(report.error());
  EXPECT_GE(report->timed, 1U);
  EXPECT_FALSE(report->given_up);
  auto after = ask(e, 90, 20);
  after->wait();
  EXPECT_EQ(before->hashes, after->hashes);
}

TEST(tuning, is_refused_while_a_reply_is_given) {
  auto e = tiny_engine();
  std::atomic<bool> asked{false};
  auto reply = std::make_shared<bench::recorder>();
  // The loop hears of the question after the token that it is held at, and has more to give.
  reply->after_token = [&](std::size_t tokens) {
    while (tokens == 2 && !asked) std::this_thread::yield();
  };
  engine::generate_request r;
  r.prompt = bench::random_tokens(*e, 5, 1);
  r.max_tokens = 400;
  ASSERT_TRUE(e->generate(std::move(r), reply).has_value());
  reply->wait_for(2);
  asked = true;
  const auto outcome = e->tune(0, std::chrono::seconds(1), {});
  ASSERT_FALSE(outcome.has_value());
  EXPECT_EQ(outcome.error().code, error_code::conflict);
  EXPECT_THAT(outcome.error().message, testing::HasSubstr("reply"));
  reply->wait();
}

TEST(tuning, a_reply_that_comes_meanwhile_ends_it) {
  auto e = tiny_engine();
  auto expected = ask(*e, 9, 5);
  expected->wait();
  std::thread asking;
  std::atomic<bool> about_to_ask{false};
  std::shared_ptr<bench::recorder> reply;
  const auto report = e->tune(0, std::chrono::minutes(5), [&](const engine::tuning_progress&) {
    if (!asking.joinable()) {
      asking = std::thread([&] {
        about_to_ask = true;
        reply = ask(*e, 9, 5);
      });
    }
    while (!about_to_ask) std::this_thread::yield();
    return true;
  });
  asking.join();
  reply->wait();
  ASSERT_TRUE(report.has_value()) << to_string(report.error());
  EXPECT_TRUE(report->given_up);
  EXPECT_EQ(reply->hashes, expected->hashes);
}

TEST(tuning, the_start_of_a_second_engine_finds_it_remembered) {
  bench::model_choice c;
  c.path = tiny_model("tiny", "Q4_1");
  c.devices = {"cpu"};
  c.context_tokens = 256;
  c.cache_folder = test_folder() / "tuning-cache";
  c.tune = true;
  auto first = bench::open_model(c);
  ASSERT_TRUE(first.has_value()) << to_string(first.error());
  const auto found = (*first)->devices()[0]->tuning()->found();
  EXPECT_FALSE(found.empty());
  c.tune = false;
  auto second = bench::open_model(c);
  ASSERT_TRUE(second.has_value()) << to_string(second.error());
  const auto remembered = (*second)->devices()[0]->tuning()->found();
  ASSERT_EQ(remembered.size(), found.size());
  for (const auto& [key, kernel] : found)
    EXPECT_EQ(remembered.at(key).chosen, kernel.chosen) << key;
}

}  // namespace
}  // namespace terrane::test
