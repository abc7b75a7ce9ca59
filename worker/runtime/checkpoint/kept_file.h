#pragma once

#include "rendezvous/base/result.h"
#include "rendezvous/base/unique_fd.h"
#include <ddprun/pt_value.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace ddprun::runtime {

/// A file of memory that somebody else keeps (the launcher's, KeptMemory), and in which one value after the other
/// takes the place of the one before. It outlives the process that writes, not the host.
///
/// Whoever reads it after its writer was killed, in whatever moment, finds a whole value or none.
class KeptFile {
 public:
  /// Errors  kNotFound, kOs; kConfig: it is no such file, but another program's. They name the file.
  static Result<KeptFile> open(const std::string& path);
  KeptFile(KeptFile&& other) noexcept;
  KeptFile& operator=(KeptFile&&) = delete;
  ~KeptFile();

  /// A value in place of the one before, as fast as its tensors can be copied, with a text that tells what it is. It
  /// is there from confirm() on.
  /// Errors  kConfig: a tensor that cannot be stored; kOs: there is no memory, and now no value.
  Result<void> write(const std::string& label, const PtValue& value);
  void confirm();

  /// There is no value any more.
  void clear();

  /// Of the value that is there; empty: there is no whole one.
  [[nodiscard]] std::string label() const;

  /// What was confirmed; empty: there is no whole value. Until the next write() or clear().
  [[nodiscard]] std::span<const std::byte> bytes() const;

  /// The value in such bytes, its tensors copied.
  /// Errors  kCorrupt.
  static Result<PtValue> parse(std::span<const std::byte> bytes);

 private:
  KeptFile(std::string path, UniqueFd fd) : path_(std::move(path)), fd_(std::move(fd)) {}
  /// The file is to have room for so many bytes; those that it had stay.
  Result<void> reserve(std::size_t size);

  std::string path_;
  UniqueFd fd_;
  std::span<std::byte> memory_;  ///< the whole file, mapped; or empty
  std::size_t written_ = 0;      ///< by write(), and not confirmed
};

}  // namespace ddprun::runtime
