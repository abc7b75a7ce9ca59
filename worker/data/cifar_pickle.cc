#include "worker/data/cifar_pickle.h"

#include "worker/runtime/checkpoint/unpickle.h"
#include <ddprun/exception.h>
#include <ddprun/pt_value.h>

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <functional>
#include <string_view>

namespace ddprun::data {
namespace {

/// The reader of checkpoints knows its bytes by the name that they have there.
Error of_file(std::string message, const std::string& path) {
  constexpr std::string_view kName = "data.pkl";
  if (message.starts_with(kName))
    message.replace(0, kName.size(), path);
  else
    message = path + ": " + message;
  return {ErrorCode::kCorrupt, message + "; fetch the set again"};
}

/// What `take` finds in the dict of a file; it throws Exception where something else stands there.
template <class T>
Result<T> from_pickle(const std::vector<std::uint8_t>& bytes, const std::string& path,
                      const std::function<T(const PtDict&)>& take) {
  const auto no_storage = [](const std::string&) {
    return Result<std::span<const std::byte>>(Error(ErrorCode::kCorrupt, "it holds a tensor"));
  };
  const Result<PtValue> value = runtime::unpickle(std::as_bytes(std::span(bytes)), no_storage);
  if (!value) return of_file(value.error().message(), path);
  try {
    return take(value->as_dict());
  } catch (const Exception& exception) {
    return of_file(exception.what(), path);
  }
}

}  // namespace

Result<LabelledRows> read_pickled_rows(const std::vector<std::uint8_t>& bytes, const std::string& label_key,
                                       const std::string& path) {
  return from_pickle<LabelledRows>(bytes, path, [&](const PtDict& dict) {
    LabelledRows images;
    for (const PtValue& label : dict.at(label_key).as_sequence()) images.labels.push_back(label.as_int());
    const at::Tensor& rows = dict.at("data").as_tensor();
    if (rows.scalar_type() != at::kByte)
      throw Exception(ErrorCode::kCorrupt, "its data is no array of bytes");
    const auto* const first = rows.const_data_ptr<std::uint8_t>();
    images.pixels.assign(first, first + rows.numel());
    return images;
  });
}

Result<std::vector<std::string>> read_pickled_names(const std::vector<std::uint8_t>& bytes,
                                                    const std::string& key, const std::string& path) {
  return from_pickle<std::vector<std::string>>(bytes, path, [&](const PtDict& dict) {
    std::vector<std::string> names;
    for (const PtValue& name : dict.at(key).as_sequence()) names.push_back(name.as_string());
    return names;
  });
}

}  // namespace ddprun::data
