package peer;

import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.ExponentialBackoffRetry;

/** Curator's mutex. All but the length of the session is as the library has it. */
final class CuratorLocks implements Locks {
  private final CuratorFramework client;

  CuratorLocks(String addr, int lease) throws InterruptedException {
    client =
        CuratorFrameworkFactory.builder()
            .connectString(addr)
            .sessionTimeoutMs(lease)
            .retryPolicy(new ExponentialBackoffRetry(1000, 3))
            .build();
    client.start();
    client.blockUntilConnected();
  }

  @Override
  public Lock of(String name) {
    InterProcessMutex mutex = new InterProcessMutex(client, "/" + name);
    return new Lock() {
      @Override
      public void lock() throws Exception {
        mutex.acquire();
      }

      @Override
      public void unlock() throws Exception {
        mutex.release();
      }
    };
  }

  @Override
  public void close() {
    client.close();
  }
}
