-- The tables in which package mysql of stile keeps locks.
--
-- Times are microseconds of the server's clock in UTC. A name is found by the SHA-256 of its bytes and then compared byte
-- by byte; all text is kept as bytes, so that no collation, padding or character set makes one out of two.

-- One row for each name in use. Whoever changes the queue of a name locks its row first, so changes come one by one and
-- tickets are in the order of commits. A row whose name is idle is deleted when floor has its last ticket.
--
-- A claim that enters an empty queue is kept in the row of its name, with the last ticket, for as long as no other
-- enters. One statement puts it there and one takes it out.
CREATE TABLE IF NOT EXISTS `{prefix}name` (
    `hash`     BINARY(32)      NOT NULL,
    `name`     VARBINARY(255)  NOT NULL,
    `last`     BIGINT          NOT NULL, -- highest ticket given
    `head`     BIGINT          NOT NULL, -- no claim has a lower ticket; keeps searches off the rows of claims that have left
    `queued`   TINYINT         NOT NULL DEFAULT 1, -- 0: the table of claims has none of this name
    `ends`     BIGINT          NOT NULL DEFAULT 0, -- when the lease of the lone claim ends; 0: there is none
    `id`       VARBINARY(255)  NOT NULL DEFAULT '',
    `client`   VARBINARY(255)  NOT NULL DEFAULT '',
    `owner`    VARBINARY(1024) NOT NULL DEFAULT '',
    `record`   VARBINARY(4096) NOT NULL DEFAULT '',
    `weight`   BIGINT          NOT NULL DEFAULT 0,
    `capacity` BIGINT          NOT NULL DEFAULT 0,
    `since`    BIGINT          NOT NULL DEFAULT 0,
    `delay`    BIGINT          NOT NULL DEFAULT 0,
    PRIMARY KEY (`hash`)
) ENGINE = InnoDB;

CREATE TABLE IF NOT EXISTS `{prefix}claim` (
    `hash`     BINARY(32)      NOT NULL,
    `ticket`   BIGINT          NOT NULL,
    `id`       VARBINARY(255)  NOT NULL,
    `client`   VARBINARY(255)  NOT NULL,
    `owner`    VARBINARY(1024) NOT NULL,
    `record`   VARBINARY(4096) NOT NULL,
    `weight`   BIGINT          NOT NULL,
    `capacity` BIGINT          NOT NULL,
    `since`    BIGINT          NOT NULL,
    `ends`     BIGINT          NOT NULL,
    `delay`    BIGINT          NOT NULL,
    `told`     TINYINT         NOT NULL,
    `departed` TINYINT         NOT NULL,
    PRIMARY KEY (`hash`, `ticket`)
) ENGINE = InnoDB;

-- One row for each name that is locked in transactions; see LockTx. A row whose key is all zeros is no name's: its turn is
-- when idle rows were last looked for.
CREATE TABLE IF NOT EXISTS `{prefix}tx` (
    `hash` BINARY(32)     NOT NULL,
    `name` VARBINARY(255) NOT NULL,
    `turn` BIGINT         NOT NULL, -- differs after each transaction that had the lock; below 0: nobody locked it since
    PRIMARY KEY (`hash`)
) ENGINE = InnoDB;

CREATE TABLE IF NOT EXISTS `{prefix}meta` (
    `one`     TINYINT NOT NULL,
    `version` INT     NOT NULL, -- of this schema
    `floor`   BIGINT  NOT NULL, -- no name that was cleaned away had a higher ticket
    PRIMARY KEY (`one`)
) ENGINE = InnoDB;

INSERT IGNORE INTO `{prefix}meta` (`one`, `version`, `floor`) VALUES (1, {version}, 0);
