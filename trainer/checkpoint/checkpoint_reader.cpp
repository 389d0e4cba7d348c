#include "trainer/checkpoint/checkpoint_reader.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "data/content_hash.h"
#include "data/data_error.h"
#include "data/mapped_file.h"
#include "kernels/device/error.h"
#include "trainer/checkpoint/checkpoint_error.h"
#include "trainer/checkpoint/step_folders.h"

namespace penstock::checkpoint {
namespace {

std::string piece_name(const GlobalTensor& tensor, const Piece& piece) {
  if (piece.count == tensor.shape.elements()) return tensor.name;
  return fmt::format("{}[{}:{}]", tensor.name, piece.offset, piece.offset + piece.count);
}

std::string describe(const TensorDescription& tensor) {
  return fmt::format("{} {}", name_of(tensor.dtype), to_string(tensor.shape));
}

// A damage whose place and kind another reader has already put into words.
Damage damage_in_words(const std::string& file, const std::string& words) {
  return {file, {}, {}, words, {}};
}

}  // namespace

std::string to_string(const Damage& damage) {
  if (damage.expected.empty()) return damage.found;
  std::string text = damage.file;
  if (damage.offset) text += fmt::format(": byte {}", *damage.offset);
  if (!damage.piece.empty()) text += ": " + damage.piece;
  return text + fmt::format(": found {}, expected {}", damage.found, damage.expected);
}

Checkpoint Checkpoint::inspect(const std::string& path, Depth depth, Share share,
                               std::vector<Damage>& damages) {
  Checkpoint checkpoint;
  checkpoint.path_ = path;
  const std::string manifest_path = path + "/" + std::string(manifest_name);
  try {
    checkpoint.manifest_ = manifest_from_text(manifest_path, data::MappedFile(manifest_path).text());
  } catch (
      const std::runtime_error& error) {  // CheckpointError or DataError: both name file, found, expected
    damages.push_back(damage_in_words(manifest_path, error.what()));
    return checkpoint;
  }
  const auto folder = parse_name(std::filesystem::path(path).filename().string());
  if (folder && folder->step != checkpoint.manifest_.step) {
    damages.push_back({manifest_path,
                       {},
                       {},
                       fmt::format("step {}", checkpoint.manifest_.step),
                       fmt::format("{}, as the folder's name says", folder->step)});
  }
  checkpoint.open_shards(damages);
  checkpoint.check_places(damages);
  if (depth == Depth::full) checkpoint.check_hashes(share, damages);
  checkpoint.check_for_others(damages);
  return checkpoint;
}

void Checkpoint::open_shards(std::vector<Damage>& damages) {
  for (size_t i = 0; i < manifest_.shards.size(); ++i) {
    const Shard& shard = manifest_.shards[i];
    const std::string path = path_ + "/" + shard.file;
    try {
      // Size and head first: they say more than the reader's complaint about a file that was cut.
      const data::MappedFile bytes(path);
      if (bytes.size() != shard.bytes) {
        damages.push_back({path,
                           std::min(bytes.size(), shard.bytes),
                           {},
                           fmt::format("{} bytes", bytes.size()),
                           fmt::format("{}", shard.bytes)});
        continue;
      }
      const std::string hash = data::hash_hex(data::hash_bytes(bytes.data(), shard.head_bytes));
      if (hash != shard.head_hash) {
        damages.push_back({path, 0, "the list of tensors", "hash " + hash, shard.head_hash});
        continue;
      }
      shards_.emplace(i, SafetensorsFile(path));
    } catch (const data::DataError& error) {
      damages.push_back(damage_in_words(path, error.what()));
    }
  }
}

void Checkpoint::check_places(std::vector<Damage>& damages) const {
  // What the heads say must be what the manifest says: then heads and pieces together are every byte of the
  // shards.
  std::map<size_t, std::map<uint64_t, std::pair<std::string, uint64_t>>> stated;
  for (const GlobalTensor& tensor : manifest_.tensors) {
    for (const Piece& piece : tensor.pieces) {
      if (piece.count == 0) continue;
      stated[piece.shard][piece.begin] = {piece_name(tensor, piece),
                                          static_cast<uint64_t>(piece.count) * size_of(tensor.dtype)};
    }
  }
  for (const auto& [index, file] : shards_) {
    std::map<uint64_t, std::pair<std::string, uint64_t>> held;
    for (const StoredTensor& tensor : file.tensors()) {
      if (tensor.end > tensor.begin) held[tensor.begin] = {tensor.name, tensor.end - tensor.begin};
    }
    if (held == stated[index]) continue;
    const auto [a, b] = std::mismatch(held.begin(), held.end(), stated[index].begin(), stated[index].end());
    const auto words = [](const auto& at, const auto& end) {
      return at == end
                 ? std::string("no more tensors")
                 : fmt::format("{} in {} bytes from {}", at->second.first, at->second.second, at->first);
    };
    damages.push_back({file.path(), {}, {}, words(a, held.end()), words(b, stated[index].end())});
  }
}

void Checkpoint::check_hashes(Share share, std::vector<Damage>& damages) const {
  for (const GlobalTensor& tensor : manifest_.tensors) {
    for (const Piece& piece : tensor.pieces) {
      const bool ours = piece.shard % static_cast<size_t>(share.count) == static_cast<size_t>(share.index);
      const auto file = shards_.find(piece.shard);
      if (!ours || file == shards_.end()) continue;
      const std::string hash = data::hash_hex(data::hash_bytes(
          file->second.bytes() + piece.begin, static_cast<size_t>(piece.count) * size_of(tensor.dtype)));
      if (hash != piece.hash) {
        damages.push_back({file->second.path(), piece.begin, piece_name(tensor, piece),
                           "values with hash " + hash, piece.hash});
      }
    }
  }
}

void Checkpoint::check_for_others(std::vector<Damage>& damages) const {
  std::set<std::string> known;
  for (const Shard& shard : manifest_.shards) known.insert(shard.file);
  std::error_code error;
  for (std::filesystem::directory_iterator at(path_, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (is_shard_name(name) && known.count(name) == 0) {
      damages.push_back({at->path().string(),
                         {},
                         {},
                         "a shard that the manifest does not name",
                         fmt::format("only its {}", known.size())});
    }
  }
  if (error)
    damages.push_back(
        damage_in_words(path_, data::system_error(path_, "list the folder", error.value()).what()));
}

Checkpoint Checkpoint::open(const std::string& path, Depth depth, Share share) {
  std::vector<Damage> damages;
  Checkpoint checkpoint = inspect(path, depth, share, damages);
  if (!damages.empty()) {
    std::string text = to_string(damages.front());
    if (damages.size() > 1) text += fmt::format(" (and {} more)", damages.size() - 1);
    throw CheckpointError(text);
  }
  return checkpoint;
}

const GlobalTensor* Checkpoint::find(std::string_view name) const {
  const auto at =
      std::lower_bound(manifest_.tensors.begin(), manifest_.tensors.end(), name,
                       [](const GlobalTensor& tensor, std::string_view n) { return tensor.name < n; });
  return at == manifest_.tensors.end() || at->name != name ? nullptr : &*at;
}

void Checkpoint::read(std::string_view name, DType dtype, int64_t offset, int64_t count, void* out) const {
  const GlobalTensor* tensor = find(name);
  if (tensor == nullptr || tensor->dtype != dtype) {
    throw CheckpointError(fmt::format("{}: found {}, expected a tensor {} of {}", path_,
                                      tensor == nullptr ? "no tensor of that name" : describe(*tensor), name,
                                      name_of(dtype)));
  }
  const int64_t elements = tensor->shape.elements();
  if (offset < 0 || count < 0 || offset > elements || count > elements - offset) {
    throw UsageError(fmt::format("{}: elements [{}, {} + {}) of tensor {} {}", path_, offset, offset, count,
                                 name, to_string(tensor->shape)));
  }
  const auto size = static_cast<int64_t>(size_of(dtype));
  auto* to = static_cast<std::byte*>(out);
  for (const Piece& piece : tensor->pieces) {
    const int64_t first = std::max(offset, piece.offset);
    const int64_t end = std::min(offset + count, piece.offset + piece.count);
    if (first >= end) continue;
    std::memcpy(to + (first - offset) * size,
                shards_.at(piece.shard).bytes() + piece.begin + (first - piece.offset) * size,
                static_cast<size_t>((end - first) * size));
  }
}

std::vector<std::string> Checkpoint::differences(const std::vector<TensorDescription>& expected) const {
  std::vector<std::string> lines;
  std::map<std::string, const TensorDescription*> wanted;
  for (const TensorDescription& tensor : expected) wanted[tensor.name] = &tensor;
  for (const auto& [name, tensor] : wanted) {
    const GlobalTensor* here = find(name);
    if (here == nullptr) {
      lines.push_back(fmt::format("tensor {}: missing, expected {}", name, describe(*tensor)));
    } else if (here->dtype != tensor->dtype || here->shape != tensor->shape) {
      lines.push_back(
          fmt::format("tensor {}: found {}, expected {}", name, describe(*here), describe(*tensor)));
    }
  }
  for (const GlobalTensor& tensor : manifest_.tensors) {
    if (wanted.count(tensor.name) == 0) {
      lines.push_back(
          fmt::format("tensor {}: found {}, expected no such tensor", tensor.name, describe(tensor)));
    }
  }
  return lines;
}

std::vector<Damage> verify(const std::string& path, Depth depth) {
  std::vector<Damage> damages;
  static_cast<void>(Checkpoint::inspect(path, depth, {}, damages));
  return damages;
}

std::vector<Listed> list(const std::string& checkpoints, Depth depth) {
  std::vector<Listed> listed;
  try {
    for (const StepFolder& folder : scan(checkpoints)) {
      if (folder.kind != StepFolder::Kind::complete) continue;
      const std::vector<Damage> damages = verify(folder.path, depth);
      listed.push_back({folder.step, folder.path, damages.empty() ? "" : to_string(damages.front())});
    }
  } catch (const data::DataError& error) {
    throw CheckpointError(error.what());
  }
  return listed;
}

std::vector<std::string> newest_first(const std::string& checkpoints) {
  std::vector<std::string> paths;
  try {
    for (const StepFolder& folder : scan(checkpoints)) {
      if (folder.kind == StepFolder::Kind::complete) paths.push_back(folder.path);
    }
  } catch (const data::DataError& error) {
    throw CheckpointError(error.what());
  }
  std::reverse(paths.begin(), paths.end());
  return paths;
}

std::string only_damaged(const std::string& checkpoints, const std::vector<std::string>& damaged) {
  return fmt::format(
      "{}: found only damaged checkpoints, expected a whole one: {}; restore one, or start again with "
      "another "
      "run.name",
      checkpoints, fmt::join(damaged, "; "));
}

Latest latest(const std::string& checkpoints, Depth depth) {
  Latest found;
  for (const std::string& path : newest_first(checkpoints)) {
    try {
      found.checkpoint = Checkpoint::open(path, depth);
      return found;
    } catch (const CheckpointError& error) {
      found.passed_over.emplace_back(error.what());
    }
  }
  if (!found.passed_over.empty()) throw CheckpointError(only_damaged(checkpoints, found.passed_over));
  return found;
}

}  // namespace penstock::checkpoint
