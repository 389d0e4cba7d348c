#pragma once

#include <cstdint>
#include <optional>

#include "data/mapped_file.h"
#include "data/token_type.h"

namespace penstock::data {

/// What kind of file tokens lie in.
enum class TokenFormat : uint8_t {
  megatron,   ///< `.bin` with an index, `.idx`
  llm_c,      ///< `.bin` that begins with the 1024 bytes of llm.c's header
  headerless  ///< `.bin` of nothing but tokens (nanoGPT); its side-car says so
};

/// "megatron", "llm.c", "headerless": as side-cars have it.
const char* token_format_name(TokenFormat format);

/// The token between documents of a file that has no index.
struct DocumentMark {
  int32_t token = 0;
  bool in_front = false;  ///< the first token of a document (llm.c), else its last (nanoGPT)
  bool operator==(const DocumentMark&) const = default;
};

/// Where tokens lie in a `.bin`, and what they are.
struct TokenLayout {
  TokenFormat format = TokenFormat::megatron;
  TokenType type = TokenType::uint16;
  uint64_t begin = 0;  ///< byte of the first token
  uint64_t tokens = 0;
  std::optional<DocumentMark> mark;  ///< none: the index knows, or nobody does
};

/// What llm.c's header says: 256 × i32, of which magic, version and the number of tokens have a meaning.
/// GPT-2: magic 20240520, version 1, uint16, each document behind token 50256; Llama 3: 20240801, 7, uint32,
/// 128000. Nothing where the file begins with another number. Throws DataError for a header that is not
/// whole, another version, a number of tokens that is not the file's, and for llm.c's files of
/// multiple-choice questions.
std::optional<TokenLayout> llm_c_layout(const MappedFile& bin);

/// A file of nothing but `type`. Throws DataError where it ends within a token.
TokenLayout headerless_layout(const MappedFile& bin, TokenType type);

}  // namespace penstock::data
