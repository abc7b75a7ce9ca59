#include "worker/runtime/comm/gpu/plugin.h"

#include "rendezvous/base/check.h"
#include "rendezvous/base/env_contract.h"
#include "worker/runtime/comm/gpu/plugin_entry.h"

#include <dlfcn.h>

#include <array>
#include <filesystem>

namespace ddprun::runtime {
namespace {

constexpr const char* kPluginName = "libddprun_nccl.so";

// The folder of the library (or program) that holds this function.
std::filesystem::path own_folder() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&is_gpu_plugin_built), &info) == 0) return {};
  return std::filesystem::path(info.dli_fname).parent_path();
}

// dlopen counts references and is thread-safe, so that opening again is a look-up; it is never closed,
// because libtorch keeps what it registered.
void* open_handle() {
  const std::filesystem::path path = own_folder() / kPluginName;
  return dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
}

// A function of the plug-in, which must be open.
template <class Function>
Function entry(const char* name) {
  void* handle = open_handle();
  DDPRUN_CHECK(handle != nullptr, "open_gpu_plugin comes first");
  void* const found = dlsym(handle, name);
  DDPRUN_CHECK(found != nullptr, "libddprun_nccl.so is of another build: it lacks a function");
  return reinterpret_cast<Function>(found);
}

}  // namespace

bool is_gpu_plugin_built() {
  std::error_code ignored;
  return std::filesystem::exists(own_folder() / kPluginName, ignored);
}

bool may_have_gpu() {
  const auto visible = process_env(env_name::kCudaVisibleDevices);
  if (visible && (visible->empty() || *visible == "-1")) return false;
  std::error_code ignored;
  return std::filesystem::exists("/dev/nvidiactl", ignored) || std::filesystem::exists("/dev/dxg", ignored);
}

int open_gpu_plugin(std::string* why) {
  void* handle = open_handle();
  if (handle == nullptr) {
    *why = dlerror();
    return 0;
  }
  return entry<GpuCountFunction>("ddprun_gpu_count")();
}

std::string gpu_id(int gpu) {
  std::array<char, 33> text{};
  entry<GpuIdFunction>("ddprun_gpu_id")(gpu, text.data());
  return text.data();
}

c10::intrusive_ptr<c10d::Backend> make_nccl_backend(const BackendRequest& request, int gpu) {
  const auto make = entry<MakeNcclBackendFunction>("ddprun_make_nccl_backend");
  return c10::intrusive_ptr<c10d::Backend>::reclaim(make(&request, gpu));
}

std::unique_ptr<Recording> record_graph(const std::function<void()>& work) {
  return std::unique_ptr<Recording>(entry<RecordGraphFunction>("ddprun_record_graph")(&work));
}

}  // namespace ddprun::runtime
