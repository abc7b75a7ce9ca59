#include "worker/training/parts/data_meaning.h"

#include "rendezvous/base/printable.h"
#include "worker/data/table.h"
#include <ddprun/exception.h>

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

namespace ddprun::training {
namespace {

constexpr std::string_view kScaling = "scaling";
constexpr std::string_view kColumns = "columns";
constexpr std::string_view kClassNames = "class_names";

constexpr std::size_t kShownName = 80;

/// Data that tells no names is believed.
void check_names(const std::vector<std::string>& names, const std::vector<std::string>& of_training,
                 const std::string& place, const char* what, const char* all) {
  for (std::size_t i = 0; i < std::min(names.size(), of_training.size()); ++i) {
    if (names[i] == of_training[i]) continue;
    throw Exception(ErrorCode::kConfig,
                    fmt::format("{}: its {} {} is \"{}\", and that of the training data \"{}\"; the {} have "
                                "to be the same, in the same order",
                                place, what, i, printable(names[i], kShownName),
                                printable(of_training[i], kShownName), all));
  }
}

std::string advice_on_scaling(const DataShape& data, const DataShape& learned) {
  if (data.unit == "images") return "give both the same \"normalize\"";
  if (data.scaling.starts_with(data::kStandardised) && learned.scaling.starts_with(data::kStandardised))
    return "train.csv, or how many of its rows /data/train_samples takes, was another when the model "
           "learned: put "
           "that back, judge by this data under /evaluate, or begin with the model's weights (/resume=never "
           "and "
           "/model/weights)";
  return "give both the same \"standardize\"";
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
  check_names(data.class_names, learned.class_names, place, "class", "classes");
  check_names(data.columns, learned.columns, place, "column", "columns");
  if (data.scaling == learned.scaling || data.scaling.empty() || learned.scaling.empty()) return;
  throw Exception(ErrorCode::kConfig,
                  fmt::format("{}: its numbers are {}, and those of the training data {}; {}", place,
                              data.scaling, learned.scaling, advice_on_scaling(data, learned)));
}

void check_meaning(const DataShape& data, const PtValue& learned, const std::string& place) {
  const PtDict& dict = learned.as_dict();
  DataShape shape;
  shape.scaling = dict.at(kScaling).as_string();
  shape.columns = read_list(dict.at(kColumns));
  shape.class_names = read_list(dict.at(kClassNames));
  DataShape mine = data;
  mine.columns = told(mine.columns);
  mine.class_names = told(mine.class_names);
  check_meaning(mine, shape, place);
}

}  // namespace ddprun::training
