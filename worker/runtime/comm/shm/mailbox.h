#pragma once

#include "rendezvous/base/clock.h"
#include "worker/runtime/comm/shm/channel.h"
#include "worker/runtime/comm/shm/peer_watch.h"

#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace ddprun::runtime::shm {

/// Messages from rank to rank, with tags.
///
/// A message fits a receive that was posted for its tag and its sender, or for any sender; between the same
/// two ranks and with the same tag they keep their order. A send has ended when the message is in the
/// channel, of which the reader may not have taken anything yet; a message longer than the channel flows as
/// it is taken. What cannot be done at once is done by a background thread, so that neither side ever blocks
/// the caller.
///
/// Errors   of a send or receive do not touch others: kPeerLost when the other rank has ended (of a receive from any
///          rank: the one whose message has begun to come in, else all others), kTimeout,
///          kConfig when a message is not of the length and dtype that the receive expects (the message is
///          then lost).
/// Threads  any.
class Mailbox {
 public:
  /// Gets the outcome and, for receives, who sent. Called once, on the caller's or the background thread.
  using Done = std::function<void(const Result<void>&, int source)>;

  struct Letter {
    int peer = -1;  ///< to whom, or from whom; -1: from anybody
    std::uint32_t tag = 0;
    DType dtype = DType::kOther;
    std::byte* data = nullptr;  ///< valid until done; not written by sends
    std::size_t bytes = 0;
    Duration timeout{};
  };

  Mailbox(std::shared_ptr<Segment> segment, int rank);
  /// Ends what is pending with an error.
  ~Mailbox();

  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

  void send(const Letter& letter, Done done);
  void receive(const Letter& letter, Done done);

  /// Ends what is pending, and what comes, with an error.
  void abort();

 private:
  /// What precedes a message in the channel.
  struct Envelope {
    std::uint64_t bytes;
    std::uint32_t tag;
    std::uint32_t dtype;
  };

  struct Pending {
    Letter letter;
    Done done;
    TimePoint deadline;
    std::size_t moved = 0;      ///< of the message's bytes
    bool has_envelope = false;  ///< sends: the envelope is in the channel
  };

  /// A message on its way in. Until its end it goes to `target`, or to `stash` when nobody waits for it.
  struct Incoming {
    std::optional<Envelope> envelope;
    std::size_t moved = 0;
    std::optional<Pending> target;
    std::vector<std::byte> stash;
  };

  struct Stored {
    Envelope envelope;
    std::vector<std::byte> data;
  };

  /// A call of done() that is due, made when no lock is held.
  struct Finished {
    Done done;
    Result<void> result;
    int source;
  };

  bool progress();
  bool push(int to);
  bool pull(int from);
  bool read_envelope(int from);
  void end_message(int from);
  std::optional<Pending> pop_receive_for(int from, std::uint32_t tag);
  bool serve_from_stored(Pending& receive);
  static Result<void> check_fits(const Letter& letter, const Envelope& envelope, int from);
  [[nodiscard]] bool is_wanted(int from) const;
  [[nodiscard]] bool has_pending() const;
  void expire(TimePoint now);
  void expire_sends(int to, const std::vector<bool>& is_gone, TimePoint now);
  [[nodiscard]] std::optional<Error> error_of(const Letter& letter, const std::string& name,
                                              const std::vector<bool>& is_gone, TimePoint deadline,
                                              TimePoint now) const;
  [[nodiscard]] bool is_gone(int peer);
  void fail_all(const Error& error);
  void finish(Pending&& pending, Result<void> result, int source);
  void submit(std::list<Pending>& queue, Pending pending);
  void notify(int peer) const;
  void run();
  void flush(std::unique_lock<std::mutex>& lock);

  std::shared_ptr<Segment> segment_;
  int rank_;
  int size_;
  std::mutex mutex_;                       ///< guards everything below
  std::vector<std::list<Pending>> sends_;  ///< per receiver
  std::list<Pending> receives_;
  std::vector<Incoming> incoming_;          ///< per sender
  std::vector<std::deque<Stored>> stored_;  ///< per sender: arrived before anyone asked
  std::vector<bool> has_ring_;              ///< per receiver: the ring has memory
  std::vector<bool> is_cut_off_;            ///< per receiver: a message ended in its middle
  std::vector<Finished> finished_;
  PeerWatch watch_;
  bool is_stopping_ = false;
  std::thread thread_;
};

}  // namespace ddprun::runtime::shm
