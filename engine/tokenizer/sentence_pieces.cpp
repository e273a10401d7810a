#include "engine/tokenizer/sentence_pieces.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <iterator>
#include <utility>

namespace terrane::engine {
namespace {

std::string replaced(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  out.reserve(text.size());
  std::size_t at = 0;
  for (std::size_t found = text.find(from); found != std::string_view::npos;
       found = text.find(from, at)) {
    out.append(text.substr(at, found - at)).append(to);
    at = found + from.size();
  }
  return out.append(text.substr(at));
}

// What the first byte of a character says about its length, right or wrong.
std::size_t announced_length(char first) {
  const auto byte = static_cast<std::uint8_t>(first);
  return byte < 0xC0 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

int hexadecimal(char c) {
  return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

std::string token_text_of(std::uint8_t byte) {
  constexpr std::string_view digits = "0123456789ABCDEF";
  return {'<', '0', 'x', digits[byte >> 4], digits[byte & 15], '>'};
}

bool may_be_spelt(token_type type) {
  return type == token_type::normal || type == token_type::user_defined ||
         type == token_type::unused;
}

tl::unexpected<error> bad_score(std::size_t token) {
  return fail(error_code::invalid_input,
              "the score of token " + std::to_string(token) + " is not a number",
              "tokenizer.ggml.scores");
}

// Every text is one token's, whatever the tokens' types: as in the other vocabularies.
result<void> check_unique(std::span<const std::string> tokens) {
  std::unordered_map<std::string_view, std::size_t> first;
  first.reserve(tokens.size());
  for (std::size_t id = 0; id < tokens.size(); ++id) {
    if (tokens[id].empty()) {
      continue;  // a row without text: reachable by id only
    }
    const auto [at, is_new] = first.try_emplace(tokens[id], id);
    if (!is_new) {
      return fail(error_code::invalid_input,
                  "tokens " + std::to_string(at->second) + " and " + std::to_string(id) +
                      " have the same text; each token's text must be unique",
                  "tokenizer.ggml.tokens");
    }
  }
  return {};
}

}  // namespace

std::string mark_spaces(std::string_view text) { return replaced(text, " ", space_mark); }

std::string unmark_spaces(std::string_view text) { return replaced(text, space_mark, " "); }

std::optional<std::uint8_t> byte_of_token_text(std::string_view text) {
  if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>') {
    return std::nullopt;
  }
  const int high = hexadecimal(text[3]), low = hexadecimal(text[4]);
  if (high < 0 || low < 0) {
    return std::nullopt;
  }
  return static_cast<std::uint8_t>(high * 16 + low);
}

result<sentence_pieces> sentence_pieces::make(std::span<const std::string> tokens,
                                              std::span<const token_type> types,
                                              std::span<const float> scores) {
  assert(types.size() == tokens.size());
  if (scores.size() != tokens.size()) {
    return fail(error_code::invalid_input,
                std::to_string(scores.size()) + " scores for " + std::to_string(tokens.size()) +
                    " tokens; the numbers must be equal",
                "tokenizer.ggml.scores");
  }
  if (auto checked = check_unique(tokens); !checked) {
    return tl::unexpected(checked.error());
  }
  sentence_pieces made;
  made.by_text_.reserve(tokens.size());
  for (token_id id = 0; id < tokens.size(); ++id) {
    if (std::isnan(scores[id])) {
      return bad_score(id);
    }
    if (types[id] == token_type::byte && !byte_of_token_text(tokens[id])) {
      return fail(
          error_code::invalid_input,
          "token " + std::to_string(id) + " is a byte, but its text is not one of <0x00> to <0xFF>",
          "tokenizer.ggml.tokens");
    }
    if (!tokens[id].empty() && may_be_spelt(types[id])) {
      made.by_text_.try_emplace(tokens[id], entry{id, scores[id]});
      made.longest_text_ = std::max(made.longest_text_, tokens[id].size());
    }
  }
  made.name_bytes(tokens, types);
  return made;
}

// A byte's token is the one called "<0xHH>"; some vocabularies have only the byte itself as text.
void sentence_pieces::name_bytes(std::span<const std::string> tokens,
                                 std::span<const token_type> types) {
  for (unsigned byte = 0; byte < 256; ++byte) {
    const char itself = static_cast<char>(byte);
    const entry* found = find(token_text_of(static_cast<std::uint8_t>(byte)));
    found = found != nullptr ? found : find({&itself, 1});
    token_of_byte_[byte] = found != nullptr ? found->token : none;
  }
  for (token_id id = 0; id < tokens.size(); ++id) {
    if (types[id] == token_type::byte) {
      token_of_byte_[*byte_of_token_text(tokens[id])] = id;
    }
    if (types[id] == token_type::unknown && unknown_ == none) {
      unknown_ = id;
    }
  }
}

const sentence_pieces::entry* sentence_pieces::find(std::string_view text) const {
  if (text.size() > longest_text_) {
    return nullptr;
  }
  const auto at = by_text_.find(text);
  return at == by_text_.end() ? nullptr : &at->second;
}

// A part of the text, in a doubly linked list over one vector.
struct sentence_pieces::link {
  std::uint32_t begin = 0;
  std::uint32_t length = 0;  // 0: has become part of its left neighbour
  std::uint32_t previous = none;
  std::uint32_t next = none;
  token_id token = none;  // of what was joined
};

// Two neighbours that spelt a token when they were seen. Parts only grow, so it is stale exactly
// when their lengths no longer add up.
struct sentence_pieces::candidate {
  float score = 0;
  std::uint32_t left = 0;
  std::uint32_t right = 0;
  std::uint32_t length = 0;
  token_id token = none;

