package io.harmonics.spark;

import io.harmonics.HarmonicsException;
import io.harmonics.MessageBus;
import io.harmonics.RemoteBinding;
import io.harmonics.RemoteTransport;
import io.harmonics.Transport;
import java.util.Map;

/**
 * How one member reaches the others: a bus inside a Java machine, shared memory on a machine, a
 * socket otherwise, unless the job says so. The taking end of a boundary listens.
 */
final class Endpoints {
  private final TrainingJob job;
  private final GangMember member;
  private final Address own;
  private final Address[] all;
  private int port;

  /** {@code all} are the addresses of the first meeting: ports are not known yet. */
  Endpoints(TrainingJob job, GangMember member, Address own, Address[] all) {
    this.job = job;
    this.member = member;
    this.own = own;
    this.all = all;
  }

  /** The port that this member listens at; 0 while it does not. */
  int port() {
    return port;
  }

  /** This member's end of a boundary that {@code sender} sends. */
  Transport taking(String name, int sender) {
    RemoteTransport kind = kind(all[sender]);
    if (kind == null) {
      return MessageBus.open(ofThisRun(name));
    }
    if (kind == RemoteTransport.SHARED_MEMORY) {
      return open(name, "127.0.0.1", 1, kind, null);
    }
    Transport end;
    if (port != 0) {
      return open(name, own.host(), port, kind, true);
    }
    try {
      // Past the last port there is none to prefer: any free one.
      int wanted = job.basePort + member.index();
      end = open(name, own.host(), wanted > 65535 ? 0 : wanted, kind, true);
    } catch (HarmonicsException taken) {
      end = open(name, own.host(), 0, kind, true);
    }
    port = end.port();
    return end;
  }

  /** This member's end of a boundary that {@code taker} takes, whose port is known by now. */
  Transport sending(String name, Address taker) {
    RemoteTransport kind = kind(taker);
    if (kind == null) {
      return MessageBus.open(ofThisRun(name));
    }
    if (kind == RemoteTransport.SHARED_MEMORY) {
      return open(name, "127.0.0.1", 1, kind, null);
    }
    return open(name, taker.host(), taker.port(), kind, false);
  }

  /** Null: a bus. */
  private RemoteTransport kind(Address other) {
    return switch (job.carrier) {
      case TCP -> RemoteTransport.TCP;
      case GRPC -> RemoteTransport.GRPC;
      case SHARED_MEMORY -> RemoteTransport.SHARED_MEMORY;
      case AUTO ->
          own.sharesProcessWith(other)
              ? null
              : own.sharesMachineWith(other) ? RemoteTransport.SHARED_MEMORY : RemoteTransport.TCP;
    };
  }

  private Transport open(String name, String host, int at, RemoteTransport kind, Boolean listen) {
    return Transport.open(
        new RemoteBinding(ofThisRun(name), host, at, kind, job.compress, 0, listen),
        Map.of("run", member.run()));
  }

  /** Jobs at the same time have boundaries of the same names: they must not meet each other. */
  private String ofThisRun(String name) {
    return member.run() + "/" + name;
  }
}
