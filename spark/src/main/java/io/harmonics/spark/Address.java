package io.harmonics.spark;

/**
 * Where a member of a gang can be reached.
 *
 * @param machine the same text exactly for members on one machine
 * @param process the same text exactly for members in one Java machine
 * @param port where the member listens; 0 when it does not
 */
record Address(String host, String machine, String process, int port) {
  boolean sharesProcessWith(Address other) {
    return process.equals(other.process);
  }

  boolean sharesMachineWith(Address other) {
    return machine.equals(other.machine);
  }

  Address listeningAt(int boundPort) {
    return new Address(host, machine, process, boundPort);
  }

  /** As one text, which {@link #parse} reads. */
  String text() {
    return host + " " + machine + " " + process + " " + port;
  }

  static Address parse(String text) {
    String[] words = text.split(" ");
    return new Address(words[0], words[1], words[2], Integer.parseInt(words[3]));
  }
}
