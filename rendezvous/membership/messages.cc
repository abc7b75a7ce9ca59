#include "rendezvous/membership/messages.h"

#include "rendezvous/base/printable.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <limits>

namespace ddprun::membership {
namespace {

using Json = nlohmann::json;

/// In the order of Message.
constexpr std::array<std::string_view, std::variant_size_v<Message>> kTypes{
    "hello", "challenge", "proof", "welcome", "refused", "drain",
    "log",   "look",      "seen",  "doctor",  "status",  "order"};

// ---- out

template <class Id>
Json to_json(const std::optional<Id>& id) {
  return id ? Json(id->value()) : Json(nullptr);
}

/// Text for people, in a bounded number of bytes: control characters would be six bytes each in JSON.
std::string shown(std::string text, std::size_t longest) {
  if (text.size() > longest) text.erase(0, text.size() - longest);
  std::replace_if(
      text.begin(), text.end(),
      [](char c) { return (c >= 0 && c < ' ' && c != '\n' && c != '\t' && c != '\r') || c == '\x7f'; }, ' ');
  return text;
}

std::string shown_name(std::string_view text) { return printable(text, kMaxNameBytes); }
std::string shown_sentence(std::string_view text) { return printable(text, kMaxSentenceBytes); }

std::int64_t unix_time(std::chrono::system_clock::time_point at) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(at.time_since_epoch()).count();
}

Json to_json(const NodeFailure& failure) {
  const WorkerEnd worker = failure.worker.value_or(WorkerEnd{});
  const Account& account = failure.account;
  Json json{{"local_rank", worker.local_rank.value()},
            {"node_rank", failure.node_rank.value()},
            {"generation", failure.generation.value()},
            {"host", shown_name(failure.host)},
            {"pid", worker.pid},
            {"exit_code", failure.exit_code},
            {"what", shown_sentence(failure.what)},
            {"error_file", shown_sentence(worker.error_file)},
            {"error_message", shown(account.error_message.substr(0, kMaxErrorBytes), kMaxErrorBytes)},
            {"error_stack", shown(account.error_stack, kMaxStackBytes)},
            {"stderr_tail", shown(account.stderr_tail, kMaxTailBytes)},
            {"final", shown_sentence(failure.final_because)},
            {"weight", to_string(failure.weight)}};
  if (!account.diagnosis.empty()) json["diagnosis"] = printable(account.diagnosis, kMaxErrorBytes);
  if (failure.worker) json["rank"] = worker.rank.value();
  if (account.is_traceback) json["is_traceback"] = true;
  if (failure.has_left) json["has_left"] = true;
  if (failure.victim) json["victim"] = failure.victim->value();
  if (worker.status && worker.status->is_killed()) json["signal"] = worker.status->signal();
  if (worker.status && !worker.status->is_killed()) json["code"] = worker.status->code();
  if (const std::int64_t started = unix_time(worker.started_wall); started != 0)
    json["started"] = started, json["ended"] = unix_time(worker.ended_wall);
  return json;
}

Json to_json(const Seat& seat) {
  return {{"restart_count", seat.restart_count},
          {"restarts", seat.restarts_used},
          {"node_rank", seat.node_rank.value()},
          {"nodes", seat.nodes},
          {"base_rank", seat.base_rank.value()},
          {"world", seat.world_size.value()},
          {"base_role_rank", seat.base_role_rank.value()},
          {"role_world", seat.role_world_size.value()},
          {"coordinator", seat.coordinator}};
}

Json to_json(const Success& success) {
  return {{"generation", success.generation.value()},
          {"node_rank", success.node_rank.value()},
          {"nodes", success.nodes},
          {"coordinator", success.coordinator},
          {"base_rank", success.base_rank.value()}};
}

Json to_json(const Restart& restart) {
  Json json{{"restart_count", restart.restart_count},
            {"number", restart.number},
            {"allowed", restart.allowed},
            {"delay_ns", restart.delay.count()},
            {"why", shown_sentence(restart.why)}};
  if (restart.root_cause) json["root_cause"] = to_json(*restart.root_cause);
  return json;
}

Json to_json(const JobEnd& end) {
  Json json{{"exit_code", end.exit_code}, {"why", shown_sentence(end.why)}, {"restarts", end.restarts_used}};
  if (end.root_cause) json["root_cause"] = to_json(*end.root_cause);
  return json;
}

Json body(const Hello& hello) {
  Json json{{"version", hello.version},
            {"run_id", hello.run_id},
            {"min", hello.min_nodes},
            {"max", hello.max_nodes},
            {"member", hello.node.id.value()},
            {"host", shown_name(hello.node.host)},
            {"nproc", hello.node.local_world_size.value()},
            {"node_rank", to_json(hello.node.pinned)},
            {"role", shown_name(hello.node.role)},
            {"replaces", to_json(hello.node.replaces)},
            {"generation", hello.node.last_generation.value()},
            {"restarts", hello.node.restarts_used},
            {"secret", hello.has_secret},
            {"nonce", hello.nonce},
            {"control", hello.is_control}};
  if (hello.node.hosts_coordinator) json["coordinator"] = true;
  if (!hello.node.cut_off.empty()) json["cut_off"] = shown_sentence(hello.node.cut_off);
  if (hello.node.succeeded) json["succeeded"] = to_json(*hello.node.succeeded);
  return json;
}
Json body(const Challenge& challenge) { return {{"nonce", challenge.nonce}, {"proof", challenge.proof}}; }
Json body(const Proof& proof) { return Json::object({{"proof", proof.proof}}); }
Json body(const Welcome& welcome) {
  Json json{{"heartbeat_ns", welcome.timing.heartbeat.count()}, {"missed", welcome.timing.missed_heartbeats}};
  if (welcome.knows_numbers) json["numbers"] = true;
  return json;
}
Json body(const Refused& refused) {
  return {{"reason", shown_sentence(refused.reason)}, {"may_return", refused.may_return}};
}
Json body(const LogLines& lines) {
  Json json{{"err", lines.is_stderr}, {"text", lines.text}};
  if (lines.dropped_before != 0) json["dropped"] = lines.dropped_before;
  return json;
}
Json body(const DoctorWords& words) { return Json::object({{"text", words.text}}); }
Json body(const DrainRequest& request) { return Json::object({{"node", to_json(request.node)}}); }
Json body(const LookRequest& request) {
  Json json{{"number", request.number}, {"most", request.most_bytes}};
  if (request.kind == LookKind::kNumbers) json["what"] = "numbers";
  return json;
}
Json body(const LookAnswer& answer) {
  Json json{{"number", answer.number},
            {"from", answer.from},
            {"node", shown_sentence(answer.node)},
            {"text", answer.text},
            {"last", answer.is_last}};
  if (answer.is_older) json["older"] = true;
  return json;
}
Json body(const Status& status) {
  Json json{{"seq", status.sequence}, {"gen", status.generation.value()}, {"phase", to_string(status.phase)}};
  if (status.failure) json["failure"] = to_json(*status.failure);
  if (status.leaving_signal != 0) json["leaving"] = status.leaving_signal;
  if (!status.cut_off.empty()) json["cut_off"] = shown_sentence(status.cut_off);
  if (status.has_heard_end) json["heard_end"] = true;
  if (status.knows_numbers) json["numbers"] = true;
  return json;
}
Json body(const Order& order) {
  Json json{{"kind", to_string(order.kind)}, {"ack", order.acknowledged}, {"gen", order.generation.value()}};
  if (!order.text.empty()) json["text"] = shown_sentence(order.text);
  if (order.seat) json["seat"] = to_json(*order.seat);
  if (order.end) json["end"] = to_json(*order.end);
  if (order.restart) json["restart"] = to_json(*order.restart);
  return json;
}

// ---- in

/// Reads fields one by one and remembers the first that is wrong.
class Fields {
 public:
  explicit Fields(const Json& json) : json_(json) {}

