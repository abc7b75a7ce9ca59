#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace ddprun {

/// One object of a job file, read key by key: what a model, a data source or any other part that has a name in
/// a job file is made from. Parts of ddprun itself find every key of theirs, because the schema has filled in
/// the defaults; a plug-in's options stand as they were written, so each of its reads says the default.
///
/// Copies share what they stand on, and which keys have been read.
/// Errors   Exception kConfig with the place in the job file, what was expected and what was found: a key that
///          is not there, or a value of another type. A null counts as a key that is not there.
/// Threads  one at a time.
class Options {
 public:
  /// `json` is an object, as text; `pointer` is where it stands in the job file ("/model").
  explicit Options(const std::string& json, std::string pointer = "");

  [[nodiscard]] bool has(const std::string& key) const;

  [[nodiscard]] std::int64_t integer(const std::string& key) const;
  [[nodiscard]] double number(const std::string& key) const;
  [[nodiscard]] bool flag(const std::string& key) const;
  [[nodiscard]] std::string text(const std::string& key) const;
  [[nodiscard]] std::vector<std::int64_t> integers(const std::string& key) const;
  [[nodiscard]] std::vector<double> numbers(const std::string& key) const;
  [[nodiscard]] std::vector<std::string> texts(const std::string& key) const;
  /// An object within this one.
  [[nodiscard]] Options object(const std::string& key) const;
  /// A list of objects.
  [[nodiscard]] std::vector<Options> objects(const std::string& key) const;

  [[nodiscard]] std::int64_t integer(const std::string& key, std::int64_t fallback) const;
  [[nodiscard]] double number(const std::string& key, double fallback) const;
  [[nodiscard]] bool flag(const std::string& key, bool fallback) const;
  [[nodiscard]] std::string text(const std::string& key, const std::string& fallback) const;

  /// The keys that nobody has asked for yet, in order: what a plug-in does not know was mistyped.
  [[nodiscard]] std::vector<std::string> unread() const;
  /// Where this object stands in the job file.
  [[nodiscard]] const std::string& pointer() const;
  /// As JSON.
  [[nodiscard]] std::string to_json() const;

 private:
  struct Node;
  template <class Convert>
  auto read(const std::string& key, Convert convert) const;
  template <class T, class Convert>
  T read_or(const std::string& key, T fallback, Convert convert) const;

  std::shared_ptr<Node> node_;
};

}  // namespace ddprun
