#include "rendezvous/membership/messages.h"

#include "rendezvous/membership/message_fields.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <array>
#include <chrono>

namespace ddprun::membership {

using Json = nlohmann::json;
using WallTime = std::chrono::system_clock::time_point;

/// In the order of Message.
static constexpr std::array<std::string_view, std::variant_size_v<Message>> kTypes{
    "hello", "challenge", "proof", "welcome", "refused", "drain",
    "log",   "look",      "seen",  "doctor",  "status",  "order"};

static constexpr int kMaxSignal = 64;
static constexpr int kMaxGeneration = 1'000'000;

// ---- fields that are left out where they say nothing

template <class Fields>
static void rare_flag(Fields& fields, const char* key, Described<Fields, bool>& value) {
  if (fields.has(key, value)) fields.flag(key, value);
}

template <class Fields>
static void rare_sentence(Fields& fields, const char* key, Described<Fields, std::string>& value) {
  if (fields.has(key, !value.empty())) fields.sentence(key, value);
}

template <class Fields, class Optional>
static void rare_object(Fields& fields, const char* key, Optional& value) {
  if (!fields.has(key, value.has_value())) return;
  if constexpr (Fields::kReads) value.emplace();
  fields.object(key, *value);
}

// ---- what is in messages. describe() is found by its arguments, which does not look into unnamed namespaces

/// A clock may count in less than nanoseconds.
template <class Fields>
static void describe_time(Fields& fields, const char* key, Described<Fields, WallTime>& at) {
  auto since_epoch = std::chrono::duration_cast<Duration>(at.time_since_epoch());
  fields.number(key, since_epoch);
  if constexpr (Fields::kReads) at = WallTime(std::chrono::duration_cast<WallTime::duration>(since_epoch));
}

template <class Fields>
static void describe(Fields& fields, Described<Fields, std::optional<ExitStatus>>& status) {
  int code = status ? status->code() : 0;
  int signal = status ? status->signal() : 0;
  if (fields.has("code", status && !status->is_killed())) {
    fields.number("code", code, 0, 255);
    if constexpr (Fields::kReads) status = ExitStatus::exited(code);
  }
  if (fields.has("signal", status && status->is_killed())) {
    fields.number("signal", signal, 1, kMaxSignal);
    if constexpr (Fields::kReads) status = ExitStatus::killed(signal);
  }
}

template <class Fields>
static void describe(Fields& fields, Described<Fields, WorkerEnd>& worker) {
  fields.number("local_rank", worker.local_rank, 0, kMaxRanks);
  fields.number("pid", worker.pid);
  fields.sentence("error_file", worker.error_file);
  describe(fields, worker.status);
  if (fields.has("started", worker.started_wall != WallTime{})) {
    describe_time(fields, "started", worker.started_wall);
    describe_time(fields, "ended", worker.ended_wall);
  }
}

template <class Fields>
static void describe(Fields& fields, Described<Fields, Account>& account) {
  fields.head("error_message", account.error_message, kMaxErrorBytes);
  fields.tail("error_stack", account.error_stack, kMaxStackBytes);
  fields.tail("stderr_tail", account.stderr_tail, kMaxTailBytes);
  if (fields.has("diagnosis", !account.diagnosis.empty()))
    fields.sentence("diagnosis", account.diagnosis, kMaxErrorBytes);
  rare_flag(fields, "is_traceback", account.is_traceback);
}

template <class Fields>
static void describe(Fields& fields, Described<Fields, NodeFailure>& failure) {
  WorkerEnd worker = failure.worker.value_or(WorkerEnd{});
  describe(fields, worker);
  if (fields.has("rank", failure.worker.has_value())) {
    fields.number("rank", worker.rank, 0, kMaxRanks);
    if constexpr (Fields::kReads) failure.worker = worker;
  }
  fields.number("node_rank", failure.node_rank, 0, kMaxNodes);
  fields.number("generation", failure.generation, 0, kMaxGeneration);
  fields.name("host", failure.host);
  fields.number("exit_code", failure.exit_code, 0, 255);
  fields.sentence("what", failure.what);
  describe(fields, failure.account);
  fields.sentence("final", failure.final_because);
  fields.word("weight", failure.weight, {Weight::kSymptom, Weight::kDoubtful, Weight::kCause}, "a weight");
  rare_flag(fields, "has_left", failure.has_left);
  rare_flag(fields, "stood_still", failure.stood_still);
  rare_flag(fields, "waited_in_vain", failure.waited_in_vain);
  if (fields.has("victim", failure.victim.has_value())) {
    if constexpr (Fields::kReads) failure.victim.emplace();
    fields.number("victim", *failure.victim, 0, kMaxRanks);
  }
}

/// That of a whole job.
template <class Fields, class Optional>
static void describe_root_cause(Fields& fields, Optional& root_cause) {
  rare_object(fields, "root_cause", root_cause);
  fields.expect("root_cause", !root_cause || root_cause->worker, "a worker's failure");
}

/// Its generation is that of the order.
template <class Fields>
static void describe(Fields& fields, Described<Fields, Seat>& seat) {
  auto said = restart_count(seat.generation);  // which says it as well
  fields.number("restart_count", said);
  fields.number("restarts", seat.restarts_used);
  fields.number("node_rank", seat.node_rank, 0, kMaxNodes);
  fields.number("nodes", seat.nodes, 1, kMaxNodes);
  fields.number("base_rank", seat.base_rank, 0, kMaxRanks);
  fields.number("world", seat.world_size, 1, kMaxRanks);
  fields.number("base_role_rank", seat.base_role_rank, 0, kMaxRanks);
  fields.number("role_world", seat.role_world_size, 1, kMaxRanks);
  fields.name("coordinator", seat.coordinator);
  if (fields.has("allowed", seat.restarts_allowed.has_value())) {
    if constexpr (Fields::kReads) seat.restarts_allowed.emplace();
    fields.number("allowed", *seat.restarts_allowed);
  }
}

template <class Fields>
static void describe(Fields& fields, Described<Fields, Success>& success) {
  fields.number("generation", success.generation, 1, kMaxGeneration);
  fields.number("node_rank", success.node_rank, 0, kMaxNodes);
  fields.number("nodes", success.nodes, 1, kMaxNodes);
  fields.name("coordinator", success.coordinator);
  fields.number("base_rank", success.base_rank, 0, kMaxRanks);
}

template <class Fields>
static void describe(Fields& fields, Described<Fields, Restart>& restart) {
  fields.number("restart_count", restart.restart_count);
  fields.number("number", restart.number);
  fields.number("allowed", restart.allowed);
  fields.number("delay_ns", restart.delay);
  fields.sentence("why", restart.why);
  describe_root_cause(fields, restart.root_cause);
}

template <class Fields>
static void describe(Fields& fields, Described<Fields, JobEnd>& end) {
  fields.number("exit_code", end.exit_code, 0, 255);
  fields.sentence("why", end.why);
  fields.number("restarts", end.restarts_used);
  describe_root_cause(fields, end.root_cause);
}

template <class Fields>
static void describe(Fields& fields, Described<Fields, NodeFacts>& node) {
  fields.number("member", node.id);
  fields.name("host", node.host);
  fields.number("nproc", node.local_world_size, 1, 65536);
  fields.optional_id("node_rank", node.pinned);
  fields.name("role", node.role);
  fields.optional_id("replaces", node.replaces);
  fields.number("generation", node.last_generation, 0, kMaxGeneration);
  fields.number("restarts", node.restarts_used, 0, kMaxGeneration);
  rare_flag(fields, "coordinator", node.hosts_coordinator);
  rare_sentence(fields, "cut_off", node.cut_off);
  rare_object(fields, "succeeded", node.succeeded);
}

// ---- messages

template <class Fields>
static void describe(Fields& fields, Described<Fields, Hello>& hello) {
  fields.number("version", hello.version);
  if (Fields::kReads && hello.version != kProtocolVersion) return;  // the rest may look otherwise
  fields.text("run_id", hello.run_id);
  fields.number("min", hello.min_nodes, 1, kMaxNodes);
  fields.number("max", hello.max_nodes, 1, kMaxNodes);
  describe(fields, hello.node);
  fields.flag("secret", hello.has_secret);
  fields.text("nonce", hello.nonce);
  fields.flag("control", hello.is_control);
}

template <class Fields>
static void describe(Fields& fields, Described<Fields, Challenge>& challenge) {
  fields.text("nonce", challenge.nonce);
  fields.text("proof", challenge.proof);
}

template <class Fields>
static void describe(Fields& fields, Described<Fields, Proof>& proof) {
  fields.text("proof", proof.proof);
}

template <class Fields>
static void describe(Fields& fields, Described<Fields, Welcome>& welcome) {
  fields.number("heartbeat_ns", welcome.timing.heartbeat, kShortestHeartbeat.count(),
                kLongestHeartbeat.count());
  fields.number("missed", welcome.timing.missed_heartbeats, 2, 1000);
  rare_flag(fields, "numbers", welcome.knows_numbers);
}

template <class Fields>
static void describe(Fields& fields, Described<Fields, Refused>& refused) {
  fields.sentence("reason", refused.reason);
  fields.flag("may_return", refused.may_return);
}

template <class Fields>
static void describe(Fields& fields, Described<Fields, LogLines>& lines) {
  fields.flag("err", lines.is_stderr);
  fields.text("text", lines.text);
  if (fields.has("dropped", lines.dropped_before != 0)) fields.number("dropped", lines.dropped_before);
}

template <class Fields>
static void describe(Fields& fields, Described<Fields, DrainRequest>& request) {
  fields.optional_id("node", request.node);
}

template <class Fields>
static void describe(Fields& fields, Described<Fields, LookRequest>& request) {
  fields.number("number", request.number);
  fields.number("most", request.most_bytes);
  std::string what = "numbers";
  if (fields.has("what", request.kind == LookKind::kNumbers)) {
    fields.text("what", what);
    if constexpr (Fields::kReads) request.kind = what == "numbers" ? LookKind::kNumbers : LookKind::kWhy;
  }
}

template <class Fields>
static void describe(Fields& fields, Described<Fields, LookAnswer>& answer) {
  fields.number("number", answer.number);
  fields.number("from", answer.from);
  fields.sentence("node", answer.node);
  fields.text("text", answer.text);
  fields.expect("text", answer.text.size() <= kMaxLookBytes, "short enough");
  fields.flag("last", answer.is_last);
  rare_flag(fields, "older", answer.is_older);
}

template <class Fields>
static void describe(Fields& fields, Described<Fields, DoctorWords>& words) {
  fields.text("text", words.text);
  if (words.text.size() > kMaxDoctorBytes)
    fields.expect("text", false, fmt::format("at most {} bytes", kMaxDoctorBytes));
}

template <class Fields>
static void describe(Fields& fields, Described<Fields, Status>& status) {
  fields.number("seq", status.sequence);
  fields.number("gen", status.generation, 0, kMaxGeneration);
  fields.word("phase", status.phase, {Phase::kIdle, Phase::kRunning, Phase::kSucceeded, Phase::kStopping},
              "a phase");
  rare_object(fields, "failure", status.failure);
  if (fields.has("leaving", status.leaving_signal != 0))
    fields.number("leaving", status.leaving_signal, 1, kMaxSignal);
  rare_sentence(fields, "cut_off", status.cut_off);
  rare_flag(fields, "heard_end", status.has_heard_end);
  rare_flag(fields, "numbers", status.knows_numbers);
}

template <class Fields>
static void describe(Fields& fields, Described<Fields, Order>& order) {
  fields.number("ack", order.acknowledged);
  fields.number("gen", order.generation, 0, kMaxGeneration);
  fields.word("kind", order.kind, {OrderKind::kWait, OrderKind::kRun, OrderKind::kStop, OrderKind::kEnd},
              "a kind of order");
  rare_sentence(fields, "text", order.text);
  rare_object(fields, "seat", order.seat);
  fields.expect("gen", !order.seat || order.generation.value() > 0, "that of the seat's generation");
  if constexpr (Fields::kReads)
    if (order.seat) order.seat->generation = order.generation;
  rare_object(fields, "end", order.end);
  rare_object(fields, "restart", order.restart);
}

template <std::size_t index = 0>
static Message parse_by_type(std::string_view type, FieldReader& fields) {
  if constexpr (index == kTypes.size()) {
    fields.expect("type", false, "a known one");
    return Refused{};
  } else {
    if (type != kTypes[index]) return parse_by_type<index + 1>(type, fields);
    std::variant_alternative_t<index, Message> message;
    describe(fields, message);
    return message;
  }
}

std::string_view type_of(const Message& message) { return kTypes[message.index()]; }

std::string encode(const Message& message) {
  FieldWriter fields;
  std::visit([&](const auto& each) { describe(fields, each); }, message);
  fields.text("type", std::string(type_of(message)));
  const std::string text = std::move(fields).take().dump(-1, ' ', false, Json::error_handler_t::replace);
  const auto length = static_cast<std::uint32_t>(text.size());
  std::string frame;
  frame.reserve(kFrameHeaderBytes + text.size());
  for (const int shift : {24, 16, 8, 0}) frame += static_cast<char>((length >> shift) & 0xffU);
  return frame + text;
}

Result<Message> parse_message(std::string_view text) {
  const Json json = Json::parse(text.begin(), text.end(), nullptr, false);
  if (!json.is_object()) return Error(ErrorCode::kCorrupt, "a message that is no JSON object");
  FieldReader fields(json);
  std::string type;
  fields.text("type", type);
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
