#define PCRE2_CODE_UNIT_WIDTH 8
#include "engine/tokenizer/pre_tokenizer.hpp"

#include <cstdint>
#include <utility>

#include <pcre2.h>

#include "engine/tokenizer/pre_tokenizer_rules.hpp"

namespace terrane::engine {
namespace {

std::string supported_names() {
  std::string names;
  for (const pre_tokenizer_rule& r : pre_tokenizer_rules()) {
    names.append(names.empty() ? "" : ", ").append(r.name);
  }
  return names;
}

std::string pcre2_message(int code) {
  PCRE2_UCHAR text[256];
  pcre2_get_error_message(code, text, sizeof text);
  return reinterpret_cast<const char*>(text);
}

result<std::shared_ptr<const void>> compile(std::string_view name, const char* pattern) {
  int code = 0;
  PCRE2_SIZE offset = 0;
  pcre2_code* compiled =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern), PCRE2_ZERO_TERMINATED,
                    PCRE2_UTF | PCRE2_UCP | PCRE2_NO_AUTO_CAPTURE, &code, &offset, nullptr);
  if (compiled == nullptr) {
    return fail(error_code::unsupported,
                "the PCRE2 library cannot compile the pattern of pre-tokenizer '" +
                    std::string(name) + "': " + pcre2_message(code));
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

// A part of the text, bytes.
struct extent {
  std::size_t begin = 0;
  std::size_t end = 0;
};

using match_data = std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)>;

// Appends what the pattern matches in one piece of the text, and what lies between.
result<void> cut(const pcre2_code* pattern, std::string_view text, extent piece,
                 pcre2_match_data* match, std::vector<extent>& out) {
  const std::string_view subject = text.substr(piece.begin, piece.end - piece.begin);
  std::size_t at = 0;
  while (at < subject.size()) {
    const int found = pcre2_match(pattern, reinterpret_cast<PCRE2_SPTR>(subject.data()),
                                  subject.size(), at, PCRE2_NO_UTF_CHECK, match, nullptr);
    if (found < 0 && found != PCRE2_ERROR_NOMATCH) {
      return fail(error_code::no_room, "splitting " + std::to_string(text.size()) +
                                           " bytes of text failed: " + pcre2_message(found));
    }
    const PCRE2_SIZE* span = pcre2_get_ovector_pointer(match);
    const std::size_t begin = found < 0 ? subject.size() : span[0];
    const std::size_t end = found < 0 ? subject.size() : span[1];
    if (begin > at) {
      out.push_back({piece.begin + at, piece.begin + begin});
    }
    if (end > begin) {
      out.push_back({piece.begin + begin, piece.begin + end});
    }
    at = end;
  }
  return {};
}

}  // namespace

result<pre_tokenizer> pre_tokenizer::make(std::string_view name) {
  for (const pre_tokenizer_rule& r : pre_tokenizer_rules()) {
    if (r.name != name) {
      continue;
    }
    pre_tokenizer made;
    for (const char* pattern : r.patterns) {
      auto compiled = compile(name, pattern);
      if (!compiled) {
        return tl::unexpected(compiled.error());
      }
      made.patterns_.push_back(*std::move(compiled));
    }
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
  const match_data match(pcre2_match_data_create(1, nullptr), &pcre2_match_data_free);
  const std::string subject = without_surrogates(text);
  std::vector<extent> pieces, finer;
  if (!text.empty()) {
    pieces.push_back({0, text.size()});
  }
  for (const auto& pattern : patterns_) {
    finer.clear();
    for (const extent piece : pieces) {
      const auto* code = static_cast<const pcre2_code*>(pattern.get());
      if (auto done = cut(code, subject, piece, match.get(), finer); !done) {
        return tl::unexpected(done.error());
      }
    }
    pieces.swap(finer);
  }
  std::vector<std::string_view> texts;
  texts.reserve(pieces.size());
  for (const extent piece : pieces) {
    texts.push_back(text.substr(piece.begin, piece.end - piece.begin));
  }
  return texts;
}

}  // namespace terrane::engine
