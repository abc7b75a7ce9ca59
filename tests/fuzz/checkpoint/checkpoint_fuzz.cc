// Any bytes as a data.pkl, as a .pt file and as an IDX file. They are refused with a sentence, or read; and
// what was read can be read through to its last element.
//
// Promises checked: no other exception than ours comes out, no tensor reaches beyond its storage, and no
// allocation is larger than max_allocation_size_mb (CMakeLists.txt).

#include "rendezvous/base/check.h"
#include "worker/data/idx.h"
#include "worker/runtime/checkpoint/unpickle.h"
#include "worker/runtime/checkpoint/zip_format.h"
#include <ddprun/exception.h>
#include <ddprun/pt_file.h>

#include <ATen/ATen.h>

#include <array>
#include <cstdint>
#include <cstring>
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

// A changed record is refused for its checksum. With the checksum mended, what is in it is read.
std::vector<std::byte> with_checksums(std::span<const std::byte> bytes) {
  namespace zip = runtime::zip;
  std::vector<std::byte> mended(bytes.begin(), bytes.end());
  const auto number = [&](std::size_t offset, std::size_t size) {
    std::uint32_t value = 0;
    std::memcpy(&value, bytes.data() + offset, size);
    return std::size_t{value};
  };
  for (std::size_t entry = 0; entry + zip::kCentralSize <= bytes.size(); ++entry) {
    if (number(entry, 4) != zip::kCentralSignature) continue;
    const std::size_t local = number(entry + 42, 4);
    if (local + zip::kLocalSize > bytes.size()) continue;
    const std::size_t start = local + zip::kLocalSize + number(local + 26, 2) + number(local + 28, 2);
    const std::size_t size = number(entry + 24, 4);
    if (start + size > bytes.size()) continue;
    const std::uint32_t checksum = zip::crc32(bytes.subspan(start, size));
    std::memcpy(mended.data() + entry + 16, &checksum, sizeof checksum);
  }
  return mended;
}

void as_idx(std::span<const std::uint8_t> bytes, int dimensions) {
  const auto array = data::parse_idx({bytes.begin(), bytes.end()}, dimensions, "a.idx");
  DDPRUN_CHECK(array.has_value() || !array.error().message().empty(), "a refusal says why");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::uint8_t> bytes(data, size);
  as_idx(bytes, 1);
  as_idx(bytes, 3);
  as_archive(std::as_bytes(bytes));
  as_archive(with_checksums(std::as_bytes(bytes)));
  as_pickle(std::as_bytes(bytes));
  return 0;
}
