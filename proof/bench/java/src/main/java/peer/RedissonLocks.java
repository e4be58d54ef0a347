package peer;

import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/** Redisson's lock, whose watchdog renews it. All else is as the library has it. */
final class RedissonLocks implements Locks {
  private final RedissonClient client;

  RedissonLocks(String addr, long lease) {
    Config config = new Config();
    config.setLockWatchdogTimeout(lease);
    config.useSingleServer().setAddress("redis://" + addr);
    client = Redisson.create(config);
  }

  @Override
  public Lock of(String name) {
    RLock lock = client.getLock(name);
    return new Lock() {
      @Override
      public void lock() throws InterruptedException {
        lock.lockInterruptibly();
      }

      @Override
      public void unlock() {
        lock.unlock();
      }
    };
  }

  @Override
  public void close() {
    client.shutdown(0, 1, TimeUnit.SECONDS);
  }
}
