#include "tests/bench/synth_vocabulary.hpp"

#include <array>
#include <cassert>
#include <string_view>
#include <unordered_set>
#include <utility>

namespace terrane::bench {
namespace {

constexpr std::int32_t normal_token = 1;
constexpr std::int32_t control_token = 3;

constexpr std::array<std::string_view, 4> special_tokens{"<|begin_of_text|>", "<|end_of_text|>",
                                                         "<|im_start|>", "<|im_end|>"};

// Each is built by merges from its left end. A leading space is part of a word, as in GPT-2.
constexpr auto merged_words = std::to_array<std::string_view>(
    {" the",  " of",    " and",   " to",    " in",     " is",    " that",     " for",
     " it",   " was",   " on",    " with",  " as",     " are",   " be",       " this",
     " have", " from",  " or",    " one",   " had",    " by",    " word",     " but",
     " not",  " what",  " all",   " were",  " we",     " when",  " your",     " can",
     " said", " there", " use",   " an",    " each",   " which", " she",      " do",
     " how",  " their", " if",    " will",  " up",     " other", " about",    " out",
     " many", " then",  " them",  " these", " so",     " some",  " her",      " would",
     " make", " like",  " model", " layer", " system", "user",   "assistant", "  "});

void append_utf8(std::string& to, std::uint32_t code) {  // below U+0800
  if (code < 0x80) {
    to += static_cast<char>(code);
  } else {
    to += static_cast<char>(0xC0 | code >> 6);
    to += static_cast<char>(0x80 | (code & 0x3F));
  }
}

// GPT-2 shows a byte that prints as itself and the 68 others as U+0100 onward, in rising order.
bool prints(std::uint32_t byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD);
}

std::string symbol(std::uint32_t byte) {
  std::uint32_t code = byte;
  if (!prints(byte)) {
    code = 0x100;
    for (std::uint32_t earlier = 0; earlier < byte; ++earlier) {
      code += prints(earlier) ? 0 : 1;
    }
  }
  std::string out;
  append_utf8(out, code);
  return out;
}

// Word `index` of an invented language: a space and three or more syllables.
std::string invented_word(std::uint32_t index) {
  constexpr std::string_view consonants = "bdfghjklmnprstvz";
  constexpr std::string_view vowels = "aeiou";
  constexpr std::uint32_t syllables = consonants.size() * vowels.size();
  std::string out = symbol(' ');
  for (int k = 0; k < 3 || index > 0; ++k) {
    const std::uint32_t syllable = index % syllables;
    out += consonants[syllable / vowels.size()];
    out += vowels[syllable % vowels.size()];
    index /= syllables;
  }
  return out;
}

class builder {
 public:
  explicit builder(std::uint32_t size) : size_(size) {}

  synthetic_vocabulary build() {
    for (const bool printing : {true, false}) {
      for (std::uint32_t byte = 0; byte < 256; ++byte) {
        if (prints(byte) == printing) {
          add(symbol(byte), normal_token);
        }
      }
    }
    for (const std::string_view word : merged_words) {
      merge(word);
    }
    for (std::uint32_t i = 0; room() > 0; ++i) {
      add(invented_word(i), normal_token);
    }
    for (const std::string_view special : special_tokens) {
      add(std::string(special), control_token);
    }
    out_.begin_of_text = size_ - 4;
    out_.end_of_text = size_ - 3;
    out_.end_of_turn = size_ - 1;
    return std::move(out_);
  }

 private:
  std::size_t room() const { return size_ - special_tokens.size() - out_.tokens.size(); }

  void add(const std::string& token, std::int32_t type) {
    if (known_.insert(token).second) {
      out_.tokens.push_back(token);
      out_.token_types.push_back(type);
    }
  }

  void merge(std::string_view word) {
    std::string left = symbol(static_cast<std::uint8_t>(word[0]));
    for (const char c : word.substr(1)) {
      const std::string right = symbol(static_cast<std::uint8_t>(c));
      std::string pair = left;
      pair.append(" ").append(right);
      left += right;
      if (known_.contains(left)) {
        continue;
      }
      if (room() == 0) {
        return;
      }
      add(left, normal_token);
      out_.merges.push_back(pair);
    }
  }

  std::uint32_t size_;
  synthetic_vocabulary out_;
  std::unordered_set<std::string> known_;
};

}  // namespace

const char* const chat_ml_template =
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + message['content'] "
    "+ "
    "'<|im_end|>' + '\\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' "
    "}}{% endif %}";

synthetic_vocabulary make_vocabulary(std::uint32_t size) {
  assert(size >= 256 + special_tokens.size());
  return builder(size).build();
}

}  // namespace terrane::bench
