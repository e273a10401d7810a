// What every subcommand of terrane-bench needs: a model on devices, replies with a time stamp for
// every token, and JSON to print. For one thread, with the engine's own behind it.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <boost/json.hpp>

#include "engine/device/discovery.hpp"
#include "engine/engine.hpp"

namespace terrane::bench {

using steady_time = std::chrono::steady_clock::time_point;

double ms_between(steady_time a, steady_time b);
// The value below which the share `q` (0..1) of the values lie; 0 of none.
double quantile(std::vector<double> values, double q);

struct model_choice {
  std::string path;
  std::vector<std::string> devices;  // the first holds all parts at the start
  std::uint32_t context_tokens = 0;
  std::uint32_t rows = 64;
  std::uint32_t sessions = 2;
  unsigned threads = 0;
  std::string cache_folder;  // of compiled code and self-test results; empty: none is kept
  bool check_numbers = true;
  std::uint64_t attention_bytes = engine::engine_options().attention_bytes;
  bool tune = false;  // times all kernels anew; else what the cache folder remembers is used
};

// How long open_model() took.
struct open_times {
  double devices_ms = 0;  // opening them, the contract's self-test included
  double engine_ms = 0;   // loading weights, compiling and recording
};

// Wraps opened devices before the engine gets them (exact --corrupt).
using device_wrapper = std::function<std::unique_ptr<engine::device>(
    std::unique_ptr<engine::device>, const engine::model&)>;
result<std::unique_ptr<engine::inference_engine>> open_model(const model_choice& choice,
                                                             const device_wrapper& wrap = {},
                                                             open_times* times = nullptr);

// `count` tokens that depend on the seed alone and are in the vocabulary, no control tokens.
std::vector<engine::token_id> random_tokens(const engine::inference_engine& e, std::size_t count,
                                            std::uint64_t seed);

// Every part to one device.
engine::move_request everything_to(const engine::inference_engine& e, std::uint32_t device);

// Keeps what a reply gives. wait() returns when it has ended.
class recorder final : public engine::reply_observer {
 public:
  void on_token(const engine::token_event& token) override;
  void on_end(const engine::reply_summary& summary) override;

  const engine::reply_summary& wait();
  bool ended() const { return ended_.load(); }
  std::size_t tokens() const { return count_.load(); }
  // Waits until so many tokens are there or the reply has ended.
  void wait_for(std::size_t tokens);

  // Called on the engine's thread after each token, with their number; set before the reply begins.
  std::function<void(std::size_t tokens)> after_token;

  // Of tokens drawn, in order; read them after wait().
  std::vector<steady_time> times;
  std::vector<std::uint64_t> hashes;
  std::vector<engine::token_id> ids;

 private:
  std::mutex guard_;
  std::condition_variable changed_;
  std::atomic<std::size_t> count_{0};
  std::atomic<bool> ended_{false};
  engine::reply_summary summary_;
};

// Runs a move to its end and returns its last status. `on_progress` is called each time that
// something is heard of it.
engine::move_status move_and_wait(engine::inference_engine& e, engine::move_request request,
                                  const std::function<void()>& on_progress = {});

// Bytes that a decode step reads at this context: weights once, KV of one session.
std::uint64_t bytes_per_token(const engine::model& of, std::uint32_t context_tokens);

boost::json::value describe(const engine::inference_engine& e);
// What the tuner found for the kernels of a device.
boost::json::array tuning_of(engine::device& on);

}  // namespace terrane::bench
