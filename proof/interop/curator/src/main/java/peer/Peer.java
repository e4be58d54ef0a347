package peer;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Collection;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreMutex;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.framework.recipes.locks.Revoker;
import org.apache.curator.retry.ExponentialBackoffRetry;

/**
 * A client of Curator's locks that is told on its standard input what to do, one line each: lock NAME, try NAME, unlock,
 * ask NAME (revoke what the first of its participants has), asks (how often this process was asked), downgrade (take the
 * read lock, and then give up the write lock), exit. It answers held, busy, free, asked, asks and a number, or error and a
 * text.
 *
 * <p>Arguments: mutex, write, read, downgraded, latch, single, permit or pair; the servers; the session's time-out in
 * milliseconds. What is downgraded was taken to write and is held to read. A latch is locked while it leads. A single is a
 * semaphore's mutex; a permit is one, and a pair both, of a semaphore that has two. A revocable mutex, write or read has a
 * listener that counts how often somebody asks for it.
 */
public final class Peer {
  private static boolean revocable;
  private static InterProcessReadWriteLock both;
  private static InterProcessMutex held;
  private static final AtomicInteger asks = new AtomicInteger();
  private static LeaderLatch leading;
  private static InterProcessSemaphoreMutex single;
  private static InterProcessSemaphoreV2 semaphore;
  private static Collection<Lease> permits;

  public static void main(String[] args) throws Exception {
    int session = Integer.parseInt(args[2]);
    revocable = args[0].startsWith("revocable ");
    String kind = args[0].replace("revocable ", "");
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
        say(answer(client, kind, words));
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
        both = new InterProcessReadWriteLock(client, "/" + words[1]);
        InterProcessMutex lock = lock(client, kind, both, "/" + words[1]);
        if (revocable) {
          lock.makeRevocable(forLock -> asks.incrementAndGet());
        }
        if (words[0].equals("lock")) {
          lock.acquire();
        } else if (!lock.acquire(0, TimeUnit.MILLISECONDS)) {
          return "busy";
        }
        held = lock;
        if (kind.equals("downgraded")) {
          downgrade();
        }
        return "held " + (kind.equals("mutex") ? token(client, lock) : "-");
      case "unlock":
        held.release();
        held = null;
        return "free";
      case "ask":
        InterProcessReadWriteLock others = new InterProcessReadWriteLock(client, "/" + words[1]);
        for (String node : lock(client, kind, others, "/" + words[1]).getParticipantNodes()) {
          Revoker.attemptRevoke(client, node);
          return "asked";
        }
        return "error nobody to ask";
      case "asks":
        return "asks " + asks.get();
      case "downgrade":
        downgrade();
        return "held -";
      default:
        return "error unknown request " + words[0];
    }
  }

  /** What is held to write is held to read, and all the while one of both. */
  private static void downgrade() throws Exception {
    InterProcessMutex write = held;
    held = both.readLock();
    held.acquire();
    write.release();
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
