package io.harmonics.spark;

import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * The driver's side of meetings: a board on which the members of a gang write where they are.
 *
 * <p>Questions and answers are arrays of text: Spark's remote calls know the classes of Java, but
 * not always ours. A question begins with its kind, the job and the attempt; attempts never meet
 * each other.
 *
 * <ul>
 *   <li>{@code meet, job, attempt, round, members, member, text}: the texts of all members in this
 *       round, or none while one is missing
 *   <li>{@code step, job, attempt, number}: a member has done that many steps
 *   <li>{@code what, job, attempt}: nothing
 *   <li>{@code failed, job, attempt, text}: what went wrong in a member; from then on the answer to
 *       the questions above is {@link #FAILED} and the text of the first
 * </ul>
 */
final class MeetingBoard {
  /** Jobs that are remembered; the oldest is forgotten. */
  static final int MAX_JOBS = 1000;

  /** The first word of the answer when a member failed: no address begins so. */
  static final String FAILED = " failed";

  private static final String[] NOTHING = {};

  private static final class Job {
    private final Map<String, String> seats = new HashMap<>();
    private final Map<String, String> failures = new HashMap<>();
    /** By attempt, in the order in which they began, the most steps that a member had done. */
    private final Map<String, Long> steps = new LinkedHashMap<>();
    private long received;
  }

  private final Map<String, Job> jobs =
      new LinkedHashMap<>() {
        private static final long serialVersionUID = 1L;

        @Override
        protected boolean removeEldestEntry(Map.Entry<String, Job> eldest) {
          return size() > MAX_JOBS;
        }
      };

  synchronized String[] answer(String... question) {
    Job job = jobs.computeIfAbsent(question[1], name -> new Job());
    String attempt = question[2];
    job.steps.putIfAbsent(attempt, 0L);
    job.received += Arrays.stream(question).mapToLong(String::length).sum();
    if (question[0].equals("failed")) {
      job.failures.putIfAbsent(attempt, question[3]);
      return NOTHING;
    }
    if (question[0].equals("step")) {
      job.steps.merge(attempt, Long.valueOf(question[3]), Math::max);
    }
    String failure = job.failures.get(attempt);
    if (failure != null) {
      return new String[] {FAILED, failure};
    }
    if (!question[0].equals("meet")) {
      return NOTHING;
    }
    job.seats.put(seat(attempt, question[3], question[5]), question[6]);
    return everyone(job, attempt, question[3], Integer.parseInt(question[4]));
  }

  /** The most steps that a member had done in an attempt before the last one. */
  synchronized long stepsBeforeLast(String job) {
    Job found = jobs.get(job);
    List<Long> all = found == null ? List.of() : List.copyOf(found.steps.values());
    return all.stream().limit(Math.max(0, all.size() - 1)).max(Long::compare).orElse(0L);
  }

  /** How many times the gang was started. */
  synchronized int attemptsOf(String job) {
    Job found = jobs.get(job);
    return found == null ? 0 : found.steps.size();
  }

  /** Characters that the members of a job have sent to this board. */
  synchronized long receivedFrom(String job) {
    Job found = jobs.get(job);
    return found == null ? 0 : found.received;
  }

  private static String seat(String attempt, String round, String member) {
    return attempt + "/" + round + "/" + member;
  }

  private static String[] everyone(Job job, String attempt, String round, int members) {
    String[] all = new String[members];
    for (int member = 0; member < members; member++) {
      all[member] = job.seats.get(seat(attempt, round, Integer.toString(member)));
      if (all[member] == null) {
        return NOTHING;
      }
    }
    return all;
  }
}
