#include "launcher/why/facts/collective_text.h"

#include "launcher/text/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace ddprun::launcher::why {
namespace {

struct TypeRow {
  std::string_view name;
  int bytes;
};

/// c10::ScalarType, from 0.
constexpr std::array kTypes{
    TypeRow{"uint8", 1},     TypeRow{"int8", 1},      TypeRow{"int16", 2},       TypeRow{"int32", 4},
    TypeRow{"int64", 8},     TypeRow{"float16", 2},   TypeRow{"float32", 4},     TypeRow{"float64", 8},
    TypeRow{"complex32", 4}, TypeRow{"complex64", 8}, TypeRow{"complex128", 16}, TypeRow{"bool", 1},
    TypeRow{"qint8", 1},     TypeRow{"quint8", 1},    TypeRow{"qint32", 4},      TypeRow{"bfloat16", 2}};

/// "float32, 4 MiB", or "float32, 10 × 20" below a kibibyte; empty: it has no tensor.
std::string describe_data(const Collective& collective) {
  if (collective.types.empty() || collective.sizes.empty()) return {};
  const auto type = static_cast<std::size_t>(collective.types.front());
  if (type >= kTypes.size()) return {};
  std::int64_t elements = 1;
  for (const std::int64_t size : collective.sizes) elements *= std::max<std::int64_t>(size, 0);
  const std::int64_t bytes = elements * kTypes[type].bytes;
  constexpr std::int64_t kSmall = 4096;
  if (collective.types.size() > 1)
    return fmt::format("{} tensors of {}", collective.types.size(), kTypes[type].name);
  if (bytes < kSmall) return fmt::format("{}, {}", kTypes[type].name, fmt::join(collective.sizes, " x "));
  return fmt::format("{}, {}", kTypes[type].name, format_bytes(static_cast<std::uint64_t>(bytes)));
}

bool needs_equal_sizes(const std::string& operation) {
  return operation == "all_reduce" || operation == "allreduce" || operation == "reduce";
}

}  // namespace

bool is_world(const std::string& group) { return group.empty() || group == "0" || group == "world"; }

std::string kind_of(const Collective& collective) {
  const std::string data = describe_data(collective);
  return data.empty() ? collective.operation : fmt::format("{} ({})", collective.operation, data);
}

std::string describe(const Collective& collective) {
  const std::string data = describe_data(collective);
  return fmt::format(
      "{} #{}{}{}", collective.operation, collective.sequence,
      is_world(collective.group) ? std::string() : fmt::format(" of group \"{}\"", collective.group),
      data.empty() ? std::string() : fmt::format(" ({})", data));
}

bool agree(const Collective& one, const Collective& other) {
  if (one.operation != other.operation) return false;
  if (!needs_equal_sizes(one.operation)) return true;
  return one.types == other.types && one.sizes == other.sizes;
}

}  // namespace ddprun::launcher::why
