package peer;

import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.ExponentialBackoffRetry;

/**
 * Curator's mutex. Its documentation says to listen to the state of the connection: a holder is not certain to hold while the
 * connection is suspended, and holds no more once it was lost.
 */
final class CuratorLocks implements Locks {
  private final CuratorFramework client;
  private final AtomicLong losses = new AtomicLong();
  private volatile boolean connected;

  CuratorLocks(String addrs, int lease) throws InterruptedException {
    client =
        CuratorFrameworkFactory.builder()
            .connectString(addrs)
            .sessionTimeoutMs(lease)
            .connectionTimeoutMs(lease)
            .retryPolicy(new ExponentialBackoffRetry(1000, 3))
            .build();
    client.getConnectionStateListenable().addListener((c, state) -> heard(state));
    client.start();
    client.blockUntilConnected();
    connected = true;
  }

  private void heard(ConnectionState state) {
    connected = state.isConnected();
    if (state == ConnectionState.LOST) {
      losses.incrementAndGet();
    }
  }

  @Override
  public Holding lock(String name, long millis) throws Exception {
    InterProcessMutex mutex = new InterProcessMutex(client, "/" + name);
    return mutex.acquire(millis, TimeUnit.MILLISECONDS) ? new Held(mutex, losses.get()) : null;
  }

  @Override
  public void close() {
    client.close();
  }

  private final class Held implements Holding {
    private final InterProcessMutex mutex;
    private final long before;

    Held(InterProcessMutex mutex, long before) {
      this.mutex = mutex;
      this.before = before;
    }

    @Override
    public boolean trusted() {
      return connected && losses.get() == before;
    }

    @Override
    public long token() {
      return 0;
    }

    @Override
    public void unlock() throws Exception {
      mutex.release();
    }
  }
}
