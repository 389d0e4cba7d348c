#include "data/text_split.h"

#include <array>
#include <new>
#include <utility>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <fmt/format.h>
#include <pcre2.h>

#include "data/data_error.h"
#include "data/split_regex.h"

namespace penstock::data {

namespace {

std::string pcre2_text(int code) {
  std::array<PCRE2_UCHAR, 256> message{};
  pcre2_get_error_message(code, message.data(), message.size());
  return reinterpret_cast<const char*>(message.data());
}

}  // namespace

struct SplitPattern::Code {
  explicit Code(pcre2_code* compiled)
      : code(compiled), jit(pcre2_jit_compile(compiled, PCRE2_JIT_COMPLETE) == 0) {}
  ~Code() { pcre2_code_free(code); }
  Code(const Code&) = delete;
  Code& operator=(const Code&) = delete;
  pcre2_code* code;
  bool jit;  // false where the system forbids writable code pages: the interpreter gives the same matches
};

SplitPattern::SplitPattern(std::string pattern) : text_(std::move(pattern)) {
  int error = 0;
  PCRE2_SIZE offset = 0;
  const std::string translated = pcre2_split_pattern(text_);
  pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                                   PCRE2_UTF | PCRE2_UCP, &error, &offset, nullptr);
  if (code == nullptr) {
    throw DataError(fmt::format("split pattern `{}`: character {}: {}; correct the pattern", text_, offset,
                                pcre2_text(error)));
  }
  code_ = std::make_unique<Code>(code);
}

SplitPattern::~SplitPattern() = default;

struct TextSplitter::Scratch {
  explicit Scratch(const pcre2_code* code) : match(pcre2_match_data_create_from_pattern(code, nullptr)) {
    if (match == nullptr) throw std::bad_alloc();
  }
  ~Scratch() { pcre2_match_data_free(match); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  pcre2_match_data* match;
};

TextSplitter::TextSplitter(const SplitPattern& pattern)
    : pattern_(&pattern), scratch_(std::make_unique<Scratch>(pattern.code_->code)) {}
TextSplitter::~TextSplitter() = default;
TextSplitter::TextSplitter(TextSplitter&&) noexcept = default;

TextSplitter::Range TextSplitter::match(std::string_view valid, size_t at) const {
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(valid.data());
  int result = PCRE2_ERROR_JIT_STACKLIMIT;
  if (pattern_->code_->jit) {
    result = pcre2_jit_match(pattern_->code_->code, subject, valid.size(), at, PCRE2_NOTEMPTY,
                             scratch_->match, nullptr);
  }
  if (result == PCRE2_ERROR_JIT_STACKLIMIT) {
    result = pcre2_match(pattern_->code_->code, subject, valid.size(), at,
                         PCRE2_NOTEMPTY | PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, scratch_->match, nullptr);
  }
  if (result == PCRE2_ERROR_NOMATCH) return {valid.size(), valid.size()};
  if (result < 0) {
    throw DataError(fmt::format("splitting text failed {} bytes into a piece: {}; shorten the piece", at,
                                pcre2_text(result)));
  }
  const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(scratch_->match);
  return {bounds[0], bounds[1]};
}

}  // namespace penstock::data
