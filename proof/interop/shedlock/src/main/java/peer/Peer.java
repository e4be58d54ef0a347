package peer;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;

/**
 * A client that is told on its standard input what to do, one line each, and answers in lines: held, busy, free, or error
 * and a text.
 *
 * <ul>
 *   <li>lock NAME: tries again and again until it holds, since none of these clients waits
 *   <li>try NAME
 *   <li>least MS: the shortest time that the locks taken from now on stay taken
 *   <li>extend MS: whether the lock is still held, and then for so long from now
 *   <li>unlock, exit
 * </ul>
 *
 * <p>Arguments: shedlock and those of {@link ShedLock}, or article and those of {@link Article}.
 */
public final class Peer {
  private static final long PAUSE = 50;
  private static final PrintStream OUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);

  /** What a client can do; a lock that it has taken is the one that it speaks of. */
  interface Locker {
    boolean take(String name) throws Exception;

    void free() throws Exception;

    default void least(long millis) {
      throw new UnsupportedOperationException("least");
    }

    default boolean extend(long millis) {
      throw new UnsupportedOperationException("extend");
    }
  }

  public static void main(String[] args) throws Exception {
    Locker locker = args[0].equals("article") ? new Article(args) : new ShedLock(args);
    OUT.println("ready");
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = in.readLine(); line != null && !line.equals("exit"); line = in.readLine()) {
      String[] words = line.split(" ", 2);
      try {
        OUT.println(answer(locker, words[0], words.length > 1 ? words[1] : ""));
      } catch (Exception e) {
        OUT.println("error " + e.toString().replaceAll("\\s+", " "));
      }
    }
  }

  private static String answer(Locker locker, String verb, String rest) throws Exception {
    switch (verb) {
      case "lock":
        while (!locker.take(rest)) {
          Thread.sleep(PAUSE);
        }
        return "held -";
      case "try":
        return locker.take(rest) ? "held -" : "busy";
      case "least":
        locker.least(Long.parseLong(rest));
        return "free";
      case "extend":
        return locker.extend(Long.parseLong(rest)) ? "held -" : "free";
      case "unlock":
        locker.free();
        return "free";
      default:
        return "error unknown request " + verb;
    }
  }
}
