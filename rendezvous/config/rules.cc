#include "rendezvous/config/rules.h"

#include "rendezvous/config/json_scanner.h"
#include "rendezvous/config/schema_words.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace ddprun::config {
namespace {

using nlohmann::json;

/// The value at `pointer`, else its default, else null.
json given_or_default(const json& schema, const json& values, const std::string& pointer) {
  const json::json_pointer place(pointer);
  if (values.contains(place)) return values[place];
  const json* described = schema_at(schema, pointer);
  return described == nullptr ? json() : described->value("default", json());
}

/// The sibling that decides about a key, and its present value.
struct Condition {
  std::string sibling;
  json allowed;
  json actual;
};

Condition condition_of(const json& schema, const json& values, const std::string& pointer, const json& when) {
  const auto only = when.begin();
  return {only.key(), only.value(),
          given_or_default(schema, values, parent_pointer(pointer) + "/" + only.key())};
}

bool holds(const Condition& condition) {
  return std::find(condition.allowed.begin(), condition.allowed.end(), condition.actual) !=
         condition.allowed.end();
}

std::string quoted(const json& names) {
  std::vector<std::string> words;
  for (const json& name : names) words.push_back(name.dump());
  return fmt::format("{}", fmt::join(words, " and "));
}

void check_condition(const json& schema, const json& values, const std::string& pointer,
                     std::vector<Problem>& problems) {
  const json& key = *schema_at(schema, pointer);
  if (key.contains("x-with") && values.contains(json::json_pointer(pointer))) {
    const std::string sibling = key["x-with"];
    const json beside = given_or_default(schema, values, parent_pointer(pointer) + "/" + sibling);
    // Its default says nothing: a job that was completed has it.
    const bool says_something = values[json::json_pointer(pointer)] != key.value("default", json());
    if (says_something && (beside.is_null() || beside == 0 || beside == false))
      problems.push_back({pointer, fmt::format("no use without \"{}\"; remove it", sibling)});
  }
  if (!key.contains("x-when")) return;
  const Condition condition = condition_of(schema, values, pointer, key["x-when"]);
  const bool given = values.contains(json::json_pointer(pointer));
  if (given && !holds(condition)) {
    problems.push_back(
        {pointer, fmt::format("no use with \"{}\": {}, only with {}; remove it", condition.sibling,
                              condition.actual.dump(), quoted(condition.allowed))});
  } else if (!given && holds(condition) && key.value("x-required", false)) {
    problems.push_back({pointer, fmt::format("missing: \"{}\": {} needs it; expected {}", condition.sibling,
                                             condition.actual.dump(), expected(key))});
  }
}

void check_conditions(const json& schema, const json& values, const std::string& pointer,
                      std::vector<Problem>& problems) {
  const json& place = *schema_at(schema, pointer);
  for (const auto& [key, inner] : properties_of(place).items()) {
    const std::string below = pointer + "/" + escape_token(key);
    check_condition(schema, values, below, problems);
    check_conditions(schema, values, below, problems);
  }
}

void check_nesterov(const json& schema, const json& values, std::vector<Problem>& problems) {
  const auto value = [&](const char* key) {
    return given_or_default(schema, values, std::string("/optimizer/") + key);
  };
  if (value("type") != "sgd" || value("nesterov") != true) return;
  if (value("momentum") == 0) {
    problems.push_back(
        {"/optimizer/nesterov", "needs /optimizer/momentum above 0, which is 0; set it, or remove nesterov"});
  }
  if (value("dampening") != 0) {
    problems.push_back({"/optimizer/nesterov",
                        fmt::format("needs /optimizer/dampening 0, which is {}", value("dampening").dump())});
  }
}

/// Reducer's static graph learns the order of gradients in its first backward, which has to reduce them.
void check_static_graph(const json& schema, const json& values, std::vector<Problem>& problems) {
  const json steps = given_or_default(schema, values, "/train/accumulation_steps");
  if (given_or_default(schema, values, "/ddp/static_graph") != true || steps == 1) return;
  problems.push_back(
      {"/ddp/static_graph",
       fmt::format("does not go with /train/accumulation_steps, which is {}; remove one of them",
                   steps.dump())});
}

/// cuDNN's search takes what was fastest this time.
void check_cudnn(const json& schema, const json& values, std::vector<Problem>& problems) {
  const auto is_on = [&](const char* pointer) { return given_or_default(schema, values, pointer) == true; };
  if (!is_on("/train/deterministic") || !is_on("/train/cudnn_benchmark")) return;
  problems.push_back({"/train/cudnn_benchmark",
                      "does not go with /train/deterministic, which wants the same algorithms in each run; "
                      "remove one of them"});
}

/// What cannot be recorded, as far as the job file tells. Of the rest the device tells.
void check_cuda_graph(const json& schema, const json& values, std::vector<Problem>& problems) {
  const auto value = [&](const std::string& pointer) { return given_or_default(schema, values, pointer); };
  if (value("/train/cuda_graph") != true) return;
  const auto refuse = [&](const std::string& why) { problems.push_back({"/train/cuda_graph", why}); };
  if (value("/device") == "cpu") refuse("records what a GPU does, and /device is \"cpu\"; remove it");
  for (const char* name : {"gloo", "shm"}) {
    if (value("/backend") == name)
      refuse(fmt::format(
          "needs /backend nccl, which is \"{}\": the others wait for the host; remove one of them", name));
  }
  if (value("/strategy") != "ddp")
    refuse(fmt::format("does not go with /strategy {}, which is on several devices; remove one of them",
                       value("/strategy").dump()));
  if (value("/model/type") == "torchscript")
    refuse("does not go with a TorchScript model, which compiles itself anew when it likes; remove it");
  if (value("/train/accumulation_steps") != 1)
    refuse(fmt::format("records one batch, and /train/accumulation_steps is {}; remove one of them",
                       value("/train/accumulation_steps").dump()));
  if (value("/log/trace/steps") != 0)
    refuse("starts a step as one, of which /log/trace could show nothing; remove one of them");
  for (const char* key : {"find_unused_parameters", "static_graph"}) {
    if (value(std::string("/ddp/") + key) == true)
      refuse(fmt::format("does not go with /ddp/{}; remove one of them", key));
  }
}

/// Virtual ranks take turns in one model, and sum their gradients without a reducer.
void check_virtual_ranks(const json& schema, const json& values, std::vector<Problem>& problems) {
  const auto value = [&](const std::string& pointer) { return given_or_default(schema, values, pointer); };
  if (value("/train/virtual_ranks") == 0) return;
  const auto refuse = [&](const std::string& why) { problems.push_back({"/train/virtual_ranks", why}); };
  if (value("/strategy") != "ddp")
    refuse(fmt::format("does not go with /strategy {}, which has replicas of its own; remove one of them",
                       value("/strategy").dump()));
  if (value("/train/cuda_graph") == true)
    refuse("does not go with /train/cuda_graph, which records the batch of one rank; remove one of them");
  if (value("/ddp/static_graph") == true)
    refuse(
        "does not go with /ddp/static_graph, a promise to the reducer, which has no part here; remove one of "
        "them");
}

void check_backend(const json& schema, const json& values, std::vector<Problem>& problems) {
  const json backend = given_or_default(schema, values, "/backend");
  const json device = given_or_default(schema, values, "/device");
  if (backend == "nccl" && device == "cpu") {
    problems.push_back(
        {"/backend", "\"nccl\" carries GPU tensors only, and /device is \"cpu\"; choose auto, gloo or shm"});
  }
  if (backend == "shm" && device == "cuda") {
    problems.push_back(
        {"/backend", "\"shm\" carries CPU tensors only, and /device is \"cuda\"; choose auto, nccl or gloo"});
  }
}

/// What chooses among evaluations needs some.
void check_evaluations(const json& schema, const json& values, std::vector<Problem>& problems) {
  if (given_or_default(schema, values, "/train/eval_every_epochs") != 0) return;
  for (const char* pointer : {"/checkpoint/best", "/early_stopping/patience"}) {
    if (given_or_default(schema, values, pointer) == 0) continue;
    problems.push_back(
        {pointer,
         "has no evaluations to look at, since /train/eval_every_epochs is 0, only at the end; "
         "set that to 1 or more, or remove this"});
  }
}

/// They stand in metrics' names, in files and beside the job's own.
void check_names(const json& values, std::vector<Problem>& problems) {
  if (!values.contains("evaluate")) return;
  for (const auto& [name, ignored] : values["evaluate"].items()) {
    const bool is_plain =
        !name.empty() && name.size() <= 40 && std::all_of(name.begin(), name.end(), [](char c) {
          return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
                 c == '-' || c == '.';
        });
    const std::string pointer = "/evaluate/" + escape_token(name);
    if (!is_plain)
      problems.push_back(
          {pointer, "is no name of 1 to 40 letters, digits, \"_\", \"-\" and \".\"; choose another one"});
    if (name == "train" || name == "held_out")
      problems.push_back({pointer, "is what the job's own data is called; choose another name"});
  }
}

/// A milestone that the job never reaches is a schedule for another job.
void check_milestones(const json& schema, const json& values, std::vector<Problem>& problems) {
  const json milestones = given_or_default(schema, values, "/schedule/milestones");
  const json epochs = given_or_default(schema, values, "/train/epochs");
  if (!milestones.is_array() || !epochs.is_number()) return;
  for (std::size_t i = 0; i < milestones.size(); ++i) {
    if (!milestones[i].is_number() || milestones[i].get<double>() < epochs.get<double>()) continue;
    problems.push_back(
        {fmt::format("/schedule/milestones/{}", i),
         fmt::format("is never reached: {} epochs in, and the job ends after {} (/train/epochs)",
                     milestones[i].dump(), epochs.dump())});
  }
}

void check_step_epochs(const json& schema, const json& values, std::vector<Problem>& problems) {
  const json::json_pointer place("/schedule/step_epochs");
  const json epochs = given_or_default(schema, values, "/train/epochs");
  if (!values.contains(place) || !values[place].is_number() || !epochs.is_number()) return;
  if (values[place].get<double>() < epochs.get<double>()) return;
  problems.push_back({place.to_string(), fmt::format("is never reached: the rate is first reduced {} epochs "
                                                     "in, and the job ends after {} (/train/epochs)",
                                                     values[place].dump(), epochs.dump())});
}

/// What a job file says stands in the merged job file, in each checkpoint and in the report, which people pass on.
void check_urls(const json& schema, const json& value, const std::string& pointer,
                std::vector<Problem>& problems) {
  if (value.is_object()) {
    for (const auto& [key, inner] : value.items())
      check_urls(schema, inner, pointer + "/" + escape_token(key), problems);
  }
  const json* key = schema_at(schema, pointer);
  if (!value.is_string() || key == nullptr || !key->value("x-url", false)) return;
  const std::string& url = value.get_ref<const std::string&>();
  const std::size_t scheme = url.find("://");
  const std::size_t host = scheme == std::string::npos ? 0 : scheme + 3;
  if (url.substr(host, url.find_first_of("/?#", host) - host).find('@') == std::string::npos) return;
  problems.push_back({pointer,
                      "has a name or password before the host, and a job file is copied into checkpoints and "
                      "reports; put them into ~/.netrc (machine HOST login NAME password PASSWORD)"});
}

/// C ends a text at its first NUL, so the rest of a path would be lost without a word.
void check_texts(const json& value, const std::string& pointer, std::vector<Problem>& problems) {
  if (value.is_string() && value.get_ref<const std::string&>().find('\0') != std::string::npos)
    problems.push_back({pointer, "has the character \\u0000 in it, which ends a text; remove it"});
  if (!value.is_structured()) return;
  for (const auto& [key, inner] : value.items())
    check_texts(inner, pointer + "/" + escape_token(key), problems);
}

}  // namespace

