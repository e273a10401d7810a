#include "tests/bench/move.hpp"

#include <algorithm>
#include <array>
#include <optional>

namespace terrane::bench {

namespace {

struct one_move {
  std::uint32_t to = 0;
  steady_time begin, committed;  // asked for; reported as committed
  engine::move_status status;
};

// Gaps between tokens, and on which placement the later token was made.
struct token_gaps {
  std::vector<steady_time> end;
  std::vector<double> ms;
  std::vector<int> placement;   // device, or -1 where a commit fell into the gap
  std::vector<bool> preparing;  // a move was being prepared in some of it
};

token_gaps measure_gaps(const recorder& reply, const std::vector<one_move>& moves) {
  token_gaps g;
  for (std::size_t i = 1; i < reply.times.size(); i++) {
    int placement = 0;
    bool preparing = false;
    for (const one_move& m : moves) {
      preparing |= m.begin <= reply.times[i] && m.committed >= reply.times[i - 1];
      if (m.committed < reply.times[i - 1])
        placement = static_cast<int>(m.to);
      else if (m.committed <= reply.times[i])
        placement = -1;
    }
    g.end.push_back(reply.times[i]);
    g.ms.push_back(ms_between(reply.times[i - 1], reply.times[i]));
    g.placement.push_back(placement);
    g.preparing.push_back(preparing);
  }
  return g;
}

// The undisturbed ones.
std::vector<double> gaps_on(const token_gaps& g, int placement) {
  std::vector<double> out;
  for (std::size_t i = 0; i < g.ms.size(); i++)
    if (g.placement[i] == placement && !g.preparing[i]) out.push_back(g.ms[i]);
  return out;
}

// Tokens a second on a placement while a move prepared, as a share of the undisturbed rate there.
double share_while_preparing(const token_gaps& g, int placement, double median) {
  double spent = 0, undisturbed = 0;
  for (std::size_t i = 0; i < g.ms.size(); i++) {
    if (g.placement[i] != placement || !g.preparing[i]) continue;
    spent += g.ms[i];
    undisturbed += median;
  }
  return spent == 0 ? 1 : undisturbed / spent;
}

boost::json::object quantiles(const std::vector<double>& v) {
  return {{"p50", quantile(v, 0.5)},
          {"p99", quantile(v, 0.99)},
          {"max", quantile(v, 1)},
          {"count", v.size()}};
}

// The undisturbed gaps while the model stayed where move `index` took it.
std::vector<double> stay_after(const token_gaps& g, const std::vector<one_move>& moves,
                               std::size_t index) {
  std::vector<double> stay;
  for (std::size_t i = 0; i < g.ms.size(); i++) {
    const bool before_next = index + 1 == moves.size() || g.end[i] < moves[index + 1].committed;
    const bool undisturbed = g.placement[i] >= 0 && !g.preparing[i];
    if (undisturbed && g.end[i] > moves[index].committed && before_next) stay.push_back(g.ms[i]);
  }
  return stay;
}

// What a move added to the gap that its commit fell into, and a gap as usual after it.
struct pause {
  double ms = 0;
  double usual_ms = 0;
};

// Nothing for a move after which no token came.
std::optional<pause> pause_of(const token_gaps& g, const std::vector<one_move>& moves,
                              std::size_t index) {
  const auto gap = std::lower_bound(g.end.begin(), g.end.end(), moves[index].committed);
  if (gap == g.end.end()) return std::nullopt;
  // Of that stay alone: a context that grows makes later tokens slower, and that is no pause.
  const double usual = quantile(stay_after(g, moves, index), 0.5);
  const double ms = g.ms[static_cast<std::size_t>(gap - g.end.begin())];
  return pause{std::max(0.0, ms - usual), usual};
}

// The pauses of all moves, each as a share of the token interval on the placement it led to.
boost::json::object pauses_in_tokens(const token_gaps& g, const std::vector<one_move>& moves) {
  std::vector<double> shares;
  for (std::size_t index = 0; index < moves.size(); index++) {
    const std::optional<pause> p = pause_of(g, moves, index);
    if (p && p->usual_ms > 0) shares.push_back(p->ms / p->usual_ms);
  }
  return quantiles(shares);
}

boost::json::object direction(const token_gaps& g, const std::vector<one_move>& moves,
                              std::uint32_t to, const std::array<double, 2>& tokens_ms) {
  const double token_ms = tokens_ms[to];
  const std::uint32_t from = 1 - to;
  std::vector<double> pauses, jitter, stood_still, prepare;
  std::uint64_t bytes_before = 0, bytes_in_pause = 0;
  for (std::size_t index = 0; index < moves.size(); index++) {
    const one_move& m = moves[index];
    if (m.to != to) continue;
    if (const std::optional<pause> p = pause_of(g, moves, index)) pauses.push_back(p->ms);
    const std::vector<double> stay = stay_after(g, moves, index);
    const double usual = quantile(stay, 0.5);
    for (double ms : stay) jitter.push_back(std::max(0.0, ms - usual));
    stood_still.push_back(m.status.pause_ms);
    prepare.push_back(m.status.prepare_ms);
    bytes_before = std::max(bytes_before, m.status.bytes_done);
    bytes_in_pause = std::max(bytes_in_pause, m.status.bytes_in_pause);
  }
  return {{"pause_ms", quantiles(pauses)},
          {"jitter_ms", quantiles(jitter)},
          {"commit_ms", quantiles(stood_still)},
          {"prepare_ms", quantile(prepare, 0.5)},
          {"token_rate_while_preparing",
           share_while_preparing(g, static_cast<int>(from), tokens_ms[from])},
          {"token_ms", token_ms},
          {"pause_p99_in_tokens", token_ms > 0 ? quantile(pauses, 0.99) / token_ms : 0},
          {"bytes_before", bytes_before},
          {"bytes_in_pause", bytes_in_pause}};
}

boost::json::array each_of(const token_gaps& g, const std::vector<one_move>& moves) {
  boost::json::array out;
  for (std::size_t index = 0; index < moves.size(); index++) {
    const one_move& m = moves[index];
    const std::optional<pause> p = pause_of(g, moves, index);
    if (!p) continue;
    const std::vector<double> stay = stay_after(g, moves, index);
    const boost::json::array next(stay.begin(),
                                  stay.begin() + std::min<std::ptrdiff_t>(4, std::ssize(stay)));
    out.push_back(boost::json::object{{"to", m.to},
                                      {"pause_ms", p->ms},
                                      {"usual_ms", p->usual_ms},
                                      {"next_ms", next},
                                      {"commit_ms", m.status.pause_ms},
                                      {"prepare_ms", m.status.prepare_ms}});
  }
  return out;
}

}  // namespace

result<boost::json::object> run_move(const move_options& options) {
  result<std::unique_ptr<engine::inference_engine>> opened = open_model(options.model);
  if (!opened) return tl::unexpected<error>(opened.error());
  engine::inference_engine& e = **opened;
  auto reply = std::make_shared<recorder>();
  engine::generate_request request;
  request.prompt = random_tokens(e, options.context, options.seed);
  request.max_tokens = 1U << 20;
  request.sampling.seed = options.seed;
  result<engine::session_id> session = e.generate(request, reply);
  if (!session) return tl::unexpected<error>(session.error());
  reply->wait_for(16);

  std::vector<one_move> moves;
  for (std::uint32_t m = 0; m < options.repeat && !reply->ended(); m++) {
    one_move made;
    made.to = (m + 1) % 2;
    made.begin = std::chrono::steady_clock::now();
    made.status = move_and_wait(e, everything_to(e, made.to));
    made.committed = made.status.committed_at;
    if (made.status.failure) return tl::unexpected<error>(*made.status.failure);
    moves.push_back(made);
    reply->wait_for(reply->tokens() + options.settle);
  }
  e.stop(*session);
  const engine::reply_summary& end = reply->wait();
  if (end.failure) return tl::unexpected<error>(*end.failure);

  const token_gaps gaps = measure_gaps(*reply, moves);
  const std::array<double, 2> token_ms = {quantile(gaps_on(gaps, 0), 0.5),
                                          quantile(gaps_on(gaps, 1), 0.5)};
  return boost::json::object{
      {"command", "move"},
      {"context", options.context},
      {"context_at_end", options.context + reply->times.size()},
      {"moves", moves.size()},
      {"to_second", direction(gaps, moves, 1, token_ms)},
      {"back", direction(gaps, moves, 0, token_ms)},
      {"pause_in_tokens", pauses_in_tokens(gaps, moves)},
      {"each", each_of(gaps, moves)},
      {"token_rate_while_preparing", std::min(share_while_preparing(gaps, 0, token_ms[0]),
                                              share_while_preparing(gaps, 1, token_ms[1]))},
      {"page_bytes", kernels::page_bytes(e.loaded_model().config().attention)},
      {"layers", e.loaded_model().config().layers},
      {"on", describe(e)}};
}

}  // namespace terrane::bench
