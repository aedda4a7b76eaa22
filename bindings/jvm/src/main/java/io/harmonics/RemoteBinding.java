package io.harmonics;

import java.io.Serializable;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;

/**
 * One end of a boundary: both ends carry the same name, host and port.
 *
 * @param listen true: this end listens; false: it connects; null: the host decides
 */
public record RemoteBinding(
    String name,
    String host,
    int port,
    RemoteTransport transport,
    boolean compress,
    int maxMessageSize,
    Boolean listen)
    implements Serializable {
  public RemoteBinding(String name, String host, int port) {
    this(name, host, port, RemoteTransport.TCP, false, 0, null);
  }

  public RemoteBinding(String name, String host, int port, RemoteTransport transport) {
    this(name, host, port, transport, false, 0, null);
  }

  /** The URL that the native library reads. */
  public String url() {
    String path = URLEncoder.encode(name, StandardCharsets.UTF_8).replace("+", "%20");
    StringBuilder settings = new StringBuilder();
    if (compress) {
      settings.append("&compress=1");
    }
    if (maxMessageSize != 0) {
      settings.append("&max_message_size=").append(maxMessageSize);
    }
    if (listen != null) {
      settings.append("&listen=").append(listen ? 1 : 0);
    }
    String query = settings.isEmpty() ? "" : "?" + settings.substring(1);
    String place = host.contains(":") ? "[" + host + "]" : host;
    return transport.scheme() + "://" + place + ":" + port + "/" + path + query;
  }
}
