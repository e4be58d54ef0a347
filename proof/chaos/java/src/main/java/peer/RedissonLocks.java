package peer;

import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.api.RFencedLock;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/** Redisson's lock, or its fenced lock, whose watchdog renews it. All else is as the library has it. */
final class RedissonLocks implements Locks {
  private final RedissonClient client;
  private final boolean fenced;

  RedissonLocks(String addr, long lease, boolean fenced) {
    Config config = new Config();
    config.setLockWatchdogTimeout(lease);
    config.useSingleServer().setAddress("redis://" + addr);
    this.client = Redisson.create(config);
    this.fenced = fenced;
  }

  @Override
  public Holding lock(String name, long millis) throws InterruptedException {
    if (!fenced) {
      RLock lock = client.getLock(name);
      return lock.tryLock(millis, TimeUnit.MILLISECONDS) ? new Held(lock, 0) : null;
    }
    RFencedLock lock = client.getFencedLock(name);
    Long token = lock.tryLockAndGetToken(millis, TimeUnit.MILLISECONDS);
    return token == null ? null : new Held(lock, token);
  }

  @Override
  public void close() {
    client.shutdown();
  }

  private static final class Held implements Holding {
    private final RLock lock;
    private final long token;

    Held(RLock lock, long token) {
      this.lock = lock;
      this.token = token;
    }

    @Override
    public boolean trusted() {
      try {
        return lock.isHeldByCurrentThread();
      } catch (RuntimeException e) {
        return false;
      }
    }

    @Override
    public long token() {
      return token;
    }

    @Override
    public void unlock() {
      lock.unlock();
    }
  }
}
