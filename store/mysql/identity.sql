
-- The store's id, by which locks are ordered that are joined over several stores. No claim is in this table, so programs that
-- do not know it work beside those that do. Whoever comes first draws the id, and it stays.
CREATE TABLE IF NOT EXISTS `{prefix}id` (
    `one` TINYINT        NOT NULL,
    `id`  VARBINARY(255) NOT NULL,
    PRIMARY KEY (`one`)
) ENGINE = InnoDB;

INSERT IGNORE INTO `{prefix}id` (`one`, `id`) VALUES (1, LEFT(SHA2(CONCAT(UUID(), ' ', RAND(), ' ', RAND()), 256), 32));
