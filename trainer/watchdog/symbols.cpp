#include "trainer/watchdog/symbols.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>

#include <cxxabi.h>
#include <dlfcn.h>
#include <elf.h>
#include <fmt/format.h>

namespace penstock::watchdog {
namespace {

template <class T>
bool read_at(std::ifstream& file, uint64_t offset, T* into, size_t count) {
  file.seekg(static_cast<std::streamoff>(offset));
  file.read(reinterpret_cast<char*>(into), static_cast<std::streamsize>(count * sizeof(T)));
  return static_cast<bool>(file);
}

std::string plain(const char* mangled) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(mangled, nullptr, nullptr, &status), &std::free);
  return status == 0 ? text.get() : mangled;
}

}  // namespace

Symbols::Symbols() {
  std::ifstream file("/proc/self/exe", std::ios::binary);
  Elf64_Ehdr header{};
  if (!read_at(file, 0, &header, 1) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
      header.e_ident[EI_CLASS] != ELFCLASS64)
    return;
  std::vector<Elf64_Shdr> sections(header.e_shnum);
  if (!read_at(file, header.e_shoff, sections.data(), sections.size())) return;
  for (const Elf64_Shdr& section : sections) {
    if (section.sh_type != SHT_SYMTAB || section.sh_link >= sections.size()) continue;
    std::vector<Elf64_Sym> symbols(section.sh_size / sizeof(Elf64_Sym));
    const Elf64_Shdr& strings = sections[section.sh_link];
    std::string names(strings.sh_size, '\0');
    if (!read_at(file, section.sh_offset, symbols.data(), symbols.size()) ||
        !read_at(file, strings.sh_offset, names.data(), names.size()))
      return;
    for (const Elf64_Sym& symbol : symbols) {
      if (ELF64_ST_TYPE(symbol.st_info) == STT_FUNC && symbol.st_value != 0 && symbol.st_name < names.size())
        functions_.push_back({symbol.st_value, symbol.st_size, symbol.st_name});
    }
    names_ = std::move(names);
    break;
  }
  std::sort(functions_.begin(), functions_.end(),
            [](const Function& a, const Function& b) { return a.begin < b.begin; });
}

std::string Symbols::name(const void* address) const {
  Dl_info about{};
  const auto at = reinterpret_cast<uintptr_t>(address);
  if (dladdr(address, &about) == 0) return fmt::format("{:#x}", at);
  if (about.dli_sname != nullptr)
    return fmt::format("{} + {:#x}", plain(about.dli_sname),
                       at - reinterpret_cast<uintptr_t>(about.dli_saddr));
  const uint64_t offset = at - reinterpret_cast<uintptr_t>(about.dli_fbase);
  Dl_info own{};
  const bool ours =
      dladdr(reinterpret_cast<const void*>(&plain), &own) != 0 && own.dli_fbase == about.dli_fbase;
  if (ours) {
    // Programs that are not position-independent have addresses in their table, others offsets.
    for (const uint64_t place : {offset, static_cast<uint64_t>(at)}) {
      auto found = std::upper_bound(functions_.begin(), functions_.end(), place,
                                    [](uint64_t value, const Function& one) { return value < one.begin; });
      if (found == functions_.begin()) continue;
      --found;
      if (place < found->begin + std::max<uint64_t>(found->size, 1))
        return fmt::format("{} + {:#x}", plain(names_.c_str() + found->name), place - found->begin);
    }
  }
  return fmt::format("{} + {:#x}", about.dli_fname, offset);
}

}  // namespace penstock::watchdog
