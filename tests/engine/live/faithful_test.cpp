// Faithful to the model: real models against llama.cpp's numbers (tests/golden/README.md).
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <future>
#include <sstream>

#include <gtest/gtest.h>

#include "tests/bench/bench_model.hpp"

namespace terrane::test {
namespace {

struct golden {
  std::vector<engine::token_id> tokens;
  std::vector<double> nll;  // of the next token
  std::vector<engine::token_id> likeliest;
  double perplexity = 0;
};

golden read_golden(const std::string& name) {
  golden g;
  std::ifstream in(std::string(TERRANE_TEST_DATA) + "/golden/" + name);
  std::string word;
  double count = 0, mean = 0;
  in >> word >> count >> word >> mean >> word >> g.perplexity;
  std::string token, nll, best;
  while (in >> token >> nll >> best) {
    g.tokens.push_back(static_cast<engine::token_id>(std::stoul(token)));
    g.nll.push_back(nll == "-" ? 0 : std::stod(nll));
    g.likeliest.push_back(static_cast<engine::token_id>(std::stoul(best)));
  }
  EXPECT_EQ(g.tokens.size(), static_cast<std::size_t>(count));
  return g;
}

// Likelihoods and likeliest tokens along a text that is given.
class teacher final : public engine::reply_observer {
 public:
  teacher(const golden& file, const golden& exact) : golden_(file), exact_(exact) {}
  void on_token(const engine::token_event&) override {}
  void on_logits(std::uint32_t position, std::span<const float> logits) override {
    std::size_t best = 0;
    for (std::size_t i = 1; i < logits.size(); i++)
      if (logits[i] > logits[best]) best = i;
    agreed += best == golden_.likeliest[position] ? 1 : 0;
    agreed_exactly += best == exact_.likeliest[position] ? 1 : 0;
    positions++;
    if (position + 1 >= golden_.tokens.size()) return;
    double sum = 0;
    for (float l : logits)
      sum += std::exp(static_cast<double>(l) - static_cast<double>(logits[best]));
    nll += std::log(sum) + static_cast<double>(logits[best]) -
           static_cast<double>(logits[golden_.tokens[position + 1]]);
    predicted++;
  }
  void on_end(const engine::reply_summary& s) override { done_.set_value(s); }
  engine::reply_summary wait() { return done_.get_future().get(); }

  std::size_t agreed = 0, agreed_exactly = 0, positions = 0, predicted = 0;
  double nll = 0;

 private:
  const golden &golden_, &exact_;
  std::promise<engine::reply_summary> done_;
};

// `model` names its goldens, `unrounded` the one of llama.cpp without rounded activations;
// `variable` the environment's word for its file. `share`: of the likeliest tokens, those that are
// the unrounded's, at least.
void expect_agreement(const std::string& model, const std::string& unrounded, const char* variable,
                      double share) {
  const char* path = std::getenv(variable);
  if (path == nullptr)
    GTEST_SKIP() << variable << " does not name the model (tests/run.sh sets it)";
  const golden g = read_golden(model + "_perplexity.txt"),
               exact = read_golden(model + "_" + unrounded + "_perplexity.txt");
  ASSERT_EQ(g.tokens, exact.tokens);
  bench::model_choice choice;
  choice.path = path;
  choice.devices = {"cpu"};
  choice.context_tokens = 2048;
  auto e = bench::open_model(choice);
  ASSERT_TRUE(e.has_value()) << to_string(e.error());
  engine::generate_request r;
  r.prompt = g.tokens;
  r.max_tokens = 0;
  r.every_logit = true;
  auto t = std::make_shared<teacher>(g, exact);
  ASSERT_TRUE((*e)->generate(r, t).has_value());
  const engine::reply_summary end = t->wait();
  ASSERT_FALSE(end.failure.has_value());
  ASSERT_EQ(t->positions, g.tokens.size());
  const double perplexity = std::exp(t->nll / static_cast<double>(t->predicted));
  const double count = static_cast<double>(t->positions);
  std::printf(
      "perplexity %.6f; llama.cpp's CPU kernels %.6f (%+.3f %%), unrounded %.6f (%+.3f %%)\n"
      "likeliest tokens equal to llama.cpp's: CPU kernels %.2f %%, unrounded %.2f %%\n",
      perplexity, g.perplexity, 100 * (perplexity / g.perplexity - 1), exact.perplexity,
      100 * (perplexity / exact.perplexity - 1), 100 * static_cast<double>(t->agreed) / count,
      100 * static_cast<double>(t->agreed_exactly) / count);
  EXPECT_NEAR(perplexity / g.perplexity, 1.0, 0.005);
  EXPECT_NEAR(perplexity / exact.perplexity, 1.0, 0.005);
  EXPECT_GE(static_cast<double>(t->agreed_exactly) / count, share);
}

TEST(faithful, smollm2_agrees_with_llama_cpp) {
  expect_agreement("smollm2", "blas", "TERRANE_SMOLLM2", 0.97);
}

// llama.cpp's own kernels reach 95.55 %. See tests/golden/README.md.
TEST(faithful, gemma3_agrees_with_llama_cpp) {
  expect_agreement("gemma3", "f32", "TERRANE_GEMMA3", 0.97);
}

}  // namespace
}  // namespace terrane::test
