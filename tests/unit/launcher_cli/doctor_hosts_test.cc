#include "launcher/doctor/hosts.h"
#include "launcher/doctor/hosts_meeting.h"
#include "launcher/doctor/talk.h"
#include "tests/support/catch.h"
#include "tests/unit/launcher_cli/golden_page.h"

#include <nlohmann/json.hpp>

#include <string>

using namespace ddprun;
using namespace ddprun::launcher;

namespace {

SeenHost host(const std::string& name, const std::string& address) {
  SeenHost host;
  host.sheet = {.host = name,
                .ddprun = "0.1.0 (torchrun 2.15 flags)",
                .kernel = "6.1.0",
                .python = "3.11.2",
                .torch = "2.11.0",
                .nccl = "2.29.7",
                .driver = "550.54.15",
                .gpus = "8 × NVIDIA H100",
                .wrong = {}};
  host.address = address;
  host.round_trip = 1e-4;
  host.clock_doubt = 5e-5;
  return host;
}

MeetingFacts healthy_meeting() {
  MeetingFacts meeting{
      .endpoint = "node-a:29400",
      .wanted = 3,
      .waited = std::chrono::seconds(60),
      .hosts = {host("node-a", "10.0.0.1"), host("node-b", "10.0.0.2"), host("node-c", "10.0.0.3")},
      .probes = {},
      .turned_away = {}};
  for (std::size_t step = 1; step < 3; ++step) {
    for (std::size_t from = 0; from < 3; ++from)
      meeting.probes.push_back({from, probed_by(from, step, 3), {}, 1e-4 * static_cast<double>(step), 9.4e9});
  }
  return meeting;
}

Probe& probe_of(MeetingFacts& meeting, std::size_t from, std::size_t to) {
  for (Probe& probe : meeting.probes) {
    if (probe.from == from && probe.to == to) return probe;
  }
  FAIL("no such probe");
  return meeting.probes.front();
}

void cannot_reach(MeetingFacts& meeting, std::size_t from, std::size_t to, const std::string& why) {
  probe_of(meeting, from, to) = {from, to, why, std::nullopt, 0};
}

MeetingFacts broken_meeting() {
  MeetingFacts meeting = healthy_meeting();
  meeting.wanted = 4;
  cannot_reach(meeting, 1, 2, "connection timed out");
  cannot_reach(meeting, 0, 2, "connection timed out");
  cannot_reach(meeting, 2, 0, "no route to host");
  probe_of(meeting, 1, 0).error = "a stream of bytes does not arrive within 5.0 s";
  probe_of(meeting, 2, 1).bits_per_second = 0.9e9;
  probe_of(meeting, 2, 1).round_trip = 0.04;
  SeenHost& third = meeting.hosts[2];
  third.sheet.torch = "2.6.0";
  third.sheet.nccl = "";
  third.sheet.kernel = "5.10.0";
  third.sheet.ddprun = "0.2.0 (torchrun 2.15 flags)";
  third.clock_ahead = -3.5;
  third.sheet.wrong = {all_wrong("/dev/shm", "64 MiB of 64 MiB are free", "docker run --shm-size 8g")};
  meeting.hosts[1].sheet.wrong = third.sheet.wrong;
  meeting.turned_away = {
      "node d (10.0.0.4) was started with --nnodes 2, the coordinator with --nnodes 4; give all "
      "nodes the same"};
  return meeting;
}

std::string page_of(const MeetingFacts& meeting) { return render_hosts(meeting, examine_hosts(meeting)); }

Finding finding_about(const MeetingFacts& meeting, const std::string& topic) {
  for (const Finding& finding : examine_hosts(meeting)) {
    if (finding.topic == topic) return finding;
  }
  return {.topic = "nothing about " + topic, .state = {}};
}

template <class What>
What there_and_back(const What& said) {
  return std::get<What>(doctor_talk::parse(doctor_talk::encode(said)).value());
}

std::string why_not_understood(const std::string& text) {
  return doctor_talk::parse(membership::DoctorWords{text}).error().message();
}

}  // namespace

