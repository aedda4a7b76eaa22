package io.harmonics.spark;

import java.io.IOException;
import java.net.InetAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.UUID;
import org.apache.spark.SparkEnv;
import org.apache.spark.TaskContext;
import org.apache.spark.TaskKilledException;

/** One task of a gang: who it is, and how it meets the others. */
final class GangMember {
  /** Differs between Java machines, also when two of them have the same process id. */
  private static final String PROCESS = UUID.randomUUID().toString();

  private static final Duration PATIENCE = Duration.ofMinutes(2);

  private final String job;
  private final int index;
  private final int size;
  private final int attempt;
  private final String stage;
  private int rounds;

  GangMember(String job, int index, int size) {
    this.job = job;
    this.index = index;
    this.size = size;
    this.attempt = TaskContext.get().stageAttemptNumber();
    this.stage = TaskContext.get().stageId() + "." + attempt;
  }

  int index() {
    return index;
  }

  int size() {
    return size;
  }

  int attempt() {
    return attempt;
  }

  /** A name that this attempt of the job shares with no other. */
  String run() {
    return job + "." + stage;
  }

  Address here() {
    try {
      String host = SparkEnv.get().rpcEnv().address() == null
          ? InetAddress.getLocalHost().getHostAddress()
          : SparkEnv.get().rpcEnv().address().host();
      return new Address(host, machine(host), PROCESS, 0);
    } catch (IOException error) {
      throw new IllegalStateException("this host has no address", error);
    }
  }

  /**
   * Tells where this member is and learns where all are. All members call it equally often; a
   * {@link GangFailure} when one of them failed instead.
   */
  Address[] meet(Address own) {
    return Arrays.stream(meet(own.text(), PATIENCE)).map(Address::parse).toArray(Address[]::new);
  }

  /** The same with any text, whose first character is no space. */
  String[] meet(String own, Duration patience) {
    String round = Integer.toString(rounds++);
    long start = System.nanoTime();
    while (true) {
      String[] all = ask("meet", round, Integer.toString(size), Integer.toString(index), own);
      if (all.length == size) {
        return all;
      }
      long waited = System.nanoTime() - start;
      if (waited > patience.toNanos()) {
        throw new IllegalStateException(
            "not all " + size + " tasks of the job came within " + patience.toSeconds() + " s");
      }
      pause(Math.min(2 + waited / 20_000_000, 1000));
    }
  }

  /** Tells how many steps are done; a {@link GangFailure} when another member failed. */
  void tell(long step) {
    ask("step", Long.toString(step));
  }

  /** Tells what went wrong here; answers how the job will put it. */
  String failed(String error) {
    String text = "task " + index + ": " + error;
    ask("failed", text);
    return text;
  }

  /** What another member said went wrong, or "" when nobody did within a few seconds. */
  String whatFailed() {
    for (int i = 0; i < 200; i++) {
      try {
        ask("what");
      } catch (GangFailure failure) {
        return failure.getMessage();
      }
      pause(50);
    }
    return "";
  }

  private String[] ask(String kind, String... details) {
    List<String> question = new ArrayList<>(List.of(kind, job, stage));
    question.addAll(List.of(details));
    String[] answer = HarmonicsPlugin.ask(question.toArray(String[]::new));
    if (answer.length == 2 && answer[0].equals(MeetingBoard.FAILED)) {
      throw new GangFailure(answer[1]);
    }
    return answer;
  }

  /** Boot id and host: shared memory reaches exactly who has both in common. */
  private static String machine(String host) throws IOException {
    Path boot = Path.of("/proc/sys/kernel/random/boot_id");
    return host + "/" + (Files.exists(boot) ? Files.readString(boot).strip() : "");
  }

  /**
   * Also where a task notices that Spark wants it to end, because another one of the gang is gone.
   */
  private static void pause(long milliseconds) {
    TaskContext task = TaskContext.get();
    if (task != null && task.isInterrupted()) {
      throw new TaskKilledException("the gang starts again");
    }
    try {
      Thread.sleep(milliseconds);
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
      throw new TaskKilledException("the task was cancelled");
    }
  }
}
