// When an end looks at what is due on its connection: signs of life, and acknowledgements that stay
// out. Time is an argument. Not thread safe.
#pragma once

#include <optional>

#include "session.h"

namespace harmonics::inline in_transport {

class Pulse {
 public:
  /// A beat every `heartbeat`; acknowledgements may stay out for `ask_again` (zero: they are not
  /// looked for).
  Pulse(Nanoseconds heartbeat, Nanoseconds ask_again)
      : heartbeat_(heartbeat), ask_again_(ask_again) {}

  /// A connection is up.
  void start(Deadline now);
  /// It is gone.
  void cut() { missing_.reset(); }

  /// When it is time to see what is due; at the latest the next beat.
  [[nodiscard]] Deadline next_look() const { return next_look_; }

  struct Due {
    bool beat = false;
    /// So many frames ask for the acknowledgement that stays out.
    int probes = 0;
  };
  /// What is due at `now`. `unfinished`: the connection has not taken all that was written, so
  /// nothing is missing yet.
  [[nodiscard]] Due look(Deadline now, const Session& session, bool unfinished);

 private:
  /// An acknowledgement that stays out.
  struct Missing {
    Sequence delivered = 0;  // as far as it goes
    Deadline since{};        // that long, or since it was last asked for
    int asked = 0;
  };

  [[nodiscard]] int probes_at(Deadline now, const Session& session, bool unfinished);

  const Nanoseconds heartbeat_;
  const Nanoseconds ask_again_;
  Deadline next_beat_{};
  Deadline next_look_{};
  std::optional<Missing> missing_;
  Nanoseconds answer_time_{0};  // of the last one that was asked for
};

}  // namespace harmonics::inline in_transport
