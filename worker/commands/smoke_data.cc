#include "worker/commands/smoke_data.h"

#include "worker/data/remote_set.h"
#include "worker/training/observers/csv_observer.h"
#include <ddprun/exception.h>

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <random>
#include <string_view>
#include <utility>
#include <vector>

namespace ddprun::commands {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::uint32_t kSide = 256;  ///< of made-up image files
constexpr std::int64_t kFeatures = 8;
constexpr std::uint32_t kVocabulary = 64;

/// What is random here is the same each time.
class Maker {
 public:
  Maker(const json& data, std::string model_type, const SmokeSamples& samples, std::string folder)
      : data_(data), model_type_(std::move(model_type)), samples_(samples), folder_(std::move(folder)) {}

  std::string idx() {
    for (const auto& [stem, count] : {std::pair("train", samples_.train), {"t10k", samples_.held_out}}) {
      const auto number = static_cast<std::uint32_t>(count);
      write(fmt::format("{}-images-idx3-ubyte", stem), std::string("\0\0\x08\x03", 4) + big_endian(number) +
                                                           big_endian(28) + big_endian(28) +
                                                           bytes(number * 28 * 28, 256));
      write(fmt::format("{}-labels-idx1-ubyte", stem),
            std::string("\0\0\x08\x01", 4) + big_endian(number) + bytes(number, 10));
    }
    return folder_;
  }

  std::string cifar(const char* train, const char* test, const std::vector<unsigned>& labels) {
    for (const auto& [name, count] : {std::pair(train, samples_.train), {test, samples_.held_out}}) {
      std::string records;
      for (std::int64_t i = 0; i < count; ++i) {
        for (const unsigned classes : labels) records += bytes(1, classes);
        records += bytes(std::size_t{3} * 32 * 32, 256);
      }
      write(name, records);
    }
    return folder_;
  }

  std::string image_folder() {
    for (const auto& [split, count] : {std::pair("train", samples_.train), {"test", samples_.held_out}}) {
      for (std::int64_t i = 0; i < std::max<std::int64_t>(count, 2); ++i)
        write(fmt::format("{}/{}/{}.png", split, i % 2 == 0 ? "a" : "b", i), png());
    }
    return folder_;
  }

  std::string text() {
    const double share = data_.value("held_out_share", 0.1);
    const auto block = static_cast<double>(data_.at("block").get<std::int64_t>());
    const double wanted = std::max(static_cast<double>(samples_.train + 1) / (1 - share),
                                   static_cast<double>(samples_.held_out + 1) / share);
    std::string letters = bytes(static_cast<std::size_t>((block + 1) * (wanted + 2)), kVocabulary);
    for (char& letter : letters) letter = static_cast<char>(letter + ' ');
    write("text.txt", letters);
    return folder_ + "/text.txt";
  }

  std::string tokens() {
    const std::int64_t wanted = data_.value("vocabulary", std::int64_t{0});
    const std::int64_t vocabulary = wanted > 0 ? wanted : kVocabulary;
    const auto block = data_.at("block").get<std::int64_t>();
    for (const auto& [name, count] :
         {std::pair("train.bin", samples_.train), {"val.bin", samples_.held_out}}) {
      std::string tokens;
      for (std::int64_t i = 0; i < (count + 2) * (block + 1); ++i) {
        const auto token = static_cast<unsigned>(draw(static_cast<std::uint64_t>(vocabulary)));
        tokens += {static_cast<char>(token & 0xff), static_cast<char>(token >> 8)};
      }
      write(name, tokens);
    }
    if (wanted == 0) write("meta.json", json{{"vocab_size", vocabulary}}.dump());
    return folder_;
  }

  std::string csv() {
    const std::string target = data_.value("target", "");
    for (const auto& [name, count] :
         {std::pair("train.csv", samples_.train), {"test.csv", samples_.held_out}}) {
      std::vector<std::string> names;
      for (std::int64_t i = 0; i < kFeatures; ++i) names.push_back(fmt::format("made_up_{}", i));
      names.push_back(target.empty() ? "target" : target);
      std::string lines = training::csv_line(names);
      for (std::int64_t row = 0; row < count; ++row) {
        for (std::int64_t i = 0; i < kFeatures; ++i) lines += fmt::format("{},", number());
        lines += fmt::format("{}\n", label());
      }
      write(name, lines);
    }
    return folder_;
  }

  std::string npy() {
    const bool is_table = model_type_ == "mlp";
    const std::string shape = is_table ? fmt::format("{}", kFeatures) : "3, 64, 64";
    const std::int64_t width = is_table ? kFeatures : 3 * 64 * 64;
    for (const auto& [name, count] : {std::pair("train", samples_.train), {"test", samples_.held_out}}) {
      std::string values;
      std::string labels;
      for (std::int64_t i = 0; i < count * width; ++i) append(values, static_cast<float>(number()));
      for (std::int64_t i = 0; i < count; ++i) append(labels, static_cast<float>(label()));
      write(fmt::format("{}_x.npy", name), npy_header(fmt::format("({}, {})", count, shape)) + values);
      write(fmt::format("{}_y.npy", name), npy_header(fmt::format("({},)", count)) + labels);
    }
    return folder_;
  }

