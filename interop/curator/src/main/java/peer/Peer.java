package peer;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Collection;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreMutex;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.retry.ExponentialBackoffRetry;

/**
 * A client of Curator's locks that is told on its standard input what to do, one line each: lock NAME, try NAME, unlock,
 * believes (whether this process takes itself for the holder), exit. It answers held, busy, free, or error and a text.
 *
 * <p>Arguments: mutex, write, read, downgraded, latch, single, permit or pair; the servers; the session's time-out in
 * milliseconds. What is downgraded was taken to write and is held to read. A latch is locked while it leads. A single is a
 * semaphore's mutex; a permit is one, and a pair both, of a semaphore that has two.
 */
public final class Peer {
  private static InterProcessMutex held;
  private static LeaderLatch leading;
  private static InterProcessSemaphoreMutex single;
  private static InterProcessSemaphoreV2 semaphore;
  private static Collection<Lease> permits;

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
        say(answer(client, args[0], words));
      } catch (Exception e) {
        say("error " + e);
      }
    }
    client.close();
  }

  private static String answer(CuratorFramework client, String kind, String[] words) throws Exception {
    switch (kind) {
      case "latch":
        return lead(client, words);
      case "single":
        return exclude(client, words);
      case "permit":
        return permit(client, 1, words);
      case "pair":
        return permit(client, 2, words);
      default:
        return hold(client, kind, words);
    }
  }

  private static String hold(CuratorFramework client, String kind, String[] words) throws Exception {
    switch (words[0]) {
      case "lock":
      case "try":
        InterProcessReadWriteLock both = new InterProcessReadWriteLock(client, "/" + words[1]);
        InterProcessMutex lock = lock(client, kind, both, "/" + words[1]);
        if (words[0].equals("lock")) {
          lock.acquire();
        } else if (!lock.acquire(0, TimeUnit.MILLISECONDS)) {
          return "busy";
        }
        held = lock;
        if (kind.equals("downgraded")) {
          held = both.readLock();
          held.acquire();
          lock.release();
        }
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

  private static String exclude(CuratorFramework client, String[] words) throws Exception {
    switch (words[0]) {
      case "lock":
      case "try":
        single = new InterProcessSemaphoreMutex(client, "/" + words[1]);
        if (words[0].equals("lock")) {
          single.acquire();
        } else if (!single.acquire(1, TimeUnit.SECONDS)) {
          return "busy";
        }
        return "held -";
      case "unlock":
        single.release();
        return "free";
      default:
        return "error unknown request " + words[0];
    }
  }

  private static String permit(CuratorFramework client, int n, String[] words) throws Exception {
    switch (words[0]) {
      case "lock":
      case "try":
        semaphore = new InterProcessSemaphoreV2(client, "/" + words[1], 2);
        permits = words[0].equals("lock") ? semaphore.acquire(n) : semaphore.acquire(n, 1, TimeUnit.SECONDS);
        return permits == null ? "busy" : "held -";
      case "unlock":
        semaphore.returnAll(permits);
        return "free";
      default:
        return "error unknown request " + words[0];
    }
  }

  private static InterProcessMutex lock(CuratorFramework client, String kind, InterProcessReadWriteLock both, String path) {
    switch (kind) {
      case "write":
      case "downgraded":
        return both.writeLock();
      case "read":
        return both.readLock();
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