TEST_CASE("the page of hosts that are well reads as agreed") {
  CHECK(page_of(healthy_meeting()) == golden_page("doctor_hosts_healthy.txt", page_of(healthy_meeting())));
}

TEST_CASE("the page of hosts with every trouble says who, why and how to mend it") {
  CHECK(page_of(broken_meeting()) == golden_page("doctor_hosts_broken.txt", page_of(broken_meeting())));
}

TEST_CASE("a host that never comes is named by what is known of it") {
  MeetingFacts meeting = healthy_meeting();
  meeting.hosts.pop_back();
  meeting.probes.clear();
  CHECK(finding_about(meeting, "hosts").state ==
        "2 of 3 came: node-a (10.0.0.1), node-b (10.0.0.2), within 60.0 s");
  meeting.hosts[0].node_rank = 0;
  meeting.hosts[1].node_rank = 2;
  CHECK(finding_about(meeting, "hosts").state ==
        "2 of 3 came: node-a (10.0.0.1), node-b (10.0.0.2); --node-rank 1 did not, within 60.0 s");
  CHECK(is_any_wrong(examine_hosts(meeting)));
}

TEST_CASE("a host that nobody reaches is told as one thing") {
  MeetingFacts meeting = healthy_meeting();
  cannot_reach(meeting, 0, 2, "connection timed out");
  cannot_reach(meeting, 1, 2, "connection timed out");
  CHECK(finding_about(meeting, "reach").state ==
        "none of the others reaches node-c (10.0.0.3): connection timed out");
}

TEST_CASE("what a lost host did not do is not held against the others") {
  MeetingFacts meeting = healthy_meeting();
  cannot_reach(meeting, 0, 2, "connection timed out");
  meeting.hosts[2].lost = "the other side closed the connection";
  CHECK(finding_about(meeting, "hosts").kind == FindingKind::kOk);
  CHECK(finding_about(meeting, "reach").kind == FindingKind::kOk);
  CHECK(is_any_wrong(examine_hosts(meeting)));
}

TEST_CASE("hosts that call themselves alike are told apart by address") {
  MeetingFacts meeting = healthy_meeting();
  meeting.hosts[1].sheet.host = "node-a";
  cannot_reach(meeting, 2, 1, "connection refused");
  CHECK(finding_about(meeting, "reach").state ==
        "node-c does not reach node-a (10.0.0.2): connection refused");
}

TEST_CASE("clocks are apart only by more than the way to them leaves in doubt") {
  MeetingFacts meeting = healthy_meeting();
  meeting.hosts[1].clock_ahead = 2;
  CHECK(finding_about(meeting, "clocks").state == "node-b is 2.0 s ahead of node-a");
  meeting.hosts[1].clock_doubt = 1.6;
  CHECK(finding_about(meeting, "clocks").kind == FindingKind::kOk);
}

TEST_CASE("a host is seated once, at its own place, while there is one") {
  MeetingFacts meeting = healthy_meeting();
  meeting.wanted = 4;
  SeenHost late = host("node-d", "10.0.0.4");
  CHECK_FALSE(why_not_seated(meeting, late).has_value());
  meeting.hosts[1].node_rank = late.node_rank = 1;
  CHECK(why_not_seated(meeting, late) ==
        "node-b (10.0.0.2) and node-d (10.0.0.4) both have --node-rank 1: give each host its own, or none");
  late.node_rank = 4;
  CHECK(why_not_seated(meeting, late) == "node-d (10.0.0.4) has --node-rank 4, and 4 hosts have 0 to 3");
  meeting.wanted = 3;
  CHECK(why_not_seated(meeting, late) ==
        "3 hosts are here without node-d (10.0.0.4): --nnodes has to count all of them");
}

TEST_CASE(
    "in each step everybody probes one host and is probed by one, and in the end each has probed each") {
  constexpr std::size_t kHosts = 5;
  std::vector<int> probed(kHosts * kHosts, 0);
  for (std::size_t step = 1; step < kHosts; ++step) {
    std::vector<int> by(kHosts, 0);
    for (std::size_t from = 0; from < kHosts; ++from) {
      ++by[probed_by(from, step, kHosts)];
      ++probed[from * kHosts + probed_by(from, step, kHosts)];
    }
    CHECK(by == std::vector<int>(kHosts, 1));
  }
  for (std::size_t i = 0; i < kHosts; ++i) probed[i * kHosts + i] += 1;
  CHECK(probed == std::vector<int>(kHosts * kHosts, 1));
}

