#define PCRE2_CODE_UNIT_WIDTH 8
#include "engine/tokenizer/pre_tokenizer.hpp"

#include <cstdint>
#include <utility>

#include <pcre2.h>

namespace terrane::engine {
namespace {

// The insides of character classes. Unicode's White_Space is spelt out because PCRE2's \s has
// U+180E besides. The distribution's PCRE2 knows Unicode 14; the ranges after \p{L} and \p{N} are
// what Unicode 15 and 15.1 added to them, so that the pieces equal llama.cpp's (Unicode 15.1).
#define SPACES \
  R"(\x09-\x0D\x20\x85\xA0\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})"
#define LETTERS                                                                        \
  R"(\p{L}\x{1123F}\x{11240}\x{11F02}\x{11F04}-\x{11F10}\x{11F12}-\x{11F33}\x{1342F})" \
  R"(\x{13441}-\x{13446}\x{1B132}\x{1B155}\x{1DF25}-\x{1DF2A}\x{1E030}-\x{1E06D})"     \
  R"(\x{1E4D0}-\x{1E4EB}\x{2B739}\x{2EBF0}-\x{2EE5D}\x{31350}-\x{323AF})"
#define NUMBERS R"(\p{N}\x{11F50}-\x{11F59}\x{1D2C0}-\x{1D2D3}\x{1E4F0}-\x{1E4F9})"

// A run of spaces leaves its last one to the word that follows, unless nothing follows.
#define SPACES_BEFORE_WORD "[" SPACES "]+(?![^" SPACES "])|[" SPACES "]+"

// Each alternative begins differently enough that a quantifier followed by nothing of its own class
// may be possessive, which keeps matching linear.
#define LLAMA3_LIKE(NUMBER_PIECE)                                                     \
  "'(?:[sStTmMdD]|[rR][eE]|[vV][eE]|[lL][lL])|[^\\r\\n" LETTERS NUMBERS "]?[" LETTERS \
  "]++|" NUMBER_PIECE "| ?[^" SPACES LETTERS NUMBERS "]++[\\r\\n]*+|[" SPACES         \
  "]*[\\r\\n]+|" SPACES_BEFORE_WORD

struct rule {
  std::string_view name;
  const char* pattern;
  bool prefers_whole_pieces;
  bool adds_bos_by_default;
};

constexpr const char* gpt2_pattern = "'(?:[stmd]|re|ve|ll)| ?[" LETTERS "]++| ?[" NUMBERS
                                     "]++| ?[^" SPACES LETTERS NUMBERS "]++|" SPACES_BEFORE_WORD;

// GPT-2's pattern on what is left after each digit has become a piece. A digit ends what stands
// before it, so it counts as the end of the text for a run of spaces.
constexpr const char* smollm_pattern =
    "'(?:[stmd]|re|ve|ll)|[" NUMBERS "]| ?[" LETTERS "]++| ?[^" SPACES LETTERS NUMBERS
    "]++|[" SPACES "]+(?![^" SPACES NUMBERS "])|[" SPACES "]+";

constexpr const char* llama3_pattern = LLAMA3_LIKE("[" NUMBERS "]{1,3}+");
constexpr const char* qwen2_pattern = LLAMA3_LIKE("[" NUMBERS "]");

constexpr rule rules[] = {
    {"gpt-2", gpt2_pattern, false, false},     {"smollm", smollm_pattern, false, false},
    {"llama-bpe", llama3_pattern, true, true}, {"llama3", llama3_pattern, true, true},
    {"llama-v3", llama3_pattern, true, true},  {"qwen2", qwen2_pattern, false, false},
};

std::string supported_names() {
  std::string names;
  for (const rule& r : rules) {
    names.append(names.empty() ? "" : ", ").append(r.name);
  }
  return names;
}

std::string pcre2_message(int code) {
  PCRE2_UCHAR text[256];
  pcre2_get_error_message(code, text, sizeof text);
  return reinterpret_cast<const char*>(text);
}

result<std::shared_ptr<const void>> compile(const rule& r) {
  int code = 0;
  PCRE2_SIZE offset = 0;
  pcre2_code* compiled =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(r.pattern), PCRE2_ZERO_TERMINATED,
                    PCRE2_UTF | PCRE2_UCP | PCRE2_NO_AUTO_CAPTURE, &code, &offset, nullptr);
  if (compiled == nullptr) {
    return fail(error_code::unsupported,
                "the PCRE2 library cannot compile the pattern of pre-tokenizer '" +
                    std::string(r.name) + "': " + pcre2_message(code));
  }
  // Without just-in-time compilation (a build option of the library) matching is slower, not wrong.
  pcre2_jit_compile(compiled, PCRE2_JIT_COMPLETE);
  return std::shared_ptr<const void>(compiled, [](const void* p) {
    pcre2_code_free(static_cast<pcre2_code*>(const_cast<void*>(p)));
  });
}

// PCRE2 reads only well-formed UTF-8. A surrogate, which repair_utf8 lets through, is neither
// letter, number nor space; so it is matched as U+E000, which is the same and as long.
std::string without_surrogates(std::string_view text) {
  std::string out(text);
  for (std::size_t i = 0; i + 2 < out.size(); ++i) {
    if (out[i] == '\xED' && static_cast<std::uint8_t>(out[i + 1]) >= 0xA0) {
      out.replace(i, 3, "\xEE\x80\x80");
    }
  }
  return out;
}

using match_data = std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)>;

}  // namespace

result<pre_tokenizer> pre_tokenizer::make(std::string_view name) {
  for (const rule& r : rules) {
    if (r.name != name) {
      continue;
    }
    auto pattern = compile(r);
    if (!pattern) {
      return tl::unexpected(pattern.error());
    }
    pre_tokenizer made;
    made.pattern_ = *std::move(pattern);
    made.prefers_whole_pieces_ = r.prefers_whole_pieces;
    made.adds_bos_by_default_ = r.adds_bos_by_default;
    return made;
  }
  return fail(error_code::unsupported,
              (name.empty() ? "the file does not name its pre-tokenizer"
                            : "pre-tokenizer '" + std::string(name) + "' is not known") +
                  "; supported: " + supported_names(),
              "tokenizer.ggml.pre");
}

result<std::vector<std::string_view>> pre_tokenizer::split(std::string_view text) const {
  const auto* code = static_cast<const pcre2_code*>(pattern_.get());
  const match_data match(pcre2_match_data_create(1, nullptr), &pcre2_match_data_free);
  const std::string subject = without_surrogates(text);
  std::vector<std::string_view> pieces;
  std::size_t at = 0;
  while (at < text.size()) {
    const int found = pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(subject.data()),
                                  subject.size(), at, PCRE2_NO_UTF_CHECK, match.get(), nullptr);
    if (found < 0 && found != PCRE2_ERROR_NOMATCH) {
      return fail(error_code::no_room, "splitting " + std::to_string(text.size()) +
                                           " bytes of text failed: " + pcre2_message(found));
    }
    // Every pattern matches at any place, so there is no gap before a match; should a later pattern
    // leave one, it is a piece of its own.
    const PCRE2_SIZE* span = pcre2_get_ovector_pointer(match.get());
    const std::size_t begin = found < 0 ? text.size() : span[0];
    const std::size_t end = found < 0 ? text.size() : span[1];
    if (begin > at) {
      pieces.push_back(text.substr(at, begin - at));
    }
    if (end > begin) {
      pieces.push_back(text.substr(begin, end - begin));
    }
    at = end;
  }
  return pieces;
}

}  // namespace terrane::engine
