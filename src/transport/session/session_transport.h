// The transport of every kind that connects two processes: a session over connections that come and
// go.
//
// Whoever waits does the work: a thread that waits for a message or for room reads from the
// connection himself and writes what is unfinished, so that a quick exchange wakes no other thread.
// While no program thread waits, the I/O thread of the end does the same, so that bytes move while
// the program computes. It also keeps time (signs of life, silence) and, at the connecting end,
// makes connections anew. All state is behind one mutex, which nobody holds while bytes move.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <harmonics/base/random.h>

#include "greet.h"
#include "listener.h"
#include "session.h"

namespace harmonics::inline in_transport {

/// How one kind of transport finds its other end.
struct Route {
  /// Where this end listens; null at the connecting end.
  ListenerPtr listener;
  /// The listener at an address of this machine; null when another process has the address.
  std::function<ListenerPtr(const SocketAddress&, const TransportOptions&)> open_listener;
  /// The connecting end: a fresh connection to the other one, or an Error.
  std::function<StreamPtr(Deadline, const WakeEvent& cancel)> connect;
  ConnectionMaker make_connection;
  /// Whether a connection can break while both ends live. If not, a broken one is a dead peer.
  bool may_reconnect = true;
  /// A connection that is silent this long counts as cut; zero: never.
  Nanoseconds silence_limit{0};
};

class SessionTransport final : public Transport, private Greeter {
 public:
  /// Does nothing until `start`.
  SessionTransport(RemoteBinding binding, TransportOptions options, Route route);
  ~SessionTransport() override;

  void send(const Message& message, Deadline deadline) override;
  std::optional<Message> receive(Deadline deadline) override;
  void close(Deadline deadline) override;
  TransportStats stats() const override;
  const RemoteBinding& binding() const override { return binding_; }

  /// Registers at the listener, if this end has one, and starts the I/O thread. False when the name
  /// is taken there; then this object is of no use.
  [[nodiscard]] bool start();

 private:
  using Lock = std::unique_lock<std::mutex>;

  // Greeter: on the listener's threads, or on the I/O thread at the connecting end.
  Greeting greeting() override;
  const std::string& token() const override { return options_.token; }
  void judge(const Greeting& theirs) override;
  ConnectionPtr make_connection(StreamPtr stream, const Agreement& agreement,
                                Deadline deadline) override;
  void adopt(const GreetedConnection& greeted) override;
  void note_refusal(const std::string& reason) override;

  // The I/O thread.
  void run();
  ConnectionPtr next_connection();
  void try_to_connect(Lock& lock);
  void take_over(Lock& lock);
  void serve(const ConnectionPtr& connection);
  void say_last_words(Lock& lock);
  void stop();

  // Under the mutex, which those with a lock let go in between.
  /// One wait of the program: until its deadline, or until it is asked to stop.
  struct Wait {
    Deadline deadline;
    std::optional<Deadline> stop_from = {};  // since when it knows that it is asked to
  };
  bool wait_for_change(Lock& lock, std::condition_variable& change, Wait& wait);
  [[nodiscard]] Deadline end_of(Wait& wait) const;
  void work(Lock& lock, Deadline until);
  void turn(Lock& lock, const ConnectionPtr& connection, const std::optional<Error>& broken,
            bool has_read);
  void take_frame(ReceivedFrame& frame);
  void keep_time(const ConnectionPtr& connection, bool has_read);
  void look_for_missing(Deadline now);
  void connection_broke(const Error& error);
  void finish_writing(Lock& lock);
  void flush(Lock& lock);
  [[nodiscard]] std::optional<OutgoingFrame> next_frame();
  void lose_connection(const std::string& reason);
  [[nodiscard]] bool peer_is_gone() const;
  void give_up(ErrorCode code, const std::string& what);
  void forget_delivered();
  [[nodiscard]] std::optional<InstanceId> known_peer() const;
  [[nodiscard]] Codec await_peer(Lock& lock, const Message& message, Wait& wait);
  void await_credit(Lock& lock, std::uint64_t cost, Wait& wait);
  void check_usable() const;
  [[noreturn]] void fail_wait(const Wait& wait, const std::string& what) const;
  [[nodiscard]] std::string where() const;

  const RemoteBinding binding_;
  const TransportOptions options_;
  const Route route_;
  const InstanceId instance_ = random_instance();
  const std::uint32_t boundary_id_;

  mutable std::mutex mutex_;
  std::condition_variable arrived_;  // for receivers
  std::condition_variable room_;     // for senders and close
  std::condition_variable io_;       // for the I/O thread without a connection

  Session session_;
  std::deque<std::shared_ptr<const OutgoingMessage>> outbox_;  // null: the end
  std::uint64_t outbox_bytes_ = 0;
  std::deque<Message> inbox_;

  ConnectionPtr connection_;
  bool residue_ = false;               // the connection has an unfinished write
  bool writing_ = false;               // some thread is writing to the connection
  bool working_ = false;               // some thread waits at the connection and reads from it
  bool io_works_ = false;              // it is the I/O thread
  std::uint64_t works_ = 0;            // by program threads, so far
  int waiting_ = 0;                    // program threads that wait for another one's work
  bool deep_sleep_ = false;            // the I/O thread relies on a program thread's work
  std::vector<ReceivedFrame> frames_;  // of the thread that works
  bool beat_due_ = false;
  bool wrote_since_beat_ = false;
  Deadline next_beat_{};
  Deadline next_look_{};  // when it is time to see what is due; at the latest the next beat
  /// An acknowledgement that stays out.
  struct Missing {
    Sequence delivered = 0;  // as far as it goes
    Deadline since{};        // that long, or since it was last asked for
    int asked = 0;
  };
  std::optional<Missing> missing_;
  Nanoseconds answer_time_{0};  // of the last one that was asked for
  int probes_due_ = 0;
  std::optional<GreetedConnection> offer_;  // that the I/O thread has not taken over yet

  std::optional<Agreement> agreement_;  // of the last connection
  std::uint64_t greetings_ = 0;         // of ours so far
  std::uint64_t newest_attempt_ = 0;    // of the peer's, among the connections adopted
  std::optional<Error> failure_;
  std::string trouble_ = "no connection yet";  // why there is no connection
  bool ask_due_ = false;
  bool closed_ = false;
  bool stopping_ = false;
  Deadline
      linger_until_{};  // without a connection after the peer's end: when the peer counts as gone
  Deadline last_words_until_{};
  int not_found_ = 0;  // attempts that met a process without this boundary
  int failed_attempts_ = 0;
  Random jitter_;
  TransportStats stats_;
  ConnectionCounts past_counts_;  // of connections that are gone

  WakeEvent cancel_;
  std::thread thread_;
  std::optional<StopRequest::Alarm> alarm_;  // last, so that it is gone before what it touches
};

}  // namespace harmonics::inline in_transport
