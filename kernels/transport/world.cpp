#include "kernels/transport/world.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "kernels/device/error.h"
#include "kernels/transport/reduce_elements.h"

namespace penstock::transport {
namespace {

constexpr DType dtype_of(double) {
  return DType::fp64;
}
constexpr DType dtype_of(int64_t) {
  return DType::i64;
}

}  // namespace

std::unique_ptr<Communicator> World::create(const std::string& name, const std::vector<int>& members) {
  check_members(name, members);
  const std::string ours = fmt::format("\"{}\" of world ranks {}", name, fmt::join(members, " "));
  const std::vector<std::string> all = share(ours);
  for (int rank = 0; rank < size_; ++rank) {
    const std::string& theirs = all[static_cast<size_t>(rank)];
    if (theirs == all[0]) continue;
    throw UsageError(
        fmt::format("world rank {}: world rank 0 creates communicator {}, but world rank {} creates {}; "
                    "every rank creates "
                    "the same ones in the same order",
                    rank_, all[0], rank, theirs));
  }
  const auto place = std::find(members.begin(), members.end(), rank_);
  const int rank = place == members.end() ? -1 : static_cast<int>(place - members.begin());
  return make_communicator(name, members, rank);
}

std::unique_ptr<Communicator> World::create(const std::string& name) {
  std::vector<int> members(static_cast<size_t>(size_));
  std::iota(members.begin(), members.end(), 0);
  return create(name, members);
}

void World::check_members(const std::string& name, const std::vector<int>& members) const {
  std::vector<bool> seen(static_cast<size_t>(size_), false);
  for (const int member : members) {
    if (member < 0 || member >= size_ || seen[static_cast<size_t>(member)]) {
      throw UsageError(
          fmt::format("world rank {}: communicator \"{}\" of world ranks {}: {} is {}", rank_, name,
                      fmt::join(members, " "), member,
                      member < 0 || member >= size_ ? fmt::format("not in 0…{}", size_ - 1) : "named twice"));
    }
    seen[static_cast<size_t>(member)] = true;
  }
  if (members.empty())
    throw UsageError(fmt::format("world rank {}: communicator \"{}\" has no members", rank_, name));
}

template <class T>
std::vector<std::vector<T>> World::share_values(std::span<const T> values) {
  const std::vector<std::string> all =
      share({reinterpret_cast<const char*>(values.data()), values.size_bytes()});
  std::vector<std::vector<T>> result;
  for (int rank = 0; rank < size_; ++rank) {
    const std::string& bytes = all[static_cast<size_t>(rank)];
    if (bytes.size() != values.size_bytes()) {
      throw UsageError(fmt::format(
          "world rank {}: agreement on {} values, but world rank {} gave {}; every rank gives as many", rank_,
          values.size(), rank, bytes.size() / sizeof(T)));
    }
    result.emplace_back(values.size());
    if (!bytes.empty()) std::memcpy(result.back().data(), bytes.data(), bytes.size());
  }
  return result;
}

template <class T>
void World::reduce_values(std::span<T> values, Reduction reduction) {
  const std::vector<std::vector<T>> all = share_values<T>(values);
  std::vector<const void*> inputs;
  inputs.reserve(all.size());
  for (const std::vector<T>& one : all) inputs.push_back(one.data());
  void* const output = values.data();
  reduce_elements(dtype_of(T()), reduction, inputs, 0, {&output, 1}, 0, static_cast<int64_t>(values.size()));
}

void World::all_reduce(std::span<double> values, Reduction reduction) {
  reduce_values(values, reduction);
}

void World::all_reduce(std::span<int64_t> values, Reduction reduction) {
  reduce_values(values, reduction);
}

void World::all_or(std::span<uint64_t> values) {
  for (const std::vector<uint64_t>& one : share_values<uint64_t>(values)) {
    for (size_t i = 0; i < values.size(); ++i) values[i] |= one[i];
  }
}

std::string World::broadcast(std::string_view bytes, int root) {
  if (root < 0 || root >= size_)
    throw UsageError(fmt::format("world rank {}: broadcast from world rank {}; ranks are 0 to {}", rank_,
                                 root, size_ - 1));
  return share(rank_ == root ? bytes : std::string_view())[static_cast<size_t>(root)];
}

std::vector<std::string> World::gather(std::string_view bytes) {
  std::vector<std::string> all = share(bytes);
  if (rank_ != 0) all.clear();
  return all;
}

void World::barrier() {
  share({});
}

AbortOnUnwind::~AbortOnUnwind() {
  if (std::uncaught_exceptions() > exceptions_)
    world_.abort(fmt::format("world rank {} left with an error", world_.rank()));
}

}  // namespace penstock::transport
