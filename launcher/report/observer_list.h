#pragma once

#include "launcher/report/observer.h"

#include <string>
#include <utility>
#include <vector>

namespace ddprun::launcher {

/// Passes every call on to several observers, in order; they outlive it.
class ObserverList final : public Observer {
 public:
  explicit ObserverList(std::vector<Observer*> observers) : observers_(std::move(observers)) {}

  void waiting(const std::string& text) override {
    for (Observer* observer : observers_) observer->waiting(text);
  }
  void round_begins(const membership::Round& round) override {
    for (Observer* observer : observers_) observer->round_begins(round);
  }
  void worker_spawned(const membership::Round& round, const WorkerOutcome& worker) override {
    for (Observer* observer : observers_) observer->worker_spawned(round, worker);
  }
  void worker_exited(const membership::Round& round, const WorkerOutcome& worker) override {
    for (Observer* observer : observers_) observer->worker_exited(round, worker);
  }
  void stopping(const membership::Round& round, StopReason reason, const std::string& why) override {
    for (Observer* observer : observers_) observer->stopping(round, reason, why);
  }
  void generation_ended(const GenerationOutcome& outcome) override {
    for (Observer* observer : observers_) observer->generation_ended(outcome);
  }
  void restarting(const membership::Restart& restart) override {
    for (Observer* observer : observers_) observer->restarting(restart);
  }

 private:
  std::vector<Observer*> observers_;
};

}  // namespace ddprun::launcher
