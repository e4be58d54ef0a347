package peer;

import java.time.Clock;
import java.time.Duration;
import java.util.Optional;
import net.javacrumbs.shedlock.core.ClockProvider;
import net.javacrumbs.shedlock.core.LockConfiguration;
import net.javacrumbs.shedlock.core.LockProvider;
import net.javacrumbs.shedlock.core.SimpleLock;
import net.javacrumbs.shedlock.provider.jdbctemplate.JdbcTemplateLockProvider;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.jdbc.datasource.SingleConnectionDataSource;

/**
 * ShedLock with the provider that Spring programs use.
 *
 * <p>Arguments: shedlock; the database's JDBC URL; its user; the table; whose clock: database (usingDbTime) or utc
 * (forceUtcTimeZone); by how many milliseconds the program's clock is ahead; lockAtMostFor in milliseconds.
 */
final class ShedLock implements Peer.Locker {
  private final LockProvider provider;
  private final Duration most;
  private Duration least = Duration.ZERO;
  private SimpleLock held;

  ShedLock(String[] args) {
    ClockProvider.setClock(Clock.offset(Clock.systemUTC(), Duration.ofMillis(Long.parseLong(args[5]))));
    most = Duration.ofMillis(Long.parseLong(args[6]));
    JdbcTemplateLockProvider.Configuration.Builder builder =
        JdbcTemplateLockProvider.Configuration.builder()
            .withJdbcTemplate(new JdbcTemplate(new SingleConnectionDataSource(args[1], args[2], "", true)))
            .withTableName(args[3]);
    builder = args[4].equals("database") ? builder.usingDbTime() : builder.forceUtcTimeZone();
    provider = new JdbcTemplateLockProvider(builder.build());
    provider.lock(configuration("first"));
  }

  private LockConfiguration configuration(String name) {
    return new LockConfiguration(ClockProvider.now(), name, most, least);
  }

  @Override
  public boolean take(String name) {
    Optional<SimpleLock> lock = provider.lock(configuration(name));
    lock.ifPresent(l -> held = l);
    return lock.isPresent();
  }

  @Override
  public void least(long millis) {
    least = Duration.ofMillis(millis);
  }

  @Override
  public boolean extend(long millis) {
    Optional<SimpleLock> longer = held.extend(Duration.ofMillis(millis), least);
    longer.ifPresent(l -> held = l);
    return longer.isPresent();
  }

  @Override
  public void free() {
    held.unlock();
  }
}
