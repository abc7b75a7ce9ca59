#include "worker/runtime/rpc/python_words.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace ddprun::runtime {
namespace {

constexpr std::string_view kApi = "torch.distributed.rpc.api";
constexpr std::string_view kLossSuffix = "/lost";  // no worker's name has a slash
constexpr std::string_view kInternal = "torch.distributed.rpc.internal";

std::string text(std::string_view value) {
  std::string bytes = "X";
  for (int shift = 0; shift < 32; shift += 8) bytes += static_cast<char>(value.size() >> shift & 0xff);
  return bytes.append(value);
}

std::string global(std::string_view module, std::string_view name) {
  return std::string("c").append(module).append("\n").append(name).append("\n");
}

/// PythonUDF(function, arguments, {}), where `arguments` is a pickled tuple.
std::string python_call(std::string_view function, const std::string& arguments) {
  return "\x80\x02" + global(kInternal, "PythonUDF") + global(kApi, function) + arguments + "}\x87R.";
}

/// How many bytes of arguments follow an opcode, or the form in which they say it.
enum class Follows {
  kNothing,
  kByte,
  kTwo,
  kFour,
  kEight,
  kSmallText,
  kText,
  kLongText,
  kSmallBytes,
  kTwoLines,
  kUnknown
};

struct Form {
  std::string_view opcodes;
  Follows follows;
};

/// Opcodes of protocols 2 to 5 that a call with texts, sets, dictionaries and tuples is made of. Source: CPython,
/// Lib/pickle.py.
constexpr std::array kForms{
    Form{"()01NRabestu}]\x81\x85\x86\x87\x88\x89\x8f\x90\x91\x93\x94", Follows::kNothing},
    Form{"Khq\x80", Follows::kByte},
    Form{"M", Follows::kTwo},
    Form{"Jjr", Follows::kFour},
    Form{"G\x95", Follows::kEight},
    Form{"\x8c", Follows::kSmallText},
    Form{"X", Follows::kText},
    Form{"\x8d", Follows::kLongText},
    Form{"CU\x8a", Follows::kSmallBytes},
    Form{"c", Follows::kTwoLines}};

Follows follows(char opcode) {
  const auto* const form = std::ranges::find_if(
      kForms, [opcode](const Form& each) { return each.opcodes.find(opcode) != std::string_view::npos; });
  return form == kForms.end() ? Follows::kUnknown : form->follows;
}

std::uint64_t number(std::string_view bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}

/// A pickle's bytes from the front; `ok` is false once there were too few.
struct Bytes {
  std::string_view rest;
  bool ok = true;

  std::string_view take(std::uint64_t count) {
    if (count > rest.size()) {
      ok = false;
      count = rest.size();
    }
    const std::string_view front = rest.substr(0, count);
    rest.remove_prefix(count);
    return front;
  }
  std::string_view line() {
    const std::size_t end = rest.find('\n');
    if (end == std::string_view::npos) ok = false;
    const std::string_view front = take(end == std::string_view::npos ? 0 : end);
    take(1);
    return front;
  }
};

/// All texts in a pickle, names of globals included, in their order; nothing for one with other opcodes.
std::optional<std::vector<std::string>> texts_of(std::string_view pickle) {
  std::vector<std::string> texts;
  Bytes bytes{pickle};
  while (bytes.ok) {
    const std::string_view opcode = bytes.take(1);
    if (!bytes.ok) break;
    if (opcode[0] == '.') return texts;
    switch (follows(opcode[0])) {
      case Follows::kNothing:
        break;
      case Follows::kByte:
        bytes.take(1);
        break;
      case Follows::kTwo:
        bytes.take(2);
        break;
      case Follows::kFour:
        bytes.take(4);
        break;
      case Follows::kEight:
        bytes.take(8);
        break;
      case Follows::kSmallText:
        texts.emplace_back(bytes.take(number(bytes.take(1))));
        break;
      case Follows::kText:
        texts.emplace_back(bytes.take(number(bytes.take(4))));
        break;
      case Follows::kLongText:
        texts.emplace_back(bytes.take(number(bytes.take(8))));
        break;
      case Follows::kSmallBytes:
        bytes.take(number(bytes.take(1)));
        break;
      case Follows::kTwoLines:
        texts.emplace_back(bytes.line());
        texts.emplace_back(bytes.line());
        break;
      case Follows::kUnknown:
        return {};
    }
  }
  return {};
}

}  // namespace

std::string pickled_devices(const std::string& name) {
  return "\x80\x02(" + text(name) + std::string("K\0", 2) + "}]t.";
}

std::string pickled_gather(const std::string& sequence, const std::string& worker,
                           const std::set<std::string>& names) {
  std::string arguments = "(" + text(sequence) + text(worker) + "N" + global("__builtin__", "set") + "](";
  for (const std::string& name : names) arguments += text(name);
  return python_call("_gather_to_leader", arguments + "e\x85Rt");
}

std::string pickled_broadcast(const std::string& sequence, const std::set<std::string>& names) {
  std::string arguments = text(sequence) + "}(";
  for (const std::string& name : names) arguments += text(name) + "N";
  return python_call("_broadcast_to_followers", arguments + "u\x86");
}

std::string pickled_loss(const std::string& sequence, const std::string& worker,
                         const std::set<std::string>& names) {
  return pickled_gather(std::string(sequence).append(kLossSuffix), worker, names);
}

std::string pickled_none() { return "\x80\x02N."; }

std::optional<GatherCall> read_gather_call(std::string_view pickle) {
  const auto texts = texts_of(pickle);
  if (!texts || texts->size() < 5 || (*texts)[0] != kInternal || (*texts)[1] != "PythonUDF" ||
      (*texts)[2] != kApi)
    return {};
  const std::string& function = (*texts)[3];
  if (function == "_broadcast_to_followers")
    return GatherCall{.kind = GatherCall::Kind::kAllArrived, .sequence = (*texts)[4], .worker = {}};
  if (function != "_gather_to_leader" || texts->size() < 6) return {};
  GatherCall call{.kind = GatherCall::Kind::kArrived, .sequence = (*texts)[4], .worker = (*texts)[5]};
  if (call.sequence.ends_with(kLossSuffix)) {
    call.kind = GatherCall::Kind::kLost;
    call.sequence.resize(call.sequence.size() - kLossSuffix.size());
  }
  return call;
}

std::optional<std::string> read_python_exception(std::string_view pickle) {
  const auto texts = texts_of(pickle);
  if (!texts || texts->size() < 3 || (*texts)[1] != "RemoteException") return {};
  return (*texts)[2];
}

std::string sequence_name(const std::set<std::string>& names, int number) {
  std::string result;
  for (const std::string& name : names) result += name;
  return result + std::to_string(number);
}

}  // namespace ddprun::runtime
