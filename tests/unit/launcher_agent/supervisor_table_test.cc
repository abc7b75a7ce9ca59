#include "launcher/agent/supervisor.h"
#include "tests/support/catch.h"

#include <fmt/format.h>

using namespace ddprun;
using namespace ddprun::launcher;

TEST_CASE("every event in every state is answered: by rows that leave no gap, or by one reason for none") {
  for (const State state : kAllStates) {
    for (EventKind event = 0; event < kEventKinds; ++event) {
      INFO(fmt::format("{} in state {}", name_of(event), to_string(state)));
      const TableEntry entry = table_entry(state, event);
      CHECK(entry.kind != TableEntry::Kind::kMissing);
      CHECK(entry.is_total);
      if (entry.kind != TableEntry::Kind::kRows) CHECK_FALSE(entry.why.empty());
    }
  }
}

TEST_CASE("a signal is heard in every state but the last") {
  for (const State state : kAllStates) {
    INFO(to_string(state));
    const bool is_heard = table_entry(state, kKindOf<Signalled>).kind == TableEntry::Kind::kRows;
    CHECK(is_heard == (state != State::kDone));
  }
}

TEST_CASE("nothing happens after the end") {
  for (EventKind event = 0; event < kEventKinds; ++event) {
    INFO(name_of(event));
    CHECK(table_entry(State::kDone, event).kind != TableEntry::Kind::kRows);
  }
}

TEST_CASE("what is ignored changes nothing and says why") {
  Supervisor supervisor({});
  supervisor.start({});
  const Step step = supervisor.handle(GraceOver{}, {});
  CHECK(step.from == State::kRendezvous);
  CHECK(step.to == State::kRendezvous);
  CHECK(step.actions.empty());
  CHECK(step.story == "grace deadline ignored: a deadline of an earlier state");
}
