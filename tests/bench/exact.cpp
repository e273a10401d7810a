#include "tests/bench/exact.hpp"

#include <algorithm>
#include <atomic>
#include <map>
#include <thread>

#include "tests/bench/corrupting_device.hpp"

namespace terrane::bench {

namespace {

// What is moved, one after another: the whole model, single parts, every other part (holes), the KV
// of old pages alone, and all of it back.
class move_script {
 public:
  move_script(const engine::inference_engine& e, engine::session_id session)
      : parts_(static_cast<engine::part_index>(e.loaded_model().parts().size())),
        devices_(static_cast<std::uint32_t>(e.devices().size())),
        layers_(e.loaded_model().config().layers),
        session_(session) {}

  engine::move_request next() {
    const std::uint32_t round = made_ / 6, to = (made_ + 1) % devices_, home = made_ % devices_;
    engine::move_request r;
    r.by = "bench";
    auto add = [&](engine::part_index p, std::uint32_t d) { r.parts.push_back({p, d}); };
    switch (made_++ % 6) {
      case 0:  // everything
        for (engine::part_index p = 0; p < parts_; p++) add(p, to);
        break;
      case 1:  // one layer's attention and another's feed-forward
        add(1 + 2 * (round % layers_), to);
        add(2 + 2 * ((round * 7 + 3) % layers_), to);
        break;
      case 2:  // holes: every other part
        for (engine::part_index p = 0; p < parts_; p++) add(p, p % 2 == 0 ? to : home);
        break;
      case 3:  // old KV pages away from their parts
        r.spill = engine::spill_request{session_, 16, to};
        break;
      case 4:  // the parts move under the pages that live elsewhere
        for (engine::part_index p = 1; p + 1 < parts_; p += 2) add(p, home);
        break;
      default:  // pages come home
        r.spill = engine::spill_request{session_, 0, std::nullopt};
        break;
    }
    return r;
  }