  template <class Int>
  Int number(const char* name, Int low = 0, Int high = std::numeric_limits<Int>::max()) {
    const Json* field = find(name);
    if (field == nullptr) return low;
    if (!field->is_number_integer()) return wrong(name, "a whole number"), low;
    if (field->is_number_unsigned() ? field->get<std::uint64_t>() > static_cast<std::uint64_t>(high)
                                    : field->get<std::int64_t>() < static_cast<std::int64_t>(low)) {
      return wrong(name, fmt::format("from {} to {}", low, high)), low;
    }
    const Int value = field->get<Int>();
    if (value < low) return wrong(name, fmt::format("from {} to {}", low, high)), low;
    return value;
  }
  template <class Id>
  std::optional<Id> optional_id(const char* name) {
    if (!json_.contains(name) || json_[name].is_null()) return std::nullopt;
    return Id(number<typename Id::value_type>(name));
  }
  std::string text(const char* name) {
    const Json* field = find(name);
    if (field == nullptr) return {};
    if (!field->is_string()) return wrong(name, "a string"), std::string();
    return field->get<std::string>();
  }
  /// What is shown to people: as it should have been sent, or made so.
  std::string name(const char* field) { return shown_name(text(field)); }
  std::string sentence(const char* field) { return shown_sentence(text(field)); }
  std::string block(const char* field, std::size_t longest) {
    return shown(text(field), 3 * longest);
  }  // U+FFFD has three bytes
  bool flag(const char* name) {
    const Json* field = find(name);
    if (field == nullptr) return false;
    if (!field->is_boolean()) return wrong(name, "true or false"), false;
    return field->get<bool>();
  }
  [[nodiscard]] bool has(const char* name) const { return json_.contains(name); }
  const Json& object(const char* name) {
    static const Json empty = Json::object();
    const Json* field = find(name);
    if (field != nullptr && field->is_object()) return *field;
    wrong(name, "an object");
    return empty;
  }
  void wrong(const char* name, std::string_view wanted) {
    if (problem_.empty()) problem_ = fmt::format("\"{}\" is missing or not {}", name, wanted);
  }
  void adopt_problem(const Fields& inner) {
    if (problem_.empty()) problem_ = inner.problem_;
  }
  [[nodiscard]] const std::string& problem() const { return problem_; }