TEST_CASE("what doctors say comes back as it was said") {
  const SeenHost whole = broken_meeting().hosts[2];
  const doctor_talk::ProbePlace place{Port(40000), std::string(64, 'a')};
  const auto sheet = there_and_back(doctor_talk::Sheet{whole.sheet, place});
  CHECK(sheet.sheet.torch == "2.6.0");
  CHECK(sheet.sheet.gpus == "8 × NVIDIA H100");
  CHECK(sheet.sheet.wrong.at(0).mend == "docker run --shm-size 8g");
  CHECK(sheet.place.port == Port(40000));
  CHECK(
      there_and_back(doctor_talk::ProbeOne{"10.0.0.1", place, std::chrono::milliseconds(7)}).stream.count() ==
      7);
  CHECK(
      there_and_back(doctor_talk::Probed{.error = {}, .round_trip = 0.5, .bits_per_second = 8}).round_trip ==
      0.5);
  CHECK_FALSE(there_and_back(doctor_talk::Probed{.error = "connection timed out"}).round_trip.has_value());
}

TEST_CASE("a page of any length arrives whole, in parts that fit, none of which cuts a character") {
  std::string page;
  for (int i = 0; i < 20'000; ++i) page += "×";
  std::string together;
  const auto parts = doctor_talk::parts_of(page, true);
  for (const doctor_talk::PagePart& part : parts) {
    CHECK(doctor_talk::encode(part).text.size() <= membership::kMaxDoctorBytes);
    together += there_and_back(part).text;
  }
  CHECK(together == page);
  CHECK(parts.back().is_last);
  CHECK(doctor_talk::parts_of("", false).size() == 1);
}

TEST_CASE("what no doctor says is refused, whatever its size") {
  CHECK(why_not_understood("") == "it says no JSON object");
  CHECK(why_not_understood("[]") == "it says no JSON object");
  CHECK(why_not_understood(R"({"says":"hm"})") == "it says what no doctor says: \"says\"");
  CHECK(why_not_understood(R"({"says":"time","ns":-1})") == "it says what no doctor says: \"ns\"");
  CHECK(why_not_understood(R"({"says":"time","ns":18446744073709551615})") ==
        "it says what no doctor says: \"ns\"");
  CHECK(why_not_understood(R"({"says":"probed","error":"","bits":1e300,"trip":1})") ==
        "it says what no doctor says: \"bits\"");
  CHECK(why_not_understood(R"({"says":"probed","error":"","bits":1})") ==
        "it says what no doctor says: \"trip\"");
  CHECK(why_not_understood(
            R"({"says":"sheet","place":{"port":70000,"token":"0123456789abcdef"},"wrong":[]})") ==
        "it says what no doctor says: \"place\"");
  nlohmann::json sheet =
      nlohmann::json::parse(doctor_talk::encode(doctor_talk::Sheet{broken_meeting().hosts[2].sheet,
                                                                   {Port(1), std::string(64, 'a')}})
                                .text);
  sheet["wrong"] = nlohmann::json::array_t(1000, nlohmann::json::array({"a", "b", "c"}));
  CHECK(why_not_understood(sheet.dump()) == "it says what no doctor says: \"wrong\"");
  sheet["wrong"] = {"a"};
  CHECK(why_not_understood(sheet.dump()) == "it says what no doctor says: \"wrong\"");
  sheet["wrong"] = nlohmann::json::array();
  sheet["host"] = std::string(10'000, 'x');
  CHECK(why_not_understood(sheet.dump()) == "it says what no doctor says: \"host\"");
  sheet["host"] = "\x1b[2Jnode";
  CHECK(std::get<doctor_talk::Sheet>(doctor_talk::parse({sheet.dump()}).value()).sheet.host ==
        "\\x1b[2Jnode");
}
