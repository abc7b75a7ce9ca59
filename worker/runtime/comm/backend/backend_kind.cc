#include "worker/runtime/comm/backend/backend_kind.h"

#include <fmt/format.h>

#include <algorithm>

namespace ddprun::runtime {
namespace {

Error refuse_backend(const std::string& text, std::string_view why) {
  return {ErrorCode::kConfig, fmt::format("backend \"{}\": {}", text, why)};
}

}  // namespace

std::string_view to_string(BackendKind kind) {
  switch (kind) {
    case BackendKind::kNccl:
      return "nccl";
    case BackendKind::kGloo:
      return "gloo";
    case BackendKind::kShm:
      return "shm";
  }
  return "unknown";
}

std::optional<BackendKind> find_backend_kind(std::string_view name) {
  for (const BackendKind kind : {BackendKind::kNccl, BackendKind::kGloo, BackendKind::kShm}) {
    if (to_string(kind) == name) return kind;
  }
  return std::nullopt;
}

std::string to_string(const Backends& backends) {
  if (!backends.gpu) return std::string(to_string(*backends.cpu));
  if (backends == served_by(*backends.gpu, true)) return std::string(to_string(*backends.gpu));
  const std::string cpu = backends.cpu ? fmt::format("cpu:{},", to_string(*backends.cpu)) : "";
  return fmt::format("{}cuda:{}", cpu, to_string(*backends.gpu));
}

Backends served_by(BackendKind kind, bool has_gpu) {
  switch (kind) {
    case BackendKind::kNccl:
      return {.cpu = std::nullopt, .gpu = kind};
    case BackendKind::kGloo:
      return {.cpu = kind, .gpu = has_gpu ? std::optional(kind) : std::nullopt};
    case BackendKind::kShm:
      break;
  }
  return {.cpu = kind, .gpu = std::nullopt};
}

bool names_devices(std::string_view text) { return text.find(':') != std::string_view::npos; }

Result<Backends> parse_devices(const std::string& text) {
  Backends backends;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string entry = text.substr(begin, end - begin);
    const std::size_t colon = entry.find(':');
    const std::string device = entry.substr(0, colon);
    const auto kind = colon == std::string::npos ? std::nullopt : find_backend_kind(entry.substr(colon + 1));
    if (!kind || (device != "cpu" && device != "cuda"))
      return refuse_backend(text,
                            "expected the form \"cpu:gloo,cuda:nccl\", with gloo or shm for the CPU and "
                            "nccl or gloo for GPUs");
    if (device == "cpu" && kind == BackendKind::kNccl) return refuse_backend(text, "nccl serves GPUs alone");
    if (device == "cuda" && kind == BackendKind::kShm)
      return refuse_backend(text, "shm serves the CPU alone");
    std::optional<BackendKind>& place = device == "cpu" ? backends.cpu : backends.gpu;
    if (place) return refuse_backend(text, device + " is named twice");
    place = kind;
    begin = end + 1;
  }
  return backends;
}

Result<Backends> parse_backends(const std::string& text, bool has_gpu) {
  const std::optional<BackendKind> kind = find_backend_kind(text);
  if (!kind && !names_devices(text))
    return refuse_backend(text, "expected \"nccl\", \"gloo\", \"shm\" or the form \"cpu:gloo,cuda:nccl\"");
  const Result<Backends> backends = kind ? Result<Backends>(served_by(*kind, has_gpu)) : parse_devices(text);
  if (backends && backends->gpu && !has_gpu)
    return refuse_backend(text, "it needs a GPU, and this rank was given none by init; use gloo or shm");
  return backends;
}

}  // namespace ddprun::runtime
