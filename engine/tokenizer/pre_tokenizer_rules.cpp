#include "engine/tokenizer/pre_tokenizer_rules.hpp"

namespace terrane::engine {
namespace {

// The insides of character classes. Unicode's White_Space is spelt out because PCRE2's \s has
// U+180E besides. The distribution's PCRE2 knows Unicode 14; the ranges after \p{...} are what
// Unicode 15 and 15.1 added, so that the pieces equal llama.cpp's (Unicode 15.1).
#define SPACES \
  R"(\x09-\x0D\x20\x85\xA0\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})"
#define NEW_LOWER_LETTERS R"(\x{1DF25}-\x{1DF2A})"
#define NEW_OTHER_LETTERS                                                          \
  R"(\x{1123F}\x{11240}\x{11F02}\x{11F04}-\x{11F10}\x{11F12}-\x{11F33}\x{1342F})"  \
  R"(\x{13441}-\x{13446}\x{1B132}\x{1B155}\x{1E030}-\x{1E06D}\x{1E4D0}-\x{1E4EB})" \
  R"(\x{2B739}\x{2EBF0}-\x{2EE5D}\x{31350}-\x{323AF})"
#define LETTERS R"(\p{L})" NEW_LOWER_LETTERS NEW_OTHER_LETTERS
#define NUMBERS R"(\p{N}\x{11F50}-\x{11F59}\x{1D2C0}-\x{1D2D3}\x{1E4F0}-\x{1E4F9})"
#define MARKS                                                                      \
  R"(\p{M}\x{CF3}\x{ECE}\x{10EFD}-\x{10EFF}\x{11241}\x{11F00}\x{11F01}\x{11F03})"  \
  R"(\x{11F34}-\x{11F3A}\x{11F3E}-\x{11F42}\x{13440}\x{13447}-\x{13455}\x{1E08F})" \
  R"(\x{1E4EC}-\x{1E4EF})"
#define PUNCTUATION R"(\p{P}\x{11B00}-\x{11B09}\x{11F43}-\x{11F4F})"
#define SYMBOLS                                                                             \
  R"(\p{S}\x{2FFC}-\x{2FFF}\x{31EF}\x{1F6DC}\x{1F774}-\x{1F776}\x{1F77B}-\x{1F77F})"        \
  R"(\x{1F7D9}\x{1FA75}-\x{1FA77}\x{1FA87}\x{1FA88}\x{1FAAD}-\x{1FAAF}\x{1FABB}-\x{1FABD})" \
  R"(\x{1FABF}\x{1FACE}\x{1FACF}\x{1FADA}\x{1FADB}\x{1FAE8}\x{1FAF7}\x{1FAF8})"

// A run of spaces leaves its last one to the word that follows, unless nothing follows.
#define SPACES_BEFORE_WORD "[" SPACES "]+(?![^" SPACES "])|[" SPACES "]+"

// Each alternative begins differently enough that a quantifier followed by nothing of its own class
// may be possessive, which keeps matching linear.
#define CONTRACTIONS "'(?:[sStTmMdD]|[rR][eE]|[vV][eE]|[lL][lL])"
#define LLAMA3_LIKE(NUMBER_PIECE)                                            \
  CONTRACTIONS "|[^\\r\\n" LETTERS NUMBERS "]?[" LETTERS "]++|" NUMBER_PIECE \
               "| ?[^" SPACES LETTERS NUMBERS "]++[\\r\\n]*+|[" SPACES       \
               "]*[\\r\\n]+|" SPACES_BEFORE_WORD

constexpr const char* gpt2[] = {"'(?:[stmd]|re|ve|ll)| ?[" LETTERS "]++| ?[" NUMBERS
                                "]++| ?[^" SPACES LETTERS NUMBERS "]++|" SPACES_BEFORE_WORD};

// GPT-2's pattern on what is left after each digit has become a piece. A digit ends what stands
// before it, so it counts as the end of the text for a run of spaces.
constexpr const char* single_digits[] = {"'(?:[stmd]|re|ve|ll)|[" NUMBERS "]| ?[" LETTERS
                                         "]++| ?[^" SPACES LETTERS NUMBERS "]++|[" SPACES
                                         "]+(?![^" SPACES NUMBERS "])|[" SPACES "]+"};

constexpr const char* llama3[] = {LLAMA3_LIKE("[" NUMBERS "]{1,3}+")};
constexpr const char* qwen2[] = {LLAMA3_LIKE("[" NUMBERS "]")};
constexpr const char* qwen35[] = {CONTRACTIONS "|[^\\r\\n" LETTERS NUMBERS "]?[" LETTERS MARKS
                                               "]++|[" NUMBERS "]| ?[^" SPACES LETTERS MARKS NUMBERS
                                               "]++[\\r\\n]*+|[" SPACES
                                               "]*[\\r\\n]+|" SPACES_BEFORE_WORD};

// Mistral's, which ends a word before a capital that follows a small letter. Letters without case,
// and marks, count as both.
#define BOTH_CASES R"(\p{Lm}\p{Lo})" NEW_OTHER_LETTERS MARKS
#define UPPER R"([\p{Lu}\p{Lt})" BOTH_CASES "]"
#define LOWER R"([\p{Ll})" NEW_LOWER_LETTERS BOTH_CASES "]"
#define BEFORE_WORD "[^\\r\\n" LETTERS NUMBERS "]?"
constexpr const char* tekken[] = {BEFORE_WORD UPPER "*" LOWER "++|" BEFORE_WORD UPPER "+" LOWER
                                                    "*+|[" NUMBERS "]| ?[^" SPACES LETTERS NUMBERS
                                                    "]++[\\r\\n/]*+|[" SPACES
                                                    "]*[\\r\\n]+|" SPACES_BEFORE_WORD};

constexpr const char* falcon[] = {"[" PUNCTUATION R"($+<=>^~|`]++)", gpt2[0], "[0-9]{3}"};

// DeepSeek LLM lists the letters that have case, as they were when it was made.
#define DEEPSEEK_LETTERS                                                               \
  R"(A-Za-z\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC}-\x{1BF})"             \
  R"(\x{1C4}-\x{293}\x{295}-\x{2AF}\x{370}-\x{373}\x{376}\x{377}\x{37B}-\x{37D})"      \
  R"(\x{37F}\x{386}\x{388}-\x{38A}\x{38C}\x{38E}-\x{3A1}\x{3A3}-\x{3F5})"              \
  R"(\x{3F7}-\x{481}\x{48A}-\x{52F}\x{531}-\x{556}\x{10A0}-\x{10C5}\x{13A0}-\x{13F5})" \
  R"(\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA}\x{1CBD}-\x{1CBF}\x{1D00}-\x{1D2B})"            \
  R"(\x{1D6B}-\x{1D77}\x{1D79}-\x{1D9A}\x{1E00}-\x{1F15}\x{1F18}-\x{1F1D})"            \
  R"(\x{1F20}-\x{1F45}\x{1F48}-\x{1F4D}\x{1F50}-\x{1F57}\x{1F59}\x{1F5B}\x{1F5D})"     \
  R"(\x{1F5F}-\x{1F7D}\x{1F80}-\x{1FB4}\x{1FB6}-\x{1FBC}\x{1FBE}\x{1FC2}-\x{1FC4})"    \
  R"(\x{1FC6}-\x{1FCC}\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB}\x{1FE0}-\x{1FEC})"            \
  R"(\x{1FF2}-\x{1FF4}\x{1FF6}-\x{1FFC}\x{2102}\x{2107}\x{210A}-\x{2113}\x{2115})"     \
  R"(\x{2119}-\x{211D}\x{2124}\x{2126}\x{2128}\x{212A}-\x{212D}\x{212F}-\x{2134})"     \
  R"(\x{2139}\x{213C}-\x{213F}\x{2145}-\x{2149}\x{214E}\x{2183}\x{2184})"              \
  R"(\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4}\x{2CEB}-\x{2CEE}\x{2CF2}\x{2CF3})"             \
  R"(\x{A640}-\x{A66D}\x{A680}-\x{A69B}\x{A722}-\x{A76F}\x{A771}-\x{A787})"            \
  R"(\x{A78B}-\x{A78E}\x{AB70}-\x{ABBF}\x{FB00}-\x{FB06}\x{FB13}-\x{FB17})"            \
  R"(\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A}\x{10400}-\x{1044F}\x{104B0}-\x{104D3})"        \
  R"(\x{104D8}-\x{104FB}\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2}\x{118A0}-\x{118DF})"    \
  R"(\x{1E900}-\x{1E943})"
#define DEEPSEEK_SIGNS \
  R"(!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3001}-\x{3002})"
// Chinese and Korean characters, and a range that begins at U+0800 (perhaps U+3040 was meant), all
// without the spaces in it.
#define DEEPSEEK_CHARACTERS                                                                 \
  R"(\x{800}-\x{167F}\x{1681}-\x{1FFF}\x{200B}-\x{2027}\x{202A}-\x{202E}\x{2030}-\x{205E})" \
  R"(\x{2060}-\x{2FFF}\x{3001}-\x{9FA5}\x{AC00}-\x{D7FF})"
// Spaces at the end of a piece; looked for only where a run of them begins, so that a long run that
// ends before something else is read once.
#define SPACES_AT_END "(?<![" SPACES "])[" SPACES R"(]++\z)"
constexpr const char* deepseek_llm[] = {
    R"([\r\n])",   "[" SPACES "]?[" DEEPSEEK_LETTERS "]++", "[" SPACES "]?[" DEEPSEEK_SIGNS "]++",
    SPACES_AT_END, "[" DEEPSEEK_CHARACTERS "]++",           "[" NUMBERS "]++"};
constexpr const char* deepseek_coder[] = {R"([\r\n])", "[" SPACES "]?[" LETTERS "]++",
                                          "[" SPACES "]?[" PUNCTUATION "]++",
                                          "[" DEEPSEEK_CHARACTERS "]++", "[" NUMBERS "]"};

// DeepSeek from version 3 on: three digits, Chinese and Japanese, then words with the sign before
// them.
constexpr const char* deepseek_v3[] = {
    "[" NUMBERS "]{1,3}+", R"([\x{4E00}-\x{9FA5}\x{3040}-\x{30FF}]++)",
    R"([!-/:-@\[-`{-~][A-Za-z]++|[^\r\n)" LETTERS PUNCTUATION SYMBOLS "]?[" LETTERS MARKS
    "]++| ?[" PUNCTUATION SYMBOLS "]++[\\r\\n]*+|[" SPACES "]*[\\r\\n]+|" SPACES_BEFORE_WORD};

constexpr pre_tokenizer_rule rules[] = {
    {"gpt-2", gpt2},
    {"mpt", gpt2},
    {"smollm", single_digits},
    {"starcoder", single_digits},
    {"refact", single_digits},
    {"command-r", single_digits},
    {"llama-bpe", llama3, true, true},
    {"llama3", llama3, true, true},
    {"llama-v3", llama3, true, true},
    {"qwen2", qwen2},
    {"qwen35", qwen35},
    {"tekken", tekken, true, true},
    {"falcon", falcon},
    {"deepseek-llm", deepseek_llm},
    {"deepseek-coder", deepseek_coder},
    {"deepseek-v3", deepseek_v3},
};

}  // namespace

std::span<const pre_tokenizer_rule> pre_tokenizer_rules() { return rules; }

}  // namespace terrane::engine
