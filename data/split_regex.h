#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace penstock::data {

/// A split pattern as tokenizer.json has it, in PCRE2's dialect. The libraries that run such patterns agree
/// on most of the language; `\s` and `\S` become Unicode's White_Space written out, since PCRE2's own counts
/// U+180E in. What they disagree on is refused by its name, with where it stands: `^`, `$`, `.`, `\w`, `\b`,
/// `\h`, back references, POSIX classes, `&&` and classes inside a class, `{m,n}+` (possessive here, a repeat
/// of a repeat there), and anything not known. Throws DataError.
std::string pcre2_split_pattern(std::string_view pattern);

/// The split of a published vocabulary, in words that tokenizer.json may have.
struct NamedSplit {
  std::string_view name;
  std::string_view pattern;
};

/// gpt2, r50k and p50k (all three GPT-2's), cl100k, o200k, llama3, qwen2.
const std::vector<NamedSplit>& named_splits();

}  // namespace penstock::data
