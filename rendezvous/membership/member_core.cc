#include "rendezvous/membership/member_core.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace ddprun::membership {

MemberCore::MemberCore(Timing timing, TimePoint now)
    : timing_(timing), lease_until_(now), last_answer_(now), next_heartbeat_(now) {}

MemberActions MemberCore::connected(TimePoint now) {
  MemberActions out;
  status_ = Status{.failure = end_of_job_, .leaving_signal = status_.leaving_signal};
  if (success_) status_.generation = success_->generation, status_.phase = Phase::kSucceeded;
  is_connected_ = true;
  was_killed_ = false;
  cut_off_.reset();
  why_given_up_.reset();
  unanswered_.clear();
  last_answer_ = now;
  send(now, out);
  return out;
}

MemberActions MemberCore::disconnected(const std::string& why, TimePoint now) {
  MemberActions out;
  if (!is_connected_ || is_over_) return out;
  notice_pause(now);
  is_connected_ = false;
  cut_off_ = why_given_up_.value_or(why);
  if (!why_given_up_) status_.cut_off = "it " + why;
  if (has_workers()) {
    stop_round(*cut_off_, out);
  } else {
    come_back(*cut_off_, out);
  }
  return out;
}

MemberActions MemberCore::given_up(const std::string& why, TimePoint now) {
  MemberActions out;
  if (!is_connected_ || is_over_) return out;
  notice_pause(now);
  is_connected_ = false;
  if (!why_given_up_) why_given_up_ = why;
  cut_off_ = why_given_up_;
  if (has_workers()) {
    kill(*cut_off_, out);
  } else {
    come_back(*cut_off_, out);
  }
  return out;
}

MemberActions MemberCore::order(const Order& order, TimePoint now) {
  MemberActions out;
  if (!is_connected_ || is_over_) return out;
  notice_pause(now);
  seen_generation_ = std::max(seen_generation_, order.generation);
  // An answer that was read too late comes to nothing: the guards have ended the workers.
  const bool can_renew = !has_workers() || now < lease_until_;
  while (!unanswered_.empty() && unanswered_.front().first <= order.acknowledged) {
    if (can_renew && unanswered_.front().first == order.acknowledged) {
      lease_until_ = std::max(lease_until_, unanswered_.front().second + timing_.lease());
      last_answer_ = now;
    }
    unanswered_.pop_front();
  }
  if (order.restart && shown_restart_ && order.restart->restart_count > *shown_restart_ && !has_workers()) {
    shown_restart_ = order.restart->restart_count;
    out.push_back(RestartGranted{*order.restart});
  }
  switch (order.kind) {
    case OrderKind::kWait:
      if (!order.text.empty() && order.text != waiting_text_) out.push_back(Waiting{order.text});
      waiting_text_ = order.text;
      break;
    case OrderKind::kRun:
      obey_run(order, now, out);
      break;
    case OrderKind::kStop:
      obey_stop(order, now, out);
      break;
    case OrderKind::kEnd:
      obey_end(order, now, out);
      break;
  }
  return out;
}

void MemberCore::obey_run(const Order& order, TimePoint now, MemberActions& out) {
  if (!order.seat || order.generation <= status_.generation || has_workers()) return;
  // Stale: our lease has expired since it was sent, and the others may have gone on without us.
  if (now >= lease_until_ || cut_off_) return;
  enter(order.generation);
  seat_ = *order.seat;
  waiting_text_.clear();
  was_killed_ = false;
  if (status_.leaving_signal != 0 || end_of_job_) return send(now, out);
  status_.phase = Phase::kRunning;
  Round round{.seat = seat_, .valid_until = lease_until_};
  const int count = restart_count(seat_.generation);
  if (shown_restart_ == count && order.restart) round.restart_cause = order.restart->why;
  shown_restart_ = count;
  out.push_back(RoundBegins{std::move(round)});
  send(now, out);
}

void MemberCore::obey_stop(const Order& order, TimePoint now, MemberActions& out) {
  if (order.generation < status_.generation) return;
  if (status_.phase == Phase::kRunning) {
    stop_round(order.text, out);
    // Who answers now was not lost before, and is not what all are stopped for. Not at once: a thousand answers
    // would reach the coordinator while it still tells the others.
    next_heartbeat_ = std::min(next_heartbeat_, now + timing_.heartbeat / 10);
  } else if (!has_workers() && order.generation > status_.generation) {
    enter(order.generation);
    send(now, out);
  }
}

// What there was of the one before counts no more.
void MemberCore::enter(Generation generation) {
  status_.generation = generation;
  status_.phase = Phase::kIdle;
  status_.failure = end_of_job_;
  success_.reset();
}

void MemberCore::obey_end(const Order& order, TimePoint now, MemberActions& out) {
  if (!order.end) return;
  if (!has_workers()) return leave_job(*order.end, now, out);
  end_ = order.end;
  stop_round(order.end->why, out);
}

