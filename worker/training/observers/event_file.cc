#include "worker/training/observers/event_file.h"

#include "rendezvous/base/host_name.h"

#include <boost/crc.hpp>
#include <c10/util/bit_cast.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <system_error>

namespace ddprun::training {
namespace {

// Protocol buffers, as far as these messages need them: a field begins with its number and its kind.
enum class Kind : std::uint64_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

void put_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
}

template <class Unsigned>
void put_fixed(std::string& out, Unsigned value) {
  for (std::size_t i = 0; i < sizeof value; ++i) out.push_back(static_cast<char>(value >> (8 * i)));
}

void put_key(std::string& out, std::uint64_t field, Kind kind) {
  put_varint(out, field << 3 | static_cast<std::uint64_t>(kind));
}

void put_bytes(std::string& out, std::uint64_t field, std::string_view bytes) {
  put_key(out, field, Kind::kBytes);
  put_varint(out, bytes.size());
  out += bytes;
}

std::string begin_event(double time) {
  std::string event;
  put_key(event, 1, Kind::kFixed64);
  put_fixed(event, c10::bit_cast<std::uint64_t>(time));
  return event;
}

std::uint32_t masked_crc(std::string_view bytes) {
  boost::crc_optimal<32, 0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF, true, true> crc;
  crc.process_bytes(bytes.data(), bytes.size());
  const auto sum = static_cast<std::uint32_t>(crc.checksum());
  return (sum >> 15 | sum << 17) + 0xa282ead8U;
}

double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// Sets errno where it could not.
bool write_whole(int fd, std::string_view bytes) {
  const ssize_t written = ::write(fd, bytes.data(), bytes.size());
  if (written == static_cast<ssize_t>(bytes.size())) return true;
  if (written >= 0) errno = ENOSPC;
  return false;
}

}  // namespace

std::string encode_event(double time, std::int64_t step, const std::vector<Scalar>& scalars) {
  std::string summary;
  for (const Scalar& scalar : scalars) {
    std::string value;
    put_bytes(value, 1, scalar.tag);
    put_key(value, 2, Kind::kFixed32);
    put_fixed(value, c10::bit_cast<std::uint32_t>(static_cast<float>(scalar.value)));
    put_bytes(summary, 1, value);
  }
  std::string event = begin_event(time);
  put_key(event, 2, Kind::kVarint);
  put_varint(event, static_cast<std::uint64_t>(step));
  put_bytes(event, 5, summary);
  return event;
}

std::string encode_session_start(double time, std::int64_t step) {
  std::string log;
  put_key(log, 1, Kind::kVarint);
  put_varint(log, 1);
  std::string event = begin_event(time);
  put_key(event, 2, Kind::kVarint);
  put_varint(event, static_cast<std::uint64_t>(step));
  put_bytes(event, 7, log);
  return event;
}

std::string encode_version(double time) {
  std::string event = begin_event(time);
  put_bytes(event, 3, "brain.Event:2");
  return event;
}

std::string encode_record(std::string_view event) {
  std::string length;
  put_fixed(length, static_cast<std::uint64_t>(event.size()));
  std::string record = length;
  put_fixed(record, masked_crc(length));
  record += event;
  put_fixed(record, masked_crc(event));
  return record;
}

Result<EventFile> EventFile::create(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return Error(ErrorCode::kOs, fmt::format("cannot create {}: {}", folder, error.message()));
  const double now = seconds_since_1970();
  // TensorBoard reads the files of a folder in the order of their names.
  const std::string path = fmt::format("{}/events.out.tfevents.{:010}.{}.{}", folder,
                                       static_cast<std::int64_t>(now), host_name(), ::getpid());
  EventFile file;
  file.fd_ = UniqueFd(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (!file.fd_) return os_error("cannot open " + path, errno);
  if (!write_whole(file.fd_.get(), encode_record(encode_version(now))))
    return os_error("cannot write " + path, errno);
  return file;
}

bool EventFile::append(std::int64_t step, const std::vector<Scalar>& scalars) {
  return append_event(encode_event(seconds_since_1970(), step, scalars));
}

bool EventFile::append_session_start(std::int64_t step) {
  return append_event(encode_session_start(seconds_since_1970(), step));
}

bool EventFile::append_event(const std::string& event) {
  if (!fd_) return false;
  if (write_whole(fd_.get(), encode_record(event))) return true;
  fd_.reset();
  return false;
}

}  // namespace ddprun::training
