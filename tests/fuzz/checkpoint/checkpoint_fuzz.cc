// Any bytes as a data.pkl, as a .pt file or as an IDX file; the first byte says which. They are refused with
// a sentence, or read; and what was read can be read through to its last element.
//
// Promises checked: no other exception than ours comes out, no tensor reaches beyond its storage (in the
// preset asan), memory stays in proportion.

#include "rendezvous/base/check.h"
#include "worker/data/idx.h"
#include "worker/runtime/checkpoint/unpickle.h"
#include <ddprun/exception.h>
#include <ddprun/pt_file.h>

#include <ATen/ATen.h>

#include <array>
#include <cstdint>
#include <span>
#include <vector>

using namespace ddprun;

namespace {

constexpr std::int64_t kSmall = 1 << 16;

void read_through(const PtValue& value) {
  if (value.is_tensor()) {
    const at::Tensor& tensor = value.as_tensor();
    if (tensor.numel() > kSmall) return;
    const at::Tensor dense = tensor.resolve_conj().resolve_neg().contiguous();
    std::uint8_t all = 0;
    for (const std::byte byte :
         std::span(static_cast<const std::byte*>(dense.const_data_ptr()), dense.nbytes()))
      all = static_cast<std::uint8_t>(all ^ std::to_integer<std::uint8_t>(byte));
    [[maybe_unused]] const volatile std::uint8_t read = all;
  } else if (value.is_dict()) {
    for (const auto& [key, item] : value.as_dict().entries) {
      read_through(key);
      read_through(item);
    }
  } else if (value.kind() == "a list" || value.kind() == "a tuple") {
    for (const PtValue& item : value.as_sequence()) read_through(item);
  }
}

void as_pickle(std::span<const std::byte> bytes) {
  static const std::array<std::byte, 64> storage{};
  const Result<PtValue> value =
      runtime::unpickle(bytes, [](const std::string& key) -> Result<std::span<const std::byte>> {
        if (key.size() > 1) return Error(ErrorCode::kCorrupt, "there is no such record");
        return std::span<const std::byte>(storage).first(key == "0" ? 16 : 64);
      });
  if (value) return read_through(*value);
  DDPRUN_CHECK(!value.error().message().empty(), "a refusal says why");
}

void as_archive(std::span<const std::byte> bytes) {
  try {
    read_through(parse_pt(bytes, "a.pt"));
  } catch (const Exception& error) {
    DDPRUN_CHECK(error.code() == ErrorCode::kCorrupt, "what is wrong is the file");
  }
}

void as_idx(std::span<const std::uint8_t> bytes) {
  const auto array = data::parse_idx({bytes.begin(), bytes.end()}, 3, "a.idx");
  DDPRUN_CHECK(array.has_value() || !array.error().message().empty(), "a refusal says why");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::span<const std::uint8_t> rest(data + 1, size - 1);
  if (data[0] % 4 == 0) {
    as_idx(rest);
  } else if (data[0] % 4 == 1) {
    as_archive(std::as_bytes(rest));
  } else {
    as_pickle(std::as_bytes(rest));
  }
  return 0;
}