MemberActions MemberCore::tick(TimePoint now) {
  MemberActions out;
  if (is_over_) return out;
  notice_pause(now);
  if (has_workers() && now >= lease_until_) {
    const std::string unanswered = not_answered(now);
    cut_off_ = why_given_up_.value_or(unanswered);
    // It takes a moment to see whether they had ended before, well; a word until then would stop the others.
    if (!was_killed_) next_heartbeat_ = now + timing_.heartbeat;
    kill(*cut_off_ + "; the others may go on without this node", out);
  } else if (is_connected_ && !has_workers() && now - last_answer_ >= timing_.liveness()) {
    come_back(not_answered(now), out);
  }
  if (is_connected_ && now >= next_heartbeat_) send(now, out);
  return out;
}

MemberActions MemberCore::workers_failed(const NodeFailure& failure, TimePoint now) {
  MemberActions out;
  // While it is stopped, what explains more may come to light, or a cause that is older.
  const bool is_better =
      status_.phase == Phase::kStopping && (!status_.failure || failure.weight >= status_.failure->weight);
  const bool is_by_worker = failure.worker.has_value();
  if (!is_by_worker) end_of_job_ = failure;
  if (status_.phase != Phase::kRunning && !is_better && is_by_worker) return out;
  if (status_.phase == Phase::kRunning) status_.phase = Phase::kStopping;
  status_.failure = failure;
  send(now, out);
  return out;
}

MemberActions MemberCore::workers_succeeded(TimePoint now) {
  MemberActions out;
  if (!has_workers()) return out;
  status_.phase = Phase::kSucceeded;
  success_ = Success{status_.generation, seat_.node_rank, seat_.nodes, seat_.coordinator, seat_.base_rank};
  if (is_connected_) {  // then it was the lease that was lost, at most
    cut_off_.reset();
    why_given_up_.reset();
    status_.cut_off.clear();
  }
  workers_ended(now, out);
  return out;
}

MemberActions MemberCore::workers_stopped(TimePoint now) {
  MemberActions out;
  if (!has_workers()) return out;
  notice_pause(now);
  if (cut_off_) send(now, out);  // why; ready for the next round it is under another name
  status_.phase = Phase::kIdle;
  workers_ended(now, out);
  return out;
}

void MemberCore::workers_ended(TimePoint now, MemberActions& out) {
  if (end_) return leave_job(*end_, now, out);
  if (cut_off_) return come_back(*cut_off_, out);
  send(now, out);
}

void MemberCore::leave_job(const JobEnd& end, TimePoint now, MemberActions& out) {
  status_.has_heard_end = true;
  send(now, out);
  is_over_ = true;
  out.push_back(JobEnded{end});
}

MemberActions MemberCore::leave(int signal, TimePoint now) {
  MemberActions out;
  if (is_over_) return out;
  status_.leaving_signal = signal;
  if (status_.phase == Phase::kRunning) status_.phase = Phase::kStopping;
  send(now, out);
  return out;
}

TimePoint MemberCore::next_wake() const {
  TimePoint wake = TimePoint::max();
  if (is_over_) return wake;
  if (is_connected_) wake = next_heartbeat_;
  if (is_connected_ && !has_workers()) wake = std::min(wake, last_answer_ + timing_.liveness());
  if (has_workers() && !was_killed_) wake = std::min(wake, lease_until_);
  return wake;
}

// Whoever is called much later than it asked to be cannot blame the coordinator that its lease ran out.
void MemberCore::notice_pause(TimePoint now) {
  const Duration late = now - next_wake();
  if (late < timing_.heartbeat) return;
  last_answer_ = std::min(now, last_answer_ + late);
  if (!has_workers() || was_killed_ || now < lease_until_) return;
  const std::string how =
      fmt::format("stood still and had no answer for {:.2f} s, longer than its lease of {:.2f} s",
                  to_seconds(now - lease_until_ + timing_.lease()), to_seconds(timing_.lease()));
  why_given_up_ = "this node " + how;
  status_.cut_off = "it " + how;
}

std::string MemberCore::not_answered(TimePoint now) {
  const std::string time = fmt::format("for {:.2f} s", to_seconds(now - last_answer_));
  if (!why_given_up_) status_.cut_off = "it was not answered " + time;
  return "the coordinator has not answered " + time;
}

void MemberCore::send(TimePoint now, MemberActions& out) {
  if (!is_connected_) return;
  ++status_.sequence;
  unanswered_.emplace_back(status_.sequence, now);
  next_heartbeat_ = now + timing_.heartbeat;
  out.push_back(SendStatus{status_});
}

void MemberCore::stop_round(const std::string& why, MemberActions& out) {
  if (status_.phase != Phase::kRunning) return;
  status_.phase = Phase::kStopping;
  out.push_back(RoundStopped{why});
}

void MemberCore::kill(const std::string& why, MemberActions& out) {
  if (was_killed_) return;
  was_killed_ = true;
  status_.phase = Phase::kStopping;
  out.push_back(LeaseLost{why});
}

void MemberCore::come_back(std::string why, MemberActions& out) {
  is_connected_ = false;
  cut_off_.reset();
  out.push_back(ComeBack{std::move(why)});
}

}  // namespace ddprun::membership
