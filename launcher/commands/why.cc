#include "launcher/commands/why.h"

#include "launcher/cli/reply.h"
#include "launcher/report/running_jobs.h"
#include "launcher/why/desk/other_nodes.h"
#include "launcher/why/look/look.h"
#include "launcher/why/look/proc_look.h"
#include "launcher/why/look/settle.h"
#include "launcher/why/look/thread_state.h"
#include "launcher/why/verdict/page.h"
#include "launcher/why/verdict/verdict.h"

#include <chrono>

namespace ddprun::launcher {
namespace {

Result<why::JobPicture> take_picture(const std::string& wanted) {
  const std::vector<JobFacts> jobs = find_jobs(read_own_processes());
  if (jobs.empty())
    return Error(ErrorCode::kUnavailable,
                 "no job of yours runs on this host; ask on one where its ranks are");
  const Result<JobFacts> job = the_job(jobs, wanted);
  if (!job) return job.error();
  const PublishedJob& state = job->state;
  why::JobPicture picture = why::picture_of(state, job->launcher, job->command_line);
  const auto began = std::chrono::steady_clock::now();
  std::optional<why::Question> question;
  const bool has_others = state.world_size > state.local_world_size;
  const bool is_in_container = state.launcher != job->launcher;
  if (has_others && !is_in_container) question.emplace(job->launcher, LookKind::kWhy);
  picture.is_launcher_stopped = why::is_stopped(why::look_at_process(job->launcher));
  picture.ranks = why::look_at_ranks(why::targets_of(state), {});
  picture.taken_ns = std::chrono::nanoseconds(std::chrono::system_clock::now().time_since_epoch()).count();
  why::settle(picture);
  // What the launcher is about to start is not there yet.
  if (picture.phase == "running" && job->workers.empty()) picture.phase = "starting";
  if (question) why::hear_others(*question, began + why::kWhyAnswerTime, picture);
  if (has_others && is_in_container) {
    picture.asks_others = true;
    picture.unseen.emplace_back(why::kLauncherInContainer);
  }
  return picture;
}

}  // namespace

int run_why(const std::string& wanted, bool as_json) {
  const Result<why::JobPicture> picture = take_picture(wanted);
  if (!picture) return refuse_in_lines("ddprun why", picture.error());
  const why::Verdict verdict = why::judge(*picture);
  const std::string text = as_json ? why::render_json(*picture, verdict) : why::render(*picture, verdict);
  return answer(text);
}

}  // namespace ddprun::launcher
