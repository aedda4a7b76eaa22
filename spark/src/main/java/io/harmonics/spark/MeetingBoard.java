package io.harmonics.spark;

import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * The driver's side of meetings: a board on which the members of a gang write where they are.
 *
 * <p>Questions and answers are arrays of text: Spark's remote calls know the classes of Java, but not
 * always ours. A question begins with its kind, the job and the attempt; attempts never meet each
 * other.
 *
 * <ul>
 *   <li>{@code arrived, job, attempt, round, member, address}
 *   <li>{@code look, job, attempt, round, members}: all addresses, or none while one is missing
 *   <li>{@code failed, job, attempt, text}: what went wrong in a member
 *   <li>{@code what, job, attempt}: the first of these, if any
 *   <li>{@code step, job, attempt, member, number}: the member has done that many steps
 * </ul>
 */
final class MeetingBoard {
  /** Jobs that are remembered; the oldest is forgotten. */
  static final int MAX_JOBS = 1000;

  private static final String[] NOTHING = {};

  private static final class Job {
    private final Map<String, String> seats = new HashMap<>();
    private final Map<String, String> failures = new HashMap<>();
    private final Map<Integer, Long> steps = new HashMap<>();
    private int attempts;
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
    job.attempts = Math.max(job.attempts, Integer.parseInt(attempt) + 1);
    switch (question[0]) {
      case "arrived":
        job.seats.put(seat(attempt, question[3], question[4]), question[5]);
        return NOTHING;
      case "look":
        return everyone(job, attempt, question[3], Integer.parseInt(question[4]));
      case "failed":
        job.failures.putIfAbsent(attempt, question[3]);
        return NOTHING;
      case "what":
        String failure = job.failures.get(attempt);
        return failure == null ? NOTHING : new String[] {failure};
      case "step":
        job.steps.merge(Integer.valueOf(question[3]), Long.valueOf(question[4]), Math::max);
        return NOTHING;
      default:
        throw new IllegalArgumentException("unknown question '" + question[0] + "'");
    }
  }

  /** Steps that a member has told of so far. */
  synchronized long stepOf(String job, int member) {
    Job found = jobs.get(job);
    return found == null ? 0 : found.steps.getOrDefault(member, 0L);
  }

  /** How many times the gang was started. */
  synchronized int attemptsOf(String job) {
    Job found = jobs.get(job);
    return found == null ? 0 : found.attempts;
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
