#include <harmonics/transport/transport.h>

namespace harmonics::inline in_transport {

TransportStats& TransportStats::operator+=(const TransportStats& other) {
  messages_sent += other.messages_sent;
  messages_received += other.messages_received;
  bytes_sent += other.bytes_sent;
  bytes_received += other.bytes_received;
  socket_payload_sent += other.socket_payload_sent;
  socket_payload_received += other.socket_payload_received;
  reconnects += other.reconnects;
  repeats_dropped += other.repeats_dropped;
  peak_retained_bytes += other.peak_retained_bytes;
  peak_retained_messages += other.peak_retained_messages;
  return *this;
}

}  // namespace harmonics::inline in_transport
