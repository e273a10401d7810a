#include "engine/tokenizer/byte_pairs.hpp"

#include <algorithm>
#include <cassert>
#include <limits>
#include <utility>

#include "engine/tokenizer/byte_alphabet.hpp"

namespace terrane::engine {
namespace {

constexpr std::uint64_t pair_key(std::uint32_t left, std::uint32_t right) {
  return std::uint64_t{left} << 32 | right;
}

}  // namespace

// A symbol of the piece in work, in a doubly linked list over one vector.
struct byte_pairs::link {
  symbol s = 0;
  std::uint32_t previous = none;
  std::uint32_t next = none;
  bool alive = true;
};

// A merge that could be made when it was found. It is stale if either symbol has changed since.
struct byte_pairs::candidate {
  std::uint32_t rank = 0;
  std::uint32_t left = 0;
  symbol left_symbol = 0;
  symbol right_symbol = 0;
  symbol joined = 0;

  // For a heap whose top is the lowest rank, then the leftmost.
  bool operator<(const candidate& other) const {
    return std::pair(rank, left) > std::pair(other.rank, other.left);
  }
};

result<byte_pairs> byte_pairs::make(const std::vector<std::string>& tokens,
                                    const std::vector<bool>& may_emit,
                                    const std::vector<std::string>& merges) {
  assert(may_emit.size() == tokens.size());
  byte_pairs made;
  made.symbol_of_text_.reserve(tokens.size() + 256);
  for (std::size_t id = 0; id < tokens.size(); ++id) {
    made.token_of_symbol_.push_back(may_emit[id] ? static_cast<token_id>(id) : none);
    if (tokens[id].empty()) {
      continue;
    }  // a row without text: reachable by id only
    const auto [at, is_new] = made.symbol_of_text_.try_emplace(tokens[id], static_cast<symbol>(id));
    if (!is_new) {
      return fail(error_code::invalid_input,
                  "tokens " + std::to_string(at->second) + " and " + std::to_string(id) +
                      " have the same text; each token's text must be unique",
                  "tokenizer.ggml.tokens");
    }
    made.longest_text_ = std::max(made.longest_text_, tokens[id].size());
    if (!may_emit[id]) {
      made.bytes_of_symbol_.emplace(static_cast<symbol>(id), bytes_of_token_text(tokens[id]));
    }
  }
  for (unsigned byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    made.symbol_of_byte_[byte] = made.intern(to_byte_alphabet({&c, 1}));
  }
  made.merges_.reserve(merges.size());
  for (std::size_t rank = 0; rank < merges.size(); ++rank) {
    const std::size_t space = merges[rank].find(' ', 1);
    if (space == std::string::npos || space + 1 == merges[rank].size()) {
      return fail(error_code::invalid_input,
                  "merge " + std::to_string(rank) + " is not two parts with a space between",
                  "tokenizer.ggml.merges");
    }
    const std::string left = merges[rank].substr(0, space);
    const std::string right = merges[rank].substr(space + 1);
    const std::uint64_t key = pair_key(made.intern(left), made.intern(right));
    const symbol joined = made.intern(left + right);
    made.merges_.try_emplace(key, merge{static_cast<std::uint32_t>(rank), joined});
  }
  return made;
}

byte_pairs::symbol byte_pairs::intern(const std::string& text) {
  const auto [at, is_new] =
      symbol_of_text_.try_emplace(text, static_cast<symbol>(token_of_symbol_.size()));
  if (is_new) {
    token_of_symbol_.push_back(none);
    bytes_of_symbol_.emplace(at->second, bytes_of_token_text(text));
  }
  return at->second;
}

const byte_pairs::merge* byte_pairs::find(symbol left, symbol right) const {
  const auto at = merges_.find(pair_key(left, right));
  return at == merges_.end() ? nullptr : &at->second;
}

void byte_pairs::emit(symbol s, std::vector<token_id>& out) const {
  if (token_of_symbol_[s] != none) {
    out.push_back(token_of_symbol_[s]);
    return;
  }
  for (const char c : bytes_of_symbol_.at(s)) {
    const symbol byte = symbol_of_byte_[static_cast<std::uint8_t>(c)];
    if (token_of_symbol_[byte] != none) {
      out.push_back(token_of_symbol_[byte]);
    }
  }
}

bool byte_pairs::append_whole(std::string_view piece, std::vector<token_id>& out) const {
  if (piece.size() > longest_text_) {
    return false;
  }
  const auto at = symbol_of_text_.find(to_byte_alphabet(piece));
  if (at == symbol_of_text_.end() || token_of_symbol_[at->second] == none) {
    return false;
  }
  out.push_back(token_of_symbol_[at->second]);
  return true;
}

void byte_pairs::append(std::string_view piece, std::vector<token_id>& out) const {
  assert(piece.size() < none);
  const auto size = static_cast<std::uint32_t>(piece.size());
  std::vector<link> links(size);
  for (std::uint32_t i = 0; i < size; ++i) {
    links[i].s = symbol_of_byte_[static_cast<std::uint8_t>(piece[i])];
    links[i].previous = i == 0 ? none : i - 1;
    links[i].next = i + 1 == size ? none : i + 1;
  }
  std::vector<candidate> heap;
  const auto consider = [&](std::uint32_t left) {
    if (left == none || links[left].next == none) {
      return;
    }
    const symbol a = links[left].s, b = links[links[left].next].s;
    const merge* m = find(a, b);
    if (m == nullptr) {
      return;
    }
    heap.push_back({m->rank, left, a, b, m->joined});
    std::push_heap(heap.begin(), heap.end());
  };
  for (std::uint32_t i = 0; i < size; ++i) {
    consider(i);
  }
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end());
    const candidate best = heap.back();
    heap.pop_back();
    link& left = links[best.left];
    if (!left.alive || left.s != best.left_symbol || left.next == none ||
        links[left.next].s != best.right_symbol) {
      continue;
    }
    link& right = links[left.next];
    right.alive = false;
    left.s = best.joined;
    left.next = right.next;
    if (left.next != none) {
      links[left.next].previous = best.left;
    }
    consider(left.previous);
    consider(best.left);
  }
  for (std::uint32_t i = 0; i != none && i < size; i = links[i].next) {
    emit(links[i].s, out);
  }
}

}  // namespace terrane::engine
