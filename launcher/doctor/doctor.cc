#include "launcher/doctor/doctor.h"

#include "launcher/cli/reply.h"
#include "launcher/doctor/hosts_meeting.h"
#include "launcher/doctor/machine.h"
#include "launcher/doctor/visit.h"
#include "launcher/plan/meeting.h"
#include "launcher/process/own_descriptors.h"
#include "launcher/text/text.h"
#include "rendezvous/base/env_contract.h"
#include "rendezvous/base/exit_codes.h"
#include "rendezvous/base/host_name.h"
#include "rendezvous/base/log.h"
#include "rendezvous/base/print.h"
#include "rendezvous/base/signal_name.h"
#include "rendezvous/base/signals.h"
#include "rendezvous/membership/auth.h"
#include "rendezvous/membership/own_addresses.h"
#include "rendezvous/membership/scheduler_env.h"

#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <memory>
#include <optional>
#include <utility>

namespace ddprun::launcher {
namespace {

int print_page(const std::string& page, bool is_wrong) {
  if (const int code = answer(page); code != exit_code::kOk) return code;
  return is_wrong ? exit_code::kConfig : exit_code::kOk;
}

int print_own_page(const MachineFacts& machine, std::vector<Finding> before) {
  std::vector<Finding> findings = std::move(before);
  for (Finding& finding : examine(machine)) findings.push_back(std::move(finding));
  return print_page(render_doctor(machine, findings), is_any_wrong(findings));
}

/// The flags as a job's: the hosts meet where its nodes would.
Result<Options> as_job(const DoctorCommand& asked) {
  Options job;
  job.min_nodes = job.max_nodes = asked.hosts;
  job.node_rank = asked.node_rank;
  job.rdzv_endpoint = asked.endpoint;
  if (asked.endpoint) return job;
  const auto world = membership::recognise_scheduler(process_env);
  if (!world) return world.error();
  if (!*world || (*world)->first_host.empty())
    return usage_error("doctor: where do the hosts meet? give all of them one --rdzv-endpoint HOST:PORT");
  job.rdzv_endpoint = Endpoint{(*world)->first_host, (*world)->port};
  if (!job.node_rank && (*world)->nodes == asked.hosts) job.node_rank = (*world)->node_rank;
  return job;
}

/// Where the hosts meet, as this one knows it.
struct Place {
  std::string endpoint;  ///< for people
  MeetingPlace meeting;
  bool may_be_here = false;
};

Result<Place> place_of(const DoctorCommand& asked) {
  const Result<Options> job = as_job(asked);
  if (!job) return job.error();
  Result<MeetingPlace> meeting = meeting_of(*job);
  if (!meeting) return meeting.error().with("doctor");
  if (meeting->port.value() == 0)
    return usage_error("doctor: --rdzv-endpoint: the others cannot know which port 0 becomes; name one");
  Result<HostAddresses> addresses = look_up_meeting(*meeting, false);
  if (!addresses) return addresses.error().with("doctor");
  Place place{to_string(Endpoint{meeting->host, meeting->port}), std::move(*meeting)};
  const std::string& host = place.meeting.host;
  place.meeting.addresses = std::move(*addresses);
  place.may_be_here = place.meeting.coordinator == membership::CoordinatorPlace::kHere ||
                      (place.meeting.coordinator == membership::CoordinatorPlace::kIfOurs &&
                       (membership::is_loopback(host) || host == host_name() ||
                        membership::is_this_machine(place.meeting.addresses)));
  return place;
}

/// "0.1.0 (torchrun 2.15 flags)"
std::string own_version() {
  const std::string text = version_text();
  return std::string(trim_blanks(std::string_view(text).substr(text.find(' '))));
}

/// The address by which the others come here, as far as this host knows.
std::string own_address(const Place& place) {
  HostAddresses addresses = place.meeting.addresses;
  if (addresses.empty()) {
    if (const Result<HostAddresses> found = look_up(place.meeting.host)) addresses = *found;
  }
  return addresses.empty() ? place.meeting.host : addresses.front();
}

int examine_together(const DoctorCommand& asked) {
  constexpr std::size_t kNeeded = 64;  // two listeners, a visit, and connections of some hosts
  if (const auto raised = raise_open_files("ddprun doctor", kNeeded); !raised) return refuse(raised.error());
  Result<std::string> secret = membership::load_secret(asked.secret);
  if (!secret) return refuse(secret.error());
  const Result<Place> place = place_of(asked);
  if (!place) return refuse(place.error());
  const MeetingPlace& where = place->meeting;
  const MachineFacts machine = read_machine();
  const auto logger = make_stderr_logger("ddprun", spdlog::level::warn);
  const auto listen_at = [&](Port port) {
    return ListenAt{.addresses = membership::is_loopback(where.host) ? where.addresses : HostAddresses(),
                    .port = port};
  };
  boost::asio::io_context io(1);

  std::unique_ptr<HostsMeeting> here;
  std::string why_not_here;
  if (place->may_be_here) {
    auto opened = HostsMeeting::open(io,
                                     {.at = listen_at(where.port),
                                      .endpoint = place->endpoint,
                                      .own_address = own_address(*place),
                                      .hosts = asked.hosts,
                                      .timeout = asked.timeout,
                                      .secret = *secret},
                                     *logger);
    if (opened) {
      here = std::move(*opened);
    } else if (where.coordinator == membership::CoordinatorPlace::kHere) {
      return print_own_page(machine,
                            {all_wrong("meeting", opened.error().message(),
                                       "does a job, or another doctor, run here? take another port")});
    } else {
      why_not_here = opened.error().message();  // another doctor of this machine may be there
    }
  }
  const auto target = ProbeTarget::open(io, listen_at(Port(0)), *logger);
  if (!target) return refuse(target.error());
  Visit visit(io,
              {.host = where.host,
               .port = where.port,
               .endpoint = place->endpoint,
               .is_here = here != nullptr,
               .hosts = asked.hosts,
               .node_rank = where.node_rank ? std::optional<int>(where.node_rank->value()) : std::nullopt,
               .timeout = asked.timeout,
               .secret = std::move(*secret),
               .sheet = sheet_of(machine, own_version())},
              **target);
  // From here on, and not by default: nothing of that reaches the first process of a container.
  const auto signals = SignalSource::open(io, {SIGINT, SIGTERM, SIGHUP, SIGQUIT});
  if (!signals) return refuse(signals.error());
  int ended_by = 0;
  (*signals)->start([&](const ReceivedSignal& signal) {
    ended_by = signal.number;
    io.stop();
  });
  VisitEnd end;
  bool has_page = false;
  bool is_over = here == nullptr;
  const auto close_when_over = [&] {
    if (has_page && is_over) (*signals)->close();
  };
  if (here) {
    here->set_on_over([&] {
      is_over = true;
      close_when_over();
    });
  }
  visit.start([&](VisitEnd how) {
    end = std::move(how);
    (*target)->close();
    has_page = true;
    close_when_over();
  });
  io.run();
  if (ended_by != 0) {
    print_all(STDERR_FILENO, fmt::format("ddprun doctor: ended by {}\n", signal_name(ended_by)));
    return exit_code::kSignalBase + ended_by;
  }
  if (!end.page.empty()) return print_page(end.page, end.is_wrong);
  if (!why_not_here.empty()) end.why += fmt::format("; and here: {}", why_not_here);
  return print_own_page(machine, {all_wrong("meeting", end.why, end.mend)});
}

}  // namespace

int run_doctor(const DoctorCommand& options) {
  if (options.hosts > 1) return examine_together(options);
  if (!options.as_json) return print_own_page(read_machine(), {});
  const MachineFacts machine = read_machine();
  const std::vector<Finding> findings = examine(machine);
  return print_page(doctor_json(machine, findings), is_any_wrong(findings));
}

}  // namespace ddprun::launcher
