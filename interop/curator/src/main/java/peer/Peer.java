package peer;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.retry.ExponentialBackoffRetry;

/**
 * A client of Curator's locks that is told on its standard input what to do, one line each: lock NAME, try NAME, unlock,
 * believes (whether this process takes itself for the holder), exit. It answers held, busy, free, or error and a text.
 *
 * <p>Arguments: mutex, write or read; the servers; the session's time-out in milliseconds.
 */
public final class Peer {
  private static InterProcessMutex held;

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
        say(answer(client, args[0], line.split(" ")));
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
