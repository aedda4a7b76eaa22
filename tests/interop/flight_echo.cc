// The listening end of a Flight boundary, for the test with pyarrow: prints its port, sends every
// message back as a gradient until the other end closes, and says how many there were.
#include <cstdio>

#include <harmonics/base/error.h>
#include <harmonics/transport/transport.h>

int main() {
  using namespace harmonics;
  const auto soon = [] { return deadline_in(std::chrono::seconds(60)); };
  try {
    TransportOptions options;
    options.run = "tuesday";
    options.token = "secret 81b2c4f97d0e";
    const TransportPtr end =
        make_transport(parse_binding("flight://127.0.0.1:0/hidden@1?listen=1"), options);
    std::printf("%d\n", end->binding().port);
    std::fflush(stdout);
    int count = 0;
    for (; std::optional<Message> message = end->receive(soon()); ++count) {
      if (message->kind == MessageKind::kActivation) message->kind = MessageKind::kGradient;
      end->send(*message, soon());
    }
    end->close(soon());
    std::printf("%d messages\n", count);
    return 0;
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
