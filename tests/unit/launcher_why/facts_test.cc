#include "launcher/why/facts/facts_json.h"
#include "launcher/why/look/native_stack.h"
#include "launcher/why/look/proc_look.h"
#include "launcher/why/look/python_stack.h"
#include "launcher/why/look/system_calls.h"
#include "tests/support/catch.h"

#include <sys/syscall.h>

using namespace ddprun::launcher::why;

TEST_CASE("a system call is read with its arguments, and one that runs has none") {
  const SystemCall call = parse_system_call("257 0xffffff9c 0x7f5a 0x80000 0x0 0x0 0x0 0x7ffd 0x7f5b\n");
  CHECK(call.number == SYS_openat);
  CHECK(call.arguments[1] == 0x7f5a);
  CHECK(parse_system_call("running\n").number == -1);
  CHECK(parse_system_call("-1 0x7ffd 0x7f5b\n").number == -1);
  CHECK(parse_system_call("").number == -1);
}

TEST_CASE("a call that goes on after a stop is known by where the kernel waits") {
  CHECK(call_behind_restart(SYS_restart_syscall, "do_sys_poll") == SYS_poll);
  CHECK(call_behind_restart(SYS_restart_syscall, "hrtimer_nanosleep") == SYS_clock_nanosleep);
  CHECK(call_behind_restart(SYS_restart_syscall, "futex_wait_queue") == SYS_futex);
  CHECK(call_behind_restart(SYS_restart_syscall, "0") == SYS_restart_syscall);
  CHECK(call_behind_restart(SYS_read, "do_sys_poll") == SYS_read);
}

TEST_CASE("a table of sockets gives the connections of the inodes that are asked for") {
  const std::string table =
      "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
      "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 17 1\n"
      "   1: 0A00000A:1267 0B00000A:C350 01 000000C0:00000060 01:00000014 00000005     0        0 18 2\n"
      "   2: 0A00000A:1268 0B00000A:C351 01 00000000:00000000 00:00000000 00000000     0        0 19 2\n";
  const std::vector<Connection> found = parse_tcp_table(table, {"17", "18"});
  REQUIRE(found.size() == 1);
  CHECK(found[0].local == "10.0.0.10:4711");
  CHECK(found[0].remote == "10.0.0.11:50000");
  CHECK(found[0].unsent == 192);
  CHECK(found[0].unread == 96);
  CHECK(found[0].retransmits == 5);
}

TEST_CASE("names of functions lose parameters, template arguments and return types") {
  CHECK(short_function_name("c10d::Work::wait(std::chrono::duration<long, std::ratio<1l, 1000l> >)") ==
        "c10d::Work::wait");
  CHECK(short_function_name("void gloo::(anonymous namespace)::ring<float>(int)") ==
        "void gloo::(anonymous namespace)::ring");
  CHECK(short_function_name("void std::thread::run<int>(int)") == "std::thread::run");
  CHECK(short_function_name("main") == "main");
}

TEST_CASE("the main thread of py-spy's answer comes first") {
  const PythonStacks stacks = parse_py_spy(
      R"([{"os_thread_id": 8, "thread_name": "Thread-1", "owns_gil": true, "frames": []},
          {"os_thread_id": 7, "thread_name": "MainThread", "owns_gil": false,
           "frames": [{"name": "main", "filename": "/train.py", "line": 3}]}])",
      7);
  REQUIRE(stacks.threads.size() == 2);
  CHECK(stacks.threads[0].tid == 7);
  CHECK(stacks.threads[0].frames.at(0).line == 3);
  CHECK(stacks.threads[1].owns_gil);
  CHECK(parse_py_spy("Error: no", 7).problem == "py-spy printed something that is no list of threads");
}

TEST_CASE("facts survive being handed on") {
  RankFacts facts;
  facts.rank = 3;
  facts.second.threads.push_back(
      {.tid = 1, .name = "a\xff", .state = "S", .wait_channel = "x", .call = {1, {2}}});
  facts.recorder.memberships.push_back({.group = "1", .ranks = "0-1", .newest = {{"gloo", 7}}});
  const std::optional<RankFacts> again = parse_rank_facts(to_text(facts));
  REQUIRE(again);
  CHECK(again->rank == 3);
  CHECK(again->recorder.memberships.at(0).ranks == "0-1");
  CHECK(again->recorder.memberships.at(0).newest.at("gloo") == 7);
  CHECK(again->second.threads.at(0).call == facts.second.threads.at(0).call);
  CHECK_FALSE(parse_rank_facts("[]"));
}

TEST_CASE("facts of a ddprun that does not know memberships are read") {
  const std::optional<RankFacts> facts =
      parse_rank_facts(R"({"rank": 1, "recorder": {"is_there": true, "next": 5, "entries": []}})");
  REQUIRE(facts);
  CHECK(facts->recorder.next == 5);
  CHECK(facts->recorder.memberships.empty());
}
