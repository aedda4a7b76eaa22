#include <harmonics/transport/binding.h>

#include <algorithm>
#include <limits>
#include <utility>

#include <harmonics/base/error.h>
#include <harmonics/base/listed.h>
#include <harmonics/base/number_text.h>
#include <harmonics/transport/packing.h>

namespace harmonics::inline in_transport {
namespace {

constexpr std::size_t kMaxHostBytes = 1024;

[[noreturn]] void bad_url(std::string_view url, std::string_view what) {
  fail(ErrorCode::kInvalidArgument,
       "endpoint '{}': {}; write it as "
       "tcp://host:port/name?compress=1&listen=0&bits=8&max_message_size=N",
       url, what);
}

template <typename T>
T number(std::string_view url, std::string_view text, std::string_view what) {
  if (const auto value = number_from<T>(text)) return *value;
  bad_url(url, format("'{}' is no {}", text, what));
}

int bits_value(std::string_view url, std::string_view text, std::string_view key) {
  const auto value = number_from<int>(text);
  if (value && std::ranges::find(kBoundaryBits, *value) != kBoundaryBits.end()) return *value;
  bad_url(url, format("{} is 32, 16, 8 or 4, not '{}'", key, text));
}

bool flag(std::string_view url, std::string_view text, std::string_view key) {
  if (text == "1") return true;
  if (text != "0") bad_url(url, format("{} is 0 or 1, not '{}'", key, text));
  return false;
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::string unescaped(std::string_view url, std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    const int high = i + 2 < text.size() ? hex_digit(text[i + 1]) : -1;
    const int low = i + 2 < text.size() ? hex_digit(text[i + 2]) : -1;
    if (high < 0 || low < 0) bad_url(url, "'%' must be followed by two hexadecimal digits");
    out += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return out;
}

std::string escaped(std::string_view text) {
  constexpr std::string_view kPlain = "-._~@:,+()";
  std::string out;
  for (const char c : text) {
    const bool alphanumeric =
        (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (alphanumeric || kPlain.find(c) != std::string_view::npos) {
      out += c;
    } else {
      out += format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return out;
}

// "host:port" or "[v6]:port" into the binding.
void read_authority(std::string_view url, std::string_view text, RemoteBinding& out) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) bad_url(url, "the port is missing");
  std::string_view host = text.substr(0, colon);
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    bad_url(url, "an IPv6 address stands in brackets");
  }
  out.host = host;
  out.port = number<std::uint16_t>(url, text.substr(colon + 1), "port (0 to 65535)");
}

void read_setting(std::string_view url, std::string_view text, RemoteBinding& out) {
  const std::size_t equals = text.find('=');
  const std::string_view key = text.substr(0, equals);
  const std::string_view value =
      equals == std::string_view::npos ? std::string_view() : text.substr(equals + 1);
  if (key == "compress") {
    out.compress = flag(url, value, key);
  } else if (key == "listen") {
    out.listen = flag(url, value, key);
  } else if (key == "bits") {
    out.bits = bits_value(url, value, key);
  } else if (key == "gradient_bits") {
    out.gradient_bits = bits_value(url, value, key);
  } else if (key == "max_message_size") {
    out.max_message_size = number<int>(url, value, "size in bytes");
  } else {
    bad_url(url, format("unknown setting '{}' (there are bits, compress, gradient_bits, listen, "
                        "max_message_size)",
                        key));
  }
}

}  // namespace

std::string_view transport_name(RemoteTransport transport) {
  for (const auto& [value, name] : kRemoteTransports) {
    if (value == transport) return name;
  }
  return "unknown";
}

RemoteTransport transport_from_name(std::string_view name) {
  for (const auto& [value, known] : kRemoteTransports) {
    if (known == name) return value;
  }
  fail(ErrorCode::kInvalidArgument, "there is no transport '{}': choose one of {}", name,
       listed(kRemoteTransports, &NamedTransport::name));
}

RemoteBinding parse_binding(std::string_view url) {
  RemoteBinding out;
  const std::size_t scheme_end = url.find("://");
  if (scheme_end == std::string_view::npos) bad_url(url, "the scheme is missing");
  out.transport = transport_from_name(url.substr(0, scheme_end));
  std::string_view rest = url.substr(scheme_end + 3);

  std::string_view settings;
  if (const std::size_t question = rest.find('?'); question != std::string_view::npos) {
    settings = rest.substr(question + 1);
    rest = rest.substr(0, question);
  }
  const std::size_t slash = rest.find('/');
  if (slash == std::string_view::npos) bad_url(url, "the name of the boundary is missing");
  read_authority(url, rest.substr(0, slash), out);
  out.name = unescaped(url, rest.substr(slash + 1));
  while (!settings.empty()) {
    const std::size_t end = settings.find('&');
    read_setting(url, settings.substr(0, end), out);
    settings = end == std::string_view::npos ? std::string_view() : settings.substr(end + 1);
  }
  check_binding(out);
  return out;
}

std::string binding_url(const RemoteBinding& binding) {
  const bool bare_v6 = binding.host.find(':') != std::string::npos;
  std::string out =
      format("{}://{}{}{}:{}/{}", transport_name(binding.transport), bare_v6 ? "[" : "",
             binding.host, bare_v6 ? "]" : "", binding.port, escaped(binding.name));
  char separator = '?';
  const auto setting = [&](std::string_view key, int value) {
    out += format("{}{}={}", std::exchange(separator, '&'), key, value);
  };
  if (binding.compress) setting("compress", 1);
  if (binding.listen) setting("listen", *binding.listen ? 1 : 0);
  if (binding.bits != 0) setting("bits", binding.bits);
  if (binding.gradient_bits != 0) setting("gradient_bits", binding.gradient_bits);
  if (binding.max_message_size != 0) setting("max_message_size", binding.max_message_size);
  return out;
}

void check_binding(const RemoteBinding& binding) {
  const auto wrong = [&](std::string_view what) {
    fail(ErrorCode::kInvalidArgument, "binding '{}' at {}:{}: {}", binding.name, binding.host,
         binding.port, what);
  };
  if (binding.name.empty()) wrong("the name of the boundary is missing");
  if (binding.name.size() > kMaxBoundaryName) {
    wrong(format("the name has {} bytes, at most {}", binding.name.size(), kMaxBoundaryName));
  }
  if (binding.host.empty()) wrong("the host is missing");
  if (binding.host.size() > kMaxHostBytes ||
      binding.host.find_first_of(std::string_view("/?[]%& \0", 8)) != std::string::npos) {
    wrong("the host is no name and no address");
  }
  for (const int bits : {binding.bits, binding.gradient_bits}) {
    if (bits != 0) check_bits(bits, format("binding '{}'", binding.name));
  }
  if (binding.max_message_size < 0) wrong("max_message_size must not be negative");
}

}  // namespace harmonics::inline in_transport
