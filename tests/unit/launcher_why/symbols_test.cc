#include "launcher/why/look/symbols.h"

#include "tests/support/catch.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

using ddprun::launcher::why::symbol_value;

namespace {

/// An ELF file with one symbol, "sought", and `extra` bytes behind it.
void write_elf(const std::string& path, std::uint64_t value, std::size_t extra = 0) {
  const std::string names("\0sought", 8);  // with the 0 behind it
  struct {
    Elf64_Ehdr header{};
    std::array<Elf64_Shdr, 2> sections{};
    std::array<Elf64_Sym, 2> symbols{};
  } elf;
  std::memcpy(elf.header.e_ident, ELFMAG, SELFMAG);
  elf.header.e_shnum = 2;
  elf.header.e_shoff = sizeof elf.header;
  elf.sections[0] = {.sh_type = SHT_SYMTAB,
                     .sh_offset = sizeof elf.header + sizeof elf.sections,
                     .sh_size = sizeof elf.symbols,
                     .sh_link = 1};
  elf.sections[1] = {.sh_type = SHT_STRTAB, .sh_offset = sizeof elf, .sh_size = names.size()};
  elf.symbols[1] = {.st_name = 1, .st_value = value};
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(&elf), sizeof elf);
  file << names << std::string(extra, ' ');
}

/// As if nobody had written it since.
void set_time_of_change(const std::string& path, time_t seconds) {
  const std::array<timespec, 2> times{timespec{seconds, 0}, timespec{seconds, 0}};
  REQUIRE(::utimensat(AT_FDCWD, path.c_str(), times.data(), 0) == 0);
}

}  // namespace

TEST_CASE("a symbol is looked for once in a file, and again in one that has changed") {
  const std::string path =
      std::filesystem::temp_directory_path() / ("ddprun-symbols-" + std::to_string(::getpid()));
  write_elf(path, 7);
  set_time_of_change(path, 1000);
  CHECK(symbol_value(path, "sought") == 7);
  CHECK(symbol_value(path, "another") == std::nullopt);
  write_elf(path, 8);
  set_time_of_change(path, 1000);
  CHECK(symbol_value(path, "sought") == 7);  // it was not read again
  set_time_of_change(path, 1001);
  CHECK(symbol_value(path, "sought") == 8);
  write_elf(path, 9, 1);
  set_time_of_change(path, 1001);
  CHECK(symbol_value(path, "sought") == 9);
  std::filesystem::remove(path);
  CHECK(symbol_value(path, "sought") == std::nullopt);
}
