#pragma once

#include "rendezvous/base/result.h"
#include "worker/runtime/checkpoint/kept_memory.h"
#include "worker/runtime/checkpoint/kept_tensors.h"
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
  /// Errors  as KeptMemory's.
  static Result<KeptFile> open(const std::string& path);

  /// A value in place of the one before, as fast as its tensors can be copied, with a text that tells what it is. It
  /// is there from confirm() on. Of tensors that live `in_place` (or null) only where they are: clear() comes before
  /// the first of them changes.
  /// Errors  kConfig: a tensor that cannot be stored; kOs: there is no memory, and now no value.
  Result<void> write(const std::string& label, const PtValue& value, const KeptTensors* in_place = nullptr);
  void confirm();

  /// There is no value any more.
  void clear();

  /// Of the value that is there; empty: there is no whole one.
  [[nodiscard]] std::string label() const;

  /// What was confirmed; empty: there is no whole value. Until the next write() or clear().
  [[nodiscard]] std::span<const std::byte> bytes() const;

  /// The value in such bytes, its tensors copied; `in_place` are the bytes of its KeptTensors.
  /// Errors  kCorrupt.
  static Result<PtValue> parse(std::span<const std::byte> bytes, std::span<const std::byte> in_place = {});

 private:
  KeptFile(KeptMemory memory, KeptMapping all) : memory_(std::move(memory)), all_(std::move(all)) {}

  KeptMemory memory_;
  KeptMapping all_;
  std::size_t reserved_ = 0;  ///< of it, what is known to be there
  std::size_t written_ = 0;   ///< by write(), and not confirmed
};

}  // namespace ddprun::runtime