 private:
  const Json* find(const char* name) {
    const auto found = json_.find(name);
    if (found != json_.end()) return &*found;
    wrong(name, "given");
    return nullptr;
  }

  const Json& json_;
  std::string problem_;
};

constexpr int kMaxNodes = 1'000'000;
constexpr int kMaxRanks = 1'000'000'000;
constexpr int kMaxSignal = 64;
constexpr int kMaxGeneration = 1'000'000;

Weight parse_weight(Fields& fields) {
  const std::string text = fields.text("weight");
  for (const Weight weight : {Weight::kSymptom, Weight::kDoubtful, Weight::kCause}) {
    if (text == to_string(weight)) return weight;
  }
  fields.wrong("weight", "a weight");
  return Weight::kCause;
}

/// A clock may count in less than nanoseconds.
std::chrono::system_clock::time_point parse_time(Fields& fields, const char* key) {
  const std::chrono::nanoseconds since_epoch(fields.number<std::int64_t>(key));
  return std::chrono::system_clock::time_point(
      std::chrono::duration_cast<std::chrono::system_clock::duration>(since_epoch));
}

WorkerEnd parse_worker(Fields& fields) {
  WorkerEnd worker{.local_rank = LocalRank(fields.number<int>("local_rank", 0, kMaxRanks)),
                   .pid = fields.number<int>("pid"),
                   .error_file = fields.sentence("error_file")};
  if (fields.has("rank")) worker.rank = Rank(fields.number<int>("rank", 0, kMaxRanks));
  if (fields.has("code")) worker.status = ExitStatus::exited(fields.number<int>("code", 0, 255));
  if (fields.has("signal")) worker.status = ExitStatus::killed(fields.number<int>("signal", 1, kMaxSignal));
  if (fields.has("started")) {
    worker.started_wall = parse_time(fields, "started");
    worker.ended_wall = parse_time(fields, "ended");
  }
  return worker;
}

NodeFailure parse_failure(Fields& outer, const Json& json) {
  Fields fields(json);
  const WorkerEnd worker = parse_worker(fields);
  NodeFailure failure{.node_rank = NodeRank(fields.number<int>("node_rank", 0, kMaxNodes)),
                      .generation = Generation(fields.number<std::uint32_t>("generation", 0, kMaxGeneration)),
                      .host = fields.name("host"),
                      .exit_code = fields.number<int>("exit_code", 0, 255),
                      .what = fields.sentence("what"),
                      .account = {.error_message = fields.block("error_message", kMaxErrorBytes),
                                  .error_stack = fields.block("error_stack", kMaxStackBytes),
                                  .stderr_tail = fields.block("stderr_tail", kMaxTailBytes)},
                      .final_because = fields.sentence("final"),
                      .weight = parse_weight(fields)};
  if (fields.has("diagnosis"))
    failure.account.diagnosis = printable(fields.text("diagnosis"), kMaxErrorBytes);
  if (fields.has("rank")) failure.worker = worker;
  if (fields.has("is_traceback")) failure.account.is_traceback = fields.flag("is_traceback");
  if (fields.has("has_left")) failure.has_left = fields.flag("has_left");
  if (fields.has("victim")) failure.victim = Rank(fields.number<int>("victim", 0, kMaxRanks));
  outer.adopt_problem(fields);
  return failure;
}

std::optional<NodeFailure> parse_root_cause(Fields& outer) {
  if (!outer.has("root_cause")) return std::nullopt;
  NodeFailure failure = parse_failure(outer, outer.object("root_cause"));
  if (!failure.worker) outer.wrong("root_cause", "a worker's failure");
  return failure;
}

Seat parse_seat(Fields& outer, const Json& json, Generation generation) {
  Fields fields(json);
  Seat seat{.generation = generation,
            .restart_count = fields.number<int>("restart_count"),
            .restarts_used = fields.number<int>("restarts"),
            .node_rank = NodeRank(fields.number<int>("node_rank", 0, kMaxNodes)),
            .nodes = fields.number<int>("nodes", 1, kMaxNodes),
            .base_rank = Rank(fields.number<int>("base_rank", 0, kMaxRanks)),
            .world_size = WorldSize(fields.number<int>("world", 1, kMaxRanks)),
            .base_role_rank = Rank(fields.number<int>("base_role_rank", 0, kMaxRanks)),
            .role_world_size = WorldSize(fields.number<int>("role_world", 1, kMaxRanks)),
            .coordinator = fields.name("coordinator")};
  outer.adopt_problem(fields);
  return seat;
}

Success parse_success(Fields& outer, const Json& json) {
  Fields fields(json);
  Success success{.generation = Generation(fields.number<std::uint32_t>("generation", 1, kMaxGeneration)),
                  .node_rank = NodeRank(fields.number<int>("node_rank", 0, kMaxNodes)),
                  .nodes = fields.number<int>("nodes", 1, kMaxNodes),
                  .coordinator = fields.name("coordinator"),
                  .base_rank = Rank(fields.number<int>("base_rank", 0, kMaxRanks))};
  outer.adopt_problem(fields);
  return success;
}

Restart parse_restart(Fields& outer, const Json& json) {
  Fields fields(json);
  Restart restart{.restart_count = fields.number<int>("restart_count"),
                  .number = fields.number<int>("number"),
                  .allowed = fields.number<int>("allowed"),
                  .delay = Duration(fields.number<std::int64_t>("delay_ns")),
                  .why = fields.sentence("why")};
  restart.root_cause = parse_root_cause(fields);
  outer.adopt_problem(fields);
  return restart;
}

JobEnd parse_end(Fields& outer, const Json& json) {
  Fields fields(json);
  JobEnd end{.exit_code = fields.number<int>("exit_code", 0, 255),
             .why = fields.sentence("why"),
             .restarts_used = fields.number<int>("restarts")};
  end.root_cause = parse_root_cause(fields);
  outer.adopt_problem(fields);
  return end;
}

Hello parse_hello(Fields& fields) {
  Hello hello;
  hello.version = fields.number<int>("version");
  if (hello.version != kProtocolVersion) return hello;  // the rest may look otherwise
  hello.run_id = fields.text("run_id");
  hello.min_nodes = fields.number<int>("min", 1, kMaxNodes);
  hello.max_nodes = fields.number<int>("max", 1, kMaxNodes);
  hello.node.id = MemberId(fields.number<std::uint64_t>("member"));
  hello.node.host = fields.name("host");
  hello.node.local_world_size = LocalWorldSize(fields.number<int>("nproc", 1, 65536));
  hello.node.pinned = fields.optional_id<NodeRank>("node_rank");
  hello.node.role = fields.name("role");
  hello.node.replaces = fields.optional_id<MemberId>("replaces");
  hello.node.last_generation = Generation(fields.number<std::uint32_t>("generation", 0, kMaxGeneration));
  hello.node.restarts_used = fields.number<int>("restarts", 0, kMaxGeneration);
  hello.has_secret = fields.flag("secret");
  hello.nonce = fields.text("nonce");
  hello.is_control = fields.flag("control");
  if (fields.has("coordinator")) hello.node.hosts_coordinator = fields.flag("coordinator");
  if (fields.has("cut_off")) hello.node.cut_off = fields.sentence("cut_off");
  if (fields.has("succeeded")) hello.node.succeeded = parse_success(fields, fields.object("succeeded"));
  return hello;
}

Welcome parse_welcome(Fields& fields) {
  Welcome welcome;
  welcome.timing.heartbeat = Duration(
      fields.number<std::int64_t>("heartbeat_ns", kShortestHeartbeat.count(), kLongestHeartbeat.count()));
  welcome.timing.missed_heartbeats = fields.number<int>("missed", 2, 1000);
  if (fields.has("numbers")) welcome.knows_numbers = fields.flag("numbers");
  return welcome;
}

Phase parse_phase(Fields& fields) {
  const std::string text = fields.text("phase");
  for (const Phase phase : {Phase::kIdle, Phase::kRunning, Phase::kSucceeded, Phase::kStopping}) {
    if (text == to_string(phase)) return phase;
  }
  fields.wrong("phase", "a phase");
  return Phase::kIdle;
}

Status parse_status(Fields& fields) {
  Status status{.sequence = fields.number<std::uint64_t>("seq"),
                .generation = Generation(fields.number<std::uint32_t>("gen")),
                .phase = parse_phase(fields)};
  if (fields.has("failure")) status.failure = parse_failure(fields, fields.object("failure"));
  if (fields.has("leaving")) status.leaving_signal = fields.number<int>("leaving", 1, 64);
  if (fields.has("cut_off")) status.cut_off = fields.sentence("cut_off");
  if (fields.has("heard_end")) status.has_heard_end = fields.flag("heard_end");
  if (fields.has("numbers")) status.knows_numbers = fields.flag("numbers");
  return status;
}

Order parse_order(Fields& fields) {
  Order order{.acknowledged = fields.number<std::uint64_t>("ack"),
              .generation = Generation(fields.number<std::uint32_t>("gen"))};
  const std::string text = fields.text("kind");
  bool is_known = false;
  for (const OrderKind kind : {OrderKind::kWait, OrderKind::kRun, OrderKind::kStop, OrderKind::kEnd}) {
    if (text != to_string(kind)) continue;
    order.kind = kind;
    is_known = true;
  }
  if (!is_known) fields.wrong("kind", "a kind of order");
  if (fields.has("text")) order.text = fields.sentence("text");
  if (fields.has("seat")) order.seat = parse_seat(fields, fields.object("seat"), order.generation);
  if (fields.has("end")) order.end = parse_end(fields, fields.object("end"));
  if (fields.has("restart")) order.restart = parse_restart(fields, fields.object("restart"));
  return order;
}

LogLines parse_log(Fields& fields) {
  LogLines lines{.is_stderr = fields.flag("err"), .text = fields.text("text")};
  if (fields.has("dropped")) lines.dropped_before = fields.number<std::uint64_t>("dropped");
  return lines;
}

LookRequest parse_look(Fields& fields) {
  LookRequest request{.number = fields.number<std::uint64_t>("number"),
                      .most_bytes = fields.number<std::size_t>("most")};
  if (fields.has("what") && fields.text("what") == "numbers") request.kind = LookKind::kNumbers;
  return request;
}

LookAnswer parse_look_answer(Fields& fields) {
  LookAnswer answer{.number = fields.number<std::uint64_t>("number"),
                    .from = fields.number<std::uint64_t>("from"),
                    .node = fields.sentence("node"),
                    .text = fields.text("text"),
                    .is_last = fields.flag("last")};
  if (fields.has("older")) answer.is_older = fields.flag("older");
  if (answer.text.size() > kMaxLookBytes) fields.wrong("text", "short enough");
  return answer;
}

DoctorWords parse_doctor(Fields& fields) {
  DoctorWords words{fields.text("text")};
  if (words.text.size() > kMaxDoctorBytes)
    fields.wrong("text", fmt::format("at most {} bytes", kMaxDoctorBytes));
  return words;
}

Message parse_by_type(const std::string& type, Fields& fields) {
  if (type == "hello") return parse_hello(fields);
  if (type == "challenge") return Challenge{fields.text("nonce"), fields.text("proof")};
  if (type == "proof") return Proof{fields.text("proof")};
  if (type == "welcome") return parse_welcome(fields);
  if (type == "refused") return Refused{fields.sentence("reason"), fields.flag("may_return")};
  if (type == "drain") return DrainRequest{fields.optional_id<NodeRank>("node")};
  if (type == "log") return parse_log(fields);
  if (type == "look") return parse_look(fields);
  if (type == "seen") return parse_look_answer(fields);
  if (type == "doctor") return parse_doctor(fields);
  if (type == "status") return parse_status(fields);
  if (type == "order") return parse_order(fields);
  fields.wrong("type", "a known one");
  return Refused{};
}

}  // namespace

