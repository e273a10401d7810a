// A session: tokens, their KV pages, and the reply that is being given, if any. Belongs to the step
// loop; nobody else touches one.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine.hpp"
#include "engine/kv/page_pool.hpp"
#include "engine/sampling/sampler.hpp"
#include "engine/tokenizer/tokenizer.hpp"
#include "engine/tokenizer/utf8.hpp"

namespace terrane::engine {

// Sends text on until a stop text is seen; holds back what may be the beginning of one.
class stop_texts {
 public:
  explicit stop_texts(std::vector<std::string> texts);
  // Takes more text; returns what may be sent now (valid until the next call).
  std::string_view push(std::string_view text);
  std::string_view finish();  // what was held back, when the reply ends without a stop text
  bool found() const { return found_; }

 private:
  std::vector<std::string> texts_;
  std::string held_, ready_;
  bool found_ = false;
};

using steady_time = std::chrono::steady_clock::time_point;

// The part of a session that exists while it replies.
struct reply {
  reply(generate_request r, std::shared_ptr<reply_observer> o, sampler s,
        std::size_t prompt_end_position)
      : request(std::move(r)),
        observer(std::move(o)),
        choose(std::move(s)),
        stops(request.stop_texts),
        prompt_end(prompt_end_position) {}

  generate_request request;
  std::shared_ptr<reply_observer> observer;
  sampler choose;
  utf8_stream text;
  stop_texts stops;
  std::size_t prompt_end;  // tokens of the session, prompt included
  std::size_t told = 0;    // with every_logit: the position up to which logits were told
  reply_summary summary;
  steady_time started = std::chrono::steady_clock::now(), first_token = started;
};

struct session {
  session_id id = 0;
  std::int64_t owner = 0;
  std::uint32_t slot = 0;
  bool keep = false;
  std::vector<token_id> tokens;                 // all, in order; capacity is the context
  std::size_t computed = 0;                     // of these, whose KV is in the pages
  std::vector<std::vector<kv_page_ptr>> pages;  // [layer][page], as many as are reserved
  std::optional<reply> answering;
  wall_time created = std::chrono::system_clock::now();
  steady_time last_used = std::chrono::steady_clock::now();

  std::size_t pages_reserved() const { return pages.empty() ? 0 : pages.front().size(); }
  // A page is full when it can never change again.
  bool page_is_full(std::size_t page) const {
    return (page + 1) * kernels::page_positions <= computed;
  }
  // A page is past when no query to come sees a key of it: it lies before the layer's window.
  bool page_is_past(std::size_t page, const kernels::attention_shape& shape) const {
    const auto next = static_cast<std::uint32_t>(computed);
    return (page + 1) * kernels::page_positions <= kernels::first_key(shape, next);
  }
  bool page_is_empty(std::size_t page) const { return page * kernels::page_positions >= computed; }
};

}  // namespace terrane::engine