bool applies(const json& schema, const json& values, const std::string& pointer) {
  const json* key = schema_at(schema, pointer);
  return !key->contains("x-when") || holds(condition_of(schema, values, pointer, (*key)["x-when"]));
}

void imply(const json& schema, json& values) {
  if (!values.is_object()) return;
  for (const auto& [key, described] : properties_of(schema).items()) {
    if (!values.contains(key)) continue;
    if (described.contains("x-implies")) {
      const auto only = described["x-implies"].begin();
      if (!values.contains(only.key())) values[only.key()] = only.value();
    }
    imply(described, values[key]);
  }
}

json default_at(const json& schema, const json& values, const std::string& pointer) {
  const json& key = *schema_at(schema, pointer);
  json fallback = key.value("default", json());
  if (!key.contains("x-defaults")) return fallback;
  const auto only = key["x-defaults"].begin();
  const json sibling = given_or_default(schema, values, parent_pointer(pointer) + "/" + only.key());
  return only.value().value(sibling.get<std::string>(), fallback);
}

std::vector<Problem> check_rules(const json& schema, const json& values) {
  std::vector<Problem> problems;
  check_conditions(schema, values, "", problems);
  check_nesterov(schema, values, problems);
  check_static_graph(schema, values, problems);
  check_cudnn(schema, values, problems);
  check_cuda_graph(schema, values, problems);
  check_virtual_ranks(schema, values, problems);
  check_backend(schema, values, problems);
  check_milestones(schema, values, problems);
  check_step_epochs(schema, values, problems);
  check_evaluations(schema, values, problems);
  check_names(values, problems);
  check_urls(schema, values, "", problems);
  check_texts(values, "", problems);
  return problems;
}

}  // namespace ddprun::config
