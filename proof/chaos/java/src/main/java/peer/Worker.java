package peer;

import java.io.IOException;
import java.io.PrintStream;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;

/**
 * A worker of the runner that drives a library for Java. It takes the place of the runner's own worker process, is told the same
 * by its environment, and says the same on its standard output; see peerwork.go. It ends when its input does.
 */
public final class Worker {
  private static final PrintStream out = System.out;
  private static volatile boolean opened;

  public static void main(String[] args) throws Exception {
    Brief brief = new Brief(System.getenv());
    Register register = new Register(brief.register);
    CountDownLatch ended = ending();
    Locks locks = open(brief);
    opened = true;
    List<Waiter> waiters = new ArrayList<>();
    for (int i = 0; i < brief.waiters; i++) {
      Waiter waiter = new Waiter(brief, i, locks, register);
      waiter.start();
      waiters.add(waiter);
    }
    ended.await();
    for (Waiter waiter : waiters) {
      waiter.end();
    }
    for (Waiter waiter : waiters) {
      waiter.join();
    }
    locks.close();
    System.exit(0); // libraries leave threads behind
  }

  /** Waits for the end of the input, beside all else. A worker that has no client by then has nothing to give back, and ends. */
  private static CountDownLatch ending() {
    CountDownLatch ended = new CountDownLatch(1);
    Thread reader =
        new Thread(
            () -> {
              try {
                while (System.in.read() >= 0) {}
              } catch (IOException e) {
                // It cannot be read any more.
              }
              ended.countDown();
              if (!opened) {
                Runtime.getRuntime().halt(0);
              }
            });
    reader.setDaemon(true);
    reader.start();
    return ended;
  }

  /** Opens a client, for as long as it takes. */
  private static Locks open(Brief brief) throws InterruptedException {
    while (true) {
      try {
        switch (brief.peer) {
          case "redisson":
            return new RedissonLocks(brief.addrs, brief.lease, false);
          case "redisson-fenced":
            return new RedissonLocks(brief.addrs, brief.lease, true);
          case "curator":
            return new CuratorLocks(brief.addrs, brief.lease);
          default:
            throw new IllegalArgumentException("no peer " + brief.peer);
        }
      } catch (RuntimeException e) {
        if (e instanceof IllegalArgumentException) {
          throw e;
        }
        Thread.sleep(100);
      }
    }
  }

  /** Says a line, whole and at once. */
  static synchronized void say(String format, Object... args) throws IOException {
    out.write((String.format(format, args) + "\n").getBytes("UTF-8"));
    out.flush();
  }
}
