package peer;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.retry.ExponentialBackoffRetry;

/**
 * A client of Curator's locks that is told on its standard input what to do, one line each: lock NAME, try NAME, unlock,
 * believes (whether this process takes itself for the holder), exit. It answers held, busy, free, or error and a text.
 *
 * <p>Arguments: mutex, write, read or latch; the servers; the session's time-out in milliseconds. A latch is locked while it
 * leads.
 */
public final class Peer {
  private static InterProcessMutex held;
  private static LeaderLatch leading;

  public static void main(String[] args) throws Exception {
    int session = Integer.parseInt(args[2]);
    CuratorFramework client =
        CuratorFrameworkFactory.builder()
            .connectString(args[1])
            .sessionTimeoutMs(session)
            .connectionTimeoutMs(session)
            .retryPolicy(new ExponentialBackoffRetry(50, 10))
            .build();
    client.start();
    client.blockUntilConnected();
    say("ready");
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = in.readLine(); line != null && !line.equals("exit"); line = in.readLine()) {
      try {
        String[] words = line.split(" ");
        say(args[0].equals("latch") ? lead(client, words) : answer(client, args[0], words));
      } catch (Exception e) {
        say("error " + e);
      }
    }
    client.close();
  }

  private static String answer(CuratorFramework client, String kind, String[] words) throws Exception {
    switch (words[0]) {
      case "lock":
      case "try":
        InterProcessMutex lock = lock(client, kind, "/" + words[1]);
        if (words[0].equals("lock")) {
          lock.acquire();
        } else if (!lock.acquire(0, TimeUnit.MILLISECONDS)) {
          return "busy";
        }
        held = lock;
        return "held " + (kind.equals("mutex") ? token(client, lock) : "-");
      case "believes":
        return held != null && held.isAcquiredInThisProcess() ? "held -" : "free";
      case "unlock":
        held.release();
        held = null;
        return "free";
      default:
        return "error unknown request " + words[0];
    }
  }

  private static String lead(CuratorFramework client, String[] words) throws Exception {
    switch (words[0]) {
      case "lock":
      case "try":
        LeaderLatch latch = new LeaderLatch(client, "/" + words[1], "a latch");
        latch.start();
        if (words[0].equals("lock")) {
          latch.await();
        } else if (!latch.await(1, TimeUnit.SECONDS)) {
          latch.close();
          return "busy";
        }
        leading = latch;
        return "held -";
      case "believes":
        return leading != null && leading.hasLeadership() ? "held -" : "free";
      case "unlock":
        leading.close();
        leading = null;
        return "free";
      default:
        return "error unknown request " + words[0];
    }
  }

  private static InterProcessMutex lock(CuratorFramework client, String kind, String path) {
    switch (kind) {
      case "write":
        return new InterProcessReadWriteLock(client, path).writeLock();
      case "read":
        return new InterProcessReadWriteLock(client, path).readLock();
      default:
        return new InterProcessMutex(client, path);
    }
  }

  /** Who holds a mutex is the first of its participants; the transaction that made the node is its token. */
  private static String token(CuratorFramework client, InterProcessMutex lock) throws Exception {
    for (String node : lock.getParticipantNodes()) {
      return Long.toString(client.checkExists().forPath(node).getCzxid());
    }
    return "-";
  }

  private static void say(String line) {
    System.out.println(line);
    System.out.flush();
  }
}