  // For a heap whose top is the highest score, then the leftmost.
  bool operator<(const candidate& other) const {
    return score != other.score ? score < other.score : left > other.left;
  }
};

// The work on one text.
class sentence_pieces::joining {
 public:
  joining(const sentence_pieces& words, std::string_view text) : words_(words), text_(text) {
    const auto size = static_cast<std::uint32_t>(text.size());
    for (std::uint32_t at = 0; at < size;) {
      const auto here = static_cast<std::uint32_t>(links_.size());
      const std::uint32_t length =
          std::min(static_cast<std::uint32_t>(announced_length(text[at])), size - at);
      links_.push_back({at, length, here == 0 ? none : here - 1, here + 1, none});
      at += length;
    }
    links_.back().next = none;
  }

  void run(std::vector<token_id>& out) {
    for (std::uint32_t i = 0; i < links_.size(); ++i) {
      consider(i, links_[i].next);
    }
    std::make_heap(heap_.begin(), heap_.end());
    is_heap_ = true;
    while (!heap_.empty()) {
      std::pop_heap(heap_.begin(), heap_.end());
      const candidate best = heap_.back();
      heap_.pop_back();
      join(best);
    }
    for (std::uint32_t i = 0; i != none; i = links_[i].next) {
      if (links_[i].token != none) {
        out.push_back(links_[i].token);
      } else {
        words_.emit(text_.substr(links_[i].begin, links_[i].length), out);
      }
    }
  }

 private:
  void consider(std::uint32_t left, std::uint32_t right) {
    if (left == none || right == none) {
      return;
    }
    const std::uint32_t length = links_[left].length + links_[right].length;
    const entry* found = words_.find(text_.substr(links_[left].begin, length));
    if (found == nullptr) {
      return;
    }
    heap_.push_back({found->score, left, right, length, found->token});
    if (is_heap_) {
      std::push_heap(heap_.begin(), heap_.end());
    }
  }

  void join(const candidate& best) {
    link& left = links_[best.left];
    link& right = links_[best.right];
    if (left.length == 0 || right.length == 0 || left.length + right.length != best.length) {
      return;
    }
    left.length = best.length;
    left.token = best.token;
    left.next = right.next;
    right.length = 0;
    if (left.next != none) {
      links_[left.next].previous = best.left;
    }
    consider(left.previous, best.left);
    consider(best.left, left.next);
  }

  const sentence_pieces& words_;
  std::string_view text_;
  std::vector<link> links_;
  std::vector<candidate> heap_;
  bool is_heap_ = false;
};

void sentence_pieces::append(std::string_view text, std::vector<token_id>& out) const {
  assert(text.size() < none);
  if (!text.empty()) {
    joining(*this, text).run(out);
  }
}

// The tokens of one character.
void sentence_pieces::emit(std::string_view text, std::vector<token_id>& out) const {
  if (const entry* whole = find(text)) {
    out.push_back(whole->token);
    return;
  }
  const auto token_of = [&](char c) { return token_of_byte_[static_cast<std::uint8_t>(c)]; };
  if (std::all_of(text.begin(), text.end(), [&](char c) { return token_of(c) != none; })) {
    std::transform(text.begin(), text.end(), std::back_inserter(out), token_of);
  } else if (unknown_ != none) {
    out.push_back(unknown_);
  }
}

}  // namespace terrane::engine
