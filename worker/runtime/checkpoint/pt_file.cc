#include "worker/runtime/checkpoint/atomic_file.h"
#include "worker/runtime/checkpoint/pickle.h"
#include "worker/runtime/checkpoint/unpickle.h"
#include "worker/runtime/checkpoint/whole_file.h"
#include "worker/runtime/checkpoint/zip_reader.h"
#include "worker/runtime/checkpoint/zip_writer.h"
#include <ddprun/pt_file.h>

#include <fmt/format.h>

#include <span>
#include <string_view>

namespace ddprun {
namespace {

using runtime::AtomicFile;
using runtime::Pickled;
using runtime::WholeFile;
using runtime::ZipReader;
using runtime::ZipWriter;

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

std::span<const std::byte> bytes_of(const at::Tensor& tensor) {
  return {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()};
}

/// The archive's folder, as torch.save names it: the file's name without folder and extension.
std::string stem_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  std::string name = slash == std::string::npos ? path : path.substr(slash + 1);
  return name.substr(0, name.rfind('.'));
}

// The records and their order are those of torch.save in PyTorch 2.11.
Result<void> write_archive(AtomicFile& file, const std::string& stem, const Pickled& pickled) {
  ZipWriter zip(file);
  const auto add = [&](const std::string& name, std::span<const std::byte> data) {
    return zip.add(stem + "/" + name, data);
  };
  if (Result<void> done = add("data.pkl", bytes_of(std::string_view(pickled.bytes))); !done) return done;
  if (Result<void> done = add(".format_version", bytes_of("1")); !done) return done;
  if (Result<void> done = add(".storage_alignment", bytes_of("64")); !done) return done;
  if (Result<void> done = add("byteorder", bytes_of("little")); !done) return done;
  for (std::size_t i = 0; i < pickled.storages.size(); ++i) {
    if (Result<void> done = add(fmt::format("data/{}", i), bytes_of(pickled.storages[i])); !done) return done;
  }
  if (Result<void> done = add("version", bytes_of("3\n")); !done) return done;
  return zip.finish();
}

Result<void> save(const std::string& path, const PtValue& value) {
  const Result<Pickled> pickled = runtime::pickle(value);
  if (!pickled) return pickled.error();
  Result<AtomicFile> file = AtomicFile::create(path);
  if (!file) return file.error();
  if (Result<void> done = write_archive(*file, stem_of(path), *pickled); !done) return done;
  return file->commit();
}

Result<PtValue> parse(std::span<const std::byte> archive) {
  const Result<ZipReader> zip = ZipReader::open(archive);
  if (!zip) return zip.error();
  const Result<std::span<const std::byte>> program = zip->read("data.pkl");
  if (!program) return program.error();
  const Result<std::span<const std::byte>> order = zip->read("byteorder");
  if (order && order->size() == 3)
    return Error(ErrorCode::kCorrupt, "it was written on a big-endian machine");
  return runtime::unpickle(*program, [&](const std::string& key) { return zip->read("data/" + key); });
}

}  // namespace

void save_pt(const std::string& path, const PtValue& value) {
  if (const Result<void> done = save(path, value); !done) {
    throw Exception(done.error().code(), fmt::format("cannot save {}: {}", path, done.error().message()));
  }
}

PtValue load_pt(const std::string& path) {
  const Result<WholeFile> file = WholeFile::read(path);
  if (!file) throw Exception(file.error().code(), file.error().message());
  return parse_pt(file->bytes(), path);
}

PtValue parse_pt(std::span<const std::byte> content, const std::string& name) {
  Result<PtValue> value = parse(content);
  if (!value)
    throw Exception(value.error().code(), fmt::format("cannot read {}: {}", name, value.error().message()));
  return std::move(*value);
}

}  // namespace ddprun
