package peer;

import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.SQLIntegrityConstraintViolationException;

/**
 * The lock in tb_distributed_lock as articles show it: a row is inserted to take the lock and deleted by its name to give
 * it back, and one that is older than five minutes is deleted first by whoever comes.
 *
 * <p>Arguments: article; the database's JDBC URL; its user; the table; what stands in dl_device_info.
 */
final class Article implements Peer.Locker {
  private final Connection connection;
  private final String table;
  private final String device;
  private String held;

  Article(String[] args) throws SQLException {
    connection = DriverManager.getConnection(args[1], args[2], "");
    table = args[3];
    device = args[4];
  }

  @Override
  public boolean take(String name) throws SQLException {
    return look(name) ? sweep(name) : insert(name);
  }

  private boolean insert(String name) throws SQLException {
    try {
      change("INSERT INTO " + table + " (dl_method_name, dl_device_info) VALUES (?, ?)", name, device);
    } catch (SQLIntegrityConstraintViolationException e) {
      return false;
    }
    held = name;
    return true;
  }

  /** Whether the row is one that was left behind. */
  private boolean look(String name) throws SQLException {
    try (PreparedStatement s =
        connection.prepareStatement(
            "SELECT 1 FROM " + table + " WHERE dl_method_name = ? AND dl_operate_time < NOW() - INTERVAL 5 MINUTE")) {
      s.setString(1, name);
      try (ResultSet r = s.executeQuery()) {
        return r.next();
      }
    }
  }

  /** Takes the lock away from whoever left it behind, and takes it. */
  private boolean sweep(String name) throws SQLException {
    change("DELETE FROM " + table + " WHERE dl_method_name = ?", name);
    return insert(name);
  }

  @Override
  public void free() throws SQLException {
    change("DELETE FROM " + table + " WHERE dl_method_name = ?", held);
  }

  private void change(String statement, String... args) throws SQLException {
    try (PreparedStatement s = connection.prepareStatement(statement)) {
      for (int i = 0; i < args.length; i++) {
        s.setString(i + 1, args[i]);
      }
      s.executeUpdate();
    }
  }
}