 private:
  engine::part_index parts_;
  std::uint32_t devices_, layers_;
  engine::session_id session_;
  std::uint32_t made_ = 0;
};

struct outcome {
  std::shared_ptr<recorder> reply = std::make_shared<recorder>();
  std::vector<engine::move_status> moves;
  std::map<std::string, std::uint64_t> peak_bytes;
  bool flipped = false;  // a bit, by a move of `moves`
};

void note_bytes(const engine::inference_engine& e, outcome& o) {
  for (const engine::device* d : e.devices()) {
    const std::uint64_t held =
        d->used_bytes(engine::memory_use::weights) + d->used_bytes(engine::memory_use::kv);
    o.peak_bytes[d->info().name] = std::max(o.peak_bytes[d->info().name], held);
  }
}

result<outcome> run_reply(engine::inference_engine& e, const exact_options& options,
                          const std::vector<engine::token_id>& prompt, std::uint32_t moves,
                          std::uint32_t chunk, std::atomic<bool>& flipped) {
  outcome o;
  flipped = false;  // what was flipped on the way home is in no reply
  engine::generate_request request;
  request.prompt = prompt;
  request.max_tokens = options.tokens;
  request.prompt_chunk = chunk;
  request.hash_logits = true;
  request.sampling.seed = options.seed;
  auto due = [&](std::uint32_t m) {
    return 1 + std::size_t{m} * (options.tokens - 1) / std::max(1U, moves);
  };
  // A small model would be done before its moves are: while they lag, tokens wait as long as a move
  // is heard to copy. When it is not, it waits for the loop that is held here, or compiles: the
  // longer it is overdue, the longer a token waits, so that no reply runs out of tokens.
  constexpr std::chrono::milliseconds copying{60}, a_little{250}, at_most{5000};
  std::atomic<std::uint32_t> committed{0};
  std::atomic<steady_time> heard{std::chrono::steady_clock::now()};
  o.reply->after_token = [&](std::size_t tokens) {
    const steady_time begin = std::chrono::steady_clock::now();
    while (committed < moves && tokens >= due(committed + 1)) {
      const steady_time now = std::chrono::steady_clock::now();
      const auto patience = a_little * (1 + tokens - due(committed + 1));
      if ((now - begin > patience && now - heard.load() > copying) || now - begin > at_most) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  };
  result<engine::session_id> session = e.generate(request, o.reply);
  if (!session) return tl::unexpected<error>(session.error());
  move_script script(e, *session);
  for (std::uint32_t m = 0; m < moves && !o.reply->ended(); m++) {
    o.reply->wait_for(due(m));
    engine::move_status s =
        move_and_wait(e, script.next(), [&heard] { heard = std::chrono::steady_clock::now(); });
    committed = m + 1;
    note_bytes(e, o);
    if (s.state != engine::move_state::committed && !o.reply->ended())
      return tl::unexpected<error>(*s.failure);
    if (o.reply->ended()) break;
    o.moves.push_back(std::move(s));
    o.flipped = flipped;
  }
  const engine::reply_summary& end = o.reply->wait();
  if (end.failure) return tl::unexpected<error>(*end.failure);
  return o;
}

// Everything back on the first device, before the next prompt.
result<void> gather_home(engine::inference_engine& e) {
  engine::move_status s = move_and_wait(e, everything_to(e, 0));
  if (s.failure) return tl::unexpected<error>(*s.failure);
  return {};
}

std::int64_t first_difference(const recorder& a, const recorder& b) {
  for (std::size_t i = 0; i < std::max(a.hashes.size(), b.hashes.size()); i++)
    if (i >= a.hashes.size() || i >= b.hashes.size() || a.hashes[i] != b.hashes[i])
      return static_cast<std::int64_t>(i);
  return -1;
}

struct run_facts {
  bool equal = false;
  std::size_t made = 0, asked = 0;        // moves
  std::string unused;                     // devices
  bool corrupt = false, flipped = false;  // `flipped`: in a reply
};

// Why a run does not show what it was asked for, first things first; empty: it does.
std::string what_is_missing(const run_facts& f) {
  if (!f.equal)
    return f.corrupt ? "one bit of a page was flipped, and the logits differ, as they should"
                     : "the logits differ: a move has changed the reply";
  if (f.corrupt && !f.flipped)
    return "no bit was flipped in a reply, which ended before a whole page of KV had been moved; "
           "ask for more --tokens or --moves";
  if (f.corrupt) return "one bit of a page was flipped, and no logit shows it";
  if (f.made < f.asked)
    return "only " + std::to_string(f.made) + " of the " + std::to_string(f.asked) +
           " moves fell into replies, which ended before; ask for more --tokens or fewer --moves";
  if (!f.unused.empty() && f.asked > 0)
    return f.unused + " computed nothing or held nothing; ask for more --moves";
  return {};
}

}  // namespace

result<boost::json::object> run_exact(const exact_options& options) {
  // The reference: the first device alone, nothing ever moved.
  model_choice unmoved = options.model;
  unmoved.devices.resize(1);
  result<std::unique_ptr<engine::inference_engine>> reference = open_model(unmoved);
  if (!reference) return tl::unexpected<error>(reference.error());
  device_wrapper wrap;
  const auto flipped = std::make_shared<std::atomic<bool>>(false);
  if (options.corrupt)
    wrap = [flipped](std::unique_ptr<engine::device> inner, const engine::model& of) {
      return make_corrupting_device(std::move(inner), of, flipped);
    };
  result<std::unique_ptr<engine::inference_engine>> moved = open_model(options.model, wrap);
  if (!moved) return tl::unexpected<error>(moved.error());

  std::vector<std::vector<engine::token_id>> prompts;
  for (const std::string& text : options.prompts) {
    auto tokens = (*moved)->words().encode(text, engine::special_text::as_tokens);
    if (!tokens) return tl::unexpected<error>(tokens.error());
    prompts.push_back(std::move(*tokens));
  }
  if (prompts.empty())
    prompts.push_back(random_tokens(**moved, options.random_prompt, options.seed));

  bool equal = true, in_reply = false;
  std::size_t made = 0;
  boost::json::array replies;
  std::map<std::string, std::uint64_t> peak;
  for (const auto& prompt : prompts) {
    result<outcome> plain = run_reply(**reference, options, prompt, 0, 0, *flipped);
    if (!plain) return tl::unexpected<error>(plain.error());
    result<outcome> with =
        run_reply(**moved, options, prompt, options.moves, options.prompt_chunk, *flipped);
    if (!with) return tl::unexpected<error>(with.error());
    result<void> home = gather_home(**moved);
    if (!home) return tl::unexpected<error>(home.error());
    const std::int64_t differs = first_difference(*plain->reply, *with->reply);
    equal = equal && differs < 0;
    made += with->moves.size();
    in_reply = in_reply || with->flipped;
    std::vector<double> pauses, prepare;
    for (const engine::move_status& m : with->moves) {
      pauses.push_back(m.pause_ms);
      prepare.push_back(m.prepare_ms);
    }
    for (const auto& [name, bytes] : with->peak_bytes) peak[name] = std::max(peak[name], bytes);
    replies.push_back(
        {{"prompt_tokens", prompt.size()},
         {"tokens", with->reply->hashes.size()},
         {"moves", with->moves.size()},
         {"equal", differs < 0},
         {"first_difference", differs},
         {"logits_hash", std::to_string(with->reply->wait().logits_hash)},
         {"commit_ms_max", quantile(pauses, 1)},
         {"prepare_ms", {{"p50", quantile(prepare, 0.5)}, {"max", quantile(prepare, 1)}}}});
  }
  boost::json::array devices;
  std::string unused;
  for (const engine::device* d : (*moved)->devices()) {
    const std::string& name = d->info().name;
    if (d->launches() == 0 || peak[name] == 0) unused += (unused.empty() ? "" : ", ") + name;
    devices.push_back({{"name", name}, {"launches", d->launches()}, {"bytes", peak[name]}});
  }
  const run_facts facts{
      equal, made, std::size_t{options.moves} * prompts.size(), unused, options.corrupt, in_reply};
  boost::json::object result{{"command", "exact"},
                             {"equal", equal},
                             {"moves", made},
                             {"moves_asked", facts.asked},
                             {"all_devices_used", unused.empty()},
                             {"devices", devices},
                             {"replies", replies},
                             {"on", describe(**moved)}};
  if (options.corrupt) result["flipped"] = in_reply || !equal;
  if (const std::string missing = what_is_missing(facts); !missing.empty())
    result["not_shown"] = missing;
  return result;
}

}  // namespace terrane::bench
