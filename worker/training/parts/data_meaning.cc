#include "worker/training/parts/data_meaning.h"

#include "rendezvous/base/printable.h"
#include <ddprun/exception.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace ddprun::training {
namespace {

constexpr std::string_view kScaling = "scaling";
constexpr std::string_view kColumns = "columns";
constexpr std::string_view kClassNames = "class_names";

constexpr std::size_t kShownName = 80;

/// The first thing in which two differ, and what has to be the same in both.
struct Difference {
  std::string words;  ///< "its class 0 is "dog", and that of … "cat""
  const char* same = "";
};

/// Data that tells no names, or nothing of its scaling, is believed.
std::optional<Difference> find_difference(const DataShape& data, const DataShape& learned,
                                          const char* whose) {
  const auto of_names = [&](const char* what, const auto& mine, const auto& theirs) {
    for (std::size_t i = 0; i < std::min(mine.size(), theirs.size()); ++i) {
      if (mine[i] == theirs[i]) continue;
      return fmt::format("its {} {} is \"{}\", and that of {} \"{}\"", what, i,
                         printable(mine[i], kShownName), whose, printable(theirs[i], kShownName));
    }
    return std::string();
  };
  if (std::string words = of_names("class", data.class_names, learned.class_names); !words.empty())
    return Difference{std::move(words), "classes, in the same order"};
  if (std::string words = of_names("column", data.columns, learned.columns); !words.empty())
    return Difference{std::move(words), "columns, in the same order"};
  if (data.scaling == learned.scaling || data.scaling.empty() || learned.scaling.empty()) return std::nullopt;
  return Difference{
      fmt::format("its numbers are {}, and those of {} {}", data.scaling, whose, learned.scaling),
      data.unit == "images" ? "\"normalize\"" : "\"standardize\" (arrays are taken as they are)"};
}

/// Names of folders and columns may be no UTF-8, which a checkpoint's texts are.
std::vector<std::string> told(const std::vector<std::string>& names) {
  std::vector<std::string> texts;
  for (const std::string& name : names) texts.push_back(printable(name, std::string::npos));
  return texts;
}

PtValue to_list(const std::vector<std::string>& names) {
  PtList list;
  for (const std::string& text : told(names)) list.items.emplace_back(text);
  return list;
}

std::vector<std::string> read_list(const PtValue& list) {
  std::vector<std::string> texts;
  for (const PtValue& item : list.as_sequence()) texts.push_back(item.as_string());
  return texts;
}

}  // namespace

PtValue save_meaning(const DataShape& data) {
  PtDict dict;
  dict.set(std::string(kScaling), data.scaling);
  dict.set(std::string(kColumns), to_list(data.columns));
  dict.set(std::string(kClassNames), to_list(data.class_names));
  return dict;
}

void check_meaning(const DataShape& data, const DataShape& learned, const std::string& place) {
  const std::optional<Difference> found = find_difference(data, learned, "the training data");
  if (found)
    throw Exception(ErrorCode::kConfig,
                    fmt::format("{}: {}; give both the same {}", place, found->words, found->same));
}

void check_meaning(const DataShape& data, const PtValue& learned) {
  const PtDict& dict = learned.as_dict();
  DataShape then;
  then.scaling = dict.at(kScaling).as_string();
  then.columns = read_list(dict.at(kColumns));
  then.class_names = read_list(dict.at(kClassNames));
  DataShape now = data;
  now.columns = told(now.columns);
  now.class_names = told(now.class_names);
  const std::optional<Difference> found = find_difference(now, then, "the data that the model learned from");
  if (!found) return;
  throw Exception(
      ErrorCode::kConfig,
      fmt::format("/data: {}; give it the files and the keys of then (of a table also /data/train_samples), "
                  "judge other data under /evaluate, or begin anew with these weights (/resume=never and "
                  "/model/weights)",
                  found->words));
}

namespace {

class MeaningPart final : public SavedPart {
 public:
  explicit MeaningPart(const DataShape& data) : SavedPart("data"), data_(data) {}
  PtValue save() override { return save_meaning(data_); }
  void load(const PtValue& value) override { check_meaning(data_, value); }

 private:
  const DataShape& data_;
};

}  // namespace

std::unique_ptr<SavedPart> meaning_part(const DataShape& data) { return std::make_unique<MeaningPart>(data); }

}  // namespace ddprun::training