std::string_view type_of(const Message& message) { return kTypes[message.index()]; }

std::string encode(const Message& message) {
  Json json = std::visit([](const auto& each) { return body(each); }, message);
  json["type"] = type_of(message);
  const std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  const auto length = static_cast<std::uint32_t>(text.size());
  std::string frame;
  frame.reserve(kFrameHeaderBytes + text.size());
  for (const int shift : {24, 16, 8, 0}) frame += static_cast<char>((length >> shift) & 0xffU);
  return frame + text;
}

Result<Message> parse_message(std::string_view text) {
  const Json json = Json::parse(text.begin(), text.end(), nullptr, false);
  if (!json.is_object()) return Error(ErrorCode::kCorrupt, "a message that is no JSON object");
  Fields fields(json);
  const std::string type = fields.text("type");
  Message message = parse_by_type(type, fields);
  if (!fields.problem().empty()) {
    return Error(ErrorCode::kCorrupt,
                 fmt::format("a message \"{}\" whose {}", type.substr(0, 32), fields.problem()));
  }
  return message;
}

Result<std::size_t> parse_frame_length(const unsigned char (&header)[kFrameHeaderBytes]) {
  std::size_t length = 0;
  for (const unsigned char byte : header) length = length << 8U | byte;
  if (length > kMaxFrameBytes) {
    return Error(ErrorCode::kCorrupt,
                 fmt::format("a frame of {} bytes, more than {}", length, kMaxFrameBytes));
  }
  return length;
}

}  // namespace ddprun::membership