 private:
  std::uint64_t draw(std::uint64_t below) { return engine_() % below; }
  double number() { return static_cast<double>(draw(2001)) / 1000 - 1; }
  double label() {
    const auto classes = data_.value("classes", std::int64_t{0});
    return classes > 0 ? static_cast<double>(draw(static_cast<std::uint64_t>(classes))) : number();
  }

  std::string bytes(std::size_t count, unsigned below) {
    std::string text(count, '\0');
    for (char& byte : text) byte = static_cast<char>(draw(below));
    return text;
  }

  static std::string big_endian(std::uint32_t value) {
    return {static_cast<char>(value >> 24), static_cast<char>(value >> 16), static_cast<char>(value >> 8),
            static_cast<char>(value)};
  }

  static void append(std::string& bytes, float value) {
    std::array<char, sizeof value> raw{};
    std::copy_n(reinterpret_cast<const char*>(&value), sizeof value, raw.begin());
    bytes.append(raw.data(), raw.size());
  }

  static std::string npy_header(const std::string& shape) {
    std::string header = fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': {}, }}", shape);
    header.append(64 - (10 + header.size() + 1) % 64, ' ');
    header += '\n';
    return std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(header.size() & 0xff) +
           static_cast<char>(header.size() >> 8) + header;
  }

  static std::string png_chunk(const std::string& kind, const std::string& data) {
    const std::string body = kind + data;
    const auto sum = static_cast<std::uint32_t>(
        ::crc32(0, reinterpret_cast<const Bytef*>(body.data()), static_cast<uInt>(body.size())));
    return big_endian(static_cast<std::uint32_t>(data.size())) + body + big_endian(sum);
  }

  /// Eight bits of red, green and blue; columns of one colour, so that it is small.
  std::string png() {
    std::string row(1, '\0');
    for (std::uint32_t x = 0; x < kSide; x += 16) {
      const std::string color = bytes(3, 256);
      for (int i = 0; i < 16; ++i) row += color;
    }
    std::string rows;
    for (std::uint32_t y = 0; y < kSide; ++y) rows += row;
    uLongf size = ::compressBound(rows.size());
    std::string packed(size, '\0');
    ::compress(reinterpret_cast<Bytef*>(packed.data()), &size, reinterpret_cast<const Bytef*>(rows.data()),
               rows.size());
    packed.resize(size);
    return "\x89PNG\r\n\x1a\n" +
           png_chunk("IHDR", big_endian(kSide) + big_endian(kSide) + std::string("\x08\x02\0\0\0", 5)) +
           png_chunk("IDAT", packed) + png_chunk("IEND", "");
  }

  void write(const std::string& name, const std::string& content) const {
    const fs::path path = fs::path(folder_) / name;
    fs::create_directories(path.parent_path());
    std::ofstream file(path, std::ios::binary);
    file << content;
    file.close();
    if (!file) throw Exception(ErrorCode::kOs, fmt::format("cannot write {}", path.string()));
  }

  const json& data_;
  std::string model_type_;
  SmokeSamples samples_;
  std::string folder_;
  std::mt19937_64 engine_{20};
};

const std::map<std::string, std::function<std::string(Maker&)>> kMakers{
    {"mnist", &Maker::idx},
    {"fashion_mnist", &Maker::idx},
    {"cifar10", [](Maker& maker) { return maker.cifar("data_batch_1.bin", "test_batch.bin", {10}); }},
    {"cifar100",
     [](Maker& maker) {
       return maker.cifar("train.bin", "test.bin", {20, 100});
     }},
    {"image_folder", &Maker::image_folder},
    {"text", &Maker::text},
    {"tokens", &Maker::tokens},
    {"csv", &Maker::csv},
    {"npy", &Maker::npy}};

}  // namespace

bool is_data_there(const json& data) {
  const auto path = data.find("path");
  if (path == data.end() || !path->is_string()) return true;
  if (data.value("download", false)) {
    const auto set = data::remote_set(data.at("type").get<std::string>());
    return !set || data::missing_files(*set, path->get<std::string>()).empty();
  }
  std::error_code error;
  return fs::exists(path->get<std::string>(), error) || error;
}

std::optional<std::string> make_up_data(const json& data, const std::string& model_type,
                                        const SmokeSamples& samples, const std::string& folder) {
  const auto found = kMakers.find(data.at("type").get<std::string>());
  if (found == kMakers.end()) return std::nullopt;
  Maker maker(data, model_type, samples, folder);
  return found->second(maker);
}

}  // namespace ddprun::commands
