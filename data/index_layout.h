#pragma once

#include <cstdint>

/// Where the fields of a Megatron `.idx` lie (little-endian). The header is followed by S × i32 lengths in
/// tokens, S × i64 byte offsets in the `.bin`, D × i64 sequence numbers of document ends (the first 0, the
/// last S; D counts one more than the documents) and, in some files, S × i8 modes.
namespace penstock::data::index_layout {

inline constexpr unsigned char magic[9] = {0x4D, 0x4D, 0x49, 0x44, 0x49, 0x44, 0x58, 0x00, 0x00};
inline constexpr uint64_t version = 1;
inline constexpr uint64_t version_at = 9;           // u64
inline constexpr uint64_t type_at = 17;             // u8
inline constexpr uint64_t sequences_count_at = 18;  // u64 S
inline constexpr uint64_t documents_count_at = 26;  // u64 D
inline constexpr uint64_t header_bytes = 34;

/// Vocabularies below this are stored as uint16, as Megatron's tools do.
inline constexpr int64_t uint16_vocabulary_limit = 65500;

}  // namespace penstock::data::index_layout
