// A fuzz target without a fuzzer, for every compiler and sanitizer: every seed as it is, cut off, and with
// bytes changed, moved and joined with another seed's. The same inputs in every run.
//   seeds_NAME CHANGES FILE_OR_FOLDER…
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "tests/fuzz/target.h"

namespace {

using Bytes = std::vector<uint8_t>;

std::vector<Bytes> read_seeds(int argc, char** argv) {
  std::vector<std::filesystem::path> files;
  for (int i = 2; i < argc; ++i) {
    if (!std::filesystem::is_directory(argv[i]))
      files.emplace_back(argv[i]);
    else
      for (const auto& entry : std::filesystem::directory_iterator(argv[i]))
        if (entry.is_regular_file()) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  std::vector<Bytes> seeds;
  for (const auto& file : files) {
    std::ifstream in(file, std::ios::binary);
    seeds.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
    if (in.bad() || !in.is_open()) {
      std::fprintf(stderr, "seeds: cannot read %s\n", file.c_str());
      std::exit(1);
    }
  }
  return seeds;
}

void feed(const Bytes& bytes) {
  LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
}

// One to four changes at random places.
Bytes changed(Bytes bytes, const std::vector<Bytes>& seeds, std::mt19937_64& random) {
  static const std::string telling = "\0\xff\x7f{}[]\",:.-+eE019=#\n\\";
  const auto below = [&](size_t end) { return end == 0 ? size_t{0} : static_cast<size_t>(random() % end); };
  for (size_t times = 1 + below(4); times > 0 && !bytes.empty(); --times) {
    const size_t at = below(bytes.size());
    const size_t length = 1 + below(std::min<size_t>(bytes.size() - at, 32));
    const auto place = bytes.begin() + static_cast<std::ptrdiff_t>(at);
    const auto end = place + static_cast<std::ptrdiff_t>(length);
    switch (below(6)) {
      case 0:
        bytes[at] ^= static_cast<uint8_t>(1U << below(8));
        break;
      case 1:
        bytes[at] = static_cast<uint8_t>(telling[below(telling.size())]);
        break;
      case 2:
        bytes.erase(place, end);
        break;
      case 3: {
        const Bytes part(place, end);
        bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(below(bytes.size())), part.begin(),
                     part.end());
        break;
      }
      case 4:
        bytes.insert(place, 1 + below(3), static_cast<uint8_t>('0' + below(10)));
        break;
      default: {
        const Bytes& other = seeds[below(seeds.size())];
        const size_t from = below(other.size());
        bytes.resize(at);
        bytes.insert(bytes.end(), other.begin() + static_cast<std::ptrdiff_t>(from), other.end());
      }
    }
  }
  return bytes;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: %s CHANGES FILE_OR_FOLDER…\n", argv[0]);
    return 2;
  }
  const unsigned long changes = std::strtoul(argv[1], nullptr, 10);
  const std::vector<Bytes> seeds = read_seeds(argc, argv);
  if (seeds.empty()) {
    std::fprintf(stderr, "seeds: no seed in the folders given\n");
    return 1;
  }
  std::mt19937_64 random(1);
  size_t fed = 0;
  constexpr size_t cuts = 64;
  for (const Bytes& seed : seeds) {
    feed(seed);
    const size_t stride = std::max<size_t>(1, seed.size() / cuts);
    for (size_t count = 0; count < seed.size(); count += stride, ++fed)
      feed({seed.begin(), seed.begin() + static_cast<std::ptrdiff_t>(count)});
    for (unsigned long i = 0; i < changes; ++i, ++fed) feed(changed(seed, seeds, random));
  }
  std::printf("%zu seeds, %zu inputs made of them\n", seeds.size(), fed);
  return 0;
}
